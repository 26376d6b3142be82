//! Holds on queues and collections.

use axum::Json;
use axum::extract::{Path, State};
use ingest_actors::actions::Order;
use ingest_actors::actions::order::{HoldCollection, HoldQueue, ReleaseCollection, ReleaseQueue};
use ingest_queue::nodes;
use serde::Deserialize;
use utoipa::IntoParams;

use super::app::App;
use super::caller::Operator;
use super::problem::Answer;
use super::read::{Body, Params};
use super::wire::{Hold, HoldChanged, Holds, Problem, SetHold};

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
    let order = Order::HoldQueue(HoldQueue { queue: name, reason: hold.reason });
    app.act(&caller, order).await.map(Json)
}

#[utoipa::path(delete, path = "/api/v1/holds/queues/{queue}", tag = "holds", security(("token" = ["operator"])), params(("queue" = String, Path)), responses(
    (status = 200, body = HoldChanged),
    (status = "default", body = Problem, content_type = "application/problem+json"),
))]
/// Lifts the hold on a queue
pub(crate) async fn release_queue(
    State(app): State<App>,
    Operator(caller): Operator,
    Path(name): Path<String>,
) -> Answer<Json<HoldChanged>> {
    app.act(&caller, Order::ReleaseQueue(ReleaseQueue { queue: name })).await.map(Json)
}

#[utoipa::path(put, path = "/api/v1/holds/collections/{mnemonic}", tag = "holds", security(("token" = ["operator"])), params(("mnemonic" = String, Path, min_length = 1, max_length = 100, pattern = r"\S")), request_body = SetHold, responses(
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
    let order = Order::HoldCollection(HoldCollection { collection: name, reason: hold.reason });
    app.act(&caller, order).await.map(Json)
}

/// What goes with the hold.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ReleaseParams {
    /// Also the jobs and batches that it has stopped.
    all: bool,
}

#[utoipa::path(delete, path = "/api/v1/holds/collections/{mnemonic}", tag = "holds", security(("token" = ["operator"])), params(("mnemonic" = String, Path, min_length = 1, max_length = 100, pattern = r"\S"), ReleaseParams), responses(
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
    let order = Order::ReleaseCollection(ReleaseCollection { collection: name, all: params.all });
    app.act(&caller, order).await.map(Json)
}
