//! A StatePool: the workers of one job state.
//!
//! It pulls: while a worker is idle, the next job of the state is waited for, and given to that worker by message.
//! Nothing is taken out of the index that nobody is free for. What is pending is let in when somebody is free in
//! estimating, too, if this node works there, and not at all while the ingest queue is held.
//!
//! **When things break.** A worker that dies is replaced, at once the first time and then after a growing pause; the
//! lock that it held is released as soon as nothing of its step runs any more, and the job is back in line. One that
//! dies too often ends the pool, and its parent decides. Workers are never ended because the pool becomes smaller:
//! they retire when they are done.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use ingest_queue::index::finder::Finder;
use ingest_queue::states::{JobState, States as _};
use ractor::{Actor, ActorCell, ActorId, ActorProcessingErr, ActorRef, SupervisionEvent};
use tokio::time::Instant;

use crate::bench::Bench;
use crate::crash::{Crash, Death, Reason, death, handled};
use crate::desk::Desk;
use crate::house::{About, Counts, House, Life, Task};
use crate::provisioner::Provisioner;
use crate::release;
use crate::restart::{Restarts, Verdict};
use crate::worker::{self, RETIRED, StateActor, Worker};

/// What a pool is told.
#[derive(Debug)]
pub(crate) enum Message {
    /// There are to be so many workers.
    Resize(usize),
    /// The pause of this place is over.
    Restart(usize),
}

/// The actor.
#[derive(Debug)]
pub(crate) struct StatePool;

/// What a pool is started with.
#[derive(Debug, Clone)]
pub(crate) struct Setup {
    pub(crate) house: Arc<House>,
    pub(crate) life: Arc<Life>,
    pub(crate) finder: Arc<Finder>,
    pub(crate) state: JobState,
    pub(crate) size: usize,
}

/// What a pool knows.
#[derive(Debug)]
pub(crate) struct Pool {
    setup: Setup,
    bench: Arc<Bench>,
    workers: HashMap<ActorId, Hired>,
    /// By place: how its workers have fared.
    restarts: HashMap<usize, Restarts>,
    /// Places whose pause is not over.
    waiting: HashSet<usize>,
    pump: Option<Task>,
}

#[derive(Debug)]
struct Hired {
    place: usize,
    desk: Arc<Desk>,
    cell: ActorCell,
}

impl Actor for StatePool {
    type Msg = Message;
    type State = Pool;
    type Arguments = Setup;

    async fn pre_start(&self, _: ActorRef<Message>, setup: Setup) -> Result<Pool, ActorProcessingErr> {
        let bench = Arc::<Bench>::default();
        let (workers, restarts, waiting) = (HashMap::new(), HashMap::new(), HashSet::new());
        let mut pool = Pool { setup, bench, workers, restarts, waiting, pump: None };
        if !pool.decides_for_all() {
            pool.pump = Some(Task::spawn(pump(pool.setup.clone(), pool.bench.clone())));
        }
        pool.setup.house.directory.benches.write().insert(pool.setup.state, pool.bench.clone());
        Ok(pool)
    }

    async fn post_start(&self, myself: ActorRef<Message>, pool: &mut Pool) -> Result<(), ActorProcessingErr> {
        handled(pool.resize(&myself, pool.setup.size)).await
    }

    async fn handle(
        &self,
        myself: ActorRef<Message>,
        message: Message,
        pool: &mut Pool,
    ) -> Result<(), ActorProcessingErr> {
        handled(async {
            match message {
                Message::Resize(size) => pool.resize(&myself, size).await,
                Message::Restart(place) => {
                    pool.waiting.remove(&place);
                    pool.fill(&myself, place).await
                }
            }
        })
        .await
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<Message>,
        event: SupervisionEvent,
        pool: &mut Pool,
    ) -> Result<(), ActorProcessingErr> {
        let Some((cell, death)) = death(event) else { return Ok(()) };
        handled(pool.lost(&myself, &cell, death)).await
    }
}

impl Pool {
    fn name(&self) -> &'static str {
        self.setup.state.name()
    }

    /// Room is decided for all that wait at once, by one.
    fn decides_for_all(&self) -> bool {
        self.setup.state == JobState::Provisioning && self.setup.house.work.is_real()
    }

    async fn resize(&mut self, myself: &ActorRef<Message>, size: usize) -> Result<(), Crash> {
        let before = self.bench.size();
        self.bench.set_size(size);
        if before != size {
            tracing::debug!(pool = self.name(), before, size, "the pool has another size");
        }
        while self.bench.live() + self.waiting.len() < size {
            let Some(place) = self.free_place() else { break };
            self.hire(myself, place).await?;
        }
        // The idle ones go at once, the others when they are done.
        while self.bench.live() > size {
            let Some(seat) = self.bench.take() else { break };
            if self.bench.retire() {
                seat.actor.stop(Some(RETIRED.into()));
            } else {
                self.bench.put(seat);
            }
        }
        if self.decides_for_all() && size == 0 {
            for hired in self.workers.values() {
                self.bench.retire();
                hired.cell.stop(Some(RETIRED.into()));
            }
        }
        Ok(())
    }

    /// The first place that nobody has and that waits for no restart.
    fn free_place(&self) -> Option<usize> {
        (0..self.bench.size()).find(|place| !self.waiting.contains(place) && !self.is_taken(*place))
    }

    fn is_taken(&self, place: usize) -> bool {
        self.workers.values().any(|hired| hired.place == place)
    }

    /// Somebody for a place that has become empty, unless the pool has become smaller meanwhile.
    async fn fill(&mut self, myself: &ActorRef<Message>, place: usize) -> Result<(), Crash> {
        if self.bench.live() < self.bench.size() && !self.is_taken(place) {
            return self.hire(myself, place).await;
        }
        Ok(())
    }

    async fn hire(&mut self, myself: &ActorRef<Message>, place: usize) -> Result<(), Crash> {
        let name = format!("{}-{place}", self.name());
        let actor_name = Some(self.setup.house.actor_name(&name));
        let desk = self.setup.house.floor.desk(self.name(), name);
        let Setup { house, life, finder, .. } = self.setup.clone();
        let worker = Worker { house, life, finder, bench: self.bench.clone(), desk: desk.clone() };
        self.bench.hired();
        let supervisor = myself.get_cell();
        let spawned = if self.decides_for_all() {
            Actor::spawn_linked(actor_name, Provisioner, worker, supervisor)
                .await
                .map(|(actor, _)| actor.get_cell())
        } else {
            Actor::spawn_linked(actor_name, StateActor, worker, supervisor)
                .await
                .map(|(actor, _)| actor.get_cell())
        };
        match spawned {
            Ok(cell) => {
                desk.belongs_to(cell.clone());
                self.workers.insert(cell.get_id(), Hired { place, desk, cell });
                Ok(())
            }
            Err(error) => {
                self.bench.gone();
                desk.close();
                Err(Crash::error(error))
            }
        }
    }

    /// A worker has ended.
    async fn lost(
        &mut self,
        myself: &ActorRef<Message>,
        cell: &ActorCell,
        death: Death,
    ) -> Result<(), Crash> {
        let Some(Hired { place, desk, .. }) = self.workers.remove(&cell.get_id()) else { return Ok(()) };
        self.bench.remove(&desk);
        let stalled = desk.has_stalled();
        let current = desk.close();
        let entry = current.as_ref().and_then(|current| current.entry);
        let crash = match death {
            Death::Crashed(_) if stalled => {
                Counts::add(&self.setup.house.counts.stalls, 1);
                Crash::of(Reason::Stall, "its step made no progress")
            }
            Death::Crashed(crash) => crash,
            // It was counted as gone when it retired. Perhaps too many went.
            Death::Stopped(why) if why == RETIRED => return self.resize(myself, self.bench.size()).await,
            Death::Stopped(why) => Crash::of(Reason::Killed, format!("it was stopped: {why}")),
        };
        if current.is_some() {
            release::later(&self.setup.life, Some(&self.setup.finder), &desk, entry, crash.reason);
        }
        self.bench.gone();
        let policy = self.setup.house.settings.load().supervision.policy();
        let restarts = self.restarts.entry(place).or_insert_with(|| Restarts::new(policy));
        restarts.set_policy(policy);
        let verdict = restarts.died(Instant::now(), rand::random());
        let about = About {
            pool: Some(self.name().to_owned()),
            state: Some(self.name().to_owned()),
            job: entry.map(|entry| entry.jid.to_string()),
            batch: current.and_then(|current| current.bid).map(|bid| bid.to_string()),
        };
        self.setup.house.restarted(&desk.name, &crash, verdict, about);
        match verdict {
            Verdict::Again { after, .. } if after.is_zero() => self.fill(myself, place).await,
            Verdict::Again { after, .. } => {
                self.waiting.insert(place);
                myself.send_after(after, move || Message::Restart(place));
                Ok(())
            }
            Verdict::GiveUp { count } => Err(Crash {
                message: format!("{} died {count} times, most recently: {crash}", desk.name),
                ..crash
            }),
        }
    }
}

/// Gives the next job to an idle worker, again and again.
async fn pump(setup: Setup, bench: Arc<Bench>) {
    let Setup { house, life, finder, state, .. } = setup;
    let mut held = life.held.subscribe();
    loop {
        house.may_take_work().await;
        // What is held is not even tried. The sender lives as long as this does.
        if state == JobState::Pending && held.wait_for(|held| !held).await.is_err() {
            return;
        }
        // There is nothing to do in pending: a job stays there until somebody here can go on with it. One that was let
        // in earlier would wait all the same, and cost a commit more.
        if state == JobState::Pending
            && let Some(next) = house.directory.bench(JobState::Estimating)
        {
            bench.room_in(&next).await;
        }
        bench.idle().await;
        let Some(candidate) = finder.next(state).await else { return };
        let entry = candidate.entry;
        // The worker may have got another job meanwhile, or the node may have been paused, or the queue held.
        let may = house.takes_work() && !(state == JobState::Pending && *held.borrow());
        let seat = if may { bench.take() } else { None };
        match seat.filter(|seat| seat.desk.put(entry, None, 0)) {
            // If it has died, whoever closes its desk finds the job there.
            Some(seat) => {
                let _ = seat.actor.cast(worker::Message::Work(candidate));
            }
            None => finder.put_back(entry.jid),
        }
    }
}
