//! The server that is measured, and empty trees on it or on the embedded engine.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use ingest_harness::{Proxy, Server, ServerConfig};
use ingest_queue::dialect::Dialect;
use ingest_queue::fsck;
use ingest_store::engines::embedded::{Embedded, EmbeddedConfig};
use ingest_store::engines::zookeeper::{Zookeeper, ZookeeperConfig};
use ingest_store::{Limits, Session, Store};
use tempfile::TempDir;

use crate::bare::Bare;
use crate::scratch;

pub(crate) const ZOOKEEPER: &str = "zookeeper";
pub(crate) const EMBEDDED: &str = "embedded";
pub(crate) const ENGINES: [&str; 2] = [ZOOKEEPER, EMBEDDED];

/// The most memory of the server: all trees of a run, a million nodes each, stay until its end.
const HEAP: &str = "4g";
const LARGE_HEAP: &str = "12g";
/// The longest session that the server grants.
const LONGEST: Duration = Duration::from_mins(1);

/// A running server with room for trees.
#[derive(Debug)]
pub(crate) struct Trees {
    server: Server,
    /// Removed last.
    dir: TempDir,
}

/// A tree that was opened for a benchmark.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) session: Session,
    embedded: Option<Embedded>,
}

impl Trees {
    pub(crate) async fn start() -> Result<Self> {
        Self::with_heap(HEAP).await
    }

    /// For trees of a million jobs.
    pub(crate) async fn large() -> Result<Self> {
        Self::with_heap(LARGE_HEAP).await
    }

    /// With so much memory, as after `-Xmx`.
    pub(crate) async fn with_heap(heap: &str) -> Result<Self> {
        let dir = scratch::directory()?;
        let config = ServerConfig::new().heap(heap).data_dir(dir.path().join("server"));
        Ok(Self { server: Server::start(config).await, dir })
    }

    /// A session of ours on a tree of this name, which nobody else has.
    pub(crate) async fn open(&self, engine: &str, name: &str) -> Result<Opened> {
        if engine == EMBEDDED {
            return embedded_at(&self.dir.path().join(name)).await;
        }
        // A server that takes in very many nodes on a busy machine may pause for longer than sessions usually last.
        let config = ZookeeperConfig { session_timeout: LONGEST, ..ZookeeperConfig::new(self.address(name)) };
        let zookeeper = Zookeeper::new(config)?;
        let session = Store::new(Arc::new(zookeeper), Limits::default()).session().await?;
        Ok(Opened { session, embedded: None })
    }

    /// The tree of this name as another process finds it: a section of its configuration.
    pub(crate) fn engine(&self, engine: &str, name: &str) -> String {
        if engine == EMBEDDED {
            return format!("[store.engine.embedded]\ndir = '{}'\n", self.dir.path().join(name).display());
        }
        let connect = self.address(name);
        // The longest that the server grants: whoever is stopped for others to be measured keeps its session.
        format!("[store.engine.zookeeper]\nconnect = '{connect}'\nsession_timeout = '1m'\n")
    }

    /// The bare client on a tree of the server that was opened before.
    pub(crate) async fn bare(&self, name: &str) -> Result<Bare> {
        Bare::connect(&self.address(name)).await
    }

    /// The memory that the server holds.
    pub(crate) fn server_memory(&self) -> u64 {
        self.server.memory_rss_bytes()
    }

    /// A link to the server that can be cut.
    pub(crate) fn link(&self) -> Proxy {
        Proxy::start(self.server.address())
    }

    pub(crate) fn address(&self, name: &str) -> String {
        format!("{}/{name}", self.server.connect_string())
    }
}

/// Fails with all that fsck finds in a tree.
pub(crate) async fn check(session: &Session) -> Result<()> {
    let clean = fsck::clean(session, Dialect::Design).await;
    ensure!(clean.is_ok(), "the tree is not clean: {clean:?}");
    Ok(())
}

/// A session on an embedded tree in a directory.
pub(crate) async fn embedded_at(dir: &Path) -> Result<Opened> {
    let embedded = Embedded::open(&EmbeddedConfig::new(dir))?;
    let session = Store::new(Arc::new(embedded.clone()), Limits::default()).session().await?;
    Ok(Opened { session, embedded: Some(embedded) })
}

impl Opened {
    pub(crate) async fn close(self) -> Result<()> {
        self.session.close().await?;
        if let Some(embedded) = self.embedded {
            embedded.close().await;
        }
        Ok(())
    }
}
