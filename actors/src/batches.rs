//! Batches: a BatchActor for each batch that has something to be done.
//!
//! An actor appears when its batch does or when its status changes, and ends when nothing is to be done for it.
//!
//! **When things break.** A BatchActor that dies is started again, at once the first time and then after a growing
//! pause; the lock that it held is released. One whose work makes no progress for `supervision.batch_stall` is ended, too. After a reconnect all batches are looked at again.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use futures::stream::{self, StreamExt as _};
use ingest_queue::error::Error;
use ingest_queue::ids::Bid;
use ingest_queue::map;
use ingest_queue::states::BatchState;
use ingest_store::recipes::look;
use ractor::{Actor, ActorId, ActorProcessingErr, ActorRef, SupervisionEvent};
use tokio::time::Instant;

use crate::batch::{self, BatchActor};
use crate::crash::{Crash, Death, Reason, death, handled};
use crate::desk::Desk;
use crate::house::{About, Counts, House, Life};
use crate::release;
use crate::restart::{Restarts, Verdict};
use crate::watcher::BatchEvent;

/// Batches that are looked at side by side when all are.
const AT_ONCE: usize = 32;

/// The pool of the desks at which batches are worked on.
pub(crate) const POOL: &str = "batches";

/// What is told about batches.
#[derive(Debug)]
pub(crate) enum Message {
    Event(BatchEvent),
    /// Events may be missing: all batches are listed.
    ListAgain,
    /// Something that batches wait for may have happened.
    LookAgain,
    /// The same, also for those that were to wait for a while: what they wait for has happened.
    RetryAll,
    Restart(Bid),
    /// This batch has the same key as the first, and waits for its end.
    Behind {
        first: Bid,
        bid: Bid,
    },
    /// Nothing is to be done for this batch, says its actor, which has been told so much.
    Idle {
        bid: Bid,
        told: u64,
    },
}

/// The actor.
#[derive(Debug)]
pub(crate) struct Batches;

/// What it knows.
#[derive(Debug)]
pub(crate) struct State {
    house: Arc<House>,
    life: Arc<Life>,
    live: HashMap<Bid, Live>,
    of: HashMap<ActorId, Bid>,
    restarts: HashMap<Bid, Restarts>,
    /// Who waits for the end of whom.
    behind: HashMap<Bid, BTreeSet<Bid>>,
}

#[derive(Debug)]
struct Live {
    actor: ActorRef<batch::Message>,
    desk: Arc<Desk>,
    /// How many messages it was sent.
    told: u64,
}

impl Actor for Batches {
    type Msg = Message;
    type State = State;
    type Arguments = (Arc<House>, Arc<Life>);

    async fn pre_start(
        &self,
        myself: ActorRef<Message>,
        (house, life): Self::Arguments,
    ) -> Result<State, ActorProcessingErr> {
        *house.directory.batches.write() = Some(myself);
        let (live, of, restarts, behind) = (HashMap::new(), HashMap::new(), HashMap::new(), HashMap::new());
        Ok(State { house, life, live, of, restarts, behind })
    }

    async fn post_start(&self, myself: ActorRef<Message>, _: &mut State) -> Result<(), ActorProcessingErr> {
        Ok(myself.cast(Message::ListAgain)?)
    }

    async fn handle(
        &self,
        myself: ActorRef<Message>,
        message: Message,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        handled(async {
            match message {
                Message::Event(event) => state.event(&myself, event).await?,
                Message::ListAgain => state.list(&myself).await?,
                Message::LookAgain => {
                    let bids: Vec<Bid> = state.live.keys().copied().collect();
                    for bid in bids {
                        state.tell(&myself, bid, batch::Message::Look).await?;
                    }
                }
                Message::RetryAll => {
                    let bids: Vec<Bid> = state.live.keys().copied().collect();
                    for bid in bids {
                        state.tell(&myself, bid, batch::Message::Retry).await?;
                    }
                }
                Message::Restart(bid) => state.tell(&myself, bid, batch::Message::Look).await?,
                Message::Behind { first, bid } => {
                    state.behind.entry(first).or_default().insert(bid);
                    // It may have ended just before that.
                    state.tell(&myself, bid, batch::Message::Look).await?;
                }
                Message::Idle { bid, told } => state.idle(bid, told),
            }
            Ok(())
        })
        .await
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<Message>,
        event: SupervisionEvent,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        let Some((cell, death)) = death(event) else { return Ok(()) };
        handled(state.lost(&myself, cell.get_id(), death)).await
    }
}

impl State {
    async fn event(&mut self, myself: &ActorRef<Message>, event: BatchEvent) -> Result<(), Crash> {
        let bid = event.bid();
        if matches!(event, BatchEvent::Changed(_) | BatchEvent::Gone(_)) {
            for waiting in self.behind.remove(&bid).unwrap_or_default() {
                self.tell(myself, waiting, batch::Message::Look).await?;
            }
        }
        let message = match event {
            BatchEvent::Changed(_) => return self.tell(myself, bid, batch::Message::Look).await,
            BatchEvent::Unlocked(_) | BatchEvent::Gone(_) => batch::Message::Look,
            BatchEvent::Left(_) => batch::Message::Left,
            BatchEvent::Joined(_) => batch::Message::Joined,
            BatchEvent::Ended { .. } => batch::Message::Ended,
        };
        if self.live.contains_key(&bid) {
            self.tell(myself, bid, message).await?;
        }
        Ok(())
    }

    /// Tells the actor of a batch, which is started if there is none.
    async fn tell(
        &mut self,
        myself: &ActorRef<Message>,
        bid: Bid,
        message: batch::Message,
    ) -> Result<(), Crash> {
        if !self.live.contains_key(&bid) {
            self.start(myself, bid).await?;
        }
        if let Some(live) = self.live.get_mut(&bid) {
            live.told += 1;
            let _ = live.actor.cast(message);
        }
        Ok(())
    }

    async fn start(&mut self, myself: &ActorRef<Message>, bid: Bid) -> Result<(), Crash> {
        let desk = self.house.floor.desk(POOL, bid.to_string());
        let setup = batch::Setup {
            house: self.house.clone(),
            life: self.life.clone(),
            batches: myself.clone(),
            desk: desk.clone(),
            bid,
        };
        let spawned = Actor::spawn_linked(
            Some(self.house.actor_name(&bid.to_string())),
            BatchActor,
            setup,
            myself.get_cell(),
        )
        .await;
        let (actor, _) = spawned.map_err(|error| {
            desk.close();
            Crash::error(error)
        })?;
        desk.belongs_to(actor.get_cell());
        self.of.insert(actor.get_id(), bid);
        self.live.insert(bid, Live { actor, desk, told: 0 });
        Ok(())
    }

    /// Looks at all batches, and starts an actor for each that has something to be done.
    async fn list(&mut self, myself: &ActorRef<Message>) -> Result<(), Crash> {
        let queue = &self.life.queue;
        let session = queue.session();
        let (names, _) = look(session, || session.children(map::BATCHES)).await.map_err(Crash::error)?;
        let known: Vec<Bid> = names.iter().filter_map(|name| name.parse().ok()).collect();
        let mut live: BTreeSet<Bid> =
            queue.with_report_in_outbox().await.map_err(Crash::error)?.into_iter().collect();
        let mut found = stream::iter(known)
            .map(|bid| async move { (bid, queue.batch(bid).await) })
            .buffer_unordered(AT_ONCE);
        while let Some((bid, batch)) = found.next().await {
            match batch {
                // One that is held may expire: its actor looks.
                Ok(batch) if batch.state().is_live() || batch.state() == BatchState::Held => {
                    live.insert(bid);
                }
                Ok(_) | Err(Error::NotFound(_)) => {}
                Err(error @ Error::Corrupt { .. }) => {
                    tracing::error!(batch = %bid, %error, "a batch cannot be read, and is left alone; see `ingestd fsck`");
                }
                Err(error) => return Err(Crash::error(error)),
            }
        }
        drop(found);
        live.extend(self.live.keys());
        for bid in live {
            self.tell(myself, bid, batch::Message::Sweep).await?;
        }
        Ok(())
    }

    fn idle(&mut self, bid: Bid, told: u64) {
        // Something was said to it meanwhile: it looks at that first.
        if self.live.get(&bid).is_some_and(|live| live.told == told)
            && let Some(live) = self.live.remove(&bid)
        {
            self.of.remove(&live.actor.get_id());
            self.restarts.remove(&bid);
            live.desk.close();
            live.actor.stop(None);
        }
    }

    async fn lost(&mut self, myself: &ActorRef<Message>, id: ActorId, death: Death) -> Result<(), Crash> {
        let Some(bid) = self.of.remove(&id) else { return Ok(()) };
        let Some(live) = self.live.remove(&bid) else { return Ok(()) };
        let crash = match death {
            _ if live.desk.has_stalled() => {
                Counts::add(&self.house.counts.stalls, 1);
                Crash::of(Reason::Stall, "what was done for its batch made no progress")
            }
            Death::Crashed(crash) => crash,
            Death::Stopped(why) => Crash::of(Reason::Killed, format!("it was stopped: {why}")),
        };
        if live.desk.close().is_some() {
            release::later(&self.life, None, &live.desk, None, crash.reason);
        }
        let policy = self.house.settings.load().supervision.policy();
        let restarts = self.restarts.entry(bid).or_insert_with(|| Restarts::new(policy));
        restarts.set_policy(policy);
        let verdict = restarts.died(Instant::now(), rand::random());
        let about = About { batch: Some(bid.to_string()), ..About::default() };
        self.house.restarted(&format!("batch {bid}"), &crash, verdict, about);
        match verdict {
            Verdict::Again { after, .. } if after.is_zero() => {
                self.tell(myself, bid, batch::Message::Look).await
            }
            Verdict::Again { after, .. } => {
                myself.send_after(after, move || Message::Restart(bid));
                Ok(())
            }
            Verdict::GiveUp { count } => {
                Err(Crash { message: format!("the actor of {bid} died {count} times: {crash}"), ..crash })
            }
        }
    }
}
