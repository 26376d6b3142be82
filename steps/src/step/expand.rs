//! From a submission to jobs: what a pending batch becomes.
//!
//! The payload is one object (a file, a container, an object manifest) or a manifest with an object in each row.
//! A manifest is fetched to the disk, checked whole, frozen in the tree, and then read row by row: it is never
//! in memory as a whole. What is frozen is the manifest's own bytes, or, for what is no batch manifest, a list
//! of rows (see `frozen`). Values of its rows that are not kept are noted in the batch with the beginning of its
//! expansion, and told in its report.
//!
//! Answers [`Expansion`]. After [`Expansion::Held`] and [`Expansion::Failed`] the lease is given back; after
//! the others, and after a [`Failure`], it is the caller's.
//!
//! **When things break.** Before anything is frozen a second run starts over; after that it reads what is
//! frozen, never the URL again, and goes on at the first row that has no job. A payload that cannot be had or
//! is wrong fails the batch, with every reason. A disk of this node that is full, or a profile that this node
//! does not have, leaves the batch as it is, with a note: that is [`Failure::Later`].

mod frozen;
pub(super) mod gather;
mod jobs;
pub(super) mod rows;

use std::path::{Path, PathBuf};

use ingest_queue::batches::{BatchLease, Expanded};
use ingest_queue::nodes::Submission;
use ingest_queue::queue::Queue;
use ingest_queue::states::BatchState;

use self::gather::Gathered;
use self::jobs::Maker;
use crate::outcome::{Cancel, Failure, Progress, Result};
use crate::profile::Profile;
use crate::services::{Services, blocking};
use crate::upload_nodes;

/// The manifest, in the directory of its batch.
pub(super) const MANIFEST: &str = "manifest";
/// The most characters of a reason.
const LONGEST_REASON: usize = 16 << 10;

/// What became of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expansion {
    /// Every row has its job.
    Done { jobs: u64 },
    /// The lists are full for now: rows from this one on wait.
    Full { next: u64 },
    /// A person has to release it first.
    Held(String),
    /// It cannot be expanded; its report waits in the outbox.
    Failed(String),
}

/// How many rows lie in a list of rows that was frozen in the tree; an error if it cannot be read.
pub fn frozen_rows(bytes: &[u8]) -> Result<usize> {
    frozen::read(bytes).map(|rows| rows.len())
}

/// Expands a batch that is pending, or goes on with one whose expansion has begun.
pub async fn run(
    queue: &Queue,
    lease: &mut BatchLease,
    services: &Services,
    progress: &Progress,
    cancel: &Cancel,
) -> Result<Expansion> {
    let bid = lease.bid();
    let dir = services.work.batch(bid);
    let submission = queue.submission(bid).await?;
    let begun = lease.batch().state() == BatchState::Processing;
    let frozen = if begun { queue.frozen_profile(bid).await? } else { None };
    let of_now = || services.profile(&submission.profile_name);
    let kept = frozen.as_ref().map(|frozen| Profile::thaw(frozen).map_err(Failure::fail));
    let profile = match kept.unwrap_or_else(of_now) {
        Ok(profile) => profile,
        // Nothing is wrong with the submission: it was accepted with this profile.
        Err(failure) => return Err(put_off(queue, lease, failure).await),
    };
    let scene = Scene { queue, services, submission: &submission, profile: &profile, progress, cancel };
    let manifest = Manifest { path: dir.join(MANIFEST), dir };
    let answer = match lease.batch().state() {
        BatchState::Pending => scene.begin(lease, &manifest).await,
        BatchState::Processing => scene.go_on(lease, &manifest).await,
        state => Err(Failure::fail(format!("{bid} is {state}, and is not expanded"))),
    };
    manifest.remove(matches!(answer, Ok(Expansion::Failed(_)))).await;
    answer
}

/// The manifest on the disk of this node.
struct Manifest {
    dir: PathBuf,
    path: PathBuf,
}

impl Manifest {
    async fn make_dir(&self) -> Result<()> {
        let dir = self.dir.clone();
        blocking("a directory", move || {
            std::fs::create_dir_all(&dir).map_err(|error| crate::archive::disk(&dir, &error))
        })
        .await
    }

    /// It is of no use after an expansion: another run reads it from where it is frozen. The batch's
    /// directory goes with it if nothing else is in there, or if there is nothing to go on with.
    async fn remove(&self, all: bool) {
        let _ = tokio::fs::remove_file(&self.path).await;
        let _ = if all {
            tokio::fs::remove_dir_all(&self.dir).await
        } else {
            tokio::fs::remove_dir(&self.dir).await
        };
    }
}

/// What an expansion works with.
struct Scene<'a> {
    queue: &'a Queue,
    services: &'a Services,
    submission: &'a Submission,
    profile: &'a Profile,
    progress: &'a Progress,
    cancel: &'a Cancel,
}

impl Scene<'_> {
    async fn begin(&self, lease: &mut BatchLease, manifest: &Manifest) -> Result<Expansion> {
        if let Some(held) = self.hold(lease).await? {
            return Ok(held);
        }
        if let Err(why) = crate::rights::may_use(self.profile, &self.submission.submitter) {
            self.queue.fail_batch(lease, &why).await?;
            return Ok(Expansion::Failed(why));
        }
        let own = self.services.work.node();
        let node = upload_nodes::other_node(&self.submission.other, own);
        let gathered = match self.gather(manifest).await {
            Ok(gathered) => gathered,
            Err(failure @ Failure::Later(_)) if node.is_some_and(|node| is_waiting(&failure, node)) => {
                return Err(put_off(self.queue, lease, failure).await);
            }
            Err(failure @ (Failure::Later(_) | Failure::Fail(_))) if of_our_disk(&failure, manifest) => {
                return Err(put_off(self.queue, lease, failure).await);
            }
            Err(Failure::Later(why)) if node.is_some_and(|_| self.is_about_payload(&why)) => {
                match super::not_answered(self.services, node.unwrap_or_default(), &why) {
                    Ok(waits) => return Err(put_off(self.queue, lease, waits).await),
                    Err(why) => {
                        let why = bounded(why);
                        self.queue.fail_batch(lease, &why).await?;
                        return Ok(Expansion::Failed(why));
                    }
                }
            }
            Err(Failure::Later(why) | Failure::Fail(why) | Failure::Hopeless(why)) => {
                let why = bounded(why);
                self.queue.fail_batch(lease, &why).await?;
                return Ok(Expansion::Failed(why));
            }
            Err(failure) => return Err(failure),
        };
        if self.cancel.is_cancelled() {
            return Err(Failure::Cancelled);
        }
        let version = self.services.profiles.read().version(&self.profile.name);
        let frozen = self.profile.frozen(version).map_err(Failure::fail)?;
        self.queue.freeze_profile(lease, &frozen).await?;
        let (from, total) = match &gathered {
            Gathered::Rows(rows) => {
                let total = rows.len() as u64;
                let bytes = frozen::write(rows)?;
                (self.queue.begin_expansion(lease, &bytes, total).await, total)
            }
            Gathered::Manifest { rows, not_kept } => {
                lease.note_not_kept(not_kept.iter().map(ToString::to_string).collect());
                (self.queue.begin_expansion_from(lease, &manifest.path, *rows).await, *rows)
            }
        };
        let from = match from {
            // Somebody was faster with a hold.
            Err(error @ ingest_queue::error::Error::Forbidden { .. }) => {
                return match self.hold(lease).await? {
                    Some(held) => Ok(held),
                    None => Err(error.into()),
                };
            }
            from => from?,
        };
        self.expand(lease, rows::Source::of(gathered, &manifest.path), from, total).await
    }

    fn is_about_payload(&self, why: &str) -> bool {
        self.submission.payload_url.as_deref().is_some_and(|url| super::is_about(url, why))
    }

    async fn go_on(&self, lease: &mut BatchLease, manifest: &Manifest) -> Result<Expansion> {
        let bid = lease.bid();
        let Some(begun) = self.queue.expansion(bid).await? else {
            return Err(Failure::fail(format!("{bid} is processing, and its expansion has not begun")));
        };
        if begun.done {
            reach(self.progress, begun.total);
            self.progress.announce(begun.total, 0);
            return Ok(Expansion::Done { jobs: begun.total });
        }
        if let Err(failure) = manifest.make_dir().await {
            return Err(put_off(self.queue, lease, failure).await);
        }
        let most = self.services.settings.expanding.max_manifest;
        let broken = |error: std::io::Error| crate::archive::disk(&manifest.path, &error);
        let file = tokio::fs::File::create(&manifest.path).await.map_err(broken)?;
        let mut file = tokio::io::BufWriter::new(file);
        let frozen = tokio::select! {
            biased;
            () = self.cancel.cancelled() => return Err(Failure::Cancelled),
            frozen = self.queue.manifest_to(bid, most.max(1 << 20), &mut file) => frozen,
        };
        if frozen?.is_none() {
            let why = format!("{bid} is not expanded to its end, and its manifest is missing");
            return Err(put_off(self.queue, lease, Failure::fail(why)).await);
        }
        drop(file);
        let source = rows::Source::read(&manifest.path).await?;
        self.expand(lease, source, begun.next, begun.total).await
    }

    /// Why the batch waits in held now, if it does.
    async fn hold(&self, lease: &mut BatchLease) -> Result<Option<Expansion>> {
        let collections = [self.submission.collection(), self.profile.collection.as_str()];
        if let Some((collection, why)) = self.queue.held_among(lease, &collections).await? {
            self.queue.hold_for_collection(lease, &collection).await?;
            return Ok(Some(Expansion::Held(format!("its collection {collection} is held {why}"))));
        }
        if self.profile.hold && !Queue::was_held_by_profile(lease) {
            let why = format!("the profile {} wants a person to release it", self.profile.name);
            self.queue.hold_for_profile(lease, &why).await?;
            return Ok(Some(Expansion::Held(why)));
        }
        Ok(None)
    }

    /// Makes the jobs of the rows from `from` on.
    async fn expand(
        &self,
        lease: &mut BatchLease,
        source: rows::Source,
        from: u64,
        total: u64,
    ) -> Result<Expansion> {
        self.progress.announce(total, 0);
        reach(self.progress, from);
        let frozen = self.queue.frozen_profile(lease.bid()).await?;
        let maker = Maker::new(self.submission, self.profile, frozen.as_ref(), total == 1)?;
        let at_once = self.services.settings.expanding.rows_at_once.max(1);
        let mut chunks = source.chunks(from, at_once, self.cancel);
        let mut next = from;
        while let Some(chunk) = chunks.recv().await {
            let jobs = chunk?.iter().map(|row| maker.job(row)).collect::<Result<Vec<_>>>()?;
            if self.cancel.is_cancelled() {
                return Err(Failure::Cancelled);
            }
            match self.queue.expand(lease, next, &jobs).await? {
                Expanded::To(row) => next = row,
                Expanded::Full(next) => {
                    reach(self.progress, next);
                    return Ok(Expansion::Full { next });
                }
            }
            reach(self.progress, next);
        }
        if next == total {
            return Ok(Expansion::Done { jobs: total });
        }
        if self.cancel.is_cancelled() {
            return Err(Failure::Cancelled);
        }
        let why = format!("the manifest has {next} rows, and {total} were frozen");
        Err(put_off(self.queue, lease, Failure::fail(why)).await)
    }
}

/// Counts rows up to this one.
fn reach(progress: &Progress, rows: u64) {
    while progress.done().0 < rows {
        progress.add_file();
    }
}

/// Leaves the batch as it is, with the reason for people.
async fn put_off(queue: &Queue, lease: &mut BatchLease, failure: Failure) -> Failure {
    let why = bounded(failure.to_string());
    if lease.batch().status.message != why
        && let Err(error) = queue.note_batch(lease, &why).await
    {
        return error.into();
    }
    Failure::Later(why)
}

/// Whether the node that has the upload is waited for.
fn is_waiting(failure: &Failure, node: &str) -> bool {
    *failure == Failure::Later(upload_nodes::waiting_for(node))
}

/// Whether it was this node's own disk: that says nothing about the payload.
fn of_our_disk(failure: &Failure, manifest: &Manifest) -> bool {
    let named = |path: &Path| failure.to_string().contains(&path.display().to_string());
    named(&manifest.dir)
}

/// A reason that fits into the status of a batch.
fn bounded(mut why: String) -> String {
    if why.len() > LONGEST_REASON {
        let end = (0..=LONGEST_REASON).rev().find(|at| why.is_char_boundary(*at)).unwrap_or(0);
        why.truncate(end);
        why.push_str("\nand more");
    }
    why
}
