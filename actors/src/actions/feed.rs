//! What people do to feeds.

use ingest_queue::error::Error;
use ingest_queue::feeds::{Asked, Listed, Qid};
use ingest_queue::holds::Was;
use ingest_queue::queue::Queue;
use serde_json::{Value, json};

use super::order::{OnFeed, PauseFeed, ResetFeed};
use super::perform::{By, reason};
use super::refused::Refused;

type Answer<T = Value> = Result<T, Refused>;

/// A feed by its name, or by its id.
async fn find(queue: &Queue, name: &str) -> Answer<Listed> {
    match queue.show_feed(name.parse().unwrap_or_else(|_| Qid::of(name))).await {
        Err(Error::NotFound(_)) => {
            let known: Vec<String> = queue.list_feeds().await?.iter().map(|one| one.feed.name()).collect();
            Err(Refused::unknown("feed", name, known.iter().map(String::as_str), ""))
        }
        found => Ok(found?),
    }
}

fn changed(listed: &Listed, changed: bool) -> Value {
    json!({ "name": listed.feed.name(), "changed": changed })
}

pub(super) async fn pause(queue: &Queue, by: &By, on: &PauseFeed) -> Answer {
    let why = reason(&on.reason)?;
    let listed = find(queue, &on.feed).await?;
    let was = queue.pause_feed(listed.feed.qid, &by.who, why).await?;
    Ok(changed(&listed, was == Was::Changed))
}

pub(super) async fn resume(queue: &Queue, on: &OnFeed) -> Answer {
    let listed = find(queue, &on.feed).await?;
    let was = queue.resume_feed(listed.feed.qid).await?;
    Ok(changed(&listed, was == Was::Changed))
}

pub(super) async fn ask(queue: &Queue, by: &By, on: &OnFeed) -> Answer {
    let listed = find(queue, &on.feed).await?;
    let asked = queue.ask_feed(listed.feed.qid, &by.who).await?;
    Ok(changed(&listed, asked == Asked::Now))
}

/// Whoever means it says the name again.
pub(super) async fn reset(queue: &Queue, by: &By, on: &ResetFeed) -> Answer {
    let listed = find(queue, &on.feed).await?;
    let (name, last) = (listed.feed.name(), &on.last);
    if on.confirm != name {
        let why = format!("it cannot be taken back: say `{name}` if it is meant");
        return Err(Refused::field("confirm", why));
    }
    if listed.feed.node.kind != "drop_box"
        && let Err(why) = ingest_steps::feed::news::Checkpoint::read(last)
    {
        return Err(Refused::field("last", why));
    }
    let before = queue.reset_feed(listed.feed.qid, last).await?;
    tracing::info!(who = by.who, feed = name, before, last, "a checkpoint was set");
    Ok(json!({ "name": name, "before": before, "last": last }))
}

pub(super) async fn forget(queue: &Queue, on: &OnFeed) -> Answer {
    let listed = find(queue, &on.feed).await?;
    queue.forget_feed(listed.feed.qid).await?;
    Ok(changed(&listed, true))
}
