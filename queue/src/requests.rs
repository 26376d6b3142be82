//! Management requests: what somebody asks of the nodes by writing it into the tree.
//!
//! A client without HTTP puts a request; a node takes it, does it and writes the result; the client reads the
//! result and takes everything away again. The parameters and what a result brings may be of any size: they
//! are sharded.
//!
//! | node | made | goes |
//! |---|---|---|
//! | `requests/UUID` | by the client, last, in one multi with the announcement of its parameters | with everything |
//! | `params/UUID` | before it | when the result is there, or with everything |
//! | `locks/UUID` (e) | by the node that takes it, in one multi with the request at its version | with the result |
//! | `result-data/UUID` | parts first; announced in one multi with the result | with everything |
//! | `results/UUID` | in one multi with the request at the version of whoever took it | with everything |
//! | `waiters/UUID` (e) | by whoever waits for the result: nothing is collected meanwhile | with everything, or with its session |
//!
//! **In order.** Requests to any node are one line, and those to one node another: the first of a line that has
//! no result is taken, in the order of creation, and the next only after its result. So whoever puts a hold and then
//! its release gets both, in that order.
//!
//! **Once.** A result is made once: the multi that makes it rests on the version of the request that its taker
//! was given. What an action does is done once where the action itself can tell (the id of the request is the id
//! of a bulk run and of the commit on a job); for the others a taker that died between the action and the
//! result makes it happen twice, and all of them can bear that.
//!
//! **When things break.** A taker that dies loses its lock with its session, and the request is taken again, by
//! any node that may. One that was only slow is refused when it comes with its result. A client that dies
//! leaves a request that is done all the same, and whose result nobody reads: [`Queue::collect_requests`] takes
//! it away after a while.

mod collect;
mod line;
mod put;
mod take;

pub use collect::Collected;
pub use line::{Living, next};
pub use put::NewRequest;
pub use take::TakenRequest;

use futures::stream::{self, StreamExt, TryStreamExt};
use ingest_store::Kind;
use ingest_store::watch::Woken;
use serde_json::Value;

use crate::error::{Error, Result};
use crate::map::RequestNode;
use crate::nodes::{Owner, Request, RequestResult};
use crate::queue::Queue;

/// The most bytes of parameters, and of what a result brings.
pub const LARGEST: u64 = 64 << 20;
/// Requests read at a time.
const AT_ONCE: usize = 32;

/// A request as it was read.
#[derive(Debug, Clone, PartialEq)]
pub struct RequestLine {
    pub id: String,
    pub request: Request,
    /// Its version: the fence.
    pub version: i32,
    /// Its place in the order of creation.
    pub order: i64,
    /// Who is at it now.
    pub owner: Option<Owner>,
    /// Somebody waits for the result.
    pub waited_for: bool,
}

impl RequestLine {
    /// `waiting`, `running` or `done`.
    pub fn state(&self) -> &'static str {
        match (self.request.done, &self.owner) {
            (true, _) => "done",
            (false, Some(_)) => "running",
            (false, None) => "waiting",
        }
    }
}

/// A result with what it brings.
#[derive(Debug, Clone, PartialEq)]
pub struct Answered {
    pub result: RequestResult,
    /// Null if there is none.
    pub data: Value,
}

/// The id of a request as it stands in the tree.
pub fn id_of(text: &str) -> Result<String> {
    let shown = || text.chars().take(64).collect::<String>();
    let id = uuid::Uuid::try_parse(text)
        .map_err(|_| Error::NotFound(format!("request `{}`: it is no uuid", shown().escape_debug())))?;
    Ok(id.hyphenated().to_string())
}

/// A new one.
pub fn new_id() -> String {
    uuid::Uuid::new_v4().hyphenated().to_string()
}

fn no_request(id: &str) -> Error {
    Error::NotFound(format!("request {id}"))
}

impl Queue {
    /// All requests, in the order of their creation. What cannot be read is left out, with a warning.
    pub async fn requests(&self) -> Result<Vec<RequestLine>> {
        let names = match self.children(RequestNode::Request.dir()).await {
            Err(error) if error.kind() == Kind::NoNode => Vec::new(),
            names => names?,
        };
        let lines: Vec<Option<RequestLine>> = stream::iter(names)
            .map(|id| async move {
                match self.request(&id).await {
                    Ok(line) => Ok(Some(line)),
                    Err(Error::NotFound(_)) => Ok(None),
                    Err(error @ Error::Corrupt { .. }) => {
                        tracing::warn!(id, %error, "a request is left out");
                        Ok(None)
                    }
                    Err(error) => Err(error),
                }
            })
            .buffered(AT_ONCE)
            .try_collect()
            .await?;
        let mut lines: Vec<RequestLine> = lines.into_iter().flatten().collect();
        lines.sort_by(|a, b| (a.order, &a.id).cmp(&(b.order, &b.id)));
        Ok(lines)
    }

    pub async fn request(&self, id: &str) -> Result<RequestLine> {
        let owner = match self.find::<Owner>(RequestNode::Lock.of(id)).await {
            // A lock that says nothing is a lock.
            Err(Error::Corrupt { .. }) => Some(Owner::default()),
            owner => owner?.map(|(owner, _)| owner),
        };
        let waited_for = self.exists(RequestNode::Waiter.of(id)).await?.is_some();
        let (request, stat) = self.read::<Request>(RequestNode::Request.of(id), || no_request(id)).await?;
        let (version, order) = (stat.version, stat.czxid);
        Ok(RequestLine { id: id.to_owned(), request, version, order, owner, waited_for })
    }

    /// What a request asks for in detail; null if it does not.
    pub async fn request_params(&self, id: &str) -> Result<Value> {
        self.json(RequestNode::Params.of(id)).await
    }

    async fn json(&self, path: String) -> Result<Value> {
        match self.sharded(path.clone(), LARGEST).await? {
            None => Ok(Value::Null),
            Some(data) => serde_json::from_slice(&data).map_err(|error| Error::corrupt(path, error)),
        }
    }

    /// Whether a request was done or refused, without what it brings; `None`: there is no result that can be read.
    pub async fn request_end(&self, id: &str) -> Result<Option<RequestResult>> {
        match self.find::<RequestResult>(RequestNode::Result.of(id)).await {
            Err(error @ Error::Corrupt { .. }) => {
                tracing::warn!(id, %error, "a result is left out");
                Ok(None)
            }
            found => Ok(found?.map(|(result, _)| result)),
        }
    }

    /// The result, if there is one.
    pub async fn request_result(&self, id: &str) -> Result<Option<Answered>> {
        let path = RequestNode::Result.of(id);
        let Some((result, _)) = self.find::<RequestResult>(path.clone()).await? else {
            self.request(id).await?;
            return Ok(None);
        };
        let data = if result.data { self.json(RequestNode::ResultData.of(id)).await? } else { Value::Null };
        if result.data && data.is_null() && self.exists(&path).await?.is_some() {
            return Err(Error::corrupt(
                RequestNode::ResultData.of(id),
                "what the result announces is missing",
            ));
        }
        Ok(Some(Answered { result, data }))
    }

    /// Waits for the result, and says how far it is whenever that changes. Sleeps until the tree wakes it.
    pub async fn await_request(&self, id: &str, mut told: impl FnMut(&RequestLine)) -> Result<Answered> {
        let path = RequestNode::Request.of(id);
        loop {
            let watching =
                ingest_store::recipes::look(&self.session, || self.session.watch_exists(path.as_str()));
            let (stat, watch) = watching.await?;
            if stat.is_none() {
                return Err(no_request(id));
            }
            let line = self.request(id).await?;
            told(&line);
            if line.request.done
                && let Some(answered) = self.request_result(id).await?
            {
                return Ok(answered);
            }
            if let Woken::Ended(_) = watch.woken().await {
                let why = "the session ended while it waited for the result; the request goes on";
                return Err(ingest_store::Error::new(Kind::Closed, why).into());
            }
        }
    }
}
