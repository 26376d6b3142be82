//! Pools: how many work on each state, seen and changed while they work.

use axum::Json;
use axum::extract::{Path, State};
use ingest_actors::actions::Order;
use ingest_actors::actions::order::SetPool;
use ingest_actors::gate::Snapshot;
use ingest_actors::settings::Pool;
use ingest_queue::states::States as _;

use super::app::App;
use super::caller::{Admin, Operator};
use super::problem::{Answer, Refusal};
use super::read::Body;
use super::wire::{ChangePool, PoolLine, PoolList, Problem, Waiting};

/// The pools that belong to no state of a job.
const ACCESS: [&str; 2] = ["access_small", "access_large"];

/// What a pool without workers means.
const EMPTY: &str = "without workers this node takes nothing of this pool; what runs goes on, and what waits is left to other nodes";

/// All pools as they are set, and, where there is a snapshot, as they are.
pub(crate) fn lines(app: &App, snapshot: Option<&Snapshot>) -> Vec<PoolLine> {
    let pools = app.node.house().settings.load().pools;
    let names = pools.of_jobs().into_keys().map(|state| state.name().to_owned());
    let names = names.chain(ACCESS.map(str::to_owned));
    let line = |name: String| {
        let Pool { size, stall } = pools.named(&name)?;
        let now = snapshot.and_then(|snapshot| snapshot.pools.get(&name));
        Some(PoolLine {
            name,
            size,
            warning: (size == 0).then(|| EMPTY.to_owned()),
            live: now.map(|now| now.live),
            stall: humantime::format_duration(stall).to_string(),
            waiting: now.map(|now| Waiting {
                ready: now.waiting.ready,
                taken: now.waiting.taken,
                locked: now.waiting.locked,
                parked: now.waiting.parked,
                delayed: now.waiting.delayed,
                not_due: now.waiting.not_due,
                busy: now.waiting.busy,
            }),
        })
    };
    names.filter_map(line).collect()
}

async fn all(app: &App) -> Vec<PoolLine> {
    let snapshot = app.node.snapshot().await;
    lines(app, snapshot.as_ref())
}

async fn one(app: &App, name: &str) -> Answer<Json<PoolLine>> {
    let found = all(app).await.into_iter().find(|pool| pool.name == name);
    found.map(Json).ok_or_else(|| unknown(name))
}

fn unknown(name: &str) -> Refusal {
    Refusal::not_found(format_args!("pool {}", name.chars().take(64).collect::<String>().escape_debug()))
}

#[utoipa::path(get, path = "/api/v1/pools", tag = "pools", security(("token" = ["operator"])), responses(
    (status = 200, body = PoolList),
    (status = "default", body = Problem, content_type = "application/problem+json"),
))]
/// Lists the pools of this node
pub(crate) async fn list(State(app): State<App>, _: Operator) -> Json<PoolList> {
    Json(PoolList { pools: all(&app).await })
}

#[utoipa::path(get, path = "/api/v1/pools/{pool}", tag = "pools", security(("token" = ["operator"])), params(("pool" = String, Path)), responses(
    (status = 200, body = PoolLine),
    (status = "default", body = Problem, content_type = "application/problem+json"),
))]
/// Shows a pool
pub(crate) async fn show(
    State(app): State<App>,
    _: Operator,
    Path(name): Path<String>,
) -> Answer<Json<PoolLine>> {
    one(&app, &name).await
}

#[utoipa::path(patch, path = "/api/v1/pools/{pool}", tag = "pools", security(("token" = ["admin"])), params(("pool" = String, Path)), request_body = ChangePool, responses(
    (status = 200, body = PoolLine),
    (status = "default", body = Problem, content_type = "application/problem+json"),
))]
/// Changes a pool at once, until the configuration is read again
pub(crate) async fn change(
    State(app): State<App>,
    Admin(caller): Admin,
    Path(name): Path<String>,
    Body(asked): Body<ChangePool>,
) -> Answer<Json<PoolLine>> {
    let ChangePool { size, stall } = asked;
    let order = Order::SetPool(SetPool { pool: name.clone(), size, stall });
    app.act::<serde_json::Value>(&caller, order).await?;
    one(&app, &name).await
}
