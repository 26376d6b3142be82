//! File names: which are refused, and which were there before.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use sha2::{Digest as _, Sha256};

/// Why a name cannot be the name of a file below its directory.
pub fn fault(name: &str) -> Option<&'static str> {
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

/// So many directories of one object are remembered. Without a bound a few deep names on every line would fill the
/// memory.
pub(super) const MOST_DIRECTORIES: u32 = 1_000_000;

/// In the number of a line: it is the name of a directory that stands there.
const DIRECTORY: u32 = 1 << 31;

/// Why a name does not go with those before it, and on which line the other one stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Clash {
    /// It is the same file.
    Twice(u64),
    /// It is a directory there.
    Directory(u64),
    /// A directory of its path is a file there.
    BelowFile(u64),
    TooManyDirectories,
}

impl Clash {
    /// What is wrong with the name, which is shown before it.
    pub(super) fn why(self) -> String {
        match self {
            Clash::Twice(line) => format!("is on line {line} already; give each file a name of its own"),
            Clash::Directory(line) => {
                format!("is a directory of the name on line {line}; it cannot be a file too")
            }
            Clash::BelowFile(line) => {
                format!("lies below the file on line {line}, which cannot be a directory too")
            }
            Clash::TooManyDirectories => {
                format!("makes more than {MOST_DIRECTORIES} directories; split the object")
            }
        }
    }
}

/// Names that were seen, with the directories in them, and on which line. Keeps 16 bytes of a hash and 4 of a line for
/// each, not the name.
#[derive(Debug, Default)]
pub(super) struct Names {
    seen: HashMap<[u8; 16], u32>,
    directories: u32,
}

impl Names {
    /// Takes a name up, unless it clashes. `a//b` and `./a/b` are the file `a/b`.
    pub(super) fn insert(&mut self, name: &str, line: u64) -> Result<(), Clash> {
        // The lines beyond are all the same.
        let line = u32::try_from(line).unwrap_or(u32::MAX) & !DIRECTORY;
        let told = |mark: u32| u64::from(mark & !DIRECTORY);
        // A cryptographic hash: nobody can make two names that are taken for one.
        let mut hasher = Sha256::new();
        let mut parts = name.split('/').filter(|part| !part.is_empty() && *part != ".").peekable();
        while let Some(part) = parts.next() {
            hasher.update(part.as_bytes());
            hasher.update(b"/");
            let is_directory = parts.peek().is_some();
            let mut key = [0; 16];
            key.copy_from_slice(&hasher.clone().finalize()[..16]);
            match (self.seen.entry(key), is_directory) {
                (Entry::Occupied(seen), true) if seen.get() & DIRECTORY == 0 => {
                    return Err(Clash::BelowFile(told(*seen.get())));
                }
                (Entry::Occupied(_), true) => {}
                (Entry::Occupied(seen), false) if seen.get() & DIRECTORY == 0 => {
                    return Err(Clash::Twice(told(*seen.get())));
                }
                (Entry::Occupied(seen), false) => return Err(Clash::Directory(told(*seen.get()))),
                (Entry::Vacant(_), true) if self.directories >= MOST_DIRECTORIES => {
                    return Err(Clash::TooManyDirectories);
                }
                (Entry::Vacant(free), true) => {
                    self.directories += 1;
                    free.insert(line | DIRECTORY);
                }
                (Entry::Vacant(free), false) => {
                    free.insert(line);
                }
            }
        }
        Ok(())
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
        assert_eq!(names.insert("a/b", 6), Ok(()));
        assert_eq!(names.insert("a/b", 7), Err(Clash::Twice(6)));
        assert_eq!(names.insert("./a//b", 8), Err(Clash::Twice(6)));
        assert_eq!(names.insert("ab", 9), Ok(()));
        assert_eq!(names.insert("A/b", 10), Ok(()));
    }

    #[test]
    fn a_file_is_no_directory_whichever_comes_first() {
        let mut names = Names::default();
        assert_eq!(names.insert("a/b/c", 6), Ok(()));
        assert_eq!(names.insert("a/b/d", 7), Ok(()));
        assert_eq!(names.insert("./a", 8), Err(Clash::Directory(6)));
        assert_eq!(names.insert("a/b", 9), Err(Clash::Directory(6)));
        assert_eq!(names.insert("a/b/c/x/y", 10), Err(Clash::BelowFile(6)));
        assert_eq!(names.insert("a/b/c.x", 11), Ok(()));
        assert_eq!(names.insert("b/c", 12), Ok(()));
    }

    #[test]
    fn a_name_costs_twenty_bytes_however_long_it_is() {
        fn entry<K, V>(_: &HashMap<K, V>) -> usize {
            size_of::<(K, V)>()
        }
        assert_eq!(entry(&Names::default().seen), 20);
    }

    #[test]
    fn directories_without_end_are_refused() {
        let mut names = Names::default();
        let deep = "d/".repeat(30_000);
        let refused = (0..40).find_map(|number| names.insert(&format!("{number}/{deep}x"), 5).err());
        assert_eq!(refused, Some(Clash::TooManyDirectories));
        assert!(names.seen.len() <= MOST_DIRECTORIES as usize + 40);
        // What lies in known directories is still taken up.
        assert_eq!(names.insert("0/d/y", 6), Ok(()));
    }
}
