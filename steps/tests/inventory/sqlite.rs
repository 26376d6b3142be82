//! What is special about a file.

use ingest_steps::inventory::Inventory;
use ingest_steps::inventory::sqlite::SqliteInventory;
use ingest_steps::outcome::Failure;

use crate::place::Place;
use crate::{ark, record};

#[tokio::test]
async fn readers_do_not_wait_for_a_writer() {
    let place = Place::sqlite();
    let inventory = place.open().await;
    inventory.record(&record("m5a", 1, 1)).await.unwrap();
    let mut writer = place.sqlite_connection().await;
    sqlx::raw_sql("BEGIN EXCLUSIVE; DELETE FROM ingests").execute(&mut writer).await.unwrap();
    let object = inventory.object(&ark("m5a")).await.unwrap().unwrap();
    assert_eq!(object.versions.len(), 1, "what is not committed is not seen");
}

#[tokio::test]
async fn a_commit_survives_a_node_that_is_never_closed() {
    let place = Place::sqlite();
    let inventory = place.open().await;
    inventory.record(&record("m5a", 1, 1)).await.unwrap();
    let copy = tempfile::tempdir().unwrap();
    for file in std::fs::read_dir(place.file().parent().unwrap()).unwrap() {
        let file = file.unwrap();
        // The shared memory is not a part of what is kept.
        if !file.file_name().to_string_lossy().ends_with("-shm") {
            std::fs::copy(file.path(), copy.path().join(file.file_name())).unwrap();
        }
    }
    let copy = Place::Sqlite(copy);
    let again = copy.open().await;
    assert!(again.object(&ark("m5a")).await.unwrap().is_some());
}

#[tokio::test]
async fn a_file_that_is_no_database_is_refused_and_not_touched() {
    let place = Place::sqlite();
    let text = "This is a letter and not a database.\n".repeat(100);
    std::fs::write(place.file(), &text).unwrap();
    let Err(Failure::Fail(why)) = place.try_open().await else { panic!("it was opened") };
    assert!(why.contains("inventory.sqlite"), "{why}");
    assert_eq!(std::fs::read_to_string(place.file()).unwrap(), text);
}

#[tokio::test]
async fn a_directory_that_is_missing_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("missing/inventory.sqlite");
    let failure = SqliteInventory::open(&path).await.unwrap_err();
    assert!(failure.to_string().contains("missing/inventory.sqlite"), "{failure}");
}

#[tokio::test]
async fn a_closed_inventory_puts_work_off() {
    let place = Place::sqlite();
    let inventory = SqliteInventory::open(&place.file()).await.unwrap();
    inventory.close().await;
    let failure = inventory.record(&record("m5a", 1, 1)).await.unwrap_err();
    assert!(matches!(failure, Failure::Later(_)), "{failure:?}");
}

#[tokio::test]
async fn rows_that_make_no_sense_are_shown_and_not_guessed() {
    let place = Place::sqlite();
    let inventory = place.open().await;
    inventory.record(&record("m5a", 1, 1)).await.unwrap();
    place.execute("UPDATE digests SET value = 'xyz'").await;
    let Err(Failure::Fail(why)) = inventory.object(&ark("m5a")).await else { panic!("it was read") };
    assert!(why.contains("holds what it should not") && why.contains("xyz"), "{why}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nodes_that_make_a_new_file_at_the_same_moment_wait_for_each_other() {
    let dir = tempfile::tempdir().unwrap();
    for round in 0..20 {
        let path = dir.path().join(format!("{round}.sqlite"));
        let open = || {
            let path = path.clone();
            tokio::spawn(async move { SqliteInventory::open(&path).await })
        };
        let opened: Vec<_> = (0..8).map(|_| open()).collect();
        for one in opened {
            one.await.unwrap().unwrap().close().await;
        }
    }
}
