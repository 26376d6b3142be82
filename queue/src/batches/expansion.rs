//! From the rows of a manifest to jobs.
//!
//! Each chunk of jobs is made in one multi together with the cursor, at the cursor's version: killed
//! anywhere, an expansion goes on at the first row that has no job, and ends with exactly one job per
//! row. The jobs get their numbers at the store's counter, contiguous, and nobody else gets them.
//!
//! A manifest may be larger than memory: it is frozen from a stream and read back into one, and its digest is
//! computed on the way.

use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};

use ingest_store::recipes::shard::{self, Prepared};
use ingest_store::{Kind, Op};
use sha2::{Digest, Sha256};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::lease::{BatchLease, misfit};
use crate::committer::{MAX_OPS, Mark, Unit, commit_alone};
use crate::error::{Error, Result};
use crate::ids::Bid;
use crate::journal::{KeyMove, is_about_keys};
use crate::map::{self, BatchNode};
use crate::nodes::{Expansion, FrozenProfile, Node};
use crate::numbers::ahead;
use crate::plan::Lock;
use crate::plan::batch;
use crate::plan::job::NewJob;
use crate::queue::Queue;
use crate::states::{BatchList, BatchState, JobState, Who};

/// How far an expansion came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expanded {
    /// All rows that were given have jobs; the cursor is at this row.
    To(u64),
    /// The lists hold as many refs as the dialect allows. Go on from this row when some are gone.
    Full(u64),
}

/// Kept in a batch's status: it was held once because its profile says so, and is not again.
pub(crate) const HELD_BY_PROFILE: &str = "held_by_profile";

impl Queue {
    /// Begins an expansion, or goes on with one: the row to go on from. The manifest, which has `total`
    /// rows and was validated whole, is frozen in the tree in the same step; only the same one goes on.
    pub async fn begin_expansion(&self, lease: &mut BatchLease, manifest: &[u8], total: u64) -> Result<u64> {
        some_rows(lease.bid(), total)?;
        if let Some(expansion) = self.expansion(lease.bid()).await? {
            let digest = hex(&Sha256::digest(manifest));
            return same(lease.bid(), &expansion, &digest, total);
        }
        self.freeze(lease, manifest, total).await
    }

    /// The same with a manifest that is a file, and is never in memory as a whole.
    pub async fn begin_expansion_from(
        &self,
        lease: &mut BatchLease,
        manifest: &Path,
        total: u64,
    ) -> Result<u64> {
        some_rows(lease.bid(), total)?;
        let unreadable = |error: std::io::Error| {
            let why = format!("{} cannot be read: {error}", manifest.display());
            Error::Store(ingest_store::Error::new(Kind::Disk, why))
        };
        let mut file = tokio::fs::File::open(manifest).await.map_err(unreadable)?;
        if let Some(expansion) = self.expansion(lease.bid()).await? {
            let mut hashing = Hashing::new(&mut file);
            tokio::io::copy(&mut hashing, &mut tokio::io::sink()).await.map_err(unreadable)?;
            return same(lease.bid(), &expansion, &hashing.digest(), total);
        }
        self.freeze(lease, file, total).await
    }

    /// Writes the manifest and begins the expansion with it.
    async fn freeze(
        &self,
        lease: &mut BatchLease,
        manifest: impl AsyncRead + Unpin,
        total: u64,
    ) -> Result<u64> {
        let bid = lease.bid();
        if lease.collections.is_empty() {
            lease.collections.push(self.submission(bid).await?.collection().to_owned());
        }
        // What is held is not written first.
        self.not_held(lease).await?;
        let path = BatchNode::Manifest.of(bid);
        let mut hashing = Hashing::new(manifest);
        let prepared = shard::prepare_from(&self.session, &path, &mut hashing).await?;
        let expansion = Expansion { digest: hashing.digest(), total, ..Expansion::default() };
        loop {
            match self.announce(lease, &prepared, &expansion).await {
                Err(Error::Store(error)) if crate::jobs::is_about_holds(&error) => self.forget_holds(),
                // Another submission with the same key has come meanwhile, or one has ended.
                Err(Error::Store(error)) if is_about_keys(&error) => {}
                answer => return answer.map(|()| 0),
            }
        }
    }

    /// Which of these collections is held, and why: those of a batch that is to be expanded. That none is rests on what
    /// this node knows of the holds, and is checked with the beginning of the expansion.
    pub async fn held_among(
        &self,
        lease: &mut BatchLease,
        collections: &[&str],
    ) -> Result<Option<(String, String)>> {
        lease.collections = collections.iter().map(|&name| name.to_owned()).collect();
        Ok(self.first_held(&lease.collections).await?.1)
    }

    /// The holds, if none of them keeps the batch waiting.
    async fn not_held(&self, lease: &BatchLease) -> Result<std::sync::Arc<crate::holds::Holds>> {
        match self.first_held(&lease.collections).await? {
            (holds, None) => Ok(holds),
            (_, Some((collection, why))) => {
                let why = format!("its collection {collection} is held {why}; release that first");
                Err(Error::forbidden(lease.bid(), why))
            }
        }
    }

    async fn announce(
        &self,
        lease: &mut BatchLease,
        prepared: &Prepared,
        expansion: &Expansion,
    ) -> Result<()> {
        let (bid, scene) = (lease.bid(), self.scene());
        let holds = self.not_held(lease).await?;
        let path = BatchNode::Manifest.of(bid);
        let frozen = match self.exists(&path).await? {
            Some(stat) => prepared.op(path, stat.version),
            None => Op::create(path, prepared.announcement()),
        };
        let node = Op::create(BatchNode::Expansion.of(bid), expansion.write(scene.dialect));
        let mut more = vec![node, frozen, holds.collection_check()];
        more.extend(self.key_ops(&lease.batch, KeyMove::Begins, &scene).await?);
        let to = BatchState::Processing;
        let plan = batch::advance(&lease.batch, to, Who::Queue, "", Lock::Keep, &more, &scene)
            .map_err(|refused| Error::refused(bid, refused))?;
        self.commit_batch(lease, plan, Lock::Keep).await
    }

    /// Keeps the profile that the batch's jobs are made with. Until the first of them is made, another one
    /// may take its place.
    pub async fn freeze_profile(&self, lease: &BatchLease, profile: &FrozenProfile) -> Result<()> {
        let (bid, path) = (lease.bid(), BatchNode::Profile.of(lease.bid()));
        let data = profile.write(self.dialect());
        let write = match self.get(&path).await {
            Ok((there, _)) if there == data => return Ok(()),
            Ok((_, stat)) => Op::set(path.as_str(), data, stat.version),
            Err(error) if error.kind() == Kind::NoNode => Op::create(path.as_str(), data),
            Err(error) => return Err(error.into()),
        };
        let mark = Mark::holds(path.as_str(), profile.digest.as_str());
        commit_alone(&self.session, Unit::new(vec![lease.token.check(), write], mark))
            .await
            .map_err(|error| misfit(bid, error))
    }

    /// The profile that a batch's jobs were made with, if it was kept and can be read.
    pub async fn frozen_profile(&self, bid: Bid) -> Result<Option<FrozenProfile>> {
        match self.find::<FrozenProfile>(BatchNode::Profile.of(bid)).await {
            Err(Error::Corrupt { path, why }) => {
                tracing::warn!(path, why, "the profile that a batch keeps cannot be read");
                Ok(None)
            }
            found => Ok(found?.map(|(profile, _)| profile)),
        }
    }

    /// The frozen manifest of a batch; `limit` is the most bytes that the caller takes.
    pub async fn manifest(&self, bid: Bid, limit: u64) -> Result<Option<Vec<u8>>> {
        self.sharded(BatchNode::Manifest.of(bid), limit).await
    }

    /// Writes the frozen manifest into `to`; how many bytes it has, or `None` if nothing is frozen. What was
    /// written is whole only if this answers so, and is the manifest that the expansion was begun with.
    pub async fn manifest_to(
        &self,
        bid: Bid,
        limit: u64,
        to: impl AsyncWrite + Unpin,
    ) -> Result<Option<u64>> {
        let path = BatchNode::Manifest.of(bid);
        let mut hashing = Hashing::new(to);
        let size = match shard::read_to(&self.session, &path, limit, &mut hashing).await {
            Ok(Some((size, _))) => size,
            Ok(None) => return Ok(None),
            Err(error) if error.kind() == Kind::NoNode => return Ok(None),
            Err(error) if error.kind() == Kind::Corrupt => return Err(Error::corrupt(path, error)),
            Err(error) => return Err(error.into()),
        };
        let digest = hashing.digest();
        match self.expansion(bid).await? {
            Some(begun) if begun.digest != digest => {
                let why = format!("its digest is {digest}, and {} was frozen", begun.digest);
                Err(Error::corrupt(path, why))
            }
            _ => Ok(Some(size)),
        }
    }

    /// Whether a batch waited in held because of its profile, and was released.
    pub fn was_held_by_profile(lease: &BatchLease) -> bool {
        lease.batch.status.other.contains_key(HELD_BY_PROFILE)
    }

    /// Puts a pending batch into held because its profile wants a person to look first. That happens once:
    /// whoever releases it has looked. Gives the lock back.
    pub async fn hold_for_profile(&self, lease: &mut BatchLease, message: &str) -> Result<()> {
        let mut marked = lease.batch.clone();
        marked.status.other.insert(HELD_BY_PROFILE.into(), true.into());
        let to = BatchState::Held;
        let plan = batch::advance(&marked, to, Who::Queue, message, Lock::GiveBack, &[], &self.scene())
            .map_err(|refused| Error::refused(lease.bid(), refused))?;
        self.commit_batch(lease, plan, Lock::GiveBack).await
    }

    /// Puts a pending batch into held because its collection is. Refused if that is not so any more. Gives the
    /// lock back.
    pub async fn hold_for_collection(&self, lease: &mut BatchLease, collection: &str) -> Result<()> {
        loop {
            let holds = self.holds_where(lease.bid(), collection, true).await?;
            let why = holds.collection(collection).unwrap_or_default();
            let (to, more) = (BatchState::Held, [holds.collection_check()]);
            let message = format!("its collection {collection} is held {why}");
            let plan =
                batch::advance(&lease.batch, to, Who::Queue, &message, Lock::GiveBack, &more, &self.scene())
                    .map_err(|refused| Error::refused(lease.bid(), refused))?;
            match self.commit_batch(lease, plan, Lock::GiveBack).await {
                Err(Error::Store(error)) if crate::jobs::is_about_holds(&error) => self.forget_holds(),
                answer => return answer,
            }
        }
    }

    /// Makes the jobs of the next rows, in as few multis as they fit into. `first` is the row of the
    /// first of them, and must be the cursor's.
    pub async fn expand(&self, lease: &mut BatchLease, first: u64, jobs: &[NewJob]) -> Result<Expanded> {
        let bid = lease.bid();
        let path = BatchNode::Expansion.of(bid);
        let (mut cursor, stat) = self
            .read::<Expansion>(path.clone(), || Error::forbidden(bid, "its expansion has not begun"))
            .await?;
        if cursor.next != first {
            let why = format!("its expansion is at row {}, and not at {first}", cursor.next);
            return Err(Error::changed(bid, why));
        }
        if first + jobs.len() as u64 > cursor.total {
            return Err(Error::Invalid(format!("{bid} has {} rows, and no more", cursor.total)));
        }
        let mut version = stat.version;
        let mut rest = jobs;
        let (mut kept, mut taken) = (None, None);
        while !rest.is_empty() {
            if !self.has_room(lease, rest.len()).await? {
                return Ok(Expanded::Full(cursor.next));
            }
            let turn = match kept.take() {
                Some(turn) => turn,
                None => self.turn_of_jobs().await?,
            };
            let number = turn.number();
            if let Some((_, at)) = taken.take_if(|(same, _)| *same == number) {
                return Err(ahead(at));
            }
            let cursor_at = (&cursor, version);
            let (count, plan) = batch::chunk(
                bid,
                lease.token.check(),
                cursor_at,
                (number, turn.fence()),
                rest,
                &self.scene(),
            );
            match commit_alone(&self.session, plan.unit()).await {
                Ok(()) => {
                    cursor = plan.after;
                    version += 1;
                    rest = &rest[count..];
                    kept = Some(turn.after(count));
                }
                // Somebody else has made jobs meanwhile: at the next numbers, then.
                Err(error) if is_about_numbers(&error) => {
                    let exists = error.kind() == Kind::NodeExists;
                    taken = error.path().filter(|_| exists).map(|at| (number, at.to_owned()));
                }
                Err(error) => return Err(misfit(bid, error)),
            }
        }
        Ok(Expanded::To(cursor.next))
    }

    /// Whether the lists take so many more refs in this dialect.
    async fn has_room(&self, lease: &BatchLease, more: usize) -> Result<bool> {
        let Some(most) = self.dialect().max_refs() else { return Ok(true) };
        let more = more.min(MAX_OPS / 8);
        let lists = [map::queue(JobState::Pending), map::batch_list(lease.bid(), BatchList::Processing)];
        for list in lists {
            let stat = self.exists(&list).await?;
            let there = stat.map_or(0, |stat| usize::try_from(stat.num_children).unwrap_or(0));
            if there + more > most {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// A number that somebody else has taken.
fn is_about_numbers(error: &ingest_store::Error) -> bool {
    match (error.kind(), error.path()) {
        (Kind::BadVersion, Some(map::JOBS)) => true,
        (Kind::NodeExists, Some(path)) => ingest_store::path::parent(path) == map::JOBS,
        _ => false,
    }
}

fn some_rows(bid: Bid, total: u64) -> Result<()> {
    if total > 0 {
        return Ok(());
    }
    Err(Error::Invalid(format!("{bid} has no rows: there is nothing to expand, and it fails")))
}

/// Where an expansion goes on that was begun with this manifest.
fn same(bid: Bid, begun: &Expansion, digest: &str, total: u64) -> Result<u64> {
    if begun.digest == digest && begun.total == total {
        return Ok(begun.next);
    }
    let why = format!(
        "it was begun with a manifest of {} rows and digest {}, and cannot go on with another",
        begun.total, begun.digest
    );
    Err(Error::forbidden(bid, why))
}

fn hex(digest: &[u8]) -> String {
    use std::fmt::Write;
    digest.iter().fold(String::new(), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// A stream, in or out, whose digest is computed as it goes by.
struct Hashing<S> {
    stream: S,
    hasher: Sha256,
}

impl<S> Hashing<S> {
    fn new(stream: S) -> Self {
        Self { stream, hasher: Sha256::new() }
    }

    fn digest(self) -> String {
        hex(&self.hasher.finalize())
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Hashing<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        let answer = Pin::new(&mut this.stream).poll_read(context, buffer);
        if matches!(answer, Poll::Ready(Ok(()))) {
            this.hasher.update(&buffer.filled()[before..]);
        }
        answer
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Hashing<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        let this = self.get_mut();
        let answer = Pin::new(&mut this.stream).poll_write(context, data);
        if let Poll::Ready(Ok(count)) = &answer {
            this.hasher.update(&data[..*count]);
        }
        answer
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}
