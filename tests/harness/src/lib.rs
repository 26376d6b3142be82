//! Real ZooKeeper servers, and every fault that a link, a session or a server can have, for the tests
//! and benchmarks of all crates.
//!
//! | module | what it gives |
//! |---|---|
//! | [`server`] | [`Server`]: one server process; stop, kill, pause, restart, ask it |
//! | [`config`] | [`ServerConfig`]: how a server is set up, and [`DEBIAN_PACKAGES`] it runs from |
//! | [`shared`] | one server per test process and a [`chroot`] per test |
//! | [`ensemble`] | [`Ensemble`]: leaders lost, quorums lost and healed, rolling restarts |
//! | [`laggard`] | [`Laggard`]: an ensemble with a member that falls behind and catches up |
//! | [`proxy`] | [`Proxy`]: cuts, stalls, delays, drops one reply or request; counts requests by kind |
//! | [`faults`] | [`Matcher`] and [`Witness`]: which request a fault is for, and when it happened |
//! | [`process`] | [`Process`]: a daemon of our own; signals, its end, what it writes |
//! | [`node`] | `ingestd run` as such a process: its configuration, what it says, replaced by another |
//! | [`session`] | [`expire_session`] and its witness |
//! | [`file_server`] | [`FileServer`]: files over HTTP, how often each was asked for, and answers held back |
//! | [`bad_server`] | [`bad_server::BadServer`]: a web server that misbehaves as it is told |
//! | [`mail_server`] | [`MailServer`]: an SMTP server that receives |
//! | [`s3_server`] | [`S3Server`]: an S3-compatible server; stops or loses its Nth request |
//! | [`tls`] | [`TlsFiles`]: certificates of a server with a secure port |
//! | [`clock`] | the only place that may let time pass |
//!
//! Inside: `guard` (no process outlives its test), `ports`, `four_letter`, `wire` (the protocol's
//! headers), `relay` (one proxied connection), `seen` (its counts).
//!
//! Faults have witnesses, so tests need no sleeps. This one loses the answer to a committed write:
//!
//! ```no_run
//! use ingest_harness::{Proxy, RequestKind, Server};
//!
//! # async fn example() {
//! let server = Server::shared().await;
//! let proxy = Proxy::start(server.address());
//! let dropped = proxy.drop_reply(RequestKind::Multi);
//! // … a client of `proxy.connect_string()` commits a multi …
//! let reply = dropped.happened().await;
//! assert_eq!(reply.err, 0, "the server has committed it; only the client does not know");
//! # }
//! ```
//!
//! What does not happen in time is a panic that names it: that is how a harness fails a test.

// A test harness fails by panicking, with what it could not do.
#![allow(clippy::expect_used)]

pub mod bad_server;
pub mod clock;
pub mod config;
pub mod ensemble;
pub mod faults;
pub mod file_server;
mod four_letter;
mod guard;
pub mod laggard;
pub mod mail_server;
pub mod node;
mod ports;
pub mod process;
pub mod proxy;
mod relay;
pub mod s3_server;
mod seen;
pub mod server;
pub mod session;
pub mod shared;
pub mod tls;
mod wire;

pub use clock::{eventually, let_pass};
pub use config::{DEBIAN_PACKAGES, ServerConfig};
pub use ensemble::Ensemble;
pub use faults::{Direction, Dropped, DroppedReply, DroppedRequest, Matcher, Witness};
pub use file_server::{FileServer, Traffic};
pub use laggard::Laggard;
pub use mail_server::MailServer;
pub use process::Process;
pub use proxy::Proxy;
pub use s3_server::{Moment, S3Server};
pub use seen::SessionSeen;
pub use server::Server;
pub use session::{expire_session, session_is_gone};
pub use shared::{chroot, shared_connect_string_with_chroot};
pub use tls::TlsFiles;
pub use wire::RequestKind;
