//! Objects that somebody wants to have: asked for, waited for, fetched.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use ingest_actors::actions::Order;
use ingest_actors::actions::order::{DeleteAccess, RequeueAccess};
use ingest_queue::date::Date;
use ingest_queue::ids::Aid;
use ingest_queue::list::{self, AccessFilter};
use ingest_queue::map::AccessSize;
use ingest_steps::step::assemble::{self, Found, Request};
use serde::Deserialize;
use utoipa::IntoParams;

use super::app::App;
use super::batches::page_of;
use super::caller::{Admin, Operator};
use super::files;
use super::problem::{Answer, Kind, Refusal};
use super::read::{self, Body, Params};
use super::shown;
use super::wire::{
    AccessActed, AccessLine, AccessPage, AccessPending, AccessPlaceText, AccessRequest, AccessRequested,
    AccessSizeWord, AccessStates, AidText, Doing, Problem,
};

/// Nobody has to ask more often than this, in seconds, nor less often than that.
const SOONEST: u64 = 1;
const LATEST: u64 = 300;

#[utoipa::path(post, path = "/api/v1/access", tag = "access", security(("token" = ["operator"])), request_body = AccessRequest, responses(
    (status = 202, body = AccessRequested),
    (status = "default", body = Problem, content_type = "application/problem+json"),
))]
/// Asks for a stored object as one file
pub(crate) async fn submit(
    State(app): State<App>,
    _: Operator,
    Body(asked): Body<AccessRequest>,
) -> Answer<Response> {
    let form = asked.form.as_deref().unwrap_or("zip");
    let form = form.parse().map_err(|why: String| Refusal::field("form", why))?;
    asked.ark.parse::<ingest_steps::ark::Ark>().map_err(|why| Refusal::field("ark", why.to_string()))?;
    if asked.version == Some(0) {
        return Err(Refusal::field("version", "versions are counted from 1"));
    }
    let life = app.life().await?;
    let request = Request { ark: asked.ark.clone(), version: asked.version, form };
    let queued = assemble::request(&life.queue, &life.services(), &request).await?;
    let url = format!("/api/v1/access/{}", queued.token);
    let wait = wait(life.queue.now(), Some(queued.anticipated));
    let answer = AccessRequested {
        token: queued.token,
        size: queued.size,
        aid: queued.aid,
        ark: asked.ark,
        version: queued.version,
        bytes: queued.bytes,
        anticipated: queued.anticipated,
        url: url.clone(),
    };
    let mut response = (StatusCode::ACCEPTED, Json(answer)).into_response();
    let headers = response.headers_mut();
    headers.insert(header::RETRY_AFTER, wait.into());
    if let Ok(url) = HeaderValue::from_str(&url) {
        headers.insert(header::LOCATION, url);
    }
    Ok(response)
}

/// In how many seconds it is worth to ask again.
fn wait(now: Date, anticipated: Option<Date>) -> u64 {
    anticipated.map_or(SOONEST, |date| now.until(date).as_secs() + 1).clamp(SOONEST, LATEST)
}

#[utoipa::path(get, path = "/api/v1/access/{token}", tag = "access", security(()), params(("token" = String, Path)), responses(
    (status = 200, description = "the bytes", content_type = "application/zip"),
    (status = 202, body = AccessPending),
    (status = 206, description = "some of them", content_type = "application/zip"),
    (status = 307, description = "another node has it"),
    (status = "default", body = Problem, content_type = "application/problem+json"),
))]
/// Fetches an object that was asked for
pub(crate) async fn fetch(
    State(app): State<App>,
    Path(token): Path<String>,
    method: Method,
    headers: HeaderMap,
) -> Answer<Response> {
    let life = app.life().await?;
    match assemble::find(&life.queue, &life.services(), &token).await? {
        Found::Pending { anticipated } => {
            let pending = AccessPending { state: "pending".to_owned(), anticipated };
            let seconds = wait(life.queue.now(), anticipated);
            Ok((StatusCode::ACCEPTED, [(header::RETRY_AFTER, seconds.to_string())], Json(pending))
                .into_response())
        }
        Found::Ready { path, name, .. } => files::send(&path, &name, &method, &headers).await,
        Found::Elsewhere { url } => {
            Ok((StatusCode::TEMPORARY_REDIRECT, [(header::LOCATION, url)]).into_response())
        }
        Found::Expired => Err(Refusal::new(Kind::EXPIRED, "it was there long enough; ask for it again")),
        Found::Unknown => Err(Refusal::new(Kind::NOT_FOUND, "nobody was given such a token")),
        Found::Failed { why } => Err(Refusal::new(Kind::ACCESS_FAILED, why)),
    }
}

/// Which items.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct AccessParams {
    /// `small` or `large`.
    #[param(value_type = Option<AccessSizeWord>, inline)]
    size: Option<String>,
    /// Several, apart by commas.
    #[param(value_type = Option<AccessStates>, inline)]
    state: Option<String>,
    /// This one; each queue may have it.
    #[param(value_type = Option<AidText>, inline)]
    aid: Option<String>,
    /// 1 to 1000.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// The `next` of the page before.
    #[param(value_type = Option<AccessPlaceText>, inline)]
    after: Option<String>,
}

#[utoipa::path(get, path = "/api/v1/access", tag = "access", security(("token" = ["operator"])), params(AccessParams), responses(
    (status = 200, body = AccessPage),
    (status = "default", body = Problem, content_type = "application/problem+json"),
))]
/// Lists the access queues
pub(crate) async fn list(
    State(app): State<App>,
    _: Operator,
    Params(params): Params<AccessParams>,
) -> Answer<Json<AccessPage>> {
    let size = params
        .size
        .as_deref()
        .map(|size| size_of(size).map_err(|_| Refusal::field("size", "it is small or large")));
    let filter = AccessFilter {
        size: size.transpose()?,
        states: read::several("state", params.state.as_deref())?,
        aid: read::one("aid", params.aid.as_deref())?,
    };
    let page = page_of(params.limit, params.after, None)?;
    let queue = app.queue().await?;
    let found = list::access(queue.session(), &filter, &page).await?;
    Ok(Json(AccessPage {
        items: found.lines.into_iter().map(line).collect(),
        next: found.next,
        unreadable: found.unreadable.into_iter().map(shown::unread).collect(),
        left: found.left,
    }))
}

/// An item with what its token says, but for the token.
fn line(item: list::AccessLine) -> AccessLine {
    let token = item.token;
    let text = |name: &str| token.other.get(name).and_then(|value| value.as_str()).map(str::to_owned);
    AccessLine {
        size: item.size,
        aid: item.aid,
        state: item.status.status,
        message: item.status.message,
        last_modified: item.status.last_modified,
        ark: text("ark"),
        version: token.other.get("version").and_then(serde_json::Value::as_u64),
        form: text("form"),
        bytes: token.cloud_content_byte,
        anticipated: token.anticipated_availability_time,
    }
}

fn size_of(name: &str) -> Answer<AccessSize> {
    let found = AccessSize::ALL.into_iter().find(|size| size.name() == name);
    found.ok_or_else(|| Refusal::new(Kind::NOT_FOUND, "the access queues are small and large"))
}

#[utoipa::path(post, path = "/api/v1/access/items/{size}/{aid}/requeue", tag = "access", security(("token" = ["operator"])), params(("size" = String, Path), ("aid" = String, Path)), request_body = Doing, responses(
    (status = 200, body = AccessActed),
    (status = "default", body = Problem, content_type = "application/problem+json"),
))]
/// Tries a failed item again
pub(crate) async fn requeue(
    State(app): State<App>,
    Operator(caller): Operator,
    Path((size, aid)): Path<(String, String)>,
    Body(doing): Body<Doing>,
) -> Answer<Json<AccessActed>> {
    let (size, aid): (_, Aid) = (size_of(&size)?, read::id(&aid)?);
    let order = Order::RequeueAccess(RequeueAccess { size, aid, reason: doing.reason });
    app.act(&caller, order).await.map(Json)
}

/// Whether it is meant, and why.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct DeleteItemParams {
    /// Whoever asked for it will not be told, and that is meant so.
    confirm: bool,
    /// For the audit log.
    #[param(max_length = 1000)]
    reason: String,
}

#[utoipa::path(delete, path = "/api/v1/access/items/{size}/{aid}", tag = "access", security(("token" = ["admin"])), params(("size" = String, Path), ("aid" = String, Path), DeleteItemParams), responses(
    (status = 200, body = AccessActed),
    (status = "default", body = Problem, content_type = "application/problem+json"),
))]
/// Deletes a failed item
pub(crate) async fn delete(
    State(app): State<App>,
    Admin(caller): Admin,
    Path((size, aid)): Path<(String, String)>,
    Params(params): Params<DeleteItemParams>,
) -> Answer<Json<AccessActed>> {
    let (size, aid): (_, Aid) = (size_of(&size)?, read::id(&aid)?);
    let DeleteItemParams { confirm, reason } = params;
    let order = Order::DeleteAccess(DeleteAccess { size, aid, confirm, reason });
    app.act(&caller, order).await.map(Json)
}
