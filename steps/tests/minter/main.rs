//! The minters: the local one on both engines and under faults, EZID against a server that is strict.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests fail by panicking")]

#[path = "../kit/clock.rs"]
mod clock;
mod ezid;
mod faults;
mod local;
mod service;
#[allow(dead_code, reason = "each suite uses its part of it")]
#[path = "../../../store/tests/support/tree.rs"]
mod tree;

use ingest_steps::minter::MintRequest;

/// A request that has everything.
pub(crate) fn request() -> MintRequest {
    MintRequest {
        key: "jid0000000007/processing/0".into(),
        owner: "ark:/99999/j2ucop".into(),
        who: Some("Stein, Gertrude".into()),
        what: Some("Tender Buttons: Objects".into()),
        when: Some("1914".into()),
        target: Some("https://repository.example.org/m/?id=7".into()),
    }
}
