//! Feeds: this node as a worker that feeds can be given to.
//!
//! It registers as `/workers/worker-N` with the feeds that it handles now.
//!
//! **When things break.** The registration goes with the session; an actor that is started again finds the one that
//! is there.

use std::sync::Arc;

use ingest_store::recipes::settle;
use ingest_store::{Mode, path};
use ractor::{Actor, ActorProcessingErr, ActorRef};

use crate::crash::{Crash, handled};
use crate::house::Life;

const WORKERS: &str = "/workers";

/// Register.
#[derive(Debug)]
pub(crate) struct Register;

/// The actor.
#[derive(Debug)]
pub(crate) struct Feeds;

impl Actor for Feeds {
    type Msg = Register;
    type State = Arc<Life>;
    type Arguments = Arc<Life>;

    async fn pre_start(
        &self,
        _: ActorRef<Register>,
        life: Arc<Life>,
    ) -> Result<Arc<Life>, ActorProcessingErr> {
        Ok(life)
    }

    async fn post_start(
        &self,
        myself: ActorRef<Register>,
        _: &mut Arc<Life>,
    ) -> Result<(), ActorProcessingErr> {
        Ok(myself.cast(Register)?)
    }

    async fn handle(
        &self,
        _: ActorRef<Register>,
        _: Register,
        life: &mut Arc<Life>,
    ) -> Result<(), ActorProcessingErr> {
        handled(register(life)).await
    }
}

async fn register(life: &Life) -> Result<(), Crash> {
    let session = life.queue.session();
    settle(session, || session.make_dirs(WORKERS)).await.answer.map_err(Crash::error)?;
    let there = settle(session, || session.ephemerals(WORKERS)).await.answer.map_err(Crash::error)?;
    if !there.is_empty() {
        return Ok(());
    }
    let data = serde_json::json!({ "queues": [] }).to_string();
    session
        .create(path::join(WORKERS, "worker-"), data, Mode::EphemeralSequential)
        .await
        .map(|_| ())
        .map_err(Crash::error)
}
