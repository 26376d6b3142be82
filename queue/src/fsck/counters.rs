//! The counters of the tree: behind a name that is there they would give it out again.
//!
//! A directory's counter and the names in it come from one read, so they are of one moment, and a finding needs no second
//! look.

use serde::Deserialize;

use super::code::Code;
use super::finding::{Finding, Outcome, Repaired};
use super::reader::Reader;
use crate::error::Result;
use crate::ids::{Bid, Jid};
use crate::{map, numbers};

/// A name that is farther ahead of its counter is a mistake, and not worth so many creates.
const FARTHEST: u32 = 10_000_000;

/// What the names of directories begin with that hold notes, and no counter.
const NOTES: &str = "ezid-";

/// What a minter keeps in the tree, as far as it has to be there.
#[derive(Debug, Deserialize)]
struct Minter {
    #[serde(rename = "template")]
    _template: String,
    #[serde(rename = "next")]
    _next: u64,
}

pub(super) async fn check(reader: &Reader) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for dir in [map::BATCHES, map::JOBS] {
        let Some((behind, highest)) = behind(reader, dir).await? else { continue };
        let what = format!("it counts from {behind}, and {} is there", name(dir, highest));
        let mut finding = Finding::outside(Code::CounterBehind, dir, what);
        if highest - behind > FARTHEST {
            finding.by_hand = true;
            finding.repair = String::from("none: a person must look, and remove what is ahead");
        }
        findings.push(finding);
    }
    let minters = reader.names(map::MINTER).await?.map(|(names, _)| names).unwrap_or_default();
    for name in minters.into_iter().filter(|name| !name.starts_with(NOTES)) {
        let path = ingest_store::path::join(map::MINTER, &name);
        let Some((data, _)) = reader.get(&path).await? else { continue };
        if let Err(error) = serde_json::from_slice::<Minter>(&data) {
            findings.push(Finding::outside(Code::MinterCounter, path, format!("it cannot be read: {error}")));
        }
    }
    Ok(findings)
}

/// Raises the counters that were found behind; what is for a person is told so.
pub(super) async fn repair(reader: &Reader, findings: &[Finding]) -> Result<Vec<Repaired>> {
    let mut repaired = Vec::new();
    let ours = |finding: &&Finding| matches!(finding.code, Code::CounterBehind | Code::MinterCounter);
    for finding in findings.iter().filter(ours) {
        let (outcome, what) = if finding.by_hand {
            (Outcome::ByHand, finding.repair.clone())
        } else {
            match behind(reader, &finding.path).await? {
                None => (Outcome::Gone, "it is right already".to_owned()),
                Some((_, highest)) => {
                    let to = highest.saturating_add(1);
                    numbers::raise(reader.session(), &finding.path, to).await?;
                    (Outcome::Fixed, format!("it counts from {to}"))
                }
            }
        };
        repaired.push(Repaired { code: finding.code, path: finding.path.clone(), outcome, what });
    }
    Ok(repaired)
}

/// The next number of a directory and the highest that is there, if that would be given out again.
async fn behind(reader: &Reader, dir: &str) -> Result<Option<(u32, u32)>> {
    let Some((names, stat)) = reader.names(dir).await? else { return Ok(None) };
    let number = |name: &String| match dir {
        map::BATCHES => name.parse::<Bid>().ok().map(Bid::number),
        _ => name.parse::<Jid>().ok().map(Jid::number),
    };
    let next = u32::try_from(stat.next_sequence()).unwrap_or(u32::MAX);
    let highest = names.iter().filter_map(number).max();
    Ok(highest.filter(|highest| *highest >= next).map(|highest| (next, highest)))
}

fn name(dir: &str, number: u32) -> String {
    if dir == map::BATCHES { Bid::new(number).to_string() } else { Jid::new(number).to_string() }
}
