//! `ResourceSync` (ANSI/NISO Z39.99), and plain sitemaps.
//!
//! From a source description or a capability list it finds the resource lists and the change lists, each whole or by an
//! index. The first time all resources are new; after that the changes are, or, where there are no change lists, the
//! resources again. A resource is an item for each time that it was modified; `length` and `hash` are what the payload is
//! compared with. A deleted resource is passed over: what is kept stays.
//!
//! **When things break.** A resource without any date is told from its next version by its digest only, and is looked for
//! in the tree each time that whoever consumes the feed has begun anew.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use ingest_queue::ids::Bid;
use url::Url;

use super::atom::web_url;
use super::news::{self, Gather, Seen};
use super::pages::{Pages, digest, wrong};
use super::settings::Web;
use super::xml::{self, Element};
use super::{Item, News, Payload, Source, What};
use crate::fetch::Fetcher;
use crate::outcome::{Cancel, Failure, Result};

/// Deeper than a description, its capability lists, their indexes and lists nothing is.
const DEEPEST: usize = 5;

#[derive(Debug)]
pub struct ResourceSync {
    fetcher: Arc<Fetcher>,
    web: Arc<Web>,
    seen: Seen,
}

/// What a document lists.
#[derive(Debug, Default)]
struct Document {
    index: bool,
    capability: Option<String>,
    entries: Vec<Element>,
}

impl ResourceSync {
    pub fn new(fetcher: Arc<Fetcher>, web: Arc<Web>) -> Self {
        Self { fetcher, web, seen: Seen::default() }
    }

    async fn news(&mut self, last: &str, cancel: &Cancel) -> Result<News> {
        let mut gather = Gather::new(last, self.web.overlap, &mut self.seen).map_err(Failure::fail)?;
        let mut pages = Pages::new(&self.fetcher, self.web.max_pages);
        let mut open = VecDeque::from([(self.web.url.clone(), 0)]);
        while let Some((url, depth)) = open.pop_front() {
            let bytes = pages.get(&url, cancel).await?;
            let document = document(&bytes).map_err(wrong(&url))?;
            let capability = document.capability.as_deref().unwrap_or("resourcelist");
            let leads = document.index || matches!(capability, "description" | "capabilitylist");
            if !leads {
                for entry in &document.entries {
                    gather.add(resource(entry, &url).map_err(wrong(&url))?);
                }
                continue;
            }
            if depth >= DEEPEST {
                return Err(wrong(&url)("lists lead to lists too often".into()));
            }
            for entry in wanted(&document, gather.from()) {
                let at = entry.text_of("loc").unwrap_or_default();
                open.push_back((web_url(&url, at).map_err(wrong(&url))?, depth + 1));
            }
        }
        Ok(gather.finish())
    }
}

fn document(bytes: &[u8]) -> Result<Document, String> {
    let (mut found, mut root) = (Document::default(), None);
    xml::read(bytes, &["url", "sitemap", "md"], |element| {
        match element.name.as_str() {
            name if root.is_none() => root = Some(name.to_owned()),
            "md" => {
                let capability = element.attribute("capability").map(str::to_owned);
                found.capability = found.capability.take().or(capability);
            }
            _ => found.entries.push(element),
        }
        Ok(())
    })?;
    found.index = match root.as_deref() {
        Some("sitemapindex") => true,
        Some("urlset") => false,
        other => return Err(format!("it is `{}`, and no sitemap", other.unwrap_or_default())),
    };
    Ok(found)
}

/// The documents that have to be read.
fn wanted(document: &Document, from: Option<ingest_queue::date::Date>) -> Vec<&Element> {
    let capability = |entry: &Element| {
        entry.child("md").and_then(|md| md.attribute("capability")).unwrap_or_default().to_owned()
    };
    if document.capability.as_deref() == Some("capabilitylist") && !document.index {
        let of = |name: &str| -> Vec<&Element> {
            document.entries.iter().filter(|entry| capability(entry) == name).collect()
        };
        let (mut wanted, changes) = (of("resourcelist"), of("changelist"));
        if from.is_some() && !changes.is_empty() {
            wanted.clear();
        }
        wanted.extend(changes);
        return wanted;
    }
    // A list that has ended before is of no interest.
    let is_old = |entry: &&Element| {
        let until = entry.child("md").and_then(|md| md.attribute("until")).and_then(news::time);
        until.zip(from).is_some_and(|(until, from)| until < from)
    };
    document.entries.iter().filter(|entry| !is_old(entry)).collect()
}

fn resource(entry: &Element, base: &Url) -> Result<Item, String> {
    let loc = entry.text_of("loc").ok_or("an entry has no `loc`")?;
    let url = web_url(base, loc)?;
    let md = entry.child("md");
    let of = |name: &str| md.and_then(|md| md.attribute(name));
    let date = entry.text_of("lastmod").or(of("datetime")).and_then(news::time);
    let version = date.map(|date| date.to_string()).or_else(|| of("hash").map(str::to_owned));
    let id = format!("{url} {}", version.unwrap_or_default());
    let what = if of("change") == Some("deleted") {
        What::Nothing("it was deleted there".into())
    } else {
        let size = of("length").and_then(|length| length.trim().parse().ok());
        What::Payload(vec![Payload { size, digest: of("hash").and_then(digest), ..Payload::at(url.clone()) }])
    };
    Ok(Item { date, local_id: Some(url.to_string()), ..Item::new(id, what) })
}

impl Source for ResourceSync {
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
