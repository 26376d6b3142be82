//! The supervision tree: who starts whom, what happens when one dies, and what is written about it.
//!
//! Nothing is in here yet. What will be: one file an actor, on `ractor`, with the restart policy and
//! the restart log. This crate may not know of HTTP or the command line.
