//! The model: batches, jobs and access items as nodes of the tree, and every change of them as one
//! atomic plan.
pub mod date;
pub mod dialect;
pub mod error;
pub mod ids;
pub mod map;
pub mod nodes;
pub mod states;
