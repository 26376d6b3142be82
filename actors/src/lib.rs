//! The supervision tree: who starts whom, what happens when one dies, and what is written about it.
//!
//! | to find | look in |
//! |---|---|
//! | starting, watching and ending a node | [`node`] |
//! | the tree, in its order, and who stands on whom | [`root`] |
//! | what its actors share | [`house`] |
//! | the session and what ends with it | `session` |
//! | events that become messages | `watcher` |
//! | batches | `batches`, `batch` |
//! | jobs: pools, workers, handing over | `pools`, `pool`, `worker`, `provisioner`, `bench` |
//! | who works on what | [`desk`] |
//! | access items | `access` |
//! | this node's share of the feeds | [`feeds`] |
//! | stalls and other things that are due | `timekeeper` |
//! | what is tidied up | `janitor` |
//! | what one node does for all | [`elected`] |
//! | what a worker does with a job | [`work`] |
//! | how actors die, and what of that is written down | [`crash`], [`restart`], [`restart_log`] in a [`journal`] |
//! | what is measured | [`meters`], [`stats`] |
//! | what can be done to a node or the cluster, by whomever | [`actions`], [`gate`] |
//! | profiles and settings that all nodes share | [`shared`] |
//! | what can be set | [`settings`] |
//!
//! Every actor has the same order: what it is told, what it knows, its handlers, its parts. This crate may not know of
//! HTTP or the command line.

mod access;
pub mod actions;
mod batch;
mod batches;
mod bench;
mod committer;
pub mod crash;
pub mod desk;
pub mod elected;
pub mod feeds;
pub mod gate;
pub mod house;
mod janitor;
pub mod journal;
pub mod meters;
pub mod node;
mod pool;
mod pools;
mod provisioner;
pub mod registrar;
mod release;
pub mod restart;
pub mod restart_log;
pub mod root;
mod session;
pub mod settings;
pub mod shared;
pub mod stats;
mod timekeeper;
mod watcher;
pub mod work;
mod worker;
