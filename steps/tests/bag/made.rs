//! A small valid bag, and what validation says when something of it was changed.

use std::fs;
use std::path::{Path, PathBuf};

use ingest_steps::bag::{BagReport, validate};
use ingest_steps::digest::{Algorithm, Digests};
use ingest_steps::outcome::{Cancel, Progress};

pub(crate) fn hex(algorithm: Algorithm, content: &[u8]) -> String {
    let mut digests = Digests::of([algorithm]);
    digests.update(content);
    digests.finish()[0].hex().to_owned()
}

pub(crate) fn sha256(content: &str) -> String {
    hex(Algorithm::Sha256, content.as_bytes())
}

pub(crate) struct Made {
    dir: tempfile::TempDir,
}

impl Made {
    /// Two files, listed in `manifest-sha256.txt`.
    pub(crate) fn new() -> Self {
        Self::of_version("1.0")
    }

    pub(crate) fn of_version(version: &str) -> Self {
        let made = Self { dir: tempfile::tempdir().unwrap() };
        made.write("bagit.txt", &format!("BagIt-Version: {version}\nTag-File-Character-Encoding: UTF-8\n"));
        made.write("data/a.txt", "one");
        made.write("data/sub/b.txt", "two!");
        let rows = [made.row("data/a.txt"), made.row("data/sub/b.txt")].concat();
        made.write("manifest-sha256.txt", &rows);
        made
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, content: &str) {
        let path = self.at(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    pub(crate) fn append(&self, name: &str, content: &str) {
        let before = fs::read_to_string(self.at(name)).unwrap_or_default();
        self.write(name, &(before + content));
    }

    /// A line of a manifest, of a file as it is.
    pub(crate) fn row(&self, path: &str) -> String {
        format!("{}  {path}\n", sha256(&fs::read_to_string(self.at(path)).unwrap()))
    }

    pub(crate) fn report(&self) -> BagReport {
        validate(self.path(), &Progress::default(), &Cancel::new()).unwrap()
    }

    /// `code path` of each problem, after what it is: `valid`, `complete` or `incomplete`.
    pub(crate) fn findings(&self) -> Vec<String> {
        let report = self.report();
        let kind = match (report.complete(), report.valid()) {
            (_, true) => "valid",
            (true, false) => "complete",
            (false, false) => "incomplete",
        };
        assert_eq!(report.verdict().is_ok(), report.valid());
        let told = report.problems.iter().map(|found| format!("{} {}", found.code.as_str(), found.path));
        std::iter::once(kind.to_owned()).chain(told).collect()
    }

    pub(crate) fn warnings(&self) -> Vec<String> {
        let report = self.report();
        report.warnings.iter().map(|found| format!("{} {}", found.code.as_str(), found.path)).collect()
    }
}
