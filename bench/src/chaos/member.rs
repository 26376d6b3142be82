//! One of the nodes: its process, its links to the ensemble, what it says, and where it can be asked.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, bail};
use ingest_harness::node::{Node, Setup};
use ingest_harness::{Ensemble, Proxy, RequestKind};
use tokio::sync::{Mutex, MutexGuard};

use super::tail::Tail;

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

    /// Whether it has ended although nobody is doing anything to it.
    pub(crate) fn has_ended(&self) -> bool {
        self.node.try_lock().is_ok_and(|node| !node.process.is_running())
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
