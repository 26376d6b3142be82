//! What went wrong, as an answer: RFC 9457, with a name for each kind.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use ingest_actors::actions::{self, Refused};
use ingest_queue::error::Error;
use ingest_steps::outcome::Failure;

use super::wire::{FieldProblem, Problem};

/// The kinds of problems: the end of `type`, the status, the title.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kind(pub &'static str, pub StatusCode, pub &'static str);

macro_rules! kinds {
    ($($name:ident = $kind:literal, $status:ident, $title:literal;)+) => {
        impl Kind {
            $(pub(crate) const $name: Kind = Kind($kind, StatusCode::$status, $title);)+
            pub(crate) const ALL: &'static [Kind] = &[$(Kind::$name,)+];

            /// By the end of its `type`.
            pub(crate) fn named(name: &str) -> Option<Kind> {
                Self::ALL.iter().copied().find(|kind| kind.0 == name)
            }
        }
    };
}

kinds! {
    INVALID = "invalid", BAD_REQUEST, "The request is not right";
    UNAUTHORIZED = "unauthorized", UNAUTHORIZED, "A token is needed";
    FORBIDDEN = "forbidden", FORBIDDEN, "The role is too low";
    CROSS_ORIGIN = "cross-origin", FORBIDDEN, "The request comes from another site";
    WRONG_HOST = "wrong-host", FORBIDDEN, "This node has another name";
    NOT_FOUND = "not-found", NOT_FOUND, "There is no such thing";
    METHOD_NOT_ALLOWED = "method-not-allowed", METHOD_NOT_ALLOWED, "That cannot be done here";
    NOT_ACCEPTABLE = "not-acceptable", NOT_ACCEPTABLE, "There is no such form of it";
    TIMEOUT = "timeout", REQUEST_TIMEOUT, "The request came too slowly";
    NEEDS_CONFIRMATION = "needs-confirmation", CONFLICT, "It has to be confirmed";
    REFUSED = "refused", CONFLICT, "It is not allowed now";
    BUSY = "busy", CONFLICT, "Somebody works on it";
    CHANGED = "changed", CONFLICT, "It was changed meanwhile";
    EXPIRED = "expired", GONE, "Its time is over";
    TOO_LARGE = "too-large", PAYLOAD_TOO_LARGE, "The body is too large";
    UNSUPPORTED = "unsupported-media-type", UNSUPPORTED_MEDIA_TYPE, "The body has another type";
    RANGE = "range", RANGE_NOT_SATISFIABLE, "There is no such part of it";
    UNPROCESSABLE = "unprocessable", UNPROCESSABLE_ENTITY, "The body does not fit";
    ACCESS_FAILED = "access-failed", FAILED_DEPENDENCY, "The object could not be put together";
    TOO_MANY = "too-many-requests", TOO_MANY_REQUESTS, "Too many requests";
    INTERNAL = "internal", INTERNAL_SERVER_ERROR, "A defect";
    UNREADABLE = "unreadable", INTERNAL_SERVER_ERROR, "The tree holds what nobody can read";
    TREE_AWAY = "tree-away", SERVICE_UNAVAILABLE, "The tree cannot be reached";
    WRONG_TREE = "wrong-tree", SERVICE_UNAVAILABLE, "The tree is not the one that was there before";
    SERVICE_AWAY = "service-away", SERVICE_UNAVAILABLE, "A service cannot be reached";
    BEHIND = "behind", SERVICE_UNAVAILABLE, "This node is behind";
    STARTING = "starting", SERVICE_UNAVAILABLE, "The node is not there yet";
    ENDING = "ending", SERVICE_UNAVAILABLE, "The node ends";
    NO_SPACE = "no-space", INSUFFICIENT_STORAGE, "There is no room for it";
}

/// Why a request is not answered as it was asked.
#[derive(Debug, Clone)]
pub(crate) struct Refusal {
    pub kind: Kind,
    pub detail: String,
    pub problems: Vec<FieldProblem>,
    retry_after: Option<u64>,
    instance: Option<Box<str>>,
}

pub(crate) type Answer<T> = Result<T, Refusal>;

impl Refusal {
    pub(crate) fn new(kind: Kind, detail: impl Into<String>) -> Self {
        let retry_after = (kind.1 == StatusCode::SERVICE_UNAVAILABLE).then_some(2);
        Self { kind, detail: detail.into(), problems: Vec::new(), retry_after, instance: None }
    }

    /// Several problems at once.
    pub(crate) fn of_fields(kind: Kind, problems: Vec<FieldProblem>) -> Self {
        let told = |problem: &FieldProblem| match problem.field.as_str() {
            "" => problem.message.clone(),
            field => format!("{field}: {}", problem.message),
        };
        let list: Vec<String> = problems.iter().map(told).collect();
        let detail = match list.as_slice() {
            [one] => one.clone(),
            all => format!("{} problems: {}", all.len(), all.join("; ")),
        };
        Self { problems, ..Self::new(kind, detail) }
    }

    /// Asking again helps after so many seconds.
    pub(crate) fn later(self, seconds: u64) -> Self {
        Self { retry_after: Some(seconds), ..self }
    }

    pub(crate) fn field(field: &str, message: impl Into<String>) -> Self {
        let problem = FieldProblem { field: field.to_owned(), message: message.into() };
        Self::of_fields(Kind::INVALID, vec![problem])
    }

    pub(crate) fn not_found(what: impl std::fmt::Display) -> Self {
        Self::new(Kind::NOT_FOUND, format!("there is no {what}"))
    }

    /// Something that cannot be: the log has it, and the answer says only where to look.
    pub(crate) fn defect(what: impl std::fmt::Display) -> Self {
        let instance = uuid::Uuid::new_v4().simple().to_string();
        tracing::error!(instance, error = %what, "a request could not be answered");
        let detail = format!("it is in the node's log, as {instance}");
        Self { instance: Some(instance.into()), ..Self::new(Kind::INTERNAL, detail) }
    }
}

impl From<Refused> for Refusal {
    fn from(refused: Refused) -> Self {
        if refused.kind == actions::Kind::Internal {
            return Self::defect(refused.detail());
        }
        let kind = Kind::named(refused.kind.name()).unwrap_or(Kind::INTERNAL);
        let problems = refused.problems.iter();
        let problems =
            problems.map(|one| FieldProblem { field: one.field.clone(), message: one.message.clone() });
        Self { problems: problems.collect(), ..Self::new(kind, refused.detail()) }
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Refused::from(error).into()
    }
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Hopeless(why) => Self::new(Kind::NOT_FOUND, why),
            Failure::Later(why) => Self::new(Kind::SERVICE_AWAY, why),
            Failure::Again(why) => Self::new(Kind::TREE_AWAY, why),
            failure => Self::defect(failure),
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let Self { kind: Kind(name, status, title), detail, problems, retry_after, instance } = self;
        let problem = Problem {
            kind: format!("urn:ingestd:problem:{name}"),
            title: title.to_owned(),
            status: status.as_u16(),
            detail,
            instance: instance.map(|id| format!("urn:uuid:{id}")),
            problems,
        };
        let mut response = (status, Json(problem)).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(seconds) = retry_after {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_on_the_page() {
        let page = include_str!("../../docs/api.md");
        for Kind(name, status, _) in Kind::ALL {
            let there = page.lines().any(|line| {
                line.contains(&format!("`{name}`")) && line.contains(&format!("| {} |", status.as_u16()))
            });
            assert!(there, "{name} {status}");
        }
    }

    #[test]
    fn several_problems_are_one_answer() {
        let problem = |field: &str| FieldProblem { field: field.into(), message: "wrong".into() };
        let refusal = Refusal::of_fields(Kind::INVALID, vec![problem("a"), problem("")]);
        assert_eq!(refusal.detail, "2 problems: a: wrong; wrong");
        assert_eq!(Refusal::field("a", "wrong").detail, "a: wrong");
    }
}
