//! The registrar: this node among the components, with what others and people want to know of it.
//!
//! It writes when something has changed, and never otherwise.
//!
//! **When things break.** Its node goes with the session. A registrar that is started again finds the node that the
//! one before it made. What cannot be written now is written with the next change.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ingest_queue::map;
use ingest_queue::states::States as _;
use ingest_store::recipes::settle;
use ingest_store::{Mode, path};
use ractor::{Actor, ActorProcessingErr, ActorRef};
use serde::{Deserialize, Serialize};

use crate::crash::{Crash, handled};
use crate::house::{House, Life, Task};
use crate::{elected, stats};

/// What is to be done.
#[derive(Debug)]
pub(crate) enum Message {
    Register,
    /// Something that it tells of has changed.
    Refresh,
}

/// `/components/node/HOST-N`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
#[serde(default)]
pub struct Info {
    pub node: String,
    pub incarnation: String,
    pub version: String,
    /// `running`, `paused` or `draining`.
    pub state: String,
    pub file_system: String,
    /// How many work on each state.
    pub pools: BTreeMap<String, usize>,
    pub restarts: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_restart: Option<String>,
    /// The elections that it leads.
    pub leads: Vec<String>,
    pub since: String,
    /// Which profiles of the tree it runs, and which settings of the cluster; `-`: none.
    pub profiles: String,
    pub settings: String,
    /// Where it answers, if it serves the API.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// The actor.
#[derive(Debug)]
pub(crate) struct Registrar;

/// What it knows.
#[derive(Debug)]
pub(crate) struct State {
    house: Arc<House>,
    life: Arc<Life>,
    path: Option<String>,
    written: Option<Info>,
    since: String,
    /// Stands for election: one node writes down how much is done.
    _stats: Task,
}

impl Actor for Registrar {
    type Msg = Message;
    type State = State;
    type Arguments = (Arc<House>, Arc<Life>);

    async fn pre_start(
        &self,
        myself: ActorRef<Message>,
        (house, life): Self::Arguments,
    ) -> Result<State, ActorProcessingErr> {
        *house.directory.registrar.write() = Some(myself);
        let since = life.queue.now().to_string();
        let (one, other) = (house.clone(), life.clone());
        let gather = move |post| stats::gather(one.clone(), other.clone(), post);
        let stats = elected::stand(&house, &life, elected::STATS, gather);
        Ok(State { house, life, path: None, written: None, since, _stats: stats })
    }

    async fn post_start(&self, myself: ActorRef<Message>, _: &mut State) -> Result<(), ActorProcessingErr> {
        Ok(myself.cast(Message::Register)?)
    }

    async fn handle(
        &self,
        _: ActorRef<Message>,
        message: Message,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        handled(async {
            match message {
                Message::Register => state.register().await,
                Message::Refresh => state.refresh().await,
            }
        })
        .await
    }
}

impl State {
    async fn register(&mut self) -> Result<(), Crash> {
        let session = self.life.queue.session().clone();
        settle(&session, || session.make_dirs(map::NODES)).await.answer.map_err(Crash::error)?;
        // One before us, or a create whose answer was lost.
        let ours = |found: Vec<String>| found.into_iter().next();
        let listed = settle(&session, || session.ephemerals(map::NODES)).await.answer;
        let mut found = ours(listed.map_err(Crash::error)?);
        if found.is_none() {
            let (at, info) = (path::join(map::NODES, &format!("{}-", self.house.name)), self.info());
            let data = serde_json::to_vec(&info).map_err(Crash::error)?;
            found = match session.create(at, data, Mode::EphemeralSequential).await {
                Ok((path, _)) => Some(path),
                Err(error) if error.outcome() == ingest_store::error::Outcome::NotApplied => {
                    return Err(Crash::error(error));
                }
                Err(_) => {
                    let listed = settle(&session, || session.ephemerals(map::NODES)).await.answer;
                    ours(listed.map_err(Crash::error)?)
                }
            };
            self.written = Some(info);
        }
        let path = found.ok_or_else(|| Crash::error("the component could not be registered"))?;
        path::name(&path).clone_into(&mut self.life.own_name.write());
        self.path = Some(path);
        // Events have told of it to the others; this node did not know its own name then.
        crate::house::tell(&self.house.directory.watcher, crate::watcher::Message::Components);
        self.refresh().await
    }

    fn info(&self) -> Info {
        let pools = self.house.settings.load().pools;
        let mut sizes: BTreeMap<String, usize> =
            pools.of_jobs().into_iter().map(|(state, pool)| (state.name().to_owned(), pool.size)).collect();
        sizes.insert("access_small".into(), pools.access_small.size);
        sizes.insert("access_large".into(), pools.access_large.size);
        let restarts = self.house.counts.restarts.load(Ordering::Relaxed);
        Info {
            node: self.house.name.clone(),
            incarnation: self.house.incarnation.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            state: self.house.mode().name().to_owned(),
            file_system: self.life.services.load().work.file_system().to_owned(),
            pools: sizes,
            restarts,
            last_restart: self.house.last_restart(),
            leads: self.house.leads.read().iter().map(|name| (*name).to_owned()).collect(),
            since: self.since.clone(),
            profiles: self.house.shared().profiles_mark(),
            settings: self.house.settings_mark().unwrap_or_else(|| "-".to_owned()),
            url: self.house.steps.load().fetch.public_url.as_ref().map(ToString::to_string),
        }
    }

    async fn refresh(&mut self) -> Result<(), Crash> {
        let Some(path) = self.path.clone() else { return Ok(()) };
        let info = self.info();
        if self.written.as_ref() == Some(&info) {
            return Ok(());
        }
        let data = serde_json::to_vec(&info).map_err(Crash::error)?;
        let session = self.life.queue.session();
        match settle(session, || session.set(path.as_str(), data.clone(), None)).await.answer {
            Ok(_) => self.written = Some(info),
            Err(error) => tracing::debug!(%error, "the component's node was not written"),
        }
        Ok(())
    }
}
