//! The janitor: what nobody needs any more goes.
//!
//! At once, by event: the working directory of a job that has ended for good; after a gap in the events, those of all that ended
//! meanwhile. From time to time, on every node: locks
//! of this session that nobody claims, leftovers on this node's disk. From time to time, on one node at a time, under
//! `/cleanup/NAME`: what no node needs any more ([`upkeep`]).
//!
//! **When things break.** A routine that fails is logged and made again the next time; none keeps another from its
//! turn.

mod manifests;
mod routines;
pub mod upkeep;

use std::collections::BTreeMap;
use std::sync::Arc;

use ingest_queue::ids::{Bid, Jid};
use ingest_steps::step::clean::{self, Removed};
use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};

use self::manifests::Manifests;
pub use self::routines::Swept;
use self::upkeep::{Ran, Routine};
use crate::crash::handled;
use crate::desk::Chore;
use crate::house::{House, Life, Task, tell};

/// What the janitor is told.
#[derive(Debug)]
pub(crate) enum Message {
    /// A job has ended for good. A node that drains waits for this.
    Ended { bid: Bid, jid: Jid, chore: Chore },
    /// The manifest of a batch was needed a while ago.
    Look(Bid),
    /// Jobs may have ended for good while nobody told: those that have files here are looked at.
    Missed,
    /// It is time for a round.
    Round,
    /// Rounds are to be made at other times than before.
    Rearm,
    /// It may be time for a routine.
    Due(Routine),
    /// Make a round now, and say what it did.
    RunOnce(RpcReplyPort<Swept>),
    /// Run this routine now, and say what it did.
    Run(Routine, RpcReplyPort<Ran>),
}

/// The actor.
#[derive(Debug)]
pub(crate) struct Janitor;

/// What it knows.
#[derive(Debug)]
pub(crate) struct State {
    house: Arc<House>,
    life: Arc<Life>,
    timer: Option<Task>,
    /// One for each routine.
    timers: BTreeMap<Routine, Task>,
    manifests: Manifests,
}

impl Actor for Janitor {
    type Msg = Message;
    type State = State;
    type Arguments = (Arc<House>, Arc<Life>);

    async fn pre_start(
        &self,
        myself: ActorRef<Message>,
        (house, life): Self::Arguments,
    ) -> Result<State, ActorProcessingErr> {
        *house.directory.janitor.write() = Some(myself);
        Ok(State { house, life, timer: None, timers: BTreeMap::new(), manifests: Manifests::default() })
    }

    async fn post_start(&self, myself: ActorRef<Message>, _: &mut State) -> Result<(), ActorProcessingErr> {
        myself.cast(Message::Round)?;
        for routine in Routine::ALL {
            myself.cast(Message::Due(routine))?;
        }
        Ok(())
    }

    async fn handle(
        &self,
        myself: ActorRef<Message>,
        message: Message,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        handled(async {
            match message {
                Message::Ended { bid, jid, chore } => state.ended(&myself, bid, jid, chore).await,
                Message::Look(bid) => {
                    if let Some(chore) = state.manifests.over(bid) {
                        state.manifest(&myself, bid).await;
                        drop(chore);
                    }
                }
                Message::Missed => {
                    let Removed { attempts, manifests, .. } = state.leftovers().await;
                    let directories = attempts.len();
                    if directories > 0 || manifests > 0 {
                        tracing::info!(directories, manifests, "cleaned up");
                    }
                }
                Message::Round => {
                    state.round().await;
                    state.round_later(&myself);
                }
                Message::Rearm => {
                    state.round_later(&myself);
                    for routine in Routine::ALL {
                        state.due(&myself, routine).await;
                    }
                }
                Message::Due(routine) => state.due(&myself, routine).await,
                Message::RunOnce(reply) => {
                    let swept = state.everything().await;
                    let _ = reply.send(swept);
                }
                Message::Run(routine, reply) => {
                    let ran = state.run_once(routine).await;
                    let _ = reply.send(ran);
                }
            }
            Ok(())
        })
        .await
    }
}

/// Tells the janitor that a job has ended for good.
pub(crate) fn ended(house: &House, bid: Bid, jid: Jid) {
    if house.work.is_real() {
        tell(&house.directory.janitor, Message::Ended { bid, jid, chore: house.floor.chore() });
    }
}

/// Tells the janitor that events were missed.
pub(crate) fn missed(house: &House) {
    if house.work.is_real() {
        tell(&house.directory.janitor, Message::Missed);
    }
}

impl State {
    fn round_later(&mut self, myself: &ActorRef<Message>) {
        let (every, myself) = (self.house.settings.load().upkeep.every, myself.clone());
        self.timer = Some(Task::spawn(async move {
            tokio::time::sleep(every).await;
            let _ = myself.cast(Message::Round);
        }));
    }

    /// Runs a routine if it is time, and looks again when it may be.
    async fn due(&mut self, myself: &ActorRef<Message>, routine: Routine) {
        let mut wait = self.wait_for(routine).await;
        if wait.is_zero() {
            if self.house.takes_work()
                && let Some(Ran::Now(run)) = self.run_if_due(routine).await
                && run.removed > 0
            {
                tracing::info!(name = routine.name(), removed = run.removed, "cleaned up");
            }
            // From when it was run, here or elsewhere; if nobody could, a whole time from now.
            let every = routine.every(&self.house.settings.load().upkeep);
            wait = Some(self.wait_for(routine).await).filter(|wait| !wait.is_zero()).unwrap_or(every);
        }
        let myself = myself.clone();
        let later = Task::spawn(async move {
            tokio::time::sleep(wait).await;
            let _ = myself.cast(Message::Due(routine));
        });
        self.timers.insert(routine, later);
    }

    async fn ended(&mut self, myself: &ActorRef<Message>, bid: Bid, jid: Jid, chore: Chore) {
        let services = self.life.services();
        if services.work.job(bid, jid).exists() {
            match clean::job(&services, bid, jid).await {
                Ok(removed) => {
                    tracing::debug!(job = %jid, batch = %bid, bytes = removed.bytes, "its working directory is gone");
                }
                Err(failure) => {
                    tracing::warn!(job = %jid, batch = %bid, %failure, "its working directory is left for later");
                }
            }
        }
        let dir = services.work.batch(bid);
        // The batch's own goes with the last of its jobs; one that is not empty stays.
        if !dir.exists() || tokio::fs::remove_dir(&dir).await.is_ok() {
            return;
        }
        if let Some(chore) = self.manifests.ended(bid, chore) {
            self.manifest(myself, bid).await;
            drop(chore);
        }
    }

    /// Removes what is left of a batch's manifest, or looks again later if it is needed.
    async fn manifest(&mut self, myself: &ActorRef<Message>, bid: Bid) {
        let services = self.life.services();
        match clean::manifest(&self.life.queue, &services, bid).await {
            Ok(Some(Removed { manifests: 0, .. })) => {}
            Ok(Some(Removed { manifests, .. })) => {
                tracing::info!(batch = %bid, manifests, "what was left of its manifest is gone: another node has expanded it");
                let _ = tokio::fs::remove_dir(services.work.batch(bid)).await;
            }
            Ok(None) => {
                let myself = myself.clone();
                let timer = Task::spawn(async move {
                    tokio::time::sleep(manifests::PAUSE).await;
                    let _ = myself.cast(Message::Look(bid));
                });
                self.manifests.needed(bid, timer);
            }
            Err(failure) => tracing::warn!(batch = %bid, %failure, "its manifest is left for later"),
        }
    }
}
