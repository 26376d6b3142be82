use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ingest_queue::bulk::{self, Bulk, BulkAction, Phase, Progress, REPORTED};
use ingest_queue::dialect::Dialect;
use ingest_queue::error::{Error, Result};
use ingest_queue::ids::Jid;
use ingest_queue::list::Filter;
use ingest_queue::map::{JobNode, Priority};
use ingest_queue::reasons::{GroupKey, shortened};
use ingest_queue::states::{JobState, States, Who};
use ingest_store::{Limits, Mode};
use tokio::sync::Barrier;

use crate::planted::{alike, go, ground, history, minute, plant, status};
use crate::tree::{Tree, on_both_engines, within};

on_both_engines!(
    a_run_touches_what_the_dry_run_has_counted_and_nothing_else,
    a_dry_run_changes_nothing,
    all_matches_are_touched_and_not_a_page_of_them,
    no_more_than_a_quarter_of_the_requests_are_under_way,
    refused_jobs_are_counted_and_the_first_reported_with_their_reason,
    a_job_that_changes_meanwhile_is_looked_at_again,
    a_job_that_changes_all_the_time_is_refused_in_the_end,
    a_job_that_no_longer_matches_when_it_is_looked_at_again_is_left_alone,
    a_job_whose_history_cannot_be_read_is_refused,
    what_cannot_be_judged_is_reported,
    progress_is_told_while_it_counts_and_while_it_runs,
    a_run_that_expects_another_count_touches_nothing,
    every_action_is_refused_when_the_count_differs,
    a_job_that_matches_after_the_count_is_left_alone,
    a_job_that_does_not_match_any_more_when_its_turn_comes_is_left_alone,
    a_repeated_run_counts_what_it_has_done_before,
    a_group_of_reasons_is_touched_and_no_other,
);

pub(crate) fn requeue(id: &str) -> Bulk {
    let filter = Filter { text: Some("timeout".into()), ..Filter::default() };
    Bulk::new(id, BulkAction::Requeue { to: None }, filter, false, Dialect::Design).unwrap()
}

fn everything(action: BulkAction) -> Bulk {
    Bulk::new("b", action, Filter::default(), true, Dialect::Design).unwrap()
}

fn silent(_: &Progress) {}

fn numbers(jids: &RefCell<Vec<Jid>>) -> Vec<u32> {
    let mut numbers: Vec<_> = jids.borrow().iter().map(|jid| jid.number()).collect();
    numbers.sort_unstable();
    numbers
}

async fn a_run_touches_what_the_dry_run_has_counted_and_nothing_else(tree: &Tree) {
    let session = tree.session().await;
    ground(&session).await;
    let mut jobs = alike(0..12, JobState::Failed);
    for job in jobs.iter_mut().step_by(2) {
        job.status.message = "Timeout of the server".into();
    }
    jobs[11].status.status = JobState::Processing;
    jobs[10].status.status = JobState::Pending;
    plant(&session, &jobs).await;
    let run = requeue("b");
    let counted = bulk::count(&session, &run, silent).await.unwrap();
    assert_eq!((counted.total, counted.states), (5, BTreeMap::from([(JobState::Failed, 5)])));
    assert_eq!(counted.what, "requeue jobs that are failed, with the text `timeout`");
    assert_eq!(counted.examples.iter().map(|line| line.jid.number()).collect::<Vec<_>>(), [0, 2, 4, 6, 8]);
    let touched = RefCell::new(Vec::new());
    let apply = async |jid, commit: String| {
        assert_eq!(commit, format!("bulk-b-{jid}"));
        touched.borrow_mut().push(jid);
        go(&session, jid, JobState::Estimating, &commit).await
    };
    let summary = bulk::run(&session, &run, apply, silent).await.unwrap();
    assert_eq!(numbers(&touched), [0, 2, 4, 6, 8]);
    assert_eq!((summary.progress.total, summary.progress.done, summary.refusals), (5, 5, Vec::new()));
    assert_eq!(bulk::count(&session, &run, silent).await.unwrap().total, 0);
}

async fn a_dry_run_changes_nothing(tree: &Tree) {
    let session = tree.session().await;
    ground(&session).await;
    plant(&session, &alike(0..3, JobState::Failed)).await;
    bulk::count(&session, &everything(BulkAction::Delete), silent).await.unwrap();
    for number in 0..3 {
        assert_eq!(status(&session, Jid::new(number)).await.1, 0);
    }
}

async fn all_matches_are_touched_and_not_a_page_of_them(tree: &Tree) {
    let session = tree.session().await;
    ground(&session).await;
    plant(&session, &alike(0..1_200, JobState::Held)).await;
    let touched = RefCell::new(Vec::new());
    let apply = async |jid, _| {
        touched.borrow_mut().push(jid);
        Ok(())
    };
    let summary = bulk::run(&session, &everything(BulkAction::Release), apply, silent).await.unwrap();
    assert_eq!(numbers(&touched), (0..1_200).collect::<Vec<_>>());
    assert_eq!((summary.progress.total, summary.progress.done), (1_200, 1_200));
}

async fn no_more_than_a_quarter_of_the_requests_are_under_way(tree: &Tree) {
    // A quarter is sixteen, and a job may have four requests under way.
    let session = tree.session_with(Limits { max_requests: 64, ..Limits::default() }).await;
    ground(&session).await;
    plant(&session, &alike(0..20, JobState::Held)).await;
    let (now, most, all_four) = (AtomicUsize::new(0), AtomicUsize::new(0), Barrier::new(4));
    let apply = async |_, _| {
        most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        // Passed only if four are under way together; a fifth would be here before the sync is answered.
        all_four.wait().await;
        session.sync().await.unwrap();
        now.fetch_sub(1, Ordering::SeqCst);
        Ok(())
    };
    let run = everything(BulkAction::Release);
    let summary = within(bulk::run(&session, &run, apply, silent)).await.unwrap();
    assert_eq!((summary.progress.done, most.into_inner()), (20, 4));
}

/// A reason for each number, over and over.
fn refuse(jid: Jid) -> Result<()> {
    let what = jid.to_string();
    Err(match jid.number() % 4 {
        0 => Error::Busy { what, node: "ingest03".into(), since: None },
        1 => Error::Forbidden { what, why: "its collection is held".into() },
        2 => {
            let refused = JobState::Completed.may_go(JobState::Held, Who::Admin, Dialect::Design);
            Error::Refused { what, refused: refused.unwrap_err() }
        }
        _ => Error::NotFound(what),
    })
}

async fn refused_jobs_are_counted_and_the_first_reported_with_their_reason(tree: &Tree) {
    let session = tree.session().await;
    ground(&session).await;
    plant(&session, &alike(0..30, JobState::Held)).await;
    let apply = async |jid: Jid, _| if jid.number() < 25 { refuse(jid) } else { Ok(()) };
    let summary = bulk::run(&session, &everything(BulkAction::Release), apply, silent).await.unwrap();
    assert_eq!((summary.progress.refused, summary.progress.done), (25, 5));
    assert_eq!(summary.refusals.len(), REPORTED);
    for (number, why) in
        [(0, "busy on ingest03"), (1, "collection is held"), (2, "cannot be moved"), (3, "there is no")]
    {
        let refusal = summary.refusals.iter().find(|refusal| refusal.jid == Jid::new(number)).unwrap();
        assert!(refusal.why.contains(why), "{refusal:?}");
    }
}

async fn a_job_that_changes_meanwhile_is_looked_at_again(tree: &Tree) {
    let session = tree.session().await;
    ground(&session).await;
    plant(&session, &alike(0..1, JobState::Held)).await;
    let tries = AtomicUsize::new(0);
    let apply = async |jid: Jid, commit: String| {
        if tries.fetch_add(1, Ordering::SeqCst) < 2 {
            return Err(Error::Changed { what: jid.to_string(), why: "another was faster".into() });
        }
        go(&session, jid, JobState::Pending, &commit).await
    };
    let summary = bulk::run(&session, &everything(BulkAction::Release), apply, silent).await.unwrap();
    assert_eq!((summary.progress.done, tries.load(Ordering::SeqCst)), (1, 3));
}

async fn a_job_that_changes_all_the_time_is_refused_in_the_end(tree: &Tree) {
    let session = tree.session().await;
    ground(&session).await;
    plant(&session, &alike(0..1, JobState::Held)).await;
    let apply =
        async |jid: Jid, _| Err(Error::Changed { what: jid.to_string(), why: "another was faster".into() });
    let run = everything(BulkAction::Release);
    let summary = within(bulk::run(&session, &run, apply, silent)).await.unwrap();
    assert_eq!(summary.progress.refused, 1);
    assert!(summary.refusals[0].why.contains("changed meanwhile"), "{:?}", summary.refusals);
}

async fn a_job_that_no_longer_matches_when_it_is_looked_at_again_is_left_alone(tree: &Tree) {
    let session = tree.session().await;
    ground(&session).await;
    plant(&session, &alike(0..2, JobState::Held)).await;
    let tries = AtomicUsize::new(0);
    let apply = async |jid: Jid, commit: String| {
        if jid == Jid::new(1) {
            return go(&session, jid, JobState::Pending, &commit).await;
        }
        tries.fetch_add(1, Ordering::SeqCst);
        go(&session, jid, JobState::Pending, "somebody else's").await?;
        Err(Error::Changed { what: jid.to_string(), why: "another was faster".into() })
    };
    let summary = bulk::run(&session, &everything(BulkAction::Release), apply, silent).await.unwrap();
    assert_eq!((summary.progress.gone, summary.progress.done, summary.progress.refused), (1, 1, 0));
    assert_eq!(tries.into_inner(), 1);
}

async fn a_job_whose_history_cannot_be_read_is_refused(tree: &Tree) {
    let session = tree.session().await;
    ground(&session).await;
    plant(&session, &alike(0..2, JobState::Held)).await;
    session.create(JobNode::History.of(Jid::new(0)), "{", Mode::Persistent).await.unwrap();
    let apply = async |jid, commit: String| go(&session, jid, JobState::Pending, &commit).await;
    let summary = bulk::run(&session, &everything(BulkAction::Release), apply, silent).await.unwrap();
    assert_eq!((summary.progress.refused, summary.progress.done), (1, 1));
    assert!(summary.refusals[0].why.contains("/jobs/jid0000000000/history"), "{:?}", summary.refusals);
    assert_eq!(status(&session, Jid::new(0)).await.1, 0);
    assert!(history(&session, Jid::new(1)).await.has_commit("bulk-b-jid0000000001"));
}

async fn what_cannot_be_judged_is_reported(tree: &Tree) {
    let session = tree.session().await;
    ground(&session).await;
    plant(&session, &alike(0..3, JobState::Held)).await;
    session.set(JobNode::Status.of(Jid::new(1)), "{", None).await.unwrap();
    let run = everything(BulkAction::Release);
    let counted = bulk::count(&session, &run, silent).await.unwrap();
    assert_eq!((counted.total, counted.unreadable), (2, 1));
    let summary = bulk::run(&session, &run, async |_, _| Ok(()), silent).await.unwrap();
    assert_eq!((summary.progress.done, summary.progress.unreadable), (2, 1));
    assert_eq!(summary.first_unreadable, counted.first_unreadable);
    assert_eq!(summary.first_unreadable[0].path, "/jobs/jid0000000001/status");
}

async fn progress_is_told_while_it_counts_and_while_it_runs(tree: &Tree) {
    let session = tree.session().await;
    ground(&session).await;
    // The second half does not match: it is looked at all the same, and that takes time.
    let mut jobs = alike(0..600, JobState::Held);
    for job in &mut jobs[300..] {
        job.status.last_modification_date = Some(minute(9));
    }
    plant(&session, &jobs).await;
    let filter = Filter { older_than: Some(minute(5)), ..Filter::default() };
    let run = Bulk::new("b", BulkAction::Release, filter, false, Dialect::Design).unwrap();
    let told = Arc::new(parking_lot::Mutex::new(Vec::new()));
    // As a task, as in a server.
    let task = tokio::spawn({
        let told = told.clone();
        async move { bulk::run(&session, &run, async |_, _| Ok(()), |at| told.lock().push(*at)).await }
    });
    let summary = within(task).await.unwrap().unwrap();
    let told = told.lock();
    let counting: Vec<_> = told.iter().filter(|at| at.phase == Phase::Counting).collect();
    assert_eq!(counting.iter().map(|at| at.looked_at).collect::<Vec<_>>(), [256, 512, 600]);
    assert_eq!(counting.last().map(|at| (at.total, at.candidates)), Some((300, 600)));
    let running: Vec<_> = told.iter().filter(|at| at.phase == Phase::Running).collect();
    assert!(running.iter().all(|at| at.total == 300 && at.candidates == 300));
    assert!(
        running.iter().map(|at| at.done).eq([0]
            .into_iter()
            .chain(1..=256)
            .chain([256])
            .chain(257..=300)
            .chain([300]))
    );
    assert_eq!(**running.last().unwrap(), summary.progress);
    assert_eq!((summary.progress.looked_at, summary.progress.done), (300, 300));
}

async fn a_run_that_expects_another_count_touches_nothing(tree: &Tree) {
    let session = tree.session().await;
    ground(&session).await;
    plant(&session, &alike(0..4, JobState::Held)).await;
    let expecting = |count| everything(BulkAction::Release).expecting(Some(count), false);
    for wrong in [0, 3, 5] {
        let run = expecting(wrong);
        let apply = async |_, _| panic!("no job is touched");
        let stopped = bulk::run(&session, &run, apply, silent).await.unwrap_err();
        let differs = |error: &Error| matches!(error, Error::NotExpected { expected, matching: 4, .. } if *expected == wrong);
        assert!(differs(&stopped.error), "{:?}", stopped.error);
        assert_eq!(stopped.summary.progress.phase, Phase::Counting);
        let error = bulk::count(&session, &run, silent).await.unwrap_err();
        assert!(differs(&error) && error.to_string().contains("nothing was changed"), "{error}");
    }
    let apply = async |jid, commit: String| go(&session, jid, JobState::Pending, &commit).await;
    let summary = bulk::run(&session, &expecting(4), apply, silent).await.unwrap();
    assert_eq!((summary.progress.total, summary.progress.done), (4, 4));
}

async fn every_action_is_refused_when_the_count_differs(tree: &Tree) {
    let session = tree.session().await;
    ground(&session).await;
    let mut jobs = alike(0..2, JobState::Held);
    jobs.extend(alike(2..4, JobState::Failed));
    jobs.extend(alike(4..6, JobState::Pending));
    plant(&session, &jobs).await;
    for action in [
        BulkAction::Requeue { to: None },
        BulkAction::Hold,
        BulkAction::Release,
        BulkAction::Delete,
        BulkAction::SetPriority(Priority::FIRST),
    ] {
        let run = everything(action).expecting(Some(1), false);
        let apply = async |_, _| panic!("no job is touched");
        let stopped = bulk::run(&session, &run, apply, silent).await.unwrap_err();
        assert!(matches!(stopped.error, Error::NotExpected { .. }), "{action}: {:?}", stopped.error);
    }
}

async fn a_job_that_matches_after_the_count_is_left_alone(tree: &Tree) {
    let session = tree.session().await;
    ground(&session).await;
    plant(&session, &alike(0..2, JobState::Held)).await;
    let run = everything(BulkAction::Release).expecting(Some(2), false);
    let (touched, once) = (RefCell::new(Vec::new()), AtomicUsize::new(0));
    let apply = async |jid, _| {
        // The precondition holds, the run has begun, and only now there is one more.
        if once.fetch_add(1, Ordering::SeqCst) == 0 {
            plant(&session, &alike(7..8, JobState::Held)).await;
        }
        touched.borrow_mut().push(jid);
        Ok(())
    };
    let summary = bulk::run(&session, &run, apply, silent).await.unwrap();
    assert_eq!((summary.progress.total, numbers(&touched)), (2, vec![0, 1]));
}

async fn a_job_that_does_not_match_any_more_when_its_turn_comes_is_left_alone(tree: &Tree) {
    // One job after the other, and more than a chunk of them: the last one is read again after the first was done.
    let session = tree.session_with(Limits { max_requests: 4, ..Limits::default() }).await;
    ground(&session).await;
    plant(&session, &alike(0..300, JobState::Held)).await;
    let run = everything(BulkAction::Release).expecting(Some(300), false);
    let touched = RefCell::new(Vec::new());
    let apply = async |jid: Jid, _| {
        if jid == Jid::new(0) {
            go(&session, Jid::new(299), JobState::Pending, "somebody else's").await?;
        }
        touched.borrow_mut().push(jid);
        Ok(())
    };
    let summary = within(bulk::run(&session, &run, apply, silent)).await.unwrap();
    assert_eq!((summary.progress.total, summary.progress.done, summary.progress.gone), (300, 299, 1));
    assert_eq!(numbers(&touched), (0..299).collect::<Vec<_>>());
}

async fn a_repeated_run_counts_what_it_has_done_before(tree: &Tree) {
    let session = tree.session().await;
    ground(&session).await;
    plant(&session, &alike(0..5, JobState::Held)).await;
    let run = everything(BulkAction::Release);
    // The node dies after two of them, one of which is held again meanwhile.
    for number in 0..2 {
        let jid = Jid::new(number);
        go(&session, jid, JobState::Pending, &run.commit_id(jid)).await.unwrap();
    }
    go(&session, Jid::new(0), JobState::Held, "ann").await.unwrap();
    let apply = async |jid, commit: String| go(&session, jid, JobState::Pending, &commit).await;
    let first = run.clone().expecting(Some(5), false);
    let stopped = bulk::run(&session, &first, apply, silent).await.unwrap_err();
    assert!(matches!(stopped.error, Error::NotExpected { matching: 4, .. }), "{:?}", stopped.error);
    let more = run.clone().expecting(Some(6), true);
    assert!(
        bulk::run(&session, &more, apply, silent).await.is_err(),
        "what nobody has counted is not touched"
    );
    let summary = bulk::run(&session, &run.expecting(Some(5), true), apply, silent).await.unwrap();
    assert_eq!((summary.progress.total, summary.progress.done, summary.progress.skipped), (4, 3, 1));
}

async fn a_group_of_reasons_is_touched_and_no_other(tree: &Tree) {
    let session = tree.session().await;
    ground(&session).await;
    let mut jobs = alike(0..9, JobState::Failed);
    let long = |name: &str| shortened(&format!("`{name}` {}", "is wrong and ".repeat(3_000)));
    for (at, job) in jobs.iter_mut().enumerate() {
        job.status.message = match at {
            0..5 => format!("http://h{at}.example.org/{at}: the server answers 404 Not Found"),
            5 => "http://h.example.org/404: the server answers 403 Forbidden".into(),
            6 => "http://h.example.org/x: the server answers 403 Forbidden".into(),
            at => long(&"x".repeat(at * at)),
        };
    }
    plant(&session, &jobs).await;
    for (first, members) in [(0, vec![0, 1, 2, 3, 4]), (5, vec![5, 6]), (7, vec![7, 8])] {
        let group = Some(GroupKey::of(&jobs[first].status.message));
        let filter = Filter { group, ..Filter::default() };
        let run = Bulk::new("b", BulkAction::Requeue { to: None }, filter, false, Dialect::Design).unwrap();
        let touched = RefCell::new(Vec::new());
        let apply = async |jid, _| {
            touched.borrow_mut().push(jid);
            Ok(())
        };
        bulk::run(&session, &run.expecting(Some(members.len()), false), apply, silent).await.unwrap();
        assert_eq!(numbers(&touched), members);
    }
}
