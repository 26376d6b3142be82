//! Where objects are kept: one trait, and the three places that it stands for.
//!
//! | place | module |
//! |---|---|
//! | an OCFL 1.1 repository in a directory (the default) | [`ocfl`] |
//! | an S3-compatible bucket | [`s3`] |
//! | a storage service over HTTP, by manifest hand-over | [`http`] |
//!
//! An object is known by its ARK in the canonical form ([`Ark`] prints it): any other spelling of it is refused,
//! so that one object is never kept as two. It has versions 1, 2, … without gaps, each a whole state: the files
//! of a request and those that it carries forward are all the files of the new version, and a file of the version
//! before that is not among them is not in the new one. Content that an earlier version holds already is kept once;
//! what is carried forward is neither read nor copied.
//!
//! A store is done once per key. The key is kept with the version that it made; a request with a key that
//! the object knows answers with that version, reads none of its files and changes nothing, even where the
//! files of the repeated request differ.
//!
//! **When things break.** A store that failed, was stopped or was killed has made its version or has not;
//! readers never see half of one. What it left behind is cleared by the next store of that object. A source
//! file that is not what the request says fails the store before anything is made. A request whose files were
//! chosen against another newest version than the object has by now is given back: a version that somebody else
//! made in the meantime is never overlooked.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use serde::{Deserialize, Serialize};
use url::Url;

use crate::ark::{Ark, NotAnArk};
use crate::digest::{Algorithm, Digest, Digests};
use crate::outcome::{Cancel, Failure, Progress, Result};

mod content;
pub mod disk;
pub mod http;
pub mod ocfl;
pub mod s3;
mod turns;

/// A place that keeps objects.
pub trait Storage: Send + Sync + std::fmt::Debug {
    /// Makes the next version of an object, or finds the one that this key made.
    fn store<'a>(
        &'a self,
        request: &'a StoreRequest,
        progress: &'a Progress,
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<Stored>>;

    /// The version that a store with this key has made.
    fn version_of<'a>(&'a self, ark: &'a str, key: &'a str) -> BoxFuture<'a, Result<Option<Stored>>>;

    /// What a version holds, or the newest one; nothing where there is no such object or version.
    fn manifest<'a>(
        &'a self,
        ark: &'a str,
        version: Option<u32>,
    ) -> BoxFuture<'a, Result<Option<StoredManifest>>>;

    /// The content of one file. The stream ends with a failure if what was read is not what was stored.
    fn open<'a>(&'a self, ark: &'a str, version: u32, path: &'a str) -> BoxFuture<'a, Result<Content>>;

    /// Reads everything that every version of an object holds, and tells all that is wrong with it. An object that
    /// is not there is an answer, too: [`Audit::absent`].
    fn audit<'a>(
        &'a self,
        ark: &'a str,
        progress: &'a Progress,
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<Audit>>;

    /// Everything that lies where objects lie, in no particular order. What cannot be listed is a failure
    /// among them, and the rest follows.
    fn entries(&self) -> BoxStream<'_, Result<Entry>>;

    /// The ARKs of all objects among the [`Storage::entries`]. An object that does not say which one it is, is a
    /// failure among them.
    fn objects(&self) -> BoxStream<'_, Result<String>> {
        let named = |entry| match entry {
            Ok(Entry::Object(ark)) => Some(Ok(ark)),
            Ok(Entry::Nameless { place, why }) => Some(Err(Failure::fail(format!("{place}: {why}")))),
            Ok(Entry::Foreign { .. }) => None,
            Err(failure) => Some(Err(failure)),
        };
        self.entries().filter_map(move |entry| std::future::ready(named(entry))).boxed()
    }
}

/// Something that lies where objects lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// An object, in its own place.
    Object(String),
    /// What lies in the place of some object, and nothing readable says of which.
    Nameless { place: String, why: String },
    /// What is no object of this program.
    Foreign { place: String, why: String },
}

/// How a deposit meets the object that it is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// A new object, or the next version of one: its files and those of the payload.
    Add,
    /// The next version of an object that exists: its files and those of the payload.
    Update,
    /// The next version of an object that exists: the files of the payload and no others.
    Replace,
}

impl Mode {
    /// As it is submitted.
    pub const NAMES: [&'static str; 3] = ["add", "update", "replace"];

    pub fn name(self) -> &'static str {
        match self {
            Mode::Add => "add",
            Mode::Update => "update",
            Mode::Replace => "replace",
        }
    }

    /// Whether there has to be an object already.
    pub fn needs_object(self) -> bool {
        self != Mode::Add
    }
}

impl FromStr for Mode {
    type Err = String;

    /// Nothing is `add`.
    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match text.trim().to_ascii_lowercase().as_str() {
            "" | "add" => Ok(Mode::Add),
            "update" => Ok(Mode::Update),
            "replace" => Ok(Mode::Replace),
            other => Err(format!(
                "the submission mode `{}` is not known; known are {}",
                other.escape_debug(),
                Mode::NAMES.join(", ")
            )),
        }
    }
}

/// A version to be made.
#[derive(Debug, Clone)]
pub struct StoreRequest {
    pub ark: String,
    /// What all attempts of this store share: one line.
    pub key: String,
    pub mode: Mode,
    /// The files of the version that are sent.
    pub files: Vec<StoreFile>,
    /// Its other files, which an earlier version has.
    pub carried: Carried,
    /// The newest version when the files were chosen, 0 if there was no object. If it is another by now, nothing is
    /// stored. `None`: whichever it is.
    pub head: Option<u32>,
    /// Why the version is made, for people.
    pub message: String,
    pub user: User,
    /// Where the storage manifest of these files can be fetched; only [`http`] needs it.
    pub manifest_url: Option<Url>,
}

/// Files of an earlier version that are in a new one, too.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Carried {
    /// The version that has them.
    pub version: u32,
    pub files: BTreeMap<String, Kept>,
}

/// Who made a version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    pub name: String,
    /// A URI: `mailto:…` or a page.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub address: Option<String>,
}

/// A file to be kept.
#[derive(Debug, Clone)]
pub struct StoreFile {
    /// Its name in the object, with `/` between directories.
    pub path: String,
    pub source: PathBuf,
    pub size: u64,
    /// What is known of its content; each is checked.
    pub digests: Vec<Digest>,
}

/// A version that was made, now or by an earlier attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    pub version: u32,
    /// An earlier attempt had made it.
    pub already: bool,
    pub files: BTreeMap<String, Kept>,
    /// Bytes of all its files, each path counted.
    pub size: u64,
}

/// A version, read back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredManifest {
    pub ark: String,
    pub version: u32,
    /// The newest version of the object.
    pub head: u32,
    /// RFC 3339.
    pub created: String,
    pub message: String,
    pub key: Option<String>,
    pub files: BTreeMap<String, Kept>,
}

/// A file that is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    pub size: u64,
    pub digest: Digest,
    /// Where the content is, in the words of the place: a path or a URL.
    pub location: String,
}

/// Content on its way out.
pub struct Content {
    pub size: u64,
    pub digest: Digest,
    pub stream: BoxStream<'static, Result<Bytes>>,
}

impl std::fmt::Debug for Content {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Content")
            .field("size", &self.size)
            .field("digest", &self.digest)
            .finish_non_exhaustive()
    }
}

/// What an audit found in one place, and what was read there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Audit {
    /// Whether there is anything of the object, in whatever condition.
    pub present: bool,
    /// Where it lies, in the words of the place.
    pub place: String,
    /// The newest version that is there.
    pub versions: u32,
    /// Files whose content was read, each once.
    pub files: u64,
    pub bytes: u64,
    /// How the object differs from what it says of itself: one line each; none if all is well.
    pub problems: Vec<String>,
    /// The versions that are there, from the first to the newest.
    pub state: BTreeMap<u32, StoredVersion>,
}

/// A version that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoredVersion {
    /// The files that it has by its own words, and what was read of each. Content that is kept once is the same one.
    Files(BTreeMap<String, Arc<Measured>>),
    /// What says which files it has is damaged.
    Unreadable,
}

/// What was read of the content of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Measured {
    /// All of it; these are the digests of what was read.
    Read {
        size: u64,
        digests: Vec<Digest>,
    },
    Missing,
    /// It is there, and could not be read to its end or is not what was stored.
    Damaged,
}

impl Audit {
    /// Of an object that is not there.
    pub fn absent(ark: &str) -> Self {
        Self { problems: vec![format!("there is no object {ark} to audit")], ..Self::default() }
    }
}

/// The longest name and the longest path that every place can keep, in bytes.
const LONGEST_NAME: usize = 255;
const LONGEST_PATH: usize = 900;
const LONGEST_KEY: usize = 500;
/// As many are told; the rest is counted.
const MOST_PROBLEMS: usize = 20;

impl StoreRequest {
    /// Bytes of the files that are sent.
    pub fn size(&self) -> u64 {
        self.files.iter().map(|file| file.size).sum()
    }

    /// Count and bytes of all files of the version.
    pub fn total(&self) -> (u64, u64) {
        let carried: u64 = self.carried.files.values().map(|kept| kept.size).sum();
        ((self.files.len() + self.carried.files.len()) as u64, self.size() + carried)
    }

    /// Refuses the request if its files were chosen against another version than the newest one, 0 if there is none.
    fn check_head(&self, newest: u32) -> Result<()> {
        match self.head {
            Some(head) if head != newest => Err(Failure::Again(format!(
                "{} has version {newest} now, and its next version was made to follow version {head}",
                self.ark
            ))),
            _ => Ok(()),
        }
    }

    /// Refuses what is to be carried forward if the version that is to have it does not.
    fn check_carried(&self, there: &BTreeMap<String, Kept>) -> Result<()> {
        let same = |kept: &Kept, wanted: &Kept| kept.size == wanted.size && kept.digest == wanted.digest;
        let missing = self
            .carried
            .files
            .iter()
            .find(|(path, wanted)| there.get(path.as_str()).is_none_or(|kept| !same(kept, wanted)));
        let Some((path, _)) = missing else { return Ok(()) };
        Err(Failure::fail(format!(
            "{} v{} does not have `{}` as it was to be carried forward; audit it",
            self.ark,
            self.carried.version,
            path.escape_debug()
        )))
    }

    /// Refuses what no place could keep, with the problems of all files in one failure.
    fn check(&self) -> Result<()> {
        let mut problems = Vec::new();
        problems.extend(canonical(&self.ark).err());
        problems.extend(check_line("the key", &self.key).err());
        if self.files.is_empty() {
            problems.push("there are no files to store".to_owned());
        }
        let mut paths = BTreeSet::new();
        for file in &self.files {
            problems.extend(check_path(&file.path).err());
            if !paths.insert(file.path.as_str()) {
                problems.push(format!("`{}` is there twice", file.path));
            }
        }
        for path in self.carried.files.keys() {
            if !paths.insert(path) {
                problems.push(format!("`{path}` is sent and carried forward"));
            }
        }
        for path in &paths {
            let directories = path.match_indices('/').map(|(end, _)| &path[..end]);
            problems.extend(
                directories
                    .filter(|directory| paths.contains(directory))
                    .map(|file| format!("`{file}` is a file and the directory of `{path}`")),
            );
        }
        if problems.is_empty() {
            return Ok(());
        }
        let more = problems.len().saturating_sub(MOST_PROBLEMS);
        problems.truncate(MOST_PROBLEMS);
        if more > 0 {
            problems.push(format!("and {more} more"));
        }
        Err(Failure::hopeless(format!("{} cannot be stored: {}", self.ark, problems.join("; "))))
    }
}

/// Refuses an identifier that is no ARK, or one that is spelled otherwise than it is kept.
fn check_ark(ark: &str) -> Result<()> {
    canonical(ark).map_err(Failure::Fail)
}

pub(crate) fn canonical(text: &str) -> std::result::Result<(), String> {
    let ark: Ark = text.parse().map_err(|error: NotAnArk| error.to_string())?;
    let canonical = ark.to_string();
    if canonical == text { Ok(()) } else { Err(format!("`{text}` is kept as {canonical}; ask for that")) }
}

fn check_line(what: &str, text: &str) -> std::result::Result<(), String> {
    let wrong = text.trim() != text || text.is_empty() || text.len() > LONGEST_KEY;
    if wrong || text.chars().any(char::is_control) {
        return Err(format!("{what} `{}` is not one line of 1 to {LONGEST_KEY} bytes", text.escape_debug()));
    }
    Ok(())
}

/// Whether a logical path can be kept: relative, no empty, `.` or `..` element, no NUL, not too long.
fn check_path(path: &str) -> std::result::Result<(), String> {
    let shown = path.escape_debug();
    if path.len() > LONGEST_PATH || path.split('/').any(|name| name.len() > LONGEST_NAME) {
        return Err(format!(
            "`{shown}` is too long: a name may have {LONGEST_NAME} bytes, a path {LONGEST_PATH}"
        ));
    }
    if path.contains('\0') {
        return Err(format!("`{shown}` contains a NUL"));
    }
    if path.split('/').any(|name| matches!(name, "" | "." | "..")) {
        return Err(format!("`{shown}` is no relative path, or has an empty, `.` or `..` element"));
    }
    Ok(())
}

/// Runs blocking work off the runtime. A panic in it is a failure of the job, not of the node.
async fn off_runtime<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    match crate::outcome::on_a_thread(work).await {
        Ok(result) => result,
        Err(error) => Err(Failure::fail(format!("the storage's work ended without an answer: {error}"))),
    }
}

fn stop_if(cancel: &Cancel) -> Result<()> {
    if cancel.is_cancelled() { Err(Failure::Cancelled) } else { Ok(()) }
}

/// Compares what was read with what the request says, and answers the sha-512.
fn verified(file: &StoreFile, found: Digests) -> Result<String> {
    let wrong = |what: String| {
        Failure::fail(format!(
            "`{}` ({}) is not what was to be stored: {what}; requeue the job from downloading",
            file.path,
            file.source.display()
        ))
    };
    if found.bytes() != file.size {
        let more = if found.bytes() > file.size { " or more" } else { "" };
        return Err(wrong(format!("it has {}{more} bytes, not {}", found.bytes(), file.size)));
    }
    let found = found.finish();
    if let Some(expected) = file.digests.iter().find(|digest| !found.contains(digest)) {
        return Err(wrong(format!("its digest is not {expected}")));
    }
    let sha512 = found.into_iter().find(|digest| digest.algorithm() == Algorithm::Sha512);
    sha512.map(|digest| digest.hex().to_owned()).ok_or_else(|| wrong("it has no sha-512".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(paths: &[&str]) -> StoreRequest {
        let file = |path: &&str| StoreFile {
            path: (*path).into(),
            source: PathBuf::from("x"),
            size: 1,
            digests: Vec::new(),
        };
        StoreRequest {
            ark: "ark:/99999/fk4".into(),
            key: "job-1/storing/0".into(),
            mode: Mode::Add,
            files: paths.iter().map(file).collect(),
            carried: Carried::default(),
            head: None,
            message: String::new(),
            user: User { name: "x".into(), address: None },
            manifest_url: None,
        }
    }

    #[test]
    fn odd_names_that_can_be_kept_are_kept() {
        let long = "ü".repeat(127);
        request(&["a b", "…/ünï", "a\nb", "..a/...", "~", "a%2Fb", "a\\b", &long]).check().unwrap();
    }

    #[test]
    fn every_name_that_cannot_be_kept_is_told() {
        let long = "x".repeat(256);
        let refused = ["/a", "a/", "a//b", ".", "../a", "a/../b", "a\0b", "", &long];
        for path in refused {
            assert!(matches!(request(&[path]).check(), Err(Failure::Hopeless(_))), "{path:?}");
        }
        let all = request(&refused).check().unwrap_err().to_string();
        assert!(refused.iter().all(|path| all.contains(&format!("`{}`", path.escape_debug()))), "{all}");
    }

    #[test]
    fn a_request_that_is_wrong_everywhere_is_refused_in_few_words() {
        let refused = request(&["/a"; 1000]).check().unwrap_err().to_string();
        assert!(refused.ends_with("; and 1979 more") && refused.len() < 3000, "{refused}");
    }

    #[test]
    fn a_file_cannot_be_a_directory_too_nor_be_there_twice() {
        let clash = request(&["a", "a-b", "a/b/c"]).check().unwrap_err().to_string();
        assert!(clash.contains("`a` is a file and the directory of `a/b/c`"), "{clash}");
        assert!(request(&["a", "a"]).check().unwrap_err().to_string().contains("twice"));
    }

    #[test]
    fn what_is_carried_forward_is_not_sent_too_nor_a_directory_of_what_is() {
        let digest = Digest::new(Algorithm::Sha512, &"a".repeat(128)).unwrap();
        let kept = Kept { size: 1, digest, location: String::new() };
        let mut wanted = request(&["a", "b/c"]);
        wanted.carried.files = BTreeMap::from([("a".into(), kept.clone()), ("b".into(), kept)]);
        let refused = wanted.check().unwrap_err().to_string();
        assert!(refused.contains("`a` is sent and carried forward"), "{refused}");
        assert!(refused.contains("`b` is a file and the directory of `b/c`"), "{refused}");
        assert_eq!(wanted.total(), (4, 4));
    }

    #[test]
    fn a_mode_is_known_by_its_name_and_nothing_is_add() {
        for name in Mode::NAMES {
            assert_eq!(name.to_uppercase().parse::<Mode>().unwrap().name(), name);
        }
        assert_eq!("".parse(), Ok(Mode::Add));
        assert!("merge".parse::<Mode>().unwrap_err().contains("known are add, update, replace"));
    }

    #[test]
    fn a_key_is_one_line_and_there_are_files() {
        let mut wrong = request(&["a"]);
        wrong.key = "a\nb".into();
        assert!(wrong.check().is_err());
        wrong.key = String::new();
        assert!(wrong.check().is_err());
        assert!(request(&[]).check().unwrap_err().to_string().contains("no files"));
    }
}
