//! The verdict on an object: what a storage has of it, against what the inventory has.
//!
//! One pure function, [`decide`], in three levels; the verdict on an object is the gravest of what was found.
//!
//! | object in the storage | in the inventory | verdict |
//! |---|---|---|
//! | yes | yes | version by version |
//! | a remnant without any version | yes | lost |
//! | nothing | yes | unstored |
//! | yes | no | unrecorded |
//! | nothing | no | unknown |
//! | yes | another service has it | by its own words only |
//!
//! | version in the storage | in the inventory | verdict |
//! |---|---|---|
//! | yes | yes | file by file |
//! | yes | no | unrecorded |
//! | no, and all that are there are older | yes | rolled back |
//! | no, and a newer one is there | yes | lost |
//! | damaged, so that nobody knows its files | yes | altered |
//!
//! | file in the storage | in the inventory | verdict |
//! |---|---|---|
//! | read | the same size and digests | sound |
//! | read | another size, another digest or none | altered |
//! | damaged | any | altered |
//! | its content is missing | any | lost |
//! | no | yes | lost |
//! | yes | no | unrecorded |
//!
//! In what an object differs from its own words ([`Audit::problems`]) it is altered, whatever the inventory has.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt;
use std::sync::Arc;

use crate::digest::Digest;
use crate::inventory::{FileRows, Rows, VersionRows};
use crate::storage::{Audit, Measured, StoredVersion};

/// What is said of an object, or of a part of one. From the best to the gravest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    Sound,
    Foreign,
    Unrecorded,
    Unreadable,
    Altered,
    RolledBack,
    Lost,
    Unstored,
    Unknown,
}

impl Verdict {
    pub const ALL: [Self; 9] = [
        Verdict::Sound,
        Verdict::Foreign,
        Verdict::Unrecorded,
        Verdict::Unreadable,
        Verdict::Altered,
        Verdict::RolledBack,
        Verdict::Lost,
        Verdict::Unstored,
        Verdict::Unknown,
    ];

    /// The word for programs; it never changes.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Sound => "sound",
            Verdict::Foreign => "foreign",
            Verdict::Unrecorded => "unrecorded",
            Verdict::Unreadable => "unreadable",
            Verdict::Altered => "altered",
            Verdict::RolledBack => "rolled-back",
            Verdict::Lost => "lost",
            Verdict::Unstored => "unstored",
            Verdict::Unknown => "unknown",
        }
    }

    /// What to do about it.
    pub fn advice(self) -> &'static str {
        match self {
            Verdict::Sound => "nothing",
            Verdict::Foreign => "find out who put it there, and move it out of the storage",
            Verdict::Unrecorded => {
                "audit it again when its job is done; a job that has failed in recording has to be requeued"
            }
            Verdict::Unreadable => {
                "make the storage and the inventory readable (permissions, keys, disks), and audit it again"
            }
            Verdict::Altered => "restore what differs from a copy of the storage or of the inventory",
            Verdict::RolledBack => "restore the newer versions from a copy of the storage",
            Verdict::Lost => "restore the content from a copy of the storage",
            Verdict::Unstored => {
                "see that every storage is configured and mounted; then restore the object from a copy of the storage"
            }
            Verdict::Unknown => "correct the identifier, or restore the inventory from a copy",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// What the inventory has of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recorded {
    /// Another service owns the inventory.
    Unasked,
    Nothing,
    Object(Rows),
}

/// One thing that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub verdict: Verdict,
    /// The first version that it is about, where it is about versions.
    pub version: Option<u32>,
    /// The file, where it is about one.
    pub path: Option<String>,
    pub what: String,
}

/// The verdict, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    pub verdict: Verdict,
    pub findings: Vec<Finding>,
}

/// As many are told of one object; the rest is counted.
const MAX_FINDINGS: usize = 1_000;

/// The verdict on what one storage has of an object. `elsewhere` is the newest version that another storage has: what
/// only that one has is not missed here.
pub fn decide(stored: &Audit, recorded: &Recorded, elsewhere: u32) -> Decision {
    let mut all = Findings::default();
    match (stored.present, recorded) {
        (false, Recorded::Object(_)) => {
            all.of_object(Verdict::Unstored, "it is recorded, and no storage has it");
        }
        (false, Recorded::Nothing) => {
            all.of_object(Verdict::Unknown, "no storage has it, and the inventory does not know it");
        }
        (false, Recorded::Unasked) => all.of_object(Verdict::Unknown, "no storage has it"),
        (true, recorded) => {
            for problem in &stored.problems {
                all.of_object(Verdict::Altered, problem);
            }
            match recorded {
                Recorded::Object(rows) => all.compare(stored, rows, elsewhere),
                Recorded::Nothing => {
                    all.of_object(Verdict::Unrecorded, "it is stored, and the inventory does not know it");
                    all.by_itself(stored);
                }
                Recorded::Unasked => all.by_itself(stored),
            }
        }
    }
    all.decision()
}

#[derive(Debug, Default)]
struct Findings {
    worst: Option<Verdict>,
    told: Vec<Finding>,
    more: usize,
    /// What was said of content that several versions share.
    shared: HashSet<(*const Measured, String)>,
}

impl Findings {
    fn push(&mut self, verdict: Verdict, version: Option<u32>, path: Option<&str>, what: String) {
        self.worst = self.worst.max(Some(verdict));
        if self.told.len() < MAX_FINDINGS {
            self.told.push(Finding { verdict, version, path: path.map(str::to_owned), what });
        } else {
            self.more += 1;
        }
    }

    fn of_object(&mut self, verdict: Verdict, what: &str) {
        self.push(verdict, None, None, what.to_owned());
    }

    fn of_version(&mut self, verdict: Verdict, version: u32, what: String) {
        self.push(verdict, Some(version), None, what);
    }

    fn decision(mut self) -> Decision {
        let verdict = self.worst.unwrap_or(Verdict::Sound);
        if self.more > 0 {
            let what = format!("and {} more", self.more);
            self.told.push(Finding { verdict, version: None, path: None, what });
        }
        Decision { verdict, findings: self.told }
    }

    /// What is missing by the object's own words.
    fn by_itself(&mut self, stored: &Audit) {
        for (number, version) in &stored.state {
            self.files_by_themselves(*number, version);
        }
    }

    fn files_by_themselves(&mut self, number: u32, version: &StoredVersion) {
        let StoredVersion::Files(files) = version else { return };
        for (path, measured) in files {
            self.missing(number, path, measured);
        }
    }

    fn compare(&mut self, stored: &Audit, rows: &Rows, elsewhere: u32) {
        let known = rows.versions.last_key_value().map_or(0, |(number, _)| *number);
        match rows.head {
            None => self.of_object(
                Verdict::Unrecorded,
                "the inventory has rows of its versions, and no row of the object: it does not list it",
            ),
            Some(head) if head > known => {
                let newest = stored.versions.max(elsewhere);
                let verdict = if head > newest { Verdict::RolledBack } else { Verdict::Unrecorded };
                let what = format!(
                    "version {head} is recorded as the newest and has no row, and the newest that is stored is {newest}"
                );
                self.of_version(verdict, head, what);
            }
            Some(head) if head < known => self.of_object(
                Verdict::Altered,
                &format!(
                    "the inventory contradicts itself: version {head} is recorded as the newest, and there is a {known}"
                ),
            ),
            Some(_) => {}
        }
        let numbers: BTreeSet<u32> = stored.state.keys().chain(rows.versions.keys()).copied().collect();
        for number in numbers {
            match (stored.state.get(&number), rows.versions.get(&number)) {
                (Some(there), Some(recorded)) => self.version(number, there, recorded),
                (Some(there), None) => {
                    if rows.head != Some(number) {
                        self.of_version(
                            Verdict::Unrecorded,
                            number,
                            format!("version {number} is stored, and the inventory does not know it"),
                        );
                    }
                    self.files_by_themselves(number, there);
                }
                (None, Some(_)) if number > stored.versions => self.newer(number, stored.versions, elsewhere),
                (None, _) => self.of_version(
                    Verdict::Lost,
                    number,
                    format!("version {number} is recorded, and nothing stored says which files it has"),
                ),
            }
        }
    }

    /// A version is recorded, and none that is stored here is as new.
    fn newer(&mut self, number: u32, newest: u32, elsewhere: u32) {
        if number <= elsewhere {
            return;
        }
        if newest == 0 {
            let what = format!("version {number} is recorded, and of the object only remnants are stored");
            self.of_version(Verdict::Lost, number, what);
        } else {
            let what = format!("version {number} is recorded, and the newest that is stored is {newest}");
            self.of_version(Verdict::RolledBack, number, what);
        }
    }

    fn version(&mut self, number: u32, there: &StoredVersion, recorded: &VersionRows) {
        if !recorded.version {
            let what =
                format!("version {number} is stored, and the inventory has no row of it, only of its parts");
            self.of_version(Verdict::Unrecorded, number, what);
        } else if !recorded.ingest {
            let what = format!("the inventory does not say where version {number} came from");
            self.of_version(Verdict::Altered, number, what);
        }
        let StoredVersion::Files(files) = there else {
            let what = format!("what says which files version {number} has is damaged");
            return self.of_version(Verdict::Altered, number, what);
        };
        let mut rows: BTreeMap<&str, &FileRows> =
            recorded.files.iter().map(|file| (file.path.as_str(), file)).collect();
        for (path, measured) in files {
            if let Some(row) = rows.remove(path.as_str()) {
                self.file(number, measured, row);
            } else {
                let what = format!("`{path}` is stored, and the inventory does not know it");
                self.shared(Verdict::Unrecorded, number, path, measured, &what);
                self.missing(number, path, measured);
            }
        }
        for path in rows.into_keys() {
            let what = format!("version {number}: `{path}` is recorded, and is not in the stored version");
            self.push(Verdict::Lost, Some(number), Some(path), what);
        }
    }

    fn file(&mut self, number: u32, measured: &Arc<Measured>, row: &FileRows) {
        let path = row.path.as_str();
        let (size, digests) = match &**measured {
            Measured::Read { size, digests } => (*size, digests),
            Measured::Missing => return self.missing(number, path, measured),
            Measured::Damaged => {
                let what =
                    format!("`{path}` cannot be compared with what is recorded: its content is damaged");
                return self.shared(Verdict::Altered, number, path, measured, &what);
            }
        };
        let mut altered = |what: String| self.shared(Verdict::Altered, number, path, measured, &what);
        if size != row.size {
            altered(format!("`{path}` has {size} bytes, and {} are recorded", row.size));
        }
        let mut compared = 0;
        for (algorithm, value) in &row.digests {
            let digest = algorithm.parse().and_then(|algorithm| Digest::new(algorithm, value));
            let Ok(digest) = digest else {
                altered(format!("`{path}` is recorded with `{algorithm} {value}`, which is no digest"));
                continue;
            };
            let Some(found) = digests.iter().find(|found| found.algorithm() == digest.algorithm()) else {
                continue;
            };
            compared += 1;
            if *found != digest {
                altered(format!("`{path}` has not the digest {digest} that is recorded"));
            }
        }
        if compared == 0 {
            altered(format!("`{path}` is recorded without a digest that could be compared"));
        }
    }

    fn missing(&mut self, number: u32, path: &str, measured: &Arc<Measured>) {
        if **measured == Measured::Missing {
            let what = format!("the content of `{path}` is missing");
            self.shared(Verdict::Lost, number, path, measured, &what);
        }
    }

    /// Something about content that later versions may share: it is said once, of the first.
    fn shared(&mut self, verdict: Verdict, number: u32, path: &str, of: &Arc<Measured>, what: &str) {
        if self.shared.insert((Arc::as_ptr(of), what.to_owned())) {
            self.push(verdict, Some(number), Some(path), format!("version {number}: {what}"));
        }
    }
}
