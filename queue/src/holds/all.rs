//! Releasing a collection with all that its hold has stopped, in one action.
//!
//! **When things break.** What is released is released; the same call again goes on with the rest.

use crate::bulk::{Bulk, BulkAction, Progress};
use crate::error::{Error, Result};
use crate::ids::Bid;
use crate::jobs::signed;
use crate::list::{self, BatchFilter, Filter, PageRequest};
use crate::plan::batch::BatchAction;
use crate::queue::Queue;
use crate::reads;
use crate::states::{BatchState, JobState};

/// What was released.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReleasedAll {
    pub jobs: usize,
    pub batches: usize,
    /// What was not, and why.
    pub refused: Vec<String>,
}

/// What of a collection is in held, whoever has put it there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StillHeld {
    pub jobs: usize,
    pub batches: usize,
}

impl Queue {
    /// Lifts the hold on a collection and releases its held jobs and batches.
    pub async fn release_collection_and_all(
        &self,
        mnemonic: &str,
        who: &str,
        progress: impl FnMut(&Progress),
    ) -> Result<ReleasedAll> {
        self.release_collection(mnemonic).await?;
        let mut released = ReleasedAll::default();
        let filter = held_jobs(mnemonic);
        let id = format!("release-{}", self.now().millis());
        let bulk = Bulk::new(id, BulkAction::Release, filter, false, self.dialect())?;
        let summary = self.bulk(&bulk, who, progress).await.map_err(|stopped| stopped.error)?;
        released.jobs = summary.progress.done;
        released.refused.extend(summary.refusals.iter().map(|refusal| refusal.why.clone()));
        for bid in self.held_batches(mnemonic).await? {
            match self.act_on_batch(bid, BatchAction::Release, &signed(who, ""), false).await {
                Ok(_) => released.batches += 1,
                Err(error @ (Error::Store(_) | Error::Changed { .. })) => return Err(error),
                Err(error) => released.refused.push(error.to_string()),
            }
        }
        Ok(released)
    }

    /// How many jobs and batches of a collection are held. What cannot be read is not counted.
    pub async fn still_held(&self, mnemonic: &str) -> Result<StillHeld> {
        // What was released through another server is seen from here on.
        reads::sync(&self.session).await?;
        let filter = held_jobs(mnemonic);
        let (mut walk, mut jobs) = (list::walk(&self.session, &filter, None).await?, 0);
        while let Some(chunk) = walk.next().await? {
            jobs += chunk.jobs.len();
        }
        Ok(StillHeld { jobs, batches: self.held_batches(mnemonic).await?.len() })
    }

    async fn held_batches(&self, mnemonic: &str) -> Result<Vec<Bid>> {
        let filter = BatchFilter {
            states: vec![BatchState::Held],
            collection: Some(mnemonic.to_owned()),
            ..BatchFilter::default()
        };
        let mut page = PageRequest { limit: list::MAX_LIMIT, ..PageRequest::default() };
        let mut held = Vec::new();
        loop {
            let found = list::batches(&self.session, &filter, &page).await?;
            held.extend(found.lines.iter().map(|line| line.bid));
            match found.next {
                Some(next) => page.after = Some(next),
                None => return Ok(held),
            }
        }
    }
}

fn held_jobs(mnemonic: &str) -> Filter {
    Filter { states: vec![JobState::Held], collection: Some(mnemonic.to_owned()), ..Filter::default() }
}
