//! The gate: the way in for whoever asks something of the node, by HTTP or by a request in the tree.
//!
//! What it is asked to do is in [`crate::actions`]. Requests of the tree are served by a task of its own, so that a
//! long one keeps nobody from being answered.
//!
//! **When things break.** With the gate its task ends; the next gate gives back what it held.

mod requests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ingest_queue::index::Counts as Waiting;
use ingest_queue::states::{JobState, States as _};
use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};

use crate::crash::handled;
use crate::house::{House, Life, Mode, Task};
pub use requests::{Auditor, RequestDone};

/// What can be asked.
#[derive(Debug)]
pub(crate) enum Message {
    Snapshot(RpcReplyPort<Snapshot>),
    /// Run, or pause.
    Mode(Mode, RpcReplyPort<bool>),
}

/// The node as it is now.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    pub node: String,
    pub component: String,
    pub mode: String,
    pub pools: BTreeMap<String, PoolNow>,
    pub working: Vec<Working>,
    pub restarts: u64,
    pub sweep_healed: u64,
    pub sessions: u64,
    pub stalls: u64,
    pub moved: u64,
    pub handed_over: u64,
    /// Commits that the tree has refused.
    pub commits_refused: u64,
}

/// A pool as it is now.
#[derive(Debug, Clone, Default)]
pub struct PoolNow {
    pub size: usize,
    pub live: usize,
    pub waiting: Waiting,
    /// How long the first in line has been known to this node.
    pub oldest: Option<Duration>,
}

/// Something that is under way.
#[derive(Debug, Clone)]
pub struct Working {
    pub worker: String,
    pub pool: String,
    pub job: Option<String>,
    pub batch: Option<String>,
    pub attempt: u32,
    pub running: Duration,
    /// Files and bytes, done and in all.
    pub done: (u64, u64),
    pub all: (u64, u64),
}

/// The actor.
#[derive(Debug)]
pub(crate) struct Gate;

impl Actor for Gate {
    type Msg = Message;
    type State = (Arc<House>, Arc<Life>, Task);
    type Arguments = (Arc<House>, Arc<Life>);

    async fn pre_start(
        &self,
        myself: ActorRef<Message>,
        (house, life): Self::Arguments,
    ) -> Result<Self::State, ActorProcessingErr> {
        *house.directory.gate.write() = Some(myself);
        let serving = Task::spawn(requests::serve(house.clone(), life.clone()));
        Ok((house, life, serving))
    }

    async fn handle(
        &self,
        _: ActorRef<Message>,
        message: Message,
        (house, life, _): &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        handled(async {
            match message {
                // Whoever asked may have gone.
                Message::Snapshot(reply) => {
                    let _ = reply.send(snapshot(house, life));
                }
                Message::Mode(mode, reply) => {
                    let _ = reply.send(house.set_mode(mode));
                }
            }
            Ok(())
        })
        .await
    }
}

fn snapshot(house: &House, life: &Life) -> Snapshot {
    let finder = life.finder();
    let pool = |state: &JobState| {
        let waiting = finder.as_ref().map(|finder| finder.counts(*state)).unwrap_or_default();
        let oldest = finder.as_ref().and_then(|finder| finder.longest_wait(*state));
        let mut pool = PoolNow { waiting, oldest, ..PoolNow::default() };
        if let Some(bench) = house.directory.bench(*state) {
            (pool.size, pool.live) = (bench.size(), bench.live());
        }
        (state.name().to_owned(), pool)
    };
    let settings = house.settings.load();
    let under_way = house.floor.desks().into_iter().filter_map(|desk| {
        let current = desk.current()?;
        Some(Working {
            worker: desk.name.clone(),
            pool: desk.pool.clone(),
            job: current.entry.map(|entry| entry.jid.to_string()),
            batch: current.bid.map(|bid| bid.to_string()),
            attempt: current.attempt,
            running: current.since.elapsed(),
            done: current.progress.done(),
            all: current.progress.all(),
        })
    });
    let count = |count: &std::sync::atomic::AtomicU64| count.load(Ordering::Relaxed);
    Snapshot {
        node: house.name.clone(),
        component: life.own_name.read().clone(),
        mode: house.mode().name().to_owned(),
        pools: settings.pools.of_jobs().keys().map(pool).collect(),
        working: under_way.collect(),
        restarts: count(&house.counts.restarts),
        sweep_healed: count(&house.counts.sweep_healed),
        sessions: count(&house.counts.sessions),
        stalls: count(&house.counts.stalls),
        moved: house.committed.moves().into_values().sum(),
        handed_over: count(&house.counts.handed_over),
        commits_refused: house.committed.refused(),
    }
}
