//! A look at a file: how it begins, and, if it is on this machine, what its digests are. Nothing is kept.
//!
//! **When things break.** As with whole files: a server that is away is asked again, then it is
//! [`Failure::Later`]; what waiting does not change is [`Failure::Fail`].

use std::io::Read as _;

use bytes::{Bytes, BytesMut};
use reqwest::header::{HeaderMap, HeaderValue, RANGE};
use reqwest::{Method, StatusCode};
use url::Url;

use super::answer::refused;
use super::body::Body;
use super::part::hash;
use super::redact::redacted;
use super::retry::{Broken, Retries};
use super::transfer::blocking;
use super::{Fetcher, local};
use crate::digest::{Algorithm, Digest, Digests};
use crate::outcome::{Cancel, Failure, Progress, Result};

impl Fetcher {
    /// The first bytes of a file, at most so many.
    pub async fn beginning(
        &self,
        url: &Url,
        most: u16,
        progress: &Progress,
        cancel: &Cancel,
    ) -> Result<Bytes> {
        let shown = redacted(url);
        let mut retries = Retries::new(&self.rules, &shown);
        loop {
            match self.read_beginning(url, most, progress, cancel).await {
                Ok(bytes) => return Ok(bytes),
                Err(broken) => retries.next(broken, progress, cancel).await?,
            }
        }
    }

    async fn read_beginning(
        &self,
        url: &Url,
        most: u16,
        progress: &Progress,
        cancel: &Cancel,
    ) -> Result<Bytes, Broken> {
        if url.scheme() == "file" {
            let (url, roots) = (url.clone(), self.rules.file_roots.clone());
            let read = move || {
                let (file, _) = local::open(&url, &roots)?;
                let mut bytes = Vec::new();
                let read = file.take(most.into()).read_to_end(&mut bytes);
                read.map_err(|error| Failure::fail(format!("{}: cannot be read: {error}", redacted(&url))))?;
                Ok::<_, Failure>(Bytes::from(bytes))
            };
            return Ok(blocking(read).await??);
        }
        let mut ask = HeaderMap::new();
        let range = format!("bytes=0-{}", most.saturating_sub(1));
        ask.insert(RANGE, HeaderValue::from_str(&range).unwrap_or(HeaderValue::from_static("bytes=0-0")));
        let answer = self.ask(Method::GET, url, &ask, progress, cancel).await?;
        match answer.response.status() {
            StatusCode::OK | StatusCode::PARTIAL_CONTENT => {}
            // It is empty.
            StatusCode::RANGE_NOT_SATISFIABLE => return Ok(Bytes::new()),
            status => return Err(refused(url, status, answer.response.headers())),
        }
        let mut body = Body::beginning(answer.response, &self.rules)?;
        let mut bytes = BytesMut::new();
        while bytes.len() < most.into()
            && let Some(chunk) = body.next(cancel).await?
        {
            bytes.extend_from_slice(&chunk);
        }
        bytes.truncate(most.into());
        Ok(bytes.freeze())
    }

    /// Size and digests of a file of this machine, which stays where it is. Stops when cancelled.
    pub async fn look_at_local(
        &self,
        url: &Url,
        algorithms: Vec<Algorithm>,
        progress: &Progress,
        cancel: &Cancel,
    ) -> Result<(u64, Vec<Digest>)> {
        let (url, roots) = (url.clone(), self.rules.file_roots.clone());
        let (progress, cancel) = (progress.clone(), cancel.clone());
        let look = move || {
            let (file, size) = local::open(&url, &roots)?;
            if algorithms.is_empty() {
                return Ok((size, Vec::new()));
            }
            let mut digests = Digests::of(algorithms);
            let path = url.to_file_path().unwrap_or_default();
            hash(&file, &mut digests, &progress, &cancel).map_err(|failed| failed.at(&path))?;
            Ok((digests.bytes(), digests.finish()))
        };
        blocking(look).await?
    }
}
