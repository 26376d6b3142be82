//! A manifest handed over and expanded by a node that is killed in the middle.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use ingest_harness::{DroppedReply, Witness};
use ingest_queue::ids::Bid;
use ingest_queue::map::BatchNode;
use ingest_queue::nodes::{Expansion, Node as _};
use ingest_store::recipes::look;
use ingest_store::{Kind, Session};
use serde_json::Value;
use tokio::time::timeout;

use super::WAITING;
use crate::node::daemon::{Daemon, Home, Memory};

/// The longest that nothing may come of an expansion: a lost session is missed first.
const PATIENCE: Duration = Duration::from_mins(3);

/// A commit of an expansion makes more jobs, and less than twice as many.
const ROWS_PER_COMMIT: u64 = 84;

/// How an expansion went.
pub(super) struct Expanding {
    pub(super) home: Home,
    pub(super) bid: Bid,
    pub(super) accepted: Duration,
    pub(super) per_s: f64,
    pub(super) killed_at: u64,
    /// From the kill until a row more had its job.
    pub(super) again: Duration,
    pub(super) memory: Memory,
}

/// When the node that expands is killed.
pub(super) enum Killed {
    Never,
    /// As soon as half of the rows are seen to have jobs.
    WhenSeen,
    /// When the answer to a commit in the middle was held back.
    At(Witness<DroppedReply>),
}

/// How many commits of an expansion are answered before one that is past the middle, and before the end.
pub(super) fn commits_before_the_middle(rows: u64) -> u64 {
    rows / 2 / ROWS_PER_COMMIT
}

pub(super) async fn expand(
    program: &Path,
    mut daemon: Daemon,
    session: &Session,
    manifest: &Path,
    rows: u64,
    killed: Killed,
) -> Result<Expanding> {
    let began = Instant::now();
    let said = super::submit(program, &daemon.address()?, manifest).output().await?;
    ensure!(said.status.success(), "it is not accepted: {}", String::from_utf8_lossy(&said.stderr));
    let accepted = began.elapsed();
    let said: Value = serde_json::from_slice(&said.stdout).context("what `submit` says")?;
    let bid: Bid = said["bid"].as_str().context("no batch")?.parse()?;
    let (first, began) = (reach(session, bid, 1).await?, Instant::now());
    let (mut killed_at, mut again, mut down) = (0, Duration::ZERO, Duration::ZERO);
    let mut memory = daemon.memory()?;
    if !matches!(killed, Killed::Never) {
        match killed {
            Killed::At(middle) => drop(middle.happened().await),
            _ => drop(reach(session, bid, rows / 2).await?),
        }
        memory = daemon.memory()?;
        let lost = Instant::now();
        let home = daemon.kill().await?;
        killed_at = cursor(session, bid).await?.map_or(0, |expansion| expansion.next);
        ensure!(
            (rows / 2..rows).contains(&killed_at),
            "the node was killed at row {killed_at} of {rows}, and not after the middle"
        );
        daemon = home.start(program, WAITING).await?;
        reach(session, bid, killed_at + 1).await?;
        (again, down) = (lost.elapsed(), lost.elapsed());
    }
    reach(session, bid, rows).await?;
    let took = began.elapsed().saturating_sub(down);
    let expansion = cursor(session, bid).await?.context("no expansion")?;
    ensure!(expansion.done && expansion.total == rows, "the expansion ended as {expansion:?}");
    // Far below the 2^52 that a float counts exactly.
    #[allow(clippy::cast_precision_loss)]
    let per_s = (rows - first) as f64 / took.as_secs_f64();
    let now = daemon.memory()?;
    let memory = Memory { now: now.now, most: memory.most.max(now.most) };
    let home = daemon.drain().await?;
    Ok(Expanding { home, bid, accepted, per_s, killed_at, again, memory })
}

async fn cursor(session: &Session, bid: Bid) -> Result<Option<Expansion>> {
    // A server that is busy with very many nodes may lose a connection.
    match look(session, || session.get(BatchNode::Expansion.of(bid))).await {
        Ok((data, _)) => Ok(Some(Expansion::read(&data)?)),
        Err(error) if error.kind() == Kind::NoNode => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Waits until so many rows have jobs, and says how many have.
async fn reach(session: &Session, bid: Bid, rows: u64) -> Result<u64> {
    loop {
        let (_, changed) = look(session, || session.watch_exists(BatchNode::Expansion.of(bid))).await?;
        let at = cursor(session, bid).await?.map_or(0, |expansion| expansion.next);
        if at >= rows {
            return Ok(at);
        }
        if timeout(PATIENCE, changed.woken()).await.is_err() {
            let (status, _) = session.get(BatchNode::Status.of(bid)).await?;
            bail!("the expansion stays at row {at}; the batch says {}", String::from_utf8_lossy(&status));
        }
    }
}
