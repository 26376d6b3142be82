//! Free names that profiles ask for, from the profile to the slot.
//!
//! Invariant: of all jobs whose profiles ask for a name, no more work at once than its limit says, and whoever asks for
//! nothing is not kept waiting by them.

use ingest_harness::{FileServer, eventually};
use ingest_queue::limits::parked_with;
use ingest_queue::limits::rules::{Kind, Semaphore};
use ingest_queue::states::{BatchState, JobState};

use crate::kit::{self, On, Place};
use crate::trick::Trick;

const TAPE: &str = "tape_content";
const TAPE_PROFILE: &str = r#"
name = "tape_content"
collection = "tapes"
title = "Things on tape"
owner = "ark:/99999/fk4tests"
semaphores = ["tape"]
"#;

async fn jobs_share_the_name_that_their_profile_asks_for(on: On) {
    let state = JobState::Downloading;
    let (place, files, trick) = (Place::new(on).await, FileServer::start().await, Trick::real());
    trick.close(state);
    let profiles = place.dir.path().join("profiles");
    std::fs::create_dir_all(&profiles).unwrap();
    std::fs::write(profiles.join(format!("{TAPE}.toml")), TAPE_PROFILE).unwrap();
    let node = place.node_with("node-1", Some(trick.clone()), |node, _| {
        node.limits.names.insert("tape".into(), 1);
    });
    let node = node.await;
    let queue = place.queue().await;
    let mut bids = Vec::new();
    for number in 0..2 {
        let mut tape = kit::submission(&files.put(&format!("/tape-{number}"), "t"), Some("file"));
        (tape.profile_name, tape.collection) = (TAPE.into(), Some("tapes".into()));
        bids.push(kit::submit(&queue, tape).await);
    }
    let tape = Semaphore::new(Kind::Name, "tape");
    eventually("one that waits for the tape", kit::PATIENCE, || async {
        let finder = node.life().await?.finder()?;
        (finder.parked_with(parked_with(&tape.node_name())) == 1).then_some(())
    })
    .await;
    trick.until("the other", |seen| seen.running(state) == 1).await;
    bids.push(kit::submit(&queue, kit::submission(&files.put("/disk", "d"), Some("file"))).await);
    trick.until("one that asks for nothing", |seen| seen.running(state) == 2).await;
    let (slots, _) = queue.session().children(tape.path()).await.unwrap();
    assert_eq!(slots.len(), 1, "{slots:?}");
    // One after the other, and the third beside them.
    trick.let_through(state, 2);
    trick.until("the one that waited", |seen| seen.begun(state) == 3).await;
    trick.open(state);
    for bid in bids {
        assert_eq!(kit::reported(&queue, bid).await, BatchState::Completed);
    }
    assert_eq!(trick.seen(|seen| seen.most(state)), 2);
    kit::clean(&queue).await;
    kit::drained(node).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_share_the_name_that_their_profile_asks_for_embedded() {
    jobs_share_the_name_that_their_profile_asks_for(On::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_share_the_name_that_their_profile_asks_for_zookeeper() {
    jobs_share_the_name_that_their_profile_asks_for(On::Zookeeper).await;
}
