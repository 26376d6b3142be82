//! One of the nodes: its process, its links to the ensemble, what it says, and where it can be asked.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, bail};
use ingest_harness::node::{Node, Setup};
use ingest_harness::{Ensemble, Proxy, RequestKind};
use tokio::sync::{Mutex, MutexGuard};

use super::tail::Tail;
use super::witness::Witnesses;

pub(crate) const LOST: &str = "the connection to the tree is lost: nothing is started or committed";
pub(crate) const OVER: &str = "the session is over: everything is built anew";

/// Long: a node that starts while there is no quorum waits for one.
const PATIENCE: Duration = Duration::from_mins(3);

/// A node.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) tail: Tail,
    /// One to each member of the ensemble.
    pub(crate) links: Vec<Proxy>,
    /// Whoever does something to it has it alone.
    node: Mutex<Node>,
    place: parking_lot::Mutex<Place>,
    /// Sessions of processes of this name that were killed.
    dead: parking_lot::Mutex<BTreeSet<i64>>,
}

/// Where it keeps its own records, and the files of its jobs.
#[derive(Debug)]
struct Place {
    own: PathBuf,
    work: PathBuf,
    /// How many machines of this name there were before.
    before: usize,
}

impl Member {
    pub(crate) fn links(ensemble: &Ensemble) -> Vec<Proxy> {
        ensemble.servers().iter().map(|server| Proxy::start(server.address())).collect()
    }

    pub(crate) fn start(setup: Setup, links: Vec<Proxy>) -> Self {
        let (name, tail) = (setup.name.clone(), Tail::new(setup.log()));
        let path = |key| PathBuf::from(setup.value(key).unwrap_or_default());
        let place = Place { own: path("node.dir"), work: path("work.dir"), before: 0 };
        let node = Mutex::new(setup.start());
        Self {
            name,
            tail,
            links,
            node,
            place: parking_lot::Mutex::new(place),
            dead: parking_lot::Mutex::default(),
        }
    }

    /// Its process, for whoever does something to it.
    pub(crate) async fn node(&self) -> MutexGuard<'_, Node> {
        self.node.lock().await
    }

    /// The process of these sessions is dead; the server will notice later.
    pub(crate) fn bury(&self, sessions: &[i64]) {
        self.dead.lock().extend(sessions);
    }

    pub(crate) fn is_dead(&self, session: i64) -> bool {
        self.dead.lock().contains(&session)
    }

    /// The same, if nobody is doing anything to it.
    pub(crate) fn idle_node(&self) -> Option<MutexGuard<'_, Node>> {
        self.node.try_lock().ok()
    }

    /// What is told of a process that does not run, before anything was done to it. Only for whoever has it: nobody else has it
    /// down then.
    pub(crate) fn ended_by_itself(&self, node: &Node) -> Option<String> {
        let told = || {
            self.tail.mark();
            format!("{} has ended by itself: {}", self.name, self.tail.last(5))
        };
        (!node.process.is_running()).then(told)
    }

    /// Before something is done to it: one that has ended by itself would be hidden by that. That is a breach, and another takes
    /// its place; answers whether it was so. These were its sessions.
    pub(crate) async fn is_revived(
        &self,
        book: &Witnesses,
        node: &mut Node,
        sessions: &[i64],
    ) -> Result<bool> {
        let Some(ended) = self.ended_by_itself(node) else { return Ok(false) };
        book.breach(ended);
        self.bury(sessions);
        let mark = self.tail.mark();
        node.start_again();
        self.ready(mark).await?;
        Ok(true)
    }

    /// Waits until it has said so since a mark.
    pub(crate) async fn ready(&self, mark: usize) -> Result<()> {
        if self.tail.says(mark, PATIENCE, |line| line["message"] == "ready").await.is_none() {
            bail!("it does not become ready; it said:\n{}", self.tail.last(15));
        }
        Ok(())
    }

    /// Where its jobs have their files.
    pub(crate) fn disk(&self) -> PathBuf {
        self.place.lock().work.clone()
    }

    /// Where its API is, if it has said so.
    pub(crate) fn address(&self) -> Option<String> {
        let note = self.place.lock().own.join("api-address");
        Some(std::fs::read_to_string(note).ok()?.trim().trim_end_matches('/').to_owned())
    }

    /// The next process of this name, which has ended, finds its own disks empty; those of the last one are gone.
    pub(crate) fn move_to_new_disks(&self, node: &mut Node, own_disks: bool) -> Result<()> {
        let mut place = self.place.lock();
        place.before += 1;
        let number = place.before;
        let next = |old: &Path| {
            let name = old.file_name().unwrap_or_default().to_string_lossy();
            old.with_file_name(format!("{}-{number}", name.split('-').next().unwrap_or_default()))
        };
        let old = place.own.clone();
        place.own = next(&old);
        node.change("node.dir", place.own.display().to_string());
        std::fs::remove_dir_all(&old).or_else(gone)?;
        if own_disks {
            let old = place.work.clone();
            place.work = next(&old);
            node.change("work.dir", place.work.display().to_string());
            std::fs::remove_dir_all(&old).or_else(gone)?;
        }
        Ok(())
    }

    pub(crate) fn heal(&self) {
        self.links.iter().for_each(Proxy::heal);
    }

    /// Multis that it has sent.
    pub(crate) fn multis(&self) -> u64 {
        self.links.iter().map(|link| link.count(RequestKind::Multi)).sum()
    }
}

fn gone(error: std::io::Error) -> std::io::Result<()> {
    if error.kind() == std::io::ErrorKind::NotFound { Ok(()) } else { Err(error) }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// A node that does what a script says.
    fn member(dir: &Path, script: &str) -> Member {
        let program = dir.join("program");
        std::fs::write(&program, format!("#!/bin/sh\necho '{{\"message\":\"ready\"}}'\n{script}\n")).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        Member::start(Setup::new(&program, dir, "node-1", toml::Table::new()), Vec::new())
    }

    #[tokio::test]
    async fn one_that_has_ended_by_itself_is_a_breach_once_and_another_takes_its_place() {
        let dir = tempfile::tempdir().unwrap();
        let member = member(dir.path(), "[ -e again ] && exec sleep 600\ntouch again");
        let (book, mut node) = (Witnesses::new(), member.node().await);
        node.process.exited(PATIENCE).await;
        assert!(member.is_revived(&book, &mut node, &[7]).await.unwrap());
        assert!(book.breaches()[0].starts_with("node-1 has ended by itself: {\"message\":\"ready\"}"));
        assert!(node.process.is_running() && member.is_dead(7));
        assert!(!member.is_revived(&book, &mut node, &[8]).await.unwrap());
        assert!(book.breaches().len() == 1 && !member.is_dead(8));
    }

    #[tokio::test]
    async fn one_that_somebody_has_is_left_to_whoever_has_it() {
        let dir = tempfile::tempdir().unwrap();
        let member = member(dir.path(), "exec sleep 600");
        let node = member.node().await;
        assert!(member.idle_node().is_none());
        drop(node);
        assert!(member.idle_node().is_some_and(|node| member.ended_by_itself(&node).is_none()));
    }
}
