//! One action on many jobs.

use ingest_queue::bulk::{self, Bulk};
use ingest_queue::error::Error;
use ingest_queue::list::Filter;
use ingest_queue::queue::Queue;
use serde_json::{Value, json};

use super::order::{BulkAction, BulkJobs, JobFilter};
use super::perform::{By, confirmed, priority_of, reason};
use super::refused::Refused;

/// `tell` hears how far it is.
pub(super) async fn run(
    queue: &Queue,
    order: &BulkJobs,
    by: &By,
    tell: &(dyn Fn(String) + Send + Sync),
) -> Result<Value, Refused> {
    let action = action(order)?;
    let reason = reason(&order.reason)?;
    let own = || by.request.clone().unwrap_or_else(|| uuid::Uuid::new_v4().simple().to_string());
    let id = order.id.clone().unwrap_or_else(own);
    let bulk = Bulk::new(id, action, filter(&order.filter)?, order.all, queue.dialect())?
        .expecting(order.expected, by.repeated);
    let progress = |at: &bulk::Progress| {
        let bulk::Progress { total, done, skipped, gone, refused, .. } = *at;
        tell(format!("{} of {total} jobs", done + skipped + gone + refused));
    };
    if order.dry_run {
        let dry = bulk::count(queue.session(), &bulk, |_| {}).await?;
        let mut answer = serde_json::to_value(dry).map_err(|error| Refused::field("", error.to_string()))?;
        answer["dry_run"] = json!(true);
        return Ok(answer);
    }
    if order.action == BulkAction::Delete {
        confirmed(order.confirm, &bulk)?;
    }
    let who = if reason.is_empty() { by.who.clone() } else { format!("{}: {reason}", by.who) };
    let (summary, stopped) = match queue.bulk(&bulk, &who, progress).await {
        Ok(summary) => (summary, None),
        // Nothing was touched, and going on with the same run would not help.
        Err(stopped) if matches!(stopped.error, Error::NotExpected { .. }) => {
            return Err(stopped.error.into());
        }
        Err(stopped) => (stopped.summary.clone(), Some(stopped.to_string())),
    };
    let mut answer = serde_json::to_value(summary).map_err(|error| Refused::field("", error.to_string()))?;
    answer["dry_run"] = json!(false);
    answer["stopped"] = json!(stopped);
    Ok(answer)
}

fn action(order: &BulkJobs) -> Result<bulk::BulkAction, Refused> {
    let only = |field: &str, given: bool, fits: BulkAction| {
        if given && order.action != fits {
            return Err(Refused::field(field, "it does not go with this action"));
        }
        Ok(())
    };
    only("state", order.state.is_some(), BulkAction::Requeue)?;
    only("priority", order.priority.is_some(), BulkAction::Priority)?;
    Ok(match order.action {
        BulkAction::Requeue => bulk::BulkAction::Requeue { to: order.state },
        BulkAction::Hold => bulk::BulkAction::Hold,
        BulkAction::Release => bulk::BulkAction::Release,
        BulkAction::Delete => bulk::BulkAction::Delete,
        BulkAction::Priority => match &order.priority {
            Some(priority) => bulk::BulkAction::SetPriority(priority_of("priority", priority)?),
            None => return Err(Refused::field("priority", "it is missing")),
        },
    })
}

fn filter(asked: &JobFilter) -> Result<Filter, Refused> {
    let priority = |field: &str, value: &Option<Value>| {
        value.as_ref().map(|value| priority_of(field, value)).transpose()
    };
    Ok(Filter {
        states: asked.states.clone(),
        batch: asked.batch,
        collection: asked.collection.clone(),
        submitter: asked.submitter.clone(),
        older_than: asked.older_than,
        newer_than: asked.newer_than,
        text: asked.text.clone(),
        min_priority: priority("min_priority", &asked.min_priority)?,
        max_priority: priority("max_priority", &asked.max_priority)?,
        scheduled: asked.scheduled,
        group: asked.group,
    })
}
