//! Packs files as a zip, always the same bytes for the same files.
//!
//! Members are in the order of their names, without times, owners and modes, so that two packings can be
//! compared by their digests. A file is read in pieces and never held as a whole; zip64 is used where
//! numbers need it. The zip appears under its name only when it is whole.

use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use zip::write::{SimpleFileOptions, ZipWriter};
use zip::{CompressionMethod, DateTime};

use super::names::{self, Register};
use super::staging::disk;
use super::{Limits, refused};
use crate::outcome::{Cancel, Failure, Progress, Result};

const CHUNK: usize = 128 << 10;
/// From here on a member's header has long numbers. Less than they hold, as deflate may make it longer.
const LARGE: u64 = 0xF000_0000;

/// How members are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packing {
    Stored,
    Deflated,
}

/// Packs the files at these paths under these names as the zip `to`; says how many bytes it has.
///
/// Blocks: call it off the runtime. Between chunks it looks whether it was cancelled.
pub fn pack_zip(
    files: &[(String, PathBuf)],
    to: &Path,
    packing: Packing,
    progress: &Progress,
    cancel: &Cancel,
) -> Result<u64> {
    let mut files: Vec<_> = files.iter().map(|(name, path)| (name.as_str(), path.as_path())).collect();
    files.sort_unstable();
    check(&files)?;
    let parent = to.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let part = tempfile::NamedTempFile::new_in(parent).map_err(|error| disk(parent, &error))?;
    let mut zip = ZipWriter::new(BufWriter::with_capacity(CHUNK, part));
    for (name, path) in files {
        member(&mut zip, name, path, packing, progress, cancel)?;
        progress.add_file();
    }
    let part = zip
        .finish()
        .map_err(io::Error::from)
        .and_then(|buffer| buffer.into_inner().map_err(io::IntoInnerError::into_error))
        .map_err(|error| disk(to, &error))?;
    let length = part.as_file().metadata().map_err(|error| disk(to, &error))?.len();
    part.persist(to).map_err(|error| disk(to, &error.error))?;
    Ok(length)
}

/// All files below a directory, by their relative names. Links and what else is no file are refused.
///
/// Blocks.
pub fn files_of(dir: &Path) -> Result<Vec<(String, PathBuf)>> {
    let mut files = Vec::new();
    let mut waiting = vec![(String::new(), dir.to_owned())];
    while let Some((above, dir)) = waiting.pop() {
        for entry in fs::read_dir(&dir).map_err(|error| disk(&dir, &error))? {
            let entry = entry.map_err(|error| disk(&dir, &error))?;
            let path = entry.path();
            let kind = entry.file_type().map_err(|error| disk(&path, &error))?;
            let Some(name) = entry.file_name().to_str().map(|name| format!("{above}{name}")) else {
                return Err(Failure::fail(format!("{}: the name is not UTF-8", path.display())));
            };
            if kind.is_dir() {
                waiting.push((format!("{name}/"), path));
            } else if kind.is_file() {
                files.push((name, path));
            } else {
                return Err(Failure::fail(format!("{}: it is no plain file or directory", path.display())));
            }
        }
    }
    files.sort_unstable();
    Ok(files)
}

/// What is packed here can be unpacked here, as far as names go.
fn check(files: &[(&str, &Path)]) -> Result<()> {
    let limits = Limits { members: u64::MAX, ..Limits::default() };
    let mut register = Register::default();
    for (name, _) in files {
        match names::read(name.as_bytes(), &limits)? {
            Some(read) if read.path == *name => register.add(name, false, &limits)?,
            _ => return Err(refused(name, "it is no name of a file")),
        };
    }
    Ok(())
}

fn member<W: Write + io::Seek>(
    zip: &mut ZipWriter<W>,
    name: &str,
    path: &Path,
    packing: Packing,
    progress: &Progress,
    cancel: &Cancel,
) -> Result<()> {
    let mut file = File::open(path).map_err(|error| disk(path, &error))?;
    let length = file.metadata().map_err(|error| disk(path, &error))?.len();
    let method = match packing {
        Packing::Stored => CompressionMethod::Stored,
        Packing::Deflated => CompressionMethod::Deflated,
    };
    let options = SimpleFileOptions::default()
        .compression_method(method)
        .last_modified_time(DateTime::default())
        .unix_permissions(0o644)
        .large_file(length >= LARGE);
    let started = zip.start_file(name, options);
    started.map_err(|error| disk(path, &error.into()))?;
    let mut buffer = vec![0; CHUNK];
    loop {
        if cancel.is_cancelled() {
            return Err(Failure::Cancelled);
        }
        let count = match file.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(disk(path, &error)),
        };
        zip.write_all(&buffer[..count]).map_err(|error| disk(path, &error))?;
        progress.add_bytes(count as u64);
    }
}
