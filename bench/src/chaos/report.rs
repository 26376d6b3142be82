//! The table of a run, as it goes into `docs/faults.md`, and the same for machines.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::Result;
use serde_json::json;

use super::judge::Judged;
use super::kind::{KINDS, Kind};
use super::witness::Witnesses;

/// A run that has ended.
#[derive(Debug)]
pub(crate) struct Ended<'a> {
    pub(crate) seed: u64,
    pub(crate) length: Duration,
    pub(crate) own_disks: bool,
    pub(crate) kinds: &'a [Kind],
    pub(crate) judged: Judged,
    pub(crate) book: &'a Witnesses,
}

impl Ended<'_> {
    /// For people, in Markdown.
    pub(crate) fn table(&self) -> String {
        let mut text = String::from(
            "| fault | made | with a witness | at least | the witness |\n|---|---:|---:|---:|---|\n",
        );
        for line in KINDS.iter().filter(|line| self.kinds.contains(&line.kind)) {
            let (count, least) = (self.book.count(line.kind), line.kind.minimum(self.length));
            // Writing to a String cannot fail.
            let _ = writeln!(
                text,
                "| {} | {} | {} | {least} | {} |",
                line.name, count.made, count.witnessed, line.witness
            );
        }
        let _ = write!(text, "\n{}", self.sentence());
        text
    }

    fn sentence(&self) -> String {
        let Judged { batches, jobs, objects, versions, mails, directories } = self.judged;
        format!(
            "Seed {}, {:.0} minutes of faults, {} working disks: {batches} submissions, {jobs} jobs, {objects} objects \
             in {versions} versions, {mails} mails, {directories} directories removed by nodes that started or connected again; {} breaches.",
            self.seed,
            self.length.as_secs_f64() / 60.0,
            if self.own_disks { "own" } else { "one for all" },
            self.book.breaches().len(),
        )
    }

    /// For machines: a line for each kind, and last the summary.
    pub(crate) fn lines(&self) -> Result<String> {
        let mut text = String::new();
        for line in KINDS.iter().filter(|line| self.kinds.contains(&line.kind)) {
            let (count, least) = (self.book.count(line.kind), line.kind.minimum(self.length));
            let row = json!({
                "bench": "chaos", "case": line.name, "value": count.witnessed, "unit": "faults",
                "made": count.made, "minimum": least,
            });
            let _ = writeln!(text, "{}", serde_json::to_string(&row)?);
        }
        let Judged { batches, jobs, objects, versions, mails, directories } = self.judged;
        let breaches = self.book.breaches();
        let summary = json!({
            "bench": "chaos", "case": "summary", "value": breaches.len(), "unit": "breaches", "seed": self.seed,
            "minutes": self.length.as_secs_f64() / 60.0, "batches": batches, "jobs": jobs, "objects": objects,
            "versions": versions, "mails": mails, "directories": directories, "breaches": breaches,
        });
        let _ = write!(text, "{}", serde_json::to_string(&summary)?);
        Ok(text)
    }
}
