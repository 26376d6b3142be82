//! Tables of no, an older, the same and a newer program.

use ingest_steps::outcome::Failure;

use crate::place::{Place, on_both_databases};
use crate::{ark, record};

const DONE: &str = "SELECT version FROM schema_version ORDER BY version";

async fn opening_again_does_nothing(place: &Place) {
    place.open().await.record(&record("m5a", 1, 1)).await.unwrap();
    let inventory = place.open().await;
    assert_eq!(place.numbers(DONE).await, [1, 2, 3, 4]);
    assert!(inventory.object(&ark("m5a")).await.unwrap().is_some());
}

async fn eight_nodes_may_open_a_new_database_at_once(place: &Place) {
    let opened = futures::future::join_all((0..8).map(|_| place.try_open())).await;
    assert!(opened.iter().all(Result::is_ok), "{opened:?}");
    assert_eq!(place.numbers(DONE).await, [1, 2, 3, 4]);
}

async fn tables_of_an_older_program_are_brought_up_to_date(place: &Place) {
    place.open().await.record(&record("m5a", 1, 1)).await.unwrap();
    // As the first migration left them.
    for index in ["local_ids_of_an_object", "objects_of_an_owner", "ingests_of_a_batch"] {
        place.execute(&format!("DROP INDEX {index}")).await;
    }
    for table in ["counters", "superseded", "repository", "replaced_jobs"] {
        place.execute(&format!("DROP TABLE {table}")).await;
    }
    place.execute("DELETE FROM schema_version WHERE version >= 2").await;
    let inventory = place.open().await;
    assert_eq!(place.numbers(DONE).await, [1, 2, 3, 4]);
    place.execute("DROP INDEX local_ids_of_an_object").await;
    assert!(inventory.object(&ark("m5a")).await.unwrap().is_some(), "what was recorded stays");
    let used = [("batches".to_owned(), 4), ("jobs".to_owned(), 2)].into();
    assert_eq!(inventory.counters().await.unwrap(), used, "numbers that were used before are known");
}

async fn tables_of_a_newer_program_are_refused(place: &Place) {
    place.open().await;
    place.execute("INSERT INTO schema_version (version, at) VALUES (77, '')").await;
    let Err(Failure::Fail(why)) = place.try_open().await else { panic!("it was opened") };
    assert!(why.contains("of version 77") && why.contains("use the newer program"), "{why}");
}

async fn a_migration_that_fails_leaves_the_tables_as_they_were(place: &Place) {
    // In the way of the second migration.
    place.open().await;
    for index in ["local_ids_of_an_object", "ingests_of_a_batch"] {
        place.execute(&format!("DROP INDEX {index}")).await;
    }
    place.execute("DELETE FROM schema_version WHERE version >= 2").await;
    let Err(Failure::Fail(why)) = place.try_open().await else { panic!("it was opened") };
    assert!(why.contains("migration 2 of the inventory"), "{why}");
    assert_eq!(place.numbers(DONE).await, [1]);
    // It would be there already if the first statement of the migration had stayed.
    place.execute("CREATE INDEX local_ids_of_an_object ON local_ids (ark)").await;
}

on_both_databases!(
    opening_again_does_nothing,
    eight_nodes_may_open_a_new_database_at_once,
    tables_of_an_older_program_are_brought_up_to_date,
    tables_of_a_newer_program_are_refused,
    a_migration_that_fails_leaves_the_tables_as_they_were,
);
