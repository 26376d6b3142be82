//! A uuid that has a batch: whether its payload is there, and a retry that brings one that is missing.
//!
//! **When things break.** A file is taken only if it is the one that the batch names: of the same submitter and profile, with its
//! size and digest. A node that has the payload and cannot be asked makes it `unknown`, and nothing is changed.

use std::path::Path;
use std::time::Duration;

use ingest_queue::ids::Bid;
use ingest_queue::nodes::Submission;
use ingest_queue::queue::Queue;
use ingest_steps::digest::Digest;
use ingest_steps::fetch::Fetcher;
use ingest_steps::upload_nodes::UPLOAD_NODE;
use ingest_steps::urls::Urls;
use reqwest::StatusCode;
use serde_json::Value;
use url::Url;

use super::upload::{self, Upload};
use crate::api::caller::Caller;
use crate::api::problem::{Answer, Kind, Refusal};
use crate::api::wire::{FieldProblem, PayloadState};

/// How long the node that has a payload may take to say so.
const SOON: Duration = Duration::from_secs(5);

/// Where uploads are, and who this is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<'a> {
    pub uploads: &'a Path,
    pub urls: &'a Urls,
    pub node: &'a str,
    pub fetcher: &'a Fetcher,
}

/// The upload that a submission names.
#[derive(Debug)]
enum Named {
    Here(String),
    At(Url),
}

impl Place<'_> {
    fn named(&self, first: &Submission) -> Option<Named> {
        let text = first.payload_url.as_deref()?;
        let (id, url) = (upload::id_in(text)?, Url::parse(text).ok()?);
        let own = url.origin() == self.urls.public().origin();
        match first.other.get(UPLOAD_NODE).and_then(Value::as_str) {
            Some(node) if node == self.node => Some(Named::Here(id)),
            Some(_) => Some(Named::At(url)),
            // Submitted to a node that did not note it.
            None => own.then_some(Named::Here(id)),
        }
    }

    /// Whether the payload of a batch is there; `None` if it is no upload.
    pub(super) async fn payload(&self, first: &Submission) -> Option<PayloadState> {
        Some(match self.named(first)? {
            Named::Here(id) => {
                let file = upload::payload_of(self.uploads, &id);
                match tokio::fs::try_exists(file).await {
                    Ok(true) => PayloadState::Present,
                    Ok(false) => PayloadState::Missing,
                    Err(_) => PayloadState::Unknown,
                }
            }
            Named::At(url) => self.asked(url).await,
        })
    }

    async fn asked(&self, url: Url) -> PayloadState {
        let Some(client) = self.fetcher.inside() else { return PayloadState::Unknown };
        match client.head(url).timeout(SOON).send().await.map(|answer| answer.status()) {
            Ok(status) if status.is_success() => PayloadState::Present,
            Ok(StatusCode::NOT_FOUND) => PayloadState::Missing,
            _ => PayloadState::Unknown,
        }
    }

    /// The payload of a batch that a retry was answered with; what it brings is stored if that is missing here.
    pub(super) async fn supplied(
        &self,
        first: &Submission,
        (bid, uuid): (Bid, &str),
        retry: &Submission,
        brought: Option<Upload>,
    ) -> Answer<Option<PayloadState>> {
        let state = self.payload(first).await;
        let (Some(PayloadState::Missing), Some(Named::Here(id)), Some(brought)) =
            (state, self.named(first), brought)
        else {
            return Ok(state);
        };
        if (&first.submitter, &first.profile_name) != (&retry.submitter, &retry.profile_name) {
            let why = format!(
                "the payload of {bid} is missing, and this is not taken for it: another submitter or profile has submitted {bid}"
            );
            return Err(Refusal::new(Kind::REFUSED, why));
        }
        let (size, digest) = announced(first);
        if let Some(problem) = brought.compare(size, digest.as_ref()).await? {
            let message =
                format!("the payload of {bid} is missing, and this is another file: {}", problem.message);
            return Err(Refusal::of_fields(
                Kind::INVALID,
                vec![FieldProblem { field: "file".into(), message }],
            ));
        }
        brought.replace(&id, uuid, bid).await?;
        tracing::info!(batch = %bid, "the payload was missing, and was sent again");
        Ok(Some(PayloadState::Supplied))
    }
}

/// The size and the digest of the payload, as the batch has them.
fn announced(first: &Submission) -> (Option<u64>, Option<Digest>) {
    let text = |name: &str| first.other.get(name).and_then(Value::as_str);
    let digest = text("digest_type").and_then(|name| name.parse().ok()).zip(text("digest_value"));
    let digest = digest.and_then(|(algorithm, value)| Digest::new(algorithm, value).ok());
    (first.other.get("size").and_then(Value::as_u64), digest)
}

/// The first submission with a uuid, if the caller may see it.
pub(super) async fn first(queue: &Queue, caller: &Caller, bid: Bid) -> Answer<Submission> {
    let first = queue.submission(bid).await?;
    if caller.only().is_some_and(|own| own != first.submitter) {
        return Err(Refusal::new(Kind::REFUSED, "this uuid is somebody else's: make another"));
    }
    Ok(first)
}
