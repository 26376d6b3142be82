//! What is done to a batch that nobody works on.

use ingest_store::{Kind, Op};

use super::lease::misfit;
use crate::committer::commit_alone;
use crate::error::{Error, Result};
use crate::ids::Bid;
use crate::map::{self, BatchNode};
use crate::plan::Lock;
use crate::plan::batch::{self, Batch, BatchAction};
use crate::queue::Queue;
use crate::states::{BatchList, BatchState};

/// How often a batch is looked at again because it was changed meanwhile.
const TRIES: usize = 20;

impl Queue {
    /// Does something to a batch. `message` says who and why. Refused as busy while a node works on it;
    /// with force its lock is taken away.
    pub async fn act_on_batch(
        &self,
        bid: Bid,
        action: BatchAction,
        message: &str,
        force: bool,
    ) -> Result<BatchState> {
        let scene = self.scene();
        let mut lock = Lock::Within;
        let mut last = Error::changed(bid, "");
        for _ in 0..TRIES {
            let found = self.batch(bid).await?;
            if found.status.commits.contains(&scene.commit) {
                return Ok(found.state());
            }
            if self.exists(BatchNode::Deleting.of(bid)).await?.is_some() {
                return Err(Error::Deleting(bid));
            }
            let to = batch::target(&found, action, &scene).map_err(|refused| Error::refused(bid, refused))?;
            let more = self.checks_of_batch_action(&found, action).await?;
            let plan = batch::set(&found, to, message, lock, &more, &scene);
            let Err(error) = commit_alone(&self.session, plan.unit()).await else { return Ok(to) };
            lock = self.lock_after(&error, bid, &BatchNode::Lock.of(bid), lock, force).await?;
            match (error.failed_op(), error.kind()) {
                (Some(_), Kind::NotEmpty) => {
                    return Err(Error::forbidden(bid, self.what_is_left(bid).await?));
                }
                (Some(_), _) => {
                    if crate::jobs::is_about_holds(&error) {
                        self.forget_holds();
                    }
                }
                (None, _) => return Err(error.into()),
            }
            last = misfit(bid, error);
        }
        Err(Error::changed(bid, format!("{TRIES} times in a row; the last time: {last}")))
    }

    /// A batch that could not be expanded has nothing to tell.
    async fn has_no_jobs(&self, bid: Bid) -> Result<bool> {
        for list in BatchList::ALL {
            if self.exists(map::batch_list(bid, list)).await?.is_some_and(|stat| stat.num_children > 0) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn checks_of_batch_action(&self, found: &Batch, action: BatchAction) -> Result<Vec<Op>> {
        let bid = found.bid;
        match action {
            BatchAction::Hold => Ok(Vec::new()),
            BatchAction::UpdateReport => {
                if self.has_no_jobs(bid).await? {
                    let why = format!("it has no jobs ({}); submit it again", found.status.message);
                    return Err(Error::forbidden(bid, why));
                }
                Ok(batch::proof_of_the_end(bid))
            }
            BatchAction::Release | BatchAction::HoldForCollection => {
                let collection = self.submission(bid).await?.collection().to_owned();
                let held = action == BatchAction::HoldForCollection;
                let holds = self.holds_where(bid, &collection, held).await?;
                Ok(vec![holds.collection_check()])
            }
        }
    }
}
