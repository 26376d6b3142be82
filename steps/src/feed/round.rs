//! One round: the source is asked, and each item becomes a batch.

use ingest_queue::date::Date;
use ingest_queue::error::Error;
use ingest_queue::feeds::FeedLease;
use ingest_queue::queue::Queue;
use ingest_store::error::Next;

use super::{Feed, Item, Source, What, submission};
use crate::outcome::{Cancel, Failure};
use crate::profile::Profile;
use crate::services::Services;
use crate::upload_nodes::UPLOAD_NODE;

/// What a round did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Round {
    /// Items that became batches.
    pub taken: u64,
    /// Items that had become batches before.
    pub known: u64,
    /// Items that became nothing.
    pub skipped: u64,
    /// There is more.
    pub more: bool,
    /// The date of the last item.
    pub newest: Option<Date>,
}

/// Why a round came to no end. What it has consumed is consumed.
#[derive(Debug, thiserror::Error)]
pub enum Broken {
    /// The source could not be asked, or its answer made no sense.
    #[error("{0}")]
    Source(Failure),
    /// The tree refused.
    #[error("{0}")]
    Queue(#[from] Error),
}

/// Asks the source once and consumes what it says, in order. It stops between two items when it is told to.
pub async fn round(
    name: &str,
    feed: &Feed,
    services: &Services,
    queue: &Queue,
    lease: &mut FeedLease,
    source: &mut dyn Source,
    cancel: &Cancel,
) -> Result<Round, Broken> {
    let profile = services.profile(&feed.profile).map_err(Broken::Source)?;
    let last = lease.last().to_owned();
    let news = source.ask(&last, cancel).await.map_err(Broken::Source)?;
    let mut round = Round { more: news.more, ..Round::default() };
    for item in &news.items {
        if cancel.is_cancelled() {
            return Err(Broken::Source(Failure::Cancelled));
        }
        one(name, (feed, &profile), services.work.node(), item, queue, lease, source, cancel, &mut round)
            .await?;
        round.newest = item.date.or(round.newest);
    }
    Ok(round)
}

#[allow(clippy::too_many_arguments, reason = "a part of the round, that shares all it has")]
async fn one(
    name: &str,
    (feed, profile): (&Feed, &Profile),
    node: &str,
    item: &Item,
    queue: &Queue,
    lease: &mut FeedLease,
    source: &mut dyn Source,
    cancel: &Cancel,
    round: &mut Round,
) -> Result<(), Broken> {
    let payloads = match &item.what {
        What::Deleted => {
            // What was passed over before is not counted again when it comes again within the overlap.
            if lease.last() != item.last {
                queue.move_feed(lease, &item.last, 1).await?;
                round.skipped += 1;
            }
            return source.taken(item, None).await.map_err(Broken::Source);
        }
        What::Nothing(why) => Err(why.clone()),
        What::Payload(payloads) => Ok(payloads.clone()),
        What::File => match source.prepare(item, cancel).await {
            Ok(Some(payload)) => Ok(vec![payload]),
            // It went away before it was taken.
            Ok(None) => return Ok(()),
            // It is left where it is, for whoever repairs it.
            Err(Failure::Fail(why)) => {
                let here = lease.last().to_owned();
                return skip(name, &item.id, &here, &why, queue, lease, round).await;
            }
            Err(failure) => return Err(Broken::Source(failure)),
        },
    };
    // A file that this node serves is an upload.
    let is_served = matches!(item.what, What::File)
        && payloads.iter().flatten().all(|payload| matches!(payload.url.scheme(), "http" | "https"));
    let made = payloads.and_then(|payloads| submission::of(name, feed, profile, item, &payloads));
    let made = made.map(|mut submission| {
        if is_served {
            submission.other.insert(UPLOAD_NODE.into(), node.into());
        }
        submission
    });
    let bid = match made {
        Ok(submission) => match queue.take_item(lease, &item.id, &item.last, &submission).await {
            Ok(created) => {
                let count = if created.known { &mut round.known } else { &mut round.taken };
                *count += 1;
                if !created.known {
                    tracing::info!(feed = name, batch = %created.bid, item = item.id, "an item was submitted");
                }
                Some(created.bid)
            }
            // It can never be made: too large. It must not hold up the others.
            Err(Error::Store(error)) if error.next() == Next::GiveUp => {
                skip(name, &item.id, &item.last, &error.to_string(), queue, lease, round).await?;
                None
            }
            Err(error) => return Err(error.into()),
        },
        Err(why) => {
            skip(name, &item.id, &item.last, &why, queue, lease, round).await?;
            None
        }
    };
    source.taken(item, bid).await.map_err(Broken::Source)
}

/// Passes over an item, and says so once.
async fn skip(
    name: &str,
    item: &str,
    last: &str,
    why: &str,
    queue: &Queue,
    lease: &mut FeedLease,
    round: &mut Round,
) -> Result<(), Broken> {
    if queue.skip_item(lease, item, last, why).await? {
        tracing::warn!(feed = name, item, why, "an item was passed over");
        round.skipped += 1;
    }
    Ok(())
}
