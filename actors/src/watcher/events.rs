//! What an event below `/batches` means.

use ingest_queue::ids::{Bid, Jid};
use ingest_queue::map::BATCHES;
use ingest_queue::states::BatchList;
use ingest_store::Event;

/// Something has happened to a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BatchEvent {
    /// It has come, or its status has changed.
    Changed(Bid),
    /// Nobody works on it any more.
    Unlocked(Bid),
    /// A job has left those that are under way.
    Left(Bid),
    /// A job has come back to those that are under way.
    Joined(Bid),
    /// A job has ended; for good, unless a person requeues it.
    Ended {
        bid: Bid,
        jid: Jid,
        list: BatchList,
    },
    Gone(Bid),
}

impl BatchEvent {
    pub(crate) fn bid(self) -> Bid {
        match self {
            BatchEvent::Changed(bid)
            | BatchEvent::Unlocked(bid)
            | BatchEvent::Left(bid)
            | BatchEvent::Joined(bid)
            | BatchEvent::Gone(bid)
            | BatchEvent::Ended { bid, .. } => bid,
        }
    }
}

/// `None`: nobody is concerned.
pub(super) fn batch_event(event: &Event, path: &str) -> Option<BatchEvent> {
    let mut names = path.strip_prefix(BATCHES)?.strip_prefix('/')?.split('/');
    let bid: Bid = names.next()?.parse().ok()?;
    let below = (names.next(), names.next(), names.next());
    match (event, below) {
        (Event::Deleted(_), (None, ..)) => Some(BatchEvent::Gone(bid)),
        (Event::Created(_) | Event::Changed(_), (Some("status"), None, _)) => Some(BatchEvent::Changed(bid)),
        (Event::Deleted(_), (Some("lock"), None, _)) => Some(BatchEvent::Unlocked(bid)),
        (Event::Deleted(_), (Some("states"), Some("batch-processing"), Some(_))) => {
            Some(BatchEvent::Left(bid))
        }
        (Event::Created(_), (Some("states"), Some("batch-processing"), Some(_))) => {
            Some(BatchEvent::Joined(bid))
        }
        (Event::Created(_), (Some("states"), Some(list), Some(jid))) => {
            let jid: Jid = jid.parse().ok()?;
            let list = match list {
                "batch-completed" => BatchList::Completed,
                "batch-failed" => BatchList::Failed,
                "batch-deleted" => BatchList::Deleted,
                _ => return None,
            };
            Some(BatchEvent::Ended { bid, jid, list })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(make: impl Fn(String) -> Event, path: &str) -> Option<BatchEvent> {
        batch_event(&make(path.to_owned()), path)
    }

    #[test]
    fn events_say_what_concerns_a_batch_and_nothing_else() {
        let (bid, jid) = (Bid::new(7), Jid::new(9));
        let at = |below: &str| format!("/batches/{bid}{below}");
        assert_eq!(told(Event::Created, &at("/status")), Some(BatchEvent::Changed(bid)));
        assert_eq!(told(Event::Changed, &at("/status")), Some(BatchEvent::Changed(bid)));
        assert_eq!(told(Event::Deleted, &at("/lock")), Some(BatchEvent::Unlocked(bid)));
        assert_eq!(told(Event::Deleted, &at("")), Some(BatchEvent::Gone(bid)));
        let processing = at(&format!("/states/batch-processing/{jid}"));
        assert_eq!(told(Event::Deleted, &processing), Some(BatchEvent::Left(bid)));
        assert_eq!(told(Event::Created, &processing), Some(BatchEvent::Joined(bid)));
        for list in [BatchList::Completed, BatchList::Failed, BatchList::Deleted] {
            let ended = BatchEvent::Ended { bid, jid, list };
            assert_eq!(told(Event::Created, &at(&format!("/states/{}/{jid}", list.name()))), Some(ended));
        }
        for (event, below) in [
            (Event::Created as fn(String) -> Event, ""),
            (Event::Created, "/lock"),
            (Event::Changed, "/expansion"),
            (Event::Deleted, "/states/batch-failed/jid0000000009"),
            (Event::Created, "/states/batch-processing"),
            (Event::Created, "/states/else/jid0000000009"),
        ] {
            assert_eq!(told(event, &at(below)), None, "{below}");
        }
        assert_eq!(told(Event::Created, "/batches/nonsense/status"), None);
    }
}
