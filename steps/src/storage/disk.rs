//! The file-system operations that change a repository, each counted, so that a test can stop a store at
//! any of them.
//!
//! [`Disk::default`] does what it is told. [`Disk::that_dies_at`] does so until its Nth operation; that one
//! and all after it fail and do nothing, which leaves the files as a kill would. [`Disk::that_fails_at`]
//! fails that one operation only, as a full disk does. [`Disk::that_loses_power_at`] stops like a kill, and
//! [`Disk::cut_power`] then takes back what was not synced.
//!
//! **When things break.** Errors are passed on as they come. Files and directories count as written only
//! after their `sync`.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::OFlags;

use crate::outcome::Failure;

mod power;

use power::Power;

pub use power::Loss;

/// Changes files.
#[derive(Debug, Clone, Default)]
pub struct Disk(Option<Arc<Faults>>);

#[derive(Debug)]
struct Faults {
    done: AtomicU64,
    at: u64,
    for_good: bool,
    power: Option<Power>,
}

impl Disk {
    /// Stops for good at its Nth operation, counted from 1.
    pub fn that_dies_at(operation: u64) -> Self {
        Self::faulty(operation, true, None)
    }

    /// Fails its Nth operation, counted from 1, and no other.
    pub fn that_fails_at(operation: u64) -> Self {
        Self::faulty(operation, false, None)
    }

    /// Stops for good at its Nth operation, counted from 1, and keeps a record of what is not synced. What is removed
    /// is put aside in a directory on the same file system.
    pub fn that_loses_power_at(operation: u64, aside: &Path) -> Self {
        Self::faulty(operation, true, Some(Power::new(aside)))
    }

    fn faulty(at: u64, for_good: bool, power: Option<Power>) -> Self {
        Self(Some(Arc::new(Faults { done: AtomicU64::new(0), at, for_good, power })))
    }

    /// Leaves the files as they are found when the power is back.
    pub fn cut_power(&self, loss: Loss) -> io::Result<()> {
        self.power().map_or(Ok(()), |power| power.cut(loss))
    }

    fn power(&self) -> Option<&Power> {
        self.0.as_ref()?.power.as_ref()
    }

    fn note(&self, note: impl FnOnce(&Power)) {
        if let Some(power) = self.power() {
            note(power);
        }
    }

    /// Whether the operation that was to fail has come.
    pub fn has_failed(&self) -> bool {
        self.0.as_ref().is_some_and(|faults| faults.done.load(Ordering::SeqCst) >= faults.at)
    }

    fn step(&self) -> io::Result<()> {
        let Some(faults) = &self.0 else { return Ok(()) };
        let number = faults.done.fetch_add(1, Ordering::SeqCst) + 1;
        if number == faults.at || (faults.for_good && number > faults.at) {
            return Err(io::Error::other(format!("stopped at operation {number}, as asked")));
        }
        Ok(())
    }

    /// Makes one directory and says whether it was new.
    pub(super) fn make_dir(&self, path: &Path) -> io::Result<bool> {
        self.step()?;
        match fs::create_dir(path) {
            Ok(()) => {
                self.note(|power| power.made(path));
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Makes a directory and what is missing above it, down from `top`, which exists. What is new is synced
    /// into its parent.
    pub(super) fn make_dirs(&self, top: &Path, path: &Path) -> io::Result<()> {
        if path == top || path.is_dir() {
            return Ok(());
        }
        let Some(parent) = path.parent() else { return Ok(()) };
        self.make_dirs(top, parent)?;
        if self.make_dir(path)? {
            self.sync_dir(parent)?;
        }
        Ok(())
    }

    /// Makes a file that was not there, and syncs it.
    pub(super) fn write(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        self.step()?;
        let mut file = self.create(path)?;
        self.step()?;
        file.write_all(content)?;
        self.step()?;
        self.sync_file(&file, path)
    }

    fn create(&self, path: &Path) -> io::Result<File> {
        let file = OpenOptions::new().write(true).create_new(true).open(path)?;
        self.note(|power| power.made(path));
        self.note(|power| power.written(path));
        Ok(file)
    }

    fn sync_file(&self, file: &File, path: &Path) -> io::Result<()> {
        file.sync_all()?;
        self.note(|power| power.file_synced(path));
        Ok(())
    }

    /// Copies to a file that was not there, and syncs it. `each` sees every piece and says whether to go on;
    /// the answer is whether the copy came to its end.
    pub(super) fn copy(
        &self,
        from: &File,
        to: &Path,
        mut each: impl FnMut(&[u8]) -> bool,
    ) -> io::Result<bool> {
        self.step()?;
        let mut file = self.create(to)?;
        self.step()?;
        let ended = read_pieces(from, |piece| {
            file.write_all(piece)?;
            Ok(each(piece))
        })?;
        self.step()?;
        self.sync_file(&file, to)?;
        Ok(ended)
    }

    pub(super) fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.step()?;
        File::open(path)?.sync_all()?;
        self.note(|power| power.dir_synced(path));
        Ok(())
    }

    pub(super) fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step()?;
        match self.power() {
            Some(power) => power.rename(from, to),
            None => fs::rename(from, to),
        }
    }

    pub(super) fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.step()?;
        match self.power() {
            Some(power) => power.remove(path),
            None => fs::remove_file(path),
        }
    }

    /// Removes a directory with all in it; one that is not there is as good.
    pub(super) fn remove_tree(&self, path: &Path) -> io::Result<()> {
        self.step()?;
        let removed = match self.power() {
            Some(power) => power.remove(path),
            None => fs::remove_dir_all(path),
        };
        match removed {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Removes a directory if it is empty.
    pub(super) fn remove_empty(&self, path: &Path) -> io::Result<()> {
        self.step()?;
        match fs::remove_dir(path) {
            Err(error)
                if !matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::AlreadyExists
                ) =>
            {
                Err(error)
            }
            Ok(()) => {
                self.note(|power| power.removed_empty(path));
                Ok(())
            }
            Err(_) => Ok(()),
        }
    }
}

/// What an error of the file system means for a job, with what was being done and where.
pub(super) fn failure(doing: &str, path: &Path, error: &io::Error) -> Failure {
    use io::ErrorKind as Kind;
    let passing = matches!(
        error.kind(),
        Kind::StorageFull
            | Kind::QuotaExceeded
            | Kind::TimedOut
            | Kind::ResourceBusy
            | Kind::OutOfMemory
            | Kind::StaleNetworkFileHandle
    );
    // Too many open files, here or in the whole system.
    let passing = passing || matches!(error.raw_os_error(), Some(23 | 24));
    let text = format!("cannot {doing} {}: {error}", path.display());
    if passing { Failure::Later(text) } else { Failure::Fail(text) }
}

/// [`failure`] for `map_err`.
pub(super) fn at<'a>(doing: &'a str, path: &'a Path) -> impl FnOnce(io::Error) -> Failure + 'a {
    move |error| failure(doing, path, &error)
}

/// Hands over a file piece by piece until `each` says stop; whether the end was reached.
pub(super) fn read_pieces(
    mut file: &File,
    mut each: impl FnMut(&[u8]) -> io::Result<bool>,
) -> io::Result<bool> {
    let mut buffer = vec![0; 256 << 10];
    loop {
        let count = match file.read(&mut buffer) {
            Ok(0) => return Ok(true),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if !each(&buffer[..count])? {
            return Ok(false);
        }
    }
}

/// Opens a regular file for reading; a link, a pipe or a directory is an error, and nothing waits.
pub(super) fn open_plain(path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dead_disk_does_nothing_more_and_a_full_one_goes_on() {
        let dir = tempfile::tempdir().unwrap();
        let dead = Disk::that_dies_at(2);
        assert!(dead.make_dir(&dir.path().join("a")).unwrap());
        assert!(!dead.has_failed());
        assert!(dead.make_dir(&dir.path().join("b")).is_err());
        assert!(dead.make_dir(&dir.path().join("c")).is_err());
        assert!(dead.has_failed() && !dir.path().join("b").exists() && !dir.path().join("c").exists());
        let full = Disk::that_fails_at(1);
        assert!(full.make_dir(&dir.path().join("b")).is_err());
        assert!(full.make_dir(&dir.path().join("c")).unwrap());
    }

    #[test]
    fn only_regular_files_are_opened() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "x").unwrap();
        std::os::unix::fs::symlink(&file, dir.path().join("link")).unwrap();
        assert!(open_plain(&file).is_ok());
        assert!(open_plain(&dir.path().join("link")).is_err());
        assert!(open_plain(dir.path()).is_err());
    }
}
