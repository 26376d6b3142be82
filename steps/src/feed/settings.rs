//! `[feeds.NAME]`: where submissions come from by themselves.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use ingest_queue::feeds::MOST_FEEDS;
use serde::Deserialize;
use url::Url;

use crate::payload::PayloadKind;

/// A feed.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Given")]
pub struct Feed {
    pub kind: Kind,
    /// The profile of its submissions, and who submits them.
    pub profile: String,
    pub submitter: String,
    /// What the payloads are; absent: it is guessed for each.
    pub payload_type: Option<PayloadKind>,
    pub policy: Policy,
    /// Nodes were named, and the policy is `automatic`.
    stray_nodes: bool,
}

/// Who may consume a feed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Policy {
    /// Whoever has it in its configuration.
    Automatic,
    /// The nodes of these names only.
    Manual(Vec<String>),
}

impl Policy {
    pub fn allows(&self, node: &str) -> bool {
        match self {
            Policy::Automatic => true,
            Policy::Manual(nodes) => nodes.iter().any(|named| named == node),
        }
    }

    pub fn name(&self) -> &'static str {
        match self {
            Policy::Automatic => "automatic",
            Policy::Manual(_) => "manual",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    DropBox(DropBox),
    Atom(Web),
    OaiPmh(OaiPmh),
    ResourceSync(Web),
}

impl Kind {
    pub fn name(&self) -> &'static str {
        match self {
            Kind::DropBox(_) => "drop_box",
            Kind::Atom(_) => "atom",
            Kind::OaiPmh(_) => "oai_pmh",
            Kind::ResourceSync(_) => "resource_sync",
        }
    }

    /// Where it is, for people.
    pub fn place(&self) -> String {
        match self {
            Kind::DropBox(drop_box) => drop_box.path.display().to_string(),
            Kind::Atom(web) | Kind::ResourceSync(web) => crate::fetch::redacted(&web.url),
            Kind::OaiPmh(oai) => crate::fetch::redacted(&oai.web.url),
        }
    }
}

/// A directory into which files are put.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DropBox {
    pub path: PathBuf,
    pub ready: Ready,
    /// A file that has not changed for so long is ready.
    pub stable: Duration,
}

/// When a file is ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Default)]
#[serde(rename_all = "lowercase")]
pub enum Ready {
    /// Its size and its time have not changed for a while.
    #[default]
    Stable,
    /// As soon as it is there: it is written under another name, and renamed when it is whole.
    Rename,
    /// When there is an empty file of its name and `.ready`.
    Marker,
}

/// A source that is asked over HTTP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Web {
    pub url: Url,
    /// How long to wait before it is asked again.
    pub interval: Duration,
    /// What is so much older than the checkpoint is looked at again: it may have been published late.
    pub overlap: Duration,
    /// More pages than this make no sense.
    pub max_pages: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OaiPmh {
    pub web: Web,
    /// The metadata format.
    pub prefix: String,
    pub set: Option<String>,
    pub payload: Harvest,
}

/// What of a record is the payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Default)]
#[serde(rename_all = "lowercase")]
pub enum Harvest {
    /// What its first `dc:identifier` that is a URL leads to.
    #[default]
    Resource,
    /// The record itself, as the source answers `GetRecord`.
    Metadata,
}

/// As it is written: every key of every kind.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Given {
    kind: Named,
    profile: String,
    submitter: String,
    #[serde(rename = "type")]
    payload_type: Option<PayloadKind>,
    policy: Option<PolicyName>,
    nodes: Option<Vec<String>>,
    path: Option<PathBuf>,
    ready: Option<Ready>,
    #[serde(default, with = "humantime_serde")]
    stable: Option<Duration>,
    url: Option<Url>,
    #[serde(default, with = "humantime_serde")]
    interval: Option<Duration>,
    #[serde(default, with = "humantime_serde")]
    overlap: Option<Duration>,
    max_pages: Option<usize>,
    prefix: Option<String>,
    set: Option<String>,
    payload: Option<Harvest>,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "snake_case")]
enum Named {
    DropBox,
    Atom,
    OaiPmh,
    ResourceSync,
}

#[derive(Deserialize, Clone, Copy, PartialEq)]
#[serde(rename_all = "lowercase")]
enum PolicyName {
    Automatic,
    Manual,
}

impl Given {
    fn web(&self) -> Result<Web, String> {
        let url = self.url.clone().ok_or("missing field `url`")?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(format!("`{}` is no address that can be asked: http or https", url.scheme()));
        }
        Ok(Web {
            url,
            interval: self.interval.unwrap_or(Duration::from_mins(15)),
            overlap: self.overlap.unwrap_or(Duration::from_hours(1)),
            max_pages: self.max_pages.unwrap_or(10_000),
        })
    }

    /// What these say together is judged by [`problems`]: each is looked at alone first.
    fn policy(&self) -> (Policy, bool) {
        let nodes = self.nodes.clone().unwrap_or_default();
        match self.policy {
            Some(PolicyName::Manual) => (Policy::Manual(nodes), false),
            Some(PolicyName::Automatic) | None => (Policy::Automatic, !nodes.is_empty()),
        }
    }
}

impl TryFrom<Given> for Feed {
    type Error = String;

    fn try_from(given: Given) -> Result<Self, String> {
        let kind = match given.kind {
            Named::DropBox => Kind::DropBox(DropBox {
                path: given.path.clone().ok_or("missing field `path`")?,
                ready: given.ready.unwrap_or_default(),
                stable: given.stable.unwrap_or(Duration::from_secs(10)),
            }),
            Named::Atom => Kind::Atom(given.web()?),
            Named::ResourceSync => Kind::ResourceSync(given.web()?),
            Named::OaiPmh => Kind::OaiPmh(OaiPmh {
                web: given.web()?,
                prefix: given.prefix.clone().unwrap_or_else(|| "oai_dc".into()),
                set: given.set.clone(),
                payload: given.payload.unwrap_or_default(),
            }),
        };
        let (policy, stray_nodes) = given.policy();
        let (profile, submitter) = (given.profile, given.submitter);
        Ok(Self { kind, profile, submitter, payload_type: given.payload_type, policy, stray_nodes })
    }
}

/// What is wrong with feeds that is wrong with no key alone, by name.
pub fn problems(feeds: &BTreeMap<String, Feed>) -> Vec<(&str, String)> {
    let mut problems = Vec::new();
    let mut boxes: Vec<(&PathBuf, &str)> = Vec::new();
    for (name, feed) in feeds {
        if let Some(fault) = fault_of_feed_name(name) {
            problems.push((name.as_str(), fault.to_owned()));
        }
        if feed.policy == Policy::Manual(Vec::new()) {
            problems.push((name.as_str(), "the policy `manual` needs `nodes`, the names of some".into()));
        }
        if feed.stray_nodes {
            problems.push((name.as_str(), "`nodes` is for the policy `manual`".into()));
        }
        if let Kind::DropBox(drop_box) = &feed.kind {
            if let Some((_, other)) = boxes.iter().find(|(path, _)| **path == drop_box.path) {
                problems.push((name.as_str(), format!("the feed `{other}` has the same directory")));
            }
            boxes.push((&drop_box.path, name));
        }
    }
    if feeds.len() > MOST_FEEDS {
        problems.push(("", format!("{} feeds are too many; {MOST_FEEDS} is the most", feeds.len())));
    }
    problems
}

/// Whether a text can be the name of a feed: it stands in URLs, in file names and in logs.
pub fn fault_of_feed_name(name: &str) -> Option<&'static str> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || name.len() > 64 {
        return Some("a feed's name has 1 to 64 letters");
    }
    (!name.chars().all(fits) || name.starts_with('.'))
        .then_some("a feed's name has letters, digits, `-`, `_` and `.`, and does not begin with a dot")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Feed, String> {
        let text = format!("profile = \"demo\"\nsubmitter = \"ann\"\n{text}");
        toml::from_str(&text).map_err(|error| error.message().to_owned())
    }

    #[test]
    fn every_kind_has_its_defaults() {
        let Kind::Atom(web) = read("kind = \"atom\"\nurl = \"https://example.org/feed\"").unwrap().kind
        else {
            panic!("another kind")
        };
        assert_eq!((web.interval, web.overlap), (Duration::from_mins(15), Duration::from_hours(1)));
        let feed = read("kind = \"drop_box\"\npath = \"in\"").unwrap();
        assert_eq!(feed.policy, Policy::Automatic);
        let Kind::DropBox(drop_box) = feed.kind else { panic!("another kind") };
        assert_eq!((drop_box.ready, drop_box.stable), (Ready::Stable, Duration::from_secs(10)));
        let Kind::OaiPmh(oai) = read("kind = \"oai_pmh\"\nurl = \"http://example.org/oai\"").unwrap().kind
        else {
            panic!("another kind")
        };
        assert_eq!((oai.prefix.as_str(), oai.payload), ("oai_dc", Harvest::Resource));
    }

    #[test]
    fn what_is_missing_or_makes_no_sense_is_named() {
        for (text, why) in [
            ("kind = \"atom\"", "url"),
            ("kind = \"drop_box\"", "path"),
            ("kind = \"rss\"", "rss"),
            ("kind = \"atom\"\nurl = \"ftp://example.org/\"", "ftp"),
            ("kind = \"drop_box\"\npath = \"in\"\nreddy = \"stable\"", "reddy"),
        ] {
            let told = read(text).unwrap_err();
            assert!(told.contains(why), "{text}: {told}");
        }
    }

    #[test]
    fn what_makes_no_sense_together_is_named() {
        for (text, why) in
            [("policy = \"manual\"", "needs `nodes`"), ("nodes = [\"a\"]", "for the policy `manual`")]
        {
            let feed = read(&format!("kind = \"drop_box\"\npath = \"in\"\n{text}")).unwrap();
            let told = problems(&BTreeMap::from([("a".to_owned(), feed)])).remove(0).1.clone();
            assert!(told.contains(why), "{text}: {told}");
        }
        let feed = || read("kind = \"drop_box\"\npath = \"in\"").unwrap();
        let both = BTreeMap::from([("a".to_owned(), feed()), ("b/c".to_owned(), feed())]);
        let told: Vec<_> = problems(&both).into_iter().map(|(name, why)| format!("{name}: {why}")).collect();
        assert!(told[0].contains("letters") && told[1].contains("same directory"), "{told:?}");
    }

    #[test]
    fn a_pinned_feed_is_for_the_nodes_that_are_named() {
        let pinned = read("kind = \"drop_box\"\npath = \"in\"\npolicy = \"manual\"\nnodes = [\"a\", \"b\"]");
        let policy = pinned.unwrap().policy;
        assert!(policy.allows("a") && policy.allows("b") && !policy.allows("c"));
        assert!(Policy::Automatic.allows("c"));
    }

    #[test]
    fn a_name_stands_in_urls() {
        assert_eq!(fault_of_feed_name("herbarium-2.a_b"), None);
        for bad in ["", ".", "..", "a/b", "a b", "ü", &"x".repeat(65)] {
            assert!(fault_of_feed_name(bad).is_some(), "{bad}");
        }
    }
}
