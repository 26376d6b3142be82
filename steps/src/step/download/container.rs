//! A container: fetched beside the object, unpacked into it, and removed.
//!
//! ```text
//! ATTEMPT/container/NAME   the archive, until it is unpacked
//! ATTEMPT/container.json   which archive this is, and whether all of it is unpacked
//! ```
//!
//! What comes out is read for its digests, forced to the disk and noted; only then the archive goes. So a later
//! attempt finds either the archive or all that was in it, or fetches again.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde::{Deserialize, Serialize};

use super::files::{self, ALGORITHMS, Item, Room, guessed};
use super::names::tidy;
use super::site::Site;
use super::{bag, beyond};
use crate::archive::{self, disk as broken};
use crate::digest::Digests;
use crate::outcome::{Cancel, Failure, Progress, Result};
use crate::services::blocking;
use crate::step::Payload;
use crate::work::{AttemptDir, FileRecord};

const DIR: &str = "container";
const NOTE: &str = "container.json";

/// How far an attempt has come with its container.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Kept {
    pub(super) archive: FileRecord,
    /// All that was in it has been noted, and the archive is gone.
    pub(super) unpacked: bool,
}

impl Kept {
    /// Blocks.
    pub(super) fn read(dir: &AttemptDir) -> Option<Self> {
        serde_json::from_slice(&fs::read(dir.path().join(NOTE)).ok()?).ok()
    }

    /// Blocks.
    fn write(&self, dir: &AttemptDir) -> Result<()> {
        let path = dir.path().join(NOTE);
        let text = serde_json::to_vec(self)
            .map_err(|error| Failure::fail(format!("{}: {error}", path.display())))?;
        let write = || {
            let mut whole = tempfile::NamedTempFile::new_in(dir.path())?;
            whole.write_all(&text)?;
            whole.as_file().sync_all()?;
            whole.persist(&path).map_err(|error| error.error)?;
            fs::File::open(dir.path())?.sync_all()
        };
        write().map_err(|error| broken(&path, &error))
    }
}

pub(super) async fn bring(site: &Site<'_>, payload: &Payload) -> Result<Vec<FileRecord>> {
    let name = tidy(&payload.name)?;
    let name = name.rsplit('/').next().unwrap_or(&name);
    let archive = Item::of(payload, format!("{DIR}/{name}"), name);
    site.progress.announce(1, payload.size.unwrap_or(0));
    let mut members = match adopt(site, &archive).await? {
        Some(members) => members,
        None => fetch_and_unpack(site, &archive).await?,
    };
    judge(site, &members)?;
    members.extend(bag::complete(site, &members).await?);
    Ok(members)
}

/// What an earlier attempt has unpacked whole, if all of it is still as it was.
async fn adopt(site: &Site<'_>, archive: &Item) -> Result<Option<Vec<FileRecord>>> {
    let Some((_, kept, members)) = site.earlier.unpacked(archive) else { return Ok(None) };
    let (kept, members): (_, Vec<FileRecord>) = (kept.clone(), members.into_iter().cloned().collect());
    site.make_directories(members.iter().map(|record| record.path.as_str())).await?;
    let at_once = site.services.settings.downloading.at_once.max(1);
    let adopting = members.iter().map(|record| async move {
        let (earlier, record, wanted) = (site.earlier.clone(), record.clone(), archive.clone());
        let (to, progress) = (site.dir.path().join(&record.path), site.progress.clone());
        let cancel = site.cancel.clone();
        let link = move || match earlier.unpacked(&wanted) {
            Some((attempt, ..)) => attempt.adopt(&record, &to, &progress, &cancel),
            None => Ok(false),
        };
        blocking("adopting a file", link).await
    });
    let adopting: Vec<_> = adopting.collect();
    let adopted: Vec<bool> = stream::iter(adopting).buffer_unordered(at_once).try_collect().await?;
    if !adopted.iter().all(|whole| *whole) {
        return Ok(None);
    }
    let (dir, noted) = (site.dir.clone(), members.clone());
    blocking("noting what was unpacked", move || note(&dir, &noted, &kept)).await?;
    Ok(Some(members))
}

async fn fetch_and_unpack(site: &Site<'_>, archive: &Item) -> Result<Vec<FileRecord>> {
    site.make_directories(std::iter::once(archive.path.as_str())).await?;
    let room = Room::up_to(site.profile.limits.object_bytes);
    let record = files::bring(site, archive, &room, site.cancel).await?;
    let limits = archive::Limits {
        total: site.services.settings.unpack.total.min(site.profile.limits.object_bytes),
        member: site.services.settings.unpack.member.min(site.profile.limits.file_bytes),
        ..site.services.settings.unpack.clone()
    };
    let (dir, progress, cancel) = (site.dir.clone(), site.progress.clone(), site.cancel.clone());
    blocking("unpacking", move || {
        let mut kept = Kept { archive: record, unpacked: false };
        kept.write(&dir)?;
        let archive = dir.path().join(&kept.archive.path);
        empty(&dir.producer())?;
        let unpacked = archive::unpack(&archive, &dir.producer(), &limits, &progress, &cancel)?;
        if unpacked.files.is_empty() {
            return Err(Failure::hopeless(format!("{} holds no files", kept.archive.path)));
        }
        let members = read(&dir, &unpacked.files, &progress, &cancel)?;
        // One call for all of them: a million small files are not synced one by one.
        let synced = fs::File::open(dir.path()).and_then(|dir| Ok(rustix::fs::syncfs(&dir)?));
        synced.map_err(|error| broken(dir.path(), &error))?;
        kept.unpacked = true;
        note(&dir, &members, &kept)?;
        Ok(members)
    })
    .await
}

/// The digests of all that came out.
fn read(
    dir: &AttemptDir,
    files: &[archive::File],
    progress: &Progress,
    cancel: &Cancel,
) -> Result<Vec<FileRecord>> {
    let mut records = Vec::with_capacity(files.len());
    for file in files {
        let mut digests = Digests::of(ALGORITHMS);
        digests.read_whole(&dir.producer().join(&file.path), progress, cancel)?;
        if digests.bytes() != file.size {
            let (read, size) = (digests.bytes(), file.size);
            return Err(Failure::fail(format!(
                "{}: {size} bytes were unpacked, {read} are there",
                file.path
            )));
        }
        records.push(FileRecord {
            path: format!("producer/{}", file.path),
            size: file.size,
            digests: digests.finish(),
            mime: guessed(&file.path),
            source: None,
        });
    }
    Ok(records)
}

/// Notes the files, then that these are all; then the archive is not needed any more.
fn note(dir: &AttemptDir, members: &[FileRecord], kept: &Kept) -> Result<()> {
    members.iter().try_for_each(|record| dir.note(record))?;
    dir.sync()?;
    kept.write(dir)?;
    remove(&dir.path().join(DIR))
}

fn judge(site: &Site<'_>, members: &[FileRecord]) -> Result<()> {
    let (most, count) = (site.profile.limits.files, members.len() as u64);
    if count <= most {
        return Ok(());
    }
    let what = format!("the container holds {count} files, and an object may have {most}");
    Err(beyond(site.profile, "files", &what))
}

fn remove(dir: &Path) -> Result<()> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(broken(dir, &error)),
        _ => Ok(()),
    }
}

/// What an adoption that did not come to its end has left is not in the way.
fn empty(dir: &Path) -> Result<()> {
    remove(dir)?;
    fs::create_dir(dir).map_err(|error| broken(dir, &error))
}
