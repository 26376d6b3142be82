//! The model: batches, jobs and access items as nodes of the tree, and every change of them as one
//! atomic plan.
//!
//! Nothing is in here yet. What will be: the map of the nodes, the tables of the states, pure
//! functions from "what is" and "what happened" to a list of operations, and thin calls that commit
//! such a list through [`ingest_store`]. This crate may not know of actors, HTTP or work on disk.
