//! Uploads on the disk of this node: `UPLOADS/ID/payload`, and beside it which batch it belongs to.
//!
//! The name that a depositor gives is in the URL only: nothing that strangers write is a path here. An upload stays as long as its
//! batch is in the tree.
//!
//! **When things break.** One that breaks off, or that no batch was made of, goes with its directory. One that a crash has left is
//! removed when uploads are looked through, once it is old enough that nobody can be writing it; unless there is a batch with the
//! uuid that was written down before the batch was made.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use ingest_queue::error::Error;
use ingest_queue::ids::Bid;
use ingest_queue::queue::Queue;
use ingest_steps::digest::{Algorithm, Digest, Digests};
use ingest_steps::payload::{FIRST_BYTES, MANIFEST_AS_FILE, PayloadKind, is_manifest};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::judge::Judged;
use crate::api::problem::{Answer, Kind, Refusal};
use crate::api::wire::FieldProblem;

const PAYLOAD: &str = "payload";
const BATCH: &str = "batch";
const UUID: &str = "uuid";
/// An upload without a batch that is older than this is nobody's.
const LEFT: Duration = Duration::from_hours(24);

/// Where the bytes of an upload are. The id is one of ours, or leads nowhere.
pub(crate) fn payload_of(dir: &Path, id: &str) -> PathBuf {
    let plain = id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    dir.join(if plain { id } else { "none" }).join(PAYLOAD)
}

/// A directory that goes unless it is kept.
#[derive(Debug)]
struct Dir {
    path: PathBuf,
    kept: bool,
}

impl Drop for Dir {
    fn drop(&mut self) {
        if !self.kept {
            // A file or two: it takes no time.
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

/// An upload that is under way.
pub(super) struct Writing {
    dir: Dir,
    id: String,
    file: tokio::io::BufWriter<tokio::fs::File>,
    digests: Digests,
}

fn disk(error: &std::io::Error) -> Refusal {
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            Refusal::new(Kind::NO_SPACE, "the disk of this node is full")
        }
        _ => Refusal::defect(format!("uploads: {error}")),
    }
}

impl Writing {
    pub(super) async fn begin(uploads: &Path) -> Answer<Self> {
        let id = uuid::Uuid::new_v4().simple().to_string();
        let path = uploads.join(&id);
        tokio::fs::create_dir_all(&path).await.map_err(|error| disk(&error))?;
        let dir = Dir { path, kept: false };
        let file = tokio::fs::File::create(dir.path.join(PAYLOAD)).await.map_err(|error| disk(&error))?;
        let file = tokio::io::BufWriter::with_capacity(256 << 10, file);
        Ok(Self { dir, id, file, digests: Digests::of([Algorithm::Sha256]) })
    }

    pub(super) fn size(&self) -> u64 {
        self.digests.bytes()
    }

    pub(super) async fn add(&mut self, piece: Bytes) -> Answer<()> {
        self.digests.update(&piece);
        self.file.write_all(&piece).await.map_err(|error| disk(&error))
    }

    /// It is whole and on the disk.
    pub(super) async fn finish(mut self) -> Answer<Upload> {
        self.file.flush().await.map_err(|error| disk(&error))?;
        self.file.get_ref().sync_all().await.map_err(|error| disk(&error))?;
        let size = self.digests.bytes();
        let sha256 = self.digests.finish().into_iter().next();
        let sha256 = sha256.ok_or_else(|| Refusal::defect("an upload without a digest"))?;
        Ok(Upload { dir: self.dir, id: self.id, size, sha256 })
    }
}

/// An upload. Unless it belongs to a batch it is removed when nobody has it any more.
#[derive(Debug)]
pub(super) struct Upload {
    dir: Dir,
    id: String,
    pub(super) size: u64,
    pub(super) sha256: Digest,
}

impl Upload {
    /// What its URL is signed for.
    pub(super) fn path(&self, name: &str) -> String {
        // The name may be a path of its own; what counts is its last part.
        format!("uploads/{}/{}", self.id, name.rsplit('/').next().unwrap_or(name))
    }

    /// Why it cannot be what it was said to be, or be guessed: a manifest is no plain file.
    async fn misfit(&self, judged: &Judged) -> Answer<Option<FieldProblem>> {
        let file = tokio::fs::File::open(self.dir.path.join(PAYLOAD)).await.map_err(|error| disk(&error))?;
        let mut first = Vec::new();
        let mut reading = file.take(FIRST_BYTES.into());
        reading.read_to_end(&mut first).await.map_err(|error| disk(&error))?;
        let submission = &judged.submission;
        let message = match submission.payload_type.as_deref() {
            Some(kind) if kind == PayloadKind::File.name() && is_manifest(&first) => {
                MANIFEST_AS_FILE.to_owned()
            }
            Some(_) => return Ok(None),
            None => {
                match PayloadKind::guess(submission.payload_filename.as_deref().unwrap_or_default(), &first) {
                    Ok(_) => return Ok(None),
                    Err(ambiguous) => ambiguous.to_string(),
                }
            }
        };
        Ok(Some(FieldProblem { field: "type".into(), message }))
    }

    /// What differs from what was announced.
    pub(super) async fn compare(&self, judged: &Judged) -> Answer<Option<FieldProblem>> {
        if let Some(problem) = self.misfit(judged).await? {
            return Ok(Some(problem));
        }
        if let Some(size) = judged.size
            && size != self.size
        {
            let message = format!("{size} bytes were announced, and {} came", self.size);
            return Ok(Some(FieldProblem { field: "size".into(), message }));
        }
        let Some(announced) = &judged.digest else { return Ok(None) };
        let found = if announced.algorithm() == Algorithm::Sha256 {
            self.sha256.clone()
        } else {
            let (file, algorithm) = (self.dir.path.join(PAYLOAD), announced.algorithm());
            let read = tokio::task::spawn_blocking(move || {
                let mut digests = Digests::of([algorithm]);
                digests.read_file(&file).map(|()| digests.finish())
            });
            let found = read.await.map_err(Refusal::defect)?.map_err(|error| disk(&error))?;
            found.into_iter().next().ok_or_else(|| Refusal::defect("an upload without a digest"))?
        };
        let message = format!("{announced} was announced, and what came has {found}");
        Ok((found != *announced).then(|| FieldProblem { field: "digest_value".into(), message }))
    }

    /// Written down before the batch is made: after a crash in between it is found by this.
    pub(super) async fn is_for(&self, uuid: &str) -> Answer<()> {
        tokio::fs::write(self.dir.path.join(UUID), uuid).await.map_err(|error| disk(&error))
    }

    /// It stays as long as the batch does.
    pub(super) async fn belongs_to(mut self, bid: Bid) {
        self.dir.kept = true;
        if let Err(error) = tokio::fs::write(self.dir.path.join(BATCH), bid.to_string()).await {
            // It is found by its uuid, only later.
            tracing::warn!(%error, %bid, "it is not written down to which batch an upload belongs");
        }
    }
}

/// Removes uploads whose batch is gone, and those that never had one. Answers how many.
pub(crate) async fn look_through(uploads: &Path, queue: &Queue) -> Result<usize, Error> {
    let dir = uploads.to_owned();
    let listed = tokio::task::spawn_blocking(move || list(&dir)).await.unwrap_or_default();
    let mut removed = 0;
    for Listed { path, batch, uuid, old } in listed {
        let gone = match (batch, uuid) {
            (Some(bid), _) => match queue.batch(bid).await {
                Err(Error::NotFound(_)) => true,
                Ok(_) | Err(Error::Corrupt { .. }) => false,
                Err(error) => return Err(error),
            },
            // Its batch may just be made.
            (None, Some(uuid)) if old => match queue.find_batch(&uuid).await {
                Err(error @ Error::Store(_)) => return Err(error),
                found => !matches!(found, Ok(Some(_))),
            },
            (None, _) => old,
        };
        if gone && tokio::fs::remove_dir_all(&path).await.is_ok() {
            removed += 1;
        }
    }
    Ok(removed)
}

/// An upload as it lies there.
struct Listed {
    path: PathBuf,
    batch: Option<Bid>,
    uuid: Option<String>,
    old: bool,
}

/// Directories with what they belong to, and whether they are old. Blocks.
fn list(uploads: &Path) -> Vec<Listed> {
    let Ok(entries) = std::fs::read_dir(uploads) else { return Vec::new() };
    let look = |entry: std::fs::DirEntry| {
        let path = entry.path();
        let batch = std::fs::read_to_string(path.join(BATCH)).ok().and_then(|text| text.trim().parse().ok());
        let changed = entry.metadata().and_then(|facts| facts.modified()).ok()?;
        let old = changed.elapsed().is_ok_and(|age| age > LEFT);
        let uuid = std::fs::read_to_string(path.join(UUID)).ok();
        path.is_dir().then_some(Listed { path, batch, uuid, old })
    };
    entries.flatten().filter_map(look).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_upload_that_belongs_to_nothing_goes() {
        let dir = tempfile::tempdir().unwrap();
        let mut writing = Writing::begin(dir.path()).await.unwrap();
        writing.add(Bytes::from_static(b"abc")).await.unwrap();
        let upload = writing.finish().await.unwrap();
        assert_eq!(upload.size, 3);
        assert!(upload.sha256.hex().starts_with("ba7816bf"), "{}", upload.sha256);
        let payload = payload_of(dir.path(), &upload.id);
        assert_eq!(std::fs::read(&payload).unwrap(), b"abc");
        drop(upload);
        assert!(!payload.exists());
        let kept = Writing::begin(dir.path()).await.unwrap().finish().await.unwrap();
        let payload = payload_of(dir.path(), &kept.id);
        kept.belongs_to(Bid::new(3)).await;
        assert!(payload.exists());
        assert_eq!(list(dir.path()).iter().map(|found| found.batch).collect::<Vec<_>>(), [Some(Bid::new(3))]);
    }

    #[test]
    fn an_id_that_is_none_leads_nowhere() {
        for id in ["..", "../../etc", "", "0", &"g".repeat(32)] {
            assert_eq!(payload_of(Path::new("/u"), id), Path::new("/u/none/payload"), "{id}");
        }
    }
}
