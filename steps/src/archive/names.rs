//! Names of members: which can be kept, and which stand in each other's way.
//!
//! A name is a relative path of UTF-8 with `/`. Absolute paths, `..`, drive letters, backslashes and
//! control characters are refused, and so are two members of one name, a file where another member needs a
//! directory, and names that differ only in case or in the way Unicode composes letters (é as one character
//! or as e and an accent): some file systems would keep only one of them. A directory may be named more than
//! once, that changes nothing.

use std::collections::HashMap;

use unicode_normalization::{UnicodeNormalization as _, is_nfc};

use super::{Limits, refused};
use crate::outcome::{Failure, Result};

/// The longest name that file systems keep.
const COMPONENT: usize = 255;
/// Bytes of all names together. Without it a million deep paths would fill the memory.
pub(super) const ALL_NAMES: usize = 512 << 20;

/// A name that can be kept, without a leading `./` and a trailing `/`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name {
    pub path: String,
    /// It ended with a `/`.
    pub directory: bool,
}

/// Reads a member's name; `None` is the directory itself (`./`).
pub fn read(raw: &[u8], limits: &Limits) -> Result<Option<Name>> {
    let shown = String::from_utf8_lossy(raw);
    let refuse = |why: &str| Err(refused(&shorten(&shown), why));
    let Ok(text) = std::str::from_utf8(raw) else {
        return refuse("its name is not UTF-8; pack it again with UTF-8 names");
    };
    if raw.len() > limits.name {
        return refuse(&format!("its name has {} bytes, and {} are allowed", raw.len(), limits.name));
    }
    if let Err(why) = check_characters(text) {
        return refuse(why);
    }
    let mut rest = text;
    while let Some(after) = rest.strip_prefix("./") {
        rest = after;
    }
    if matches!(rest, "" | ".") {
        return if text.is_empty() { refuse("it has no name") } else { Ok(None) };
    }
    let directory = rest.ends_with('/');
    let path = rest.strip_suffix('/').unwrap_or(rest);
    match check_components(path) {
        Err(why) => refuse(&why),
        Ok(depth) if depth > limits.depth => {
            refuse(&format!("it lies {depth} names deep, and {} are allowed", limits.depth))
        }
        Ok(_) => Ok(Some(Name { path: path.to_owned(), directory })),
    }
}

fn check_characters(text: &str) -> Result<(), &'static str> {
    if text.chars().any(char::is_control) {
        return Err("its name has control characters");
    }
    if text.contains('\\') {
        return Err("its name has a backslash; separate directories with `/`");
    }
    if text.starts_with('/') {
        return Err("its path is absolute; names are relative to the archive");
    }
    Ok(())
}

/// How deep it lies.
fn check_components(path: &str) -> Result<usize, String> {
    let mut depth = 0;
    for component in path.split('/') {
        depth += 1;
        match component {
            "" => return Err("its path has an empty name between two slashes".into()),
            ".." => return Err("its path leaves the archive by `..`".into()),
            "." => return Err("its path has a `.` inside".into()),
            long if long.len() > COMPONENT => {
                return Err(format!(
                    "a name in its path has {} bytes, and {COMPONENT} are allowed",
                    long.len()
                ));
            }
            _ => {}
        }
        let bytes = component.as_bytes();
        if depth == 1 && bytes.len() >= 2 && bytes[0].is_ascii_alphabetic() && bytes[1] == b':' {
            return Err("its path begins with a drive letter".into());
        }
    }
    Ok(depth)
}

/// What fits into a message.
fn shorten(name: &str) -> String {
    let mut short: String = name.chars().take(120).collect();
    if short.len() < name.len() {
        short.push('…');
    }
    short
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    File,
    Directory,
}

/// All names of one archive.
#[derive(Debug, Default)]
pub struct Register {
    /// By the name in lower case and composed.
    known: HashMap<String, (Option<String>, Kind)>,
    members: u64,
    bytes: usize,
}

impl Register {
    /// Takes a name up with all directories above it, and says which directories are new, the highest
    /// first.
    pub fn add<'a>(&mut self, path: &'a str, directory: bool, limits: &Limits) -> Result<Vec<&'a str>> {
        let mut fresh = Vec::new();
        for (end, _) in path.match_indices('/') {
            if self.one(&path[..end], Kind::Directory, path, limits)? {
                fresh.push(&path[..end]);
            }
        }
        let kind = if directory { Kind::Directory } else { Kind::File };
        if self.one(path, kind, path, limits)? && directory {
            fresh.push(path);
        }
        Ok(fresh)
    }

    /// Whether it is new.
    fn one(&mut self, path: &str, kind: Kind, member: &str, limits: &Limits) -> Result<bool> {
        let folded = folded(path);
        if let Some((spelled, known)) = self.known.get(&folded) {
            let spelled = spelled.as_deref().unwrap_or(&folded);
            return if spelled != path {
                let only = if path.nfc().eq(spelled.nfc()) {
                    "in the way their letters are composed"
                } else if path.to_lowercase() == spelled.to_lowercase() {
                    "in upper and lower case"
                } else {
                    "in case and in the way their letters are composed"
                };
                Err(refused(member, format!("{path:?} and {spelled:?} differ only {only}")))
            } else if *known == Kind::Directory && kind == Kind::Directory {
                Ok(false)
            } else if *known == kind {
                Err(refused(member, "it is in the archive twice"))
            } else {
                Err(refused(member, format!("{path:?} is a file and a directory too")))
            };
        }
        self.members += 1;
        self.bytes += folded.len();
        // Most names are in lower case already and need not be kept twice.
        let spelled = (folded != path).then(|| path.to_owned());
        self.known.insert(folded, (spelled, kind));
        if self.members > limits.members {
            return Err(too_many(limits));
        }
        if self.bytes > ALL_NAMES {
            return Err(too_long());
        }
        Ok(true)
    }
}

/// What two names share that some file system takes for one.
fn folded(path: &str) -> String {
    // Composed first: lower case is defined of letters, not of their parts. And composed again: lower case may
    // take a letter apart.
    let lower =
        if is_nfc(path) { path.to_lowercase() } else { path.nfc().collect::<String>().to_lowercase() };
    if is_nfc(&lower) { lower } else { lower.nfc().collect() }
}

/// That all names together take more than allowed.
pub(super) fn too_long() -> Failure {
    Failure::hopeless(format!(
        "the names of the archive take more than {ALL_NAMES} bytes; send fewer members"
    ))
}

/// That there are more members than allowed.
pub(super) fn too_many(limits: &Limits) -> Failure {
    Failure::hopeless(format!(
        "the archive has more than {} files and directories, which is the limit; send several archives",
        limits.members
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why(raw: &[u8]) -> String {
        read(raw, &Limits::default()).unwrap_err().to_string()
    }

    #[test]
    fn plain_names_are_kept_as_they_are() {
        for name in
            ["a", "a/b.txt", "Übung/naïve 文.txt", "~x", "..a/b..", "ab:c", ".DS_Store", "__MACOSX/._a"]
        {
            let read = read(name.as_bytes(), &Limits::default()).unwrap().unwrap();
            assert_eq!((read.path.as_str(), read.directory), (name, false));
        }
    }

    #[test]
    fn a_leading_dot_and_a_trailing_slash_are_no_part_of_the_name() {
        let read = |raw: &str| read(raw.as_bytes(), &Limits::default()).unwrap();
        assert_eq!(read("./a/b/"), Some(Name { path: "a/b".into(), directory: true }));
        assert_eq!(read("././a"), Some(Name { path: "a".into(), directory: false }));
        assert_eq!((read("./"), read(".")), (None, None));
    }

    #[test]
    fn names_that_escape_are_refused_with_the_reason() {
        for (raw, reason) in [
            (&b"/etc/passwd"[..], "absolute"),
            (b".//etc/passwd", "empty name"),
            (b"../x", "`..`"),
            (b"a/../../x", "`..`"),
            (b"a/..", "`..`"),
            (b"./..", "`..`"),
            (b"a/./b", "`.` inside"),
            (b"a//b", "empty name"),
            (b"C:/x", "drive letter"),
            (b"c:x", "drive letter"),
            (b"..\\x", "backslash"),
            (b"a\0b", "control"),
            (b"a\nb", "control"),
            (b"a\x7fb", "control"),
            ("a\u{85}b".as_bytes(), "control"),
            (b"caf\xe9", "not UTF-8"),
            (b"", "no name"),
        ] {
            assert!(why(raw).contains(reason), "{raw:?}: {}", why(raw));
        }
    }

    #[test]
    fn long_and_deep_names_are_refused() {
        let limits = Limits { depth: 3, name: 300, ..Limits::default() };
        assert!(read(b"a/b/c", &limits).is_ok());
        let deep = read(b"a/b/c/d", &limits).unwrap_err().to_string();
        assert!(deep.contains("4 names deep, and 3 are allowed"), "{deep}");
        let long = read("a/".repeat(151).as_bytes(), &limits).unwrap_err().to_string();
        assert!(long.contains("302 bytes, and 300") && long.len() < 400, "{long}");
        assert!(read("x".repeat(256).as_bytes(), &limits).unwrap_err().to_string().contains("255"));
    }

    #[test]
    fn directories_are_told_once_from_the_top() {
        let (mut register, limits) = (Register::default(), Limits::default());
        assert_eq!(register.add("A/b/c", false, &limits).unwrap(), ["A", "A/b"]);
        assert_eq!(register.add("A/b", true, &limits).unwrap(), [""; 0]);
        assert_eq!(register.add("A/b/d", true, &limits).unwrap(), ["A/b/d"]);
    }

    #[test]
    fn names_that_clash_are_refused() {
        for (second, directory, reason) in [
            ("Dir/file", false, "twice"),
            ("Dir/FILE", false, "case"),
            ("dir/other", false, "case"),
            ("Dir", false, "a file and a directory"),
            ("Dir/file", true, "a file and a directory"),
            ("Dir/file/x", false, "a file and a directory"),
        ] {
            let mut register = Register::default();
            register.add("Dir/file", false, &Limits::default()).unwrap();
            let refused = register.add(second, directory, &Limits::default()).unwrap_err().to_string();
            assert!(refused.contains(reason) && refused.contains(second), "{second}: {refused}");
        }
    }

    #[test]
    fn names_that_clash_once_their_letters_are_composed_are_refused() {
        let clash = |first: &str, second: &str| {
            let mut register = Register::default();
            register.add(first, false, &Limits::default()).unwrap();
            register.add(second, false, &Limits::default()).unwrap_err().to_string()
        };
        for (first, second) in [
            ("caf\u{e9}", "cafe\u{301}"),
            ("cafe\u{301}/a", "caf\u{e9}/b"),
            ("CAF\u{c9}", "cafe\u{301}"),
            // Two marks below and above, in either order.
            ("a\u{323}\u{307}", "a\u{307}\u{323}"),
            // The Angstrom sign is the letter.
            ("\u{212b}", "\u{c5}"),
        ] {
            let refused = clash(first, second);
            assert!(refused.contains("are composed"), "{first} {second}: {refused}");
            clash(second, first);
        }
        assert!(clash("caf\u{e9}", "CAF\u{c9}").contains("case"));
        // The same name twice is the same name, however it is composed.
        assert!(clash("cafe\u{301}", "cafe\u{301}").contains("twice"));
    }

    #[test]
    fn directories_that_are_only_named_in_paths_count_as_members() {
        let limits = Limits { members: 3, ..Limits::default() };
        let mut register = Register::default();
        register.add("a/b/c", false, &limits).unwrap();
        assert!(register.add("d", false, &limits).unwrap_err().to_string().contains("more than 3"));
    }
}
