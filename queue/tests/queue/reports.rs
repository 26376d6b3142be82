//! Which jobs a report names: by the numbers that the expansion keeps, and by the lists. Both say the same, whatever
//! became of the jobs.

use std::sync::atomic::{AtomicUsize, Ordering};

use ingest_queue::batches::BatchLease;
use ingest_queue::dialect::Dialect;
use ingest_queue::ids::{Bid, Jid};
use ingest_queue::map::{self, BatchNode, JobNode};
use ingest_queue::nodes::{Expansion, Node, Numbers, StatusReport};
use ingest_queue::plan::batch::BatchAction;
use ingest_queue::plan::job::Action;
use ingest_queue::queue::Queue;
use ingest_queue::states::{BatchList, BatchState, JobState};
use ingest_store::Mode;

use crate::tree::{Tree, on_both_engines};
use crate::world::{MANIFEST, WHO, all_jobs, batch_of, bring, clean, new_jobs, queue, queue_on, submission};

on_both_engines!(
    a_report_by_numbers_is_the_one_by_lists,
    a_broken_tree_is_reported_as_its_statuses_are,
    a_report_waits_for_a_status_that_cannot_be_read,
    the_numbers_of_two_batches_that_are_expanded_together_are_their_own,
    numbers_that_an_older_version_has_not_kept_are_not_used,
    a_batch_without_jobs_has_a_report_without_jobs,
    the_other_dialect_keeps_numbers_too,
);

async fn numbers(queue: &Queue, bid: Bid) -> Numbers {
    queue.expansion(bid).await.unwrap().unwrap().numbers
}

async fn set_numbers(queue: &Queue, bid: Bid, numbers: Numbers) {
    let expansion = Expansion { numbers, ..queue.expansion(bid).await.unwrap().unwrap() };
    let data = expansion.write(Dialect::Design);
    queue.session().set(BatchNode::Expansion.of(bid), data, None).await.unwrap();
}

/// The report as it is, which must be the same without the numbers.
async fn drafted(queue: &Queue, lease: &mut BatchLease) -> StatusReport {
    let bid = lease.bid();
    let kept = numbers(queue, bid).await;
    assert!(kept.is_sound() && !kept.is_empty(), "{kept:?}");
    let told = AtomicUsize::new(0);
    let hears = |jobs| {
        told.fetch_add(jobs, Ordering::Relaxed);
    };
    // The first is what the end of the batch rests on, if it has just ended.
    let first = queue.draft_report(lease).await.unwrap();
    let by_numbers = queue.draft_report_telling(lease, &hears).await.unwrap();
    assert_eq!(first, by_numbers);
    let named: usize = counts(&by_numbers.report).iter().sum();
    assert!(told.into_inner() >= named, "whoever judges stalls hears of each job");
    set_numbers(queue, bid, Numbers::default()).await;
    let by_lists = queue.draft_report(lease).await.unwrap();
    assert_eq!(by_numbers, by_lists);
    set_numbers(queue, bid, kept).await;
    by_lists.report
}

fn counts(report: &StatusReport) -> [usize; 3] {
    [report.failed_jobs.len(), report.successful_jobs.len(), report.deleted_jobs.len()]
}

async fn become_(queue: &Queue, jid: Jid, fate: usize) {
    match fate {
        0 => bring(queue, jid, JobState::Completed).await,
        1 => bring(queue, jid, JobState::Failed).await,
        2 => {
            bring(queue, jid, JobState::Failed).await;
            queue.act(jid, &Action::Delete, "", false).await.unwrap();
        }
        3 => {
            queue.act(jid, &Action::Expire, "its time is over", false).await.unwrap();
        }
        _ => {
            bring(queue, jid, JobState::Completed).await;
            queue.act(jid, &Action::Clean, "", false).await.unwrap();
        }
    }
}

async fn finished(queue: &Queue, lease: &mut BatchLease) -> BatchState {
    let mut draft = queue.draft_report(lease).await.unwrap();
    queue.report_sent(lease, &mut draft).await.unwrap();
    queue.finish_report(lease, &draft).await.unwrap()
}

async fn a_report_by_numbers_is_the_one_by_lists(tree: &Tree) {
    let queue = queue(tree).await;
    // Each fate alone, and all of them in one batch that is read by more than one request.
    for (fates, expected) in [
        (vec![0], [0, 1, 0]),
        (vec![1], [1, 0, 0]),
        (vec![2], [0, 0, 1]),
        (vec![3], [0, 0, 1]),
        (vec![4], [0, 1, 0]),
        ((0..20).map(|at| at % 5).collect(), [4, 8, 8]),
    ] {
        let (bid, jids) = batch_of(&queue, fates.len()).await;
        for (jid, fate) in jids.iter().zip(&fates) {
            become_(&queue, *jid, *fate).await;
        }
        let mut lease = queue.acquire_batch(bid, WHO).await.unwrap();
        queue.end_batch(&mut lease).await.unwrap();
        let report = drafted(&queue, &mut lease).await;
        assert_eq!(counts(&report), expected, "{fates:?}");
        let state = finished(&queue, &mut lease).await;
        if fates.len() == 1 {
            continue;
        }
        // And an update: one was tried again, another was deleted.
        assert_eq!(state, BatchState::Failed);
        queue.act(jids[1], &Action::Requeue(None), "", false).await.unwrap();
        bring(&queue, jids[1], JobState::Completed).await;
        queue.act(jids[6], &Action::Delete, "", false).await.unwrap();
        queue.act_on_batch(bid, BatchAction::UpdateReport, "", false).await.unwrap();
        let mut lease = queue.acquire_batch(bid, WHO).await.unwrap();
        let report = drafted(&queue, &mut lease).await;
        assert_eq!((report.number, counts(&report)), (2, [2, 9, 9]));
        finished(&queue, &mut lease).await;
    }
    clean(queue.session(), Dialect::Design).await;
}

enum Broken {
    Data(String),
    Gone(String),
    There(String),
}

impl Broken {
    async fn apply(self, queue: &Queue) {
        let session = queue.session();
        match self {
            Broken::Data(at) => drop(session.set(at, "\0{", None).await.unwrap()),
            Broken::Gone(at) => session.delete(at, None).await.unwrap(),
            Broken::There(at) => drop(session.create(at, "", Mode::Persistent).await.unwrap()),
        }
    }
}

/// Two completed, two failed, and the lease of their batch, which has ended.
async fn ended_batch_of_four(queue: &Queue) -> (BatchLease, Bid, Vec<Jid>) {
    let (bid, jids) = batch_of(queue, 4).await;
    for (at, jid) in jids.iter().enumerate() {
        become_(queue, *jid, at % 2).await;
    }
    let mut lease = queue.acquire_batch(bid, WHO).await.unwrap();
    queue.end_batch(&mut lease).await.unwrap();
    queue.release_batch(&mut lease).await.unwrap();
    (queue.acquire_batch(bid, WHO).await.unwrap(), bid, jids)
}

async fn a_broken_tree_is_reported_as_its_statuses_are(tree: &Tree) {
    use Broken::{Data, Gone, There};
    type Break = (&'static str, fn(Bid, &[Jid]) -> Vec<Broken>);
    let breaks: [Break; 5] = [
        ("a configuration", |_, jids| vec![Data(JobNode::Configuration.of(jids[1]))]),
        ("what is no job", |bid, _| vec![There(format!("{}/else", map::batch_list(bid, BatchList::Failed)))]),
        ("a job in no list", |bid, jids| vec![Gone(map::batch_ref(bid, BatchList::Failed, jids[1]))]),
        ("a job in two lists", |bid, jids| vec![There(map::batch_ref(bid, BatchList::Failed, jids[0]))]),
        ("a job in another list", |bid, jids| {
            vec![
                Gone(map::batch_ref(bid, BatchList::Failed, jids[1])),
                There(map::batch_ref(bid, BatchList::Deleted, jids[1])),
            ]
        }),
    ];
    let queue = queue(tree).await;
    for (what, broken) in breaks {
        let (mut lease, bid, jids) = ended_batch_of_four(&queue).await;
        for broken in broken(bid, &jids) {
            broken.apply(&queue).await;
        }
        assert_eq!(counts(&drafted(&queue, &mut lease).await), [2, 2, 0], "{what}");
    }
}

async fn a_report_waits_for_a_status_that_cannot_be_read(tree: &Tree) {
    let queue = queue(tree).await;
    for (broken, why) in [
        (Broken::Data as fn(String) -> Broken, "cannot be read"),
        (Broken::Gone as fn(String) -> Broken, "is missing"),
    ] {
        let (mut lease, _, jids) = ended_batch_of_four(&queue).await;
        broken(JobNode::Status.of(jids[0])).apply(&queue).await;
        let refused = queue.draft_report(&mut lease).await.unwrap_err().to_string();
        assert!(refused.contains(&format!("the status of {} {why}", jids[0])), "{refused}");
    }
}

async fn the_numbers_of_two_batches_that_are_expanded_together_are_their_own(tree: &Tree) {
    let queue = queue(tree).await;
    let mut leases = Vec::new();
    for uuid in ["one", "two"] {
        let bid = queue.create_batch(uuid, &submission()).await.unwrap().bid;
        let mut lease = queue.acquire_batch(bid, WHO).await.unwrap();
        queue.begin_expansion(&mut lease, MANIFEST, 4).await.unwrap();
        leases.push(lease);
    }
    let jobs = new_jobs(4);
    for at in [0, 2] {
        for lease in &mut leases {
            queue.expand(lease, at as u64, &jobs[at..at + 2]).await.unwrap();
        }
    }
    let jids = all_jobs(queue.session()).await;
    for (lease, of) in leases.iter_mut().zip([[0, 1, 4, 5], [2, 3, 6, 7]]) {
        let own: Vec<Jid> = of.iter().map(|at| jids[*at]).collect();
        assert_eq!(numbers(&queue, lease.bid()).await.jids().collect::<Vec<_>>(), own);
        for jid in &own {
            become_(&queue, *jid, 3).await;
        }
        queue.end_batch(lease).await.unwrap();
        assert_eq!(counts(&drafted(&queue, lease).await), [0, 0, 4]);
    }
    clean(queue.session(), Dialect::Design).await;
}

async fn numbers_that_an_older_version_has_not_kept_are_not_used(tree: &Tree) {
    let queue = queue(tree).await;
    let bid = queue.create_batch("one", &submission()).await.unwrap().bid;
    let mut lease = queue.acquire_batch(bid, WHO).await.unwrap();
    queue.begin_expansion(&mut lease, MANIFEST, 6).await.unwrap();
    let jobs = new_jobs(6);
    queue.expand(&mut lease, 0, &jobs[..2]).await.unwrap();
    let kept = numbers(&queue, bid).await;
    assert_eq!(kept.count(), 2);
    queue.expand(&mut lease, 2, &jobs[2..4]).await.unwrap();
    // It writes back what it does not know.
    set_numbers(&queue, bid, kept).await;
    queue.expand(&mut lease, 4, &jobs[4..]).await.unwrap();
    assert!(numbers(&queue, bid).await.is_empty());
    for jid in all_jobs(queue.session()).await {
        become_(&queue, jid, 3).await;
    }
    let told = AtomicUsize::new(0);
    let hears = |jobs| {
        told.fetch_add(jobs, Ordering::Relaxed);
    };
    queue.end_batch_telling(&mut lease, &hears).await.unwrap();
    // What the end rests on is what is reported: nothing is read twice.
    let report = queue.draft_report_telling(&mut lease, &hears).await.unwrap().report;
    assert_eq!(counts(&report), [0, 0, 6]);
    assert_eq!(told.into_inner(), 6, "whoever judges stalls hears of each job");
    clean(queue.session(), Dialect::Design).await;
}

async fn a_batch_without_jobs_has_a_report_without_jobs(tree: &Tree) {
    let queue = queue(tree).await;
    let bid = queue.create_batch("one", &submission()).await.unwrap().bid;
    let mut lease = queue.acquire_batch(bid, WHO).await.unwrap();
    queue.fail_batch(&mut lease, "the manifest is empty").await.unwrap();
    let mut lease = queue.acquire_batch(bid, WHO).await.unwrap();
    assert_eq!(counts(&queue.draft_report(&mut lease).await.unwrap().report), [0, 0, 0]);
    assert_eq!(finished(&queue, &mut lease).await, BatchState::Failed);
    clean(queue.session(), Dialect::Design).await;
}

async fn the_other_dialect_keeps_numbers_too(tree: &Tree) {
    let queue = queue_on(&tree.session().await, Dialect::MrtZk).await;
    let (bid, jids) = batch_of(&queue, 3).await;
    assert_eq!(numbers(&queue, bid).await.jids().collect::<Vec<_>>(), jids);
    for jid in &jids {
        bring(&queue, *jid, JobState::Failed).await;
    }
    let mut lease = queue.acquire_batch(bid, WHO).await.unwrap();
    queue.end_batch(&mut lease).await.unwrap();
    assert_eq!(counts(&queue.draft_report(&mut lease).await.unwrap().report), [3, 0, 0]);
    clean(queue.session(), Dialect::MrtZk).await;
}
