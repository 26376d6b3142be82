//! The proof of the pure core: the state tables, the nodes, the plans and their committer, without a
//! server and without a disk.
//!
//! | file | what it shows |
//! |---|---|
//! | `tables`, `state_tables` | the tables of the design, written down a second time, and compared |
//! | `nodes`, `any_nodes` | what is read and written, in both dialects, and of any bytes |
//! | `model`, `model_truth` | a znode tree in memory, as an engine; and that it is a true one |
//! | `world`, `event`, `phrases`, `call` | a cluster on that tree, and everything that can happen to it |
//! | `oracle`, `changes`, `view`, `invariants` | what each event may change, and what holds after it |
//! | `histories`, `races`, `pairs` | sequences of events, several at once with lost answers, and every mix of two |
//! | `commits`, `runs` | the committer: applied once or refused, whatever gets lost |
//! | `plans` | what is in a plan, and in which order |
//! | `protocol` | the protocol as a model, every state of it |
//! | `cases`, `cases_of_holds`, on a `stage` | single behaviours that the sequences have taught |
//!
//! `INGESTD_CASES=N` runs N cases of each property, `INGESTD_SEED=S` begins elsewhere.

// In a test, also in its helpers, an unwrap is an assertion.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod any_nodes;
mod call;
mod cases;
mod cases_of_holds;
mod changes;
mod commits;
mod event;
mod histories;
mod invariants;
mod model;
mod model_truth;
mod nodes;
mod oracle;
mod pairs;
mod phrases;
mod plans;
mod protocol;
mod races;
mod runs;
mod stage;
mod state_tables;
mod tables;
mod view;
mod world;
