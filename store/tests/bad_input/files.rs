//! Files of the embedded engine.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ingest_store::engines::embedded::{Embedded, EmbeddedConfig};
use ingest_store::{Kind, Limits, Mode, Op, Result, Session, Store};
use redb::{Database, ReadableDatabase, TableDefinition};
use tempfile::TempDir;

use crate::says;

/// A directory with a closed tree of some size, and the path of its file.
async fn closed_tree() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let engine = Embedded::open(&EmbeddedConfig::new(dir.path())).unwrap();
    let session = Store::new(Arc::new(engine.clone()), Limits::default()).session().await.unwrap();
    for thousand in 0..3 {
        let ops = (0..1000).map(|n| Op::create(format!("/{thousand}-{n}"), vec![1; 200]));
        session.multi(ops.collect()).await.unwrap();
    }
    session.close().await.unwrap();
    engine.close().await;
    let file = dir.path().join("tree.redb");
    (dir, file)
}

/// Refused as damaged or foreign, by name; and as it was before.
#[track_caller]
fn refused_and_untouched(dir: &Path, what: &str) {
    let file = dir.join("tree.redb");
    let before = fs::read(&file).unwrap();
    let opened = std::panic::catch_unwind(|| Embedded::open(&EmbeddedConfig::new(dir)).map(drop));
    let error = opened.unwrap_or_else(|_| panic!("{what}: a panic")).expect_err(what);
    says(&error, Kind::Corrupt, &[&file.display().to_string()]);
    assert!(fs::read(&file).unwrap() == before, "{what}: the file was changed");
}

#[tokio::test]
async fn a_file_that_was_cut_short_is_refused() {
    let (_origin, file) = closed_tree().await;
    let whole = fs::read(&file).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let points = [1, 63, 320, 4095, 4096, whole.len() / 2, whole.len() - 4096, whole.len() - 1];
    for length in points {
        fs::write(dir.path().join("tree.redb"), &whole[..length]).unwrap();
        refused_and_untouched(dir.path(), &format!("cut to {length} of {} bytes", whole.len()));
    }
    fs::write(dir.path().join("tree.redb"), &whole).unwrap();
    Embedded::open(&EmbeddedConfig::new(dir.path())).expect("the whole file is a tree");
}

/// A new tree gets its name when it is whole, so an empty file once held something.
#[test]
fn a_file_that_was_cut_to_nothing_is_not_taken_for_a_new_tree() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("tree.redb"), "").unwrap();
    refused_and_untouched(dir.path(), "an empty file");
}

#[test]
fn a_file_of_another_kind_is_refused() {
    let noise = (0..65_536).map(|_| rand::random::<u8>()).collect::<Vec<_>>();
    let mut sqlite = b"SQLite format 3\0\x10\x00\x01\x01\x00\x40\x20\x20".to_vec();
    sqlite.resize(8192, 0);
    for (what, bytes) in [
        ("text", b"just some notes\n".to_vec()),
        ("long text", b"just some notes\n".repeat(10_000)),
        ("noise", noise),
        ("a database of SQLite", sqlite),
        ("zeros", vec![0; 1 << 20]),
    ] {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("tree.redb"), bytes).unwrap();
        refused_and_untouched(dir.path(), what);
    }
}

/// Everything that is in the tree of `closed_tree`.
async fn read_all(dir: PathBuf) -> Result<usize> {
    let engine = Embedded::open(&EmbeddedConfig::new(dir))?;
    let session = Session::open(Arc::new(engine), Limits::default()).await?;
    let (names, _) = session.children("/").await?;
    let mut whole = 0;
    for name in names {
        whole += usize::from(session.get(format!("/{name}")).await?.0 == vec![1; 200]);
    }
    Ok(whole)
}

#[tokio::test]
async fn a_damaged_page_is_told_and_never_a_panic() {
    let (_origin, file) = closed_tree().await;
    let whole = fs::read(&file).unwrap();
    for page in (0..whole.len() / 4096).step_by(20) {
        let dir = tempfile::tempdir().unwrap();
        let mut damaged = whole.clone();
        damaged[page * 4096..][..4096].fill(0xff);
        fs::write(dir.path().join("tree.redb"), damaged).unwrap();
        // A page that is not in use may be damaged without harm.
        match tokio::spawn(read_all(dir.path().to_owned())).await {
            Ok(Ok(nodes)) => assert_eq!(nodes, 3000, "page {page}"),
            Ok(Err(error)) => says(&error, Kind::Corrupt, &[]),
            Err(panic) => panic!("page {page}: {panic}"),
        }
    }
}

const META: TableDefinition<'static, &'static str, u64> = TableDefinition::new("meta");
const NODES: TableDefinition<'static, &'static [u8], &'static [u8]> = TableDefinition::new("nodes");
const EPHEMERALS: TableDefinition<'static, &'static [u8], ()> = TableDefinition::new("ephemerals");

/// What opening says to a database that this writes.
fn open_after(write: impl FnOnce(&redb::WriteTransaction)) -> (Result<Embedded>, TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let database = Database::create(dir.path().join("tree.redb")).unwrap();
    let transaction = database.begin_write().unwrap();
    write(&transaction);
    transaction.commit().unwrap();
    drop(database);
    (Embedded::open(&EmbeddedConfig::new(dir.path())), dir)
}

#[test]
fn a_database_of_another_program_is_refused_and_keeps_its_tables() {
    const USERS: TableDefinition<'static, &str, &str> = TableDefinition::new("users");
    let (opened, dir) = open_after(|write| {
        write.open_table(USERS).unwrap().insert("ann", "admin").unwrap();
    });
    says(&opened.unwrap_err(), Kind::Corrupt, &["tree.redb is not a tree of ingestd"]);
    let database = Database::open(dir.path().join("tree.redb")).unwrap();
    let read = database.begin_read().unwrap();
    assert_eq!(read.list_tables().unwrap().count(), 1);
    assert_eq!(read.open_table(USERS).unwrap().get("ann").unwrap().unwrap().value(), "admin");
}

#[test]
fn a_table_of_the_same_name_and_another_type_is_refused() {
    let (opened, _dir) = open_after(|write| {
        let meta = TableDefinition::<u64, &str>::new("meta");
        write.open_table(meta).unwrap().insert(1, "format").unwrap();
    });
    says(&opened.unwrap_err(), Kind::Corrupt, &["tree.redb is not a tree of ingestd"]);
}

#[test]
fn an_unknown_format_is_refused_with_both_numbers() {
    for (format, found) in [(Some(99), "99"), (Some(0), "0"), (None, "none")] {
        let (opened, _dir) = open_after(|write| {
            let mut meta = write.open_table(META).unwrap();
            meta.insert("zxid", 7).unwrap();
            if let Some(format) = format {
                meta.insert("format", format).unwrap();
            }
        });
        let parts = [&format!("tree.redb has format {found}, and this program knows format 1")[..]];
        says(&opened.unwrap_err(), Kind::Corrupt, &parts);
    }
}

#[test]
fn a_tree_that_lacks_a_table_is_damaged() {
    let (opened, _dir) = open_after(|write| {
        write.open_table(META).unwrap().insert("format", 1).unwrap();
    });
    says(&opened.unwrap_err(), Kind::Corrupt, &["tree.redb"]);
}

#[tokio::test]
async fn a_record_that_is_too_short_is_damaged() {
    let (opened, _dir) = open_after(|write| {
        write.open_table(META).unwrap().insert("format", 1).unwrap();
        write.open_table(EPHEMERALS).unwrap();
        write.open_table(NODES).unwrap().insert(&b""[..], &b"abc"[..]).unwrap();
    });
    let session = Session::open(Arc::new(opened.unwrap()), Limits::default()).await.unwrap();
    for error in [
        session.get("/").await.map(drop).unwrap_err(),
        session.create("/a", "", Mode::Persistent).await.map(drop).unwrap_err(),
    ] {
        says(&error, Kind::Corrupt, &["a node's record has only 3 bytes"]);
    }
}

#[test]
fn a_directory_that_cannot_be_written_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    for bad in [file.join("tree"), file, PathBuf::from("/proc/ingest-tree")] {
        let error = Embedded::open(&EmbeddedConfig::new(&bad)).unwrap_err();
        let name = bad.display().to_string();
        says(&error, Kind::Disk, &[&name, "the embedded store needs a directory that it can write"]);
    }
    fs::create_dir(dir.path().join("tree.redb")).unwrap();
    let error = Embedded::open(&EmbeddedConfig::new(dir.path())).unwrap_err();
    says(&error, Kind::Disk, &["tree.redb", "the embedded store needs a directory that it can write"]);
}
