//! Taking a request, and answering it.

use ingest_store::recipes::lock_table::{Claim, Released, Token};
use ingest_store::recipes::shard;
use ingest_store::{Kind, Op};
use serde_json::Value;

use super::{RequestLine, no_request};
use crate::committer::{Mark, Unit, commit_alone};
use crate::error::{Error, Result};
use crate::map::RequestNode;
use crate::nodes::{Node, Request, RequestResult};
use crate::queue::Queue;

/// The right to answer a request.
#[derive(Debug)]
pub struct TakenRequest {
    pub id: String,
    pub request: Request,
    token: Token,
}

impl Queue {
    /// Takes a request as it was read. Refused if somebody else was faster: busy, or changed.
    pub async fn take_request(&self, line: &RequestLine, holder: &str) -> Result<TakenRequest> {
        let (id, scene) = (&line.id, self.scene());
        if line.request.done {
            return Err(Error::changed(format!("request {id}"), "it has a result"));
        }
        let request = Request {
            attempt: line.request.attempt + 1,
            taken_by: Some(scene.node.clone()),
            taken_at: Some(scene.now),
            progress: String::new(),
            commit: scene.commit.clone(),
            ..line.request.clone()
        };
        let claim = Claim {
            lock: RequestNode::Lock.of(id),
            owner: self.owner(request.attempt, &scene),
            fence: RequestNode::Request.of(id),
            version: line.version,
            data: request.write(scene.dialect),
            more: Vec::new(),
            holder: holder.to_owned(),
        };
        let token = self.claim(&format!("request {id}"), claim, &scene.commit).await?;
        Ok(TakenRequest { id: id.clone(), request, token })
    }

    /// Says how far a request is, for people.
    pub async fn request_progress(&self, taken: &mut TakenRequest, progress: &str) -> Result<()> {
        let scene = self.scene();
        let request =
            Request { progress: progress.to_owned(), commit: scene.commit.clone(), ..taken.request.clone() };
        let at = RequestNode::Request.of(&taken.id);
        let ops = vec![taken.token.set(request.write(scene.dialect))];
        commit_alone(&self.session, Unit::new(ops, Mark::holds(at, scene.commit)))
            .await
            .map_err(|error| misfit(&taken.id, error))?;
        taken.token = self.locks.kept(&taken.token, taken.token.version() + 1);
        taken.request = request;
        Ok(())
    }

    /// Gives a request back as it is: somebody else takes it.
    pub async fn release_request(&self, taken: &TakenRequest) -> Result<()> {
        match self.locks.release(&taken.token, None).await? {
            Released::Now => Ok(()),
            Released::Before => Err(Error::lost(format!("request {}", taken.id), "it has moved on")),
        }
    }

    /// Answers a request, once and for all: with what the action brought, or why it was not done. The data
    /// is written first; then it is announced, with the result and the request in one multi. Whoever
    /// sees the result finds its data.
    pub async fn answer_request(
        &self,
        taken: TakenRequest,
        answer: std::result::Result<&Value, &Value>,
    ) -> Result<RequestResult> {
        let (id, scene) = (&taken.id, self.scene());
        let data = answer.ok().filter(|value| !value.is_null());
        let mut ops = Vec::new();
        if let Some(value) = data {
            let at = RequestNode::ResultData.of(id);
            let bytes = serde_json::to_vec(value).map_err(|error| Error::Invalid(error.to_string()))?;
            let prepared = shard::prepare(&self.session, &at, &bytes).await?;
            ops.push(match self.exists(&at).await? {
                Some(_) => prepared.op(at, None),
                None => Op::create(at, prepared.announcement()),
            });
        }
        let result = RequestResult {
            ok: answer.is_ok(),
            problem: answer.err().cloned(),
            node: scene.node.clone(),
            at: Some(scene.now),
            attempt: taken.request.attempt,
            data: data.is_some(),
            commit: scene.commit.clone(),
            ..RequestResult::default()
        };
        let done = Request {
            done: true,
            progress: String::new(),
            commit: scene.commit.clone(),
            ..taken.request.clone()
        };
        // The fence first: what it refuses is not ours any more.
        ops.insert(0, taken.token.set(done.write(scene.dialect)));
        ops.push(Op::create(RequestNode::Result.of(id), result.write(scene.dialect)));
        ops.push(Op::delete(taken.token.lock(), None));
        let mark = Mark::holds(RequestNode::Request.of(id), scene.commit);
        commit_alone(&self.session, Unit::new(ops, mark)).await.map_err(|error| misfit(id, error))?;
        self.locks.gone(&taken.token);
        // Read, and of no use any more. What is left is collected with the request.
        if let Err(error) = shard::remove_whole(&self.session, &RequestNode::Params.of(id)).await {
            tracing::debug!(id, %error, "the parameters of a request go later");
        }
        Ok(result)
    }
}

fn misfit(id: &str, error: ingest_store::Error) -> Error {
    match (error.failed_op(), error.kind()) {
        (Some(0 | 1), Kind::NoNode) => no_request(id),
        (Some(_), _) => Error::lost(format!("request {id}"), error),
        _ => error.into(),
    }
}
