//! The worker of `provisioning`: looks at all jobs that wait for room, and lets in those that there is room for.
//!
//! It keeps what does not fit where it is. Between two cycles it sleeps: until a job arrives, until space is freed,
//! or for `provisioning.cycle`. It writes nothing to the tree about those that wait, and nothing at all while
//! nobody does.
//!
//! **When things break.** A cycle that fails is made again after the time of a cycle. If the actor dies in the middle
//! of one, its pool releases what it held.

use ingest_queue::map::QueueRef;
use ingest_queue::states::JobState;
use ingest_steps::outcome::Failure;
use ingest_steps::step::admit::{self, Cycle};
use ractor::{Actor, ActorProcessingErr, ActorRef};

use crate::crash::{Crash, handled};
use crate::house::Task;
use crate::worker::Worker;

/// It is time to look.
#[derive(Debug)]
pub(crate) struct Look;

/// The actor.
#[derive(Debug)]
pub(crate) struct Provisioner;

/// What it knows.
#[derive(Debug)]
pub(crate) struct State {
    worker: Worker,
    /// What was found in earlier cycles.
    ledger: admit::Ledger,
    /// Sends the next look.
    waiting: Option<Task>,
}

impl Actor for Provisioner {
    type Msg = Look;
    type State = State;
    type Arguments = Worker;

    async fn pre_start(&self, _: ActorRef<Look>, worker: Worker) -> Result<State, ActorProcessingErr> {
        Ok(State { worker, ledger: admit::Ledger::default(), waiting: None })
    }

    async fn post_start(&self, myself: ActorRef<Look>, _: &mut State) -> Result<(), ActorProcessingErr> {
        Ok(myself.cast(Look)?)
    }

    async fn handle(
        &self,
        myself: ActorRef<Look>,
        _: Look,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        let Some(sitting) = state.worker.desk.sit() else { return Ok(()) };
        let cycle = handled(state.cycle());
        ingest_steps::outcome::BUSY.scope(std::sync::Arc::new(sitting.clone()), cycle).await?;
        state.worker.desk.clear();
        drop(sitting);
        state.wait(myself);
        Ok(())
    }
}

impl State {
    async fn cycle(&mut self) -> Result<(), Crash> {
        let Worker { house, life, finder, desk, .. } = &self.worker;
        let waiting = finder.line(JobState::Provisioning);
        if waiting.is_empty() || !house.takes_work() {
            return Ok(());
        }
        let (progress, cancel) = desk.put_other(None);
        let services = life.services();
        self.ledger.forget(life.ended.drain());
        let look = admit::Look { queue: &life.queue, services: &services, holder: &desk.holder };
        match admit::cycle_with(&look, &mut self.ledger, &waiting, &progress, &cancel).await {
            Ok(cycle) => self.settle(&waiting, &cycle),
            Err(Failure::Lost(why)) => tracing::debug!(why, "nobody is given room without a session"),
            Err(Failure::Cancelled) => {
                tracing::debug!("told to stop; the next cycle looks at all that wait");
                self.ledger.doubt();
            }
            Err(failure) => {
                tracing::warn!(%failure, "nobody was given room this time; it is tried again");
                self.ledger.doubt();
            }
        }
        Ok(())
    }

    fn settle(&self, waiting: &[QueueRef], cycle: &Cycle) {
        let settled = cycle.settled();
        for entry in waiting.iter().filter(|entry| settled.contains(&entry.jid)) {
            self.worker.finder.finished(*entry);
        }
        for taken in &cycle.taken {
            self.worker.house.meters.taken(JobState::Provisioning, taken.waited);
            self.worker.house.meters.stepped(JobState::Provisioning, taken.took, 0);
        }
        for (jid, why) in &cycle.failed {
            tracing::warn!(job = %jid, why, "failed: there will never be room for it");
        }
        if !cycle.waiting.is_empty() {
            let (jid, why) = &cycle.waiting[0];
            tracing::info!(jobs = cycle.waiting.len(), first = %jid, why, "jobs wait for room");
        }
        if !cycle.admitted.is_empty() {
            tracing::debug!(jobs = cycle.admitted.len(), "jobs have got room");
        }
    }

    fn wait(&mut self, myself: ActorRef<Look>) {
        let Worker { house, life, finder, .. } = self.worker.clone();
        let services = life.services();
        self.waiting = Some(Task::spawn(async move {
            let cancel = ingest_steps::outcome::Cancel::new();
            tokio::select! {
                there = finder.arrival(JobState::Provisioning) => if !there { return },
                _ = admit::next_look(&services.freed, services.settings.provisioning.cycle, &cancel) => {}
            }
            house.may_take_work().await;
            let _ = myself.cast(Look);
        }));
    }
}
