//! The key that URLs of files are signed with: the operator's, or one that is made once and kept in the node's directory.
//!
//! **When things break.** A key that cannot be read or made is told, and the node does not start: without it, URLs that it gave
//! away would be wrong.

use std::fs;
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rand::TryRngCore as _;
use sha2::{Digest as _, Sha256};

use super::settings::UrlKey;

const FILE: &str = "url-key";

/// The key. Blocks.
pub(super) fn of(dir: &Path, given: Option<&UrlKey>) -> Result<[u8; 32], String> {
    if let Some(given) = given {
        return Ok(Sha256::digest(given.text().as_bytes()).into());
    }
    let path = dir.join(FILE);
    let said = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    fs::create_dir_all(dir).map_err(|error| said(&error))?;
    match fs::read(&path) {
        Ok(bytes) => return bytes.try_into().map_err(|_| said(&"it is no key; remove it, and one is made")),
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(said(&error)),
    }
    let mut key = [0; 32];
    rand::rngs::OsRng.try_fill_bytes(&mut key).map_err(|error| said(&error))?;
    // Whole or not at all: half a key would be none.
    let part = dir.join(format!(".{FILE}.part"));
    let written =
        fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&part).and_then(
            |mut file| {
                file.write_all(&key)?;
                file.sync_all()
            },
        );
    written.and_then(|()| fs::rename(&part, &path)).map_err(|error| said(&error))?;
    Ok(key)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_key_is_made_once_and_nobody_else_can_read_it() {
        let dir = tempfile::tempdir().unwrap();
        let key = of(dir.path(), None).unwrap();
        assert_eq!(of(dir.path(), None), Ok(key));
        let other = tempfile::tempdir().unwrap();
        assert_ne!(of(other.path(), None), Ok(key));
        let mode = fs::metadata(dir.path().join(FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let given = UrlKey::try_from("k".repeat(40)).unwrap();
        assert_eq!(of(dir.path(), Some(&given)), of(other.path(), Some(&given)));
        fs::write(dir.path().join(FILE), "short").unwrap();
        assert!(of(dir.path(), None).unwrap_err().contains("it is no key"));
    }
}
