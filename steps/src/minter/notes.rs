//! Notes in the tree of names that were asked for and are not public yet: EZID cannot list them.
//!
//! | node below `/minter/ezid-SHOULDER` | says |
//! |---|---|
//! | `ask-UUID` | a name was asked for with this key, then, and its answer never came |
//! | `ark-NAME` | this name is reserved, and was not published yet |
//!
//! A note is made before a name is asked for, becomes an `ark-` note in one commit when it came, and goes when the
//! name is public, or when the service certainly did not begin. Orphans are found by reading them: every
//! `ask-` note, and every `ark-` note whose name neither its job nor a local id has. A request that is
//! under way right now looks like one whose answer never came; the time tells them apart. A person who has
//! dealt with an orphan deletes its note.
//!
//! **When things break.** Lost answers of the tree are settled. Without a note nothing is asked for. A name that came
//! and could not be noted is not used; its `ask-` note stays.

use std::collections::BTreeSet;

use ingest_queue::date::{Clock, Date};
use ingest_queue::ids::Jid;
use ingest_queue::map::{self, JobNode};
use ingest_queue::nodes::{Identifiers, LocalId, Node};
use ingest_store::error::Next;
use ingest_store::recipes::{look, settle};
use ingest_store::{Kind, Op, Session, path};
use serde::{Deserialize, Serialize};

use super::{MintRequest, Orphan};
use crate::ark::Ark;
use crate::outcome::{Failure, Result};

const ASKED: &str = "ask-";
const CAME: &str = "ark-";

/// The notes of one shoulder.
#[derive(Debug)]
pub(super) struct Notes {
    session: Session,
    dir: String,
}

/// What is known of one name.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Note {
    key: String,
    owner: String,
    since: Date,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ark: Option<Ark>,
}

/// A name that was asked for.
#[derive(Debug)]
pub(super) struct Asked {
    at: String,
    note: Note,
}

impl Notes {
    pub(super) fn new(session: &Session, shoulder: &str) -> Self {
        let shoulder = shoulder.trim_start_matches("ark:").trim_matches('/');
        let dir = path::join(map::MINTER, &format!("ezid-{}", map::escape(shoulder)));
        Self { session: session.clone(), dir }
    }

    /// Before a name is asked for.
    pub(super) async fn ask(&self, request: &MintRequest) -> Result<Asked> {
        let (key, owner) = (request.key.clone(), request.owner.clone());
        let note = Note { key, owner, since: Clock::system().now(), ark: None };
        let at = path::join(&self.dir, &format!("{ASKED}{}", uuid::Uuid::new_v4().simple()));
        let first = vec![Op::create(at.as_str(), self.written(&note)?)];
        if let Err(error) = self.commit(&first).await {
            if error.kind() != Kind::NoNode {
                return Err(self.failure(&error));
            }
            let made = settle(&self.session, || self.session.make_dirs(&self.dir)).await.answer;
            made.map_err(|error| self.failure(&error))?;
            self.commit(&first).await.map_err(|error| self.failure(&error))?;
        }
        Ok(Asked { at, note })
    }

    /// The service certainly made none.
    pub(super) async fn none_came(&self, asked: &Asked) -> Result<()> {
        self.commit(&[Op::delete(asked.at.as_str(), None)]).await.map_err(|error| self.failure(&error))
    }

    /// It came.
    pub(super) async fn came(&self, asked: &Asked, ark: &Ark) -> Result<()> {
        let note = Note { ark: Some(ark.clone()), ..asked.note.clone() };
        let ops = [Op::delete(asked.at.as_str(), None), Op::create(self.place(ark), self.written(&note)?)];
        self.commit(&ops).await.map_err(|error| self.failure(&error))
    }

    /// It is public, and nobody has to look after it any more.
    pub(super) async fn published(&self, ark: &Ark) -> Result<()> {
        self.commit(&[Op::delete(self.place(ark), None)]).await.map_err(|error| self.failure(&error))
    }

    pub(super) async fn orphans(&self) -> Result<Vec<Orphan>> {
        let mut found = Vec::new();
        let mut names = self.children(&self.dir).await?;
        names.sort_unstable();
        let mut for_local_ids = None;
        for name in names {
            let at = path::join(&self.dir, &name);
            let Some(data) = self.data(&at).await? else { continue };
            let note: Note = serde_json::from_slice(&data)
                .map_err(|error| Failure::fail(format!("{at} cannot be read: {error}")))?;
            if let Some(ark) = &note.ark {
                if self.has(&note.key, ark).await? {
                    continue;
                }
                if for_local_ids.is_none() {
                    for_local_ids = Some(self.for_local_ids().await?);
                }
                if for_local_ids.as_ref().is_some_and(|arks| arks.contains(ark)) {
                    continue;
                }
            }
            found.push(Orphan { ark: note.ark, key: note.key, since: Some(note.since) });
        }
        Ok(found)
    }

    /// Whether the job that asked for a name has it.
    async fn has(&self, key: &str, ark: &Ark) -> Result<bool> {
        let Some(jid) = key.split('-').next().and_then(|jid| jid.parse::<Jid>().ok()) else {
            return Ok(false);
        };
        let Some(data) = self.data(&JobNode::Identifiers.of(jid)).await? else { return Ok(false) };
        let primary = Identifiers::read(&data).ok().and_then(|identifiers| identifiers.primary_id);
        Ok(primary.and_then(|id| id.parse().ok()).as_ref() == Some(ark))
    }

    /// The names that stand for local ids: other jobs may use them.
    async fn for_local_ids(&self) -> Result<BTreeSet<Ark>> {
        let mut arks = BTreeSet::new();
        for name in self.children(map::LOCAL_IDS).await? {
            let data = self.data(&path::join(map::LOCAL_IDS, &name)).await?;
            let reserved = data.and_then(|data| LocalId::read(&data).ok());
            arks.extend(reserved.and_then(|reserved| reserved.primary_id.parse::<Ark>().ok()));
        }
        Ok(arks)
    }

    fn place(&self, ark: &Ark) -> String {
        path::join(&self.dir, &format!("{CAME}{}", map::escape(&ark.path())))
    }

    fn written(&self, note: &Note) -> Result<Vec<u8>> {
        serde_json::to_vec(note).map_err(|error| Failure::fail(format!("{}: {error}", self.dir)))
    }

    /// Writes or deletes; what is so already, after an answer was lost, is done.
    async fn commit(&self, ops: &[Op]) -> ingest_store::Result<()> {
        let settled = settle(&self.session, || self.session.multi(ops.to_vec())).await;
        match settled.answer {
            Ok(_) => Ok(()),
            Err(error) if error.kind() == Kind::NodeExists && settled.repeated => Ok(()),
            // A note that a person has removed is not missed.
            Err(error) if error.kind() == Kind::NoNode && matches!(ops, [Op::Delete { .. }]) => Ok(()),
            Err(error) if error.kind() == Kind::NoNode && settled.repeated && ops.len() > 1 => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn children(&self, dir: &str) -> Result<Vec<String>> {
        match look(&self.session, || self.session.children(dir)).await {
            Ok((names, _)) => Ok(names),
            Err(error) if error.kind() == Kind::NoNode => Ok(Vec::new()),
            Err(error) => Err(self.failure(&error)),
        }
    }

    async fn data(&self, at: &str) -> Result<Option<bytes::Bytes>> {
        match look(&self.session, || self.session.get(at)).await {
            Ok((data, _)) => Ok(Some(data)),
            Err(error) if error.kind() == Kind::NoNode => Ok(None),
            Err(error) => Err(self.failure(&error)),
        }
    }

    fn failure(&self, error: &ingest_store::Error) -> Failure {
        let why = format!("the notes in {}: {error}", self.dir);
        match error.next() {
            Next::Rebuild | Next::StopNode => Failure::Lost(why),
            Next::GiveUp => Failure::Fail(why),
            Next::ReadAgain | Next::FindOut | Next::RetryLater => Failure::Again(why),
        }
    }
}
