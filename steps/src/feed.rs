//! Feeds: where submissions come from by themselves.
//!
//! | to find | look in |
//! |---|---|
//! | what the configuration says of a feed | [`settings`] |
//! | what every source promises | [`Source`] |
//! | the sources | [`drop_box`], [`atom`], [`oai_pmh`], [`resource_sync`] |
//! | what is new, in order, by a checkpoint | [`news`] |
//! | one round: ask, and make a batch of each item | [`round()`] |
//! | what an item becomes | [`submission`] |
//! | documents, one after the other, read within bounds | [`paged`], [`pages`], [`xml`] |
//!
//! A source says what is new since a checkpoint; a round makes a batch of each item, in order, each in one multi with
//! the checkpoint that stands behind it. Nothing else remembers what was consumed.
//!
//! **When things break.** A source that cannot be asked, or that says what makes no sense, is a [`Failure`](crate::outcome::Failure): nothing of
//! that answer was consumed out of order, and it is asked again later. An item that can never become a batch (no payload, a
//! host that the profile forbids, an entry without id, date or address) is passed over, and holds up nobody: it is counted
//! once, and its reason is in the log and, with those of the last such items, in the feed's node. The checkpoint moves past
//! it if it has a date, and stays where it is if it has none. What was consumed twice is answered with its batch.

pub mod atom;
pub mod drop_box;
pub mod news;
pub mod oai_pmh;
pub mod paged;
pub mod pages;
pub mod resource_sync;
mod round;
pub mod settings;
pub mod submission;
pub mod xml;

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use ingest_queue::date::Date;
use ingest_queue::ids::Bid;
use ingest_queue::queue::Queue;
use url::Url;

use self::paged::Paged;
pub use self::round::{Broken, Round, round};
pub use self::settings::{Feed, Kind, Policy};
use crate::digest::Digest;
use crate::outcome::{Cancel, Result};
use crate::services::Services;

/// A file at a URL, and what was announced of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payload {
    pub url: Url,
    pub filename: Option<String>,
    pub size: Option<u64>,
    pub digest: Option<Digest>,
}

impl Payload {
    pub fn at(url: Url) -> Self {
        Self { url, filename: None, size: None, digest: None }
    }
}

/// What an item is to become.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// A batch of these: one object each.
    Payload(Vec<Payload>),
    /// A file of this node that is not a payload yet: the source makes it one.
    File,
    /// Nothing, because it was deleted at its source: that is counted, and nothing is wrong.
    Deleted,
    /// Nothing, and why: somebody should know.
    Nothing(String),
}

/// Something new.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// Tells it from every other of its feed, and one version of it from the next.
    pub id: String,
    /// Where the checkpoint stands when it was consumed.
    pub last: String,
    /// When it came into being, as the source says.
    pub date: Option<Date>,
    pub what: What,
    pub local_id: Option<String>,
    pub title: Option<String>,
    pub creator: Option<String>,
    pub when: Option<String>,
}

impl Item {
    pub fn new(id: impl Into<String>, what: What) -> Self {
        Self {
            id: id.into(),
            last: String::new(),
            date: None,
            what,
            local_id: None,
            title: None,
            creator: None,
            when: None,
        }
    }
}

/// What a source says when it is asked.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct News {
    /// In the order in which they are consumed.
    pub items: Vec<Item>,
    /// There is more: ask again at once.
    pub more: bool,
}

/// Where a feed comes from. One who consumes has one; it may remember what it likes, and is thrown away with it.
pub trait Source: Send + Debug {
    /// What is new since the checkpoint.
    fn ask<'a>(&'a mut self, last: &'a str, cancel: &'a Cancel) -> BoxFuture<'a, Result<News>>;

    /// The payload of an item that is a file; nothing if it is not there any more. A [`Failure::Fail`] is about this item
    /// alone: it is passed over, stays where it is, and is tried again when the source is asked again.
    ///
    /// [`Failure::Fail`]: crate::outcome::Failure::Fail
    fn prepare<'a>(&'a mut self, item: &'a Item, _: &'a Cancel) -> BoxFuture<'a, Result<Option<Payload>>> {
        let _ = item;
        Box::pin(std::future::ready(Ok(None)))
    }

    /// An item has been consumed: as a batch, or as nothing.
    fn taken<'a>(&'a mut self, item: &'a Item, bid: Option<Bid>) -> BoxFuture<'a, Result<()>> {
        let _ = (item, bid);
        Box::pin(std::future::ready(Ok(())))
    }

    /// Waits until the source itself says that there may be something new. Those that cannot say so never do.
    fn told(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::pending())
    }

    /// How long to wait before it is asked again, if it does not tell.
    fn interval(&self) -> Option<Duration>;

    /// Removes what nobody needs any more; answers how much that was.
    fn tidy<'a>(&'a mut self, queue: &'a Queue) -> BoxFuture<'a, Result<usize>> {
        let _ = queue;
        Box::pin(std::future::ready(Ok(0)))
    }
}

/// Opens the source of a feed.
pub async fn open(name: &str, feed: &Feed, services: &Services) -> Result<Box<dyn Source>> {
    let fetcher = services.fetcher.clone();
    Ok(match &feed.kind {
        Kind::DropBox(settings) => {
            let (urls, roots) = (services.settings.urls.clone(), &services.settings.fetch.file_roots);
            Box::new(drop_box::DropBox::open(name, settings.clone(), urls, roots).await?)
        }
        Kind::Atom(web) => Box::new(Paged::new(fetcher, Arc::new(web.clone()), atom::Atom)),
        Kind::OaiPmh(oai) => Box::new(oai_pmh::OaiPmh::new(fetcher, Arc::new(oai.clone()))),
        Kind::ResourceSync(web) => {
            Box::new(Paged::new(fetcher, Arc::new(web.clone()), resource_sync::ResourceSync))
        }
    })
}
