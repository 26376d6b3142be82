//! A znode tree behind one interface.
//!
//! Everything that coordinates ingest nodes lives in a tree of small nodes with versions. Above this
//! crate nobody can tell whether the tree is a ZooKeeper ensemble or a file of this process.
//!
//! | to find | look in |
//! |---|---|
//! | opening a tree | [`config`] |
//! | reading, writing, watching | [`session`] |
//! | nodes, operations, limits | [`node`], [`path`] |
//! | events, the state of a session | [`watch`] |
//! | what failed and what to do about it | [`error`] |
//! | locks, elections, semaphores, large values | [`recipes`] |
//! | breaking calls on purpose, and other engines around engines, in tests | [`faults`], [`manner`] |
//! | the engines, and what one must offer | [`engine`], [`engines`] |
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::Arc;
//! use ingest_store::engines::embedded::{Embedded, EmbeddedConfig};
//! use ingest_store::{Limits, Mode, Op, Store};
//!
//! # let dir = tempfile::tempdir()?;
//! let tree = Embedded::open(&EmbeddedConfig::new(dir.path().join("tree")))?;
//! let session = Store::new(Arc::new(tree), Limits::default()).session().await?;
//! session.create("/jobs", "", Mode::Persistent).await?;
//! let (_, stat) = session.get("/jobs").await?;
//!
//! // All of it, or nothing: the version is the fence.
//! session.multi(vec![
//!     Op::set("/jobs", "busy", stat.version),
//!     Op::ephemeral("/jobs/lock", "node-1"),
//! ]).await?;
//! let late = session.multi(vec![Op::set("/jobs", "mine", stat.version)]).await;
//! assert_eq!(late.unwrap_err().failed_op(), Some(0));
//! # Ok(())
//! # }
//! ```

pub mod config;
pub mod engine;
pub mod engines;
pub mod error;
pub mod faults;
pub mod manner;
pub mod node;
pub mod path;
pub mod recipes;
pub mod session;
pub mod watch;

pub use config::{EngineConfig, Store, StoreConfig};
pub use error::{Error, Kind, Result};
pub use node::{Mode, Op, OpResult, Stat};
pub use session::{Limits, Session};
pub use watch::{Event, ExistsWatch, Missed, SessionState, SessionStatus, TreeWatch, Woken};
