//! The rules of the tree, applied in memory to what one commit will write.
//!
//! A batch holds the nodes that its requests have changed, above the last committed tree. A request
//! that is refused in the middle leaves no trace: its changes are undone, not its predecessors'.
//! The order of the checks is the server's, so that a request with two faults gets the same answer
//! from both engines.

use std::collections::HashMap;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use redb::Database;

use super::file::{EPHEMERALS, META, META_ZXID, NODES, Snapshot, failed};
use super::record::{Key, Node, key, owned_key};
use crate::error::{Error, Kind, Result};
use crate::node::{Mode, Op, OpResult, Reply, Request, Stat};
use crate::path;
use crate::watch::Event;

#[derive(Debug)]
pub(super) struct Batch<'a> {
    base: &'a Snapshot,
    nodes: HashMap<Key, Slot>,
    /// Changes to the index of ephemeral nodes: added, or removed.
    owned: HashMap<Key, bool>,
    undo: Vec<Undo>,
    events: Vec<Event>,
    zxid: i64,
    now: i64,
}

/// What this batch makes of a node.
#[derive(Debug, Clone)]
enum Slot {
    Live(Node),
    Gone,
}

/// What an entry was before the request under way changed it; `None`: not in the batch.
#[derive(Debug)]
enum Undo {
    Node(Key, Option<Slot>),
    Owned(Key, Option<bool>),
}

impl<'a> Batch<'a> {
    pub(super) fn new(base: &'a Snapshot, zxid: i64) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis());
        let now = i64::try_from(now).unwrap_or(i64::MAX);
        Self {
            base,
            nodes: HashMap::new(),
            owned: HashMap::new(),
            undo: Vec::new(),
            events: Vec::new(),
            zxid,
            now,
        }
    }

    /// Applies a request wholly or not at all. The events are those that it will cause.
    pub(super) fn apply(&mut self, session: i64, request: Request) -> (Result<Reply>, Vec<Event>) {
        self.zxid += 1;
        let reply = match request {
            Request::Create { path, data, mode } => {
                self.create(session, &path, data, mode).map(|(path, stat)| Reply::Create { path, stat })
            }
            Request::Set { path, data, version } => self.set(&path, data, version).map(Reply::Set),
            Request::Delete { path, version } => self.delete(&path, version).map(|()| Reply::Delete),
            Request::Multi(ops) => self.multi(session, ops).map(Reply::Multi),
            Request::Sync => Ok(Reply::Sync),
            // Reads are answered from the committed tree and never come here.
            Request::Get(path)
            | Request::Exists(path)
            | Request::Children(path)
            | Request::Ephemerals(path) => Err(Error::at(Kind::Unexpected, &path)),
            Request::GetMany(_) => Err(Error::at(Kind::Unexpected, "/")),
        };
        self.end(reply)
    }

    /// Deletes every ephemeral node of a session.
    pub(super) fn end_session(&mut self, session: i64) -> (Result<()>, Vec<Event>) {
        self.zxid += 1;
        let deleted =
            self.owned_now(session).and_then(|paths| paths.iter().try_for_each(|p| self.delete(p, None)));
        self.end(deleted)
    }

    fn end<T>(&mut self, result: Result<T>) -> (Result<T>, Vec<Event>) {
        let events = std::mem::take(&mut self.events);
        if result.is_ok() {
            self.undo.clear();
            return (result, events);
        }
        for change in self.undo.drain(..).rev() {
            match change {
                Undo::Node(key, before) => put_back(&mut self.nodes, key, before),
                Undo::Owned(key, before) => put_back(&mut self.owned, key, before),
            }
        }
        (result, Vec::new())
    }

    pub(super) fn stat(&self, path: &str) -> Result<Option<Stat>> {
        Ok(self.find(&key(path))?.map(|node| node.stat()))
    }

    fn multi(&mut self, session: i64, ops: Vec<Op>) -> Result<Vec<OpResult>> {
        let mut results = Vec::with_capacity(ops.len());
        for (index, op) in ops.into_iter().enumerate() {
            let result = match op {
                Op::Check { path, version } => self
                    .need(&path)
                    .and_then(|node| at_version(&node, &path, version))
                    .map(|()| OpResult::Checked),
                Op::Create { path, data, mode } => {
                    self.create(session, &path, data, mode).map(|(path, _)| OpResult::Created { path })
                }
                Op::Set { path, data, version } => {
                    self.set(&path, data, version).map(|stat| OpResult::Set { stat })
                }
                Op::Delete { path, version } => self.delete(&path, version).map(|()| OpResult::Deleted),
            };
            results.push(result.map_err(|error| error.with_op(index))?);
        }
        Ok(results)
    }

    fn create(&mut self, session: i64, path: &str, data: Bytes, mode: Mode) -> Result<(String, Stat)> {
        let parent_path = path::parent(path);
        let parent_key = key(parent_path);
        let Some(mut parent) = self.find(&parent_key)? else {
            return Err(Error::at(Kind::NoNode, path));
        };
        // A refusal names what was asked for: the server tells no more.
        let asked = path;
        let path =
            if mode.is_sequential() { format!("{asked}{:010}", parent.creates) } else { asked.to_owned() };
        let key = key(&path);
        if self.find(&key)?.is_some() {
            return Err(Error::at(Kind::NodeExists, asked));
        }
        if parent.owner != 0 {
            return Err(Error::at(Kind::NoChildrenForEphemerals, asked));
        }
        let (zxid, now) = (self.zxid, self.now);
        let owner = if mode.is_ephemeral() { session } else { 0 };
        let node = Node {
            czxid: zxid,
            mzxid: zxid,
            pzxid: zxid,
            ctime: now,
            mtime: now,
            owner,
            data,
            ..Node::default()
        };
        let stat = node.stat();
        parent.creates = parent.creates.wrapping_add(1);
        parent.children += 1;
        parent.pzxid = zxid;
        self.put(parent_key, Slot::Live(parent));
        self.put(key, Slot::Live(node));
        if owner != 0 {
            self.put_owned(owned_key(owner, &path), true);
        }
        self.events.push(Event::Created(path.clone()));
        Ok((path, stat))
    }

    fn set(&mut self, path: &str, data: Bytes, version: Option<i32>) -> Result<Stat> {
        let mut node = self.need(path)?;
        at_version(&node, path, version)?;
        node.data = data;
        node.version = node.version.wrapping_add(1);
        node.mzxid = self.zxid;
        node.mtime = self.now;
        let stat = node.stat();
        self.put(key(path), Slot::Live(node));
        self.events.push(Event::Changed(path.to_owned()));
        Ok(stat)
    }

    fn delete(&mut self, path: &str, version: Option<i32>) -> Result<()> {
        let node = self.need(path)?;
        at_version(&node, path, version)?;
        if node.children > 0 {
            return Err(Error::at(Kind::NotEmpty, path));
        }
        let parent_path = path::parent(path);
        let mut parent = self.need(parent_path)?;
        parent.children -= 1;
        parent.pzxid = self.zxid;
        self.put(key(parent_path), Slot::Live(parent));
        self.put(key(path), Slot::Gone);
        if node.owner != 0 {
            self.put_owned(owned_key(node.owner, path), false);
        }
        self.events.push(Event::Deleted(path.to_owned()));
        Ok(())
    }

    fn find(&self, key: &[u8]) -> Result<Option<Node>> {
        match self.nodes.get(key) {
            Some(Slot::Live(node)) => Ok(Some(node.clone())),
            Some(Slot::Gone) => Ok(None),
            None => self.base.node(key),
        }
    }

    fn need(&self, path: &str) -> Result<Node> {
        self.find(&key(path))?.ok_or_else(|| Error::at(Kind::NoNode, path))
    }

    fn put(&mut self, key: Key, slot: Slot) {
        let before = self.nodes.insert(key.clone(), slot);
        self.undo.push(Undo::Node(key, before));
    }

    fn put_owned(&mut self, key: Key, there: bool) {
        let before = self.owned.insert(key.clone(), there);
        self.undo.push(Undo::Owned(key, before));
    }

    fn owned_now(&self, session: i64) -> Result<Vec<String>> {
        let mut paths = self.base.owned(Some(session))?;
        paths.retain(|path| self.owned.get(&owned_key(session, path)) != Some(&false));
        let prefix = session.to_be_bytes();
        for (key, there) in &self.owned {
            if let Some(path) = key.strip_prefix(prefix.as_slice())
                && *there
            {
                paths.push(String::from_utf8_lossy(path).into_owned());
            }
        }
        paths.sort_unstable();
        paths.dedup();
        Ok(paths)
    }

    pub(super) fn zxid(&self) -> i64 {
        self.zxid
    }

    pub(super) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Writes everything in one durable transaction: when it returns, the disk has it.
    pub(super) fn commit(self, database: &Database) -> Result<()> {
        let write = database.begin_write().map_err(failed)?;
        {
            let mut nodes = write.open_table(NODES).map_err(failed)?;
            // In the order of the keys: neighbours share pages.
            let mut changed = self.nodes.into_iter().collect::<Vec<_>>();
            changed.sort_unstable_by(|a, b| a.0.cmp(&b.0));
            for (key, slot) in changed {
                match slot {
                    Slot::Live(node) => {
                        nodes.insert(key.as_slice(), node.encode().as_slice()).map_err(failed)?
                    }
                    Slot::Gone => nodes.remove(key.as_slice()).map_err(failed)?,
                };
            }
        }
        if !self.owned.is_empty() {
            let mut ephemerals = write.open_table(EPHEMERALS).map_err(failed)?;
            for (key, there) in self.owned {
                if there {
                    ephemerals.insert(key.as_slice(), ()).map_err(failed)?;
                } else {
                    ephemerals.remove(key.as_slice()).map_err(failed)?;
                }
            }
        }
        let zxid = u64::try_from(self.zxid).unwrap_or(0);
        write.open_table(META).map_err(failed)?.insert(META_ZXID, zxid).map_err(failed)?;
        write.commit().map_err(failed)
    }
}

fn at_version(node: &Node, path: &str, version: Option<i32>) -> Result<()> {
    match version {
        Some(version) if version != node.version => {
            Err(Error::new(Kind::BadVersion, format!("it is {}, not {version}", node.version))
                .with_path(path))
        }
        _ => Ok(()),
    }
}

fn put_back<V>(map: &mut HashMap<Key, V>, key: Key, before: Option<V>) {
    match before {
        Some(value) => map.insert(key, value),
        None => map.remove(&key),
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engines::embedded::file;

    const SESSION: i64 = 77;

    #[test]
    fn a_refused_request_leaves_no_trace_in_the_commit_that_it_shares() {
        let dir = tempfile::tempdir().unwrap();
        let file = file::open(dir.path(), 1 << 20).unwrap();
        let base = Snapshot::take(&file.database).unwrap();
        let mut batch = Batch::new(&base, 0);
        let made =
            batch.apply(SESSION, Request::Multi(vec![Op::create("/a", ""), Op::ephemeral("/kept", "")]));
        assert_eq!(made.1.len(), 2);
        let refused = vec![
            Op::ephemeral("/lost", ""),
            Op::delete("/kept", None),
            Op::create("/a/child", ""),
            Op::set("/a", "changed", 0),
            Op::check("/nowhere", None),
        ];
        let (answer, events) = batch.apply(SESSION, Request::Multi(refused));
        assert_eq!((answer.unwrap_err().failed_op(), events), (Some(4), Vec::new()));
        batch.commit(&file.database).unwrap();
        let after = Snapshot::take(&file.database).unwrap();
        assert_eq!(after.owned(None).unwrap(), ["/kept"]);
        let a = after.node(&key("/a")).unwrap().unwrap();
        assert_eq!((a.version, a.creates, a.children, a.data.len()), (0, 0, 0, 0));
        assert!(
            after.node(&key("/a/child")).unwrap().is_none() && after.node(&key("/lost")).unwrap().is_none()
        );
    }

    #[test]
    fn the_end_of_a_session_takes_what_it_made_and_spared_in_the_same_commit() {
        let dir = tempfile::tempdir().unwrap();
        let file = file::open(dir.path(), 1 << 20).unwrap();
        let base = Snapshot::take(&file.database).unwrap();
        let mut batch = Batch::new(&base, 0);
        for op in [Op::ephemeral("/mine", ""), Op::ephemeral("/gone", ""), Op::delete("/gone", None)] {
            batch.apply(SESSION, Request::Multi(vec![op])).0.unwrap();
        }
        batch.apply(SESSION + 1, Request::Multi(vec![Op::ephemeral("/theirs", "")])).0.unwrap();
        let (ended, events) = batch.end_session(SESSION);
        ended.unwrap();
        assert_eq!(events, [Event::Deleted("/mine".into())]);
        batch.commit(&file.database).unwrap();
        assert_eq!(Snapshot::take(&file.database).unwrap().owned(None).unwrap(), ["/theirs"]);
    }
}
