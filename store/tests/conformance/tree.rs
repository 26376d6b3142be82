//! The tree that a behaviour is shown on, and how behaviours wait and judge.

use std::fmt::Debug;
use std::future::Future;
use std::panic::Location;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use ingest_harness::{Proxy, Server, chroot};
use ingest_store::engines::embedded::{Embedded, EmbeddedConfig};
use ingest_store::engines::zookeeper::{Zookeeper, ZookeeperConfig};
use ingest_store::{Error, Event, Kind, Limits, Mode, Result, Session, Stat, Store, TreeWatch};
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(20);

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

    /// Ends a session as a server does that has not heard of it for too long.
    pub(crate) async fn expire(&self, session: &Session) {
        match &self.place {
            Place::Embedded { engine, .. } => engine.expire_session(session.id()).await.unwrap(),
            Place::Zookeeper { proxy, .. } => {
                let proxy = proxy.get().expect("only a mortal session can be expired");
                proxy.expire_session(session.id()).await;
            }
        }
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

fn ensemble(connect: &str, limits: Limits) -> Store {
    Store::new(Arc::new(Zookeeper::new(ZookeeperConfig::new(connect)).unwrap()), limits)
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

/// The next events of a watch are these, in this order.
#[track_caller]
pub(crate) fn expect_events(watch: &mut TreeWatch, expected: &[Event]) -> impl Future<Output = ()> {
    let caller = Location::caller();
    async move {
        for (index, expected) in expected.iter().enumerate() {
            let Ok(event) = tokio::time::timeout(PATIENCE, watch.next()).await else {
                panic!("at {caller}: no event {index}, expected {expected:?}");
            };
            assert_eq!(event, *expected, "event {index}, at {caller}");
        }
    }
}

pub(crate) fn created(path: &str) -> Event {
    Event::Created(path.to_owned())
}

pub(crate) fn deleted(path: &str) -> Event {
    Event::Deleted(path.to_owned())
}

pub(crate) fn changed(path: &str) -> Event {
    Event::Changed(path.to_owned())
}

pub(crate) fn children(path: &str) -> Event {
    Event::Children(path.to_owned())
}

/// Creates empty persistent nodes, in this order.
pub(crate) async fn make(session: &Session, paths: &[&str]) {
    for path in paths {
        session.create(*path, "", Mode::Persistent).await.unwrap();
    }
}

pub(crate) async fn stat(session: &Session, path: &str) -> Stat {
    session.exists(path).await.unwrap().unwrap_or_else(|| panic!("{path} is not there"))
}

pub(crate) async fn data(session: &Session, path: &str) -> String {
    String::from_utf8(session.get(path).await.unwrap().0.to_vec()).unwrap()
}

pub(crate) async fn is_there(session: &Session, path: &str) -> bool {
    session.exists(path).await.unwrap().is_some()
}

pub(crate) async fn sorted_children(session: &Session, path: &str) -> Vec<String> {
    let (mut names, _) = session.children(path).await.unwrap();
    names.sort_unstable();
    names
}

/// The call was refused for this reason, which is about this path.
#[track_caller]
pub(crate) fn refused<T: Debug>(result: Result<T>, kind: Kind, path: &str) {
    let error = result.expect_err("must be refused");
    assert_eq!((error.kind(), error.path(), error.failed_op()), (kind, Some(path), None), "{error}");
}

/// The multi was refused because of this operation.
#[track_caller]
pub(crate) fn refused_op<T: Debug>(result: Result<T>, index: usize, kind: Kind, path: &str) {
    let error = result.expect_err("must be refused");
    assert_eq!((error.failed_op(), error.kind(), error.path()), (Some(index), kind, Some(path)), "{error}");
}

/// The call was refused for this reason, which is about the session and not a path.
#[track_caller]
pub(crate) fn refused_at_all<T: Debug>(result: Result<T>, kind: Kind) -> Error {
    let error = result.expect_err("must be refused");
    assert_eq!(error.kind(), kind, "{error}");
    error
}
