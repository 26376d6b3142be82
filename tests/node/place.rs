//! A tree and a directory, for node processes that share them, and what their configuration says.

use std::path::{Path, PathBuf};
use std::time::Duration;

use ingest_harness::clock::PATIENCE;
use ingest_harness::eventually;
use ingest_harness::node::{Setup, set};
use ingest_queue::date::Clock;
use ingest_queue::queue::{Queue, Settings};
use ingest_store::engine::Engine;
use ingest_store::engines::embedded::{Embedded, EmbeddedConfig};
use ingest_store::engines::zookeeper::{Zookeeper, ZookeeperConfig};
use ingest_store::{Limits, Store};
use tempfile::TempDir;
use toml::{Table, Value};

pub(crate) const PROFILE: &str = "test_content";
pub(crate) const OWNER: &str = "ark:/99999/fk4tests";

const PROFILE_TEXT: &str = r#"
name = "test_content"
collection = "tests"
title = "Things to test with"
owner = "ark:/99999/fk4tests"

[notify]
to = ["curators@example.org"]
"#;

/// What all nodes of these tests have in common, but for paths. No sweep comes by within a test: it could put right
/// what a test is to find.
const COMMON: &str = r#"
[log]
format = "json"
filter = "info,ingest_actors=debug"
[log.throttle]
times = 0
[api]
listen = "127.0.0.1:0"
upload_reserve = 0
[queue]
rank_delay = "20ms"
[upkeep]
every = "12h"
[fetch]
allowed = ["127.0.0.0/8"]
backoff = "20ms"
per_host = 64
[provisioning]
max_used = 1.0
[storage.default]
kind = "ocfl"
[inventory]
kind = "sqlite"
[mail.by.outbox]
[access]
[profiles]
[work]
[node]
"#;

#[derive(Debug, Clone)]
enum Tree {
    Embedded,
    Zookeeper(String, Duration),
}

/// A tree and a directory.
pub(crate) struct Place {
    dir: TempDir,
    tree: Tree,
}

impl Place {
    pub(crate) fn embedded() -> Self {
        Self::new(Tree::Embedded)
    }

    /// On the server that all tests share.
    pub(crate) async fn shared() -> Self {
        Self::at(ingest_harness::shared_connect_string_with_chroot().await, Duration::from_secs(6))
    }

    /// On a server, or something in front of it.
    pub(crate) fn at(connect: String, session_timeout: Duration) -> Self {
        Self::new(Tree::Zookeeper(connect, session_timeout))
    }

    fn new(tree: Tree) -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("profiles")).unwrap();
        std::fs::write(dir.path().join("profiles").join(format!("{PROFILE}.toml")), PROFILE_TEXT).unwrap();
        Self { dir, tree }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn tree_dir(&self) -> PathBuf {
        self.path("tree")
    }

    /// A queue of the test's own, to submit and to look with. Not beside a node with an embedded tree.
    pub(crate) async fn queue(&self) -> Queue {
        let engine: std::sync::Arc<dyn Engine> = match &self.tree {
            Tree::Embedded => {
                std::sync::Arc::new(Embedded::open(&EmbeddedConfig::new(self.tree_dir())).unwrap())
            }
            Tree::Zookeeper(connect, _) => {
                // Patient: the test outlives what it does to the servers.
                let session_timeout = Duration::from_mins(1);
                let config = ZookeeperConfig { session_timeout, ..ZookeeperConfig::new(connect.as_str()) };
                std::sync::Arc::new(Zookeeper::new(config).unwrap())
            }
        };
        let session = Store::new(engine, Limits::default()).session().await.unwrap();
        Queue::open(&session, Settings::new("test"), Clock::system()).await.unwrap()
    }

    /// A node with storage, inventory and working directory like all others of the place.
    pub(crate) fn node(&self, name: &str) -> Setup {
        let mut config: Table = COMMON.parse().unwrap();
        let path = |name: &str| Value::from(self.path(name).to_str().unwrap());
        set(&mut config, "node.name", name);
        set(&mut config, "node.dir", path(&format!("{name}/node")));
        set(&mut config, "work.dir", path("work"));
        set(&mut config, "profiles.dir", path("profiles"));
        set(&mut config, "storage.default.dir", path("storage"));
        set(&mut config, "inventory.path", path("inventory.sqlite"));
        set(&mut config, "mail.by.outbox.dir", path("outbox"));
        set(&mut config, "access.dir", path("access"));
        match &self.tree {
            Tree::Embedded => set(&mut config, "store.engine.embedded.dir", path("tree")),
            Tree::Zookeeper(connect, timeout) => {
                set(&mut config, "store.engine.zookeeper.connect", connect.as_str());
                let timeout = format!("{}ms", timeout.as_millis());
                set(&mut config, "store.engine.zookeeper.session_timeout", timeout);
            }
        }
        Setup::new(Path::new(env!("CARGO_BIN_EXE_ingestd")), self.dir.path(), name, config)
    }

    /// Nothing is left in a working directory but what names its file system.
    pub(crate) async fn nothing_left(&self, work: &str) {
        let work = self.path(work);
        let found = || std::future::ready(names(&work).is_empty().then_some(()));
        if tokio::time::timeout(PATIENCE, eventually("empty directories", 2 * PATIENCE, found)).await.is_err()
        {
            let mut left = Vec::new();
            for batch in names(&work) {
                left.extend(names(&work.join(&batch)).into_iter().map(|job| format!("{batch}/{job}")));
                left.push(batch);
            }
            panic!("left in the working directory: {left:?}");
        }
    }
}

fn names(dir: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| !name.starts_with('.')).collect()
}
