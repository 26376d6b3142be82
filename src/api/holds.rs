//! Holds on queues and collections.

use axum::Json;
use axum::extract::{Path, State};
use ingest_queue::holds::Was;
use ingest_queue::map::HeldQueue;
use ingest_queue::nodes;
use serde::Deserialize;
use utoipa::IntoParams;

use super::app::App;
use super::caller::Operator;
use super::problem::{Answer, Kind, Refusal};
use super::read::{self, Body, Params};
use super::wire::{Hold, HoldChanged, Holds, Problem, Released, SetHold};

#[utoipa::path(get, path = "/api/v1/holds", tag = "holds", security(("token" = ["operator"])), responses(
    (status = 200, body = Holds),
    (status = "default", body = Problem, content_type = "application/problem+json"),
))]
/// Lists all holds
pub(crate) async fn list(State(app): State<App>, _: Operator) -> Answer<Json<Holds>> {
    let holds = app.queue().await?.read_holds().await?;
    let line = |(name, hold): (&str, &nodes::Hold)| Hold {
        name: name.to_owned(),
        who: hold.who.clone(),
        why: hold.why.clone(),
        when: hold.when,
    };
    Ok(Json(Holds {
        queues: holds.queues().map(line).collect(),
        collections: holds.collections().map(line).collect(),
    }))
}

fn queue_of(name: &str) -> Answer<HeldQueue> {
    HeldQueue::ALL.into_iter().find(|queue| queue.name().eq_ignore_ascii_case(name)).ok_or_else(|| {
        let known = HeldQueue::ALL.map(HeldQueue::name).join(", ");
        Refusal::new(Kind::NOT_FOUND, format!("the queues are {known}"))
    })
}

fn changed(kind: &str, name: &str, held: bool, was: &Was) -> HoldChanged {
    HoldChanged {
        kind: kind.to_owned(),
        name: name.to_owned(),
        held,
        changed: *was == Was::Changed,
        released: None,
    }
}

#[utoipa::path(put, path = "/api/v1/holds/queues/{queue}", tag = "holds", security(("token" = ["operator"])), params(("queue" = String, Path)), request_body = SetHold, responses(
    (status = 200, body = HoldChanged),
    (status = "default", body = Problem, content_type = "application/problem+json"),
))]
/// Holds a queue: nothing new is taken from it
pub(crate) async fn hold_queue(
    State(app): State<App>,
    Operator(caller): Operator,
    Path(name): Path<String>,
    Body(hold): Body<SetHold>,
) -> Answer<Json<HoldChanged>> {
    let (held, reason) = (queue_of(&name)?, read::reason(&hold.reason)?);
    let was = app.queue().await?.hold_queue(held, &caller.name, reason).await?;
    Ok(Json(changed("queue", held.name(), true, &was)))
}

#[utoipa::path(delete, path = "/api/v1/holds/queues/{queue}", tag = "holds", security(("token" = ["operator"])), params(("queue" = String, Path)), responses(
    (status = 200, body = HoldChanged),
    (status = "default", body = Problem, content_type = "application/problem+json"),
))]
/// Lifts the hold on a queue
pub(crate) async fn release_queue(
    State(app): State<App>,
    _: Operator,
    Path(name): Path<String>,
) -> Answer<Json<HoldChanged>> {
    let held = queue_of(&name)?;
    let was = app.queue().await?.release_queue(held).await?;
    Ok(Json(changed("queue", held.name(), false, &was)))
}

#[utoipa::path(put, path = "/api/v1/holds/collections/{mnemonic}", tag = "holds", security(("token" = ["operator"])), params(("mnemonic" = String, Path, min_length = 1, max_length = 100)), request_body = SetHold, responses(
    (status = 200, body = HoldChanged),
    (status = "default", body = Problem, content_type = "application/problem+json"),
))]
/// Holds a collection: what is pending of it goes to held
pub(crate) async fn hold_collection(
    State(app): State<App>,
    Operator(caller): Operator,
    Path(name): Path<String>,
    Body(hold): Body<SetHold>,
) -> Answer<Json<HoldChanged>> {
    let reason = read::reason(&hold.reason)?;
    let name = mnemonic(&name)?;
    let was = app.queue().await?.hold_collection(name, &caller.name, reason).await?;
    Ok(Json(changed("collection", name, true, &was)))
}

/// A name in the tree is not longer than one of a profile.
fn mnemonic(name: &str) -> Answer<&str> {
    if name.chars().count() > 100 {
        return Err(Refusal::field("mnemonic", "a collection's name has at most 100 letters"));
    }
    Ok(name)
}

/// What goes with the hold.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ReleaseParams {
    /// Also the jobs and batches that it has stopped.
    all: bool,
}

#[utoipa::path(delete, path = "/api/v1/holds/collections/{mnemonic}", tag = "holds", security(("token" = ["operator"])), params(("mnemonic" = String, Path, min_length = 1, max_length = 100), ReleaseParams), responses(
    (status = 200, body = HoldChanged),
    (status = "default", body = Problem, content_type = "application/problem+json"),
))]
/// Lifts the hold on a collection
pub(crate) async fn release_collection(
    State(app): State<App>,
    Operator(caller): Operator,
    Path(name): Path<String>,
    Params(params): Params<ReleaseParams>,
) -> Answer<Json<HoldChanged>> {
    let queue = app.queue().await?;
    let name = mnemonic(&name)?;
    let was = queue.release_collection(name).await?;
    let mut answer = changed("collection", name, false, &was);
    if params.all {
        let released = queue.release_collection_and_all(name, &caller.name, |_| {}).await?;
        let (jobs, batches, refused) = (released.jobs, released.batches, released.refused);
        answer.released = Some(Released { jobs, batches, refused });
    }
    Ok(Json(answer))
}
