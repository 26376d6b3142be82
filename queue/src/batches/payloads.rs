//! Which payloads the batches of the tree name.

use std::collections::BTreeMap;

use crate::error::{Error, Result};
use crate::ids::Bid;
use crate::map::{self, BatchNode};
use crate::nodes::{Node as _, Submission};
use crate::queue::Queue;
use crate::reads;

/// Submissions that are read together: they may be large.
const TOGETHER: usize = 64;

impl Queue {
    /// Waits until this session sees everything that was committed before, by any session.
    pub async fn sync(&self) -> Result<()> {
        Ok(reads::sync(&self.session).await?)
    }

    /// Reads the submission of every batch, and answers those whose payload URL gives a name by `name_of`. Jobs take their
    /// payload from the submission of their batch, so what is not among them is named by no job.
    ///
    /// A submission that cannot be read is an error: nobody knows what it names.
    pub async fn batches_by_payload(
        &self,
        name_of: impl Fn(&str) -> Option<String>,
    ) -> Result<BTreeMap<String, Bid>> {
        self.sync().await?;
        let names = match reads::children(&self.session, map::BATCHES).await {
            Ok(names) => names,
            Err(error) if error.kind() == ingest_store::Kind::NoNode => return Ok(BTreeMap::new()),
            Err(error) => return Err(error.into()),
        };
        let bids: Vec<Bid> = names.iter().filter_map(|name| name.parse().ok()).collect();
        let mut named = BTreeMap::new();
        for bids in bids.chunks(TOGETHER) {
            let paths: Vec<String> = bids.iter().map(|bid| BatchNode::Submission.of(*bid)).collect();
            let read = reads::get_many(&self.session, paths.clone()).await?;
            for ((bid, path), found) in bids.iter().zip(paths).zip(read) {
                // One that is being deleted.
                let Some((data, _)) = found else { continue };
                let submission = Submission::read(&data).map_err(|why| Error::corrupt(path, why))?;
                if let Some(name) = submission.payload_url.as_deref().and_then(&name_of) {
                    named.insert(name, *bid);
                }
            }
        }
        Ok(named)
    }
}
