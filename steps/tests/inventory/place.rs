//! A new, empty database of either kind, and how to look into it past the inventory.

use std::path::PathBuf;

use ingest_steps::inventory::Inventory;
use ingest_steps::inventory::postgres::PostgresInventory;
use ingest_steps::inventory::sqlite::SqliteInventory;
use ingest_steps::outcome::Result;
use sqlx::{AssertSqlSafe, Connection, PgConnection, Row, SqliteConnection};
use tempfile::TempDir;

use crate::server::Server;

pub(crate) enum Place {
    Sqlite(TempDir),
    Postgres { url: String },
}

impl Place {
    pub(crate) fn sqlite() -> Self {
        Place::Sqlite(tempfile::tempdir().unwrap())
    }

    pub(crate) async fn postgres() -> Self {
        Place::Postgres { url: Server::shared().database().await }
    }

    /// Another node's inventory with each call.
    pub(crate) async fn try_open(&self) -> Result<Box<dyn Inventory>> {
        match self {
            Place::Sqlite(_) => Ok(Box::new(SqliteInventory::open(&self.file()).await?)),
            Place::Postgres { url } => Ok(Box::new(PostgresInventory::open(url, 2).await?)),
        }
    }

    pub(crate) async fn open(&self) -> Box<dyn Inventory> {
        self.try_open().await.unwrap()
    }

    pub(crate) fn file(&self) -> PathBuf {
        match self {
            Place::Sqlite(dir) => dir.path().join("inventory.sqlite"),
            Place::Postgres { url } => panic!("{url} is no file"),
        }
    }

    pub(crate) async fn execute(&self, sql: &str) {
        let sql = AssertSqlSafe(sql.to_owned());
        match self {
            Place::Sqlite(_) => {
                let mut connection = self.sqlite_connection().await;
                sqlx::raw_sql(sql).execute(&mut connection).await.unwrap();
            }
            Place::Postgres { url } => {
                let mut connection = PgConnection::connect(url).await.unwrap();
                sqlx::raw_sql(sql).execute(&mut connection).await.unwrap();
            }
        }
    }

    /// The only column of a query, which is a number.
    pub(crate) async fn numbers(&self, sql: &str) -> Vec<i64> {
        let sql = AssertSqlSafe(sql.to_owned());
        match self {
            Place::Sqlite(_) => {
                let rows = sqlx::query(sql).fetch_all(&mut self.sqlite_connection().await).await.unwrap();
                rows.iter().map(|row| row.get(0)).collect()
            }
            Place::Postgres { url } => {
                let mut connection = PgConnection::connect(url).await.unwrap();
                let rows = sqlx::query(sql).fetch_all(&mut connection).await.unwrap();
                rows.iter().map(|row| row.get(0)).collect()
            }
        }
    }

    /// How many rows all tables of the inventory have.
    pub(crate) async fn rows(&self) -> i64 {
        let mut all = 0;
        for table in ["objects", "versions", "files", "digests", "local_ids", "ingests"] {
            all += self.numbers(&format!("SELECT COUNT(*) FROM {table}")).await[0];
        }
        all
    }

    pub(crate) async fn sqlite_connection(&self) -> SqliteConnection {
        SqliteConnection::connect(&format!("sqlite://{}", self.file().display())).await.unwrap()
    }
}

/// Runs each of these behaviours on a new database of either kind.
macro_rules! on_both_databases {
    ($($behaviour:ident),+ $(,)?) => {
        mod on_sqlite {
            $(#[tokio::test]
            async fn $behaviour() {
                super::$behaviour(&$crate::place::Place::sqlite()).await;
            })+
        }

        mod on_postgres {
            $(#[tokio::test]
            async fn $behaviour() {
                super::$behaviour(&$crate::place::Place::postgres().await).await;
            })+
        }
    };
}
pub(crate) use on_both_databases;
