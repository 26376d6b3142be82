//! Provisioning: which of the jobs that wait for room get it.
//!
//! A [`cycle`] looks at all that wait, in their order, and decides for all of them at once. Each admission is
//! one multi: the job goes to downloading, `/jobs/JID/work` says where its files go and how much it was
//! promised, and `/space/FSID` is set at the version that was read before anything else was. So of two
//! provisioners of one file system only one can be right: the other reads and decides again.
//!
//! What was promised is summed up anew from the admitted jobs in each round: what each was promised, without
//! what is on the disk in its directory. `/space/FSID` is for people, and its version is for us.
//!
//! A job that has to wait stays as it is: why is told in the answer and not written to the tree, where it
//! would be a write for each job that waits and each cycle. One that needs more than there could ever be
//! fails, and can be requeued when there is more. One that is locked, or has changed since it was listed, is
//! left alone.
//!
//! A provisioner that goes on keeps a [`Ledger`]: as long as nobody else has promised anything (the version of
//! `/space/FSID` tells), only what is new is read. Jobs that it was not told have ended count too long, never too
//! short.
//!
//! Between two cycles nothing is asked: [`next_look`] waits for freed space, for the end, or for
//! `provisioning.cycle`.
//!
//! **When things break.** A cycle that is cut off anywhere has admitted some jobs whole and others not at all;
//! the next one goes on. Whoever drops it in the middle releases what its holder holds
//! ([`Queue::release_all_of`]). A file system that cannot be asked admits nobody. A failed job that is requeued
//! behind provisioning counts again from then on, but nobody asks whether there is room for it.

mod books;
mod freed;
mod ledger;
mod wanting;

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use futures::future::join_all;
use ingest_queue::error::Error;
use ingest_queue::ids::Jid;
use ingest_queue::jobs::Lease;
use ingest_queue::map::{self, JobNode, QueueRef};
use ingest_queue::nodes::{Node as _, Work};
use ingest_queue::plan::job::Change;
use ingest_queue::queue::Queue;
use ingest_queue::states::JobState;
use ingest_store::recipes::settle;
use ingest_store::{Op, error::Next};

pub use books::Reserved;
pub use freed::{Freed, Woken, next_look};
pub use ledger::Ledger;

use self::books::Books;
use self::wanting::Wanting;
use crate::outcome::{Cancel, Failure, Progress, Result};
use crate::provision::{Space, Verdict};
use crate::services::{Services, blocking};

/// How often a cycle reads and decides again because another provisioner was faster. Each time that other
/// one has admitted somebody.
const ROUNDS: usize = 10;
/// Jobs that are admitted together.
const TOGETHER: usize = 16;

/// What became of those that waited.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cycle {
    /// With what each was promised.
    pub admitted: Vec<(Jid, u64)>,
    /// They need more than there could ever be.
    pub failed: Vec<(Jid, String)>,
    /// And why.
    pub waiting: Vec<(Jid, String)>,
    /// Locked, changed meanwhile, or not readable: nothing was done about them.
    pub skipped: Vec<(Jid, String)>,
    /// Those that were admitted, or have failed, as they were worked on.
    pub taken: Vec<Taken>,
    /// Look again after this time at the latest.
    pub look_again: Duration,
}

/// How long it took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Taken {
    /// Until somebody worked on it, as far as that is known.
    pub waited: Option<Duration>,
    /// From then on.
    pub took: Duration,
}

impl Cycle {
    /// Those that do not wait for room any more.
    pub fn settled(&self) -> HashSet<Jid> {
        let failed = self.failed.iter().map(|(jid, _)| *jid);
        self.admitted.iter().map(|(jid, _)| *jid).chain(failed).collect()
    }
}

/// All that wait for room, in their order, as the tree has them. Whoever has an index need not ask.
pub async fn waiting(queue: &Queue) -> Result<Vec<QueueRef>> {
    listed(queue, JobState::Provisioning).await
}

async fn listed(queue: &Queue, state: JobState) -> Result<Vec<QueueRef>> {
    let session = queue.session();
    let answer = settle(session, || session.children(map::queue(state))).await.answer;
    let (names, _) = answer.map_err(Error::from)?;
    let mut refs: Vec<_> = names.iter().filter_map(|name| QueueRef::parse(state, name)).collect();
    refs.sort_unstable();
    Ok(refs)
}

/// Looks at all that wait, in the order given, and admits those that there is room for.
pub async fn cycle(
    queue: &Queue,
    services: &Services,
    holder: &str,
    waiting: &[QueueRef],
    progress: &Progress,
    cancel: &Cancel,
) -> Result<Cycle> {
    let look = Look { queue, services, holder };
    cycle_with(&look, &mut Ledger::default(), waiting, progress, cancel).await
}

/// Who looks, and at what.
#[derive(Debug, Clone, Copy)]
pub struct Look<'a> {
    pub queue: &'a Queue,
    pub services: &'a Services,
    pub holder: &'a str,
}

/// The same, with what was found in earlier cycles.
pub async fn cycle_with(
    look: &Look<'_>,
    ledger: &mut Ledger,
    waiting: &[QueueRef],
    progress: &Progress,
    cancel: &Cancel,
) -> Result<Cycle> {
    let Look { queue, services, holder } = *look;
    let look_again = services.settings.provisioning.cycle;
    let mut cycle = Cycle { look_again, ..Cycle::default() };
    let run = Run { queue, services, holder, progress, cancel };
    let mut left = waiting.to_vec();
    for _ in 0..ROUNDS {
        if left.is_empty() {
            return Ok(cycle);
        }
        cycle.waiting.clear();
        cycle.skipped.clear();
        match run.round(&left, ledger, &mut cycle).await {
            Ok(Round::Done) => return Ok(cycle),
            Ok(Round::Outdated) => ledger.doubt(),
            Err(failure) => {
                ledger.doubt();
                return Err(failure);
            }
        }
        let settled = cycle.settled();
        left.retain(|entry| !settled.contains(&entry.jid));
    }
    Ok(cycle)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Round {
    Done,
    /// What it was decided on is not so any more.
    Outdated,
}

struct Run<'a> {
    queue: &'a Queue,
    services: &'a Services,
    holder: &'a str,
    progress: &'a Progress,
    cancel: &'a Cancel,
}

impl Run<'_> {
    /// Reads, decides for all, and admits. The version of `/space/FSID` is read first: whatever is promised
    /// after that makes the admissions of this round fail.
    async fn round(&self, left: &[QueueRef], ledger: &mut Ledger, cycle: &mut Cycle) -> Result<Round> {
        let mut books = Books::read(self, ledger).await?;
        let wanting = wanting::read(self, left, ledger, &mut cycle.skipped).await?;
        let space = self.space(books.promised).await?;
        let asked: Vec<_> = wanting.iter().map(|job| job.asks).collect();
        let mut verdicts: HashMap<_, _> = self.services.provision.decide(&asked, space).into_iter().collect();
        let mut admit = Vec::new();
        for job in wanting {
            let jid = job.entry.jid;
            match verdicts.remove(&jid) {
                Some(Verdict::Yes) => admit.push(job),
                Some(Verdict::Never(why)) => self.fail(job, why, cycle).await?,
                Some(Verdict::Wait(why)) => cycle.waiting.push((jid, why)),
                None => cycle.waiting.push((jid, "nothing was decided for it".into())),
            }
        }
        while !admit.is_empty() {
            let rest = admit.split_off(admit.len().min(TOGETHER));
            let admitted = self.admit(admit, &mut books, ledger, cycle).await?;
            if admitted == Round::Outdated {
                return Ok(Round::Outdated);
            }
            admit = rest;
        }
        Ok(Round::Done)
    }

    async fn space(&self, promised: u64) -> Result<Space> {
        let (provision, cancel) = (self.services.provision.clone(), self.cancel.clone());
        blocking("measuring the file system", move || provision.space(promised, &cancel)).await
    }

    async fn fail(&self, job: Wanting, why: String, cycle: &mut Cycle) -> Result<()> {
        let jid = job.entry.jid;
        self.go_on()?;
        let began = Instant::now();
        let mut lease = match self.queue.acquire(job.entry, self.holder).await {
            Ok(lease) => lease,
            Err(error) => return skip(jid, error, cycle),
        };
        let waited = lease.waited();
        match self.queue.fail(&mut lease, &Change::message(why.as_str())).await {
            Ok(()) => {
                cycle.taken.push(Taken { waited, took: began.elapsed() });
                cycle.failed.push((jid, why));
            }
            Err(error) => {
                self.give_back(lease).await;
                skip(jid, error, cycle)?;
            }
        }
        Ok(())
    }

    /// Admits a few jobs together, each at the version of the books that the one before it leaves behind.
    async fn admit(
        &self,
        jobs: Vec<Wanting>,
        books: &mut Books,
        ledger: &mut Ledger,
        cycle: &mut Cycle,
    ) -> Result<Round> {
        self.go_on()?;
        let began = Instant::now();
        let acquired = join_all(jobs.iter().map(|job| self.queue.acquire(job.entry, self.holder))).await;
        let mut taken: Vec<(Wanting, Lease)> = Vec::new();
        let mut sound = Ok(());
        for (job, answer) in jobs.into_iter().zip(acquired) {
            match answer {
                Ok(lease) => taken.push((job, lease)),
                Err(error) => sound = sound.and(skip(job.entry.jid, error, cycle)),
            }
        }
        if let Err(failure) = sound.and(self.go_on()) {
            for (_, lease) in taken {
                self.give_back(lease).await;
            }
            return Err(failure);
        }
        let changes: Vec<Change> = taken
            .iter()
            .map(|(job, lease)| {
                let also = vec![books.promise(job.asks.needs, self.queue), self.work(job, lease)];
                Change { also, ..Change::default() }
            })
            .collect();
        let waited: Vec<_> = taken.iter().map(|(_, lease)| lease.waited()).collect();
        let moves = taken.iter_mut().zip(&changes);
        let answers = join_all(moves.map(|((_, lease), change)| self.queue.succeed(lease, change))).await;
        let (mut round, mut sound) = (Round::Done, Ok(()));
        for (((job, lease), answer), waited) in taken.into_iter().zip(answers).zip(waited) {
            let jid = job.entry.jid;
            match answer {
                Ok(_) => {
                    cycle.taken.push(Taken { waited, took: began.elapsed() });
                    ledger.admitted(jid, lease.job().bid, job.asks.needs);
                    cycle.admitted.push((jid, job.asks.needs));
                }
                Err(error) => {
                    self.give_back(lease).await;
                    // Whoever comes behind one that was not admitted finds another version, too.
                    round = Round::Outdated;
                    if !is_outdated(&error) {
                        sound = sound.and(skip(jid, error, cycle));
                    }
                }
            }
            self.progress.beat();
        }
        if round == Round::Done {
            ledger.now_at(books.version);
        }
        sound.map(|()| round)
    }

    /// Where the job's files go, in place of what an earlier admission said.
    fn work(&self, job: &Wanting, lease: &Lease) -> Op {
        let jid = job.entry.jid;
        let dir = &self.services.work;
        let work = Work {
            node: dir.node().to_owned(),
            file_system: dir.file_system().to_owned(),
            directory: dir.job(lease.job().bid, jid).to_string_lossy().into_owned(),
            attempt: 0,
            reserved: job.asks.needs,
            other: job.work.as_ref().map(|work| work.other.clone()).unwrap_or_default(),
        };
        let (path, data) = (JobNode::Work.of(jid), work.write(self.queue.dialect()));
        if job.has_work { Op::set(path, data, None) } else { Op::create(path, data) }
    }

    /// One that is lost is forgotten here by this, too.
    async fn give_back(&self, mut lease: Lease) {
        if let Err(error) = self.queue.give_back(&mut lease, None).await {
            tracing::debug!(jid = %lease.jid(), %error, "a job that was not admitted could not be given back");
        }
    }

    fn go_on(&self) -> Result<()> {
        if self.cancel.is_cancelled() { Err(Failure::Cancelled) } else { Ok(()) }
    }
}

/// Whether a commit was refused because a node was not as it was read.
fn is_outdated(error: &Error) -> bool {
    matches!(error, Error::Store(error) if error.failed_op().is_some() && error.next() == Next::ReadAgain)
}

/// What is wrong with one job stops no other; what is wrong with the tree stops the cycle.
fn skip(jid: Jid, error: Error, cycle: &mut Cycle) -> Result<()> {
    match error {
        Error::Store(_) => Err(error.into()),
        error => {
            cycle.skipped.push((jid, error.to_string()));
            Ok(())
        }
    }
}
