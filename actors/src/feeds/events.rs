//! What the events of the tree say of feeds.

use ingest_queue::feeds::Qid;
use ingest_queue::queue::Queue;
use ingest_store::{Event, TreeWatch};
use ractor::ActorRef;

use super::Message;

/// What an event says of a feed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Told {
    /// Its lock is gone, a person has done something to it, or it is not known what.
    Look,
    /// Somebody wants it to be asked.
    Ask,
}

/// Tells what happens to feeds, as far as it concerns those who consume them.
pub(super) async fn read_feeds(mut watch: TreeWatch, feeds: ActorRef<Message>) {
    loop {
        let event = watch.next().await;
        let told = match &event {
            Event::Ended(_) => return,
            Event::Relist(_) => Some((None, Told::Look)),
            Event::Children(_) => None,
            Event::Created(at) | Event::Deleted(at) | Event::Changed(at) => told_of(&event, at),
        };
        if let Some((qid, told)) = told
            && feeds.cast(Message::Feed(qid, told)).is_err()
        {
            return;
        }
    }
}

/// What an event says; `None`: nobody is concerned. That a feed's node was set is told: it may be a pause that is over.
fn told_of(event: &Event, at: &str) -> Option<(Option<Qid>, Told)> {
    let (qid, node) = Queue::feed_of(at)?;
    match (event, node) {
        (Event::Deleted(_), Some("lock")) | (Event::Changed(_), None) => Some((Some(qid), Told::Look)),
        (Event::Created(_), Some("ask")) => Some((Some(qid), Told::Ask)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use ingest_queue::map;

    use super::*;

    #[test]
    fn events_say_what_concerns_a_feed() {
        let qid = Qid::of("a");
        let told = |make: fn(String) -> Event, at: &str| told_of(&make(at.to_owned()), at);
        assert_eq!(told(Event::Deleted, &map::feed_lock(qid)), Some((Some(qid), Told::Look)));
        assert_eq!(told(Event::Changed, &map::feed(qid)), Some((Some(qid), Told::Look)));
        assert_eq!(told(Event::Created, &map::feed_ask(qid)), Some((Some(qid), Told::Ask)));
        for (make, at) in [
            (Event::Created as fn(String) -> Event, map::feed_lock(qid)),
            (Event::Deleted, map::feed_ask(qid)),
            (Event::Changed, map::feed_lock(qid)),
            (Event::Created, "/queues/nonsense/ask".to_owned()),
        ] {
            assert_eq!(told(make, &at), None, "{at}");
        }
    }
}
