//! The ZooKeeper engine: sessions on a real ensemble, 3.6 or newer.
//!
//! - `address`: the connection string, and why a server does not answer
//! - `convert`: between the client's types and ours
//! - `watching`: watches that survive reconnects
//!
//! **When things break.** At start, a server that is down is tried again until
//! [`ZookeeperConfig::connect_limit`], and each try says why it failed. A session that lost its
//! connection is suspended until the client has found a server again; what was under way comes back
//! as [`Kind::ConnectionLoss`]. The client learns of an expiry late, after the server has given its
//! locks away: commits are safe only behind a version.

mod address;
mod convert;
mod watching;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::RwLock;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use zookeeper_client as zk;

use self::address::Address;
use self::watching::Roots;
use crate::engine::{Engine, EngineSession};
use crate::error::{Error, Kind, Result};
use crate::node::{Op, OpResult, Reply, Request, Stat};
use crate::path::is_within;
use crate::watch::{ExistsWatch, SessionState, SessionStatus, TreeWatch};

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(3);

/// Where the ensemble is and how to speak to it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ZookeeperConfig {
    /// `host:port,host:port/chroot`. The chroot is made if it is not there.
    pub connect: String,
    /// How long a node may be unreachable before its locks are given away. The server has bounds of
    /// its own; [`Session::timeout`](crate::Session::timeout) has what was agreed.
    #[serde(default = "default_session_timeout", with = "humantime_serde")]
    pub session_timeout: Duration,
    /// How long to try to reach a server when a session is opened.
    #[serde(default = "default_connect_limit", with = "humantime_serde")]
    pub connect_limit: Duration,
    /// Digest authentication.
    #[serde(default)]
    pub auth: Option<Auth>,
    /// Who may touch the nodes that this session creates.
    #[serde(default)]
    pub acl: Acl,
    /// Speak TLS; without it, plain TCP.
    #[serde(default)]
    pub tls: Option<Tls>,
}

fn default_session_timeout() -> Duration {
    Duration::from_secs(10)
}

fn default_connect_limit() -> Duration {
    Duration::from_mins(1)
}

impl ZookeeperConfig {
    pub fn new(connect: impl Into<String>) -> Self {
        Self {
            connect: connect.into(),
            session_timeout: default_session_timeout(),
            connect_limit: default_connect_limit(),
            auth: None,
            acl: Acl::default(),
            tls: None,
        }
    }
}

/// A user and password for the `digest` scheme. The password is never shown.
#[derive(Clone, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Auth {
    pub user: String,
    pub password: String,
}

impl std::fmt::Debug for Auth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Auth").field("user", &self.user).field("password", &"…").finish()
    }
}

/// The access list of new nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Acl {
    /// Everybody, for a trusted network and for other programs on the same tree.
    #[default]
    Open,
    /// Only whoever authenticates as the creator did; needs [`ZookeeperConfig::auth`].
    Creator,
}

/// PEM files for a TLS connection.
#[derive(Debug, Clone, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// The authority that signed the servers' certificates.
    pub ca: PathBuf,
    /// This client's certificate and key, if the servers ask for one.
    #[serde(default)]
    pub identity: Option<TlsIdentity>,
}

/// A client certificate.
#[derive(Debug, Clone, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsIdentity {
    pub cert: PathBuf,
    pub key: PathBuf,
}

/// An ensemble that sessions can be opened on.
#[derive(Debug)]
pub struct Zookeeper {
    config: ZookeeperConfig,
    address: Address,
    tls: Option<zk::TlsOptions>,
}

impl Zookeeper {
    /// Checks the configuration; nothing is connected yet.
    pub fn new(config: ZookeeperConfig) -> Result<Self> {
        let address = Address::parse(&config.connect)?;
        if config.acl == Acl::Creator && config.auth.is_none() {
            let why = "acl = \"creator\" needs auth: without a user there is no creator to permit";
            return Err(Error::new(Kind::InvalidAcl, why));
        }
        let tls = config.tls.as_ref().map(tls_options).transpose()?;
        Ok(Self { config, address, tls })
    }

    async fn connect(&self) -> Result<zk::Client> {
        let limit = self.config.connect_limit;
        let started = Instant::now();
        let mut pause = FIRST_PAUSE;
        for attempt in 1u32.. {
            let left = limit.saturating_sub(started.elapsed());
            match timeout(left, self.connect_once()).await {
                Ok(Ok(client)) => return Ok(client),
                Ok(Err(zk::Error::AuthFailed)) => {
                    return Err(Error::new(Kind::AuthFailed, self.address.cluster()));
                }
                Ok(Err(_)) | Err(_) => {}
            }
            let reason = self.address.diagnose().await;
            if started.elapsed() + pause >= limit {
                let waited = humantime::format_duration(limit);
                let why = format!("tried {attempt} times in {waited}: {reason}");
                return Err(Error::new(Kind::Unreachable, why));
            }
            tracing::warn!(attempt, reason, again_in = ?pause, "no ZooKeeper session yet");
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
        Err(Error::new(Kind::Unreachable, ""))
    }

    async fn connect_once(&self) -> Result<zk::Client, zk::Error> {
        // One round over the hosts; the rounds, and what is said between them, are ours.
        let mut connector =
            zk::Client::connector().with_session_timeout(self.config.session_timeout).with_fail_eagerly();
        if let Some(auth) = &self.config.auth {
            let identity = format!("{}:{}", auth.user, auth.password);
            connector = connector.with_auth("digest", identity.as_bytes());
        }
        let cluster = self.address.cluster();
        match &self.tls {
            Some(tls) => connector.with_tls(tls.clone()).secure_connect(&cluster).await,
            None => connector.connect(&cluster).await,
        }
    }

    /// A client that knows nothing above the chroot.
    async fn enter_chroot(&self, client: zk::Client) -> Result<zk::Client> {
        let Some(chroot) = &self.address.chroot else {
            return Ok(client);
        };
        let ends = chroot.match_indices('/').skip(1).map(|(at, _)| at).chain([chroot.len()]);
        for end in ends {
            let dir = &chroot[..end];
            let fault = |error: zk::Error| convert::error(&error, dir);
            if client.check_stat(dir).await.map_err(fault)?.is_some() {
                continue;
            }
            // What lies above the application's own node belongs to everybody.
            let acls = if end == chroot.len() { acls(self.config.acl) } else { zk::Acls::anyone_all() };
            match client.create(dir, &[], &zk::CreateMode::Persistent.with_acls(acls)).await {
                Ok(_) | Err(zk::Error::NodeExists) => {}
                Err(error) => return Err(fault(error)),
            }
        }
        client.chroot(chroot.as_str()).map_err(|_| Error::new(Kind::BadArguments, "chroot").with_path(chroot))
    }
}

impl Engine for Zookeeper {
    fn open_session(&self) -> BoxFuture<'_, Result<Arc<dyn EngineSession>>> {
        async move {
            let client = self.connect().await?;
            let client = self.enter_chroot(client).await?;
            tracing::debug!(
                session = format_args!("{:#x}", client.session_id().0),
                timeout = ?client.session_timeout(),
                "ZooKeeper session opened"
            );
            Ok(Arc::new(ZookeeperSession::new(client, self.config.acl)) as Arc<dyn EngineSession>)
        }
        .boxed()
    }

    fn name(&self) -> &'static str {
        "zookeeper"
    }
}

fn acls(acl: Acl) -> zk::Acls<'static> {
    match acl {
        Acl::Open => zk::Acls::anyone_all(),
        Acl::Creator => zk::Acls::creator_all(),
    }
}

fn tls_options(tls: &Tls) -> Result<zk::TlsOptions> {
    let unusable = |path: &Path, why: &dyn std::fmt::Display| {
        Error::new(Kind::BadArguments, format!("TLS file {}: {why}", path.display()))
    };
    // The client takes a file without any certificate for an empty list of them.
    let certificate = |path: &Path| {
        let pem = std::fs::read_to_string(path).map_err(|error| unusable(path, &error))?;
        if pem.contains("-----BEGIN CERTIFICATE-----") {
            Ok(pem)
        } else {
            Err(unusable(path, &"it holds no certificate in PEM form"))
        }
    };
    let ca = certificate(&tls.ca)?;
    let mut options = zk::TlsOptions::new().with_pem_ca(&ca).map_err(|error| unusable(&tls.ca, &error))?;
    if let Some(TlsIdentity { cert, key }) = &tls.identity {
        let cert = certificate(cert)?;
        let pem = std::fs::read_to_string(key).map_err(|error| unusable(key, &error))?;
        options = options.with_pem_identity(&cert, &pem).map_err(|error| unusable(key, &error))?;
    }
    Ok(options)
}

#[derive(Debug)]
struct ZookeeperSession {
    id: i64,
    timeout: Duration,
    acl: Acl,
    /// Taken away to close: the session ends when the last clone is dropped.
    client: RwLock<Option<Arc<zk::Client>>>,
    status: watch::Receiver<SessionStatus>,
    roots: Roots,
}

impl ZookeeperSession {
    fn new(client: zk::Client, acl: Acl) -> Self {
        let mut watcher = client.state_watcher();
        let state = convert::state(watcher.peek_state());
        let (sender, status) = watch::channel(SessionStatus { state, connections: 1 });
        tokio::spawn(async move {
            loop {
                let state = convert::state(watcher.changed().await);
                // The client keeps only its latest state, so a short break may show as one more
                // "connected": each counts as a new connection.
                sender.send_modify(|status| {
                    status.state = state;
                    status.connections += u64::from(state == SessionState::Connected);
                });
                if state.is_final() {
                    return;
                }
            }
        });
        Self {
            id: client.session_id().0,
            timeout: client.session_timeout(),
            acl,
            client: RwLock::new(Some(Arc::new(client))),
            status,
            roots: Roots::default(),
        }
    }

    fn client(&self) -> Result<Arc<zk::Client>> {
        self.client.read().clone().ok_or_else(|| Error::new(Kind::Closed, ""))
    }
}

impl EngineSession for ZookeeperSession {
    fn id(&self) -> i64 {
        self.id
    }

    fn timeout(&self) -> Duration {
        self.timeout
    }

    fn status(&self) -> watch::Receiver<SessionStatus> {
        self.status.clone()
    }

    fn send(&self, request: Request) -> BoxFuture<'static, Result<Reply>> {
        match self.client() {
            Ok(client) => send(client, self.acl, request).boxed(),
            Err(error) => async move { Err(error) }.boxed(),
        }
    }

    fn watch_exists(&self, path: String) -> BoxFuture<'static, Result<(Option<Stat>, ExistsWatch)>> {
        let (client, roots) = (self.client(), self.roots.clone());
        async move { watching::exists(client?, roots, path).await }.boxed()
    }

    fn watch_tree(&self, path: String, backlog: usize) -> BoxFuture<'static, Result<TreeWatch>> {
        let (client, roots) = (self.client(), self.roots.clone());
        async move { watching::tree(client?, roots, path, backlog).await }.boxed()
    }

    fn close(&self) -> BoxFuture<'static, Result<()>> {
        // The last clone gone, the client tells the server; leaving earlier would keep the session,
        // and its locks, until its timeout.
        drop(self.client.write().take());
        let (mut status, limit) = (self.status.clone(), self.timeout * 2);
        async move {
            let ended = timeout(limit, status.wait_for(|status| status.state.is_final())).await;
            match ended {
                Ok(_) => Ok(()),
                Err(_) => {
                    Err(Error::new(Kind::Deadline, "the server did not confirm the end of the session"))
                }
            }
        }
        .boxed()
    }
}

async fn send(client: Arc<zk::Client>, acl: Acl, request: Request) -> Result<Reply> {
    match request {
        Request::Get(path) => match client.get_data(&path).await {
            Ok((data, stat)) => Ok(Reply::Get { data: data.into(), stat: convert::stat(&stat) }),
            Err(error) => Err(convert::error(&error, &path)),
        },
        Request::GetMany(paths) => get_many(&client, &paths).await.map(Reply::GetMany),
        Request::Exists(path) => match client.check_stat(&path).await {
            Ok(stat) => Ok(Reply::Exists(stat.as_ref().map(convert::stat))),
            Err(error) => Err(convert::error(&error, &path)),
        },
        Request::Children(path) => match client.get_children(&path).await {
            Ok((names, stat)) => Ok(Reply::Children { names, stat: convert::stat(&stat) }),
            Err(error) => Err(convert::error(&error, &path)),
        },
        Request::Ephemerals(path) => match client.list_ephemerals(&path).await {
            // The server compares strings: `/a` would also find `/ab`.
            Ok(found) => Ok(Reply::Ephemerals(found.into_iter().filter(|at| is_within(at, &path)).collect())),
            Err(error) => Err(convert::error(&error, &path)),
        },
        Request::Sync => match client.sync("/").await {
            Ok(()) => Ok(Reply::Sync),
            Err(error) => Err(convert::error(&error, "/")),
        },
        Request::Create { path, data, mode } => {
            let options = convert::mode(mode).with_acls(acls(acl));
            match client.create(&path, &data, &options).await {
                Ok((stat, sequence)) => {
                    let path = if mode.is_sequential() { format!("{path}{sequence}") } else { path };
                    Ok(Reply::Create { path, stat: convert::stat(&stat) })
                }
                Err(error) => Err(convert::error(&error, &path)),
            }
        }
        Request::Set { path, data, version } => match client.set_data(&path, &data, version).await {
            Ok(stat) => Ok(Reply::Set(convert::stat(&stat))),
            Err(error) => Err(convert::error(&error, &path)),
        },
        Request::Delete { path, version } => match client.delete(&path, version).await {
            Ok(()) => Ok(Reply::Delete),
            Err(error) => Err(convert::error(&error, &path)),
        },
        Request::Multi(ops) => multi(&client, acl, &ops).await.map(Reply::Multi),
    }
}

async fn get_many(client: &zk::Client, paths: &[String]) -> Result<Vec<Option<(Bytes, Stat)>>> {
    let mut reader = client.new_multi_reader();
    for path in paths {
        reader.add_get_data(path).map_err(|error| convert::error(&error, path))?;
    }
    let first = paths.first().map_or("/", String::as_str);
    let results = reader.commit().await.map_err(|error| convert::error(&error, first))?;
    if results.len() != paths.len() {
        let why = format!("{} answers to {} reads", results.len(), paths.len());
        return Err(Error::new(Kind::Unexpected, why));
    }
    let result = |(path, result): (&String, zk::MultiReadResult)| match result {
        zk::MultiReadResult::Data { data, stat } => Ok(Some((data.into(), convert::stat(&stat)))),
        zk::MultiReadResult::Error { err: zk::Error::NoNode } => Ok(None),
        zk::MultiReadResult::Error { err } => Err(convert::error(&err, path)),
        other => Err(Error::new(Kind::Unexpected, format!("{other:?}")).with_path(path)),
    };
    paths.iter().zip(results).map(result).collect()
}

async fn multi(client: &zk::Client, acl: Acl, ops: &[Op]) -> Result<Vec<OpResult>> {
    let mut writer = client.new_multi_writer();
    for (index, op) in ops.iter().enumerate() {
        let added = match op {
            Op::Check { path, version } => writer.add_check_version(path, version.unwrap_or(-1)),
            Op::Create { path, data, mode } => {
                writer.add_create(path, data, &convert::mode(*mode).with_acls(acls(acl)))
            }
            Op::Set { path, data, version } => writer.add_set_data(path, data, *version),
            Op::Delete { path, version } => writer.add_delete(path, *version),
        };
        added.map_err(|error| convert::error(&error, op.path()).with_op(index))?;
    }
    match writer.commit().await {
        Ok(results) => results.into_iter().map(op_result).collect(),
        Err(zk::MultiWriteError::OperationFailed { index, source }) => {
            let path = ops.get(index).map_or("/", Op::path);
            Err(convert::error(&source, path).with_op(index))
        }
        Err(zk::MultiWriteError::RequestFailed { source }) => {
            Err(convert::error(&source, ops.first().map_or("/", Op::path)))
        }
    }
}

fn op_result(result: zk::MultiWriteResult) -> Result<OpResult> {
    match result {
        zk::MultiWriteResult::Check => Ok(OpResult::Checked),
        zk::MultiWriteResult::Delete => Ok(OpResult::Deleted),
        // Its stat is not valid on a 3.8 server, and so is not given to anyone.
        zk::MultiWriteResult::Create { path, .. } => Ok(OpResult::Created { path }),
        zk::MultiWriteResult::SetData { stat } => Ok(OpResult::Set { stat: convert::stat(&stat) }),
        other => Err(Error::new(Kind::Unexpected, format!("{other:?}"))),
    }
}
