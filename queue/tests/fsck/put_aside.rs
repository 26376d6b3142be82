//! What nobody here can read or knows: kept, put aside, or left for a person.

use std::time::Duration;

use ingest_queue::dialect::Dialect;
use ingest_queue::fsck::Outcome;
use ingest_queue::ids::Jid;
use ingest_queue::index::Settings;
use ingest_queue::index::finder::Finder;
use ingest_queue::map::{self, BatchNode, JobNode, QueueRef};
use ingest_queue::nodes::{BatchStatus, Node, Quarantined};
use ingest_queue::states::{BatchList, BatchState, JobState};
use ingest_store::{Mode, Session};
use tokio::time::Instant;

use crate::planted::{PRIORITY, plant, status};
use crate::snapshot::Snapshot;
use crate::tree::{Tree, on_both_engines, within};
use crate::{BOTH, found, repair, repair_all};

on_both_engines!(
    an_unreadable_status_is_rebuilt_if_queue_and_history_agree,
    a_job_whose_status_nobody_knows_fails_and_can_be_requeued,
    a_job_without_configuration_fails_for_good,
    a_lost_bid_is_found_again,
    a_batch_whose_status_nobody_knows_waits_for_a_person_or_goes_on,
    long_data_is_cut_in_the_quarantine_and_its_size_is_named,
    unknown_nodes_are_reported_and_survive,
    a_malformed_ref_is_put_aside_only_if_it_is_an_empty_leaf,
    a_priority_out_of_range_is_brought_into_it,
    whoever_has_put_a_job_aside_hears_of_its_repair,
);

const DESIGN: Dialect = Dialect::Design;

/// What the quarantine keeps of a path.
async fn quarantined(session: &Session, path: &str) -> Vec<Quarantined> {
    let mut kept = Vec::new();
    for name in session.children(map::QUARANTINE).await.unwrap().0 {
        let (data, _) = session.get(format!("{}/{name}", map::QUARANTINE)).await.unwrap();
        kept.push(Quarantined::read(&data).unwrap());
    }
    kept.retain(|kept| kept.path == path);
    kept
}

async fn an_unreadable_status_is_rebuilt_if_queue_and_history_agree(tree: &Tree) {
    let session = tree.session().await;
    let planted = plant(&session, DESIGN).await;
    let jid = planted.jid(JobState::Downloading);
    let path = JobNode::Status.of(jid);
    session.set(path.as_str(), "\u{0}\u{1}", None).await.unwrap();
    assert_eq!(found(&session, DESIGN).await, [("J01", path.clone())]);
    repair_all(&session, DESIGN).await;
    let status = status(&session, jid).await;
    assert_eq!((status.status, status.attempt), (JobState::Downloading, 1));
    assert_eq!(quarantined(&session, &path).await[0].hex.as_deref(), Some("0001"));
}

async fn a_job_whose_status_nobody_knows_fails_and_can_be_requeued(tree: &Tree) {
    let session = tree.session().await;
    for dialect in BOTH {
        let nothing = Snapshot(std::collections::BTreeMap::new());
        nothing.restore(&session).await;
        let planted = plant(&session, dialect).await;
        let (bid, jid) = (planted.bid(BatchState::Processing), planted.jid(JobState::Processing));
        let path = JobNode::Status.of(jid);
        session.set(path.as_str(), "half a sta", None).await.unwrap();
        repair_all(&session, dialect).await;
        let status = status(&session, jid).await;
        assert_eq!((status.status, status.recoverable), (JobState::Failed, true));
        assert!(status.message.contains("see /quarantine/"), "{}", status.message);
        let place = status.message.split("see ").nth(1).unwrap();
        assert!(session.exists(place).await.unwrap().is_some(), "{place}");
        assert_eq!(quarantined(&session, &path).await[0].text.as_deref(), Some("half a sta"));
        for there in [
            map::batch_ref(bid, BatchList::Failed, jid),
            QueueRef::new(JobState::Failed, PRIORITY, jid).path(),
        ] {
            assert!(session.exists(there.as_str()).await.unwrap().is_some(), "{there}");
        }
    }
}

async fn a_job_without_configuration_fails_for_good(tree: &Tree) {
    let session = tree.session().await;
    let planted = plant(&session, DESIGN).await;
    let jid = planted.jid(JobState::Processing);
    session.delete(JobNode::Configuration.of(jid), None).await.unwrap();
    repair_all(&session, DESIGN).await;
    let status = status(&session, jid).await;
    assert_eq!((status.status, status.recoverable), (JobState::Failed, false));
    assert_eq!(found(&session, DESIGN).await, [("J12", JobNode::Configuration.of(jid))]);
}

async fn a_lost_bid_is_found_again(tree: &Tree) {
    let session = tree.session().await;
    let planted = plant(&session, DESIGN).await;
    let (bid, jid) = (planted.bid(BatchState::Processing), planted.jid(JobState::Processing));
    session.delete(JobNode::Bid.of(jid), None).await.unwrap();
    repair_all(&session, DESIGN).await;
    assert_eq!(session.get(JobNode::Bid.of(jid)).await.unwrap().0, bid.to_string());
    // Without its configuration too, the list of the batch tells.
    session.set(JobNode::Bid.of(jid), "?", None).await.unwrap();
    session.set(JobNode::Configuration.of(jid), r#"{"submitter":"s"}"#, None).await.unwrap();
    repair_all(&session, DESIGN).await;
    assert_eq!(session.get(JobNode::Bid.of(jid)).await.unwrap().0, bid.to_string());
}

async fn a_batch_whose_status_nobody_knows_waits_for_a_person_or_goes_on(tree: &Tree) {
    let session = tree.session().await;
    let planted = plant(&session, DESIGN).await;
    session.delete(BatchNode::Lock.of(planted.bid(BatchState::Processing)), None).await.unwrap();
    for (state, rebuilt) in [
        (BatchState::Pending, BatchState::Held),
        (BatchState::Processing, BatchState::Processing),
        (BatchState::Completed, BatchState::Failed),
    ] {
        let path = BatchNode::Status.of(planted.bid(state));
        session.set(path.as_str(), "?", None).await.unwrap();
        assert_eq!(found(&session, DESIGN).await, [("B01", path.clone())]);
        repair_all(&session, DESIGN).await;
        let (data, _) = session.get(path.as_str()).await.unwrap();
        assert_eq!(BatchStatus::read(&data).unwrap().status, rebuilt);
    }
}

async fn long_data_is_cut_in_the_quarantine_and_its_size_is_named(tree: &Tree) {
    let session = tree.session().await;
    let planted = plant(&session, DESIGN).await;
    let jid = planted.jid(JobState::Downloading);
    // All at once, and still in one multi.
    let nodes = [
        JobNode::SpaceNeeded,
        JobNode::Identifiers,
        JobNode::Metadata,
        JobNode::Inventory,
        JobNode::Schedule,
        JobNode::Work,
        JobNode::History,
        JobNode::Priority,
        JobNode::Status,
        JobNode::Bid,
        JobNode::Configuration,
    ];
    for node in nodes {
        session.set(node.of(jid), vec![7; 1_000_000], None).await.unwrap();
    }
    repair_all(&session, DESIGN).await;
    for node in nodes {
        let kept = quarantined(&session, &node.of(jid)).await;
        assert_eq!(kept.len(), 1, "{node:?}");
        assert_eq!(kept[0].bytes, Some(1_000_000));
        assert!(kept[0].hex.as_ref().unwrap().len() > 10_000);
    }
}

async fn unknown_nodes_are_reported_and_survive(tree: &Tree) {
    let session = tree.session().await;
    plant(&session, DESIGN).await;
    let unknown = [
        "/batches/bid0000000000/states/batch-strange",
        "/batches/bid12",
        "/jobs/jid12",
        "/jobs/states/limbo",
        "/jobs/states/limbo/05-jid0000000000",
        "/locks/other",
        "/stranger",
        "/stranger/below",
    ];
    for path in unknown {
        session.create(path, "", Mode::Persistent).await.unwrap();
    }
    let expected: Vec<_> = unknown
        .iter()
        .filter(|at| !at.contains("/05-") && !at.ends_with("below"))
        .map(|at| ("T02", (*at).to_owned()))
        .collect();
    assert_eq!(found(&session, DESIGN).await, expected);
    for repaired in repair(&session, DESIGN).await {
        assert_eq!(repaired.outcome, Outcome::ByHand, "{repaired}");
    }
    assert_eq!(found(&session, DESIGN).await, expected);
    for path in unknown {
        assert!(session.exists(path).await.unwrap().is_some(), "{path}");
    }
}

async fn a_malformed_ref_is_put_aside_only_if_it_is_an_empty_leaf(tree: &Tree) {
    let session = tree.session().await;
    let planted = plant(&session, DESIGN).await;
    let bid = planted.bid(BatchState::Processing);
    let empty = [
        format!("{}/jid1", map::batch_list(bid, BatchList::Failed)),
        "/jobs/states/held/5-jid0000000001".to_owned(),
        "/journal/dates/tomorrow".to_owned(),
        "/outbox/letter".to_owned(),
    ];
    let full = "/jobs/states/held/readme";
    for path in &empty {
        session.create(path.as_str(), "", Mode::Persistent).await.unwrap();
    }
    session.create(full, "do not touch", Mode::Persistent).await.unwrap();
    let all = found(&session, DESIGN).await;
    assert!(all.len() == 5 && all.iter().all(|(code, _)| *code == "T03"), "{all:?}");
    repair(&session, DESIGN).await;
    assert_eq!(found(&session, DESIGN).await, [("T03", full.to_owned())]);
    for path in empty {
        assert_eq!(quarantined(&session, &path).await.len(), 1, "{path}");
    }
}

async fn a_priority_out_of_range_is_brought_into_it(tree: &Tree) {
    let session = tree.session().await;
    for dialect in BOTH {
        let nothing = Snapshot(std::collections::BTreeMap::new());
        nothing.restore(&session).await;
        let planted = plant(&session, dialect).await;
        let jid: Jid = planted.jid(JobState::Pending);
        session.set(JobNode::Priority.of(jid), "240", None).await.unwrap();
        session.delete(QueueRef::new(JobState::Pending, PRIORITY, jid).path(), None).await.unwrap();
        session.create(format!("/jobs/states/pending/240-{jid}"), "", Mode::Persistent).await.unwrap();
        repair_all(&session, dialect).await;
        assert_eq!(session.get(JobNode::Priority.of(jid)).await.unwrap().0, "99");
        let own = format!("/jobs/states/pending/99-{jid}");
        assert!(session.exists(own).await.unwrap().is_some());
    }
}

async fn whoever_has_put_a_job_aside_hears_of_its_repair(tree: &Tree) {
    let session = tree.session().await;
    let planted = plant(&session, DESIGN).await;
    let jid = planted.jid(JobState::Downloading);
    let finder = Finder::start(&session, Settings::default()).await.unwrap();
    assert_eq!(within(finder.next(JobState::Downloading)).await.unwrap().entry.jid, jid);
    // Its ref is right, and stays where it is; a node that could not read it would look again much later.
    session.set(JobNode::Priority.of(jid), "garbage", None).await.unwrap();
    finder.delay(jid, Instant::now() + Duration::from_hours(1));
    repair_all(&session, DESIGN).await;
    assert_eq!(within(finder.next(JobState::Downloading)).await.unwrap().entry.jid, jid);
}
