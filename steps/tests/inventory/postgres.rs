//! What is special about a server.

use ingest_steps::inventory::Inventory;
use ingest_steps::inventory::postgres::PostgresInventory;
use ingest_steps::outcome::Failure;
use sqlx::{Connection, PgConnection};

use crate::place::Place;
use crate::record;
use crate::server::Server;

#[tokio::test]
async fn a_server_that_is_gone_puts_work_off() {
    let mut server = Server::start();
    let inventory = PostgresInventory::open(&server.database().await, 2).await.unwrap();
    inventory.record(&record("m5a", 1, 1)).await.unwrap();
    server.stop();
    let failure = inventory.record(&record("m5a", 2, 2)).await.unwrap_err();
    assert!(matches!(failure, Failure::Later(_)), "{failure:?}");
}

#[tokio::test]
async fn connections_that_were_ended_are_made_again() {
    let place = Place::postgres().await;
    let Place::Postgres { url } = &place else { panic!() };
    let inventory = PostgresInventory::open(url, 1).await.unwrap();
    inventory.record(&record("m5a", 1, 1)).await.unwrap();
    let mut admin = PgConnection::connect(url).await.unwrap();
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid()";
    sqlx::raw_sql(end).execute(&mut admin).await.unwrap();
    // The first to notice may be this one: then it is put off, and the next is not.
    match inventory.record(&record("m5b", 1, 2)).await {
        Ok(_) | Err(Failure::Later(_)) => {}
        other => panic!("{other:?}"),
    }
    inventory.record(&record("m5b", 1, 2)).await.unwrap();
}

#[tokio::test]
async fn a_database_that_is_not_there_is_named_and_the_password_is_not() {
    let place = Place::postgres().await;
    let Place::Postgres { url } = &place else { panic!() };
    let url = url.replace("ingest@", "ingest:geheim@");
    let (start, _) = url.split_once("/test").unwrap();
    let (_, end) = url.split_once('?').unwrap();
    let failure = PostgresInventory::open(&format!("{start}/missing?{end}"), 2).await.unwrap_err();
    let Failure::Fail(why) = &failure else { panic!("{failure:?}") };
    assert!(why.contains("missing") && !why.contains("geheim"), "{why}");
    let failure = PostgresInventory::open("postgres://x:geheim@host:port/", 2).await.unwrap_err();
    assert!(!failure.to_string().contains("geheim"), "{failure}");
}
