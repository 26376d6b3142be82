//! Atom (RFC 4287), in pages or archives (RFC 5005).
//!
//! An entry is an item for each time that it was `updated`. Its payload is what its `enclosure` links lead to, else its
//! content's `src`, else its `alternate` link; `length` and `hash` of a link are what the payload is compared with. Feeds
//! list the newest first and lead to older ones by `next` or `prev-archive`: as long as a page is in that order, those behind
//! the first that is too old are not read.
//!
//! **When things break.** An entry without id or date is passed over with that reason, and so is one of whose payloads one
//! has no address on the web. Entries that are
//! taken out of a feed between two of its pages may hide others; archives have no such gaps.

use ingest_queue::date::Date;
use url::Url;

use super::news::{self, Gather};
use super::paged::Format;
use super::pages::{announced, unusable, web_url};
use super::xml::{self, Element};
use super::{Item, Payload, What};

#[derive(Debug)]
pub struct Atom;

/// What stands on a page.
#[derive(Debug, Default)]
struct Page {
    entries: Vec<Item>,
    older: Option<Url>,
}

impl Format for Atom {
    fn read(&self, document: &[u8], at: &Url, _: usize, gather: &mut Gather<'_>) -> Result<Vec<Url>, String> {
        let page = page(document, at)?;
        let older = page.older.filter(|_| !is_behind(&page.entries, gather.from()));
        page.entries.into_iter().for_each(|entry| gather.add(entry));
        Ok(older.into_iter().collect())
    }
}

/// Whether what follows a page is too old: it is in order, and its end is. Entries without a date have no place in that.
fn is_behind(entries: &[Item], from: Option<Date>) -> bool {
    let dates: Vec<Date> = entries.iter().filter_map(|entry| entry.date).collect();
    let (Some(from), Some(oldest)) = (from, dates.last()) else { return false };
    dates.is_sorted_by(|newer, older| newer >= older) && *oldest < from
}

fn page(document: &[u8], url: &Url) -> Result<Page, String> {
    let mut page = Page::default();
    let mut root = None;
    xml::read(document, &["entry", "link"], |element| {
        match element.name.as_str() {
            name if root.is_none() => root = Some(name.to_owned()),
            "entry" => page.entries.push(entry(&element, url)),
            _ => {
                let leads = matches!(element.attribute("rel"), Some("next" | "prev-archive"));
                if let (true, Some(href)) = (leads && page.older.is_none(), element.attribute("href")) {
                    page.older = Some(web_url(url, href)?);
                }
            }
        }
        Ok(())
    })?;
    match root.as_deref() {
        Some("feed") => Ok(page),
        other => Err(format!("it is `{}`, and no Atom feed", other.unwrap_or_default())),
    }
}

fn entry(entry: &Element, base: &Url) -> Item {
    let Some(id) = entry.text_of("id") else {
        let date = entry.text_of("updated").and_then(news::time);
        let title = entry.text_of("title").unwrap_or_default();
        return unusable(entry, None, date, format!("an entry has no `id` (its title is `{title:.200}`)"));
    };
    let updated = entry.text_of("updated").unwrap_or_default();
    let Some(date) = news::time(updated) else {
        let why = match updated {
            "" => "it has no `updated`".to_owned(),
            _ => format!("its `updated` is `{updated:.200}`, and that is no date"),
        };
        return unusable(entry, Some(format!("{id} {updated}").trim_end()), None, why);
    };
    let what = match payloads(entry, base) {
        Ok(payloads) if payloads.is_empty() => What::Nothing("it leads to no payload".into()),
        Ok(payloads) => What::Payload(payloads),
        Err(why) => What::Nothing(why),
    };
    let text = |name| entry.text_of(name).map(str::to_owned);
    Item {
        date: Some(date),
        local_id: Some(id.to_owned()),
        title: text("title"),
        creator: entry.child("author").and_then(|author| author.text_of("name")).map(str::to_owned),
        when: text("published"),
        ..Item::new(format!("{id} {date}"), what)
    }
}

fn payloads(entry: &Element, base: &Url) -> Result<Vec<Payload>, String> {
    let of = |rel: &str| {
        let links = entry.all("link").filter(|link| link.attribute("rel").unwrap_or("alternate") == rel);
        links.filter_map(|link| link.attribute("href").map(|href| payload(link, href, base))).collect()
    };
    let enclosures: Vec<_> = of("enclosure");
    if !enclosures.is_empty() {
        return enclosures.into_iter().collect();
    }
    if let Some(content) = entry.child("content")
        && let Some(src) = content.attribute("src")
    {
        return Ok(vec![payload(content, src, base)?]);
    }
    let alternates: Vec<_> = of("alternate");
    alternates.into_iter().take(1).collect()
}

fn payload(link: &Element, href: &str, base: &Url) -> Result<Payload, String> {
    Ok(announced(web_url(base, href)?, link.attribute("length"), link.attribute("hash")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base() -> Url {
        Url::parse("https://example.org/feeds/a").unwrap()
    }

    fn of(entry: &str) -> Item {
        let text = format!(
            "<feed xmlns=\"http://www.w3.org/2005/Atom\"><entry><id>urn:1</id>\
             <updated>2026-01-01T00:00:00Z</updated>{entry}</entry></feed>"
        );
        page(text.as_bytes(), &base()).unwrap().entries.remove(0)
    }

    #[test]
    fn an_entry_leads_to_its_payload() {
        let hash = "b".repeat(64);
        let item = of(&format!(
            "<title>A &amp; B</title><author><name>Ann</name></author><link href=\"page.html\"/>\
             <link rel=\"enclosure\" href=\"../files/a%20b.zip\" length=\"12\" hash=\"sha-256:{hash}\"/>"
        ));
        assert_eq!((item.title.as_deref(), item.creator.as_deref()), (Some("A & B"), Some("Ann")));
        assert_eq!(item.id, "urn:1 2026-01-01T00:00:00.000Z");
        let What::Payload(payloads) = item.what else { panic!("{item:?}") };
        assert_eq!(payloads[0].url.as_str(), "https://example.org/files/a%20b.zip");
        assert_eq!((payloads[0].size, payloads[0].digest.as_ref().unwrap().hex()), (Some(12), hash.as_str()));
    }

    #[test]
    fn without_an_enclosure_it_is_the_content_or_the_page() {
        let url = |item: Item| match item.what {
            What::Payload(payloads) => payloads[0].url.to_string(),
            other => format!("{other:?}"),
        };
        assert!(url(of("<link href=\"x\"/><content src=\"c\"/>")).ends_with("/feeds/c"));
        assert!(url(of("<link href=\"x\"/>")).ends_with("/feeds/x"));
        assert!(url(of("")).contains("no payload"));
        assert!(url(of("<link rel=\"enclosure\" href=\"file:///etc/passwd\"/>")).contains("out of the web"));
    }

    #[test]
    fn what_is_no_feed_is_refused() {
        assert!(page(b"<rss><channel/></rss>", &base()).unwrap_err().contains("`rss`"));
    }
}
