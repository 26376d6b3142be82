//! Files from elsewhere: how big they are, and how they get here whole.
//!
//! A [`Fetcher`] follows URLs that come from outside. It promises that
//! - nothing is connected to that the [`Rules`] do not allow, on any hop;
//! - every request is bounded in bytes and in time, and each file in requests;
//! - a file has its name only when it is whole, verified, and safe on the disk;
//! - what was fetched is not fetched again: an attempt goes on where the last one stopped, if the server
//!   can tell that the file is still the same;
//! - a file is what the server has and not how it was sent: it is asked for as it is, an answer that comes gzip-encoded
//!   all the same is decoded, and one in another encoding is refused;
//! - credentials in URLs are used and never shown.
//!
//! **When things break.** A server that is away, overloaded, slow or cuts connections is asked again, with
//! growing pauses, up to `retries` times in all; then it is [`Failure::Later`], and the part stays for the
//! next attempt. What will not change by waiting (404, 403, a forbidden address, too many redirects) is
//! [`Failure::Fail`] at once. A size or digest that is not the announced one is [`Failure::Fail`] with both
//! values, and the part is removed. A URL that no configuration could allow is [`Failure::Hopeless`].
//!
//! Not promised: a file whose announced values hold neither size nor digest is taken as the server sends
//! it; a server that ends such an answer early without having said its length is not found out.

mod address;
mod answer;
mod ask;
mod beginning;
mod body;
mod coding;
mod local;
mod part;
mod redact;
mod retry;
mod rules;
mod size;
mod syncs;
mod transfer;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use reqwest::dns::Resolve;
use reqwest::header::{ACCEPT_ENCODING, HeaderMap, HeaderValue};
use url::Url;

pub use self::address::{Allowed, Forbidden, Network, SystemNames, not_public};
use self::address::{Guard, GuardedNames};
use self::ask::Turns;
pub(crate) use self::part::traces;
pub use self::redact::{is_secret, redacted, redacted_text};
use self::retry::Retries;
pub use self::rules::Rules;
use self::syncs::Syncs;
pub use self::transfer::Most;
use crate::digest::{Algorithm, Digest};
use crate::outcome::{Cancel, Failure, Progress, Result};

/// A file that is to be fetched, and what was announced of it.
#[derive(Debug, Clone)]
pub struct Wanted {
    pub url: Url,
    pub size: Option<u64>,
    pub digests: Vec<Digest>,
    /// Digests to compute besides sha-256 and those that were announced.
    pub algorithms: Vec<Algorithm>,
}

impl Wanted {
    /// A file of which nothing is known.
    pub fn new(url: Url) -> Self {
        Self { url, size: None, digests: Vec::new(), algorithms: Vec::new() }
    }

    fn all_algorithms(&self) -> Vec<Algorithm> {
        let announced = self.digests.iter().map(Digest::algorithm);
        let mut all: Vec<_> = announced.chain(self.algorithms.iter().copied()).collect();
        all.push(Algorithm::Sha256);
        all.sort_unstable();
        all.dedup();
        all
    }
}

/// A file that is here, whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetched {
    pub size: u64,
    /// In the order of [`Algorithm`]; sha-256 is always among them.
    pub digests: Vec<Digest>,
    /// How often it was tried again.
    pub retries: u32,
}

/// Where a file that is not whole yet grows, and the note of which version it is. They can be moved to another
/// directory together, and a fetch there goes on with them.
pub(crate) fn parts_of(to: &Path) -> Result<(PathBuf, PathBuf)> {
    part::names(to)
}

/// A URL as a digest: it may hold secrets.
pub(crate) fn key_of(url: &Url) -> String {
    part::url_key(url)
}

/// Fetches files by the rules. One for all of a node: it holds the limits of requests at a time.
#[derive(Debug)]
pub struct Fetcher {
    rules: Rules,
    guard: Guard,
    names: GuardedNames,
    client: reqwest::Client,
    /// For our own public URL, whose address is not checked.
    own_client: Option<reqwest::Client>,
    turns: Turns,
    syncs: Arc<Syncs>,
}

impl Fetcher {
    /// Fails if the certificates of this machine, or of `fetch.ca`, cannot be read.
    pub fn new(rules: Rules) -> Result<Self> {
        Self::with_names(rules, Arc::new(SystemNames))
    }

    /// With names resolved otherwise than by the system. What they resolve to is checked all the same.
    pub fn with_names(rules: Rules, names: Arc<dyn Resolve>) -> Result<Self> {
        let guard = Guard::new(rules.allowed.clone());
        let guarded = GuardedNames { guard: guard.clone(), names: names.clone() };
        let client = client(&rules, Arc::new(guarded.clone()))?;
        let own_client = rules.public_url.as_ref().map(|_| self::client(&rules, names)).transpose()?;
        let turns = Turns::new(rules.per_host, rules.per_node);
        Ok(Self { rules, guard, names: guarded, client, own_client, turns, syncs: Arc::default() })
    }

    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// How many requests wait for their turn (`fetch.per_host`, `fetch.per_node`).
    #[doc(hidden)]
    pub fn waiting(&self) -> usize {
        self.turns.waiting()
    }

    /// The client for addresses that do not come from outside: this node's own, and those of the nodes beside it. It follows
    /// no redirects, and trusts the same authorities. None if this node has no URL.
    pub fn inside(&self) -> Option<&reqwest::Client> {
        self.own_client.as_ref()
    }

    /// Refuses a URL with an address in it that must not be connected to. Nobody is asked; fetching judges again.
    pub fn judge(&self, url: &Url) -> std::result::Result<(), Forbidden> {
        self.guard.check_url(url)
    }

    /// Refuses a name all of whose addresses must not be connected to. A name that is not known is let through: it may be
    /// by the time that something is fetched.
    pub async fn judge_name(&self, host: &str) -> std::result::Result<(), Forbidden> {
        self.names.check(host).await
    }

    /// Brings a file to `to`, in a directory that is there. Counts its bytes, and itself when it is whole.
    ///
    /// If `to` is there with the announced size and digests it is taken as it is, without a request; without
    /// an announced digest it is fetched again and replaced. Stops within a chunk when cancelled, and keeps
    /// what it has.
    pub async fn fetch(
        &self,
        wanted: &Wanted,
        to: &Path,
        progress: &Progress,
        cancel: &Cancel,
    ) -> Result<Fetched> {
        self.fetch_within(wanted, Most::by_rules(&self.rules), to, progress, cancel).await
    }

    /// The same for a file that may have so many bytes, and not more than the rules say.
    pub async fn fetch_within(
        &self,
        wanted: &Wanted,
        most: Most,
        to: &Path,
        progress: &Progress,
        cancel: &Cancel,
    ) -> Result<Fetched> {
        let most = most.within(&self.rules);
        let shown = redacted(&wanted.url);
        let mut retries = Retries::new(&self.rules, &shown);
        if let Some(fetched) = transfer::adopt(wanted, to, progress, cancel).await? {
            progress.add_file();
            return Ok(fetched);
        }
        let part = loop {
            match transfer::open(wanted, most, to, progress, cancel).await {
                Ok(part) => break part,
                Err(broken) => retries.next(broken, progress, cancel).await?,
            }
        };
        loop {
            let broken = match self.transfer(wanted, most, &part, progress, cancel).await {
                Ok((size, digests)) => {
                    progress.add_file();
                    return Ok(Fetched { size, digests, retries: retries.done });
                }
                Err(broken) => broken,
            };
            transfer::settle(&part, &broken).await?;
            if let Err(failure) = retries.next(broken, progress, cancel).await {
                transfer::leave(&part).await?;
                return Err(failure);
            }
        }
    }

    /// A small file, such as a manifest, of at most `limit` bytes.
    pub async fn get_small(&self, url: &Url, limit: u64, cancel: &Cancel) -> Result<Bytes> {
        let shown = redacted(url);
        let progress = Progress::default();
        let mut retries = Retries::new(&self.rules, &shown);
        loop {
            match self.read_small(url, limit, &progress, cancel).await {
                Ok(bytes) => return Ok(bytes),
                Err(broken) => retries.next(broken, &progress, cancel).await?,
            }
        }
    }

    /// How big a file is; None if that cannot be found out. The reason is logged.
    pub async fn size(&self, url: &Url) -> Option<u64> {
        match self.size_or_reason(url).await {
            Ok(size) => Some(size),
            Err(reason) => {
                tracing::info!(url = redacted(url), reason, "the size is not known");
                None
            }
        }
    }
}

fn client(rules: &Rules, names: Arc<dyn Resolve>) -> Result<reqwest::Client> {
    let mut headers = HeaderMap::new();
    // The bytes as they are: digests are of the file, not of an encoding.
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    let roots = rules.ca.as_deref().map(roots).transpose()?;
    reqwest::Client::builder()
        .tls_certs_merge(roots.unwrap_or_default())
        .user_agent(concat!("ingestd/", env!("CARGO_PKG_VERSION")))
        .default_headers(headers)
        .redirect(reqwest::redirect::Policy::none())
        // A proxy would resolve names itself, unchecked.
        .no_proxy()
        .referer(false)
        .connect_timeout(rules.connect_timeout)
        .dns_resolver(names)
        .build()
        .map_err(|error| Failure::fail(format!("the HTTP client cannot be set up: {}", redact::chain(error))))
}

/// The authorities of a PEM file. Blocks, once at the start.
fn roots(path: &Path) -> Result<Vec<reqwest::Certificate>> {
    let wrong = |why: &dyn std::fmt::Display| Failure::fail(format!("`ca`: {}: {why}", path.display()));
    let text = std::fs::read(path).map_err(|error| wrong(&error))?;
    let roots = reqwest::Certificate::from_pem_bundle(&text).map_err(|error| wrong(&redact::chain(error)))?;
    if roots.is_empty() {
        return Err(wrong(&"holds no certificate (`-----BEGIN CERTIFICATE-----`)"));
    }
    Ok(roots)
}
