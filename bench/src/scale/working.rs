//! The jobs are worked on: as fast as it goes, and then once over a link that is cut in the middle. After that the node lists everything
//! again on its own session, while there is work in flight: how long is nothing completed?

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use ingest_harness::{RequestKind, let_pass};
use ingest_queue::map;
use ingest_queue::states::JobState;
use ingest_store::Session;
use ingest_store::recipes::look;

use super::{MOST_MEMORY, Scale, WORKING};
use crate::node::daemon::Home;

/// How often it is looked whether something was completed.
const LOOK: Duration = Duration::from_millis(10);

/// How many jobs were ever completed.
async fn completed(session: &Session) -> Result<i32> {
    let stat = look(session, || session.exists(map::queue(JobState::Completed))).await?;
    Ok(stat.map_or(0, |stat| stat.next_sequence()))
}

impl Scale {
    /// Lets a node work for a while, or until all is done.
    pub(super) async fn work(&self, home: Home) -> Result<Home> {
        let tree = self.open("many").await?;
        let daemon = home.start(&self.program, WORKING).await?;
        let_pass(self.context.span.warm_up).await;
        let (before, began) = (completed(&tree.session).await?, Instant::now());
        let_pass(self.context.span.measured).await;
        let (done, took) = (completed(&tree.session).await? - before, began.elapsed());
        ensure!(done > 0, "nothing was completed in {took:?}");
        let memory = daemon.memory()?;
        let ended = daemon.drain().await;
        tree.close().await?;
        let home = ended?;
        let report = &self.context.report;
        let all = u64::try_from(before + done)? == self.rows;
        if !all {
            let per_s = f64::from(done) / took.as_secs_f64();
            report.print(&report.row(format!("jobs completed, {} waiting", self.rows), per_s, "per_s"))?;
        }
        self.mb(&format!("node, most memory, at work, {} waiting", self.rows), memory.most)?;
        ensure!(memory.most < MOST_MEMORY, "the node had {} bytes at work", memory.most);
        Ok(home)
    }

    /// Cuts the connection of a node at work, and says for how long nothing is completed, if that is too long.
    pub(super) async fn listed_again(&self, home: Home) -> Result<Option<String>> {
        let tree = self.open("many").await?;
        let link = self.trees.link();
        let home = home.on(&self.engine_at(&format!("{}/many", link.connect_string())));
        let daemon = home.start(&self.program, WORKING).await?;
        let half = self.context.span.measured / 2;
        let before = self.longest_pause(&tree.session, half).await?;
        link.reset_counts();
        link.drop_connections();
        let after = self.longest_pause(&tree.session, half).await?;
        let listings = link.count(RequestKind::GetChildren) + link.count(RequestKind::GetChildren2);
        let memory = daemon.memory()?;
        let ended = daemon.drain().await;
        tree.close().await?;
        drop(ended?);
        ensure!(memory.most < MOST_MEMORY, "the node had {} bytes after it had listed again", memory.most);
        // All was done before: then there is nothing to tell.
        let (Some(before), Some(after)) = (before, after) else { return Ok(None) };
        ensure!(listings > 0 || !self.judges(), "the node has lost its connection and did not list again");
        let report = &self.context.report;
        for (pause, when) in [(before, ""), (after, ", a connection lost, everything listed again")] {
            let case = format!("longest without a completed job, {} waiting{when}", self.rows);
            report.print(&report.row(case, pause.as_secs_f64() * 1e3, "ms"))?;
        }
        let most = self.session_timeout();
        let long =
            || format!("nothing was completed for {after:?} after a lost connection, and {most:?} may pass");
        Ok((self.judges() && after > most).then(long))
    }

    /// The longest time between two completed jobs; none if all were completed.
    async fn longest_pause(&self, session: &Session, span: Duration) -> Result<Option<Duration>> {
        let began = Instant::now();
        let (mut last, mut at, mut longest) = (completed(session).await?, began, Duration::ZERO);
        while began.elapsed() < span {
            let_pass(LOOK).await;
            let now = completed(session).await?;
            longest = longest.max(at.elapsed());
            if now > last {
                (last, at) = (now, Instant::now());
            }
            if u64::try_from(now)? >= self.rows {
                return Ok(None);
            }
        }
        Ok(Some(longest))
    }
}
