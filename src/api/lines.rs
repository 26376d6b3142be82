//! Answers that come in lines, one JSON document each, while the work goes on.
//!
//! **When things break.** Whoever leaves early ends the work, unless it is better done to its end. Whoever reads slowly
//! slows it down; only what says how far it is, is left out then. A line without anything comes from time to time, so
//! that nothing in between takes the answer for dead.

use std::convert::Infallible;
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use serde::Serialize;
use tokio::sync::mpsc;

use super::app::App;
use super::problem::{Answer, Kind, Refusal};
use super::wire::{Problem, Role};

/// Lines that may wait for a slow reader.
const WAITING: usize = 64;
/// How often it is said how far it is.
const OFTEN: Duration = Duration::from_millis(250);
/// How long it may be silent.
const BEAT: Duration = Duration::from_secs(15);

pub(crate) const JSON_LINES: &str = "application/x-ndjson";

/// Where lines are told.
#[derive(Debug, Clone)]
pub(crate) struct Teller {
    sender: mpsc::Sender<Bytes>,
    last: Option<Instant>,
}

impl Teller {
    /// How far it is: not too often, and only if there is room.
    pub(crate) fn progress(&mut self, line: impl FnOnce() -> Bytes) {
        if self.last.is_none_or(|last| last.elapsed() >= OFTEN) {
            self.last = Some(Instant::now());
            let _ = self.sender.try_send(line());
        }
    }

    /// A line that counts. Nobody may be there to read it.
    pub(crate) async fn tell(&self, line: Bytes) {
        let _ = self.sender.send(line).await;
    }
}

/// A document on a line.
pub(crate) fn line(document: &impl Serialize) -> Bytes {
    let mut text = serde_json::to_vec(document).unwrap_or_else(|_| b"{}".to_vec());
    text.push(b'\n');
    text.into()
}

/// What has ended the work, as the last line.
pub(crate) fn problem(refusal: Refusal) -> Problem {
    let Refusal { kind: Kind(name, status, title), detail, problems, .. } = refusal;
    Problem {
        kind: format!("urn:ingestd:problem:{name}"),
        title: title.to_owned(),
        status: status.as_u16(),
        detail,
        instance: None,
        problems,
    }
}

/// Answers with the lines that the work tells. `to_its_end`: also if nobody reads any more.
pub(crate) fn answer<W, F>(app: &App, to_its_end: bool, work: W) -> Answer<Response>
where
    W: FnOnce(Teller) -> F,
    F: Future<Output = ()> + Send + 'static,
{
    let permit = app.streams.open(Role::Operator)?;
    let (sender, receiver) = mpsc::channel(WAITING);
    let work = work(Teller { sender: sender.clone(), last: None });
    tokio::spawn(async move {
        if to_its_end {
            drop(sender);
            work.await;
        } else {
            tokio::select! {
                () = work => {}
                () = sender.closed() => {}
            }
        }
        drop(permit);
    });
    let lines = futures::stream::unfold(receiver, |mut receiver| async move {
        let next = match tokio::time::timeout(BEAT, receiver.recv()).await {
            Ok(next) => next?,
            Err(_) => Bytes::from_static(b"\n"),
        };
        Some((Ok::<_, Infallible>(next), receiver))
    });
    Ok(([(header::CONTENT_TYPE, JSON_LINES)], Body::from_stream(lines)).into_response())
}
