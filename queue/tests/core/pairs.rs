//! Two calls of two nodes at once, the second beginning after each step of the first: the rules hold
//! whichever comes first and however they mix.

use ingest_queue::batches::Ended;
use ingest_queue::dialect::Dialect;
use ingest_queue::error::Error;
use ingest_queue::ids::{Bid, Jid};
use ingest_queue::map::{self, BatchNode, JobNode, QueueRef};
use ingest_queue::nodes::{JobStatus, Node as _, Submission};
use ingest_queue::plan::batch::BatchAction;
use ingest_queue::plan::job::{Action, NewJob};
use ingest_queue::queue::Queue;
use ingest_queue::states::{BatchState, JobState};
use ingest_store::{Mode, Op};

use crate::invariants::broken;
use crate::model::Turn;
use crate::runs::complete;
use crate::stage::{Stage, change};

/// More than any call here takes.
const STEPS: usize = 40;

/// Runs both at once, the second after so many steps of the first.
async fn mix<A, B>(
    stage: &Stage,
    first: impl Future<Output = A>,
    second: impl Future<Output = B>,
    after: usize,
) -> (A, B) {
    stage.engine.plan(vec![Turn { after: 1, loss: None }; 500]);
    let second = async {
        for _ in 0..after {
            tokio::task::yield_now().await;
        }
        second.await
    };
    let answers = tokio::join!(first, second);
    stage.engine.plan([]);
    answers
}

fn each_mix<F: Future<Output = ()>>(run: impl Fn(usize) -> F) {
    for after in 0..STEPS {
        complete(run(after));
    }
}

/// A batch that is failed, with one job that is, and a second node.
async fn failed_batch() -> (Stage, Queue, Jid) {
    let (stage, jid) = Stage::with_job(JobState::Failed).await;
    let mut lease = stage.batch_lease().await;
    stage.queue.end_batch(&mut lease).await.unwrap();
    let mut draft = stage.queue.draft_report(&mut lease).await.unwrap();
    stage.queue.report_sent(&mut lease, &mut draft).await.unwrap();
    stage.queue.finish_report(&mut lease, &draft).await.unwrap();
    let second = stage.second().await;
    (stage, second, jid)
}

#[test]
fn a_job_is_tried_again_or_its_batch_is_reported_again_and_never_both() {
    each_mix(async |after| {
        let (stage, second, jid) = failed_batch().await;
        let requeue = stage.queue.act(jid, &Action::Requeue(None), "", false);
        let report = second.act_on_batch(stage.bid, BatchAction::UpdateReport, "", false);
        let (requeued, reported) = Box::pin(mix(&stage, requeue, report, after)).await;
        assert!(requeued.is_ok() != reported.is_ok(), "{requeued:?} {reported:?}");
        stage.assert_whole();
    });
}

#[test]
fn a_job_is_deleted_or_its_batch_is_reported_again_first() {
    each_mix(async |after| {
        let (stage, second, jid) = failed_batch().await;
        let delete = stage.queue.act(jid, &Action::Delete, "", false);
        let report = second.act_on_batch(stage.bid, BatchAction::UpdateReport, "", false);
        let (deleted, reported) = Box::pin(mix(&stage, delete, report, after)).await;
        reported.unwrap();
        let there = stage.view().jobs.contains_key(&jid);
        assert_eq!(deleted.is_ok(), !there, "{deleted:?}");
        stage.assert_whole();
    });
}

#[test]
fn a_batch_that_is_being_deleted_takes_its_jobs_with_it_whatever_is_done_to_them() {
    for action in [Action::Requeue(None), Action::Delete] {
        each_mix(async |after| {
            let (stage, second, jid) = failed_batch().await;
            let delete = second.delete_batch(stage.bid, "admin", "", false, |_| {});
            let act = stage.queue.act(jid, &action, "", false);
            let (deleted, _) = Box::pin(mix(&stage, delete, act, after)).await;
            deleted.unwrap();
            assert!(stage.view().jobs.is_empty() && stage.view().batches.is_empty());
            stage.assert_whole();
        });
    }
}

#[test]
fn two_nodes_delete_a_batch_together() {
    each_mix(async |after| {
        let (stage, second, _) = failed_batch().await;
        let first = stage.queue.delete_batch(stage.bid, "admin", "", false, |_| {});
        let other = second.delete_batch(stage.bid, "admin", "", false, |_| {});
        let (one, two) = Box::pin(mix(&stage, first, other, after)).await;
        for answer in [one, two] {
            assert!(matches!(answer, Ok(_) | Err(Error::NotFound(_))), "{answer:?}");
        }
        assert!(stage.view().batches.is_empty());
        stage.assert_whole();
    });
}

#[test]
fn a_batch_ends_before_its_failed_job_is_tried_again_or_not_at_all() {
    each_mix(async |after| {
        let (stage, jid) = Stage::with_job(JobState::Failed).await;
        let second = stage.second().await;
        let mut lease = stage.batch_lease().await;
        let end = stage.queue.end_batch(&mut lease);
        let requeue = second.act(jid, &Action::Requeue(None), "", false);
        let (ended, requeued) = Box::pin(mix(&stage, end, requeue, after)).await;
        let ended = ended.unwrap() == Ended::Yes;
        assert!(ended != requeued.is_ok(), "{ended} {requeued:?}");
        assert_eq!(stage.batch().status.status == BatchState::Reporting, ended);
        stage.assert_whole();
    });
}

#[test]
fn a_batch_ends_only_after_its_last_job() {
    each_mix(async |after| {
        let (stage, jid) = Stage::with_job(JobState::Notify).await;
        let mut at_work = stage.acquire(jid).await;
        let second = stage.second().await;
        let mut lease = second.acquire_batch(stage.bid, "batches").await.unwrap();
        let end = second.end_batch(&mut lease);
        let done = change();
        let succeed = stage.queue.succeed(&mut at_work, &done);
        let (ended, moved) = Box::pin(mix(&stage, end, succeed, after)).await;
        assert_eq!(moved.unwrap(), JobState::Completed);
        ended.unwrap();
        stage.assert_whole();
    });
}

#[test]
fn of_two_nodes_that_want_a_job_one_gets_it() {
    each_mix(async |after| {
        let (stage, jid) = Stage::with_job(JobState::Downloading).await;
        let second = stage.second().await;
        let entry = stage.entry(jid);
        let first = Box::pin(stage.queue.acquire(entry, "worker"));
        let other = Box::pin(second.acquire(entry, "worker"));
        let (one, two) = Box::pin(mix(&stage, first, other, after)).await;
        assert!(one.is_ok() != two.is_ok(), "{one:?} {two:?}");
        let refused = one.err().or(two.err()).unwrap();
        assert!(matches!(refused, Error::Busy { .. } | Error::Lost { .. }), "{refused:?}");
        assert_eq!(stage.job(jid).timeouts, 0, "nobody has crashed");
        stage.assert_whole();
    });
}

#[test]
fn a_worker_moves_a_job_or_has_it_taken_away() {
    each_mix(async |after| {
        let (stage, jid) = Stage::with_job(JobState::Estimating).await;
        let mut lease = stage.acquire(jid).await;
        let second = stage.second().await;
        let hold = second.act(jid, &Action::Hold, "", true);
        let done = change();
        let succeed = stage.queue.succeed(&mut lease, &done);
        let (acted, moved) = Box::pin(mix(&stage, hold, succeed, after)).await;
        acted.unwrap();
        assert!(matches!(moved, Ok(_) | Err(Error::Lost { .. })), "{moved:?}");
        assert_eq!(stage.job(jid).state(), JobState::Held);
        assert_eq!(stage.job(jid).history.len(), 2 + usize::from(moved.is_ok()));
        stage.assert_whole();
    });
}

#[test]
fn a_uuid_that_is_submitted_twice_at_once_is_one_batch() {
    each_mix(async |after| {
        let stage = Stage::empty().await;
        let second = stage.second().await;
        let submission = Submission::default();
        let (one, two) = mix(
            &stage,
            stage.queue.create_batch("twice", &submission),
            second.create_batch("twice", &submission),
            after,
        )
        .await;
        let (one, two) = (one.unwrap(), two.unwrap());
        assert!(one.bid == two.bid && one.known != two.known, "{one:?} {two:?}");
        stage.assert_whole();
    });
}

#[test]
fn two_batches_that_are_expanded_at_once_share_the_numbers() {
    each_mix(async |after| {
        let stage = Stage::empty().await;
        let second = stage.second().await;
        let other = second.create_batch("other", &Submission::default()).await.unwrap().bid;
        let (mut first_lease, mut other_lease) =
            (stage.batch_lease().await, second.acquire_batch(other, "batches").await.unwrap());
        stage.queue.begin_expansion(&mut first_lease, b"digest", 3).await.unwrap();
        second.begin_expansion(&mut other_lease, b"digest", 3).await.unwrap();
        let rows = vec![NewJob::default(); 3];
        let (one, two) = mix(
            &stage,
            stage.queue.expand(&mut first_lease, 0, &rows),
            second.expand(&mut other_lease, 0, &rows),
            after,
        )
        .await;
        one.unwrap();
        two.unwrap();
        let numbers: Vec<u32> = stage.view().jobs.keys().map(|jid| jid.number()).collect();
        assert_eq!(numbers, [1, 2, 3, 4, 5, 6]);
        stage.assert_whole();
    });
}

/// A writer of another kind moves a job: its status at any version, and then its refs, one request after the other. Answers whether
/// the status of its batch was still of this version when that of the job was set.
async fn peer_moves(peer: &Queue, (bid, version): (Bid, i32), jid: Jid, to: JobState) -> bool {
    let session = peer.session();
    let job = peer.job(jid).await.unwrap();
    let (from, priority) = (job.state(), job.priority);
    let status = JobStatus { status: to, ..job.status }.write(peer.dialect());
    let set = Op::set(JobNode::Status.of(jid), status, None);
    let first = vec![Op::check(BatchNode::Status.of(bid), version), set.clone()];
    let is_first = session.multi(first).await.is_ok();
    if !is_first {
        session.multi(vec![set]).await.unwrap();
    }
    for (before, after) in [
        (QueueRef::new(from, priority, jid).path(), QueueRef::new(to, priority, jid).path()),
        (map::batch_ref(bid, from.list(), jid), map::batch_ref(bid, to.list(), jid)),
    ] {
        // Where the ref is already, or is no more, the other was faster.
        let _ = session.delete(before, None).await;
        let _ = session.create(after, "", Mode::Persistent).await;
    }
    is_first
}

/// The peer keeps no histories.
fn assert_whole_but_for_histories(stage: &Stage) {
    let mut wrong = broken(&stage.engine, &stage.view(), Dialect::Design);
    wrong.retain(|what| !what.contains("history ends in"));
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn a_batch_does_not_end_while_a_peer_moves_its_last_job() {
    each_mix(async |after| {
        let (stage, jid) = Stage::with_job(JobState::Downloading).await;
        let peer = stage.second().await;
        let mut lease = stage.batch_lease().await;
        let batch = (stage.bid, lease.token().version());
        let moves = peer_moves(&peer, batch, jid, JobState::Processing);
        let end = stage.queue.end_batch(&mut lease);
        let (ended, _) = Box::pin(mix(&stage, end, moves, after)).await;
        assert!(matches!(&ended, Ok(Ended::WaitsFor(job)) if job.jid == jid), "{after}: {ended:?}");
        assert_whole_but_for_histories(&stage);
    });
}

#[test]
fn a_batch_ends_before_a_peer_tries_its_failed_job_again_or_not_at_all() {
    let mut answers = [0, 0];
    // Either of them begins so many steps after the other.
    for (after, peer_begins) in (0..STEPS).flat_map(|after| [(after, false), (after, true)]) {
        let ended = complete(async {
            let (stage, jid) = Stage::with_job(JobState::Failed).await;
            let peer = stage.second().await;
            let mut lease = stage.batch_lease().await;
            let batch = (stage.bid, lease.token().version());
            let tries_again = peer_moves(&peer, batch, jid, JobState::Downloading);
            let end = stage.queue.end_batch(&mut lease);
            let (ended, is_first) = if peer_begins {
                let (is_first, ended) = Box::pin(mix(&stage, tries_again, end, after)).await;
                (ended, is_first)
            } else {
                Box::pin(mix(&stage, end, tries_again, after)).await
            };
            let ended = ended.unwrap() == Ended::Yes;
            assert_eq!(ended, !is_first, "{after}, {peer_begins}");
            stage.queue.release_batch(&mut lease).await.unwrap();
            // Whenever it ended, the job is not reported as failed.
            if ended {
                let mut lease = stage.batch_lease().await;
                assert!(stage.queue.draft_report(&mut lease).await.is_err());
            }
            ended
        });
        answers[usize::from(ended)] += 1;
    }
    assert!(answers.iter().all(|count| *count > 0), "both happen: {answers:?}");
}

#[test]
fn a_job_that_a_peer_completes_ends_its_batch_once_and_is_reported_as_completed() {
    each_mix(async |after| {
        let (stage, jid) = Stage::with_job(JobState::Notify).await;
        let peer = stage.second().await;
        let mut lease = stage.batch_lease().await;
        let batch = (stage.bid, lease.token().version());
        let completes = peer_moves(&peer, batch, jid, JobState::Completed);
        let end = stage.queue.end_batch(&mut lease);
        let (ended, _) = Box::pin(mix(&stage, end, completes, after)).await;
        if ended.unwrap() != Ended::Yes {
            assert_eq!(stage.queue.end_batch(&mut lease).await.unwrap(), Ended::Yes);
        }
        let report = stage.queue.draft_report(&mut lease).await.unwrap().report;
        assert_eq!((report.successful_jobs.len(), report.failed_jobs.len()), (1, 0));
        assert_whole_but_for_histories(&stage);
    });
}
