//! The index kept true to the tree, and the jobs handed out to whoever waits for one.
//!
//! **What it promises.** One recursive watch on the queues and one on the process dates, a listing of each at the
//! start, and then no request at all
//! while nothing happens. Whoever waits in [`Finder::next`] is woken by what makes a job ready: an
//! arrival, a release, a date, a delay that has passed, a turn that has come. One job wakes one waiter.
//! A job that is locked elsewhere costs one watch on its lock, for as long as it is parked.
//!
//! **When things break.** After a reconnect, or when events came faster than they were read, every
//! queue is listed again and only the difference is applied; what was locked elsewhere is tried again.
//! With its session the finder ends: every waiter gets `None`, and a new finder is started on the
//! new session. Names that nobody here understands are counted and left alone.

mod follow;
mod locks;
mod overdue;

use std::collections::{BTreeMap, HashMap};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use ingest_store::{Session, SessionState};
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

use super::{Candidate, Counts, Index, Reason, Seen, Settings, Until};
use crate::date::Clock;
use crate::error::Result;
use crate::ids::Jid;
use crate::map::QueueRef;
use crate::states::JobState;
use follow::Follower;

/// Finds the next job of each state. It ends when dropped.
#[derive(Debug)]
pub struct Finder {
    shared: Arc<Shared>,
    _follower: Task,
    _timer: Task,
}

/// Why a finder has ended.
#[derive(Debug, Clone)]
pub enum Ended {
    /// With its session.
    Session(SessionState),
    /// The queues cannot be listed.
    Unreadable(ingest_store::Error),
}

/// Names that were left alone, since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ignored {
    /// No state, or no ref.
    pub foreign: u64,
    /// Refs in queues that nobody takes from.
    pub not_taken_from: u64,
}

#[derive(Debug)]
struct Shared {
    session: Session,
    held: Mutex<Held>,
    /// Those who wait for a job, by state.
    waiters: BTreeMap<JobState, Notify>,
    /// Something is to be woken earlier than the timer knows.
    earlier: Notify,
    /// The index was changed by what the tree said.
    applied: Notify,
    commands: mpsc::UnboundedSender<Command>,
}

#[derive(Debug)]
struct Held {
    index: Index,
    /// One for each job that is locked elsewhere.
    lock_watches: HashMap<Jid, Task>,
    /// What the timer waits for.
    armed: Option<Instant>,
    ignored: Ignored,
    ended: Option<Ended>,
}

/// What the task that follows the tree is asked to do, between events.
#[derive(Debug)]
enum Command {
    Sweep(oneshot::Sender<usize>),
    /// The clock goes differently: all dates are looked at again.
    Dates,
    Released(Jid),
}

/// A task that ends with its owner.
#[derive(Debug)]
struct Task(JoinHandle<()>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Finder {
    /// Watches, lists, and goes on from there.
    pub async fn start(session: &Session, settings: Settings) -> Result<Finder> {
        Self::start_by(session, settings, Clock::system()).await
    }

    /// The same with a clock that process dates are compared with.
    pub async fn start_by(session: &Session, settings: Settings, clock: Clock) -> Result<Finder> {
        let (commands, asked) = mpsc::unbounded_channel();
        let taken_from = JobState::ALL.iter().filter(|state| state.is_taken_from());
        let held = Held {
            index: Index::new(settings),
            lock_watches: HashMap::new(),
            armed: None,
            ignored: Ignored::default(),
            ended: None,
        };
        let shared = Arc::new(Shared {
            session: session.clone(),
            held: Mutex::new(held),
            waiters: taken_from.map(|state| (*state, Notify::new())).collect(),
            earlier: Notify::new(),
            applied: Notify::new(),
            commands,
        });
        let follower = Follower::start(Arc::clone(&shared), asked, settings, clock).await?;
        Ok(Finder {
            _follower: Task(tokio::spawn(follower.run())),
            _timer: Task(tokio::spawn(Arc::clone(&shared).keep_time())),
            shared,
        })
    }

    /// Waits for the next job of a state, and takes it: until one of the calls below says what became of
    /// it, it is not offered again here. `None` when the finder has ended, or if nobody takes from
    /// this state. Giving up the wait loses nothing.
    pub async fn next(&self, state: JobState) -> Option<Candidate> {
        let waiters = self.shared.waiters.get(&state)?;
        loop {
            let mut woken = pin!(waiters.notified());
            // From here on a notification is not missed, whatever happens before the wait.
            woken.as_mut().enable();
            if self.shared.held.lock().ended.is_some() {
                return None;
            }
            let (candidate, more) =
                self.shared.change(|index, now| (index.take(state, now), index.has_line(state)));
            if candidate.is_some() {
                // One arrival woke one waiter; whoever takes passes the word on if there is more.
                if more {
                    waiters.notify_one();
                }
                return candidate;
            }
            woken.await;
        }
    }

    /// Waits until somebody joins the line of a state, for those who look at all that wait at once. One who
    /// joined before the call may be told of now. `false` when the finder has ended.
    pub async fn arrival(&self, state: JobState) -> bool {
        let Some(waiters) = self.shared.waiters.get(&state) else { return false };
        if self.shared.held.lock().ended.is_some() {
            return false;
        }
        waiters.notified().await;
        self.shared.held.lock().ended.is_none()
    }

    /// All that are in line, in their order.
    pub fn line(&self, state: JobState) -> Vec<QueueRef> {
        self.shared.held.lock().index.line(state)
    }

    /// See [`Index::all`]; `None` when the finder has ended, or if nobody takes from this state.
    pub fn all(&self, state: JobState) -> Option<Vec<Jid>> {
        let held = self.shared.held.lock();
        (held.ended.is_none() && state.is_taken_from()).then(|| held.index.all(state))
    }

    /// See [`Index::is_next`].
    pub fn is_next(&self, entry: QueueRef) -> bool {
        self.shared.change(|index, now| index.is_next(entry, now))
    }

    /// See [`Index::finished`].
    pub fn finished(&self, entry: QueueRef) {
        self.shared.change(|index, _| index.finished(entry));
        self.shared.applied.notify_waiters();
    }

    /// See [`Index::hand_over`].
    pub fn hand_over(&self, from: QueueRef, to: QueueRef) {
        self.shared.change(|index, now| index.hand_over(from, to, now));
    }

    /// See [`Index::put_back`].
    pub fn put_back(&self, jid: Jid) {
        self.shared.change(|index, now| index.put_back(jid, now));
    }

    /// Somebody else holds the lock of this taken job: it is parked until the lock goes, and costs one
    /// watch meanwhile.
    pub fn locked_elsewhere(&self, entry: QueueRef) {
        self.shared.park_locked(entry.jid);
    }

    /// Parks a taken job until what it waits for has happened, which costs one watch. It may have happened before.
    pub fn wait_until(&self, jid: Jid, until: Until) {
        self.shared.park_until(jid, until);
    }

    /// Parks a taken job until [`Finder::unpark`] is called with the same key. What that waits for may have
    /// happened just before: look once more after parking.
    pub fn park(&self, jid: Jid, key: impl Into<String>) {
        self.shared.change(|index, _| index.park(jid, Reason::Other(key.into())));
    }

    /// Puts back what was parked with this key; returns how many.
    pub fn unpark(&self, key: impl Into<String>) -> usize {
        self.shared.change(|index, now| index.unpark(&Reason::Other(key.into()), now))
    }

    /// See [`Index::unpark_best`].
    pub fn unpark_best(&self, key: impl Into<String>) -> usize {
        self.shared.change(|index, now| index.unpark_best(&Reason::Other(key.into()), now))
    }

    /// See [`Index::gives_way`].
    pub fn gives_way(&self, entry: QueueRef, key: impl Into<String>) -> bool {
        self.shared.held.lock().index.gives_way(entry, &Reason::Other(key.into()), Instant::now())
    }

    /// See [`Index::called_before`].
    pub fn called_before(&self, entry: QueueRef, key: impl Into<String>) -> bool {
        self.shared.held.lock().index.called_before(entry, &Reason::Other(key.into()), Instant::now())
    }

    /// See [`Index::answered`].
    pub fn answered(&self, jid: Jid) -> Option<String> {
        match self.shared.held.lock().index.answered(jid)? {
            Reason::Other(key) => Some(key),
            Reason::Locked(_) => None,
        }
    }

    /// See [`Index::parked_with`].
    pub fn parked_with(&self, key: impl Into<String>) -> usize {
        self.shared.held.lock().index.parked_with(&Reason::Other(key.into()))
    }

    /// See [`Index::reasons`].
    pub fn reasons(&self) -> Vec<String> {
        self.shared.held.lock().index.reasons()
    }

    /// See [`Index::delay`].
    pub fn delay(&self, jid: Jid, until: Instant) {
        self.shared.change(|index, _| index.delay(jid, until));
    }

    /// See [`Index::date`].
    pub fn date(&self, jid: Jid, due: Option<Instant>) {
        self.shared.change(|index, now| index.date(jid, due, now));
    }

    /// See [`Index::disagrees`].
    pub fn disagrees(&self, entry: QueueRef) -> Seen {
        self.shared.change(|index, now| index.disagrees(entry, now))
    }

    /// See [`Index::components`].
    pub fn components(&self, names: Vec<String>, own: &str) {
        self.shared.change(|index, now| index.components(names, own, now));
        self.shared.drop_idle_lock_watches();
    }

    /// The clock was corrected: when jobs become due is reckoned anew.
    pub fn reckon_dates(&self) {
        // Without a follower there is nothing to reckon.
        let _ = self.shared.commands.send(Command::Dates);
    }

    /// Lists every queue and puts the index right; returns how many entries were wrong. Those that an
    /// event was on its way for are not counted. `None` when the finder has ended.
    pub async fn sweep(&self) -> Option<usize> {
        let (answer, healed) = oneshot::channel();
        self.shared.commands.send(Command::Sweep(answer)).ok()?;
        healed.await.ok()
    }

    pub fn waiting(&self, state: JobState) -> usize {
        self.shared.held.lock().index.waiting(state)
    }

    pub fn counts(&self, state: JobState) -> Counts {
        self.shared.held.lock().index.counts(state)
    }

    /// How long the first in line has been known here, of whichever priority.
    pub fn longest_wait(&self, state: JobState) -> Option<Duration> {
        self.shared.held.lock().index.longest_wait(state, Instant::now())
    }

    pub fn ignored(&self) -> Ignored {
        self.shared.held.lock().ignored
    }

    /// How many locks are watched.
    pub fn lock_watches(&self) -> usize {
        self.shared.held.lock().lock_watches.len()
    }

    /// Why it has ended, if it has.
    pub fn ended(&self) -> Option<Ended> {
        self.shared.held.lock().ended.clone()
    }

    /// Waits until it has ended.
    pub async fn over(&self) -> Ended {
        self.shared.until(|held| held.ended.is_some()).await;
        self.ended().unwrap_or(Ended::Session(self.shared.session.state()))
    }

    /// Waits until a ref is known here; `false` if the finder ended before.
    pub async fn seen(&self, entry: QueueRef) -> bool {
        self.shared.until(|held| held.index.knows(entry)).await
    }

    /// Waits until a ref is not known here; `false` if the finder ended before.
    pub async fn gone(&self, entry: QueueRef) -> bool {
        self.shared.until(|held| !held.index.knows(entry)).await
    }
}

impl Drop for Finder {
    fn drop(&mut self) {
        // They keep what they are kept in.
        self.shared.held.lock().lock_watches.clear();
    }
}

impl Shared {
    /// Changes the index, and wakes whom that concerns.
    fn change<T>(&self, change: impl FnOnce(&mut Index, Instant) -> T) -> T {
        let mut held = self.held.lock();
        let answer = change(&mut held.index, Instant::now());
        let joined = held.index.joined();
        let wakeup = held.index.next_wakeup();
        let earlier = wakeup.is_some_and(|at| held.armed.is_none_or(|armed| at < armed));
        if earlier {
            held.armed = wakeup;
        }
        drop(held);
        if earlier {
            self.earlier.notify_one();
        }
        for state in joined {
            if let Some(waiters) = self.waiters.get(&state) {
                waiters.notify_one();
            }
        }
        answer
    }

    /// Sleeps until something becomes ready by itself.
    async fn keep_time(self: Arc<Self>) {
        loop {
            let wakeup = {
                let mut held = self.held.lock();
                held.armed = held.index.next_wakeup();
                held.armed
            };
            match wakeup {
                None => self.earlier.notified().await,
                Some(at) => {
                    if timeout_at(at, self.earlier.notified()).await.is_err() {
                        self.change(Index::advance);
                    }
                }
            }
        }
    }

    fn end(&self, why: Ended) {
        let mut held = self.held.lock();
        held.ended = Some(why);
        held.lock_watches.clear();
        drop(held);
        self.waiters.values().for_each(Notify::notify_waiters);
        self.applied.notify_waiters();
    }

    async fn until(&self, reached: impl Fn(&Held) -> bool) -> bool {
        loop {
            let mut applied = pin!(self.applied.notified());
            applied.as_mut().enable();
            {
                let held = self.held.lock();
                if reached(&held) {
                    return true;
                }
                if held.ended.is_some() {
                    return false;
                }
            }
            applied.await;
        }
    }
}
