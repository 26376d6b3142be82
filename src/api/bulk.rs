//! One action on many jobs.

use axum::Json;
use axum::extract::State;
use ingest_queue::bulk;
use ingest_queue::list::Filter;
use ingest_queue::map::Priority;

use super::app::App;
use super::caller::Operator;
use super::jobs::priority_of;
use super::problem::{Answer, Refusal};
use super::read::{self, Body};
use super::shown;
use super::wire::{Bulk, BulkAction, BulkAnswer, BulkDry, BulkRan, BulkRefusal, JobFilter, Problem, Role};

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
    let action = action(&asked)?;
    if asked.action == BulkAction::Delete {
        caller.must_be(Role::Admin)?;
    }
    let reason = read::reason(&asked.reason)?;
    let id = asked.id.clone().unwrap_or_else(|| uuid::Uuid::new_v4().simple().to_string());
    let queue = app.queue().await?;
    let filter = filter(&asked.filter)?;
    let bulk = bulk::Bulk::new(id, action, filter, asked.all, queue.dialect())?;
    if asked.dry_run {
        let dry = bulk::count(queue.session(), &bulk, |_| {}).await?;
        return Ok(Json(BulkAnswer::Dry(BulkDry {
            dry_run: true,
            what: dry.what,
            total: dry.total,
            states: dry.states,
            examples: dry.examples.into_iter().map(shown::job_line).collect(),
            unreadable: dry.unreadable,
            first_unreadable: dry.first_unreadable.into_iter().map(shown::unread).collect(),
        })));
    }
    if asked.action == BulkAction::Delete {
        read::confirmed(asked.confirm, &bulk)?;
    }
    let who = if reason.is_empty() { caller.name } else { format!("{}: {reason}", caller.name) };
    let (summary, stopped) = match queue.bulk(&bulk, &who, |_| {}).await {
        Ok(summary) => (summary, None),
        Err(stopped) => (stopped.summary.clone(), Some(stopped.to_string())),
    };
    let progress = summary.progress;
    Ok(Json(BulkAnswer::Ran(BulkRan {
        dry_run: false,
        id: summary.id,
        what: summary.what,
        total: progress.total,
        done: progress.done,
        skipped: progress.skipped,
        gone: progress.gone,
        refused: progress.refused,
        unreadable: progress.unreadable,
        refusals: summary
            .refusals
            .into_iter()
            .map(|one| BulkRefusal { jid: one.jid, why: one.why })
            .collect(),
        first_unreadable: summary.first_unreadable.into_iter().map(shown::unread).collect(),
        stopped,
    })))
}

fn action(asked: &Bulk) -> Answer<bulk::BulkAction> {
    let only = |field: &str, given: bool, fits: BulkAction| {
        if given && asked.action != fits {
            return Err(Refusal::field(field, "it does not go with this action"));
        }
        Ok(())
    };
    only("state", asked.state.is_some(), BulkAction::Requeue)?;
    only("priority", asked.priority.is_some(), BulkAction::Priority)?;
    Ok(match asked.action {
        BulkAction::Requeue => bulk::BulkAction::Requeue { to: asked.state },
        BulkAction::Hold => bulk::BulkAction::Hold,
        BulkAction::Release => bulk::BulkAction::Release,
        BulkAction::Delete => bulk::BulkAction::Delete,
        BulkAction::Priority => match &asked.priority {
            Some(priority) => bulk::BulkAction::SetPriority(priority_of("priority", priority)?),
            None => return Err(Refusal::field("priority", "it is missing")),
        },
    })
}

fn filter(asked: &JobFilter) -> Answer<Filter> {
    let priority = |field: &str, number: Option<u8>| {
        let wrong = || Refusal::field(field, "a priority is a number from 0 to 99");
        number.map(|number| Priority::new(number.into()).ok_or_else(wrong)).transpose()
    };
    Ok(Filter {
        states: asked.states.clone(),
        batch: asked.batch,
        collection: asked.collection.clone(),
        submitter: asked.submitter.clone(),
        older_than: asked.older_than,
        newer_than: asked.newer_than,
        text: asked.text.clone(),
        min_priority: priority("min_priority", asked.min_priority)?,
        max_priority: priority("max_priority", asked.max_priority)?,
        scheduled: asked.scheduled,
    })
}
