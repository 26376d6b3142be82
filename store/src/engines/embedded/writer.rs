//! The one thread that writes: it takes what waits, applies it, commits it together, and answers.
//!
//! Concurrent requests share a commit because they gather while the one before is on its way to the
//! disk. Nothing is ever delayed to wait for more. An answer, an event and the readable tree appear
//! only after the disk has what they tell of, and together: whoever was told of a change can read it.
//!
//! **When things break.** If a commit fails nobody knows what the disk holds, so the engine stops:
//! the requests of that commit are answered with the reason, all sessions end, later requests are
//! refused. Opening the directory again finds the last commit that is whole.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use parking_lot::RwLock;
use redb::ReadableDatabase;
use tokio::sync::{oneshot, watch};

use super::batch::Batch;
use super::file::{META, META_ZXID, Snapshot, TreeFile, caught, failed};
use super::watches::Watches;
use crate::error::{Error, Kind, Result};
use crate::node::{Reply, Request, Stat};
use crate::watch::{Event, EventQueue, SessionState, SessionStatus, Woken};

/// How many commands one commit may hold, and how many bytes of requests: it is in memory until it
/// is on disk.
const MAX_BATCH: usize = 1024;
const MAX_BATCH_BYTES: usize = 8 << 20;

/// What the writer is asked to do.
#[derive(Debug)]
pub(super) enum Command {
    Send {
        session: i64,
        request: Request,
        reply: oneshot::Sender<Result<Reply>>,
    },
    WatchExists {
        session: i64,
        path: String,
        fire: oneshot::Sender<Woken>,
        reply: oneshot::Sender<Result<Option<Stat>>>,
    },
    WatchTree {
        session: i64,
        path: String,
        queue: Arc<EventQueue>,
        reply: oneshot::Sender<Result<()>>,
    },
    Open {
        session: i64,
        status: watch::Sender<SessionStatus>,
        reply: oneshot::Sender<Result<()>>,
    },
    End {
        session: i64,
        state: SessionState,
        reply: oneshot::Sender<Result<()>>,
    },
    Stop {
        reply: oneshot::Sender<()>,
    },
}

impl Command {
    fn size(&self) -> usize {
        match self {
            Command::Send { request, .. } => request.size(),
            _ => 0,
        }
    }
}

/// What is to be done once the batch is on disk, in the order of the commands.
enum Effect {
    Tell(Event),
    WatchExists(i64, String, oneshot::Sender<Woken>),
    WatchTree(i64, String, Arc<EventQueue>),
    Ended(i64, SessionState, watch::Sender<SessionStatus>),
    Answer(Box<dyn Answer>),
}

/// An answer that waits for its commit, and can still become the reason why there was none.
trait Answer: Send {
    fn give(self: Box<Self>, failure: Option<&Error>);
}

struct Pending<T>(oneshot::Sender<Result<T>>, Result<T>);

impl<T: Send> Answer for Pending<T> {
    fn give(self: Box<Self>, failure: Option<&Error>) {
        // A caller that has gone does not want the answer.
        let _ = self.0.send(match failure {
            Some(error) => Err(error.clone()),
            None => self.1,
        });
    }
}

pub(super) struct Writer {
    file: TreeFile,
    zxid: i64,
    published: Arc<RwLock<Arc<Snapshot>>>,
    sessions: HashMap<i64, watch::Sender<SessionStatus>>,
    watches: Watches,
    /// Why the engine has stopped.
    stopped: Option<Error>,
}

impl Writer {
    /// Takes the file over; the ephemeral nodes of sessions that died with it are gone afterwards.
    pub(super) fn new(file: TreeFile) -> Result<(Self, Arc<RwLock<Arc<Snapshot>>>)> {
        let zxid = file
            .database
            .begin_read()
            .map_err(failed)?
            .open_table(META)
            .map_err(failed)?
            .get(META_ZXID)
            .map_err(failed)?
            .map_or(0, |guard| guard.value());
        let snapshot = Arc::new(Snapshot::take(&file.database)?);
        let published = Arc::new(RwLock::new(snapshot));
        let mut writer = Self {
            file,
            zxid: i64::try_from(zxid).unwrap_or(i64::MAX),
            published: published.clone(),
            sessions: HashMap::new(),
            watches: Watches::default(),
            stopped: None,
        };
        writer.bury_the_dead()?;
        Ok((writer, published))
    }

    fn bury_the_dead(&mut self) -> Result<()> {
        let base = self.published.read().clone();
        let left = base.owned(None)?;
        if left.is_empty() {
            return Ok(());
        }
        tracing::info!(
            nodes = left.len(),
            "removing the ephemeral nodes of sessions that ended with their process"
        );
        let mut owners = Vec::new();
        for path in left {
            if let Some(node) = base.node(&super::record::key(&path))? {
                owners.push(node.owner);
            }
        }
        owners.sort_unstable();
        owners.dedup();
        let mut batch = Batch::new(&base, self.zxid);
        for owner in owners {
            batch.end_session(owner).0?;
        }
        self.zxid = batch.zxid();
        batch.commit(&self.file.database)?;
        *self.published.write() = Arc::new(Snapshot::take(&self.file.database)?);
        Ok(())
    }

    /// Works until it is told to stop or nobody is left to ask it for anything.
    pub(super) fn run(mut self, commands: &Receiver<Command>) {
        while let Ok(first) = commands.recv() {
            let mut stop = None;
            let (mut batch, mut bytes) = (Vec::new(), 0);
            for command in std::iter::once(first).chain(commands.try_iter()) {
                match command {
                    Command::Stop { reply } => {
                        stop = Some(reply);
                        break;
                    }
                    command => {
                        bytes += command.size();
                        batch.push(command);
                    }
                }
                if batch.len() >= MAX_BATCH || bytes >= MAX_BATCH_BYTES {
                    break;
                }
            }
            self.run_once(batch);
            if let Some(reply) = stop {
                self.end_all(SessionState::Closed);
                drop(self);
                let _ = reply.send(());
                return;
            }
        }
    }

    /// One commit.
    fn run_once(&mut self, commands: Vec<Command>) {
        let base = self.published.read().clone();
        let mut batch = Batch::new(&base, self.zxid);
        let mut effects = Vec::with_capacity(commands.len() * 4);
        for command in commands {
            self.apply(&mut batch, command, &mut effects);
        }
        let zxid = batch.zxid();
        let committed = if batch.is_empty() {
            Ok(None)
        } else {
            let database = &self.file.database;
            caught(|| batch.commit(database).and_then(|()| Snapshot::take(database).map(Some)))
        };
        match committed {
            Ok(snapshot) => {
                self.zxid = zxid;
                self.publish(snapshot, effects);
            }
            Err(error) => self.stop(&error, effects),
        }
    }

    fn apply(&mut self, batch: &mut Batch<'_>, command: Command, effects: &mut Vec<Effect>) {
        match command {
            Command::Send { session, request, reply } => {
                let (result, events) = match self.live(session) {
                    Ok(()) => batch.apply(session, request),
                    Err(error) => (Err(error), Vec::new()),
                };
                effects.extend(events.into_iter().map(Effect::Tell));
                effects.push(Effect::Answer(Box::new(Pending(reply, result))));
            }
            Command::WatchExists { session, path, fire, reply } => {
                let result = self.live(session).and_then(|()| batch.stat(&path));
                if result.is_ok() {
                    effects.push(Effect::WatchExists(session, path, fire));
                }
                effects.push(Effect::Answer(Box::new(Pending(reply, result))));
            }
            Command::WatchTree { session, path, queue, reply } => {
                let result = self.live(session);
                if result.is_ok() {
                    effects.push(Effect::WatchTree(session, path, queue));
                }
                effects.push(Effect::Answer(Box::new(Pending(reply, result))));
            }
            Command::Open { session, status, reply } => {
                let result = self.stopped.clone().map_or(Ok(()), Err);
                if result.is_ok() {
                    self.sessions.insert(session, status);
                }
                effects.push(Effect::Answer(Box::new(Pending(reply, result))));
            }
            Command::End { session, state, reply } => {
                let mut result = Ok(());
                if let Some(status) = self.sessions.remove(&session) {
                    let events;
                    (result, events) = batch.end_session(session);
                    effects.extend(events.into_iter().map(Effect::Tell));
                    effects.push(Effect::Ended(session, state, status));
                }
                effects.push(Effect::Answer(Box::new(Pending(reply, result))));
            }
            // Taken out by `run`.
            Command::Stop { .. } => {}
        }
    }

    /// Makes the new tree readable and tells of it, in one step for every reader.
    fn publish(&mut self, snapshot: Option<Snapshot>, effects: Vec<Effect>) {
        let (mut answers, mut ended) = (Vec::with_capacity(effects.len()), Vec::new());
        let mut readable = self.published.write();
        if let Some(snapshot) = snapshot {
            *readable = Arc::new(snapshot);
        }
        for effect in effects {
            match effect {
                Effect::Tell(event) => self.watches.tell(&event),
                Effect::WatchExists(session, path, fire) => self.watches.add_exists(session, path, fire),
                Effect::WatchTree(session, path, queue) => self.watches.add_tree(session, path, queue),
                Effect::Ended(session, state, status) => {
                    self.watches.end(session, state);
                    ended.push((status, state));
                }
                Effect::Answer(answer) => answers.push(answer),
            }
        }
        drop(readable);
        for (status, state) in ended {
            say(&status, state);
        }
        for answer in answers {
            answer.give(None);
        }
    }

    fn stop(&mut self, error: &Error, effects: Vec<Effect>) {
        tracing::error!(%error, "a commit failed: the embedded store stops; nothing that was answered is lost");
        self.stopped =
            Some(Error::new(Kind::Disk, format!("the store has stopped after a failed commit ({error})")));
        self.end_all(SessionState::Closed);
        for effect in effects {
            match effect {
                Effect::Answer(answer) => answer.give(Some(error)),
                Effect::Ended(session, state, status) => {
                    self.watches.end(session, state);
                    say(&status, state);
                }
                Effect::Tell(_) | Effect::WatchExists(..) | Effect::WatchTree(..) => {}
            }
        }
    }

    fn end_all(&mut self, state: SessionState) {
        for (session, status) in std::mem::take(&mut self.sessions) {
            say(&status, state);
            self.watches.end(session, state);
        }
    }

    fn live(&self, session: i64) -> Result<()> {
        if let Some(error) = &self.stopped {
            return Err(error.clone());
        }
        if self.sessions.contains_key(&session) { Ok(()) } else { Err(Error::new(Kind::Expired, "")) }
    }
}

fn say(status: &watch::Sender<SessionStatus>, state: SessionState) {
    status.send_modify(|status| status.state = state);
}
