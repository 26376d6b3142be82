//! Pools: how many work on each state, seen and changed while they work.

use axum::Json;
use axum::extract::{Path, State};
use ingest_actors::gate::Snapshot;
use ingest_actors::settings::{Pool, Pools};
use ingest_queue::states::States as _;

use super::app::App;
use super::caller::{Admin, Operator};
use super::problem::{Answer, Refusal};
use super::read::Body;
use super::wire::{ChangePool, PoolLine, PoolList, Problem, Waiting};

/// The pools that belong to no state of a job.
const ACCESS: [&str; 2] = ["access_small", "access_large"];

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
    let mut pools = app.node.house().settings.load().pools;
    let pool = pool_of(&mut pools, &name).ok_or_else(|| unknown(&name))?;
    if let Some(size) = asked.size {
        pool.size = size;
    }
    if let Some(stall) = &asked.stall {
        let read =
            humantime::parse_duration(stall).map_err(|error| Refusal::field("stall", error.to_string()))?;
        if read.is_zero() {
            return Err(Refusal::field("stall", "it has to last longer than no time"));
        }
        pool.stall = read;
    }
    let changed = *pool;
    if let Some(problem) = pools.problems().into_iter().next() {
        return Err(Refusal::field("size", problem));
    }
    app.node.set_pools(|pools| {
        if let Some(pool) = pool_of(pools, &name) {
            *pool = changed;
        }
    });
    tracing::info!(who = caller.name, pool = name, size = changed.size, "a pool was changed");
    one(&app, &name).await
}

fn pool_of<'a>(pools: &'a mut Pools, name: &str) -> Option<&'a mut Pool> {
    Some(match name {
        "pending" => &mut pools.pending,
        "estimating" => &mut pools.estimating,
        "provisioning" => &mut pools.provisioning,
        "downloading" => &mut pools.downloading,
        "processing" => &mut pools.processing,
        "recording" => &mut pools.recording,
        "notify" => &mut pools.notify,
        "access_small" => &mut pools.access_small,
        "access_large" => &mut pools.access_large,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pool_can_be_changed() {
        let mut pools = Pools::default();
        let of_jobs: Vec<&str> =
            pools.of_jobs().into_keys().map(ingest_queue::states::States::name).collect();
        for (at, name) in of_jobs.into_iter().chain(ACCESS).enumerate() {
            pool_of(&mut pools, name).unwrap().size = at + 100;
            assert_eq!(pools.named(name).unwrap().size, at + 100, "{name}");
        }
        assert!(pool_of(&mut pools, "nothing").is_none());
    }
}
