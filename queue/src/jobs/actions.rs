//! What is done to a job that nobody works on: by a person, the queue, the timekeeper, the janitor.
//!
//! The lock is taken within the multi: if a worker has it, the action is refused as busy. With force
//! the lock is taken away and the status bumped in the same multi: the worker's next commit is
//! refused.

use futures::stream::{self, StreamExt, TryStreamExt};
use ingest_store::{Kind, Op, path};

use crate::error::{Error, Result};
use crate::ids::{Bid, Jid};
use crate::map::{self, BatchNode, JobNode};
use crate::nodes::{BatchStatus, Identifiers, LocalId, Node, Schedule};
use crate::plan::batch::{self, Shut};
use crate::plan::job::{self, Action, Job};
use crate::plan::{Lock, Plan, Scene};
use crate::queue::Queue;
use crate::states::{BatchList, JobState};

/// How often a thing is looked at again because it was changed meanwhile.
const TRIES: usize = 20;

/// What is to be done.
#[derive(Debug, Clone, Copy)]
struct Asked<'a> {
    action: &'a Action,
    message: &'a str,
    force: bool,
    /// The version of the status that it is about.
    at: Option<i32>,
}

/// What an action did.
#[derive(Debug, Clone, PartialEq)]
pub struct Acted {
    pub from: JobState,
    /// `None`: it is gone.
    pub to: Option<JobState>,
    /// What whoever asked should know.
    pub warning: Option<&'static str>,
}

impl Queue {
    /// Does something to a job. `message` says who and why.
    pub async fn act(&self, jid: Jid, action: &Action, message: &str, force: bool) -> Result<Acted> {
        let asked = Asked { action, message, force, at: None };
        self.act_as(jid, &asked, self.scene()).await
    }

    /// The same, at a version of the status: if the job has moved on, it was about something else.
    pub(crate) async fn act_at(
        &self,
        jid: Jid,
        action: &Action,
        message: &str,
        version: i32,
    ) -> Result<Acted> {
        let asked = Asked { action, message, force: false, at: Some(version) };
        self.act_as(jid, &asked, self.scene()).await
    }

    /// The same with a commit id of the caller's: if that commit is in the job's history, it is done already.
    pub async fn act_once(
        &self,
        jid: Jid,
        action: &Action,
        message: &str,
        force: bool,
        commit: String,
    ) -> Result<Acted> {
        let asked = Asked { action, message, force, at: None };
        self.act_as(jid, &asked, self.scene_of(commit)).await
    }

    async fn act_as(&self, jid: Jid, asked: &Asked<'_>, scene: Scene) -> Result<Acted> {
        let Asked { action, force, at, .. } = *asked;
        let mut lock = Lock::Within;
        let mut last = Error::changed(jid, "");
        for attempt in 0..TRIES {
            let job = self.job(jid).await?;
            let from = job.state();
            if job.history.as_ref().is_some_and(|history| history.has_commit(&scene.commit)) {
                return Ok(Acted { from, to: Some(from), warning: None });
            }
            if at.is_some_and(|version| version != job.version) {
                return Err(Error::changed(jid, "it has moved on"));
            }
            let plan = self.plan_action(&job, asked, lock, attempt > 0, &scene).await?;
            let error = match self.commit_job(jid, &plan).await {
                Ok(()) => {
                    let counts = self.committer.counts();
                    match plan.after {
                        Some(to) if to != from => counts.moved(from, to),
                        None if action.deletes() => counts.moved(from, JobState::Deleted),
                        // Another priority, or out of the queue.
                        _ => {}
                    }
                    let warning = (*action == Action::Delete).then_some("the depositor will not be told");
                    return Ok(Acted { from, to: plan.after, warning });
                }
                Err(error) => error,
            };
            match &error {
                // Changed by another: look again.
                Error::Store(store) if store.failed_op().is_some() => {
                    lock = self.lock_after(store, jid, &JobNode::Lock.of(jid), lock, force).await?;
                }
                Error::Lost { .. } | Error::Changed { .. } => {}
                _ => return Err(error),
            }
            last = error;
        }
        Err(Error::changed(jid, format!("{TRIES} times in a row; the last time: {last}")))
    }

    async fn plan_action(
        &self,
        job: &Job,
        asked: &Asked<'_>,
        lock: Lock,
        thorough: bool,
        scene: &Scene,
    ) -> Result<Plan<Option<JobState>>> {
        let Asked { action, message, .. } = *asked;
        let jid = job.jid;
        let refused = |refused| Error::refused(jid, refused);
        let to = job::target(job, action, scene.dialect).map_err(refused)?;
        let checks = self.checks_of_action(job, action).await?;
        if action.deletes() {
            let below = self.below(&map::job(jid), thorough).await?;
            let more = self.belongings(jid).await?;
            // An orphan has no batch that could name it.
            let list = match self.exists(map::batch(job.bid)).await? {
                None => None,
                Some(_) if *action == Action::Expire => {
                    Some((BatchList::Deleted, Box::pin(self.obituary(job, message)).await?))
                }
                Some(_) => Some((BatchList::Deleted, bytes::Bytes::new())),
            };
            let plan = job::delete(job, &below, lock, list, &checks, &more, scene);
            return Ok(Plan { ops: plan.ops, mark: plan.mark, after: None });
        }
        let mut plan = job::act(job, action, message, lock, &checks, scene).map_err(refused)?;
        if matches!(action, Action::Requeue(_)) {
            plan.ops.extend(self.forgive(jid).await?);
        }
        if *action == Action::Poison {
            plan.ops.push(self.alert_of_job(job, message, scene));
        }
        Ok(Plan { ops: plan.ops, mark: plan.mark, after: to })
    }

    /// What an action rests on besides the job.
    async fn checks_of_action(&self, job: &Job, action: &Action) -> Result<Vec<Op>> {
        let mut checks = Vec::new();
        if matches!(action, Action::Requeue(_)) && !job.status.recoverable {
            let why = format!("it cannot be recovered ({}); submit it again", job.status.message);
            return Err(Error::forbidden(job.jid, why));
        }
        if action.concerns_the_batch() {
            checks.extend(self.batch_is_open(job.bid, action).await?);
        }
        if matches!(action, Action::Release | Action::HoldForCollection) {
            let collection = self.configuration(job.jid).await?.collection().to_owned();
            let holds = self.holds_where(job.jid, &collection, *action == Action::HoldForCollection).await?;
            checks.push(holds.collection_check());
        }
        Ok(checks)
    }

    /// The batch at the version that was read, if it takes changes to its jobs now.
    async fn batch_is_open(&self, bid: Bid, action: &Action) -> Result<Option<Op>> {
        let found = self.find::<BatchStatus>(BatchNode::Status.of(bid)).await?;
        let found = found.map(|(status, stat)| (status.status, stat.version));
        let deleting = found.is_some() && self.exists(BatchNode::Deleting.of(bid)).await?.is_some();
        batch::open_for(action, bid, found, deleting).map_err(|shut| match shut {
            Shut::NoBatch => Error::no_batch(bid),
            Shut::Deleting => Error::Deleting(bid),
            Shut::Reporting(state) => {
                Error::forbidden(bid, format!("it is {state}; try again when its report is sent"))
            }
        })
    }

    /// A person has looked at it: its crashes are forgotten.
    async fn forgive(&self, jid: Jid) -> Result<Option<Op>> {
        let path = JobNode::Schedule.of(jid);
        let found = self.find::<Schedule>(path.clone()).await?;
        Ok(found.filter(|(schedule, _)| schedule.timeout_count > 0).map(|(schedule, stat)| {
            let forgiven = Schedule { timeout_count: 0, ..schedule };
            Op::set(path, forgiven.write(self.dialect()), stat.version)
        }))
    }

    /// Everything below a path, deepest first. Nodes of the map that hold data have no children, and are
    /// not asked for any: unless this is `thorough`, because something was in the way.
    pub(crate) async fn below(&self, top: &str, thorough: bool) -> Result<Vec<String>> {
        let is_leaf =
            |path: &String| !thorough && JobNode::ALL.iter().any(|node| node.name() == path::name(path));
        let mut found = Vec::new();
        let mut dirs = vec![top.to_owned()];
        while let Some(dir) = dirs.pop() {
            let names = match self.children(&dir).await {
                Ok(answer) => answer,
                Err(error) if error.kind() == Kind::NoNode => continue,
                Err(error) => return Err(error.into()),
            };
            let paths = names.iter().map(|name| path::join(&dir, name));
            let (leaves, paths): (Vec<_>, Vec<_>) = paths.partition(is_leaf);
            found.extend(leaves);
            let sizes = stream::iter(paths)
                .map(|path| async move { Ok::<_, Error>((self.exists(&path).await?, path)) })
                .buffered(16);
            let listed: Vec<_> = sizes.try_collect().await?;
            for (stat, path) in listed {
                if stat.is_some_and(|stat| stat.num_children > 0) {
                    dirs.push(path.clone());
                }
                found.push(path);
            }
        }
        found.reverse();
        Ok(found)
    }

    /// What a job has elsewhere in the tree, besides its dates: the local ids reserved for it.
    pub(crate) async fn belongings(&self, jid: Jid) -> Result<Vec<Op>> {
        let mut ops = Vec::new();
        let identifiers = self.readable::<Identifiers>(jid, JobNode::Identifiers).await?;
        let Some(identifiers) = identifiers else {
            return Ok(ops);
        };
        // Without an owner none was ever claimed.
        let owner = identifiers.owner().unwrap_or_default().to_owned();
        let local_ids = if owner.is_empty() { Vec::new() } else { identifiers.local_id };
        for id in local_ids {
            let path = map::local_id(&owner, &id);
            match self.find::<LocalId>(path.clone()).await {
                Ok(Some((reserved, stat))) if reserved.is_held_by(jid) => {
                    ops.push(given_up(path, &reserved, jid, stat.version, self.dialect()));
                }
                Ok(_) | Err(Error::Corrupt { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(ops)
    }

    /// A node of a job that is about to go: what cannot be read does not keep it.
    async fn readable<N: Node>(&self, jid: Jid, node: JobNode) -> Result<Option<N>> {
        match self.node(jid, node).await {
            Err(Error::Corrupt { .. }) => Ok(None),
            answer => answer,
        }
    }
}

/// A reservation that a job gives up, and the others that have it keep.
pub(crate) fn given_up(
    path: String,
    reserved: &LocalId,
    jid: Jid,
    version: i32,
    dialect: crate::dialect::Dialect,
) -> Op {
    match reserved.without(jid) {
        Some(rest) => Op::set(path, rest.write(dialect), version),
        None => Op::delete(path, version),
    }
}

/// Who did it and why, for a status and a history.
pub fn signed(who: &str, why: &str) -> String {
    if why.is_empty() { format!("by {who}") } else { format!("by {who}: {why}") }
}
