//! Archives: a zip, tar, tar.gz or tar.bz2 becomes a directory, or is refused and leaves nothing.
//!
//! [`unpack`] tells the kind by content. Every member goes to a fresh directory beside the wanted one,
//! which is renamed when all of it was read, checked and written: a refused, damaged or cancelled archive
//! leaves nothing, and nothing is ever written outside. A zip's directory is checked as a whole before its
//! first member is read; a tar says what it holds only while it is read.
//!
//! Refused, with the member's name and the reason: names that escape, cannot be kept or clash (see
//! [`names`]), links and devices of every kind, encrypted members, compressions that are not known here,
//! wrong checksums and sizes, cut archives, bytes that belong to no member, and more than the [`Limits`]
//! allow. Sizes that a header announces are only ever used to refuse; what counts is what is written.
//! Everything else is kept as it is, also what desktops leave (`__MACOSX/`, `.DS_Store`). Files get mode
//! 0644, directories 0755; owners, times and setuid bits are not taken over.
//!
//! [`pack_zip`] is the way back.
//!
//! **When things break.** An archive that is wrong is [`Failure::Hopeless`]: it will be as wrong the next
//! time. A full disk is [`Failure::Later`], any other error of the disk [`Failure::Fail`]. A killed process
//! leaves a directory `.NAME.unpacking-…` beside the wanted one; it is never taken for the result. Nothing
//! is forced to the disk: after a power loss unpack again.

mod from_tar;
mod from_zip;
mod kind;
pub mod names;
mod pack;
mod staging;
mod zip_directory;

use std::path::Path;

use serde::{Deserialize, Serialize};

pub use self::kind::ArchiveKind;
pub use self::pack::{Packing, files_of, pack_zip};
pub(crate) use self::staging::disk;

use self::staging::Staging;
use crate::outcome::{Cancel, Failure, Progress, Result};
use crate::size;

/// How much one archive may hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Bytes of all members together.
    #[serde(with = "size")]
    pub total: u64,
    /// Bytes of one member.
    #[serde(with = "size")]
    pub member: u64,
    /// Unpacked bytes per byte of the archive.
    pub ratio: u64,
    /// Up to this many bytes the ratio does not matter: small things may well be nothing but zeros.
    #[serde(with = "size")]
    pub ratio_from: u64,
    /// Files and directories, those that are only named in a path too.
    pub members: u64,
    /// Names in a path.
    pub depth: usize,
    /// Bytes of a path.
    pub name: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            total: 2 << 40,
            member: 1 << 40,
            ratio: 200,
            ratio_from: 64 << 20,
            members: 1_000_000,
            depth: 64,
            name: 1024,
        }
    }
}

impl Limits {
    /// How many bytes may come out of an archive of this size.
    fn allowance(&self, packed: u64) -> u64 {
        self.total.min(packed.saturating_mul(self.ratio).max(self.ratio_from))
    }
}

/// A file that came out of an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// Relative to the directory, with `/`.
    pub path: String,
    pub size: u64,
}

/// What an archive held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unpacked {
    pub kind: ArchiveKind,
    /// In the order of the archive.
    pub files: Vec<File>,
}

impl Unpacked {
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.size).sum()
    }
}

/// Unpacks `archive` as the directory `into`, which does not exist yet or is empty.
///
/// Blocks: call it off the runtime. Between chunks it looks whether it was cancelled.
pub fn unpack(
    archive: &Path,
    into: &Path,
    limits: &Limits,
    progress: &Progress,
    cancel: &Cancel,
) -> Result<Unpacked> {
    let shown = archive.file_name().unwrap_or(archive.as_os_str()).to_string_lossy().into_owned();
    let Some(kind) = ArchiveKind::recognise(archive)? else {
        return Err(Failure::hopeless(format!(
            "{shown} is no archive that is known here; send a zip, tar, tar.gz or tar.bz2"
        )));
    };
    let packed = std::fs::metadata(archive).map_err(|error| staging::disk(archive, &error))?.len();
    let mut staging = Staging::beside(into, limits, packed, progress, cancel)?;
    match kind {
        ArchiveKind::Zip => from_zip::unpack(archive, &mut staging),
        ArchiveKind::Tar | ArchiveKind::TarGz | ArchiveKind::TarBz2 => {
            from_tar::unpack(archive, kind, &mut staging)
        }
    }
    .map_err(|failure| failure.during(&shown))?;
    Ok(Unpacked { kind, files: staging.finish()? })
}

/// That the member is refused, and why.
fn refused(member: &str, why: impl std::fmt::Display) -> Failure {
    Failure::hopeless(format!("member {member:?} is refused: {why}"))
}

/// That the archive as a whole is not as it should be.
fn damaged(why: impl std::fmt::Display) -> Failure {
    Failure::hopeless(format!("the archive is damaged or cut: {why}; send it again"))
}
