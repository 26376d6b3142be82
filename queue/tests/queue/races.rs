//! Many nodes fight over the same jobs on a real server, each with one worker per state, and none knows
//! its rank: all want the same job first.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use ingest_queue::dialect::Dialect;
use ingest_queue::error::Error;
use ingest_queue::ids::Jid;
use ingest_queue::index::Settings;
use ingest_queue::index::finder::Finder;
use ingest_queue::map::{self, JobNode, QueueRef};
use ingest_queue::nodes::{History, Schedule};
use ingest_queue::plan::job::Change;
use ingest_queue::queue::Queue;
use ingest_queue::states::{BatchList, JobState};
use ingest_store::{Kind, Session};
use tokio::sync::watch;

use crate::tree::Tree;
use crate::world::{clean, deposit, new_job, path_of_work, priority, queue, status, waiting};

const NODES: usize = 8;
const JOBS: usize = 500;

/// Who took what, in order, by node and state.
type Log = Arc<Mutex<BTreeMap<(usize, JobState), Vec<QueueRef>>>>;

/// The nodes that have taken something.
type Racers = watch::Sender<BTreeSet<usize>>;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eight_nodes_bring_five_hundred_jobs_to_their_end_and_commit_each_state_once() {
    let tree = Tree::zookeeper().await;
    let watcher = queue(&tree).await;
    // Priorities that are not in the order of the ids.
    let jobs: Vec<_> = (0..JOBS)
        .map(|n| {
            let mut new = new_job(n);
            new.priority = priority(i64::try_from(n * 7 % 100).unwrap());
            new
        })
        .collect();
    let bid = deposit(&watcher, "race", &jobs).await.unwrap();

    let (log, racers) = (Log::default(), Racers::default());
    let mut nodes = Vec::new();
    for node in 0..NODES {
        let queue = queue(&tree).await;
        let finder = Arc::new(Finder::start(queue.session(), Settings::default()).await.unwrap());
        for state in path_of_work(Dialect::Design).into_iter().filter(|state| state.is_taken_from()) {
            let worker = work(queue.clone(), finder.clone(), node, state, log.clone(), racers.clone());
            nodes.push(tokio::spawn(worker));
        }
    }
    all_completed(watcher.session()).await;
    for worker in nodes {
        worker.abort();
        if let Err(error) = worker.await {
            assert!(error.is_cancelled(), "a worker has failed: {error}");
        }
    }

    clean(watcher.session(), Dialect::Design).await;
    let done = watcher.session().exists(map::batch_list(bid, BatchList::Completed)).await.unwrap().unwrap();
    assert_eq!(usize::try_from(done.num_children).unwrap(), JOBS);
    let mut commits = BTreeSet::new();
    for entry in waiting(watcher.session(), JobState::Completed).await {
        check_life(&watcher, entry.jid, &mut commits).await;
    }
    let log = log.lock().unwrap().clone();
    assert_eq!(log.values().map(Vec::len).sum::<usize>(), JOBS * 7, "as many takes as there are states");
    let in_the_race = log.keys().map(|(node, _)| *node).collect::<BTreeSet<_>>();
    assert!(in_the_race.len() > 1, "only {in_the_race:?} had anything to do");
    // All jobs were pending before the race: each node has taken them in their order.
    for node in 0..NODES {
        let taken = log.get(&(node, JobState::Pending)).cloned().unwrap_or_default();
        assert!(taken.is_sorted_by_key(|entry| (entry.priority, entry.jid)), "node {node} took {taken:?}");
    }
    tree.close().await;
}

/// One worker of one state, as a pool drives it.
async fn work(queue: Queue, finder: Arc<Finder>, node: usize, state: JobState, log: Log, racers: Racers) {
    while let Some(candidate) = finder.next(state).await {
        let entry = candidate.entry;
        let mut lease = match queue.acquire(entry, &format!("{state}")).await {
            Ok(lease) => lease,
            Err(Error::Busy { .. }) => {
                finder.locked_elsewhere(entry);
                continue;
            }
            // Somebody was faster: the event is on its way.
            Err(Error::Changed { .. } | Error::Lost { .. }) => {
                finder.disagrees(entry);
                continue;
            }
            Err(error) => panic!("{entry:?}: {error}"),
        };
        log.lock().unwrap().entry((node, state)).or_default().push(entry);
        // Whoever is first waits with a job in its hands until another node has one: so it is a race, however long the
        // other nodes take to start.
        racers.send_if_modified(|nodes| nodes.insert(node));
        racers.subscribe().wait_for(|nodes| nodes.len() > 1).await.unwrap();
        queue.succeed(&mut lease, &Change::default()).await.unwrap();
        finder.finished(entry);
    }
}

/// A job's history shows every state once, each with a commit of its own, and no worker was lost.
async fn check_life(queue: &Queue, jid: Jid, commits: &mut BTreeSet<String>) {
    let now = status(queue, jid).await;
    assert_eq!((now.status, now.attempt, now.retry_count), (JobState::Completed, 7, 0), "{jid}");
    let history: History = queue.history(jid).await.unwrap().unwrap();
    let walked: Vec<JobState> = history.entries.iter().map(|entry| entry.to).collect();
    assert_eq!(walked, path_of_work(Dialect::Design)[1..], "{jid}");
    for entry in history.entries {
        assert!(commits.insert(entry.commit.clone()), "{jid}: {} is there twice", entry.commit);
    }
    assert_eq!(queue.node::<Schedule>(jid, JobNode::Schedule).await.unwrap(), None, "{jid}");
}

/// Waits until all are there; the test fails if nothing at all happens for long.
async fn all_completed(session: &Session) {
    let queue = map::queue(JobState::Completed);
    let mut watch = session.watch_tree(queue.as_str()).await.unwrap();
    loop {
        let stat = session.exists(queue.as_str()).await.unwrap().unwrap();
        if usize::try_from(stat.num_children).unwrap() == JOBS {
            return;
        }
        crate::tree::within(watch.next()).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn admins_and_workers_at_the_same_job_lose_nothing() {
    use ingest_queue::plan::job::Action;
    let tree = Tree::zookeeper().await;
    let watcher = queue(&tree).await;
    deposit(&watcher, "race", &(0..40).map(new_job).collect::<Vec<_>>()).await.unwrap();
    let jids = crate::world::all_jobs(watcher.session()).await;
    let (here, there) = (queue(&tree).await, queue(&tree).await);
    let work = async {
        for jid in &jids {
            for state in [JobState::Pending, JobState::Estimating, JobState::Provisioning] {
                let place = QueueRef::new(state, priority(5), *jid);
                let Ok(mut lease) = here.acquire(place, "w").await else { continue };
                match here.succeed(&mut lease, &Change::default()).await {
                    Ok(_) | Err(Error::Lost { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        }
    };
    let admin = async {
        for jid in jids.iter().rev() {
            for (action, force) in [(Action::Hold, true), (Action::Release, false), (Action::Hold, false)] {
                match there.act(*jid, &action, "by an operator", force).await {
                    Ok(_) | Err(Error::Refused { .. } | Error::Busy { .. } | Error::Changed { .. }) => {}
                    Err(error) if error.kind() == Some(Kind::NoNode) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        }
    };
    tokio::join!(work, admin);
    clean(watcher.session(), Dialect::Design).await;
    let mut found = 0;
    for state in JobState::queues(Dialect::Design) {
        found += waiting(watcher.session(), state).await.len();
    }
    assert_eq!(found, 40);
    tree.close().await;
}
