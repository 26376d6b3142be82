//! One server per test process, and a chroot of its own for every test.
//!
//! Most tests need a store, not a server. They share one, which is started by the first of them and
//! ends with the process. Nothing of it belongs to a runtime: each test may have its own.
//!
//! Never stop or pause the shared server; a test that must, starts its own.

use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::OnceCell;

use crate::clock::off_runtime;
use crate::server::Server;
use crate::session::RawSession;

static SHARED: OnceCell<Server> = OnceCell::const_new();
static COUNT: AtomicU64 = AtomicU64::new(0);

impl Server {
    /// The server that all tests of this process share.
    pub async fn shared() -> &'static Server {
        SHARED.get_or_init(Server::start_default).await
    }

    /// Makes the nodes of a new [`chroot`] on this server and returns its path.
    pub async fn create_chroot(&self) -> String {
        let (server, path) = (self.address(), chroot());
        let node = path.clone();
        off_runtime(move || {
            let made = RawSession::open(server).and_then(|mut session| {
                let made = session.create(&node);
                session.close().and(made)
            });
            made.unwrap_or_else(|why| panic!("cannot create {node} on {server}: {why}"));
        })
        .await;
        path
    }
}

/// A path that no other test uses, such as `/t-4711-3-9f2c01ab`. The node is not created.
pub fn chroot() -> String {
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("/t-{}-{count}-{:08x}", process::id(), rand::random::<u32>())
}

/// The shared server with a chroot of its own: `127.0.0.1:PORT/t-…`. The node is not created: whoever
/// starts on an empty server must be able to do that.
pub async fn shared_connect_string_with_chroot() -> String {
    format!("{}{}", Server::shared().await.connect_string(), chroot())
}
