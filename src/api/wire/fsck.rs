//! Whether all invariants of the tree are kept.

use ingest_queue::fsck;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Problem;

/// A line of the answer. The last one is `done`, or a `problem` that has ended it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum FsckLine {
    Progress(FsckProgress),
    Done(Fsck),
    Problem(Problem),
}

/// How far it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct FsckProgress {
    pub stage: String,
    pub done: usize,
    pub total: usize,
}

/// What was found, and what was done about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct Fsck {
    /// What became of each finding, if it was to be repaired.
    pub repaired: Vec<FsckRepaired>,
    /// As it is now.
    pub report: FsckReport,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct FsckRepaired {
    pub code: String,
    pub path: String,
    /// `fixed`, `gone`, `busy`, `byhand` or `left`.
    pub outcome: String,
    /// What was done, or why not.
    pub what: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct FsckReport {
    /// In the order of their paths.
    pub findings: Vec<FsckFinding>,
    pub counts: FsckCounts,
    /// Such as `1s 200ms`.
    pub took: String,
}

/// One thing that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct FsckFinding {
    pub code: String,
    /// `info`, `warn` or `error`.
    pub severity: String,
    pub path: String,
    pub what: String,
    /// What a repair does about it, or what a person has to do.
    pub repair: String,
    /// A repair leaves it as it is.
    pub by_hand: bool,
}

/// What was looked at.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct FsckCounts {
    pub jobs: usize,
    pub batches: usize,
    pub queue_refs: usize,
    pub batch_refs: usize,
    pub access_items: usize,
    /// What earlier repairs have put away.
    pub quarantined: usize,
    /// Things that did not look right at first.
    pub suspects: usize,
    /// Those of them that changed at every look, and were not judged.
    pub unsettled: usize,
}

impl Fsck {
    pub(crate) fn new(repaired: &[fsck::Repaired], report: &fsck::Report) -> Self {
        let repaired = repaired.iter().map(|repaired| FsckRepaired {
            code: repaired.code.to_string(),
            path: repaired.path.clone(),
            outcome: word(&repaired.outcome),
            what: repaired.what.clone(),
        });
        let findings = report.findings.iter().map(|finding| FsckFinding {
            code: finding.code.to_string(),
            severity: word(&finding.severity),
            path: finding.path.clone(),
            what: finding.what.clone(),
            repair: finding.repair.clone(),
            by_hand: finding.by_hand,
        });
        let counts = &report.counts;
        Self {
            repaired: repaired.collect(),
            report: FsckReport {
                findings: findings.collect(),
                counts: FsckCounts {
                    jobs: counts.jobs,
                    batches: counts.batches,
                    queue_refs: counts.queue_refs,
                    batch_refs: counts.batch_refs,
                    access_items: counts.access_items,
                    quarantined: counts.quarantined,
                    suspects: counts.suspects,
                    unsettled: counts.unsettled,
                },
                took: humantime::format_duration(report.took).to_string(),
            },
        }
    }

    /// Nothing is wrong; there may be something worth knowing.
    pub(crate) fn is_clean(&self) -> bool {
        self.report.findings.iter().all(|finding| finding.severity == "info")
    }
}

/// The word that a unit variant is on the wire.
fn word(value: &impl Serialize) -> String {
    serde_json::to_value(value).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}
