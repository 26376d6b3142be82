//! A place in a queue of contenders: what an election and a read/write lock have in common.
//!
//! Each contender is an ephemeral sequential node whose name holds an id of its own, so that it is
//! found again after a lost answer and never mistaken for another's. It watches only the one before
//! it that it has to wait for: a release wakes one contender, not all.
//!
//! **When things break.** The node lives as long as the session. Its existence is checked at each
//! commit ([`Contender::fence`]): a contender whose session was lost cannot commit, whatever it
//! believes. The name is never used again, so the check cannot be satisfied by another's node.

use bytes::Bytes;

use super::own_node::{self, OwnNode};
use crate::error::{Error, Kind, Result};
use crate::node::{Mode, Op};
use crate::path;
use crate::session::Session;
use crate::watch::{SessionState, Woken};

#[derive(Debug)]
pub(super) struct Contender {
    node: OwnNode,
    dir: String,
    name: String,
}

impl Contender {
    /// Takes a place at the end of the queue in `dir`, which is made if it is not there.
    pub(super) async fn join(session: &Session, dir: &str, kind: &str, data: Bytes) -> Result<Self> {
        let prefix = format!("{kind}-{}-", uuid::Uuid::new_v4().simple());
        let path = path::join(dir, &prefix);
        let mut joining = Joining { session, dir, prefix: &prefix, is_in_doubt: true };
        let name = loop {
            match session.create_with_parents(path.as_str(), data.clone(), Mode::EphemeralSequential).await {
                Ok((made, _)) => break path::name(&made).to_owned(),
                Err(error) if matches!(error.kind(), Kind::ConnectionLoss | Kind::Deadline) => {
                    // Not sent again blindly: a second node would be a contender that nobody leaves.
                    if let Some(name) = find(session, dir, &prefix).await? {
                        break name;
                    }
                }
                Err(error) => {
                    joining.is_in_doubt = false;
                    return Err(error);
                }
            }
        };
        let node = OwnNode::new(session, path::join(dir, &name));
        joining.is_in_doubt = false;
        Ok(Self { node, dir: dir.to_owned(), name })
    }

    /// Refuses a commit unless this contender is still in the queue.
    pub(super) fn fence(&self) -> Op {
        self.node.fence()
    }

    /// Waits until nobody is before this one of those that `blocks` holds for.
    pub(super) async fn wait(&self, blocks: impl Fn(&str) -> bool) -> Result<()> {
        let session = self.node.session();
        loop {
            let (names, _) = super::settle(session, || session.children(self.dir.as_str())).await.answer?;
            let mine = sequence(&self.name);
            if !names.contains(&self.name) {
                return Err(Error::new(Kind::NoNode, "this contender was removed from its queue")
                    .with_path(self.node.path()));
            }
            let before = names.iter().filter(|name| blocks(name) && sequence(name) < mine);
            let Some(last) = before.max_by_key(|name| sequence(name)) else {
                return Ok(());
            };
            let blocker = path::join(&self.dir, last);
            let (there, watch) =
                super::settle(session, || session.watch_exists(blocker.as_str())).await.answer?;
            if there.is_some()
                && let Woken::Ended(state) = watch.woken().await
            {
                let kind = if state == SessionState::Expired { Kind::Expired } else { Kind::Closed };
                return Err(Error::new(kind, "the session ended while this contender waited"));
            }
        }
    }

    /// Waits until this contender is no longer in its queue, or its session is not connected.
    pub(super) async fn lost(&self) {
        let session = self.node.session();
        let mut states = session.states();
        let connections = states.borrow().connections;
        let disturbed =
            states.wait_for(|s| s.state != SessionState::Connected || s.connections != connections);
        let gone = async {
            while let Ok((Some(_), watch)) = session.watch_exists(self.node.path()).await {
                if !matches!(watch.woken().await, Woken::Changed) {
                    return;
                }
            }
        };
        tokio::select! {
            _ = disturbed => {}
            () = gone => {}
        }
    }

    /// Gives the place up. So does dropping it.
    pub(super) async fn leave(self) -> Result<()> {
        self.node.delete().await
    }
}

/// A place that is being taken. Whoever is gone before it is known whether it was, has left it to nobody.
struct Joining<'a> {
    session: &'a Session,
    dir: &'a str,
    prefix: &'a str,
    is_in_doubt: bool,
}

impl Drop for Joining<'_> {
    fn drop(&mut self) {
        if !self.is_in_doubt || self.session.state().is_final() {
            return;
        }
        let (session, dir, prefix) = (self.session.clone(), self.dir.to_owned(), self.prefix.to_owned());
        own_node::in_background(async move {
            // After the create, if that was sent: a session's requests are answered in their order.
            if let Ok(Some(name)) = find(&session, &dir, &prefix).await {
                own_node::delete(&session, &path::join(&dir, &name)).await;
            }
        });
    }
}

async fn find(session: &Session, dir: &str, prefix: &str) -> Result<Option<String>> {
    // The server that answers now need not be the one that was asked, nor have caught up with it.
    super::look(session, || session.sync()).await?;
    let listed = super::look(session, || session.children(dir)).await;
    match listed {
        Ok((names, _)) => Ok(names.into_iter().find(|name| name.starts_with(prefix))),
        Err(error) if error.kind() == Kind::NoNode => Ok(None),
        Err(error) => Err(error),
    }
}

/// The server's counter at the end of a name; a foreign name without one is before nobody.
fn sequence(name: &str) -> i64 {
    name.rsplit('-').next().and_then(|digits| digits.parse().ok()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contenders_are_ordered_by_the_servers_counter_alone() {
        assert!(sequence("write-ffff-0000000002") < sequence("read-0000-0000000010"));
        assert_eq!(sequence("stranger"), i64::MAX);
    }
}
