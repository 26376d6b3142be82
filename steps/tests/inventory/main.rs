//! The inventory: one suite of behaviours on both databases, and what is special about each.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests fail by panicking")]

mod behaviours;
mod hostile;
mod migrations;
mod place;
mod postgres;
mod races;
mod server;
mod sqlite;

use ingest_queue::date::Date;
use ingest_queue::ids::{Bid, Jid};
use ingest_steps::ark::Ark;
use ingest_steps::digest::{Algorithm, Digest, Digests};
use ingest_steps::inventory::{File, Ingest, Record};

pub(crate) const OWNER: &str = "ark:/99999/j2ucop";

pub(crate) fn ark(name: &str) -> Ark {
    Ark::new("13030", name).unwrap()
}

/// A file with this content, digested twice.
pub(crate) fn file(path: &str, content: &str) -> File {
    let mut digests = Digests::of([Algorithm::Sha256, Algorithm::Md5]);
    digests.update(content.as_bytes());
    File {
        path: path.into(),
        size: content.len() as u64,
        digests: digests.finish(),
        mime: Some("text/plain".into()),
    }
}

/// A version by a job of that number, with a file of its own.
pub(crate) fn record(name: &str, version: u32, job: u32) -> Record {
    Record {
        ark: ark(name),
        owner: OWNER.into(),
        collection: "ucop_demo".into(),
        version,
        key: format!("{}/recording/0", Jid::new(job)),
        local_ids: vec![format!("local-{name}")],
        title: Some("Tender Buttons".into()),
        creator: Some("Stein, Gertrude".into()),
        date: None,
        files: vec![
            file("producer/text.txt", &format!("version {version}")),
            file("system/mrt-erc.txt", "erc:"),
        ],
        ingest: Ingest {
            bid: Bid::new(3),
            jid: Jid::new(job),
            submitter: "depositor".into(),
            profile: "ucop_demo_content".into(),
            at: Date::from_millis(1_763_257_425_123),
        },
    }
}

/// The digest of one algorithm with every digit the same.
pub(crate) fn digest(algorithm: Algorithm, digit: &str) -> Digest {
    Digest::new(algorithm, &digit.repeat(algorithm.digits())).unwrap()
}
