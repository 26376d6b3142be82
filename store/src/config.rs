//! Which tree to use, as the configuration file says it.

use std::sync::Arc;

use crate::engine::Engine;
use crate::engines::embedded::{Embedded, EmbeddedConfig};
use crate::engines::zookeeper::{Zookeeper, ZookeeperConfig};
use crate::error::Result;
use crate::session::{Limits, Session};

/// The engine, and the bounds that hold for each of its sessions.
#[derive(Debug, Clone, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoreConfig {
    pub engine: EngineConfig,
    #[serde(default)]
    pub limits: Limits,
}

/// One of the two engines.
#[derive(Debug, Clone, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EngineConfig {
    Embedded(EmbeddedConfig),
    Zookeeper(ZookeeperConfig),
}

/// An opened tree: sessions come from here.
#[derive(Debug, Clone)]
pub struct Store {
    engine: Arc<dyn Engine>,
    limits: Limits,
}

impl Store {
    /// Opens the embedded tree, or checks how to reach the ensemble.
    pub fn open(config: &StoreConfig) -> Result<Self> {
        let engine: Arc<dyn Engine> = match &config.engine {
            EngineConfig::Embedded(config) => Arc::new(Embedded::open(config)?),
            EngineConfig::Zookeeper(config) => Arc::new(Zookeeper::new(config.clone())?),
        };
        Ok(Self::new(engine, config.limits))
    }

    /// Sessions on an engine of the caller's own.
    pub fn new(engine: Arc<dyn Engine>, limits: Limits) -> Self {
        Self { engine, limits }
    }

    /// A new session. Each has its own ephemeral nodes and watches.
    pub async fn session(&self) -> Result<Session> {
        Session::open(self.engine.clone(), self.limits).await
    }
}
