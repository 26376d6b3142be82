//! The directory in which an archive is unpacked until it is whole.
//!
//! It counts what is really written against the limits, takes names up before anything of theirs is made,
//! and is removed when it is dropped without [`Staging::finish`].

use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::names::Register;
use super::{File, Limits, damaged, refused};
use crate::outcome::{Cancel, Failure, Progress, Result};

const FILE_MODE: u32 = 0o644;
const DIRECTORY_MODE: u32 = 0o755;
const CHUNK: usize = 128 << 10;

#[derive(Debug)]
pub(super) struct Staging<'a> {
    dir: TempDir,
    into: PathBuf,
    register: Register,
    files: Vec<File>,
    /// Bytes that may still be written.
    left: u64,
    allowance: u64,
    buffer: Vec<u8>,
    pub(super) limits: &'a Limits,
    pub(super) progress: &'a Progress,
    pub(super) cancel: &'a Cancel,
}

impl<'a> Staging<'a> {
    pub(super) fn beside(
        into: &Path,
        limits: &'a Limits,
        packed: u64,
        progress: &'a Progress,
        cancel: &'a Cancel,
    ) -> Result<Self> {
        let (parent, name) = place(into)?;
        let dir = tempfile::Builder::new()
            .prefix(&format!(".{name}.unpacking-"))
            .tempdir_in(parent)
            .map_err(|error| disk(parent, &error))?;
        let allowance = limits.allowance(packed);
        let into = into.to_owned();
        let (register, files, buffer) = (Register::default(), Vec::new(), vec![0; CHUNK]);
        Ok(Self { dir, into, register, files, left: allowance, allowance, buffer, limits, progress, cancel })
    }

    pub(super) fn directory(&mut self, path: &str) -> Result<()> {
        let fresh = self.register.add(path, true, self.limits)?;
        self.make(&fresh)
    }

    /// Writes all that `content` gives, and says how much it was.
    pub(super) fn file(&mut self, path: &str, content: &mut dyn Read) -> Result<u64> {
        let fresh = self.register.add(path, false, self.limits)?;
        self.make(&fresh)?;
        let target = self.dir.path().join(path);
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(FILE_MODE)
            .open(&target)
            .map_err(|error| disk(Path::new(path), &error))?;
        let mut size = 0;
        loop {
            let count = self.chunk(content).map_err(|failure| failure.during(format!("member {path:?}")))?;
            if count == 0 {
                break;
            }
            size += count as u64;
            if size > self.limits.member {
                let most = self.limits.member;
                return Err(refused(path, format!("it has more than {most} bytes, the limit of one file")));
            }
            self.spend(count as u64).map_err(|failure| failure.during(format!("member {path:?}")))?;
            file.write_all(&self.buffer[..count]).map_err(|error| disk(Path::new(path), &error))?;
            self.progress.add_bytes(count as u64);
        }
        // The mode at creation is cut by the umask.
        file.set_permissions(Permissions::from_mode(FILE_MODE))
            .map_err(|error| disk(Path::new(path), &error))?;
        self.progress.add_file();
        self.files.push(File { path: path.to_owned(), size });
        Ok(size)
    }

    /// Reads what belongs to no file; it counts as if it were written.
    pub(super) fn drain(
        &mut self,
        content: &mut dyn Read,
        mut look: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        loop {
            let count = self.chunk(content)?;
            if count == 0 {
                return Ok(());
            }
            self.spend(count as u64)?;
            look(&self.buffer[..count])?;
            self.progress.beat();
        }
    }

    pub(super) fn stop_if_cancelled(&self) -> Result<()> {
        if self.cancel.is_cancelled() { Err(Failure::Cancelled) } else { Ok(()) }
    }

    /// That so much was announced, before it is read.
    pub(super) fn announced(&self, total: u64) -> Result<()> {
        if total > self.allowance { Err(self.too_much()) } else { Ok(()) }
    }

    /// Makes it the wanted directory.
    pub(super) fn finish(self) -> Result<Vec<File>> {
        self.stop_if_cancelled()?;
        fs::set_permissions(self.dir.path(), Permissions::from_mode(DIRECTORY_MODE))
            .map_err(|error| disk(self.dir.path(), &error))?;
        // A directory that is empty is replaced, any other is not.
        fs::rename(self.dir.path(), &self.into).map_err(|error| disk(&self.into, &error))?;
        // It has its new name; there is nothing left to remove.
        let _ = self.dir.keep();
        Ok(self.files)
    }

    fn make(&self, directories: &[&str]) -> Result<()> {
        for path in directories {
            let made = fs::create_dir(self.dir.path().join(path)).and_then(|()| {
                fs::set_permissions(self.dir.path().join(path), Permissions::from_mode(DIRECTORY_MODE))
            });
            made.map_err(|error| disk(Path::new(path), &error))?;
        }
        Ok(())
    }

    fn chunk(&mut self, content: &mut dyn Read) -> Result<usize> {
        self.stop_if_cancelled()?;
        loop {
            match content.read(&mut self.buffer) {
                Ok(count) => return Ok(count),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(unreadable(&error)),
            }
        }
    }

    fn spend(&mut self, bytes: u64) -> Result<()> {
        self.left = self.left.checked_sub(bytes).ok_or_else(|| self.too_much())?;
        Ok(())
    }

    fn too_much(&self) -> Failure {
        let why = if self.allowance < self.limits.total {
            format!("{} times its size, which looks like a bomb", self.limits.ratio)
        } else {
            "the limit of one archive".to_owned()
        };
        Failure::hopeless(format!("it unpacks to more than {} bytes, {why}", self.allowance))
    }
}

/// The directory above and the name, when nothing is in the way.
fn place(into: &Path) -> Result<(&Path, String)> {
    let name = into
        .file_name()
        .ok_or_else(|| Failure::fail(format!("{} is no name of a directory", into.display())))?;
    let parent = match into.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let in_the_way = match fs::symlink_metadata(into) {
        Err(error) if error.kind() == ErrorKind::NotFound => false,
        Err(error) => return Err(disk(into, &error)),
        Ok(found) if !found.is_dir() => true,
        Ok(_) => fs::read_dir(into).map_err(|error| disk(into, &error))?.next().is_some(),
    };
    if in_the_way {
        return Err(Failure::fail(format!(
            "{} is there already and is not an empty directory; remove it first",
            into.display()
        )));
    }
    Ok((parent, name.to_string_lossy().into_owned()))
}

/// An error of the disk: a full one may be better later.
pub(crate) fn disk(path: &Path, error: &io::Error) -> Failure {
    let text = format!("{}: {error}", path.display());
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Failure::later(text),
        _ => Failure::fail(text),
    }
}

/// An error while an archive is read: the system's own are the disk's, the others the archive's.
pub(super) fn unreadable(error: &io::Error) -> Failure {
    if error.raw_os_error().is_some() {
        Failure::fail(format!("the archive cannot be read: {error}"))
    } else {
        damaged(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_may_be_better_later_and_other_errors_are_not() {
        let path = Path::new("out/a");
        assert!(
            matches!(disk(path, &ErrorKind::StorageFull.into()), Failure::Later(why) if why.starts_with("out/a"))
        );
        assert!(matches!(disk(path, &ErrorKind::QuotaExceeded.into()), Failure::Later(_)));
        assert!(matches!(disk(path, &ErrorKind::PermissionDenied.into()), Failure::Fail(_)));
    }

    #[test]
    fn what_is_written_counts_and_not_what_was_announced() {
        let dir = tempfile::tempdir().unwrap();
        let limits = Limits { member: 999, ..Limits::default() };
        let (progress, cancel) = (Progress::default(), Cancel::new());
        let mut staging = Staging::beside(&dir.path().join("x"), &limits, 10, &progress, &cancel).unwrap();
        assert_eq!(staging.file("fits", &mut [1; 999].as_slice()).unwrap(), 999);
        let why = staging.file("big", &mut [1; 1000].as_slice()).unwrap_err().to_string();
        assert!(why.contains("more than 999 bytes, the limit of one file"), "{why}");
    }

    #[test]
    fn an_archive_is_not_blamed_for_an_error_of_the_system() {
        // 5 is EIO.
        assert!(matches!(unreadable(&io::Error::from_raw_os_error(5)), Failure::Fail(_)));
        assert!(matches!(unreadable(&ErrorKind::InvalidData.into()), Failure::Hopeless(_)));
    }
}
