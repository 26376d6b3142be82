//! What is removed from the disk, and what never is.

use std::fs;
use std::os::unix::fs::symlink;
use std::time::Duration;

use ingest_queue::ids::{Bid, Jid};
use ingest_queue::jobs::Write;
use ingest_queue::map::{BatchNode, JobNode};
use ingest_queue::nodes::{Submission, Work};
use ingest_queue::states::JobState;
use ingest_steps::outcome::{Cancel, Progress};
use ingest_steps::payload::PayloadKind;
use ingest_steps::step::admit::{self, Woken};
use ingest_steps::step::clean::{self, Removed};

use crate::download::payload;
use crate::kit::{FileServer, Stage};
use crate::tree::Tree;

async fn stage(tree: &Tree, keep: Duration) -> Stage {
    Stage::with(&tree.session().await, |settings| settings.work.keep_leftovers = keep).await
}

fn fill(stage: &Stage, bid: Bid, jid: Jid, attempt: u32) {
    let dir = stage.services.work.make_attempt(bid, jid, attempt).unwrap();
    fs::write(dir.producer().join("a"), [0; 100]).unwrap();
}

fn attempts(stage: &Stage, bid: Bid, jid: Jid) -> Vec<u32> {
    let found = stage.services.work.attempts(bid, jid).unwrap();
    found.into_iter().map(|(attempt, _)| attempt).collect()
}

async fn leftovers(stage: &Stage) -> Removed {
    clean::leftovers(&stage.queue, &stage.services, &Progress::default(), &Cancel::new()).await.unwrap()
}

/// A job that waits to be downloaded, after some attempts.
async fn waiting(stage: &Stage) -> (Bid, Jid, u32) {
    let url = "https://example.org/a".parse().unwrap();
    let jid = stage.job(&payload(PayloadKind::File, url, "a")).await;
    stage.bring(jid, JobState::Downloading).await;
    for _ in 0..5 {
        let mut lease = stage.take(jid).await;
        stage.queue.give_back(&mut lease, None).await.unwrap();
    }
    let job = stage.queue.job(jid).await.unwrap();
    (job.bid, jid, job.status.attempt)
}

#[tokio::test]
async fn a_job_that_is_done_leaves_nothing_and_an_attempt_that_counts_stays() {
    let tree = Tree::embedded();
    let stage = stage(&tree, Duration::from_hours(1)).await;
    let (bid, jid) = (Bid::new(1), Jid::new(2));
    for attempt in [1, 2, 3] {
        fill(&stage, bid, jid, attempt);
        fill(&stage, bid, Jid::new(3), attempt);
    }
    let before = clean::attempts_before(&stage.services, bid, jid, 3).await.unwrap();
    assert_eq!(before.attempts, ["bid0000000001/jid0000000002/000002", "bid0000000001/jid0000000002/000001"]);
    assert!(before.bytes >= 200, "{before:?}");
    assert_eq!(attempts(&stage, bid, jid), [3]);
    assert_eq!(clean::job(&stage.services, bid, jid).await.unwrap().attempts.len(), 1);
    assert!(!stage.services.work.job(bid, jid).exists());
    assert_eq!(clean::job(&stage.services, bid, jid).await.unwrap(), Removed::default());
    assert_eq!(attempts(&stage, bid, Jid::new(3)), [3, 2, 1]);
    tree.close().await;
}

#[tokio::test]
async fn whoever_waits_for_room_is_told_of_what_was_freed() {
    let tree = Tree::embedded();
    let stage = stage(&tree, Duration::ZERO).await;
    let woken = async || {
        let (freed, long) = (&stage.services.freed, Duration::from_hours(1));
        let stop = Cancel::new();
        // Nothing was said so far: only a word that is kept already comes before the stop.
        stop.cancel();
        let soon = Cancel::new();
        tokio::select! {
            biased;
            woken = admit::next_look(freed, long, &soon) => woken,
            woken = admit::next_look(freed, long, &stop) => woken,
        }
    };
    let (bid, jid) = (Bid::new(1), Jid::new(2));
    assert_eq!(woken().await, Woken::Stopped);
    for clean_up in ["attempts", "job", "leftovers"] {
        fill(&stage, bid, jid, 1);
        match clean_up {
            "attempts" => drop(clean::attempts_before(&stage.services, bid, jid, 3).await.unwrap()),
            "job" => drop(clean::job(&stage.services, bid, jid).await.unwrap()),
            _ => drop(leftovers(&stage).await),
        }
        assert_eq!(woken().await, Woken::Freed, "{clean_up}");
    }
    clean::job(&stage.services, bid, jid).await.unwrap();
    assert_eq!(woken().await, Woken::Stopped, "nothing was freed");
    tree.close().await;
}

#[tokio::test]
async fn what_the_tree_does_not_have_or_need_goes() {
    let tree = Tree::embedded();
    let stage = stage(&tree, Duration::ZERO).await;
    let (bid, jid, now) = waiting(&stage).await;
    // It counts the attempt before the last.
    let mut lease = stage.take(jid).await;
    let work = Work { attempt: now - 1, ..Work::default() };
    stage.queue.write(&mut lease, &[Write::Work(work)]).await.unwrap();
    stage.queue.give_back(&mut lease, None).await.unwrap();
    let now = stage.queue.job(jid).await.unwrap().status.attempt;
    for attempt in [1, now - 2, now] {
        fill(&stage, bid, jid, attempt);
    }
    fill(&stage, bid, Jid::new(7_000), 1);
    fill(&stage, Bid::new(7_000), Jid::new(7_001), 2);
    let (done_bid, done, _) = waiting(&stage).await;
    fill(&stage, done_bid, done, 1);
    stage.bring(done, JobState::Completed).await;
    let removed = leftovers(&stage).await;
    let mut expected = vec![
        format!("{bid}/{jid}/000001"),
        format!("{bid}/jid0000007000/000001"),
        format!("bid0000007000/jid0000007001/000002"),
        format!("{done_bid}/{done}/000001"),
    ];
    let mut found = removed.attempts.clone();
    expected.sort();
    found.sort();
    assert_eq!(found, expected);
    assert!(removed.bytes >= 400, "{removed:?}");
    assert_eq!(attempts(&stage, bid, jid), [now, now - 2]);
    assert!(!stage.services.work.batch(Bid::new(7_000)).exists());
    assert!(!stage.services.work.job(done_bid, done).exists());
    assert_eq!(leftovers(&stage).await, Removed::default());
    stage.fsck().await;
    tree.close().await;
}

#[tokio::test]
async fn what_a_stopped_expansion_has_left_goes_when_nobody_expands_its_batch() {
    let tree = Tree::embedded();
    let stage = stage(&tree, Duration::from_hours(1)).await;
    let left = [".manifest.ingest-part", ".manifest.ingest-part.json", "manifest"];
    let fill = |bid: Bid| {
        let dir = stage.services.work.batch(bid);
        fs::create_dir_all(&dir).unwrap();
        for name in left {
            fs::write(dir.join(name), "begun").unwrap();
        }
    };
    let there = |bid: Bid| stage.services.work.batch(bid).exists();
    // It waits, and whoever expands it goes on with what is there.
    let submission = Submission { profile_name: "any".into(), ..Submission::default() };
    let pending = stage.queue.create_batch("00000000-0000-4000-8000-000000000001", &submission).await;
    let pending = pending.unwrap().bid;
    fill(pending);
    // Its job is made.
    let (expanded, _, _) = waiting(&stage).await;
    fill(expanded);
    fs::write(stage.services.work.batch(expanded).join("of-somebody"), "else").unwrap();
    // The tree does not have it: perhaps it is another's.
    let unknown = Bid::new(8_000);
    fill(unknown);
    let removed = leftovers(&stage).await;
    assert_eq!((removed.manifests, removed.bytes), (left.len(), 15));
    assert!(there(pending) && there(unknown));
    let rest: Vec<_> = fs::read_dir(stage.services.work.batch(expanded)).unwrap().collect();
    assert_eq!(rest.len(), 1, "{rest:?}");
    for bid in [pending, expanded, unknown] {
        fill(bid);
    }
    let manifest = async |bid| {
        let removed = clean::manifest(&stage.queue, &stage.services, bid).await.unwrap();
        removed.map(|removed| removed.manifests)
    };
    assert_eq!(manifest(pending).await, None, "it is needed");
    assert_eq!(manifest(expanded).await, Some(left.len()));
    assert_eq!(manifest(expanded).await, Some(0));
    assert_eq!(manifest(unknown).await, Some(0), "it is young");
    stage.fsck().await;
    tree.close().await;
}

/// The tree has three nodes that nobody can read: each keeps what is its own, and nothing else.
#[tokio::test]
async fn what_cannot_be_read_keeps_its_own_and_nothing_of_the_others() {
    let tree = Tree::embedded();
    let stage = stage(&tree, Duration::ZERO).await;
    let mut spoilt = Vec::new();
    for node in ["status", "expansion", "work"] {
        let (bid, jid, now) = waiting(&stage).await;
        fill(&stage, bid, jid, 1);
        let manifest = stage.services.work.batch(bid).join("manifest");
        fs::write(&manifest, "begun").unwrap();
        let path = match node {
            "status" => BatchNode::Status.of(bid),
            "expansion" => BatchNode::Expansion.of(bid),
            _ => {
                let mut lease = stage.take(jid).await;
                let work = Work { attempt: now, ..Work::default() };
                stage.queue.write(&mut lease, &[Write::Work(work)]).await.unwrap();
                stage.queue.give_back(&mut lease, None).await.unwrap();
                JobNode::Work.of(jid)
            }
        };
        stage.queue.session().set(path, "{", None).await.unwrap();
        spoilt.push((node, bid, jid, manifest));
    }
    // Its directory comes after theirs.
    let (bid, jid, _) = waiting(&stage).await;
    assert!(spoilt.iter().all(|(_, before, ..)| *before < bid));
    fill(&stage, bid, jid, 1);
    fs::write(stage.services.work.batch(bid).join("manifest"), "begun").unwrap();
    stage.bring(jid, JobState::Completed).await;
    let removed = leftovers(&stage).await;
    assert!(!stage.services.work.batch(bid).exists(), "{removed:?}");
    for (node, bid, jid, manifest) in spoilt {
        // An unreadable job keeps its attempts, an unreadable batch its manifest.
        assert_eq!(attempts(&stage, bid, jid) == [1], node == "work", "{node}");
        assert_eq!(manifest.exists(), node != "work", "{node}");
    }
    assert_eq!((removed.attempts.len(), removed.manifests), (3, 2));
    tree.close().await;
}

#[tokio::test]
async fn what_is_young_locked_or_none_of_ours_stays() {
    let tree = Tree::embedded();
    let old = stage(&tree, Duration::from_hours(1)).await;
    fill(&old, Bid::new(9), Jid::new(9), 1);
    assert_eq!(leftovers(&old).await, Removed::default(), "it is young");
    let (done_bid, done, _) = waiting(&old).await;
    fill(&old, done_bid, done, 1);
    assert_eq!(leftovers(&old).await, Removed::default(), "it is young, and its job waits");
    old.bring(done, JobState::Completed).await;
    assert_eq!(leftovers(&old).await.attempts, [format!("{done_bid}/{done}/000001")], "its job is done");
    assert!(!old.services.work.batch(done_bid).exists());

    let stage = stage(&tree, Duration::ZERO).await;
    let (bid, jid, now) = waiting(&stage).await;
    fill(&stage, bid, jid, 1);
    let mut lease = stage.take(jid).await;
    fill(&stage, bid, jid, now + 1);
    let root = stage.services.work.root();
    let elsewhere = stage.dir().join("elsewhere");
    fs::create_dir_all(elsewhere.join("jid0000000001/000001/producer")).unwrap();
    symlink(&elsewhere, root.join("bid0000008000")).unwrap();
    symlink(elsewhere.join("jid0000000001"), stage.services.work.batch(bid).join("jid0000008000")).unwrap();
    let gone = stage.services.work.job(bid, Jid::new(8_001));
    fs::create_dir_all(&gone).unwrap();
    symlink(elsewhere.join("jid0000000001/000001"), gone.join("000001")).unwrap();
    for name in ["lost+found/x", "bid1/jid1/1", "bid0000000077/notes", "bid0000000077/jid0000000078/1"] {
        fs::create_dir_all(root.join(name)).unwrap();
    }
    assert_eq!(leftovers(&stage).await, Removed::default());
    assert_eq!(attempts(&stage, bid, jid), [now + 1, 1], "somebody works on it");
    assert!(elsewhere.join("jid0000000001/000001/producer").exists());
    for name in ["lost+found/x", "bid1/jid1/1", "bid0000000077/notes", "bid0000000077/jid0000000078/1"] {
        assert!(root.join(name).exists(), "{name}");
    }
    stage.queue.give_back(&mut lease, None).await.unwrap();
    assert_eq!(leftovers(&stage).await.attempts, [format!("{bid}/{jid}/000001")]);
    stage.fsck().await;
    tree.close().await;
}

#[tokio::test]
async fn a_job_that_is_taken_while_it_is_cleaned_loses_nothing() {
    let tree = Tree::embedded();
    let stage = stage(&tree, Duration::ZERO).await;
    let server = FileServer::start().await;
    let url = server.put("/a", vec![7; 20_000]);
    let case = crate::download::Case::new(&stage, &payload(PayloadKind::File, url, "a")).await;
    for round in 0..20 {
        // As long as the attempt lasts, and once more.
        let ended = Cancel::new();
        let attempt = async {
            let _ended = ended.clone().drop_guard();
            case.attempt().await
        };
        let cleaning = async {
            while !ended.is_cancelled() {
                leftovers(&stage).await;
                tokio::task::yield_now().await;
            }
        };
        let ((answer, dir), ()) = tokio::join!(attempt, cleaning);
        answer.unwrap_or_else(|failure| panic!("round {round}: {failure}"));
        assert_eq!(fs::read(dir.producer().join("a")).unwrap(), vec![7; 20_000]);
        let all = leftovers(&stage).await;
        assert!(!all.attempts.iter().any(|path| dir.path().ends_with(path)), "the last attempt stays");
        assert!(dir.producer().join("a").exists());
    }
    stage.fsck().await;
    tree.close().await;
}
