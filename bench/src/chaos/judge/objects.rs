//! Every local id has one object, no object has two, each deposit is a version, and the bytes are those of the depositor.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use ingest_queue::states::JobState;
use ingest_steps::ark::Ark;
use ingest_steps::digest::hex;
use ingest_steps::inventory::Inventory as _;
use ingest_steps::inventory::sqlite::SqliteInventory;
use rocfl::ocfl::{OcflRepo, ValidationResult as _};
use sha2::{Digest as _, Sha512};

use super::super::deposit::Row;
use super::super::world::{OWNER, World};
use super::jobs::{self, Job};

/// How many there are.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) objects: usize,
    pub(super) versions: usize,
}

pub(super) async fn judge(world: &World, jobs: &[Job]) -> Result<Found> {
    let made = world.ledger.made();
    let rows = jobs::rows(&made);
    let mut wanted = BTreeMap::<&str, Vec<(&Job, &Row)>>::new();
    for job in jobs.iter().filter(|job| job.state == Some(JobState::Completed)) {
        if let Some(row) = rows.get(job.payload.as_str()) {
            wanted.entry(row.local_id.as_str()).or_default().push((job, row));
        }
    }
    let stored = stored(&world.path("storage"))?;
    let inventory = SqliteInventory::open(&world.path("inventory.sqlite")).await?;
    let (mut arks, mut found) = (BTreeSet::new(), Found::default());
    for (local_id, done) in &wanted {
        let rows: Vec<&Row> = done.iter().map(|(_, row)| *row).collect();
        let Some(ark) = inventory.find(OWNER, local_id).await? else {
            world.book.breach(format!("{local_id} is completed, and not in the inventory"));
            continue;
        };
        if !arks.insert(ark.to_string()) {
            world.book.breach(format!("{ark} has two local ids, {local_id} is one of them"));
        }
        found.objects += 1;
        found.versions += rows.len();
        recorded(world, &inventory, &ark, local_id, rows.len()).await?;
        whole(world, &ark, &rows, stored.get(&ark.to_string()));
        for (job, _) in done.iter().filter(|(job, _)| job.ark.as_deref() != Some(&ark.to_string())) {
            let (jid, named) = (job.jid, &job.ark);
            world.book.breach(format!("{jid} of {local_id} names {named:?}, and the inventory {ark}"));
        }
    }
    for ark in stored.keys().filter(|ark| !arks.contains(*ark)) {
        world.book.breach(format!("{ark} is in the storage, and nobody has it"));
    }
    let recorded = recorded_objects(&world.path("inventory.sqlite")).await?;
    if recorded != i64::try_from(arks.len())? {
        world.book.breach(format!("{recorded} objects are recorded, and {} were deposited", arks.len()));
    }
    valid(world)?;
    Ok(found)
}

async fn recorded(
    world: &World,
    inventory: &SqliteInventory,
    ark: &Ark,
    local_id: &str,
    versions: usize,
) -> Result<()> {
    let Some(object) = inventory.object(ark).await? else {
        world.book.breach(format!("{ark} of {local_id} is not in the inventory"));
        return Ok(());
    };
    if object.local_ids != [local_id] {
        world.book.breach(format!("{ark} has the local ids {:?}, and not {local_id}", object.local_ids));
    }
    if object.versions.len() != versions {
        let has = object.versions.len();
        world
            .book
            .breach(format!("{ark} has {has} versions recorded, and {versions} jobs of it are completed"));
    }
    Ok(())
}

/// An object as its own inventory describes it.
#[derive(Debug, serde::Deserialize)]
struct Stored {
    id: String,
    head: String,
    manifest: BTreeMap<String, Vec<String>>,
}

fn whole(world: &World, ark: &Ark, rows: &[&Row], stored: Option<&Stored>) {
    let Some(stored) = stored else {
        world.book.breach(format!("{ark} is recorded, and not in the storage"));
        return;
    };
    if stored.head != format!("v{}", rows.len()) {
        world.book.breach(format!(
            "{ark} has {} as its newest version, and {} jobs",
            stored.head,
            rows.len()
        ));
    }
    for row in rows {
        let digest = hex(&Sha512::digest(row.content()));
        if !stored.manifest.contains_key(&digest) {
            world.book.breach(format!("{ark} does not have the bytes of {}", row.path));
        }
    }
}

/// All objects of the repository, by their identifiers.
fn stored(root: &Path) -> Result<BTreeMap<String, Stored>> {
    let (mut found, mut dirs) = (BTreeMap::new(), vec![root.to_owned()]);
    while let Some(dir) = dirs.pop() {
        if dir.join("0=ocfl_object_1.1").exists() {
            let text =
                std::fs::read(dir.join("inventory.json")).with_context(|| dir.display().to_string())?;
            let stored: Stored = serde_json::from_slice(&text)?;
            found.insert(stored.id.clone(), stored);
            continue;
        }
        dirs.extend(below(&dir)?);
    }
    Ok(found)
}

fn below(dir: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(dir)?.collect::<Result<Vec<_>, _>>()?;
    Ok(entries.into_iter().map(|entry| entry.path()).filter(|path| path.is_dir()).collect())
}

async fn recorded_objects(path: &Path) -> Result<i64> {
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(path);
    let pool = sqlx::SqlitePool::connect_with(options).await?;
    let count = sqlx::query_scalar("SELECT COUNT(*) FROM objects").fetch_one(&pool).await?;
    pool.close().await;
    Ok(count)
}

/// Another implementation of OCFL reads every byte, and finds nothing wrong.
fn valid(world: &World) -> Result<()> {
    let repository = OcflRepo::fs_repo(world.path("storage"), None)?;
    let mut validated = repository.validate_repo(true)?;
    for error in validated.storage_root_result().errors() {
        world.book.breach(format!("the storage is not valid: {error:?}"));
    }
    for object in &mut validated {
        let object = object?;
        for error in object.errors() {
            world.book.breach(format!("an object is not valid: {error:?}"));
        }
    }
    for error in validated.storage_hierarchy_result().errors() {
        world.book.breach(format!("the storage is not valid: {error:?}"));
    }
    Ok(())
}
