//! Which kind of archive a file is, by its first bytes.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use bzip2::read::MultiBzDecoder;
use flate2::read::MultiGzDecoder;

use super::from_tar::{BLOCK, header_is_whole};
use super::staging::disk;
use crate::outcome::Result;

/// A kind of archive that is known here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArchiveKind {
    Zip,
    Tar,
    TarGz,
    TarBz2,
}

impl fmt::Display for ArchiveKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ArchiveKind::Zip => "zip",
            ArchiveKind::Tar => "tar",
            ArchiveKind::TarGz => "tar.gz",
            ArchiveKind::TarBz2 => "tar.bz2",
        })
    }
}

impl ArchiveKind {
    /// The kind of a file by its content, or `None`: a single file that is only compressed is no archive.
    /// An empty tar is nothing but zeros; there, and where a compressed stream cannot be read, the name
    /// decides.
    ///
    /// Blocks.
    pub fn recognise(path: &Path) -> Result<Option<ArchiveKind>> {
        let mut file = File::open(path).map_err(|error| disk(path, &error))?;
        let first = start_of(&mut file).map_err(|error| disk(path, &error))?;
        let inside = |decoder: &mut dyn Read| start_of(decoder).unwrap_or_default();
        let reopened = || File::open(path).map_err(|error| disk(path, &error));
        Ok(match first.as_slice() {
            [b'P', b'K', 3, 4, ..] | [b'P', b'K', 5, 6, ..] => Some(ArchiveKind::Zip),
            [0x1f, 0x8b, ..] => {
                let start = inside(&mut MultiGzDecoder::new(reopened()?));
                (is_tar(&start) || (is_blank(&start) && named(path, &["tar.gz", "tgz"])))
                    .then_some(ArchiveKind::TarGz)
            }
            [b'B', b'Z', b'h', b'1'..=b'9', ..] => {
                let start = inside(&mut MultiBzDecoder::new(reopened()?));
                (is_tar(&start) || (is_blank(&start) && named(path, &["tar.bz2", "tbz2", "tbz"])))
                    .then_some(ArchiveKind::TarBz2)
            }
            start if is_tar(start) => Some(ArchiveKind::Tar),
            start if !start.is_empty() && is_blank(start) && named(path, &["tar"]) => Some(ArchiveKind::Tar),
            _ => None,
        })
    }
}

/// The first block, or less if there is not so much.
fn start_of(reader: &mut dyn Read) -> std::io::Result<Vec<u8>> {
    let mut start = Vec::with_capacity(BLOCK);
    reader.take(BLOCK as u64).read_to_end(&mut start)?;
    Ok(start)
}

fn is_tar(start: &[u8]) -> bool {
    <&[u8; BLOCK]>::try_from(start).is_ok_and(header_is_whole)
}

fn is_blank(start: &[u8]) -> bool {
    start.iter().all(|byte| *byte == 0)
}

fn named(path: &Path, endings: &[&str]) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    endings.iter().any(|ending| name.strip_suffix(ending).is_some_and(|stem| stem.ends_with('.')))
}
