//! Jobs that expire, as the tree says: watched, listed, and then followed by events.

use std::sync::Arc;

use futures::stream::{self, StreamExt as _};
use ingest_queue::date::Date;
use ingest_queue::error::Error;
use ingest_queue::ids::Jid;
use ingest_queue::map;
use ingest_store::recipes::look;
use ingest_store::{Event, Kind, Session, path};
use ractor::ActorRef;
use tokio::time::Instant;

use super::{Due, Message, State};
use crate::crash::Crash;
use crate::house::{Life, Task};

/// Jobs that are removed side by side.
const AT_ONCE: usize = 16;

/// Tells the timekeeper of all that expires, until the session is over.
pub(super) async fn follow(life: &Arc<Life>, to: ActorRef<Message>) -> Result<Task, Crash> {
    let session = life.queue.session().clone();
    let mut watch = session.watch_tree(map::JOURNAL_EXPIRATIONS).await.map_err(Crash::error)?;
    let all = list(&session).await.map_err(Crash::error)?;
    let _ = to.cast(Message::Expirations(all));
    Ok(Task::spawn(async move {
        loop {
            let event = watch.next().await;
            let named = |at: &str| map::parse_journal_date(path::name(at));
            let message = match &event {
                Event::Created(at) => named(at).map(|(date, jid)| Message::Expires(date, jid)),
                Event::Deleted(at) => named(at).map(|(date, jid)| Message::Stays(date, jid)),
                Event::Changed(_) | Event::Children(_) => None,
                Event::Relist(_) => match list(&session).await {
                    Ok(all) => Some(Message::Expirations(all)),
                    Err(error) => {
                        tracing::warn!(%error, "what expires could not be listed");
                        None
                    }
                },
                Event::Ended(_) => return,
            };
            if message.is_some_and(|message| to.cast(message).is_err()) {
                return;
            }
        }
    }))
}

async fn list(session: &Session) -> Result<Vec<(i64, Jid)>, ingest_store::Error> {
    match look(session, || session.children(map::JOURNAL_EXPIRATIONS)).await {
        Ok((names, _)) => Ok(names.iter().filter_map(|name| map::parse_journal_date(name)).collect()),
        Err(error) if error.kind() == Kind::NoNode => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Removes jobs that have expired.
pub(super) fn remove(life: &Arc<Life>, late: Vec<Jid>) -> Task {
    let queue = life.queue.clone();
    Task::spawn(async move {
        let removing = stream::iter(late).map(|jid| {
            let queue = queue.clone();
            async move { (jid, queue.expire(jid).await) }
        });
        let mut removed = removing.buffer_unordered(AT_ONCE);
        while let Some((jid, answer)) = removed.next().await {
            match answer {
                Ok(_) => {}
                // Whoever works on it looks when it waits again.
                Err(Error::Busy { .. }) => {
                    tracing::debug!(job = %jid, "it expires as soon as it waits again");
                }
                Err(error) => tracing::warn!(job = %jid, %error, "an expired job could not be removed"),
            }
        }
    })
}

impl State {
    /// All that expires. What could not be removed before is tried again by this.
    pub(super) fn expirations(&mut self, all: &[(i64, Jid)]) {
        for at in std::mem::take(&mut self.expires).into_values() {
            self.due.remove(&at);
        }
        for (date, jid) in all {
            self.expires(*date, *jid);
        }
    }

    pub(super) fn expires(&mut self, date: i64, jid: Jid) {
        let left = self.life.queue.now().until(Date::from_millis(date));
        let at = self.add(Instant::now() + left, Due::Expire { date, jid, waited: false });
        if let Some(before) = self.expires.insert((date, jid), at) {
            self.due.remove(&before);
        }
    }

    /// The job, if it is this node's turn to remove it; the others look a little later whether it is still there.
    pub(super) fn turn(&mut self, now: Instant, date: i64, jid: Jid, waited: bool) -> Option<Jid> {
        let rank = self.life.rank(jid.number());
        if waited || rank == 0 {
            return Some(jid);
        }
        let delay = self.house.settings.load().queue.rank_delay.saturating_mul(rank);
        let at = self.add(now + delay, Due::Expire { date, jid, waited: true });
        self.expires.insert((date, jid), at);
        None
    }

    /// Goes by the tree's clock. What was reckoned by the old one is reckoned anew.
    pub(super) fn compare_clocks(&mut self, now: Instant) {
        self.add(now + self.house.settings.load().upkeep.every, Due::Clock);
        let life = self.life.clone();
        self.tasks.retain(|task| !task.is_over());
        self.tasks.push(Task::spawn(async move {
            let before = life.queue.clock().offset();
            match life.queue.correct_clock().await {
                Ok(off) if off != before => {
                    if let Some(finder) = life.finder() {
                        finder.reckon_dates();
                    }
                }
                Ok(_) => {}
                Err(error) => tracing::debug!(%error, "the clock was not compared with the tree's"),
            }
        }));
    }
}
