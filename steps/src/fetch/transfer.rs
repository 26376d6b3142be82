//! One attempt at a file: from an answer into its part.
//!
//! Chunks go through a short queue to a thread that hashes and writes them, so that the network, the digests
//! and the disk work at once and the runtime waits for none of them.
//!
//! **When things break.** An answer that does not continue what is here starts it again; one that is longer
//! than it may be is left at once. Whatever ends an attempt, the writer has ended too before this returns.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use reqwest::header::{HeaderMap, TRANSFER_ENCODING};
use reqwest::{Method, Response, StatusCode};
use tokio::sync::mpsc;
use url::Url;

use super::answer::{continues, continuing, refused};
use super::body::Body;
use super::coding::Coding;
use super::part::{Keep, Note, Part, disk, hash, mismatch};
use super::redact::redacted;
use super::retry::{Again, Broken};
use super::size::length;
use super::{Fetched, Fetcher, Rules, Wanted, local};
use crate::digest::{Digest, Digests};
use crate::outcome::{Cancel, Failure, Progress, Result};

/// How many chunks may wait for the writer.
const QUEUE: usize = 32;

/// How long a file may be, and what says so: for the message.
#[derive(Debug, Clone, Copy)]
pub struct Most {
    pub bytes: u64,
    pub by: &'static str,
}

impl Most {
    /// The lesser one of what was asked for and of what the rules allow.
    pub(super) fn within(self, rules: &Rules) -> Self {
        if self.bytes < rules.max_bytes { self } else { Self::by_rules(rules) }
    }

    pub(super) fn by_rules(rules: &Rules) -> Self {
        Self { bytes: rules.max_bytes, by: "fetch.max_bytes" }
    }

    /// With what was announced.
    fn of(self, size: Option<u64>) -> u64 {
        size.unwrap_or(u64::MAX).min(self.bytes)
    }

    fn passed(self, url: &Url) -> Failure {
        Failure::fail(format!("{}: is longer than {} bytes (`{}`)", redacted(url), self.bytes, self.by))
    }
}

/// A part that the writer's thread and the attempt use in turn.
pub(super) type Shared = Arc<Mutex<Part>>;

/// Does blocking work off the runtime.
pub(super) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    crate::outcome::on_a_thread(work)
        .await
        .map_err(|error| Failure::fail(format!("writing a file ended without an answer: {error}")))
}

async fn with<T: Send + 'static>(
    part: &Shared,
    work: impl FnOnce(&mut Part) -> T + Send + 'static,
) -> Result<T> {
    let part = part.clone();
    blocking(move || work(&mut part.lock())).await
}

/// Takes a file that is there already, if its size and digests are those announced.
pub(super) async fn adopt(
    wanted: &Wanted,
    to: &Path,
    progress: &Progress,
    cancel: &Cancel,
) -> Result<Option<Fetched>> {
    if wanted.digests.is_empty() {
        return Ok(None);
    }
    let (wanted, to, progress, cancel) = (wanted.clone(), to.to_owned(), progress.clone(), cancel.clone());
    blocking(move || {
        let Ok(there) = std::fs::symlink_metadata(&to) else { return Ok(None) };
        if !there.is_file() || wanted.size.is_some_and(|size| size != there.len()) {
            return Ok(None);
        }
        let file = std::fs::File::open(&to).map_err(|error| disk("read", &to, &error))?;
        let mut digests = Digests::of(wanted.all_algorithms());
        hash(&file, &mut digests, &progress, &cancel).map_err(|failed| failed.at(&to))?;
        let size = digests.bytes();
        let digests = digests.finish();
        if mismatch(&wanted.digests, &digests).is_some() {
            return Ok(None);
        }
        progress.add_bytes(size);
        Ok(Some(Fetched { size, digests, retries: 0 }))
    })
    .await?
}

pub(super) async fn open(
    wanted: &Wanted,
    most: Most,
    to: &Path,
    progress: &Progress,
    cancel: &Cancel,
) -> Result<Shared, Broken> {
    let keep = Keep {
        url: wanted.url.clone(),
        algorithms: wanted.all_algorithms(),
        verified: !wanted.digests.is_empty(),
        most: most.of(wanted.size),
    };
    let (to, progress, cancel): (PathBuf, _, _) = (to.to_owned(), progress.clone(), cancel.clone());
    let part = blocking(move || Part::open(&to, keep, &progress, &cancel)).await??;
    Ok(Arc::new(Mutex::new(part)))
}

/// After an attempt that did not end well: what is here is kept for the next.
pub(super) async fn settle(part: &Shared, broken: &Broken) -> Result<()> {
    match broken {
        Broken::Again(again) if again.from_zero => restart(part).await,
        Broken::Again(_) => with(part, Part::settle).await?,
        // Its own failure counts, not that of keeping the rest.
        Broken::Stop(_) => with(part, |part| drop(part.settle())).await,
    }
}

/// After the last attempt: an empty part is no use to anybody.
pub(super) async fn leave(part: &Shared) -> Result<()> {
    with(part, |part| {
        if part.at() == 0 {
            part.remove();
        }
    })
    .await
}

async fn restart(part: &Shared) -> Result<()> {
    with(part, Part::restart).await?
}

impl Fetcher {
    /// Brings the part to its end, verifies it, and gives it its name.
    pub(super) async fn transfer(
        &self,
        wanted: &Wanted,
        most: Most,
        part: &Shared,
        progress: &Progress,
        cancel: &Cancel,
    ) -> Result<(u64, Vec<Digest>), Broken> {
        if wanted.size.is_some_and(|size| size > most.bytes) {
            return Err(most.passed(&wanted.url).into());
        }
        let size = wanted.size;
        if wanted.url.scheme() == "file" {
            self.copy(wanted, most, part, progress, cancel).await?;
        } else if !with(part, move |part| part.is_whole(size)).await? {
            self.receive(wanted, most, part, progress, cancel).await?;
        }
        let (digests, shown, syncs) = (wanted.digests.clone(), redacted(&wanted.url), self.syncs.clone());
        with(part, move |part| {
            let Some(why) = part.differs(size, &digests) else {
                return Ok((part.at(), part.finish(&syncs)?));
            };
            if part.is_continued() {
                // Perhaps the pieces do not belong together: once more in one piece.
                return Err(Broken::from_zero(why));
            }
            part.remove();
            Err(Broken::fail(format!("{shown}: {why}")))
        })
        .await?
    }

    async fn receive(
        &self,
        wanted: &Wanted,
        most: Most,
        part: &Shared,
        progress: &Progress,
        cancel: &Cancel,
    ) -> Result<(), Broken> {
        let (at, here) = with(part, |part| {
            if part.note().validator().is_none() && part.at() > 0 {
                part.restart()?;
            }
            Ok::<_, Failure>((part.at(), part.note().clone()))
        })
        .await??;
        let answer = self.ask(Method::GET, &wanted.url, &continuing(at, &here), progress, cancel).await?;
        let response = &answer.response;
        // Of an encoded answer nothing but its end is known, and none of it is ever continued.
        let is_plain = Coding::is_plain(response.headers());
        let told = length(response.headers()).filter(|_| is_plain);
        let note = if is_plain {
            Note::of(&wanted.url, response.headers(), told)
        } else {
            Note::of(&wanted.url, &HeaderMap::new(), None)
        };
        let total = match response.status() {
            StatusCode::PARTIAL_CONTENT if !is_plain => {
                return Err(Broken::from_zero("the rest of what is here came encoded"));
            }
            StatusCode::PARTIAL_CONTENT => {
                let total = continues(response.headers(), at, &here, &note).map_err(Broken::from_zero)?;
                with(part, Part::go_on).await?;
                total
            }
            StatusCode::OK | StatusCode::NON_AUTHORITATIVE_INFORMATION => {
                // Before what is here is thrown away.
                refuse_coding(&wanted.url, response.headers())?;
                with(part, move |part| part.begin(note)).await??;
                told
            }
            StatusCode::RANGE_NOT_SATISFIABLE if at > 0 => {
                return Err(Broken::from_zero("the server has not the rest of what is here"));
            }
            status => return Err(refused(&wanted.url, status, response.headers())),
        };
        if let Some(why) = wrong_length(wanted, most, total) {
            with(part, Part::remove).await?;
            return Err(why.into());
        }
        let open_ended = length(response.headers()).is_none()
            && is_plain
            && !response.headers().contains_key(TRANSFER_ENCODING);
        let end = self.stream(answer.response, wanted, most, part, progress, cancel).await?;
        if total.is_some_and(|total| end < total) {
            return Err(Broken::again(format!(
                "the answer ended after {end} of {} bytes",
                total.unwrap_or(0)
            )));
        }
        if open_ended && wanted.size.is_some_and(|size| end < size) {
            // It may have been cut: nothing but the connection's end told the end.
            let why = format!("{} bytes were announced, {end} came", wanted.size.unwrap_or(0));
            return Err(Broken::Again(Again { why, wait: None, from_zero: false, fail: true }));
        }
        Ok(())
    }

    /// Reads the body into the part; answers the length that it has then.
    async fn stream(
        &self,
        response: Response,
        wanted: &Wanted,
        most: Most,
        part: &Shared,
        progress: &Progress,
        cancel: &Cancel,
    ) -> Result<u64, Broken> {
        let mut body = Body::new(response, &self.rules)?;
        let mut at = with(part, |part| part.at()).await?;
        let (queue, chunks) = mpsc::channel::<Bytes>(QUEUE);
        let (writer_part, writer_progress) = (part.clone(), progress.clone());
        let writer = tokio::spawn(blocking(move || writer_part.lock().write_all(chunks, &writer_progress)));
        let ended = loop {
            let chunk = match body.next(cancel).await {
                Ok(Some(chunk)) => chunk,
                Ok(None) => break Ok(at),
                Err(broken) => break Err(broken),
            };
            at += chunk.len() as u64;
            if at > most.of(wanted.size) {
                break Err(body_too_long(wanted, most).into());
            }
            // A writer that has ended tells why below.
            if queue.send(chunk).await.is_err() {
                break Ok(at);
            }
        };
        drop((queue, body));
        writer
            .await
            .map_err(|error| Failure::fail(format!("writing a file ended without an answer: {error}")))???;
        if at > most.of(wanted.size) {
            with(part, Part::remove).await?;
        }
        ended
    }

    /// A file of this machine into the part.
    async fn copy(
        &self,
        wanted: &Wanted,
        most: Most,
        part: &Shared,
        progress: &Progress,
        cancel: &Cancel,
    ) -> Result<()> {
        let (url, roots) = (wanted.url.clone(), self.rules.file_roots.clone());
        let (mut file, size) = blocking(move || local::open(&url, &roots)).await??;
        if let Some(failure) = wrong_length(wanted, most, Some(size)) {
            with(part, Part::remove).await?;
            return Err(failure);
        }
        let (shown, progress, cancel) = (redacted(&wanted.url), progress.clone(), cancel.clone());
        with(part, move |part| {
            part.restart()?;
            let mut buffer = vec![0; 256 << 10];
            // It may grow meanwhile: no more than its size, and one byte to notice.
            let mut file = (&mut file).take(size.saturating_add(1));
            loop {
                if cancel.is_cancelled() {
                    return Err(Failure::Cancelled);
                }
                match file.read(&mut buffer) {
                    Ok(0) => break,
                    Ok(count) => part.write(&buffer[..count], &progress)?,
                    Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(Failure::fail(format!("{shown}: cannot be read: {error}"))),
                }
            }
            if part.at() == size {
                Ok(())
            } else {
                Err(Failure::later(format!("{shown}: changed while it was read")))
            }
        })
        .await?
    }

    pub(super) async fn read_small(
        &self,
        url: &Url,
        limit: u64,
        progress: &Progress,
        cancel: &Cancel,
    ) -> Result<Bytes, Broken> {
        let limit = limit.min(self.rules.max_bytes);
        let too_long =
            || Broken::fail(format!("{}: is longer than the {limit} bytes allowed", redacted(url)));
        if url.scheme() == "file" {
            let (url, roots) = (url.clone(), self.rules.file_roots.clone());
            let read = move || {
                let (file, _) = local::open(&url, &roots)?;
                let mut bytes = Vec::new();
                let read = file.take(limit.saturating_add(1)).read_to_end(&mut bytes);
                read.map_err(|error| Failure::fail(format!("{}: cannot be read: {error}", redacted(&url))))?;
                Ok::<_, Failure>(Bytes::from(bytes))
            };
            let bytes = blocking(read).await??;
            return if bytes.len() as u64 > limit { Err(too_long()) } else { Ok(bytes) };
        }
        let answer = self.ask(Method::GET, url, &HeaderMap::new(), progress, cancel).await?;
        let status = answer.response.status();
        if status != StatusCode::OK {
            return Err(refused(url, status, answer.response.headers()));
        }
        let headers = answer.response.headers();
        if Coding::is_plain(headers) && length(headers).is_some_and(|length| length > limit) {
            return Err(too_long());
        }
        let mut body = Body::new(answer.response, &self.rules)?;
        let mut bytes = BytesMut::new();
        while let Some(chunk) = body.next(cancel).await? {
            if (bytes.len() + chunk.len()) as u64 > limit {
                return Err(too_long());
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok(bytes.freeze())
    }
}

/// An answer that cannot be decoded is of no use.
fn refuse_coding(url: &Url, headers: &HeaderMap) -> Result<(), Broken> {
    Coding::of(headers).map(drop).map_err(|why| Broken::fail(format!("{}: {why}", redacted(url))))
}

/// Why a length that the server tells cannot be that of the wanted file.
fn wrong_length(wanted: &Wanted, most: Most, total: Option<u64>) -> Option<Failure> {
    let total = total?;
    match wanted.size {
        Some(size) if size != total => Some(Failure::fail(format!(
            "{}: {size} bytes were announced, the server has {total}",
            redacted(&wanted.url)
        ))),
        _ => (total > most.bytes).then(|| most.passed(&wanted.url)),
    }
}

fn body_too_long(wanted: &Wanted, most: Most) -> Failure {
    match wanted.size {
        Some(size) => {
            Failure::fail(format!("{}: {size} bytes were announced, more came", redacted(&wanted.url)))
        }
        None => most.passed(&wanted.url),
    }
}
