//! A tree remembered and put back, so that each node can be spoilt in turn.

use std::collections::BTreeMap;

use bytes::Bytes;
use ingest_store::{Mode, Session, path};

/// Every node with its data, and whether it ends with its session.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Snapshot(pub(crate) BTreeMap<String, (Bytes, bool)>);

impl Snapshot {
    pub(crate) async fn take(session: &Session) -> Self {
        let (mut nodes, mut left) = (BTreeMap::new(), vec!["/".to_owned()]);
        while let Some(at) = left.pop() {
            let (data, stat) = session.get(at.as_str()).await.unwrap();
            if stat.num_children > 0 {
                let (names, _) = session.children(at.as_str()).await.unwrap();
                left.extend(names.iter().map(|name| path::join(&at, name)).filter(|at| at != "/zookeeper"));
            }
            nodes.insert(at, (data, stat.ephemeral_owner != 0));
        }
        nodes.remove("/");
        Self(nodes)
    }

    /// Makes the tree what it was.
    pub(crate) async fn restore(&self, session: &Session) {
        let now = Self::take(session).await;
        for at in now.0.keys().rev().filter(|at| !self.0.contains_key(*at)) {
            session.delete(at.as_str(), None).await.unwrap();
        }
        for (at, (data, ephemeral)) in &self.0 {
            let mode = if *ephemeral { Mode::Ephemeral } else { Mode::Persistent };
            match now.0.get(at) {
                Some((now, _)) if now == data => {}
                Some(_) => drop(session.set(at.as_str(), data.clone(), None).await.unwrap()),
                None => drop(session.create(at.as_str(), data.clone(), mode).await.unwrap()),
            }
        }
    }

    /// A node and all below it, the deepest first.
    pub(crate) fn below(&self, root: &str) -> Vec<&str> {
        self.0.keys().rev().map(String::as_str).filter(|at| path::is_within(at, root)).collect()
    }
}

pub(crate) async fn delete_all(session: &Session, snapshot: &Snapshot, root: &str) {
    for at in snapshot.below(root) {
        session.delete(at, None).await.unwrap();
    }
}
