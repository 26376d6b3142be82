//! Keeps what is known of limits and slots true to the tree, by one watch, and says where there is room.

use ingest_store::{Event, Session, TreeWatch};

use super::{Limits, slot};
use crate::error::Result;
use crate::map;
use crate::queue::Queue;

/// Something that concerns those who wait for a slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News {
    /// A slot of this semaphore, by its name in the tree, was given back.
    Freed(String),
    /// Limits have changed, or events may be missing: whoever waits for a slot looks again.
    Changed,
}

/// Follows the limits of a queue. While there is one, what is known is trusted.
#[derive(Debug)]
pub struct Follower {
    queue: Queue,
    watch: TreeWatch,
}

impl Follower {
    /// Watches, reads, and goes on from there with [`Follower::run`].
    pub async fn start(queue: &Queue) -> Result<Self> {
        let watch = watch(queue.session()).await?;
        queue.read_limits().await?;
        queue.limits.held.lock().followers += 1;
        Ok(Self { queue: queue.clone(), watch })
    }

    /// Until the session is over.
    pub async fn run(mut self, tell: impl Fn(News)) {
        let limits = self.queue.limits.clone();
        loop {
            let event = tokio::select! {
                event = self.watch.next() => event,
                () = limits.abandoned.notified() => {
                    if let Err(error) = self.queue.sweep_slots().await {
                        tracing::warn!(%error, "slots that nobody claims could not be looked for");
                    }
                    continue;
                }
                () = limits.returned.notified() => {
                    let returned = std::mem::take(&mut limits.held.lock().returned);
                    for name in returned {
                        tell(News::Freed(name));
                    }
                    continue;
                }
            };
            match event {
                Event::Ended(_) => return,
                Event::Relist(_) => self.anew(&tell).await,
                Event::Created(path) | Event::Changed(path) | Event::Deleted(path)
                    if path == map::SEMAPHORES =>
                {
                    self.anew(&tell).await;
                }
                Event::Created(path) => limits.created(&path),
                Event::Deleted(path) => {
                    if let Some(name) = limits.deleted(&path) {
                        tell(News::Freed(name));
                    }
                }
                Event::Changed(_) | Event::Children(_) => {}
            }
        }
    }

    async fn anew(&self, tell: &impl Fn(News)) {
        self.queue.limits.held.lock().book.doubt_all();
        self.queue.limits.forget_rules();
        // What cannot be read now is read by the next who wants a slot.
        if let Err(error) = self.queue.read_limits().await {
            tracing::debug!(%error, "the limits could not be read");
        }
        tell(News::Changed);
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let mut held = self.queue.limits.held.lock();
        held.followers = held.followers.saturating_sub(1);
        if held.followers == 0 {
            held.known = None;
        }
    }
}

async fn watch(session: &Session) -> Result<TreeWatch> {
    Ok(session.watch_tree(map::SEMAPHORES).await?)
}

impl Limits {
    fn created(&self, path: &str) {
        if let Some((name, number, holder)) = slot::parts(path) {
            let book = &mut self.held.lock().book;
            book.made(name, number);
            if holder {
                book.held(name, number);
            }
        }
    }

    /// The semaphore that has more room now.
    fn deleted(&self, path: &str) -> Option<String> {
        let (name, number, holder) = slot::parts(path)?;
        let book = &mut self.held.lock().book;
        if holder {
            book.freed(name, number);
            return Some(name.to_owned());
        }
        book.unmade(name, number);
        None
    }
}
