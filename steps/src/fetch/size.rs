//! How big a file is, without fetching it. The length of an encoded answer says nothing about it.
//!
//! **When things break.** Nothing here fails a job: a server that cannot say gives a reason.

use reqwest::header::{CONTENT_LENGTH, CONTENT_RANGE, HeaderMap, HeaderValue, RANGE};
use reqwest::{Method, StatusCode};
use url::Url;

use super::coding::Coding;
use super::retry::Broken;
use super::{Fetcher, local};
use crate::outcome::{Cancel, Progress};

/// Why a length is not that of the file.
const ENCODED: &str = "the answer is encoded (`Content-Encoding`)";

impl Fetcher {
    /// The size, or why it is not known. At most two requests, redirects aside, and no body is read.
    pub async fn size_or_reason(&self, url: &Url) -> Result<u64, String> {
        if url.scheme() == "file" {
            let (url, roots) = (url.clone(), self.rules.file_roots.clone());
            let opened = tokio::task::spawn_blocking(move || local::open(&url, &roots)).await;
            return opened
                .map_err(|error| error.to_string())?
                .map(|(_, size)| size)
                .map_err(|e| e.to_string());
        }
        let by_head = match self.headers(Method::HEAD, url, &HeaderMap::new()).await {
            // Some programs answer every HEAD with length 0.
            Ok((_, headers)) if !Coding::is_plain(&headers) => ENCODED.to_owned(),
            Ok((status, headers)) if status == StatusCode::OK => match length(&headers) {
                Some(size) if size > 0 => return Ok(size),
                _ => "no length".to_owned(),
            },
            Ok((status, _)) => status.to_string(),
            Err(Broken::Stop(failure)) => return Err(failure.to_string()),
            Err(Broken::Again(again)) => again.why,
        };
        let mut first_byte = HeaderMap::new();
        first_byte.insert(RANGE, HeaderValue::from_static("bytes=0-0"));
        let by_get = match self.headers(Method::GET, url, &first_byte).await {
            Ok((_, headers)) if !Coding::is_plain(&headers) => ENCODED.to_owned(),
            Ok((status, headers)) => {
                let size = match status {
                    StatusCode::PARTIAL_CONTENT | StatusCode::RANGE_NOT_SATISFIABLE => total(&headers),
                    StatusCode::OK => length(&headers),
                    _ => None,
                };
                match size {
                    Some(size) => return Ok(size),
                    None => format!("{status} without a length"),
                }
            }
            Err(Broken::Stop(failure)) => failure.to_string(),
            Err(Broken::Again(again)) => again.why,
        };
        Err(format!("HEAD: {by_head}; GET of the first byte: {by_get}"))
    }

    /// Status and headers; the body is dropped with its connection.
    async fn headers(
        &self,
        method: Method,
        url: &Url,
        ask: &HeaderMap,
    ) -> Result<(StatusCode, HeaderMap), Broken> {
        let answer = self.ask(method, url, ask, &Progress::default(), &Cancel::new()).await?;
        Ok((answer.response.status(), answer.response.headers().clone()))
    }
}

/// What `Content-Length` says.
pub(super) fn length(headers: &HeaderMap) -> Option<u64> {
    digits(headers.get(CONTENT_LENGTH)?.to_str().ok()?)
}

/// The whole length that `Content-Range` tells: `bytes 0-0/1234` or `bytes */1234`.
fn total(headers: &HeaderMap) -> Option<u64> {
    digits(headers.get(CONTENT_RANGE)?.to_str().ok()?.trim().strip_prefix("bytes ")?.split_once('/')?.1)
}

/// First and last byte and whole length of `bytes 5-9/10`; the length may be `*`.
pub(super) fn range(headers: &HeaderMap) -> Option<(u64, u64, Option<u64>)> {
    let (range, total) =
        headers.get(CONTENT_RANGE)?.to_str().ok()?.trim().strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let total = if total == "*" { None } else { Some(digits(total)?) };
    let (first, last) = (digits(first)?, digits(last)?);
    let sound = first <= last && last < u64::MAX && total.is_none_or(|total| last < total);
    sound.then_some((first, last, total))
}

/// Digits alone: no sign, no space.
fn digits(text: &str) -> Option<u64> {
    let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if plain { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_strictly() {
        let range = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_RANGE, text.parse().unwrap());
            super::range(&headers)
        };
        assert_eq!(range("bytes 5-9/10"), Some((5, 9, Some(10))));
        assert_eq!(range("bytes 5-9/*"), Some((5, 9, None)));
        for wrong in [
            "bytes 9-5/10",
            "bytes 5-10/10",
            "bytes */10",
            "5-9/10",
            "bytes +5-9/10",
            "bytes 5-9",
            "bytes 5-18446744073709551615/*",
            "bytes 5-9/99999999999999999999",
        ] {
            assert_eq!(range(wrong), None, "{wrong}");
        }
    }
}
