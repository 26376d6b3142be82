//! Profiles: what a collection wants done with its deposits. One TOML file each, named after the profile.
//!
//! Reading is strict: an unknown key, a wrong type or a value that makes no sense is an error with the file,
//! the line and the key, and with the key that was perhaps meant. [`Profiles::load`] reads all files of a
//! directory and lists every problem of all of them.
//!
//! **When things break.** A profile that cannot be read is not used, and whoever asks for it by name is told
//! what is wrong with it. A job ends with the version of the profile that it began with, so the text of a
//! profile goes along with its number.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use ingest_queue::map::Priority;
use ingest_queue::nodes::FrozenProfile;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use url::Url;

use crate::fetch::redacted;
use crate::size;

/// What a collection wants.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// The name that submissions give; it is also the file's name.
    pub name: String,
    /// The collection's mnemonic: what holds and limits are about.
    pub collection: String,
    /// What people call it.
    pub title: String,
    /// Whose local ids these are: two owners may use the same ones.
    pub owner: String,
    /// Which storage of the configuration takes its objects.
    #[serde(default = "default_service")]
    pub storage: String,
    /// Which minter of the configuration names them.
    #[serde(default = "default_service")]
    pub minter: String,
    /// Who is told.
    #[serde(default)]
    pub notify: Notify,
    /// Called when a job is done: `POST {callback}/{jid}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub callback: Option<Callback>,
    /// Where its jobs begin in the queue.
    #[serde(default, deserialize_with = "priority", serialize_with = "priority_number")]
    pub priority: Priority,
    /// Whether new batches wait until a person releases them.
    #[serde(default)]
    pub hold: bool,
    #[serde(default)]
    pub limits: Limits,
    /// Hosts that its payloads may come from; none: any that is not forbidden. `*.example.org` is also
    /// `example.org`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_hosts: Vec<String>,
    /// Whose submissions may use it; none: everybody's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub submitters: Vec<String>,
    /// Where submissions may give identifiers of their own to new objects, as `ark:/13030/c7` or `ark:/13030`; none: a
    /// given identifier is that of an object that exists.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ark_prefixes: Vec<String>,
    /// Free names of limits: each of its jobs takes a slot of each while it is worked on (`[limits.names]`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub semaphores: Vec<String>,
}

/// Who gets mail.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Notify {
    /// Addresses that get the reports, besides the submission's own.
    pub to: Vec<String>,
    /// Whether a mail also tells that a submission was queued.
    pub queued: bool,
}

/// How much one object may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Files of one object.
    pub files: u64,
    /// Bytes of one file.
    #[serde(with = "size")]
    pub file_bytes: u64,
    /// Bytes of one object.
    #[serde(with = "size")]
    pub object_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { files: 100_000, file_bytes: 1 << 40, object_bytes: 4 << 40 }
    }
}

/// Where to call, with basic auth if the URL has a user. Never shown with its password.
#[derive(Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(transparent)]
pub struct Callback(Url);

impl Callback {
    pub fn url(&self) -> &Url {
        &self.0
    }
}

impl fmt::Debug for Callback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", redacted(&self.0))
    }
}

fn default_service() -> String {
    "default".into()
}

pub(crate) fn priority<'de, D: Deserializer<'de>>(from: D) -> Result<Priority, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Either {
        Number(i64),
        Name(String),
    }
    let text = match Either::deserialize(from)? {
        Either::Number(number) => number.to_string(),
        Either::Name(name) => name,
    };
    text.parse().map_err(serde::de::Error::custom)
}

// Serde calls it with a reference.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn priority_number<S: Serializer>(priority: &Priority, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u8(priority.number())
}

/// What is wrong with a profile, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub file: PathBuf,
    /// From 1; `None` if it is about the file as a whole.
    pub line: Option<usize>,
    pub what: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        write!(f, ": {}", self.what)
    }
}

impl Profile {
    /// Reads a profile; `file` is for the problems, and its stem must be the profile's name.
    pub fn parse(file: &Path, text: &str) -> Result<Self, Vec<Problem>> {
        let problem = |line, what| Problem { file: file.to_owned(), line, what };
        let profile: Profile = toml::from_str(text).map_err(|error| {
            let line = error.span().map(|span| line_of(text, span.start));
            vec![problem(line, suggestion(error.message()))]
        })?;
        let at = |key: &str| line_of_key(text, key);
        let problems: Vec<_> =
            profile.judge(file).into_iter().map(|(key, what)| problem(at(key), what)).collect();
        if problems.is_empty() { Ok(profile) } else { Err(problems) }
    }

    /// What the types do not say.
    fn judge(&self, file: &Path) -> Vec<(&'static str, String)> {
        let mut found = Vec::new();
        let stem = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        if self.name != stem {
            found.push((
                "name",
                format!("name is `{}`, and the file is called `{stem}`: they must agree", self.name),
            ));
        }
        for (key, text) in [("name", &self.name), ("collection", &self.collection)] {
            let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
            if text.is_empty() || text.len() > 100 || !text.chars().all(fits) || text.starts_with('.') {
                let why = "letters, digits, `_`, `-` and `.`, at most 100, not beginning with `.`";
                found.push((key, format!("{key} `{text}`: {why}")));
            }
        }
        for (key, text) in [("title", &self.title), ("owner", &self.owner)] {
            if text.trim().is_empty() {
                found.push((key, format!("{key} is empty")));
            }
        }
        for address in &self.notify.to {
            if address.parse::<lettre::Address>().is_err() {
                found.push(("to", format!("notify.to: `{address}` is not a mail address")));
            }
        }
        if let Some(Callback(url)) = &self.callback
            && !matches!(url.scheme(), "http" | "https")
        {
            found.push(("callback", format!("callback: `{}` is neither http nor https", redacted(url))));
        }
        for host in &self.allowed_hosts {
            let plain = host.strip_prefix("*.").unwrap_or(host);
            if url::Host::parse(plain).is_err() || plain.contains('/') {
                found.push(("allowed_hosts", format!("allowed_hosts: `{host}` is not a host")));
            }
        }
        for prefix in &self.ark_prefixes {
            let plain = prefix.trim_end_matches('/');
            let is_ark = |text: &str| text.parse::<crate::ark::Ark>().is_ok();
            if !is_ark(plain) && !is_ark(&format!("{plain}/x")) {
                let why = format!("ark_prefixes: `{prefix}` is not like `ark:/13030/c7` or `ark:/13030`");
                found.push(("ark_prefixes", why));
            }
        }
        if self.submitters.iter().any(|name| name.trim().is_empty()) {
            found.push(("submitters", "submitters: a name is empty".into()));
        }
        let Limits { files, file_bytes, object_bytes } = self.limits;
        for (key, number) in [("files", files), ("file_bytes", file_bytes), ("object_bytes", object_bytes)] {
            if number == 0 {
                found.push((key, format!("limits.{key} is 0: nothing could ever be deposited")));
            }
        }
        found
    }

    /// As a batch keeps it for its jobs.
    pub fn frozen(&self, version: Option<u32>) -> Result<FrozenProfile, String> {
        let text = toml::to_string(self).map_err(|error| error.to_string())?;
        let digest = ingest_queue::shared::digest_of(&text);
        Ok(FrozenProfile { name: self.name.clone(), version, digest, text, ..FrozenProfile::default() })
    }

    /// What was kept so.
    pub fn thaw(frozen: &FrozenProfile) -> Result<Self, String> {
        toml::from_str(&frozen.text).map_err(|error| error.message().to_owned())
    }

    /// Whether payloads may come from a host.
    pub fn allows_host(&self, host: &str) -> bool {
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        let matches = |allowed: &String| {
            let allowed = allowed.to_ascii_lowercase();
            match allowed.strip_prefix("*.") {
                Some(domain) => host == domain || host.ends_with(&format!(".{domain}")),
                None => host == allowed,
            }
        };
        self.allowed_hosts.is_empty() || self.allowed_hosts.iter().any(matches)
    }
}

/// All profiles, of a directory, of the tree, or of both.
#[derive(Debug, Clone, Default)]
pub struct Profiles {
    by_name: BTreeMap<String, Profile>,
    problems: Vec<Problem>,
    /// Of those from the tree: how often each was put.
    versions: BTreeMap<String, u32>,
}

impl Profiles {
    /// Reads every `*.toml`. Blocks. Profiles with problems are left out and their problems kept.
    pub fn load(dir: &Path) -> std::io::Result<Self> {
        let mut files = Vec::new();
        for entry in std::fs::read_dir(dir)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "toml") {
                files.push(path);
            }
        }
        files.sort();
        let mut all = Self::default();
        for file in files {
            let read = std::fs::read_to_string(&file)
                .map_err(|error| vec![Problem { file: file.clone(), line: None, what: error.to_string() }]);
            match read.and_then(|text| Profile::parse(&file, &text)) {
                Ok(profile) => {
                    all.by_name.insert(profile.name.clone(), profile);
                }
                Err(problems) => all.problems.extend(problems),
            }
        }
        Ok(all)
    }

    /// Reads texts of the tree: name, version, text.
    pub fn of_texts<'a>(texts: impl IntoIterator<Item = (&'a str, u32, &'a str)>) -> Self {
        let mut all = Self::default();
        for (name, version, text) in texts {
            match Profile::parse(Path::new(&format!("{name}.toml")), text) {
                Ok(profile) => {
                    all.versions.insert(name.to_owned(), version);
                    all.by_name.insert(name.to_owned(), profile);
                }
                Err(problems) => all.problems.extend(problems),
            }
        }
        all
    }

    /// These, and those of the others that have other names.
    pub fn over(mut self, others: &Self) -> Self {
        let of_problem = |problem: &Problem| problem.file.file_stem().map(std::ffi::OsStr::to_os_string);
        for (name, profile) in &others.by_name {
            let bad = self
                .problems
                .iter()
                .any(|problem| of_problem(problem).is_some_and(|stem| stem == name.as_str()));
            if !bad {
                self.by_name.entry(name.clone()).or_insert_with(|| profile.clone());
            }
        }
        self.problems.extend(others.problems.iter().cloned());
        self
    }

    /// Of a profile of the tree: how often it was put.
    pub fn version(&self, name: &str) -> Option<u32> {
        self.versions.get(name).copied()
    }

    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    pub fn iter(&self) -> impl Iterator<Item = &Profile> {
        self.by_name.values()
    }

    /// Those that a submitter may use.
    pub fn visible_to(&self, submitter: &str) -> Self {
        let mut visible = self.clone();
        visible.by_name.retain(|_, profile| crate::rights::may_use(profile, submitter).is_ok());
        visible
    }

    /// Whether there is one that is not for everybody.
    pub fn any_restricted(&self) -> bool {
        self.by_name.values().any(|profile| !profile.submitters.is_empty())
    }

    /// A profile by its name, or why there is none, with what was perhaps meant.
    pub fn get(&self, name: &str) -> Result<&Profile, String> {
        if let Some(profile) = self.by_name.get(name) {
            return Ok(profile);
        }
        let stem = |problem: &&Problem| problem.file.file_stem().is_some_and(|stem| stem == name);
        if let Some(problem) = self.problems.iter().find(stem) {
            return Err(format!("the profile `{name}` cannot be used: {problem}"));
        }
        let meant = closest(name, self.by_name.keys().map(String::as_str));
        let meant = meant.map(|meant| format!("; did you mean `{meant}`?")).unwrap_or_default();
        Err(format!("there is no profile `{name}`{meant}"))
    }
}

fn line_of(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1
}

fn line_of_key(text: &str, key: &str) -> Option<usize> {
    let is_key = |line: &str| {
        line.trim_start().strip_prefix(key).is_some_and(|rest| rest.trim_start().starts_with('='))
    };
    text.lines().position(is_key).map(|index| index + 1)
}

/// A message of the TOML reader, with the key that was perhaps meant.
fn suggestion(message: &str) -> String {
    let mut quoted = message.split('`').skip(1).step_by(2);
    let first_line = message.lines().next().unwrap_or(message);
    if !message.starts_with("unknown field") {
        return first_line.to_owned();
    }
    let unknown = quoted.next().unwrap_or_default();
    match closest(unknown, quoted) {
        Some(meant) => format!("unknown key `{unknown}`; did you mean `{meant}`?"),
        None => first_line.replacen("unknown field", "unknown key", 1),
    }
}

/// The name that is at most a third of its letters away.
pub fn closest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    known
        .map(|candidate| (distance(name, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= candidate.chars().count().div_ceil(3))
        .min()
        .map(|(_, candidate)| candidate)
}

/// How many letters have to be put in, left out or changed.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let changed = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = r#"
name = "herbarium_content"
collection = "herbarium"
title = "Herbarium sheets"
owner = "ark:/99999/fk4herb"
priority = "new"
callback = "https://user:secret@example.org/done"
allowed_hosts = ["*.example.org", "files.example.net"]

[notify]
to = ["curators@example.org"]
queued = true

[limits]
files = 10
"#;

    fn parse(text: &str) -> Result<Profile, Vec<String>> {
        let problems = |found: Vec<Problem>| found.iter().map(Problem::to_string).collect();
        Profile::parse(Path::new("profiles/herbarium_content.toml"), text).map_err(problems)
    }

    #[test]
    fn a_whole_profile_is_read() {
        let profile = parse(WHOLE).unwrap();
        assert_eq!(profile.priority.number(), 20);
        assert_eq!((profile.storage.as_str(), profile.hold), ("default", false));
        assert_eq!((profile.limits.files, profile.limits.file_bytes), (10, 1 << 40));
        let units = WHOLE.to_owned() + "file_bytes = '2 GiB'\nobject_bytes = 5";
        let limits = parse(&units).unwrap().limits;
        assert_eq!((limits.file_bytes, limits.object_bytes), (2 << 30, 5));
        assert!(
            parse(&(WHOLE.to_owned() + "file_bytes = 'much'")).unwrap_err()[0].contains("`much` is no size")
        );
        assert!(profile.allows_host("a.Example.org.") && profile.allows_host("example.org"));
        assert!(!profile.allows_host("badexample.org") && !profile.allows_host("a.files.example.net"));
        let again: Profile = toml::from_str(&toml::to_string(&profile).unwrap()).unwrap();
        assert_eq!(again, profile);
    }

    #[test]
    fn a_password_is_not_shown() {
        let shown = format!("{:?}", parse(WHOLE).unwrap());
        assert!(shown.contains("https://***@example.org/done") && !shown.contains("secret"), "{shown}");
    }

    #[test]
    fn an_unknown_key_is_named_with_its_line_and_what_was_meant() {
        let found = parse(&WHOLE.replace("owner =", "onwer =")).unwrap_err();
        assert_eq!(found, ["profiles/herbarium_content.toml:5: unknown key `onwer`; did you mean `owner`?"]);
    }

    #[test]
    fn a_missing_key_is_named() {
        let found = parse(&WHOLE.replace("title = \"Herbarium sheets\"\n", "")).unwrap_err();
        assert!(found[0].contains("missing field `title`"), "{found:?}");
    }

    #[test]
    fn every_value_that_makes_no_sense_is_listed_with_its_line() {
        let text = WHOLE
            .replace("name = \"herbarium_content\"", "name = \"other\"")
            .replace("\"herbarium\"", "\"her/barium\"")
            .replace("curators@example.org", "curators")
            .replace("files = 10", "files = 0")
            .replace("https://user", "ftp://user");
        let found = parse(&text).unwrap_err();
        let at = |line: usize, what: &str| {
            let start = format!("profiles/herbarium_content.toml:{line}: ");
            assert!(found.iter().any(|p| p.starts_with(&start) && p.contains(what)), "{what}: {found:?}");
        };
        at(2, "they must agree");
        at(3, "collection `her/barium`");
        at(7, "neither http nor https");
        at(11, "`curators` is not a mail address");
        at(15, "limits.files is 0");
        assert_eq!(found.len(), 5);
        assert!(!found.concat().contains("secret"));
    }

    #[test]
    fn a_bad_profile_does_not_hide_the_others_and_is_explained_by_name() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("herbarium_content.toml"), WHOLE).unwrap();
        std::fs::write(dir.path().join("maps.toml"), "name = 3").unwrap();
        std::fs::write(dir.path().join("notes.txt"), "no profile").unwrap();
        let profiles = Profiles::load(dir.path()).unwrap();
        assert_eq!((profiles.iter().count(), profiles.problems().len()), (1, 1));
        assert!(profiles.get("herbarium_content").is_ok());
        assert!(profiles.get("maps").unwrap_err().contains("maps.toml:1: invalid type"), "{profiles:?}");
        let why = profiles.get("herbarium_contnt").unwrap_err();
        assert_eq!(why, "there is no profile `herbarium_contnt`; did you mean `herbarium_content`?");
        assert_eq!(profiles.get("zzz").unwrap_err(), "there is no profile `zzz`");
    }

    #[test]
    fn the_profiles_that_ship_have_no_problems() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../config/profiles");
        let profiles = Profiles::load(&dir).unwrap();
        assert_eq!(profiles.problems(), []);
        assert!(profiles.iter().count() >= 3);
    }
}
