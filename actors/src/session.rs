//! The session of the tree, and everything that lives and dies with it.
//!
//! It says connected, suspended, expired. Connected: work is taken. Suspended: nothing new is started and nothing is
//! committed; half a session timeout later every step is told to stop, except downloads, which touch nothing but
//! files of their own. Expired: the tokens are revoked and the actor dies, so that its supervisor ends everything that
//! stands on the session and begins anew.
//!
//! The tree that a session opens is compared with the inventory and everything else beside it ([`ingest_steps::ledger`]): before
//! anybody works on it, whenever the connection comes back, and whenever `/repository` changes. A tree that is older, or
//! another one, is not worked on: the node stays, says what differs, and goes on when somebody has repaired it. If the tree
//! is replaced under a session, the session is given up.
//!
//! **When things break.** A server that cannot be reached is tried until it can. What refuses the node for good
//! (authentication, a tree that another process has) ends it, with the reason.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ingest_queue::date::Clock;
use ingest_queue::error::Error;
use ingest_queue::map;
use ingest_queue::queue::{self, Queue};
use ingest_queue::states::{JobState, States as _};
use ingest_steps::ledger::{self, Examined, Places};
use ingest_steps::outcome::Failure;
use ingest_steps::services::Services;
use ingest_store::error::Next;
use ingest_store::{Event, Session, SessionState};
use ractor::{Actor, ActorProcessingErr, ActorRef};

use crate::crash::{Crash, Reason, handled};
use crate::house::{Counts, House, Life, Task};
use crate::root;

/// The longest pause between two tries to open a session.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// What the session is told.
#[derive(Debug)]
pub(crate) enum Message {
    Open,
    Opened(Box<Result<Session, ingest_store::Error>>),
    State(SessionState),
    /// It has been suspended for half its timeout.
    HalfGone(u64),
    /// The tree may be another one than it was, or be repaired.
    Examine,
    Examined(Box<Result<Examined, Failure>>),
}

/// The actor.
#[derive(Debug)]
pub(crate) struct SessionActor;

/// What it knows.
#[derive(Debug)]
pub(crate) struct State {
    house: Arc<House>,
    root: ActorRef<root::Message>,
    life: Option<Arc<Life>>,
    tries: u32,
    /// How often it has been suspended.
    suspensions: u64,
    task: Option<Task>,
    timer: Option<Task>,
    /// Watches `/repository`.
    watch: Option<Task>,
    /// Compares the tree with what is beside it.
    examination: Option<Task>,
    /// How often something could not be asked for it.
    unread: u32,
}

impl Actor for SessionActor {
    type Msg = Message;
    type State = State;
    type Arguments = (Arc<House>, ActorRef<root::Message>);

    async fn pre_start(
        &self,
        _: ActorRef<Message>,
        (house, root): Self::Arguments,
    ) -> Result<State, ActorProcessingErr> {
        house.set_link(SessionState::Suspended);
        Ok(State {
            house,
            root,
            life: None,
            tries: 0,
            suspensions: 0,
            task: None,
            timer: None,
            watch: None,
            examination: None,
            unread: 0,
        })
    }

    async fn post_start(&self, myself: ActorRef<Message>, _: &mut State) -> Result<(), ActorProcessingErr> {
        Ok(myself.cast(Message::Open)?)
    }

    async fn handle(
        &self,
        myself: ActorRef<Message>,
        message: Message,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        handled(async {
            match message {
                Message::Open => state.open(&myself),
                Message::Opened(opened) => state.opened(&myself, *opened).await?,
                Message::State(found) => state.is_now(&myself, found)?,
                Message::HalfGone(suspension) => state.half_gone(suspension),
                Message::Examine => state.examine(&myself),
                Message::Examined(examined) => state.examined(&myself, *examined)?,
            }
            Ok(())
        })
        .await
    }
}

/// Why nothing can stand on a session.
#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error("the tree cannot be used: {0}")]
    Tree(Error),
    #[error("a service cannot be opened: {0}")]
    Service(Failure),
    /// Of what the configuration names, something belongs to another repository.
    #[error("{0}")]
    Foreign(String),
}

impl State {
    /// Opens a session, on a task of its own: it may take long, and the node can be stopped meanwhile.
    fn open(&mut self, myself: &ActorRef<Message>) {
        let (store, myself) = (self.house.store.clone(), myself.clone());
        self.task = Some(Task::spawn(async move {
            let opened = store.session().await;
            let _ = myself.cast(Message::Opened(Box::new(opened)));
        }));
    }

    async fn opened(
        &mut self,
        myself: &ActorRef<Message>,
        opened: Result<Session, ingest_store::Error>,
    ) -> Result<(), Crash> {
        let session = match opened {
            Ok(session) => session,
            Err(error) if matches!(error.next(), Next::StopNode | Next::GiveUp) => {
                return self.refuse(format!("the tree cannot be used: {error}"));
            }
            Err(error) => {
                self.try_again(myself, &error);
                return Ok(());
            }
        };
        let life = match self.begin(&session).await {
            Ok(life) => Arc::new(life),
            Err(trouble) if session.state().is_final() => {
                return Err(Crash::of(Reason::Expired, trouble.to_string()));
            }
            Err(Trouble::Tree(Error::Store(error)))
                if !matches!(error.next(), Next::StopNode | Next::GiveUp) =>
            {
                // What was sent is perhaps applied, and making the same directories again harms nobody.
                let _ = tokio::time::timeout(LONGEST_PAUSE, session.close()).await;
                self.try_again(myself, &error);
                return Ok(());
            }
            // Nobody has written down to what this tree belongs while it was read.
            Err(Trouble::Service(why @ Failure::Again(_))) => {
                let _ = tokio::time::timeout(LONGEST_PAUSE, session.close()).await;
                self.try_again(myself, &why);
                return Ok(());
            }
            // The inventory is away: without it nobody knows whether this tree is the one of before.
            Err(Trouble::Service(why @ Failure::Later(_))) if self.had_a_session() => {
                let _ = tokio::time::timeout(LONGEST_PAUSE, session.close()).await;
                self.try_again(myself, &why);
                return Ok(());
            }
            Err(trouble) => return self.refuse(trouble.to_string()),
        };
        Counts::add(&self.house.counts.sessions, 1);
        let number = self.house.counts.sessions.load(Ordering::Relaxed);
        let (engine, timeout) = (session.engine(), session.timeout());
        tracing::info!(engine, session = format!("{:x}", session.id()), ?timeout, number, "connected");
        self.follow(myself, &session);
        self.life = Some(life.clone());
        self.watch_repository(myself, &session);
        let _ = self.root.cast(root::Message::Up(life));
        Ok(())
    }

    fn try_again(&mut self, myself: &ActorRef<Message>, why: &dyn std::fmt::Display) {
        self.tries += 1;
        tracing::warn!(error = %why, tries = self.tries, "the tree cannot be reached, and is tried again");
        let pause = Duration::from_millis(250).saturating_mul(1 << self.tries.min(5)).min(LONGEST_PAUSE);
        myself.send_after(pause, || Message::Open);
    }

    fn had_a_session(&self) -> bool {
        self.house.counts.sessions.load(Ordering::Relaxed) > 0
    }

    /// The first time what is wrong is told to whoever started the node; later it may be temporary.
    fn refuse(&self, why: String) -> Result<(), Crash> {
        if !self.had_a_session() {
            let _ = self.root.cast(root::Message::Refused(why));
            return Ok(());
        }
        Err(Crash::error(why))
    }

    /// Everything that stands on this session.
    async fn begin(&self, session: &Session) -> Result<Life, Trouble> {
        let settings = self.house.settings.load();
        let of_queue = queue::Settings {
            dialect: settings.queue.dialect,
            node: self.house.name.clone(),
            incarnation: self.house.incarnation.clone(),
            max_timeouts: settings.queue.max_timeouts,
            together: settings.queue.committing(),
            counts: self.house.committed.clone(),
            seen: self.house.seen.clone(),
        };
        let dialect = of_queue.dialect;
        Queue::make_directories(session, dialect).await.map_err(Trouble::Tree)?;
        let (queue, serving) = Queue::with_committer(session, of_queue, Clock::system());
        let services = if let Some(before) = self.house.services.load_full() {
            before.on(session).await
        } else {
            let steps = (**self.house.steps.load()).clone();
            Services::open(steps, session, &self.house.name).await
        };
        let services = services.map_err(Trouble::Service)?;
        // Before any batch or job gets a number.
        let places = Places::of(&services).map_err(Trouble::Service)?;
        let examined = ledger::examine(&queue, &places).await.map_err(Trouble::Service)?;
        if examined.findings().is_empty() {
            examined.adopt(&queue, &places).await.map_err(Trouble::Service)?;
        } else if examined.is_foreign() && !self.had_a_session() {
            return Err(Trouble::Foreign(examined.text()));
        }
        *services.lost.write() = examined.lost();
        self.judge(&queue, &examined);
        if self.house.services.load().is_none() {
            self.house.files.store(services.profiles.read().clone());
        }
        self.house.services.store(Some(Arc::new(services.clone())));
        // Before anybody works: jobs want their profiles.
        let now = queue.shared().await.map_err(Trouble::Tree)?;
        crate::shared::apply(&self.house, &services, now);
        Ok(Life::new(queue, serving, services))
    }

    /// Lets the node work, or not.
    fn judge(&self, queue: &Queue, examined: &Examined) {
        let barred = self.house.barred();
        if examined.findings().is_empty() {
            queue.open_numbers();
            self.house.set_barred(None);
            if barred.is_some() {
                tracing::info!("the tree fits what is beside it again: work is taken");
            }
            return;
        }
        let why = format!(
            "the tree is older than what is beside it, or another tree; no work is taken until `ingestd fsck --repair` has been \
             run or the configuration is corrected: {}",
            examined.text()
        );
        queue.close_numbers(&why);
        if barred.as_deref() != Some(why.as_str()) {
            for finding in examined.findings() {
                let (code, path, what) = (finding.code.text(), &finding.path, &finding.what);
                tracing::error!(
                    code,
                    path,
                    what,
                    "the tree is older than what is beside it, or another tree"
                );
            }
        }
        self.house.set_barred(Some(why.into()));
    }

    /// Watches the znode that a repair writes last. A connection that came back is told by the same watch.
    fn watch_repository(&mut self, myself: &ActorRef<Message>, session: &Session) {
        let (session, myself) = (session.clone(), myself.clone());
        self.watch = Some(Task::spawn(async move {
            let watch = || session.watch_tree(map::REPOSITORY);
            let mut watch = match ingest_store::recipes::look(&session, watch).await {
                Ok(watch) => watch,
                // The session is over, and its actor hears of that.
                Err(error) => {
                    tracing::warn!(%error, path = map::REPOSITORY, "it is not watched");
                    return;
                }
            };
            loop {
                // What came between the look at the tree and the watch is seen by the first one.
                if myself.cast(Message::Examine).is_err() {
                    return;
                }
                if let Event::Ended(_) = watch.next().await {
                    return;
                }
            }
        }));
    }

    /// Compares the tree again, on a task of its own: the inventory may be slow.
    fn examine(&mut self, myself: &ActorRef<Message>) {
        let Some(life) = &self.life else { return };
        let (queue, services, myself) = (life.queue.clone(), life.services(), myself.clone());
        self.examination = Some(Task::spawn(async move {
            let examined = async {
                let places = Places::of(&services)?;
                let examined = ledger::examine(&queue, &places).await?;
                if examined.findings().is_empty() {
                    examined.adopt(&queue, &places).await?;
                }
                *services.lost.write() = examined.lost();
                Ok(examined)
            };
            let _ = myself.cast(Message::Examined(Box::new(examined.await)));
        }));
    }

    fn examined(
        &mut self,
        myself: &ActorRef<Message>,
        examined: Result<Examined, Failure>,
    ) -> Result<(), Crash> {
        let Some(life) = self.life.clone() else { return Ok(()) };
        let unread = match &examined {
            Ok(examined) => examined.unread().join("; "),
            Err(failure) => failure.to_string(),
        };
        if unread.is_empty() {
            self.unread = 0;
        } else {
            self.unread += 1;
            tracing::warn!(
                why = unread,
                "not all that is beside the tree can be compared with it; trying again"
            );
            let pause = LONGEST_PAUSE.saturating_mul(1 << self.unread.min(6));
            myself.send_after(pause, || Message::Examine);
        }
        let Ok(examined) = examined else { return Ok(()) };
        let worked = self.house.barred().is_none();
        self.judge(&life.queue, &examined);
        if worked && !examined.findings().is_empty() {
            // What is under way began on another tree: with the session it ends, and the next one takes no work.
            let why =
                "the tree was replaced by an older one, or another one, while it was worked on".to_owned();
            return Err(Crash::of(Reason::Expired, why));
        }
        Ok(())
    }

    fn follow(&mut self, myself: &ActorRef<Message>, session: &Session) {
        let (mut states, myself) = (session.states(), myself.clone());
        self.task = Some(Task::spawn(async move {
            loop {
                let state = states.borrow_and_update().state;
                if myself.cast(Message::State(state)).is_err() || state.is_final() {
                    return;
                }
                if states.changed().await.is_err() {
                    let _ = myself.cast(Message::State(SessionState::Closed));
                    return;
                }
            }
        }));
    }

    fn is_now(&mut self, myself: &ActorRef<Message>, found: SessionState) -> Result<(), Crash> {
        let before = self.house.link();
        self.house.set_link(found);
        match found {
            SessionState::Connected => {
                self.timer = None;
                if before == SessionState::Suspended && self.suspensions > 0 {
                    tracing::info!("connected again");
                }
            }
            SessionState::Suspended => {
                self.suspensions += 1;
                let timeout =
                    self.life.as_ref().map(|life| life.queue.session().timeout()).unwrap_or_default();
                tracing::warn!(
                    ?timeout,
                    "the connection to the tree is lost: nothing is started or committed"
                );
                let (suspension, myself) = (self.suspensions, myself.clone());
                self.timer = Some(Task::spawn(async move {
                    tokio::time::sleep(timeout / 2).await;
                    let _ = myself.cast(Message::HalfGone(suspension));
                }));
            }
            SessionState::Expired | SessionState::Closed => {
                let lost = self.life.take().map_or(0, |life| life.queue.locks().revoke_all().len());
                let why = format!("the session is over; {lost} locks went with it");
                tracing::error!(locks = lost, "the session is over: everything is built anew");
                return Err(Crash::of(Reason::Expired, why));
            }
        }
        Ok(())
    }

    fn half_gone(&self, suspension: u64) {
        if suspension != self.suspensions || self.house.link() != SessionState::Suspended {
            return;
        }
        let private = JobState::Downloading.name();
        let told = self.house.floor.cancel(|desk, _| desk.pool != private);
        tracing::warn!(told, "still no connection: steps with effects elsewhere are told to stop");
    }
}
