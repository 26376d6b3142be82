//! On whose disk a job's files are. Those of another node's disk are left to that node; if it has been away for
//! `work.node_grace`, the job begins anew here.

use std::time::Instant;

use ingest_queue::error::Error;
use ingest_queue::jobs::{Lease, Write};
use ingest_queue::map::{JobNode, QueueRef};
use ingest_queue::nodes::Work;
use ingest_queue::plan::job::Action;
use ingest_queue::states::JobState;

use super::Worker;
use crate::house::tell;
use crate::timekeeper;

/// Where a job's files are.
#[derive(Debug)]
pub(super) enum Home {
    Here,
    /// On a disk that this node does not see. The job stands aside.
    Elsewhere,
    /// On a disk that nobody sees any more.
    Gone(Work),
}

/// Jobs whose files are on this file system are parked with this.
pub(crate) fn parked_with(file_system: &str) -> String {
    format!("files on {file_system}")
}

impl Worker {
    pub(super) async fn home(&self, entry: QueueRef) -> Result<Home, Error> {
        let with_files = matches!(entry.state, JobState::Downloading | JobState::Processing);
        if !with_files || !self.house.work.is_real() || self.queue().is_known(entry) {
            return Ok(Home::Here);
        }
        let work: Option<Work> = self.queue().node(entry.jid, JobNode::Work).await?;
        let Some(work) = work else { return Ok(Home::Here) };
        let services = self.life.services();
        if work.file_system.is_empty() || work.file_system == services.work.file_system() {
            return Ok(Home::Here);
        }
        let grace = services.settings.work.node_grace;
        let is_there = || self.life.components.read().iter().any(|one| one.file_system == work.file_system);
        if !is_there() {
            let now = Instant::now();
            let since = *self.life.gone.write().entry(work.file_system.clone()).or_insert(now);
            if now.duration_since(since) >= grace {
                return Ok(Home::Gone(work));
            }
            let key = parked_with(&work.file_system);
            let at = tokio::time::Instant::from_std(since + grace);
            tell(&self.house.directory.timekeeper, timekeeper::Message::Unpark { at, key });
        }
        let was_there = is_there();
        self.finder.park(entry.jid, parked_with(&work.file_system));
        // Its node may have come or gone just before that.
        if is_there() != was_there {
            self.finder.unpark(parked_with(&work.file_system));
        }
        Ok(Home::Elsewhere)
    }

    /// Takes over a job whose files are lost with their node. Nobody asks whether there is room for it here.
    pub(super) async fn bring_home(&self, entry: QueueRef, work: Work) -> Result<Option<Lease>, Error> {
        let why = format!("its files were on the disk of {}, which is gone", work.node);
        if entry.state != JobState::Downloading {
            self.queue().act(entry.jid, &Action::StartOver, &why, false).await?;
            self.finder.finished(entry);
            return Ok(None);
        }
        tracing::warn!(job = %entry.jid, why, "it begins anew here");
        let mut lease = self.queue().acquire(entry, &self.desk.holder).await?;
        let dir = &self.life.services().work;
        let work = Work {
            node: dir.node().to_owned(),
            file_system: dir.file_system().to_owned(),
            directory: dir.job(lease.job().bid, entry.jid).to_string_lossy().into_owned(),
            attempt: 0,
            ..work
        };
        match self.queue().write(&mut lease, &[Write::Work(work)]).await {
            Ok(()) => Ok(Some(lease)),
            Err(error) => {
                self.queue().give_back(&mut lease, None).await?;
                Err(error)
            }
        }
    }
}
