//! Where the files of an attempt go, and what bounds it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use url::Url;

use super::earlier::Earlier;
use crate::archive::disk as broken;
use crate::fetch::redacted;
use crate::outcome::{Cancel, Failure, Progress, Result};
use crate::profile::Profile;
use crate::services::{Services, blocking};
use crate::step::Task;
use crate::work::{AttemptDir, FileRecord};

/// The directory of the attempt that is under way.
#[derive(Debug)]
pub(super) struct Site<'a> {
    pub(super) services: &'a Services,
    pub(super) profile: &'a Profile,
    pub(super) dir: AttemptDir,
    pub(super) earlier: Arc<Earlier>,
    pub(super) progress: &'a Progress,
    pub(super) cancel: &'a Cancel,
    /// Directories that got a new name in them.
    touched: Mutex<BTreeSet<PathBuf>>,
}

impl<'a> Site<'a> {
    pub(super) async fn open(task: &'a Task<'_>, services: &'a Services) -> Result<Self> {
        let job = task.lease.job();
        let (bid, jid, attempt) = (job.bid, job.jid, job.status.attempt);
        let work = services.work.clone();
        let (dir, earlier) = blocking("making the directory", move || {
            let dir = work.make_attempt(bid, jid, attempt)?;
            Ok((dir, Earlier::read(&work, bid, jid, attempt)?))
        })
        .await?;
        // What `make_attempt` has made: from the working directory down.
        let made = [dir.producer(), dir.system()]
            .into_iter()
            .chain(dir.path().ancestors().take(4).map(Path::to_owned));
        Ok(Self {
            services,
            profile: &task.profile,
            touched: Mutex::new(made.collect()),
            dir,
            earlier: Arc::new(earlier),
            progress: &task.progress,
            cancel: &task.cancel,
        })
    }

    /// Whether the profile lets files come from there.
    pub(super) fn allows(&self, url: &Url) -> Result<()> {
        let own = self.services.fetcher.rules().public_url.as_ref();
        let host = url.host_str().unwrap_or_default();
        if own.is_some_and(|own| own.origin() == url.origin()) || self.profile.allows_host(host) {
            return Ok(());
        }
        let (shown, name) = (redacted(url), &self.profile.name);
        let what = if host.is_empty() { "it has no host, and is".to_owned() } else { format!("`{host}` is") };
        Err(Failure::fail(format!("{shown}: {what} not among the `allowed_hosts` of the profile `{name}`")))
    }

    /// Makes the directories of these paths, which are below the attempt's.
    pub(super) async fn make_directories(&self, paths: impl Iterator<Item = &str>) -> Result<()> {
        let mut made = BTreeSet::new();
        for path in paths {
            for (end, _) in path.match_indices('/') {
                made.insert(self.dir.path().join(&path[..end]));
            }
        }
        self.touched.lock().extend(made.iter().cloned());
        blocking("making directories", move || {
            made.iter().try_for_each(|dir| std::fs::create_dir_all(dir).map_err(|error| broken(dir, &error)))
        })
        .await
    }

    pub(super) async fn note(&self, record: &FileRecord) -> Result<()> {
        let (dir, record) = (self.dir.clone(), record.clone());
        blocking("noting a file", move || dir.note(&record)).await
    }

    /// Makes safe what was noted, and the names of the files.
    pub(super) async fn settle(&self) -> Result<()> {
        let (dir, touched) = (self.dir.clone(), std::mem::take(&mut *self.touched.lock()));
        blocking("syncing", move || {
            for path in &touched {
                match std::fs::File::open(path) {
                    Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                    opened => opened.and_then(|dir| dir.sync_all()).map_err(|error| broken(path, &error))?,
                }
            }
            dir.sync()
        })
        .await
    }
}
