//! Serving: a plain function of a listener, a router and a future that ends it.
//!
//! Connections are bounded in number, headers in size and time. When it is told to end, no connection is taken any more, requests that
//! are under way have a while to end, and what is left is cut.
//!
//! Whoever sends what is no request, or one with headers that are too long, is answered all the same ([`linger`]).
//!
//! **When things break.** A handshake or a connection that fails concerns nobody else. If the system has no more
//! descriptors, accepting waits a little.

mod linger;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use hyper::body::Incoming;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tower::Service as _;

use super::caller::Peer;
use super::settings::{ApiSettings, Tls};

/// Bytes of a request's line and headers.
const MOST_HEADERS: usize = 64 << 10;
/// How long requests that are under way may take when the node ends.
pub(super) const GRACE: Duration = Duration::from_secs(10);

/// What is needed to speak TLS, or why that cannot be.
pub(crate) fn tls(tls: &Tls) -> Result<TlsAcceptor, String> {
    let said = |file: &std::path::Path, error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
    let certificates = CertificateDer::pem_file_iter(&tls.cert)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| said(&tls.cert, &error))?;
    if certificates.is_empty() {
        return Err(said(&tls.cert, &"there is no certificate in it"));
    }
    let key = PrivateKeyDer::from_pem_file(&tls.key).map_err(|error| said(&tls.key, &error))?;
    let provider = Arc::new(tokio_rustls::rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|config| config.with_no_client_auth().with_single_cert(certificates, key))
        .map_err(|error| said(&tls.cert, &error))?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Serves until `shutdown` is done, and then until what is under way has ended.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    settings: &ApiSettings,
    tls: Option<TlsAcceptor>,
    shutdown: impl Future<Output = ()>,
) {
    let graceful = GracefulShutdown::new();
    let connections = Arc::new(Semaphore::new(settings.max_connections));
    let stall = settings.stall;
    tokio::pin!(shutdown);
    loop {
        let next = async {
            // It is never closed.
            let permit = connections.clone().acquire_owned().await.ok();
            (listener.accept().await, permit)
        };
        let (accepted, permit) = tokio::select! {
            next = next => next,
            () = &mut shutdown => break,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "a connection could not be taken");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let (router, tls, watcher) = (router.clone(), tls.clone(), graceful.watcher());
        tokio::spawn(async move {
            connection(stream, peer, router, tls, watcher, stall).await;
            drop(permit);
        });
    }
    drop(listener);
    if tokio::time::timeout(GRACE, graceful.shutdown()).await.is_err() {
        tracing::warn!("requests were cut, because the node ends");
    }
}

async fn connection(
    stream: TcpStream,
    peer: SocketAddr,
    router: Router,
    tls: Option<TlsAcceptor>,
    watcher: Watcher,
    stall: Duration,
) {
    // Answers are small and at once.
    let _ = stream.set_nodelay(true);
    match tls {
        None => speak(stream, peer, router, watcher, stall).await,
        Some(tls) => match tokio::time::timeout(stall, tls.accept(stream)).await {
            Ok(Ok(stream)) => speak(stream, peer, router, watcher, stall).await,
            Ok(Err(error)) => tracing::debug!(%peer, %error, "no TLS"),
            Err(_) => tracing::debug!(%peer, "no TLS in time"),
        },
    }
}

async fn speak<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: S,
    peer: SocketAddr,
    router: Router,
    watcher: Watcher,
    stall: Duration,
) {
    let service = hyper::service::service_fn(move |request: hyper::Request<Incoming>| {
        let mut request: Request = request.map(axum::body::Body::new);
        request.extensions_mut().insert(Peer(peer));
        // A router is always ready.
        router.clone().call(request)
    });
    let (lent, returned) = linger::lend(stream);
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(stall)
        .max_buf_size(MOST_HEADERS)
        .serve_connection(TokioIo::new(lent), service);
    if let Err(error) = watcher.watch(connection).await {
        tracing::debug!(%peer, %error, "a connection has ended");
        if error.is_parse()
            && let Ok(stream) = returned.await
        {
            linger::linger(stream).await;
        }
    }
}
