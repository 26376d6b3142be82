//! Which jobs get room, and that never more is promised than there is.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ingest_queue::date::{Clock, Date};
use ingest_queue::ids::Jid;
use ingest_queue::map::{JobNode, QueueRef};
use ingest_queue::nodes::{Node as _, Work};
use ingest_queue::plan::job::{Action, Change};
use ingest_queue::queue::Queue;
use ingest_queue::states::JobState;
use ingest_steps::outcome::{Cancel, Failure, Progress, Result};
use ingest_steps::payload::PayloadKind;
use ingest_steps::provision::{self, FileSystem, Provision, Space, Verdict, Waiting};
use ingest_steps::services::Services;
use ingest_steps::step::Payload;
use ingest_steps::step::admit::{self, Cycle, Reserved};
use ingest_store::Session;
use parking_lot::Mutex;
use url::Url;

use crate::faults::Prepared;
use crate::kit::{Stage, new_job};
use crate::tree::{Tree, within};

const HOLDER: &str = "provisioner";

/// So much room and no more, decided as the real one does.
#[derive(Debug, Default)]
struct Room {
    space: Space,
    settings: provision::Settings,
    /// What it was told is promised, each time.
    promised: Mutex<Vec<u64>>,
    /// Waited for before the first answer.
    before: Mutex<Option<std::sync::mpsc::Receiver<()>>>,
    /// Told at the first question.
    asked: Mutex<Option<tokio::sync::oneshot::Sender<()>>>,
}

impl Room {
    fn of(free: u64) -> Self {
        Self { space: Space { total: 2 * free, free, ours: 0, promised: 0 }, ..Self::default() }
    }
}

impl Provision for Room {
    fn space(&self, promised: u64, _: &Cancel) -> Result<Space> {
        self.promised.lock().push(promised);
        if let Some(asked) = self.asked.lock().take() {
            asked.send(()).unwrap();
        }
        if let Some(before) = self.before.lock().take() {
            before.recv().unwrap();
        }
        Ok(Space { promised, ..self.space })
    }

    fn decide(&self, waiting: &[Waiting], space: Space) -> Vec<(Jid, Verdict)> {
        provision::admit(waiting, space, &self.settings)
    }
}

fn payload() -> Payload {
    let url = Url::parse("https://example.org/a").unwrap();
    Payload { kind: PayloadKind::File, url, name: "a".into(), size: None, digest: None, mime: None }
}

async fn stage(session: &Session, room: Room) -> Stage {
    let mut stage = Stage::new(session).await;
    stage.services.provision = Arc::new(room);
    stage
}

/// Jobs that wait for so much room each.
async fn jobs(stage: &Stage, needs: &[i64]) -> Vec<Jid> {
    let new: Vec<_> = needs
        .iter()
        .map(|needs| {
            let mut new = new_job(&payload());
            new.space_needed = *needs;
            new
        })
        .collect();
    let (_, jids) = stage.batch(&new).await;
    for jid in &jids {
        stage.bring(*jid, JobState::Provisioning).await;
    }
    jids
}

async fn cycle_of(queue: &Queue, services: &Services, waiting: &[QueueRef]) -> Result<Cycle> {
    admit::cycle(queue, services, HOLDER, waiting, &Progress::default(), &Cancel::new()).await
}

async fn cycle(stage: &Stage) -> Cycle {
    let waiting = admit::waiting(&stage.queue).await.unwrap();
    cycle_of(&stage.queue, &stage.services, &waiting).await.unwrap()
}

/// What the admitted jobs were promised, each admitted exactly once, and the books say the same.
async fn promised(queue: &Queue, services: &Services) -> BTreeMap<Jid, u64> {
    let mut found = BTreeMap::new();
    let (names, _) = queue.session().children(ingest_queue::map::JOBS).await.unwrap();
    for jid in names.iter().filter_map(|name| name.parse::<Jid>().ok()) {
        if queue.job_status(jid).await.unwrap().0.status != JobState::Downloading {
            continue;
        }
        let work: Work = queue.node(jid, JobNode::Work).await.unwrap().unwrap();
        assert_eq!(work.file_system, services.work.file_system());
        let entries = queue.history(jid).await.unwrap().unwrap().entries;
        let times = entries.iter().filter(|entry| entry.to == JobState::Downloading).count();
        assert_eq!(times, 1, "{jid}: {entries:?}");
        found.insert(jid, work.reserved);
    }
    let at = Reserved::path(services.work.file_system());
    let (data, _) = queue.session().get(at).await.unwrap();
    let books = Reserved::read(&data).unwrap();
    assert_eq!((books.reserved, books.jobs), (found.values().sum(), found.len() as u64));
    found
}

fn jids(list: &[(Jid, String)]) -> Vec<Jid> {
    list.iter().map(|(jid, _)| *jid).collect()
}

#[tokio::test]
async fn a_small_one_passes_a_large_one_and_each_is_told_what_became_of_it() {
    let tree = Tree::embedded();
    let stage = stage(&tree.session().await, Room::of(1_000)).await;
    let jobs = jobs(&stage, &[400, 700, 300, 20_000, 0]).await;
    let found = cycle(&stage).await;
    assert_eq!(found.admitted, [(jobs[0], 400), (jobs[2], 300), (jobs[4], 0)]);
    assert_eq!(jids(&found.waiting), [jobs[1]]);
    assert!(found.waiting[0].1.contains("it needs 700 bytes, and 600 are free"), "{found:?}");
    assert_eq!(jids(&found.failed), [jobs[3]]);
    assert_eq!(found.look_again, stage.services.settings.provisioning.cycle);

    let work: Work = stage.queue.node(jobs[0], JobNode::Work).await.unwrap().unwrap();
    let bid = stage.queue.job(jobs[0]).await.unwrap().bid;
    let dir = stage.services.work.job(bid, jobs[0]);
    assert_eq!((work.node.as_str(), work.attempt, work.reserved), ("node-1", 0, 400));
    assert_eq!(work.directory, dir.to_str().unwrap());
    // What can never be is told, and can be tried again when there is more.
    let failed = stage.status(jobs[3]).await;
    assert!(failed.recoverable && failed.message.contains("it needs 20000 bytes"), "{failed:?}");
    // What waits was not touched.
    assert_eq!(stage.status(jobs[1]).await.attempt, 2);

    // What was promised is still promised.
    let again = cycle(&stage).await;
    assert_eq!((again.admitted.len(), jids(&again.waiting)), (0, vec![jobs[1]]));
    assert_eq!(promised(&stage.queue, &stage.services).await.values().sum::<u64>(), 700);
    assert!(stage.queue.locks().is_empty());
    stage.fsck().await;
    tree.close().await;
}

#[tokio::test]
async fn what_is_on_the_disk_is_not_promised_any_more_and_what_has_gone_on_still_is() {
    let tree = Tree::embedded();
    let room = Arc::new(Room {
        space: Space { total: 1 << 30, free: 1 << 29, ..Space::default() },
        ..Room::default()
    });
    let mut stage = Stage::new(&tree.session().await).await;
    stage.services.provision = room.clone();
    let jobs = jobs(&stage, &[1 << 20, 1 << 10, 5]).await;
    let first = admit::waiting(&stage.queue).await.unwrap();
    cycle_of(&stage.queue, &stage.services, &first[..2]).await.unwrap();
    let bid = stage.queue.job(jobs[0]).await.unwrap().bid;
    let dir = stage.services.work.make_attempt(bid, jobs[0], 1).unwrap();
    std::fs::write(dir.producer().join("a"), vec![7; 1 << 19]).unwrap();
    // More than it was promised counts as all of it.
    let dir = stage.services.work.make_attempt(bid, jobs[1], 1).unwrap();
    std::fs::write(dir.producer().join("a"), vec![7; 1 << 19]).unwrap();
    stage.bring(jobs[0], JobState::Recording).await;
    cycle_of(&stage.queue, &stage.services, &first[2..]).await.unwrap();
    let promised = room.promised.lock().clone();
    assert_eq!(promised[0], 0);
    assert!((1 << 18..=1 << 19).contains(&promised[1]), "{promised:?}");
    stage.fsck().await;
    tree.close().await;
}

#[tokio::test]
async fn one_that_was_passed_over_too_long_reserves_ahead() {
    let tree = Tree::embedded();
    let session = tree.session().await;
    let mut stage = stage(&session, Room::of(1_000)).await;
    let clock = Clock::fixed(Date::from_millis(1_763_257_425_000));
    let settings = ingest_queue::queue::Settings::new("node-1");
    stage.queue = Queue::open(&session, settings, clock.clone()).await.unwrap();
    let first = jobs(&stage, &[300, 900]).await;
    assert_eq!(jids(&cycle(&stage).await.waiting), [first[1]]);
    let later = jobs(&stage, &[100, 0]).await;
    clock.advance(Duration::from_hours(2));
    // Another priority is no new beginning.
    let action = Action::SetPriority(ingest_queue::map::Priority::FIRST);
    stage.queue.act(first[1], &action, "", false).await.unwrap();
    let found = cycle(&stage).await;
    assert_eq!(jids(&found.waiting), [first[1], later[0], later[1]]);
    assert!(found.waiting[1].1.contains(&format!("kept for {}", first[1])), "{found:?}");
    // The first one is done: now it fits, and what is left is for the others.
    stage.bring(first[0], JobState::Completed).await;
    let found = cycle(&stage).await;
    assert_eq!(found.admitted, [(first[1], 900), (later[0], 100)]);
    assert_eq!(jids(&found.waiting), [later[1]]);
    stage.fsck().await;
    tree.close().await;
}

#[tokio::test]
async fn the_quota_bounds_what_is_there_and_what_is_promised() {
    let tree = Tree::embedded();
    let stage = Stage::with(&tree.session().await, |settings| settings.work.quota = Some(1 << 20)).await;
    let jobs = jobs(&stage, &[600 << 10, 600 << 10, 2 << 20, 10 << 10]).await;
    let found = cycle(&stage).await;
    assert_eq!(found.admitted, [(jobs[0], 600 << 10), (jobs[3], 10 << 10)]);
    assert_eq!((jids(&found.waiting), jids(&found.failed)), (vec![jobs[1]], vec![jobs[2]]));
    // Its place is free again, but somebody's files are there.
    stage.bring(jobs[0], JobState::Completed).await;
    let other = stage.services.work.root().join("leftover");
    std::fs::write(&other, vec![1; 500 << 10]).unwrap();
    assert_eq!(cycle(&stage).await.admitted, []);
    std::fs::remove_file(&other).unwrap();
    assert_eq!(cycle(&stage).await.admitted, [(jobs[1], 600 << 10)]);
    stage.fsck().await;
    tree.close().await;
}

#[tokio::test]
async fn an_unknown_size_waits_while_the_file_system_is_rather_full() {
    let tree = Tree::embedded();
    let mut stage = stage(&tree.session().await, Room::of(1_000)).await;
    let full = Room { space: Space { total: 1_000, free: 100, ..Space::default() }, ..Room::default() };
    let roomy = std::mem::replace(&mut stage.services.provision, Arc::new(full));
    let jobs = jobs(&stage, &[0, -5]).await;
    let found = cycle(&stage).await;
    assert_eq!(jids(&found.waiting), jobs);
    assert!(found.waiting[0].1.contains("90 % of the file system is used"), "{found:?}");
    let empty = Room { space: Space { total: 1_000, free: 900, ..Space::default() }, ..Room::default() };
    stage.services.provision = Arc::new(empty);
    assert_eq!(cycle(&stage).await.admitted, [(jobs[0], 0), (jobs[1], 0)]);
    drop(roomy);
    stage.fsck().await;
    tree.close().await;
}

#[tokio::test]
async fn whoever_decided_on_what_is_not_so_any_more_decides_again() {
    let tree = Tree::embedded();
    let stage = stage(&tree.session().await, Room::of(1_000)).await;
    let other = Queue::open(
        &tree.session().await,
        ingest_queue::queue::Settings::new("node-2"),
        Clock::fixed(Date::from_millis(1_763_257_425_000)),
    )
    .await
    .unwrap();
    // Once the books are new, once they are there.
    for (round, needs) in [[600, 600], [250, 300]].into_iter().enumerate() {
        jobs(&stage, &needs).await;
        let waiting = admit::waiting(&stage.queue).await.unwrap();
        let (mine, yours) = waiting[waiting.len() - 2..].split_at(1);
        let (go, before) = std::sync::mpsc::channel();
        let (asked, is_asked) = tokio::sync::oneshot::channel();
        let slow =
            Room { before: Mutex::new(Some(before)), asked: Mutex::new(Some(asked)), ..Room::of(1_000) };
        let mut services = stage.services.clone();
        services.provision = Arc::new(slow);
        let (queue, mine) = (stage.queue.clone(), mine.to_vec());
        let run = tokio::spawn(async move { cycle_of(&queue, &services, &mine).await.unwrap() });
        within(is_asked).await.unwrap();
        // It has read all, and this is faster.
        let faster = cycle_of(&other, &stage.services, yours).await.unwrap();
        assert_eq!(faster.admitted, [(yours[0].jid, u64::try_from(needs[1]).unwrap())]);
        go.send(()).unwrap();
        let slower = within(run).await.unwrap();
        assert_eq!(slower.admitted, [], "{round}");
        assert_eq!(slower.waiting.len(), 1, "{round}: {slower:?}");
        assert!(stage.queue.locks().is_empty());
    }
    assert_eq!(promised(&stage.queue, &stage.services).await.values().sum::<u64>(), 900);
    stage.fsck().await;
    tree.close().await;
}

async fn racing_provisioners_never_promise_more_than_there_is(tree: &Tree) {
    let stage = stage(&tree.session().await, Room::of(1_000)).await;
    let needs: Vec<i64> = (0..40).map(|number| 10 + number % 7 * 13).collect();
    jobs(&stage, &needs).await;
    let mut runs = Vec::new();
    for node in ["node-1", "node-2", "node-3"] {
        let settings = ingest_queue::queue::Settings::new(node);
        let clock = Clock::fixed(stage.queue.now());
        let queue = Queue::open(&tree.session().await, settings, clock).await.unwrap();
        let (services, ahead) = (stage.services.clone(), runs.len() * 13);
        runs.push(tokio::spawn(async move {
            loop {
                let mut mine = admit::waiting(&queue).await.unwrap();
                // They do not all want the same first.
                let turn = ahead.min(mine.len());
                mine.rotate_left(turn);
                let found = cycle_of(&queue, &services, &mine).await.unwrap();
                // What another node has locked is not decided by this cycle.
                if found.admitted.is_empty() && found.skipped.is_empty() {
                    break;
                }
            }
            assert!(queue.locks().is_empty());
        }));
    }
    for run in runs {
        within(run).await.unwrap();
    }
    let sum: u64 = promised(&stage.queue, &stage.services).await.values().sum();
    assert!(sum <= 1_000, "{sum}");
    // And nothing that would fit is left waiting.
    assert_eq!(cycle(&stage).await.admitted, []);
    assert!(sum > 900, "{sum}");
    stage.fsck().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn racing_on_the_embedded_tree() {
    let tree = Tree::embedded();
    racing_provisioners_never_promise_more_than_there_is(&tree).await;
    tree.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn racing_on_zookeeper() {
    let tree = Tree::zookeeper().await;
    racing_provisioners_never_promise_more_than_there_is(&tree).await;
    tree.close().await;
}

#[tokio::test]
async fn one_that_comes_back_is_admitted_anew_and_counts_once() {
    let tree = Tree::embedded();
    let mut stage = stage(&tree.session().await, Room::of(1_000)).await;
    let jobs = jobs(&stage, &[600, 300]).await;
    cycle(&stage).await;
    let mut lease = stage.take(jobs[0]).await;
    stage.queue.fail(&mut lease, &Change::message("its node is gone")).await.unwrap();
    let action = Action::Requeue(Some(JobState::Provisioning));
    stage.queue.act(jobs[0], &action, "", false).await.unwrap();
    stage.services.work =
        ingest_steps::work::WorkDir::open(&stage.dir().join("elsewhere"), "node-9").unwrap();
    assert_eq!(cycle(&stage).await.admitted, [(jobs[0], 600)]);
    let work: Work = stage.queue.node(jobs[0], JobNode::Work).await.unwrap().unwrap();
    assert_eq!((work.node.as_str(), work.reserved), ("node-9", 600));
    let (data, _) =
        stage.queue.session().get(Reserved::path(stage.services.work.file_system())).await.unwrap();
    let books = Reserved::read(&data).unwrap();
    assert_eq!((books.reserved, books.jobs), (600, 1), "the other one is on another file system");
    stage.fsck().await;
    tree.close().await;
}

#[tokio::test]
async fn one_that_is_locked_or_gone_on_is_left_alone() {
    let tree = Tree::embedded();
    let stage = stage(&tree.session().await, Room::of(1_000)).await;
    let jobs = jobs(&stage, &[100, 100, 100]).await;
    let waiting = admit::waiting(&stage.queue).await.unwrap();
    let mut lease = stage.take(jobs[0]).await;
    stage.queue.act(jobs[1], &Action::Hold, "", false).await.unwrap();
    let found = cycle_of(&stage.queue, &stage.services, &waiting).await.unwrap();
    assert_eq!(found.admitted, [(jobs[2], 100)]);
    let mut skipped = jids(&found.skipped);
    skipped.sort_unstable();
    assert_eq!(skipped, jobs[..2], "{found:?}");
    stage.queue.give_back(&mut lease, None).await.unwrap();
    assert_eq!(cycle(&stage).await.admitted, [(jobs[0], 100)]);
    stage.fsck().await;
    tree.close().await;
}

#[tokio::test]
async fn nobody_is_admitted_where_the_file_system_cannot_be_asked_or_it_was_told_to_stop() {
    let tree = Tree::embedded();
    let mut stage = stage(&tree.session().await, Room::of(1_000)).await;
    let jobs = jobs(&stage, &[100]).await;
    let waiting = admit::waiting(&stage.queue).await.unwrap();
    let cancel = Cancel::new();
    cancel.cancel();
    let stopped =
        admit::cycle(&stage.queue, &stage.services, HOLDER, &waiting, &Progress::default(), &cancel).await;
    assert_eq!(stopped, Err(Failure::Cancelled));
    let gone = FileSystem::new(stage.dir().join("none"), provision::Settings::default());
    stage.services.provision = Arc::new(gone);
    let found = cycle_of(&stage.queue, &stage.services, &waiting).await;
    assert!(matches!(found, Err(Failure::Later(_))), "{found:?}");
    assert_eq!(stage.status(jobs[0]).await.status, JobState::Provisioning);
    assert!(stage.queue.locks().is_empty());
    stage.fsck().await;
    tree.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cut_off_anywhere_each_job_is_admitted_once_and_the_sums_are_right() {
    let prepare = async |session: Session| {
        let stage = stage(&session, Room::of(1_000)).await;
        let jobs = jobs(&stage, &[400, 700, 300, 20_000, 0]).await;
        (stage, jobs)
    };
    let (prepared, (stage, jobs)) = Prepared::with(prepare).await;
    let services = &stage.services;
    let story = |queue: Queue| {
        let services = services.clone();
        async move {
            let waiting = admit::waiting(&queue).await?;
            cycle_of(&queue, &services, &waiting).await.map(|_| ())
        }
    };
    let then = async |queue: Queue, what: String| {
        // Before anything is gone on with, nothing is lost or double.
        ingest_queue::fsck::clean(queue.session(), queue.dialect()).await.unwrap();
        let waiting = admit::waiting(&queue).await.unwrap();
        cycle_of(&queue, services, &waiting).await.unwrap();
        ingest_queue::fsck::clean(queue.session(), queue.dialect()).await.unwrap();
        let found = promised(&queue, services).await;
        let expected = BTreeMap::from([(jobs[0], 400), (jobs[2], 300), (jobs[4], 0)]);
        assert_eq!(found, expected, "{what}");
        assert_eq!(queue.job_status(jobs[1]).await.unwrap().0.status, JobState::Provisioning, "{what}");
        assert_eq!(queue.job_status(jobs[3]).await.unwrap().0.status, JobState::Failed, "{what}");
    };
    prepared.through_every_fault(story, then).await;
}
