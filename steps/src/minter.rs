//! Who mints identifiers: reserve a name, write it down, and publish it when there is something behind it.
//!
//! | implementation | names come from |
//! |---|---|
//! | [`local`] | a counter in the tree, through a template ([`noid`]) |
//! | [`ezid`] | an EZID service over HTTP |
//!
//! The order is always the same. [`Minter::reserve`] gives a name that nobody else has. The caller writes it
//! into the tree at once. [`Minter::publish`] makes it known, and may be repeated as often as one likes.
//!
//! **When things break.** Reserving is not repeatable: a name whose answer was lost stays reserved, and
//! nobody knows it. Then the failure says so, and [`MintRequest::key`] stands in the name's metadata where
//! the service keeps any, to find it by. A name is never given twice.

pub mod anvl;
pub mod ezid;
pub mod local;
pub mod noid;
mod notes;

use futures::future::BoxFuture;
use ingest_queue::date::Date;

use crate::ark::Ark;
use crate::outcome::Result;

pub use self::notes::Note;

/// What a name is wanted for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MintRequest {
    /// The same for all attempts of one job: by it a name that got lost is found.
    pub key: String,
    /// Whose object it is.
    pub owner: String,
    /// Creator, title and date of the object; a missing one is written as unassigned.
    pub who: Option<String>,
    pub what: Option<String>,
    pub when: Option<String>,
    /// Where the name leads to once it is public.
    pub target: Option<String>,
}

/// A name that was reserved, or may have been, and that nobody has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Orphan {
    /// Absent: the answer never came, so that the service alone knows it, if there is one.
    pub ark: Option<Ark>,
    /// The [`MintRequest::key`] that it was asked for with.
    pub key: String,
    pub since: Option<Date>,
}

/// A service that gives names.
pub trait Minter: std::fmt::Debug + Send + Sync {
    /// A name that was never given before. Not repeatable: every call takes another.
    fn reserve<'a>(&'a self, request: &'a MintRequest) -> BoxFuture<'a, Result<Ark>>;

    /// Makes a reserved name public, with what is known of the object by now. May be repeated.
    fn publish<'a>(&'a self, ark: &'a Ark, request: &'a MintRequest) -> BoxFuture<'a, Result<()>>;

    /// Names that were reserved, or may have been, and that nobody has; `None` where nobody can say.
    fn orphans(&self) -> BoxFuture<'_, Result<Option<Vec<Orphan>>>>;
}
