//! Many files at once: each adopted or fetched, verified and noted.

use std::sync::atomic::{AtomicU64, Ordering};

use futures::{StreamExt as _, stream};
use url::Url;

use super::beyond;
use super::site::Site;
use crate::digest::{Algorithm, Digest};
use crate::fetch::{Most, Wanted, key_of};
use crate::outcome::{Cancel, Failure, Result};
use crate::profile::{Limits, Profile};
use crate::services::blocking;
use crate::step::Payload;
use crate::work::FileRecord;

/// What is computed of every file, besides what was announced.
pub(super) const ALGORITHMS: [Algorithm; 2] = [Algorithm::Sha256, Algorithm::Sha512];

/// A file that is to come.
#[derive(Debug, Clone)]
pub(super) struct Item {
    /// Below the attempt's directory.
    pub(super) path: String,
    pub(super) url: Url,
    pub(super) size: Option<u64>,
    pub(super) digests: Vec<Digest>,
    pub(super) mime: Option<String>,
    /// The URL as a digest.
    pub(super) source: String,
}

impl Item {
    pub(super) fn new(path: String, url: Url) -> Self {
        let source = key_of(&url);
        Self { path, url, size: None, digests: Vec::new(), mime: None, source }
    }

    /// The payload of the job itself; `name` tells what it may be.
    pub(super) fn of(payload: &Payload, path: String, name: &str) -> Self {
        Self {
            size: payload.size,
            digests: payload.digest.iter().cloned().collect(),
            mime: payload.mime.clone().or_else(|| guessed(name)),
            ..Self::new(path, payload.url.clone())
        }
    }

    /// Whether a file that was noted is this one, as far as was announced.
    pub(super) fn is(&self, record: &FileRecord) -> bool {
        record.source.as_deref() == Some(&self.source)
            && self.size.is_none_or(|size| size == record.size)
            && self.digests.iter().all(|announced| agrees(announced, &record.digests))
    }

    fn wanted(&self) -> Wanted {
        Wanted {
            size: self.size,
            digests: self.digests.clone(),
            algorithms: ALGORITHMS.to_vec(),
            ..Wanted::new(self.url.clone())
        }
    }
}

/// What was not computed then is computed when the file is read again.
fn agrees(announced: &Digest, noted: &[Digest]) -> bool {
    noted.iter().all(|noted| noted.algorithm() != announced.algorithm() || noted == announced)
}

/// What kind of file the name tells.
pub(super) fn guessed(name: &str) -> Option<String> {
    mime_guess::from_path(name).first_raw().map(str::to_owned)
}

/// How many bytes the files of one object may still have, those aside whose size was announced.
#[derive(Debug)]
pub(super) struct Room {
    file: u64,
    left: AtomicU64,
}

impl Room {
    /// After so many bytes that are here or were announced.
    pub(super) fn of(limits: &Limits, taken: u64) -> Self {
        Self { file: limits.file_bytes, left: AtomicU64::new(limits.object_bytes.saturating_sub(taken)) }
    }

    /// No object of its own: only this many bytes.
    pub(super) fn up_to(bytes: u64) -> Self {
        Self { file: bytes, left: AtomicU64::new(u64::MAX) }
    }

    fn most(&self, item: &Item) -> u64 {
        let left = self.left.load(Ordering::Relaxed);
        if item.size.is_some() { self.file } else { self.file.min(left) }
    }

    /// Files that come at the same time may pass the limit together; then the last of them finds out here.
    fn take(&self, item: &Item, record: &FileRecord, profile: &Profile) -> Result<()> {
        let size = if item.size.is_some() { 0 } else { record.size };
        let take = |left: u64| left.checked_sub(size);
        if self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok() {
            return Ok(());
        }
        let most = profile.limits.object_bytes;
        let what = format!("with this file the object has more than the {most} bytes that it may have");
        Err(beyond(profile, "object_bytes", &what))
    }
}

/// Whether announced sizes are within the limits; their sum.
pub(super) fn judge(profile: &Profile, items: &[Item], taken: u64) -> Result<u64> {
    let limits = &profile.limits;
    let mut sum = taken;
    for item in items {
        let size = item.size.unwrap_or(0);
        sum = sum.saturating_add(size);
        if size > limits.file_bytes {
            let what = format!("{}: {size} bytes, and a file may have {}", item.path, limits.file_bytes);
            return Err(beyond(profile, "file_bytes", &what));
        }
    }
    if sum > limits.object_bytes {
        let what = format!("the files have {sum} bytes, and an object may have {}", limits.object_bytes);
        return Err(beyond(profile, "object_bytes", &what));
    }
    Ok(sum)
}

/// Brings all of them and notes each; in the order in which they were whole.
pub(super) async fn fetch_all(site: &Site<'_>, items: Vec<Item>, room: &Room) -> Result<Vec<FileRecord>> {
    judge(site.profile, &items, 0)?;
    site.make_directories(items.iter().map(|item| item.path.as_str())).await?;
    // The first failure stops the others, and only them.
    let stop = site.cancel.child_token();
    let at_once = site.services.settings.downloading.at_once.max(1);
    let coming = stream::iter(items).map(|item| {
        let stop = &stop;
        async move {
            let record = bring(site, &item, room, stop).await?;
            site.note(&record).await?;
            Ok(record)
        }
    });
    let mut coming = coming.buffer_unordered(at_once);
    let (mut records, mut failed) = (Vec::new(), None);
    while let Some(done) = coming.next().await {
        match done {
            Ok(record) => records.push(record),
            Err(failure) => {
                stop.cancel();
                // Those that were stopped for another have nothing to say.
                if failed.as_ref().is_none_or(|first| *first == Failure::Cancelled) {
                    failed = Some(failure);
                }
            }
        }
    }
    failed.map_or(Ok(records), Err)
}

/// One file, from an earlier attempt or from its URL. Its directory is there.
pub(super) async fn bring(site: &Site<'_>, item: &Item, room: &Room, stop: &Cancel) -> Result<FileRecord> {
    let failed = |failure: Failure| failure.during(&item.path);
    if stop.is_cancelled() {
        return Err(Failure::Cancelled);
    }
    let to = site.dir.path().join(&item.path);
    if !site.earlier.is_empty() {
        let (earlier, wanted, to) = (site.earlier.clone(), item.clone(), to.clone());
        let (progress, cancel) = (site.progress.clone(), stop.clone());
        let adopted = blocking("adopting a file", move || {
            let adopted = earlier.adopt(&wanted, &to, &progress, &cancel)?;
            if adopted.is_none() {
                earlier.move_part(&wanted.path, &to)?;
            }
            Ok(adopted)
        });
        if let Some(record) = adopted.await.map_err(failed)? {
            room.take(item, &record, site.profile).map_err(failed)?;
            return Ok(record);
        }
    }
    fetch(site, item, room, stop).await
}

/// One file from its URL.
pub(super) async fn fetch(site: &Site<'_>, item: &Item, room: &Room, stop: &Cancel) -> Result<FileRecord> {
    let failed = |failure: Failure| failure.during(&item.path);
    let to = site.dir.path().join(&item.path);
    let (by, wanted) = (&site.services.fetcher, item.wanted());
    let most = Most { bytes: room.most(item), by: "limits of the profile" };
    let fetched = by.fetch_within(&wanted, most, &to, site.progress, stop).await.map_err(failed)?;
    let record = FileRecord {
        path: item.path.clone(),
        size: fetched.size,
        digests: fetched.digests,
        mime: item.mime.clone(),
        source: Some(item.source.clone()),
    };
    room.take(item, &record, site.profile).map_err(failed)?;
    Ok(record)
}
