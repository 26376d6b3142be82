//! What the index of a million waiting jobs takes, in a process that has nothing else.

use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result, ensure};
use ingest_queue::ids::Jid;
use ingest_queue::index::{Index, Listing, Settings};
use ingest_queue::map::{Priority, QueueRef};
use ingest_queue::states::JobState;
use tokio::time::Instant;

use super::daemon::Memory;
use crate::Context;

/// Hidden first argument: this program is its own child.
const CHILD: &str = "--node-index";
const WAITING: u32 = 1_000_000;
/// What is promised.
const MOST: u64 = 300_000_000;

pub(super) fn case() -> String {
    format!("index {WAITING} waiting")
}

pub(super) fn measure(context: &Context) -> Result<()> {
    let case = case();
    let _part = context.report.part(&case);
    let output = Command::new(std::env::current_exe()?).arg(CHILD).output()?;
    ensure!(output.status.success(), "{case}: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout)?;
    let mut numbers = text.split_whitespace().map(str::parse::<u64>);
    let report = &context.report;
    for what in ["memory", "memory, with what was read to fill it"] {
        let bytes = numbers.next().context("it says too little")??;
        ensure!(bytes <= MOST, "{case} took {bytes} bytes ({what}), and may take {MOST}");
        // Far below the 2^52 that a float counts exactly.
        #[allow(clippy::cast_precision_loss)]
        let mb = bytes as f64 / 1e6;
        report.print(&report.row(format!("{case}, {what}"), mb, "mb"))?;
    }
    Ok(())
}

pub(super) fn child() -> Option<ExitCode> {
    (std::env::args().nth(1).as_deref() == Some(CHILD)).then(|| match fill() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    })
}

/// Fills an index as a node does at its start, from the names of a listing.
fn fill() -> Result<()> {
    let own = || Memory::of("/proc/self/status");
    let before = own()?;
    let state = JobState::Pending;
    let mut index = Index::new(Settings::default());
    {
        let name = |number| format!("{}-{}", Priority::DEFAULT, Jid::new(number));
        let names: Vec<String> = (0..WAITING).map(name).collect();
        let refs: Vec<_> = names.iter().filter_map(|name| QueueRef::parse(state, name)).collect();
        index.relist(&Listing::new(state, refs), Instant::now());
    }
    let after = own()?;
    ensure!(index.waiting(state) == WAITING as usize, "{} are in the index", index.waiting(state));
    println!("{} {}", after.now.saturating_sub(before.now), after.most.saturating_sub(before.now));
    Ok(())
}
