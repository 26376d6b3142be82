//! What users and disks can get wrong: each is refused with its kind, and a message that says what
//! is wrong with which thing. Nothing here may panic.

// In a test, also in its helpers, an unwrap is an assertion.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod arguments;
mod files;
mod identity;
mod owners;
mod servers;
mod tls;

use std::time::Duration;

use ingest_store::{Error, Kind};

/// The error has this kind, and its message has all of these parts.
#[track_caller]
pub(crate) fn says(error: &Error, kind: Kind, parts: &[&str]) {
    let text = error.to_string();
    assert_eq!(error.kind(), kind, "{text}");
    for part in parts {
        assert!(text.contains(part), "no {part:?} in: {text}");
    }
}

pub(crate) async fn within<T>(what: impl Future<Output = T>) -> T {
    let patience = Duration::from_mins(2);
    tokio::time::timeout(patience, what).await.expect("what is awaited did not happen within two minutes")
}
