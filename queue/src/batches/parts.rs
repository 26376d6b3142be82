//! Parts of large values of batches that were written and never announced.
//!
//! **When things break.** Whoever wrote them has died, or was refused; whoever collects them looks at the announcement
//! first, and leaves what is younger than a writer may be at work.

use std::time::Duration;

use futures::stream::{self, StreamExt, TryStreamExt};
use ingest_store::Kind;
use ingest_store::recipes::shard;

use crate::error::{Error, Result};
use crate::ids::Bid;
use crate::map::{self, BatchNode};
use crate::queue::Queue;

/// Values that are looked at side by side.
const AT_ONCE: usize = 16;

impl Queue {
    /// Removes such parts that are older than `keep`, so many at the most; answers how many there were.
    pub async fn collect_parts(&self, keep: Duration, most: usize) -> Result<usize> {
        let names = self.children(map::BATCHES).await?;
        let bids = names.iter().filter_map(|name| name.parse::<Bid>().ok());
        let values =
            bids.flat_map(|bid| [BatchNode::Manifest, BatchNode::StatusReport].map(|node| node.of(bid)));
        let has_parts = |at: String| async move {
            let stat = self.exists(at.as_str()).await?;
            Ok::<_, Error>(stat.filter(|stat| stat.num_children > 0).map(|_| at))
        };
        let mut values = stream::iter(values.collect::<Vec<_>>()).map(has_parts).buffered(AT_ONCE);
        let mut removed = 0;
        while removed < most
            && let Some(value) = values.try_next().await?
        {
            let Some(at) = value else { continue };
            match shard::collect(&self.session, &at, keep, most - removed).await {
                Ok(count) => removed += count,
                // It is gone, or for `fsck`.
                Err(error) if matches!(error.kind(), Kind::NoNode | Kind::Corrupt) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(removed)
    }
}
