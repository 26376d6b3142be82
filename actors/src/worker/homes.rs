//! On whose disk a job's files are. Those of another node's disk are left to that node; if it has been away for
//! `work.node_grace`, the job begins anew here.
//!
//! A job whose upload is on another node that is away waits for it, too: it stands aside until that node is back, or until
//! `work.node_grace` has passed; then it is tried a last time, and fails.

use std::time::Instant;

use ingest_queue::error::Error;
use ingest_queue::jobs::{Lease, Write};
use ingest_queue::map::{JobNode, QueueRef};
use ingest_queue::nodes::Work;
use ingest_queue::plan::job::Action;
use ingest_queue::states::JobState;
use ingest_steps::upload_nodes::{self, Reach};

use super::Worker;
use crate::house::tell;
use crate::timekeeper;

/// Jobs whose upload is on this node are parked with this.
pub(crate) fn parked_with_upload(node: &str) -> String {
    format!("uploads on {node}")
}

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

    /// Parks a job whose upload is on another node that is away, with a message that says so. `false`: it need not wait.
    pub(super) async fn waits_for_upload(&self, entry: QueueRef) -> Result<bool, Error> {
        if entry.state != JobState::Downloading || !self.house.work.is_real() {
            return Ok(false);
        }
        let services = self.life.services();
        if !services.upload_nodes.is_any_away() {
            return Ok(false);
        }
        let configuration = self.queue().configuration(entry.jid).await?;
        let Some(node) = upload_nodes::other_node(&configuration.other, services.work.node()) else {
            return Ok(false);
        };
        let grace = services.settings.work.node_grace;
        if !matches!(services.upload_nodes.reach(node, grace, tokio::time::Instant::now()), Reach::After(_)) {
            return Ok(false);
        }
        let why = upload_nodes::waiting_for(node);
        if self.queue().job_status(entry.jid).await?.0.message != why {
            let mut lease = self.queue().acquire(entry, &self.desk.holder).await?;
            self.queue().give_back(&mut lease, Some(&why)).await?;
        }
        self.park_for_upload(entry, node);
        Ok(true)
    }

    /// Parks a job until the node that has its upload comes back, or may be asked again. `false`: it need not wait.
    fn park_for_upload(&self, entry: QueueRef, node: &str) -> bool {
        let services = self.life.services();
        let grace = services.settings.work.node_grace;
        let due = || services.upload_nodes.due(node, grace, tokio::time::Instant::now());
        let Some(at) = due() else { return false };
        let key = parked_with_upload(node);
        self.finder.park(entry.jid, key.as_str());
        tell(&self.house.directory.timekeeper, timekeeper::Message::Unpark { at, key: key.clone() });
        // It may have come back just before that.
        if due().is_none() {
            self.finder.unpark(key);
        }
        true
    }

    /// The same for one that was given back because that node did not answer.
    pub(super) async fn parks_for_upload(&self, entry: QueueRef) -> bool {
        if entry.state != JobState::Downloading {
            return false;
        }
        // What cannot be read is tried again soon.
        let Ok(configuration) = self.queue().configuration(entry.jid).await else { return false };
        let services = self.life.services();
        let node = upload_nodes::other_node(&configuration.other, services.work.node());
        node.is_some_and(|node| self.park_for_upload(entry, node))
    }

    /// Nodes that have answered again: whoever waits for one of them goes on.
    pub(super) fn uploads_recovered(&self) {
        for node in self.life.services().upload_nodes.recovered() {
            self.finder.unpark(parked_with_upload(&node));
        }
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
