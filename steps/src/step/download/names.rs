//! Names of files of one object: where they go, and which stand in each other's way.

use std::collections::HashMap;
use std::path::Path;

use crate::outcome::{Failure, Result};

/// The longest name that file systems keep.
const COMPONENT: usize = 255;

/// A name as a path below its directory: `./a//b` is `a/b`.
pub(super) fn tidy(name: &str) -> Result<String> {
    let shown = || name.escape_debug();
    if let Some(why) = crate::manifest::fault_of_name(name) {
        return Err(Failure::hopeless(format!("the file name `{}` {why}", shown())));
    }
    let parts: Vec<&str> = name.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    if let Some(long) = parts.iter().find(|part| part.len() > COMPONENT) {
        let length = long.len();
        return Err(Failure::hopeless(format!(
            "the file name `{}` has a part of {length} bytes, and {COMPONENT} are allowed",
            shown()
        )));
    }
    Ok(parts.join("/"))
}

/// Whether the file system keeps no two names that differ only in case. `dir` holds a file `node`. Blocks.
pub(super) fn folds_case(dir: &Path) -> bool {
    std::fs::symlink_metadata(dir.join("NODE")).is_ok()
}

/// All names of one object.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// With whether it is a directory, by what the file system tells apart.
    known: HashMap<String, (String, bool)>,
    folds_case: bool,
}

impl Names {
    pub(super) fn new(folds_case: bool) -> Self {
        Self { known: HashMap::new(), folds_case }
    }

    /// Takes up a file and the directories above it.
    pub(super) fn add(&mut self, path: &str) -> Result<()> {
        for (end, _) in path.match_indices('/') {
            self.one(&path[..end], true)?;
        }
        self.one(path, false)
    }

    fn one(&mut self, path: &str, directory: bool) -> Result<()> {
        let key = if self.folds_case { path.to_lowercase() } else { path.to_owned() };
        let Some((known, known_directory)) = self.known.get(&key) else {
            self.known.insert(key, (path.to_owned(), directory));
            return Ok(());
        };
        let (path, known) = (path.escape_debug(), known.escape_debug());
        let why = if path.to_string() != known.to_string() {
            format!("`{path}` and `{known}` differ only in upper and lower case, and here only one is kept")
        } else if directory && *known_directory {
            return Ok(());
        } else if directory == *known_directory {
            format!("`{path}` comes twice")
        } else {
            format!("`{path}` is a file, and a directory of other files too")
        };
        Err(Failure::hopeless(format!("{why}; give one of them another name")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clash(folds_case: bool, paths: &[&str]) -> Option<String> {
        let mut names = Names::new(folds_case);
        paths.iter().find_map(|path| names.add(path).err()).map(|failure| failure.to_string())
    }

    #[test]
    fn a_file_cannot_be_a_directory_too() {
        for paths in [["a", "a/b"], ["a/b", "a"]] {
            let why = clash(false, &paths).unwrap();
            assert!(why.contains("`a` is a file, and a directory"), "{why}");
        }
        assert!(clash(false, &["a/b", "a/b"]).unwrap().contains("comes twice"));
        assert_eq!(clash(false, &["a/b", "a/c", "b", "mrt-erc.txt"]), None);
    }

    #[test]
    fn case_matters_where_the_file_system_says_so() {
        assert_eq!(clash(false, &["README", "readme", "Data/x", "data/x"]), None);
        for paths in [["README", "readme"], ["Data/x", "data/y"]] {
            let why = clash(true, &paths).unwrap();
            assert!(why.contains("only in upper and lower case"), "{why}");
        }
    }

    #[test]
    fn names_are_made_plain_or_refused() {
        assert_eq!(tidy("./a//b/./c"), Ok("a/b/c".into()));
        for wrong in ["../a", "/a", "a/", &"x".repeat(256)] {
            assert!(matches!(tidy(wrong), Err(Failure::Hopeless(_))), "{wrong}");
        }
    }

    #[test]
    fn this_file_system_is_asked_by_a_file_that_is_there() {
        let dir = tempfile::tempdir().unwrap();
        assert!(!folds_case(dir.path()));
        std::fs::write(dir.path().join("NODE"), "").unwrap();
        assert!(folds_case(dir.path()));
    }
}
