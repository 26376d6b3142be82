//! The two engines behind the interface of [`crate::engine`].

pub mod embedded;
pub mod zookeeper;
