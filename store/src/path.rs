//! Paths of znodes: ZooKeeper's rules, checked here once for both engines.
//!
//! A path begins with `/`, its names are not empty and not `.` or `..`, and hold no control or
//! private-use characters, nor any beyond the basic plane. Only the path of a sequential create may end in `/`.

use crate::error::{Error, Kind, Result};

/// Checks a path as ZooKeeper does. `sequential` allows a trailing `/`: the counter is the name.
pub fn validate(path: &str, sequential: bool) -> Result<()> {
    let refuse = |why: &str| Err(Error::new(Kind::BadArguments, why).with_path(path));
    let Some(rest) = path.strip_prefix('/') else {
        return refuse(if path.is_empty() { "a path cannot be empty" } else { "a path must begin with '/'" });
    };
    if rest.is_empty() {
        return Ok(());
    }
    let mut names = rest.split('/').peekable();
    while let Some(name) = names.next() {
        match name {
            "" if names.peek().is_none() && sequential => {}
            "" if names.peek().is_none() => return refuse("a path cannot end with '/'"),
            "" => return refuse("a path cannot hold an empty name"),
            "." | ".." => return refuse("relative names are not allowed in a path"),
            _ => {}
        }
        if let Some(bad) = name.chars().find(|c| is_forbidden(*c)) {
            return refuse(&format!("the character U+{:04X} is not allowed in a path", u32::from(bad)));
        }
    }
    Ok(())
}

fn is_forbidden(c: char) -> bool {
    matches!(c, '\u{0}'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{e000}'..='\u{f8ff}' | '\u{fff0}'..)
}

/// The path of the parent; the root is its own parent.
pub fn parent(path: &str) -> &str {
    match path.rfind('/') {
        None | Some(0) => "/",
        Some(at) => &path[..at],
    }
}

/// The last name of a path; empty for the root.
pub fn name(path: &str) -> &str {
    path.rfind('/').map_or(path, |at| &path[at + 1..])
}

/// `dir` and `name` joined.
pub fn join(dir: &str, name: &str) -> String {
    if dir == "/" { format!("/{name}") } else { format!("{dir}/{name}") }
}

/// Whether `path` is `root` or lies below it.
pub fn is_within(path: &str, root: &str) -> bool {
    root == "/" || path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_paths_are_accepted() {
        for path in ["/", "/a", "/a/b", "/a/..b", "/a/.b.", "/päth/名", "/a b/c:d"] {
            assert!(validate(path, false).is_ok(), "{path}");
        }
        assert!(validate("/a/", true).is_ok());
    }

    #[test]
    fn bad_paths_are_refused_with_their_reason() {
        for (path, why) in [
            ("", "cannot be empty"),
            ("a", "begin with '/'"),
            ("/a/", "end with '/'"),
            ("//", "empty name"),
            ("/a//b", "empty name"),
            ("/a/./b", "relative"),
            ("/a/..", "relative"),
            ("/a/.", "relative"),
            ("/a\u{0}b", "U+0000"),
            ("/a\u{7f}", "U+007F"),
            ("/\u{f000}", "U+F000"),
            ("/\u{fff1}", "U+FFF1"),
            ("/\u{1f600}", "U+1F600"),
        ] {
            let error = validate(path, false).expect_err(path);
            assert_eq!(error.kind(), Kind::BadArguments, "{path:?}");
            assert!(error.to_string().contains(why), "{path:?}: {error}");
        }
    }

    #[test]
    fn a_subtree_ends_at_a_name_and_not_in_the_middle_of_one() {
        assert!(is_within("/a", "/a") && is_within("/a/b", "/a") && is_within("/x", "/"));
        assert!(!is_within("/ab", "/a"));
    }

    #[test]
    fn parent_and_name_take_a_path_apart() {
        assert_eq!((parent("/a/b"), name("/a/b")), ("/a", "b"));
        assert_eq!((parent("/a"), name("/a")), ("/", "a"));
        assert_eq!((parent("/"), name("/")), ("/", ""));
        assert_eq!(join(parent("/a"), "b"), "/b");
    }
}
