//! The inventory of many nodes: a PostgreSQL database.
//!
//! Nodes that record one object wait for each other at its row, and those that claim one local id at that;
//! all others do not meet. The tables are made in the first schema of the user's search path.
//!
//! **When things break.** A server that is away, restarts or is out of resources puts the work off, and so does
//! a lock that is not free within [`PATIENCE`]. The server ends transactions of nodes that have vanished
//! after twice that time.

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions, Postgres};

use super::engine::{Engine, Row, Sql, Transaction, Value, inventory_of, transaction_of};
use super::{Inventory, Object, Record, Recorded, ledger, reading, recording, repository, tables};
use crate::ark::Ark;
use crate::outcome::{Failure, Result};

/// How long one waits for a connection or for a lock.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// The advisory lock of migrations; any number that nobody else in this database uses.
const MIGRATING: i64 = 0x1_4e5e_57ed;

/// The same for each transaction that writes. In seconds of [`PATIENCE`].
const BOUNDS: &str = "SELECT set_config('lock_timeout', $1, true), set_config('idle_in_transaction_session_timeout', $2, true)";

/// An inventory on a server.
#[derive(Debug)]
pub struct PostgresInventory {
    pool: PgPool,
    place: Arc<str>,
}

transaction_of!(PostgresTransaction, Postgres, failure);
inventory_of!(PostgresInventory);

impl PostgresInventory {
    /// Connects to `postgres://USER:PASSWORD@HOST/DATABASE`, with at most so many connections, and brings the
    /// tables up to date.
    pub async fn open(url: &str, connections: u32) -> Result<Self> {
        // Not the text itself, which has a password in it.
        let options = PgConnectOptions::from_str(url)
            .map_err(|error| Failure::fail(format!("the URL of the inventory cannot be read: {error}")))?;
        let host = options.get_socket().map_or(options.get_host().into(), |socket| socket.to_string_lossy());
        let database = options.get_database().unwrap_or(options.get_username());
        let place: Arc<str> = format!("{database} on {host}").into();
        let pool = PgPoolOptions::new()
            .max_connections(connections.max(1))
            .acquire_timeout(PATIENCE)
            .connect_with(options)
            .await
            .map_err(|error| failure(&place, error))?;
        let inventory = Self { pool, place };
        let mut transaction = inventory.write().await?;
        let alone = "SELECT CAST(pg_advisory_xact_lock($1) AS TEXT)";
        transaction.rows(alone.into(), vec![Value::Number(MIGRATING)]).await?;
        tables::migrate(&mut *transaction, tables::MIGRATIONS)
            .await
            .map_err(|failure| failure.during(&inventory.place))?;
        transaction.commit().await?;
        Ok(inventory)
    }

    /// Waits for what is under way and closes the connections.
    pub async fn close(&self) {
        self.pool.close().await;
    }

    async fn begin(&self, how: &'static str) -> Result<Box<dyn Transaction>> {
        let inner = self.pool.begin_with(how).await.map_err(|error| failure(&self.place, error))?;
        Ok(Box::new(PostgresTransaction { inner, place: self.place.clone() }))
    }
}

impl Engine for PostgresInventory {
    fn write(&self) -> BoxFuture<'_, Result<Box<dyn Transaction>>> {
        async move {
            let mut transaction = self.begin("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE").await?;
            let seconds = |times: u64| Value::Text(format!("{}s", PATIENCE.as_secs() * times));
            transaction.rows(BOUNDS.into(), vec![seconds(1), seconds(2)]).await?;
            Ok(transaction)
        }
        .boxed()
    }

    fn read(&self) -> BoxFuture<'_, Result<Box<dyn Transaction>>> {
        self.begin("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").boxed()
    }
}

/// The classes of errors that pass: connections, rolled back for others, resources, operators, locks.
const PASSING: [&str; 5] = ["08", "40", "53", "57", "55"];

#[allow(clippy::needless_pass_by_value, reason = "it is the end of the error")]
fn failure(place: &str, error: sqlx::Error) -> Failure {
    let why = format!("the inventory {place}: {error}");
    let passes = match &error {
        sqlx::Error::Database(error) => {
            error.code().is_some_and(|code| PASSING.iter().any(|class| code.starts_with(class)))
        }
        sqlx::Error::Io(_)
        | sqlx::Error::Tls(_)
        | sqlx::Error::WorkerCrashed
        | sqlx::Error::PoolTimedOut
        | sqlx::Error::PoolClosed
        | sqlx::Error::BeginFailed => true,
        _ => false,
    };
    if passes { Failure::Later(why) } else { Failure::Fail(why) }
}
