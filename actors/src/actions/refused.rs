//! Why an action is not done. The names are those of the API's problems.

use ingest_queue::error::Error;
use ingest_store::Kind as StoreKind;
use serde::Serialize;
use serde_json::{Value, json};

/// The kinds of problems.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Invalid,
    Unprocessable,
    NotFound,
    NeedsConfirmation,
    Refused,
    Busy,
    Changed,
    TooLarge,
    Unreadable,
    TreeAway,
    Starting,
    Internal,
}

impl Kind {
    /// As in `urn:ingestd:problem:NAME`.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Invalid => "invalid",
            Kind::Unprocessable => "unprocessable",
            Kind::NotFound => "not-found",
            Kind::NeedsConfirmation => "needs-confirmation",
            Kind::Refused => "refused",
            Kind::Busy => "busy",
            Kind::Changed => "changed",
            Kind::TooLarge => "too-large",
            Kind::Unreadable => "unreadable",
            Kind::TreeAway => "tree-away",
            Kind::Starting => "starting",
            Kind::Internal => "internal",
        }
    }
}

/// What is wrong with one field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FieldProblem {
    pub field: String,
    pub message: String,
}

/// An action that is not done.
#[derive(Debug, Clone, PartialEq)]
pub struct Refused {
    pub kind: Kind,
    detail: String,
    pub problems: Vec<FieldProblem>,
}

impl Refused {
    pub fn new(kind: Kind, detail: impl Into<String>) -> Self {
        Self { kind, detail: detail.into(), problems: Vec::new() }
    }

    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// Several at once.
    pub fn of_fields(kind: Kind, problems: Vec<FieldProblem>) -> Self {
        let told = |problem: &FieldProblem| match problem.field.as_str() {
            "" => problem.message.clone(),
            field => format!("{field}: {}", problem.message),
        };
        let list: Vec<String> = problems.iter().map(told).collect();
        let detail = match list.as_slice() {
            [one] => one.clone(),
            all => format!("{} problems: {}", all.len(), all.join("; ")),
        };
        Self { kind, detail, problems }
    }

    pub fn field(field: &str, message: impl Into<String>) -> Self {
        let problem = FieldProblem { field: field.to_owned(), message: message.into() };
        Self::of_fields(Kind::Invalid, vec![problem])
    }

    pub fn unprocessable(field: &str, message: impl Into<String>) -> Self {
        let problem = FieldProblem { field: field.to_owned(), message: message.into() };
        Self::of_fields(Kind::Unprocessable, vec![problem])
    }

    /// There is nothing of this name: says which one may be meant, and if none is like it, the rest.
    pub fn unknown<'a>(what: &str, name: &str, known: impl Iterator<Item = &'a str>, rest: &str) -> Self {
        let shown: String = name.chars().take(64).collect();
        let hint = match ingest_steps::profile::closest(name, known) {
            Some(meant) => format!("; did you mean `{meant}`?"),
            None if rest.is_empty() => String::new(),
            None => format!("; {rest}"),
        };
        Self::new(Kind::NotFound, format!("there is no {what} {}{hint}", shown.escape_debug()))
    }

    /// The session is over, or nobody can say what became of it: it is no answer to a request.
    pub fn is_no_answer(&self) -> bool {
        self.kind == Kind::TreeAway
    }

    /// As it stands in a result.
    pub fn problem(&self) -> Value {
        json!({
            "type": format!("urn:ingestd:problem:{}", self.kind.name()),
            "detail": self.detail,
            "problems": self.problems,
        })
    }
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        let detail = error.to_string();
        let kind = match &error {
            Error::Refused { .. } | Error::Forbidden { .. } | Error::Deleting(_) => Kind::Refused,
            Error::Busy { .. } | Error::AtLimit { .. } => Kind::Busy,
            Error::Lost { .. } | Error::Changed { .. } => Kind::Changed,
            Error::NotFound(_) => Kind::NotFound,
            Error::Corrupt { .. } => Kind::Unreadable,
            Error::NotExpected { .. } => {
                let problem = FieldProblem { field: "expected".to_owned(), message: detail };
                return Self::of_fields(Kind::Changed, vec![problem]);
            }
            Error::Invalid(why) => return Self::field("", why.clone()),
            Error::Store(store) => of_store(store),
            _ => Kind::Internal,
        };
        Self::new(kind, detail)
    }
}

fn of_store(error: &ingest_store::Error) -> Kind {
    use ingest_store::error::Next;
    match (error.kind(), error.next()) {
        (StoreKind::Corrupt, _) => Kind::Unreadable,
        (StoreKind::TooLarge, _) => Kind::TooLarge,
        (_, Next::ReadAgain) => Kind::Changed,
        (_, Next::GiveUp) => Kind::Internal,
        (_, Next::FindOut | Next::RetryLater | Next::Rebuild | Next::StopNode) => Kind::TreeAway,
    }
}
