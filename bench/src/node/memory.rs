//! What a node takes when very many jobs wait. Nobody takes any: all of them stand in its index.

use std::path::Path;

use anyhow::{Result, ensure};
use ingest_queue::list;
use ingest_queue::states::JobState;

use super::WORKERS;
use super::daemon::{Daemon, Pools};
use crate::Context;
use crate::deposit::{Deposit, ROWS, plain_jobs};
use crate::trees::Trees;

const WAITING: u64 = 100_000;

pub(super) fn case(engine: &str) -> String {
    format!("{engine} {WAITING} waiting")
}

pub(super) async fn measure(
    context: &Context,
    trees: &Trees,
    program: &Path,
    engine: &'static str,
) -> Result<()> {
    let case = case(engine);
    let _part = context.report.part(&case);
    let name = format!("waiting-{engine}");
    let pools = Pools { pending: 0, others: WORKERS };
    let without = {
        let tree = trees.open(engine, &name).await?;
        tree.close().await?;
        let daemon = Daemon::start(program, &trees.engine(engine, &name), pools).await?;
        let memory = daemon.memory()?;
        drop(daemon.drain().await?);
        memory
    };
    let tree = trees.open(engine, &name).await?;
    let mut deposit = Deposit::begin(&tree.session, WAITING).await?;
    while deposit.next() < WAITING {
        let rows = usize::try_from(WAITING - deposit.next())?.min(ROWS);
        deposit.expand(&plain_jobs(deposit.next(), rows)).await?;
    }
    drop(deposit.end().await?);
    tree.close().await?;
    let daemon = Daemon::start(program, &trees.engine(engine, &name), pools).await?;
    let memory = daemon.memory()?;
    drop(daemon.drain().await?);
    let tree = trees.open(engine, &name).await?;
    let left = list::counts(&tree.session).await?.get(&JobState::Pending).copied().unwrap_or(0);
    ensure!(left as u64 == WAITING, "{left} jobs wait, and not {WAITING}");
    tree.close().await?;
    let report = &context.report;
    for (what, bytes) in [
        (format!("{engine} nothing waiting, memory"), without.now),
        (format!("{case}, memory"), memory.now),
        (format!("{case}, most memory"), memory.most),
    ] {
        // Far below the 2^52 that a float counts exactly.
        #[allow(clippy::cast_precision_loss)]
        let mb = bytes as f64 / 1e6;
        report.print(&report.row(what, mb, "mb"))?;
    }
    Ok(())
}
