//! People act on many jobs at once: other priorities, held and released, requeued after their source was repaired.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Result;
use ingest_harness::let_pass;
use reqwest::Method;
use serde_json::{Value, json};

use super::super::people;
use super::super::schedule::Planned;
use super::super::witness::Outcome;
use super::super::world::World;

static RUNS: AtomicU64 = AtomicU64::new(0);
const TRIES: u32 = 9;
const PAUSE: Duration = Duration::from_millis(500);
const WAITING: [&str; 4] = ["pending", "estimating", "provisioning", "downloading"];

pub(super) async fn act(world: &World, planned: &Planned) -> Result<Outcome> {
    let mut told = Vec::new();
    for number in 0..TRIES {
        // Of its own also if the same fault is made again: a run that is known goes on, and counts what it did before.
        let run = format!("chaos-{}", RUNS.fetch_add(1, Ordering::Relaxed));
        let (name, changed) = match planned.variant.wrapping_add(number) % 3 {
            0 => {
                let priority = planned.variant / 4 % 90;
                let more = json!({"priority": priority});
                ("priority", bulk(world, planned.node, &run, "priority", &WAITING, more).await?)
            }
            1 => {
                let held = bulk(world, planned.node, &run, "hold", &WAITING[..3], json!({})).await?;
                let_pass(planned.lasts).await;
                bulk(world, planned.node, &format!("{run}r"), "release", &["held"], json!({})).await?;
                ("hold and release", held)
            }
            _ => {
                world.ledger.repair_sources();
                ("requeue", bulk(world, planned.node, &run, "requeue", &["failed"], json!({})).await?)
            }
        };
        if changed > 0 {
            return Ok(Outcome::Witnessed(format!("{name}, {changed} jobs")));
        }
        told.push(name);
        let_pass(PAUSE).await;
    }
    Ok(Outcome::Missed(format!("nothing to act on: {}", told.join(", "))))
}

/// One action on all jobs in some states; answers how many it has changed.
pub(crate) async fn bulk(
    world: &World,
    node: usize,
    id: &str,
    action: &str,
    states: &[&str],
    more: Value,
) -> Result<u64> {
    let mut body = json!({
        "action": action, "filter": {"states": states}, "dry_run": false, "id": id, "reason": "chaos",
    });
    if let (Some(body), Value::Object(more)) = (body.as_object_mut(), more) {
        body.extend(more);
    }
    loop {
        let path = "/api/v1/jobs/bulk";
        let answer = people::insist(world, node, Method::POST, path, Some(&body)).await?;
        let of = |key: &str| answer[key].as_u64().unwrap_or(0);
        // One that was stopped goes on under the same id; what it did before is skipped then.
        if answer["stopped"].is_null() {
            return Ok(of("done") + of("skipped"));
        }
        let_pass(PAUSE).await;
    }
}
