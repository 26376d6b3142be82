//! The model: batches, jobs and access items as nodes of the tree, and every change of them as one
//! atomic plan.
pub mod access;
pub mod batches;
pub mod committer;
pub mod date;
pub mod dialect;
pub mod error;
pub mod holds;
pub mod ids;
pub mod jobs;
pub mod map;
pub mod names;
pub mod nodes;
pub mod plan;
pub mod queue;
pub mod states;
