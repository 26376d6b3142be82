//! Watches for jobs that wait: on the lock of one that is taken elsewhere, on the lock or the job that another one waits
//! for. One for each, for as long as it is parked.
//!
//! When things break: after a reconnect all of them are given up and their jobs tried again, so none
//! has to outlive a connection. A lock that cannot be watched is tried again then, or with the next
//! component that vanishes.

use std::sync::Arc;

use ingest_store::recipes::look;
use ingest_store::{Kind, Session, Woken};

use super::{Command, Shared, Task};
use crate::ids::Jid;
use crate::index::{Index, Reason, Until};
use crate::map::JobNode;
use crate::nodes::{JobStatus, Node as _};
use crate::states::JobState;

impl Shared {
    pub(super) fn park_locked(self: &Arc<Self>, jid: Jid) {
        self.park_until(jid, Until::Gone(JobNode::Lock.of(jid)));
    }

    pub(super) fn park_until(self: &Arc<Self>, jid: Jid, until: Until) {
        if !self.change(|index, _| index.park(jid, Reason::Locked(jid))) {
            return;
        }
        let mut held = self.held.lock();
        // It may be back in line already, and then nobody would drop the watch.
        if held.ended.is_none() && held.index.is_parked(&Reason::Locked(jid)) {
            // In the place of one for something else, which ends with it.
            let watch = Task(tokio::spawn(watch(self.session.clone(), Arc::clone(self), jid, until)));
            held.lock_watches.insert(jid, watch);
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

/// Waits until what a job waits for has happened, and says so behind the events that came before.
async fn watch(session: Session, shared: Arc<Shared>, jid: Jid, until: Until) {
    let path = match &until {
        Until::Gone(path) => path.clone(),
        Until::Moved(other, _) => JobNode::Status.of(*other),
    };
    loop {
        // The watch comes first: what happens after the look wakes it.
        let looked = async {
            let (stat, watch) = look(&session, || session.watch_exists(path.as_str())).await?;
            let happened = match (stat, &until) {
                (None, _) => true,
                (Some(_), Until::Gone(_)) => false,
                (Some(_), Until::Moved(_, from)) => has_left(&session, &path, *from).await?,
            };
            Ok::<_, ingest_store::Error>((happened, watch))
        };
        match looked.await {
            Ok((true, _)) => break,
            Ok((false, watch)) => {
                if let Woken::Ended(_) = watch.woken().await {
                    return;
                }
            }
            Err(error) => {
                tracing::warn!(%jid, %path, %error, "cannot be watched; the job that waits for it is tried again after the next reconnect");
                return;
            }
        }
    }
    // If nobody listens the finder has ended.
    let _ = shared.commands.send(Command::Released(jid));
}

/// Whether a job is in another state. One that nobody can read is worth another try, which says so.
async fn has_left(session: &Session, status: &str, from: JobState) -> Result<bool, ingest_store::Error> {
    match look(session, || session.get(status)).await {
        Ok((data, _)) => Ok(JobStatus::read(&data).map_or(true, |status| status.status != from)),
        Err(error) if error.kind() == Kind::NoNode => Ok(true),
        Err(error) => Err(error),
    }
}
