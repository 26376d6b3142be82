//! How a node finds its next job: all that waits, in memory, in the order in which it is to be taken.
//!
//! [`Index`] is the pure part: no calls, no clock of its own. [`finder::Finder`] keeps it true to the
//! tree and hands out jobs.
//!
//! **What it promises.** The next job costs the same whether ten or a million wait. The order is:
//! effective priority (lifted by waiting), then process date, then id. A job that is taken here is not
//! offered again here, by whatever ref, until its task has ended and said so. Where several nodes take from one
//! queue, each prefers among the first of a priority those that it comes first for, so that they do not all try the
//! same ones; nobody is passed over for that longer than its rank makes it wait. A job that cannot run
//! now (locked elsewhere, at a limit, not due, doubtful) stands aside and blocks no other.
//!
//! **When things break.** What is here is a hint: the tree decides when the job is acquired. Refs that
//! came or went unseen are put right by the next listing, which keeps what is known about the others.

pub mod finder;
#[cfg(test)]
mod model;
mod moves;
mod rank;
mod taking;
#[cfg(test)]
mod tests;
mod waiting;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::Duration;

use tokio::time::Instant;

use crate::ids::Jid;
use crate::map::QueueRef;
use crate::states::JobState;
use rank::Ranks;
pub use rank::{hash, rank_of};
use waiting::{Place, Slot, Waiting, Why};

/// How the next job is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// How long a job waits for each step of priority that it is lifted; none: never.
    #[serde(with = "humantime_serde")]
    pub ageing: Option<Duration>,
    /// How long each rank leaves a job to the one before.
    #[serde(with = "humantime_serde")]
    pub rank_delay: Duration,
    /// How far behind the first of its priority, in job numbers, one may be that this node comes first for, to be taken
    /// before it while the first is left to the nodes before this one. 0: none is.
    pub rank_window: u32,
    /// How long a ref that disagrees with its job's status is left alone before it is looked at again.
    #[serde(with = "humantime_serde")]
    pub doubt: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        let (rank_delay, doubt) = (Duration::from_millis(200), Duration::from_secs(2));
        Self { ageing: None, rank_delay, rank_window: 256, doubt }
    }
}

/// A job to try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate {
    pub entry: QueueRef,
    /// How many nodes come before this one; if any, read the lock before writing it.
    pub rank: usize,
}

/// Why a job is parked, and so what brings it back.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// Somebody else holds its lock, or it waits for another job ([`Until`]): it is watched for.
    Locked(Jid),
    /// Any other, such as a collection at its limit.
    Other(String),
}

/// What brings back a job that waits for another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Until {
    /// This znode is gone: a lock.
    Gone(String),
    /// This job is in another state than this one, or deleted.
    Moved(Jid, JobState),
}

/// How often a ref has disagreed with its job's status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// It may be on its way: it stands aside for a moment, and is offered again.
    Once,
    /// It is wrong: it stays taken, to be repaired under the lock.
    Twice,
}

/// What a queue that is taken from holds.
#[derive(Debug)]
pub struct Listing {
    state: JobState,
    /// In the order of the index: going through both side by side is several times as fast.
    entries: Vec<QueueRef>,
}

impl Listing {
    /// Refs of other states, and a state that nobody takes from, count for nothing.
    pub fn new(state: JobState, entries: impl IntoIterator<Item = QueueRef>) -> Self {
        let fits = |entry: &QueueRef| entry.state == state && state.is_taken_from();
        let mut entries: Vec<_> = entries.into_iter().filter(fits).collect();
        entries.sort_unstable();
        entries.dedup();
        Self { state, entries }
    }

    fn contains(&self, entry: QueueRef) -> bool {
        self.entries.binary_search(&entry).is_ok()
    }
}

/// How many entries of a state there are, by what they wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// In line.
    pub ready: usize,
    /// A task here has them.
    pub taken: usize,
    pub locked: usize,
    /// For any other reason.
    pub parked: usize,
    /// For a moment: put aside, or another node's turn.
    pub delayed: usize,
    pub not_due: usize,
    /// Their job is taken here by another entry.
    pub busy: usize,
}

/// A job that a task here has.
#[derive(Debug)]
struct Taken {
    entry: QueueRef,
    since: Instant,
    presence: Presence,
    /// Other entries of the same job, aside until the task has ended.
    others: Vec<QueueRef>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Presence {
    /// Handed over: its ref was written, and its event is on the way.
    Expected,
    Listed,
    Gone,
}

/// A process date in the future, and the entries that wait for it.
#[derive(Debug)]
struct Dated {
    due: Instant,
    entries: Vec<QueueRef>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Wake {
    Date(Jid),
    Entry(QueueRef),
}

/// All that waits.
#[derive(Debug)]
pub struct Index {
    settings: Settings,
    ranks: Ranks,
    /// The states that are taken from.
    states: BTreeMap<JobState, Waiting>,
    taken: HashMap<Jid, Taken>,
    dates: HashMap<Jid, Dated>,
    /// Jobs whose date has come: where they stand, and since when, until the date is taken away.
    come: HashMap<Jid, (Place, Instant)>,
    parked: HashMap<Reason, BTreeSet<QueueRef>>,
    /// Those that were called out of all that are parked with something, until it is known whether they got it.
    called: HashMap<Jid, Reason>,
    timers: BTreeSet<(Instant, Wake)>,
    /// Refs that disagreed with their job's status once.
    doubted: HashSet<QueueRef>,
    /// Refs that a commit of this node has removed, until their event has come: what the events
    /// before it say of them is old.
    departed: HashSet<QueueRef>,
    /// The highest job number seen.
    highest: u32,
    /// How many dated jobs have become due.
    became_due: u32,
    /// The states that somebody joined the line of, since the last look.
    joined: BTreeSet<JobState>,
}

/// What the tree says.
impl Index {
    pub fn new(settings: Settings) -> Self {
        let taken_from = JobState::ALL.iter().copied().filter(|state| state.is_taken_from());
        Self {
            settings,
            ranks: Ranks::default(),
            states: taken_from.map(|state| (state, Waiting::new())).collect(),
            taken: HashMap::new(),
            dates: HashMap::new(),
            come: HashMap::new(),
            parked: HashMap::new(),
            called: HashMap::new(),
            timers: BTreeSet::new(),
            doubted: HashSet::new(),
            departed: HashSet::new(),
            highest: 0,
            became_due: 0,
            joined: BTreeSet::new(),
        }
    }

    /// A ref was created. Nothing happens if it is known, or if nobody takes from its queue.
    pub fn created(&mut self, entry: QueueRef, now: Instant) {
        self.advance(now);
        if !self.departed.contains(&entry) {
            self.add(entry, now, Some((now, now)));
        }
    }

    /// A ref was deleted. Its job stays taken if it is. If it was called for something and has not tried yet, that is
    /// for the next: it is answered.
    pub fn deleted(&mut self, entry: QueueRef) -> Option<Reason> {
        if self.departed.remove(&entry) {
            return None;
        }
        if let Some(taken) = self.taken_by(entry) {
            taken.presence = Presence::Gone;
        }
        self.remove(entry);
        self.forget(entry);
        if self.taken.contains_key(&entry.jid) { None } else { self.called.remove(&entry.jid) }
    }

    /// What a listing shows otherwise than it is known here.
    pub fn difference(&self, listing: &Listing) -> Vec<QueueRef> {
        let new = listing.entries.iter().copied().filter(|entry| !self.knows(*entry));
        new.chain(self.known(listing.state).filter(|entry| !listing.contains(*entry))).collect()
    }

    /// Takes over a listing of a whole queue; what is known already stays as it is. Returns how many
    /// entries were not as listed.
    pub fn relist(&mut self, listing: &Listing, now: Instant) -> usize {
        self.advance(now);
        self.departed.retain(|entry| entry.state != listing.state);
        let difference = self.difference(listing);
        let mut called_for = Vec::new();
        for entry in &difference {
            if listing.contains(*entry) {
                // Whose turn it is, is seen when it comes to the head: there may be a million.
                self.add(*entry, now, None);
            } else {
                called_for.extend(self.deleted(*entry));
            }
        }
        for reason in called_for {
            self.unpark_best(&reason, now);
        }
        difference.len()
    }

    /// It has waited longer than it is known here. An age that counts from a process date stays.
    pub fn known_since(&mut self, entry: QueueRef, since: Instant, now: Instant) {
        if self.states.get(&entry.state).is_none_or(|waiting| waiting.had_date(slot(entry))) {
            return;
        }
        if let Some(taken) = self.taken_by(entry) {
            taken.since = taken.since.min(since);
        }
        let Some(waiting) = self.states.get_mut(&entry.state) else { return };
        let Some(known) = waiting.since_mut(slot(entry)) else { return };
        let before = std::mem::replace(known, since.min(*known));
        // The others have had their time too.
        let aside = waiting.aside(slot(entry)).map(|aside| &aside.why);
        if matches!(aside, Some(Why::Turn { from, .. }) if *from == before)
            && let Some(since) = self.remove(entry)
        {
            self.offer(entry, since, Some((since, now)));
        }
    }

    /// A job's process date. It may come before or after its ref; `None` makes it a job like any other. When it is due
    /// the job takes its place as if it were inserted then.
    pub fn date(&mut self, jid: Jid, due: Option<Instant>, now: Instant) {
        self.advance(now);
        if let Some(due) = due.filter(|due| *due <= now) {
            return self.came(jid, due, None, now);
        }
        self.come.remove(&jid);
        let mut entries = self.undate(jid);
        let Some(due) = due else {
            for (entry, since) in entries {
                self.offer(entry, since, Some((since, now)));
            }
            return;
        };
        entries.extend(self.remove_line(jid));
        self.dates.insert(jid, Dated { due, entries: Vec::new() });
        self.timers.insert((due, Wake::Date(jid)));
        for (entry, since) in entries {
            self.offer(entry, since, None);
        }
        // It does not try for now.
        if !self.taken.contains_key(&jid)
            && let Some(reason) = self.called.remove(&jid)
        {
            self.unpark_best(&reason, now);
        }
    }

    /// A job's process date had come before it was known here. It takes its place as if it were inserted then: behind
    /// the number that was the highest then (`None`: that is so now), and behind those whose dates came before.
    /// So whoever knows of several tells of them in the order of their dates.
    pub fn came(&mut self, jid: Jid, at: Instant, highest: Option<u32>, now: Instant) {
        self.advance(now);
        // Where it stands since then is its place.
        if self.come.contains_key(&jid) {
            return;
        }
        let mut entries = self.undate(jid);
        if !self.taken.contains_key(&jid) {
            entries.extend(self.remove_line(jid));
        }
        self.become_due(jid, at, highest.unwrap_or(self.highest), entries, now);
    }

    /// The components that live, and the name of this one among them. What waits is ranked anew; if one
    /// vanished, what was locked elsewhere is tried again.
    pub fn components(&mut self, names: Vec<String>, own: &str, now: Instant) {
        self.advance(now);
        if self.ranks.set(names, own) {
            self.unpark_locked(now);
        }
        let mut turns = Vec::new();
        for (state, waiting) in &self.states {
            for (slot, aside) in waiting.all_aside() {
                if let Why::Turn { from, .. } = aside.why {
                    turns.push((QueueRef::new(*state, slot.1, slot.0), from));
                }
            }
        }
        for (entry, from) in turns {
            if let Some(since) = self.remove(entry) {
                self.offer(entry, since, Some((from, now)));
            }
        }
    }
}

/// What time does, and what can be asked.
impl Index {
    /// Puts in line what stood aside until now. Every other call that knows the time does it too.
    pub fn advance(&mut self, now: Instant) {
        while let Some((at, wake)) = self.timers.first().copied().filter(|(at, _)| *at <= now) {
            match wake {
                Wake::Entry(entry) => {
                    if let Some(since) = self.remove(entry) {
                        self.offer(entry, since, None);
                    }
                }
                Wake::Date(jid) => {
                    let entries = self.undate(jid);
                    self.become_due(jid, at, self.highest, entries, now);
                }
            }
            self.timers.remove(&(at, wake));
        }
    }

    /// When [`Index::advance`] has something to do next. Entries of a listing whose turn has not come are
    /// counted once they have been at the head of their bucket.
    pub fn next_wakeup(&self) -> Option<Instant> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// The states that somebody joined the line of since the last call.
    pub fn joined(&mut self) -> BTreeSet<JobState> {
        std::mem::take(&mut self.joined)
    }

    /// Whether anybody is in line, though it may be another node's turn.
    pub fn has_line(&self, state: JobState) -> bool {
        self.states.get(&state).is_some_and(Waiting::has_line)
    }

    /// All that are in line, by priority and then in their places.
    pub fn line(&self, state: JobState) -> Vec<QueueRef> {
        let Some(waiting) = self.states.get(&state) else { return Vec::new() };
        waiting.line().map(|(jid, priority)| QueueRef::new(state, priority, jid)).collect()
    }

    /// All whose refs are there, as far as is known here: in line, put aside, and taken. In no order.
    pub fn all(&self, state: JobState) -> Vec<Jid> {
        let Some(waiting) = self.states.get(&state) else { return Vec::new() };
        let taken = self.taken.values().filter(|taken| taken.entry.state == state);
        let listed = taken.filter(|taken| taken.presence == Presence::Listed).map(|taken| taken.entry.jid);
        let mut all = Vec::with_capacity(waiting.len());
        all.extend(waiting.line().map(|(jid, _)| jid));
        all.extend(waiting.all_aside().map(|((jid, _), _)| jid));
        all.extend(listed);
        all
    }

    /// Whether the ref is there, as far as is known here.
    pub fn knows(&self, entry: QueueRef) -> bool {
        let taken = self.taken.get(&entry.jid).filter(|taken| taken.entry == entry);
        taken.is_some_and(|taken| taken.presence == Presence::Listed)
            || self.states.get(&entry.state).is_some_and(|waiting| waiting.contains(slot(entry)))
    }

    /// Since when it waits, as far as is known here.
    pub fn since(&self, entry: QueueRef) -> Option<Instant> {
        self.states.get(&entry.state)?.since(slot(entry))
    }

    /// How many entries nobody here has taken.
    pub fn waiting(&self, state: JobState) -> usize {
        self.states.get(&state).map_or(0, Waiting::len)
    }

    /// How long the first in line has been known here, of whichever priority; `None` if nobody stands there.
    pub fn longest_wait(&self, state: JobState, now: Instant) -> Option<Duration> {
        let heads = self.states.get(&state)?.heads();
        heads.map(|(_, _, since)| now.saturating_duration_since(since)).max()
    }

    pub fn counts(&self, state: JobState) -> Counts {
        let Some(waiting) = self.states.get(&state) else { return Counts::default() };
        let taken = self.taken.values().filter(|taken| taken.entry.state == state).count();
        let mut counts = Counts { ready: waiting.in_line(), taken, ..Counts::default() };
        for (_, aside) in waiting.all_aside() {
            *match &aside.why {
                Why::Turn { .. } | Why::Delayed { .. } => &mut counts.delayed,
                Why::NotDue => &mut counts.not_due,
                Why::Busy => &mut counts.busy,
                Why::Parked(Reason::Locked(_)) => &mut counts.locked,
                Why::Parked(Reason::Other(_)) => &mut counts.parked,
            } += 1;
        }
        counts
    }

    /// The first of each bucket of each state.
    pub fn heads(&self) -> Vec<QueueRef> {
        let heads = |(state, waiting): (&JobState, &Waiting)| {
            waiting.heads().map(|(slot, ..)| QueueRef::new(*state, slot.1, slot.0)).collect::<Vec<_>>()
        };
        self.states.iter().flat_map(heads).collect()
    }
}

fn slot(entry: QueueRef) -> Slot {
    (entry.jid, entry.priority)
}
