//! The root: starts the children in their order, starts them again when they die, and ends the node.
//!
//! ```text
//! Root
//! ├── Session       the session of the tree, and the lock table
//! ├── Registrar     this node among the components
//! ├── Watcher       events of the tree become messages
//! ├── Batches ───── a BatchActor for each live batch
//! ├── Pools ─────── a StatePool for each job state ── a StateActor for each place
//! ├── Committer     commits ready transitions together
//! ├── Access ────── those who put objects together
//! ├── Feeds         this node's share of the feeds
//! ├── Timekeeper    what is due at some time
//! ├── Janitor       what nobody needs any more
//! └── Gate          the way in
//! ```
//!
//! **When things break.** A child that dies is started again, with those that stand on it: everything stands on the
//! session, and Batches, Pools and Access on the watcher. More deaths than the policy allows end the node, with a last
//! word. The end of a session is no fault of a child: it is counted, and never too often.

mod ending;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use ingest_store::SessionState;
use ractor::{Actor, ActorCell, ActorId, ActorProcessingErr, ActorRef, SupervisionEvent};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::access::Access;
use crate::batches::Batches;
use crate::committer::Committer;
use crate::crash::{Crash, Death, Reason, death, handled};
use crate::feeds::Feeds;
use crate::gate::Gate;
use crate::house::{About, House, Life};
use crate::janitor::Janitor;
use crate::node::End;
use crate::pools::Pools;
use crate::registrar::Registrar;
use crate::release;
use crate::restart::{Restarts, Verdict};
use crate::session::SessionActor;
use crate::timekeeper::Timekeeper;
use crate::watcher::Watcher;

/// A child of the root, in the order in which they are started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    Session,
    Registrar,
    Watcher,
    Batches,
    Pools,
    Committer,
    Access,
    Feeds,
    Timekeeper,
    Janitor,
    Gate,
}

impl Role {
    pub const ALL: [Role; 11] = [
        Role::Session,
        Role::Registrar,
        Role::Watcher,
        Role::Batches,
        Role::Pools,
        Role::Committer,
        Role::Access,
        Role::Feeds,
        Role::Timekeeper,
        Role::Janitor,
        Role::Gate,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Role::Session => "session",
            Role::Registrar => "registrar",
            Role::Watcher => "watcher",
            Role::Batches => "batches",
            Role::Pools => "pools",
            Role::Committer => "committer",
            Role::Access => "access",
            Role::Feeds => "feeds",
            Role::Timekeeper => "timekeeper",
            Role::Janitor => "janitor",
            Role::Gate => "gate",
        }
    }

    /// Whether this one cannot live without the other.
    pub fn stands_on(self, other: Role) -> bool {
        match other {
            Role::Session => self != Role::Session,
            Role::Watcher => matches!(self, Role::Batches | Role::Pools | Role::Access),
            _ => false,
        }
    }
}

/// What the root is told.
#[derive(Debug)]
pub(crate) enum Message {
    /// There is a session.
    Up(Arc<Life>),
    /// The node cannot work at all.
    Refused(String),
    /// The pause of this child is over.
    Restart(Role),
    /// End when what is under way is done.
    Drain,
    /// End now.
    StopNow,
    /// Nothing is under way any more.
    Idle,
    /// What is under way has had its time.
    GraceOver,
    /// It has had more than its time.
    Over,
}

/// The actor.
#[derive(Debug)]
pub(crate) struct Root;

/// What it is started with.
#[derive(Debug)]
pub(crate) struct Setup {
    pub(crate) house: Arc<House>,
    pub(crate) ended: watch::Sender<Option<End>>,
    /// Becomes true when all children run.
    pub(crate) ready: watch::Sender<bool>,
}

/// What it knows.
#[derive(Debug)]
pub(crate) struct State {
    house: Arc<House>,
    life: Option<Arc<Life>>,
    children: BTreeMap<Role, ActorCell>,
    of: HashMap<ActorId, Role>,
    /// By child, and whether it died with its session: that is nobody's fault, and counts for itself.
    restarts: HashMap<(Role, bool), Restarts>,
    /// Those whose pause is not over.
    waiting: BTreeSet<Role>,
    ending: ending::Ending,
    ended: watch::Sender<Option<End>>,
    ready: watch::Sender<bool>,
}

impl Actor for Root {
    type Msg = Message;
    type State = State;
    type Arguments = Setup;

    async fn pre_start(&self, _: ActorRef<Message>, setup: Setup) -> Result<State, ActorProcessingErr> {
        let Setup { house, ended, ready } = setup;
        Ok(State {
            house,
            life: None,
            children: BTreeMap::new(),
            of: HashMap::new(),
            restarts: HashMap::new(),
            waiting: BTreeSet::new(),
            ending: ending::Ending::default(),
            ended,
            ready,
        })
    }

    async fn post_start(
        &self,
        myself: ActorRef<Message>,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        handled(async {
            state.start_missing(&myself).await;
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
                Message::Up(life) => {
                    state.house.set_life(Some(life.clone()));
                    state.life = Some(life);
                    state.start_missing(&myself).await;
                }
                Message::Refused(why) => state.end(&myself, End::Refused(why)).await,
                Message::Restart(role) => {
                    state.waiting.remove(&role);
                    state.start_missing(&myself).await;
                }
                Message::Drain => state.drain(&myself).await,
                Message::Idle => state.idle(&myself).await,
                Message::GraceOver => state.hurry(&myself),
                Message::Over => state.end(&myself, End::Hurried).await,
                Message::StopNow => state.end(&myself, End::AtOnce).await,
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
        handled(async {
            state.lost(&myself, cell.get_id(), death).await;
            Ok(())
        })
        .await
    }
}

impl State {
    fn is_over(&self) -> bool {
        self.ending.over
    }

    /// Starts those that do not run, in their order, as far as what they stand on does.
    async fn start_missing(&mut self, myself: &ActorRef<Message>) {
        if self.is_over() {
            return;
        }
        for role in Role::ALL {
            let stands = Role::ALL
                .into_iter()
                .filter(|other| role.stands_on(*other))
                .all(|other| self.children.contains_key(&other));
            if self.children.contains_key(&role) || self.waiting.contains(&role) || !stands {
                continue;
            }
            if role != Role::Session && !self.has_a_session() {
                continue;
            }
            match self.start(myself, role).await {
                Ok(cell) => {
                    self.of.insert(cell.get_id(), role);
                    self.children.insert(role, cell);
                }
                // The next session starts it.
                Err(_) if role != Role::Session && !self.has_a_session() => {}
                Err(crash) => self.died(myself, role, crash).await,
            }
        }
        self.ready.send_replace(self.children.len() == Role::ALL.len());
    }

    /// Whether there is one that is not over: its own actor may hear of that later than others.
    fn has_a_session(&self) -> bool {
        self.life.as_ref().is_some_and(|life| !life.queue.session().state().is_final())
    }

    async fn start(&self, myself: &ActorRef<Message>, role: Role) -> Result<ActorCell, Crash> {
        let (house, over) = (self.house.clone(), myself.get_cell());
        let name = Some(house.actor_name(role.name()));
        if role == Role::Session {
            let arguments = (house, myself.clone());
            let (actor, _) =
                Actor::spawn_linked(name, SessionActor, arguments, over).await.map_err(Crash::error)?;
            return Ok(actor.get_cell());
        }
        let life = self.life.clone().ok_or_else(|| Crash::error("there is no session"))?;
        let both = (house, life.clone());
        macro_rules! child {
            ($actor:expr, $arguments:expr) => {{
                let spawned = Actor::spawn_linked(name, $actor, $arguments, over).await;
                spawned.map_err(|error| Crash::error(error))?.0.get_cell()
            }};
        }
        Ok(match role {
            Role::Session | Role::Committer => child!(Committer, life),
            Role::Registrar => child!(Registrar, both),
            Role::Watcher => child!(Watcher, both),
            Role::Batches => child!(Batches, both),
            Role::Pools => child!(Pools, both),
            Role::Access => child!(Access, both),
            Role::Feeds => child!(Feeds, both),
            Role::Timekeeper => child!(Timekeeper, both),
            Role::Janitor => child!(Janitor, both),
            Role::Gate => child!(Gate, both),
        })
    }

    async fn lost(&mut self, myself: &ActorRef<Message>, id: ActorId, death: Death) {
        let Some(role) = self.of.remove(&id) else { return };
        self.children.remove(&role);
        let crash = match death {
            Death::Crashed(crash) => crash,
            Death::Stopped(why) => Crash::of(Reason::Killed, format!("it was stopped: {why}")),
        };
        self.died(myself, role, crash).await;
        self.start_missing(myself).await;
    }

    /// A child has died, or could not be started. It is missing until it is started again.
    async fn died(&mut self, myself: &ActorRef<Message>, role: Role, crash: Crash) {
        if self.is_over() {
            return;
        }
        self.ready.send_replace(false);
        self.house.directory.forget(role);
        self.stop_those_on(role).await;
        if role == Role::Session {
            self.bury().await;
        } else {
            self.clear_up_after(role);
        }
        let policy = self.house.settings.load().supervision.policy();
        // What stands on a session that is over dies of that, and the session itself waits for the server.
        let expired = crash.reason == Reason::Expired;
        let restarts = self.restarts.entry((role, expired)).or_insert_with(|| Restarts::new(policy));
        restarts.set_policy(policy);
        let mut verdict = restarts.died(Instant::now(), rand::random());
        if expired {
            let (Verdict::Again { count, .. } | Verdict::GiveUp { count }) = verdict;
            verdict = Verdict::Again { count, after: Duration::ZERO };
        }
        self.house.restarted(role.name(), &crash, verdict, About::default());
        match verdict {
            Verdict::Again { after, .. } if after.is_zero() && crash.reason != Reason::Error => {}
            Verdict::Again { after, .. } => {
                self.waiting.insert(role);
                myself.send_after(after, move || Message::Restart(role));
            }
            Verdict::GiveUp { count } => {
                let why = format!("{} died {count} times, most recently: {crash}", role.name());
                self.end(myself, End::GaveUp(why)).await;
            }
        }
    }

    async fn stop_those_on(&mut self, role: Role) {
        for other in Role::ALL.into_iter().rev().filter(|other| other.stands_on(role)) {
            self.stop_child(other).await;
        }
    }

    async fn stop_child(&mut self, role: Role) {
        self.waiting.remove(&role);
        self.house.directory.forget(role);
        if let Some(cell) = self.children.remove(&role) {
            self.of.remove(&cell.get_id());
            let _ = cell.kill_and_wait(Some(Duration::from_secs(5))).await;
            self.clear_up_after(role);
        }
    }

    /// Those whom a child had under it have died with it: what they held is given back.
    fn clear_up_after(&self, role: Role) {
        let Some(life) = &self.life else { return };
        if !matches!(role, Role::Batches | Role::Pools | Role::Access) || self.is_over() {
            return;
        }
        release::all_at(&self.house, life, life.finder().as_ref(), |pool| match pool {
            "batches" => role == Role::Batches,
            pool if pool.starts_with("access_") => role == Role::Access,
            _ => role == Role::Pools,
        });
    }

    /// What is left of a session: steps that run in threads, desks of those who were killed, and the session itself
    /// if only its actor has died.
    async fn bury(&mut self) {
        self.house.set_life(None);
        self.house.set_link(SessionState::Suspended);
        for desk in self.house.floor.desks() {
            desk.close();
        }
        if tokio::time::timeout(ending::LAST, self.house.floor.empty()).await.is_err() {
            let busy = self.house.floor.busy();
            tracing::warn!(
                busy,
                "threads of the old session are still at work; their commits will be refused"
            );
        }
        let Some(life) = self.life.take() else { return };
        life.queue.locks().revoke_all();
        let session = life.queue.session();
        if session.state().is_final() {
            return;
        }
        match tokio::time::timeout(ending::LEAVING, session.close()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::warn!(%error, "the old session was not closed, and ends by its timeout");
            }
            Err(_) => tracing::warn!("the old session was not closed in time, and ends by its timeout"),
        }
    }
}
