//! The check of the tree together with the comparison of what is beside it, in one list.

use ingest_queue::error::Result;
use ingest_queue::fsck::{self, Code, Finding, Options, Outcome, Progress, Repaired, Report};
use ingest_queue::map;
use ingest_queue::queue::Queue;

use super::{Examined, Places, examine};
use crate::outcome;

/// What was found, and what became of it.
#[derive(Debug)]
pub struct Checked {
    pub repaired: Vec<Repaired>,
    /// As it is now.
    pub report: Report,
}

/// Checks the tree, and repairs it if that is wanted. Without places only the tree itself is looked at. What is beside it and
/// cannot be asked is a finding.
pub async fn fsck(
    queue: &Queue,
    options: &Options,
    places: Option<&Places>,
    repair: bool,
    progress: &mut (dyn FnMut(Progress) + Send + Sync),
) -> Result<Checked> {
    let session = queue.session();
    let mut report = fsck::check(session, options, progress).await?;
    let mut repaired = Vec::new();
    if repair && !report.findings.is_empty() {
        repaired = fsck::repair(session, options, &report, progress).await?;
    }
    let mut beside = Vec::new();
    if let Some(places) = places {
        progress(Progress { stage: "beside the tree", done: 0, total: 1 });
        // What the nodes wait for comes last.
        beside = match compare(queue, places, repair, &mut repaired).await {
            Ok(findings) => findings,
            Err(failure) => {
                vec![Finding::outside(Code::NotCompared, map::REPOSITORY, failure.to_string())]
            }
        };
        progress(Progress { stage: "beside the tree", done: 1, total: 1 });
    }
    if !repaired.is_empty() {
        report = fsck::check(session, options, progress).await?;
    }
    report.findings.extend(beside);
    report.findings.sort_by(|a, b| (&a.path, a.code).cmp(&(&b.path, b.code)));
    Ok(Checked { repaired, report })
}

/// What differs between the tree and what is beside it, after a repair if one is wanted.
async fn compare(
    queue: &Queue,
    places: &Places,
    repair: bool,
    repaired: &mut Vec<Repaired>,
) -> outcome::Result<Vec<Finding>> {
    let mut examined = examine(queue, places).await?;
    let unmarked = |examined: &Examined| -> Vec<String> {
        // A repository that has not begun has no places of its own.
        let unmarked = examined.unmarked.iter().filter(|_| examined.tree.is_some());
        unmarked.map(|at| places.markers[*at].place()).collect()
    };
    if repair && !examined.findings.is_empty() {
        repaired.extend(examined.repair(queue, places).await?);
        examined = examine(queue, places).await?;
    } else if repair && !unmarked(&examined).is_empty() {
        examined.adopt(queue, places).await?;
        let told = |path: String| {
            let what = "it says now to which repository it belongs".to_owned();
            Repaired { code: Code::Unmarked, path, outcome: Outcome::Fixed, what }
        };
        repaired.extend(unmarked(&examined).into_iter().map(told));
        examined = examine(queue, places).await?;
    }
    let mut findings = std::mem::take(&mut examined.findings);
    let what = "it says nothing; a node writes it with its next session";
    let unmarked = unmarked(&examined).into_iter();
    findings.extend(unmarked.map(|place| Finding::outside(Code::Unmarked, place, what)));
    let unread = examined.unread.iter();
    findings.extend(unread.map(|why| Finding::outside(Code::NotCompared, map::REPOSITORY, why)));
    Ok(findings)
}
