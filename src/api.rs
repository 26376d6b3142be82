//! The HTTP API of a node. `docs/api.md` is the contract.
//!
//! | to find | look in |
//! |---|---|
//! | what goes over the wire | [`wire`] |
//! | all routes, and the document made of them | [`document`] |
//! | what every request passes and every answer carries | [`guard`], [`caller`], [`rate`], [`audit`] |
//! | what went wrong | [`problem`] |
//! | management requests, the table of actions | [`requests`] |
//! | profiles and settings of all nodes | [`shared`] |
//! | reading what was just written, on any node | [`ltime`] |
//! | submission | [`submit`] |
//! | what is seen and done | [`batches`], [`jobs`], [`bulk`], [`states`], [`holds`], [`feeds`], [`nodes`], [`restarts`], [`pools`], [`access`] |
//! | what nodes ask each other | [`peers`] |
//! | long work, told in lines | [`fsck`], [`objects`], by [`lines`] |
//! | a batch's whole record | [`export`] |
//! | live events | [`events`], as many as [`streams`] says |
//! | files by signed URLs | [`files`] |
//! | health, metrics | [`health`], [`metrics`] |
//! | connections | [`serve`] |
//! | what can be set | [`settings`] |
//!
//! **When things break.** While the tree is away requests wait a little, and are answered 503. When the node ends the API
//! answers to the last, and then lets what is under way come to its end.

mod access;
mod app;
mod audit;
mod batches;
mod bulk;
mod caller;
mod document;
mod events;
mod export;
mod feeds;
mod files;
mod fsck;
mod guard;
mod health;
mod holds;
mod jobs;
mod key;
mod limits;
mod lines;
mod ltime;
mod metrics;
mod nodes;
mod objects;
mod pages;
mod peers;
mod pools;
mod problem;
mod rate;
mod read;
pub(crate) mod requests;
mod restarts;
mod serve;
mod settings;
mod shared;
mod shown;
mod states;
mod streams;
mod submit;
pub(crate) mod wire;

#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use self::submit::judge_body;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::Router;
use ingest_actors::node::Node;
use ingest_steps::urls::Urls;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use url::Url;

use app::App;
pub(crate) use settings::ApiSettings;

/// The file of the node's directory that says where the API is.
const ADDRESS: &str = "api-address";

/// A place to listen, before there is a node.
#[derive(Debug)]
pub(crate) struct Bound {
    listener: TcpListener,
    address: SocketAddr,
    settings: ApiSettings,
    tls: Option<Tls>,
    urls: Urls,
    dir: PathBuf,
}

/// Without what it holds, which nobody may see.
struct Tls(TlsAcceptor);

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tls")
    }
}

/// Begins to listen, and finds out under which URL. `dir` is the node's own directory.
pub(crate) async fn bind(settings: ApiSettings, dir: &Path) -> Result<Bound, String> {
    let tls = settings.tls.as_ref().map(serve::tls).transpose()?.map(Tls);
    let listener = TcpListener::bind(settings.listen)
        .await
        .map_err(|error| format!("api.listen: {}: {error}", settings.listen))?;
    let address = listener.local_addr().map_err(|error| format!("api.listen: {error}"))?;
    let scheme = if tls.is_some() { "https" } else { "http" };
    let public = match &settings.public_url {
        Some(url) => url.clone(),
        None => {
            Url::parse(&format!("{scheme}://{address}/")).map_err(|error| format!("{address}: {error}"))?
        }
    };
    let (of_dir, given) = (dir.to_owned(), settings.url_key.clone());
    let key = tokio::task::spawn_blocking(move || key::of(&of_dir, given.as_ref())).await;
    let key = key.map_err(|error| error.to_string())??;
    let urls = Urls::new(public, key, settings.urls_last);
    Ok(Bound { listener, address, settings, tls, urls, dir: dir.to_owned() })
}

impl Bound {
    /// How the URLs of this node's files are made.
    pub(crate) fn urls(&self) -> &Urls {
        &self.urls
    }

    /// Serves a node until `shutdown` is done. `pages` is what else is at the same address: the dashboard.
    pub(crate) async fn serve(self, node: Arc<Node>, pages: Router, shutdown: impl Future<Output = ()>) {
        let note = self.dir.join(ADDRESS);
        if let Err(error) = tokio::fs::write(&note, format!("{}\n", self.urls.public())).await {
            tracing::warn!(file = %note.display(), %error, "it is not written down where the API is");
        }
        let app = App::new(node, self.settings.clone(), self.urls, self.address);
        let router = document::router(&app, pages);
        let upkeep = tokio::spawn(upkeep(app.clone()));
        audit_requests(&app);
        let (hub, changing) = (app.hub.clone(), app.changing.clone());
        let ending = async move {
            shutdown.await;
            // Streams would keep it from ending.
            hub.close();
        };
        serve::serve(self.listener, router, &self.settings, self.tls.map(|tls| tls.0), ending).await;
        // What goes on without whoever asked for it.
        if tokio::time::timeout(serve::GRACE, changing.write()).await.is_err() {
            tracing::warn!("actions were cut, because the node ends");
        }
        upkeep.abort();
        let _ = tokio::fs::remove_file(&note).await;
    }
}

/// Has it written down what this node does for requests of the tree: whoever may write there is an admin.
fn audit_requests(app: &App) {
    let audit = app.audit.clone();
    app.node.house().auditor().set(move |done| {
        let status =
            done.kind.map_or(200, |kind| problem::Kind::named(kind).map_or(500, |kind| kind.1.as_u16()));
        audit.write(&wire::AuditEntry {
            at: ingest_queue::date::Clock::system().now(),
            who: done.who.clone(),
            role: wire::Role::Admin,
            from: done.from.clone(),
            what: format!("REQUEST {} {}", done.action, done.id),
            details: done.details.clone(),
            status,
        });
    });
}

/// Looks through the uploads from time to time.
async fn upkeep(app: App) {
    loop {
        let every = app.node.house().settings.load().upkeep.every;
        tokio::time::sleep(every).await;
        let Some(life) = app.node.life().await else { return };
        // A tree that was restored does not know all batches that there were.
        if app.node.house().barred().is_some() {
            continue;
        }
        match submit::look_through(&app.settings.uploads, &life.queue).await {
            Ok(0) => {}
            Ok(removed) => tracing::info!(removed, "uploads without a batch were removed"),
            Err(error) => tracing::debug!(%error, "uploads are looked through later"),
        }
    }
}
