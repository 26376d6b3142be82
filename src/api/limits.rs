//! Limits over all nodes, cleanup routines, and what was written down over time.

use axum::Json;
use axum::extract::{Path, State};
use ingest_actors::actions::{Order, order};
use ingest_actors::node::upkeep::{Known, Routine, Run};
use ingest_actors::stats::Stats;
use ingest_queue::error::Error;
use ingest_queue::limits::parked_with;
use ingest_queue::limits::rules::{DEFAULT, Kind as LimitKind};
use ingest_queue::limits::set;
use serde::Deserialize;
use utoipa::IntoParams;

use super::app::App;
use super::caller::{Admin, Operator};
use super::pages;
use super::problem::{Answer, Refusal};
use super::read::{Body, Params, holds};
use super::wire::{
    LimitChanged, LimitHolder, LimitKindText, LimitLine, LimitPage, Problem, SetLimit, StatsLine, StatsList,
    UpkeepLine, UpkeepList, UpkeepRun,
};

/// Which limits.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct LimitParams {
    /// `collection`, `host`, `profile` or `name`.
    #[param(value_type = Option<LimitKindText>, inline)]
    kind: Option<String>,
    /// In the name.
    text: Option<String>,
    /// 1 to 1000.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// The `next` of the page before.
    after: Option<String>,
}

impl LimitParams {
    fn kind(&self) -> Answer<Option<LimitKind>> {
        let Some(name) = self.kind.as_deref().filter(|name| !name.is_empty()) else { return Ok(None) };
        let found = LimitKind::ALL.into_iter().find(|kind| kind.name() == name);
        found.ok_or_else(|| Refusal::field("kind", "it is collection, host, profile or name")).map(Some)
    }
}

#[utoipa::path(get, path = "/api/v1/limits", tag = "limits", security(("token" = ["operator"])), params(LimitParams), responses(
    (status = 200, body = LimitPage),
    (status = "default", body = Problem, content_type = "application/problem+json"),
))]
/// Lists limits, who has a slot and how many wait
pub(crate) async fn list(
    State(app): State<App>,
    _: Operator,
    Params(params): Params<LimitParams>,
) -> Answer<Json<LimitPage>> {
    let (limit, kind) = (pages::limit_of(params.limit)?, params.kind()?);
    let life = app.life().await?;
    let mut lines = life.queue.semaphores().await?;
    lines.retain(|line| {
        let (of, name) = (line.semaphore.kind, line.semaphore.name.as_str());
        kind.is_none_or(|kind| kind == of) && holds(params.text.as_deref(), [Some(name)])
    });
    let key = |line: &set::Line| format!("{}-{}", line.semaphore.kind, line.semaphore.name);
    lines.sort_by_cached_key(key);
    let (lines, next) = pages::by_key(lines, params.after.as_deref(), limit, key);
    let rules = life.queue.known_limits().await?.rules;
    let finder = life.finder();
    let waiting = |name: &str| finder.as_ref().map_or(0, |finder| finder.parked_with(parked_with(name)));
    let limits = lines.into_iter().map(|line| LimitLine {
        kind: line.semaphore.kind.name().to_owned(),
        waiting: waiting(&line.semaphore.node_name()),
        limit: line.limit.map(|(limit, _)| limit),
        from: line.limit.map(|(_, from)| from.name().to_owned()),
        held: line.holders.len(),
        holders: line.holders.into_iter().map(holder).collect(),
        name: line.semaphore.name,
    });
    let default = |kind: LimitKind| Some((kind.name().to_owned(), rules.limit(kind, DEFAULT)?.0));
    Ok(Json(LimitPage {
        defaults: LimitKind::ALL.into_iter().filter_map(default).collect(),
        host_states: rules.host_states.iter().cloned().collect(),
        states: rules.states.iter().cloned().collect(),
        limits: limits.collect(),
        next,
    }))
}

fn holder(holding: ingest_queue::limits::Holding) -> LimitHolder {
    LimitHolder {
        job: holding.job.map(|jid| jid.to_string()),
        node: holding.node,
        state: holding.state,
        since: holding.since,
    }
}

#[utoipa::path(put, path = "/api/v1/limits/{kind}/{name}", tag = "limits", security(("token" = ["operator"])), params(("kind" = String, Path), ("name" = String, Path, min_length = 1, max_length = 200)), request_body = SetLimit, responses(
    (status = 200, body = LimitChanged),
    (status = "default", body = Problem, content_type = "application/problem+json"),
))]
/// Sets a limit, for all nodes, before what their files say
pub(crate) async fn set(
    State(app): State<App>,
    Operator(caller): Operator,
    Path((kind, name)): Path<(String, String)>,
    Body(SetLimit { limit }): Body<SetLimit>,
) -> Answer<Json<LimitChanged>> {
    app.act(&caller, Order::SetLimit(order::SetLimit { kind, name, limit })).await.map(Json)
}

#[utoipa::path(delete, path = "/api/v1/limits/{kind}/{name}", tag = "limits", security(("token" = ["operator"])), params(("kind" = String, Path), ("name" = String, Path, min_length = 1, max_length = 200)), responses(
    (status = 200, body = LimitChanged),
    (status = "default", body = Problem, content_type = "application/problem+json"),
))]
/// Clears what was set: what the file says holds again
pub(crate) async fn clear(
    State(app): State<App>,
    Operator(caller): Operator,
    Path((kind, name)): Path<(String, String)>,
) -> Answer<Json<LimitChanged>> {
    app.act(&caller, Order::ClearLimit(order::ClearLimit { kind, name })).await.map(Json)
}

#[utoipa::path(get, path = "/api/v1/upkeep", tag = "node", security(("token" = ["operator"])), responses(
    (status = 200, body = UpkeepList),
    (status = "default", body = Problem, content_type = "application/problem+json"),
))]
/// Lists the cleanup routines: when each last ran, where, and what it removed
pub(crate) async fn upkeep(State(app): State<App>, _: Operator) -> Answer<Json<UpkeepList>> {
    let life = app.life().await?;
    let settings = app.node.house().settings.load_full();
    let mut routines = Vec::new();
    for routine in Routine::ALL {
        let known = Known::read(life.queue.session(), routine).await.map_err(Error::from)?;
        let every = routine.every(&settings.upkeep).as_millis();
        routines.push(UpkeepLine {
            name: routine.name().to_owned(),
            about: routine.about().to_owned(),
            every_ms: u64::try_from(every).unwrap_or(u64::MAX),
            running: known.running,
            last: known.last.map(run),
        });
    }
    Ok(Json(UpkeepList { routines }))
}

fn run(run: Run) -> UpkeepRun {
    let Run { at, node, took_ms, removed, error } = run;
    UpkeepRun { at, node, took_ms, removed, error }
}

#[utoipa::path(post, path = "/api/v1/upkeep/{name}/run", tag = "node", security(("token" = ["admin"])), params(("name" = String, Path)), responses(
    (status = 200, body = UpkeepRun),
    (status = "default", body = Problem, content_type = "application/problem+json"),
))]
/// Runs a cleanup routine now, on this node
pub(crate) async fn run_upkeep(
    State(app): State<App>,
    Admin(caller): Admin,
    Path(routine): Path<String>,
) -> Answer<Json<UpkeepRun>> {
    app.act(&caller, Order::RunUpkeep(order::RunUpkeep { routine })).await.map(Json)
}

#[utoipa::path(get, path = "/api/v1/stats", tag = "node", security(("token" = ["operator"])), responses(
    (status = 200, body = StatsList),
    (status = "default", body = Problem, content_type = "application/problem+json"),
))]
/// Tells what waited and what ended over time, in the whole cluster
pub(crate) async fn stats(State(app): State<App>, _: Operator) -> Answer<Json<StatsList>> {
    let life = app.life().await?;
    let (stats, _) = Stats::read(life.queue.session()).await.map_err(Error::from)?;
    let line = |line: ingest_actors::stats::Line| StatsLine {
        at: line.at,
        node: line.node,
        waiting: line.waiting,
        completed: line.completed,
        failed: line.failed,
    };
    Ok(Json(StatsList { lines: stats.lines.into_iter().map(line).collect() }))
}
