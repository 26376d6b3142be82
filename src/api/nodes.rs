//! Nodes: all that live, this one, its actors, and what people tell it.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use ingest_actors::actions::Order;
use ingest_actors::actions::order::Reason;
use ingest_actors::house::Mode;
use ingest_actors::node;
use ingest_actors::registrar::Info;
use ingest_queue::date::Date;
use ingest_queue::map;
use ingest_store::{Kind as StoreKind, SessionState, path};
use ractor::ActorStatus;
use serde::Deserialize;
use utoipa::IntoParams;

use super::app::App;
use super::caller::{Admin, Depositor, Operator};
use super::pages::{self, Logged, Place};
use super::pools;
use super::problem::{Answer, Kind, Refusal};
use super::read::{self, Body, Params};
use super::wire::{
    AuditEntry, AuditPage, Branch, DateText, Doing, LogPlaceText, Me, ModeChanged, NodeLine, NodeList,
    NodeNow, Problem, Working,
};

pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// How long the node may take to begin to drain.
const SOON: Duration = Duration::from_secs(2);

#[utoipa::path(get, path = "/api/v1/me", tag = "node", security(("token" = ["depositor"])), responses(
    (status = 200, body = Me),
    (status = "default", body = Problem, content_type = "application/problem+json"),
))]
/// Says who asks, and what they may do
pub(crate) async fn me(State(app): State<App>, Depositor(caller): Depositor) -> Json<Me> {
    Json(Me {
        name: caller.name,
        role: caller.role,
        tokens: !app.settings.tokens.is_empty(),
        node: app.node.house().name.clone(),
        version: VERSION.to_owned(),
    })
}

#[utoipa::path(get, path = "/api/v1/nodes", tag = "node", security(("token" = ["operator"])), responses(
    (status = 200, body = NodeList),
    (status = "default", body = Problem, content_type = "application/problem+json"),
))]
/// Lists the nodes that live
pub(crate) async fn list(State(app): State<App>, _: Operator) -> Answer<Json<NodeList>> {
    let mut nodes = living(&app).await?;
    let shared = app.queue().await?.shared_unlocked().await?;
    let (profiles, settings) = (shared.profiles_mark(), shared.settings_mark());
    for node in &mut nodes {
        node.lags = node.profiles != profiles || node.settings != settings;
    }
    Ok(Json(NodeList { nodes, profiles, settings }))
}

/// The nodes that live, as each says of itself.
pub(super) async fn living(app: &App) -> Answer<Vec<NodeLine>> {
    let life = app.life().await?;
    let session = life.queue.session();
    let store = |error: ingest_store::Error| Refusal::from(ingest_queue::error::Error::from(error));
    let mut names = match session.children(map::NODES).await {
        Ok((names, _)) => names,
        Err(error) if error.kind() == StoreKind::NoNode => Vec::new(),
        Err(error) => return Err(store(error)),
    };
    names.sort_unstable();
    let paths = names.iter().map(|name| path::join(map::NODES, name)).collect();
    let found = session.get_many(paths).await.map_err(store)?;
    let own = life.own_name.read().clone();
    let mut nodes = Vec::new();
    for (component, found) in names.into_iter().zip(found) {
        let Some((data, _)) = found else { continue };
        // Another version may write what this one cannot read: it lives all the same.
        let info: Info = serde_json::from_slice(&data).unwrap_or_default();
        nodes.push(NodeLine {
            this: component == own,
            component,
            node: info.node,
            incarnation: info.incarnation,
            version: info.version,
            state: info.state,
            file_system: info.file_system,
            pools: info.pools,
            restarts: info.restarts,
            last_restart: info.last_restart,
            leads: info.leads,
            since: info.since,
            url: info.url,
            lags: false,
            profiles: info.profiles,
            settings: info.settings,
        });
    }
    Ok(nodes)
}

pub(crate) fn session_name(state: SessionState) -> &'static str {
    match state {
        SessionState::Connected => "connected",
        SessionState::Suspended => "suspended",
        SessionState::Expired => "expired",
        SessionState::Closed => "closed",
    }
}

#[utoipa::path(get, path = "/api/v1/node", tag = "node", security(("token" = ["operator"])), responses(
    (status = 200, body = NodeNow),
    (status = "default", body = Problem, content_type = "application/problem+json"),
))]
/// Shows this node
pub(crate) async fn show(State(app): State<App>, _: Operator) -> Answer<Json<NodeNow>> {
    let snapshot = app.node.snapshot().await.ok_or_else(away)?;
    let pools = pools::lines(&app, Some(&snapshot)).into_iter().map(|pool| (pool.name.clone(), pool));
    let working = snapshot.working.iter().map(|one| Working {
        worker: one.worker.clone(),
        pool: one.pool.clone(),
        job: one.job.clone(),
        batch: one.batch.clone(),
        attempt: one.attempt,
        running_ms: u64::try_from(one.running.as_millis()).unwrap_or(u64::MAX),
        done_files: one.done.0,
        done_bytes: one.done.1,
        all_files: one.all.0,
        all_bytes: one.all.1,
    });
    Ok(Json(NodeNow {
        version: VERSION.to_owned(),
        session: session_name(app.node.house().link()).to_owned(),
        ready: app.node.is_ready(),
        pools: pools.collect(),
        working: working.collect(),
        restarts: snapshot.restarts,
        sweep_healed: snapshot.sweep_healed,
        sessions: snapshot.sessions,
        stalls: snapshot.stalls,
        moved: snapshot.moved,
        handed_over: snapshot.handed_over,
        node: snapshot.node,
        component: snapshot.component,
        mode: snapshot.mode,
    }))
}

fn away() -> Refusal {
    Refusal::new(Kind::STARTING, "the node cannot be asked now: it is starting, or has lost the tree")
}

#[utoipa::path(post, path = "/api/v1/node/pause", tag = "node", security(("token" = ["operator"])), request_body = Doing, responses(
    (status = 200, body = ModeChanged),
    (status = "default", body = Problem, content_type = "application/problem+json"),
))]
/// Takes nothing new until it is resumed
pub(crate) async fn pause(
    State(app): State<App>,
    Operator(caller): Operator,
    Body(doing): Body<Doing>,
) -> Answer<Json<ModeChanged>> {
    app.act(&caller, Order::Pause(Reason { reason: doing.reason })).await.map(Json)
}

#[utoipa::path(post, path = "/api/v1/node/resume", tag = "node", security(("token" = ["operator"])), request_body = Doing, responses(
    (status = 200, body = ModeChanged),
    (status = "default", body = Problem, content_type = "application/problem+json"),
))]
/// Takes work again
pub(crate) async fn resume(
    State(app): State<App>,
    Operator(caller): Operator,
    Body(doing): Body<Doing>,
) -> Answer<Json<ModeChanged>> {
    app.act(&caller, Order::Resume(Reason { reason: doing.reason })).await.map(Json)
}

#[utoipa::path(post, path = "/api/v1/node/drain", tag = "node", security(("token" = ["admin"])), request_body = Doing, responses(
    (status = 202, body = ModeChanged),
    (status = "default", body = Problem, content_type = "application/problem+json"),
))]
/// Ends when what runs is done
pub(crate) async fn drain(
    State(app): State<App>,
    Admin(caller): Admin,
    Body(doing): Body<Doing>,
) -> Answer<(StatusCode, Json<ModeChanged>)> {
    caller.ordered.add(&Order::Drain(Reason { reason: doing.reason.clone() }));
    let reason = read::reason(&doing.reason)?;
    let changed = app.node.house().mode() != Mode::Draining;
    tracing::info!(who = caller.name, reason, "told to drain");
    let mut modes = app.node.house().modes();
    app.node.drain();
    // Whoever asks after this answer finds that it is not ready.
    let _ = tokio::time::timeout(SOON, modes.wait_for(|mode| *mode == Mode::Draining)).await;
    Ok((StatusCode::ACCEPTED, Json(ModeChanged { mode: Mode::Draining.name().to_owned(), changed })))
}

#[utoipa::path(get, path = "/api/v1/tree", tag = "node", security(("token" = ["operator"])), responses(
    (status = 200, body = Branch),
    (status = "default", body = Problem, content_type = "application/problem+json"),
))]
/// Shows the actors, as they are supervised now
pub(crate) async fn tree(State(app): State<App>, _: Operator) -> Json<Branch> {
    Json(branch(&app.node.tree()))
}

fn branch(found: &node::Branch) -> Branch {
    let status = match found.cell.get_status() {
        ActorStatus::Unstarted | ActorStatus::Starting => "starting",
        ActorStatus::Running => "running",
        ActorStatus::Upgrading => "upgrading",
        ActorStatus::Draining => "draining",
        ActorStatus::Stopping => "stopping",
        ActorStatus::Stopped => "stopped",
    };
    let children = found.children.iter().map(branch).collect();
    Branch { name: found.name.clone(), status: status.to_owned(), children }
}

/// Which entries.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct AuditParams {
    /// 1 to 1000.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// The `next` of the page before.
    #[param(value_type = Option<LogPlaceText>, inline)]
    after: Option<String>,
    /// Of this person alone.
    who: Option<String>,
    #[param(value_type = Option<DateText>, inline)]
    newer_than: Option<String>,
}

#[utoipa::path(get, path = "/api/v1/audit", tag = "node", security(("token" = ["admin"])), params(AuditParams), responses(
    (status = 200, body = AuditPage),
    (status = "default", body = Problem, content_type = "application/problem+json"),
))]
/// Lists what people did, the newest first
pub(crate) async fn audit(
    State(app): State<App>,
    _: Admin,
    Params(params): Params<AuditParams>,
) -> Answer<Json<AuditPage>> {
    let limit = pages::limit_of(params.limit)?;
    let place = Place::read(params.after.as_deref())?;
    let newer_than: Option<Date> = read::one("newer_than", params.newer_than.as_deref())?;
    let log = app.clone();
    // All of them: the log is bounded.
    let entries = tokio::task::spawn_blocking(move || log.audit.last(usize::MAX)).await;
    let mut entries = entries.map_err(Refusal::defect)?.map_err(Refusal::defect)?;
    let who = params.who.as_deref().filter(|who| !who.is_empty());
    entries.retain(|entry| {
        who.is_none_or(|who| entry.who == who) && newer_than.is_none_or(|date| entry.at > date)
    });
    let entries = pages::after(entries, place.as_ref());
    let (entries, next) = pages::of_log(entries, place.as_ref(), limit, false);
    Ok(Json(AuditPage { entries, next }))
}

impl Logged for AuditEntry {
    fn at(&self) -> Date {
        self.at
    }

    fn node(&self) -> &'static str {
        // Each node has its own.
        ""
    }
}
