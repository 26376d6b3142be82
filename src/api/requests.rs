//! Management requests: seen, put and taken back. What becomes of them is the nodes' business.

use std::time::Duration;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use ingest_actors::actions::{ACTIONS, Action, Order, Refused};
use ingest_queue::queue::Queue;
use ingest_queue::requests::{self, Answered, NewRequest};
use ingest_store::recipes::ltime;
use serde::Deserialize;
use serde_json::Value;
use utoipa::IntoParams;

use super::app::App;
use super::batches::Order as Which;
use super::caller::Operator;
use super::pages;
use super::problem::{Answer, Kind, Refusal};
use super::read::{Body, Params};
use super::wire::{
    ActionLine, ActionList, ActionParam, FieldProblem, Moment, Problem, PutRequest, RequestForgotten,
    RequestLine, RequestOutcome, RequestPage, Role,
};

/// How many ends are read at a time.
const AT_ONCE: usize = 32;
/// When it is worth to ask again for a result, in seconds, if it was not waited for.
const AGAIN: u64 = 1;
/// How long somebody may want to wait for one, in seconds.
const LONGEST_WAIT: u32 = 3600;

#[utoipa::path(get, path = "/api/v1/actions", tag = "requests", security(("token" = ["operator"])), responses(
    (status = 200, body = ActionList),
    (status = "default", body = Problem, content_type = "application/problem+json"),
))]
/// Lists what can be asked for
pub(crate) async fn actions(_: Operator) -> Json<ActionList> {
    Json(action_list())
}

pub(crate) fn action_list() -> ActionList {
    let param = |(name, required): (&str, bool)| ActionParam { name: name.to_owned(), required };
    let line = |action: &Action| ActionLine {
        name: action.name.to_owned(),
        what: action.what.to_owned(),
        params: action.parameters().map(param).collect(),
        role: if action.admin { "admin" } else { "operator" }.to_owned(),
        of_node: action.of_node,
        once: action.once.words().to_owned(),
    };
    ActionList { actions: ACTIONS.iter().map(line).collect() }
}

/// Which requests.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct RequestParams {
    /// `waiting`, `running` or `done`.
    #[param(pattern = "^(waiting|running|done)$")]
    state: Option<String>,
    /// 1 to 1000.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// The `next` of the page before.
    #[param(pattern = "^[0-9]{1,18}$")]
    after: Option<String>,
    /// `oldest` (the default) or `newest`: which come first.
    #[param(inline)]
    order: Option<Which>,
}

#[utoipa::path(get, path = "/api/v1/requests", tag = "requests", security(("token" = ["operator"])), params(RequestParams), responses(
    (status = 200, body = RequestPage),
    (status = "default", body = Problem, content_type = "application/problem+json"),
))]
/// Lists management requests in the order of their creation
pub(crate) async fn list(
    State(app): State<App>,
    _: Operator,
    Params(params): Params<RequestParams>,
) -> Answer<Json<RequestPage>> {
    let limit = pages::limit_of(params.limit)?;
    if let Some(state) = &params.state
        && !["waiting", "running", "done"].contains(&state.as_str())
    {
        return Err(Refusal::field("state", "it is waiting, running or done"));
    }
    let wrong = || Refusal::field("after", "it is the `next` of the page before");
    let after: Option<i64> =
        params.after.as_deref().map(|after| place(after).ok_or_else(wrong)).transpose()?;
    let queue = app.queue().await?;
    let mut lines = queue.requests().await?;
    let newest_first = params.order == Some(Which::Newest);
    if newest_first {
        lines.reverse();
    }
    let fits = |line: &requests::RequestLine| {
        let behind = |after: i64| if newest_first { line.order < after } else { line.order > after };
        params.state.as_deref().is_none_or(|state| line.state() == state) && after.is_none_or(behind)
    };
    let mut found: Vec<_> = lines.into_iter().filter(fits).take(limit + 1).collect();
    let next =
        (found.len() > limit).then(|| found.get(limit - 1).map(|line| line.order.to_string())).flatten();
    found.truncate(limit);
    let lines = stream::iter(found).map(|line| with_end(&queue, line)).buffered(AT_ONCE);
    Ok(Json(RequestPage { requests: lines.try_collect().await?, next }))
}

/// A request, and whether it was done or refused.
async fn with_end(queue: &Queue, line: requests::RequestLine) -> Answer<RequestLine> {
    let end = if line.request.done { queue.request_end(&line.id).await? } else { None };
    Ok(RequestLine {
        ok: end.as_ref().map(|end| end.ok),
        problem: end.and_then(|end| end.problem).as_ref().map(problem),
        ..shown(&line)
    })
}

/// A place in the order of creation, as a page says it.
fn place(text: &str) -> Option<i64> {
    let fits = (1..=18).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| fits)
}

pub(crate) fn shown(line: &requests::RequestLine) -> RequestLine {
    let request = line.request.clone();
    RequestLine {
        id: line.id.clone(),
        state: line.state().to_owned(),
        action: request.action,
        node: request.node,
        who: request.who,
        from: request.from,
        at: request.at,
        attempt: request.attempt,
        taken_by: request.taken_by,
        taken_at: request.taken_at,
        progress: request.progress,
        waited_for: line.waited_for,
        ok: None,
        problem: None,
    }
}

#[utoipa::path(post, path = "/api/v1/requests", tag = "requests", security(("token" = ["operator"])), request_body = PutRequest, responses(
    (status = 202, body = RequestLine),
    (status = "default", body = Problem, content_type = "application/problem+json"),
))]
/// Puts a management request, for any node or for one
pub(crate) async fn put(
    State(app): State<App>,
    Operator(caller): Operator,
    Body(asked): Body<PutRequest>,
) -> Answer<Response> {
    let params = Value::Object(asked.params);
    let order = Order::read(&asked.action, params.clone())?;
    caller.ordered.add(&order);
    if order.is_for_admins() {
        caller.must_be(Role::Admin)?;
    }
    if order.action().of_node && asked.node.is_none() {
        return Err(Refused::field("node", format!("{} is about one node: name it", asked.action)).into());
    }
    let queue = app.queue().await?;
    let id = match asked.id {
        None => String::new(),
        Some(id) => requests::id_of(&id).map_err(|_| Refusal::field("id", "it is no uuid"))?,
    };
    let new = NewRequest {
        id,
        action: asked.action,
        node: asked.node,
        who: caller.name,
        from: format!("api {}", caller.from),
        params,
        wait: false,
    };
    let id = queue.put_request(&new).await?;
    let line = shown(&queue.request(&id).await?);
    let mut response = (StatusCode::ACCEPTED, Json(line)).into_response();
    let headers = response.headers_mut();
    headers.insert(header::RETRY_AFTER, AGAIN.into());
    if let Ok(url) = HeaderValue::from_str(&format!("/api/v1/requests/{id}/result")) {
        headers.insert(header::LOCATION, url);
    }
    Ok(response)
}

#[utoipa::path(get, path = "/api/v1/requests/{id}", tag = "requests", security(("token" = ["operator"])), params(("id" = String, Path)), responses(
    (status = 200, body = RequestLine),
    (status = "default", body = Problem, content_type = "application/problem+json"),
))]
/// Shows a management request
pub(crate) async fn show(
    State(app): State<App>,
    _: Operator,
    Path(id): Path<String>,
) -> Answer<Json<RequestLine>> {
    let id = requests::id_of(&id)?;
    let queue = app.queue().await?;
    with_end(&queue, queue.request(&id).await?).await.map(Json)
}

/// How long to wait.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ResultParams {
    /// Seconds to wait for the result, or until the request is further than it is now; at most `api.timeout`.
    #[param(maximum = 3600)]
    wait: Option<u32>,
}

#[utoipa::path(get, path = "/api/v1/requests/{id}/result", tag = "requests", security(("token" = ["operator"])), params(("id" = String, Path), ResultParams), responses(
    (status = 200, body = RequestOutcome),
    (status = 202, body = RequestLine, description = "there is none yet"),
    (status = "default", body = Problem, content_type = "application/problem+json"),
))]
/// Shows what a management request came to
pub(crate) async fn result(
    State(app): State<App>,
    _: Operator,
    Path(id): Path<String>,
    Params(params): Params<ResultParams>,
) -> Answer<Response> {
    let wait = params.wait.unwrap_or_default();
    if wait > LONGEST_WAIT {
        return Err(Refusal::field("wait", format!("at most {LONGEST_WAIT} seconds")));
    }
    let id = requests::id_of(&id)?;
    let queue = app.queue().await?;
    let mut answered = queue.request_result(&id).await?;
    let wait = Duration::from_secs(wait.into()).min(app.settings.timeout);
    let mut again = Some(AGAIN);
    let mut line = if answered.is_none() { Some(queue.request(&id).await?) } else { None };
    let before = line.as_ref().map(far);
    if answered.is_none() && !wait.is_zero() {
        tracing::debug!(id, "somebody waits for the result of a request");
        tokio::select! {
            biased;
            // Whoever asks again asks another node. This one may have no session any more that could be asked.
            () = app.ends() => {}
            news = further(&queue, &id, before) => (answered, again, line) = (news?, None, None),
            () = tokio::time::sleep(wait) => again = None,
        }
    }
    if let Some(answered) = answered {
        return Ok(Json(outcome(id, answered)).into_response());
    }
    let line = match line {
        Some(line) => shown(&line),
        None => shown(&queue.request(&id).await?),
    };
    let mut response = (StatusCode::ACCEPTED, Json(line)).into_response();
    if let Some(again) = again {
        response.headers_mut().insert(header::RETRY_AFTER, again.into());
    }
    Ok(response)
}

/// How far a request is.
fn far(line: &requests::RequestLine) -> (&'static str, String) {
    (line.state(), line.request.progress.clone())
}

/// Sleeps until a request has its result, or, without one, is further than it was when it was seen before.
async fn further(
    queue: &Queue,
    id: &str,
    before: Option<(&'static str, String)>,
) -> Answer<Option<Answered>> {
    let moved = tokio::sync::Notify::new();
    let told = |line: &requests::RequestLine| {
        // Who has seen that it is done waits for what it brought.
        if !line.request.done && before.as_ref().is_some_and(|before| *before != far(line)) {
            moved.notify_one();
        }
    };
    tokio::select! {
        answered = queue.await_request(id, told) => Ok(Some(answered?)),
        () = moved.notified() => Ok(None),
    }
}

/// A result as the API tells it. The problem is the one that its route would have answered.
pub(crate) fn outcome(id: String, answered: Answered) -> RequestOutcome {
    let Answered { result, data } = answered;
    RequestOutcome {
        id,
        ok: result.ok,
        data,
        problem: result.problem.as_ref().map(problem),
        node: result.node,
        at: result.at,
        attempt: result.attempt,
    }
}

/// A refusal as the API would have told it.
pub(crate) fn problem_of(refused: &Refused) -> Problem {
    problem(&refused.problem())
}

fn problem(told: &Value) -> Problem {
    let text = |name: &str| told.get(name).and_then(Value::as_str).unwrap_or_default();
    let kind = text("type").rsplit(':').next().and_then(Kind::named).unwrap_or(Kind::INTERNAL);
    let problems: Vec<FieldProblem> =
        told.get("problems").cloned().and_then(|list| serde_json::from_value(list).ok()).unwrap_or_default();
    Problem {
        kind: format!("urn:ingestd:problem:{}", kind.0),
        title: kind.2.to_owned(),
        status: kind.1.as_u16(),
        detail: text("detail").to_owned(),
        instance: None,
        problems,
    }
}

#[utoipa::path(delete, path = "/api/v1/requests/{id}", tag = "requests", security(("token" = ["operator"])), params(("id" = String, Path)), responses(
    (status = 200, body = RequestForgotten),
    (status = "default", body = Problem, content_type = "application/problem+json"),
))]
/// Takes a management request back, or away with its result
pub(crate) async fn forget(
    State(app): State<App>,
    _: Operator,
    Path(id): Path<String>,
) -> Answer<Json<RequestForgotten>> {
    let id = requests::id_of(&id)?;
    app.queue().await?.forget_request(&id).await?;
    Ok(Json(RequestForgotten { id }))
}

#[utoipa::path(post, path = "/api/v1/ltime", tag = "requests", security(("token" = ["operator"])), responses(
    (status = 200, body = Moment),
    (status = "default", body = Problem, content_type = "application/problem+json"),
))]
/// Says which moment of the cluster it is: after everything that was done before
pub(crate) async fn moment(State(app): State<App>, _: Operator) -> Answer<Json<Moment>> {
    let queue = app.queue().await?;
    let moment = ltime::tick(queue.session()).await.map_err(ingest_queue::error::Error::from)?;
    Ok(Json(Moment { ltime: moment.0 }))
}
