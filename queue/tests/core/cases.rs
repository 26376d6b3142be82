//! Single behaviours of jobs and batches that sequences of random events have taught.

use ingest_queue::batches::{Ended, Expanded};
use ingest_queue::error::Error;
use ingest_queue::map::{self, AccessSize, BatchNode, Priority};
use ingest_queue::nodes::{AccessToken, Configuration, Submission};
use ingest_queue::plan::batch::BatchAction;
use ingest_queue::plan::job::{Action, NewJob};
use ingest_queue::states::{BatchState, JobState, Who};
use ingest_store::Op;

use crate::model::Turn;
use crate::runs::complete;
use crate::stage::{COLLECTION, Stage, change};

#[tokio::test]
async fn a_job_whose_priority_has_changed_since_its_ref_was_seen_leaves_no_ref_behind() {
    let stage = Stage::with_jobs(1).await;
    let jid = stage.jobs[0];
    let seen = stage.entry(jid);
    stage.queue.act(jid, &Action::SetPriority(Priority::LAST), "", false).await.unwrap();
    if let Ok(mut lease) = stage.queue.acquire(seen, "worker").await {
        assert_eq!(lease.job().priority, Priority::LAST);
        stage.queue.succeed(&mut lease, &change()).await.unwrap();
    }
    stage.assert_whole();
}

/// Whatever of the two comes first, and however they mix.
#[test]
fn a_worker_that_changes_a_priority_while_the_job_is_taken_away_leaves_no_ref_behind() {
    for start in 0..40 {
        complete(async {
            let (stage, jid) = Stage::with_job(JobState::Estimating).await;
            let mut lease = stage.acquire(jid).await;
            let admin = stage.second().await;
            stage.engine.plan(vec![Turn { after: 1, loss: None }; 100]);
            let worker = async {
                for _ in 0..start {
                    tokio::task::yield_now().await;
                }
                stage.queue.set_priority(&mut lease, Priority::LAST).await
            };
            let (acted, _) = tokio::join!(admin.act(jid, &Action::Hold, "", true), worker);
            acted.unwrap();
            stage.assert_whole();
        });
    }
}

#[tokio::test]
async fn a_lease_that_is_spent_moves_nothing() {
    let (stage, jid) = Stage::with_job(JobState::Estimating).await;
    let mut lease = stage.acquire(jid).await;
    stage.queue.succeed(&mut lease, &change()).await.unwrap();
    let before = stage.engine.tree();
    let again = stage.queue.hand_over(&mut lease, JobState::Downloading, Who::Worker, &change()).await;
    assert!(matches!(again, Err(Error::Lost { .. })), "{again:?}");
    assert_eq!(stage.engine.tree(), before);
}

#[tokio::test]
async fn a_batch_lease_that_is_spent_says_nothing_more() {
    let stage = Stage::empty().await;
    let mut lease = stage.batch_lease().await;
    stage.queue.fail_batch(&mut lease, "no such payload").await.unwrap();
    let before = stage.engine.tree();
    let again = stage.queue.note_batch(&mut lease, "late").await;
    assert!(matches!(again, Err(Error::Lost { .. })), "{again:?}");
    assert_eq!(stage.engine.tree(), before);
}

#[tokio::test]
async fn a_job_is_handed_over_only_to_where_somebody_works() {
    let (stage, jid) = Stage::with_job(JobState::Notify).await;
    let mut lease = stage.acquire(jid).await;
    let kept = stage.queue.hand_over(&mut lease, JobState::Completed, Who::Worker, &change()).await;
    assert!(matches!(kept, Err(Error::Forbidden { .. })), "{kept:?}");
    stage.queue.succeed(&mut lease, &change()).await.unwrap();
    stage.assert_whole();
}

#[tokio::test]
async fn only_a_job_that_waits_for_work_is_acquired() {
    for state in [JobState::Failed, JobState::Completed, JobState::Held] {
        let (stage, jid) = if state == JobState::Held {
            let (stage, jid) = Stage::with_job(JobState::Pending).await;
            stage.queue.act(jid, &Action::Hold, "", false).await.unwrap();
            (stage, jid)
        } else {
            Stage::with_job(state).await
        };
        let before = stage.engine.tree();
        let taken = stage.queue.acquire(stage.entry(jid), "worker").await;
        assert!(matches!(taken, Err(Error::Forbidden { .. })), "{state}: {taken:?}");
        assert_eq!(stage.engine.tree(), before);
    }
}

/// Lets the worker of a job die, and takes the job again, so often.
async fn crash(stage: &Stage, times: usize) -> Vec<Result<(), Error>> {
    let jid = stage.jobs[0];
    let mut answers = Vec::new();
    for _ in 0..times {
        answers.push(stage.queue.acquire(stage.entry(jid), "worker").await.map(|_| ()));
        stage.queue.release_all_of("worker").await.unwrap();
    }
    answers
}

#[tokio::test]
async fn a_job_that_crashes_its_worker_too_often_fails_as_poison() {
    let (stage, jid) = Stage::with_job(JobState::Downloading).await;
    let answers = crash(&stage, 4).await;
    assert!(answers[..3].iter().all(Result::is_ok), "{answers:?}");
    assert!(matches!(&answers[3], Err(Error::Changed { .. })), "{answers:?}");
    let job = stage.job(jid);
    assert_eq!((job.state(), job.status.recoverable), (JobState::Failed, true));
    assert!(job.status.message.contains("poison"), "{}", job.status.message);
    stage.assert_whole();
}

#[tokio::test]
async fn a_pending_job_that_crashed_its_worker_often_can_still_be_taken() {
    let (stage, jid) = Stage::with_job(JobState::Pending).await;
    let answers = crash(&stage, 5).await;
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    let mut lease = stage.acquire(jid).await;
    stage.queue.succeed(&mut lease, &change()).await.unwrap();
}

#[tokio::test]
async fn starting_over_does_not_forget_that_the_worker_crashed() {
    let (stage, jid) = Stage::with_job(JobState::Processing).await;
    let _gone = stage.acquire(jid).await;
    stage.engine.expire(stage.queue.session().id());
    let second = stage.second().await;
    second.act(jid, &Action::StartOver, "its node is gone", false).await.unwrap();
    second.acquire(stage.entry(jid), "worker").await.unwrap();
    assert_eq!(stage.job(jid).timeouts, 1);
}

#[tokio::test]
async fn a_job_that_was_taken_away_has_not_crashed() {
    for action in [Action::SetPriority(Priority::LAST), Action::Hold] {
        let (stage, jid) = Stage::with_job(JobState::Estimating).await;
        let mut lease = stage.acquire(jid).await;
        stage.second().await.act(jid, &action, "", true).await.unwrap();
        assert_eq!(stage.job(jid).status.start_processing_date, None, "{action:?}");
        let late = stage.queue.succeed(&mut lease, &change()).await;
        assert!(matches!(late, Err(Error::Lost { .. })), "{late:?}");
    }
}

#[tokio::test]
async fn who_changed_a_priority_and_why_is_in_the_history() {
    let (stage, jid) = Stage::with_job(JobState::Estimating).await;
    stage.queue.act(jid, &Action::SetPriority(Priority::FIRST), "by ann: urgent", false).await.unwrap();
    let job = stage.job(jid);
    assert_eq!(job.history.last().unwrap().message, "by ann: urgent");
    assert_eq!(job.status.message, "a test", "what it says of itself is still true");
}

#[tokio::test]
async fn a_payload_that_is_not_what_was_announced_is_not_tried_again() {
    let (stage, jid) = Stage::with_job(JobState::Pending).await;
    let mut lease = stage.acquire(jid).await;
    stage.queue.fail(&mut lease, &change()).await.unwrap();
    assert!(!stage.job(jid).status.recoverable);
    let again = stage.queue.act(jid, &Action::Requeue(None), "", false).await;
    assert!(
        matches!(&again, Err(Error::Forbidden { why, .. }) if why.contains("submit it again")),
        "{again:?}"
    );
}

#[tokio::test]
async fn a_job_whose_batch_is_gone_can_be_deleted() {
    let (stage, jid) = Stage::with_job(JobState::Failed).await;
    let tree = stage.engine.tree();
    let gone = map::batch(stage.bid);
    let mut below: Vec<_> =
        tree.nodes().filter(|(at, _)| at.starts_with(&gone)).map(|(at, _)| at.to_owned()).collect();
    below.reverse();
    stage.engine.write(&below.into_iter().map(|at| Op::delete(at, None)).collect::<Vec<_>>());
    stage.queue.act(jid, &Action::Delete, "", false).await.unwrap();
    let tree = stage.engine.tree();
    assert!(tree.nodes().all(|(at, _)| !at.contains(&jid.to_string())), "{tree:?}");
}

#[tokio::test]
async fn a_batch_that_could_not_be_expanded_has_no_update_to_tell() {
    let stage = Stage::empty().await;
    let mut lease = stage.batch_lease().await;
    stage.queue.fail_batch(&mut lease, "no such payload").await.unwrap();
    let refused = stage.queue.act_on_batch(stage.bid, BatchAction::UpdateReport, "", false).await;
    assert!(matches!(refused, Err(Error::Forbidden { .. })), "{refused:?}");
}

#[tokio::test]
async fn a_report_tells_what_became_of_each_job_and_ends_the_batch() {
    let stage = Stage::with_jobs(2).await;
    stage.walk(stage.jobs[0], JobState::Completed).await;
    let mut lease = stage.batch_lease().await;
    let waits = stage.queue.end_batch(&mut lease).await.unwrap();
    assert!(matches!(&waits, Ended::WaitsFor(job) if job.why == "1 jobs are under way"), "{waits:?}");
    stage.walk(stage.jobs[1], JobState::Failed).await;
    assert_eq!(stage.queue.end_batch(&mut lease).await.unwrap(), Ended::Yes);
    let mut draft = stage.queue.draft_report(&mut lease).await.unwrap();
    assert_eq!((draft.report.successful_jobs.len(), draft.report.failed_jobs.len()), (1, 1));
    let unsent = stage.queue.finish_report(&mut lease, &draft).await;
    assert!(matches!(unsent, Err(Error::Forbidden { .. })), "{unsent:?}");
    stage.queue.report_sent(&mut lease, &mut draft).await.unwrap();
    assert_eq!(stage.queue.finish_report(&mut lease, &draft).await.unwrap(), BatchState::Failed);
    assert_eq!(stage.batch().status.message, "1 completed, 1 failed");
    stage.assert_whole();
}

#[tokio::test]
async fn a_name_ahead_of_the_counter_is_an_error_and_not_an_endless_search() {
    let stage = Stage::empty().await;
    let ahead = |dir: &str, prefix: &str| {
        let next = stage.engine.tree().stat(dir).unwrap().next_sequence();
        // Creating it moves the counter on by one.
        stage.engine.write(&[Op::create(format!("{dir}/{prefix}{:010}", next + 1), "")]);
    };
    ahead(map::BATCHES, "bid");
    let made = stage.queue.create_batch("another", &Submission::default()).await;
    assert!(matches!(made, Err(Error::Forbidden { .. })), "{made:?}");
    ahead(&AccessSize::Small.dir(), "qid");
    let made = stage.queue.create_access(AccessSize::Small, &AccessToken::default()).await;
    assert!(matches!(made, Err(Error::Forbidden { .. })), "{made:?}");
    ahead(map::JOBS, "jid");
    let mut lease = stage.batch_lease().await;
    stage.queue.begin_expansion(&mut lease, b"digest", 1).await.unwrap();
    let made = stage.queue.expand(&mut lease, 0, &[NewJob::default()]).await;
    assert!(matches!(made, Err(Error::Forbidden { .. })), "{made:?}");
    assert!(!stage.engine.went_in_circles());
}

#[tokio::test]
async fn an_expansion_in_pieces_gives_each_row_one_job_at_the_counter() {
    let stage = Stage::empty().await;
    let mut lease = stage.batch_lease().await;
    stage.queue.begin_expansion(&mut lease, b"digest", 300).await.unwrap();
    let configuration = Configuration { profile_name: COLLECTION.into(), ..Configuration::default() };
    let new = NewJob { configuration, ..NewJob::default() };
    let rows = vec![new; 250];
    assert_eq!(stage.queue.expand(&mut lease, 0, &rows).await.unwrap(), Expanded::To(250));
    let astray = stage.queue.expand(&mut lease, 0, &rows[..1]).await;
    assert!(matches!(astray, Err(Error::Changed { .. })), "{astray:?}");
    let beyond = stage.queue.expand(&mut lease, 250, &rows[..51]).await;
    assert!(matches!(beyond, Err(Error::Invalid(_))), "{beyond:?}");
    assert_eq!(stage.queue.expand(&mut lease, 250, &rows[..50]).await.unwrap(), Expanded::To(300));
    assert_eq!(stage.view().jobs.len(), 300);
    stage.assert_whole();
}

#[tokio::test]
async fn a_lease_that_was_lost_and_given_back_lets_its_node_take_the_job_again() {
    let (stage, jid) = Stage::with_job(JobState::Downloading).await;
    let mut lease = stage.acquire(jid).await;
    stage.second().await.act(jid, &Action::SetPriority(Priority::FIRST), "", true).await.unwrap();
    let gone = stage.queue.gate(&lease).await;
    assert!(matches!(gone, Err(Error::Lost { .. })), "{gone:?}");
    // Its task has not ended here.
    stage.queue.acquire(stage.entry(jid), "worker").await.unwrap_err();
    stage.queue.give_back(&mut lease, None).await.unwrap_err();
    stage.acquire(jid).await;
}

#[tokio::test]
async fn everything_of_a_deleted_batch_goes_and_a_worker_at_it_is_refused() {
    let stage = Stage::with_jobs(3).await;
    stage.walk(stage.jobs[0], JobState::Completed).await;
    stage.walk(stage.jobs[1], JobState::Failed).await;
    stage.walk(stage.jobs[2], JobState::Failed).await;
    let mut lease = stage.batch_lease().await;
    stage.queue.end_batch(&mut lease).await.unwrap();
    let mut draft = stage.queue.draft_report(&mut lease).await.unwrap();
    stage.queue.report_sent(&mut lease, &mut draft).await.unwrap();
    stage.queue.finish_report(&mut lease, &draft).await.unwrap();
    stage.queue.act(stage.jobs[2], &Action::Requeue(None), "", false).await.unwrap();
    let mut at_work = stage.acquire(stage.jobs[2]).await;
    stage.second().await.delete_batch(stage.bid, "admin", "", false, |_| {}).await.unwrap();
    let late = stage.queue.succeed(&mut at_work, &change()).await;
    assert!(matches!(late, Err(Error::Lost { .. })), "{late:?}");
    let tree = stage.engine.tree();
    let ids = ["jid0", "bid0", "uuid/", "BatchNode"];
    let left: Vec<_> = tree.nodes().filter(|(at, _)| ids.iter().any(|id| at.contains(id))).collect();
    assert!(left.is_empty(), "{left:?}");
    assert!(tree.get(&BatchNode::Status.of(stage.bid)).is_none());
}
