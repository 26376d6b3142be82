//! File names: which are refused, and which were there before.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use sha2::{Digest as _, Sha256};

/// Why a name cannot be the name of a file below its directory.
pub(crate) fn fault(name: &str) -> Option<&'static str> {
    if name.contains('\0') {
        Some("holds a NUL character")
    } else if name.starts_with('/') {
        Some("begins with `/`; names are relative to the object")
    } else if name.split('/').any(|part| part == "..") {
        Some("holds `..` and could leave the object; name the path without it")
    } else if matches!(name.rsplit('/').next(), Some("" | ".") | None) {
        Some("names a directory, not a file")
    } else {
        None
    }
}

/// Names that were seen, and on which line. Keeps 16 bytes of a hash and 4 of a line for each, not the name.
#[derive(Debug, Default)]
pub(super) struct Names(HashMap<[u8; 16], u32>);

impl Names {
    /// The line on which the same name stood before. `a//b` and `./a/b` are the file `a/b`.
    pub(super) fn insert(&mut self, name: &str, line: u64) -> Option<u64> {
        // A cryptographic hash: nobody can make two names that are taken for one.
        let mut hasher = Sha256::new();
        for part in name.split('/').filter(|part| !part.is_empty() && *part != ".") {
            hasher.update(part.as_bytes());
            hasher.update(b"/");
        }
        let mut key = [0; 16];
        key.copy_from_slice(&hasher.finalize()[..16]);
        match self.0.entry(key) {
            Entry::Occupied(seen) => Some(u64::from(*seen.get())),
            Entry::Vacant(free) => {
                free.insert(u32::try_from(line).unwrap_or(u32::MAX));
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stays_below_its_directory() {
        for name in ["a", "a/b", "..a/b..", "a/.b", ".hidden", "a b", "~"] {
            assert_eq!(fault(name), None, "{name}");
        }
        for name in ["/a", "..", "../a", "a/../b", "a/..", "a/", ".", "a/.", "a\0b"] {
            assert!(fault(name).is_some(), "{name}");
        }
    }

    #[test]
    fn one_file_is_seen_twice_however_its_path_is_written() {
        let mut names = Names::default();
        assert_eq!(names.insert("a/b", 6), None);
        assert_eq!(names.insert("a/b", 7), Some(6));
        assert_eq!(names.insert("./a//b", 8), Some(6));
        assert_eq!(names.insert("ab", 9), None);
        assert_eq!(names.insert("A/b", 10), None);
    }

    #[test]
    fn a_name_costs_twenty_bytes_however_long_it_is() {
        fn entry<K, V>(_: &HashMap<K, V>) -> usize {
            size_of::<(K, V)>()
        }
        assert_eq!(entry(&Names::default().0), 20);
    }
}
