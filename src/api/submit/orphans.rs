//! Uploads without a batch are found and removed.
//!
//! The tree decides: an upload that any batch names stays. What stands beside an upload (its batch, its uuid) only tells where to
//! look first; if that confirms nothing, the submissions of all batches are read.
//!
//! | an upload | |
//! |---|---|
//! | that is locked | is being written or submitted: it stays, however long that takes |
//! | whose batch names it | stays |
//! | whose batch was deleted | goes |
//! | that no batch names | goes when nothing was written to it for a day: a commit whose outcome nobody knows is decided by then |
//!
//! **When things break.** What cannot be read is not removed: a tree that does not answer, or one submission that nobody can
//! read, keeps everything that is in doubt until the next look.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use ingest_queue::error::Error;
use ingest_queue::ids::Bid;
use ingest_queue::queue::Queue;

use super::upload::{self, BATCH, PAYLOAD, UUID};

/// An upload in doubt stays so long after anything was written to it.
const UNTOUCHED: Duration = Duration::from_hours(24);

/// Removes uploads that no batch names. Answers how many.
pub(crate) async fn look_through(uploads: &Path, queue: &Queue) -> Result<usize, Error> {
    let dir = uploads.to_owned();
    let listed = tokio::task::spawn_blocking(move || list(&dir)).await.unwrap_or_default();
    if listed.is_empty() {
        return Ok(0);
    }
    // A session that has just begun may see a tree that is older than what another session of this node has committed.
    queue.sync().await?;
    let (mut gone, mut doubtful) = (Vec::new(), Vec::new());
    for one in listed {
        match belongs(&one, queue).await? {
            Belongs::ToNoBatch => gone.push(one),
            Belongs::Unknown if one.is_untouched => doubtful.push(one),
            Belongs::Yes | Belongs::Unknown => {}
        }
    }
    if !doubtful.is_empty() {
        let named: BTreeSet<String> = queue.batches_by_payload(upload::id_in).await?.into_keys().collect();
        gone.extend(doubtful.into_iter().filter(|one| !named.contains(&one.id)));
    }
    let mut removed = 0;
    for one in gone {
        // Somebody may have begun to use it meanwhile.
        let Some(lock) = upload::try_lock(&one.path.join(PAYLOAD)) else { continue };
        removed += usize::from(tokio::fs::remove_dir_all(&one.path).await.is_ok());
        drop(lock);
    }
    Ok(removed)
}

/// What the tree says of the batch that stands beside an upload.
enum Belongs {
    Yes,
    /// Its batch was deleted.
    ToNoBatch,
    /// Others may name it.
    Unknown,
}

async fn belongs(one: &Listed, queue: &Queue) -> Result<Belongs, Error> {
    let found = match (one.batch, &one.uuid) {
        (Some(bid), _) => Some(bid),
        (None, Some(uuid)) => match queue.find_batch(uuid).await {
            Ok(found) => found,
            Err(error @ Error::Store(_)) => return Err(error),
            Err(_) => None,
        },
        (None, None) => None,
    };
    let Some(bid) = found else { return Ok(Belongs::Unknown) };
    match queue.submission(bid).await {
        Ok(submission) => {
            let names = submission.payload_url.as_deref().and_then(upload::id_in);
            Ok(if names.as_ref() == Some(&one.id) { Belongs::Yes } else { Belongs::Unknown })
        }
        Err(Error::NotFound(_)) if one.batch.is_some() => Ok(Belongs::ToNoBatch),
        Err(error @ Error::Store(_)) => Err(error),
        // Also one that nobody can read: it may name this one.
        Err(Error::NotFound(_)) => Ok(Belongs::Unknown),
        Err(_) => Ok(Belongs::Yes),
    }
}

/// An upload that nobody writes or submits now.
#[derive(Debug)]
struct Listed {
    id: String,
    path: PathBuf,
    batch: Option<Bid>,
    uuid: Option<String>,
    is_untouched: bool,
}

/// Blocks.
fn list(uploads: &Path) -> Vec<Listed> {
    let Ok(entries) = std::fs::read_dir(uploads) else { return Vec::new() };
    let look = |entry: std::fs::DirEntry| {
        let path = entry.path();
        let id = entry.file_name().into_string().ok().filter(|id| upload::is_id(id))?;
        // Given back at once.
        upload::try_lock(&path.join(PAYLOAD))?;
        let text = |name: &str| std::fs::read_to_string(path.join(name)).ok();
        let batch = text(BATCH).and_then(|text| text.trim().parse().ok());
        let uuid = text(UUID).filter(|uuid| !uuid.is_empty());
        let is_untouched = last_written(&path)?.elapsed().is_ok_and(|age| age > UNTOUCHED);
        path.is_dir().then_some(Listed { id, path, batch, uuid, is_untouched })
    };
    entries.flatten().filter_map(look).collect()
}

/// When anything in a directory was written last.
fn last_written(dir: &Path) -> Option<SystemTime> {
    let modified = |path: &Path| std::fs::metadata(path).and_then(|facts| facts.modified()).ok();
    let own = modified(dir)?;
    let files = std::fs::read_dir(dir).ok()?.flatten().filter_map(|entry| modified(&entry.path()));
    Some(files.fold(own, SystemTime::max))
}
