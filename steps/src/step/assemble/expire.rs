//! Removes what was there long enough, and what nobody can fetch.

use std::path::PathBuf;

use ingest_queue::error::Error;
use ingest_queue::ids::Aid;
use ingest_queue::map::AccessSize;
use ingest_queue::queue::Queue;
use ingest_queue::states::AccessState;
use ingest_store::recipes::settle;

use super::find::is_over;
use super::{file_of, owner_of};
use crate::archive::disk;
use crate::outcome::{Cancel, Failure, Result};
use crate::services::{Services, blocking};

/// What was removed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Expired {
    /// Items whose time was over.
    pub items: Vec<(AccessSize, Aid)>,
    /// Files that no item names and nobody is writing.
    pub files: Vec<PathBuf>,
}

/// Removes items whose time is over; then what is left on this disk: files that no item names any more, and
/// temporary ones that nobody is writing. Other files in the directory are nobody's business.
pub async fn expire(queue: &Queue, services: &Services, cancel: &Cancel) -> Result<Expired> {
    let mut expired = Expired::default();
    // The items first: a file without one is found again, an item without a file tells a lie.
    for size in AccessSize::ALL {
        for item in queue.access_items(size).await? {
            go_on(cancel)?;
            let done = item.status.status == AccessState::Completed;
            if !done || !is_over(&item.status, queue.now(), services) {
                continue;
            }
            match queue.clean_access(size, item.aid).await {
                Ok(()) => expired.items.push((size, item.aid)),
                // Somebody was faster.
                Err(
                    Error::NotFound(_) | Error::Busy { .. } | Error::Changed { .. } | Error::Refused { .. },
                ) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    // The disk first, then the tree: whatever is found here had its lock before it was made.
    for (path, name, size, aid, whole) in listed(services).await? {
        go_on(cancel)?;
        if !is_needed(queue, &name, size, aid, whole).await? {
            remove(path, &mut expired).await?;
        }
    }
    Ok(expired)
}

/// Whether somebody is writing it, or its item names it. The lock is looked at first: whoever gave it back in
/// between has told the token what counts.
async fn is_needed(queue: &Queue, name: &str, size: AccessSize, aid: Aid, whole: bool) -> Result<bool> {
    let session = queue.session();
    let lock = settle(session, || session.exists(size.lock(aid))).await.answer.map_err(Error::from)?;
    if lock.is_some() || !whole {
        return Ok(lock.is_some());
    }
    match queue.access_token(size, aid).await {
        Ok(token) => Ok(file_of(&token, size, aid) == Some(name)),
        Err(Error::NotFound(_)) => Ok(false),
        // Nobody can tell.
        Err(Error::Corrupt { .. }) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

fn go_on(cancel: &Cancel) -> Result<()> {
    if cancel.is_cancelled() { Err(Failure::Cancelled) } else { Ok(()) }
}

type Listed = (PathBuf, String, AccessSize, Aid, bool);

async fn listed(services: &Services) -> Result<Vec<Listed>> {
    let dir = services.settings.access.dir.clone();
    blocking("listing the access directory", move || {
        let entries = match std::fs::read_dir(&dir) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(|error| disk(&dir, &error))?,
        };
        let mut found = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|error| disk(&dir, &error))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if let Some((size, aid, whole)) = owner_of(&name) {
                found.push((entry.path(), name, size, aid, whole));
            }
        }
        Ok(found)
    })
    .await
}

async fn remove(path: PathBuf, expired: &mut Expired) -> Result<()> {
    match tokio::fs::remove_file(&path).await {
        Ok(()) => expired.files.push(path),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(disk(&path, &error)),
    }
    Ok(())
}
