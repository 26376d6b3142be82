//! What a listener may see of what is told: operators everything, depositors what happens to their own batches.
//!
//! **When things break.** Whose a batch was that is gone, or cannot be read, is not known to anybody who listens: they are
//! told to read everything again, which shows each only what is theirs.

use std::collections::HashMap;
use std::sync::Arc;

use ingest_actors::node::Node;
use ingest_queue::ids::Bid;
use parking_lot::Mutex;

use super::{Told, reset};
use crate::api::caller::Caller;
use crate::api::wire::BatchesChanged;

/// Batches whose submitters are remembered.
const MOST: usize = 10_000;

/// Whose batches are; shared by all listeners, so that each is read once.
#[derive(Debug, Default)]
pub(super) struct Owners(Mutex<HashMap<Bid, Arc<str>>>);

impl Owners {
    /// `None`: it is not there any more, or the tree cannot be read.
    async fn of(&self, node: &Node, bid: Bid) -> Option<Arc<str>> {
        if let Some(known) = self.known(bid) {
            return Some(known);
        }
        let life = node.life().await?;
        match life.queue.submission(bid).await {
            Ok(submission) => {
                let owner: Arc<str> = submission.submitter.into();
                let mut all = self.0.lock();
                if all.len() >= MOST {
                    all.clear();
                }
                all.insert(bid, owner.clone());
                Some(owner)
            }
            Err(error) => {
                tracing::debug!(batch = %bid, %error, "whose batch this is cannot be read");
                None
            }
        }
    }

    fn known(&self, bid: Bid) -> Option<Arc<str>> {
        self.0.lock().get(&bid).cloned()
    }
}

/// Whom a stream is for.
#[derive(Debug)]
pub(super) enum Sight {
    Everything,
    /// Batches that were submitted in this name.
    Own(String),
}

impl Sight {
    pub(super) fn of(caller: &Caller) -> Self {
        caller.only().map_or(Sight::Everything, |name| Sight::Own(name.to_owned()))
    }

    /// What of an event may be seen.
    pub(super) async fn see(&self, told: Arc<Told>, owners: &Owners, node: &Node) -> Option<Arc<Told>> {
        let Sight::Own(name) = self else { return Some(told) };
        if told.name == "reset" {
            return Some(told);
        }
        let changed = told.batches.as_ref()?;
        match own(name, changed, owners, node).await {
            Some(own) if own.changed.is_empty() && own.gone.is_empty() => None,
            Some(own) => Some(Arc::new(Told::batches(told.number, own))),
            None => Some(Arc::new(reset(told.number, "batches may have changed"))),
        }
    }
}

/// Those of one submitter; `None` if that is not known of all.
async fn own(name: &str, changed: &BatchesChanged, owners: &Owners, node: &Node) -> Option<BatchesChanged> {
    if changed.more > 0 {
        return None;
    }
    let mut own = BatchesChanged::default();
    for bid in &changed.changed {
        if *owners.of(node, *bid).await? == *name {
            own.changed.push(*bid);
        }
    }
    for bid in &changed.gone {
        if *owners.known(*bid)? == *name {
            own.gone.push(*bid);
        }
    }
    Some(own)
}
