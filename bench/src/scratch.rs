//! Directories for the trees that are measured. On a disk: a durable store on a file system in memory
//! is another store.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rustix::fs::statfs;
use tempfile::TempDir;

/// The number by which the kernel knows a file system in memory.
const TMPFS: u64 = 0x0102_1994;

/// Makes a directory that is removed with the value.
pub(crate) fn directory() -> Result<TempDir> {
    let places = [std::env::temp_dir(), PathBuf::from("/var/tmp")];
    let place = places.iter().find(|place| is_on_disk(place)).unwrap_or_else(|| {
        eprintln!("bench: no temporary directory is on a disk; set TMPDIR, or take durable for volatile");
        &places[0]
    });
    tempfile::Builder::new()
        .prefix("bench-")
        .tempdir_in(place)
        .with_context(|| format!("no directory in {}", place.display()))
}

fn is_on_disk(place: &Path) -> bool {
    statfs(place).is_ok_and(|stat| u64::try_from(stat.f_type) != Ok(TMPFS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_in_memory_is_told_from_a_disk() {
        assert!(!is_on_disk(Path::new("/dev/shm")));
        assert!(!is_on_disk(Path::new("/no/such/place")));
    }
}
