//! Metrics for Prometheus.

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse as _, Response};

use super::app::App;
use super::caller::Operator;
use super::problem::Answer;
use super::wire::Problem;

#[utoipa::path(get, path = "/metrics", tag = "health", responses(
    (status = 200, description = "in the text format of Prometheus", content_type = "text/plain", body = String),
    (status = "default", body = Problem, content_type = "application/problem+json"),
))]
/// Tells how the node fares, in numbers
pub(crate) async fn text(State(app): State<App>, _: Operator) -> Answer<Response> {
    let text = format!("ingestd_ready {}\n", u8::from(app.node.is_ready()));
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response())
}
