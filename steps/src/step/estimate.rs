//! `estimating`: how many bytes a job will take, before anything of it is fetched.
//!
//! What the depositor announced counts; otherwise the server is asked. Of an object manifest the sizes of its rows
//! are added up, and asked for where they are missing, several at a time. A size that nobody knows counts as 0, so
//! the sum is then a lower bound: still better than none, as room is kept for what is known; the message says how
//! many are missing, and downloading corrects the number. A container counts [`PACKED`] times its size: there has
//! to be room for it and for what comes out of it, and most of what is deposited (images, sound, PDF, archives) is
//! compressed already and comes out as large as it went in.
//!
//! Jobs from a size on (`estimating.slower`) get a later priority, never an earlier one.
//!
//! **When things break.** It never fails: whatever is wrong with a payload, its manifest or its server is 0 and a
//! message, and the state that needs the files finds out. A host that has not told [`PATIENCE`] sizes in a row is not
//! asked any more for this job. Only being stopped, a lost job and a tree that is away come out.

use std::collections::HashMap;

use futures::{StreamExt as _, stream};
use ingest_queue::map::Priority;
use ingest_queue::plan::job::Change;
use parking_lot::Mutex;
use url::Url;

use super::check::LONGEST;
use super::download::{MANIFEST, about, counted, rows_of};
use super::{Payload, Task};
use crate::digest::Algorithm;
use crate::fetch::{Most, Wanted, key_of};
use crate::manifest::Row;
use crate::outcome::{Failure, Result};
use crate::payload::PayloadKind;
use crate::services::{Services, blocking};
use crate::settings::Slower;
use crate::work::FileRecord;

/// How often the size of a container is counted.
pub const PACKED: u64 = 2;
/// After so many questions without an answer a host is left alone.
pub const PATIENCE: u32 = 8;

/// How big something is, as far as is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Estimate {
    files: u64,
    /// Files whose size is not known.
    unknown: u64,
    bytes: u64,
}

impl Estimate {
    fn message(&self) -> String {
        let Self { files, unknown, bytes } = *self;
        match unknown {
            0 => format!("{}, {}", counted(files), about(bytes)),
            _ if unknown == files => format!("{}, of unknown size", counted(files)),
            1 => format!("{}, at least {}: 1 of the sizes is not known", counted(files), about(bytes)),
            _ => {
                format!("{}, at least {}: {unknown} of the sizes are not known", counted(files), about(bytes))
            }
        }
    }
}

/// Says how much space the job needs, and puts large jobs back.
pub async fn run(task: &mut Task<'_>, services: &Services) -> Result<Change> {
    let (bytes, message) = match estimate(task, services).await {
        Ok(estimate) => (estimate.bytes, estimate.message()),
        Err(failure @ (Failure::Cancelled | Failure::Lost(_) | Failure::Again(_))) => return Err(failure),
        Err(failure) => (0, format!("the size is not known: {failure}")),
    };
    Ok(Change {
        priority: later(&services.settings.estimating.slower, bytes, task.lease.job().priority),
        space_needed: Some(i64::try_from(bytes).unwrap_or(i64::MAX)),
        ..Change::message(message)
    })
}

async fn estimate(task: &Task<'_>, services: &Services) -> Result<Estimate> {
    let payload = Payload::of(&task.configuration)?;
    match payload.kind {
        PayloadKind::File | PayloadKind::Container => {
            let factor = if payload.kind == PayloadKind::Container { PACKED } else { 1 };
            task.progress.announce(1, 0);
            let asked = Asked { task, services, silent: Mutex::default() };
            let size = match payload.size {
                Some(size) => Some(size),
                None => asked.size(&payload.url).await?,
            };
            let bytes = size.unwrap_or(0).saturating_mul(factor);
            Ok(Estimate { files: 1, unknown: u64::from(size.is_none()), bytes })
        }
        PayloadKind::ObjectManifest => of_manifest(task, services, &payload).await,
        kind => Err(Failure::hopeless(format!("a {kind} is a batch, not the payload of one job"))),
    }
}

/// The manifest goes where downloading may find it, if its digest was announced.
async fn of_manifest(task: &Task<'_>, services: &Services, payload: &Payload) -> Result<Estimate> {
    let job = task.lease.job();
    let (bid, jid, attempt) = (job.bid, job.jid, job.status.attempt);
    let asked = Asked { task, services, silent: Mutex::default() };
    asked.allowed(&payload.url)?;
    let work = services.work.clone();
    let dir = blocking("making the directory", move || work.make_attempt(bid, jid, attempt)).await?;
    let wanted = Wanted {
        size: payload.size,
        digests: payload.digest.iter().cloned().collect(),
        algorithms: vec![Algorithm::Sha512],
        ..Wanted::new(payload.url.clone())
    };
    let (to, most) = (dir.path().join(MANIFEST), services.settings.expanding.max_manifest);
    let fetching = services.fetcher.fetch_within(
        &wanted,
        Most { bytes: most, by: LONGEST },
        &to,
        &task.progress,
        &task.cancel,
    );
    let fetched = fetching.await.map_err(|failure| failure.during("the manifest"))?;
    let record = FileRecord {
        path: MANIFEST.to_owned(),
        size: fetched.size,
        digests: fetched.digests,
        mime: payload.mime.clone(),
        source: Some(key_of(&payload.url)),
    };
    let rows = blocking("reading the manifest", move || {
        dir.note(&record)?;
        rows_of(&to, u64::MAX)
    });
    let (rows, _) = rows.await.map_err(|failure| failure.during("the manifest"))?.unwrap_or_default();
    task.progress.announce(rows.len() as u64, 0);
    let at_once = services.settings.estimating.at_once.max(1);
    let asking: Vec<_> = rows.iter().map(|row| asked.size_of(row)).collect();
    let mut sizes = stream::iter(asking).buffer_unordered(at_once);
    let mut estimate = Estimate { bytes: fetched.size, ..Estimate::default() };
    while let Some(size) = sizes.next().await {
        let size = size?;
        estimate.files += 1;
        estimate.unknown += u64::from(size.is_none());
        estimate.bytes = estimate.bytes.saturating_add(size.unwrap_or(0));
    }
    Ok(estimate)
}

/// Who is asked for sizes.
struct Asked<'a> {
    task: &'a Task<'a>,
    services: &'a Services,
    /// How often in a row each host did not say.
    silent: Mutex<HashMap<String, u32>>,
}

impl Asked<'_> {
    /// What the profile does not allow is not asked either.
    fn allowed(&self, url: &Url) -> Result<()> {
        let own = self.services.fetcher.rules().public_url.as_ref();
        let host = url.host_str().unwrap_or_default();
        if own.is_some_and(|own| own.origin() == url.origin()) || self.task.profile.allows_host(host) {
            return Ok(());
        }
        Err(Failure::fail(format!("the profile does not allow the host `{host}`")))
    }

    async fn size_of(&self, row: &Row) -> Result<Option<u64>> {
        self.task.progress.add_file();
        match (row.size, Url::parse(&row.url)) {
            (Some(size), _) => Ok(Some(size)),
            (None, Ok(url)) => self.size(&url).await,
            (None, Err(_)) => Ok(None),
        }
    }

    async fn size(&self, url: &Url) -> Result<Option<u64>> {
        let host = url.host_str().unwrap_or_default().to_owned();
        if self.task.cancel.is_cancelled() {
            return Err(Failure::Cancelled);
        }
        if self.allowed(url).is_err()
            || self.silent.lock().get(&host).is_some_and(|silent| *silent >= PATIENCE)
        {
            return Ok(None);
        }
        let size = tokio::select! {
            biased;
            () = self.task.cancel.cancelled() => return Err(Failure::Cancelled),
            size = self.services.fetcher.size(url) => size,
        };
        self.task.progress.beat();
        let mut silent = self.silent.lock();
        let silent = silent.entry(host).or_default();
        *silent = if size.is_some() { 0 } else { *silent + 1 };
        Ok(size)
    }
}

/// The priority of the largest threshold that is reached, if it is later than what the job has.
fn later(slower: &[Slower], bytes: u64, now: Priority) -> Option<Priority> {
    let reached = slower.iter().filter(|slower| bytes >= slower.from).max_by_key(|slower| slower.from);
    reached.map(|slower| slower.priority).filter(|priority| priority.number() > now.number())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_threshold_counts_and_never_makes_a_job_earlier() {
        let slower = |from, number| Slower { from, priority: Priority::nearest(number) };
        let all = [slower(1000, 90), slower(10, 50)];
        let later = |bytes, now| later(&all, bytes, Priority::nearest(now)).map(Priority::number);
        assert_eq!(later(9, 5), None);
        assert_eq!(later(10, 5), Some(50));
        assert_eq!(later(999, 60), None);
        assert_eq!(later(1000, 60), Some(90));
        assert_eq!(later(u64::MAX, 90), None);
    }

    #[test]
    fn a_lower_bound_is_said_to_be_one() {
        let message = |files, unknown, bytes| Estimate { files, unknown, bytes }.message();
        assert_eq!(message(2, 0, 2048), "2 files, 2 KiB");
        assert_eq!(message(3, 1, 2048), "3 files, at least 2 KiB: 1 of the sizes is not known");
        assert_eq!(message(1, 1, 0), "1 file, of unknown size");
    }
}
