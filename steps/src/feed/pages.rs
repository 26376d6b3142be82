//! Documents of a source, one after the other, so many at the most.
//!
//! They are fetched as payloads are: by the same rules of addresses, limits and retries.
//!
//! **When things break.** A page that leads to one that was read in the same round, or to more pages than make sense,
//! would be read for ever: the round fails with that reason, and nothing of it is consumed.

use std::collections::HashSet;

use bytes::Bytes;
use ingest_queue::date::Date;
use url::Url;

use super::xml::Element;
use super::{Item, Payload, What};
use crate::digest::Digest;
use crate::fetch::{Fetcher, redacted};
use crate::outcome::{Cancel, Failure, Result};

/// The largest document.
pub const LARGEST: u64 = 32 << 20;

/// The documents of one round.
#[derive(Debug)]
pub struct Pages<'f> {
    fetcher: &'f Fetcher,
    most: usize,
    read: HashSet<String>,
}

impl<'f> Pages<'f> {
    pub fn new(fetcher: &'f Fetcher, most: usize) -> Self {
        Self { fetcher, most, read: HashSet::new() }
    }

    pub async fn get(&mut self, url: &Url, cancel: &Cancel) -> Result<Bytes> {
        let shown = redacted(url);
        if !self.read.insert(url.as_str().to_owned()) {
            return Err(Failure::later(format!("{shown}: the pages lead in a circle")));
        }
        if self.read.len() > self.most {
            let why = format!("more than {} pages (`max_pages`)", self.most);
            return Err(Failure::later(format!("{shown}: {why}")));
        }
        self.fetcher.get_small(url, LARGEST, cancel).await
    }
}

/// What is wrong with a document, with where it is.
pub fn wrong(url: &Url) -> impl Fn(String) -> Failure {
    let shown = redacted(url);
    move |why| Failure::later(format!("{shown}: {why}"))
}

/// An address on the web, as it stands in a document.
pub fn web_url(base: &Url, href: &str) -> Result<Url, String> {
    let url = base.join(href.trim()).map_err(|error| format!("`{href:.200}`: {error}"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(format!("`{href:.200}` leads out of the web"));
    }
    Ok(url)
}

/// An entry of a document that can become nothing, and why. Without an id it is known by its content.
pub fn unusable(entry: &Element, id: Option<&str>, date: Option<Date>, why: String) -> Item {
    let id = id.map_or_else(|| format!("entry {}", entry.digest()), str::to_owned);
    Item { date, ..Item::new(id, What::Nothing(why)) }
}

/// A payload with its length and its digests, as documents announce them.
pub fn announced(url: Url, length: Option<&str>, hash: Option<&str>) -> Payload {
    let size = length.and_then(|length| length.trim().parse().ok());
    Payload { size, digest: hash.and_then(digest), ..Payload::at(url) }
}

/// Digests as feeds announce them: `sha-256:0123… md5:4567…`. The strongest that can be read.
fn digest(text: &str) -> Option<Digest> {
    let one = |part: &str| {
        let (algorithm, value) = part.split_once(':')?;
        Digest::new(algorithm.parse().ok()?, value).ok()
    };
    text.split_whitespace().filter_map(one).max_by_key(Digest::algorithm)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::Algorithm;

    #[test]
    fn the_strongest_digest_that_can_be_read_counts() {
        let (md5, sha) = (format!("md5:{}", "a".repeat(32)), format!("sha-256:{}", "b".repeat(64)));
        assert_eq!(digest(&format!("{md5} {sha}")).unwrap().algorithm(), Algorithm::Sha256);
        assert_eq!(digest(&format!("whirlpool:12 {md5}")).unwrap().algorithm(), Algorithm::Md5);
        assert_eq!(digest("md5:short nonsense"), None);
    }
}
