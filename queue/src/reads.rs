//! Reads that are asked again after a lost answer, as long as the session lives: whoever is in the
//! middle of something goes on with it. Reading twice harms nobody.

mod gathered;

use bytes::Bytes;
use ingest_store::recipes::settle;
use ingest_store::{Result, Session, Stat};

pub(crate) use self::gathered::Gathered;

pub(crate) async fn get(session: &Session, path: impl AsRef<str>) -> Result<(Bytes, Stat)> {
    settle(session, || session.get(path.as_ref())).await.answer
}

pub(crate) async fn get_many(session: &Session, paths: Vec<String>) -> Result<Vec<Option<(Bytes, Stat)>>> {
    settle(session, || session.get_many(paths.clone())).await.answer
}

pub(crate) async fn exists(session: &Session, path: impl AsRef<str>) -> Result<Option<Stat>> {
    settle(session, || session.exists(path.as_ref())).await.answer
}

pub(crate) async fn children(session: &Session, path: impl AsRef<str>) -> Result<Vec<String>> {
    settle(session, || session.children(path.as_ref())).await.answer.map(|(names, _)| names)
}

pub(crate) async fn sync(session: &Session) -> Result<()> {
    settle(session, || session.sync()).await.answer
}
