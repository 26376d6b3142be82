//! The end of a batch beside a writer of another kind, which sets the status of a job at any version and then deletes and
//! re-creates its refs one by one, or dies in between. What counts is what the statuses say.

use ingest_queue::batches::Ended;
use ingest_queue::dialect::Dialect;
use ingest_queue::ids::{Bid, Jid};
use ingest_queue::map::{self, BatchNode, JobNode, QueueRef};
use ingest_queue::nodes::{Expansion, JobStatus, Node, Numbers, Rows};
use ingest_queue::plan::job::Action;
use ingest_queue::queue::Queue;
use ingest_queue::states::{BatchList, BatchState, JobState};
use ingest_store::{Mode, Op, Session};

use crate::tree::{Tree, on_both_engines};
use crate::world::{WHO, batch_of, bring, clean, priority, queue_on};

on_both_engines!(
    a_batch_does_not_end_while_a_peer_moves_its_last_job,
    a_job_that_a_peer_has_not_completed_yet_ends_nothing,
    refs_that_a_peer_never_made_again_are_put_back_by_the_status,
    a_ref_that_a_load_has_made_again_does_not_keep_a_batch_from_its_end,
    a_failed_job_that_a_peer_tries_again_is_not_reported_as_failed,
    a_job_that_neither_numbers_nor_lists_name_is_found,
    a_batch_with_very_many_failed_jobs_ends_and_is_read_again_for_its_report,
);

const DIALECTS: [Dialect; 2] = [Dialect::Design, Dialect::MrtZk];

/// One request of the peer.
#[derive(Debug, Clone)]
enum Request {
    Set(String, bytes::Bytes),
    Delete(String),
    Create(String),
}

impl Request {
    async fn send(self, session: &Session) {
        match self {
            Request::Set(at, data) => drop(session.set(at, data, None).await.unwrap()),
            Request::Delete(at) => session.delete(at, None).await.unwrap(),
            Request::Create(at) => drop(session.create(at, "", Mode::Persistent).await.unwrap()),
        }
    }
}

/// A job that the peer moves from one state to the next, a request at a time.
async fn moves(queue: &Queue, bid: Bid, jid: Jid, to: JobState) -> Vec<Request> {
    let (status, _) = queue.job_status(jid).await.unwrap();
    let from = status.status;
    let moved = JobStatus { status: to, ..status };
    let entry = |state| QueueRef::new(state, priority(5), jid).path();
    vec![
        Request::Set(JobNode::Status.of(jid), moved.write(queue.dialect())),
        Request::Delete(entry(from)),
        Request::Create(entry(to)),
        Request::Delete(map::batch_ref(bid, from.list(), jid)),
        Request::Create(map::batch_ref(bid, to.list(), jid)),
    ]
}

async fn a_batch_does_not_end_while_a_peer_moves_its_last_job(tree: &Tree) {
    for dialect in DIALECTS {
        let queue = queue_on(&tree.session().await, dialect).await;
        let (bid, jids) = batch_of(&queue, 3).await;
        bring(&queue, jids[0], JobState::Completed).await;
        bring(&queue, jids[1], JobState::Failed).await;
        bring(&queue, jids[2], JobState::Downloading).await;
        let mut lease = queue.acquire_batch(bid, WHO).await.unwrap();
        for to in [JobState::Processing, JobState::Recording, JobState::Notify] {
            for request in moves(&queue, bid, jids[2], to).await {
                let held_open = format!("{dialect:?} {to} before {request:?}");
                assert_ne!(queue.end_batch(&mut lease).await.unwrap(), Ended::Yes, "{held_open}");
                request.send(queue.session()).await;
            }
        }
        assert_ne!(queue.end_batch(&mut lease).await.unwrap(), Ended::Yes);
        bring(&queue, jids[2], JobState::Completed).await;
        assert_eq!(queue.end_batch(&mut lease).await.unwrap(), Ended::Yes);
        let report = queue.draft_report(&mut lease).await.unwrap().report;
        assert_eq!((report.successful_jobs.len(), report.failed_jobs.len()), (2, 1));
        assert_eq!(queue.batch(bid).await.unwrap().state(), BatchState::Reporting);
        clean(queue.session(), dialect).await;
    }
}

async fn a_job_that_a_peer_has_not_completed_yet_ends_nothing(tree: &Tree) {
    for dialect in DIALECTS {
        let queue = queue_on(&tree.session().await, dialect).await;
        let (bid, jids) = batch_of(&queue, 2).await;
        bring(&queue, jids[0], JobState::Completed).await;
        bring(&queue, jids[1], JobState::Notify).await;
        let mut lease = queue.acquire_batch(bid, WHO).await.unwrap();
        // The peer holds the lock for as long as it moves the job.
        let lock = JobNode::Lock.of(jids[1]);
        let session = queue.session();
        session.create(lock.as_str(), "", Mode::Ephemeral).await.unwrap();
        let requests = moves(&queue, bid, jids[1], JobState::Completed).await;
        let (last, first) = requests.split_last().unwrap();
        for request in &first[..first.len() - 1] {
            assert_ne!(queue.end_batch(&mut lease).await.unwrap(), Ended::Yes, "before {request:?}");
            request.clone().send(session).await;
        }
        let Ended::WaitsFor(unended) = queue.end_batch(&mut lease).await.unwrap() else { panic!("it ended") };
        assert!(unended.is_locked && unended.jid == jids[1], "{unended:?}");
        assert_eq!(queue.still_waits(&unended).await.unwrap(), Some(unended.clone()));
        first[first.len() - 1].clone().send(session).await;
        last.clone().send(session).await;
        session.delete(lock, None).await.unwrap();
        assert_eq!(queue.still_waits(&unended).await.unwrap(), None);
        assert_eq!(queue.end_batch(&mut lease).await.unwrap(), Ended::Yes);
        clean(session, dialect).await;
    }
}

async fn refs_that_a_peer_never_made_again_are_put_back_by_the_status(tree: &Tree) {
    for dialect in DIALECTS {
        let queue = queue_on(&tree.session().await, dialect).await;
        // After so many of its requests the peer dies.
        for died_after in 1..=5 {
            let (bid, jids) = batch_of(&queue, 2).await;
            bring(&queue, jids[0], JobState::Completed).await;
            bring(&queue, jids[1], JobState::Downloading).await;
            let requests = moves(&queue, bid, jids[1], JobState::Processing).await;
            for request in requests.into_iter().take(died_after) {
                request.send(queue.session()).await;
            }
            let mut lease = queue.acquire_batch(bid, WHO).await.unwrap();
            let ended = queue.end_batch(&mut lease).await.unwrap();
            assert!(matches!(&ended, Ended::WaitsFor(job) if job.jid == jids[1]), "{died_after}: {ended:?}");
            // While somebody works on it nothing is put back.
            let lock = JobNode::Lock.of(jids[1]);
            queue.session().create(lock.as_str(), "", Mode::Ephemeral).await.unwrap();
            assert!(!queue.restore_refs(jids[1]).await.unwrap());
            queue.session().delete(lock, None).await.unwrap();
            // After the third both of the queue are sent, and the batch ref is not touched yet.
            let is_whole = matches!(died_after, 3 | 5);
            assert_eq!(queue.restore_refs(jids[1]).await.unwrap(), !is_whole, "{died_after}");
            let stale = QueueRef::new(JobState::Downloading, priority(5), jids[1]);
            if died_after == 1 {
                assert!(queue.repair_ref(stale).await.unwrap());
            }
            clean(queue.session(), dialect).await;
            bring(&queue, jids[1], JobState::Completed).await;
            assert_eq!(queue.end_batch(&mut lease).await.unwrap(), Ended::Yes);
            let report = queue.draft_report(&mut lease).await.unwrap().report;
            assert_eq!((report.successful_jobs.len(), report.failed_jobs.len()), (2, 0));
            clean(queue.session(), dialect).await;
        }
    }
}

async fn a_ref_that_a_load_has_made_again_does_not_keep_a_batch_from_its_end(tree: &Tree) {
    for dialect in DIALECTS {
        let queue = queue_on(&tree.session().await, dialect).await;
        let (bid, jids) = batch_of(&queue, 3).await;
        bring(&queue, jids[0], JobState::Completed).await;
        bring(&queue, jids[1], JobState::Failed).await;
        bring(&queue, jids[2], JobState::Failed).await;
        queue.act(jids[2], &Action::Delete, "", false).await.unwrap();
        // In two lists, in the wrong one alone, and of a job that is gone.
        let at = |list, jid| map::batch_ref(bid, list, jid);
        for jid in &jids {
            let stale = at(BatchList::Processing, *jid);
            queue.session().create(stale, "", Mode::Persistent).await.unwrap();
        }
        queue.session().delete(at(BatchList::Failed, jids[1]), None).await.unwrap();
        let expansion = queue.expansion(bid).await.unwrap().unwrap();
        let listed = queue.listed(bid, &expansion).await.unwrap();
        assert!(queue.is_running_list_stale(bid, &listed).await.unwrap());
        let mut lease = queue.acquire_batch(bid, WHO).await.unwrap();
        assert_eq!(queue.end_batch(&mut lease).await.unwrap(), Ended::Yes);
        let report = queue.draft_report(&mut lease).await.unwrap().report;
        let counts = [&report.successful_jobs, &report.failed_jobs, &report.deleted_jobs].map(Rows::len);
        assert_eq!(counts, [1, 1, 1]);
        clean(queue.session(), dialect).await;
    }
}

async fn a_failed_job_that_a_peer_tries_again_is_not_reported_as_failed(tree: &Tree) {
    for dialect in DIALECTS {
        let queue = queue_on(&tree.session().await, dialect).await;
        let (bid, jids) = batch_of(&queue, 2).await;
        bring(&queue, jids[0], JobState::Completed).await;
        bring(&queue, jids[1], JobState::Failed).await;
        let tries_again = async || {
            let requests = moves(&queue, bid, jids[1], JobState::Downloading).await;
            let mut requests = requests.into_iter();
            requests.next().unwrap().send(queue.session()).await;
            requests
        };
        let finish = async |requests: std::vec::IntoIter<Request>| {
            for request in requests {
                request.send(queue.session()).await;
            }
            bring(&queue, jids[1], JobState::Completed).await;
        };
        // While the batch is processing, and again while it is reporting.
        let rest = tries_again().await;
        let mut lease = queue.acquire_batch(bid, WHO).await.unwrap();
        let ended = queue.end_batch(&mut lease).await.unwrap();
        assert!(matches!(&ended, Ended::WaitsFor(job) if job.jid == jids[1]), "{ended:?}");
        finish(rest).await;
        let failed = JobStatus { status: JobState::Failed, ..queue.job_status(jids[1]).await.unwrap().0 };
        for request in moves(&queue, bid, jids[1], failed.status).await {
            request.send(queue.session()).await;
        }
        assert_eq!(queue.end_batch(&mut lease).await.unwrap(), Ended::Yes);
        queue.release_batch(&mut lease).await.unwrap();
        let rest = tries_again().await;
        let mut lease = queue.acquire_batch(bid, WHO).await.unwrap();
        let waits = queue.unended_of(&mut lease, &|_| {}).await.unwrap();
        assert_eq!(waits.map(|job| job.jid), Some(jids[1]));
        assert!(queue.draft_report(&mut lease).await.is_err());
        finish(rest).await;
        assert_eq!(queue.unended_of(&mut lease, &|_| {}).await.unwrap(), None);
        let report = queue.draft_report(&mut lease).await.unwrap().report;
        assert_eq!((report.successful_jobs.len(), report.failed_jobs.len()), (2, 0));
        clean(queue.session(), dialect).await;
    }
}

async fn a_job_that_neither_numbers_nor_lists_name_is_found(tree: &Tree) {
    for dialect in DIALECTS {
        let queue = queue_on(&tree.session().await, dialect).await;
        let (bid, jids) = batch_of(&queue, 3).await;
        // As an older version has expanded it.
        let expansion = queue.expansion(bid).await.unwrap().unwrap();
        let expansion = Expansion { numbers: Numbers::default(), ..expansion };
        let at = BatchNode::Expansion.of(bid);
        queue.session().set(at, expansion.write(dialect), None).await.unwrap();
        bring(&queue, jids[0], JobState::Completed).await;
        bring(&queue, jids[1], JobState::Completed).await;
        let running = map::batch_ref(bid, BatchList::Processing, jids[2]);
        queue.session().delete(running, None).await.unwrap();
        let mut lease = queue.acquire_batch(bid, WHO).await.unwrap();
        let ended = queue.end_batch(&mut lease).await.unwrap();
        assert!(matches!(&ended, Ended::WaitsFor(job) if job.jid == jids[2]), "{ended:?}");
        assert!(queue.restore_refs(jids[2]).await.unwrap());
        bring(&queue, jids[2], JobState::Failed).await;
        assert_eq!(queue.end_batch(&mut lease).await.unwrap(), Ended::Yes);
        let report = queue.draft_report(&mut lease).await.unwrap().report;
        assert_eq!((report.successful_jobs.len(), report.failed_jobs.len()), (2, 1));
        clean(queue.session(), dialect).await;
    }
}

/// More than one commit checks.
async fn a_batch_with_very_many_failed_jobs_ends_and_is_read_again_for_its_report(tree: &Tree) {
    const JOBS: usize = 4_010;
    let queue = queue_on(&tree.session().await, Dialect::Design).await;
    let (bid, jids) = batch_of(&queue, JOBS).await;
    let failed = JobStatus::new(JobState::Failed, queue.now()).write(Dialect::Design);
    for jids in jids.chunks(200) {
        let entry = |state, jid| QueueRef::new(state, priority(5), jid).path();
        let ops = jids.iter().flat_map(|jid| {
            [
                Op::set(JobNode::Status.of(*jid), failed.clone(), 0),
                Op::delete(entry(JobState::Pending, *jid), None),
                Op::create(entry(JobState::Failed, *jid), ""),
                Op::delete(map::batch_ref(bid, BatchList::Processing, *jid), None),
                Op::create(map::batch_ref(bid, BatchList::Failed, *jid), ""),
            ]
        });
        queue.session().multi(ops.collect()).await.unwrap();
    }
    let mut lease = queue.acquire_batch(bid, WHO).await.unwrap();
    assert_eq!(queue.end_batch(&mut lease).await.unwrap(), Ended::Yes);
    assert_eq!(queue.draft_report(&mut lease).await.unwrap().report.failed_jobs.len(), JOBS);
    clean(queue.session(), Dialect::Design).await;
    // One that no commit checks is tried again by a peer.
    let last = jids[JOBS - 1];
    let again = JobStatus::new(JobState::Downloading, queue.now()).write(Dialect::Design);
    queue.session().set(JobNode::Status.of(last), again, None).await.unwrap();
    assert_eq!(queue.unended_of(&mut lease, &|_| {}).await.unwrap().map(|job| job.jid), Some(last));
}
