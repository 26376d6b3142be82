//! The body of an answer, that may neither stall nor creep; decoded, if the server has encoded it.
//!
//! What comes out is bounded by nothing but what came: the caller counts it, and stops. Little is decoded at a time.
//!
//! **When things break.** A body in which nothing comes for `stall`, or less than `slowest` over that time, is
//! given up; the caller asks again. Only time that was spent waiting for the network counts. A coding that cannot be
//! decoded is refused, and one that is damaged is asked for again, from zero.

use std::time::{Duration, Instant};

use bytes::Bytes;
use reqwest::Response;

use super::coding::{Coding, Decoder};
use super::redact::{chain, redacted};
use super::retry::Broken;
use super::rules::Rules;
use crate::outcome::{Cancel, Failure};

/// So many encoded bytes are decoded at a time: a thousand times as many may come out.
const AT_ONCE: usize = 16 << 10;
/// A chunk of what was decoded is no longer.
const CHUNK: usize = 256 << 10;

#[derive(Debug)]
pub(super) struct Body<'a> {
    response: Response,
    decoder: Option<Decoder>,
    /// Only the beginning of the file was asked for: an encoding may be cut off.
    is_whole: bool,
    /// What came and is not decoded, and what is decoded and not given out.
    encoded: Bytes,
    decoded: Bytes,
    rules: &'a Rules,
    /// How long was waited for the network since `bytes` is counted.
    waited: Duration,
    bytes: u64,
}

impl<'a> Body<'a> {
    /// The body of a whole file. An encoding that is not decoded is refused.
    pub(super) fn new(response: Response, rules: &'a Rules) -> Result<Self, Broken> {
        let coding = Coding::of(response.headers())
            .map_err(|why| Broken::fail(format!("{}: {why}", redacted(response.url()))))?;
        let decoder = match coding {
            Coding::Identity => None,
            Coding::Gzip => Some(Decoder::new(response.url(), response.headers())),
        };
        let (encoded, decoded, waited) = (Bytes::new(), Bytes::new(), Duration::ZERO);
        Ok(Self { response, decoder, is_whole: true, encoded, decoded, rules, waited, bytes: 0 })
    }

    /// The same of an answer that may end in the middle.
    pub(super) fn beginning(response: Response, rules: &'a Rules) -> Result<Self, Broken> {
        Ok(Self { is_whole: false, ..Self::new(response, rules)? })
    }

    /// The next chunk of the file; None at the end.
    pub(super) async fn next(&mut self, cancel: &Cancel) -> Result<Option<Bytes>, Broken> {
        if self.decoder.is_none() {
            return self.receive(cancel).await;
        }
        while self.decoded.is_empty() {
            if self.encoded.is_empty() {
                let Some(chunk) = self.receive(cancel).await.map_err(Broken::all_of_it)? else {
                    let Some(mut decoder) = self.decoder.take() else { return Ok(None) };
                    let rest = decoder.finish(self.is_whole).map_err(Broken::from_zero)?;
                    return Ok(Some(rest).filter(|rest| !rest.is_empty()));
                };
                self.encoded = chunk;
            }
            let piece = self.encoded.split_to(self.encoded.len().min(AT_ONCE));
            if let Some(decoder) = &mut self.decoder {
                self.decoded = decoder.decode(&piece).map_err(Broken::from_zero)?;
            }
        }
        Ok(Some(self.decoded.split_to(self.decoded.len().min(CHUNK))))
    }

    /// The next chunk as it comes.
    async fn receive(&mut self, cancel: &Cancel) -> Result<Option<Bytes>, Broken> {
        let stall = self.rules.stall;
        let begun = Instant::now();
        let read = tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(Failure::Cancelled.into()),
            read = tokio::time::timeout(stall, self.response.chunk()) => read,
        };
        self.waited += begun.elapsed();
        let chunk = match read {
            Ok(Ok(Some(chunk))) => chunk,
            Ok(Ok(None)) => return Ok(None),
            Ok(Err(error)) => return Err(Broken::again(chain(error))),
            Err(_) => return Err(Broken::again(format!("no byte came within {stall:?}"))),
        };
        self.bytes += chunk.len() as u64;
        if self.waited >= stall {
            self.judge()?;
        }
        Ok(Some(chunk))
    }

    fn judge(&mut self) -> Result<(), Broken> {
        let (bytes, waited) = (self.bytes, self.waited);
        let least = u128::from(self.rules.slowest) * waited.as_millis() / 1000;
        if u128::from(bytes) < least {
            return Err(Broken::again(format!(
                "only {bytes} bytes came within {waited:?} (`fetch.slowest`)"
            )));
        }
        (self.waited, self.bytes) = (Duration::ZERO, 0);
        Ok(())
    }
}
