//! Each recipe is run once to count its calls, and then again for each call and each fault. Nothing is
//! enumerated by hand, and a fault that never came fails the test.
//!
//! Invariants: whatever is interrupted anywhere, nothing is held by two and nothing is lost or half done; and what a recipe
//! has made is given back while its session lives, or with its session, so that the next one gets its turn.

use std::sync::Arc;

use ingest_store::engines::embedded::{Embedded, EmbeddedConfig};
use ingest_store::faults::{Fault, Faulty};
use ingest_store::recipes::election::Candidate;
use ingest_store::recipes::lock_table::{LockTable, Released};
use ingest_store::recipes::rw_lock;
use ingest_store::recipes::semaphore::Semaphore;
use ingest_store::recipes::{ltime, shard};
use ingest_store::{Kind, Limits, Result, Session, Store};

use crate::lock_table::{FENCE, LOCK, claim, with_a_job};
use crate::shard::noise;
use crate::tree::within;

struct Bench {
    faulty: Faulty,
    store: Store,
    _dir: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let faulty = Faulty::new(Embedded::open(&EmbeddedConfig::new(dir.path())).unwrap());
        let store = Store::new(Arc::new(faulty.clone()), Limits::default());
        Self { faulty, store, _dir: dir }
    }
}

/// Runs `body` to its end, or until its fault has struck it dead.
async fn strike<T: Send + 'static>(
    bench: &Bench,
    number: usize,
    fault: Fault,
    body: impl Future<Output = Result<T>> + Send + 'static,
) -> Option<Result<T>> {
    bench.faulty.break_call(number, fault);
    let run = tokio::spawn(body);
    if matches!(fault, Fault::KillBefore | Fault::KillAfter) {
        within(bench.faulty.happened()).await;
        run.abort();
        let _ = run.await;
        return None;
    }
    let answer = within(run).await.unwrap();
    // Of calls side by side another may have failed first: then the fault itself is still on its way.
    // A fault that never comes fails the test here.
    within(bench.faulty.happened()).await;
    Some(answer)
}

/// How many calls a clean run makes.
async fn count<T>(bench: &Bench, body: impl Future<Output = Result<T>>) -> usize {
    let before = bench.faulty.calls();
    body.await.unwrap();
    bench.faulty.calls() - before
}

fn survivable(fault: Fault) -> bool {
    matches!(fault, Fault::LoseRequest | Fault::LoseAnswer)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_is_taken_and_given_back_through_every_fault() {
    async fn body(session: Session, table: LockTable) -> Result<Released> {
        let version = session.get(FENCE).await?.1.version;
        let token = table.acquire(claim(version)).await?;
        table.release(&token, None).await
    }
    let bench = Bench::new();
    let session = bench.store.session().await.unwrap();
    with_a_job(&session).await;
    let calls = count(&bench, body(session.clone(), LockTable::new(&session))).await;
    assert!(calls >= 4);
    for (number, fault) in (0..calls).flat_map(|n| Fault::ALL.map(|fault| (n, fault))) {
        // The first call of the body is a plain read, which nobody repeats for the caller.
        if number == 0 {
            continue;
        }
        let bench = Bench::new();
        let session = bench.store.session().await.unwrap();
        with_a_job(&session).await;
        let table = LockTable::new(&session);
        let ended = strike(&bench, number, fault, body(session.clone(), table.clone())).await;
        match ended {
            Some(answer) if survivable(fault) => {
                assert_eq!(answer.unwrap(), Released::Now, "{fault:?} at {number}");
                assert!(table.is_empty());
                assert_eq!(
                    session.get(FENCE).await.unwrap().1.version,
                    2,
                    "one bump each: {fault:?} at {number}"
                );
            }
            Some(answer) => {
                assert_eq!(answer.unwrap_err().kind(), Kind::Expired, "{fault:?} at {number}");
                table.revoke_all();
            }
            // Killed in this process: what the table still knows is released, the rest is swept.
            None => {
                let fence_of = |lock: &str| (lock == LOCK).then(|| FENCE.to_owned());
                table.release_all_of("worker-1").await.unwrap();
                table.sweep("/", fence_of).await.unwrap();
                assert!(table.is_empty(), "{fault:?} at {number}");
            }
        }
        let other = bench.store.session().await.unwrap();
        assert!(other.exists(LOCK).await.unwrap().is_none(), "a lock is left: {fault:?} at {number}");
        let version = other.get(FENCE).await.unwrap().1.version;
        LockTable::new(&other).acquire(claim(version)).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sharded_value_is_old_or_new_through_every_fault() {
    const PATH: &str = "/value";
    let (old, new) = (noise(700 << 10), noise(1200 << 10));
    let body =
        |session: Session, value: Vec<u8>| async move { shard::write(&session, PATH, &value, 1).await };
    let calls = {
        let bench = Bench::new();
        let session = bench.store.session().await.unwrap();
        shard::write(&session, PATH, &old, None).await.unwrap();
        count(&bench, body(session, new.clone())).await
    };
    for (number, fault) in (0..calls).flat_map(|n| Fault::ALL.map(|fault| (n, fault))) {
        let bench = Bench::new();
        let session = bench.store.session().await.unwrap();
        shard::write(&session, PATH, &old, None).await.unwrap();
        strike(&bench, number, fault, body(session.clone(), new.clone())).await;
        let reader = bench.store.session().await.unwrap();
        let (value, stat) = shard::read(&reader, PATH, 1 << 30).await.unwrap().unwrap();
        assert!(value == old || value == new, "half a value: {fault:?} at {number}");
        // Whatever was left over goes with the next collection, and the value does not.
        shard::collect(&reader, PATH, std::time::Duration::ZERO, usize::MAX).await.unwrap();
        assert_eq!(reader.children(PATH).await.unwrap().0.len(), 1);
        assert!(shard::read(&reader, PATH, 1 << 30).await.unwrap().unwrap().0 == value);
        shard::write(&reader, PATH, &new, stat.version).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_is_taken_once_and_comes_back_through_every_fault() {
    async fn body(session: Session) -> Result<()> {
        let semaphore = Semaphore::new(&session, "/semaphores/s");
        semaphore.try_acquire("me").await?.expect("a free slot").release().await
    }
    let prepared = || async {
        let bench = Bench::new();
        let session = bench.store.session().await.unwrap();
        Semaphore::new(&session, "/semaphores/s").set_limit(1).await.unwrap();
        (bench, session)
    };
    let (bench, session) = prepared().await;
    let calls = count(&bench, body(session)).await;
    for (number, fault) in (0..calls).flat_map(|n| Fault::ALL.map(|fault| (n, fault))) {
        let (bench, session) = prepared().await;
        match strike(&bench, number, fault, body(session.clone())).await {
            Some(answer) if survivable(fault) => answer.unwrap(),
            Some(_) => {}
            None => emptied(&session, "/semaphores/s").await,
        }
        session.close().await.unwrap();
        let other = bench.store.session().await.unwrap();
        let slot = Semaphore::new(&other, "/semaphores/s").try_acquire("next").await.unwrap();
        assert!(slot.is_some(), "a slot has leaked: {fault:?} at {number}");
    }
}

/// Waits until nobody is left in a directory, while the session of those who were there lives.
async fn emptied(session: &Session, dir: &str) {
    let mut watch = session.watch_tree(dir).await.unwrap();
    within(async {
        while !session.children(dir).await.unwrap().0.is_empty() {
            watch.next().await;
        }
    })
    .await;
}

const QUEUE: &str = "/queue";

/// Runs what joins and leaves a queue of contenders through every fault: while its session lives it
/// leaves nobody behind, and after it `next` gets its turn.
async fn leaves_the_queue<B, N>(body: fn(Session) -> B, next: fn(Session) -> N)
where
    B: Future<Output = Result<()>> + Send + 'static,
    N: Future<Output = Result<()>>,
{
    let prepared = || async {
        let bench = Bench::new();
        let session = bench.store.session().await.unwrap();
        session.make_dirs(QUEUE).await.unwrap();
        (bench, session)
    };
    let (bench, session) = prepared().await;
    let calls = count(&bench, body(session)).await;
    assert!(calls >= 3, "a create, a listing and a delete at the least");
    for (number, fault) in (0..calls).flat_map(|n| Fault::ALL.map(|fault| (n, fault))) {
        let (bench, session) = prepared().await;
        match strike(&bench, number, fault, body(session.clone())).await {
            Some(answer) if survivable(fault) => {
                answer.unwrap();
                let left = session.children(QUEUE).await.unwrap().0;
                assert!(left.is_empty(), "left while its session lives: {fault:?} at {number}: {left:?}");
            }
            Some(_) => {}
            // In this process: what it was about to take, or had, is given up for it.
            None => emptied(&session, QUEUE).await,
        }
        session.close().await.unwrap();
        within(next(bench.store.session().await.unwrap())).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_candidate_leaves_nobody_behind_through_every_fault() {
    async fn body(session: Session) -> Result<()> {
        Candidate::join(&session, QUEUE, "me").await?.lead().await?.resign().await
    }
    leaves_the_queue(body, body).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_write_lock_comes_back_through_every_fault() {
    async fn read_then_write(session: Session) -> Result<()> {
        rw_lock::read(&session, QUEUE, "r").await?.release().await?;
        rw_lock::write(&session, QUEUE, "w").await?.release().await
    }
    // A writer waits for everybody: whoever was left would keep it waiting.
    async fn write(session: Session) -> Result<()> {
        rw_lock::write(&session, QUEUE, "next").await?.release().await
    }
    leaves_the_queue(read_then_write, write).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_clock_goes_forward_through_every_lost_tick() {
    let bench = Bench::new();
    let session = bench.store.session().await.unwrap();
    let mut last = ltime::tick(&session).await.unwrap();
    let calls = count(&bench, ltime::tick(&session)).await;
    for (number, fault) in (0..calls).flat_map(|n| Fault::ALL.map(|fault| (n, fault))) {
        let session = bench.store.session().await.unwrap();
        let ticking = session.clone();
        let ended = strike(&bench, number, fault, async move { ltime::tick(&ticking).await }).await;
        match ended {
            Some(answer) if survivable(fault) => assert!(answer.unwrap() > last, "{fault:?} at {number}"),
            Some(answer) => assert_eq!(answer.unwrap_err().kind(), Kind::Expired),
            None => {}
        }
        let other = bench.store.session().await.unwrap();
        let now = ltime::tick(&other).await.unwrap();
        assert!(now > last, "{fault:?} at {number}");
        last = now;
    }
}
