//! How exactly scheduled jobs are taken, compared with bare timers and writes of the same run; and that nothing runs
//! between dates.
//!
//! Invariants: no job is locked before its date, as the tree's own clock says; and once its date has come it is taken as
//! soon as a timer and the tree allow, and its date is gone from the tree.
//!
//! `INGESTD_SCHEDULED=10000` takes so many, 6 ms apart. For each job there is a control: a bare timer at the same date in
//! the same runtime and one write to the same tree after it. The tree's own clock says when both came, so whatever the
//! machine, its disk or its scheduler do at that moment is in both, and what is asserted is a ratio within one run. One engine
//! after the other, so that they do not disturb each other.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ingest_harness::let_pass;
use ingest_queue::date::{Clock, Date};
use ingest_queue::dialect::Dialect;
use ingest_queue::ids::Jid;
use ingest_queue::index;
use ingest_queue::index::finder::Finder;
use ingest_queue::map::{self, JobNode};
use ingest_queue::nodes::Schedule;
use ingest_queue::plan::job::NewJob;
use ingest_queue::queue::{Queue, Settings};
use ingest_queue::states::JobState;
use ingest_store::Mode;

use crate::tree::{Tree, on_both_engines};
use crate::world::{all_jobs, clean, deposit, new_job};

on_both_engines!(scheduled_jobs_are_taken_at_their_dates);

const APART: Duration = Duration::from_millis(6);
/// As many as a node has that works hard: what is due at the same moment is committed together.
const WORKERS: usize = 32;

fn how_many() -> usize {
    std::env::var("INGESTD_SCHEDULED").ok().and_then(|text| text.parse().ok()).unwrap_or(300)
}

fn at(number: usize, date: Date) -> NewJob {
    let schedule = Schedule { process_date: Some(date), ..Schedule::default() };
    NewJob { schedule: Some(schedule), ..new_job(number) }
}

async fn live_queue(tree: &Tree) -> Queue {
    Queue::open(&tree.session().await, Settings::new("node-1"), Clock::system()).await.unwrap()
}

fn p99(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[(times.len() * 99 / 100).min(times.len() - 1)]
}

/// How much later than its control a job may be taken. Whoever takes a job reads it and commits it, and a commit waits for
/// those before it: that is a few ways to the tree where the control has one, and on an idle machine about twice its time.
/// A queue that polled for its dates, or took one job after the other, would be late by a hundred times and more.
const TIMES: u32 = 10;
/// Dates and the tree's clock are in whole milliseconds.
const GRAIN: Duration = Duration::from_millis(2);
/// Between the moment when the clock is set and the first date.
const LEAD: Duration = Duration::from_secs(1);

static ONE_AT_A_TIME: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

async fn scheduled_jobs_are_taken_at_their_dates(tree: &Tree) {
    let count = how_many();
    let _alone = ONE_AT_A_TIME.lock().await;
    let queue = live_queue(tree).await;
    // Far enough that all are made before the first is due. Then the clock is set to just before that, so that nothing
    // depends on how long it takes to make them.
    let first = queue.now().after(Duration::from_hours(1000));
    let dates: Vec<Date> = (0..count).map(|n| first.after(APART * u32::try_from(n).unwrap())).collect();
    let jobs: Vec<NewJob> = dates.iter().enumerate().map(|(number, date)| at(number, *date)).collect();
    deposit(&queue, "scheduled", &jobs).await.unwrap();
    let by_jid: BTreeMap<Jid, Date> =
        all_jobs(queue.session()).await.into_iter().zip(dates.clone()).collect();
    let finder =
        Finder::start_by(queue.session(), index::Settings::default(), queue.clock().clone()).await.unwrap();
    let finder = Arc::new(finder);
    assert_eq!(finder.counts(JobState::Pending).not_due, count);
    let writer = live_queue(tree).await;
    writer.session().create(CONTROL, "", Mode::Persistent).await.unwrap();

    queue.clock().set_offset(0);
    queue.clock().set_offset(millis(queue.now().after(LEAD).until(first)));
    finder.reckon_dates();
    let controls: Vec<_> = dates
        .iter()
        .map(|due| {
            let (session, clock, due) = (writer.session().clone(), queue.clock().clone(), *due);
            tokio::spawn(async move {
                tokio::time::sleep(clock.now().until(due)).await;
                let written = session.set(CONTROL, "", None).await.unwrap();
                due.until(in_time_of(&clock, written.mtime))
            })
        })
        .collect();
    take_all(&queue, &finder, count).await;

    let mut timers = Vec::new();
    for control in controls {
        timers.push(control.await.unwrap());
    }
    let mut late = Vec::new();
    for (jid, date) in &by_jid {
        // When the lock was made, as the tree says.
        let lock = queue.session().exists(JobNode::Lock.of(*jid)).await.unwrap();
        let locked = in_time_of(queue.clock(), lock.expect("whoever takes a job has its lock").ctime);
        assert!(locked >= *date, "{jid} was taken before its date");
        late.push(date.until(locked));
    }
    assert_eq!((late.len(), timers.len()), (count, count));
    assert!(queue.session().children(map::JOURNAL_DATES).await.unwrap().0.is_empty());
    writer.session().delete(CONTROL, None).await.unwrap();
    clean(queue.session(), Dialect::Design).await;
    let (late, control) = (p99(late), p99(timers));
    println!("{count} jobs: p99 {late:?} late; a bare timer and a write {control:?} (p99)");
    assert!(late <= (control + GRAIN) * TIMES, "p99 {late:?} late, a bare timer and a write {control:?}");
}

/// What the tree's clock says, by a clock that was set.
fn in_time_of(clock: &Clock, millis: i64) -> Date {
    Date::from_millis(millis + clock.offset())
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap()
}

const CONTROL: &str = "/control";

/// Workers take all jobs, as soon as they are offered.
async fn take_all(queue: &Queue, finder: &Arc<Finder>, count: usize) {
    let taken = Arc::new(AtomicUsize::new(0));
    let workers = (0..WORKERS).map(|worker| {
        let (queue, finder, taken) = (queue.clone(), finder.clone(), taken.clone());
        tokio::spawn(async move {
            while let Some(candidate) = finder.next(JobState::Pending).await {
                let entry = candidate.entry;
                queue.admit(entry, &format!("worker-{worker}")).await.unwrap();
                finder.finished(entry);
                if taken.fetch_add(1, Ordering::SeqCst) + 1 == count {
                    return;
                }
            }
        })
    });
    let (done, _, rest) = futures::future::select_all(workers.collect::<Vec<_>>()).await;
    done.unwrap();
    rest.iter().for_each(tokio::task::JoinHandle::abort);
}

/// How often this runtime had nothing to do and went to sleep: once for each time that something woke it.
fn sleeps() -> u64 {
    tokio::runtime::Handle::current().metrics().worker_park_count(0)
}

#[tokio::test]
async fn nothing_runs_between_dates() {
    // Everything of the queue is on this thread.
    let tree = Tree::embedded();
    let queue = live_queue(&tree).await;
    let later = queue.now().after(Duration::from_hours(1));
    let jobs: Vec<NewJob> = (0..200).map(|number| at(number, later)).collect();
    deposit(&queue, "scheduled", &jobs).await.unwrap();
    let finder =
        Finder::start_by(queue.session(), index::Settings::default(), queue.clock().clone()).await.unwrap();
    // Paused time jumps from one timer to the next: whatever ran in between would wake the runtime once for each time.
    tokio::time::pause();
    let (before, pause) = (sleeps(), Duration::from_mins(30));
    let taken = tokio::select! {
        taken = finder.next(JobState::Pending) => taken,
        () = let_pass(pause) => None,
    };
    let woken = sleeps() - before;
    assert_eq!(taken, None, "none is due");
    // This wait itself, and what the start has left to do.
    assert!(woken < 10, "woken {woken} times while nothing was due");
    drop(finder);
    tokio::time::resume();
    tree.close().await;
}
