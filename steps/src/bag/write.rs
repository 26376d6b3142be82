//! Writes bags of version 1.0.
//!
//! The bag is made in a directory beside the wanted one and renamed when it is whole.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::paths;
use super::validate::digest_file;
use super::{Version, broken};
use crate::digest::{Algorithm, Digests};
use crate::outcome::{Cancel, Failure, Progress, Result};

/// How payload files get into a bag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placing {
    /// As a hard link, and as a copy where the file system cannot link. Whoever changes the file later
    /// changes the bag.
    Link,
    Copy,
}

/// Writes a bag as the directory `dir`, which does not exist yet or is empty.
///
/// `payload` are names below `data/` and where the files are. `info` goes to `bag-info.txt`;
/// `Payload-Oxum` and, if it is not given, `Bagging-Date` are added. Each algorithm gets a payload manifest
/// and a tag manifest.
///
/// Blocks: call it off the runtime. Between chunks it looks whether it was cancelled.
pub fn write_bag(
    dir: &Path,
    payload: &[(String, PathBuf)],
    info: &[(String, String)],
    algorithms: &[Algorithm],
    placing: Placing,
    progress: &Progress,
    cancel: &Cancel,
) -> Result<()> {
    if algorithms.is_empty() {
        return Err(Failure::fail("a bag needs a digest algorithm; sha-512 is usual"));
    }
    let payload = by_name(payload)?;
    let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let staging = tempfile::Builder::new()
        .prefix(".bagging-")
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .tempdir_in(parent)
        .map_err(|error| broken(parent, &error))?;
    let mut bag = Writing { root: staging.path(), algorithms, progress, cancel };
    fs::create_dir(bag.root.join("data")).map_err(|error| broken(dir, &error))?;

    let mut manifests = Manifests::default();
    let mut bytes = 0;
    for (name, from) in &payload {
        let path = format!("data/{name}");
        let target = bag.root.join(&path);
        place(from, &target, placing)?;
        bytes += fs::metadata(&target).map_err(|error| broken(&target, &error))?.len();
        bag.digest(&path, &mut manifests)?;
        progress.add_file();
    }
    let declaration = format!("BagIt-Version: {}\nTag-File-Character-Encoding: UTF-8\n", Version::V1_0);
    let mut tags = vec![("bagit.txt".to_owned(), declaration)];
    tags.push(("bag-info.txt".to_owned(), info_text(info, bytes, payload.len())?));
    tags.extend(manifests.texts("manifest", algorithms));
    let mut tag_manifests = Manifests::default();
    for (name, text) in &tags {
        bag.tag_file(name, text)?;
        bag.digest(name, &mut tag_manifests)?;
    }
    for (name, text) in tag_manifests.texts("tagmanifest", algorithms) {
        bag.tag_file(&name, &text)?;
    }
    // An empty directory is replaced, any other is not.
    fs::rename(staging.path(), dir).map_err(|error| broken(dir, &error))?;
    // It has its new name; there is nothing left to remove.
    let _ = staging.keep();
    Ok(())
}

/// The payload in the order of its names, none of which leaves `data/` or comes twice.
fn by_name(payload: &[(String, PathBuf)]) -> Result<BTreeMap<&str, &Path>> {
    let mut by_name = BTreeMap::new();
    for (name, path) in payload {
        // A `~` is only special at a path's beginning, and there `data/` stands.
        if let Err(why) = paths::check(&format!("data/{name}")) {
            return Err(Failure::fail(format!("{name:?} cannot be in a bag: {why}")));
        }
        if by_name.insert(name.as_str(), path.as_path()).is_some() {
            return Err(Failure::fail(format!("{name:?} is to be in the bag twice")));
        }
    }
    Ok(by_name)
}

/// The lines of a manifest by algorithm.
#[derive(Default)]
struct Manifests(BTreeMap<Algorithm, String>);

impl Manifests {
    /// One for each algorithm, with nothing in it if there was nothing.
    fn texts(mut self, prefix: &str, algorithms: &[Algorithm]) -> BTreeMap<String, String> {
        let named = |algorithm: &Algorithm| {
            let text = self.0.remove(algorithm).unwrap_or_default();
            (format!("{prefix}-{}.txt", algorithm.plain_name()), text)
        };
        let mut algorithms = algorithms.to_vec();
        algorithms.sort_unstable();
        algorithms.dedup();
        algorithms.iter().map(named).collect()
    }
}

struct Writing<'a> {
    root: &'a Path,
    algorithms: &'a [Algorithm],
    progress: &'a Progress,
    cancel: &'a Cancel,
}

impl Writing<'_> {
    fn digest(&mut self, path: &str, manifests: &mut Manifests) -> Result<()> {
        let digests = Digests::of(self.algorithms.iter().copied());
        for digest in digest_file(&self.root.join(path), digests, self.progress, self.cancel)? {
            let text = manifests.0.entry(digest.algorithm()).or_default();
            // Writing to a string does not fail.
            let _ = writeln!(text, "{}  {}", digest.hex(), paths::encode(path));
        }
        Ok(())
    }

    fn tag_file(&self, name: &str, text: &str) -> Result<()> {
        fs::write(self.root.join(name), text).map_err(|error| broken(&self.root.join(name), &error))
    }
}

fn place(from: &Path, target: &Path, placing: Placing) -> Result<()> {
    let is_file = fs::symlink_metadata(from).map_err(|error| broken(from, &error))?.is_file();
    if !is_file {
        return Err(Failure::fail(format!("{}: it is no plain file and cannot be in a bag", from.display())));
    }
    if let Some(parent) = target.parent() {
        fs::create_dir_all(parent).map_err(|error| broken(parent, &error))?;
    }
    if placing == Placing::Link {
        match fs::hard_link(from, target) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => return Err(broken(target, &error)),
            // Another file system, or one without links: a copy is as good.
            Err(_) => {}
        }
    }
    fs::copy(from, target).map(|_| ()).map_err(|error| broken(from, &error))
}

fn info_text(info: &[(String, String)], bytes: u64, files: usize) -> Result<String> {
    let mut text = String::new();
    let mut line = |label: &str, value: &str| {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{label}: {value}");
    };
    for (label, value) in info {
        let odd = label.trim() != label || label.is_empty() || label.contains(':');
        if odd || label.chars().any(char::is_control) {
            return Err(Failure::fail(format!("{label:?} is no label for bag-info.txt")));
        }
        if label.eq_ignore_ascii_case("Payload-Oxum") {
            continue;
        }
        let words: Vec<_> =
            value.split(char::is_control).map(str::trim).filter(|word| !word.is_empty()).collect();
        line(label, &words.join(" "));
    }
    if !info.iter().any(|(label, _)| label.eq_ignore_ascii_case("Bagging-Date")) {
        let today = jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC).date();
        line("Bagging-Date", &today.to_string());
    }
    line("Payload-Oxum", &format!("{bytes}.{files}"));
    Ok(text)
}
