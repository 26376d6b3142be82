//! `ResourceSync` (ANSI/NISO Z39.99), and plain sitemaps.
//!
//! From a source description or a capability list it finds the resource lists and the change lists, each whole or by an
//! index. The first time all resources are new; after that the changes are, or, where there are no change lists, the
//! resources again. A resource is an item for each time that it was modified; `length` and `hash` are what the payload is
//! compared with. A deleted resource is passed over: what is kept stays.
//!
//! **When things break.** A resource without any date is told from its next version by its digest only, and is looked for
//! in the tree each time that whoever consumes the feed has begun anew.

use url::Url;

use super::news::{self, Gather};
use super::paged::Format;
use super::pages::{announced, web_url};
use super::xml::{self, Element};
use super::{Item, What};

/// Deeper than a description, its capability lists, their indexes and lists nothing is.
const DEEPEST: usize = 5;

#[derive(Debug)]
pub struct ResourceSync;

/// What a document lists.
#[derive(Debug, Default)]
struct Document {
    index: bool,
    capability: Option<String>,
    entries: Vec<Element>,
}

impl Format for ResourceSync {
    fn read(
        &self,
        bytes: &[u8],
        at: &Url,
        depth: usize,
        gather: &mut Gather<'_>,
    ) -> Result<Vec<Url>, String> {
        let document = document(bytes)?;
        let capability = document.capability.as_deref().unwrap_or("resourcelist");
        if !document.index && !matches!(capability, "description" | "capabilitylist") {
            for entry in &document.entries {
                gather.add(resource(entry, at)?);
            }
            return Ok(Vec::new());
        }
        if depth >= DEEPEST {
            return Err("lists lead to lists too often".into());
        }
        let wanted = wanted(&document, gather.from());
        wanted.into_iter().map(|entry| web_url(at, entry.text_of("loc").unwrap_or_default())).collect()
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
        What::Payload(vec![announced(url.clone(), of("length"), of("hash"))])
    };
    Ok(Item { date, local_id: Some(url.to_string()), ..Item::new(id, what) })
}
