//! Whether the tree is the one that was there before, and what to do if it is not.
//!
//! The tree counts batches and jobs, and the names of minters. A tree that is empty, restored from a backup, or another one counts
//! numbers again that were used. [`examine`] compares it with what is beside it: the numbers that the inventory, the working
//! directory, the outbox and this node itself have seen in use, and the [identity](crate::identity) of the repository. What
//! differs is a list of findings of fsck. A node takes no work until there are none; [`fsck()`] with `repair` makes the tree fit
//! again, and says so in `/repository`, which every node watches.
//!
//! Where nothing differs, [`Examined::adopt`] writes the identity to whatever has none yet, and tells the inventory how far the
//! tree has counted.
//!
//! **When things break.** What cannot be asked just now is compared the next time; without the inventory nothing is decided. All of it
//! can be repeated. A counter that was moved only part of the way is moved on by the next repair.

mod evidence;
mod fsck;
mod repair;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ingest_queue::fsck::{Code, Finding};
use ingest_queue::map;
use ingest_queue::queue::Queue;
use ingest_store::{Kind, Mode};
use serde::{Deserialize, Serialize};

use crate::identity::{self, Identity, Marker};
use crate::inventory::{BATCHES, Inventory, JOBS};
use crate::minter::local;
use crate::outcome::{Failure, Result};
use crate::services::{Services, open_inventory};
use crate::settings::{self, MailBy, Settings};

pub use fsck::{Checked, fsck};

/// How long a place may take to say which repository it belongs to.
const PATIENCE: Duration = Duration::from_secs(10);

/// In `/repository`: the numbers that were used and whose batches and jobs a restored tree does not have.
const LOST: &str = "lost";

/// What the tree is compared with.
#[derive(Debug, Clone)]
pub struct Places {
    inventory: Option<Arc<dyn Inventory>>,
    markers: Vec<Arc<dyn Marker>>,
    work: PathBuf,
    outbox: Option<PathBuf>,
}

/// Numbers that were used before a tree was restored, and that it did not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LostNumbers {
    /// Batches below this one were in the restored tree, and their jobs may have been lost.
    pub batches: u32,
    /// The first job that was lost.
    pub jobs: u32,
    /// The first job that was not used.
    pub jobs_end: u32,
}

/// Where a number of a counter is known from, and the first one that is not used.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Known {
    next: u64,
    by: String,
}

/// The tree compared with what is beside it.
#[derive(Debug)]
pub struct Examined {
    findings: Vec<Finding>,
    /// What could not be asked, and why.
    unread: Vec<String>,
    tree: Option<Identity>,
    /// Those of batches and of jobs.
    counted: (u32, u32),
    known: BTreeMap<&'static str, Known>,
    /// Counters of minters that are behind, and the first name that is not used.
    minters: Vec<(String, u64)>,
    /// By the number of the marker.
    unmarked: Vec<usize>,
    /// The one repository that all places belong to which say so.
    identity: Option<Identity>,
    inventory_counters: BTreeMap<String, u64>,
}

impl Places {
    /// Those of a node.
    pub fn of(services: &Services) -> Result<Self> {
        Self::with(&services.settings, services.inventory.clone())
    }

    /// Those that the settings name, without a node: nothing is made that is not there.
    pub async fn open(settings: &Settings) -> Result<Self> {
        let inventory = match &settings.inventory {
            settings::Inventory::Sqlite { path } if !path.exists() => None,
            settings => open_inventory(settings).await.map_err(|failure| failure.during("inventory"))?,
        };
        Self::with(settings, inventory)
    }

    fn with(settings: &Settings, inventory: Option<Arc<dyn Inventory>>) -> Result<Self> {
        let outbox = match &settings.mail.by {
            MailBy::Outbox { dir } => Some(dir.clone()),
            MailBy::Smtp(_) => None,
        };
        Ok(Self {
            markers: identity::markers(settings, inventory.as_ref())?,
            inventory,
            work: settings.work.dir.clone(),
            outbox,
        })
    }
}

/// Compares the tree with what is beside it. Changes nothing.
pub async fn examine(queue: &Queue, places: &Places) -> Result<Examined> {
    // All of this before the tree: it moves first, so that nothing is ahead of a tree that is not older.
    let inventory_counters = match &places.inventory {
        Some(inventory) => inventory.counters().await?,
        None => BTreeMap::new(),
    };
    let (mut findings, mut unread) = (Vec::new(), Vec::new());
    let known = known(queue, places, &inventory_counters, &mut unread).await?;
    let mut found = Vec::with_capacity(places.markers.len());
    for marker in &places.markers {
        let read = tokio::time::timeout(PATIENCE, marker.read()).await;
        found.push(match read.unwrap_or_else(|_| Err(Failure::later("it does not answer"))) {
            Ok(found) => Some(found),
            Err(Failure::Fail(why) | Failure::Hopeless(why)) => {
                findings.push(Finding::outside(Code::Foreign, marker.place(), why));
                None
            }
            Err(failure) => {
                unread.push(format!("{}: {failure}", marker.place()));
                None
            }
        });
    }
    let counted = queue.numbers().await?;
    let tree = read_tree(queue).await?;
    for (counter, dir, counted) in [(BATCHES, map::BATCHES, counted.0), (JOBS, map::JOBS, counted.1)] {
        if let Some(Known { next, by }) = known.get(counter)
            && u64::from(counted) < *next
        {
            let what =
                format!("it counts from {counted}, and {by} knows that the numbers below {next} are used");
            findings.push(Finding::outside(Code::TreeBehind, dir, what));
        }
    }
    let minters = minters(queue, &inventory_counters, &mut findings).await?;
    let unmarked = (0..found.len()).filter(|number| found[*number] == Some(None)).collect();
    let found: Vec<_> = places.markers.iter().zip(found.into_iter().map(Option::flatten)).collect();
    let identity = compare(tree.as_ref(), &found, &mut findings);
    Ok(Examined { findings, unread, tree, counted, known, minters, unmarked, identity, inventory_counters })
}

/// The numbers of batches and jobs that are known to be used, by whoever knows the most.
async fn known(
    queue: &Queue,
    places: &Places,
    inventory: &BTreeMap<String, u64>,
    unread: &mut Vec<String>,
) -> Result<BTreeMap<&'static str, Known>> {
    let mut known = BTreeMap::<&'static str, Known>::new();
    let mut add = |counter, next: u64, by: &dyn std::fmt::Display| {
        let before = known.get(counter).map_or(0, |known: &Known| known.next);
        if next > before {
            known.insert(counter, Known { next, by: by.to_string() });
        }
    };
    for counter in [BATCHES, JOBS] {
        let place = places.inventory.as_ref().map(|inventory| inventory.place()).unwrap_or_default();
        add(counter, inventory.get(counter).copied().unwrap_or(0), &format!("the inventory {place}"));
    }
    let (batches, jobs) = queue.seen_numbers();
    add(BATCHES, batches.into(), &"this node");
    add(JOBS, jobs.into(), &"this node");
    let (batches, jobs) = evidence::of_work(places.work.clone()).await?;
    let work = format!("the working directory {}", places.work.display());
    add(BATCHES, batches.into(), &work);
    add(JOBS, jobs.into(), &work);
    if let Some(outbox) = &places.outbox {
        match evidence::of_outbox(outbox.clone()).await {
            Ok(batches) => add(BATCHES, batches.into(), &format!("the outbox {}", outbox.display())),
            Err(failure) => unread.push(failure.to_string()),
        }
    }
    Ok(known)
}

/// The counters of minters that are behind those of the inventory. One that is not there, nobody mints with.
async fn minters(
    queue: &Queue,
    inventory: &BTreeMap<String, u64>,
    findings: &mut Vec<Finding>,
) -> Result<Vec<(String, u64)>> {
    let mut behind = Vec::new();
    for (path, next) in inventory.iter().filter(|(name, _)| name.starts_with(map::MINTER)) {
        let Some((data, _)) = read(queue, path).await? else { continue };
        // One that cannot be read is told by the check of the tree, and minted with by nobody.
        let Some(counted) = local::counted(&data) else { continue };
        if counted < *next {
            let what = format!(
                "it counts from {counted}, and the inventory knows that the numbers below {next} are used"
            );
            findings.push(Finding::outside(Code::TreeBehind, path, what));
            behind.push((path.clone(), *next));
        }
    }
    Ok(behind)
}

/// Compares the identities; answers the one that all have which have one.
fn compare(
    tree: Option<&Identity>,
    found: &[(&Arc<dyn Marker>, Option<Identity>)],
    findings: &mut Vec<Finding>,
) -> Option<Identity> {
    let marked: Vec<_> =
        found.iter().filter_map(|(marker, identity)| Some((marker.place(), identity.as_ref()?))).collect();
    let tree_first = tree.map(|tree| (format!("the tree ({})", map::REPOSITORY), tree));
    let (place, first) = tree_first.or_else(|| marked.first().cloned())?;
    for (other, identity) in marked.iter().filter(|(_, identity)| identity.id != first.id) {
        let what = format!(
            "it belongs to the repository {identity}, and {place} belongs to the repository {first}; if the configuration names \
             the wrong one of them, correct it; if both are meant, remove the id of the one that is to be taken over"
        );
        findings.push(Finding::outside(Code::Foreign, other, what));
    }
    if identity::ids(marked.iter().map(|(_, identity)| *identity).chain(tree)).len() > 1 {
        return None;
    }
    if tree.is_none() {
        let what = format!("it says nothing, and {place} belongs to the repository {first}");
        findings.push(Finding::outside(Code::NoIdentity, map::REPOSITORY, what));
    }
    Some(Identity::of(first.id.clone(), first.created))
}

async fn read(queue: &Queue, path: &str) -> Result<Option<(bytes::Bytes, ingest_store::Stat)>> {
    let session = queue.session();
    match ingest_store::recipes::settle(session, || session.get(path)).await.answer {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == Kind::NoNode => Ok(None),
        Err(error) => Err(ingest_queue::error::Error::from(error).into()),
    }
}

async fn read_tree(queue: &Queue) -> Result<Option<Identity>> {
    let found = read(queue, map::REPOSITORY).await?;
    found.map(|(data, _)| Identity::read(&data, map::REPOSITORY)).transpose()
}

impl Examined {
    /// Why a node must not work on this tree; none if it may.
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// Whether some place belongs to another repository: the configuration is wrong.
    pub fn is_foreign(&self) -> bool {
        self.findings.iter().any(|finding| finding.code == Code::Foreign)
    }

    /// What could not be asked, and why. It is to be compared later.
    pub fn unread(&self) -> &[String] {
        &self.unread
    }

    /// The numbers that the tree has lost when it was restored.
    pub fn lost(&self) -> Vec<LostNumbers> {
        self.tree.as_ref().map(lost).unwrap_or_default()
    }

    /// All that differs, for people.
    pub fn text(&self) -> String {
        let line = |finding: &Finding| format!("{}: {}", finding.path, finding.what);
        self.findings.iter().map(line).collect::<Vec<_>>().join("; ")
    }

    /// Writes the identity of the repository to whatever has none, beginning with the tree, and moves the counters of the
    /// inventory after those of the tree. For a tree where nothing differs.
    pub async fn adopt(&self, queue: &Queue, places: &Places) -> Result<()> {
        let identity = match &self.identity {
            Some(identity) => identity.clone(),
            None => begin(queue).await?,
        };
        self.mark(places, &identity).await;
        queue.saw_numbers(self.counted.0, self.counted.1);
        let Some(inventory) = &places.inventory else { return Ok(()) };
        let counted = [(BATCHES, u64::from(self.counted.0)), (JOBS, u64::from(self.counted.1))];
        if counted.iter().all(|(name, next)| self.inventory_counters.get(*name) == Some(next)) {
            return Ok(());
        }
        inventory.raise(&counted).await
    }

    /// A place that cannot be written is no reason not to work: it is written the next time.
    async fn mark(&self, places: &Places, identity: &Identity) -> usize {
        let mut written = 0;
        for marker in self.unmarked.iter().filter_map(|number| places.markers.get(*number)) {
            let answer = tokio::time::timeout(PATIENCE, marker.write(identity)).await;
            match answer.unwrap_or_else(|_| Err(Failure::later("it does not answer"))) {
                Ok(()) => written += 1,
                Err(failure) => {
                    tracing::warn!(place = marker.place(), %failure, "the id of the repository cannot be written; trying again with the next session");
                }
            }
        }
        written
    }
}

fn lost(identity: &Identity) -> Vec<LostNumbers> {
    let read = |value: &serde_json::Value| serde_json::from_value(value.clone()).ok();
    identity.other.get(LOST).and_then(read).unwrap_or_default()
}

/// Begins a repository: of several nodes one makes it, and the others read what it made.
async fn begin(queue: &Queue) -> Result<Identity> {
    let identity = Identity::begin(queue.now());
    let session = queue.session();
    let create = || session.create(map::REPOSITORY, identity.write(), Mode::Persistent);
    match ingest_store::recipes::settle(session, create).await.answer {
        Ok(_) => {
            tracing::info!(repository = identity.id, "a repository begins");
            Ok(identity)
        }
        Err(error) if error.kind() == Kind::NodeExists => {
            let missing = || Failure::Again(format!("{} was removed just now", map::REPOSITORY));
            read_tree(queue).await?.ok_or_else(missing)
        }
        Err(error) => Err(ingest_queue::error::Error::from(error).into()),
    }
}
