//! The nodes of management requests against each other.

use bytes::Bytes;
use futures::future::try_join3;

use super::Context;
use super::code::Code;
use super::finding::{Fix, Verdict};
use super::mark::Mark;
use super::reader::{Reader, Seen};
use super::sharded;
use crate::error::Result;
use crate::map::RequestNode;
use crate::nodes::{Node, Request, RequestResult, Unreadable};

/// What was seen of a request.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct OfRequest {
    request: Seen<Request>,
    result: Seen<RequestResult>,
    /// Why the data of its result cannot be read.
    data: Option<String>,
}

pub(super) async fn look(reader: &Reader, id: &str) -> Result<OfRequest> {
    let at = |node: RequestNode| node.of(id);
    let (request_at, result_at, data_at) =
        (at(RequestNode::Request), at(RequestNode::Result), at(RequestNode::ResultData));
    let parse = |data: &[u8]| {
        serde_json::from_slice::<serde::de::IgnoredAny>(data)
            .map(drop)
            .map_err(|error| Unreadable(error.to_string()))
    };
    let (request, result, data) = try_join3(
        reader.read::<Request>(&request_at),
        reader.read::<RequestResult>(&result_at),
        sharded::look(reader, &data_at, parse),
    )
    .await?;
    let data = match &data.value {
        Seen::Good { value: false, .. } => Some("is not announced".to_owned()),
        value => value.trouble(),
    };
    Ok(OfRequest { request, result, data })
}

pub(super) fn judge(
    mark: Mark,
    path: &str,
    data: &Bytes,
    version: i32,
    seen: &OfRequest,
    context: &Context,
) -> Option<Verdict> {
    let verdict = |code, what: &str, fix| Verdict::new(code, path, what, fix);
    let remove = Fix::Remove { version };
    match mark {
        Mark::Request => match &seen.request {
            Seen::Good { value, .. } if value.done && seen.result.is_missing() => {
                let again = Request { done: false, ..value.clone() };
                let fix = Fix::Write { version: Some(version), data: again.write(context.dialect) };
                Some(verdict(Code::LostResult, "it is done, and its result is missing", fix))
            }
            Seen::Bad { why, .. } => {
                let what = format!("it cannot be read: {why}");
                Some(verdict(Code::Request, &what, remove).keeping(what.as_str(), data.clone()))
            }
            _ => None,
        },
        Mark::RequestResult => {
            if seen.request.is_missing() {
                let what = "its request is gone";
                return Some(verdict(Code::LostResult, what, remove).keeping(what, data.clone()));
            }
            if let Seen::Bad { why, .. } = &seen.result {
                let what = format!("it cannot be read: {why}");
                let fix =
                    Fix::Write { version: Some(version), data: lost(&what, context).write(context.dialect) };
                return Some(verdict(Code::ResultData, &what, fix).keeping(what.as_str(), data.clone()));
            }
            let value = seen.result.good()?;
            let why = seen.data.as_ref().filter(|_| value.data)?;
            let mut without = RequestResult { data: false, ..value.clone() };
            without.other.insert("lost_data".into(), why.as_str().into());
            let fix = Fix::Write { version: Some(version), data: without.write(context.dialect) };
            Some(verdict(Code::ResultData, &format!("its data {why}"), fix))
        }
        Mark::RequestLock => {
            let over = match &seen.request {
                Seen::Missing => "its request is gone",
                Seen::Good { value, .. } if value.done => "its request is done",
                _ => return None,
            };
            Some(verdict(Code::LostRequestLock, over, remove))
        }
        _ => {
            let lost = seen.request.is_missing();
            let fix = Fix::Person(Code::RequestLeftover.repair());
            lost.then(|| verdict(Code::RequestLeftover, "its request is gone", fix))
        }
    }
}

/// What whoever waits is told instead. What was asked for is not done again: it may have been done.
fn lost(why: &str, context: &Context) -> RequestResult {
    let problem = serde_json::json!({
        "type": "urn:ingestd:problem:unreadable",
        "detail": format!("what it came to is lost: {why}"),
    });
    RequestResult { ok: false, problem: Some(problem), at: Some(context.now), ..RequestResult::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(
        mark: Mark,
        request: Seen<Request>,
        result: Seen<RequestResult>,
        data: Option<&str>,
    ) -> Option<String> {
        let seen = OfRequest { request, result, data: data.map(str::to_owned) };
        judge(mark, "/x", &"data".into(), 0, &seen, &Context::for_tests()).map(|found| found.code.to_string())
    }

    fn done(done: bool) -> Seen<Request> {
        Seen::value(Request { done, ..Request::default() })
    }

    fn result(data: bool) -> Seen<RequestResult> {
        Seen::value(RequestResult { data, ..RequestResult::default() })
    }

    #[test]
    fn a_request_that_is_done_has_a_result_with_its_data() {
        use Mark::{OfRequest, Request, RequestLock, RequestResult};
        let table = [
            (Request, done(false), Seen::Missing, None, None),
            (Request, done(true), result(false), None, None),
            (Request, done(true), Seen::Missing, None, Some("R02")),
            (Request, Seen::garbage(), Seen::Missing, None, Some("R01")),
            (RequestResult, done(true), result(true), None, None),
            (RequestResult, done(true), result(true), Some("is missing"), Some("R03")),
            (RequestResult, done(true), result(false), Some("is missing"), None),
            (RequestResult, Seen::Missing, result(false), None, Some("R02")),
            (RequestResult, done(true), Seen::garbage(), None, Some("R03")),
            (RequestLock, done(false), Seen::Missing, None, None),
            (RequestLock, done(true), result(false), None, Some("R04")),
            (RequestLock, Seen::Missing, Seen::Missing, None, Some("R04")),
            (OfRequest, done(false), Seen::Missing, None, None),
            (OfRequest, Seen::Missing, Seen::Missing, None, Some("R05")),
        ];
        for (mark, request, result, data, expected) in table {
            let shown = format!("{mark:?} {request:?} {result:?} {data:?}");
            assert_eq!(code(mark, request, result, data).as_deref(), expected, "{shown}");
        }
    }
}
