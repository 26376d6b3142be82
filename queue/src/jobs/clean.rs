//! Completed jobs leave their queue; they stay with their batch, for as long as that is kept.
//!
//! **When things break.** Each job leaves by a commit of its own: whoever was stopped anywhere is gone on after by anybody.

use futures::future::join_all;

use crate::error::{Error, Result};
use crate::map::{self, QueueRef};
use crate::plan::job::Action;
use crate::queue::Queue;
use crate::states::JobState;

/// Jobs that leave side by side; the committer puts them together.
const AT_ONCE: usize = 32;

impl Queue {
    /// Lets completed jobs leave their queue, so many at the most; answers how many have left. One that somebody else is at,
    /// or that cannot be read, is left where it is, and keeps nobody behind it.
    pub async fn clean_jobs(&self, most: usize) -> Result<usize> {
        let names = self.children(map::queue(JobState::Completed)).await?;
        let mut refs = names.iter().filter_map(|name| QueueRef::parse(JobState::Completed, name));
        let mut cleaned = 0;
        loop {
            let some: Vec<QueueRef> = refs.by_ref().take(AT_ONCE.min(most - cleaned)).collect();
            if some.is_empty() {
                return Ok(cleaned);
            }
            let acts = some.iter().map(|entry| self.act(entry.jid, &Action::Clean, "", false));
            for (entry, answer) in some.iter().zip(join_all(acts).await) {
                match answer {
                    Ok(_) => cleaned += 1,
                    Err(error @ Error::Store(_)) => return Err(error),
                    Err(error) => tracing::debug!(job = %entry.jid, %error, "a job is left for later"),
                }
            }
        }
    }
}
