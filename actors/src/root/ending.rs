//! How a node ends: it takes nothing new, lets what runs come to its end, gives back what it holds, and leaves.

use std::time::Duration;

use ractor::ActorRef;

use super::{Message, Role, State};
use crate::house::{Mode, Task};
use crate::node::End;
use crate::release;

/// How long those may take who were told to stop.
pub(super) const LAST: Duration = Duration::from_secs(10);
/// How long giving back and leaving may take.
pub(super) const LEAVING: Duration = Duration::from_secs(10);
const LEAVING_AT_ONCE: Duration = Duration::from_secs(1);

/// What waits for the end.
#[derive(Debug, Default)]
pub(super) struct Ending {
    draining: bool,
    /// What ran was told to stop.
    hurried: bool,
    pub(super) over: bool,
    tasks: Vec<Task>,
}

impl State {
    pub(super) async fn drain(&mut self, myself: &ActorRef<Message>) {
        if std::mem::replace(&mut self.ending.draining, true) {
            return;
        }
        let (busy, grace) = (self.house.floor.under_way(), self.house.settings.load().shutdown.grace);
        self.house.set_mode(Mode::Draining);
        tracing::info!(busy, ?grace, "draining: nothing new is taken");
        if self.life.is_none() {
            return self.end(myself, End::Drained).await;
        }
        let (floor, one) = (self.house.floor.clone(), myself.clone());
        self.ending.tasks.push(Task::spawn(async move {
            floor.empty().await;
            let _ = one.cast(Message::Idle);
        }));
        self.after(myself, grace, || Message::GraceOver);
    }

    /// Nothing is under way any more.
    pub(super) async fn idle(&mut self, myself: &ActorRef<Message>) {
        let end = if self.ending.hurried { End::Hurried } else { End::Drained };
        self.end(myself, end).await;
    }

    /// The grace is over: those who still run are told to stop.
    pub(super) fn hurry(&mut self, myself: &ActorRef<Message>) {
        self.ending.hurried = true;
        let told = self.house.floor.cancel(|_, _| true);
        tracing::warn!(told, "the grace is over: what runs is stopped, and given back");
        self.after(myself, LAST, || Message::Over);
    }

    fn after(&mut self, myself: &ActorRef<Message>, pause: Duration, message: fn() -> Message) {
        let one = myself.clone();
        self.ending.tasks.push(Task::spawn(async move {
            tokio::time::sleep(pause).await;
            let _ = one.cast(message());
        }));
    }

    /// Ends everything, gives back what is held, closes the session.
    pub(super) async fn end(&mut self, myself: &ActorRef<Message>, end: End) {
        if std::mem::replace(&mut self.ending.over, true) {
            return;
        }
        self.ready.send_replace(false);
        self.ending.tasks.clear();
        for role in Role::ALL.into_iter().rev() {
            self.stop_child(role).await;
        }
        if let Some(life) = self.life.take() {
            let limit = if end == End::AtOnce { LEAVING_AT_ONCE } else { LEAVING };
            let leave = async {
                for desk in self.house.floor.desks() {
                    desk.close();
                    release::all_of(&life, &desk.holder, false).await;
                }
                if let Err(error) = life.queue.session().close().await {
                    tracing::warn!(%error, "the session was not closed, and ends by its timeout");
                }
            };
            if tokio::time::timeout(limit, leave).await.is_err() {
                tracing::warn!("the tree did not answer: what is held goes with the session's timeout");
            }
        }
        self.house.set_life(None);
        match &end {
            End::GaveUp(why) | End::Refused(why) => tracing::error!(why, "the node ends"),
            end => tracing::info!(?end, "the node has ended"),
        }
        self.ended.send_replace(Some(end));
        myself.stop(None);
    }
}
