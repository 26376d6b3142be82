//! The tables, and how they came to be: migrations that are part of the program.
//!
//! `schema_version` holds a row for each migration that was done. Opening the inventory does those that are
//! missing, all in one transaction that only one node has at a time. A migration that was released is never
//! changed: what is to be different is another migration at the end.
//!
//! **When things break.** A migration that fails leaves the tables as they were. A database of a newer program
//! is refused: this one does not know what it may do there.

use ingest_queue::date::Clock;

use super::engine::{Sql, Transaction, Value};
use crate::outcome::{Failure, Result};

/// What is done at once by all that came before, and its statements.
type Migration = &'static [&'static str];

/// The first has the number 1.
pub(super) const MIGRATIONS: &[Migration] = &[
    &[
        // The head is the newest version; 0 only inside of the transaction that makes the object.
        "CREATE TABLE objects (
            ark TEXT NOT NULL PRIMARY KEY,
            owner TEXT NOT NULL,
            collection TEXT NOT NULL,
            head BIGINT NOT NULL
        )",
        "CREATE TABLE versions (
            ark TEXT NOT NULL REFERENCES objects (ark),
            version BIGINT NOT NULL CHECK (version > 0),
            idempotency_key TEXT NOT NULL,
            title TEXT,
            creator TEXT,
            date TEXT,
            PRIMARY KEY (ark, version),
            UNIQUE (ark, idempotency_key)
        )",
        // By number and not by path: a path may be longer than an index holds.
        "CREATE TABLE files (
            ark TEXT NOT NULL,
            version BIGINT NOT NULL,
            number BIGINT NOT NULL,
            path TEXT NOT NULL,
            size BIGINT NOT NULL CHECK (size >= 0),
            mime TEXT,
            PRIMARY KEY (ark, version, number),
            FOREIGN KEY (ark, version) REFERENCES versions (ark, version)
        )",
        "CREATE TABLE digests (
            ark TEXT NOT NULL,
            version BIGINT NOT NULL,
            number BIGINT NOT NULL,
            algorithm TEXT NOT NULL,
            value TEXT NOT NULL,
            PRIMARY KEY (ark, version, number, algorithm),
            FOREIGN KEY (ark, version, number) REFERENCES files (ark, version, number)
        )",
        "CREATE TABLE local_ids (
            owner TEXT NOT NULL,
            local_id TEXT NOT NULL,
            ark TEXT NOT NULL REFERENCES objects (ark),
            PRIMARY KEY (owner, local_id)
        )",
        "CREATE TABLE ingests (
            ark TEXT NOT NULL,
            version BIGINT NOT NULL,
            bid TEXT NOT NULL,
            jid TEXT NOT NULL,
            submitter TEXT NOT NULL,
            profile TEXT NOT NULL,
            at TEXT NOT NULL,
            PRIMARY KEY (ark, version),
            FOREIGN KEY (ark, version) REFERENCES versions (ark, version)
        )",
    ],
    &[
        "CREATE INDEX local_ids_of_an_object ON local_ids (ark)",
        "CREATE INDEX objects_of_an_owner ON objects (owner, collection)",
        "CREATE INDEX ingests_of_a_batch ON ingests (bid, jid)",
    ],
    &[
        // For each counter of the tree, the first number that was never used.
        "CREATE TABLE counters (name TEXT NOT NULL PRIMARY KEY, next BIGINT NOT NULL)",
        "INSERT INTO counters (name, next)
            SELECT 'batches', COALESCE(MAX(CAST(SUBSTR(bid, 4) AS BIGINT)) + 1, 0) FROM ingests",
        "INSERT INTO counters (name, next)
            SELECT 'jobs', COALESCE(MAX(CAST(SUBSTR(jid, 4) AS BIGINT)) + 1, 0) FROM ingests",
    ],
    &[
        // Versions that were stored, and whose job never recorded them: kept, and not served.
        "CREATE TABLE superseded (
            ark TEXT NOT NULL,
            version BIGINT NOT NULL,
            PRIMARY KEY (ark, version),
            FOREIGN KEY (ark, version) REFERENCES versions (ark, version)
        )",
        "CREATE TABLE repository (
            number BIGINT NOT NULL PRIMARY KEY CHECK (number = 1),
            id TEXT NOT NULL,
            created TEXT NOT NULL
        )",
        // Jobs that the tree has lost, and those that do their work.
        "CREATE TABLE replaced_jobs (jid TEXT NOT NULL PRIMARY KEY, replacement TEXT NOT NULL)",
        "CREATE INDEX jobs_by_replacement ON replaced_jobs (replacement)",
    ],
];

/// Does the migrations that are missing. The transaction is alone in the database.
pub(super) async fn migrate(transaction: &mut dyn Transaction, migrations: &[Migration]) -> Result<()> {
    let table =
        "CREATE TABLE IF NOT EXISTS schema_version (version BIGINT NOT NULL PRIMARY KEY, at TEXT NOT NULL)";
    transaction.execute(table.into(), Vec::new()).await?;
    let newest = "SELECT COALESCE(MAX(version), 0) FROM schema_version";
    let rows = transaction.rows(newest.into(), Vec::new()).await?;
    let done: usize = rows.first().map_or(Ok(0), |row| row.number(0))?;
    if done > migrations.len() {
        return Err(Failure::fail(format!(
            "the inventory's tables are of version {done}, and this program knows only {}: use the newer program",
            migrations.len()
        )));
    }
    for (number, migration) in (1_u32..).zip(migrations).skip(done) {
        for statement in *migration {
            let done = transaction.execute((*statement).into(), Vec::new()).await;
            done.map_err(|failure| failure.during(format!("migration {number} of the inventory")))?;
        }
        let values = vec![number.into(), Value::Text(Clock::system().now().to_string())];
        transaction
            .execute("INSERT INTO schema_version (version, at) VALUES ($1, $2)".into(), values)
            .await?;
    }
    Ok(())
}

/// How many rows one statement may have: SQLite binds at most 32,766 values.
const ROWS: usize = 1_000;
const _: () = assert!(ROWS * 8 < 32_766);

/// Inserts rows, many at a time. `end` follows the values.
pub(super) async fn insert(
    transaction: &mut dyn Transaction,
    into: &'static str,
    columns: usize,
    rows: Vec<Vec<Value>>,
    end: &'static str,
) -> Result<()> {
    let mut rows = rows.into_iter().peekable();
    while rows.peek().is_some() {
        let some: Vec<_> = rows.by_ref().take(ROWS).collect();
        let groups: Vec<_> = (0..some.len()).map(|row| group(row * columns, columns)).collect();
        let sql = format!("INSERT INTO {into} VALUES {} {end}", groups.join(", "));
        transaction.execute(Sql::Owned(sql), some.into_iter().flatten().collect()).await?;
    }
    Ok(())
}

/// `($4, $5, $6)`: so many places after the first so many.
pub(super) fn group(after: usize, count: usize) -> String {
    let places: Vec<_> = (after + 1..=after + count).map(|place| format!("${place}")).collect();
    format!("({})", places.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_go_on_counting() {
        assert_eq!((group(0, 1), group(3, 3)), ("($1)".to_owned(), "($4, $5, $6)".to_owned()));
    }
}
