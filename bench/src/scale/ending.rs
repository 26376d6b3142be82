//! The end of the batch: a node works until no job is left, and the batch is reported. For its report the node reads all jobs once more,
//! and what it says of them goes into the tree; then somebody asks for the whole report, as JSON and as a table. None of that may take more
//! memory than a node may have.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use ingest_harness::let_pass;
use ingest_queue::date::Clock;
use ingest_queue::ids::Bid;
use ingest_queue::map::{self, BatchNode};
use ingest_queue::queue::{Queue, Settings};
use ingest_queue::states::{BatchList, BatchState};
use ingest_store::recipes::look;

use super::working::completed;
use super::{MOST_MEMORY, Scale, WORKING};
use crate::node::daemon::Home;
use crate::trees::Opened;

const LOOK: Duration = Duration::from_millis(100);
/// How long nothing may be seen to happen: all jobs are read for the report, and it is written.
const PATIENCE: Duration = Duration::from_mins(15);

impl Scale {
    /// Lets a node work until the batch has ended, and asks for its report; says if that took too much memory.
    pub(super) async fn end(&self, home: Home, bid: Bid) -> Result<Option<String>> {
        let tree = self.open("many").await?;
        let before = completed(&tree.session).await?;
        let daemon = home.start(&self.program, WORKING).await?;
        let began = Instant::now();
        let (mut last, mut at) = (before, began);
        while last < self.rows {
            ensure!(at.elapsed() < PATIENCE, "no more than {last} of {} jobs are completed", self.rows);
            let_pass(LOOK).await;
            let now = completed(&tree.session).await?;
            if now > last {
                (last, at) = (now, Instant::now());
            }
        }
        let (worked, at_work) = (began.elapsed(), daemon.memory()?.most);
        let began = Instant::now();
        self.reported(&tree, bid).await?;
        let (took, most) = (began.elapsed(), daemon.memory()?.most);
        let address = daemon.address()?;
        // Each job has its jid once, and the table a heading.
        let (json, as_json) = asked_for(&address, bid, "json", b"\"jid\":").await?;
        let (lines, as_csv) = asked_for(&address, bid, "csv", b"\n").await?;
        ensure!(
            (json, lines) == (self.rows, self.rows + 1),
            "of {} jobs the report as JSON has {json}, and as a table {lines} lines",
            self.rows
        );
        let read = daemon.memory()?.most;
        drop(daemon.drain().await?);
        tree.close().await?;
        let (rows, report) = (self.rows, &self.context.report);
        // Far below the 2^52 that a float counts exactly.
        #[allow(clippy::cast_precision_loss)]
        let per_s = (rows - before) as f64 / worked.as_secs_f64();
        if before < rows {
            report.print(&report.row(format!("jobs completed, {rows} to the last"), per_s, "per_s"))?;
        }
        self.mb(&format!("node, most memory, {rows} jobs to the last"), at_work)?;
        let case = format!("from the last of {rows} jobs to the end of their batch");
        report.print(&report.row(case, took.as_secs_f64() * 1e3, "ms"))?;
        self.mb(&format!("node, most memory, a batch of {rows} jobs reported"), most)?;
        for (form, took) in [("JSON", as_json), ("a table", as_csv)] {
            let case = format!("the report of {rows} jobs as {form}");
            report.print(&report.row(case, took.as_secs_f64() * 1e3, "ms"))?;
        }
        self.mb(&format!("node, most memory, the report of {rows} jobs read"), read)?;
        let much = || {
            format!("the node had {read} bytes when it had reported {rows} jobs, and may have {MOST_MEMORY}")
        };
        Ok((read >= MOST_MEMORY).then(much))
    }

    /// Waits until the batch is completed and its report is written.
    async fn reported(&self, tree: &Opened, bid: Bid) -> Result<()> {
        let queue = Queue::open(&tree.session, Settings::new("bench"), Clock::system()).await?;
        let (began, rows) = (Instant::now(), self.rows);
        let batch = loop {
            let batch = queue.batch(bid).await?;
            match batch.state() {
                BatchState::Completed => break batch,
                BatchState::Failed => bail!("the batch has failed: {:?}", batch.status),
                _ => ensure!(began.elapsed() < PATIENCE, "the batch does not end: {:?}", batch.status),
            }
            let_pass(LOOK).await;
        };
        let message = &batch.status.message;
        ensure!(message.starts_with(&format!("{rows} completed, 0 failed")), "the batch says: {message}");
        let list = map::batch_list(bid, BatchList::Completed);
        let there = look(&tree.session, || tree.session.exists(list.as_str())).await?;
        let there = u64::try_from(there.context("the batch has no list")?.num_children)?;
        ensure!(there == rows, "{there} of {rows} jobs are in the list of the completed ones");
        let report = BatchNode::StatusReport.of(bid);
        let written = look(&tree.session, || tree.session.exists(report.as_str())).await?;
        ensure!(written.is_some(), "the batch has no report");
        Ok(())
    }
}

/// Asks for the report, and counts what stands once for each job in it. It is not kept.
async fn asked_for(address: &str, bid: Bid, form: &str, mark: &[u8]) -> Result<(u64, Duration)> {
    let path = format!("{address}/api/v1/batches/{bid}/report?format={form}");
    let began = Instant::now();
    let mut answer = super::asking::client()?.get(path).send().await?.error_for_status()?;
    let (mut count, mut seen) = (0, Vec::new());
    while let Some(piece) = answer.chunk().await? {
        seen.extend_from_slice(&piece);
        count += seen.windows(mark.len()).filter(|window| *window == mark).count() as u64;
        // A mark may begin in one piece and end in the next.
        seen.drain(..seen.len().saturating_sub(mark.len() - 1));
    }
    Ok((count, began.elapsed()))
}
