//! Jobs: lists, one of them, its history, and what people do to it.

use std::collections::HashMap;

use axum::Json;
use axum::extract::{Path, State};
use ingest_actors::actions;
use ingest_actors::actions::order::{DeleteJob, JobPriority, OnJob, RequeueJob};
use ingest_queue::ids::Jid;
use ingest_queue::list::{self, Filter, PageRequest};
use ingest_queue::map::JobNode;
use ingest_queue::nodes::{Configuration, Identifiers, Inventory, Metadata, Number, Owner, Schedule, Work};
use ingest_queue::queue::Queue;
use ingest_queue::reasons::{GroupKey, template};
use ingest_queue::states::{JobState, States as _, To, Who, Why};
use serde::Deserialize;
use utoipa::IntoParams;

use super::app::App;
use super::batches::{DeleteParams, Order, only, page_of};
use super::caller::{Admin, Caller, Depositor, Operator};
use super::problem::Answer;
use super::read::{self, Body, Params};
use super::shown::{self, plain};
use super::wire::{
    BidText, DateText, Doing, GroupText, JidText, Job, JobActed, JobHistory, JobLock, JobPage, JobStates,
    JobStatus, PriorityText, Problem, ReasonGroup, Reasons, Requeue, SetPriority, Transition,
};

/// How many jobs are looked at to group them.
const MOST_LOOKS: usize = 10_000;
/// How many letters of a template are shown.
const LONGEST_REASON: usize = 500;
/// How many of a group are named.
const NAMED: usize = 20;

/// Which jobs.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct JobParams {
    /// Several, apart by commas.
    #[param(value_type = Option<JobStates>, inline)]
    state: Option<String>,
    #[param(value_type = Option<BidText>, inline)]
    batch: Option<String>,
    collection: Option<String>,
    submitter: Option<String>,
    /// Last changed before this date.
    #[param(value_type = Option<DateText>, inline)]
    older_than: Option<String>,
    /// Last changed after this date.
    #[param(value_type = Option<DateText>, inline)]
    newer_than: Option<String>,
    /// In message, id, profile, payload URL or ids.
    text: Option<String>,
    /// 0 to 99, or the name of a class.
    #[param(value_type = Option<PriorityText>, inline)]
    min_priority: Option<String>,
    #[param(value_type = Option<PriorityText>, inline)]
    max_priority: Option<String>,
    /// Only those that wait for their process date; false: only those that do not.
    scheduled: Option<bool>,
    /// The group of their reason, as `GET /api/v1/jobs/reasons` shows it.
    #[param(value_type = Option<GroupText>, inline)]
    group: Option<String>,
    /// 1 to 1000.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// The `next` of the page before.
    #[param(value_type = Option<JidText>, inline)]
    after: Option<String>,
    /// `oldest` (the default) or `newest`: which come first.
    #[param(inline)]
    order: Option<Order>,
}

impl JobParams {
    fn filter(&self, caller: &Caller) -> Answer<Filter> {
        Ok(Filter {
            states: read::several("state", self.state.as_deref())?,
            batch: read::one("batch", self.batch.as_deref())?,
            collection: self.collection.clone(),
            submitter: only(caller, self.submitter.clone())?,
            older_than: read::one("older_than", self.older_than.as_deref())?,
            newer_than: read::one("newer_than", self.newer_than.as_deref())?,
            text: self.text.clone(),
            min_priority: read::one("min_priority", self.min_priority.as_deref())?,
            max_priority: read::one("max_priority", self.max_priority.as_deref())?,
            scheduled: self.scheduled,
            group: read::one("group", self.group.as_deref())?,
        })
    }
}

#[utoipa::path(get, path = "/api/v1/jobs", tag = "jobs", security(("token" = ["depositor"])), params(JobParams), responses(
    (status = 200, body = JobPage),
    (status = "default", body = Problem, content_type = "application/problem+json"),
))]
/// Lists jobs
pub(crate) async fn list(
    State(app): State<App>,
    Depositor(caller): Depositor,
    Params(params): Params<JobParams>,
) -> Answer<Json<JobPage>> {
    let filter = params.filter(&caller)?;
    let life = app.life().await?;
    let found = list::jobs(&*life, &filter, &page_of(params.limit, params.after, params.order)?).await?;
    Ok(Json(JobPage {
        jobs: found.lines.into_iter().map(shown::job_line).collect(),
        next: found.next,
        unreadable: found.unreadable.into_iter().map(shown::unread).collect(),
        left: found.left,
    }))
}

#[utoipa::path(get, path = "/api/v1/jobs/reasons", tag = "jobs", security(("token" = ["operator"])), params(JobParams), responses(
    (status = 200, body = Reasons),
    (status = "default", body = Problem, content_type = "application/problem+json"),
))]
/// Groups jobs by what their status says
pub(crate) async fn reasons(
    State(app): State<App>,
    Operator(caller): Operator,
    Params(params): Params<JobParams>,
) -> Answer<Json<Reasons>> {
    let mut filter = params.filter(&caller)?;
    let first = page_of(params.limit, params.after, params.order)?;
    if filter.states.is_empty() {
        filter.states = vec![JobState::Failed];
    }
    let life = app.life().await?;
    let mut groups: HashMap<GroupKey, ReasonGroup> = HashMap::new();
    let (mut looked_at, mut after) = (0, first.after);
    let left = loop {
        let page = PageRequest { limit: list::MAX_LIMIT, after, newest_first: first.newest_first };
        let found = list::jobs(&*life, &filter, &page).await?;
        looked_at += found.looked_at;
        // A deleted job gives no reason any more, and no filter for a group selects it.
        for line in found.lines.into_iter().filter(|line| line.state != JobState::Deleted) {
            let key = GroupKey::of(&line.message);
            let group = groups.entry(key).or_insert_with(|| ReasonGroup {
                group: key,
                reason: template(&line.message).chars().take(LONGEST_REASON).collect(),
                example: line.message.clone(),
                count: 0,
                jobs: Vec::new(),
            });
            group.count += 1;
            if group.jobs.len() < NAMED {
                group.jobs.push(line.jid);
            }
        }
        after = found.next;
        if after.is_none() || looked_at >= MOST_LOOKS {
            break found.left;
        }
    };
    let mut groups: Vec<ReasonGroup> = groups.into_values().collect();
    groups.sort_by(|a, b| {
        b.count.cmp(&a.count).then_with(|| a.reason.cmp(&b.reason)).then_with(|| a.group.cmp(&b.group))
    });
    Ok(Json(Reasons { groups, looked_at, left }))
}

/// The configuration of a job, if the caller may see it.
async fn seen(queue: &Queue, caller: &Caller, jid: Jid) -> Answer<()> {
    if caller.only().is_some() {
        let configuration = queue.configuration(jid).await?;
        caller.must_see(&configuration.submitter, format_args!("job {jid}"))?;
    }
    Ok(())
}

#[utoipa::path(get, path = "/api/v1/jobs/{jid}", tag = "jobs", security(("token" = ["depositor"])), params(("jid" = String, Path)), responses(
    (status = 200, body = Job),
    (status = "default", body = Problem, content_type = "application/problem+json"),
))]
/// Shows a job
pub(crate) async fn show(
    State(app): State<App>,
    Depositor(caller): Depositor,
    Path(jid): Path<String>,
) -> Answer<Json<Job>> {
    let jid: Jid = read::id(&jid)?;
    let queue = app.queue().await?;
    seen(&queue, &caller, jid).await?;
    let job = queue.job(jid).await?;
    let (configuration, identifiers, metadata, schedule, work, inventory, space, lock) = futures::try_join!(
        queue.node::<Configuration>(jid, JobNode::Configuration),
        queue.node::<Identifiers>(jid, JobNode::Identifiers),
        queue.node::<Metadata>(jid, JobNode::Metadata),
        queue.node::<Schedule>(jid, JobNode::Schedule),
        queue.node::<Work>(jid, JobNode::Work),
        queue.node::<Inventory>(jid, JobNode::Inventory),
        queue.node::<Number>(jid, JobNode::SpaceNeeded),
        queue.node::<Owner>(jid, JobNode::Lock),
    )?;
    let last_changed = job.status.last_changed(job.history.as_ref());
    let status = job.status;
    Ok(Json(Job {
        jid,
        bid: job.bid,
        state: status.status,
        priority: job.priority.number(),
        space_needed: space.map_or(0, |number| number.0),
        may: may(status.status, status.recoverable, &queue),
        status: JobStatus {
            last_successful_status: status.last_successful_status,
            last_modification_date: last_changed,
            retry_count: status.retry_count,
            message: status.message,
            attempt: status.attempt,
            recoverable: status.recoverable,
            start_processing_date: status.start_processing_date,
            process_date: status.process_date,
            expiration_date: status.expiration_date,
        },
        configuration: plain(&configuration.unwrap_or_default()),
        identifiers: plain(&identifiers.unwrap_or_default()),
        metadata: plain(&metadata.unwrap_or_default()),
        schedule: schedule.map(|node| plain(&node)),
        work: work.map(|node| plain(&node)),
        inventory: inventory.map(|node| plain(&node)),
        lock: lock.map(|owner| JobLock {
            node: owner.node,
            incarnation: owner.incarnation,
            attempt: owner.attempt,
            since: owner.since,
        }),
    }))
}

/// What the tables allow an admin to do with a job in this state.
fn may(state: JobState, recoverable: bool, queue: &Queue) -> Vec<String> {
    let dialect = queue.dialect();
    let allowed = |why| state.may(why, Who::Admin, dialect).is_ok();
    let moves_on = state.moves(dialect).any(|row| matches!(row.to, To::State(_) | To::Restart(_)));
    [
        ("requeue", allowed(Why::Requeue) && recoverable),
        ("hold", allowed(Why::Hold)),
        ("release", allowed(Why::Release)),
        ("delete", allowed(Why::Delete)),
        ("priority", moves_on),
    ]
    .into_iter()
    .filter(|(_, allowed)| *allowed)
    .map(|(name, _)| name.to_owned())
    .collect()
}

#[utoipa::path(get, path = "/api/v1/jobs/{jid}/history", tag = "jobs", security(("token" = ["depositor"])), params(("jid" = String, Path)), responses(
    (status = 200, body = JobHistory),
    (status = "default", body = Problem, content_type = "application/problem+json"),
))]
/// Shows what became of a job, the oldest first
pub(crate) async fn history(
    State(app): State<App>,
    Depositor(caller): Depositor,
    Path(jid): Path<String>,
) -> Answer<Json<JobHistory>> {
    let jid: Jid = read::id(&jid)?;
    let queue = app.queue().await?;
    seen(&queue, &caller, jid).await?;
    queue.job_status(jid).await?;
    let entries = queue.history(jid).await?.unwrap_or_default().entries;
    let transition = |entry: ingest_queue::nodes::Entry| Transition {
        at: entry.at,
        from: entry.from,
        to: entry.to,
        node: entry.node,
        attempt: entry.attempt,
        commit: entry.commit,
        message: entry.message,
    };
    Ok(Json(JobHistory { jid, history: entries.into_iter().map(transition).collect() }))
}

#[utoipa::path(post, path = "/api/v1/jobs/{jid}/requeue", tag = "jobs", security(("token" = ["operator"])), params(("jid" = String, Path)), request_body = Requeue, responses(
    (status = 200, body = JobActed),
    (status = "default", body = Problem, content_type = "application/problem+json"),
))]
/// Tries a failed job again
pub(crate) async fn requeue(
    State(app): State<App>,
    Operator(caller): Operator,
    Path(jid): Path<String>,
    Body(doing): Body<Requeue>,
) -> Answer<Json<JobActed>> {
    let Requeue { state, reason, force } = doing;
    let order = actions::Order::RequeueJob(RequeueJob { jid: read::id(&jid)?, state, reason, force });
    app.act(&caller, order).await.map(Json)
}

#[utoipa::path(post, path = "/api/v1/jobs/{jid}/hold", tag = "jobs", security(("token" = ["operator"])), params(("jid" = String, Path)), request_body = Doing, responses(
    (status = 200, body = JobActed),
    (status = "default", body = Problem, content_type = "application/problem+json"),
))]
/// Holds a job that waits
pub(crate) async fn hold(
    State(app): State<App>,
    Operator(caller): Operator,
    Path(jid): Path<String>,
    Body(doing): Body<Doing>,
) -> Answer<Json<JobActed>> {
    app.act(&caller, actions::Order::HoldJob(on_job(&jid, doing)?)).await.map(Json)
}

#[utoipa::path(post, path = "/api/v1/jobs/{jid}/release", tag = "jobs", security(("token" = ["operator"])), params(("jid" = String, Path)), request_body = Doing, responses(
    (status = 200, body = JobActed),
    (status = "default", body = Problem, content_type = "application/problem+json"),
))]
/// Releases a held job
pub(crate) async fn release(
    State(app): State<App>,
    Operator(caller): Operator,
    Path(jid): Path<String>,
    Body(doing): Body<Doing>,
) -> Answer<Json<JobActed>> {
    app.act(&caller, actions::Order::ReleaseJob(on_job(&jid, doing)?)).await.map(Json)
}

#[utoipa::path(put, path = "/api/v1/jobs/{jid}/priority", tag = "jobs", security(("token" = ["operator"])), params(("jid" = String, Path)), request_body = SetPriority, responses(
    (status = 200, body = JobActed),
    (status = "default", body = Problem, content_type = "application/problem+json"),
))]
/// Gives a job another priority
pub(crate) async fn priority(
    State(app): State<App>,
    Operator(caller): Operator,
    Path(jid): Path<String>,
    Body(doing): Body<SetPriority>,
) -> Answer<Json<JobActed>> {
    let SetPriority { priority, reason, force } = doing;
    let order = actions::Order::JobPriority(JobPriority { jid: read::id(&jid)?, priority, reason, force });
    app.act(&caller, order).await.map(Json)
}

fn on_job(jid: &str, doing: Doing) -> Answer<OnJob> {
    Ok(OnJob { jid: read::id(jid)?, reason: doing.reason, force: doing.force })
}

#[utoipa::path(delete, path = "/api/v1/jobs/{jid}", tag = "jobs", security(("token" = ["admin"])), params(("jid" = String, Path), DeleteParams), responses(
    (status = 200, body = JobActed),
    (status = "default", body = Problem, content_type = "application/problem+json"),
))]
/// Deletes a failed or held job
pub(crate) async fn delete(
    State(app): State<App>,
    Admin(caller): Admin,
    Path(jid): Path<String>,
    Params(params): Params<DeleteParams>,
) -> Answer<Json<JobActed>> {
    let DeleteParams { confirm, reason, force } = params;
    let order = actions::Order::DeleteJob(DeleteJob { jid: read::id(&jid)?, confirm, reason, force });
    app.act(&caller, order).await.map(Json)
}
