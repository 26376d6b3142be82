//! The work of each state: expand, estimate, provision, download, process, record, notify, report.
//!
//! Nothing is in here yet. What will be: one file a state, each a function of a job, its services and
//! its progress to an outcome, and the services behind traits with an embedded and a real
//! implementation. This crate may not know of actors.
