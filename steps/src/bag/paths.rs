//! Paths as bags write them.

use super::Version;

/// Line ends, and the sign that marks them, are written in hex. Versions before 1.0 leave the percent sign
/// as it is.
pub(super) fn decode(written: &str, version: Version) -> String {
    if !written.contains('%') {
        return written.to_owned();
    }
    let mut path = String::with_capacity(written.len());
    let mut rest = written;
    while let Some(at) = rest.find('%') {
        path.push_str(&rest[..at]);
        let sign = match rest.get(at..at + 3).map(str::to_ascii_uppercase).as_deref() {
            Some("%0A") => Some('\n'),
            Some("%0D") => Some('\r'),
            Some("%25") if version >= Version::V1_0 => Some('%'),
            _ => None,
        };
        path.push(sign.unwrap_or('%'));
        rest = &rest[at + if sign.is_some() { 3 } else { 1 }..];
    }
    path.push_str(rest);
    path
}

/// For version 1.0.
pub(super) fn encode(path: &str) -> String {
    path.replace('%', "%25").replace('\n', "%0A").replace('\r', "%0D")
}

/// Whether a path stays in the bag.
pub(super) fn check(path: &str) -> Result<(), &'static str> {
    if path.is_empty() {
        return Err("there is no path");
    }
    if path.starts_with('/') {
        return Err("the path is absolute; paths are relative to the bag");
    }
    if path.starts_with('~') {
        return Err("the path begins with `~`; paths are relative to the bag");
    }
    if path.contains('\0') {
        return Err("the path has a NUL");
    }
    for component in path.split('/') {
        match component {
            ".." => return Err("the path leaves the bag by `..`"),
            "" | "." => return Err("the path has an empty name or a `.`"),
            _ => {}
        }
    }
    Ok(())
}

/// Whether it is a path of the payload.
pub(super) fn is_payload(path: &str) -> bool {
    path.strip_prefix("data/").is_some_and(|rest| !rest.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    const V0_97: Version = Version { major: 0, minor: 97 };

    #[test]
    fn line_ends_and_percent_signs_come_back_and_nothing_else_is_touched() {
        assert_eq!(decode("data/a%0Ab%0dc%25d%20e%", Version::V1_0), "data/a\nb\rc%d%20e%");
        assert_eq!(decode("data/%250A", Version::V1_0), "data/%0A");
        assert_eq!(decode("data/%é%2", Version::V1_0), "data/%é%2");
        assert_eq!(decode("data/a%0Ab%25", V0_97), "data/a\nb%25");
    }

    #[test]
    fn what_is_encoded_is_decoded_the_same() {
        for path in ["data/a", "data/%", "data/%0A", "data/a\nb\r\nc%25", "data/é%é"] {
            let written = encode(path);
            assert!(!written.contains(['\n', '\r']));
            assert_eq!(decode(&written, Version::V1_0), path);
        }
    }

    #[test]
    fn paths_that_leave_the_bag_are_refused() {
        for path in ["", "/a", "~/a", "~", "../a", "data/../../a", "data/..", "a//b", "./a", "a/", "a\0b"] {
            assert!(check(path).is_err(), "{path}");
        }
        for path in ["a", "data/~a", "data/..a", "data/a b", "data/a\\b"] {
            assert_eq!(check(path), Ok(()), "{path}");
        }
    }
}
