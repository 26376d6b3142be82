//! What is explored, and which rule is broken in it.

use ingest_queue::dialect::Dialect;
use ingest_queue::states::{JobState, States as _};

/// What is explored.
#[derive(Debug, Clone)]
pub(super) struct Setup {
    pub(super) nodes: u8,
    /// Jobs that are there from the beginning.
    pub(super) jobs: u8,
    /// Rows that have no job yet.
    pub(super) rows: u8,
    /// The state that jobs begin in.
    pub(super) from: JobState,
    /// The state that is far enough: nobody takes a job from there.
    pub(super) until: JobState,
    /// How many things may break.
    pub(super) faults: u8,
    /// How often a person does something, and what.
    pub(super) asks: u8,
    pub(super) may: &'static [Ask],
    /// Jobs of other batches that somebody makes meanwhile.
    pub(super) others: u8,
    /// Whether somebody looks after the batch.
    pub(super) batch: bool,
    /// Whether what is decided on several jobs goes together.
    pub(super) coalesce: bool,
    /// Whether a node commits for the batch and for jobs at once.
    pub(super) overlap: bool,
    pub(super) broken: Option<Broken>,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            nodes: 2,
            jobs: 0,
            rows: 0,
            from: JobState::Notify,
            until: JobState::Completed,
            faults: 1,
            asks: 0,
            may: &[],
            others: 0,
            batch: false,
            coalesce: false,
            overlap: false,
            broken: None,
        }
    }
}

impl Setup {
    /// How often a job may be taken: once in each state, again in each after a person has done something, and once for each thing
    /// that breaks.
    pub(super) fn takings(&self) -> u32 {
        let next = |state: &JobState| state.success(Dialect::Design).filter(|next| *next != self.until);
        let states = std::iter::successors(Some(self.from), next).filter(|state| state.is_taken_from());
        u32::try_from(states.count()).unwrap() * u32::from(1 + self.asks) + u32::from(self.faults)
    }

    /// What must happen somewhere, whatever else is looked for: all that may break, and all that a batch does. Otherwise
    /// what is not explored any more would hold, too.
    pub(super) fn always_seen(&self) -> Vec<&'static str> {
        const BREAKS: &[&str] = &[
            "a worker dies",
            "a job is given back",
            "a node crashes",
            "the session of a node that crashed ends",
            "a session expires",
        ];
        let whenever = |it: bool, seen: &'static [&'static str]| if it { seen } else { &[] };
        [
            whenever(self.faults > 0, BREAKS),
            whenever(self.others > 0, &["somebody else makes a job"]),
            whenever(self.rows > 0, &["rows become jobs"]),
            whenever(self.batch, &["the batch ends", "a report is sent", "the report is finished"]),
        ]
        .concat()
    }
}

/// What a person does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ask {
    /// A failed job is to be tried again.
    Requeue,
    /// A failed or held job is to go.
    Delete,
    Hold,
    Release,
    /// Another priority, of a job that nobody works on.
    Priority,
    /// Another priority, and whoever works on the job loses it.
    Force,
}

/// A rule that is broken on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Broken {
    /// The version of the lock fences instead of that of the status.
    FenceByLock,
    /// Nothing fences.
    NoVersion,
    /// The lock is given back before the commit and not with it. The commit is at the version that this has led to, so whoever is
    /// slower is refused; only that it may be refused for ever.
    ReleaseFirst,
    /// Nothing fences what the owner of a batch commits.
    NoFenceOfTheBatch,
    /// The end of a batch is not proved.
    NoProofOfTheEnd,
    /// A batch ends whether or not all of it is expanded.
    EndUnexpanded,
    /// The cursor of an expansion moves after the jobs are made.
    CursorApart,
    /// What was refused the second time was not applied the first time, either.
    LostIsRefused,
    /// A person does not ask for the lock.
    ActUnlocked,
    /// A person does not look whether the batch is reporting.
    ActWhileReporting,
    /// A report is noted as sent before it is.
    SentFirst,
}
