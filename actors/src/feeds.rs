//! Feeds: this node's share of the feeds.
//!
//! It registers as `/workers/worker-N` with the feeds that it could consume and those that it does, follows `/workers` and
//! `/queues`, and has a `FeedActor` for each feed of its share. The first of all workers divides the feeds anew when workers
//! or their offers have changed and it has been quiet for `workers.settle`, or after five times that at the latest. A
//! node that is paused or drains offers nothing.
//!
//! **When things break.** The registration goes with the session; an actor that is started again finds the one that is
//! there. A `FeedActor` that dies is started again, and its lock released. If the tree cannot be read now, it is read again.

pub mod board;
mod events;
mod feed;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use ingest_queue::error::Error;
use ingest_queue::feeds::Qid;
use ingest_queue::feeds::workers::Workers;
use ingest_queue::map;
use ingest_queue::nodes::WorkerNode;
use ingest_queue::queue::Queue;
use ingest_steps::feed::Feed;
use ingest_store::error::Next;
use ractor::{Actor, ActorCell, ActorId, ActorProcessingErr, ActorRef, SupervisionEvent};
use tokio::time::Instant;

use self::board::Control;
pub(crate) use self::events::Told;
use self::events::read_feeds;
use self::feed::{Consumer, DONE, FeedActor};
use crate::crash::{Crash, Death, Reason, death, handled};
use crate::house::{About, House, Life, Mode, Task};
use crate::release;
use crate::restart::{Restarts, Verdict};
use crate::watcher::each_change;

/// The pause before the tree is read again that could not be.
const AGAIN: Duration = Duration::from_secs(1);
/// What happens together is written together.
const TOGETHER: Duration = Duration::from_millis(50);
/// So many times `settle` is waited at most while workers come and go.
const PATIENCE: u32 = 5;

/// What Feeds is told.
#[derive(Debug)]
pub(crate) enum Message {
    /// Workers, their offers, or what is said of who has what, may have changed.
    Look,
    /// Something has happened to the nodes of a feed; `None`: perhaps to all.
    Feed(Option<Qid>, Told),
    /// It has been quiet for long enough.
    Divide,
    /// The settings, or the mode of the node, have changed.
    Refresh,
    /// A feed is consumed here from now on, or not any more.
    Owned(Qid, bool),
    /// Say in the registration what has changed.
    Write,
    Restart(Qid),
}

/// The actor.
#[derive(Debug)]
pub(crate) struct Feeds;

#[derive(Debug)]
struct Running {
    qid: Qid,
    feed: Feed,
    control: Arc<Control>,
}

/// Feeds are about to be divided anew.
#[derive(Debug)]
struct Settling {
    since: Instant,
    /// What it rests on: if that changes, it begins anew.
    offers: BTreeMap<String, Vec<Qid>>,
    _timer: Task,
}

/// What it knows.
#[derive(Debug)]
pub(crate) struct State {
    house: Arc<House>,
    life: Arc<Life>,
    readers: Vec<Task>,
    /// Its own node among the workers.
    at: Option<String>,
    written: Option<WorkerNode>,
    writing: Option<Task>,
    /// The feeds of the configuration that are in the tree.
    known: BTreeMap<Qid, (String, Feed)>,
    share: BTreeSet<Qid>,
    owned: BTreeSet<Qid>,
    running: HashMap<ActorId, Running>,
    restarts: HashMap<Qid, Restarts>,
    /// Those that are started again after a pause.
    waiting: BTreeSet<Qid>,
    settling: Option<Settling>,
}

/// Under which name the lock of a feed is held.
pub(crate) fn holder(qid: Qid) -> String {
    format!("feed {qid}")
}

impl Actor for Feeds {
    type Msg = Message;
    type State = State;
    type Arguments = (Arc<House>, Arc<Life>);

    async fn pre_start(
        &self,
        myself: ActorRef<Message>,
        (house, life): Self::Arguments,
    ) -> Result<State, ActorProcessingErr> {
        *house.directory.feeds.write() = Some(myself);
        Ok(State {
            house,
            life,
            readers: Vec::new(),
            at: None,
            written: None,
            writing: None,
            known: BTreeMap::new(),
            share: BTreeSet::new(),
            owned: BTreeSet::new(),
            running: HashMap::new(),
            restarts: HashMap::new(),
            waiting: BTreeSet::new(),
            settling: None,
        })
    }

    async fn post_start(&self, myself: ActorRef<Message>, _: &mut State) -> Result<(), ActorProcessingErr> {
        Ok(myself.cast(Message::Refresh)?)
    }

    async fn handle(
        &self,
        myself: ActorRef<Message>,
        message: Message,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        handled(async {
            let again: fn() -> Message = match &message {
                Message::Refresh => || Message::Refresh,
                Message::Write => || Message::Write,
                _ => || Message::Look,
            };
            let done = match message {
                Message::Refresh => state.refresh(&myself).await,
                Message::Look => state.look(&myself).await,
                Message::Divide => state.divide(&myself).await,
                Message::Write => state.write().await,
                Message::Feed(qid, told) => {
                    state.tell(qid, told);
                    Ok(())
                }
                Message::Owned(qid, owned) => {
                    state.owns(&myself, qid, owned);
                    Ok(())
                }
                Message::Restart(qid) => {
                    state.waiting.remove(&qid);
                    state.start_missing(&myself).await
                }
            };
            settled(done, &myself, again)
        })
        .await
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<Message>,
        event: SupervisionEvent,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        let Some((cell, death)) = death(event) else { return Ok(()) };
        handled(async {
            let done = state.lost(&myself, &cell, death).await;
            settled(done, &myself, || Message::Look)
        })
        .await
    }
}

/// Why something was not done.
enum Undone {
    Tree(Error),
    Crash(Crash),
}

impl From<Error> for Undone {
    fn from(error: Error) -> Self {
        Undone::Tree(error)
    }
}

impl From<Crash> for Undone {
    fn from(crash: Crash) -> Self {
        Undone::Crash(crash)
    }
}

/// With the session everything ends; what else the tree could not do is done again a little later.
fn settled(
    done: Result<(), Undone>,
    myself: &ActorRef<Message>,
    again: fn() -> Message,
) -> Result<(), Crash> {
    match done {
        Ok(()) => Ok(()),
        Err(Undone::Crash(crash)) => Err(crash),
        Err(Undone::Tree(Error::Store(error))) if error.next() == Next::Rebuild => Ok(()),
        Err(Undone::Tree(Error::Store(error))) if matches!(error.next(), Next::GiveUp | Next::StopNode) => {
            Err(Crash::error(error))
        }
        Err(Undone::Tree(error)) => {
            tracing::debug!(%error, "the feeds are looked at again later");
            myself.send_after(AGAIN, again);
            Ok(())
        }
    }
}

impl State {
    fn queue(&self) -> Queue {
        self.life.queue.clone()
    }

    /// Whether feeds are consumed here at all now.
    fn works(&self) -> bool {
        self.house.mode() == Mode::Running
    }

    /// Registers, follows, and makes the feeds of the configuration; or what of that has changed.
    async fn refresh(&mut self, myself: &ActorRef<Message>) -> Result<(), Undone> {
        let queue = self.queue();
        if self.readers.is_empty() {
            self.begin(myself).await?;
        }
        let wanted = self.life.services().settings.feeds.clone();
        let mut known = BTreeMap::new();
        for (name, feed) in wanted {
            if !feed.policy.allows(&self.house.name) {
                continue;
            }
            match queue.make_feed(&name, feed.kind.name()).await {
                Ok(made) => {
                    known.insert(made.qid, (name, feed));
                }
                Err(Error::Store(error)) => return Err(Error::Store(error).into()),
                // One that cannot be made keeps nobody from the others.
                Err(error) => tracing::error!(feed = name, %error, "the feed is not consumed here"),
            }
        }
        self.known = known;
        self.write().await?;
        self.look(myself).await
    }

    /// Watches first, looks after.
    async fn begin(&mut self, myself: &ActorRef<Message>) -> Result<(), Undone> {
        let session = self.life.queue.session().clone();
        Queue::make_directories(&session, self.life.queue.dialect()).await?;
        // One before us may have died with locks in hand.
        for qid in self.life.queue.feed_ids().await? {
            self.life.queue.release_all_of(&holder(qid)).await?;
        }
        let workers = session.watch_tree(map::WORKERS).await.map_err(Error::from)?;
        let queues = session.watch_tree(map::QUEUES).await.map_err(Error::from)?;
        let one = myself.clone();
        self.readers = vec![
            Task::spawn(each_change(workers, move || one.cast(Message::Look).is_ok())),
            Task::spawn(read_feeds(queues, myself.clone())),
        ];
        Ok(())
    }

    /// What it says of itself.
    fn worker(&self) -> WorkerNode {
        let offers = if self.works() { self.known.keys().copied().collect() } else { Vec::new() };
        WorkerNode {
            queues: self.owned.iter().copied().collect(),
            offers,
            node: self.house.name.clone(),
            incarnation: self.house.incarnation.clone(),
            ..WorkerNode::default()
        }
    }

    async fn write(&mut self) -> Result<(), Undone> {
        self.writing = None;
        let worker = self.worker();
        if self.written.as_ref() == Some(&worker) {
            return Ok(());
        }
        let queue = self.queue();
        match &self.at {
            Some(at) => queue.update_worker(at, &worker).await?,
            None => self.at = Some(queue.register_worker(&worker).await?),
        }
        self.written = Some(worker);
        Ok(())
    }

    async fn look(&mut self, myself: &ActorRef<Message>) -> Result<(), Undone> {
        let Some(at) = self.at.clone() else { return Ok(()) };
        let own = Queue::worker_name(&at);
        let workers = self.queue().workers().await?;
        self.share = workers.share(&own);
        self.settle(myself, &workers, &own);
        self.apply();
        self.start_missing(myself).await
    }

    /// The first worker divides the feeds when it has been quiet.
    fn settle(&mut self, myself: &ActorRef<Message>, workers: &Workers, own: &str) {
        if workers.first() != Some(own) || workers.divided().is_none() {
            self.settling = None;
            return;
        }
        let offers: BTreeMap<String, Vec<Qid>> =
            workers.all.iter().map(|(name, worker)| (name.clone(), worker.offers.clone())).collect();
        let since = match &self.settling {
            Some(settling) if settling.offers == offers => return,
            Some(settling) => settling.since,
            None => Instant::now(),
        };
        let quiet = self.house.settings.load().workers.settle;
        let at = (Instant::now() + quiet).min(since + quiet * PATIENCE);
        let one = myself.clone();
        let timer = Task::spawn(async move {
            tokio::time::sleep_until(at).await;
            let _ = one.cast(Message::Divide);
        });
        self.settling = Some(Settling { since, offers, _timer: timer });
    }

    async fn divide(&mut self, myself: &ActorRef<Message>) -> Result<(), Undone> {
        self.settling = None;
        let Some(at) = self.at.clone() else { return Ok(()) };
        let (queue, own) = (self.queue(), Queue::worker_name(&at));
        let workers = queue.workers().await?;
        if workers.first() == Some(own.as_str())
            && let Some(shares) = workers.divided()
        {
            let counts: Vec<usize> = shares.values().map(Vec::len).collect();
            if queue.assign_feeds(&workers, shares).await? {
                tracing::info!(workers = workers.all.len(), ?counts, "the feeds are divided");
            }
        }
        self.look(myself).await
    }

    /// Those that are not ours to consume any more are told to end.
    fn apply(&self) {
        for running in self.running.values() {
            let wanted = self.known.get(&running.qid).is_some_and(|(_, feed)| *feed == running.feed);
            if !self.works() || !wanted || !self.share.contains(&running.qid) {
                running.control.cancel.cancel();
            }
        }
    }

    async fn start_missing(&mut self, myself: &ActorRef<Message>) -> Result<(), Undone> {
        if !self.works() || self.life.queue.session().state().is_final() {
            return Ok(());
        }
        let there: BTreeSet<Qid> = self.running.values().map(|running| running.qid).collect();
        let missing: Vec<Qid> = self.share.iter().copied().collect();
        for qid in missing {
            let Some((name, feed)) = self.known.get(&qid).cloned() else { continue };
            if there.contains(&qid) || self.waiting.contains(&qid) {
                continue;
            }
            self.hire(myself, qid, &name, feed).await?;
        }
        Ok(())
    }

    async fn hire(
        &mut self,
        myself: &ActorRef<Message>,
        qid: Qid,
        name: &str,
        feed: Feed,
    ) -> Result<(), Crash> {
        let control = self.house.feeds.begin(name, qid);
        let (house, life) = (self.house.clone(), self.life.clone());
        let consumer =
            Consumer { house, life, feed: feed.clone(), control: control.clone(), parent: myself.clone() };
        let actor_name = Some(self.house.actor_name(&format!("feed-{name}")));
        let (actor, _) = Actor::spawn_linked(actor_name, FeedActor, consumer, myself.get_cell())
            .await
            .map_err(Crash::error)?;
        self.running.insert(actor.get_id(), Running { qid, feed, control });
        Ok(())
    }

    fn tell(&self, qid: Option<Qid>, told: Told) {
        for running in self.running.values().filter(|running| qid.is_none_or(|qid| qid == running.qid)) {
            match told {
                Told::Look => running.control.look.notify_one(),
                Told::Ask => running.control.ask.notify_one(),
            }
        }
    }

    fn owns(&mut self, myself: &ActorRef<Message>, qid: Qid, owned: bool) {
        let changed = if owned { self.owned.insert(qid) } else { self.owned.remove(&qid) };
        if changed && self.writing.is_none() {
            let one = myself.clone();
            self.writing = Some(Task::spawn(async move {
                tokio::time::sleep(TOGETHER).await;
                let _ = one.cast(Message::Write);
            }));
        }
    }

    /// One who consumes has ended.
    async fn lost(
        &mut self,
        myself: &ActorRef<Message>,
        cell: &ActorCell,
        death: Death,
    ) -> Result<(), Undone> {
        let Some(Running { qid, control, .. }) = self.running.remove(&cell.get_id()) else { return Ok(()) };
        self.owns(myself, qid, false);
        let crash = match death {
            Death::Stopped(why) if why == DONE => return self.start_missing(myself).await,
            Death::Crashed(crash) => crash,
            Death::Stopped(why) => Crash::of(Reason::Killed, format!("it was stopped: {why}")),
        };
        release::all_of(&self.life, &holder(qid), crash.reason != Reason::Panic).await;
        let policy = self.house.settings.load().supervision.policy();
        let restarts = self.restarts.entry(qid).or_insert_with(|| Restarts::new(policy));
        restarts.set_policy(policy);
        let verdict = restarts.died(Instant::now(), rand::random());
        let about = About { pool: Some("feeds".to_owned()), ..About::default() };
        let name = format!("feed-{}", control.name);
        self.house.restarted(&name, &crash, verdict, about);
        match verdict {
            Verdict::Again { after, .. } if after.is_zero() => self.start_missing(myself).await,
            Verdict::Again { after, .. } => {
                self.waiting.insert(qid);
                myself.send_after(after, move || Message::Restart(qid));
                Ok(())
            }
            Verdict::GiveUp { count } => {
                Err(Crash { message: format!("{name} died {count} times: {crash}"), ..crash }.into())
            }
        }
    }
}
