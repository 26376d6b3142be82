//! How a command ends: the exit codes, and what stands behind each.

use std::process::ExitCode;

use crate::api::wire::Problem;
use crate::config::Problems;

use super::screen::Screen;
use super::{config, run};

/// All of them, for the help and for the page.
pub(crate) const CODES: [(&str, &str); 11] = [
    ("0", "done"),
    ("1", "it failed: the reason is the last line on stderr. Of fsck and audit: something was found"),
    (
        "2",
        "the command was wrong, or the node found something wrong in what it was given: every problem is a line",
    ),
    ("3", "the configuration is wrong: every problem is a line"),
    (
        "4 to 7",
        "of run: it cannot work at all; something died too often; the grace was over; it was told to end at once",
    ),
    ("8", "no node answers, or it cannot do it now, or what is wanted is not there yet: try again later"),
    ("9", "not permitted: no token, an unknown one, or its role is too low"),
    ("10", "there is no such thing, or its time is over"),
    ("11", "refused: its state forbids it, a worker has it, or it was changed meanwhile"),
    ("12", "not confirmed: answer the question, or say --yes"),
    ("13", "done, but not all is well: the batch has not completed, or some of several things were refused"),
];

/// Why a command that talks to a node has not done what it was for.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failed {
    #[error("{0}")]
    Usage(String),
    #[error(
        "no node answers at {server} ({why}). Start one with `ingestd run`, or say where it is with --server or INGESTD_SERVER"
    )]
    NoServer { server: String, why: String },
    #[error("{}", told(.0))]
    Problem(Box<Problem>),
    #[error("what answers at {server} is not understood ({why}): is it a node, of this version?")]
    NotUnderstood { server: String, why: String },
    #[error("{0}")]
    NotThere(String),
    #[error("{0}")]
    NotYet(String),
    #[error("{0}")]
    NotConfirmed(String),
    #[error("{0}")]
    NotAll(String),
    /// What was found is on the screen already.
    #[error("{0}")]
    Found(String),
    /// Whoever read stdout has left.
    #[error("nobody reads any more")]
    NobodyReads,
}

impl Failed {
    pub(crate) fn code(&self) -> u8 {
        match self {
            Failed::NobodyReads => 0,
            Failed::NotUnderstood { .. } | Failed::Found(_) => 1,
            Failed::Usage(_) => 2,
            Failed::NoServer { .. } | Failed::NotYet(_) => 8,
            Failed::Problem(problem) => of_problem(problem),
            Failed::NotThere(_) => 10,
            Failed::NotConfirmed(_) => 12,
            Failed::NotAll(_) => 13,
        }
    }
}

fn of_problem(problem: &Problem) -> u8 {
    let kind = problem.kind.rsplit(':').next().unwrap_or_default();
    match (problem.status, kind) {
        (_, "needs-confirmation") => 12,
        (400 | 405 | 406 | 413 | 415 | 422 | 431, _) => 2,
        (401 | 403, _) => 9,
        (404 | 410, _) => 10,
        (409, _) => 11,
        (408 | 429 | 503, _) => 8,
        _ => 1,
    }
}

/// The title and what helps; the list is told apart, a line each.
fn told(problem: &Problem) -> String {
    let Problem { title, detail, instance, problems, .. } = problem;
    let mut text = title.clone();
    if !detail.is_empty() && problems.is_empty() {
        text = format!("{text}: {detail}");
    }
    if let Some(instance) = instance {
        text = format!("{text} (in the node's log: {instance})");
    }
    text
}

/// Tells why, and makes the code.
pub(super) fn failed(error: &anyhow::Error) -> ExitCode {
    if let Some(problems) = error.downcast_ref::<Problems>() {
        for line in problems.to_string().lines() {
            Screen::note(line);
        }
        return failed(&config::Wrong(problems.0.len()).into());
    }
    if let Some(failed) = error.downcast_ref::<Failed>() {
        if let Failed::Problem(problem) = failed {
            for one in &problem.problems {
                let field = if one.field.is_empty() { String::new() } else { format!("{}: ", one.field) };
                Screen::note(&format!("  {field}{}", one.message));
            }
        }
        if !matches!(failed, Failed::NobodyReads) {
            Screen::complain(&format!("{error:#}"));
        }
        return ExitCode::from(failed.code());
    }
    Screen::complain(&format!("{error:#}"));
    if let Some(ended) = error.downcast_ref::<run::Ended>() {
        return ExitCode::from(ended.code());
    }
    if error.is::<config::Wrong>() { ExitCode::from(super::BAD_CONFIGURATION) } else { ExitCode::FAILURE }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_problem_has_its_code() {
        let code = |status, kind: &str| {
            let kind = format!("urn:ingestd:problem:{kind}");
            let problem = Problem {
                kind,
                title: "Title".into(),
                status,
                detail: String::new(),
                instance: None,
                problems: Vec::new(),
            };
            Failed::Problem(Box::new(problem)).code()
        };
        let all = [
            (400, "invalid", 2),
            (401, "unauthorized", 9),
            (403, "forbidden", 9),
            (404, "not-found", 10),
            (409, "needs-confirmation", 12),
            (409, "refused", 11),
            (409, "busy", 11),
            (410, "expired", 10),
            (422, "unprocessable", 2),
            (424, "access-failed", 1),
            (429, "too-many-requests", 8),
            (500, "internal", 1),
            (503, "tree-away", 8),
            (507, "no-space", 1),
        ];
        for (status, kind, expected) in all {
            assert_eq!(code(status, kind), expected, "{status} {kind}");
        }
    }
}
