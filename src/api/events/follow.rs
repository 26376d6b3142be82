//! The follower: watches the tree and this node, and tells what happened, a moment later and together.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ingest_actors::house::Life;
use ingest_queue::alerts::AlertNode;
use ingest_queue::queue::Queue;
use ingest_queue::states::JobState;
use ingest_queue::{list, map};
use ingest_store::{Event as TreeEvent, TreeWatch};
use tokio::sync::broadcast::error::RecvError;
use tokio::time::Instant;

use super::Hub;
use super::gathered::Gathered;
use crate::api::nodes::session_name;
use crate::api::restarts::restart_line;
use crate::api::wire::{Alert, CountsNow, Event, NodeChanged, Reset};

/// How long changes are gathered before they are told.
const MOMENT: Duration = Duration::from_millis(250);

/// The watches, each with what its events are about.
struct Watches {
    jobs: TreeWatch,
    batches: TreeWatch,
    queue_holds: TreeWatch,
    collection_holds: TreeWatch,
    nodes: TreeWatch,
    access: TreeWatch,
    alerts: TreeWatch,
    requests: TreeWatch,
}

impl Watches {
    async fn open(life: &Life) -> ingest_store::Result<Self> {
        let session = life.queue.session();
        Ok(Self {
            jobs: session.watch_tree(map::JOB_STATES).await?,
            batches: session.watch_tree(map::BATCHES).await?,
            queue_holds: session.watch_tree(map::QUEUE_HOLDS).await?,
            collection_holds: session.watch_tree(map::COLLECTION_HOLDS).await?,
            nodes: session.watch_tree(map::NODES).await?,
            access: session.watch_tree(map::ACCESS).await?,
            alerts: session.watch_tree(map::ALERTS).await?,
            requests: session.watch_tree(map::RequestNode::Request.dir()).await?,
        })
    }

    async fn next(&mut self) -> (About, TreeEvent) {
        tokio::select! {
            event = self.jobs.next() => (About::Jobs, event),
            event = self.batches.next() => (About::Batches, event),
            event = self.queue_holds.next() => (About::Holds, event),
            event = self.collection_holds.next() => (About::Holds, event),
            event = self.nodes.next() => (About::Nodes, event),
            event = self.access.next() => (About::Access, event),
            event = self.alerts.next() => (About::Alerts, event),
            event = self.requests.next() => (About::Requests, event),
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum About {
    Jobs,
    Batches,
    Holds,
    Nodes,
    Access,
    Alerts,
    Requests,
}

/// Follows one session after the other, until it is stopped.
pub(super) async fn run(hub: Hub) {
    let house = hub.0.node.house().clone();
    let mut lives = house.lives();
    loop {
        let Ok(life) = lives.wait_for(Option::is_some).await.map(|life| life.clone()) else { return };
        let Some(life) = life else { continue };
        if let Err(error) = session(&hub, &life).await {
            tracing::debug!(%error, "live events wait for the tree");
        }
        // The next life, or the end.
        let same = |now: &Option<Arc<Life>>| now.as_ref().is_some_and(|now| Arc::ptr_eq(now, &life));
        if lives.wait_for(|now| !same(now)).await.is_err() {
            return;
        }
    }
}

/// Follows one session to its end.
async fn session(hub: &Hub, life: &Life) -> ingest_store::Result<()> {
    let house = hub.0.node.house().clone();
    let (mut modes, mut links, mut restarts) = (house.modes(), house.links(), house.restarts());
    let mut watches = Watches::open(life).await?;
    // Whoever looked before that may have missed something since.
    let why = "the tree is watched from now on".to_owned();
    hub.tell("reset", &Event::Reset(Reset { why }));
    let mut gathered = Gathered::of_the_beginning();
    let mut told_counts = None;
    let mut due = Instant::now();
    loop {
        let was_empty = gathered.is_empty();
        tokio::select! {
            (about, event) = watches.next() => {
                match &event {
                    TreeEvent::Ended(_) => return Ok(()),
                    TreeEvent::Relist(_) => {
                        let why = "events of the tree may be missing".to_owned();
                        hub.tell("reset", &Event::Reset(Reset { why }));
                        told_counts = None;
                        gathered.counts = true;
                    }
                    TreeEvent::Created(at) if Queue::is_alert(at) => tell_alert(hub, life, at).await,
                    event => gather(&mut gathered, about, event),
                }
            }
            Ok(()) = modes.changed() => gathered.node = true,
            Ok(()) = links.changed() => gathered.node = true,
            restart = restarts.recv() => match restart {
                Ok(restart) => hub.tell("restart", &Event::Restart(restart_line(restart))),
                Err(RecvError::Lagged(_)) => gathered.node = true,
                Err(RecvError::Closed) => return Ok(()),
            },
            () = tokio::time::sleep_until(due), if !was_empty => {
                tell(hub, life, &mut gathered, &mut told_counts).await;
                continue;
            }
        }
        if was_empty && !gathered.is_empty() {
            due = Instant::now() + MOMENT;
        }
    }
}

fn gather(gathered: &mut Gathered, about: About, event: &TreeEvent) {
    match about {
        About::Jobs => gathered.job(event),
        About::Batches => gathered.batch(event),
        About::Holds => gathered.holds = true,
        About::Nodes => gathered.nodes = true,
        About::Access => gathered.access = true,
        About::Requests => gathered.requests = true,
        // They are told when they come; that they go is nobody's business.
        About::Alerts => {}
    }
}

/// Whichever node has seen it: all of them follow the same list.
async fn tell_alert(hub: &Hub, life: &Life, at: &str) {
    match life.queue.alert_at(at).await {
        Ok(Some(AlertNode { at, why: what, job: jid, feed, .. })) => {
            hub.tell("alert", &Event::Alert(Alert { jid, feed, at, what }));
        }
        Ok(None) => {}
        // It is in the log of the node that has seen it, and the administrators get a mail.
        Err(error) => tracing::warn!(at, %error, "an alert could not be read, and is not passed on"),
    }
}

/// Tells what was gathered, and begins anew.
async fn tell(
    hub: &Hub,
    life: &Life,
    gathered: &mut Gathered,
    told_counts: &mut Option<BTreeMap<JobState, usize>>,
) {
    let mut now = std::mem::take(gathered);
    if let Some(moved) = now.jobs() {
        hub.tell("jobs", &Event::Jobs(moved));
    }
    if let Some(changed) = now.batches() {
        hub.tell("batches", &Event::Batches(changed));
    }
    let others =
        [("holds", now.holds), ("nodes", now.nodes), ("access", now.access), ("requests", now.requests)];
    for (name, changed) in others {
        if changed {
            hub.tell(name, &Event::Nothing {});
        }
    }
    if now.node {
        let node = &hub.0.node;
        hub.tell(
            "node",
            &Event::Node(NodeChanged {
                mode: node.house().mode().name().to_owned(),
                session: session_name(node.house().link()).to_owned(),
                ready: node.is_ready(),
            }),
        );
    }
    if now.counts {
        // Read and not counted along: what is told is true, however many events there were.
        match list::counts(life.queue.session()).await {
            Ok(jobs) if told_counts.as_ref() == Some(&jobs) => {}
            Ok(jobs) => {
                hub.tell("counts", &Event::Counts(CountsNow { jobs: jobs.clone() }));
                *told_counts = Some(jobs);
            }
            // With the connection come the events, and then it is read again.
            Err(error) => tracing::debug!(%error, "the queues could not be counted"),
        }
    }
}
