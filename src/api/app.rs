//! What every handler stands on: the node, the settings, and what is counted for all requests together.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use ingest_actors::actions::{By, Order};
use ingest_actors::house::{Life, Mode};
use ingest_actors::node::Node;
use ingest_queue::queue::Queue;
use ingest_steps::urls::Urls;
use ingest_store::SessionState;
use serde::de::DeserializeOwned;
use tokio::sync::RwLock;

use super::audit::AuditLog;
use super::caller::Caller;
use super::events::Hub;
use super::metrics::ApiMeters;
use super::problem::{Answer, Kind, Refusal};
use super::rate::Rates;
use super::settings::ApiSettings;
use super::streams::Streams;
use super::submit::Promised;
use super::wire::Role;

/// How long a request waits for a session of the tree.
const PATIENCE: Duration = Duration::from_secs(5);

/// Shared by all requests. Clones are the same.
#[derive(Debug, Clone)]
pub(crate) struct App(Arc<Parts>);

#[derive(Debug)]
pub(crate) struct Parts {
    pub node: Arc<Node>,
    pub settings: ApiSettings,
    pub urls: Urls,
    /// Where it listens.
    pub address: SocketAddr,
    pub rates: Rates,
    /// Wrong tokens, by address.
    pub guesses: Rates,
    pub audit: Arc<AuditLog>,
    pub hub: Hub,
    pub streams: Streams,
    pub meters: ApiMeters,
    /// To uploads that are under way.
    pub promised: Promised,
    /// Read by whatever changes something, until it is done and written down: whoever can write has waited for all.
    pub changing: Arc<RwLock<()>>,
}

impl std::ops::Deref for App {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}

impl App {
    pub(crate) fn new(node: Arc<Node>, settings: ApiSettings, urls: Urls, address: SocketAddr) -> Self {
        let audit = Arc::new(AuditLog::new(&node.house().settings.load().node.dir, settings.audit_log));
        Self(Arc::new(Parts {
            rates: Rates::new(f64::from(settings.rate), f64::from(settings.rate) * 2.0),
            guesses: Rates::new(0.2, 10.0),
            hub: Hub::new(node.clone()),
            streams: Streams::new(settings.max_streams),
            meters: ApiMeters::default(),
            promised: Promised::default(),
            changing: Arc::default(),
            audit,
            node,
            settings,
            urls,
            address,
        }))
    }

    /// What stands on the session that there is now. Waits a little for one, and for its connection.
    pub(crate) async fn life(&self) -> Answer<Arc<Life>> {
        let mut links = self.node.house().links();
        let connected = links.wait_for(|link| *link == SessionState::Connected);
        // The sender lives as long as the node.
        if tokio::time::timeout(PATIENCE, connected).await.is_err() {
            let why = "the connection to the tree is lost; the node tries to get it back";
            return Err(Refusal::new(Kind::TREE_AWAY, why));
        }
        match tokio::time::timeout(PATIENCE, self.node.life()).await {
            Ok(Some(life)) => Ok(life),
            Ok(None) => Err(Refusal::new(Kind::ENDING, "the node has ended")),
            Err(_) => Err(Refusal::new(
                Kind::TREE_AWAY,
                "there is no session of the tree; the node tries to get one",
            )),
        }
    }

    /// Does what was ordered, in somebody's name, and answers with what the table of actions says it brings.
    pub(crate) async fn act<T: DeserializeOwned>(&self, caller: &Caller, order: Order) -> Answer<T> {
        caller.ordered.add(&order);
        if order.is_for_admins() {
            caller.must_be(Role::Admin)?;
        }
        self.life().await?;
        let by = By { who: caller.name.clone(), ..By::default() };
        let away =
            || Refusal::new(Kind::TREE_AWAY, "there is no session of the tree; the node tries to get one");
        let done = self.node.perform(&order, &by).await.ok_or_else(away)??;
        serde_json::from_value(done).map_err(Refusal::defect)
    }

    /// Returns when the node is about to end: told to drain, or not served any more.
    pub(crate) async fn ends(&self) {
        let mut modes = self.node.house().modes();
        tokio::select! {
            // Its sender lives as long as the node.
            _ = modes.wait_for(|mode| *mode == Mode::Draining) => {}
            () = self.hub.closed() => {}
        }
    }

    pub(crate) async fn queue(&self) -> Answer<Queue> {
        Ok(self.life().await?.queue.clone())
    }
}
