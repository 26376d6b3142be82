//! Watches on the locks of jobs that are taken elsewhere: one for each, for as long as it is parked.
//!
//! When things break: after a reconnect all of them are given up and their jobs tried again, so none
//! has to outlive a connection. A lock that cannot be watched is tried again then, or with the next
//! component that vanishes.

use std::sync::Arc;

use ingest_store::recipes::look;
use ingest_store::{Session, Woken};

use super::{Command, Shared, Task};
use crate::ids::Jid;
use crate::index::{Index, Reason};
use crate::map::JobNode;

impl Shared {
    pub(super) fn park_locked(self: &Arc<Self>, jid: Jid) {
        if !self.change(|index, _| index.park(jid, Reason::Locked(jid))) {
            return;
        }
        let mut held = self.held.lock();
        // It may be back in line already, and then nobody would drop the watch.
        if held.ended.is_none() && held.index.is_parked(&Reason::Locked(jid)) {
            let watch = || Task(tokio::spawn(watch(self.session.clone(), Arc::clone(self), jid)));
            held.lock_watches.entry(jid).or_insert_with(watch);
        }
    }

    pub(super) fn released(&self, jid: Jid) {
        // First, because it has fired: whoever parks the job again from now on needs a new one.
        self.held.lock().lock_watches.remove(&jid);
        self.change(|index, now| index.unpark(&Reason::Locked(jid), now));
        self.drop_idle_lock_watch(jid);
    }

    /// What was locked elsewhere is tried again, all of it.
    pub(super) fn try_locked_again(&self) {
        self.held.lock().lock_watches.clear();
        self.change(Index::unpark_locked);
        self.drop_idle_lock_watches();
    }

    pub(super) fn drop_idle_lock_watches(&self) {
        let held = &mut *self.held.lock();
        held.lock_watches.retain(|jid, _| held.index.is_parked(&Reason::Locked(*jid)));
    }

    pub(super) fn drop_idle_lock_watch(&self, jid: Jid) {
        let held = &mut *self.held.lock();
        if !held.index.is_parked(&Reason::Locked(jid)) {
            held.lock_watches.remove(&jid);
        }
    }
}

/// Waits until the lock of a job is gone, and says so behind the events that came before.
async fn watch(session: Session, shared: Arc<Shared>, jid: Jid) {
    let lock = JobNode::Lock.of(jid);
    loop {
        match look(&session, || session.watch_exists(lock.as_str())).await {
            Ok((None, _)) => break,
            Ok((Some(_), watch)) => match watch.woken().await {
                Woken::Deleted => break,
                Woken::Created | Woken::Changed => {}
                Woken::Ended(_) => return,
            },
            Err(error) => {
                tracing::warn!(%jid, %error, "the lock cannot be watched; the job is tried again after the next reconnect");
                return;
            }
        }
    }
    // If nobody listens the finder has ended.
    let _ = shared.commands.send(Command::Released(jid));
}
