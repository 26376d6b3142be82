//! `ResourceSync` (ANSI/NISO Z39.99), and plain sitemaps.
//!
//! From a source description or a capability list it finds the resource lists and the change lists, each whole or by an
//! index. At first all resources are new, and are listed until the last of them was consumed; after that the changes are, or,
//! where there are no change lists, the resources again. A resource is an item for each time that it was modified; `length` and `hash` are what the payload is
//! compared with. A deleted resource is passed over: what is kept stays.
//!
//! A change has the date at which it happened, the `datetime` of its `rs:md`; a resource has that of its content, `lastmod`.
//! Each stands in for the other where it is missing. So a change whose `datetime` is not the `lastmod` that the resource list
//! had is an item of its own.
//!
//! **When things break.** An entry without `loc`, or whose `loc` leads out of the web, is passed over with that reason. A
//! capability that is not ingested (dumps, archives, whatever comes later) is refused by name: its entries are not resources.
//! A resource without any date is told from its next version by its digest only, and is looked for
//! in the tree each time that whoever consumes the feed has begun anew.

use ingest_queue::date::Date;
use url::Url;

use super::news::{self, Gather};
use super::paged::Format;
use super::pages::{announced, unusable, web_url};
use super::xml::{self, Element};
use super::{Item, What};

/// Deeper than a description, its capability lists, their indexes and lists nothing is.
const DEEPEST: usize = 5;

/// What the entries of a document are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Capability {
    Description,
    Capabilities,
    Resources,
    Changes,
}

impl Capability {
    /// By its name; a document without one is a plain sitemap.
    fn named(name: Option<&str>) -> Result<Self, String> {
        match name.unwrap_or(RESOURCES) {
            "description" => Ok(Capability::Description),
            "capabilitylist" => Ok(Capability::Capabilities),
            RESOURCES => Ok(Capability::Resources),
            CHANGES => Ok(Capability::Changes),
            other => Err(format!("it is a `{other:.100}`, which is not ingested; {INGESTED}")),
        }
    }
}

const RESOURCES: &str = "resourcelist";
const CHANGES: &str = "changelist";
const INGESTED: &str = "what is ingested is a `resourcelist`, a `changelist`, or a list that leads to these";

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
        let capability = Capability::named(document.capability.as_deref())?;
        let is_last = matches!(capability, Capability::Resources | Capability::Changes);
        if is_last && !document.index {
            for entry in &document.entries {
                gather.add(resource(entry, at, capability));
            }
            return Ok(Vec::new());
        }
        if depth >= DEEPEST {
            return Err("lists lead to lists too often".into());
        }
        let mut lists = Vec::new();
        let is_first = gather.first_of_all();
        for entry in wanted(&document, capability, gather.from(), is_first)? {
            match address(entry, at) {
                // Named twice, it is one.
                Ok(url) if lists.contains(&url) => {}
                Ok(url) => lists.push(url),
                Err(why) => gather.add(unusable(
                    entry,
                    entry.text_of("loc"),
                    None,
                    format!("it leads to no list: {why}"),
                )),
            }
        }
        Ok(lists)
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
fn wanted(
    document: &Document,
    is: Capability,
    from: Option<Date>,
    is_first: bool,
) -> Result<Vec<&Element>, String> {
    if is == Capability::Capabilities && !document.index {
        let of = |name: &str| -> Vec<&Element> {
            document.entries.iter().filter(|entry| attribute(entry, "capability") == Some(name)).collect()
        };
        let (mut wanted, changes) = (of(RESOURCES), of(CHANGES));
        if wanted.is_empty() && changes.is_empty() {
            let offered: Vec<_> =
                document.entries.iter().filter_map(|entry| attribute(entry, "capability")).collect();
            let offered = if offered.is_empty() { "nothing".to_owned() } else { offered.join(", ") };
            return Err(format!("it offers {offered:.200}; {INGESTED}"));
        }
        if !is_first && !changes.is_empty() {
            wanted.clear();
        }
        wanted.extend(changes);
        return Ok(wanted);
    }
    // A list that has ended before is of no interest.
    let is_old = |entry: &&Element| {
        let until = attribute(entry, "until").and_then(news::time);
        until.zip(from).is_some_and(|(until, from)| until < from)
    };
    Ok(document.entries.iter().filter(|entry| !is_old(entry)).collect())
}

/// What the `rs:md` of an entry says.
fn attribute<'a>(entry: &'a Element, name: &str) -> Option<&'a str> {
    entry.child("md").and_then(|md| md.attribute(name))
}

fn address(entry: &Element, base: &Url) -> Result<Url, String> {
    web_url(base, entry.text_of("loc").ok_or("an entry has no `loc`")?)
}

fn resource(entry: &Element, base: &Url, list: Capability) -> Item {
    let modified = entry.text_of("lastmod").and_then(news::time);
    let happened = attribute(entry, "datetime").and_then(news::time);
    let date = if list == Capability::Changes { happened.or(modified) } else { modified.or(happened) };
    let version = date.map(|date| date.to_string()).or_else(|| attribute(entry, "hash").map(str::to_owned));
    let version = version.unwrap_or_default();
    let url = match address(entry, base) {
        Ok(url) => url,
        Err(why) => {
            let id = entry.text_of("loc").map(|loc| format!("{loc} {version}"));
            return unusable(entry, id.as_deref(), date, why);
        }
    };
    let what = if attribute(entry, "change") == Some("deleted") {
        What::Deleted
    } else {
        let (length, hash) = (attribute(entry, "length"), attribute(entry, "hash"));
        What::Payload(vec![announced(url.clone(), length, hash)])
    };
    Item { date, local_id: Some(url.to_string()), ..Item::new(format!("{url} {version}"), what) }
}
