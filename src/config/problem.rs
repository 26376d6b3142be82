//! What is wrong with a configuration, and where.

use std::fmt;
use std::path::PathBuf;

use serde::Serialize;

/// One thing that is wrong. It never holds the value of a secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Problem {
    /// The file it stands in.
    pub file: Option<PathBuf>,
    /// From 1, as is the column; absent if it is about the file as a whole.
    pub line: Option<usize>,
    pub column: Option<usize>,
    /// The variable of the environment that it comes from, if it does not stand in a file.
    pub variable: Option<String>,
    /// As in `pools.downloading.size`; empty if it is about the file as a whole.
    pub key: String,
    pub message: String,
    pub did_you_mean: Option<String>,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(f, "{}:", file.display())?;
            for number in [self.line, self.column].into_iter().flatten() {
                write!(f, "{number}:")?;
            }
            write!(f, " ")?;
        }
        if let Some(variable) = &self.variable {
            write!(f, "{variable}: ")?;
        }
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        write!(f, "{}", self.message)?;
        match &self.did_you_mean {
            Some(meant) => write!(f, "; did you mean `{meant}`?"),
            None => Ok(()),
        }
    }
}

/// Everything that is wrong with a configuration: a line each.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) struct Problems(pub Vec<Problem>);

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.0.iter().map(Problem::to_string).collect();
        write!(f, "{}", lines.join("\n"))
    }
}

/// The name that was perhaps meant: at most a third of its letters away.
pub(super) fn closest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let far = |candidate: &'a str| (strsim::damerau_levenshtein(name, candidate), candidate);
    let near = known.into_iter().map(far);
    let near = near.filter(|(distance, candidate)| *distance <= candidate.chars().count().div_ceil(3));
    near.min().map(|(_, candidate)| candidate.to_owned())
}
