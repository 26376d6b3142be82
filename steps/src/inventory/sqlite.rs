//! The embedded inventory: an SQLite file.
//!
//! One connection writes, a few read, and readers never wait for the writer (WAL). A commit is on the disk
//! before it is answered. Several processes may use the file on one machine; never put it on a network file
//! system.
//!
//! **When things break.** Those who open a new file at the same moment wait for each other. A writer that waits longer than [`PATIENCE`] for another process is put off, and so
//! is a full or failing disk. A file that is no database, or a damaged one, fails: restore it.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt;
use futures::future::BoxFuture;
use sqlx::sqlite::{
    Sqlite, SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous,
};

use super::engine::{Engine, Row, Sql, Transaction, Value, inventory_of, transaction_of};
use super::{Inventory, Object, Record, Recorded, ledger, reading, recording, repository, tables};
use crate::ark::Ark;
use crate::outcome::{Failure, Result};

/// How long one waits for the database or for a connection to it.
pub const PATIENCE: Duration = Duration::from_secs(30);

const READERS: u32 = 4;

/// An inventory in a file.
#[derive(Debug)]
pub struct SqliteInventory {
    /// One connection: of several one would write and the others wait for the file.
    writer: SqlitePool,
    readers: SqlitePool,
    place: Arc<str>,
}

transaction_of!(SqliteTransaction, Sqlite, failure);
inventory_of!(SqliteInventory);

impl SqliteInventory {
    /// Opens the file, makes it if it is not there, and brings its tables up to date.
    pub async fn open(path: &Path) -> Result<Self> {
        let place: Arc<str> = path.display().to_string().into();
        let options = SqliteConnectOptions::new()
            .filename(path)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(PATIENCE)
            .foreign_keys(true);
        let pool =
            |connections| SqlitePoolOptions::new().max_connections(connections).acquire_timeout(PATIENCE);
        let writer = in_turn(pool(1), &options).await.map_err(|error| failure(&place, error))?;
        let readers = pool(READERS).connect_lazy_with(options.pragma("query_only", "ON"));
        let inventory = Self { writer, readers, place };
        let mut transaction = inventory.write().await?;
        tables::migrate(&mut *transaction, tables::MIGRATIONS)
            .await
            .map_err(|failure| failure.during(&inventory.place))?;
        transaction.commit().await?;
        Ok(inventory)
    }

    /// Waits for what is under way and closes the file.
    pub async fn close(&self) {
        self.readers.close().await;
        self.writer.close().await;
    }

    async fn begin(&self, pool: &SqlitePool, how: &'static str) -> Result<Box<dyn Transaction>> {
        let inner = pool.begin_with(how).await.map_err(|error| failure(&self.place, error))?;
        Ok(Box::new(SqliteTransaction { inner, place: self.place.clone() }))
    }
}

impl Engine for SqliteInventory {
    /// The lock is taken at the beginning: one that is taken later cannot be waited for.
    fn write(&self) -> BoxFuture<'_, Result<Box<dyn Transaction>>> {
        self.begin(&self.writer, "BEGIN IMMEDIATE").boxed()
    }

    fn read(&self) -> BoxFuture<'_, Result<Box<dyn Transaction>>> {
        self.begin(&self.readers, "BEGIN DEFERRED").boxed()
    }
}

/// Whoever opens a new file first brings it into its mode, and whoever comes at that very moment is refused at once and not made to
/// wait as later: it tries again for as long as one waits otherwise.
async fn in_turn(pool: SqlitePoolOptions, options: &SqliteConnectOptions) -> sqlx::Result<SqlitePool> {
    let (began, mut pause) = (Instant::now(), FIRST_PAUSE);
    loop {
        match pool.clone().connect_with(options.clone()).await {
            Err(error) if code(&error) == Some(BUSY) && began.elapsed() < PATIENCE => {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
            answer => return answer,
        }
    }
}

const BUSY: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// The primary code of what the database says: the lower byte, the rest says more of it.
fn code(error: &sqlx::Error) -> Option<u32> {
    let code: u32 = error.as_database_error()?.code()?.parse().ok()?;
    Some(code & 0xff)
}

/// Another process is at it, perhaps one that is stopped: nothing is wrong with this job.
const IN_THE_WAY: [u32; 2] = [BUSY, 6];
/// The primary codes that pass, or are repaired without a change to the file: a failing disk, a full one.
const PASSING: [u32; 2] = [10, 13];

#[allow(clippy::needless_pass_by_value, reason = "it is the end of the error")]
fn failure(place: &str, error: sqlx::Error) -> Failure {
    let why = format!("the inventory {place}: {error}");
    // Or those of this process who wait for the one connection that writes.
    let waits = matches!(error, sqlx::Error::PoolTimedOut);
    if waits || code(&error).is_some_and(|code| IN_THE_WAY.contains(&code)) {
        return Failure::Again(why);
    }
    let passes = match &error {
        sqlx::Error::Database(_) => code(&error).is_some_and(|code| PASSING.contains(&code)),
        sqlx::Error::Io(_)
        | sqlx::Error::WorkerCrashed
        | sqlx::Error::PoolClosed
        | sqlx::Error::BeginFailed => true,
        _ => false,
    };
    if passes { Failure::Later(why) } else { Failure::Fail(why) }
}

#[cfg(test)]
mod tests {
    use sqlx::ConnectOptions as _;

    use super::*;

    #[tokio::test]
    async fn a_job_is_taken_again_while_another_process_has_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let options = SqliteConnectOptions::new().filename(dir.path().join("inventory.sqlite"));
        let options = options.create_if_missing(true).busy_timeout(Duration::ZERO);
        let (mut first, mut second) = (options.connect().await.unwrap(), options.connect().await.unwrap());
        sqlx::query("BEGIN IMMEDIATE").execute(&mut first).await.unwrap();
        let refused = sqlx::query("BEGIN IMMEDIATE").execute(&mut second).await.unwrap_err();
        assert!(matches!(failure("here", refused), Failure::Again(_)));
        assert!(matches!(failure("here", sqlx::Error::PoolTimedOut), Failure::Again(_)));
        assert!(matches!(failure("here", sqlx::Error::PoolClosed), Failure::Later(_)));
    }
}
