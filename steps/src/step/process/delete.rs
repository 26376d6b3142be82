//! `mrt-delete.txt`: the files that a depositor removes from an object.
//!
//! It lies at the top of the payload and names one file a line, UTF-8, as the depositor deposited it; `producer/` before
//! the name may be left out, empty lines count nothing. There are no comments, no patterns, and no escapes: a name may
//! hold any of these characters.
//!
//! **When things break.** What cannot be read as text fails the job for good: it has to be submitted again.

use std::collections::BTreeSet;
use std::io::Read as _;
use std::path::Path;

use super::PRODUCER;
use crate::archive::disk as broken;
use crate::outcome::{Failure, Result};

/// Where it lies.
pub(super) const NAME: &str = "producer/mrt-delete.txt";
/// A hundred thousand names of ordinary length.
const MAX_BYTES: u64 = 16 << 20;

/// The lines of a file that has been verified. Blocks.
pub(super) fn read(path: &Path) -> Result<BTreeSet<String>> {
    let mut text = Vec::new();
    let file = std::fs::File::open(path).map_err(|error| broken(path, &error))?;
    file.take(MAX_BYTES + 1).read_to_end(&mut text).map_err(|error| broken(path, &error))?;
    if text.len() as u64 > MAX_BYTES {
        return Err(Failure::hopeless(format!("mrt-delete.txt has more than {MAX_BYTES} bytes")));
    }
    let text = String::from_utf8(text).map_err(|error| {
        let line = error.as_bytes()[..error.utf8_error().valid_up_to()].split(|byte| *byte == b'\n').count();
        Failure::hopeless(format!("mrt-delete.txt: line {line} is not UTF-8"))
    })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let lines = text.split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line));
    Ok(lines.filter(|line| !line.trim().is_empty()).map(str::to_owned).collect())
}

/// The path of the file that a line names, of those that are there. Space around a name counts only if a file has it.
pub(super) fn path_of(line: &str, there: impl Fn(&str) -> bool) -> Option<String> {
    let path =
        |name: &str| if name.starts_with(PRODUCER) { name.to_owned() } else { format!("{PRODUCER}{name}") };
    [line, line.trim()].into_iter().map(path).find(|path| there(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &[u8]) -> Result<Vec<String>> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mrt-delete.txt");
        std::fs::write(&path, text).unwrap();
        read(&path).map(|lines| lines.into_iter().collect())
    }

    #[test]
    fn a_name_is_a_line_whatever_ends_it() {
        let text = "\u{feff}b c.txt\r\n\r\n  \n#x\nproducer/a\n#x\nd/\u{e9}".as_bytes();
        assert_eq!(lines(text).unwrap(), ["#x", "b c.txt", "d/\u{e9}", "producer/a"]);
        assert_eq!(lines(b"").unwrap(), [""; 0]);
    }

    #[test]
    fn what_is_no_text_is_refused_with_its_line() {
        let why = lines(b"a\nb\n\xff").unwrap_err();
        assert_eq!(why, Failure::hopeless("mrt-delete.txt: line 3 is not UTF-8"));
        assert!(lines(&vec![b'x'; 17 << 20]).unwrap_err().to_string().contains("more than"));
    }

    #[test]
    fn a_line_names_a_producer_file_with_or_without_its_prefix() {
        let there =
            |path: &str| ["producer/a", "producer/ b", "producer/producer/c", "system/d"].contains(&path);
        let found = |line: &str| path_of(line, there);
        for (line, path) in [
            ("a", "producer/a"),
            ("producer/a", "producer/a"),
            (" a ", "producer/a"),
            (" b", "producer/ b"),
            ("producer/producer/c", "producer/producer/c"),
        ] {
            assert_eq!(found(line).as_deref(), Some(path), "{line}");
        }
        for line in ["system/d", "producer/c", "b", "../a", "A"] {
            assert_eq!(found(line), None, "{line}");
        }
    }
}
