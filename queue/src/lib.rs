//! The model: batches, jobs and access items as nodes of the tree, and every change of them as one
//! atomic plan.
//!
//! A pure core decides ([`states`], [`plan`]); a thin layer reads what the core needs and commits what it
//! says ([`queue`] and the files of its nouns). This crate knows nothing of actors, HTTP or work on
//! disk.
//!
//! | to find | look in |
//! |---|---|
//! | which moves there are, and who makes them | [`states`] |
//! | where something lies in the tree, what is written there | [`map`], [`nodes`], [`ids`], [`date`] |
//! | the two ways to write the same tree | [`dialect`] |
//! | priorities that have a name | [`classes`] |
//! | a change as a list of operations | [`plan`] |
//! | taking part: one queue per session | [`queue`] |
//! | jobs: acquire, move on, hand over, write, what admins do | [`jobs`] |
//! | batches: make, expand, end, report, delete | [`batches`] |
//! | process dates, expirations, keys | [`journal`] |
//! | the access queue | [`access`] |
//! | what administrators are to be told | [`alerts`] |
//! | feeds, who consumes them, how they are divided | [`feeds`] |
//! | holds on queues and collections | [`holds`] |
//! | locks on objects, reservations of local ids | [`names`] |
//! | limits over all nodes | [`limits`] |
//! | finding the next job | [`index`] |
//! | committing many plans together, lost answers | [`committer`] |
//! | listing and counting for people | [`list`] |
//! | one action on many jobs | [`bulk`] |
//! | which failures are of one kind | [`reasons`] |
//! | profiles and settings of the whole cluster | [`shared`] |
//! | what is asked of the nodes without HTTP | [`requests`] |
//! | the invariants, and repair | [`fsck`] |
//! | what goes wrong, sorted by what to do next | [`error`] |

pub mod access;
pub mod alerts;
pub mod batches;
pub mod bulk;
mod claim;
pub mod classes;
pub mod committer;
pub mod date;
pub mod dialect;
pub mod error;
pub mod feeds;
pub mod fsck;
pub mod holds;
pub mod ids;
pub mod index;
pub mod jobs;
pub mod journal;
pub mod limits;
pub mod list;
pub mod map;
pub mod names;
pub mod nodes;
mod numbers;
pub mod plan;
pub mod queue;
mod reads;
pub mod reasons;
pub mod requests;
pub mod shared;
pub mod states;
