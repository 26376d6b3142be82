//! Arguments of calls, and of the configuration.

use std::sync::Arc;

use ingest_store::engines::embedded::{Embedded, EmbeddedConfig};
use ingest_store::engines::zookeeper::{Zookeeper, ZookeeperConfig};
use ingest_store::node::MAX_REQUEST;
use ingest_store::{Kind, Limits, Mode, Op, Session, Store, StoreConfig};
use tempfile::TempDir;

use crate::says;

pub(crate) async fn embedded_session(dir: &TempDir) -> Session {
    let engine = Embedded::open(&EmbeddedConfig::new(dir.path())).unwrap();
    Store::new(Arc::new(engine), Limits::default()).session().await.unwrap()
}

#[tokio::test]
async fn a_malformed_path_is_refused_by_every_call_with_its_reason() {
    let dir = tempfile::tempdir().unwrap();
    let session = embedded_session(&dir).await;
    for (path, why) in [
        ("", "a path cannot be empty"),
        ("a/b", "a path must begin with '/'"),
        ("/a/", "a path cannot end with '/'"),
        ("//", "a path cannot hold an empty name"),
        ("/a//b", "a path cannot hold an empty name"),
        ("/a/./b", "relative names are not allowed"),
        ("/..", "relative names are not allowed"),
        ("/a\u{0}", "the character U+0000 is not allowed"),
        ("/a\nb", "the character U+000A is not allowed"),
        ("/\u{f8ff}", "the character U+F8FF is not allowed"),
    ] {
        let errors = [
            session.get(path).await.map(drop).unwrap_err(),
            session.exists(path).await.map(drop).unwrap_err(),
            session.children(path).await.map(drop).unwrap_err(),
            session.create(path, "", Mode::Persistent).await.map(drop).unwrap_err(),
            session.create_with_parents(path, "", Mode::Persistent).await.map(drop).unwrap_err(),
            session.make_dirs(path).await.unwrap_err(),
            session.set(path, "", None).await.map(drop).unwrap_err(),
            session.delete(path, None).await.unwrap_err(),
            session.multi(vec![Op::check(path, None)]).await.map(drop).unwrap_err(),
            session.watch_exists(path).await.map(drop).unwrap_err(),
            session.watch_tree(path).await.map(drop).unwrap_err(),
        ];
        for error in errors {
            says(&error, Kind::BadArguments, &[&format!("{path}: bad argument"), why]);
            assert_eq!(error.path(), Some(path));
        }
    }
}

#[tokio::test]
async fn only_a_sequential_create_may_end_in_a_slash() {
    let dir = tempfile::tempdir().unwrap();
    let session = embedded_session(&dir).await;
    session.create("/a", "", Mode::Persistent).await.unwrap();
    session.create("/a/", "", Mode::PersistentSequential).await.unwrap();
    let error = session.create("/a/", "", Mode::Ephemeral).await.unwrap_err();
    says(&error, Kind::BadArguments, &["/a/: bad argument: a path cannot end with '/'"]);
    let error = session.create("/", "", Mode::PersistentSequential).await.unwrap_err();
    says(&error, Kind::BadArguments, &["/: bad argument: the root cannot be created or deleted"]);
}

#[tokio::test]
async fn data_over_a_megabyte_is_refused_with_its_size_and_the_limit() {
    let dir = tempfile::tempdir().unwrap();
    let session = embedded_session(&dir).await;
    let limit = format!("a request holds at most {MAX_REQUEST}");
    let big = vec![0; 1 << 20];
    for error in [
        session.create("/big", big.clone(), Mode::Persistent).await.map(drop).unwrap_err(),
        session.set("/big", big, None).await.map(drop).unwrap_err(),
    ] {
        says(&error, Kind::TooLarge, &["/big: too large for one request: 1048", &limit]);
    }
    let halves = ["/one", "/two"].map(|path| Op::create(path, vec![0; 600_000]));
    let error = session.multi(halves.to_vec()).await.unwrap_err();
    says(&error, Kind::TooLarge, &["/one: too large for one request: 1200", &limit]);
}

#[test]
fn an_unknown_setting_is_refused_by_name() {
    for (json, unknown) in [
        (r#"{"engine": {"embedded": {"dir": "/x", "cahce": 1}}}"#, "cahce"),
        (r#"{"engine": {"etcd": {}}}"#, "etcd"),
        (r#"{"engine": {"zookeeper": {"connect": "a", "acl": "nobody"}}}"#, "nobody"),
        (r#"{"engine": {"embedded": {"dir": "/x"}}, "limits": {"deadline": "soon"}}"#, "soon"),
    ] {
        let error = serde_json::from_str::<StoreConfig>(json).unwrap_err().to_string();
        assert!(error.contains(unknown), "{error}");
    }
}

#[test]
fn a_bad_connection_string_is_refused_with_its_reason_and_an_example() {
    for (connect, why) in [
        ("", "an empty host"),
        ("   ", "an empty host"),
        ("/chroot", "an empty host"),
        ("a:2181,", "an empty host"),
        ("a:2181,,b:2181", "an empty host"),
        ("a:", "\"\" is not a port"),
        ("a:0", "\"0\" is not a port"),
        ("a:65536", "\"65536\" is not a port"),
        ("a:-1", "\"-1\" is not a port"),
        ("a:client", "\"client\" is not a port"),
        (":2181", "has no host name"),
        ("[::1", "lacks a closing bracket"),
        ("[::1]2181", "that is not a port"),
        ("a b:2181", "is not a host"),
        ("user@a:2181", "is not a host"),
        ("a:2181/x/", "a path cannot end with '/'"),
        ("a:2181/x//y", "a path cannot hold an empty name"),
        ("a:2181/../x", "relative names are not allowed"),
    ] {
        let error = Zookeeper::new(ZookeeperConfig::new(connect)).unwrap_err();
        let named = format!("connection string {connect:?}: ");
        says(&error, Kind::BadArguments, &[&named, why, "expected host:port,host:port/chroot"]);
    }
}
