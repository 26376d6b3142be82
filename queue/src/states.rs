//! The state tables, as data. Everything else derives from them: which moves are allowed and by whom,
//! where a success or a failure leads, where a failed job starts again, the names in paths, the
//! tables and the picture in the documentation.
//!
//! To add a state: a line in its enum, its name in the table of names, its rows in the table of moves.

mod picture;

use std::fmt;

use crate::dialect::Dialect;

/// Who moves a thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Who {
    /// The node that looks at what waits, before any work is done.
    Queue,
    /// Whoever does the work of a state, under the lock.
    Worker,
    /// A person.
    Admin,
    /// Whoever watches dates and counts crashes.
    Timekeeper,
    /// Whoever tidies up.
    Janitor,
}

/// What a move is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Why {
    /// The work of the state is done.
    Success,
    /// It cannot be done.
    Failure,
    Hold,
    Release,
    /// A failed thing is tried again.
    Requeue,
    /// Its files are gone with their node.
    StartOver,
    Delete,
    /// Nobody needs its place in the queue any more.
    Clean,
}

/// Where a move leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum To<S: 'static> {
    State(S),
    /// The state after the last successful one, or any of these if one is chosen.
    Restart(&'static [S]),
    /// The thing is removed.
    Deleted,
    /// It stays, but leaves the queue.
    Cleaned,
}

/// A row of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Move<S: 'static> {
    pub from: &'static [S],
    pub to: To<S>,
    pub by: Who,
    pub why: Why,
    /// For people.
    pub effect: &'static str,
    /// The dialects that have this row; empty means all.
    pub only: &'static [Dialect],
}

/// A kind of thing that has states.
pub trait States: Copy + Eq + fmt::Debug + Ord + Send + Sync + 'static {
    /// What it is the state of.
    const THING: &'static str;
    /// All states with their names: in paths and in the `design` dialect, and in json of `mrt-zk`.
    const NAMES: &'static [(Self, &'static str, &'static str)];
    const MOVES: &'static [Move<Self>];

    /// The name in paths, commands, metrics and this program's own json.
    fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(state, ..)| *state == self).map_or("", |(_, name, _)| name)
    }

    /// The name in the json of a dialect.
    fn json_name(self, dialect: Dialect) -> &'static str {
        let names = Self::NAMES.iter().find(|(state, ..)| *state == self);
        names.map_or("", |(_, design, merritt)| match dialect {
            Dialect::Design => design,
            Dialect::MrtZk => merritt,
        })
    }

    /// Reads a name of either dialect, in either case.
    fn from_name(name: &str) -> Option<Self> {
        let same = |a: &str| a.eq_ignore_ascii_case(name);
        Self::NAMES.iter().find(|(_, a, b)| same(a) || same(b)).map(|(state, ..)| *state)
    }

    /// The rows that lead away from here.
    fn moves(self, dialect: Dialect) -> impl Iterator<Item = &'static Move<Self>> {
        Self::MOVES.iter().filter(move |row| {
            row.from.contains(&self) && (row.only.is_empty() || row.only.contains(&dialect))
        })
    }

    /// Where success leads, for the one who does the work.
    fn success(self, dialect: Dialect) -> Option<Self> {
        self.target(Why::Success, dialect)
    }

    /// This state and those after it, as success leads from one to the next.
    fn way(self, dialect: Dialect) -> impl Iterator<Item = Self> {
        std::iter::successors(Some(self), move |state| state.success(dialect))
    }

    /// Where failure leads.
    fn failure(self, dialect: Dialect) -> Option<Self> {
        self.target(Why::Failure, dialect)
    }

    #[doc(hidden)]
    fn target(self, why: Why, dialect: Dialect) -> Option<Self> {
        self.moves(dialect).find(|row| row.why == why).and_then(|row| match row.to {
            To::State(state) => Some(state),
            To::Restart(_) | To::Deleted | To::Cleaned => None,
        })
    }

    /// The row that allows a move to a state, or the refusal that says what is allowed instead.
    fn may_go(self, to: Self, by: Who, dialect: Dialect) -> Result<&'static Move<Self>, Refused> {
        let fits = |row: &&'static Move<Self>| {
            row.by == by
                && match row.to {
                    To::State(state) => state == to,
                    To::Restart(states) => states.contains(&to),
                    To::Deleted | To::Cleaned => false,
                }
        };
        self.moves(dialect).find(fits).ok_or_else(|| self.refuse(to.name(), by, dialect))
    }

    /// The row that allows one kind of move.
    fn may(self, why: Why, by: Who, dialect: Dialect) -> Result<&'static Move<Self>, Refused> {
        let fits = |row: &&'static Move<Self>| row.by == by && row.why == why;
        self.moves(dialect).find(fits).ok_or_else(|| {
            let to = match why {
                Why::Delete => "deleted",
                Why::Clean => "cleaned",
                Why::Hold => "held",
                Why::Release => "pending",
                Why::Requeue => "a working state",
                Why::StartOver => "downloading",
                Why::Failure => "failed",
                Why::Success => "the next state",
            };
            self.refuse(to, by, dialect)
        })
    }

    #[doc(hidden)]
    fn refuse(self, to: &str, by: Who, dialect: Dialect) -> Refused {
        let allowed =
            self.moves(dialect).map(|row| format!("{} (by {})", row.to.describe(), row.by)).collect();
        Refused { thing: Self::THING, from: self.name(), to: to.to_owned(), by, allowed }
    }
}

/// A move that no table has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a {thing} that is {from} cannot be moved to {to} by the {by}; from {from} it can go to: {}",
    if .allowed.is_empty() { "nowhere".to_owned() } else { .allowed.join(", ") })]
pub struct Refused {
    pub thing: &'static str,
    pub from: &'static str,
    pub to: String,
    pub by: Who,
    /// What is allowed instead, and by whom.
    pub allowed: Vec<String>,
}

impl<S: States> To<S> {
    fn describe(self) -> String {
        match self {
            To::State(state) => state.name().to_owned(),
            To::Restart(states) => {
                let names: Vec<_> = states.iter().map(|state| state.name()).collect();
                format!("the state after the last successful one, or a chosen one of {}", names.join("/"))
            }
            To::Deleted => "deleted".to_owned(),
            To::Cleaned => "cleaned".to_owned(),
        }
    }
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Who::Queue => "queue",
            Who::Worker => "worker",
            Who::Admin => "admin",
            Who::Timekeeper => "timekeeper",
            Who::Janitor => "janitor",
        })
    }
}

macro_rules! states {
    ($(#[$doc:meta])* $enum:ident, $thing:literal, $moves:ident,
     { $($(#[$line:meta])* $state:ident = $name:literal, $merritt:literal;)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $enum { $($(#[$line])* $state,)+ }

        impl $enum {
            pub const ALL: &'static [$enum] = &[$($enum::$state,)+];
        }

        impl States for $enum {
            const THING: &'static str = $thing;
            const NAMES: &'static [(Self, &'static str, &'static str)] =
                &[$(($enum::$state, $name, $merritt),)+];
            const MOVES: &'static [Move<Self>] = $moves;
        }

        impl fmt::Display for $enum {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.name())
            }
        }

        impl serde::Serialize for $enum {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.serialize_str(self.name())
            }
        }

        impl<'de> serde::Deserialize<'de> for $enum {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let name = String::deserialize(from)?;
                Self::from_name(&name).ok_or_else(|| {
                    serde::de::Error::custom(format!("`{name}` is not a state of a {}", $thing))
                })
            }
        }

        impl std::str::FromStr for $enum {
            type Err = UnknownState;

            fn from_str(name: &str) -> Result<Self, UnknownState> {
                Self::from_name(name).ok_or_else(|| UnknownState {
                    name: name.to_owned(),
                    thing: $thing,
                    known: Self::NAMES.iter().map(|(_, name, _)| *name).collect(),
                })
            }
        }
    };
}

/// A name that no table has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` is not a state of a {thing}; known are: {}", .known.join(", "))]
pub struct UnknownState {
    pub name: String,
    pub thing: &'static str,
    pub known: Vec<&'static str>,
}

states!(
    /// The state of a job; each is a queue below `/jobs/states`.
    JobState, "job", JOB_MOVES, {
    Pending = "pending", "Pending";
    Held = "held", "Held";
    Estimating = "estimating", "Estimating";
    Provisioning = "provisioning", "Provisioning";
    Downloading = "downloading", "Downloading";
    Processing = "processing", "Processing";
    /// Only in the `mrt-zk` dialect, where an outside service does it.
    Storing = "storing", "Storing";
    Recording = "recording", "Recording";
    Notify = "notify", "Notify";
    Completed = "completed", "Completed";
    Failed = "failed", "Failed";
    /// No queue of the `design` dialect: such a job is gone, and only its batch knows of it.
    Deleted = "deleted", "Deleted";
});

states!(
    /// The state of a batch.
    BatchState, "batch", BATCH_MOVES, {
    Pending = "pending", "Pending";
    Held = "held", "Held";
    Processing = "processing", "Processing";
    Reporting = "reporting", "Reporting";
    Completed = "completed", "Completed";
    Failed = "failed", "Failed";
    UpdateReporting = "update-reporting", "UpdateReporting";
    Deleted = "deleted", "Deleted";
});

states!(
    /// The state of an access item.
    AccessState, "access item", ACCESS_MOVES, {
    Pending = "pending", "Pending";
    Processing = "processing", "Processing";
    Completed = "completed", "Completed";
    Failed = "failed", "Failed";
    Deleted = "deleted", "Deleted";
});

use JobState::{
    Completed, Downloading, Estimating, Failed, Held, Notify, Pending, Processing, Provisioning, Recording,
    Storing,
};

const fn row<S>(from: &'static [S], to: To<S>, by: Who, why: Why, effect: &'static str) -> Move<S> {
    Move { from, to, by, why, effect, only: &[] }
}

const fn only<S: Copy>(dialect: &'static [Dialect], row: Move<S>) -> Move<S> {
    Move { only: dialect, ..row }
}

/// A failed job starts again in one of the states that its dialect has.
const fn requeue(states: &'static [JobState]) -> Move<JobState> {
    let effect = "retry_count + 1; refused while the batch is reporting, or if the job is not recoverable";
    row(&[Failed], To::Restart(states), Who::Admin, Why::Requeue, effect)
}

const DESIGN: &[Dialect] = &[Dialect::Design];
const MRT_ZK: &[Dialect] = &[Dialect::MrtZk];

const JOB_MOVES: &[Move<JobState>] = &[
    row(&[Pending], To::State(Estimating), Who::Queue, Why::Success, "last_successful_status stays as it is"),
    row(&[Pending], To::State(Held), Who::Queue, Why::Hold, "the collection is held"),
    row(
        &[Pending],
        To::State(Failed),
        Who::Queue,
        Why::Failure,
        "the payload is not what the depositor announced: not recoverable, to be submitted again",
    ),
    row(&[Pending, Estimating, Provisioning], To::State(Held), Who::Admin, Why::Hold, "only while it waits"),
    row(&[Held], To::State(Pending), Who::Admin, Why::Release, "refused while its collection is held"),
    row(&[Held], To::Deleted, Who::Admin, Why::Delete, "the depositor will not be told"),
    row(
        &[Estimating],
        To::State(Provisioning),
        Who::Worker,
        Why::Success,
        "never fails: an unknown size is 0; may change the priority",
    ),
    row(
        &[Provisioning],
        To::State(Downloading),
        Who::Worker,
        Why::Success,
        "stays while there is no room; none blocks another",
    ),
    row(
        &[Provisioning],
        To::State(Failed),
        Who::Worker,
        Why::Failure,
        "needs more than the whole file system has",
    ),
    row(
        &[Downloading],
        To::State(Processing),
        Who::Worker,
        Why::Success,
        "may change the space needed and the priority",
    ),
    row(&[Downloading], To::State(Failed), Who::Worker, Why::Failure, "the message says why"),
    only(
        DESIGN,
        row(
            &[Processing],
            To::State(Recording),
            Who::Worker,
            Why::Success,
            "the identifier is in the tree from the moment it is minted",
        ),
    ),
    only(
        MRT_ZK,
        row(
            &[Processing],
            To::State(Storing),
            Who::Worker,
            Why::Success,
            "the storage service takes it from there",
        ),
    ),
    row(&[Processing], To::State(Failed), Who::Worker, Why::Failure, "the message says why"),
    only(
        MRT_ZK,
        row(&[Storing], To::State(Recording), Who::Worker, Why::Success, "done by the storage service"),
    ),
    only(MRT_ZK, row(&[Storing], To::State(Failed), Who::Worker, Why::Failure, "the message says why")),
    row(
        &[Recording],
        To::State(Notify),
        Who::Worker,
        Why::Success,
        "may be done by an outside inventory service",
    ),
    row(&[Recording], To::State(Failed), Who::Worker, Why::Failure, "the message says why"),
    row(&[Notify], To::State(Completed), Who::Worker, Why::Success, "stored and findable"),
    row(&[Notify], To::State(Failed), Who::Worker, Why::Failure, "the message says why"),
    row(
        &[Processing, Storing, Recording, Notify],
        To::State(Downloading),
        Who::Queue,
        Why::StartOver,
        "its files were on a node that is gone; retry_count unchanged",
    ),
    row(
        JobState::WORKING,
        To::State(Failed),
        Who::Timekeeper,
        Why::Failure,
        "poison: crashed or stalled its worker too often",
    ),
    row(JobState::WAITING, To::Deleted, Who::Timekeeper, Why::Delete, "expired; the report names it"),
    only(DESIGN, requeue(&[Estimating, Provisioning, Downloading, Processing, Recording, Notify])),
    only(MRT_ZK, requeue(JobState::WORKING)),
    row(&[Failed], To::Deleted, Who::Admin, Why::Delete, "the depositor will not be told"),
    row(
        &[Completed],
        To::Cleaned,
        Who::Janitor,
        Why::Clean,
        "the queue entry and the working directory go; it stays completed",
    ),
];

const BATCH_MOVES: &[Move<BatchState>] = &[
    row(
        &[BatchState::Pending],
        To::State(BatchState::Processing),
        Who::Queue,
        Why::Success,
        "its manifest is frozen and whole; its jobs are made from here on",
    ),
    row(&[BatchState::Pending], To::State(BatchState::Held), Who::Queue, Why::Hold, "the collection is held"),
    row(
        &[BatchState::Pending],
        To::State(BatchState::Failed),
        Who::Queue,
        Why::Failure,
        "cannot be expanded: unreachable payload, corrupt or empty manifest; the depositor is told",
    ),
    row(
        &[BatchState::Pending, BatchState::Held],
        To::State(BatchState::Failed),
        Who::Timekeeper,
        Why::Failure,
        "expired before it was expanded; the depositor is told",
    ),
    row(&[BatchState::Pending], To::State(BatchState::Held), Who::Admin, Why::Hold, ""),
    row(
        &[BatchState::Held],
        To::State(BatchState::Pending),
        Who::Admin,
        Why::Release,
        "refused while its collection is held",
    ),
    row(&[BatchState::Held], To::Deleted, Who::Admin, Why::Delete, "with all its jobs"),
    row(
        &[BatchState::Processing],
        To::State(BatchState::Reporting),
        Who::Queue,
        Why::Success,
        "expanded, and the statuses of all its jobs say that they have ended",
    ),
    row(
        &[BatchState::Reporting],
        To::State(BatchState::Completed),
        Who::Worker,
        Why::Success,
        "the report is sent, and no job failed",
    ),
    row(
        &[BatchState::Reporting],
        To::State(BatchState::Failed),
        Who::Worker,
        Why::Failure,
        "the report is sent, and names the jobs that failed",
    ),
    row(
        &[BatchState::Failed],
        To::State(BatchState::UpdateReporting),
        Who::Admin,
        Why::Requeue,
        "refused while batch-processing is not empty",
    ),
    row(
        &[BatchState::Failed],
        To::Deleted,
        Who::Admin,
        Why::Delete,
        "with all its jobs; running ones are stopped first",
    ),
    row(
        &[BatchState::UpdateReporting],
        To::State(BatchState::Completed),
        Who::Worker,
        Why::Success,
        "nothing is unresolved any more",
    ),
    row(
        &[BatchState::UpdateReporting],
        To::State(BatchState::Failed),
        Who::Worker,
        Why::Failure,
        "some jobs are still unresolved",
    ),
    row(&[BatchState::Completed], To::Deleted, Who::Janitor, Why::Clean, "after a retention time"),
    row(
        &[BatchState::Failed],
        To::Deleted,
        Who::Janitor,
        Why::Clean,
        "after a retention time, if it has failed only because it expired",
    ),
];

const ACCESS_MOVES: &[Move<AccessState>] = &[
    row(&[AccessState::Pending], To::State(AccessState::Processing), Who::Queue, Why::Success, ""),
    row(&[AccessState::Processing], To::State(AccessState::Completed), Who::Worker, Why::Success, ""),
    row(&[AccessState::Processing], To::State(AccessState::Failed), Who::Worker, Why::Failure, ""),
    row(&[AccessState::Failed], To::State(AccessState::Processing), Who::Admin, Why::Requeue, ""),
    row(&[AccessState::Failed], To::Deleted, Who::Admin, Why::Delete, ""),
    row(&[AccessState::Completed], To::Deleted, Who::Janitor, Why::Clean, "after a retention time"),
];

/// The list of a batch that names a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum BatchList {
    Processing,
    Failed,
    Completed,
    Deleted,
}

impl BatchList {
    pub const ALL: [BatchList; 4] =
        [BatchList::Processing, BatchList::Failed, BatchList::Completed, BatchList::Deleted];

    pub fn name(self) -> &'static str {
        match self {
            BatchList::Processing => "batch-processing",
            BatchList::Failed => "batch-failed",
            BatchList::Completed => "batch-completed",
            BatchList::Deleted => "batch-deleted",
        }
    }
}

impl JobState {
    /// States in which a worker does something.
    pub const WORKING: &'static [JobState] =
        &[Estimating, Provisioning, Downloading, Processing, Storing, Recording, Notify];

    /// States in which a job waits for its turn or for a person: nothing was done for it that cannot be
    /// forgotten.
    pub const WAITING: &'static [JobState] = &[Pending, Held, Estimating, Provisioning];

    /// The states that have a queue in this dialect.
    pub fn queues(dialect: Dialect) -> impl Iterator<Item = JobState> {
        let only_merritts = [Storing, JobState::Deleted];
        JobState::ALL
            .iter()
            .copied()
            .filter(move |state| dialect == Dialect::MrtZk || !only_merritts.contains(state))
    }

    pub fn is_working(self) -> bool {
        Self::WORKING.contains(&self)
    }

    pub fn is_waiting(self) -> bool {
        Self::WAITING.contains(&self)
    }

    /// Whether a node takes jobs out of this queue to move them on.
    pub fn is_taken_from(self) -> bool {
        self == Pending || self.is_working()
    }

    /// The list of the batch that holds a job in this state.
    pub fn list(self) -> BatchList {
        match self {
            Completed => BatchList::Completed,
            Failed => BatchList::Failed,
            JobState::Deleted => BatchList::Deleted,
            _ => BatchList::Processing,
        }
    }

    /// Where a failed job starts again: after the last state that it has finished.
    pub fn restart(last_successful: Option<JobState>, dialect: Dialect) -> JobState {
        last_successful
            .filter(|last| last.is_working())
            .and_then(|last| last.success(dialect))
            .filter(|next| next.is_working())
            .unwrap_or(Estimating)
    }
}

impl BatchState {
    /// States in which a node has something to do for the batch.
    pub fn is_live(self) -> bool {
        matches!(
            self,
            BatchState::Pending
                | BatchState::Processing
                | BatchState::Reporting
                | BatchState::UpdateReporting
        )
    }

    /// States in which the jobs that ended are being counted: none may come back meanwhile.
    pub fn is_reporting(self) -> bool {
        matches!(self, BatchState::Reporting | BatchState::UpdateReporting)
    }
}

pub use picture::{diagram, rows, table};
