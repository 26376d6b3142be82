//! Stored objects, and whether their content is still what was stored.

use std::collections::BTreeMap;

use ingest_steps::audit::{self, verdict::Verdict};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Problem;

/// A line of an audit. The last one is `done`, or a `problem` that has ended it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum AuditLine {
    /// How far it is with one object.
    Progress(AuditProgress),
    Object(AuditedObject),
    Done(Audited),
    Problem(Problem),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct AuditProgress {
    pub ark: String,
    /// Objects that are done.
    pub objects: usize,
    /// What was read, of all objects.
    pub files: u64,
    pub bytes: u64,
}

/// An object whose content was read, or something in a storage that is no object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct AuditedObject {
    /// Empty where nobody can say which object it is, or it is none.
    pub ark: String,
    /// Where it is kept. Empty where no storage has it.
    pub storage: String,
    /// Where it lies in the storage. Empty where nothing of it does.
    #[serde(default)]
    pub place: String,
    /// `sound`, or what is wrong with it.
    pub verdict: AuditVerdict,
    /// The newest version that is stored.
    pub versions: u32,
    pub files: u64,
    pub bytes: u64,
    /// The findings as sentences. None if all is well.
    pub problems: Vec<String>,
    /// At most 1000, and then one that counts the rest.
    #[serde(default)]
    pub findings: Vec<AuditFinding>,
}

/// What is said of an object, or of a part of it; of an object it is the gravest of its findings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum AuditVerdict {
    /// Storage and inventory have the same, and the content has its digests.
    Sound,
    /// It lies in the storage and is no object of this repository.
    Foreign,
    /// It is stored, and the inventory does not have it.
    Unrecorded,
    /// The storage or the inventory could not be read.
    Unreadable,
    /// It is there, and is not what was stored or recorded.
    Altered,
    /// Versions are recorded, and the storage has only older ones.
    RolledBack,
    /// It is recorded or listed in the object, and its content is gone.
    Lost,
    /// The object is recorded, and no storage has anything of it.
    Unstored,
    /// Neither a storage nor the inventory has it.
    Unknown,
}

/// Something that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct AuditFinding {
    pub verdict: AuditVerdict,
    /// The first version that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
    /// The file that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    pub what: String,
}

/// All of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct Audited {
    pub objects: usize,
    /// Those that are not sound.
    pub damaged: usize,
    pub files: u64,
    pub bytes: u64,
    /// How many have each verdict.
    #[serde(default)]
    pub verdicts: BTreeMap<AuditVerdict, usize>,
}

impl From<Verdict> for AuditVerdict {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Sound => Self::Sound,
            Verdict::Foreign => Self::Foreign,
            Verdict::Unrecorded => Self::Unrecorded,
            Verdict::Unreadable => Self::Unreadable,
            Verdict::Altered => Self::Altered,
            Verdict::RolledBack => Self::RolledBack,
            Verdict::Lost => Self::Lost,
            Verdict::Unstored => Self::Unstored,
            Verdict::Unknown => Self::Unknown,
        }
    }
}

impl AuditVerdict {
    pub(crate) fn verdict(self) -> Verdict {
        let same = |verdict: &Verdict| Self::from(*verdict) == self;
        Verdict::ALL.into_iter().find(same).unwrap_or(Verdict::Unknown)
    }
}

impl From<audit::Audited> for AuditedObject {
    fn from(audited: audit::Audited) -> Self {
        let audit::Audited { ark, storage, place, verdict, findings, versions, files, bytes } = audited;
        let problems = findings.iter().map(|finding| finding.what.clone()).collect();
        let findings = findings.into_iter().map(|finding| AuditFinding {
            verdict: finding.verdict.into(),
            version: finding.version,
            path: finding.path,
            what: finding.what,
        });
        let findings = findings.collect();
        Self { ark, storage, place, verdict: verdict.into(), versions, files, bytes, problems, findings }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_has_one_word_everywhere() {
        for verdict in Verdict::ALL {
            let wire = AuditVerdict::from(verdict);
            assert_eq!(serde_json::to_value(wire).unwrap(), verdict.word());
            assert_eq!(wire.verdict(), verdict);
        }
    }
}
