//! What leads nowhere, and what outlives its owner.

use ingest_queue::dialect::Dialect;
use ingest_queue::ids::{Bid, Jid};
use ingest_queue::map::{self, BatchNode, JobNode, QueueRef};
use ingest_queue::nodes::{BatchStatus, Expansion, Keys, Node};
use ingest_queue::states::{BatchList, BatchState, JobState};
use ingest_store::recipes::shard;
use ingest_store::{Mode, Session};

use crate::planted::{PRIORITY, Planted, plant, uuid};
use crate::tree::{Tree, on_both_engines};
use crate::{check, found, repair, repair_all};

on_both_engines!(
    refs_of_a_job_that_is_gone_go_and_its_batch_remembers_it,
    what_leads_to_a_batch_that_is_gone_goes,
    what_is_kept_for_a_job_that_has_ended_goes,
    locks_and_slots_that_belong_to_no_session_go,
    a_uuid_leads_to_its_batch_again,
    an_ended_batch_with_running_jobs_goes_back,
    numbers_of_other_jobs_are_left_out,
    parts_that_nobody_announces_are_collected,
    the_file_systems_and_the_reports_stay_readable,
);

const DESIGN: Dialect = Dialect::Design;

async fn planted(tree: &Tree) -> (Session, Planted) {
    let session = tree.session().await;
    let planted = plant(&session, DESIGN).await;
    (session, planted)
}

async fn create(session: &Session, path: impl Into<String>, data: impl Into<bytes::Bytes>) {
    session.create(path, data, Mode::Persistent).await.unwrap();
}

async fn refs_of_a_job_that_is_gone_go_and_its_batch_remembers_it(tree: &Tree) {
    let (session, planted) = planted(tree).await;
    let (bid, jid) = (planted.bid(BatchState::Processing), planted.jid(JobState::Recording));
    for name in session.children(map::job(jid)).await.unwrap().0 {
        session.delete(format!("{}/{name}", map::job(jid)), None).await.unwrap();
    }
    session.delete(map::job(jid), None).await.unwrap();
    let (entry, listed) =
        (QueueRef::new(JobState::Recording, PRIORITY, jid), map::batch_ref(bid, BatchList::Processing, jid));
    assert_eq!(found(&session, DESIGN).await, [("J11", listed), ("J10", entry.path())]);
    repair_all(&session, DESIGN).await;
    assert!(session.exists(map::batch_ref(bid, BatchList::Deleted, jid)).await.unwrap().is_some());
}

async fn what_leads_to_a_batch_that_is_gone_goes(tree: &Tree) {
    let (session, planted) = planted(tree).await;
    let gone = Bid::new(700);
    create(&session, map::batch_uuid("u"), gone.to_string()).await;
    create(&session, map::journal_key("gone"), Keys::default().waits("gone", gone).write(DESIGN)).await;
    let expanded = planted.bid(BatchState::Processing);
    let waits = Keys::default().waits("expanded", expanded).write(DESIGN);
    create(&session, map::journal_key("expanded"), waits).await;
    let report = r#"{"bid":"bid0000000700","number":2,"composed":"2026-11-16T01:43:45.000Z"}"#;
    create(&session, map::outbox(gone, 2), report).await;
    let mut codes: Vec<_> = found(&session, DESIGN).await.into_iter().map(|(code, _)| code).collect();
    codes.sort_unstable();
    assert_eq!(codes, ["K01", "K01", "O01", "U01"]);
    repair_all(&session, DESIGN).await;
    let (quarantined, _) = session.children(map::QUARANTINE).await.unwrap();
    assert_eq!(quarantined.len(), 4, "{quarantined:?}");
}

async fn what_is_kept_for_a_job_that_has_ended_goes(tree: &Tree) {
    let (session, planted) = planted(tree).await;
    let (done, gone) = (planted.jid(JobState::Completed), Jid::new(700));
    let dates = [map::journal_date(1, done), map::journal_date(2, gone)];
    for date in &dates {
        create(&session, date.as_str(), "").await;
    }
    let reserved = format!(r#"{{"owner":"o","local_id":"x","primary_id":"ark:/1/3","jid":"{done}"}}"#);
    create(&session, map::local_id("o", "x"), reserved).await;
    // Of several jobs one is under way: it is still needed.
    let alive = planted.jid(JobState::Processing);
    let shared = format!(
        r#"{{"owner":"o","local_id":"y","primary_id":"ark:/1/3","jid":"{done}","also":["{gone}","{alive}"]}}"#
    );
    create(&session, map::local_id("o", "y"), shared).await;
    let [first, second] = dates;
    let expected = [("K02", first), ("K02", second), ("L02", map::local_id("o", "x"))];
    assert_eq!(found(&session, DESIGN).await, expected);
    repair_all(&session, DESIGN).await;
}

async fn locks_and_slots_that_belong_to_no_session_go(tree: &Tree) {
    let (session, planted) = planted(tree).await;
    let locks = [
        JobNode::Lock.of(planted.jid(JobState::Held)),
        BatchNode::Lock.of(planted.bid(BatchState::Held)),
        map::storage_lock("ark:/9/9"),
        map::inventory_lock("ark:/9/9"),
        "/elections/timer/candidate-x-0000000000".to_owned(),
        "/cleanup/jobs/lock".to_owned(),
    ];
    session.make_dirs("/elections/timer").await.unwrap();
    session.make_dirs("/cleanup/jobs").await.unwrap();
    for lock in &locks {
        create(&session, lock.as_str(), "").await;
    }
    let slots = ["/semaphores/host-h/0001", "/semaphores/host-h/0002"];
    create(&session, slots[0], "").await;
    create(&session, format!("{}/holder", slots[0]), "").await;
    // And one of a session that lives, for a job that nobody works on.
    let holding = format!(r#"{{"job":"{}"}}"#, planted.jid(JobState::Failed));
    create(&session, slots[1], holding).await;
    session.create(format!("{}/holder", slots[1]), "", ingest_store::Mode::Ephemeral).await.unwrap();
    let found: Vec<_> = found(&session, DESIGN).await;
    for lock in &locks {
        assert!(found.contains(&("L01", lock.clone())), "{lock} in {found:?}");
    }
    assert!(found.contains(&("S01", format!("{}/holder", slots[0]))), "{found:?}");
    assert!(found.contains(&("S02", format!("{}/holder", slots[1]))), "{found:?}");
    assert_eq!(found.len(), 8);
    repair_all(&session, DESIGN).await;
    for lock in locks {
        assert!(session.exists(lock).await.unwrap().is_none());
    }
}

async fn a_uuid_leads_to_its_batch_again(tree: &Tree) {
    let (session, planted) = planted(tree).await;
    let bid = planted.bid(BatchState::Completed);
    let path = map::batch_uuid(&uuid(bid));
    session.delete(path.as_str(), None).await.unwrap();
    assert_eq!(found(&session, DESIGN).await, [("U02", path.clone())]);
    repair_all(&session, DESIGN).await;
    assert_eq!(session.get(path.as_str()).await.unwrap().0, bid.to_string());
    // Another's is nobody's to take.
    let other = planted.bid(BatchState::Held);
    session.set(path.as_str(), other.to_string(), None).await.unwrap();
    repair(&session, DESIGN).await;
    let report = check(&session, DESIGN).await;
    assert_eq!(report.findings.len(), 1);
    assert!(report.findings[0].by_hand && report.findings[0].repair.contains("a person must look"));
}

async fn an_ended_batch_with_running_jobs_goes_back(tree: &Tree) {
    let (session, mut planted) = planted(tree).await;
    for (state, back) in [
        (BatchState::Reporting, BatchState::Processing),
        (BatchState::UpdateReporting, BatchState::Failed),
        (BatchState::Completed, BatchState::Failed),
    ] {
        let bid = planted.batch(state, Some((1, 1))).await;
        let number = u32::try_from(planted.batches.len()).unwrap() + 500;
        let ops = crate::planted::job_ops(Jid::new(number), bid, JobState::Notify, PRIORITY, DESIGN);
        session.multi(ops).await.unwrap();
        assert_eq!(found(&session, DESIGN).await, [("B06", BatchNode::Status.of(bid))]);
        repair_all(&session, DESIGN).await;
        let (data, _) = session.get(BatchNode::Status.of(bid)).await.unwrap();
        assert_eq!(BatchStatus::read(&data).unwrap().status, back);
    }
}

async fn numbers_of_other_jobs_are_left_out(tree: &Tree) {
    let (session, planted) = planted(tree).await;
    let path = BatchNode::Expansion.of(planted.bid(BatchState::Completed));
    let (data, _) = session.get(path.as_str()).await.unwrap();
    let expansion = Expansion::read(&data).unwrap();
    assert!(expansion.next > 0 && expansion.numbers.is_empty());
    let count = usize::try_from(expansion.next).unwrap();
    for wrong in [
        expansion.numbers.and(0, 900_000, count),
        Expansion::default().numbers.and(0, 1, 1).and(1, 900_000, count),
    ] {
        let spoilt = Expansion { numbers: wrong, ..expansion.clone() };
        session.set(path.as_str(), spoilt.write(DESIGN), None).await.unwrap();
        assert_eq!(found(&session, DESIGN).await, [("B11", path.clone())]);
        repair_all(&session, DESIGN).await;
        let (data, _) = session.get(path.as_str()).await.unwrap();
        let repaired = Expansion::read(&data).unwrap();
        assert!(repaired.numbers.is_empty() && repaired.next == expansion.next && repaired.done);
    }
}

async fn parts_that_nobody_announces_are_collected(tree: &Tree) {
    let (session, planted) = planted(tree).await;
    let path = BatchNode::Manifest.of(planted.bid(BatchState::Processing));
    let announced = session.children(path.as_str()).await.unwrap().0;
    let (data, _) = shard::read(&session, &path, 1 << 20).await.unwrap().unwrap();
    shard::prepare(&session, &path, &data).await.unwrap();
    assert_eq!(found(&session, DESIGN).await, [("S04", path.clone())]);
    assert!(check(&session, DESIGN).await.is_clean(), "worth knowing, and nothing is wrong");
    // While they are young a writer may be at it.
    let unlocked = BatchNode::Lock.of(planted.bid(BatchState::Processing));
    session.delete(unlocked, None).await.unwrap();
    repair(&session, DESIGN).await;
    assert_eq!(found(&session, DESIGN).await, [("S04", path.clone())]);
    let report = check(&session, DESIGN).await;
    let options = ingest_queue::fsck::Options {
        grace: std::time::Duration::ZERO,
        ..ingest_queue::fsck::Options::new(DESIGN)
    };
    ingest_queue::fsck::repair(&session, &options, &report, &mut |_| ()).await.unwrap();
    assert_eq!(found(&session, DESIGN).await, []);
    assert_eq!(session.children(path.as_str()).await.unwrap().0, announced);
}

async fn the_file_systems_and_the_reports_stay_readable(tree: &Tree) {
    let (session, planted) = planted(tree).await;
    let outbox = map::outbox(planted.bid(BatchState::Reporting), 1);
    session.set(outbox.as_str(), "half a rep", None).await.unwrap();
    let alert = map::alert("feed-x-1");
    session.create(alert.as_str(), "half an al", Mode::Persistent).await.unwrap();
    session.set("/space/fs", "[", None).await.unwrap();
    session.set("/semaphores", "?", None).await.unwrap();
    session.set("/semaphores/host-h", "?", None).await.unwrap();
    let semaphores = ["/semaphores", "/semaphores/host-h"].map(|at| ("S03", at.to_owned()));
    let [limits, semaphore] = semaphores;
    let expected = [("O02", alert), ("O01", outbox), limits, semaphore, ("P01", "/space/fs".to_owned())];
    assert_eq!(found(&session, DESIGN).await, expected);
    repair_all(&session, DESIGN).await;
}
