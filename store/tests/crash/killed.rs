use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use ingest_store::engines::embedded::{Embedded, EmbeddedConfig};
use ingest_store::{Limits, Mode, Store};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::workload::{self, Progress, WRITERS};

/// Set in the child: the directory to write in until it is killed.
const CHILD: &str = "INGESTD_CRASH_CHILD";

/// Not a test of its own: in the child process it is what gets killed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child_that_writes_until_it_is_killed() {
    let Ok(dir) = std::env::var(CHILD) else { return };
    let tree = Embedded::open(&EmbeddedConfig::new(dir)).unwrap();
    let session = Store::new(Arc::new(tree), Limits::default()).session().await.unwrap();
    let writers = (0..WRITERS).map(|writer| {
        let session = session.clone();
        tokio::spawn(async move {
            let from = workload::begin(&session, writer).await.unwrap();
            workload::write(&session, writer, from, |told| {
                let line = match told {
                    Progress::Sent(step) => format!("S {writer} {step}\n"),
                    Progress::Acknowledged(step) => format!("A {writer} {step}\n"),
                };
                // One write each, straight into the pipe: what is written there survives the kill.
                std::io::stderr().write_all(line.as_bytes()).unwrap();
            })
            .await;
        })
    });
    futures::future::join_all(writers).await;
}

/// Starts the child, kills it after some acknowledgements, and returns what it had told.
fn live_and_die(dir: &Path, after: u32, known: &mut [(u32, u32); WRITERS]) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "killed::child_that_writes_until_it_is_killed", "--nocapture"])
        .env(CHILD, dir)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut acknowledged = 0;
    let mut other = Vec::new();
    for line in BufReader::new(child.stderr.take().unwrap()).lines() {
        let line = line.unwrap();
        let mut words = line.split(' ');
        let (Some(what @ ("A" | "S")), Some(writer), Some(step)) = (words.next(), words.next(), words.next())
        else {
            other.push(line);
            continue;
        };
        let (writer, step): (usize, u32) = (writer.parse().unwrap(), step.parse().unwrap());
        if what == "S" {
            known[writer].1 = step;
            continue;
        }
        known[writer].0 = step;
        acknowledged += 1;
        if acknowledged == after {
            child.kill().unwrap();
        }
    }
    child.wait().unwrap();
    assert!(acknowledged >= after, "the child ended by itself: {other:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_process_loses_nothing_that_was_acknowledged() {
    let kills = crate::crashes(200);
    let mut random = StdRng::seed_from_u64(7);
    let dir = tempfile::tempdir().unwrap();
    let mut known = [(0, 0); WRITERS];
    for _ in 0..kills {
        live_and_die(dir.path(), random.random_range(1..120), &mut known);
        let tree = Embedded::open(&EmbeddedConfig::new(dir.path())).unwrap();
        let session = Store::new(Arc::new(tree.clone()), Limits::default()).session().await.unwrap();
        for (writer, (acknowledged, sent)) in known.iter_mut().enumerate() {
            // A writer that was killed before its first step may not have begun at all.
            if *acknowledged == 0 && session.exists(format!("/w{writer}")).await.unwrap().is_none() {
                continue;
            }
            let step = workload::verify(&session, writer, *acknowledged, *sent).await;
            (*acknowledged, *sent) = (step, step);
        }
        tree.close().await;
    }
    let steps: u32 = known.iter().map(|(acknowledged, _)| acknowledged).sum();
    println!("{kills} kills, {steps} steps");
    assert!(steps >= kills);
}

#[tokio::test]
async fn what_a_killed_process_has_left_of_a_tree_it_was_making_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let unfinished = dir.path().join("tree.redb.new");
    std::fs::write(&unfinished, [7; 5000]).unwrap();
    let tree = Embedded::open(&EmbeddedConfig::new(dir.path())).unwrap();
    assert!(!unfinished.exists());
    let session = Store::new(Arc::new(tree), Limits::default()).session().await.unwrap();
    session.create("/usable", "", Mode::Persistent).await.unwrap();
}
