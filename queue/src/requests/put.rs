//! Putting a request, and taking it back.

use ingest_store::recipes::{settle, shard};
use ingest_store::{Kind, Op};
use serde_json::Value;

use super::{id_of, new_id, no_request};
use crate::committer::{Mark, Unit, commit_alone};
use crate::error::{Error, Result};
use crate::map::RequestNode;
use crate::nodes::{Node, Request};
use crate::queue::Queue;

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct NewRequest {
    /// A uuid; the same one again is the same request. Empty: a new one.
    pub id: String,
    pub action: String,
    pub node: Option<String>,
    pub who: String,
    pub from: String,
    /// Null: none.
    pub params: Value,
    /// Somebody waits on this session: the result stays until it is read.
    pub wait: bool,
}

impl Queue {
    /// Puts a request, and says under which id. One that is there already under its id is not put again.
    pub async fn put_request(&self, new: &NewRequest) -> Result<String> {
        let id = if new.id.is_empty() { new_id() } else { id_of(&new.id)? };
        for node in RequestNode::ALL {
            let dir = node.dir();
            settle(&self.session, || self.session.make_dirs(&dir)).await.answer?;
        }
        if let Some((there, _)) = self.find::<Request>(RequestNode::Request.of(&id)).await? {
            return same(id, &there, new);
        }
        let mut ops = Vec::new();
        if !new.params.is_null() {
            let at = RequestNode::Params.of(&id);
            let bytes = serde_json::to_vec(&new.params).map_err(|error| Error::Invalid(error.to_string()))?;
            if bytes.len() as u64 > super::LARGEST {
                return Err(Error::Invalid(format!(
                    "the parameters have more than {} bytes",
                    super::LARGEST
                )));
            }
            let prepared = shard::prepare(&self.session, &at, &bytes).await?;
            ops.push(match self.exists(&at).await? {
                Some(_) => prepared.op(at, None),
                None => Op::create(at, prepared.announcement()),
            });
        }
        let scene = self.scene();
        let request = Request {
            action: new.action.clone(),
            node: new.node.clone(),
            who: new.who.clone(),
            from: new.from.clone(),
            at: Some(scene.now),
            commit: scene.commit.clone(),
            ..Request::default()
        };
        let at = RequestNode::Request.of(&id);
        ops.push(Op::create(at.as_str(), request.write(scene.dialect)));
        if new.wait {
            ops.push(Op::ephemeral(RequestNode::Waiter.of(&id), ""));
        }
        match commit_alone(&self.session, Unit::new(ops, Mark::holds(at.as_str(), scene.commit))).await {
            Ok(()) => Ok(id),
            // Another try of the same, on another session.
            Err(error) if error.kind() == Kind::NodeExists => {
                let (there, _) = self.read::<Request>(at, || no_request(&id)).await?;
                same(id, &there, new)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Says that somebody waits for a request, so that its result stays.
    pub async fn wait_on_request(&self, id: &str) -> Result<()> {
        let at = RequestNode::Waiter.of(id);
        let check = Op::check(RequestNode::Request.of(id), None);
        let ops = vec![check, Op::ephemeral(at.as_str(), "")];
        match settle(&self.session, || self.session.multi(ops.clone())).await.answer {
            Ok(_) => Ok(()),
            Err(error) if error.kind() == Kind::NodeExists => Ok(()),
            Err(error) if error.kind() == Kind::NoNode => Err(no_request(id)),
            Err(error) => Err(error.into()),
        }
    }

    /// Takes a request away with all that belongs to it: its result was read, or nobody wants it any more.
    /// Refused while a node is at it.
    pub async fn forget_request(&self, id: &str) -> Result<()> {
        loop {
            let line = self.request(id).await?;
            if let (false, Some(owner)) = (line.request.done, &line.owner) {
                let (what, node) = (format!("request {id}"), owner.node.clone());
                return Err(Error::Busy { what, node, since: owner.since });
            }
            let waiter = RequestNode::Waiter.of(id);
            let mut ops: Vec<Op> =
                self.exists(&waiter).await?.map(|_| Op::delete(waiter, None)).into_iter().collect();
            ops.extend(self.goodbye(id, line.version).await?);
            match commit_alone(&self.session, Unit::new(ops, Mark::Gone(RequestNode::Request.of(id)))).await {
                Ok(()) => return self.clear_request(id).await,
                // It, or who waits for it, has changed.
                Err(error) if error.failed_op().is_some() => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The end of a request and of its result, in one multi. What else there is of it goes afterwards.
    pub(super) async fn goodbye(&self, id: &str, version: i32) -> Result<Vec<Op>> {
        let result = RequestNode::Result.of(id);
        let mut ops = vec![Op::delete(RequestNode::Request.of(id), version)];
        ops.extend(self.exists(&result).await?.map(|stat| Op::delete(result, stat.version)));
        Ok(ops)
    }

    /// Removes what is left of a request that is gone.
    pub(super) async fn clear_request(&self, id: &str) -> Result<()> {
        for node in [RequestNode::Params, RequestNode::ResultData] {
            shard::remove_whole(&self.session, &node.of(id)).await?;
        }
        Ok(())
    }
}

fn same(id: String, there: &Request, new: &NewRequest) -> Result<String> {
    if there.action == new.action && there.node == new.node {
        return Ok(id);
    }
    Err(Error::Invalid(format!("{id} is the id of another request: {} by {}", there.action, there.who)))
}
