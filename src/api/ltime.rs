//! Read-your-writes across nodes, by the cluster's logical clock.
//!
//! Every answer to a call that has changed something carries `X-Ingestd-Ltime`: a moment after the change. A read that
//! sends the same header, or the parameter `ltime`, is answered when this node's server has seen that moment.
//!
//! Most of what is read comes from the tree. What a node keeps of it in memory, because it works by it, is brought up
//! to date first: profiles, for whoever lists them or submits. Only the counts of the queues, and who waits for a slot
//! of a limit, are what the node has heard of so far.
//!
//! **When things break.** A moment that does not come within `api.timeout` is `behind`, and can be asked for again. A
//! change whose moment cannot be had is answered without one.

use std::time::Duration;

use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue, Uri};
use axum::response::Response;
use ingest_store::recipes::ltime::{self, Ltime};

use super::app::App;
use super::problem::{Answer, Kind, Refusal};

pub(crate) const LTIME: HeaderName = HeaderName::from_static("x-ingestd-ltime");
const PARAMETER: &str = "ltime";
/// How long a change waits for its moment.
const SHORT: Duration = Duration::from_secs(2);

/// Takes out of a request which moment it wants to have seen.
pub(crate) fn wanted(request: &mut Request) -> Answer<Option<Ltime>> {
    let by_header = request.headers().get(&LTIME).map(|value| value.to_str().unwrap_or("?").to_owned());
    let query = request.uri().query().unwrap_or_default();
    let is_ours = |part: &&str| part.split('=').next() == Some(PARAMETER);
    let by_query =
        query.split('&').find(is_ours).map(|part| part[PARAMETER.len()..].trim_start_matches('=').to_owned());
    if by_query.is_some() {
        let rest: Vec<&str> = query.split('&').filter(|part| !is_ours(part)).collect();
        let path = request.uri().path();
        let whole = if rest.is_empty() { path.to_owned() } else { format!("{path}?{}", rest.join("&")) };
        let mut parts = request.uri().clone().into_parts();
        parts.path_and_query = whole.parse().ok();
        if let Ok(uri) = Uri::from_parts(parts) {
            *request.uri_mut() = uri;
        }
    }
    let Some(text) = by_header.or(by_query) else { return Ok(None) };
    let moment = text.trim().parse().ok().filter(|moment| *moment >= 0);
    let wrong = || Refusal::field(PARAMETER, "a moment is a number, as in `X-Ingestd-Ltime` of an answer");
    moment.map(|moment| Some(Ltime(moment))).ok_or_else(wrong)
}

/// Whether a path is answered by the profiles that this node runs.
fn goes_by_profiles(path: &str) -> bool {
    matches!(path, "/api/v1/profiles" | "/api/v1/batches")
}

/// Waits until this node has seen that moment.
pub(crate) async fn reach(app: &App, path: &str, moment: Ltime) -> Answer<()> {
    let queue = app.queue().await?;
    let patience = app.settings.timeout;
    let seen = async {
        ltime::wait_for(queue.session(), moment).await?;
        if goes_by_profiles(path) {
            // If it cannot look, it is about to begin anew, and looks then.
            app.node.see_shared().await;
        }
        Ok(())
    };
    match tokio::time::timeout(patience, seen).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => {
            let error: ingest_store::Error = error;
            Err(ingest_queue::error::Error::from(error).into())
        }
        Err(_) => {
            let why = format!("its server has not seen the moment {} within {patience:?}", moment.0);
            Err(Refusal::new(Kind::BEHIND, why))
        }
    }
}

/// Says at which moment a change is certainly seen.
pub(crate) async fn sign(app: &App, response: &mut Response) {
    let Some(life) = app.node.house().life() else { return };
    if let Ok(Ok(Ltime(moment))) = tokio::time::timeout(SHORT, ltime::tick(life.queue.session())).await {
        response.headers_mut().insert(LTIME, HeaderValue::from(moment));
    }
}
