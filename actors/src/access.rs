//! Access: those who put stored objects together for people, small ones and large ones apart.
//!
//! An actor looks when something has happened in the access queues, and takes items until there is none.
//!
//! **When things break.** An actor that dies is replaced, and its item's lock released, as with the workers of jobs.

use std::collections::HashMap;
use std::sync::Arc;

use ingest_queue::access::AccessLease;
use ingest_queue::error::Error;
use ingest_queue::map::AccessSize;
use ingest_steps::outcome::{Cancel, Progress};
use ingest_steps::step::assemble::{self, Ending};
use ingest_store::error::Next;
use ractor::{Actor, ActorCell, ActorId, ActorProcessingErr, ActorRef, SupervisionEvent};
use tokio::time::Instant;
use tracing::Instrument as _;

use crate::crash::{Crash, Death, Reason, death, handled};
use crate::desk::Desk;
use crate::house::{About, Counts, House, Life};
use crate::release;
use crate::restart::{Restarts, Verdict};
use crate::timekeeper::Watched;
use crate::worker::RETIRED;

/// What the access pools are told.
#[derive(Debug)]
pub(crate) enum Message {
    /// Something has happened in the queues, or may be taken now.
    Look,
    /// The settings have changed.
    Resize,
    Restart(AccessSize, usize),
}

/// The supervisor of both pools.
#[derive(Debug)]
pub(crate) struct Access;

/// What it knows.
#[derive(Debug)]
pub(crate) struct State {
    house: Arc<House>,
    life: Arc<Life>,
    workers: HashMap<ActorId, Hired>,
    restarts: HashMap<(&'static str, usize), Restarts>,
}

#[derive(Debug)]
struct Hired {
    size: AccessSize,
    place: usize,
    desk: Arc<Desk>,
    actor: ActorRef<Look>,
}

/// The name of a pool in the configuration.
pub(crate) fn pool_name(size: AccessSize) -> &'static str {
    match size {
        AccessSize::Small => "access_small",
        AccessSize::Large => "access_large",
    }
}

impl Actor for Access {
    type Msg = Message;
    type State = State;
    type Arguments = (Arc<House>, Arc<Life>);

    async fn pre_start(
        &self,
        myself: ActorRef<Message>,
        (house, life): Self::Arguments,
    ) -> Result<State, ActorProcessingErr> {
        *house.directory.access.write() = Some(myself);
        Ok(State { house, life, workers: HashMap::new(), restarts: HashMap::new() })
    }

    async fn post_start(
        &self,
        myself: ActorRef<Message>,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        handled(state.resize(&myself)).await
    }

    async fn handle(
        &self,
        myself: ActorRef<Message>,
        message: Message,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        handled(async {
            match message {
                Message::Look => state.workers.values().for_each(|hired| {
                    let _ = hired.actor.cast(Look);
                }),
                Message::Resize => state.resize(&myself).await?,
                Message::Restart(size, place) => {
                    if place < state.size(size) && state.at(size, place).is_none() {
                        state.hire(&myself, size, place).await?;
                    }
                }
            }
            Ok(())
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
        handled(state.lost(&myself, &cell, death)).await
    }
}

impl State {
    fn size(&self, size: AccessSize) -> usize {
        self.house.settings.load().pools.named(pool_name(size)).map_or(0, |pool| pool.size)
    }

    fn at(&self, size: AccessSize, place: usize) -> Option<&Hired> {
        self.workers.values().find(|hired| hired.size == size && hired.place == place)
    }

    async fn resize(&mut self, myself: &ActorRef<Message>) -> Result<(), Crash> {
        for size in AccessSize::ALL {
            let wanted = self.size(size);
            for place in 0..wanted {
                if self.at(size, place).is_none() {
                    self.hire(myself, size, place).await?;
                }
            }
            // They end between two items.
            for hired in self.workers.values().filter(|hired| hired.size == size && hired.place >= wanted) {
                hired.actor.stop(Some(RETIRED.into()));
            }
        }
        Ok(())
    }

    async fn hire(
        &mut self,
        myself: &ActorRef<Message>,
        size: AccessSize,
        place: usize,
    ) -> Result<(), Crash> {
        let pool = pool_name(size);
        let desk = self.house.floor.desk(pool, format!("{pool}-{place}"));
        let assembler =
            Assembler { house: self.house.clone(), life: self.life.clone(), desk: desk.clone(), size };
        let spawned = Actor::spawn_linked(
            Some(self.house.actor_name(&desk.name)),
            AccessActor,
            assembler,
            myself.get_cell(),
        )
        .await;
        let (actor, _) = spawned.map_err(|error| {
            desk.close();
            Crash::error(error)
        })?;
        desk.belongs_to(actor.get_cell());
        self.workers.insert(actor.get_id(), Hired { size, place, desk, actor });
        Ok(())
    }

    async fn lost(
        &mut self,
        myself: &ActorRef<Message>,
        cell: &ActorCell,
        death: Death,
    ) -> Result<(), Crash> {
        let Some(Hired { size, place, desk, .. }) = self.workers.remove(&cell.get_id()) else {
            return Ok(());
        };
        let stalled = desk.has_stalled();
        let was_at_work = desk.close().is_some();
        let crash = match death {
            Death::Crashed(_) if stalled => {
                Counts::add(&self.house.counts.stalls, 1);
                Crash::of(Reason::Stall, "it made no progress")
            }
            Death::Crashed(crash) => crash,
            Death::Stopped(why) if why == RETIRED => return self.resize(myself).await,
            Death::Stopped(why) => Crash::of(Reason::Killed, format!("it was stopped: {why}")),
        };
        if was_at_work {
            release::later(&self.life, None, &desk, None, crash.reason);
        }
        let policy = self.house.settings.load().supervision.policy();
        let pool = pool_name(size);
        let restarts = self.restarts.entry((pool, place)).or_insert_with(|| Restarts::new(policy));
        restarts.set_policy(policy);
        let verdict = restarts.died(Instant::now(), rand::random());
        let about = About { pool: Some(pool.to_owned()), ..About::default() };
        self.house.restarted(&desk.name, &crash, verdict, about);
        match verdict {
            Verdict::Again { after, .. } if after.is_zero() => self.hire(myself, size, place).await,
            Verdict::Again { after, .. } => {
                myself.send_after(after, move || Message::Restart(size, place));
                Ok(())
            }
            Verdict::GiveUp { count } => {
                Err(Crash { message: format!("{} died {count} times: {crash}", desk.name), ..crash })
            }
        }
    }
}

/// Look for an item.
#[derive(Debug)]
pub(crate) struct Look;

/// The actor that puts objects together.
#[derive(Debug)]
struct AccessActor;

#[derive(Debug)]
struct Assembler {
    house: Arc<House>,
    life: Arc<Life>,
    desk: Arc<Desk>,
    size: AccessSize,
}

impl Actor for AccessActor {
    type Msg = Look;
    type State = Assembler;
    type Arguments = Assembler;

    async fn pre_start(
        &self,
        _: ActorRef<Look>,
        assembler: Assembler,
    ) -> Result<Assembler, ActorProcessingErr> {
        Ok(assembler)
    }

    async fn post_start(&self, myself: ActorRef<Look>, _: &mut Assembler) -> Result<(), ActorProcessingErr> {
        Ok(myself.cast(Look)?)
    }

    async fn handle(
        &self,
        myself: ActorRef<Look>,
        _: Look,
        assembler: &mut Assembler,
    ) -> Result<(), ActorProcessingErr> {
        let Some(sitting) = assembler.desk.sit() else { return Ok(()) };
        let work = handled(assembler.work(&myself));
        ingest_steps::outcome::BUSY.scope(Arc::new(sitting.clone()), work).await?;
        assembler.desk.clear();
        drop(sitting);
        Ok(())
    }
}

impl Assembler {
    /// One item; the next one by another message, so that it can be stopped in between.
    async fn work(&self, myself: &ActorRef<Look>) -> Result<(), Crash> {
        if !self.house.takes_work() {
            return Ok(());
        }
        let queue = &self.life.queue;
        // Before anything is locked: whoever cleans up after this worker looks here.
        let (progress, cancel) = self.desk.put_other(None);
        let lease = match queue.acquire_access(self.size, &self.desk.holder).await {
            Ok(Some(lease)) => lease,
            Ok(None) => return Ok(()),
            Err(error) => return failed(error),
        };
        let _ = myself.cast(Look);
        let item = format!("{} {}", self.size.name(), lease.item().aid);
        let span = tracing::info_span!("access", node = self.house.name, item);
        self.assemble(lease, &progress, &cancel).instrument(span).await
    }

    async fn assemble(
        &self,
        mut lease: AccessLease,
        progress: &Progress,
        cancel: &Cancel,
    ) -> Result<(), Crash> {
        let (queue, services) = (&self.life.queue, self.life.services());
        let answer = {
            let _watched = Watched::new(&self.house, &self.desk);
            assemble::run(queue, &mut lease, &services, progress, cancel).await
        };
        match assemble::conclude(queue, &mut lease, answer).await {
            Ok(Ending::Completed) => tracing::info!("put together"),
            Ok(Ending::Failed(why)) => tracing::warn!(why, "failed"),
            Ok(Ending::GivenBack(why) | Ending::Lost(why)) => tracing::info!(why, "let go"),
            Err(error) => return failed(error),
        }
        Ok(())
    }
}

/// Everything ends with the session; other errors end the worker.
fn failed(error: Error) -> Result<(), Crash> {
    match &error {
        Error::Store(store) if store.next() == Next::Rebuild => Ok(()),
        _ => Err(Crash::error(error)),
    }
}
