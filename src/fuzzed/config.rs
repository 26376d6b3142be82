//! Any text is a configuration, or every problem of it has a place in it.

use toml::Table;

use crate::config::{Environment, Problem, check_text};

pub(super) fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    // A text may be taken from a file, and some of those never end.
    if text.contains("/dev") || text.contains("/proc") || text.contains("/sys") {
        return;
    }
    let problems = check_text(text, &Environment::default()).problems;
    for problem in &problems {
        assert!(has_its_place(problem, text, &problems), "{problem:?} has no place in {text:?}");
        assert!(!problem.to_string().is_empty());
    }
}

/// A problem names a line of the text and a column of that line. Only what is wrong with a default has neither: with a key that is not in
/// the text, or whose value was refused, which is told with its line.
fn has_its_place(problem: &Problem, text: &str, all: &[Problem]) -> bool {
    // Profiles are files of their own.
    if problem.file.is_some() {
        return true;
    }
    match (problem.line, problem.column) {
        (Some(line), Some(column)) => {
            let found = line.checked_sub(1).and_then(|before| text.split('\n').nth(before));
            found.is_some_and(|found| (1..=found.chars().count() + 1).contains(&column))
        }
        (None, None) if problem.key.is_empty() => false,
        (None, None) => match toml::from_str::<Table>(text) {
            Ok(table) => {
                let told = |other: &Problem| other.key == problem.key && other.line.is_some();
                !is_in(&table, &problem.key) || all.iter().any(told)
            }
            // Of what is no TOML nothing is used, so all that is wrong is in it.
            Err(_) => false,
        },
        _ => false,
    }
}

/// Whether a table has a key, as in `pools.downloading.size`. Names may have dots in them.
fn is_in(table: &Table, key: &str) -> bool {
    table.iter().any(|(name, value)| {
        let Some(rest) = key.strip_prefix(name.as_str()) else { return false };
        let inner = || rest.strip_prefix('.').zip(value.as_table());
        rest.is_empty() || inner().is_some_and(|(rest, table)| is_in(table, rest))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(text: &str) -> Vec<Problem> {
        check_text(text, &Environment::default()).problems
    }

    #[test]
    fn only_what_is_wrong_with_a_default_has_no_line() {
        let left_out = "[storage.default]\n[storage.other]\nkind = 'ocfl'\n";
        let found = problems(left_out);
        let [problem] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!((problem.key.as_str(), problem.line), ("storage.other.dir", None));
        assert!(has_its_place(problem, left_out, &found));
        // The same of a key that is there.
        assert!(!has_its_place(problem, &format!("{left_out}dir = 'x'\n"), &found));
        assert!(!has_its_place(problem, "no TOML", &found));
    }

    #[test]
    fn a_place_that_the_text_does_not_have_is_none() {
        let text = "[nod]\nname = 'a'";
        let found = problems(text);
        let [problem] = found.as_slice() else { panic!("{found:?}") };
        assert!(has_its_place(problem, text, &found), "{problem:?}");
        for (line, column) in
            [(None, None), (Some(0), Some(1)), (Some(3), Some(1)), (Some(1), Some(7)), (Some(1), None)]
        {
            let problem = Problem { line, column, ..problem.clone() };
            assert!(!has_its_place(&problem, text, std::slice::from_ref(&problem)), "{problem:?}");
        }
    }
}
