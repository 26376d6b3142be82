//! One who consumes a feed: takes its lock, asks the source, makes a batch of each item, waits, and asks again.
//!
//! A source that can tell is waited for; one that cannot is asked after `interval`. That is a timer of the source, and asks
//! nothing of the tree: while nothing is new, nothing is read or written there.
//!
//! **When things break.** A source that cannot be asked is tried again after pauses that grow up to `interval`; the third
//! failure in a row is an alert: in the log, in the feed's lock for other nodes to show, and in `/alerts` for the
//! administrators, once until it went well again, whoever consumes it. Whoever has lost the feed gives up what it knows, and takes the feed again when it may.

use std::sync::Arc;
use std::time::Duration;

use ingest_queue::error::Error;
use ingest_queue::feeds::FeedLease;
use ingest_steps::feed::{self, Broken, Feed, Round, Source};
use ingest_steps::outcome::Failure;
use ingest_store::SessionState;
use ingest_store::error::Next;
use ractor::{Actor, ActorProcessingErr, ActorRef};

use super::board::{Control, Doing};
use super::{Message as ToFeeds, holder};
use crate::crash::{Crash, handled};
use crate::house::{House, Life};
use crate::release;

/// The reason of one who ends because it was told to.
pub(super) const DONE: &str = "done";
/// The first pause after a failure; each is twice the one before.
const FIRST_PAUSE: Duration = Duration::from_secs(10);
/// The longest, where the source has no interval.
const LONGEST_PAUSE: Duration = Duration::from_mins(5);
/// So many failures in a row are an alert.
const ALERT: u32 = 3;
/// How often what nobody needs any more is looked for.
const TIDY: Duration = Duration::from_hours(1);
/// The pause before the tree is asked again that could not answer.
const AGAIN: Duration = Duration::from_secs(1);

/// Consume.
#[derive(Debug)]
pub(crate) struct Run;

#[derive(Debug)]
pub(crate) struct FeedActor;

/// What it knows.
#[derive(Debug)]
pub(crate) struct Consumer {
    pub(super) house: Arc<House>,
    pub(super) life: Arc<Life>,
    pub(super) feed: Feed,
    pub(super) control: Arc<Control>,
    pub(super) parent: ActorRef<ToFeeds>,
}

impl Actor for FeedActor {
    type Msg = Run;
    type State = Consumer;
    type Arguments = Consumer;

    async fn pre_start(&self, _: ActorRef<Run>, consumer: Consumer) -> Result<Consumer, ActorProcessingErr> {
        Ok(consumer)
    }

    async fn post_start(&self, myself: ActorRef<Run>, _: &mut Consumer) -> Result<(), ActorProcessingErr> {
        Ok(myself.cast(Run)?)
    }

    async fn handle(
        &self,
        myself: ActorRef<Run>,
        _: Run,
        consumer: &mut Consumer,
    ) -> Result<(), ActorProcessingErr> {
        handled(consumer.run()).await?;
        myself.stop(Some(DONE.into()));
        Ok(())
    }
}

/// Why consuming has ended.
enum Over {
    /// It was told to.
    Told,
    /// The feed is not ours any more.
    Lost,
    /// The session is over.
    Session,
}

impl Consumer {
    fn cancelled(&self) -> bool {
        self.control.cancel.is_cancelled()
    }

    async fn run(&self) -> Result<(), Crash> {
        let control = &self.control;
        while !self.cancelled() {
            control.doing(Doing::Waiting, self.life.queue.now());
            let Some(mut lease) = self.acquire().await? else { return Ok(()) };
            let _ = self.parent.cast(ToFeeds::Owned(control.qid, true));
            tracing::info!(feed = control.name, last = lease.last(), "the feed is consumed here");
            let over = self.consume(&mut lease).await;
            control.doing(Doing::Waiting, self.life.queue.now());
            let _ = self.parent.cast(ToFeeds::Owned(control.qid, false));
            match over {
                Over::Session => return Ok(()),
                Over::Told => {
                    if self.life.queue.release_feed(&mut lease).await.is_err() {
                        release::all_of(&self.life, &holder(control.qid), true).await;
                    }
                    tracing::info!(feed = control.name, "the feed is given up");
                }
                // What is left of it in the tree, if anything is, is found there.
                Over::Lost => release::all_of(&self.life, &holder(control.qid), true).await,
            }
        }
        Ok(())
    }

    /// Waits for the lock; `None` if it was told to end, or the session is over.
    async fn acquire(&self) -> Result<Option<FeedLease>, Crash> {
        let (queue, qid) = (&self.life.queue, self.control.qid);
        loop {
            let free = tokio::select! {
                biased;
                () = self.control.cancel.cancelled() => return Ok(None),
                () = self.house.may_take_work() => self.may_take().await,
            };
            let taken = match free {
                Ok(true) => queue.acquire_feed(qid, &holder(qid)).await,
                Ok(false) => Err(Error::Busy { what: String::new(), node: String::new(), since: None }),
                Err(error) => Err(error),
            };
            let pause = match taken {
                Ok(lease) => return Ok(Some(lease)),
                Err(Error::Store(error)) if error.next() == Next::Rebuild => return Ok(None),
                // Its nodes tell when it is worth to look again.
                Err(Error::Busy { .. } | Error::Forbidden { .. } | Error::NotFound(_)) => None,
                Err(Error::Changed { .. }) => Some(Duration::ZERO),
                Err(error) => {
                    tracing::debug!(feed = self.control.name, %error, "the feed cannot be taken now");
                    Some(AGAIN)
                }
            };
            tokio::select! {
                () = self.control.cancel.cancelled() => return Ok(None),
                () = self.control.look.notified() => {}
                () = tokio::time::sleep(pause.unwrap_or_default()), if pause.is_some() => {}
            }
        }
    }

    /// Reading costs less than being refused.
    async fn may_take(&self) -> Result<bool, Error> {
        let listed = self.life.queue.show_feed(self.control.qid).await?;
        Ok(listed.owner.is_none() && listed.feed.node.paused.is_none())
    }

    async fn consume(&self, lease: &mut FeedLease) -> Over {
        let mut source: Option<Box<dyn Source>> = None;
        let mut tidied: Option<tokio::time::Instant> = None;
        loop {
            // Whoever wishes it to be asked is served with this.
            let _ = self.life.queue.take_wish(self.control.qid).await;
            self.control.doing(Doing::Asking, self.life.queue.now());
            let answer = self.round(lease, &mut source).await;
            let pause = match answer {
                Ok(round) => {
                    self.went_well(lease, &round).await;
                    if round.more {
                        continue;
                    }
                    source.as_ref().and_then(|source| source.interval())
                }
                Err(Broken::Source(Failure::Cancelled)) => return Over::Told,
                Err(Broken::Source(failure)) => {
                    // What it remembers may be what is wrong.
                    let interval = source.take().and_then(|source| source.interval());
                    Some(self.failed(lease, interval, &failure).await)
                }
                Err(Broken::Queue(error)) => match self.refused(&error) {
                    Some(over) => return over,
                    None => Some(AGAIN),
                },
            };
            if let Some(source) = &mut source
                && tidied.is_none_or(|at| at.elapsed() >= TIDY)
            {
                tidied = Some(tokio::time::Instant::now());
                if let Ok(removed @ 1..) = source.tidy(&self.life.queue).await {
                    tracing::info!(
                        feed = self.control.name,
                        removed,
                        "what no batch needs any more was removed"
                    );
                }
            }
            if let Some(over) = self.wait(lease, source.as_deref_mut(), pause).await {
                return over;
            }
        }
    }

    async fn round(
        &self,
        lease: &mut FeedLease,
        source: &mut Option<Box<dyn Source>>,
    ) -> Result<Round, Broken> {
        let (services, control) = (self.life.services(), &self.control);
        let source = match source {
            Some(source) => source,
            None => {
                source.insert(feed::open(&control.name, &self.feed, &services).await.map_err(Broken::Source)?)
            }
        };
        let queue = &self.life.queue;
        feed::round(&control.name, &self.feed, &services, queue, lease, source.as_mut(), &control.cancel)
            .await
    }

    async fn went_well(&self, lease: &mut FeedLease, round: &Round) {
        let control = &self.control;
        let was_in_trouble = control.status().trouble.is_some();
        control.went_well(round, self.life.queue.now());
        self.house.meters.consumed(&control.name, round);
        if was_in_trouble {
            tracing::info!(feed = control.name, "the feed can be asked again");
            let _ = self.life.queue.note_trouble(lease, None).await;
        }
        // If it is refused, the next commit tells.
        let _ = self.life.queue.calm_feed(lease).await;
    }

    /// How long to wait after a failure.
    async fn failed(&self, lease: &mut FeedLease, interval: Option<Duration>, failure: &Failure) -> Duration {
        let control = &self.control;
        let why = failure.to_string();
        let before = control.status().trouble;
        let count = control.failed(&why);
        self.house.meters.feed_failed(&control.name);
        if before.as_ref() != Some(&why) {
            tracing::warn!(feed = control.name, why, "the feed cannot be asked");
            let _ = self.life.queue.note_trouble(lease, Some(&why)).await;
        }
        if count >= ALERT {
            self.alert(lease, &why, count).await;
        }
        pause_after(count, interval)
    }

    /// The administrators are to be told, once. What cannot be kept now is kept after the next failure.
    async fn alert(&self, lease: &mut FeedLease, why: &str, count: u32) {
        match self.life.queue.alert_feed(lease, why).await {
            Ok(true) => {
                tracing::error!(
                    feed = self.control.name,
                    why,
                    count,
                    "alert: the feed fails again and again"
                );
            }
            Ok(false) => {}
            Err(error) => tracing::debug!(feed = self.control.name, %error, "the alert is not kept yet"),
        }
    }

    /// What a refusal of the tree means for whoever consumes; `None`: it is tried again.
    fn refused(&self, error: &Error) -> Option<Over> {
        match error {
            Error::Store(store) if store.next() == Next::Rebuild => Some(Over::Session),
            Error::Lost { .. } | Error::NotFound(_) => Some(Over::Lost),
            error => {
                tracing::debug!(feed = self.control.name, %error, "the tree did not take an item");
                if self.life.queue.session().state().is_final() {
                    return Some(Over::Session);
                }
                // Whatever became of the commit: who takes the feed next knows.
                (!matches!(error, Error::Store(store) if store.next() == Next::RetryLater))
                    .then_some(Over::Lost)
            }
        }
    }

    /// Waits for something to do.
    async fn wait(
        &self,
        lease: &FeedLease,
        mut source: Option<&mut (dyn Source + 'static)>,
        pause: Option<Duration>,
    ) -> Option<Over> {
        let control = &self.control;
        control.next(pause.map(|pause| self.life.queue.now().after(pause)));
        let due = tokio::time::sleep(pause.unwrap_or_default());
        tokio::pin!(due);
        loop {
            let told = async {
                match &mut source {
                    Some(source) if control.status().doing == Doing::Idle => source.told().await,
                    _ => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = control.cancel.cancelled() => return Some(Over::Told),
                () = control.look.notified() => {
                    if !self.is_ours(lease).await {
                        return Some(Over::Lost);
                    }
                }
                () = control.ask.notified() => return self.ready().await,
                () = told => return self.ready().await,
                () = &mut due, if pause.is_some() => return self.ready().await,
            }
        }
    }

    /// While the tree is away nothing is consumed.
    async fn ready(&self) -> Option<Over> {
        tokio::select! {
            biased;
            () = self.control.cancel.cancelled() => Some(Over::Told),
            () = self.house.may_take_work() => None,
        }
    }

    async fn is_ours(&self, lease: &FeedLease) -> bool {
        let session = self.life.queue.session();
        match session.exists(lease.token().lock()).await {
            Ok(Some(stat)) => stat.ephemeral_owner == session.id(),
            Ok(None) => false,
            // Not known: the next commit tells.
            Err(_) => session.state() != SessionState::Expired,
        }
    }
}

fn pause_after(count: u32, interval: Option<Duration>) -> Duration {
    let longest = interval.unwrap_or(LONGEST_PAUSE);
    FIRST_PAUSE.saturating_mul(1 << count.saturating_sub(1).min(20)).min(longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_the_interval() {
        let pauses = |interval| [1, 2, 3, 60].map(|count| pause_after(count, interval).as_secs());
        assert_eq!(pauses(Some(Duration::from_mins(15))), [10, 20, 40, 900]);
        assert_eq!(pauses(Some(Duration::from_secs(15))), [10, 15, 15, 15]);
        assert_eq!(pauses(None), [10, 20, 40, 300]);
    }
}
