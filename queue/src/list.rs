//! Jobs and batches for people: by filter, in pages, without loading the tree.
//!
//! **What it costs.** A page lists names once (of a batch's lists, of the queues, or of `/jobs`: the
//! shortest that the filter allows), unless they are so many that they are known or kept ([`Names`]), and reads details only of what it shows and of what the filter
//! has to look into. A few reads are under way at a time, however long the page. Counts per state are
//! one `exists` each.
//!
//! **Pages are in the order of ids**, or the other way round with `newest_first`, and a cursor is the place
//! after an id in that order: a job that is there all the time is shown once, whatever comes, goes or changes its priority between two pages. A page can be
//! short, even empty, before the end: a filter that rarely matches is interrupted after [`MAX_LOOKS`].
//! The end is a page without `next`.
//!
//! **A listing is a hint**: each node is read at its own moment. A job that goes back (released,
//! requeued) from one queue to an earlier one just while both are listed may be missing from a page.
//!
//! **When things break.** What cannot be read is in `unreadable`, and the listing goes on. What vanishes
//! meanwhile is left out. An error of the store ends the call; nothing was changed, so ask again.

mod access;
mod batches;
mod candidates;
mod filter;
mod job_line;
mod kept;
mod node;
mod walk;

use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;

use futures::stream::{self, StreamExt, TryStreamExt};
use ingest_store::{Session, Stat};
use serde::{Deserialize, Serialize};

pub use access::{AccessFilter, AccessLine, access};
pub use batches::{BatchFilter, BatchLine, Expanded, ListCounts, batch, batches, held_jobs};
pub(crate) use candidates::names_in;
pub use filter::Filter;
pub(crate) use job_line::job_line;
pub use job_line::{JobLine, jobs};
pub use kept::{Kept, Names};
pub use node::{LockedBy, Unread};
pub use walk::{Chunk, Selected, Walk, walk};
pub(crate) use walk::{still_selects, walk_again};

use crate::error::{Error, Result};
use crate::map;
use crate::reads;
use crate::states::JobState;

/// How many jobs or batches a page may have.
pub const MAX_LIMIT: usize = 1_000;

/// How many candidates are looked at for one page at the most.
pub const MAX_LOOKS: usize = 5_000;

/// How many reads of one listing are under way at a time.
const READS: usize = 16;

/// How many names that are no ids are reported.
const BAD_NAMES: usize = 100;

/// Which page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PageRequest {
    /// 1 to [`MAX_LIMIT`].
    pub limit: usize,
    /// The `next` of the page before; the first page without.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// From the highest id down: what was created last comes first.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub newest_first: bool,
}

impl Default for PageRequest {
    fn default() -> Self {
        Self { limit: 50, after: None, newest_first: false }
    }
}

impl PageRequest {
    /// The limit and the id to go on after.
    fn read<I: FromStr>(&self) -> Result<(usize, Option<I>)> {
        if !(1..=MAX_LIMIT).contains(&self.limit) {
            return Err(Error::Invalid(format!("a page has 1 to {MAX_LIMIT} lines, not {}", self.limit)));
        }
        let after = self.after.as_deref().map(|cursor| {
            cursor.parse().map_err(|_| {
                let cursor: String = cursor.chars().take(40).collect();
                Error::Invalid(format!("`{cursor}` is not a cursor: give the `next` of the page before"))
            })
        });
        Ok((self.limit, after.transpose()?))
    }
}

/// A page of jobs or of batches.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Page<T> {
    pub lines: Vec<T>,
    /// Where the next page begins. `None`: this was the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// What could not be read. Names that are no ids are reported with the first page only.
    pub unreadable: Vec<Unread>,
    /// How many candidates were looked at, and how many are left for later pages.
    pub looked_at: usize,
    pub left: usize,
}

/// What a look at one job or batch has shown.
#[derive(Debug)]
struct Look<T> {
    line: Option<T>,
    unreadable: Vec<Unread>,
}

impl<T> Look<T> {
    fn line(line: T) -> Self {
        Self { line: Some(line), unreadable: Vec::new() }
    }

    fn nothing() -> Self {
        Self { line: None, unreadable: Vec::new() }
    }

    fn unreadable(what: Unread) -> Self {
        Self { line: None, unreadable: vec![what] }
    }
}

/// Looks at the candidates, in their order, until the page is full.
async fn turn<I, T, F>(ids: &[I], limit: usize, width: usize, look: impl Fn(I) -> F) -> Result<Page<T>>
where
    I: Copy + Display,
    F: Future<Output = Result<Look<T>>>,
{
    let (mut lines, mut unreadable, mut looked_at) = (Vec::new(), Vec::new(), 0);
    let mut looks = stream::iter(ids.iter().copied().take(MAX_LOOKS)).map(look).buffered(width);
    while lines.len() < limit
        && unreadable.len() < limit
        && let Some(look) = looks.try_next().await?
    {
        looked_at += 1;
        lines.extend(look.line);
        unreadable.extend(look.unreadable);
    }
    let left = ids.len() - looked_at;
    let last = ids[..looked_at].last().filter(|_| left > 0);
    Ok(Page { lines, next: last.map(ToString::to_string), unreadable, looked_at, left })
}

/// How many reads may be under way: a listing must not take the slots of those who work.
fn width(session: &Session) -> usize {
    (session.limits().max_requests / 4).clamp(1, READS)
}

/// How many jobs are in each state, as of one moment. States that have no queue here are left out. A completed job leaves its
/// queue some day, so whatever is in no other queue counts as completed.
pub async fn counts(session: &Session) -> Result<BTreeMap<JobState, usize>> {
    let mut dirs: Vec<String> = JobState::ALL.iter().map(|state| map::queue(*state)).collect();
    dirs.push(map::JOBS.to_owned());
    let found = reads::get_many(session, dirs).await?;
    let size = |stat: &Stat| usize::try_from(stat.num_children).unwrap_or(0);
    let sizes: Vec<_> = found.iter().map(|found| found.as_ref().map(|(_, stat)| size(stat))).collect();
    // The queues lie beside the jobs.
    let all = sizes.last().copied().flatten().map_or(0, |names| names.saturating_sub(1));
    let counts = JobState::ALL.iter().zip(sizes).filter_map(|(state, size)| Some((*state, size?)));
    let mut counts: BTreeMap<JobState, usize> = counts.collect();
    let others: usize =
        counts.iter().filter(|(state, _)| **state != JobState::Completed).map(|(_, count)| count).sum();
    if let Some(completed) = counts.get_mut(&JobState::Completed) {
        *completed = (*completed).max(all.saturating_sub(others));
    }
    Ok(counts)
}

/// How many children a node has; `None` if it is not there.
async fn children(session: &Session, path: String) -> Result<Option<usize>> {
    let stat = reads::exists(session, path).await?;
    Ok(stat.map(|stat| usize::try_from(stat.num_children).unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Turns a page of the numbers that are divisible by this.
    async fn page_of(ids: &[usize], limit: usize, by: usize) -> (Page<usize>, usize) {
        let looks = Cell::new(0);
        let look = |id: usize| {
            looks.set(looks.get() + 1);
            std::future::ready(Ok(if id.is_multiple_of(by) { Look::line(id) } else { Look::nothing() }))
        };
        (turn(ids, limit, 4, look).await.unwrap(), looks.get())
    }

    #[tokio::test]
    async fn a_page_looks_at_little_more_than_it_shows() {
        let ids: Vec<usize> = (0..1_000).collect();
        let (page, looks) = page_of(&ids, 10, 1).await;
        assert_eq!((page.lines.len(), page.next.as_deref(), page.left), (10, Some("9"), 990));
        assert!(looks <= 14, "{looks}");
    }

    #[tokio::test]
    async fn a_filter_that_rarely_matches_is_interrupted_and_goes_on_from_there() {
        let ids: Vec<usize> = (1..=MAX_LOOKS + 2).collect();
        let (page, looks) = page_of(&ids, 10, MAX_LOOKS + 1).await;
        assert_eq!((page.lines.len(), page.left, looks), (0, 2, MAX_LOOKS));
        assert_eq!(page.next, Some(MAX_LOOKS.to_string()));
        let (rest, _) = page_of(&ids[MAX_LOOKS..], 10, MAX_LOOKS + 1).await;
        assert_eq!((rest.lines, rest.next), (vec![MAX_LOOKS + 1], None));
    }

    #[tokio::test]
    async fn a_page_ends_when_too_much_is_unreadable() {
        let ids: Vec<usize> = (0..100).collect();
        let bad = |id: usize| Unread { path: id.to_string(), why: String::new() };
        let page =
            turn::<_, (), _>(&ids, 10, 4, |id| std::future::ready(Ok(Look::unreadable(bad(id))))).await;
        let page = page.unwrap();
        assert_eq!((page.unreadable.len(), page.next.as_deref()), (10, Some("9")));
    }

    #[test]
    fn a_page_request_is_checked() {
        let read = |limit, after: Option<&str>| {
            PageRequest { limit, after: after.map(str::to_owned), ..PageRequest::default() }
                .read::<crate::ids::Jid>()
        };
        assert!(read(50, Some("jid0000000007")).is_ok());
        assert!(read(0, None).unwrap_err().to_string().contains("1 to 1000"));
        assert!(read(1_001, None).is_err());
        assert!(read(5, Some("page2")).unwrap_err().to_string().contains("`page2` is not a cursor"));
    }
}
