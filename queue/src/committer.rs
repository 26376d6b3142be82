//! Commits ready plans of many jobs together.
//!
//! A store commits sixteen transitions in one multi two to three times as fast as in sixteen. So what is
//! ready goes together, and nothing waits for more: while a few multis are under way, what comes
//! gathers, and leaves when one of them is answered.
//!
//! Plans do not depend on each other. A multi that one of them makes fail names that one's
//! operation: it is taken out, with its error, and the rest is sent again.
//!
//! **When things break.** A lost answer means "perhaps". The identical multi is sent again on the same
//! session; if that is refused, the *mark* of its plans tells whether the first try was applied: all of
//! them were, or none. After the session's end nothing is sent again; every plan gets the error, and
//! the tree decides. Whoever has to know what became of a plan whose author has gone waits until everything that
//! was handed in before has been answered ([`Committer::settled`]).

mod sending;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ingest_store::recipes::look;
use ingest_store::{Error, Kind, Op, Result, Session};
use tokio::sync::{Mutex, Notify, Semaphore, mpsc, oneshot};

pub use self::sending::{Heard, Sending, Verdict};
use crate::states::JobState;

/// A multi holds at most this many operations and bytes.
pub const MAX_OPS: usize = 1_000;
pub const MAX_BYTES: usize = 512 << 10;

/// How often those who are ready get their turn before a multi leaves. Nothing waits for a clock.
const TURNS: usize = 3;

/// Where the author of a plan sees whether it was applied.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Mark {
    /// A node holds a text that only this plan writes, and keeps it for a while.
    Holds { path: String, text: String },
    /// A node is gone.
    Gone(String),
}

impl Mark {
    pub fn holds(path: impl Into<String>, text: impl Into<String>) -> Self {
        Mark::Holds { path: path.into(), text: text.into() }
    }

    /// Where to look.
    pub fn path(&self) -> &str {
        match self {
            Mark::Holds { path, .. } | Mark::Gone(path) => path,
        }
    }

    /// Whether the mark is there, in what the node holds now.
    pub fn is_in(&self, data: Option<&[u8]>) -> bool {
        match self {
            Mark::Gone(_) => data.is_none(),
            Mark::Holds { text, .. } => data.is_some_and(|data| contains(data, text.as_bytes())),
        }
    }

    async fn is_there(&self, session: &Session) -> Result<bool> {
        match look(session, || session.get(self.path())).await {
            Ok((data, _)) => Ok(self.is_in(Some(&data))),
            Err(error) if error.kind() == Kind::NoNode => Ok(self.is_in(None)),
            Err(error) => Err(error),
        }
    }
}

/// Operations that belong together.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Unit {
    pub ops: Vec<Op>,
    pub mark: Mark,
}

impl Unit {
    pub fn new(ops: Vec<Op>, mark: Mark) -> Self {
        Self { ops, mark }
    }

    fn bytes(&self) -> usize {
        self.ops.iter().map(Op::size).sum()
    }
}

/// How much goes together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Together {
    /// Multis under way at once.
    pub in_flight: usize,
    /// Plans in one multi.
    pub units: usize,
}

impl Default for Together {
    fn default() -> Self {
        Self { in_flight: 8, units: 64 }
    }
}

/// The way in. Clones lead to the same committer, which ends with the last of them.
#[derive(Debug, Clone)]
pub struct Committer {
    sender: mpsc::Sender<Waiting>,
    counts: Arc<Counts>,
    under_way: Arc<UnderWay>,
}

/// The plans that were handed in and are not answered yet, by their numbers.
#[derive(Debug, Default)]
struct UnderWay {
    numbers: parking_lot::Mutex<(u64, BTreeSet<u64>)>,
    answered: Notify,
}

/// A plan that is under way, until this is dropped.
#[derive(Debug)]
struct Number(Arc<UnderWay>, u64);

impl UnderWay {
    fn begin(self: &Arc<Self>) -> Number {
        let (next, open) = &mut *self.numbers.lock();
        let number = *next;
        *next += 1;
        open.insert(number);
        Number(self.clone(), number)
    }
}

impl Drop for Number {
    fn drop(&mut self) {
        self.0.numbers.lock().1.remove(&self.1);
        self.0.answered.notify_waiters();
    }
}

/// What was committed, for metrics.
#[derive(Debug, Default)]
pub struct Counts {
    multis: std::sync::atomic::AtomicU64,
    units: std::sync::atomic::AtomicU64,
    refused: std::sync::atomic::AtomicU64,
    /// Jobs that were moved, whoever has moved them.
    moves: parking_lot::Mutex<BTreeMap<(JobState, JobState), u64>>,
}

impl Counts {
    pub fn multis(&self) -> u64 {
        self.multis.load(std::sync::atomic::Ordering::Relaxed)
    }

    pub fn units(&self) -> u64 {
        self.units.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Plans that were refused: what they rest on had changed, or the session was over.
    pub fn refused(&self) -> u64 {
        self.refused.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// How many jobs went from which state to which.
    pub fn moves(&self) -> BTreeMap<(JobState, JobState), u64> {
        self.moves.lock().clone()
    }

    pub fn moved(&self, from: JobState, to: JobState) {
        *self.moves.lock().entry((from, to)).or_default() += 1;
    }

    /// Counts a plan that was not committed, if that is certain.
    fn not_committed(&self, session: &Session, unit: &Unit, error: &Error) {
        let over = matches!(error.kind(), Kind::Expired | Kind::Closed) || session.state().is_final();
        if over {
            let (Mark::Holds { path, .. } | Mark::Gone(path)) = &unit.mark;
            tracing::warn!(path, %error, "a commit came too late, and was refused: the session is over");
        }
        if over || error.failed_op().is_some() {
            self.refused.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
    }

    fn add(&self, units: usize) {
        self.multis.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        self.units.fetch_add(units as u64, std::sync::atomic::Ordering::Relaxed);
    }
}

#[derive(Debug)]
struct Waiting {
    unit: Unit,
    answer: oneshot::Sender<Result<()>>,
    number: Number,
}

impl Committer {
    /// The way in, and the other end of it: nothing is committed until somebody serves.
    pub fn new(session: Session, together: Together) -> (Self, Serving) {
        Self::counting(session, together, Arc::default())
    }

    /// The same, with counts that others count in, too.
    pub fn counting(session: Session, together: Together, counts: Arc<Counts>) -> (Self, Serving) {
        let (sender, waiting) = mpsc::channel(session.limits().max_requests.max(1));
        let serving = Serving {
            session,
            units: together.units.max(1),
            slots: Arc::new(Semaphore::new(together.in_flight.clamp(1, Semaphore::MAX_PERMITS))),
            waiting: Arc::new(Mutex::new(Receiving { waiting, first: None })),
            counts: counts.clone(),
        };
        (Self { sender, counts, under_way: Arc::default() }, serving)
    }

    /// A committer that serves itself.
    pub fn start(session: Session, together: Together) -> Self {
        let (committer, serving) = Self::new(session, together);
        tokio::spawn(async move { serving.run().await });
        committer
    }

    /// Commits a plan, together with what else is ready. An error's index counts from the plan's first
    /// operation. Dropping this future does not cancel the commit.
    pub async fn commit(&self, unit: Unit) -> Result<()> {
        let (answer, answered) = oneshot::channel();
        let unsent = |_| Error::new(Kind::Closed, "the committer has ended");
        let number = self.under_way.begin();
        self.sender.send(Waiting { unit, answer, number }).await.map_err(unsent)?;
        // Perhaps it was sent.
        let lost = || Error::new(Kind::ConnectionLoss, "the committer has ended before the answer came");
        answered.await.unwrap_or_else(|_| Err(lost()))
    }

    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// The number of plans that were handed in and have no answer yet.
    pub fn unanswered(&self) -> usize {
        self.under_way.numbers.lock().1.len()
    }

    /// Waits until everything that was handed in before this call has been answered, whether or not anybody waits
    /// for the answers.
    pub async fn settled(&self) {
        let before = self.under_way.numbers.lock().0;
        loop {
            let mut answered = std::pin::pin!(self.under_way.answered.notified());
            answered.as_mut().enable();
            if self.under_way.numbers.lock().1.first().is_none_or(|first| *first >= before) {
                return;
            }
            answered.await;
        }
    }
}

/// The end of a committer that gathers and sends. Clones are the same; one of them serves at a time.
#[derive(Debug, Clone)]
pub struct Serving {
    session: Session,
    units: usize,
    /// One for each multi that may be under way.
    slots: Arc<Semaphore>,
    waiting: Arc<Mutex<Receiving>>,
    counts: Arc<Counts>,
}

#[derive(Debug)]
struct Receiving {
    waiting: mpsc::Receiver<Waiting>,
    /// The first plan of the next multi.
    first: Option<Waiting>,
}

impl Serving {
    /// Serves until the last way in is gone. Whoever gives this up in the middle loses nothing: what was sent is
    /// answered, and what waits is sent by the next who serves.
    pub async fn run(&self) {
        let mut receiving = self.waiting.lock().await;
        loop {
            // Nobody closes it.
            let Ok(slot) = self.slots.clone().acquire_owned().await else { return };
            if receiving.first.is_none() {
                receiving.first = receiving.waiting.recv().await;
            }
            // The answer to one multi wakes many who have their next plan ready at once: they go first.
            for _ in 0..TURNS {
                tokio::task::yield_now().await;
            }
            let Some(first) = receiving.first.take() else { return };
            let (group, rest) = gather(first, &mut receiving.waiting, self.units);
            receiving.first = rest;
            self.counts.add(group.len());
            let (session, counts) = (self.session.clone(), self.counts.clone());
            tokio::spawn(async move {
                commit_group(&session, group, &counts).await;
                drop(slot);
            });
        }
    }
}

fn gather(
    first: Waiting,
    waiting: &mut mpsc::Receiver<Waiting>,
    most: usize,
) -> (Vec<Waiting>, Option<Waiting>) {
    let (mut ops, mut bytes) = (first.unit.ops.len(), first.unit.bytes());
    let mut group = vec![first];
    while group.len() < most {
        let Ok(next) = waiting.try_recv() else { break };
        ops += next.unit.ops.len();
        bytes += next.unit.bytes();
        if ops > MAX_OPS || bytes > MAX_BYTES {
            return (group, Some(next));
        }
        group.push(next);
    }
    (group, None)
}

async fn commit_group(session: &Session, group: Vec<Waiting>, counts: &Counts) {
    let (units, mut answers): (Vec<_>, Vec<_>) =
        group.into_iter().map(|waiting| (waiting.unit, Some((waiting.answer, waiting.number)))).unzip();
    commit_all(session, &units, |at, result| {
        if let (Err(error), Some(unit)) = (&result, units.get(at)) {
            counts.not_committed(session, unit, error);
        }
        if let Some((answer, number)) = answers.get_mut(at).and_then(Option::take) {
            drop(number);
            // Whoever asked may have gone away.
            let _ = answer.send(result);
        }
    })
    .await;
}

/// Commits a plan alone.
pub async fn commit_alone(session: &Session, unit: Unit) -> Result<()> {
    let mut answer = Ok(());
    commit_all(session, &[unit], |_, result| answer = result).await;
    answer
}

/// Commits plans together and tells the result of each.
async fn commit_all(session: &Session, units: &[Unit], mut tell: impl FnMut(usize, Result<()>)) {
    let mut sending = Sending::new(units.len());
    while !sending.rest().is_empty() {
        let Err(error) = session.multi(sending.ops(units)).await else { break };
        let op = match sending.heard(&error, session.state().is_final()) {
            Heard::Again => continue,
            Heard::GivenUp => return sending.rest().iter().for_each(|at| tell(*at, Err(error.clone()))),
            Heard::Refused(op) => op,
            Heard::Doubt(op) => match were_applied(session, sending.marks(units)).await {
                Ok(true) => break,
                Ok(false) => op,
                Err(error) => return sending.rest().iter().for_each(|at| tell(*at, Err(error.clone()))),
            },
        };
        let (out, start) = sending.take_out(units, op);
        tell(out, Err(error.relative_to(start)));
    }
    for at in sending.rest() {
        tell(*at, Ok(()));
    }
}

/// Whether an earlier try of the same multi was applied.
async fn were_applied<'a>(session: &Session, marks: impl Iterator<Item = &'a Mark>) -> Result<bool> {
    look(session, || session.sync()).await?;
    let mut verdict = Verdict::default();
    for mark in marks {
        if let Some(applied) = verdict.after(mark, mark.is_there(session).await?) {
            return Ok(applied);
        }
    }
    Ok(verdict.at_the_end())
}

fn contains(data: &[u8], text: &[u8]) -> bool {
    !text.is_empty() && data.windows(text.len()).any(|window| window == text)
}
