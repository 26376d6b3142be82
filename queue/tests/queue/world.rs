//! What the tests stand on: a queue on a tree, batches with jobs, and looks at the whole tree.

use std::collections::BTreeMap;
use std::time::Duration;

use ingest_queue::date::{Clock, Date};
use ingest_queue::dialect::Dialect;
use ingest_queue::fsck;
use ingest_queue::ids::{Bid, Jid};
use ingest_queue::jobs::Lease;
use ingest_queue::map::{self, Priority, QueueRef};
use ingest_queue::nodes::{Configuration, Identifiers, JobStatus, Metadata, Node, Submission};
use ingest_queue::plan::job::{Action, Change, NewJob};
use ingest_queue::queue::{Queue, Settings};
use ingest_queue::states::{JobState, States};
use ingest_store::{Session, path};

use crate::tree::Tree;

pub(crate) const WHO: &str = "worker";
pub(crate) const MANIFEST: &[u8] = b"#%checkm_0.7\n";

/// A date that does not move: what two runs write is the same.
pub(crate) fn clock() -> Clock {
    Clock::fixed(Date::from_millis(1_763_257_425_000))
}

pub(crate) async fn queue_on(session: &Session, dialect: Dialect) -> Queue {
    let settings = Settings { dialect, max_timeouts: 4, ..Settings::new("node-1") };
    Queue::open(session, settings, clock()).await.unwrap()
}

pub(crate) async fn queue(tree: &Tree) -> Queue {
    queue_on(&tree.session().await, Dialect::Design).await
}

pub(crate) fn submission() -> Submission {
    Submission {
        profile_name: "demo_content".into(),
        submitter: "depositor".into(),
        payload_url: Some("https://example.org/manifest.checkm".into()),
        ..Submission::default()
    }
}

pub(crate) fn new_job(number: usize) -> NewJob {
    NewJob {
        configuration: Configuration {
            profile_name: "demo_content".into(),
            submitter: "depositor".into(),
            payload_url: format!("https://example.org/objects/{number}"),
            payload_type: "file".into(),
            response_type: "json".into(),
            submission_mode: "add".into(),
            ..Configuration::default()
        },
        identifiers: Identifiers { local_id: vec![format!("local-{number}")], ..Identifiers::default() },
        metadata: Metadata { erc_what: Some(format!("Object {number}")), ..Metadata::default() },
        ..NewJob::default()
    }
}

pub(crate) fn new_jobs(count: usize) -> Vec<NewJob> {
    (0..count).map(new_job).collect()
}

/// A batch with jobs, expanded whole. Going on with one that was begun is the same call.
pub(crate) async fn deposit(queue: &Queue, uuid: &str, jobs: &[NewJob]) -> ingest_queue::error::Result<Bid> {
    let bid = queue.create_batch(uuid, &submission()).await?.bid;
    let mut lease = queue.acquire_batch(bid, WHO).await?;
    let from = queue.begin_expansion(&mut lease, MANIFEST, jobs.len() as u64).await?;
    let rest = usize::try_from(from).unwrap();
    queue.expand(&mut lease, from, &jobs[rest..]).await?;
    queue.release_batch(&mut lease).await?;
    Ok(bid)
}

/// The same, and the ids of its jobs.
pub(crate) async fn batch_of(queue: &Queue, jobs: usize) -> (Bid, Vec<Jid>) {
    let before: Vec<_> = all_jobs(queue.session()).await;
    let next = queue.session().exists(map::BATCHES).await.unwrap().unwrap().next_sequence();
    let uuid = format!("uuid-of-{next}");
    let bid = deposit(queue, &uuid, &new_jobs(jobs)).await.unwrap();
    let mut jids = all_jobs(queue.session()).await;
    jids.retain(|jid| !before.contains(jid));
    (bid, jids)
}

pub(crate) async fn all_jobs(session: &Session) -> Vec<Jid> {
    let (names, _) = session.children(map::JOBS).await.unwrap();
    let mut jids: Vec<Jid> = names.iter().filter_map(|name| name.parse().ok()).collect();
    jids.sort_unstable();
    jids
}

/// What waits in a queue, in its order.
pub(crate) async fn waiting(session: &Session, state: JobState) -> Vec<QueueRef> {
    let (names, _) = session.children(map::queue(state)).await.unwrap();
    let mut refs: Vec<_> = names.iter().filter_map(|name| QueueRef::parse(state, name)).collect();
    refs.sort_unstable();
    refs
}

pub(crate) async fn status(queue: &Queue, jid: Jid) -> JobStatus {
    queue.job_status(jid).await.unwrap().0
}

/// The job's place in its queue, by what the tree says of it.
pub(crate) async fn entry(queue: &Queue, jid: Jid) -> QueueRef {
    queue.job(jid).await.unwrap().entry()
}

pub(crate) async fn acquire(queue: &Queue, jid: Jid) -> Lease {
    queue.acquire(entry(queue, jid).await, WHO).await.unwrap()
}

/// Moves a job on to a state, as workers do.
pub(crate) async fn bring(queue: &Queue, jid: Jid, to: JobState) {
    match to {
        JobState::Held => {
            queue.act(jid, &Action::Hold, "by a test", false).await.unwrap();
            return;
        }
        JobState::Failed => {
            Box::pin(bring(queue, jid, JobState::Downloading)).await;
            let mut lease = acquire(queue, jid).await;
            queue.fail(&mut lease, &Change::message("no route to host")).await.unwrap();
            return;
        }
        _ => {}
    }
    while status(queue, jid).await.status != to {
        let mut lease = acquire(queue, jid).await;
        queue.succeed(&mut lease, &Change::default()).await.unwrap();
    }
}

/// The whole tree, path by path.
pub(crate) async fn snapshot(session: &Session) -> BTreeMap<String, String> {
    session.sync().await.unwrap();
    let mut found = BTreeMap::new();
    let mut left = vec!["/".to_owned()];
    while let Some(dir) = left.pop() {
        for name in session.children(dir.as_str()).await.unwrap().0 {
            let at = path::join(&dir, &name);
            // ZooKeeper's own; not below a chroot, but the embedded tree of a test has no chroot.
            if at == "/zookeeper" {
                continue;
            }
            let (data, _) = session.get(at.as_str()).await.unwrap();
            found.insert(at.clone(), String::from_utf8_lossy(&data).into_owned());
            left.push(at);
        }
    }
    found
}

/// What is different: paths that came, went, and were set.
#[derive(Debug, PartialEq, Eq, Default)]
pub(crate) struct Difference {
    pub(crate) came: Vec<String>,
    pub(crate) went: Vec<String>,
    pub(crate) set: Vec<String>,
}

pub(crate) fn difference(before: &BTreeMap<String, String>, after: &BTreeMap<String, String>) -> Difference {
    let mut difference = Difference::default();
    for (at, data) in after {
        match before.get(at) {
            None => difference.came.push(at.clone()),
            Some(old) if old != data => difference.set.push(at.clone()),
            Some(_) => {}
        }
    }
    difference.went = before.keys().filter(|at| !after.contains_key(*at)).cloned().collect();
    difference
}

/// Every invariant holds, before any sweep could hide a loss.
#[track_caller]
pub(crate) fn clean(session: &Session, dialect: Dialect) -> impl Future<Output = ()> {
    let caller = std::panic::Location::caller();
    async move {
        if let Err(findings) = fsck::clean(session, dialect).await {
            panic!("at {caller} the tree is not clean:\n{findings}");
        }
    }
}

pub(crate) fn priority(number: i64) -> Priority {
    Priority::new(number).unwrap()
}

pub(crate) fn read<N: Node>(tree: &BTreeMap<String, String>, at: &str) -> N {
    let data = tree.get(at).unwrap_or_else(|| panic!("{at} is missing"));
    N::read(data.as_bytes()).unwrap_or_else(|why| panic!("{at}: {why}"))
}

pub(crate) fn after(queue: &Queue, duration: Duration) -> Date {
    queue.now().after(duration)
}

/// The states that work is done in, from the first to the last.
pub(crate) fn path_of_work(dialect: Dialect) -> Vec<JobState> {
    let mut states = vec![JobState::Pending];
    while let Some(next) = states.last().and_then(|state| state.success(dialect)) {
        states.push(next);
    }
    states
}
