//! Clean-up: working directories that nobody needs any more are removed.
//!
//! Whoever commits that a job is completed or deleted calls [`job`]; whoever commits that an attempt counts calls
//! [`attempts_before`]. What a crash has left is found by [`leftovers`], which looks at what is on this node's disk
//! and asks the tree about it.
//!
//! What an expansion has left of its manifest, because its node was stopped in the middle and another has gone on, is
//! removed by [`manifest`], when nobody expands that batch any more.
//!
//! Only real directories that are named as this node names them (`BID/JID/ATTEMPT`) are removed, and links are
//! not followed. Every attempt has a directory of its own, and the tree is asked after the disk was listed: a job that is
//! taken meanwhile makes a new directory, which is not on the list; all that it can lose is an old attempt to adopt
//! from, and then it fetches.
//!
//! Whoever waits for room is told of every byte that is freed ([`Services::freed`]).
//!
//! **When things break.** What cannot be removed is logged and left for the next time. What is gone already is no
//! failure. A tree that does not answer ends the walk, and nothing is removed that it was not asked about. A node that
//! cannot be read says nothing about its job or batch: what that has on the disk is logged and stays, for a person to
//! look at, and the walk goes on with the others.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use ingest_queue::error::Error;
use ingest_queue::ids::{Bid, Jid};
use ingest_queue::map::JobNode;
use ingest_queue::nodes::Work;
use ingest_queue::queue::Queue;
use ingest_queue::states::{BatchState, JobState};

use super::expand;
use crate::archive::disk as broken;
use crate::fetch;
use crate::outcome::{Cancel, Failure, Progress, Result};
use crate::services::{Services, blocking};
use crate::work::WorkDir;

/// What was removed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Removed {
    /// Below the working directory, as `BID/JID/ATTEMPT`.
    pub attempts: Vec<String>,
    /// Files that expansions have left of their manifests.
    pub manifests: usize,
    /// Bytes that are free now. A file with another name in an attempt that stays counts nothing.
    pub bytes: u64,
}

impl Removed {
    fn add(&mut self, other: Removed) {
        self.attempts.extend(other.attempts);
        self.manifests += other.manifests;
        self.bytes += other.bytes;
    }
}

/// Removes all directories of a job: it is completed or deleted, and that is committed.
pub async fn job(services: &Services, bid: Bid, jid: Jid) -> Result<Removed> {
    let work = services.work.clone();
    let removing = blocking("cleaning up", move || {
        let removed = remove(&work, bid, jid, |_| true, &Progress::default(), &Cancel::new())?;
        remove_empty(&work.job(bid, jid));
        Ok(removed)
    });
    told(services, removing.await)
}

/// Wakes whoever waits for room, if there is more of it.
fn told(services: &Services, removed: Result<Removed>) -> Result<Removed> {
    if removed.as_ref().is_ok_and(|removed| removed.bytes > 0) {
        services.freed.poke();
    }
    removed
}

/// Removes the directories of the attempts before the one that counts, which is committed.
pub async fn attempts_before(services: &Services, bid: Bid, jid: Jid, counts: u32) -> Result<Removed> {
    let work = services.work.clone();
    let removing = blocking("cleaning up", move || {
        remove(&work, bid, jid, |attempt| attempt.number < counts, &Progress::default(), &Cancel::new())
    });
    told(services, removing.await)
}

/// Removes what no job of the tree needs any more: of jobs that have ended for good at once, of others, and of those
/// that the tree does not have, when it is older than `work.keep_leftovers`.
pub async fn leftovers(
    queue: &Queue,
    services: &Services,
    progress: &Progress,
    cancel: &Cancel,
) -> Result<Removed> {
    let (keep, mut removed) = (services.settings.work.keep_leftovers, Removed::default());
    for bid in listed(services, services.work.root().to_owned(), directories::<Bid>).await? {
        for jid in listed(services, services.work.batch(bid), directories::<Jid>).await? {
            if cancel.is_cancelled() {
                return Err(Failure::Cancelled);
            }
            progress.beat();
            // First the disk, then the tree: an attempt that begins later is not among these.
            let work = services.work.clone();
            let there = blocking("listing attempts", move || attempts(&work, bid, jid)).await?;
            let Some(needed) = unless_corrupt(needed(queue, bid, jid).await)? else { continue };
            let (work, progress, cancel) = (services.work.clone(), progress.clone(), cancel.clone());
            let cleaned = blocking("cleaning up", move || {
                let listed = |attempt: &Attempt| there.iter().any(|there| there.number == attempt.number);
                let goes = |attempt: &Attempt| {
                    listed(attempt)
                        && !needed.attempts.contains(&attempt.number)
                        && (needed.over || attempt.age() >= Some(keep))
                };
                let removed = remove(&work, bid, jid, goes, &progress, &cancel)?;
                if needed.attempts.is_empty() {
                    remove_empty(&work.job(bid, jid));
                }
                Ok(removed)
            });
            removed.add(told(services, cleaned.await)?);
        }
        removed.add(manifest(queue, services, bid).await?.unwrap_or_default());
        // One that is not empty stays, and whoever is about to make a directory in it makes it again.
        let dir = services.work.batch(bid);
        blocking("cleaning up", move || {
            remove_empty(&dir);
            Ok(())
        })
        .await?;
    }
    Ok(removed)
}

/// Removes what an expansion that was stopped here has left of its manifest, if nobody expands that batch any more. Of
/// a batch that the tree does not have, it goes when it is older than `work.keep_leftovers`. `None`: somebody may need
/// it yet. The tree is asked only if there is something on the disk.
pub async fn manifest(queue: &Queue, services: &Services, bid: Bid) -> Result<Option<Removed>> {
    let traces = fetch::traces(&services.work.batch(bid).join(expand::MANIFEST));
    let there = blocking("looking for a manifest", move || {
        Ok(traces.into_iter().filter(|path| fs::symlink_metadata(path).is_ok()).collect::<Vec<_>>())
    });
    let there = there.await?;
    if there.is_empty() {
        return Ok(Some(Removed::default()));
    }
    let Some(keep) = unless_corrupt(goes_after(queue, services, bid).await)? else { return Ok(None) };
    let removing = blocking("cleaning up", move || Ok(remove_files(&there, keep)));
    told(services, removing.await).map(Some)
}

/// How old the manifest of a batch is when nobody needs it; `None`: somebody does.
async fn goes_after(queue: &Queue, services: &Services, bid: Bid) -> Result<Option<Duration>, Error> {
    let state = match queue.batch(bid).await {
        Err(Error::NotFound(_)) => return Ok(Some(services.settings.work.keep_leftovers)),
        batch => batch?.state(),
    };
    Ok(match state {
        BatchState::Pending | BatchState::Held => None,
        // Another node may be at it, on the same disk.
        BatchState::Processing => {
            queue.expansion(bid).await?.filter(|begun| begun.done).map(|_| Duration::ZERO)
        }
        _ => Some(Duration::ZERO),
    })
}

/// What cannot be read says nothing, as if somebody needed it; it is for a person to look at.
fn unless_corrupt<T>(answer: Result<Option<T>, Error>) -> Result<Option<T>> {
    match answer {
        Err(error @ Error::Corrupt { .. }) => {
            tracing::warn!(%error, "it cannot be read, and what is on the disk for it stays");
            Ok(None)
        }
        answer => Ok(answer?),
    }
}

/// The attempts at a job that have to stay.
#[derive(Debug)]
struct Needed {
    attempts: Vec<u32>,
    /// The tree has the job, and it has ended for good.
    over: bool,
}

/// `None`: somebody works on it, and all stays.
async fn needed(queue: &Queue, bid: Bid, jid: Jid) -> Result<Option<Needed>, Error> {
    let none = |over| Some(Needed { attempts: Vec::new(), over });
    let job = match queue.job(jid).await {
        Err(Error::NotFound(_)) => return Ok(none(false)),
        job => job?,
    };
    if queue.session().exists(JobNode::Lock.of(jid)).await?.is_some() {
        return Ok(None);
    }
    let over = matches!(job.state(), JobState::Completed | JobState::Deleted);
    if job.bid != bid || over {
        return Ok(none(over && job.bid == bid));
    }
    let work: Option<Work> = queue.node(jid, JobNode::Work).await?;
    let counts = work.map(|work| work.attempt);
    let attempts = counts.into_iter().chain([job.status.attempt]).collect();
    Ok(Some(Needed { attempts, over: false }))
}

async fn listed<T: Send + 'static>(
    services: &Services,
    dir: PathBuf,
    list: fn(&WorkDir, &Path) -> Result<Vec<T>>,
) -> Result<Vec<T>> {
    let work = services.work.clone();
    blocking("listing directories", move || list(&work, &dir)).await
}

/// The directories whose names are ids, exactly as they are written.
fn directories<Id>(_: &WorkDir, dir: &Path) -> Result<Vec<Id>>
where
    Id: std::str::FromStr + ToString + Ord,
{
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(|error| broken(dir, &error))?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|error| broken(dir, &error))?;
        // A link is no directory here.
        let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let id = entry.file_name().to_str().and_then(|name| {
            let id = name.parse::<Id>().ok()?;
            (id.to_string() == name).then_some(id)
        });
        found.extend(id.filter(|_| is_dir));
    }
    found.sort();
    Ok(found)
}

/// A directory of an attempt, and what is in it.
#[derive(Debug)]
struct Attempt {
    number: u32,
    path: PathBuf,
    bytes: u64,
    newest: Option<SystemTime>,
}

impl Attempt {
    /// How long nothing has changed in it; `None` where the clock says that it is yet to come.
    fn age(&self) -> Option<Duration> {
        SystemTime::now().duration_since(self.newest?).ok()
    }
}

/// The attempts of a job. Blocks.
fn attempts(work: &WorkDir, bid: Bid, jid: Jid) -> Result<Vec<Attempt>> {
    let is_dir = |path: &Path| fs::symlink_metadata(path).is_ok_and(|found| found.is_dir());
    if !is_dir(&work.batch(bid)) || !is_dir(&work.job(bid, jid)) {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    for (number, dir) in work.attempts(bid, jid)? {
        let path = dir.path().to_owned();
        if path == work.attempt(bid, jid, number).path() && is_dir(&path) {
            let (bytes, newest) = measure(&path);
            found.push(Attempt { number, path, bytes, newest });
        }
    }
    Ok(found)
}

/// Bytes that would be free without it, and when something in it changed last.
fn measure(dir: &Path) -> (u64, Option<SystemTime>) {
    use std::os::unix::fs::MetadataExt as _;
    let (mut bytes, mut newest) = (0, None);
    let mut waiting = vec![dir.to_owned()];
    while let Some(path) = waiting.pop() {
        let Ok(found) = fs::symlink_metadata(&path) else { continue };
        // The time of a link to a file is that of its status.
        let seconds = u64::try_from(found.ctime()).unwrap_or(0);
        let changed = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        newest = newest.max(found.modified().ok()).max(Some(changed));
        if found.is_file() && found.nlink() == 1 {
            bytes += found.len();
        }
        if found.is_dir() {
            waiting.extend(fs::read_dir(&path).into_iter().flatten().flatten().map(|entry| entry.path()));
        }
    }
    (bytes, newest)
}

/// Removes the attempts that go. Blocks.
fn remove(
    work: &WorkDir,
    bid: Bid,
    jid: Jid,
    goes: impl Fn(&Attempt) -> bool,
    progress: &Progress,
    cancel: &Cancel,
) -> Result<Removed> {
    let mut removed = Removed::default();
    for attempt in attempts(work, bid, jid)?.into_iter().filter(goes) {
        if cancel.is_cancelled() {
            return Err(Failure::Cancelled);
        }
        progress.beat();
        match fs::remove_dir_all(&attempt.path) {
            Ok(()) => {
                removed.attempts.push(format!("{bid}/{jid}/{:06}", attempt.number));
                removed.bytes += attempt.bytes;
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => {
                tracing::warn!(path = %attempt.path.display(), %error, "a directory could not be removed");
            }
        }
    }
    Ok(removed)
}

/// Removes the files that have not changed for so long. Blocks.
fn remove_files(paths: &[PathBuf], keep: Duration) -> Removed {
    let mut removed = Removed::default();
    for path in paths {
        let (bytes, newest) = measure(path);
        let age = newest.and_then(|newest| SystemTime::now().duration_since(newest).ok());
        if age < Some(keep) {
            continue;
        }
        match fs::remove_file(path) {
            Ok(()) => {
                removed.manifests += 1;
                removed.bytes += bytes;
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => tracing::warn!(path = %path.display(), %error, "a file could not be removed"),
        }
    }
    removed
}

/// Removes a directory in which nothing is; any other stays.
fn remove_empty(dir: &Path) {
    let _ = fs::remove_dir(dir);
}

#[cfg(test)]
mod tests {
    use std::fmt::{Debug, Write as _};
    use std::sync::Arc;

    use parking_lot::Mutex;
    use tracing::field::{Field, Visit};
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Metadata, Subscriber};

    use super::*;

    /// Keeps what is logged, a line each.
    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<String>>>);

    struct Line(String);

    impl Visit for Line {
        fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
            let _ = write!(self.0, " {field}={value:?}");
        }
    }

    impl Subscriber for Log {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }

        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }

        fn record(&self, _: &Id, _: &Record<'_>) {}

        fn record_follows_from(&self, _: &Id, _: &Id) {}

        fn event(&self, event: &Event<'_>) {
            let mut line = Line(event.metadata().level().to_string());
            event.record(&mut line);
            self.0.lock().push(line.0);
        }

        fn enter(&self, _: &Id) {}

        fn exit(&self, _: &Id) {}
    }

    #[test]
    fn a_file_that_cannot_be_removed_is_logged_and_the_others_go() {
        let dir = tempfile::tempdir().unwrap();
        let [stuck, gone, file] = ["stuck", "gone", "file"].map(|name| dir.path().join(name));
        // No directory can be removed as a file.
        fs::create_dir(&stuck).unwrap();
        fs::write(&file, "begun").unwrap();
        let log = Log::default();
        let paths = [stuck.clone(), gone, file.clone()];
        let removed = tracing::subscriber::with_default(log.clone(), || remove_files(&paths, Duration::ZERO));
        assert_eq!(removed, Removed { manifests: 1, bytes: 5, ..Removed::default() });
        assert!(stuck.exists() && !file.exists());
        let lines = log.0.lock();
        let [line] = lines.as_slice() else { panic!("{lines:?}") };
        assert!(line.starts_with("WARN") && line.contains(stuck.to_str().unwrap()), "{line}");
    }
}
