//! A file on its way to the node.

use std::path::Path;

use anyhow::{Context as _, Result};
use futures::StreamExt as _;
use ingest_steps::digest::{Algorithm, Digests};
use reqwest::multipart::{Form, Part};
use tokio_util::io::ReaderStream;

use crate::api::wire::{Submission, Submitted};
use crate::cli::client::Client;
use crate::cli::progress;

const CHUNK: usize = 128 << 10;

/// Sends a file with what is said of it.
pub(super) async fn upload(
    client: &Client,
    path: &Path,
    name: Option<String>,
    submission: Submission,
) -> Result<Submitted> {
    let shown = path.display().to_string();
    let file = tokio::fs::File::open(path).await.with_context(|| shown.clone())?;
    let size = file.metadata().await.with_context(|| shown.clone())?.len();
    let submission = digested(path, submission).await.with_context(|| shown.clone())?;
    let own_name = || path.file_name().map(|name| name.to_string_lossy().into_owned());
    let name = submission.filename.clone().or(name).or_else(own_name).unwrap_or_else(|| "payload".to_owned());
    let bar = progress::bytes(Some(size), "sending");
    let counted = bar.clone();
    let stream = ReaderStream::with_capacity(file, CHUNK).inspect(move |piece| {
        if let Ok(piece) = piece {
            counted.inc(piece.len() as u64);
        }
    });
    let part = Part::stream_with_length(reqwest::Body::wrap_stream(stream), size).file_name(name);
    let answer = client.upload(&["batches"], form(&submission, size).part("file", part)).await;
    bar.finish_and_clear();
    answer
}

/// With a digest, if none was given.
async fn digested(path: &Path, submission: Submission) -> std::io::Result<Submission> {
    if submission.digest_value.is_some() {
        return Ok(submission);
    }
    let path = path.to_owned();
    let bar = progress::waiting("digesting");
    let digests = tokio::task::spawn_blocking(move || {
        let mut digests = Digests::of([Algorithm::Sha256]);
        digests.read_file(&path).map(|()| digests.finish())
    });
    let digests = digests.await.map_err(std::io::Error::other)??;
    bar.finish_and_clear();
    let Some(digest) = digests.into_iter().next() else { return Ok(submission) };
    Ok(Submission {
        digest_type: Some(digest.algorithm().name().to_owned()),
        digest_value: Some(digest.hex().to_owned()),
        ..submission
    })
}

/// The fields in the convention of forms.
fn form(submission: &Submission, size: u64) -> Form {
    let number = |value: &Option<serde_json::Value>| {
        value.as_ref().map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
    };
    let ids = (!submission.local_id.is_empty()).then(|| submission.local_id.join("; "));
    let fields = [
        ("profile", Some(submission.profile.clone())),
        ("submitter", Some(submission.submitter.clone()).filter(|name| !name.is_empty())),
        ("type", submission.kind.clone()),
        ("filename", submission.filename.clone()),
        ("size", Some(size.to_string())),
        ("digestType", submission.digest_type.clone()),
        ("digestValue", submission.digest_value.clone()),
        ("primaryIdentifier", submission.primary_id.clone()),
        ("localIdentifier", ids),
        ("creator", submission.creator.clone()),
        ("title", submission.title.clone()),
        ("date", submission.date.clone()),
        ("note", submission.note.clone()),
        ("notification", submission.notification.clone()),
        ("submission_mode", submission.submission_mode.clone()),
        ("priority", number(&submission.priority)),
        ("process_date", submission.process_date.clone()),
        ("expiration_date", submission.expiration_date.clone()),
        ("insertion_date", submission.insertion_date.clone()),
        ("key", submission.key.clone()),
        ("uuid", submission.uuid.clone()),
    ];
    let mut form = Form::new();
    for (name, value) in fields {
        if let Some(value) = value {
            form = form.text(name, value);
        }
    }
    for (term, value) in &submission.dc {
        form = form.text(format!("DC.{term}"), value.clone());
    }
    form
}
