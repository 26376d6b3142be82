//! Every local id has one object, no object has two, each deposit is a version of its own, and the bytes are those of the depositor.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use ingest_queue::ids::Jid;
use ingest_queue::states::JobState;
use ingest_steps::digest::hex;
use ingest_steps::inventory::sqlite::SqliteInventory;
use ingest_steps::inventory::{Inventory as _, Object, Version};
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

/// A row whose job is completed.
#[derive(Debug, Clone)]
struct Deposited {
    jid: Jid,
    /// The object that the job names.
    ark: Option<String>,
    path: String,
    /// The SHA-512 digest of its bytes.
    digest: String,
}

/// What there is of a local id.
#[derive(Debug)]
struct Kept {
    local_id: String,
    deposits: Vec<Deposited>,
    /// What the inventory says.
    ark: Option<String>,
    recorded: Option<Object>,
}

/// An object as its own inventory describes it.
#[derive(Debug, Clone, serde::Deserialize)]
struct Stored {
    id: String,
    head: String,
    manifest: BTreeMap<String, Vec<String>>,
    versions: BTreeMap<String, StoredVersion>,
}

#[derive(Debug, Clone, serde::Deserialize)]
struct StoredVersion {
    /// By digest.
    state: BTreeMap<String, Vec<String>>,
}

pub(super) async fn judge(world: &World, jobs: &[Job]) -> Result<Found> {
    let made = world.ledger.made();
    let rows = jobs::rows(&made);
    let mut wanted = BTreeMap::<&str, Vec<Deposited>>::new();
    for job in jobs.iter().filter(|job| job.state == Some(JobState::Completed)) {
        if let Some(row) = rows.get(job.payload.as_str()) {
            wanted.entry(row.local_id.as_str()).or_default().push(Deposited::new(job, row));
        }
    }
    let inventory = SqliteInventory::open(&world.path("inventory.sqlite")).await?;
    let mut objects = Vec::new();
    for (local_id, deposits) in wanted {
        let found = inventory.find(OWNER, local_id).await?;
        let recorded = match &found {
            Some(ark) => inventory.object(ark).await?,
            None => None,
        };
        let ark = found.map(|ark| ark.to_string());
        objects.push(Kept { local_id: local_id.to_owned(), deposits, ark, recorded });
    }
    let recorded = recorded_objects(&world.path("inventory.sqlite")).await?;
    for wrong in wrongs(&objects, &stored(&world.path("storage"))?, recorded) {
        world.book.breach(wrong);
    }
    valid(world)?;
    let found = || objects.iter().filter(|object| object.ark.is_some());
    let versions = found().map(|object| object.deposits.len()).sum();
    Ok(Found { objects: found().count(), versions })
}

impl Deposited {
    fn new(job: &Job, row: &Row) -> Self {
        let digest = hex(&Sha512::digest(row.content()));
        Self { jid: job.jid, ark: job.ark.clone(), path: row.path.clone(), digest }
    }
}

/// What is wrong with all objects, of which so many are recorded.
fn wrongs(objects: &[Kept], stored: &BTreeMap<String, Stored>, recorded: i64) -> Vec<String> {
    let (mut wrongs, mut arks) = (Vec::new(), BTreeSet::new());
    for object in objects {
        let local_id = &object.local_id;
        let Some(ark) = &object.ark else {
            wrongs.push(format!("{local_id} is completed, and not in the inventory"));
            continue;
        };
        if !arks.insert(ark) {
            wrongs.push(format!("{ark} has two local ids, {local_id} is one of them"));
        }
        for Deposited { jid, ark: named, .. } in &object.deposits {
            if named.as_ref() != Some(ark) {
                wrongs.push(format!("{jid} of {local_id} names {named:?}, and the inventory {ark}"));
            }
        }
        wrongs.extend(of_object(object, stored.get(ark)).into_iter().map(|wrong| format!("{ark} {wrong}")));
    }
    let nobodys = stored.keys().filter(|ark| !arks.contains(ark));
    wrongs.extend(nobodys.map(|ark| format!("{ark} is in the storage, and nobody has it")));
    if usize::try_from(recorded) != Ok(arks.len()) {
        wrongs.push(format!("{recorded} objects are recorded, and {} were deposited", arks.len()));
    }
    wrongs
}

/// What is wrong with one object: its local id, the number of its versions, and what each of its deposits has become.
fn of_object(object: &Kept, stored: Option<&Stored>) -> Vec<String> {
    let (local_id, count) = (&object.local_id, object.deposits.len());
    let mut wrongs = Vec::new();
    match &object.recorded {
        None => wrongs.push(format!("of {local_id} is not in the inventory")),
        Some(recorded) => {
            if recorded.local_ids != [local_id.as_str()] {
                wrongs.push(format!("has the local ids {:?}, and not {local_id}", recorded.local_ids));
            }
            let has = recorded.versions.iter().filter(|version| !version.superseded).count();
            if has != count {
                wrongs.push(format!("has {has} versions recorded, and {count} jobs of it are completed"));
            }
            wrongs
                .extend(object.deposits.iter().filter_map(|deposit| misrecorded(deposit, recorded, stored)));
        }
    }
    let Some(stored) = stored else {
        wrongs.push("is recorded, and not in the storage".to_owned());
        return wrongs;
    };
    // What was stored and never recorded is kept, too.
    let superseded = object.recorded.iter().flat_map(|recorded| &recorded.versions);
    let kept = count + superseded.filter(|version| version.superseded).count();
    if stored.head != format!("v{kept}") {
        wrongs.push(format!("has {} as its newest version, and {count} jobs", stored.head));
    }
    let lost = object.deposits.iter().filter(|deposit| !stored.manifest.contains_key(&deposit.digest));
    wrongs.extend(lost.map(|deposit| format!("does not have the bytes of {}", deposit.path)));
    wrongs
}

/// A deposit that is not a version of its own with its bytes. A job records a version once, with the files that the storage has of
/// it, and every version holds all files of its deposit: that some version has the bytes is not enough.
fn misrecorded(deposit: &Deposited, recorded: &Object, stored: Option<&Stored>) -> Option<String> {
    let Deposited { jid, path, digest, .. } = deposit;
    let own: Vec<&Version> = recorded
        .versions
        .iter()
        .filter(|version| !version.superseded && version.ingest.jid == *jid)
        .collect();
    let [version] = own.as_slice() else {
        let numbers: Vec<u32> = own.iter().map(|version| version.version).collect();
        return Some(format!("has the versions {numbers:?} of {jid}, and should have one"));
    };
    let number = version.version;
    let is_noted = version.files.iter().flat_map(|file| &file.digests).any(|found| found.hex() == digest);
    if !is_noted {
        return Some(format!("has version {number} recorded for {jid}, without the bytes of {path}"));
    }
    // One that is not stored at all is told of by itself.
    let version = stored?.versions.get(&format!("v{number}"));
    let has_it = version.is_some_and(|version| version.state.contains_key(digest));
    (!has_it).then(|| format!("has version {number} of {jid} in the storage without the bytes of {path}"))
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

#[cfg(test)]
mod tests {
    use ingest_queue::date::Date;
    use ingest_queue::ids::Bid;
    use ingest_steps::digest::{Algorithm, Digest};
    use ingest_steps::inventory::{File, Ingest};

    use super::*;

    const ARK: &str = "ark:/99999/fk4one";

    fn digest(of: u32) -> String {
        hex(&Sha512::digest(of.to_be_bytes()))
    }

    /// A version that the job of this number has recorded, with these bytes.
    fn version(number: u32, jid: u32, bytes: u32) -> Version {
        let digests = vec![Digest::new(Algorithm::Sha512, &digest(bytes)).unwrap()];
        let ingest = Ingest {
            bid: Bid::new(1),
            jid: Jid::new(jid),
            submitter: "chaos".into(),
            profile: "alpha_content".into(),
            at: Date::from_millis(0),
        };
        let file = File { path: "producer/0.bin".into(), size: 4, digests, mime: None };
        let (title, creator, date) = (None, None, None);
        Version {
            version: number,
            key: format!("k{jid}"),
            title,
            creator,
            date,
            files: vec![file],
            ingest,
            superseded: false,
        }
    }

    /// An object whose versions hold these bytes, one each.
    fn stored(ark: &str, versions: &[u32]) -> Stored {
        let files = |bytes: &u32| (digest(*bytes), vec!["producer/0.bin".to_owned()]);
        let state = |bytes| StoredVersion { state: BTreeMap::from([files(bytes)]) };
        Stored {
            id: ark.into(),
            head: format!("v{}", versions.len()),
            manifest: versions.iter().map(files).collect(),
            versions: (1..)
                .zip(versions)
                .map(|(number, bytes)| (format!("v{number}"), state(bytes)))
                .collect(),
        }
    }

    /// A local id that jobs 1 to so many have deposited, each with bytes of its own.
    fn kept(count: u32) -> Kept {
        let deposit = |number| Deposited {
            jid: Jid::new(number),
            ark: Some(ARK.into()),
            path: format!("/d1/{number}.bin"),
            digest: digest(number),
        };
        let recorded = Object {
            ark: ARK.parse().unwrap(),
            owner: OWNER.into(),
            collection: "alpha".into(),
            local_ids: vec!["alpha-1-0".into()],
            versions: (1..=count).map(|number| version(number, number, number)).collect(),
        };
        let ark = Some(recorded.ark.to_string());
        let deposits = (1..=count).map(deposit).collect();
        Kept { local_id: "alpha-1-0".into(), deposits, ark, recorded: Some(recorded) }
    }

    fn found(object: &Kept, versions: &[u32]) -> String {
        of_object(object, Some(&stored(ARK, versions))).join("; ")
    }

    fn rerecorded(versions: Vec<Version>) -> Kept {
        let mut object = kept(2);
        object.recorded.as_mut().unwrap().versions = versions;
        object
    }

    #[test]
    fn deposits_that_are_versions_are_in_order_whichever_came_first() {
        assert_eq!(found(&kept(1), &[1]), "");
        assert_eq!(found(&kept(2), &[1, 2]), "");
        assert_eq!(found(&rerecorded(vec![version(1, 2, 2), version(2, 1, 1)]), &[2, 1]), "");
    }

    #[test]
    fn two_deposits_with_the_same_bytes_are_two_versions() {
        let mut same = rerecorded(vec![version(1, 1, 1), version(2, 2, 1)]);
        same.deposits[1].digest = digest(1);
        assert_eq!(found(&same, &[1, 1]), "");
        assert!(found(&same, &[1]).contains("v1 as its newest version, and 2 jobs"));
    }

    #[test]
    fn a_deposit_that_is_no_version_of_its_own_is_found() {
        let twice = rerecorded(vec![version(1, 1, 1), version(2, 1, 1)]);
        assert!(found(&twice, &[1, 2]).contains("versions [1, 2] of jid0000000001"));
        assert!(found(&twice, &[1, 2]).contains("versions [] of jid0000000002"));
        assert!(found(&rerecorded(vec![version(1, 1, 1)]), &[1, 2]).contains("1 versions recorded, and 2"));
    }

    #[test]
    fn bytes_in_the_version_of_another_deposit_are_found() {
        let swapped = rerecorded(vec![version(1, 1, 2), version(2, 2, 1)]);
        assert!(found(&swapped, &[2, 1]).contains("version 1 recorded for jid0000000001, without"));
        assert!(found(&kept(2), &[2, 1]).contains("version 1 of jid0000000001 in the storage without"));
    }

    #[test]
    fn bytes_that_are_lost_and_objects_that_are_nowhere_are_found() {
        assert!(found(&kept(2), &[1, 9]).contains("does not have the bytes of /d1/2.bin"));
        assert!(of_object(&kept(1), None).join("; ").contains("not in the storage"));
        let unrecorded = Kept { recorded: None, ..kept(1) };
        assert!(found(&unrecorded, &[1]).contains("is not in the inventory"));
        let mut other = kept(1);
        other.recorded.as_mut().unwrap().local_ids.push("alpha-2-0".into());
        assert!(found(&other, &[1]).contains("has the local ids"));
    }

    #[test]
    fn local_ids_without_an_object_with_that_of_another_and_objects_of_nobody_are_found() {
        let all = |objects: &[Kept], arks: &[&str], recorded| {
            let stored = arks.iter().map(|ark| ((*ark).to_owned(), stored(ark, &[1]))).collect();
            wrongs(objects, &stored, recorded).join("; ")
        };
        assert_eq!(all(&[kept(1)], &[ARK], 1), "");
        assert!(all(&[Kept { ark: None, ..kept(1) }], &[], 0).contains("not in the inventory"));
        assert!(all(&[kept(1), kept(1)], &[ARK], 1).contains("has two local ids"));
        let mut other = kept(1);
        other.deposits[0].ark = None;
        assert!(all(&[other], &[ARK], 1).contains("jid0000000001 of alpha-1-0 names None"));
        assert!(
            all(&[kept(1)], &[ARK, "ark:/99999/fk4two"], 1).contains("fk4two is in the storage, and nobody")
        );
        assert!(all(&[kept(1)], &[ARK], 2).contains("2 objects are recorded, and 1 were deposited"));
    }
}
