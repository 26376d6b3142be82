//! Work that does not always go well: it panics, hangs or gives up where a test says so, waits at doors that the test
//! opens, and otherwise does what the real steps do. It tells which steps were begun and which run.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use futures::future::BoxFuture;
use ingest_actors::work::{Steps, Work};
use ingest_queue::ids::Jid;
use ingest_queue::jobs::Lease;
use ingest_queue::plan::job::Change;
use ingest_queue::queue::Queue;
use ingest_queue::states::JobState;
use ingest_steps::outcome::{Cancel, Failure, Progress, Result};
use ingest_steps::services::Services;
use ingest_store::Op;
use parking_lot::Mutex;
use tokio::sync::{Semaphore, watch};

/// What happens instead of a step, or around it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Act {
    /// Before the step.
    Panic,
    /// When the step has done all that it does.
    PanicAfter,
    /// It says that it wants to be taken again.
    Again,
    /// It waits for ever, and hears nothing.
    Hang,
    /// What it wants to be committed cannot be.
    Err,
}

/// A step that was begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Begun {
    pub(crate) state: JobState,
    pub(crate) jid: Jid,
    pub(crate) attempt: u32,
    pub(crate) at: Instant,
}

/// What has been seen.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) begun: Vec<Begun>,
    running: BTreeMap<JobState, usize>,
    most: BTreeMap<JobState, usize>,
}

impl Seen {
    /// The most that ran at once since [`Trick::forget_the_most`].
    pub(crate) fn most(&self, state: JobState) -> usize {
        self.most.get(&state).copied().unwrap_or(0)
    }

    pub(crate) fn running(&self, state: JobState) -> usize {
        self.running.get(&state).copied().unwrap_or(0)
    }

    pub(crate) fn begun(&self, state: JobState) -> usize {
        self.begun.iter().filter(|begun| begun.state == state).count()
    }
}

/// The work.
#[derive(Debug, Default)]
pub(crate) struct Trick {
    acts: Mutex<HashMap<JobState, VecDeque<Act>>>,
    doors: Mutex<HashMap<JobState, Arc<Semaphore>>>,
    beating: AtomicBool,
    seen: watch::Sender<Seen>,
}

impl Trick {
    /// Around the real steps.
    pub(crate) fn real() -> Arc<Self> {
        Arc::default()
    }

    /// The next steps of a state go like this, in this order.
    pub(crate) fn next(&self, state: JobState, acts: impl IntoIterator<Item = Act>) {
        self.acts.lock().entry(state).or_default().extend(acts);
    }

    /// From now on the steps of a state wait.
    pub(crate) fn close(&self, state: JobState) {
        self.doors.lock().insert(state, Arc::new(Semaphore::new(0)));
    }

    /// So many of those who wait, or come later, pass.
    pub(crate) fn let_through(&self, state: JobState, count: usize) {
        self.doors.lock()[&state].add_permits(count);
    }

    /// All pass from now on.
    pub(crate) fn open(&self, state: JobState) {
        if let Some(door) = self.doors.lock().get(&state) {
            door.close();
        }
    }

    /// Whether those who wait at a door say that they go on.
    pub(crate) fn beat(&self, beating: bool) {
        self.beating.store(beating, Ordering::SeqCst);
    }

    /// Waits until what was seen is as wanted.
    pub(crate) async fn until(&self, what: &str, wanted: impl Fn(&Seen) -> bool) {
        let mut seen = self.seen.subscribe();
        let reached = tokio::time::timeout(crate::kit::PATIENCE, seen.wait_for(wanted)).await;
        assert!(reached.is_ok(), "waited in vain for {what}; seen {:?}", *self.seen.borrow());
    }

    pub(crate) fn seen<T>(&self, look: impl Fn(&Seen) -> T) -> T {
        look(&self.seen.borrow())
    }

    /// From now on the most is counted anew.
    pub(crate) fn forget_the_most(&self) {
        self.seen.send_modify(|seen| seen.most.clone_from(&seen.running));
    }

    fn begin(&self, lease: &Lease) -> Running<'_> {
        let (state, jid, attempt) = (lease.job().state(), lease.job().jid, lease.job().status.attempt);
        self.seen.send_modify(|seen| {
            seen.begun.push(Begun { state, jid, attempt, at: Instant::now() });
            let running = seen.running.entry(state).or_default();
            *running += 1;
            let most = seen.most.entry(state).or_default();
            *most = (*running).max(*most);
        });
        Running(self, state)
    }

    async fn wait_at_the_door(&self, state: JobState, progress: &Progress, cancel: &Cancel) -> Result<()> {
        let door = self.doors.lock().get(&state).cloned();
        let Some(door) = door else { return Ok(()) };
        let beat = async {
            loop {
                ingest_harness::let_pass(std::time::Duration::from_millis(50)).await;
                if self.beating.load(Ordering::SeqCst) {
                    progress.beat();
                }
            }
        };
        tokio::select! {
            passes = door.acquire() => {
                if let Ok(pass) = passes {
                    pass.forget();
                }
                Ok(())
            }
            () = cancel.cancelled() => Err(Failure::Cancelled),
            () = beat => Ok(()),
        }
    }
}

/// A step that runs, however it ends.
struct Running<'a>(&'a Trick, JobState);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.seen.send_modify(|seen| *seen.running.entry(self.1).or_default() -= 1);
    }
}

impl Work for Trick {
    fn run<'a>(
        &'a self,
        queue: &'a Queue,
        lease: &'a mut Lease,
        services: &'a Services,
        progress: &'a Progress,
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<Change>> {
        Box::pin(async move {
            let state = lease.job().state();
            let _running = self.begin(lease);
            let act = self.acts.lock().get_mut(&state).and_then(VecDeque::pop_front);
            match act {
                Some(Act::Panic) => panic!("no bread in {state}"),
                Some(Act::Again) => return Err(Failure::Again("somebody was in the way".into())),
                Some(Act::Hang) => std::future::pending::<()>().await,
                Some(Act::PanicAfter | Act::Err) | None => {}
            }
            self.wait_at_the_door(state, progress, cancel).await?;
            let answer = Steps.run(queue, lease, services, progress, cancel).await;
            assert!(act != Some(Act::PanicAfter), "no butter in {state}");
            if act == Some(Act::Err) {
                let also = vec![Op::delete("/no-such-node", None)];
                return answer.map(|change| Change { also, ..change });
            }
            answer
        })
    }
}
