//! Which limits there are, and for whom they hold. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::map;
use crate::nodes::{Configuration, Json};
use crate::states::{JobState, States as _};

/// The name that stands for all that have no limit of their own.
pub const DEFAULT: &str = "default";

/// The most slots of one limit.
pub const MOST: u32 = 10_000;

/// What a limit is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    Collection,
    /// Of the payload's address.
    Host,
    Profile,
    /// A free name that profiles ask for.
    Name,
}

impl Kind {
    pub const ALL: [Kind; 4] = [Kind::Collection, Kind::Host, Kind::Profile, Kind::Name];

    pub fn name(self) -> &'static str {
        match self {
            Kind::Collection => "collection",
            Kind::Host => "host",
            Kind::Profile => "profile",
            Kind::Name => "name",
        }
    }

    /// A name as it is kept: hosts are the same in either case.
    pub fn as_kept(self, name: &str) -> String {
        if self == Kind::Host { name.to_ascii_lowercase() } else { name.to_owned() }
    }

    /// Either the word for one or that for many.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name.strip_suffix('s').unwrap_or(name))
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Limits by name; none: no limit, whatever else is said.
pub type Table = BTreeMap<String, Option<u32>>;

/// Limits as somebody has said them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Said {
    #[serde(skip_serializing_if = "Table::is_empty")]
    pub collections: Table,
    #[serde(skip_serializing_if = "Table::is_empty")]
    pub hosts: Table,
    #[serde(skip_serializing_if = "Table::is_empty")]
    pub profiles: Table,
    #[serde(skip_serializing_if = "Table::is_empty")]
    pub names: Table,
}

impl Said {
    pub fn of(&self, kind: Kind) -> &Table {
        match kind {
            Kind::Collection => &self.collections,
            Kind::Host => &self.hosts,
            Kind::Profile => &self.profiles,
            Kind::Name => &self.names,
        }
    }

    pub fn of_mut(&mut self, kind: Kind) -> &mut Table {
        match kind {
            Kind::Collection => &mut self.collections,
            Kind::Host => &mut self.hosts,
            Kind::Profile => &mut self.profiles,
            Kind::Name => &mut self.names,
        }
    }

    pub fn is_empty(&self) -> bool {
        Kind::ALL.iter().all(|kind| self.of(*kind).is_empty())
    }
}

/// Where a limit comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum From {
    /// A person has set it.
    Set,
    /// The configuration of the nodes.
    File,
}

impl From {
    pub fn name(self) -> &'static str {
        match self {
            From::Set => "set",
            From::File => "file",
        }
    }
}

/// `/semaphores`: all limits. Its version is the fence: whoever takes a slot checks it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Rules {
    /// As the configuration says.
    pub file: Said,
    /// What people have set since; it goes before the file.
    pub set: Said,
    /// The states in which limits of hosts hold, and those of all others.
    pub host_states: BTreeSet<String>,
    pub states: BTreeSet<String>,
    /// The change that made it so.
    pub commit: String,
}

impl Default for Rules {
    fn default() -> Self {
        let names = |states: &[JobState]| states.iter().map(|state| state.name().to_owned()).collect();
        Self {
            file: Said::default(),
            set: Said::default(),
            host_states: names(&[JobState::Downloading]),
            states: names(&[JobState::Downloading, JobState::Processing]),
            commit: String::new(),
        }
    }
}

impl Json for Rules {}

/// The states that a limit can hold in: those whose work is done by one worker for one job.
pub const STATES: [JobState; 4] =
    [JobState::Downloading, JobState::Processing, JobState::Recording, JobState::Notify];

impl Rules {
    /// Whether there is any limit at all.
    pub fn is_empty(&self) -> bool {
        self.file.is_empty() && self.set.is_empty()
    }

    /// The limit of a name, and who said it: its own before that of all, a person's before the file's.
    pub fn limit(&self, kind: Kind, name: &str) -> Option<(u32, From)> {
        let said = |name: &str| {
            let set = self.set.of(kind).get(name).map(|limit| (*limit, From::Set));
            set.or_else(|| self.file.of(kind).get(name).map(|limit| (*limit, From::File)))
        };
        let (limit, from) = said(name).or_else(|| said(DEFAULT))?;
        Some((limit?, from))
    }

    /// Whether there is a limit for a semaphore, by its name in the tree.
    pub fn may_limit(&self, node_name: &str) -> bool {
        let of_kind =
            |kind: &Kind| node_name.strip_prefix(kind.name()).is_some_and(|rest| rest.starts_with('-'));
        let Some(kind) = Kind::ALL.into_iter().find(of_kind) else { return true };
        let mut names = self.set.of(kind).keys().chain(self.file.of(kind).keys());
        let own = names.find(|name| Semaphore::new(kind, name.as_str()).node_name() == node_name);
        self.limit(kind, own.map_or(DEFAULT, String::as_str)).is_some()
    }

    /// Whether limits of this kind hold in a state.
    pub fn holds_in(&self, kind: Kind, state: JobState) -> bool {
        let states = if kind == Kind::Host { &self.host_states } else { &self.states };
        STATES.contains(&state) && states.contains(state.name())
    }

    /// The semaphores that somebody who works on this job in this state has to have a slot of.
    pub fn wanted(&self, about: &[Semaphore], state: JobState) -> Vec<(Semaphore, u32)> {
        let limited = |one: &Semaphore| {
            let (limit, _) = self.limit(one.kind, &one.name).filter(|_| self.holds_in(one.kind, state))?;
            Some((one.clone(), limit))
        };
        about.iter().filter_map(limited).collect()
    }
}

/// A named limit.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Semaphore {
    pub kind: Kind,
    pub name: String,
}

impl Semaphore {
    pub fn new(kind: Kind, name: impl Into<String>) -> Self {
        Self { kind, name: name.into() }
    }

    /// All that a job could be limited by.
    pub fn of(configuration: &Configuration) -> Vec<Semaphore> {
        let mut all = vec![
            Self::new(Kind::Collection, configuration.collection()),
            Self::new(Kind::Profile, configuration.profile_name.as_str()),
        ];
        all.extend(host(&configuration.payload_url).map(|host| Self::new(Kind::Host, host)));
        let names: BTreeSet<&String> = configuration.semaphores.iter().collect();
        all.extend(names.into_iter().map(|name| Self::new(Kind::Name, name.as_str())));
        all.retain(|one| !one.name.is_empty());
        // Always in the same order, whoever wants several.
        all.sort();
        all
    }

    /// Its name in the tree. One that does not fit a path as it is gets a digest that tells it from others.
    pub fn node_name(&self) -> String {
        let fits = map::escape(&self.name) == self.name && self.name.len() <= 100;
        if fits {
            return format!("{}-{}", self.kind, self.name);
        }
        let short: String = map::escape(&self.name).chars().take(40).collect();
        format!("{}-{short}~{}", self.kind, map::hash(&[&self.name]))
    }

    pub fn path(&self) -> String {
        format!("{}/{}", map::SEMAPHORES, self.node_name())
    }
}

impl fmt::Display for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.name)
    }
}

/// The host that an address names, without port, user or case.
fn host(url: &str) -> Option<String> {
    let (_, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let host = authority.rsplit('@').next()?;
    let host = match host.strip_prefix('[') {
        Some(six) => six.split(']').next()?,
        None => host.split(':').next()?,
    };
    (!host.is_empty()).then(|| host.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(kind: Kind, limits: &[(&str, Option<u32>)]) -> Said {
        let mut said = Said::default();
        said.of_mut(kind).extend(limits.iter().map(|(name, limit)| ((*name).to_owned(), *limit)));
        said
    }

    #[test]
    fn a_name_goes_before_the_default_and_a_person_before_the_file() {
        let host = Kind::Host;
        let file = said(host, &[("a", Some(2)), ("b", Some(3)), (DEFAULT, Some(9))]);
        let set = said(host, &[("a", Some(5)), ("b", None), ("c", Some(1))]);
        let rules = Rules { file, set, ..Rules::default() };
        assert_eq!(rules.limit(host, "a"), Some((5, From::Set)));
        assert_eq!(rules.limit(host, "b"), None);
        assert_eq!(rules.limit(host, "c"), Some((1, From::Set)));
        assert_eq!(rules.limit(host, "else"), Some((9, From::File)));
        assert_eq!(rules.limit(Kind::Name, "a"), None);
        let limited = ["host-a", "host-b", "host-else", "name-a"].map(|name| rules.may_limit(name));
        assert_eq!(limited, [true, false, true, false]);
    }

    #[test]
    fn limits_of_hosts_hold_for_downloads_and_the_others_until_a_job_is_processed() {
        let rules = Rules::default();
        let holds = |kind| STATES.map(|state| rules.holds_in(kind, state));
        assert_eq!(holds(Kind::Host), [true, false, false, false]);
        assert_eq!(holds(Kind::Collection), [true, true, false, false]);
        assert!(!rules.holds_in(Kind::Name, JobState::Pending));
    }

    #[test]
    fn a_job_is_limited_by_collection_profile_host_and_what_its_profile_asks_for() {
        let configuration = Configuration {
            profile_name: "maps_content".into(),
            collection: Some("maps".into()),
            payload_url: "https://user@Files.Example.org:8443/a?b".into(),
            semaphores: vec!["tape-robot".into(), "tape-robot".into()],
            ..Configuration::default()
        };
        let all: Vec<_> = Semaphore::of(&configuration).iter().map(Semaphore::node_name).collect();
        let want = ["collection-maps", "host-files.example.org", "profile-maps_content", "name-tape-robot"];
        assert_eq!(all, want);
    }

    #[test]
    fn hosts_are_found_in_addresses() {
        for (url, want) in [
            ("http://a/b", Some("a")),
            ("ftp://u:p@h:21/x", Some("h")),
            ("http://[::1]:80/", Some("::1")),
            ("http:///x", None),
            ("a file", None),
        ] {
            assert_eq!(host(url).as_deref(), want, "{url}");
        }
    }

    #[test]
    fn names_that_do_not_fit_a_path_are_told_apart() {
        let path = |name: &str| Semaphore::new(Kind::Name, name).path();
        assert_ne!(path("a/b"), path("a_b"));
        for odd in ["a/b", "", "..", "\u{1f600}", &"x".repeat(2000)] {
            assert!(ingest_store::path::validate(&path(odd), false).is_ok(), "{odd}");
        }
    }

    #[test]
    fn rules_are_read_as_they_are_written() {
        use crate::dialect::Dialect;
        use crate::nodes::Node as _;
        let rules = Rules { set: said(Kind::Name, &[("t", None), ("u", Some(1))]), ..Rules::default() };
        assert_eq!(Rules::read(&rules.write(Dialect::Design)), Ok(rules));
        assert_eq!(Rules::read(b"{}"), Ok(Rules::default()));
    }
}
