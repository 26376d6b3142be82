//! Each story is run once to count its calls, and then again for each call and each fault: killed
//! before and after it, its request or its answer lost, the session expired before and after it. Then it
//! is gone on with by a new node, and the tree is the one of the clean run. Nothing is enumerated by
//! hand, and a fault that never came fails the test.

use std::collections::BTreeMap;
use std::future::Future;
use std::path::Path;
use std::sync::Arc;

use ingest_queue::batches::Ended;
use ingest_queue::bulk::{Bulk, BulkAction};
use ingest_queue::dialect::Dialect;
use ingest_queue::error::{Error, Result};
use ingest_queue::ids::{Bid, Jid};
use ingest_queue::limits::rules::Kind;
use ingest_queue::limits::set::Wanted;
use ingest_queue::list::Filter;
use ingest_queue::map::{self, QueueRef};
use ingest_queue::plan::batch::BatchAction;
use ingest_queue::plan::job::{Action, Change};
use ingest_queue::queue::Queue;
use ingest_queue::states::{BatchState, JobState, States, Who};
use ingest_store::engines::embedded::{Embedded, EmbeddedConfig};
use ingest_store::faults::{Fault, Faulty};
use ingest_store::recipes::settle;
use ingest_store::{Limits, Session, Store};
use serde_json::Value;
use tempfile::TempDir;

use crate::tree::within;
use crate::world::{WHO, clean, deposit, new_jobs, queue_on, snapshot};

/// A tree whose calls can be broken.
struct Ground {
    faulty: Faulty,
    store: Store,
    dir: TempDir,
}

impl Ground {
    /// In memory if the machine has a place for that: hundreds of trees are made and thrown away.
    fn place() -> TempDir {
        tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
    }

    fn on(dir: TempDir) -> Self {
        let faulty = Faulty::new(Embedded::open(&EmbeddedConfig::new(dir.path())).unwrap());
        let store = Store::new(Arc::new(faulty.clone()), Limits::default());
        Self { faulty, store, dir }
    }

    /// A tree like one that was prepared and closed.
    fn like(prepared: &Path) -> Self {
        let dir = Self::place();
        for file in std::fs::read_dir(prepared).unwrap() {
            let file = file.unwrap();
            std::fs::copy(file.path(), dir.path().join(file.file_name())).unwrap();
        }
        Self::on(dir)
    }

    async fn node(&self) -> Queue {
        queue_on(&self.store.session().await.unwrap(), Dialect::Design).await
    }
}

/// Prepares a tree once; all runs start from a copy of it.
async fn prepared<G: Future<Output = Result<()>>>(prepare: impl Fn(Queue) -> G) -> TempDir {
    let dir = Ground::place();
    let tree = Embedded::open(&EmbeddedConfig::new(dir.path())).unwrap();
    let session = Store::new(Arc::new(tree.clone()), Limits::default()).session().await.unwrap();
    prepare(queue_on(&session, Dialect::Design).await).await.unwrap();
    session.close().await.unwrap();
    tree.close().await;
    dir
}

/// Runs a story without faults, and then with each fault at each call.
pub(crate) async fn through_every_fault<P, S, F, G>(prepare: P, story: S)
where
    P: Fn(Queue) -> G,
    G: Future<Output = Result<()>>,
    S: Fn(Queue) -> F + Clone + Send + 'static,
    F: Future<Output = Result<()>> + Send + 'static,
{
    let prepared = prepared(prepare).await;
    let (calls, expected) = {
        let ground = Ground::like(prepared.path());
        let node = ground.node().await;
        let before = ground.faulty.calls();
        within(story(node.clone())).await.unwrap();
        let calls = ground.faulty.calls() - before;
        clean(node.session(), Dialect::Design).await;
        (calls, essence(node.session()).await)
    };
    assert!(calls > 3, "the story makes only {calls} calls");
    let mut missed = 0;
    for (number, fault) in (0..calls).flat_map(|number| Fault::ALL.map(|fault| (number, fault))) {
        let what = format!("{fault:?} at call {number} of {calls}");
        let ground = Ground::like(prepared.path());
        if !strike(&ground, number, fault, &story, &what).await {
            missed += 1;
            continue;
        }
        let next = ground.node().await;
        // Before anything is gone on with, nothing is lost or double.
        clean(next.session(), Dialect::Design).await;
        if !survivable(fault) {
            within(story(next.clone())).await.unwrap_or_else(|error| panic!("{what}: gone on with: {error}"));
            clean(next.session(), Dialect::Design).await;
        }
        let found = essence(next.session()).await;
        for at in found.keys().chain(expected.keys()) {
            assert_eq!(found.get(at), expected.get(at), "{what}: {at}");
        }
        drop(ground.dir);
    }
    // Jobs that are committed side by side share a multi or not, so that a run may make fewer calls.
    assert!(missed * 5 <= calls * 6, "{missed} of {} faults never came", calls * 6);
}

fn survivable(fault: Fault) -> bool {
    matches!(fault, Fault::LoseRequest | Fault::LoseAnswer)
}

/// Runs a story until its fault has struck it; `false` if it ended before that call.
async fn strike<S, F>(ground: &Ground, number: usize, fault: Fault, story: &S, what: &str) -> bool
where
    S: Fn(Queue) -> F,
    F: Future<Output = Result<()>> + Send + 'static,
{
    let node = ground.node().await;
    ground.faulty.break_call(number, fault);
    let mut run = tokio::spawn(story(node.clone()));
    let answer = tokio::select! {
        answer = within(&mut run) => answer.unwrap(),
        () = ground.faulty.happened(), if matches!(fault, Fault::KillBefore | Fault::KillAfter) => {
            run.abort();
            let _ = run.await;
            // What dies with its process loses its session.
            let _ = node.session().close().await;
            return true;
        }
    };
    if answer.is_ok() && !ground.faulty.has_happened() {
        return false;
    }
    within(ground.faulty.happened()).await;
    // A read that nobody waited for may be the one that was struck.
    assert!(answer.is_ok() || !survivable(fault), "{what}: {answer:?}");
    true
}

/// The tree without what a second try may change: who made a commit, how many attempts there were.
async fn essence(session: &Session) -> BTreeMap<String, Value> {
    fn strip(value: &mut Value) {
        match value {
            Value::Object(map) => {
                for name in ["commit", "commits", "attempt", "timeout_count"] {
                    map.remove(name);
                }
                map.values_mut().for_each(strip);
            }
            Value::Array(values) => values.iter_mut().for_each(strip),
            _ => {}
        }
    }
    let mut tree = BTreeMap::new();
    for (at, data) in snapshot(session).await {
        // Made for the count of crashes alone.
        if at.ends_with("/schedule") {
            continue;
        }
        let mut value = serde_json::from_str(&data).unwrap_or(Value::String(data));
        strip(&mut value);
        // Who has had a slot is nothing that remains.
        if at.starts_with("/semaphores/") {
            value = Value::Null;
        }
        // A large value has an id of its own each time it is written.
        if at.ends_with("/status-report") || at.ends_with("/manifest") {
            value = Value::Null;
        }
        if !at.contains("/status-report/") && !at.contains("/manifest/") {
            tree.insert(at, value);
        }
    }
    tree
}

/// What waits in a queue. Unlike the other looks of these tests it is part of the story, and may fail.
async fn waiting(queue: &Queue, state: JobState) -> Result<Vec<QueueRef>> {
    let session = queue.session();
    let (names, _) = settle(session, || session.children(map::queue(state))).await.answer?;
    let mut refs: Vec<_> = names.iter().filter_map(|name| QueueRef::parse(state, name)).collect();
    refs.sort_unstable();
    Ok(refs)
}

async fn jobs(queue: &Queue) -> Result<Vec<Jid>> {
    let session = queue.session();
    let (names, _) = settle(session, || session.children(map::JOBS)).await.answer?;
    let mut jids: Vec<Jid> = names.iter().filter_map(|name| name.parse().ok()).collect();
    jids.sort_unstable();
    Ok(jids)
}

async fn nothing(_: Queue) -> Result<()> {
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_expansion_ends_with_one_job_per_row() {
    async fn story(queue: Queue) -> Result<()> {
        // More than fit into two multis.
        deposit(&queue, "uuid-1", &new_jobs(240)).await?;
        assert_eq!(jobs(&queue).await?.len(), 240);
        Ok(())
    }
    Box::pin(through_every_fault(nothing, story)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_walk_through_their_states_once() {
    async fn prepare(queue: Queue) -> Result<()> {
        deposit(&queue, "uuid-1", &new_jobs(2)).await.map(|_| ())
    }
    async fn story(queue: Queue) -> Result<()> {
        for state in JobState::ALL.iter().copied().filter(|state| state.is_taken_from()) {
            if state == JobState::Storing {
                continue;
            }
            for entry in waiting(&queue, state).await? {
                let mut lease = queue.acquire(entry, WHO).await?;
                if state == JobState::Downloading && entry.jid.number() % 2 == 0 {
                    queue.fail(&mut lease, &Change::message("no route to host")).await?;
                } else {
                    queue.succeed(&mut lease, &Change::message("done")).await?;
                }
            }
        }
        Ok(())
    }
    Box::pin(through_every_fault(prepare, story)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_is_handed_over_from_state_to_state() {
    async fn prepare(queue: Queue) -> Result<()> {
        deposit(&queue, "uuid-1", &new_jobs(1)).await.map(|_| ())
    }
    async fn story(queue: Queue) -> Result<()> {
        for state in JobState::ALL.iter().copied().filter(|state| state.is_taken_from()) {
            if state == JobState::Storing {
                continue;
            }
            for entry in waiting(&queue, state).await? {
                let mut lease = match state {
                    JobState::Pending => queue.admit(entry, WHO).await?,
                    _ => queue.acquire(entry, WHO).await?,
                };
                while let Some(next) = lease.job().state().success(Dialect::Design) {
                    let from = lease.job().state();
                    let by = if from == JobState::Pending { Who::Queue } else { Who::Worker };
                    if next == JobState::Completed {
                        queue.advance(&mut lease, next, by, &Change::default()).await?;
                    } else {
                        queue.hand_over(&mut lease, next, by, &Change::default()).await?;
                    }
                }
            }
        }
        Ok(())
    }
    Box::pin(through_every_fault(prepare, story)).await;
}

/// With a limit of one, two jobs can only go one after the other: a slot that is lost would stop the second.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_slot_of_a_limit_is_lost() {
    async fn prepare(queue: Queue) -> Result<()> {
        deposit(&queue, "uuid-1", &new_jobs(2)).await?;
        for jid in jobs(&queue).await? {
            crate::world::bring(&queue, jid, JobState::Downloading).await;
        }
        queue.set_limit(Kind::Host, "example.org", Wanted::AtMost(1)).await?;
        queue.set_limit(Kind::Profile, "default", Wanted::AtMost(1)).await.map(|_| ())
    }
    async fn story(queue: Queue) -> Result<()> {
        for entry in waiting(&queue, JobState::Downloading).await? {
            let mut lease = queue.acquire(entry, WHO).await?;
            queue.hand_over(&mut lease, JobState::Processing, Who::Worker, &Change::default()).await?;
            queue.succeed(&mut lease, &Change::default()).await?;
        }
        for entry in waiting(&queue, JobState::Processing).await? {
            let mut lease = queue.acquire(entry, WHO).await?;
            queue.succeed(&mut lease, &Change::default()).await?;
        }
        for line in queue.semaphores().await? {
            assert_eq!(line.holders, [], "{}", line.semaphore);
        }
        Ok(())
    }
    through_every_fault(prepare, story).await;
}

/// The limits are as they were set, whatever is lost on the way.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_are_set_once() {
    async fn story(queue: Queue) -> Result<()> {
        queue.set_limit(Kind::Collection, "maps", Wanted::AtMost(3)).await?;
        queue.set_limit(Kind::Host, "a", Wanted::NoLimit).await?;
        queue.set_limit(Kind::Host, "b", Wanted::AtMost(1)).await?;
        queue.set_limit(Kind::Host, "b", Wanted::AsTheFileSays).await.map(|_| ())
    }
    through_every_fault(nothing, story).await;
}

/// A batch of which one job is done, one failed, one held and one waits.
async fn mixed(queue: &Queue) -> Result<Bid> {
    let bid = deposit(queue, "uuid-1", &new_jobs(4)).await?;
    let jids = jobs(queue).await?;
    crate::world::bring(queue, jids[0], JobState::Completed).await;
    crate::world::bring(queue, jids[1], JobState::Failed).await;
    crate::world::bring(queue, jids[2], JobState::Held).await;
    Ok(bid)
}

/// The same, ended: the batch has failed.
async fn failed(queue: &Queue) -> Result<Bid> {
    let bid = mixed(queue).await?;
    let jids = jobs(queue).await?;
    queue.act(jids[2], &Action::Release, "", false).await?;
    for jid in &jids[2..] {
        crate::world::bring(queue, *jid, JobState::Failed).await;
    }
    report(queue, bid).await?;
    Ok(bid)
}

async fn report(queue: &Queue, bid: Bid) -> Result<()> {
    let mut lease = queue.acquire_batch(bid, WHO).await?;
    if lease.batch().state() == BatchState::Processing {
        assert_eq!(queue.end_batch(&mut lease).await?, Ended::Yes);
    }
    if lease.batch().state().is_reporting() {
        let mut draft = queue.draft_report(&mut lease).await?;
        if draft.is_news() && draft.sent.is_none() {
            queue.report_sent(&mut lease, &mut draft).await?;
        }
        queue.finish_report(&mut lease, &draft).await?;
    } else {
        queue.release_batch(&mut lease).await?;
    }
    Ok(())
}

fn the_batch() -> Bid {
    Bid::new(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_ends_and_reports() {
    async fn prepare(queue: Queue) -> Result<()> {
        let bid = mixed(&queue).await?;
        assert_eq!(bid, the_batch());
        let jids = jobs(&queue).await?;
        queue.act(jids[2], &Action::Release, "", false).await?;
        for jid in &jids[2..] {
            crate::world::bring(&queue, *jid, JobState::Completed).await;
        }
        Ok(())
    }
    async fn story(queue: Queue) -> Result<()> {
        report(&queue, the_batch()).await
    }
    Box::pin(through_every_fault(prepare, story)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_update_is_reported() {
    async fn prepare(queue: Queue) -> Result<()> {
        failed(&queue).await?;
        let jids = jobs(&queue).await?;
        queue.act(jids[1], &Action::Requeue(None), "", false).await?;
        crate::world::bring(&queue, jids[1], JobState::Completed).await;
        Ok(())
    }
    async fn story(queue: Queue) -> Result<()> {
        let reported = queue.last_report(the_batch()).await?.map_or(0, |report| report.number);
        if queue.batch(the_batch()).await?.state() == BatchState::Failed && reported == 1 {
            queue.act_on_batch(the_batch(), BatchAction::UpdateReport, "", false).await?;
        }
        report(&queue, the_batch()).await
    }
    Box::pin(through_every_fault(prepare, story)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_is_deleted_with_all_its_jobs() {
    async fn prepare(queue: Queue) -> Result<()> {
        failed(&queue).await?;
        // One that was requeued, and is being worked on when the batch goes.
        let jids = jobs(&queue).await?;
        queue.act(jids[1], &Action::Requeue(None), "", false).await?;
        // Something of another batch stays.
        deposit(&queue, "uuid-2", &new_jobs(2)).await.map(|_| ())
    }
    async fn story(queue: Queue) -> Result<()> {
        for entry in waiting(&queue, JobState::Downloading).await? {
            queue.acquire(entry, WHO).await?;
        }
        match queue.delete_batch(the_batch(), "an operator", "not wanted", false, |_| ()).await {
            // Not found: it was killed after its last step.
            Ok(_) | Err(Error::NotFound(_)) => {}
            Err(error) => return Err(error),
        }
        queue.locks().revoke_all();
        Ok(())
    }
    Box::pin(through_every_fault(prepare, story)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_is_held_released_requeued_and_deleted() {
    async fn prepare(queue: Queue) -> Result<()> {
        mixed(&queue).await.map(|_| ())
    }
    async fn story(queue: Queue) -> Result<()> {
        let jids = jobs(&queue).await?;
        let commit = |what: &str, jid: Jid| format!("{what}-{jid}");
        let held = jids[2];
        queue.act_once(held, &Action::Release, "", false, commit("release", held)).await?;
        let waits = jids[jids.len() - 1];
        queue
            .act_once(waits, &Action::SetPriority(crate::world::priority(70)), "", false, commit("p", waits))
            .await?;
        queue.act_once(waits, &Action::Hold, "", false, commit("hold", waits)).await?;
        let failed = jids[1];
        queue.act_once(failed, &Action::Requeue(None), "", false, commit("requeue", failed)).await?;
        Ok(())
    }
    Box::pin(through_every_fault(prepare, story)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bulk_action_touches_every_job_once() {
    async fn prepare(queue: Queue) -> Result<()> {
        let _ = failed(&queue).await?;
        Ok(())
    }
    async fn story(queue: Queue) -> Result<()> {
        let filter = Filter { batch: Some(the_batch()), ..Filter::default() };
        let action = BulkAction::Requeue { to: None };
        let bulk = Bulk::new("spring", action, filter, false, Dialect::Design)?;
        let summary = queue.bulk(&bulk, "an operator", |_| ()).await.map_err(|stopped| stopped.error)?;
        assert!(summary.refusals.is_empty(), "{summary:?}");
        assert!(waiting(&queue, JobState::Failed).await?.is_empty());
        Ok(())
    }
    Box::pin(through_every_fault(prepare, story)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collection_is_held_and_released_with_all_that_it_held() {
    async fn prepare(queue: Queue) -> Result<()> {
        deposit(&queue, "uuid-1", &new_jobs(2)).await.map(|_| ())
    }
    async fn story(queue: Queue) -> Result<()> {
        queue.hold_collection("demo_content", "an operator", "moving disks").await?;
        for entry in waiting(&queue, JobState::Pending).await? {
            queue
                .act_once(entry.jid, &Action::HoldForCollection, "", false, format!("h-{}", entry.jid))
                .await?;
        }
        queue.release_collection_and_all("demo_content", "an operator", |_| ()).await?;
        Ok(())
    }
    // A second hold has another date of its own only if the clock moves, and it does not.
    Box::pin(through_every_fault(prepare, story)).await;
}

/// Invariant: whatever breaks, each submission under a key is in the batch that it was answered with; one waits, one
/// is processed, and the second is not begun before the first has ended.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn submissions_under_one_key_are_merged_queued_and_begun_in_turn() {
    async fn story(queue: Queue) -> Result<()> {
        use crate::journal::{begin, keyed};
        let first = queue.create_batch("u-1", &keyed("k", "one")).await?.bid;
        assert_eq!(first, the_batch());
        let second = queue.create_batch("u-2", &keyed("k", "two")).await?.bid;
        assert_eq!(second, the_batch(), "merged, or known");
        begin(&queue, first, 1).await?;
        let behind = queue.create_batch("u-3", &keyed("k", "three")).await?.bid;
        assert_eq!(behind, Bid::new(1));
        for state in [JobState::Pending, JobState::Estimating] {
            for entry in waiting(&queue, state).await? {
                if queue.job(entry.jid).await?.bid == first {
                    let mut lease = queue.acquire(entry, WHO).await?;
                    queue.succeed(&mut lease, &Change::default()).await?;
                }
            }
        }
        for entry in waiting(&queue, JobState::Provisioning).await? {
            let mut lease = queue.acquire(entry, WHO).await?;
            queue.fail(&mut lease, &Change::message("too large")).await?;
        }
        report(&queue, first).await?;
        begin(&queue, behind, 1).await
    }
    Box::pin(through_every_fault(nothing, story)).await;
}

/// Invariant: whatever breaks, a job that has expired is begun by nobody, goes once, and its batch names it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_expired_job_goes_and_is_reported() {
    async fn prepare(queue: Queue) -> Result<()> {
        let mut jobs = new_jobs(2);
        let past = ingest_queue::date::Date::from_millis(queue.now().millis() - 1);
        jobs[0].schedule =
            Some(ingest_queue::nodes::Schedule { expiration_date: Some(past), ..Default::default() });
        deposit(&queue, "uuid-1", &jobs).await?;
        crate::world::bring(&queue, Jid::new(2), JobState::Completed).await;
        Ok(())
    }
    async fn story(queue: Queue) -> Result<()> {
        queue.expire(Jid::new(1)).await?;
        report(&queue, the_batch()).await
    }
    Box::pin(through_every_fault(prepare, story)).await;
}

/// Invariant: whatever breaks at whichever call, every item of a feed becomes exactly one batch, the checkpoint stands
/// behind the last of them, and what was counted is true.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_feed_is_consumed_item_by_item() {
    use crate::world::submission;
    use ingest_queue::feeds::Qid;
    async fn story(queue: Queue) -> Result<()> {
        let qid = queue.make_feed("herbarium", "atom").await?.qid;
        let mut lease = queue.acquire_feed(qid, WHO).await?;
        // From the checkpoint on, and the last one again, as a source gives them.
        let from = lease.last().parse::<usize>().unwrap_or(0);
        for number in from..3 {
            let (item, last) = (format!("item {number}"), number.to_string());
            queue.take_item(&mut lease, &item, &last, &submission()).await?;
        }
        // One that becomes nothing: passed over once.
        if lease.last() != "3" {
            queue.move_feed(&mut lease, "3", 1).await?;
        }
        queue.release_feed(&mut lease).await?;
        let feed = queue.feed(Qid::of("herbarium")).await?.node;
        assert_eq!((feed.items, feed.skipped), (3, 1));
        Ok(())
    }
    through_every_fault(nothing, story).await;
}

/// Invariant: what a person does to a feed is done once, and whoever consumes it has lost it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_feed_is_paused_set_back_and_resumed() {
    use crate::world::submission;
    use ingest_queue::feeds::Qid;
    async fn prepare(queue: Queue) -> Result<()> {
        let qid = queue.make_feed("herbarium", "atom").await?.qid;
        let mut lease = queue.acquire_feed(qid, WHO).await?;
        queue.take_item(&mut lease, "item", "1", &submission()).await.map(|_| ())
    }
    async fn story(queue: Queue) -> Result<()> {
        let qid = Qid::of("herbarium");
        queue.pause_feed(qid, "ann", "it moves").await?;
        queue.reset_feed(qid, "0").await?;
        queue.ask_feed(qid, "ann").await?;
        queue.take_wish(qid).await?;
        queue.resume_feed(qid).await?;
        Ok(())
    }
    through_every_fault(prepare, story).await;
}

/// Invariant: feeds are divided among the workers that live, whatever breaks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn feeds_are_divided() {
    use ingest_queue::feeds::Qid;
    use ingest_queue::nodes::WorkerNode;
    async fn story(queue: Queue) -> Result<()> {
        let offers = ["a", "b", "c"].map(Qid::of).to_vec();
        let worker = WorkerNode { offers, node: "one".into(), ..WorkerNode::default() };
        let at = queue.register_worker(&worker).await?;
        let name = Queue::worker_name(&at);
        while let seen = queue.workers().await?
            && let Some(shares) = seen.divided()
        {
            queue.assign_feeds(&seen, shares).await?;
        }
        assert_eq!(queue.workers().await?.share(&name).len(), 3);
        // It leaves, so that the tree is the same whoever was the first.
        let session = queue.session();
        settle(session, || session.delete(at.as_str(), None))
            .await
            .answer
            .or_else(|error| if error.kind() == ingest_store::Kind::NoNode { Ok(()) } else { Err(error) })?;
        settle(session, || session.set(map::WORKERS, "", None)).await.answer?;
        Ok(())
    }
    through_every_fault(nothing, story).await;
}
