//! Uploads on the disk of this node: `UPLOADS/ID/payload`, and beside it its uuid and its batch.
//!
//! The name that a depositor gives is in the URL only: nothing that strangers write is a path here. An upload stays as long as a
//! batch in the tree names it.
//!
//! The payload is locked (`flock`) from its first byte until what became of it is known. Before a batch can name it, it is on the
//! disk with its uuid and the directories on the way.
//!
//! **When things break.** One that breaks off before its batch was asked for goes with its directory. From then on only a
//! definite refusal removes it; if nobody knows whether the batch was made, it stays, and [`orphans`](super::orphans) asks the tree.

use std::fs::{File, TryLockError};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use ingest_queue::ids::Bid;
use ingest_queue::nodes;
use ingest_steps::digest::{Algorithm, Digest, Digests};
use ingest_steps::payload::{FIRST_BYTES, MANIFEST_AS_FILE, PayloadKind, is_manifest};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use url::Url;

use super::room::Room;
use crate::api::problem::{Answer, Kind, Refusal};
use crate::api::wire::FieldProblem;

pub(super) const PAYLOAD: &str = "payload";
pub(super) const BATCH: &str = "batch";
pub(super) const UUID: &str = "uuid";

pub(super) fn is_id(id: &str) -> bool {
    id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Where the bytes of an upload are. The id is one of ours, or leads nowhere.
pub(crate) fn payload_of(dir: &Path, id: &str) -> PathBuf {
    dir.join(if is_id(id) { id } else { "none" }).join(PAYLOAD)
}

/// The id of the upload that a URL names: `…/files/uploads/ID/NAME`.
pub(super) fn id_in(url: &str) -> Option<String> {
    let url = Url::parse(url).ok()?;
    let parts: Vec<&str> = url.path_segments()?.collect();
    match parts.as_slice() {
        [.., "files", "uploads", id, _] if is_id(id) => Some((*id).to_owned()),
        _ => None,
    }
}

/// Held while a payload is looked at. There is none where there is no file or no lock: then nobody else has one, either.
#[derive(Debug)]
pub(super) struct Lock {
    _file: Option<File>,
}

/// Locks a payload. `None`: it is being written or submitted.
pub(super) fn try_lock(payload: &Path) -> Option<Lock> {
    let Ok(file) = File::open(payload) else { return Some(Lock { _file: None }) };
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => None,
        Ok(()) | Err(TryLockError::Error(_)) => Some(Lock { _file: Some(file) }),
    }
}

/// A directory that is removed with this, unless it is the tree's to decide.
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

/// An upload that is under way. It is locked.
#[derive(Debug)]
pub(super) struct Writing {
    // Removed before its lock is given back.
    dir: Dir,
    id: String,
    file: tokio::io::BufWriter<tokio::fs::File>,
    digests: Digests,
    room: Room,
}

fn disk(error: &io::Error) -> Refusal {
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            Refusal::new(Kind::NO_SPACE, "the disk of this node is full")
        }
        _ => Refusal::defect(format!("uploads: {error}")),
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> Answer<T> {
    let done = tokio::task::spawn_blocking(work).await.map_err(Refusal::defect)?;
    done.map_err(|error| disk(&error))
}

fn sync(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Writes a note that is on the disk when this returns.
fn write_note(path: &Path, text: &str) -> io::Result<()> {
    std::fs::write(path, text)?;
    sync(path)
}

impl Writing {
    pub(super) async fn begin(uploads: &Path, room: Room) -> Answer<Self> {
        let id = uuid::Uuid::new_v4().simple().to_string();
        let path = uploads.join(&id);
        let (dir, file) = blocking(move || {
            std::fs::create_dir_all(&path)?;
            let dir = Dir { path, kept: false };
            let file = File::create(dir.path.join(PAYLOAD))?;
            if let Err(error) = file.try_lock() {
                // Where there are no locks, its age alone says that it is being written.
                tracing::debug!(%error, "an upload is not locked");
            }
            Ok((dir, file))
        })
        .await?;
        let file = tokio::io::BufWriter::with_capacity(256 << 10, tokio::fs::File::from_std(file));
        Ok(Self { dir, id, file, digests: Digests::of([Algorithm::Sha256]), room })
    }

    pub(super) fn size(&self) -> u64 {
        self.digests.bytes()
    }

    pub(super) async fn add(&mut self, piece: Bytes) -> Answer<()> {
        self.digests.update(&piece);
        self.file.write_all(&piece).await.map_err(|error| disk(&error))?;
        self.room.used(piece.len() as u64).await
    }

    /// It is whole and on the disk.
    pub(super) async fn finish(mut self) -> Answer<Upload> {
        self.file.flush().await.map_err(|error| disk(&error))?;
        self.file.get_ref().sync_all().await.map_err(|error| disk(&error))?;
        let size = self.digests.bytes();
        let sha256 = self.digests.finish().into_iter().next();
        let sha256 = sha256.ok_or_else(|| Refusal::defect("an upload without a digest"))?;
        let lock = self.file.into_inner().into_std().await;
        Ok(Upload { dir: self.dir, id: self.id, size, sha256, _lock: lock })
    }
}

/// An upload that is whole. It is removed with this until its batch is asked for.
#[derive(Debug)]
pub(super) struct Upload {
    dir: Dir,
    id: String,
    pub(super) size: u64,
    pub(super) sha256: Digest,
    _lock: File,
}

impl Upload {
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// What its URL is signed for.
    pub(super) fn path(&self, name: &str) -> String {
        // The name may be a path of its own; what counts is its last part.
        format!("uploads/{}/{}", self.id, name.rsplit('/').next().unwrap_or(name))
    }

    /// Why it cannot be what it was said to be, or be guessed: a manifest is no plain file.
    pub(super) async fn misfit(&self, submission: &nodes::Submission) -> Answer<Option<FieldProblem>> {
        let file = tokio::fs::File::open(self.dir.path.join(PAYLOAD)).await.map_err(|error| disk(&error))?;
        let mut first = Vec::new();
        let mut reading = file.take(FIRST_BYTES.into());
        reading.read_to_end(&mut first).await.map_err(|error| disk(&error))?;
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
    pub(super) async fn compare(
        &self,
        size: Option<u64>,
        digest: Option<&Digest>,
    ) -> Answer<Option<FieldProblem>> {
        if let Some(size) = size
            && size != self.size
        {
            let message = format!("{size} bytes were announced, and {} came", self.size);
            return Ok(Some(FieldProblem { field: "size".into(), message }));
        }
        let Some(announced) = digest else { return Ok(None) };
        let found = if announced.algorithm() == Algorithm::Sha256 {
            self.sha256.clone()
        } else {
            let (file, algorithm) = (self.dir.path.join(PAYLOAD), announced.algorithm());
            let found = blocking(move || {
                let mut digests = Digests::of([algorithm]);
                digests.read_file(&file).map(|()| digests.finish())
            });
            let found = found.await?;
            found.into_iter().next().ok_or_else(|| Refusal::defect("an upload without a digest"))?
        };
        let message = format!("{announced} was announced, and what came has {found}");
        Ok((found != *announced).then(|| FieldProblem { field: "digest_value".into(), message }))
    }

    /// Called before its batch is asked for. From now on it outlives this: only [`Upload::remove`] removes it.
    pub(super) async fn leave_to_tree(&mut self, uuid: &str) -> Answer<()> {
        let (dir, uuid) = (self.dir.path.clone(), uuid.to_owned());
        blocking(move || {
            write_note(&dir.join(UUID), &uuid)?;
            sync(&dir)?;
            dir.parent().map_or(Ok(()), sync)
        })
        .await?;
        self.dir.kept = true;
        Ok(())
    }

    /// It is certain that no batch names it.
    pub(super) fn remove(mut self) {
        self.dir.kept = false;
    }

    /// Notes the batch that names it.
    pub(super) async fn belongs_to(self, bid: Bid) {
        let note = self.dir.path.join(BATCH);
        if let Err(error) = tokio::fs::write(note, bid.to_string()).await {
            // It is found by its uuid, only later.
            tracing::warn!(%error, %bid, "it is not written down to which batch an upload belongs");
        }
    }

    /// Becomes the payload of the upload with this id, which is missing.
    pub(super) async fn replace(mut self, id: &str, uuid: &str, bid: Bid) -> Answer<()> {
        let uploads = self.dir.path.parent().map(Path::to_path_buf);
        let uploads =
            uploads.filter(|_| is_id(id)).ok_or_else(|| Refusal::defect("an upload without an id"))?;
        let (own, place, uuid) = (self.dir.path.clone(), uploads.join(id), uuid.to_owned());
        blocking(move || {
            std::fs::create_dir_all(&place)?;
            write_note(&place.join(UUID), &uuid)?;
            write_note(&place.join(BATCH), &bid.to_string())?;
            std::fs::rename(own.join(PAYLOAD), place.join(PAYLOAD))?;
            sync(&place)?;
            sync(&uploads)
        })
        .await?;
        // What is left of its own directory.
        self.dir.kept = false;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::room::Promised;
    use super::*;

    async fn begun(dir: &Path) -> Writing {
        let room = Room::promise(dir, 0, &Promised::default(), 0).await.unwrap();
        Writing::begin(dir, room).await.unwrap()
    }

    #[tokio::test]
    async fn an_upload_is_removed_with_its_owner_until_the_tree_decides() {
        let dir = tempfile::tempdir().unwrap();
        let mut writing = begun(dir.path()).await;
        writing.add(Bytes::from_static(b"abc")).await.unwrap();
        let upload = writing.finish().await.unwrap();
        assert_eq!(upload.size, 3);
        assert!(upload.sha256.hex().starts_with("ba7816bf"), "{}", upload.sha256);
        let payload = payload_of(dir.path(), &upload.id);
        assert_eq!(std::fs::read(&payload).unwrap(), b"abc");
        drop(upload);
        assert!(!payload.exists());
        for removed in [false, true] {
            let mut upload = begun(dir.path()).await.finish().await.unwrap();
            let payload = payload_of(dir.path(), &upload.id);
            upload.leave_to_tree("u-1").await.unwrap();
            if removed {
                upload.remove();
            } else {
                drop(upload);
            }
            assert_eq!(payload.exists(), !removed);
        }
    }

    #[tokio::test]
    async fn an_upload_is_locked_from_its_first_byte_until_it_is_decided() {
        let dir = tempfile::tempdir().unwrap();
        let writing = begun(dir.path()).await;
        let payload = payload_of(dir.path(), &writing.id);
        assert!(try_lock(&payload).is_none());
        let mut upload = writing.finish().await.unwrap();
        upload.leave_to_tree("u-1").await.unwrap();
        assert!(try_lock(&payload).is_none());
        upload.belongs_to(Bid::new(3)).await;
        assert!(try_lock(&payload).is_some());
    }

    #[tokio::test]
    async fn an_upload_takes_the_place_of_one_that_is_missing() {
        let dir = tempfile::tempdir().unwrap();
        let id = "0".repeat(32);
        let mut writing = begun(dir.path()).await;
        writing.add(Bytes::from_static(b"abc")).await.unwrap();
        writing.finish().await.unwrap().replace(&id, "u-1", Bid::new(3)).await.unwrap();
        assert_eq!(std::fs::read(payload_of(dir.path(), &id)).unwrap(), b"abc");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn an_id_that_is_none_leads_nowhere() {
        for id in ["..", "../../etc", "", "0", &"g".repeat(32)] {
            assert_eq!(payload_of(Path::new("/u"), id), Path::new("/u/none/payload"), "{id}");
        }
    }

    #[test]
    fn a_url_of_an_upload_has_its_id() {
        let id = "0123456789abcdef0123456789abcdef";
        let url =
            format!("http://node.example.org:8086/base/files/uploads/{id}/a%20b.txt?expires=1&signature=0");
        assert_eq!(id_in(&url).as_deref(), Some(id));
        for other in ["http://a.org/uploads/x/y", "no url", "http://a.org/files/uploads/../y"] {
            assert_eq!(id_in(other), None, "{other}");
        }
        assert_eq!(id_in(&format!("http://a.org/files/uploads/{id}")), None);
    }
}
