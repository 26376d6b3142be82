//! Every row of an object in the inventory deleted, and every value of it changed: the verdict on each.

use ingest_steps::audit::verdict::Verdict::{self, Altered, Lost, RolledBack, Sound, Unrecorded};

use crate::fixture::{FIRST, Fixture, SECOND};
use crate::objects::ARK;
use crate::place::Place;

const TABLES: [&str; 6] = ["objects", "versions", "files", "digests", "local_ids", "ingests"];

/// Statements past all constraints, as damage is.
async fn damage(place: &Place, sql: &str) {
    let unbound = match place {
        Place::Sqlite(_) => "PRAGMA foreign_keys = OFF",
        Place::Postgres { .. } => "SET session_replication_role = replica",
    };
    place.execute(&format!("{unbound}; {sql}")).await;
}

async fn keep(place: &Place) {
    for table in TABLES {
        place.execute(&format!("CREATE TABLE kept_{table} AS SELECT * FROM {table}")).await;
    }
}

async fn restore(place: &Place) {
    for table in TABLES {
        damage(place, &format!("DELETE FROM {table}; INSERT INTO {table} SELECT * FROM kept_{table}")).await;
    }
}

/// Each with a condition that finds its row.
fn every_row() -> Vec<(&'static str, String)> {
    let mut rows = vec![("objects", String::new()), ("local_ids", String::new())];
    for (version, files) in [(1, FIRST.len()), (2, SECOND.len())] {
        rows.extend([("versions", format!(" AND version = {version}"))]);
        rows.extend([("ingests", format!(" AND version = {version}"))]);
        for number in 0..files {
            let at = format!(" AND version = {version} AND number = {number}");
            rows.extend([("files", at.clone()), ("digests", at)]);
        }
    }
    rows
}

async fn every_damage_has_its_verdict(fixture: Fixture) {
    let of = format!("WHERE ark = '{ARK}'");
    let mut table: Vec<(String, Verdict)> = Vec::new();
    for (name, at) in every_row() {
        let verdict = match name {
            "objects" | "versions" | "files" => Unrecorded,
            // Nothing that is stored says which local ids an object has.
            "local_ids" => Sound,
            _ => Altered,
        };
        table.push((format!("DELETE FROM {name} {of}{at}"), verdict));
        let changes: &[(&str, Verdict)] = match name {
            "objects" => &[("head = 0", Altered), ("head = 1", Altered), ("head = 3", RolledBack)],
            "files" => &[("size = size + 1", Altered), ("path = 'another'", Lost)],
            "digests" => &[
                ("value = SUBSTR(value, 2) || SUBSTR(value, 1, 1)", Altered),
                ("value = 'nonsense'", Altered),
                ("algorithm = 'nonsense'", Altered),
                ("algorithm = 'md5', value = SUBSTR(value, 1, 32)", Altered),
            ],
            _ => &[],
        };
        table.extend(
            changes.iter().map(|(set, verdict)| (format!("UPDATE {name} SET {set} {of}{at}"), *verdict)),
        );
    }
    let all = |at: &str| {
        let delete = |table: &&str| format!("DELETE FROM {table} {of}{at}");
        let tables: &[_] = if at.is_empty() { &TABLES } else { &["versions", "files", "digests", "ingests"] };
        tables.iter().map(delete).collect::<Vec<_>>().join("; ")
    };
    table.push((all(" AND version = 2"), Unrecorded));
    table.push((all(" AND version = 1"), Unrecorded));
    table.push((format!("{}; UPDATE objects SET head = 1 {of}", all(" AND version = 2")), Unrecorded));
    table.push((all(""), Unrecorded));

    keep(&fixture.database).await;
    for (sql, expected) in table {
        damage(&fixture.database, &sql).await;
        let (verdict, why) = fixture.verdict().await;
        assert_eq!(verdict, expected, "{sql}: {why:#?}");
        restore(&fixture.database).await;
    }
    assert_eq!(fixture.verdict().await.0, Sound);
}

#[tokio::test]
async fn every_damage_of_the_rows_has_its_verdict_on_sqlite_and_ocfl() {
    every_damage_has_its_verdict(Fixture::ocfl(Place::sqlite()).await.filled().await).await;
}

#[tokio::test]
async fn every_damage_of_the_rows_has_its_verdict_on_postgres_and_ocfl() {
    every_damage_has_its_verdict(Fixture::ocfl(Place::postgres().await).await.filled().await).await;
}

#[tokio::test]
async fn every_damage_of_the_rows_has_its_verdict_on_sqlite_and_s3() {
    every_damage_has_its_verdict(Fixture::s3(Place::sqlite()).await.filled().await).await;
}

/// One wrong row is a finding, and the objects after it are audited.
#[tokio::test]
async fn a_row_that_names_no_object_is_told_and_hides_nothing() {
    for place in [Place::sqlite(), Place::postgres().await] {
        let fixture = Fixture::ocfl(place).await.filled().await;
        let sql = "INSERT INTO objects (ark, owner, collection, head) VALUES ('a stranger', 'o', 'c', 1)";
        fixture.database.execute(sql).await;
        let found = crate::fixture::audit(&fixture.auditor(), ingest_steps::audit::Scope::All).await.unwrap();
        assert_eq!(found.len(), 3);
        let stranger = found.iter().find(|found| found.ark == "a stranger").unwrap();
        assert_eq!(stranger.verdict, Altered);
        assert!(stranger.findings[0].what.contains("is no ARK"), "{stranger:?}");
        assert_eq!(found.iter().filter(|found| found.verdict == Sound).count(), 2);
    }
}
