//! Names from an EZID service over HTTP.
//!
//! A name is minted with the status `reserved`, and published with a second request once the object is
//! there. Both are forms of `name: value` lines ([`anvl`]) under basic auth.
//!
//! **When things break.** Minting is not repeatable. It is tried again only where the service has certainly
//! not begun: the connection was never made, or the answer is 503 or 429 with a `Retry-After`. In every other
//! doubt the failure says that one reserved name may belong to nobody; `ingestd.key` in its metadata is
//! the [`MintRequest::key`] that it was meant for. EZID has no search, so [`Minter::orphans`] is told from
//! notes in the tree ([`EzidMinter::noting`]): names that no job has, and requests whose answer never came. Those of
//! the latter are found in EZID's download of identifiers with `_status: reserved`. Publishing is repeated
//! in every doubt.

use std::fmt;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use ingest_store::Session;
use reqwest::{Method, StatusCode, header};
use url::Url;

use super::notes::Notes;
use super::{MintRequest, Minter, Orphan, anvl};
use crate::ark::Ark;
use crate::outcome::{Failure, Result};

/// Written where the object has no creator, title or date.
const UNASSIGNED: &str = "(:unas)";

/// The most that is read of an answer: it is a line or two.
const MAX_ANSWER: usize = 64 << 10;

/// Where the service is, and how patient one is with it.
#[derive(Clone, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EzidConfig {
    /// For example `https://ezid.cdlib.org`.
    pub url: Url,
    /// Where names are minted, for example `ark:/13030/c7`.
    pub shoulder: String,
    pub user: String,
    pub password: String,
    /// How long one request may take.
    #[serde(with = "humantime_serde", default = "EzidConfig::timeout")]
    pub timeout: Duration,
    /// How often a request is sent, where it is safe to send it again.
    #[serde(default = "EzidConfig::tries")]
    pub tries: u32,
    /// The pause before the second try; it doubles with each.
    #[serde(with = "humantime_serde", default = "EzidConfig::pause")]
    pub pause: Duration,
    /// A service that asks for a longer pause than this gets it from whoever called.
    #[serde(with = "humantime_serde", default = "EzidConfig::longest_pause")]
    pub longest_pause: Duration,
}

impl EzidConfig {
    pub fn new(url: Url, shoulder: &str, user: &str, password: &str) -> Self {
        Self {
            url,
            shoulder: shoulder.to_owned(),
            user: user.to_owned(),
            password: password.to_owned(),
            timeout: Self::timeout(),
            tries: Self::tries(),
            pause: Self::pause(),
            longest_pause: Self::longest_pause(),
        }
    }

    fn timeout() -> Duration {
        Duration::from_secs(30)
    }

    fn tries() -> u32 {
        4
    }

    fn pause() -> Duration {
        Duration::from_secs(1)
    }

    fn longest_pause() -> Duration {
        Duration::from_secs(30)
    }
}

impl fmt::Debug for EzidConfig {
    /// Without the password: configurations get into logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { url, shoulder, user, timeout, tries, .. } = self;
        write!(f, "EzidConfig {{ {url}, {shoulder}, user {user}, {timeout:?}, {tries} tries }}")
    }
}

/// A client of the service.
#[derive(Debug)]
pub struct EzidMinter {
    config: EzidConfig,
    client: reqwest::Client,
    notes: Option<Notes>,
}

/// What became of one request.
enum Sent {
    /// The service did it, and says this.
    Done(String),
    /// The service has not begun; it may be sent again after a pause, its own or one of ours.
    NotBegun { why: String, pause: Option<Duration> },
    /// The service refused it.
    Refused(Failure),
    /// The service may have done it.
    Doubt(String),
}

/// Whether there may be a name that nobody knows.
#[derive(Debug, Clone, Copy)]
enum Made {
    None,
    Perhaps,
}

impl EzidMinter {
    pub fn new(config: EzidConfig) -> Result<Self> {
        let shoulder = format!("{}x", config.shoulder);
        if let Err(error) = shoulder.parse::<Ark>() {
            return Err(Failure::fail(format!("the shoulder of EZID: {error}")));
        }
        let client = reqwest::Client::builder()
            .timeout(config.timeout)
            .redirect(reqwest::redirect::Policy::none())
            // On a connection of its own a request that cannot be sent was certainly not sent.
            .pool_max_idle_per_host(0)
            .build()
            .map_err(|error| Failure::fail(format!("the client of EZID: {error}")))?;
        Ok(Self { config, client, notes: None })
    }

    /// The same, with notes in the tree of what it asks for.
    pub fn noting(mut self, session: &Session) -> Self {
        self.notes = Some(Notes::new(session, &self.config.shoulder));
        self
    }

    fn place(&self, what: &str) -> String {
        format!("{}/{what}", self.config.url.as_str().trim_end_matches('/'))
    }

    async fn reserve_noted(&self, request: &MintRequest) -> Result<Ark> {
        let Some(notes) = &self.notes else {
            return self.mint(request).await.map_err(|(failure, _)| failure);
        };
        let asked = notes.ask(request).await?;
        match self.mint(request).await {
            Ok(ark) => {
                notes.came(&asked, &ark).await?;
                Ok(ark)
            }
            Err((failure, Made::None)) => {
                if let Err(left) = notes.none_came(&asked).await {
                    tracing::warn!(%left, key = request.key, "a note of a name that was never minted stays");
                }
                Err(failure)
            }
            Err((failure, Made::Perhaps)) => Err(failure),
        }
    }

    async fn publish_noted(&self, ark: &Ark, request: &MintRequest) -> Result<()> {
        self.make_public(ark, request).await?;
        match &self.notes {
            Some(notes) => notes.published(ark).await,
            None => Ok(()),
        }
    }

    async fn mint(&self, request: &MintRequest) -> Result<Ark, (Failure, Made)> {
        let place = self.place(&format!("shoulder/{}", self.config.shoulder));
        let body = body(request, "reserved");
        let orphaned = || {
            format!(
                "one name on {} may be reserved all the same and belong to nobody; it has `ingestd.key: {}`",
                self.config.shoulder, request.key
            )
        };
        let sent = self.send_patiently(&Method::POST, &place, &body, false).await;
        let said = match sent.map_err(|failure| (failure, Made::None))? {
            Sent::Done(said) => said,
            // Sent again it would mint a second name: whoever called has to know of the first.
            Sent::Doubt(why) => {
                let why = format!("minting at {place}: {why}; {}", orphaned());
                return Err((Failure::later(why), Made::Perhaps));
            }
            Sent::Refused(failure) => {
                return Err((failure.during(format!("minting at {place}")), Made::None));
            }
            Sent::NotBegun { why, .. } => {
                return Err((Failure::later(format!("minting at {place}: {why}")), Made::None));
            }
        };
        let unusable = |why: String| (Failure::fail(format!("minting at {place}: {why}")), Made::Perhaps);
        let ark = anvl::ark_in(&said)
            .ok_or_else(|| unusable(format!("no ARK in the answer `{}`; {}", shown(&said), orphaned())))?;
        if !ark.is_on(&self.config.shoulder) {
            return Err(unusable(format!("the service gave {ark}, which is not on this shoulder")));
        }
        Ok(ark)
    }

    async fn make_public(&self, ark: &Ark, request: &MintRequest) -> Result<()> {
        let place = self.place(&format!("id/{ark}?update_if_exists=yes"));
        let body = body(request, "public");
        match self.send_patiently(&Method::PUT, &place, &body, true).await? {
            Sent::Done(said) if anvl::ark_in(&said).as_ref() == Some(ark) => Ok(()),
            Sent::Done(said) => {
                Err(Failure::fail(format!("publishing {ark}: the service did `{}` instead", shown(&said))))
            }
            Sent::Refused(failure) => Err(failure.during(format!("publishing {ark} at {place}"))),
            Sent::Doubt(why) | Sent::NotBegun { why, .. } => {
                Err(Failure::later(format!("publishing {ark} at {place}: {why}; it may be repeated")))
            }
        }
    }

    /// Sends a request until it is answered, as often as that is safe.
    async fn send_patiently(
        &self,
        method: &Method,
        place: &str,
        body: &str,
        repeatable: bool,
    ) -> Result<Sent> {
        let mut pause = self.config.pause;
        let tries = self.config.tries.max(1);
        for left in (0..tries).rev() {
            let sent = self.send(method.clone(), place, body).await;
            let asked = match &sent {
                Sent::NotBegun { pause, .. } => *pause,
                Sent::Doubt(_) if repeatable => None,
                _ => return Ok(sent),
            };
            let too_long = asked.is_some_and(|asked| asked > self.config.longest_pause);
            if left == 0 || too_long {
                return Ok(sent);
            }
            tokio::time::sleep(asked.unwrap_or(pause)).await;
            pause = (pause * 2).min(self.config.longest_pause);
        }
        Err(Failure::later(format!("{place}: no try was left")))
    }

    async fn send(&self, method: Method, place: &str, body: &str) -> Sent {
        let sent = self
            .client
            .request(method, place)
            .basic_auth(&self.config.user, Some(&self.config.password))
            .header(header::CONTENT_TYPE, "text/plain; charset=UTF-8")
            .body(body.to_owned())
            .send()
            .await;
        let answer = match sent {
            Ok(answer) => answer,
            Err(error) if error.is_connect() => {
                return Sent::NotBegun { why: format!("no connection: {}", causes(&error)), pause: None };
            }
            Err(error) if error.is_builder() => return Sent::Refused(Failure::fail(causes(&error))),
            Err(error) => return Sent::Doubt(causes(&error)),
        };
        let status = answer.status();
        let pause = pause_asked(&answer);
        match read(answer).await {
            Ok(said) => judge(status, said, pause),
            Err(why) if status.is_success() => Sent::Doubt(why),
            // The status says enough.
            Err(_) => judge(status, String::new(), pause),
        }
    }
}

/// What an answer means.
fn judge(status: StatusCode, said: String, pause: Option<Duration>) -> Sent {
    let why = format!("the service answered {}: {}", status.as_u16(), shown(&said));
    match status.as_u16() {
        200 | 201 if said.starts_with("success:") => Sent::Done(said),
        429 | 503 if pause.is_some() => Sent::NotBegun { why, pause },
        401 | 403 => Sent::Refused(Failure::fail(format!(
            "{why}; check the user and password of EZID, and that the user may mint on this shoulder"
        ))),
        200..300 | 408 | 429 | 500.. => Sent::Doubt(why),
        _ => Sent::Refused(Failure::fail(why)),
    }
}

fn body(request: &MintRequest, status: &str) -> String {
    let assigned = |value: &'_ Option<String>| value.clone().unwrap_or_else(|| UNASSIGNED.to_owned());
    let (who, what, when) = (assigned(&request.who), assigned(&request.what), assigned(&request.when));
    let mut elements = vec![
        ("_status", status),
        ("_profile", "erc"),
        ("erc.who", &who),
        ("erc.what", &what),
        ("erc.when", &when),
        ("ingestd.key", &request.key),
        ("ingestd.owner", &request.owner),
    ];
    if let Some(target) = &request.target {
        elements.push(("_target", target));
    }
    anvl::write(elements)
}

/// `Retry-After` in seconds; a date is taken as none.
fn pause_asked(answer: &reqwest::Response) -> Option<Duration> {
    let text = answer.headers().get(header::RETRY_AFTER)?.to_str().ok()?;
    text.trim().parse().ok().map(Duration::from_secs)
}

async fn read(mut answer: reqwest::Response) -> std::result::Result<String, String> {
    let mut bytes = Vec::new();
    while let Some(chunk) = answer.chunk().await.map_err(|error| causes(&error))? {
        bytes.extend_from_slice(&chunk);
        if bytes.len() > MAX_ANSWER {
            return Err(format!("the answer has more than {MAX_ANSWER} bytes"));
        }
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// What is shown of an answer: one line with a bound.
fn shown(said: &str) -> String {
    let line: String = said.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.is_empty() { "nothing".into() } else { line.chars().take(300).collect() }
}

/// An error with its causes, and without the address that is said elsewhere.
fn causes(error: &reqwest::Error) -> String {
    let mut text = String::new();
    let mut cause: Option<&dyn std::error::Error> = Some(error);
    while let Some(error) = cause {
        let said = error.to_string();
        if !text.contains(&said) {
            text = if text.is_empty() { said } else { format!("{text}: {said}") };
        }
        cause = error.source();
    }
    text
}

impl Minter for EzidMinter {
    fn reserve<'a>(&'a self, request: &'a MintRequest) -> BoxFuture<'a, Result<Ark>> {
        self.reserve_noted(request).boxed()
    }

    fn publish<'a>(&'a self, ark: &'a Ark, request: &'a MintRequest) -> BoxFuture<'a, Result<()>> {
        self.publish_noted(ark, request).boxed()
    }

    fn orphans(&self) -> BoxFuture<'_, Result<Option<Vec<Orphan>>>> {
        async move {
            match &self.notes {
                Some(notes) => Ok(Some(notes.orphans().await?)),
                None => Ok(None),
            }
        }
        .boxed()
    }
}
