//! The body of an answer, that may neither stall nor creep.
//!
//! **When things break.** A body in which nothing comes for `stall`, or less than `slowest` over that time, is
//! given up; the caller asks again. Only time that was spent waiting for the network counts.

use std::time::{Duration, Instant};

use bytes::Bytes;
use reqwest::Response;

use super::redact::chain;
use super::retry::Broken;
use super::rules::Rules;
use crate::outcome::{Cancel, Failure};

#[derive(Debug)]
pub(super) struct Body<'a> {
    response: Response,
    rules: &'a Rules,
    /// How long was waited for the network since `bytes` is counted.
    waited: Duration,
    bytes: u64,
}

impl<'a> Body<'a> {
    pub(super) fn new(response: Response, rules: &'a Rules) -> Self {
        Self { response, rules, waited: Duration::ZERO, bytes: 0 }
    }

    /// The next chunk; None at the end.
    pub(super) async fn next(&mut self, cancel: &Cancel) -> Result<Option<Bytes>, Broken> {
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
