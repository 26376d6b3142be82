//! The timekeeper: one heap of everything that is due at some time.
//!
//! That is stalls, jobs whose node has been away for long enough, and jobs that expire. A step is judged by its own
//! progress and by this node's own clock: one that has made none for `pools.STATE.stall` is ended, by ending its
//! worker. Expirations come from a watch on the tree; the nodes take their turns, as with jobs that wait, and
//! what one has removed the others forget. Process dates stand in the heap of the index, which hands out the jobs.
//!
//! From time to time it compares the clock with the tree's. The elected one of all nodes' timekeepers also tells the
//! administrators what they should hear of at once.
//!
//! **When things break.** A timekeeper that died has forgotten everything; the next one looks at all desks, and has
//! those looked at again who wait for a node. Whatever is judged late is judged late, never wrongly.

mod alerts;
mod expirations;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use ingest_queue::ids::Jid;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::time::Instant;

use crate::batches;
use crate::crash::handled;
use crate::desk::Desk;
use crate::elected;
use crate::house::{House, Life, Task, tell};
use crate::worker::parked_with;

/// What the timekeeper is told.
#[derive(Debug)]
pub(crate) enum Message {
    /// Something runs at this desk.
    Watch(Arc<Desk>),
    /// Times have changed: whatever runs is looked at anew.
    WatchAll,
    /// It has ended.
    Forget(String),
    /// Put jobs back in line that were parked with this.
    Unpark {
        at: Instant,
        key: String,
    },
    /// What expires, all of it: what was known before counts no more.
    Expirations(Vec<(i64, Jid)>),
    Expires(i64, Jid),
    /// It is begun, or gone.
    Stays(i64, Jid),
    /// Something is due.
    Tick,
}

/// The actor.
#[derive(Debug)]
pub(crate) struct Timekeeper;

/// What it knows.
#[derive(Debug)]
pub(crate) struct State {
    house: Arc<House>,
    life: Arc<Life>,
    /// By time, and then in the order in which they came.
    due: BTreeMap<(Instant, u64), Due>,
    next: u64,
    /// By holder: what is watched, and where it stands in the heap.
    watched: HashMap<String, (Instant, u64)>,
    timer: Option<(Instant, Task)>,
    /// Where what expires stands in the heap.
    expires: HashMap<(i64, Jid), (Instant, u64)>,
    /// What is followed, and the election: the first of all timekeepers also does what one does for all.
    tasks: Vec<Task>,
}

#[derive(Debug)]
enum Due {
    /// Has what was begun then made progress since it had so much?
    Stall {
        desk: Arc<Desk>,
        since: std::time::Instant,
        beats: u64,
    },
    Unpark(String),
    /// Its date has come, and perhaps this node's turn.
    Expire {
        date: i64,
        jid: Jid,
        waited: bool,
    },
    /// The clock is to be compared.
    Clock,
}

impl Actor for Timekeeper {
    type Msg = Message;
    type State = State;
    type Arguments = (Arc<House>, Arc<Life>);

    async fn pre_start(
        &self,
        myself: ActorRef<Message>,
        (house, life): Self::Arguments,
    ) -> Result<State, ActorProcessingErr> {
        *house.directory.timekeeper.write() = Some(myself.clone());
        let (due, watched, expires) = (BTreeMap::new(), HashMap::new(), HashMap::new());
        let told = life.clone();
        let tell_all = move |post| alerts::tell_all(told.clone(), post);
        let elected = elected::stand(&house, &life, elected::TIMER, tell_all);
        let tasks = vec![expirations::follow(&life, myself).await?, alerts::follow(&house, &life), elected];
        let mut state = State { house, life, due, next: 0, watched, timer: None, expires, tasks };
        state.begin();
        Ok(state)
    }

    async fn post_start(
        &self,
        myself: ActorRef<Message>,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        state.arm(&myself);
        Ok(())
    }

    async fn handle(
        &self,
        myself: ActorRef<Message>,
        message: Message,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        handled(async {
            match message {
                Message::Watch(desk) => state.watch(desk),
                Message::WatchAll => state.watch_all(),
                Message::Forget(holder) => {
                    if let Some(at) = state.watched.remove(&holder) {
                        state.due.remove(&at);
                    }
                }
                Message::Unpark { at, key } => {
                    state.add(at, Due::Unpark(key));
                }
                Message::Expirations(all) => state.expirations(&all),
                Message::Expires(date, jid) => state.expires(date, jid),
                Message::Stays(date, jid) => {
                    if let Some(at) = state.expires.remove(&(date, jid)) {
                        state.due.remove(&at);
                    }
                }
                Message::Tick => state.tick(Instant::now()),
            }
            state.arm(&myself);
            Ok(())
        })
        .await
    }
}

impl State {
    /// What one before it may have known.
    fn begin(&mut self) {
        self.watch_all();
        self.add(Instant::now(), Due::Clock);
        let gone: Vec<String> = self.life.gone.read().keys().cloned().collect();
        if let Some(finder) = self.life.finder() {
            for file_system in gone {
                finder.unpark(parked_with(&file_system));
            }
        }
    }

    fn watch_all(&mut self) {
        for desk in self.house.floor.desks() {
            self.watch(desk);
        }
    }

    fn add(&mut self, at: Instant, due: Due) -> (Instant, u64) {
        self.next += 1;
        self.due.insert((at, self.next), due);
        (at, self.next)
    }

    fn stall(&self, desk: &Desk) -> Option<Duration> {
        let settings = self.house.settings.load();
        if desk.pool == batches::POOL {
            return Some(settings.supervision.batch_stall);
        }
        settings.pools.named(&desk.pool).map(|pool| pool.stall)
    }

    fn watch(&mut self, desk: Arc<Desk>) {
        let (Some(current), Some(stall)) = (desk.current(), self.stall(&desk)) else { return };
        let holder = desk.holder.clone();
        if let Some(before) = self.watched.remove(&holder) {
            self.due.remove(&before);
        }
        let (since, beats) = (current.since, current.progress.beats());
        let at = self.add(Instant::now() + stall, Due::Stall { desk, since, beats });
        self.watched.insert(holder, at);
    }

    fn tick(&mut self, now: Instant) {
        let mut late = Vec::new();
        while let Some(entry) = self.due.first_entry().filter(|entry| entry.key().0 <= now) {
            match entry.remove() {
                Due::Expire { date, jid, waited } => late.extend(self.turn(now, date, jid, waited)),
                Due::Clock => self.compare_clocks(now),
                Due::Unpark(key) => {
                    if let Some(finder) = self.life.finder() {
                        finder.unpark(key);
                    }
                }
                Due::Stall { desk, since, beats } => {
                    self.watched.remove(&desk.holder);
                    let Some(current) = desk.current() else { continue };
                    // Something else may run there by now, which has made no progress yet, either.
                    if current.since != since || current.progress.beats() != beats {
                        self.watch(desk);
                        continue;
                    }
                    if !desk.stalled(since) {
                        continue;
                    }
                    let job = current.entry.map(|entry| entry.jid.to_string());
                    tracing::warn!(worker = desk.name, job, "no progress for too long: it is stopped");
                    // First of all its worker, which would otherwise give it back as if it had ended properly.
                    desk.end();
                    current.cancel.cancel();
                }
            }
        }
        if !late.is_empty() {
            self.tasks.retain(|task| !task.is_over());
            self.tasks.push(expirations::remove(&self.life, late));
        }
    }

    /// Wakes at what is due next.
    fn arm(&mut self, myself: &ActorRef<Message>) {
        let next = self.due.keys().next().map(|(at, _)| *at);
        if next == self.timer.as_ref().map(|(at, _)| *at) {
            return;
        }
        self.timer = next.map(|at| {
            let myself = myself.clone();
            let wake = async move {
                tokio::time::sleep_until(at).await;
                let _ = myself.cast(Message::Tick);
            };
            (at, Task::spawn(wake))
        });
    }
}

/// A step that the timekeeper looks at, until this is dropped.
#[derive(Debug)]
pub(crate) struct Watched {
    house: Arc<House>,
    holder: String,
}

impl Watched {
    pub(crate) fn new(house: &Arc<House>, desk: &Arc<Desk>) -> Self {
        tell(&house.directory.timekeeper, Message::Watch(desk.clone()));
        Self { house: house.clone(), holder: desk.holder.clone() }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        tell(&self.house.directory.timekeeper, Message::Forget(std::mem::take(&mut self.holder)));
    }
}
