//! Taking away what nobody waits for.

use std::collections::BTreeSet;
use std::time::Duration;

use ingest_store::{Kind, Op, path};

use crate::committer::{Mark, Unit, commit_alone};
use crate::date::Date;
use crate::error::{Error, Result};
use crate::map::RequestNode;
use crate::nodes::RequestResult;
use crate::queue::Queue;

/// What was taken away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Collected {
    pub requests: usize,
    /// Of requests that were gone already.
    pub leftovers: usize,
}

impl Queue {
    /// Takes away requests that nobody waits for, if their result, or without one they themselves, are older than
    /// `keep`; and what is left of requests that are gone. One that a node is at stays. So many at the most: whoever
    /// calls again goes on.
    pub async fn collect_requests(&self, now: Date, keep: Duration, most: usize) -> Result<Collected> {
        let mut collected = Collected::default();
        for line in self.requests().await? {
            if collected.requests == most {
                return Ok(collected);
            }
            if line.waited_for || (!line.request.done && line.owner.is_some()) {
                continue;
            }
            let since = match self.find::<RequestResult>(RequestNode::Result.of(&line.id)).await {
                Ok(found) => found.and_then(|(result, _)| result.at).or(line.request.at),
                Err(Error::Corrupt { .. }) => line.request.at,
                Err(error) => return Err(error),
            };
            if since.is_some_and(|since| since.until(now) < keep) {
                continue;
            }
            // Nobody waits: made and removed again, or refused.
            let waiter = RequestNode::Waiter.of(&line.id);
            let mut ops = vec![Op::create(waiter.as_str(), ""), Op::delete(waiter, None)];
            ops.extend(self.goodbye(&line.id, line.version).await?);
            let mark = Mark::Gone(RequestNode::Request.of(&line.id));
            match commit_alone(&self.session, Unit::new(ops, mark)).await {
                Ok(()) => {
                    self.clear_request(&line.id).await?;
                    collected.requests += 1;
                }
                // Somebody came.
                Err(error) if error.failed_op().is_some() => {}
                Err(error) => return Err(error.into()),
            }
        }
        collected.leftovers = self.collect_leftovers(now, keep, most - collected.requests).await?;
        Ok(collected)
    }

    async fn collect_leftovers(&self, now: Date, keep: Duration, most: usize) -> Result<usize> {
        let mut ids = BTreeSet::new();
        for node in [RequestNode::Params, RequestNode::ResultData] {
            match self.children(node.dir()).await {
                Ok(names) => ids.extend(names.into_iter().map(|name| (name, node))),
                Err(error) if error.kind() == Kind::NoNode => {}
                Err(error) => return Err(error.into()),
            }
        }
        let mut count = 0;
        for (id, node) in ids {
            if count == most {
                break;
            }
            let at = path::join(&node.dir(), &id);
            let Some(stat) = self.exists(&at).await? else { continue };
            // A client may be about to announce it.
            if Date::from_millis(stat.ctime).until(now) < keep {
                continue;
            }
            if self.exists(RequestNode::Request.of(&id)).await?.is_none() {
                ingest_store::recipes::shard::remove_whole(&self.session, &at).await?;
                count += 1;
            }
        }
        Ok(count)
    }
}
