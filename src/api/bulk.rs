//! One action on many jobs.

use axum::Json;
use axum::extract::State;
use ingest_actors::actions::Order;

use super::app::App;
use super::caller::Operator;
use super::problem::{Answer, Refusal};
use super::read::Body;
use super::wire::{Bulk, BulkAnswer, Problem};

#[utoipa::path(post, path = "/api/v1/jobs/bulk", tag = "jobs", security(("token" = ["operator"])), request_body = Bulk, responses(
    (status = 200, body = BulkAnswer),
    (status = "default", body = Problem, content_type = "application/problem+json"),
))]
/// Does something to all jobs that a filter selects
pub(crate) async fn run(
    State(app): State<App>,
    Operator(caller): Operator,
    Body(asked): Body<Bulk>,
) -> Answer<Json<BulkAnswer>> {
    // The same names on both sides, by a test.
    let order = serde_json::to_value(&asked).and_then(serde_json::from_value).map_err(Refusal::defect)?;
    let answer = app.act(&caller, Order::Bulk(Box::new(order))).await?;
    Ok(Json(answer))
}

#[cfg(test)]
mod tests {
    use ingest_actors::actions::order::BulkJobs;
    use serde_json::json;

    use super::*;

    #[test]
    fn what_the_api_takes_is_what_the_table_of_actions_takes() {
        let all = json!({
            "action": "requeue", "state": "downloading", "priority": 5, "dry_run": true, "all": true, "confirm": true, "expected": 7,
            "id": "run-1", "reason": "why",
            "filter": {
                "states": ["failed"], "batch": "bid0000000001", "collection": "c", "submitter": "s",
                "older_than": "2026-01-01T00:00:00.000Z", "newer_than": "2026-01-01T00:00:00.000Z", "text": "t",
                "min_priority": 1, "max_priority": 99, "scheduled": true,
                "group": "g1-0123456789abcdef",
            },
        });
        let asked: Bulk = serde_json::from_value(all.clone()).unwrap();
        let order: BulkJobs = serde_json::from_value(serde_json::to_value(&asked).unwrap()).unwrap();
        assert_eq!(order, serde_json::from_value(all).unwrap());
    }
}
