//! How often the tree is asked whether anybody needs a manifest on this node's disk.
//!
//! A manifest is there while its batch is expanded, and each of the batch's jobs that ends is a reason to look whether
//! it can go. That it is needed holds for a while: what ends meanwhile is one reason for one more look after it. So a
//! batch costs a look each [`PAUSE`] at most, and after the last end there is always one, which a node that drains waits for.

use std::collections::BTreeMap;
use std::time::Duration;

use ingest_queue::ids::Bid;

use crate::desk::Chore;
use crate::house::Task;

pub(super) const PAUSE: Duration = Duration::from_secs(1);

/// The batches whose manifests were needed a moment ago.
#[derive(Debug, Default)]
pub(super) struct Manifests(BTreeMap<Bid, Pause>);

#[derive(Debug)]
struct Pause {
    /// Ends the pause.
    _timer: Task,
    /// A job has ended meanwhile.
    again: Option<Chore>,
}

impl Manifests {
    /// A job has ended: the chore comes back if the tree is to be asked now, and is kept if it is asked later.
    pub(super) fn ended(&mut self, bid: Bid, chore: Chore) -> Option<Chore> {
        match self.0.get_mut(&bid) {
            Some(pause) => {
                pause.again.get_or_insert(chore);
                None
            }
            None => Some(chore),
        }
    }

    /// It is needed; `timer` ends the pause.
    pub(super) fn needed(&mut self, bid: Bid, timer: Task) {
        self.0.insert(bid, Pause { _timer: timer, again: None });
    }

    /// The pause is over: the chore if the tree is to be asked again.
    pub(super) fn over(&mut self, bid: Bid) -> Option<Chore> {
        self.0.remove(&bid)?.again
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::desk::Floor;

    #[tokio::test]
    async fn however_many_jobs_end_in_a_pause_there_is_one_look_after_it() {
        let (floor, bid) = (Arc::new(Floor::default()), Bid::new(1));
        let mut manifests = Manifests::default();
        assert!(manifests.ended(bid, floor.chore()).is_some(), "nothing is known of it");
        for ends in [100, 1] {
            manifests.needed(bid, Task::spawn(async {}));
            for _ in 0..ends {
                assert!(manifests.ended(bid, floor.chore()).is_none());
            }
            assert!(manifests.ended(Bid::new(2), floor.chore()).is_some(), "that is another");
            assert_eq!(floor.busy(), 1, "who drains waits for one look");
            assert!(manifests.over(bid).is_some());
            assert_eq!(floor.busy(), 0);
        }
        manifests.needed(bid, Task::spawn(async {}));
        assert!(manifests.over(bid).is_none(), "nothing has ended");
        assert!(manifests.ended(bid, floor.chore()).is_some());
    }
}
