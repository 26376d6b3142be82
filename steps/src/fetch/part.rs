//! A file that is not whole yet, beside the name that it will have.
//!
//! `NAME` grows as `.NAME.ingest-part`; a note in `.NAME.ingest-part.json` says which version of the remote
//! file it is of, so that a later attempt, of another process too, goes on where this one stopped. The part
//! is locked while somebody writes. Everything here blocks: call it off the runtime.
//!
//! **When things break.** A part without a readable note, of another URL, or longer than it may be is thrown
//! away. After a power cut a part may hold bytes that never reached the disk: where no digest will tell,
//! only what was synced for certain is kept. A full disk is [`Failure::Later`].

use std::ffi::OsString;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use reqwest::header::{ETAG, HeaderMap, LAST_MODIFIED};
use tokio::sync::mpsc;

use super::retry::Broken;
use super::syncs::Syncs;
use crate::digest::{Algorithm, Digest, Digests};
use crate::outcome::{Cancel, Failure, Progress};

/// After so many bytes, what is written is made safe.
const CHECKPOINT: u64 = 256 << 20;
/// A file up to this long is noted only when an attempt at it ends early: after a kill it is fetched anew.
const SMALL: u64 = 1 << 20;
const SUFFIX: &str = ".ingest-part";
const NOTE_SUFFIX: &str = ".ingest-part.json";

/// Which version of which file a part is of.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(super) struct Note {
    /// The digest of the URL, which may hold secrets.
    url: String,
    etag: Option<String>,
    last_modified: Option<String>,
    /// The whole length, if the server said it.
    pub(super) total: Option<u64>,
    /// So many bytes are on the disk for certain.
    synced: u64,
}

impl Note {
    /// What the headers of an answer say.
    pub(super) fn of(url: &url::Url, headers: &HeaderMap, total: Option<u64>) -> Self {
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        Self { url: url_key(url), etag: text(ETAG), last_modified: text(LAST_MODIFIED), total, synced: 0 }
    }

    /// What `If-Range` can ask for: a strong entity tag, else the date; a weak tag promises too little.
    pub(super) fn validator(&self) -> Option<&str> {
        let strong = self.etag.as_deref().filter(|etag| etag.starts_with('"'));
        strong.or(self.last_modified.as_deref())
    }

    /// Whether an answer that continues is of the same version, as far as it says.
    pub(super) fn agrees(&self, other: &Note) -> bool {
        let same = |own: &Option<String>, other: &Option<String>| other.is_none() || own == other;
        same(&self.etag, &other.etag) && same(&self.last_modified, &other.last_modified)
    }
}

pub(super) fn url_key(url: &url::Url) -> String {
    let mut digests = Digests::of([Algorithm::Sha256]);
    digests.update(url.as_str().as_bytes());
    digests.finish().pop().map(|digest| digest.hex().to_owned()).unwrap_or_default()
}

#[derive(Debug)]
pub(super) struct Part {
    to: PathBuf,
    path: PathBuf,
    note_path: PathBuf,
    file: File,
    algorithms: Vec<Algorithm>,
    digests: Digests,
    note: Note,
    /// Holds bytes of more than one answer.
    continued: bool,
    /// How many bytes the progress knows.
    counted: u64,
}

/// What is to be kept of an earlier attempt.
#[derive(Debug, Clone)]
pub(super) struct Keep {
    pub(super) url: url::Url,
    pub(super) algorithms: Vec<Algorithm>,
    /// A digest will tell whether all of it is right.
    pub(super) verified: bool,
    /// No more than so many bytes.
    pub(super) most: u64,
}

impl Part {
    /// Opens or begins the part of `to`, and hashes what is there.
    pub(super) fn open(to: &Path, keep: Keep, progress: &Progress, cancel: &Cancel) -> Result<Self, Broken> {
        let (path, note_path) = names(to)?;
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            // A link here is not ours.
            .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed())
            .open(&path)
            .map_err(|error| disk("open", &path, &error))?;
        lock(&file, &path)?;
        let length = file.metadata().map_err(|error| disk("read", &path, &error))?.len();
        let note = read_note(&note_path).filter(|note| note.url == url_key(&keep.url)).unwrap_or_default();
        let safe = if keep.verified { length } else { length.min(note.synced) };
        let kept = if note.validator().is_some() && safe <= keep.most { safe } else { 0 };
        let digests = Digests::of(keep.algorithms.iter().copied());
        let algorithms = keep.algorithms;
        let mut part = Self {
            to: to.to_owned(),
            path,
            note_path,
            file,
            algorithms,
            digests,
            note,
            continued: kept > 0,
            counted: 0,
        };
        if kept == 0 {
            part.restart()?;
            return Ok(part);
        }
        part.file.set_len(kept).map_err(|error| disk("shorten", &part.path, &error))?;
        hash(&part.file, &mut part.digests, progress, cancel).map_err(|failed| failed.at(&part.path))?;
        part.count(progress);
        Ok(part)
    }

    /// How many bytes are there.
    pub(super) fn at(&self) -> u64 {
        self.digests.bytes()
    }

    pub(super) fn note(&self) -> &Note {
        &self.note
    }

    /// All bytes are there, as far as can be told without asking.
    pub(super) fn is_whole(&self, size: Option<u64>) -> bool {
        self.at() > 0 && size.or(self.note.total) == Some(self.at())
    }

    /// Throws away what is there.
    pub(super) fn restart(&mut self) -> Result<(), Failure> {
        self.file
            .set_len(0)
            .and_then(|()| self.file.rewind())
            .map_err(|error| disk("empty", &self.path, &error))?;
        self.digests = Digests::of(self.algorithms.iter().copied());
        self.note = Note::default();
        self.continued = false;
        match std::fs::remove_file(&self.note_path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(disk("remove", &self.note_path, &error))
            }
            _ => Ok(()),
        }
    }

    /// Starts from zero with the version that the note tells.
    pub(super) fn begin(&mut self, note: Note) -> Result<(), Failure> {
        self.restart()?;
        self.note = note;
        if self.note.total.is_some_and(|total| total <= SMALL) { Ok(()) } else { self.write_note() }
    }

    /// More bytes of the same version follow.
    pub(super) fn go_on(&mut self) {
        self.continued = true;
    }

    pub(super) fn is_continued(&self) -> bool {
        self.continued
    }

    /// Hashes and writes what comes, until no more comes.
    pub(super) fn write_all(
        &mut self,
        mut chunks: mpsc::Receiver<Bytes>,
        progress: &Progress,
    ) -> Result<(), Failure> {
        while let Some(chunk) = chunks.blocking_recv() {
            self.write(&chunk, progress)?;
        }
        Ok(())
    }

    pub(super) fn write(&mut self, chunk: &[u8], progress: &Progress) -> Result<(), Failure> {
        self.file.write_all(chunk).map_err(|error| disk("write", &self.path, &error))?;
        self.digests.update(chunk);
        self.count(progress);
        if self.at() - self.note.synced >= CHECKPOINT { self.settle() } else { Ok(()) }
    }

    /// Each byte of the file counts once, however often it came.
    fn count(&mut self, progress: &Progress) {
        let more = self.at().saturating_sub(self.counted);
        if more == 0 {
            return progress.beat();
        }
        self.counted += more;
        progress.add_bytes(more);
    }

    /// Makes sure of what is there, so that it can be kept after any crash.
    pub(super) fn settle(&mut self) -> Result<(), Failure> {
        self.file.sync_data().map_err(|error| disk("sync", &self.path, &error))?;
        self.note.synced = self.at();
        if self.note.validator().is_some() { self.write_note() } else { Ok(()) }
    }

    fn write_note(&self) -> Result<(), Failure> {
        let text = serde_json::to_vec(&self.note)
            .map_err(|error| Failure::fail(format!("{}: {error}", self.note_path.display())))?;
        // A torn note cannot be read, and then the part is not used.
        std::fs::write(&self.note_path, text).map_err(|error| disk("write", &self.note_path, &error))
    }

    /// What differs from what was announced, with both values.
    pub(super) fn differs(&self, size: Option<u64>, digests: &[Digest]) -> Option<String> {
        if let Some(size) = size
            && size != self.at()
        {
            return Some(format!("{size} bytes were announced, {} came", self.at()));
        }
        mismatch(digests, &self.digests.clone().finish())
    }

    /// Gives the file its name, for good.
    pub(super) fn finish(&mut self, syncs: &Syncs) -> Result<Vec<Digest>, Failure> {
        self.file.sync_all().map_err(|error| disk("sync", &self.path, &error))?;
        std::fs::rename(&self.path, &self.to)
            .map_err(|error| disk("rename to its place", &self.to, &error))?;
        // Without its part the note says nothing; the next fetch would throw it away.
        let _ = std::fs::remove_file(&self.note_path);
        let dir = directory(&self.to);
        syncs.sync(dir).map_err(|error| disk("sync", dir, &error))?;
        Ok(self.digests.clone().finish())
    }

    /// Takes it away: what is there is wrong, or nothing.
    pub(super) fn remove(&mut self) {
        self.note = Note::default();
        for path in [&self.path, &self.note_path] {
            if let Err(error) = std::fs::remove_file(path)
                && error.kind() != io::ErrorKind::NotFound
            {
                tracing::warn!(path = %path.display(), %error, "a part could not be removed");
            }
        }
    }
}

/// The first announced digest that is not among those found, with both values.
pub(super) fn mismatch(announced: &[Digest], found: &[Digest]) -> Option<String> {
    announced.iter().find_map(|announced| {
        let found = found.iter().find(|found| found.algorithm() == announced.algorithm())?;
        (found != announced).then(|| format!("{announced} was announced, {} came", found.hex()))
    })
}

/// All that may be on the disk of a file that was fetched, or begun.
pub(crate) fn traces(to: &Path) -> Vec<PathBuf> {
    let begun = names(to).map(|(part, note)| [part, note]);
    begun.into_iter().flatten().chain([to.to_owned()]).collect()
}

/// The part and the note of a file. Names that mean a part are refused, so that no file is another's part.
pub(super) fn names(to: &Path) -> Result<(PathBuf, PathBuf), Failure> {
    let name =
        to.file_name().ok_or_else(|| Failure::hopeless(format!("`{}` names no file", to.display())))?;
    let bytes = name.as_bytes();
    if bytes.starts_with(b".")
        && (bytes.ends_with(SUFFIX.as_bytes()) || bytes.ends_with(NOTE_SUFFIX.as_bytes()))
    {
        return Err(Failure::hopeless(format!(
            "`{}` is a name of files that are being fetched; give it another",
            to.display()
        )));
    }
    let mut stem = OsString::from(".");
    if bytes.len() + 1 + NOTE_SUFFIX.len() <= 255 {
        stem.push(name);
    } else {
        let mut digests = Digests::of([Algorithm::Sha256]);
        digests.update(bytes);
        digests.finish().iter().for_each(|digest| stem.push(digest.hex()));
    }
    let with = |suffix: &str| {
        let mut name = stem.clone();
        name.push(suffix);
        directory(to).join(name)
    };
    Ok((with(SUFFIX), with(NOTE_SUFFIX)))
}

fn directory(to: &Path) -> &Path {
    to.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn lock(file: &File, path: &Path) -> Result<(), Broken> {
    let busy = || Broken::again(format!("`{}` is being written by another fetch", path.display()));
    if matches!(file.try_lock(), Err(TryLockError::WouldBlock)) {
        return Err(busy());
    }
    // Between open and lock the other may have finished: then this is its file, and no part any more.
    let own = file.metadata().map_err(|error| disk("read", path, &error))?;
    let there = std::fs::symlink_metadata(path).ok().map(|there| (there.dev(), there.ino()));
    if there == Some((own.dev(), own.ino())) { Ok(()) } else { Err(busy()) }
}

fn read_note(path: &Path) -> Option<Note> {
    let mut text = Vec::new();
    File::open(path).ok()?.take(64 << 10).read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

/// Why a file could not be hashed.
#[derive(Debug)]
pub(super) enum NotHashed {
    Io(io::Error),
    Cancelled,
}

impl NotHashed {
    pub(super) fn at(self, path: &Path) -> Failure {
        match self {
            NotHashed::Io(error) => disk("read", path, &error),
            NotHashed::Cancelled => Failure::Cancelled,
        }
    }
}

/// Hashes a file from its beginning; leaves it at its end.
pub(super) fn hash(
    mut file: &File,
    digests: &mut Digests,
    progress: &Progress,
    cancel: &Cancel,
) -> Result<(), NotHashed> {
    file.rewind().map_err(NotHashed::Io)?;
    let mut buffer = vec![0; 256 << 10];
    loop {
        if cancel.is_cancelled() {
            return Err(NotHashed::Cancelled);
        }
        match file.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => digests.update(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(NotHashed::Io(error)),
        }
        progress.beat();
    }
}

/// What a failure of the disk means: a full one may be better later.
pub(super) fn disk(what: &str, path: &Path, error: &io::Error) -> Failure {
    let why = format!("cannot {what} `{}`: {error}", path.display());
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Failure::Later(why),
        _ => Failure::Fail(why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_may_be_better_later_and_other_failures_name_the_path() {
        let failure = |kind: io::ErrorKind| disk("write", Path::new("/jobs/a"), &kind.into());
        assert!(matches!(failure(io::ErrorKind::StorageFull), Failure::Later(_)));
        assert!(matches!(failure(io::ErrorKind::QuotaExceeded), Failure::Later(_)));
        let Failure::Fail(why) = failure(io::ErrorKind::PermissionDenied) else { panic!("not a failure") };
        assert!(why.starts_with("cannot write `/jobs/a`: "), "{why}");
    }

    #[test]
    fn a_note_holds_no_secret_of_the_url() {
        let url = url::Url::parse("https://anna:pw1@h.org/a?token=t0k").unwrap();
        let text = serde_json::to_string(&Note::of(&url, &HeaderMap::new(), None)).unwrap();
        assert!(!text.contains("pw1") && !text.contains("t0k"), "{text}");
    }
}
