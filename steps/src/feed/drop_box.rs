//! A drop box: a directory into which files are put; each is a submission.
//!
//! Names that begin with a dot, or end like something that is not whole yet (`.part`, `.tmp`, `.filepart`, `~`), are not
//! looked at. Which others are ready says `ready` ([`Ready`]). They are consumed in the order of their time and name. What lies
//! in the box is what is left to do: the checkpoint says for people which file was the last, and nothing is passed over
//! because of it. The system tells of every change in the directory, and a file that has to be left alone for a while is
//! looked at when that while is over: nothing is polled.
//!
//! A file that is consumed goes to `.taken/KEY/payload`, on the same file system, beside a note of its name; from there the
//! node serves it, or, if the box lies below a directory of `fetch.file_roots`, any node reads it. KEY is made of its name, time and size: a file that is put there again, the same, is the same item. It
//! stays as long as its batch is in the tree.
//!
//! **When things break.** The file is moved before its batch is made. What is found in `.taken` without a batch after a crash
//! is consumed first; it has the same id, so that it becomes one batch, whenever the crash was. A directory that cannot be
//! read, or that is not there, is told, and tried again. What lies in the box and can never be taken (a directory, a link, a
//! name that no file of an object may have) and a file that cannot be read now stay there, are passed over with their
//! reasons, and hold up nobody; the latter is tried again when something changes.

mod place;
mod ready;
mod watching;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use ingest_queue::error::Error;
use ingest_queue::ids::Bid;
use ingest_queue::queue::Queue;
use tokio::sync::mpsc;
use tokio::time::Instant;
use url::Url;

use self::place::{Found, Key, KeyName, Place, Unusable};
use self::ready::{Judge, Verdict};
use self::watching::Watching;
use super::settings::{DropBox as Settings, Ready};
use super::{Item, News, Payload, Source, What};
use crate::digest::{Algorithm, Digests};
use crate::outcome::{Cancel, Failure, Progress, Result};
use crate::services::blocking;
use crate::urls::Urls;

/// So many files are consumed before the directory is looked at again.
const AT_ONCE: usize = 1_000;

#[derive(Debug)]
pub struct DropBox {
    name: String,
    place: Place,
    settings: Settings,
    urls: Option<Urls>,
    judge: Judge,
    /// What lies there, cannot be taken, and was told.
    told: HashSet<String>,
    /// When a file that has to be left alone may be ready.
    due: Option<Instant>,
    changed: mpsc::Receiver<()>,
    /// Tells as long as it lives.
    _watching: Watching,
}

/// Where the file of a signed URL lies: `FEED/KEY/NAME`. What is no key leads nowhere.
pub fn file_of(dir: &Path, key: &str) -> Option<PathBuf> {
    key.parse::<KeyName>().ok().map(|key| Place::new(dir).payload_of(&key))
}

impl DropBox {
    /// What lies below one of the roots is read by whoever needs it; the rest is served by this node.
    pub async fn open(name: &str, settings: Settings, urls: Option<Urls>, roots: &[PathBuf]) -> Result<Self> {
        let urls = urls.filter(|_| !is_below(&settings.path, roots));
        let place = Place::new(&settings.path);
        let here = place.clone();
        let (watching, changed) = blocking("opening", move || {
            here.open()?;
            watching::watch(here.dir()).map_err(|error| here.wrong(&error))
        })
        .await?;
        let judge = Judge::new(settings.ready, settings.stable);
        let name = name.to_owned();
        let told = HashSet::new();
        Ok(Self { name, place, settings, urls, judge, told, due: None, changed, _watching: watching })
    }

    async fn look(&mut self, last: &str) -> Result<News> {
        // What is told from here on is looked at again.
        while self.changed.try_recv().is_ok() {}
        let place = self.place.clone();
        let ((left, lost), Found { files, markers, unusable }) =
            blocking("reading the drop box", move || Ok((place.left_behind()?, place.look()?))).await?;
        let mut items: Vec<Item> = left.iter().map(item).collect();
        let unusable: Vec<Item> = lost.iter().chain(&unusable).map(|one| unusable_item(one, last)).collect();
        self.told.retain(|told| unusable.iter().any(|item| item.id == *told));
        items.extend(unusable.into_iter().filter(|item| !self.told.contains(&item.id)));
        let mut more = false;
        let Verdict { ready, due } = self.judge.all((files, markers), Instant::now());
        self.due = due;
        for key in ready {
            if items.len() >= AT_ONCE {
                more = true;
                break;
            }
            items.push(item(&key));
        }
        Ok(News { items, more })
    }

    async fn payload(&self, item: &Item, cancel: &Cancel) -> Result<Option<Payload>> {
        let Ok(key) = Key::of_item(&item.id) else { return Ok(None) };
        let (place, taken, cancel) = (self.place.clone(), key.clone(), cancel.clone());
        let found = blocking("taking a file", move || {
            if !place.take(&taken)? {
                return Ok(None);
            }
            let mut digests = Digests::of([Algorithm::Sha256]);
            let read = digests.read_whole(&place.payload(&taken), &Progress::default(), &cancel);
            read.map_err(|failure| match failure {
                Failure::Cancelled => Failure::Cancelled,
                // The others can perhaps be read.
                failure => Failure::fail(failure.to_string()),
            })?;
            Ok(Some((digests.bytes(), digests.finish().into_iter().next())))
        });
        let Some((size, digest)) = found.await? else { return Ok(None) };
        let file = self.place.payload(&key);
        let url = match &self.urls {
            Some(urls) => urls
                .sign(&format!("feeds/{}/{}/{}", self.name, key.hash(), key.name))
                .map_err(Failure::fail)?,
            None => Url::from_file_path(std::path::absolute(&file).unwrap_or(file))
                .map_err(|()| Failure::fail("a file that has no URL"))?,
        };
        Ok(Some(Payload { url, filename: Some(key.name), size: Some(size), digest }))
    }
}

fn is_below(dir: &Path, roots: &[PathBuf]) -> bool {
    let Ok(dir) = dir.canonicalize() else { return false };
    roots.iter().filter_map(|root| root.canonicalize().ok()).any(|root| dir.starts_with(root))
}

fn item(key: &Key) -> Item {
    Item {
        last: key.checkpoint(),
        date: Some(key.date()),
        local_id: Some(key.name.clone()),
        ..Item::new(key.item(), What::File)
    }
}

/// The checkpoint stays: it is the last file that was taken.
fn unusable_item(unusable: &Unusable, last: &str) -> Item {
    Item { last: last.to_owned(), ..Item::new(unusable.item(), What::Nothing(unusable.why.clone())) }
}

impl Source for DropBox {
    fn ask<'a>(&'a mut self, last: &'a str, _: &'a Cancel) -> BoxFuture<'a, Result<News>> {
        self.look(last).boxed()
    }

    fn prepare<'a>(
        &'a mut self,
        item: &'a Item,
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<Option<Payload>>> {
        self.payload(item, cancel).boxed()
    }

    fn taken<'a>(&'a mut self, item: &'a Item, bid: Option<Bid>) -> BoxFuture<'a, Result<()>> {
        let Ok(key) = Key::of_item(&item.id) else {
            self.told.insert(item.id.clone());
            return std::future::ready(Ok(())).boxed();
        };
        let (place, marked) = (self.place.clone(), self.settings.ready == Ready::Marker);
        blocking("noting a file", move || place.done(&key, bid, marked)).boxed()
    }

    fn told(&mut self) -> BoxFuture<'_, ()> {
        let due = self.due;
        let changed = &mut self.changed;
        async move {
            tokio::select! {
                Some(()) = changed.recv() => {}
                () = tokio::time::sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {}
            }
        }
        .boxed()
    }

    fn interval(&self) -> Option<Duration> {
        None
    }

    fn tidy<'a>(&'a mut self, queue: &'a Queue) -> BoxFuture<'a, Result<usize>> {
        async move {
            let place = self.place.clone();
            let kept = blocking("reading what was taken", move || place.consumed()).await?;
            let mut removed = 0;
            for (dir, bid) in kept {
                let gone = match bid {
                    Some(bid) => matches!(queue.batch(bid).await, Err(Error::NotFound(_))),
                    None => false,
                };
                if gone && tokio::fs::remove_dir_all(&dir).await.is_ok() {
                    removed += 1;
                }
            }
            Ok(removed)
        }
        .boxed()
    }
}
