//! OAI-PMH 2.0.
//!
//! A record is an item for each datestamp that it has had. It is asked for with `from` the checkpoint less the overlap, and
//! read to the last resumption token. Its payload is what its first `dc:identifier` that is a URL leads to, or the record
//! itself, which is fetched by `GetRecord` like any other file. A deleted record is passed over: what is kept stays.
//!
//! **When things break.** A record without identifier or datestamp is passed over with that reason. An error of the protocol
//! fails the round, except that nothing matches. A token that comes again
//! leads in a circle. One that has expired fails the round, and the next one begins it anew.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use ingest_queue::date::Date;
use ingest_queue::ids::Bid;
use url::Url;

use super::news::{self, Gather, Seen};
use super::pages::{Pages, unusable, wrong};
use super::settings::{Harvest, OaiPmh as Settings};
use super::xml::{self, Element};
use super::{Item, News, Payload, Source, What};
use crate::fetch::Fetcher;
use crate::outcome::{Cancel, Failure, Result};

#[derive(Debug)]
pub struct OaiPmh {
    fetcher: Arc<Fetcher>,
    settings: Arc<Settings>,
    seen: Seen,
    /// Whether it knows of times, or of days only.
    by_seconds: Option<bool>,
}

#[derive(Debug, Default)]
struct Page {
    records: Vec<Item>,
    token: Option<String>,
    granularity: Option<String>,
    /// An error of the protocol: its code, and what is said about it.
    error: Option<(String, String)>,
}

impl OaiPmh {
    pub fn new(fetcher: Arc<Fetcher>, settings: Arc<Settings>) -> Self {
        Self { fetcher, settings, seen: Seen::default(), by_seconds: None }
    }

    async fn news(&mut self, last: &str, cancel: &Cancel) -> Result<News> {
        let settings = self.settings.clone();
        let mut pages = Pages::new(&self.fetcher, settings.web.max_pages.saturating_add(1));
        let by_seconds = match self.by_seconds {
            Some(known) => known,
            None => granularity(&mut pages, &settings, cancel).await?,
        };
        self.by_seconds = Some(by_seconds);
        let mut gather = Gather::new(last, settings.web.overlap, &mut self.seen).map_err(Failure::fail)?;
        let mut next = Some(first(&settings, gather.from(), by_seconds));
        while let Some(url) = next.take() {
            let document = pages.get(&url, cancel).await?;
            let page = page(&document, &settings).map_err(wrong(&url))?;
            match page.error {
                Some((code, _)) if code == "noRecordsMatch" => break,
                Some((code, why)) => return Err(wrong(&url)(format!("{code}: {why}"))),
                None => {}
            }
            page.records.into_iter().for_each(|record| gather.add(record));
            next = page.token.map(|token| {
                request(&settings, &[("verb", verb(&settings)), ("resumptionToken", token.as_str())])
            });
        }
        Ok(gather.finish())
    }
}

async fn granularity(pages: &mut Pages<'_>, settings: &Settings, cancel: &Cancel) -> Result<bool> {
    let url = request(settings, &[("verb", "Identify")]);
    let document = pages.get(&url, cancel).await?;
    let page = page(&document, settings).map_err(wrong(&url))?;
    if let Some((code, why)) = page.error {
        return Err(wrong(&url)(format!("{code}: {why}")));
    }
    Ok(page.granularity.is_some_and(|text| text.contains("hh")))
}

/// What is listed: whole records only where something of them is needed.
fn verb(settings: &Settings) -> &'static str {
    match settings.payload {
        Harvest::Resource => "ListRecords",
        Harvest::Metadata => "ListIdentifiers",
    }
}

fn request(settings: &Settings, arguments: &[(&str, &str)]) -> Url {
    let mut url = settings.web.url.clone();
    url.query_pairs_mut().extend_pairs(arguments);
    url
}

fn first(settings: &Settings, from: Option<Date>, by_seconds: bool) -> Url {
    let mut arguments = vec![("verb", verb(settings)), ("metadataPrefix", settings.prefix.as_str())];
    let from = from.map(|from| from.to_string());
    // In whole seconds, or whole days.
    let from = from.as_deref().and_then(|from| from.get(..if by_seconds { 19 } else { 10 }));
    let from = from.map(|from| if by_seconds { format!("{from}Z") } else { from.to_owned() });
    arguments.extend(from.as_deref().map(|from| ("from", from)));
    arguments.extend(settings.set.as_deref().map(|set| ("set", set)));
    request(settings, &arguments)
}

fn page(document: &[u8], settings: &Settings) -> Result<Page, String> {
    let mut page = Page::default();
    let mut root = None;
    xml::read(document, &["record", "header", "resumptionToken", "error", "granularity"], |element| {
        let text = element.text.trim();
        match element.name.as_str() {
            name if root.is_none() => root = Some(name.to_owned()),
            "record" | "header" => page.records.push(record(&element, settings)),
            "resumptionToken" if !text.is_empty() => page.token = Some(text.to_owned()),
            "granularity" => page.granularity = Some(text.to_owned()),
            "error" => {
                let code = element.attribute("code").unwrap_or("an error").to_owned();
                page.error = Some((code, text.chars().take(300).collect()));
            }
            _ => {}
        }
        Ok(())
    })?;
    match root.as_deref() {
        Some("OAI-PMH") => Ok(page),
        other => Err(format!("it is `{}`, and no answer of OAI-PMH", other.unwrap_or_default())),
    }
}

fn record(element: &Element, settings: &Settings) -> Item {
    let header = if element.name == "header" { Some(element) } else { element.child("header") };
    let text = |name| header.and_then(|header| header.text_of(name));
    let datestamp = text("datestamp").unwrap_or_default();
    let (identifier, date) = (text("identifier"), news::time(datestamp));
    let (Some(header), Some(identifier), Some(date)) = (header, identifier, date) else {
        let why = match (header, identifier) {
            (None, _) => "a record has no header".to_owned(),
            (_, None) => "a record has no identifier".to_owned(),
            _ => format!("its datestamp is `{datestamp:.200}`, and that is no date"),
        };
        let id = identifier.map(|identifier| format!("{identifier} {datestamp}"));
        return unusable(element, id.as_deref().map(str::trim_end), date, why);
    };
    let metadata = element.child("metadata").and_then(|metadata| metadata.children.first());
    let what = match settings.payload {
        _ if header.attribute("status") == Some("deleted") => What::Deleted,
        Harvest::Metadata => What::Payload(vec![itself(identifier, settings)]),
        Harvest::Resource => match metadata.and_then(resource) {
            Some(url) => What::Payload(vec![Payload::at(url)]),
            None => What::Nothing("no dc:identifier of it is a URL".into()),
        },
    };
    let text = |name| metadata.and_then(|metadata| metadata.text_of(name)).map(str::to_owned);
    Item {
        date: Some(date),
        local_id: Some(identifier.to_owned()),
        title: text("title"),
        creator: text("creator"),
        when: text("date"),
        ..Item::new(format!("{identifier} {date}"), what)
    }
}

fn resource(metadata: &Element) -> Option<Url> {
    let urls = metadata.all("identifier").filter_map(|one| Url::parse(one.text.trim()).ok());
    urls.into_iter().find(|url| matches!(url.scheme(), "http" | "https"))
}

/// The record as a file.
fn itself(identifier: &str, settings: &Settings) -> Payload {
    let arguments =
        [("verb", "GetRecord"), ("identifier", identifier), ("metadataPrefix", settings.prefix.as_str())];
    let fits = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '.') { c } else { '_' };
    let name: String = identifier.chars().take(100).map(fits).collect();
    let filename = Some(format!("{}.xml", name.trim_start_matches('.')));
    Payload { filename, ..Payload::at(request(settings, &arguments)) }
}

impl Source for OaiPmh {
    fn ask<'a>(&'a mut self, last: &'a str, cancel: &'a Cancel) -> BoxFuture<'a, Result<News>> {
        self.news(last, cancel).boxed()
    }

    fn taken<'a>(&'a mut self, item: &'a Item, _: Option<Bid>) -> BoxFuture<'a, Result<()>> {
        self.seen.add(item);
        std::future::ready(Ok(())).boxed()
    }

    fn interval(&self) -> Option<Duration> {
        Some(self.settings.web.interval)
    }
}
