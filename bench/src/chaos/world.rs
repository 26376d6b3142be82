//! The world that is broken: an ensemble of three, three nodes with a link of their own to each of its members, servers
//! that deposits come from, and a mail server. Storage and inventory are shared; the working disk is shared or each
//! node's own, as the seed says.
//!
//! No sweep is due while faults are made (`upkeep.every`): a sweep could put right what is to be found. But a node looks once when it
//! starts, so after each kill and each replacement: what it finds then is counted ([`super::tail::Cleaned`]), and a lock among it is a
//! breach.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use bytes::Bytes;
use ingest_harness::node::Setup;
use ingest_harness::{Ensemble, MailServer, ServerConfig, let_pass};
use ingest_queue::date::Clock;
use ingest_queue::dialect::Dialect;
use ingest_queue::ids::Jid;
use ingest_queue::map::{self, JobNode};
use ingest_queue::queue::{Queue, Settings};
use ingest_queue::states::{JobState, States as _};
use ingest_store::engines::zookeeper::{Zookeeper, ZookeeperConfig};
use ingest_store::error::Next;
use ingest_store::{Kind, Limits, Session, Store};
use serde_json::Value;
use tempfile::TempDir;
use toml::Table;

use super::deposit::COLLECTIONS;
use super::load::Ledger;
use super::member::Member;
use super::schedule::NODES;
use super::source::Sources;
use super::witness::Witnesses;
use crate::scratch;

/// Whose local ids they are.
pub(crate) const OWNER: &str = "ark:/99999/fk4chaos";
/// How long a node may be silent before its locks are given away.
const SESSION: &str = "4s";
const CHROOT: &str = "/chaos";
/// What working files may take together.
pub(crate) const QUOTA: u64 = 256 << 20;
/// Reads that are sent together.
const AT_ONCE: usize = 500;
/// Between two looks at something that tells of no event.
pub(crate) const LOOK: Duration = Duration::from_millis(50);

/// What all nodes have in common, but for paths.
const COMMON: &str = r#"
[log]
format = "json"
filter = "info,ingest_actors=debug"
[log.throttle]
times = 0
[api]
listen = "127.0.0.1:0"
rate = 100000
[queue]
rank_delay = "20ms"
doubt = "300ms"
[pools.pending]
size = 3
[pools.estimating]
size = 3
[pools.downloading]
size = 4
[pools.processing]
size = 3
[pools.recording]
size = 3
[pools.notify]
size = 3
[limits.collections]
default = 5
[upkeep]
every = "12h"
[upkeep.jobs]
every = "12h"
[upkeep.batches]
every = "12h"
[upkeep.requests]
every = "12h"
[upkeep.semaphores]
every = "12h"
[upkeep.keys]
every = "12h"
[upkeep.shards]
every = "12h"
[fetch]
allowed = ["127.0.0.0/8"]
backoff = "50ms"
max_backoff = "500ms"
stall = "2s"
slowest = 0
per_host = 64
[provisioning]
max_used = 1.0
cycle = "1s"
[storage.default]
kind = "ocfl"
[inventory]
kind = "sqlite"
[mail.by.smtp]
host = "127.0.0.1"
security = "none"
timeout = "5s"
[access]
[profiles]
[work]
node_grace = "3s"
[node]
"#;

/// All of it.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) book: Witnesses,
    pub(crate) seed: u64,
    pub(crate) members: Vec<Member>,
    pub(crate) ensemble: Ensemble,
    /// To look with: directly on the ensemble, and patient.
    pub(crate) queue: Queue,
    pub(crate) sources: Sources,
    pub(crate) ledger: Ledger,
    pub(crate) mail: MailServer,
    /// Each node has a working disk of its own.
    pub(crate) own_disks: bool,
    /// Removed last.
    dir: TempDir,
}

impl World {
    /// Starts everything, and waits until all nodes are ready.
    pub(crate) async fn start(program: &Path, seed: u64) -> Result<Self> {
        let dir = scratch::directory()?;
        let config = ServerConfig::default().tick(Duration::from_millis(400)).heap("256m");
        let ensemble = Ensemble::start_with(NODES, config).await;
        let mail = MailServer::start().await;
        let own_disks = seed % 2 == 1;
        write_profiles(dir.path())?;
        let mut members = Vec::new();
        for number in 1..=NODES {
            let name = format!("node-{number}");
            let mut config = configuration(dir.path(), &name, own_disks, mail.port())?;
            let links = Member::links(&ensemble);
            let hosts: Vec<_> = links.iter().map(ingest_harness::Proxy::connect_string).collect();
            let set = ingest_harness::node::set;
            set(&mut config, "store.engine.zookeeper.connect", format!("{}{CHROOT}", hosts.join(",")));
            set(&mut config, "store.engine.zookeeper.session_timeout", SESSION.to_owned());
            members.push(Member::start(Setup::new(program, dir.path(), &name, config), links));
        }
        let connect = format!("{}{CHROOT}", ensemble.connect_string());
        let config = ZookeeperConfig {
            session_timeout: Duration::from_mins(1),
            connect_limit: Duration::from_mins(3),
            ..ZookeeperConfig::new(connect.as_str())
        };
        let engine = std::sync::Arc::new(Zookeeper::new(config)?);
        let session = Store::new(engine, Limits::default()).session().await?;
        let queue = Queue::open(&session, Settings::new("chaos"), Clock::system()).await?;
        let sources = Sources::start().await;
        let world = Self {
            book: Witnesses::new(),
            seed,
            members,
            ensemble,
            queue,
            sources,
            ledger: Ledger::default(),
            mail,
            own_disks,
            dir,
        };
        for member in &world.members {
            member.ready(0).await.with_context(|| format!("{} is not ready", member.name))?;
        }
        Ok(world)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn session(&self) -> &Session {
        self.queue.session()
    }

    /// The disks that jobs have their files on.
    pub(crate) fn disks(&self) -> Vec<PathBuf> {
        if self.own_disks { self.members.iter().map(Member::disk).collect() } else { vec![self.path("work")] }
    }

    /// Does something with the tree until it is answered: servers go and come.
    pub(crate) async fn patiently<T, F>(&self, what: &str, mut call: impl FnMut() -> F) -> Result<T>
    where
        F: Future<Output = ingest_store::Result<T>>,
    {
        let until = Instant::now() + Duration::from_mins(2);
        loop {
            match call().await {
                Ok(answer) => return Ok(answer),
                Err(error) if passes(&error) && Instant::now() < until => let_pass(LOOK).await,
                Err(error) => return Err(error).with_context(|| what.to_owned()),
            }
        }
    }

    /// The data of many nodes, of each that is there.
    pub(crate) async fn get_all(&self, paths: Vec<String>) -> Result<Vec<Option<Bytes>>> {
        let mut found = Vec::with_capacity(paths.len());
        for some in paths.chunks(AT_ONCE) {
            let got = self.patiently("many nodes", || self.session().get_many(some.to_vec())).await?;
            found.extend(got.into_iter().map(|node| node.map(|(data, _)| data)));
        }
        Ok(found)
    }

    /// For whoever wants to know what happened.
    pub(crate) fn keep_logs(&self) {
        let kept = std::env::temp_dir().join(format!("chaos-{}-{}", self.seed, std::process::id()));
        let copied = std::fs::create_dir_all(&kept).and_then(|()| {
            for member in &self.members {
                let name = format!("{}.log", member.name);
                std::fs::copy(self.path(&name), kept.join(&name))?;
            }
            Ok(())
        });
        match copied {
            Ok(()) => eprintln!("chaos: the logs of the nodes are in {}", kept.display()),
            Err(error) => eprintln!("chaos: the logs of the nodes could not be kept: {error}"),
        }
    }

    /// The entries of a node in the registry: path and session.
    pub(crate) async fn entries(&self, name: &str) -> Result<Vec<(String, i64)>> {
        let found = self
            .patiently("the registry", || async {
                let (names, _) = match self.session().children(map::NODES).await {
                    Err(error) if error.kind() == Kind::NoNode => return Ok(Vec::new()),
                    found => found?,
                };
                let paths: Vec<_> = names.iter().map(|name| format!("{}/{name}", map::NODES)).collect();
                let data = self.session().get_many(paths.clone()).await?;
                Ok(paths.into_iter().zip(data).collect::<Vec<_>>())
            })
            .await?;
        let of = |data: &[u8]| {
            serde_json::from_slice::<Value>(data).is_ok_and(|info| info["node"].as_str() == Some(name))
        };
        let mine = found.into_iter().filter_map(|(path, node)| {
            let (data, stat) = node?;
            of(&data).then_some((path, stat.ephemeral_owner))
        });
        Ok(mine.collect())
    }

    /// The jobs in some states.
    pub(crate) async fn jobs(
        &self,
        states: impl IntoIterator<Item = JobState>,
    ) -> Result<Vec<map::QueueRef>> {
        let mut found = Vec::new();
        for state in states {
            let (names, _) = self.patiently("a queue", || self.session().children(map::queue(state))).await?;
            found.extend(names.iter().filter_map(|name| map::QueueRef::parse(state, name)));
        }
        Ok(found)
    }

    /// The jobs that sessions hold locks of.
    pub(crate) async fn locks_of(&self, sessions: &[i64]) -> Result<Vec<Jid>> {
        let jids: Vec<Jid> = self.jobs(working()).await?.into_iter().map(|job| job.jid).collect();
        let paths: Vec<String> = jids.iter().map(|jid| JobNode::Lock.of(*jid)).collect();
        let locks = self.patiently("locks", || self.session().get_many(paths.clone())).await?;
        let mine = jids.into_iter().zip(locks).filter_map(|(jid, lock)| {
            lock.filter(|(_, stat)| sessions.contains(&stat.ephemeral_owner)).map(|_| jid)
        });
        Ok(mine.collect())
    }

    /// How many jobs there are that are neither done nor failed.
    pub(crate) async fn under_way(&self) -> Result<usize> {
        let mut count = 0;
        for state in WAITING.into_iter().chain(working()) {
            let stat = self.patiently("a queue", || self.session().exists(map::queue(state))).await?;
            count += stat.map_or(0, |stat| usize::try_from(stat.num_children).unwrap_or(0));
        }
        Ok(count)
    }
}

fn passes(error: &ingest_store::Error) -> bool {
    matches!(error.next(), Next::FindOut | Next::RetryLater)
}

/// The states that somebody works in.
pub(crate) fn working() -> impl Iterator<Item = JobState> {
    JobState::Estimating.way(Dialect::Design).filter(|state| state.is_working())
}

/// Those before them.
pub(crate) const WAITING: [JobState; 2] = [JobState::Pending, JobState::Held];

fn write_profiles(dir: &Path) -> Result<()> {
    let profiles = dir.join("profiles");
    std::fs::create_dir(&profiles)?;
    for collection in COLLECTIONS {
        let text = format!(
            "name = \"{collection}_content\"\ncollection = \"{collection}\"\ntitle = \"The collection {collection}\"\n\
             owner = \"{OWNER}\"\n\n[notify]\nto = [\"curators@example.org\"]\n"
        );
        std::fs::write(profiles.join(format!("{collection}_content.toml")), text)?;
    }
    Ok(())
}

fn configuration(dir: &Path, name: &str, own_disks: bool, mail: u16) -> Result<Table> {
    let mut config: Table = COMMON.parse()?;
    let mut path = |key: &str, at: &str| {
        ingest_harness::node::set(&mut config, key, dir.join(at).display().to_string());
    };
    path("node.dir", &format!("{name}/node"));
    path("api.uploads", &format!("{name}/uploads"));
    path("work.dir", &if own_disks { format!("{name}/work") } else { "work".to_owned() });
    path("profiles.dir", "profiles");
    path("storage.default.dir", "storage");
    path("inventory.path", "inventory.sqlite");
    path("access.dir", &format!("{name}/access"));
    ingest_harness::node::set(&mut config, "node.name", name);
    ingest_harness::node::set(&mut config, "mail.by.smtp.port", i64::from(mail));
    ingest_harness::node::set(&mut config, "work.quota", i64::try_from(QUOTA)?);
    Ok(config)
}
