//! `processing`: the object gets its identifier and the files that describe it, and is stored.
//!
//! 1. `identify`: the identifier that its local ids have, or the given one, or a new one, written into the
//!    tree at once. The job has to have a right to that object ([`rights`](crate::rights)), and it has to be its turn
//!    ([`object`](super::object)).
//! 2. `system`: the system files and the storage manifest, in this attempt's own directory.
//! 3. Under the storage lock of the object: rights and turn are looked at again, `compose` decides which files of the
//!    newest version that counts are carried forward, the version is stored, with a key that all attempts share, and
//!    what the storage answers is compared with what it was to be, file by file.
//! 4. `/jobs/JID/inventory` says what was stored; then a minted identifier is published.
//!
//! In the `mrt-zk` dialect the storage service takes the job from here: 3 is its work, `/jobs/JID/store` tells it
//! where the manifest is, and the identifier is published before.
//!
//! **When things break.** Everything can be run again. A version that was stored under the same key is found and
//! not stored twice; so is one that this job stored before somebody requeued it, or before the tree was restored
//! (`restored`), if the files are the same.
//! A job that finds the object locked is parked until it is free; the lock ends with the session, or with this step. Files that are not on
//! this disk have to be downloaded again.

mod compose;
mod delete;
pub(crate) mod identify;
mod restored;
mod store;
pub(crate) mod system;

use std::sync::Arc;

use ingest_queue::dialect::Dialect;
use ingest_queue::jobs::Write;
use ingest_queue::nodes;
use ingest_queue::plan::job::Change;

use self::identify::Named;
use super::Task;
use crate::minter::MintRequest;
use crate::outcome::{Failure, Result};
use crate::services::{Services, blocking};
use crate::storage::{Carried, Mode};
use crate::work::{AttemptDir, FileRecord};

pub use self::store::Said;
pub(super) use self::store::{CHANGES, lock};

/// Where the files of the depositor are.
const PRODUCER: &str = "producer/";

/// The files of the attempt that counts.
#[derive(Debug, Clone)]
pub(crate) struct Sources {
    pub(crate) dir: AttemptDir,
    pub(crate) records: Vec<FileRecord>,
}

/// Names, describes and stores the object of a job.
pub async fn run(task: &mut Task<'_>, services: &Services) -> Result<Change> {
    let mode: Mode = task.configuration.submission_mode.parse().map_err(Failure::Hopeless)?;
    let storage = Arc::clone(services.storage_of(&task.profile)?);
    let sources = match sources(task, services).await {
        Ok(sources) => sources,
        // Its files went when it was completed, before the tree was restored.
        Err(Failure::Fail(why)) => match restored::without_files(task, services, &*storage, mode).await? {
            Some(change) => return Ok(change),
            None => return Err(Failure::Fail(why)),
        },
        Err(failure) => return Err(failure),
    };
    let named = identify::identify(task, services, mode, &*storage, &sources).await?;
    let object = Arc::new(system::make(task, services, &named.ark, &sources).await?);
    if task.queue.dialect() == Dialect::MrtZk {
        publish(task, services, &named).await?;
        let count = object.files().len();
        let manifest_url = system::hand_over(task, services, &object, &Carried::default()).await?.to_string();
        // That service merges by itself, and its word for exactly these files is another.
        let mode = if mode == Mode::Replace { Mode::Add } else { mode }.name().to_owned();
        let store = nodes::Store {
            manifest_url: manifest_url.clone(),
            mode: mode.clone(),
            ..nodes::Store::default()
        };
        let inventory = nodes::Inventory { manifest_url, mode, ..nodes::Inventory::default() };
        task.queue.write(task.lease, &[Write::Store(store), Write::Inventory(inventory)]).await?;
        return Ok(Change::message(format!("{}, {count} files for the storage service", named.ark)));
    }
    let (said, changes) = store::store(task, services, &*storage, mode, &named, &object).await?;
    publish(task, services, &named).await?;
    let changes = changes.map(|changes| format!(": {changes}")).unwrap_or_default();
    Ok(Change::message(format!("{} version {}, {} files{changes}", named.ark, said.version, said.files)))
}

/// The depositor's files, as downloading verified them.
async fn sources(task: &Task<'_>, services: &Services) -> Result<Sources> {
    let again = "requeue the job from downloading";
    let Some(work) = &task.work else {
        return Err(Failure::fail(format!("nothing says where its files are; {again}")));
    };
    let job = task.lease.job();
    let dir = services.work.attempt(job.bid, job.jid, work.attempt);
    let node = work.node.clone();
    blocking("looking for its files", move || {
        let mut records = dir.records()?;
        records.retain(|record| record.path.starts_with(PRODUCER));
        records.sort_by(|a, b| a.path.cmp(&b.path));
        if records.is_empty() {
            return Err(Failure::fail(format!(
                "its files are not in {} (they were brought by {node}); {again}",
                dir.path().display()
            )));
        }
        if let Some(gone) = records.iter().find(|record| !dir.path().join(&record.path).is_file()) {
            let path = dir.path().join(&gone.path);
            return Err(Failure::fail(format!("{} is not there any more; {again}", path.display())));
        }
        Ok(Sources { dir, records })
    })
    .await
}

/// Makes a minted identifier known: there is something behind it now.
async fn publish(task: &Task<'_>, services: &Services, named: &Named) -> Result<()> {
    let Some(key) = &named.minted else { return Ok(()) };
    task.gate().await?;
    services.minter_of(&task.profile)?.publish(&named.ark, &request(task, key)).await
}

fn request(task: &Task<'_>, key: &str) -> MintRequest {
    let text = |value: &Option<String>| value.clone().filter(|text| !text.trim().is_empty());
    MintRequest {
        key: key.to_owned(),
        owner: task.profile.owner.clone(),
        who: text(&task.metadata.erc_who),
        what: text(&task.metadata.erc_what),
        when: text(&task.metadata.erc_when),
        target: None,
    }
}
