//! What really is in a bag's directory. Links are not followed.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::broken;
use super::report::{Code, Notes};
use crate::outcome::{Cancel, Failure, Progress, Result};

/// Files right in the directory, with their sizes.
pub(super) fn top(dir: &Path) -> Result<BTreeMap<String, u64>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).map_err(|error| broken(dir, &error))? {
        let entry = entry.map_err(|error| broken(dir, &error))?;
        let metadata = entry.metadata().map_err(|error| broken(&entry.path(), &error))?;
        if let (true, Ok(name)) = (metadata.is_file(), entry.file_name().into_string()) {
            found.insert(name, metadata.len());
        }
    }
    Ok(found)
}

/// All files, by their paths from the directory, with their sizes. Whatever is no file is a problem.
pub(super) fn all(
    dir: &Path,
    notes: &mut Notes,
    progress: &Progress,
    cancel: &Cancel,
) -> Result<BTreeMap<String, u64>> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![(String::new(), dir.to_owned())];
    while let Some((above, dir)) = waiting.pop() {
        if cancel.is_cancelled() {
            return Err(Failure::Cancelled);
        }
        progress.beat();
        for entry in fs::read_dir(&dir).map_err(|error| broken(&dir, &error))? {
            let entry = entry.map_err(|error| broken(&dir, &error))?;
            let metadata = entry.metadata().map_err(|error| broken(&entry.path(), &error))?;
            let name = entry.file_name();
            let path = format!("{above}{}", name.to_string_lossy());
            if name.to_str().is_none() {
                notes.problem(Code::BadName, path, "its name is not UTF-8");
            } else if metadata.is_dir() {
                waiting.push((path + "/", entry.path()));
            } else if metadata.is_file() {
                found.insert(path, metadata.len());
            } else {
                notes.problem(
                    Code::NotAFile,
                    path,
                    "it is no plain file; links and devices do not belong in a bag",
                );
            }
        }
    }
    Ok(found)
}
