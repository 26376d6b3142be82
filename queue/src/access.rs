//! The access queue: objects that somebody wants to have assembled and delivered, small and large.
//!
//! An item is a token (what, where) and a status; its fence is the version of the status, and every
//! move is one multi under its lock, as with jobs. Items are taken in the order of their ids; a failed one
//! that is tried again comes with its old id.
//!
//! **When things break.** As with jobs: a lost answer is settled by the commit id in the status, a spent
//! lease is refused.

use futures::stream::{self, StreamExt, TryStreamExt};
use ingest_store::recipes::lock_table::{Claim, Released, Token};
use ingest_store::{Kind, Op, path};

use crate::committer::{Mark, Unit, commit_alone};
use crate::error::{Error, Result};
use crate::ids::Aid;
use crate::map::AccessSize;
use crate::nodes::{AccessStatus, AccessToken, Node, Owner};
use crate::plan::Scene;
use crate::queue::Queue;
use crate::states::{AccessState, States, Who, Why};

/// Items read at a time.
const AT_ONCE: usize = 32;
const TRIES: usize = 20;

/// An access item as it was read.
#[derive(Debug, Clone, PartialEq)]
pub struct AccessItem {
    pub size: AccessSize,
    pub aid: Aid,
    pub status: AccessStatus,
    /// Of the status: the fence.
    pub version: i32,
}

/// The right to work on an item.
#[derive(Debug)]
pub struct AccessLease {
    item: AccessItem,
    token: Token,
}

impl AccessLease {
    pub fn item(&self) -> &AccessItem {
        &self.item
    }
}

impl AccessItem {
    fn what(&self) -> String {
        format!("{} access item {}", self.size.name(), self.aid)
    }
}

impl Queue {
    /// Adds an item.
    pub async fn create_access(&self, size: AccessSize, token: &AccessToken) -> Result<Aid> {
        let scene = self.scene();
        let mut refused_at = None;
        loop {
            let (number, fence) = self.next_number(&size.dir()).await?;
            let aid = Aid::new(number);
            if refused_at == Some(aid) {
                return Err(crate::numbers::ahead(size.item(aid)));
            }
            let status = AccessStatus::new(AccessState::Pending, scene.now);
            let status = status.next(AccessState::Pending, scene.now, "", &scene.commit);
            let ops = vec![
                Op::create(size.item(aid), ""),
                Op::create(size.token(aid), token.write(scene.dialect)),
                Op::create(size.status(aid), status.write(scene.dialect)),
                fence,
            ];
            let mark = Mark::holds(size.status(aid), scene.commit.as_str());
            match commit_alone(&self.session, Unit::new(ops, mark)).await {
                Ok(()) => return Ok(aid),
                Err(error) if matches!(error.kind(), Kind::NodeExists | Kind::BadVersion) => {
                    refused_at = (error.path() == Some(size.item(aid).as_str())).then_some(aid);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    pub async fn access_item(&self, size: AccessSize, aid: Aid) -> Result<AccessItem> {
        let missing = || Error::NotFound(format!("{} access item {aid}", size.name()));
        let (status, stat) = self.read::<AccessStatus>(size.status(aid), missing).await?;
        Ok(AccessItem { size, aid, status, version: stat.version })
    }

    pub async fn access_token(&self, size: AccessSize, aid: Aid) -> Result<AccessToken> {
        let missing = || Error::NotFound(format!("{} access item {aid}", size.name()));
        Ok(self.read(size.token(aid), missing).await?.0)
    }

    /// The items of a queue in the order of their ids. One that cannot be read is left out, with a
    /// warning.
    pub async fn access_items(&self, size: AccessSize) -> Result<Vec<AccessItem>> {
        let names = self.children(size.dir()).await?;
        let mut aids: Vec<Aid> = names.iter().filter_map(|name| name.parse().ok()).collect();
        aids.sort_unstable();
        let items: Vec<Option<AccessItem>> = stream::iter(aids)
            .map(|aid| async move {
                match self.access_item(size, aid).await {
                    Ok(item) => Ok(Some(item)),
                    Err(Error::NotFound(_)) => Ok(None),
                    Err(error @ Error::Corrupt { .. }) => {
                        tracing::warn!(%aid, %error, "an access item is left out");
                        Ok(None)
                    }
                    Err(error) => Err(error),
                }
            })
            .buffered(AT_ONCE)
            .try_collect()
            .await?;
        Ok(items.into_iter().flatten().collect())
    }

    /// Takes the first item that waits, or that was processed by somebody who is gone. `None`: there is
    /// none, or the queue is held.
    pub async fn acquire_access(&self, size: AccessSize, holder: &str) -> Result<Option<AccessLease>> {
        if self.holds_of(size.hold()).await?.1.is_some() {
            return Ok(None);
        }
        for item in self.access_items(size).await? {
            let waits = matches!(item.status.status, AccessState::Pending | AccessState::Processing);
            if !waits || self.exists(size.lock(item.aid)).await?.is_some() {
                continue;
            }
            match self.take_access(item, holder).await {
                Ok(answer) => return Ok(answer),
                // Somebody else was faster.
                Err(Error::Busy { .. } | Error::Lost { .. } | Error::Changed { .. } | Error::NotFound(_)) => {
                }
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// The item is done, or cannot be done.
    pub async fn finish_access(&self, lease: &mut AccessLease, to: AccessState, message: &str) -> Result<()> {
        let item = &lease.item;
        item.status
            .status
            .may_go(to, Who::Worker, self.dialect())
            .map_err(|refused| Error::refused(item.what(), refused))?;
        let scene = self.scene();
        let status = item.status.next(to, scene.now, message, &scene.commit);
        let ops =
            vec![lease.token.set(status.write(scene.dialect)), Op::delete(item.size.lock(item.aid), None)];
        self.commit_access(item, ops, &scene).await?;
        self.locks.gone(&lease.token);
        lease.item.version += 1;
        lease.item.status = status;
        Ok(())
    }

    /// Rewrites the token of an item: its url, say, once it is known.
    pub async fn write_access_token(&self, lease: &mut AccessLease, token: &AccessToken) -> Result<()> {
        let item = &lease.item;
        let data = token.write(self.dialect());
        let ops = vec![lease.token.check(), Op::set(item.size.token(item.aid), data, None)];
        let settled = ingest_store::recipes::settle(&self.session, || self.session.multi(ops.clone())).await;
        settled.answer.map(|_| ()).map_err(|error| misfit(item, error))
    }

    /// Gives an item back as it was.
    pub async fn give_back_access(&self, lease: &mut AccessLease) -> Result<()> {
        match self.locks.release(&lease.token, None).await? {
            Released::Now => Ok(()),
            Released::Before => Err(Error::lost(lease.item.what(), "its status has moved on")),
        }
    }

    /// Tries a failed item again.
    pub async fn requeue_access(&self, size: AccessSize, aid: Aid, message: &str) -> Result<()> {
        self.act_on_access(size, aid, Who::Admin, Why::Requeue, message).await
    }

    /// Deletes a failed item.
    pub async fn delete_access(&self, size: AccessSize, aid: Aid) -> Result<()> {
        self.act_on_access(size, aid, Who::Admin, Why::Delete, "").await
    }

    /// Cleans up a completed item.
    pub async fn clean_access(&self, size: AccessSize, aid: Aid) -> Result<()> {
        self.act_on_access(size, aid, Who::Janitor, Why::Clean, "").await
    }

    /// `None`: the queue is held.
    async fn take_access(&self, item: AccessItem, holder: &str) -> Result<Option<AccessLease>> {
        let (size, aid) = (item.size, item.aid);
        let (holds, None) = self.holds_of(size.hold()).await? else { return Ok(None) };
        let scene = self.scene();
        let status = item.status.next(AccessState::Processing, scene.now, "", &scene.commit);
        let claim = Claim {
            lock: size.lock(aid),
            owner: self.owner(0, &scene),
            fence: size.status(aid),
            version: item.version,
            data: status.write(scene.dialect),
            more: vec![holds.queue_check()],
            holder: holder.to_owned(),
        };
        let mark = Mark::holds(claim.fence.as_str(), scene.commit.as_str());
        let commit = async |ops| commit_alone(&self.session, Unit::new(ops, mark)).await;
        match self.locks.acquire_by(claim, commit).await {
            Ok(token) => {
                let item = AccessItem { status, version: token.version(), ..item };
                Ok(Some(AccessLease { item, token }))
            }
            Err(error) if error.kind() == Kind::NodeExists => {
                Err(self.busy(item.what(), &size.lock(aid)).await?)
            }
            Err(error) => {
                if crate::jobs::is_about_holds(&error) {
                    self.forget_holds();
                    return Box::pin(self.take_access(item, holder)).await;
                }
                Err(misfit(&item, error))
            }
        }
    }

    async fn act_on_access(
        &self,
        size: AccessSize,
        aid: Aid,
        by: Who,
        why: Why,
        message: &str,
    ) -> Result<()> {
        let scene = self.scene();
        let mut last = Error::changed(aid, "");
        for _ in 0..TRIES {
            let item = match self.access_item(size, aid).await {
                // By an earlier try of ours, whose answer was lost, or by another: it is gone.
                Err(Error::NotFound(_)) if last.kind().is_some() && why != Why::Requeue => return Ok(()),
                answer => answer?,
            };
            item.status
                .status
                .may(why, by, scene.dialect)
                .map_err(|refused| Error::refused(item.what(), refused))?;
            let lock = size.lock(aid);
            let owner = Owner { node: scene.node.clone(), since: Some(scene.now), ..Owner::default() };
            let mut ops = vec![Op::ephemeral(lock.as_str(), owner.write(scene.dialect))];
            if why == Why::Requeue {
                // Processing without a lock: it waits for whoever takes it next.
                let status = item.status.next(AccessState::Processing, scene.now, message, &scene.commit);
                ops.push(Op::set(size.status(aid), status.write(scene.dialect), item.version));
                ops.push(Op::delete(lock.as_str(), None));
            } else {
                ops.push(Op::delete(size.status(aid), item.version));
                ops.push(Op::delete(lock.as_str(), None));
                let below = self.below(&size.item(aid), true).await?;
                let rest = below.into_iter().filter(|at| *at != size.status(aid) && *at != lock);
                ops.extend(rest.map(|at| Op::delete(at, None)));
                ops.push(Op::delete(size.item(aid), None));
            }
            match self.commit_access(&item, ops, &scene).await {
                Ok(()) => return Ok(()),
                Err(Error::Store(error))
                    if error.failed_op() == Some(0) && error.kind() == Kind::NodeExists =>
                {
                    if let busy @ Error::Busy { .. } = self.busy(item.what(), &lock).await? {
                        return Err(busy);
                    }
                }
                Err(error @ Error::Lost { .. }) => last = error,
                Err(Error::Store(error)) if error.failed_op().is_some() => last = error.into(),
                Err(error) => return Err(error),
            }
        }
        Err(Error::changed(aid, format!("{TRIES} times in a row; the last time: {last}")))
    }

    async fn commit_access(&self, item: &AccessItem, ops: Vec<Op>, scene: &Scene) -> Result<()> {
        let status = item.size.status(item.aid);
        let deletes = ops.iter().any(|op| matches!(op, Op::Delete { path, .. } if *path == status));
        let mark = if deletes { Mark::Gone(status) } else { Mark::holds(status, scene.commit.as_str()) };
        commit_alone(&self.session, Unit::new(ops, mark)).await.map_err(|error| misfit(item, error))
    }
}

fn misfit(item: &AccessItem, error: ingest_store::Error) -> Error {
    let status = item.size.status(item.aid);
    let at_fence = error.path() == Some(status.as_str());
    let gone = path::parent(&status);
    match error.kind() {
        Kind::BadVersion if at_fence => Error::lost(item.what(), "its status has moved on"),
        Kind::NoNode if at_fence || error.path() == Some(gone) => Error::lost(item.what(), "it was deleted"),
        _ => error.into(),
    }
}
