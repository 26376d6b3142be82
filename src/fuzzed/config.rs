//! Any text is a configuration, or every problem of it has a place in it.

use crate::config::{Environment, check_text};

pub(super) fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    // A text may be taken from a file, and some of those never end.
    if text.contains("/dev") || text.contains("/proc") || text.contains("/sys") {
        return;
    }
    let lines = text.split('\n').count();
    let checked = check_text(text, &Environment::default());
    for problem in &checked.problems {
        // Profiles are files of their own.
        let lies_within =
            problem.file.is_some() || problem.line.is_none_or(|line| (1..=lines).contains(&line));
        assert!(lies_within, "{problem}: there are {lines} lines");
        assert!(!problem.to_string().is_empty());
    }
}
