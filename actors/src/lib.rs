//! The supervision tree: who starts whom, what happens when one dies, and what is written about it.
//!
//! The actors themselves are not in here yet. What is: when one that died is started again ([`restart`]), and the
//! log that operators read about it ([`restart_log`]). This crate may not know of HTTP or the command line.

pub mod restart;
pub mod restart_log;
pub mod settings;
