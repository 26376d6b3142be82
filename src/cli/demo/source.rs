//! A small server with the sample deposits, as depositors have one.

use std::collections::HashMap;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::get;
use bytes::Bytes;
use parking_lot::RwLock;
use tokio::net::TcpListener;

type Files = Arc<RwLock<HashMap<String, Bytes>>>;

/// The server; it ends with this.
#[derive(Debug)]
pub(super) struct Source {
    files: Files,
    base: String,
    serving: tokio::task::JoinHandle<()>,
}

impl Source {
    pub(super) async fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("no port for the sample deposits")?;
        let base = format!("http://{}", listener.local_addr()?);
        let files = Files::default();
        let router = Router::new().route("/{name}", get(file)).with_state(files.clone());
        let serving = tokio::spawn(async move {
            // It ends only with its task.
            let _ = axum::serve(listener, router).await;
        });
        Ok(Self { files, base, serving })
    }

    /// Puts a file there, instead of the one that is there.
    pub(super) fn put(&self, name: &str, bytes: Bytes) {
        self.files.write().insert(name.to_owned(), bytes);
    }

    pub(super) fn url(&self, name: &str) -> String {
        format!("{}/{name}", self.base)
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn file(State(files): State<Files>, Path(name): Path<String>) -> Result<Bytes, StatusCode> {
    files.read().get(&name).cloned().ok_or(StatusCode::NOT_FOUND)
}
