//! One engine with its sessions, taking steps.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ingest_harness::Server;
use ingest_store::engine::Engine;
use ingest_store::engines::embedded::{Embedded, EmbeddedConfig};
use ingest_store::engines::zookeeper::{Zookeeper, ZookeeperConfig};
use ingest_store::{Event, ExistsWatch, Limits, Mode, Op, Session, Stat, Store, TreeWatch, Woken};

use crate::canon::{self, Answer, Owners};
use crate::generate::{SESSIONS, Step};

/// Written around the end of a session: the order in which its nodes go is nobody's promise.
const BARRIER: &str = "/barrier";
const PATIENCE: Duration = Duration::from_mins(1);

pub(crate) struct Side {
    store: Store,
    sessions: Vec<Session>,
    /// Handles of sessions that were closed.
    old: Vec<Option<Session>>,
    owners: Owners,
    /// Sees everything from the beginning.
    observer: Session,
    events: TreeWatch,
    watches: Vec<(usize, ExistsWatch)>,
}

/// All that is left to compare when a sequence is over.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct End {
    events: Vec<Event>,
    woken: Vec<Option<Woken>>,
    tree: Vec<String>,
}

impl Side {
    pub(crate) async fn embedded(dir: &Path) -> Self {
        Self::new(Arc::new(Embedded::open(&EmbeddedConfig::new(dir)).unwrap())).await
    }

    pub(crate) async fn zookeeper(server: &Server) -> Self {
        let connect = format!("{}{}", server.connect_string(), ingest_harness::chroot());
        Self::new(Arc::new(Zookeeper::new(ZookeeperConfig::new(connect)).unwrap())).await
    }

    async fn new(engine: Arc<dyn Engine>) -> Self {
        let store = Store::new(engine, Limits::default());
        let observer = store.session().await.unwrap();
        observer.create(BARRIER, "", Mode::Persistent).await.unwrap();
        let events = observer.watch_tree("/").await.unwrap();
        let mut side = Self {
            store,
            sessions: Vec::new(),
            old: vec![None; SESSIONS],
            owners: Owners::new(),
            observer,
            events,
            watches: Vec::new(),
        };
        for _ in 0..SESSIONS {
            let session = side.open().await;
            side.sessions.push(session);
        }
        side
    }

    async fn open(&mut self) -> Session {
        let session = self.store.session().await.unwrap();
        let number = self.owners.len();
        self.owners.insert(session.id(), number);
        session
    }

    pub(crate) async fn take(&mut self, step: &Step) -> Answer {
        tokio::time::timeout(PATIENCE, self.try_take(step)).await.expect("no answer for a long time")
    }

    async fn try_take(&mut self, step: &Step) -> Answer {
        let owners = &self.owners;
        let answer = match step {
            Step::Get(session, path) => self.sessions[*session]
                .get(path)
                .await
                .map(|(data, stat)| Answer::Get(data.to_vec(), canon::counters(&stat, owners))),
            Step::Exists(session, path) => self.sessions[*session]
                .exists(path)
                .await
                .map(|stat| Answer::Exists(stat.map(|stat| canon::counters(&stat, owners)))),
            Step::Children(session, path) => {
                self.sessions[*session].children(path).await.map(|(mut names, stat)| {
                    names.sort_unstable();
                    Answer::Children(names, canon::counters(&stat, owners))
                })
            }
            Step::Ephemerals(session, path) => {
                self.sessions[*session].ephemerals(path).await.map(|mut paths| {
                    paths.sort_unstable();
                    Answer::Ephemerals(paths)
                })
            }
            Step::One(session, op) => one(&self.sessions[*session], op.clone(), owners).await,
            Step::Multi(session, ops) => {
                self.sessions[*session].multi(ops.clone()).await.map(|results| canon::parts(results, owners))
            }
            Step::WatchExists(session, path) => match self.sessions[*session].watch_exists(path).await {
                Ok((stat, watch)) => {
                    self.watches.push((*session, watch));
                    Ok(Answer::Exists(stat.map(|stat| canon::counters(&stat, owners))))
                }
                Err(error) => Err(error),
            },
            Step::EndSession(number) => {
                self.observer.set(BARRIER, "", None).await.unwrap();
                let new = self.open().await;
                let ended = std::mem::replace(&mut self.sessions[*number], new);
                let closed = ended.close().await.map(|()| Answer::Done);
                self.old[*number] = Some(ended);
                self.observer.set(BARRIER, "", None).await.unwrap();
                closed
            }
            Step::OldHandle(session, path) => match &self.old[*session] {
                Some(old) => old.get(path).await.map(|_| Answer::Done),
                None => Ok(Answer::Done),
            },
        };
        answer.unwrap_or_else(|error| canon::refused(&error))
    }

    pub(crate) async fn end(mut self) -> End {
        tokio::time::timeout(PATIENCE, async {
            let tree = self.tree().await;
            let events = self.events().await;
            // A request that is answered is behind every event of its session.
            for session in &self.sessions {
                session.sync().await.unwrap();
            }
            for session in &self.sessions {
                session.close().await.unwrap();
            }
            let mut woken = Vec::new();
            for (_, watch) in self.watches {
                // Whatever had not fired says that its session has ended.
                woken.push(Some(watch.woken().await));
            }
            End { events, woken, tree }
        })
        .await
        .expect("the end never came")
    }

    async fn events(&mut self) -> Vec<Event> {
        self.observer.set(BARRIER, "last", None).await.unwrap();
        let barriers = self.observer.exists(BARRIER).await.unwrap().unwrap().version;
        let mut segments = vec![Vec::new()];
        for _ in 0..barriers {
            loop {
                match self.events.next().await {
                    Event::Changed(path) if path == BARRIER => break,
                    event => segments.last_mut().unwrap().push(event),
                }
            }
            segments.push(Vec::new());
        }
        // Between the two barriers of a session's end, order is not promised.
        for of_a_session_end in segments.iter_mut().skip(1).step_by(2) {
            of_a_session_end.sort_by_key(|event| format!("{event:?}"));
        }
        segments.concat()
    }

    async fn tree(&self) -> Vec<String> {
        let mut nodes = BTreeMap::new();
        let mut left = vec!["/".to_owned()];
        while let Some(path) = left.pop() {
            let (data, stat): (_, Stat) = self.observer.get(path.as_str()).await.unwrap();
            for name in self.observer.children(path.as_str()).await.unwrap().0 {
                left.push(if path == "/" { format!("/{name}") } else { format!("{path}/{name}") });
            }
            nodes.insert(path, (data.to_vec(), stat));
        }
        canon::tree(nodes, &self.owners)
    }
}

async fn one(session: &Session, op: Op, owners: &Owners) -> ingest_store::Result<Answer> {
    match op {
        Op::Create { path, data, mode } => session
            .create(path, data, mode)
            .await
            .map(|(path, stat)| Answer::Created(path, canon::counters(&stat, owners))),
        Op::Set { path, data, version } => {
            session.set(path, data, version).await.map(|stat| Answer::Set(canon::counters(&stat, owners)))
        }
        Op::Delete { path, version } => session.delete(path, version).await.map(|()| Answer::Done),
        Op::Check { .. } => unreachable!("a check stands in a multi only"),
    }
}
