//! What can go wrong with a batch or a job, sorted by what the caller does next.

use std::fmt::Display;

use crate::date::Date;
use crate::ids::{Bid, Jid};
use crate::limits::rules::Semaphore;
use crate::states::Refused;

/// Result of a call on the queue.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why something was not done.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The state tables have no such move.
    #[error("{what}: {refused}")]
    Refused { what: String, refused: Refused },
    /// The tables have the move, and a rule forbids it just now.
    #[error("{what}: {why}")]
    Forbidden { what: String, why: String },
    /// Somebody is at work on it.
    #[error("{what} is busy on {node}{}", shown(*.since))]
    Busy { what: String, node: String, since: Option<Date> },
    /// The right to commit is gone: somebody else has been given the job, or it was taken away.
    #[error("{what} is not ours any more: {why}")]
    Lost { what: String, why: String },
    /// It was changed while it was looked at; look again.
    #[error("{what} was changed meanwhile: {why}")]
    Changed { what: String, why: String },
    /// It is not to be begun before then.
    #[error("{what} is not due before {until}")]
    NotDue { what: String, until: Date },
    #[error("there is no {0}")]
    NotFound(String),
    /// The batch is being deleted, and takes nothing any more.
    #[error("{0} is being deleted")]
    Deleting(Bid),
    /// A node holds what nobody can read. It goes to the quarantine, and the others go on.
    #[error("{path}: {why}")]
    Corrupt { path: String, why: String },
    /// All slots of a limit are taken: it waits for one.
    #[error("{what}: {semaphore} is at its limit of {limit}")]
    AtLimit { what: String, semaphore: Semaphore, limit: u32 },
    /// More or fewer jobs match than whoever asked has counted. Nothing was changed.
    #[error(
        "{what}: {matching} match now, and {expected} were expected; nothing was changed, so count again"
    )]
    NotExpected { what: String, expected: usize, matching: usize },
    /// What was asked for makes no sense.
    #[error("{0}")]
    Invalid(String),
    #[error(transparent)]
    Store(#[from] ingest_store::Error),
}

/// What to do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Say so to whoever asked: asking again cannot help.
    Tell,
    /// Look again, and decide again.
    LookAgain,
    /// Stop working on it: it is another's now.
    LetGo,
    /// Put it aside and go on with the others.
    Quarantine,
    /// What the store's own error says.
    Store(ingest_store::error::Next),
}

impl Error {
    pub fn next(&self) -> Next {
        match self {
            Error::Refused { .. }
            | Error::Forbidden { .. }
            | Error::Busy { .. }
            | Error::NotDue { .. }
            | Error::NotFound(_)
            | Error::Deleting(_)
            | Error::NotExpected { .. }
            | Error::Invalid(_) => Next::Tell,
            Error::Lost { .. } => Next::LetGo,
            Error::Changed { .. } | Error::AtLimit { .. } => Next::LookAgain,
            Error::Corrupt { .. } => Next::Quarantine,
            Error::Store(error) => Next::Store(error.next()),
        }
    }

    /// The store's own reason, if it is one of the store's.
    pub fn kind(&self) -> Option<ingest_store::Kind> {
        match self {
            Error::Store(error) => Some(error.kind()),
            _ => None,
        }
    }

    pub(crate) fn no_job(jid: Jid) -> Self {
        Error::NotFound(format!("job {jid}"))
    }

    pub(crate) fn no_batch(bid: Bid) -> Self {
        Error::NotFound(format!("batch {bid}"))
    }

    pub(crate) fn corrupt(path: impl Into<String>, why: impl Display) -> Self {
        Error::Corrupt { path: path.into(), why: format!("{why}") }
    }

    pub(crate) fn forbidden(what: impl Display, why: impl Into<String>) -> Self {
        Error::Forbidden { what: format!("{what}"), why: why.into() }
    }

    pub(crate) fn refused(what: impl Display, refused: Refused) -> Self {
        Error::Refused { what: format!("{what}"), refused }
    }

    pub(crate) fn changed(what: impl Display, why: impl Display) -> Self {
        Error::Changed { what: format!("{what}"), why: format!("{why}") }
    }

    pub(crate) fn lost(what: impl Display, why: impl Display) -> Self {
        Error::Lost { what: format!("{what}"), why: format!("{why}") }
    }
}

fn shown(date: Option<Date>) -> String {
    date.map(|date| format!(" since {date}")).unwrap_or_default()
}
