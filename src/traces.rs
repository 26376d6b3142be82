//! Traces: what was done to each job, when and for how long, sent to a collector as OTLP over HTTP, in JSON.
//!
//! | to find | look in |
//! |---|---|
//! | how spans of the program become spans of a trace | [`layer`] |
//! | how they look on the wire | [`span`] |
//! | how they are sent | [`export`] |
//! | what can be set | [`settings`] |
//!
//! A job is a trace; each of its steps is a span of it, whichever node has done it: the id of a trace follows from that of
//! the job and from the tree that it is in. A batch and an access item are traces, too. Without `traces.endpoint`
//! nothing is gathered, and nothing is sent.
//!
//! **When things break.** A collector that is away or slow stops nobody: spans wait in a bounded queue, and are dropped
//! when it is full or when they could not be sent. That is said once, and again when it works, with how many were lost.

mod export;
mod layer;
mod settings;
mod span;

use ingest_store::{EngineConfig, StoreConfig};
use tokio::sync::mpsc;

pub(crate) use self::export::Exporter;
pub(crate) use self::layer::TraceLayer;
pub(crate) use self::settings::TraceSettings;

/// Spans that may wait to be sent.
const WAITING: usize = 8192;

/// Begins to gather and to send, if there is somewhere to send to. `node` is the node's name, as far as it is configured.
pub(crate) fn begin(
    settings: &TraceSettings,
    store: &StoreConfig,
    node: &str,
) -> Result<(Option<TraceLayer>, Option<Exporter>), String> {
    let Some(endpoint) = &settings.endpoint else { return Ok((None, None)) };
    let (sender, waiting) = mpsc::channel(WAITING);
    let exporter = Exporter::start(endpoint, node, waiting)?;
    let layer = TraceLayer::new(tree(store), settings.sample, sender, exporter.lost());
    Ok((Some(layer), Some(exporter)))
}

/// What tells the jobs of one tree from those of another.
fn tree(store: &StoreConfig) -> String {
    match &store.engine {
        EngineConfig::Zookeeper(zookeeper) => zookeeper.connect.clone(),
        EngineConfig::Embedded(embedded) => {
            let whole = std::path::absolute(&embedded.dir).unwrap_or_else(|_| embedded.dir.clone());
            whole.display().to_string()
        }
    }
}
