//! Metrics, in the text format of Prometheus.
//!
//! What is counted while the node works is in its meters; the rest is read when it is asked for: how many jobs are in
//! each state, what the pools do, how the session fares, and how long the tree takes to answer.
//!
//! **When things break.** While the tree is away, what is read from it is left out, and the rest is told.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use axum::extract::State;
use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use ingest_actors::feeds::board::Doing;
use ingest_actors::house::Life;
use ingest_queue::limits::parked_with;
use ingest_queue::limits::set::Line;
use ingest_queue::{list, map};
use ingest_store::SessionState;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
use tokio::time::Instant;

use super::app::App;
use super::caller::Operator;
use super::nodes::session_name;
use super::problem::{Answer, Refusal};
use super::wire::Problem;

/// How long the tree is waited for.
const PATIENCE: Duration = Duration::from_secs(2);

type Label = [(&'static str, String); 1];
type Labels = [(&'static str, String); 2];

/// What the API itself measures.
#[derive(Debug)]
pub(crate) struct ApiMeters {
    requests: Family<Labels, Counter>,
    seconds: Histogram,
    /// One read for each time that somebody asked.
    store: Histogram,
}

impl Default for ApiMeters {
    fn default() -> Self {
        Self {
            requests: Family::default(),
            seconds: Histogram::new(exponential_buckets(0.001, 4.0, 8)),
            store: Histogram::new(exponential_buckets(0.0005, 4.0, 9)),
        }
    }
}

impl ApiMeters {
    pub(crate) fn answered(&self, method: &Method, status: StatusCode, took: Duration) {
        // Strangers may invent methods.
        let known = [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::PATCH, Method::DELETE];
        let method = if known.contains(method) { method.as_str() } else { "other" };
        let labels = [("method", method.to_owned()), ("status", status.as_u16().to_string())];
        self.requests.get_or_create(&labels).inc();
        self.seconds.observe(took.as_secs_f64());
    }
}

#[utoipa::path(get, path = "/metrics", tag = "health", security(("token" = ["operator"])), responses(
    (status = 200, description = "in the text format of Prometheus", content_type = "application/openmetrics-text", body = String),
    (status = "default", body = Problem, content_type = "application/problem+json"),
))]
/// Tells how the node fares, in numbers
pub(crate) async fn text(State(app): State<App>, _: Operator) -> Answer<Response> {
    let mut registry = Registry::with_prefix("ingestd");
    app.node.house().meters.register(&mut registry);
    registry.register("http_requests", "Requests that were answered", app.meters.requests.clone());
    registry.register("http_seconds", "How long answers took", app.meters.seconds.clone());
    read_tree(&app, &mut registry).await;
    read_node(&app, &mut registry).await;
    registry.register("store_seconds", "How long the tree took to answer a read", app.meters.store.clone());
    let mut text = String::new();
    encode(&mut text, &registry).map_err(Refusal::defect)?;
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok(([(header::CONTENT_TYPE, kind)], text).into_response())
}

fn gauges(registry: &mut Registry, name: &str, help: &str, values: impl IntoIterator<Item = (Label, u64)>) {
    let family = Family::<Label, Gauge<u64, AtomicU64>>::default();
    for (labels, value) in values {
        family.get_or_create(&labels).set(value);
    }
    registry.register(name, help, family);
}

fn counted(registry: &mut Registry, name: &str, help: &str, value: u64) {
    let counter: Counter = Counter::default();
    counter.inc_by(value);
    registry.register(name, help, counter);
}

/// What has to be read from the tree.
async fn read_tree(app: &App, registry: &mut Registry) {
    let Some(life) = app.node.house().life() else { return };
    let session = life.queue.session();
    let began = Instant::now();
    let answered = tokio::time::timeout(PATIENCE, session.exists(map::JOBS)).await;
    if !matches!(answered, Ok(Ok(_))) {
        return;
    }
    app.meters.store.observe(began.elapsed().as_secs_f64());
    if let Ok(Ok(counts)) = tokio::time::timeout(PATIENCE, list::counts(session)).await {
        let counts = counts.into_iter().map(|(state, count)| ([("state", state.to_string())], count as u64));
        gauges(registry, "jobs", "Jobs in each state, in the whole tree", counts);
    }
    if !life.queue.limits().is_free()
        && let Ok(Ok(limits)) = tokio::time::timeout(PATIENCE, life.queue.semaphores()).await
    {
        read_limits(&life, &limits, registry);
    }
}

/// How full the limits are, and who waits.
fn read_limits(life: &Life, limits: &[Line], registry: &mut Registry) {
    let finder = life.finder();
    let waiting = |line: &Line| {
        let key = parked_with(&line.semaphore.node_name());
        finder.as_ref().map_or(0, |finder| finder.parked_with(key)) as u64
    };
    let labels = |line: &Line| [("limit", line.semaphore.node_name())];
    let all = limits.iter();
    let limit = all.clone().filter_map(|line| Some((labels(line), u64::from(line.limit?.0))));
    gauges(registry, "limit_slots", "How many slots a limit has, over all nodes", limit);
    let held = all.clone().map(|line| (labels(line), line.holders.len() as u64));
    gauges(registry, "limit_held", "How many slots of a limit are held, over all nodes", held);
    let waiting = all.map(|line| (labels(line), waiting(line)));
    gauges(registry, "limit_waiting", "Jobs that this node knows to wait for a slot", waiting);
}

/// How the feeds fare that this node consumes.
fn read_feeds(app: &App, registry: &mut Registry) {
    let house = app.node.house();
    let now = ingest_queue::date::Clock::system().now();
    let consumed: Vec<_> =
        house.feeds.all().into_iter().map(|one| (one.name.clone(), one.status())).collect();
    let consumed: Vec<_> = consumed.iter().filter(|(_, status)| status.doing != Doing::Waiting).collect();
    let label = |name: &String| [("feed", name.clone())];
    gauges(
        registry,
        "feed_lag_seconds",
        "For how long something has been waiting in a feed that this node consumes",
        consumed.iter().map(|(name, status)| (label(name), status.lag(now).as_secs())),
    );
    gauges(
        registry,
        "feed_failing",
        "Whether a feed that this node consumes cannot be asked",
        consumed.iter().map(|(name, status)| (label(name), u64::from(status.doing == Doing::Failing))),
    );
}

/// What the node says of itself.
async fn read_node(app: &App, registry: &mut Registry) {
    let house = app.node.house();
    let all = [SessionState::Connected, SessionState::Suspended, SessionState::Expired, SessionState::Closed];
    let link = house.link();
    let states = all.map(|state| ([("state", session_name(state).to_owned())], u64::from(state == link)));
    gauges(registry, "session_state", "The state of the session is 1, the others are 0", states);
    let ready: Gauge<u64, AtomicU64> = Gauge::default();
    ready.set(u64::from(app.node.is_ready()));
    registry.register("ready", "Whether the node takes work", ready);
    read_feeds(app, registry);
    let Some(snapshot) = app.node.snapshot().await else { return };
    let pool = |name: &String| [("pool", name.clone())];
    let pools = &snapshot.pools;
    gauges(
        registry,
        "pool_size",
        "How many workers a pool may have",
        pools.iter().map(|(name, now)| (pool(name), now.size as u64)),
    );
    gauges(
        registry,
        "pool_live",
        "How many workers a pool has",
        pools.iter().map(|(name, now)| (pool(name), now.live as u64)),
    );
    let busy = |name: &String| snapshot.working.iter().filter(|one| one.pool == *name).count() as u64;
    gauges(
        registry,
        "pool_busy",
        "How many workers are at work",
        pools.keys().map(|name| (pool(name), busy(name))),
    );
    let waiting = pools.iter().map(|(name, now)| (pool(name), now.waiting.ready as u64));
    gauges(registry, "pool_waiting", "Jobs that this node could take", waiting);
    let oldest = pools.iter().map(|(name, now)| (pool(name), now.oldest.unwrap_or_default().as_secs()));
    gauges(
        registry,
        "pool_oldest_seconds",
        "How long the first of them has waited, as far as this node has seen",
        oldest,
    );
    counted(
        registry,
        "sweep_healed",
        "Entries of the index that no event had told of",
        snapshot.sweep_healed,
    );
    counted(
        registry,
        "commits_refused",
        "Commits that the tree refused: what they rest on had changed, or the session was over",
        snapshot.commits_refused,
    );
    counted(registry, "sessions", "Sessions that were opened", snapshot.sessions);
    counted(registry, "stalls", "Steps that were stopped because they made no progress", snapshot.stalls);
    counted(
        registry,
        "handed_over",
        "Jobs that went from one worker to the next with their lock",
        snapshot.handed_over,
    );
}
