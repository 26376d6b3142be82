//! Live events: what happens in the tree, told to whoever listens.
//!
//! Nothing is looked at while nobody listens. From the first listener on, one follower of this node watches the tree
//! ([`follow`]), gathers what happens for a moment, and tells it to all at once. It stops a while after the last one has
//! gone, so that a page that is loaded again goes on where it was. What a listener may see of it is decided for each
//! ([`sight`]).
//!
//! **When things break.** Whoever was away too long, or reads too slowly, and everybody after a time without the tree, is told
//! to read everything again (`reset`). Memory is bounded: the last events are kept, and so many streams are open.

mod follow;
mod gathered;
mod sight;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::sse::{Event as SseEvent, KeepAlive, Sse};
use futures::Stream;
use ingest_actors::node::Node;
use parking_lot::Mutex;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::app::App;
use super::caller::Depositor;
use super::problem::Answer;
use super::wire::{BatchesChanged, Event, Problem, Reset};
use sight::{Owners, Sight};

/// Events that are kept for those who come back.
const KEPT: usize = 1024;
/// Events that may wait for a slow reader.
const BACKLOG: usize = 256;
/// How long the follower stays after the last listener.
const LINGER: Duration = Duration::from_mins(1);
/// A comment comes so often, so that nothing in between takes the stream for dead.
const BEAT: Duration = Duration::from_secs(15);

/// An event that was told.
#[derive(Debug)]
struct Told {
    number: u64,
    name: &'static str,
    data: String,
    /// Of `batches`: which, for those who may not see all.
    batches: Option<BatchesChanged>,
}

impl Told {
    fn new(number: u64, name: &'static str, event: &Event) -> Self {
        let data = serde_json::to_string(event).unwrap_or_else(|_| "{}".to_owned());
        let batches = match event {
            Event::Batches(changed) => Some(changed.clone()),
            _ => None,
        };
        Self { number, name, data, batches }
    }

    fn batches(number: u64, changed: BatchesChanged) -> Self {
        Self::new(number, "batches", &Event::Batches(changed))
    }
}

/// Where listeners and the follower meet. Clones are the same.
#[derive(Debug, Clone)]
pub(crate) struct Hub(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    node: Arc<Node>,
    owners: Owners,
    live: broadcast::Sender<Arc<Told>>,
    state: Mutex<Following>,
    /// All streams end.
    closing: CancellationToken,
}

#[derive(Debug, Default)]
struct Following {
    /// Tells the numbers of one follower from those of another.
    epoch: u32,
    next: u64,
    kept: VecDeque<Arc<Told>>,
    listeners: usize,
    follower: Option<JoinHandle<()>>,
}

impl Hub {
    pub(crate) fn new(node: Arc<Node>) -> Self {
        let live = broadcast::Sender::new(BACKLOG);
        Self(Arc::new(Inner {
            node,
            owners: Owners::default(),
            live,
            state: Mutex::default(),
            closing: CancellationToken::new(),
        }))
    }

    /// Ends all streams: the node ends.
    pub(crate) fn close(&self) {
        self.0.closing.cancel();
        if let Some(follower) = self.0.state.lock().follower.take() {
            follower.abort();
        }
    }

    /// Returns when the node ends.
    pub(crate) async fn closed(&self) {
        self.0.closing.cancelled().await;
    }

    /// Tells everybody.
    fn tell(&self, name: &'static str, event: &Event) {
        let mut state = self.0.state.lock();
        let told = Arc::new(Told::new(state.next, name, event));
        state.next += 1;
        if state.kept.len() == KEPT {
            state.kept.pop_front();
        }
        state.kept.push_back(told.clone());
        // Within the lock: whoever comes now has it either from here or from there. Nobody may be listening.
        let _ = self.0.live.send(told);
    }

    /// Begins to listen: with what was missed, or with a reset.
    fn listen(&self, sight: Sight, last: Option<&str>) -> Listener {
        let mut state = self.0.state.lock();
        state.listeners += 1;
        if state.follower.is_none() {
            state.epoch = rand::random();
            state.kept.clear();
            state.follower = Some(tokio::spawn(follow::run(self.clone())));
        }
        let live = self.0.live.subscribe();
        let missed = last.and_then(|last| state.after(last));
        let waiting = missed.unwrap_or_else(|| state.beginning(last.is_some()));
        Listener { hub: self.clone(), sight, epoch: state.epoch, waiting, live }
    }

    fn gone(&self) {
        let mut state = self.0.state.lock();
        state.listeners -= 1;
        if state.listeners > 0 {
            return;
        }
        let (hub, epoch) = (self.clone(), state.epoch);
        tokio::spawn(async move {
            tokio::time::sleep(LINGER).await;
            let mut state = hub.0.state.lock();
            if state.listeners == 0
                && state.epoch == epoch
                && let Some(follower) = state.follower.take()
            {
                follower.abort();
            }
        });
    }
}

impl Following {
    /// What came after an event, if all of that is kept.
    fn after(&self, last: &str) -> Option<VecDeque<Arc<Told>>> {
        let (epoch, number) = last.split_once('-')?;
        let number: u64 = number.parse().ok()?;
        let first = self.kept.front().map_or(self.next, |told| told.number);
        if epoch != format!("{:08x}", self.epoch) || number >= self.next || number + 1 < first {
            return None;
        }
        Some(self.kept.iter().filter(|told| told.number > number).cloned().collect())
    }

    /// A reset, and what was told last of what holds as a whole.
    fn beginning(&self, came_back: bool) -> VecDeque<Arc<Told>> {
        let why = if came_back { "too much has happened since" } else { "the stream begins" };
        let number = self.next.saturating_sub(1);
        let mut all = VecDeque::from([Arc::new(reset(number, why))]);
        for name in ["counts", "node"] {
            all.extend(self.kept.iter().rev().find(|told| told.name == name).cloned());
        }
        all
    }
}

fn reset(number: u64, why: &str) -> Told {
    Told::new(number, "reset", &Event::Reset(Reset { why: why.to_owned() }))
}

/// One stream.
#[derive(Debug)]
struct Listener {
    hub: Hub,
    sight: Sight,
    epoch: u32,
    waiting: VecDeque<Arc<Told>>,
    live: broadcast::Receiver<Arc<Told>>,
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.hub.gone();
    }
}

impl Listener {
    /// The next event that this listener may see; `None`: the node ends.
    async fn next(&mut self) -> Option<SseEvent> {
        let closing = self.hub.0.closing.clone();
        closing.run_until_cancelled(self.next_seen()).await?
    }

    async fn next_seen(&mut self) -> Option<SseEvent> {
        loop {
            let told = self.next_told().await?;
            let Inner { owners, node, .. } = &*self.hub.0;
            if let Some(seen) = self.sight.see(told, owners, node).await {
                return Some(self.event(&seen));
            }
        }
    }

    async fn next_told(&mut self) -> Option<Arc<Told>> {
        if let Some(told) = self.waiting.pop_front() {
            return Some(told);
        }
        match self.live.recv().await {
            Ok(told) => Some(told),
            Err(RecvError::Lagged(_)) => {
                self.live = self.live.resubscribe();
                let number = self.hub.0.state.lock().next.saturating_sub(1);
                Some(Arc::new(reset(number, "more has happened than was read")))
            }
            Err(RecvError::Closed) => None,
        }
    }

    fn event(&self, told: &Told) -> SseEvent {
        SseEvent::default()
            .id(format!("{:08x}-{}", self.epoch, told.number))
            .event(told.name)
            .data(&told.data)
    }
}

#[utoipa::path(get, path = "/api/v1/events", tag = "events", security(("token" = ["depositor"])), params(("Last-Event-ID" = Option<String>, Header, description = "the id of the last event that was seen")), responses(
    (status = 200, description = "a stream of events, with this as their data", body = Event, content_type = "text/event-stream"),
    (status = "default", body = Problem, content_type = "application/problem+json"),
))]
/// Tells what happens, as it happens; depositors hear of their own batches
pub(crate) async fn stream(
    State(app): State<App>,
    Depositor(caller): Depositor,
    headers: HeaderMap,
) -> Answer<Sse<impl Stream<Item = Result<SseEvent, Infallible>>>> {
    let permit = app.streams.open(caller.role)?;
    let last = headers.get("last-event-id").and_then(|last| last.to_str().ok());
    let listener = app.hub.listen(Sight::of(&caller), last);
    let events = futures::stream::unfold((listener, permit), |(mut listener, permit)| async move {
        let event = listener.next().await?;
        Some((Ok(event), (listener, permit)))
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(BEAT)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn following(first: u64, next: u64) -> Following {
        let told = |number| {
            Arc::new(Told {
                number,
                name: if number % 2 == 0 { "counts" } else { "jobs" },
                data: String::new(),
                batches: None,
            })
        };
        Following { epoch: 7, next, kept: (first..next).map(told).collect(), ..Following::default() }
    }

    fn numbers(told: &VecDeque<Arc<Told>>) -> Vec<u64> {
        told.iter().map(|told| told.number).collect()
    }

    #[test]
    fn whoever_comes_back_gets_what_was_missed_or_a_reset() {
        let state = following(5, 9);
        assert_eq!(state.after("00000007-6").map(|told| numbers(&told)), Some(vec![7, 8]));
        assert_eq!(state.after("00000007-4").map(|told| numbers(&told)), Some(vec![5, 6, 7, 8]));
        assert_eq!(state.after("00000007-8").map(|told| numbers(&told)), Some(vec![]));
        for too_long_ago in ["00000007-3", "00000008-6", "00000007-9", "nonsense", ""] {
            assert!(state.after(too_long_ago).is_none(), "{too_long_ago}");
        }
        let beginning = state.beginning(false);
        assert_eq!(beginning.iter().map(|told| told.name).collect::<Vec<_>>(), ["reset", "counts"]);
        // Going on after the reset misses nothing.
        assert_eq!(numbers(&beginning), [8, 8]);
    }
}
