//! Whether there is room for a job, decided for all that wait at once.
//!
//! [`admit`] is pure: what waits, what there is, what was promised already. All waiting jobs are looked at in
//! each cycle, in their order, and none blocks another: a small one may pass a large one that does not fit.
//! A job that has been passed over for too long reserves ahead: what is free and what becomes free is kept for
//! it, and nobody behind it is admitted, until it fits.
//!
//! Promised space is recomputed from the admitted jobs each time and never kept as a counter. Of an admitted
//! job only what is not written yet counts: what is written is missing from the free space already.
//!
//! **When things break.** A file system that cannot be asked admits nobody: they wait, and the reason is
//! said.

use std::path::{Path, PathBuf};
use std::time::Duration;

use ingest_queue::ids::Jid;
use serde::{Deserialize, Serialize};

use crate::archive::disk;
use crate::outcome::{Cancel, Failure, Result};

/// `[provisioning]` and `work.quota`.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Jobs of unknown size wait while more than this share of the file system is used.
    pub max_used: f64,
    /// The most bytes that all working files together may take; absent: what the file system has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quota: Option<u64>,
    /// A job that has waited so long although smaller ones went reserves ahead.
    #[serde(with = "humantime_serde")]
    pub reserve_after: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self { max_used: 0.8, quota: None, reserve_after: Duration::from_hours(1) }
    }
}

/// A job that wants room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waiting {
    pub jid: Jid,
    /// 0: nobody knows.
    pub needs: u64,
    /// Since when it waits for room.
    pub waited: Duration,
}

/// What there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Space {
    /// Bytes of the file system, without what only its administrator may use.
    pub total: u64,
    pub free: u64,
    /// Bytes of working files that are there.
    pub ours: u64,
    /// Bytes that admitted jobs were promised and have not written yet.
    pub promised: u64,
}

/// What becomes of a waiting job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// There is room, and it is promised to it.
    Yes,
    /// Not now, and why.
    Wait(String),
    /// It needs more than there could ever be.
    Never(String),
}

/// Where room comes from.
pub trait Provision: Send + Sync + std::fmt::Debug {
    /// What there is now; `promised` is what the caller knows of its admitted jobs. Blocks, and may take as
    /// long as a walk through all working files: it stops on `cancel`.
    fn space(&self, promised: u64, cancel: &Cancel) -> Result<Space>;

    /// Decides for all that wait, in their order.
    fn decide(&self, waiting: &[Waiting], space: Space) -> Vec<(Jid, Verdict)>;
}

/// The file system of the working directory.
#[derive(Debug, Clone)]
pub struct FileSystem {
    dir: PathBuf,
    settings: Settings,
}

impl FileSystem {
    pub fn new(dir: impl Into<PathBuf>, settings: Settings) -> Self {
        Self { dir: dir.into(), settings }
    }
}

impl Provision for FileSystem {
    fn space(&self, promised: u64, cancel: &Cancel) -> Result<Space> {
        let unknown = |error: &dyn std::fmt::Display| {
            Failure::later(format!("the space of {} cannot be asked for: {error}", self.dir.display()))
        };
        let stat = rustix::fs::statvfs(&self.dir).map_err(|error| unknown(&error))?;
        let reserved_for_root = stat.f_bfree.saturating_sub(stat.f_bavail);
        let total = stat.f_blocks.saturating_sub(reserved_for_root).saturating_mul(stat.f_frsize);
        let free = stat.f_bavail.saturating_mul(stat.f_frsize);
        // Without a quota nobody asks how much is ours.
        let ours = match self.settings.quota {
            Some(_) => size_below(&self.dir, cancel).map_err(|failure| match failure {
                Failure::Cancelled => failure,
                failure => unknown(&failure),
            })?,
            None => 0,
        };
        Ok(Space { total, free, ours, promised })
    }

    fn decide(&self, waiting: &[Waiting], space: Space) -> Vec<(Jid, Verdict)> {
        admit(waiting, space, &self.settings)
    }
}

/// Decides for all that wait, in the order given: the most urgent first.
pub fn admit(waiting: &[Waiting], space: Space, settings: &Settings) -> Vec<(Jid, Verdict)> {
    let most = settings.quota.map_or(space.total, |quota| quota.min(space.total));
    let in_quota = settings.quota.map_or(u64::MAX, |quota| quota.saturating_sub(space.ours));
    // What may still be promised.
    let mut room = space.free.min(in_quota).saturating_sub(space.promised);
    let mut ahead: Option<Jid> = None;
    let mut verdicts = Vec::with_capacity(waiting.len());
    for job in waiting {
        let verdict = if job.needs > most {
            Verdict::Never(format!("it needs {} bytes, and all there could be is {most}", job.needs))
        } else if let Some(first) = ahead {
            Verdict::Wait(format!("what is free is kept for {first}, which was passed over for too long"))
        } else if job.needs == 0 {
            unknown_size(&space, room, settings)
        } else if job.needs <= room {
            room -= job.needs;
            Verdict::Yes
        } else {
            if job.waited >= settings.reserve_after {
                ahead = Some(job.jid);
            }
            Verdict::Wait(format!("it needs {} bytes, and {room} are free", job.needs))
        };
        verdicts.push((job.jid, verdict));
    }
    verdicts
}

fn unknown_size(space: &Space, room: u64, settings: &Settings) -> Verdict {
    // Far below the 2^52 that a float counts exactly, or so large that a byte does not matter.
    #[allow(clippy::cast_precision_loss)]
    let used = space.total.saturating_sub(space.free) as f64 / space.total.max(1) as f64;
    if used > settings.max_used {
        let percent = |share: f64| (share * 100.0).round();
        return Verdict::Wait(format!(
            "its size is not known, and {} % of the file system is used (more than {} %)",
            percent(used),
            percent(settings.max_used)
        ));
    }
    if room == 0 {
        return Verdict::Wait("its size is not known, and all that is free is promised to others".into());
    }
    Verdict::Yes
}

/// Bytes on disk below a directory; a file with several links counts once, and what is not there is nothing.
/// Blocks.
pub(crate) fn size_below(dir: &Path, cancel: &Cancel) -> Result<u64> {
    use std::os::unix::fs::MetadataExt as _;
    let (mut bytes, mut seen) = (0_u64, std::collections::HashSet::new());
    let mut dirs = vec![dir.to_owned()];
    while let Some(dir) = dirs.pop() {
        if cancel.is_cancelled() {
            return Err(Failure::Cancelled);
        }
        let entries = match std::fs::read_dir(&dir) {
            // Removed while we looked.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            entries => entries.map_err(|error| disk(&dir, &error))?,
        };
        for entry in entries {
            let entry = entry.map_err(|error| disk(&dir, &error))?;
            match entry.metadata() {
                Ok(meta) if meta.is_dir() => dirs.push(entry.path()),
                Ok(meta) if meta.nlink() > 1 && !seen.insert((meta.dev(), meta.ino())) => {}
                Ok(meta) => bytes = bytes.saturating_add(meta.blocks().saturating_mul(512)),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(disk(&entry.path(), &error)),
            }
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SPACE: Space = Space { total: 1_000, free: 600, ours: 100, promised: 100 };

    fn job(number: u32, needs: u64) -> Waiting {
        Waiting { jid: Jid::new(number), needs, waited: Duration::ZERO }
    }

    fn old(job: Waiting) -> Waiting {
        Waiting { waited: Duration::from_hours(2), ..job }
    }

    fn yes(waiting: &[Waiting], space: Space, settings: &Settings) -> Vec<u32> {
        let verdicts = admit(waiting, space, settings);
        assert_eq!(verdicts.len(), waiting.len());
        let yes = waiting.iter().zip(verdicts).filter(|(job, (jid, verdict))| {
            assert_eq!(job.jid, *jid);
            *verdict == Verdict::Yes
        });
        yes.map(|(job, _)| job.jid.number()).collect()
    }

    #[test]
    fn what_is_promised_is_not_free() {
        assert_eq!(yes(&[job(1, 500)], SPACE, &Settings::default()), [1]);
        assert_eq!(yes(&[job(1, 501)], SPACE, &Settings::default()), [0_u32; 0]);
    }

    #[test]
    fn a_small_one_passes_a_large_one_and_each_admission_counts() {
        let waiting = [job(1, 550), job(2, 300), job(3, 300), job(4, 200)];
        assert_eq!(yes(&waiting, SPACE, &Settings::default()), [2, 4]);
    }

    #[test]
    fn one_that_was_passed_over_too_long_reserves_ahead() {
        let space = Space { free: 900, promised: 0, ..SPACE };
        let waiting = [old(job(1, 950)), job(2, 100), job(3, 0)];
        assert_eq!(yes(&waiting, space, &Settings::default()), [0_u32; 0]);
        let verdicts = admit(&waiting, space, &Settings::default());
        assert!(matches!(&verdicts[1].1, Verdict::Wait(why) if why.contains("kept for jid0000000001")));
        // As soon as it fits it goes, and those behind it look again.
        let enough = Space { free: 950, ..space };
        assert_eq!(yes(&[old(job(1, 800)), job(2, 100), job(3, 0)], enough, &Settings::default()), [1, 2, 3]);
    }

    #[test]
    fn whoever_stands_before_it_is_not_kept_back() {
        let waiting = [job(1, 400), old(job(2, 450)), job(3, 50)];
        let space = Space { free: 500, promised: 0, ..SPACE };
        assert_eq!(yes(&waiting, space, &Settings::default()), [1]);
    }

    #[test]
    fn more_than_there_could_ever_be_is_never() {
        let verdict = |settings: &Settings| admit(&[job(1, 900)], SPACE, settings).remove(0).1;
        assert!(matches!(verdict(&Settings::default()), Verdict::Wait(_)));
        let small = Settings { quota: Some(800), ..Settings::default() };
        assert!(matches!(verdict(&small), Verdict::Never(why) if why.contains("all there could be is 800")));
    }

    #[test]
    fn the_quota_bounds_what_is_there_and_what_is_promised() {
        let settings = Settings { quota: Some(300), ..Settings::default() };
        assert_eq!(yes(&[job(1, 101), job(2, 100)], SPACE, &settings), [2]);
    }

    #[test]
    fn an_unknown_size_waits_while_the_file_system_is_rather_full() {
        let settings = Settings::default();
        let full = |free| Space { free, promised: 0, ..SPACE };
        assert_eq!(yes(&[job(1, 0)], full(200), &settings), [1]);
        assert_eq!(yes(&[job(1, 0)], full(199), &settings), [0_u32; 0]);
        let promised = Space { promised: 600, ..SPACE };
        assert_eq!(yes(&[job(1, 0)], promised, &settings), [0_u32; 0]);
    }

    #[test]
    fn a_real_file_system_is_measured() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("a")).unwrap();
        std::fs::write(dir.path().join("a/file"), vec![1; 100_000]).unwrap();
        std::fs::hard_link(dir.path().join("a/file"), dir.path().join("link")).unwrap();
        let settings = Settings { quota: Some(1 << 30), ..Settings::default() };
        let space = FileSystem::new(dir.path(), settings).space(7, &Cancel::new()).unwrap();
        assert!(space.total >= space.free && space.free > 0 && space.promised == 7, "{space:?}");
        assert!((100_000..300_000).contains(&space.ours), "{space:?}");
        let gone = FileSystem::new(dir.path().join("none"), settings).space(0, &Cancel::new());
        assert!(matches!(gone, Err(Failure::Later(_))), "{gone:?}");
        let cancel = Cancel::new();
        cancel.cancel();
        assert_eq!(FileSystem::new(dir.path(), settings).space(0, &cancel), Err(Failure::Cancelled));
    }

    proptest! {
        #[test]
        fn never_more_is_promised_than_there_is(
            needs in proptest::collection::vec((0..400_u64, any::<bool>()), 0..30),
            free in 0..1_000_u64,
            promised in 0..500_u64,
            quota in proptest::option::of(0..1_000_u64),
        ) {
            let space = Space { total: 1_000, free, ours: 50, promised };
            let settings = Settings { quota, ..Settings::default() };
            let jobs: Vec<_> = (0..).zip(&needs).map(|(number, (needs, is_old))| {
                if *is_old { old(job(number, *needs)) } else { job(number, *needs) }
            }).collect();
            let admitted = yes(&jobs, space, &settings);
            let sum: u64 = admitted.iter().map(|number| jobs[*number as usize].needs).sum();
            prop_assert!(sum == 0 || sum + promised <= free, "{sum}");
            prop_assert!(sum == 0 || quota.is_none_or(|quota| sum + promised + 50 <= quota));
            // Whoever is first and fits is never kept waiting.
            if let Some(first) = jobs.first()
                && first.needs > 0
                && first.needs + promised <= free.min(quota.map_or(u64::MAX, |quota| quota.saturating_sub(50)))
            {
                prop_assert_eq!(admitted.first(), Some(&0));
            }
        }
    }
}
