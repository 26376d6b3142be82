//! A tree to try recipes on: the same tests run on both engines, with the same faults.

use std::sync::Arc;
use std::time::Duration;

use ingest_harness::{Proxy, Server};
use ingest_store::engines::embedded::{Embedded, EmbeddedConfig};
use ingest_store::engines::zookeeper::{Zookeeper, ZookeeperConfig};
use ingest_store::{Limits, Session, Store};

/// Far longer than anything here takes, so that only a lost wake-up reaches it.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) enum World {
    Embedded { tree: Embedded, store: Store, _dir: tempfile::TempDir },
    Zookeeper { proxy: Proxy, store: Store },
}

impl World {
    pub(crate) async fn embedded() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let tree = Embedded::open(&EmbeddedConfig::new(dir.path())).unwrap();
        let store = Store::new(Arc::new(tree.clone()), Limits::default());
        std::future::ready(World::Embedded { tree, store, _dir: dir }).await
    }

    pub(crate) async fn zookeeper() -> Self {
        let proxy = Proxy::start(Server::shared().await.address());
        let connect = format!("{}{}", proxy.connect_string(), ingest_harness::chroot());
        let engine = Zookeeper::new(ZookeeperConfig::new(connect)).unwrap();
        World::Zookeeper { proxy, store: Store::new(Arc::new(engine), Limits::default()) }
    }

    pub(crate) async fn session(&self) -> Session {
        let (World::Embedded { store, .. } | World::Zookeeper { store, .. }) = self;
        store.session().await.unwrap()
    }

    /// Ends a session as a server does that has not heard of it for too long.
    pub(crate) async fn expire(&self, session: &Session) {
        match self {
            World::Embedded { tree, .. } => tree.expire_session(session.id()).await.unwrap(),
            World::Zookeeper { proxy, .. } => proxy.expire_session(session.id()).await,
        }
        let mut states = session.states();
        within(states.wait_for(|status| status.state.is_final())).await.unwrap();
    }
}

/// Fails a test whose awaited event never comes.
pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("nothing happened for a long time")
}

/// Makes a test of each behaviour on each engine.
macro_rules! on_both_engines {
    ($($behaviour:ident),+ $(,)?) => {
        mod embedded {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $behaviour() {
                super::$behaviour(crate::world::World::embedded().await).await;
            })+
        }
        mod zookeeper {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $behaviour() {
                super::$behaviour(crate::world::World::zookeeper().await).await;
            })+
        }
    };
}
pub(crate) use on_both_engines;
