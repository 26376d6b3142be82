//! How behaviours are judged.

use std::fmt::Debug;
use std::panic::Location;

use ingest_store::{Error, Event, Kind, Mode, Result, Session, Stat, TreeWatch};

use crate::tree::PATIENCE;

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
