//! What is wrong with a manifest, and where: a bounded list, and a count of the rest.

use std::fmt;

use serde::{Serialize, Serializer};

/// One fault, at a line and at the character of it where the offending field begins; both count from 1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    pub line: u64,
    pub column: u64,
    pub problem: String,
}

impl Problem {
    pub(super) fn new(line: u64, column: u64, problem: impl Into<String>) -> Self {
        Self { line, column, problem: problem.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: {}", self.line, self.column, self.problem)
    }
}

/// Faults in the order of their lines. Displays as a line for each; serialises as a list of
/// `{line, column, problem}`. When there were more than the limit, the last entry says how many, at the
/// place of the first that is not listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problems {
    list: Vec<Problem>,
    limit: usize,
    more: u64,
    /// Where the first one is that found no room.
    more_from: (u64, u64),
}

impl Problems {
    pub(super) fn none(limit: usize) -> Self {
        Self { list: Vec::new(), limit, more: 0, more_from: (0, 0) }
    }

    pub(super) fn push(&mut self, problem: Problem) {
        if self.list.len() < self.limit {
            self.list.push(problem);
        } else {
            if self.more == 0 {
                self.more_from = (problem.line, problem.column);
            }
            self.more += 1;
        }
    }

    pub(super) fn extend(&mut self, others: Problems) {
        for problem in others.list {
            self.push(problem);
        }
        if others.more > 0 {
            if self.more == 0 {
                self.more_from = others.more_from;
            }
            self.more += others.more;
        }
    }

    /// Puts those that are listed into the order of their places.
    pub(super) fn sort(&mut self) {
        self.list.sort_by_key(|problem| (problem.line, problem.column));
    }

    /// An error if there is one.
    pub(super) fn into_result(self) -> Result<(), Problems> {
        if self.is_empty() { Ok(()) } else { Err(self) }
    }

    pub fn is_empty(&self) -> bool {
        self.list.is_empty() && self.more == 0
    }

    /// Those that are listed.
    pub fn list(&self) -> &[Problem] {
        &self.list
    }

    /// How many there are beyond the list.
    pub fn more(&self) -> u64 {
        self.more
    }

    fn rest(&self) -> Option<Problem> {
        let (line, column) = self.more_from;
        (self.more > 0).then(|| Problem::new(line, column, format!("and {} more", self.more)))
    }
}

impl From<Problem> for Problems {
    fn from(problem: Problem) -> Self {
        vec![problem].into()
    }
}

/// All of them, however many.
impl From<Vec<Problem>> for Problems {
    fn from(list: Vec<Problem>) -> Self {
        Problems { limit: list.len(), list, more: 0, more_from: (0, 0) }
    }
}

impl std::error::Error for Problems {}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.list.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{problem}")?;
        }
        if self.more > 0 {
            write!(f, "\nand {} more", self.more)?;
        }
        Ok(())
    }
}

impl Serialize for Problems {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.list.iter().cloned().chain(self.rest()))
    }
}

/// What a depositor wrote, fit to stand in a message: short, and without control characters.
pub(super) fn shown(text: &str) -> String {
    const MOST: usize = 80;
    let mut shown = String::new();
    for (index, c) in text.chars().enumerate() {
        if index == MOST {
            shown.push('…');
            break;
        }
        // Line breaks and terminal sequences of a hostile manifest must not reach a log as they are.
        if c.is_control() {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beyond_the_limit_problems_are_counted() {
        let mut problems = Problems::none(2);
        for line in 1..=4 {
            problems.push(Problem::new(line, 7, "no URL"));
        }
        problems.extend(Problem::new(5, 1, "no name").into());
        assert_eq!((problems.list().len(), problems.more()), (2, 3));
        assert_eq!(problems.to_string(), "line 1, column 7: no URL\nline 2, column 7: no URL\nand 3 more");
        assert_eq!(
            serde_json::to_value(&problems).unwrap(),
            serde_json::json!([
                {"line": 1, "column": 7, "problem": "no URL"},
                {"line": 2, "column": 7, "problem": "no URL"},
                {"line": 3, "column": 7, "problem": "and 3 more"},
            ])
        );
    }

    #[test]
    fn what_is_shown_is_short_and_cannot_move_a_terminal() {
        assert_eq!(shown("a\u{1b}[2J\nb"), "a\\u{1b}[2J\\nb");
        assert_eq!(shown(&"é".repeat(5000)).chars().count(), 81);
    }
}
