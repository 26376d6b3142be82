//! Whether the process lives, and whether the node takes work.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use ingest_actors::house::Mode;
use ingest_store::SessionState;

use super::app::App;
use super::wire::{Alive, Ready};

#[utoipa::path(get, path = "/healthz", tag = "health", security(()), responses((status = 200, body = Alive)))]
/// Says that the process answers
pub(crate) async fn alive() -> Json<Alive> {
    Json(Alive { status: "alive".to_owned() })
}

#[utoipa::path(get, path = "/readyz", tag = "health", security(()), responses(
    (status = 200, body = Ready),
    (status = 503, body = Ready),
))]
/// Says whether the node takes work, and if not, why
pub(crate) async fn ready(State(app): State<App>) -> (StatusCode, Json<Ready>) {
    match why_not(&app) {
        None => (StatusCode::OK, Json(Ready { ready: true, reason: None })),
        Some(why) => (StatusCode::SERVICE_UNAVAILABLE, Json(Ready { ready: false, reason: Some(why) })),
    }
}

/// Why the node takes no work, if it takes none.
pub(crate) fn why_not(app: &App) -> Option<String> {
    let house = app.node.house();
    let why = match (house.mode(), house.link()) {
        (Mode::Draining, _) => "the node is draining",
        (_, SessionState::Suspended) => "the connection to the tree is lost",
        _ if !app.node.has_started() => "the node is starting",
        (_, SessionState::Expired | SessionState::Closed) => "the session of the tree is over",
        (Mode::Paused, _) => "the node is paused",
        (Mode::Running, SessionState::Connected) => return house.barred().map(|why| why.to_string()),
    };
    Some(why.to_owned())
}
