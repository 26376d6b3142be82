//! Sources that are documents: one is asked for, which has items, and leads to others.
//!
//! What a document means is the [`Format`]'s to say; reading them one after the other, within bounds, is the same for all.
//!
//! **When things break.** A document that cannot be fetched or read ends the round: nothing of it is consumed.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use ingest_queue::ids::Bid;
use url::Url;

use super::news::{Gather, Seen};
use super::pages::{Pages, wrong};
use super::settings::Web;
use super::{Item, News, Source};
use crate::fetch::Fetcher;
use crate::outcome::{Cancel, Failure, Result};

/// How the documents of a kind of source are read.
pub trait Format: Debug + Send + Sync + 'static {
    /// Gathers the items of a document, and answers which documents are to be read after it. `depth`: how many have led
    /// to it.
    fn read(
        &self,
        document: &[u8],
        at: &Url,
        depth: usize,
        gather: &mut Gather<'_>,
    ) -> Result<Vec<Url>, String>;
}

#[derive(Debug)]
pub struct Paged<F> {
    fetcher: Arc<Fetcher>,
    web: Arc<Web>,
    seen: Seen,
    format: F,
}

impl<F: Format> Paged<F> {
    pub fn new(fetcher: Arc<Fetcher>, web: Arc<Web>, format: F) -> Self {
        Self { fetcher, web, seen: Seen::default(), format }
    }

    async fn news(&mut self, last: &str, cancel: &Cancel) -> Result<News> {
        let mut gather = Gather::new(last, self.web.overlap, &mut self.seen).map_err(Failure::fail)?;
        let mut pages = Pages::new(&self.fetcher, self.web.max_pages);
        let mut open = VecDeque::from([(self.web.url.clone(), 0)]);
        while let Some((url, depth)) = open.pop_front() {
            let document = pages.get(&url, cancel).await?;
            let more = self.format.read(&document, &url, depth, &mut gather).map_err(wrong(&url))?;
            open.extend(more.into_iter().map(|url| (url, depth + 1)));
        }
        Ok(gather.finish())
    }
}

impl<F: Format> Source for Paged<F> {
    fn ask<'a>(&'a mut self, last: &'a str, cancel: &'a Cancel) -> BoxFuture<'a, Result<News>> {
        self.news(last, cancel).boxed()
    }

    fn taken<'a>(&'a mut self, item: &'a Item, _: Option<Bid>) -> BoxFuture<'a, Result<()>> {
        self.seen.add(item);
        std::future::ready(Ok(())).boxed()
    }

    fn interval(&self) -> Option<Duration> {
        Some(self.web.interval)
    }
}
