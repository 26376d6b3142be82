//! Pools: a StatePool for each job state that this node works on.
//!
//! **When things break.** A pool that dies takes its workers with it. Their locks are released when they have really
//! ended, and then the pool is started again.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use ingest_queue::index::finder::Finder;
use ingest_queue::states::{JobState, States as _};
use ingest_steps::step::record;
use ractor::{Actor, ActorId, ActorProcessingErr, ActorRef, SupervisionEvent};
use tokio::time::Instant;

use crate::crash::{Crash, Death, Reason, death, handled};
use crate::house::{About, House, Life};
use crate::pool::{self, Setup, StatePool};
use crate::release;
use crate::restart::{Restarts, Verdict};
use crate::settings::Pool;

/// What the pools are told.
#[derive(Debug)]
pub(crate) enum Message {
    /// The settings have changed.
    Resize,
    Restart(JobState),
}

/// The actor.
#[derive(Debug)]
pub(crate) struct Pools;

/// What it knows.
#[derive(Debug)]
pub(crate) struct State {
    house: Arc<House>,
    life: Arc<Life>,
    finder: Arc<Finder>,
    pools: BTreeMap<JobState, ActorRef<pool::Message>>,
    of: HashMap<ActorId, JobState>,
    restarts: HashMap<JobState, Restarts>,
}

impl Actor for Pools {
    type Msg = Message;
    type State = State;
    type Arguments = (Arc<House>, Arc<Life>);

    async fn pre_start(
        &self,
        myself: ActorRef<Message>,
        (house, life): Self::Arguments,
    ) -> Result<State, ActorProcessingErr> {
        *house.directory.pools.write() = Some(myself);
        let finder = life.finder().ok_or_else(|| Crash::error("there is no index to take jobs from"))?;
        let (pools, of, restarts) = (BTreeMap::new(), HashMap::new(), HashMap::new());
        Ok(State { house, life, finder, pools, of, restarts })
    }

    async fn post_start(
        &self,
        myself: ActorRef<Message>,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        handled(async {
            for job_state in state.sizes().into_keys() {
                state.start(&myself, job_state).await?;
            }
            Ok(())
        })
        .await
    }

    async fn handle(
        &self,
        myself: ActorRef<Message>,
        message: Message,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        handled(async {
            match message {
                Message::Resize => state.resize(),
                Message::Restart(job_state) => state.start(&myself, job_state).await?,
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
        handled(state.lost(&myself, cell.get_id(), death)).await
    }
}

impl State {
    /// How many workers each state is to have. `recording` is another's where the inventory is outside. Without work
    /// nobody decides about room: jobs pass through `provisioning` as they pass through the state before it.
    fn sizes(&self) -> BTreeMap<JobState, usize> {
        let settings = self.house.settings.load();
        let ours = |state| {
            state != JobState::Recording
                || !self.house.work.is_real()
                || record::is_ours(&self.life.services.load())
        };
        let size = |state, pool: Pool| match state {
            state if !ours(state) => 0,
            JobState::Provisioning if pool.size > 0 && !self.house.work.is_real() => {
                settings.pools.estimating.size
            }
            _ => pool.size,
        };
        settings.pools.of_jobs().into_iter().map(|(state, pool)| (state, size(state, pool))).collect()
    }

    fn resize(&self) {
        let sizes = self.sizes();
        for (state, pool) in &self.pools {
            let _ = pool.cast(pool::Message::Resize(sizes.get(state).copied().unwrap_or(0)));
        }
    }

    async fn start(&mut self, myself: &ActorRef<Message>, state: JobState) -> Result<(), Crash> {
        let size = self.sizes().get(&state).copied().unwrap_or(0);
        let (house, life, finder) = (self.house.clone(), self.life.clone(), self.finder.clone());
        let setup = Setup { house, life, finder, state, size };
        let (pool, _) = Actor::spawn_linked(
            Some(self.house.actor_name(state.name())),
            StatePool,
            setup,
            myself.get_cell(),
        )
        .await
        .map_err(Crash::error)?;
        self.of.insert(pool.get_id(), state);
        self.pools.insert(state, pool);
        Ok(())
    }

    async fn lost(&mut self, myself: &ActorRef<Message>, id: ActorId, death: Death) -> Result<(), Crash> {
        let Some(state) = self.of.remove(&id) else { return Ok(()) };
        self.pools.remove(&state);
        if let Some(bench) = self.house.directory.benches.write().remove(&state) {
            // Nobody comes back to it: whoever waits for that looks for the next one.
            bench.set_size(0);
        }
        let crash = match death {
            Death::Crashed(crash) => crash,
            Death::Stopped(why) => Crash::of(Reason::Killed, format!("it was stopped: {why}")),
        };
        release::all_at(&self.house, &self.life, Some(&self.finder), |pool| pool == state.name());
        let policy = self.house.settings.load().supervision.policy();
        let restarts = self.restarts.entry(state).or_insert_with(|| Restarts::new(policy));
        restarts.set_policy(policy);
        let verdict = restarts.died(Instant::now(), rand::random());
        let name = state.name().to_owned();
        let about = About { pool: Some(name.clone()), state: Some(name.clone()), ..About::default() };
        self.house.restarted(&format!("pool {name}"), &crash, verdict, about);
        match verdict {
            Verdict::Again { after, .. } if after.is_zero() => self.start(myself, state).await,
            Verdict::Again { after, .. } => {
                myself.send_after(after, move || Message::Restart(state));
                Ok(())
            }
            Verdict::GiveUp { count } => Err(Crash {
                message: format!("the pool {name} died {count} times, most recently: {crash}"),
                ..crash
            }),
        }
    }
}
