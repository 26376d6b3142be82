//! The task that follows `/jobs/states` and `/journal/dates`: the only one that tells the index what the tree says, so that
//! a listing and the events around it are applied in their order.
//!
//! Whatever was applied before a listing was asked for is in it, and what comes after it is applied
//! after it: that is why nothing is read from the watch while a listing is under way.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use ingest_store::recipes::look;
use ingest_store::{Event, Kind, Missed, Session, TreeWatch};
use tokio::sync::mpsc;
use tokio::task::coop::consume_budget;
use tokio::time::Instant;

use super::overdue::{Inserted, Overdue};
use super::{Command, Ended, Ignored, Settings, Shared, Task};
use crate::date::{Clock, Date};
use crate::ids::Jid;
use crate::index::Listing;
use crate::map::{self, QueueRef};
use crate::states::{JobState, States};

pub(super) struct Follower {
    shared: Arc<Shared>,
    watch: TreeWatch,
    /// Of the process dates.
    dates: TreeWatch,
    /// The dates that the index was told.
    known_dates: HashMap<Jid, i64>,
    clock: Clock,
    commands: mpsc::UnboundedReceiver<Command>,
    ageing: bool,
    /// Asks how old the heads of a listing are.
    asking: Option<Task>,
}

impl Follower {
    pub(super) async fn start(
        shared: Arc<Shared>,
        commands: mpsc::UnboundedReceiver<Command>,
        settings: Settings,
        clock: Clock,
    ) -> Result<Self, ingest_store::Error> {
        let dates = shared.session.watch_tree(map::JOURNAL_DATES).await?;
        let watch = shared.session.watch_tree(map::JOB_STATES).await?;
        let (ageing, known_dates) = (settings.ageing.is_some(), HashMap::new());
        let mut follower = Self { shared, watch, dates, known_dates, clock, commands, ageing, asking: None };
        follower.relist().await?;
        Ok(follower)
    }

    pub(super) async fn run(mut self) {
        let why = loop {
            // Dates first: a job that is not due must not be offered meanwhile. Events before commands: a lock that was
            // released with its job's move tells of nothing to do here.
            let done = tokio::select! {
                biased;
                event = self.dates.next() => self.apply_date(event).await,
                event = self.watch.next() => self.apply(event).await,
                Some(command) = self.commands.recv() => self.obey(command).await,
            };
            if let Err(why) = done {
                break why;
            }
            // A long run of events must not keep the others of this thread waiting.
            consume_budget().await;
        };
        if let Ended::Unreadable(error) = &why {
            tracing::error!(%error, "the queues cannot be listed: no job is found until a new session is built");
        }
        self.shared.end(why);
    }

    async fn apply(&mut self, event: Event) -> Result<(), Ended> {
        match event {
            Event::Created(path) => {
                if let Some(entry) = self.shared.recognised(&path) {
                    self.shared.change(|index, now| index.created(entry, now));
                }
            }
            Event::Deleted(path) => {
                if let Some(entry) = QueueRef::from_path(&path) {
                    self.shared.change(|index, now| {
                        if let Some(called_for) = index.deleted(entry) {
                            index.unpark_best(&called_for, now);
                        }
                    });
                    self.shared.drop_idle_lock_watch(entry.jid);
                }
            }
            Event::Changed(_) | Event::Children(_) => return Ok(()),
            Event::Relist(missed) => {
                self.relist().await.map_err(|error| self.unreadable(error))?;
                if missed == Missed::Reconnected {
                    self.shared.try_locked_again();
                }
            }
            Event::Ended(state) => return Err(Ended::Session(state)),
        }
        self.shared.applied.notify_waiters();
        Ok(())
    }

    async fn apply_date(&mut self, event: Event) -> Result<(), Ended> {
        let named = |path: &str| map::parse_journal_date(ingest_store::path::name(path));
        match event {
            Event::Created(path) => {
                if let Some((millis, jid)) = named(&path) {
                    self.dated(jid, millis);
                }
            }
            Event::Deleted(path) => {
                if let Some((millis, jid)) = named(&path)
                    && self.known_dates.get(&jid) == Some(&millis)
                {
                    self.known_dates.remove(&jid);
                    self.shared.change(|index, now| index.date(jid, None, now));
                }
            }
            Event::Changed(_) | Event::Children(_) => return Ok(()),
            Event::Relist(_) => {
                let listed = self.relist_dates().await.map_err(|error| self.unreadable(error))?;
                self.place(listed).await.map_err(|error| self.unreadable(error))?;
            }
            Event::Ended(state) => return Err(Ended::Session(state)),
        }
        self.shared.applied.notify_waiters();
        Ok(())
    }

    /// A date that has come just now is as good as one that comes now.
    fn dated(&mut self, jid: Jid, millis: i64) {
        self.known_dates.insert(jid, millis);
        let due = self.instant(millis);
        self.shared.change(|index, now| index.date(jid, Some(due), now));
    }

    /// When a date comes, or came, by the clock of this process.
    fn instant(&self, millis: i64) -> Instant {
        let (date, clock, now) = (Date::from_millis(millis), self.clock.now(), Instant::now());
        let (left, passed) = (clock.until(date), date.until(clock));
        now.checked_sub(passed).unwrap_or(now) + left
    }

    /// Takes over what differs; answers those that had come before they were known.
    async fn relist_dates(&mut self) -> Result<Vec<Overdue>, ingest_store::Error> {
        let names = names(&self.shared.session, map::JOURNAL_DATES).await?;
        let listed: HashMap<Jid, i64> = names
            .iter()
            .filter_map(|name| map::parse_journal_date(name))
            .map(|(millis, jid)| (jid, millis))
            .collect();
        let gone: Vec<Jid> =
            self.known_dates.keys().filter(|jid| !listed.contains_key(jid)).copied().collect();
        for jid in gone {
            self.known_dates.remove(&jid);
            self.shared.change(|index, now| index.date(jid, None, now));
        }
        let (now, mut overdue) = (self.clock.now().millis(), Vec::new());
        for (jid, millis) in listed {
            match self.known_dates.get(&jid) {
                Some(known) if *known == millis => {}
                None if millis <= now => {
                    self.known_dates.insert(jid, millis);
                    overdue.push(Overdue { millis, jid });
                }
                _ => self.dated(jid, millis),
            }
        }
        Ok(overdue)
    }

    /// Gives jobs whose dates had come before this node knew of them the places that they would have.
    async fn place(&self, mut overdue: Vec<Overdue>) -> Result<(), ingest_store::Error> {
        let Some(first) = overdue.iter().map(|one| one.jid).min() else { return Ok(()) };
        let mut others = self.shared.held.lock().index.all(JobState::Pending);
        others.retain(|jid| *jid > first && !self.known_dates.contains_key(jid));
        let inserted = Inserted::read(&self.shared.session, others).await?;
        overdue.sort_unstable();
        let mut highest = 0;
        for Overdue { millis, jid } in overdue {
            // Whoever was due before it was there before it.
            highest = inserted.highest_at(millis).max(highest).max(jid.number());
            let at = self.instant(millis);
            self.shared.change(|index, now| index.came(jid, at, Some(highest), now));
        }
        Ok(())
    }

    async fn obey(&mut self, command: Command) -> Result<(), Ended> {
        match command {
            Command::Released(jid) => self.shared.released(jid),
            Command::Dates => {
                let known = std::mem::take(&mut self.known_dates);
                let mut known: Vec<_> =
                    known.into_iter().map(|(jid, millis)| Overdue { millis, jid }).collect();
                known.sort_unstable();
                for Overdue { millis, jid } in known {
                    self.dated(jid, millis);
                }
            }
            Command::Sweep(answer) => {
                let healed = self.sweep().await?;
                // Whoever asked may have gone.
                let _ = answer.send(healed);
            }
        }
        Ok(())
    }

    /// What differs is looked at twice: the event that explains it may be on its way.
    async fn sweep(&mut self) -> Result<usize, Ended> {
        let queues = self.list().await.map_err(|error| self.unreadable(error))?;
        let doubtful = self.shared.differences(&queues);
        if doubtful.is_empty() {
            return Ok(0);
        }
        loop {
            if let Some(event) = self.dates.try_next() {
                self.apply_date(event).await?;
            } else if let Some(event) = self.watch.try_next() {
                self.apply(event).await?;
            } else {
                break;
            }
        }
        let queues = self.list().await.map_err(|error| self.unreadable(error))?;
        let wrong = self.shared.differences(&queues);
        self.take_over(&queues).await.map_err(|error| self.unreadable(error))?;
        Ok(wrong.intersection(&doubtful).count())
    }

    async fn relist(&mut self) -> Result<(), ingest_store::Error> {
        let queues = self.list().await?;
        self.take_over(&queues).await?;
        if self.ageing {
            self.asking.replace(Task(tokio::spawn(ask_ages(Arc::clone(&self.shared)))));
        }
        Ok(())
    }

    /// The dates are listed after the queues and taken over before them: of whatever is in a queue it is known then
    /// whether it is due, and what is not is not offered. What was due already takes its place among what waits.
    async fn take_over(&mut self, queues: &[Listing]) -> Result<(), ingest_store::Error> {
        let overdue = self.relist_dates().await?;
        for listing in queues {
            self.shared.change(|index, now| index.relist(listing, now));
        }
        self.place(overdue).await?;
        self.shared.drop_idle_lock_watches();
        self.shared.applied.notify_waiters();
        Ok(())
    }

    async fn list(&self) -> Result<Vec<Listing>, ingest_store::Error> {
        let session = &self.shared.session;
        let mut foreign = 0;
        for name in names(session, map::JOB_STATES).await? {
            foreign += u64::from(!JobState::ALL.iter().any(|state| state.name() == name));
        }
        let mut queues = Vec::new();
        for state in self.shared.waiters.keys() {
            let names = names(session, &map::queue(*state)).await?;
            let refs: Vec<_> = names.iter().filter_map(|name| QueueRef::parse(*state, name)).collect();
            foreign += (names.len() - refs.len()) as u64;
            queues.push(Listing::new(*state, refs));
        }
        self.shared.held.lock().ignored.foreign += foreign;
        Ok(queues)
    }

    fn unreadable(&self, error: ingest_store::Error) -> Ended {
        let state = self.shared.session.state();
        if state.is_final() { Ended::Session(state) } else { Ended::Unreadable(error) }
    }
}

impl Shared {
    /// The ref that a path is, if somebody takes from its queue.
    fn recognised(&self, path: &str) -> Option<QueueRef> {
        let entry = QueueRef::from_path(path);
        if let Some(entry) = entry.filter(|entry| entry.state.is_taken_from()) {
            return Some(entry);
        }
        let Ignored { foreign, not_taken_from } = &mut self.held.lock().ignored;
        if entry.is_some() {
            *not_taken_from += 1;
        } else if path != map::JOB_STATES && !JobState::ALL.iter().any(|state| map::queue(*state) == path) {
            tracing::debug!(path, "left alone: neither a queue nor a ref");
            *foreign += 1;
        }
        None
    }

    fn differences(&self, queues: &[Listing]) -> HashSet<QueueRef> {
        let held = self.held.lock();
        queues.iter().flat_map(|listing| held.index.difference(listing)).collect()
    }
}

/// The children of a queue; one that is not there has none.
async fn names(session: &Session, path: &str) -> Result<Vec<String>, ingest_store::Error> {
    match look(session, || session.children(path)).await {
        Ok((names, _)) => Ok(names),
        Err(error) if error.kind() == Kind::NoNode => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// A listing does not say how long its entries have waited: asked for the heads, which alone are
/// lifted by their age. The others are counted from the listing on.
async fn ask_ages(shared: Arc<Shared>) {
    let clock = Clock::system();
    let heads = shared.held.lock().index.heads();
    for entry in heads {
        // Only a hint: without an answer it ages from now on.
        let Ok(Some(stat)) = shared.session.exists(entry.path()).await else { continue };
        // In this order a pause between the two clocks makes an entry older, and never younger, than it is.
        let now = Instant::now();
        let age: Duration = Date::from_millis(stat.ctime).until(clock.now());
        if let Some(since) = now.checked_sub(age) {
            shared.change(|index, now| index.known_since(entry, since, now));
        }
    }
    shared.applied.notify_waiters();
}

#[cfg(test)]
mod tests {
    use ingest_store::engines::embedded::{Embedded, EmbeddedConfig};
    use ingest_store::{Limits, Mode, Store};

    use super::*;
    use crate::index::finder::Finder;
    use crate::map::Priority;

    #[tokio::test]
    async fn heads_are_as_old_as_the_tree_says() {
        let dir = tempfile::tempdir().unwrap();
        let engine = Embedded::open(&EmbeddedConfig::new(dir.path().join("tree"))).unwrap();
        let session = Store::new(Arc::new(engine), Limits::default()).session().await.unwrap();
        let head = QueueRef::new(JobState::Pending, Priority::DEFAULT, Jid::new(1));
        let (_, stat) = session.create_with_parents(head.path(), "", Mode::Persistent).await.unwrap();
        // The store's clock moves on before the node starts.
        let age = 20;
        while Clock::system().now().millis() < stat.ctime + age {
            session.sync().await.unwrap();
        }
        let started = Instant::now();
        let finder = Finder::start(&session, Settings::default()).await.unwrap();
        ask_ages(Arc::clone(&finder.shared)).await;
        let since = finder.shared.held.lock().index.since(head).unwrap();
        // Two clocks, each in its own steps.
        assert!(started - since + Duration::from_millis(2) >= Duration::from_millis(age.unsigned_abs()));
    }
}
