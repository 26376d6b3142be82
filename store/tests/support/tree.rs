//! The tree that a behaviour is shown on, on either engine, and how to wait for what must happen.

use std::future::Future;
use std::panic::Location;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use ingest_harness::{Proxy, Server, chroot};
use ingest_store::engines::embedded::{Embedded, EmbeddedConfig};
use ingest_store::engines::zookeeper::{Zookeeper, ZookeeperConfig};
use ingest_store::{Limits, Session, Store};
use tempfile::TempDir;

/// Far longer than anything here takes: only what never comes reaches it.
pub(crate) const PATIENCE: Duration = Duration::from_mins(2);

/// A new, empty tree on one of the engines.
pub(crate) struct Tree {
    place: Place,
    /// What was opened here, to be closed at the end.
    sessions: Mutex<Vec<Session>>,
}

enum Place {
    Embedded { engine: Embedded, _dir: TempDir },
    Zookeeper { server: &'static Server, chroot: String, proxy: OnceLock<Proxy> },
}

impl Tree {
    pub(crate) fn embedded() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let engine = Embedded::open(&EmbeddedConfig::new(dir.path().join("tree"))).unwrap();
        Self::new(Place::Embedded { engine, _dir: dir })
    }

    pub(crate) async fn zookeeper() -> Self {
        let server = Server::shared().await;
        Self::new(Place::Zookeeper { server, chroot: chroot(), proxy: OnceLock::new() })
    }

    fn new(place: Place) -> Self {
        Self { place, sessions: Mutex::default() }
    }

    /// A session on the tree, closed at the end of the test.
    pub(crate) async fn session(&self) -> Session {
        self.session_with(Limits::default()).await
    }

    pub(crate) async fn session_with(&self, limits: Limits) -> Session {
        self.keep(self.store(limits).session().await.unwrap())
    }

    /// A session that [`Tree::expire`] can end.
    pub(crate) async fn mortal_session(&self) -> Session {
        let store = match &self.place {
            Place::Embedded { .. } => self.store(Limits::default()),
            Place::Zookeeper { server, chroot, proxy } => {
                let proxy = proxy.get_or_init(|| Proxy::start(server.address()));
                ensemble(&format!("{}{chroot}", proxy.connect_string()), Limits::default())
            }
        };
        self.keep(store.session().await.unwrap())
    }

    /// Ends a session as a server does that has not heard of it for too long; it knows when this returns.
    pub(crate) async fn expire(&self, session: &Session) {
        match &self.place {
            Place::Embedded { engine, .. } => engine.expire_session(session.id()).await.unwrap(),
            Place::Zookeeper { proxy, .. } => {
                let proxy = proxy.get().expect("only a mortal session can be expired");
                proxy.expire_session(session.id()).await;
            }
        }
        within(session.states().wait_for(|status| status.state.is_final())).await.unwrap();
    }

    /// For sessions that the test itself opens and gives up.
    pub(crate) fn store(&self, limits: Limits) -> Store {
        match &self.place {
            Place::Embedded { engine, .. } => Store::new(Arc::new(engine.clone()), limits),
            Place::Zookeeper { server, chroot, .. } => {
                ensemble(&format!("{}{chroot}", server.connect_string()), limits)
            }
        }
    }

    pub(crate) fn keep(&self, session: Session) -> Session {
        self.sessions.lock().unwrap().push(session.clone());
        session
    }

    pub(crate) async fn close(self) {
        for session in self.sessions.into_inner().unwrap() {
            within(session.close()).await.unwrap();
        }
        if let Place::Embedded { engine, .. } = self.place {
            within(engine.close()).await;
        }
    }
}

/// Sessions live as long as the server grants, so that none ends because the machine is busy.
fn ensemble(connect: &str, limits: Limits) -> Store {
    let config = ZookeeperConfig { session_timeout: PATIENCE, ..ZookeeperConfig::new(connect) };
    Store::new(Arc::new(Zookeeper::new(config).unwrap()), limits)
}

/// Waits for what must happen, and panics at the caller if it does not.
#[track_caller]
pub(crate) fn within<F: Future>(what: F) -> impl Future<Output = F::Output> {
    let caller = Location::caller();
    async move {
        let Ok(output) = tokio::time::timeout(PATIENCE, what).await else {
            panic!("what is awaited at {caller} did not happen within {PATIENCE:?}");
        };
        output
    }
}

/// Runs each of these behaviours on a new tree of either engine.
macro_rules! on_both_engines {
    ($($behaviour:ident),+ $(,)?) => {
        mod embedded {
            $(#[tokio::test]
            async fn $behaviour() {
                let tree = $crate::tree::Tree::embedded();
                super::$behaviour(&tree).await;
                tree.close().await;
            })+
        }

        mod zookeeper {
            $(#[tokio::test]
            async fn $behaviour() {
                let tree = $crate::tree::Tree::zookeeper().await;
                super::$behaviour(&tree).await;
                tree.close().await;
            })+
        }
    };
}
pub(crate) use on_both_engines;
