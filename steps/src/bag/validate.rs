//! All of a bag against all rules; every problem is noted and the next one looked for.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;

use super::declaration::{self, Declaration, Encoding, Version};
use super::report::{BagReport, Code, Notes};
use super::tag_files::{self, FetchRow, Manifest};
use super::{broken, paths, walk};
use crate::digest::{Digest, Digests};
use crate::outcome::{Cancel, Failure, Progress, Result};

const CHUNK: usize = 256 << 10;

/// What manifests say of one path.
#[derive(Debug, Default)]
struct Listed<'a> {
    /// By how many manifests.
    by: usize,
    digests: Vec<(&'a str, &'a Digest)>,
}

/// Paths by what manifests say of them.
type Lists<'a> = BTreeMap<&'a str, Listed<'a>>;

/// Validates the bag in a directory.
///
/// Blocks: call it off the runtime. Between chunks it looks whether it was cancelled.
pub fn validate(dir: &Path, progress: &Progress, cancel: &Cancel) -> Result<BagReport> {
    let mut notes = Notes::default();
    let mut report = BagReport::default();
    let found = walk::all(dir, &mut notes, progress, cancel)?;
    let payload = || found.iter().filter(|(path, _)| paths::is_payload(path));
    report.files = payload().count() as u64;
    report.bytes = payload().map(|(_, size)| size).sum();
    if !std::fs::symlink_metadata(dir.join("data")).is_ok_and(|data| data.is_dir()) {
        notes.problem(Code::NoPayload, "data", "there is no directory data/ with the payload");
    }
    let declared = declaration::read(dir, &found, &mut notes)?;
    report.version = declared.map(|declared| declared.version);
    // Without a declaration the rest is still read as the newest version has it, to tell all at once.
    let declared = declared.unwrap_or(Declaration { version: Version::V1_0, encoding: Encoding::Utf8 });
    report.info = tag_files::read_info(dir, &found, declared, &mut notes)?;
    report.fetch = tag_files::read_fetch(dir, &found, declared, &mut notes)?;
    let manifests = tag_files::read_manifests(dir, &found, declared, &mut notes)?;

    let mut checks = Checks { version: declared.version, found: &found, notes: &mut notes };
    let (of_tags, of_payload): (Vec<_>, Vec<_>) = manifests.iter().partition(|manifest| manifest.of_tags);
    checks.known_manifests(&of_payload);
    let payload_lists = checks.lists(&of_payload);
    let tag_lists = checks.lists(&of_tags);
    checks.payload_is_listed(&payload_lists, of_payload.len());
    checks.listed_is_present(&payload_lists, &report.fetch);
    checks.listed_is_present(&tag_lists, &[]);
    checks.manifests_are_listed(&of_payload, &of_tags);
    checks.fetch(&report.fetch, &payload_lists, of_payload.len());
    checks.oxum(&report);

    let lists = || payload_lists.iter().chain(&tag_lists);
    let there = lists().filter_map(|(path, _)| found.get(*path));
    progress.announce(there.clone().count() as u64, there.sum());
    for (path, listed) in lists().filter(|(path, _)| found.contains_key(**path)) {
        compare(dir, path, listed, &mut notes, progress, cancel)?;
    }
    report.take(notes);
    Ok(report)
}

struct Checks<'a> {
    version: Version,
    found: &'a BTreeMap<String, u64>,
    notes: &'a mut Notes,
}

impl Checks<'_> {
    fn known_manifests(&mut self, of_payload: &[&Manifest]) {
        if of_payload.is_empty() {
            self.notes.problem(
                Code::NoManifest,
                "manifest-sha512.txt",
                "there is no payload manifest of any algorithm",
            );
        } else if of_payload.iter().all(|manifest| manifest.algorithm.is_none()) {
            let why = "no payload manifest is of a known algorithm; add one of sha512 or sha256";
            self.notes.problem(Code::UnknownAlgorithm, &of_payload[0].name, why);
        }
    }

    /// Puts manifests of one sort together by path.
    fn lists<'m>(&mut self, manifests: &[&'m Manifest]) -> Lists<'m> {
        let mut lists = Lists::new();
        for manifest in manifests {
            let mut seen = HashMap::<&str, Option<&Digest>>::new();
            for row in &manifest.rows {
                let path = self.on_disk(&row.path, row.written.as_deref());
                if !self.belongs(path, manifest) {
                    continue;
                }
                let before = seen.insert(path, row.digest.as_ref());
                if let Some(before) = before {
                    let why = format!("{} lists it more than once", manifest.name);
                    // Before 1.0 that was no sin, as long as it said the same.
                    if self.version < Version::V1_0 && before == row.digest.as_ref() {
                        self.notes.warning(Code::ListedTwice, path, why);
                        continue;
                    }
                    self.notes.problem(Code::ListedTwice, path, why);
                }
                let listed = lists.entry(path).or_default();
                listed.by += usize::from(before.is_none());
                listed.digests.extend(row.digest.as_ref().map(|digest| (manifest.name.as_str(), digest)));
            }
        }
        lists
    }

    /// The path, or as it is written if only that is there: many writers encode no percent signs.
    fn on_disk<'m>(&mut self, path: &'m str, written: Option<&'m str>) -> &'m str {
        match written {
            Some(written) if !self.found.contains_key(path) && self.found.contains_key(written) => {
                self.notes.warning(Code::OddPath, written, "its percent signs are not encoded as `%25`");
                written
            }
            _ => path,
        }
    }

    fn belongs(&mut self, path: &str, manifest: &Manifest) -> bool {
        let why = match (manifest.of_tags, paths::is_payload(path)) {
            (false, false) => "lists it, and it is not below data/",
            (true, true) => "lists it, and it is payload",
            (true, false) if is_tag_manifest(path) => "lists it, and tag manifests are not listed",
            _ => return true,
        };
        self.notes.problem(Code::Misplaced, path, format!("{} {why}", manifest.name));
        false
    }

    fn payload_is_listed(&mut self, lists: &Lists<'_>, manifests: usize) {
        for path in self.found.keys().filter(|path| paths::is_payload(path)) {
            self.is_listed(path, lists, manifests);
        }
    }

    fn is_listed(&mut self, path: &str, lists: &Lists<'_>, manifests: usize) {
        let by = lists.get(path).map_or(0, |listed| listed.by);
        if by == 0 {
            self.notes.problem(Code::NotListed, path, "no payload manifest lists it");
        } else if by < manifests && self.version >= Version::V1_0 {
            let why = format!("{by} of {manifests} payload manifests list it, and all have to");
            self.notes.problem(Code::NotListed, path, why);
        }
    }

    fn listed_is_present(&mut self, lists: &Lists<'_>, fetch: &[FetchRow]) {
        let fetch: HashMap<_, _> = fetch.iter().map(|row| (row.path.as_str(), row.url.as_str())).collect();
        for path in lists.keys().filter(|path| !self.found.contains_key(**path)) {
            match fetch.get(path) {
                Some(url) => {
                    self.notes.problem(Code::NotFetched, *path, format!("it was not fetched yet from {url}"));
                }
                None => self.notes.problem(Code::Missing, *path, "it is listed and not there"),
            }
        }
    }

    /// RFC 8493, 2.2.1: each tag manifest MUST list every payload manifest, and SHOULD list the other tag files. A
    /// payload manifest that one of them leaves out could be changed with its payload and nobody would see. Bags
    /// before 1.0 were made under drafts that said less, so there it is a warning.
    fn manifests_are_listed(&mut self, of_payload: &[&Manifest], of_tags: &[&Manifest]) {
        for tags in of_tags {
            let listed: HashSet<&str> = tags.rows.iter().map(|row| row.path.as_str()).collect();
            for manifest in of_payload.iter().filter(|manifest| !listed.contains(manifest.name.as_str())) {
                let why = format!("{} does not list it", tags.name);
                if self.version >= Version::V1_0 {
                    self.notes.problem(Code::NotListed, &manifest.name, why);
                } else {
                    self.notes.warning(Code::NotListed, &manifest.name, why);
                }
            }
        }
    }

    fn fetch(&mut self, rows: &[FetchRow], lists: &Lists<'_>, manifests: usize) {
        let mut seen = HashSet::new();
        for row in rows {
            if !seen.insert(&row.path) {
                self.notes.problem(Code::ListedTwice, &row.path, "fetch.txt lists it more than once");
            }
            // What is there has been looked at with the payload.
            match (self.found.get(&row.path), row.length) {
                (None, _) => self.is_listed(&row.path, lists, manifests),
                (Some(size), Some(length)) if *size != length => {
                    let why = format!("it has {size} bytes, and fetch.txt says {length}");
                    self.notes.problem(Code::WrongSize, &row.path, why);
                }
                _ => {}
            }
        }
    }

    fn oxum(&mut self, report: &BagReport) {
        let told: Vec<_> =
            report.info.iter().filter(|(label, _)| label.eq_ignore_ascii_case("Payload-Oxum")).collect();
        if told.len() > 1 {
            self.notes.problem(Code::WrongOxum, "bag-info.txt", "it has Payload-Oxum more than once");
        }
        for (_, value) in told {
            let numbers = value
                .split_once('.')
                .and_then(|(octets, count)| Some((octets.parse::<u64>().ok()?, count.parse::<u64>().ok()?)));
            let why = match numbers {
                None => format!("Payload-Oxum `{value}` is not bytes, a point and a number of files"),
                Some(told) if told != (report.bytes, report.files) => {
                    format!("Payload-Oxum is {value}, and the payload {}.{}", report.bytes, report.files)
                }
                Some(_) => continue,
            };
            self.notes.problem(Code::WrongOxum, "bag-info.txt", why);
        }
    }
}

fn is_tag_manifest(path: &str) -> bool {
    path.strip_prefix("tagmanifest-")
        .is_some_and(|rest| rest.strip_suffix(".txt").is_some() && !rest.contains('/'))
}

/// Reads a file once and compares all that is said of it.
fn compare(
    dir: &Path,
    path: &str,
    listed: &Listed<'_>,
    notes: &mut Notes,
    progress: &Progress,
    cancel: &Cancel,
) -> Result<()> {
    let digests = Digests::of(listed.digests.iter().map(|(_, digest)| digest.algorithm()));
    let found = digest_file(&dir.join(path), digests, progress, cancel)?;
    for (manifest, told) in &listed.digests {
        let Some(found) = found.iter().find(|found| found.algorithm() == told.algorithm()) else { continue };
        if found != *told {
            let why = format!("{manifest} says {told}, and it is {}", found.hex());
            notes.problem(Code::WrongDigest, path, why);
        }
    }
    progress.add_file();
    Ok(())
}

/// The digests of a file; between chunks it looks whether it was cancelled.
pub(super) fn digest_file(
    path: &Path,
    mut digests: Digests,
    progress: &Progress,
    cancel: &Cancel,
) -> Result<Vec<Digest>> {
    let mut file = File::open(path).map_err(|error| broken(path, &error))?;
    let mut buffer = vec![0; CHUNK];
    loop {
        if cancel.is_cancelled() {
            return Err(Failure::Cancelled);
        }
        match file.read(&mut buffer) {
            Ok(0) => return Ok(digests.finish()),
            Ok(count) => {
                digests.update(&buffer[..count]);
                progress.add_bytes(count as u64);
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(broken(path, &error)),
        }
    }
}
