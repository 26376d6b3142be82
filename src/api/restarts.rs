//! Restarts of actors, of all nodes together: each node has a log of its own, and the one that is asked asks the others.
//!
//! **When things break.** The answer has what could be had, and names whoever could not be asked, and why.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use futures::StreamExt as _;
use ingest_actors::restart_log;
use ingest_queue::date::Date;
use serde::{Deserialize, Serialize};
use utoipa::IntoParams;

use super::app::App;
use super::caller::Operator;
use super::pages::{self, Logged, Place};
use super::problem::{Answer, Kind, Refusal};
use super::read::{self, Params};
use super::wire::{DateText, LogPlaceText, NodeLine, NotAsked, Problem, Restart, RestartPage};
use super::{nodes, peers};

/// How long the tree may take to say who lives.
const SOON: Duration = Duration::from_secs(3);
const SILENT: &str = "the tree does not answer: who else lives is not known";

/// Nodes that are asked at a time.
const AT_ONCE: usize = 16;

/// Which restarts.
#[derive(Debug, Clone, Default, Serialize, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct RestartParams {
    /// Of this node alone, by its name or as a component; absent: of all that live.
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<String>,
    /// 1 to 1000.
    #[param(minimum = 1, maximum = 1000)]
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<usize>,
    /// The `next` of the page before.
    #[param(value_type = Option<LogPlaceText>, inline)]
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<String>,
    /// A beginning of its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    actor: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pool: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    job: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    batch: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(value_type = Option<DateText>, inline)]
    newer_than: Option<String>,
}

impl RestartParams {
    fn admits(&self, restart: &restart_log::Restart, newer_than: Option<Date>) -> bool {
        let same = |wanted: &Option<String>, given: Option<&String>| {
            wanted.as_ref().is_none_or(|wanted| given == Some(wanted))
        };
        self.actor.as_ref().is_none_or(|wanted| restart.actor.starts_with(wanted.as_str()))
            && same(&self.pool, restart.pool.as_ref())
            && same(&self.job, restart.job.as_ref())
            && same(&self.batch, restart.batch.as_ref())
            && same(&self.reason, Some(&restart.reason))
            && newer_than.is_none_or(|date| restart.at > date)
    }
}

#[utoipa::path(get, path = "/api/v1/restarts", tag = "node", security(("token" = ["operator"])), params(RestartParams), responses(
    (status = 200, body = RestartPage),
    (status = "default", body = Problem, content_type = "application/problem+json"),
))]
/// Lists restarts of the actors of all nodes, the newest first
pub(crate) async fn restarts(
    State(app): State<App>,
    _: Operator,
    headers: HeaderMap,
    Params(params): Params<RestartParams>,
) -> Answer<Json<RestartPage>> {
    let limit = pages::limit_of(params.limit)?;
    let place = Place::read(params.after.as_deref())?;
    let newer_than = read::one("newer_than", params.newer_than.as_deref())?;
    let (of_own, others, mut missing) = whom(&app, params.node.as_deref()).await?;
    if peers::is_node(&headers) && !others.is_empty() {
        // Nodes that share an address would ask each other without end.
        let name = &app.node.house().name;
        return Err(Refusal::new(
            Kind::REFUSED,
            format!("this is {name}; does another node have the same address?"),
        ));
    }
    let mut restarts = Vec::new();
    if of_own {
        restarts = pages::after(own(&app, &params, newer_than).await?, place.as_ref());
    }
    let asking = others.into_iter().map(|node| {
        let wanted = RestartParams { node: Some(node.component.clone()), ..params.clone() };
        let app = app.clone();
        async move { (peers::get::<RestartPage>(&app, &node, "restarts", &wanted).await, node.node) }
    });
    let mut asking = futures::stream::iter(asking).buffer_unordered(AT_ONCE);
    let mut more = false;
    while let Some((answer, name)) = asking.next().await {
        match answer {
            Ok(page) => {
                restarts.extend(page.restarts);
                more |= page.next.is_some();
            }
            Err(why) => missing.push(NotAsked { node: Some(name), why }),
        }
    }
    pages::newest_first(&mut restarts);
    let (restarts, next) = pages::of_log(restarts, place.as_ref(), limit, more);
    missing.sort_by(|a, b| a.node.cmp(&b.node));
    Ok(Json(RestartPage { restarts, next, missing }))
}

/// Whether this node's own are wanted, which others are to be asked, and who cannot be.
async fn whom(app: &App, wanted: Option<&str>) -> Answer<(bool, Vec<NodeLine>, Vec<NotAsked>)> {
    if wanted == Some(app.node.house().name.as_str()) {
        return Ok((true, Vec::new(), Vec::new()));
    }
    let living = match tokio::time::timeout(SOON, nodes::living(app)).await {
        Ok(Ok(living)) => living,
        Ok(Err(refusal)) if wanted.is_some() => return Err(refusal),
        Ok(Err(refusal)) => return Ok((true, Vec::new(), vec![unknown(refusal.detail)])),
        Err(_) if wanted.is_some() => return Err(Refusal::new(Kind::TREE_AWAY, SILENT)),
        Err(_) => return Ok((true, Vec::new(), vec![unknown(SILENT.to_owned())])),
    };
    let is_wanted = |node: &NodeLine| wanted.is_none_or(|name| node.node == name || node.component == name);
    let found: Vec<NodeLine> = living.into_iter().filter(is_wanted).collect();
    if let (Some(name), true) = (wanted, found.is_empty()) {
        let shown: String = name.chars().take(100).collect();
        return Err(Refusal::not_found(format!("node {shown}")));
    }
    let (own, others): (Vec<_>, Vec<_>) = found.into_iter().partition(|node| node.this);
    Ok((wanted.is_none() || !own.is_empty(), others, Vec::new()))
}

fn unknown(why: String) -> NotAsked {
    NotAsked { node: None, why }
}

/// Of this node's own log.
async fn own(app: &App, params: &RestartParams, newer_than: Option<Date>) -> Answer<Vec<Restart>> {
    let node = app.node.clone();
    // All of them: the log is bounded.
    let found = tokio::task::spawn_blocking(move || node.restarts(usize::MAX)).await;
    let found = found.map_err(Refusal::defect)?.map_err(Refusal::defect)?;
    let found = found.into_iter().filter(|restart| params.admits(restart, newer_than));
    Ok(found.map(restart_line).collect())
}

impl Logged for Restart {
    fn at(&self) -> Date {
        self.at
    }

    fn node(&self) -> &str {
        &self.node
    }
}

pub(crate) fn restart_line(found: restart_log::Restart) -> Restart {
    Restart {
        at: found.at,
        node: found.node,
        actor: found.actor,
        pool: found.pool,
        state: found.state,
        job: found.job,
        batch: found.batch,
        reason: found.reason,
        message: found.message,
        location: found.location,
        count: found.count,
        backoff_ms: found.backoff_ms,
    }
}
