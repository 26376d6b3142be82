//! What earlier attempts at the job have left, and how it is taken over.
//!
//! A file is taken over if it was noted as whole, from the same URL and with what is announced now, and if reading
//! it again gives all its digests. It is linked, so that it is on the disk once; what has its name is never written
//! to again. A part is moved, and only if this very node wrote it: on another the attempt may still be at it.
//!
//! **When things break.** What is gone, cannot be read or has changed is not taken over: it is fetched.

use std::collections::HashMap;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use ingest_queue::ids::{Bid, Jid};

use super::container::Kept;
use super::files::Item;
use crate::archive::disk as broken;
use crate::digest::{Digest, Digests};
use crate::fetch::parts_of;
use crate::outcome::{Cancel, Failure, Progress, Result};
use crate::work::{AttemptDir, FileRecord, WorkDir};

/// The newest first.
#[derive(Debug, Default)]
pub(super) struct Earlier(Vec<Attempt>);

#[derive(Debug)]
pub(super) struct Attempt {
    dir: AttemptDir,
    /// This node has made it.
    own: bool,
    records: HashMap<String, FileRecord>,
    container: Option<Kept>,
}

impl Earlier {
    /// Of all attempts before this one. Blocks.
    pub(super) fn read(work: &WorkDir, bid: Bid, jid: Jid, attempt: u32) -> Result<Self> {
        let mut found = Vec::new();
        for (_, dir) in work.attempts(bid, jid)?.into_iter().filter(|(number, _)| *number < attempt) {
            let container = Kept::read(&dir);
            let archive = container.iter().filter(|kept| !kept.unpacked).map(|kept| kept.archive.clone());
            let noted = dir.records().unwrap_or_else(|failure| {
                tracing::warn!(%failure, "the records of an earlier attempt cannot be read");
                Vec::new()
            });
            let records = noted.into_iter().chain(archive);
            let records = records.map(|record| (record.path.clone(), record)).collect();
            let own = dir.node().as_deref() == Some(work.node());
            found.push(Attempt { dir, own, records, container });
        }
        Ok(Self(found))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Links the wanted file to `to`, if an attempt has it whole. Blocks.
    pub(super) fn adopt(
        &self,
        item: &Item,
        to: &Path,
        progress: &Progress,
        cancel: &Cancel,
    ) -> Result<Option<FileRecord>> {
        let records = self.0.iter().filter_map(|attempt| Some((attempt, attempt.records.get(&item.path)?)));
        for (attempt, record) in records.filter(|(_, record)| item.is(record)) {
            if let Some(digests) = attempt.verify(record, &item.digests, progress, cancel)?
                && link(&attempt.dir.path().join(&record.path), to)?
            {
                return Ok(Some(FileRecord { digests, mime: item.mime.clone(), ..record.clone() }));
            }
        }
        Ok(None)
    }

    /// Moves the part of the wanted file beside `to`, if this node has one. Blocks.
    pub(super) fn move_part(&self, path: &str, to: &Path) -> Result<()> {
        let (part_to, note_to) = parts_of(to)?;
        for attempt in self.0.iter().filter(|attempt| attempt.own) {
            let (part, note) = parts_of(&attempt.dir.path().join(path))?;
            // Without its note a part is worth nothing, and a note alone does no harm.
            let moved = fs::rename(&note, &note_to).and_then(|()| fs::rename(&part, &part_to));
            match moved {
                Ok(()) => return Ok(()),
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => {
                    tracing::warn!(part = %part.display(), %error, "a part could not be moved");
                }
            }
        }
        Ok(())
    }

    /// The attempt that has unpacked this archive whole, and its files.
    pub(super) fn unpacked(&self, archive: &Item) -> Option<(&Attempt, &Kept, Vec<&FileRecord>)> {
        self.0.iter().find_map(|attempt| {
            let kept =
                attempt.container.as_ref().filter(|kept| kept.unpacked && archive.is(&kept.archive))?;
            // The archive is gone: what was not compared then cannot be compared now.
            if !archive.digests.iter().all(|announced| kept.archive.digests.contains(announced)) {
                return None;
            }
            let members = attempt.records.values().filter(|record| is_member(record)).collect();
            Some((attempt, kept, members))
        })
    }
}

/// Whether it came out of the archive.
pub(super) fn is_member(record: &FileRecord) -> bool {
    record.source.is_none() && record.path.starts_with("producer/")
}

impl Attempt {
    /// Links a file that came out of an archive. Blocks.
    pub(super) fn adopt(
        &self,
        record: &FileRecord,
        to: &Path,
        progress: &Progress,
        cancel: &Cancel,
    ) -> Result<bool> {
        let whole = self.verify(record, &[], progress, cancel)?.is_some();
        Ok(whole && link(&self.dir.path().join(&record.path), to)?)
    }

    /// All digests of the file, if it is still what was noted.
    fn verify(
        &self,
        record: &FileRecord,
        announced: &[Digest],
        progress: &Progress,
        cancel: &Cancel,
    ) -> Result<Option<Vec<Digest>>> {
        let path = self.dir.path().join(&record.path);
        let there = fs::symlink_metadata(&path);
        if !there.is_ok_and(|there| there.is_file() && there.len() == record.size) {
            return Ok(None);
        }
        let algorithms = record.digests.iter().chain(announced).map(Digest::algorithm);
        let mut digests = Digests::of(algorithms.chain(super::files::ALGORITHMS));
        match digests.read_whole(&path, progress, cancel) {
            Ok(()) => {}
            Err(Failure::Cancelled) => return Err(Failure::Cancelled),
            Err(failure) => {
                tracing::warn!(%failure, "a file of an earlier attempt cannot be read");
                return Ok(None);
            }
        }
        let found = digests.finish();
        if record.digests.iter().chain(announced).all(|digest| found.contains(digest)) {
            progress.add_file();
            return Ok(Some(found));
        }
        tracing::warn!(path = %path.display(), "a file of an earlier attempt has changed; it is fetched again");
        Ok(None)
    }
}

/// Gives a file a second name; where that cannot be, a copy. False if it is gone meanwhile.
fn link(from: &Path, to: &Path) -> Result<bool> {
    match fs::hard_link(from, to) {
        Ok(()) => return Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            fs::remove_file(to).map_err(|error| broken(to, &error))?;
            return link(from, to);
        }
        Err(error) => tracing::debug!(%error, "no link; the file is copied"),
    }
    let parent = to.parent().unwrap_or(Path::new("."));
    let copied = tempfile::NamedTempFile::new_in(parent).and_then(|mut whole| {
        std::io::copy(&mut fs::File::open(from)?, whole.as_file_mut())?;
        whole.as_file().sync_all()?;
        whole.persist(to).map_err(|error| error.error)
    });
    match copied {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(broken(to, &error)),
    }
}
