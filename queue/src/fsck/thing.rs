//! What is checked and repaired as one: looked at, judged, confirmed.
//!
//! A look consists of several reads, so it may mix two moments. Two looks that are equal, with the
//! versions of everything in them, prove that the moment between them was as they say. Only that
//! is reported: work that goes on meanwhile gives no finding.

use futures::FutureExt;
use futures::future::BoxFuture;

use super::Context;
use super::batch::{self, BatchView};
use super::finding::Verdict;
use super::job::{self, Hints, JobView, Refs};
use super::lists::{self, ListsView};
use super::mark::{self, Mark, MarkView};
use super::reader::Reader;
use crate::error::Result;
use crate::ids::Bid;

/// How often a thing is looked at again because it changes.
const LOOKS: usize = 20;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Thing {
    Job(Hints),
    Batch(Bid),
    Lists(Bid),
    Mark(Mark, String),
}

/// A thing as it was seen.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum View {
    Job(Box<JobView>),
    Batch(Box<BatchView>),
    Lists(Box<ListsView>),
    Mark(Box<MarkView>),
}

impl Thing {
    /// What tells things of one kind apart, to bring findings of one thing together.
    pub(super) fn key(&self) -> String {
        match self {
            Thing::Job(hints) => hints.jid.to_string(),
            Thing::Batch(bid) | Thing::Lists(bid) => bid.to_string(),
            Thing::Mark(_, path) => path.clone(),
        }
    }

    /// Boxed: looks are large, and whoever waits for one should not be.
    fn look<'a>(&'a self, reader: &'a Reader) -> BoxFuture<'a, Result<View>> {
        let look = async move {
            Ok(match self {
                Thing::Job(hints) => View::Job(Box::new(job::look(reader, hints, Refs::Looked).await?)),
                Thing::Batch(bid) => View::Batch(Box::new(batch::look(reader, *bid).await?)),
                Thing::Lists(bid) => View::Lists(Box::new(lists::look(reader, *bid).await?.0)),
                Thing::Mark(mark, path) => View::Mark(Box::new(mark::look(reader, *mark, path).await?)),
            })
        };
        look.boxed()
    }

    /// The thing as it certainly was at one moment; `None` if it changed at every look.
    pub(super) async fn settled(&self, reader: &Reader) -> Result<Option<View>> {
        let mut before = self.look(reader).await?;
        for _ in 0..LOOKS {
            let now = self.look(reader).await?;
            if now == before {
                return Ok(Some(now));
            }
            before = now;
        }
        Ok(None)
    }
}

impl View {
    pub(super) fn judge(&self, context: &Context) -> Vec<Verdict> {
        match self {
            View::Job(view) => job::judge(view, context.dialect),
            View::Batch(view) => batch::judge(view, context),
            View::Lists(view) => lists::judge(view, context),
            View::Mark(view) => mark::judge(view, context).into_iter().collect(),
        }
    }
}
