//! What the head of an answer means for a part, and how the rest of one is asked for.
//!
//! **When things break.** A server may say anything: what does not fit exactly is not the rest.

use std::time::SystemTime;

use reqwest::StatusCode;
use reqwest::header::{HeaderMap, HeaderValue, IF_RANGE, RANGE};
use url::Url;

use super::part::Note;
use super::redact::redacted;
use super::retry::{Again, Broken, retry_after};
use super::size::range;

/// The headers that ask for the rest, if something is here.
pub(super) fn continuing(at: u64, here: &Note) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let validator = here.validator().and_then(|validator| HeaderValue::from_str(validator).ok());
    let range = HeaderValue::from_str(&format!("bytes={at}-")).ok();
    if let (Some(validator), Some(range), true) = (validator, range, at > 0) {
        headers.insert(RANGE, range);
        headers.insert(IF_RANGE, validator);
    }
    headers
}

/// Whether a 206 goes on exactly where the part ends; the whole length, or what is wrong.
pub(super) fn continues(
    headers: &HeaderMap,
    at: u64,
    here: &Note,
    there: &Note,
) -> Result<Option<u64>, String> {
    let Some((first, last, total)) = range(headers) else {
        return Err("a part of the file came without saying which".into());
    };
    let whole = total.unwrap_or(last + 1);
    let wrong_total = here.total.is_some_and(|known| known != whole);
    if at == 0 || first != at || last + 1 != whole || wrong_total {
        return Err(format!(
            "bytes {first} to {last} of {whole} came where the rest from {at} was asked for"
        ));
    }
    if !here.agrees(there) {
        return Err("the file has changed on the server".into());
    }
    Ok(Some(whole))
}

/// What a status that brings no file means.
pub(super) fn refused(url: &Url, status: StatusCode, headers: &HeaderMap) -> Broken {
    if matches!(status.as_u16(), 408 | 425 | 429) || status.is_server_error() {
        let wait = retry_after(headers, SystemTime::now());
        return Broken::Again(Again { why: status.to_string(), wait, from_zero: false, fail: false });
    }
    Broken::fail(format!("{}: the server answers {status}", redacted(url)))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use reqwest::header::RETRY_AFTER;

    use super::*;

    fn status(code: u16) -> Broken {
        let mut headers = HeaderMap::new();
        headers.insert(RETRY_AFTER, HeaderValue::from_static("7"));
        let url = Url::parse("https://anna:pw1@h.org/a").unwrap();
        refused(&url, StatusCode::from_u16(code).unwrap(), &headers)
    }

    #[test]
    fn what_may_pass_is_waited_for_as_long_as_the_server_asks() {
        for code in [408, 425, 429, 500, 503, 599] {
            let Broken::Again(again) = status(code) else { panic!("{code} is given up") };
            assert_eq!((again.wait, again.from_zero), (Some(Duration::from_secs(7)), false));
        }
    }

    #[test]
    fn what_will_not_pass_is_given_up() {
        for code in [400, 401, 403, 404, 410, 416] {
            let Broken::Stop(failure) = status(code) else { panic!("{code} is tried again") };
            assert!(failure.to_string().starts_with("https://***@h.org/a: the server answers"), "{failure}");
        }
    }
}
