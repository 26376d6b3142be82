//! Two owners of one directory.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use ingest_store::engines::embedded::{Embedded, EmbeddedConfig};
use ingest_store::{Kind, Limits, Mode, Store};

use crate::arguments::embedded_session;
use crate::says;

#[tokio::test]
async fn a_tree_that_is_open_in_this_process_is_in_use() {
    let dir = tempfile::tempdir().unwrap();
    let config = EmbeddedConfig::new(dir.path());
    let first = Embedded::open(&config).unwrap();
    let error = Embedded::open(&config).unwrap_err();
    let parts = [
        &dir.path().display().to_string(),
        &format!("is open in process {}; stop it", std::process::id())[..],
    ];
    says(&error, Kind::InUse, &parts);
    first.close().await;
    Embedded::open(&config).expect("closed, it is free");
}

const HOLD: &str = "INGEST_TEST_HOLD_TREE";

/// Not a test but the other process of the tests below: it opens the tree and waits for its end.
#[tokio::test]
async fn in_another_process_hold_the_tree() {
    let Some(dir) = std::env::var_os(HOLD) else { return };
    let engine = Embedded::open(&EmbeddedConfig::new(dir)).unwrap();
    let session = Store::new(Arc::new(engine.clone()), Limits::default()).session().await.unwrap();
    session.create("/lock", "", Mode::Ephemeral).await.unwrap();
    session.create("/kept", "", Mode::Persistent).await.unwrap();
    println!("\nholding");
    std::io::stdin().read_line(&mut String::new()).unwrap();
    engine.close().await;
}

fn hold_in_another_process(dir: &Path) -> Child {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "owners::in_another_process_hold_the_tree", "--nocapture"])
        .env(HOLD, dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "holding"), "the other process did not open the tree");
    child
}

#[tokio::test]
async fn a_tree_that_is_open_in_another_process_is_in_use_until_that_ends() {
    for kill in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let config = EmbeddedConfig::new(dir.path());
        let mut holder = hold_in_another_process(dir.path());
        let error = Embedded::open(&config).unwrap_err();
        let parts =
            [&dir.path().display().to_string(), &format!("is open in process {}; stop it", holder.id())[..]];
        says(&error, Kind::InUse, &parts);

        if kill {
            holder.kill().unwrap();
        }
        drop(holder.stdin.take());
        holder.wait().unwrap();
        let session = embedded_session(&dir).await;
        assert_eq!(session.children("/").await.unwrap().0, ["kept"], "killed: {kill}");
    }
}
