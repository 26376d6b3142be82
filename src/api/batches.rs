//! Batches: lists, one of them, its report, and what people do to it.

use std::io;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::stream;
use ingest_actors::actions;
use ingest_actors::actions::order::{DeleteBatch, OnBatch};
use ingest_queue::batches::{ReportDraft, WHY};
use ingest_queue::error::Error;
use ingest_queue::ids::Bid;
use ingest_queue::list::{self, BatchFilter, PageRequest};
use ingest_queue::nodes::{self, with_lists};
use ingest_queue::queue::Queue;
use ingest_steps::report::{self, About, Table};
use serde::Deserialize;
use utoipa::IntoParams;

use super::app::App;
use super::caller::{Admin, Caller, Depositor, Operator};
use super::problem::{Answer, Kind, Refusal};
use super::read::{self, Body, Params};
use super::shown::{self, plain};
use super::wire::{
    Batch, BatchActed, BatchDeleted, BatchPage, BatchStates, BidText, DateText, Doing, Problem, Report,
    ReportForm, ReportHead, ReportLine, ReportUpdate, ReportedJob,
};

/// Which batches.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct BatchParams {
    /// Several, apart by commas.
    #[param(value_type = Option<BatchStates>, inline)]
    state: Option<String>,
    collection: Option<String>,
    submitter: Option<String>,
    /// Last changed before this date.
    #[param(value_type = Option<DateText>, inline)]
    older_than: Option<String>,
    /// Last changed after this date.
    #[param(value_type = Option<DateText>, inline)]
    newer_than: Option<String>,
    text: Option<String>,
    /// 1 to 1000.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// The `next` of the page before.
    #[param(value_type = Option<BidText>, inline)]
    after: Option<String>,
    /// `oldest` (the default) or `newest`: which come first.
    #[param(inline)]
    order: Option<Order>,
}

/// Which come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Order {
    Oldest,
    Newest,
}

#[utoipa::path(get, path = "/api/v1/batches", tag = "batches", security(("token" = ["depositor"])), params(BatchParams), responses(
    (status = 200, body = BatchPage),
    (status = "default", body = Problem, content_type = "application/problem+json"),
))]
/// Lists batches
pub(crate) async fn list(
    State(app): State<App>,
    Depositor(caller): Depositor,
    Params(params): Params<BatchParams>,
) -> Answer<Json<BatchPage>> {
    let filter = BatchFilter {
        states: read::several("state", params.state.as_deref())?,
        collection: params.collection,
        submitter: only(&caller, params.submitter)?,
        older_than: read::one("older_than", params.older_than.as_deref())?,
        newer_than: read::one("newer_than", params.newer_than.as_deref())?,
        text: params.text,
    };
    let page = page_of(params.limit, params.after, params.order)?;
    let queue = app.queue().await?;
    let found = list::batches(queue.session(), &filter, &page).await?;
    Ok(Json(BatchPage {
        batches: found.lines.into_iter().map(shown::batch_line).collect(),
        next: found.next,
        unreadable: found.unreadable.into_iter().map(shown::unread).collect(),
        left: found.left,
    }))
}

pub(crate) fn page_of(
    limit: Option<usize>,
    after: Option<String>,
    order: Option<Order>,
) -> Answer<PageRequest> {
    let limit = limit.unwrap_or(PageRequest::default().limit);
    if !(1..=list::MAX_LIMIT).contains(&limit) {
        return Err(Refusal::field("limit", format!("it is 1 to {}", list::MAX_LIMIT)));
    }
    let after = after.filter(|after| !after.is_empty());
    Ok(PageRequest { limit, after, newest_first: order == Some(Order::Newest) })
}

/// A depositor sees its own, and nobody else's by asking for them.
pub(crate) fn only(caller: &Caller, asked: Option<String>) -> Answer<Option<String>> {
    match (caller.only(), asked) {
        (Some(own), Some(asked)) if asked != own => {
            Err(Refusal::new(Kind::FORBIDDEN, format!("{own} sees what {own} has submitted")))
        }
        (Some(own), _) => Ok(Some(own.to_owned())),
        (None, asked) => Ok(asked),
    }
}

/// A batch by its id or uuid, if the caller may see it.
async fn find(queue: &Queue, caller: &Caller, name: &str) -> Answer<(Bid, nodes::Submission)> {
    let bid = match name.parse() {
        Ok(bid) => bid,
        Err(_) => match queue.find_batch(name).await {
            Ok(Some(bid)) => bid,
            Ok(None) | Err(Error::Invalid(_)) => return Err(Refusal::not_found(what(name))),
            Err(error) => return Err(error.into()),
        },
    };
    let submission = match queue.submission(bid).await {
        // What cannot be read can be deleted.
        Err(Error::Corrupt { .. }) if caller.only().is_none() => nodes::Submission::default(),
        submission => submission?,
    };
    caller.must_see(&submission.submitter, what(name))?;
    Ok((bid, submission))
}

fn what(name: &str) -> String {
    format!("batch {}", name.chars().take(64).collect::<String>().escape_debug())
}

#[utoipa::path(get, path = "/api/v1/batches/{batch}", tag = "batches", security(("token" = ["depositor"])), params(("batch" = String, Path, description = "bid or uuid")), responses(
    (status = 200, body = Batch),
    (status = "default", body = Problem, content_type = "application/problem+json"),
))]
/// Shows a batch
pub(crate) async fn show(
    State(app): State<App>,
    Depositor(caller): Depositor,
    Path(name): Path<String>,
) -> Answer<Json<Batch>> {
    let queue = app.queue().await?;
    let (bid, submission) = find(&queue, &caller, &name).await?;
    let line = list::batch(queue.session(), bid).await?.ok_or_else(|| Refusal::not_found(what(&name)))?;
    let held_jobs = list::held_jobs(queue.session(), bid).await?;
    let report = queue.report_counts(bid).await?.map(|counts| ReportLine {
        number: counts.number,
        sent: counts.last_modified,
        completed: counts.completed,
        failed: counts.failed,
        deleted: counts.deleted,
    });
    Ok(Json(Batch { line: shown::batch_line(line), held_jobs, submission: plain(&submission), report }))
}

/// In which form.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ReportParams {
    /// `json`, `csv` or `text`.
    #[param(value_type = Option<ReportForm>, inline)]
    pub format: Option<String>,
}

#[utoipa::path(get, path = "/api/v1/batches/{batch}/report", tag = "batches", security(("token" = ["depositor"])), params(("batch" = String, Path, description = "bid or uuid"), ReportParams), responses(
    (status = 200, content((Report = "application/json"), (String = "text/csv"), (String = "text/plain"))),
    (status = "default", body = Problem, content_type = "application/problem+json"),
))]
/// Shows the last report that was sent to the depositor
pub(crate) async fn report(
    State(app): State<App>,
    Depositor(caller): Depositor,
    Path(name): Path<String>,
    Params(params): Params<ReportParams>,
    headers: HeaderMap,
) -> Answer<Response> {
    let form = Form::of(params.format.as_deref(), &headers)?;
    let life = app.life().await?;
    let (bid, submission) = find(&life.queue, &caller, &name).await?;
    let Some(report) = life.queue.last_report(bid).await? else {
        return Err(Refusal::new(Kind::NOT_FOUND, format!("no report of {bid} was sent yet")));
    };
    // It can be long, and nobody else waits for it.
    let draft = tokio::task::spawn_blocking(move || ReportDraft::of_sent(bid, report)).await;
    let draft = draft.map_err(Refusal::defect)?.map_err(Refusal::defect)?;
    if form == Form::Json {
        return as_json(&draft);
    }
    let profile = life.services().profile(&submission.profile_name).map_err(|failure| {
        Refusal::new(Kind::NOT_ACCEPTABLE, format!("{failure}: without it there is only the report as json"))
    })?;
    if form == Form::Csv {
        let about = About { bid, submission: &submission, profile: &profile };
        return Ok(as_csv(Table::new(&about, &draft.report)));
    }
    let sender = life.services().sender.clone();
    let composed = tokio::task::spawn_blocking(move || {
        let about = About { bid, submission: &submission, profile: &profile };
        report::report(&about, &draft, &sender).map_err(Refusal::defect)
    });
    let message = composed.await.map_err(Refusal::defect)??;
    Ok(([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], message.text).into_response())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Json,
    Csv,
    Text,
}

impl Form {
    fn of(asked: Option<&str>, headers: &HeaderMap) -> Answer<Self> {
        let accepted = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or("*/*");
        let first = accepted.split(',').find_map(|kind| match kind.split(';').next().map(str::trim) {
            Some("application/json" | "*/*" | "application/*") => Some(Form::Json),
            Some("text/csv") => Some(Form::Csv),
            Some("text/plain" | "text/*") => Some(Form::Text),
            _ => None,
        });
        match asked {
            Some("json") => Ok(Form::Json),
            Some("csv") => Ok(Form::Csv),
            Some("text") => Ok(Form::Text),
            Some(_) => Err(Refusal::field("format", "it is json, csv or text")),
            None => first.ok_or_else(|| {
                Refusal::new(Kind::NOT_ACCEPTABLE, "a report is application/json, text/csv or text/plain")
            }),
        }
    }
}

/// Piece by piece, as [`Report`](super::wire::Report) has it: there may be a million jobs.
fn as_json(draft: &ReportDraft) -> Answer<Response> {
    let ReportDraft { report, newly_successful, newly_deleted, .. } = draft;
    let update = ReportUpdate { completed: newly_successful.clone(), deleted: newly_deleted.clone() };
    let head = ReportHead {
        bid: draft.bid,
        number: report.number,
        last_modified: report.last_modified,
        why: report.other.get(WHY).and_then(|why| why.as_str()).map(str::to_owned),
        update: draft.is_update.then_some(update),
    };
    let lists = [
        ("successful_jobs", &report.successful_jobs),
        ("failed_jobs", &report.failed_jobs),
        ("deleted_jobs", &report.deleted_jobs),
    ];
    let head = serde_json::to_vec(&head).map_err(Refusal::defect)?;
    let pieces = with_lists(&head, lists.map(|(name, rows)| (name, rows.pieces(reported))));
    Ok(streamed("application/json", pieces))
}

fn as_csv(mut table: Table) -> Response {
    let pieces = std::iter::from_fn(move || table.piece().transpose());
    streamed("text/csv; charset=utf-8", pieces.map(|piece| Ok(piece?.0.into())))
}

/// An answer that breaks off if a piece cannot be made.
fn streamed(
    kind: &'static str,
    pieces: impl Iterator<Item = io::Result<Bytes>> + Send + 'static,
) -> Response {
    ([(header::CONTENT_TYPE, kind)], axum::body::Body::from_stream(stream::iter(pieces))).into_response()
}

fn reported(job: nodes::ReportedJob) -> ReportedJob {
    ReportedJob {
        jid: job.jid,
        primary_id: job.primary_id,
        local_id: job.local_id,
        payload_url: shown::url(&job.payload_url),
        payload_type: job.payload_type,
        erc_who: job.erc_who,
        erc_what: job.erc_what,
        erc_when: job.erc_when,
        message: job.message,
    }
}

macro_rules! on_batch {
    ($($name:ident, $path:literal, $order:expr;)+) => {
        $(
            #[utoipa::path(post, path = $path, tag = "batches", security(("token" = ["operator"])), params(("batch" = String, Path, description = "bid or uuid")), request_body = Doing, responses(
                (status = 200, body = BatchActed),
                (status = "default", body = Problem, content_type = "application/problem+json"),
            ))]
            pub(crate) async fn $name(
                State(app): State<App>,
                Operator(caller): Operator,
                Path(name): Path<String>,
                Body(doing): Body<Doing>,
            ) -> Answer<Json<BatchActed>> {
                let on = OnBatch { batch: name, reason: doing.reason, force: doing.force };
                app.act(&caller, $order(on)).await.map(Json)
            }
        )+
    };
}

on_batch! {
    hold, "/api/v1/batches/{batch}/hold", actions::Order::HoldBatch;
    release, "/api/v1/batches/{batch}/release", actions::Order::ReleaseBatch;
    update_report, "/api/v1/batches/{batch}/update-report", actions::Order::UpdateReport;
}

/// How a thing is to be deleted.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct DeleteParams {
    /// The depositor will not be told, and that is meant so.
    pub confirm: bool,
    #[param(max_length = 1000)]
    pub reason: String,
    /// Take the lock away from whoever works on it.
    pub force: bool,
}

#[utoipa::path(delete, path = "/api/v1/batches/{batch}", tag = "batches", security(("token" = ["admin"])), params(("batch" = String, Path, description = "bid or uuid"), DeleteParams), responses(
    (status = 200, body = BatchDeleted),
    (status = "default", body = Problem, content_type = "application/problem+json"),
))]
/// Deletes a failed or held batch with all its jobs
pub(crate) async fn delete(
    State(app): State<App>,
    Admin(caller): Admin,
    Path(name): Path<String>,
    Params(params): Params<DeleteParams>,
) -> Answer<Json<BatchDeleted>> {
    let DeleteParams { confirm, reason, force } = params;
    app.act(&caller, actions::Order::DeleteBatch(DeleteBatch { batch: name, confirm, reason, force }))
        .await
        .map(Json)
}
