//! The watcher: events of the tree become messages.
//!
//! It follows the job queues (by the index, which tells pools what waits), the batches, the holds, the components and
//! the access queues, each by one recursive watch. After a reconnect each is looked at again, and only what differs
//! is told. A slow sweep compares the index with the tree, puts right what no event has told of, and counts it.
//!
//! **When things break.** With the session it ends. An index that cannot be kept true ends the watcher, and with it
//! those who stand on it; its supervisor starts them again.

mod events;

use std::sync::Arc;
use std::time::Instant;

use ingest_queue::index::finder::{Ended, Finder};
use ingest_queue::limits::{self, follow::Follower, follow::News};
use ingest_queue::map::{self, HeldQueue};
use ingest_queue::states::BatchList;
use ingest_store::{Event, Session, TreeWatch, path};
use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};

pub(crate) use self::events::BatchEvent;
use self::events::batch_event;
use crate::crash::{Crash, Reason, handled};
use crate::house::{Component, Counts, House, Life, Task, tell};
use crate::registrar::Info;
use crate::worker::{HELD, parked_with, parked_with_upload};
use crate::{access, batches, janitor};

/// What the watcher is told, by those who read events and by the clock.
#[derive(Debug)]
pub(crate) enum Message {
    /// A component has come, gone or changed.
    Components,
    /// A hold was set or lifted.
    Holds,
    /// A profile or the settings of the cluster have changed.
    Shared,
    /// Say when what was found of them before is applied, and before that look again, if asked to.
    LookAtShared(bool, RpcReplyPort<()>),
    /// A slot of a limit is free, or limits have changed.
    Limits(News),
    /// The configuration says other limits than before.
    Configured,
    Sweep,
    /// It is to sweep at other times than before.
    Rearm,
    /// The index has ended.
    Ended(Ended),
}

/// The actor.
#[derive(Debug)]
pub(crate) struct Watcher;

/// What it knows.
#[derive(Debug)]
pub(crate) struct State {
    house: Arc<House>,
    life: Arc<Life>,
    finder: Arc<Finder>,
    readers: Vec<Task>,
    sweep: Option<Task>,
}

impl Actor for Watcher {
    type Msg = Message;
    type State = State;
    type Arguments = (Arc<House>, Arc<Life>);

    async fn pre_start(
        &self,
        myself: ActorRef<Message>,
        (house, life): Self::Arguments,
    ) -> Result<State, ActorProcessingErr> {
        *house.directory.watcher.write() = Some(myself.clone());
        let session = life.queue.session().clone();
        let index = house.settings.load().queue.index();
        let finder = Arc::new(
            Finder::start_by(&session, index, life.queue.clock().clone()).await.map_err(Crash::error)?,
        );
        life.finder.store(Some(finder.clone()));
        let mut state = State { house, life, finder, readers: Vec::new(), sweep: None };
        state.follow(&session, &myself).await?;
        state.read_holds().await;
        Ok(state)
    }

    async fn post_start(
        &self,
        myself: ActorRef<Message>,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        state.sweep_later(&myself);
        // What has changed before it was watched.
        myself.cast(Message::Shared)?;
        // A file without limits says nothing about them.
        if !state.house.settings.load().limits.configured().is_empty() {
            myself.cast(Message::Configured)?;
        }
        Ok(myself.cast(Message::Components)?)
    }

    async fn handle(
        &self,
        myself: ActorRef<Message>,
        message: Message,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        handled(async {
            match message {
                Message::Components => state.components().await?,
                Message::Holds => state.holds().await,
                Message::Shared => crate::shared::look(&state.house, &state.life).await?,
                Message::LookAtShared(again, reply) => {
                    if again {
                        crate::shared::look(&state.house, &state.life).await?;
                    }
                    let _ = reply.send(());
                }
                Message::Limits(news) => state.limits(&news),
                Message::Configured => state.configure().await,
                Message::Sweep => {
                    state.sweep().await;
                    state.sweep_later(&myself);
                }
                Message::Rearm => state.sweep_later(&myself),
                Message::Ended(why) => return Err(ended(&why)),
            }
            Ok(())
        })
        .await
    }
}

fn ended(why: &Ended) -> Crash {
    match why {
        Ended::Session(_) => Crash::of(Reason::Expired, "the session is over"),
        Ended::Unreadable(error) => Crash::error(format!("the queues cannot be listed: {error}")),
    }
}

impl State {
    async fn follow(&mut self, session: &Session, myself: &ActorRef<Message>) -> Result<(), Crash> {
        let watch = async |at: &str| session.watch_tree(at).await.map_err(Crash::error);
        let batches = watch(map::BATCHES).await?;
        let components = watch(map::NODES).await?;
        let access = watch(map::ACCESS).await?;
        let holds = [watch(map::QUEUE_HOLDS).await?, watch(map::COLLECTION_HOLDS).await?];
        self.readers.push(Task::spawn(read_batches(batches, self.house.clone(), self.life.clone())));
        let one = myself.clone();
        self.readers
            .push(Task::spawn(each_change(components, move || one.cast(Message::Components).is_ok())));
        for watch in holds {
            let one = myself.clone();
            self.readers.push(Task::spawn(each_change(watch, move || one.cast(Message::Holds).is_ok())));
        }
        for at in [map::PROFILES, map::CONF] {
            let (watch, one) = (watch(at).await?, myself.clone());
            self.readers.push(Task::spawn(each_change(watch, move || one.cast(Message::Shared).is_ok())));
        }
        let limits = Follower::start(&self.life.queue).await.map_err(Crash::error)?;
        let one = myself.clone();
        self.readers.push(Task::spawn(limits.run(move |news| drop(one.cast(Message::Limits(news))))));
        let house = self.house.clone();
        let look = move || {
            tell(&house.directory.access, access::Message::Look);
            true
        };
        self.readers.push(Task::spawn(each_change(access, look)));
        let (finder, one) = (self.finder.clone(), myself.clone());
        self.readers.push(Task::spawn(async move {
            let why = finder.over().await;
            let _ = one.cast(Message::Ended(why));
        }));
        Ok(())
    }

    /// Who lives, and with which disk.
    async fn components(&self) -> Result<(), Crash> {
        let session = self.life.queue.session();
        let look = ingest_store::recipes::look(session, || session.children(map::NODES)).await;
        let names = match look {
            Ok((names, _)) => names,
            Err(error) if error.kind() == ingest_store::Kind::NoNode => Vec::new(),
            Err(error) => return Err(Crash::error(error)),
        };
        let paths = names.iter().map(|name| path::join(map::NODES, name)).collect::<Vec<_>>();
        let read = ingest_store::recipes::look(session, || session.get_many(paths.clone())).await;
        let found = read.map_err(Crash::error)?;
        let mut components = Vec::new();
        for (path_name, found) in names.iter().zip(found) {
            let Some((data, _)) = found else { continue };
            let info: Info = serde_json::from_slice(&data).unwrap_or_default();
            let (node, file_system) = (info.node, info.file_system);
            components.push(Component { path_name: path_name.clone(), node, file_system });
        }
        let living: Vec<String> = components.iter().map(|one| one.path_name.clone()).collect();
        let own = self.life.own_name.read().clone();
        self.disks(&components);
        self.uploads(&components);
        *self.life.components.write() = components;
        self.life.living.notify_one();
        if !own.is_empty() {
            self.finder.components(living, &own);
        }
        Ok(())
    }

    /// Which nodes with uploads have come or gone.
    fn uploads(&self, now: &[Component]) {
        let named = now.iter().map(|one| (one.node.clone(), one.path_name.clone()));
        let changed = self.life.services().upload_nodes.seen(named, tokio::time::Instant::now());
        for node in &changed {
            self.finder.unpark(parked_with_upload(node));
        }
        if !changed.is_empty() {
            tell(&self.house.directory.batches, batches::Message::RetryAll);
        }
    }

    /// Which disks have come or gone.
    fn disks(&self, now: &[Component]) {
        let mut gone = self.life.gone.write();
        for before in self.life.components.read().iter() {
            if !before.file_system.is_empty() && !now.iter().any(|one| one.file_system == before.file_system)
            {
                gone.entry(before.file_system.clone()).or_insert_with(Instant::now);
                // Those who wait for it look how long it has been away.
                self.finder.unpark(parked_with(&before.file_system));
            }
        }
        for one in now {
            if gone.remove(&one.file_system).is_some() {
                self.finder.unpark(parked_with(&one.file_system));
            }
        }
    }

    async fn holds(&self) {
        self.read_holds().await;
        self.finder.unpark(HELD);
        tell(&self.house.directory.batches, batches::Message::LookAgain);
        tell(&self.house.directory.access, access::Message::Look);
    }

    /// The holds, for all who ask for them before the next event. If they cannot be read, whoever takes a job asks.
    async fn read_holds(&self) {
        let held = match self.life.queue.read_holds().await {
            Ok(holds) => holds.queue(HeldQueue::Ingest).is_some(),
            Err(error) => {
                tracing::debug!(%error, "the holds could not be read");
                self.life.queue.forget_holds();
                false
            }
        };
        self.life.held.send_replace(held);
    }

    /// One more can go on: the best of those who wait in each state.
    fn limits(&self, news: &News) {
        match news {
            News::Freed(semaphore) => {
                self.finder.unpark_best(limits::parked_with(semaphore));
            }
            News::Changed => self.try_limited_again(),
        }
    }

    fn try_limited_again(&self) {
        let limits = self.life.queue.limits();
        for key in self.finder.reasons() {
            match limits::limited_by(&key) {
                None => {}
                Some(semaphore) if limits.may_limit(semaphore) => {
                    self.finder.unpark_best(key);
                }
                // The limit is gone, and nobody needs to be called who could pass the word on.
                Some(_) => {
                    self.finder.unpark(key);
                }
            }
        }
    }

    /// What the file says goes into the tree, for all nodes.
    async fn configure(&self) {
        let configured = self.house.settings.load().limits.configured();
        match self.life.queue.configure_limits(&configured).await {
            Ok(true) => tracing::info!("the limits of the configuration are in the tree, for all nodes"),
            Ok(false) => {}
            Err(error) => {
                tracing::warn!(%error, "the limits of the configuration could not be written; they are with the next reload or start");
            }
        }
    }

    async fn sweep(&self) {
        self.try_limited_again();
        match self.finder.sweep().await {
            None => {}
            Some(0) => tracing::debug!(healed = 0, "the index was compared with the tree"),
            Some(healed) => {
                Counts::add(&self.house.counts.sweep_healed, healed as u64);
                tracing::warn!(healed, "the sweep found what no event had told of");
            }
        }
        let gone: Vec<String> = self.life.gone.read().keys().cloned().collect();
        for file_system in gone {
            self.finder.unpark(parked_with(&file_system));
        }
        tell(&self.house.directory.batches, batches::Message::ListAgain);
        tell(&self.house.directory.access, access::Message::Look);
    }

    fn sweep_later(&mut self, myself: &ActorRef<Message>) {
        let (every, myself) = (self.house.settings.load().upkeep.every, myself.clone());
        self.sweep = Some(Task::spawn(async move {
            tokio::time::sleep(every).await;
            let _ = myself.cast(Message::Sweep);
        }));
    }
}

/// Says that something has happened, whatever it was, until nobody listens or the session is over.
pub(crate) async fn each_change(mut watch: TreeWatch, say: impl Fn() -> bool) {
    loop {
        let event = watch.next().await;
        // Many events are one change.
        let mut over = matches!(event, Event::Ended(_));
        while let Some(event) = watch.try_next() {
            over |= matches!(event, Event::Ended(_));
            if over {
                break;
            }
        }
        if over || !say() {
            return;
        }
    }
}

/// Tells the batches, and those who wait for jobs to end.
async fn read_batches(mut watch: TreeWatch, house: Arc<House>, life: Arc<Life>) {
    loop {
        let event = watch.next().await;
        let found = match &event {
            Event::Ended(_) => return,
            Event::Relist(_) => {
                life.ended.missed();
                life.freed().poke();
                tell(&house.directory.batches, batches::Message::ListAgain);
                janitor::missed(&house);
                continue;
            }
            Event::Children(_) => continue,
            Event::Created(path) | Event::Deleted(path) | Event::Changed(path) => path.as_str(),
        };
        let Some(told) = batch_event(&event, found) else { continue };
        if let BatchEvent::Ended { bid, jid, list } = told {
            life.ended.add(jid);
            life.freed().poke();
            match list {
                BatchList::Failed => house.ended.failed(),
                BatchList::Completed => house.ended.completed(),
                _ => {}
            }
            if list != BatchList::Failed {
                janitor::ended(&house, bid, jid);
            }
        }
        tell(&house.directory.batches, batches::Message::Event(told));
    }
}
