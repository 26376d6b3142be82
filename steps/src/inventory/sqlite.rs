//! The embedded inventory: an SQLite file.
//!
//! One connection writes, a few read, and readers never wait for the writer (WAL). A commit is on the disk
//! before it is answered. Several processes may use the file on one machine; never put it on a network file
//! system.
//!
//! **When things break.** A writer that waits longer than [`PATIENCE`] for another process is put off, and so
//! is a full or failing disk. A file that is no database, or a damaged one, fails: restore it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use sqlx::sqlite::{
    Sqlite, SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous,
};

use super::engine::{Engine, Row, Sql, Transaction, Value, inventory_of, transaction_of};
use super::{Inventory, Object, Record, Recorded, reading, recording, tables};
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
        let writer = pool(1).connect_with(options.clone()).await.map_err(|error| failure(&place, error))?;
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

/// The primary codes that pass, or are repaired without a change to the file: busy, locked, a failing disk, a
/// full one.
const PASSING: [u32; 4] = [5, 6, 10, 13];

#[allow(clippy::needless_pass_by_value, reason = "it is the end of the error")]
fn failure(place: &str, error: sqlx::Error) -> Failure {
    let why = format!("the inventory {place}: {error}");
    let passes = match &error {
        // The lower byte is the primary code, the rest says more of it.
        sqlx::Error::Database(error) => error
            .code()
            .and_then(|code| code.parse::<u32>().ok())
            .is_some_and(|code| PASSING.contains(&(code & 0xff))),
        sqlx::Error::Io(_)
        | sqlx::Error::WorkerCrashed
        | sqlx::Error::PoolTimedOut
        | sqlx::Error::PoolClosed
        | sqlx::Error::BeginFailed => true,
        _ => false,
    };
    if passes { Failure::Later(why) } else { Failure::Fail(why) }
}
