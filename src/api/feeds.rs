//! Feeds: how far each was consumed and by whom; paused, resumed, asked, set back, forgotten.
//!
//! What is done here holds for all nodes: it is done in the tree, and whoever consumes the feed sees it there.

use axum::Json;
use axum::extract::{Path, State};
use ingest_actors::actions::order::OnFeed;
use ingest_actors::actions::{Order, order};
use ingest_actors::feeds::board::Status;
use ingest_queue::date::Date;
use ingest_queue::feeds::workers::Workers;
use ingest_queue::feeds::{Listed, Qid};
use ingest_queue::nodes::SkippedItem;
use ingest_queue::queue::Queue;
use serde::Deserialize;
use utoipa::IntoParams;

use super::app::App;
use super::caller::{Admin, Operator};
use super::pages;
use super::problem::{Answer, Refusal};
use super::read::{Body, Params, holds};
use super::wire::{
    FeedChanged, FeedConfigured, FeedHere, FeedLine, FeedPage, FeedReset, FeedSkipped, Hold, Problem,
    ResetFeed, SetHold, WorkerLine,
};

/// Which feeds.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct FeedParams {
    /// In name, kind, place, checkpoint or trouble.
    text: Option<String>,
    /// Those that this node consumes, or is to consume.
    node: Option<String>,
    /// 1 to 1000.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// The `next` of the page before.
    after: Option<String>,
}

impl FeedParams {
    fn admits(&self, feed: &FeedLine) -> bool {
        let place = feed.configured.as_ref().map(|configured| configured.place.as_str());
        let texts =
            [Some(feed.name.as_str()), Some(&feed.kind), place, Some(&feed.last), feed.trouble.as_deref()];
        let nodes = [feed.node.as_deref(), feed.assigned.as_deref()];
        holds(self.text.as_deref(), texts)
            && self.node.as_deref().is_none_or(|node| node.is_empty() || nodes.contains(&Some(node)))
    }
}

#[utoipa::path(get, path = "/api/v1/feeds", tag = "feeds", security(("token" = ["operator"])), params(FeedParams), responses(
    (status = 200, body = FeedPage),
    (status = "default", body = Problem, content_type = "application/problem+json"),
))]
/// Lists feeds, and those who consume them
pub(crate) async fn list(
    State(app): State<App>,
    _: Operator,
    Params(params): Params<FeedParams>,
) -> Answer<Json<FeedPage>> {
    let limit = pages::limit_of(params.limit)?;
    let queue = app.queue().await?;
    let (listed, workers) = (queue.list_feeds().await?, queue.workers().await?);
    let lines = listed.iter().map(|one| line(&app, &queue, one, &workers));
    let lines = lines.filter(|feed| params.admits(feed));
    let (feeds, next) = pages::by_key(lines, params.after.as_deref(), limit, |feed| feed.name.clone());
    let worker = |(name, worker): (&String, &ingest_queue::nodes::WorkerNode)| WorkerLine {
        worker: name.clone(),
        node: worker.node.clone(),
        consumes: worker.queues.len(),
        assigned: workers.share(name).len(),
        offers: worker.offers.len(),
    };
    Ok(Json(FeedPage { feeds, next, workers: workers.all.iter().map(worker).collect() }))
}

#[utoipa::path(get, path = "/api/v1/feeds/{feed}", tag = "feeds", security(("token" = ["operator"])), params(("feed" = String, Path)), responses(
    (status = 200, body = FeedLine),
    (status = "default", body = Problem, content_type = "application/problem+json"),
))]
/// Shows a feed
pub(crate) async fn show(
    State(app): State<App>,
    _: Operator,
    Path(name): Path<String>,
) -> Answer<Json<FeedLine>> {
    let queue = app.queue().await?;
    let listed = find(&queue, &name).await?;
    let workers = queue.workers().await?;
    Ok(Json(line(&app, &queue, &listed, &workers)))
}

/// By its name, or by its name in the tree.
async fn find(queue: &Queue, name: &str) -> Answer<Listed> {
    match queue.show_feed(name.parse().unwrap_or_else(|_| Qid::of(name))).await {
        Err(ingest_queue::error::Error::NotFound(_)) => {
            let shown: String = name.chars().take(64).collect();
            Err(Refusal::not_found(format_args!("feed {}", shown.escape_debug())))
        }
        found => Ok(found?),
    }
}

fn line(app: &App, queue: &Queue, listed: &Listed, workers: &Workers) -> FeedLine {
    let (feed, name) = (&listed.feed, listed.feed.name());
    let assigned = workers.assigned_to(feed.qid).and_then(|worker| workers.all.get(worker));
    let house = app.node.house();
    let configured =
        house.life().and_then(|life| life.services().settings.feeds.get(&name).cloned()).map(|feed| {
            FeedConfigured {
                place: feed.kind.place(),
                profile: feed.profile.clone(),
                submitter: feed.submitter.clone(),
                policy: feed.policy.name().to_owned(),
            }
        });
    let owner = listed.owner.as_ref();
    FeedLine {
        qid: feed.qid.to_string(),
        kind: feed.node.kind.clone(),
        last: feed.node.last.clone(),
        items: feed.node.items,
        skipped: feed.node.skipped,
        skipped_items: feed.node.skipped_items.iter().map(skipped).collect(),
        moved: feed.node.moved,
        batch: feed.node.batch,
        paused: feed.node.paused.as_ref().map(|hold| Hold {
            name: name.clone(),
            who: hold.who.clone(),
            why: hold.why.clone(),
            when: hold.when,
        }),
        node: owner.map(|owner| owner.node.clone()),
        since: owner.and_then(|owner| owner.since),
        assigned: assigned.map(|worker| worker.node.clone()),
        trouble: listed.trouble().map(str::to_owned),
        asked: listed.asked,
        configured,
        here: house.feeds.get(&name).map(|control| here(&control.status(), queue.now())),
        name,
    }
}

fn skipped(SkippedItem { item, why, when, .. }: &SkippedItem) -> FeedSkipped {
    FeedSkipped { item: item.clone(), why: why.clone(), when: *when }
}

fn here(status: &Status, now: Date) -> FeedHere {
    FeedHere {
        doing: status.doing.name().to_owned(),
        taken: status.taken,
        known: status.known,
        skipped: status.skipped,
        errors: status.errors,
        asked_at: status.asked,
        caught_up: status.caught_up,
        next: status.next,
        lag_ms: u64::try_from(status.lag(now).as_millis()).unwrap_or(u64::MAX),
    }
}

#[utoipa::path(post, path = "/api/v1/feeds/{feed}/pause", tag = "feeds", security(("token" = ["operator"])), params(("feed" = String, Path)), request_body = SetHold, responses(
    (status = 200, body = FeedChanged),
    (status = "default", body = Problem, content_type = "application/problem+json"),
))]
/// Pauses a feed: nothing of it becomes a batch until it is resumed
pub(crate) async fn pause(
    State(app): State<App>,
    Operator(caller): Operator,
    Path(feed): Path<String>,
    Body(SetHold { reason }): Body<SetHold>,
) -> Answer<Json<FeedChanged>> {
    app.act(&caller, Order::PauseFeed(order::PauseFeed { feed, reason })).await.map(Json)
}

#[utoipa::path(post, path = "/api/v1/feeds/{feed}/resume", tag = "feeds", security(("token" = ["operator"])), params(("feed" = String, Path)), responses(
    (status = 200, body = FeedChanged),
    (status = "default", body = Problem, content_type = "application/problem+json"),
))]
/// Lets a feed go on where it stopped
pub(crate) async fn resume(
    State(app): State<App>,
    Operator(caller): Operator,
    Path(feed): Path<String>,
) -> Answer<Json<FeedChanged>> {
    app.act(&caller, Order::ResumeFeed(OnFeed { feed })).await.map(Json)
}

#[utoipa::path(post, path = "/api/v1/feeds/{feed}/ask", tag = "feeds", security(("token" = ["operator"])), params(("feed" = String, Path)), responses(
    (status = 200, body = FeedChanged),
    (status = "default", body = Problem, content_type = "application/problem+json"),
))]
/// Asks a feed now, on whatever node consumes it
pub(crate) async fn ask(
    State(app): State<App>,
    Operator(caller): Operator,
    Path(feed): Path<String>,
) -> Answer<Json<FeedChanged>> {
    app.act(&caller, Order::AskFeed(OnFeed { feed })).await.map(Json)
}

#[utoipa::path(post, path = "/api/v1/feeds/{feed}/reset", tag = "feeds", security(("token" = ["admin"])), params(("feed" = String, Path)), request_body = ResetFeed, responses(
    (status = 200, body = FeedReset),
    (status = "default", body = Problem, content_type = "application/problem+json"),
))]
/// Sets the checkpoint of a feed. What lies behind it comes again
pub(crate) async fn reset(
    State(app): State<App>,
    Admin(caller): Admin,
    Path(feed): Path<String>,
    Body(ResetFeed { last, confirm }): Body<ResetFeed>,
) -> Answer<Json<FeedReset>> {
    app.act(&caller, Order::ResetFeed(order::ResetFeed { feed, last, confirm })).await.map(Json)
}

#[utoipa::path(delete, path = "/api/v1/feeds/{feed}", tag = "feeds", security(("token" = ["admin"])), params(("feed" = String, Path)), responses(
    (status = 200, body = FeedChanged),
    (status = "default", body = Problem, content_type = "application/problem+json"),
))]
/// Forgets a feed that nobody consumes any more, with its checkpoint
pub(crate) async fn forget(
    State(app): State<App>,
    Admin(caller): Admin,
    Path(feed): Path<String>,
) -> Answer<Json<FeedChanged>> {
    app.act(&caller, Order::ForgetFeed(OnFeed { feed })).await.map(Json)
}
