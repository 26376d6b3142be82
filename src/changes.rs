//! Changes of the configuration file and of the profiles on the disk.
//!
//! Directories are watched, not files: editors replace a file by another one. Several changes at once are one.
//!
//! **When things break.** What cannot be watched is said once; SIGHUP works all the same.

use std::path::{Path, PathBuf};
use std::time::Duration;

use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::config::Loaded;

/// How long it must be quiet after a change: a file may be written in pieces.
const QUIET: Duration = Duration::from_millis(300);

/// Tells of changes.
#[derive(Debug)]
pub(crate) struct Changes {
    watcher: Option<RecommendedWatcher>,
    changed: mpsc::UnboundedReceiver<PathBuf>,
    /// Kept, so that the channel stays open when nothing can be watched.
    _sender: mpsc::UnboundedSender<PathBuf>,
    file: Option<PathBuf>,
    profiles: PathBuf,
    watched: Vec<PathBuf>,
    /// What has changed, when, and was not told of yet.
    found: Option<(PathBuf, Instant)>,
}

impl Changes {
    pub(crate) fn watch(loaded: &Loaded) -> Self {
        let (sender, changed) = mpsc::unbounded_channel();
        let tell = sender.clone();
        let watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
            let Ok(event) = event else { return };
            if matches!(event.kind, EventKind::Access(_)) {
                return;
            }
            for path in event.paths {
                let _ = tell.send(path);
            }
        });
        let watcher = watcher.map_err(|error| {
            tracing::warn!(%error, "changes of the configuration are not seen; send SIGHUP instead");
        });
        let mut changes = Self {
            watcher: watcher.ok(),
            changed,
            _sender: sender,
            file: None,
            profiles: PathBuf::new(),
            watched: Vec::new(),
            found: None,
        };
        changes.follow(loaded);
        changes
    }

    /// Watches what this configuration consists of.
    pub(crate) fn follow(&mut self, loaded: &Loaded) {
        let whole = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        self.file = loaded.path.as_deref().and_then(|path| {
            let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
            Some(whole(parent.unwrap_or(Path::new("."))).join(path.file_name()?))
        });
        self.profiles = whole(&loaded.steps.profiles.dir);
        let mut wanted: Vec<PathBuf> =
            self.file.iter().filter_map(|file| file.parent().map(Path::to_owned)).collect();
        wanted.push(self.profiles.clone());
        wanted.dedup();
        let Some(watcher) = &mut self.watcher else { return };
        for dir in self.watched.iter().filter(|dir| !wanted.contains(dir)) {
            let _ = watcher.unwatch(dir);
        }
        let mut watched = Vec::new();
        for dir in wanted {
            if !self.watched.contains(&dir)
                && let Err(error) = watcher.watch(&dir, RecursiveMode::NonRecursive)
            {
                tracing::warn!(dir = %dir.display(), %error, "changes are not seen there; send SIGHUP instead");
                continue;
            }
            watched.push(dir);
        }
        self.watched = watched;
    }

    /// Waits for a change that concerns the configuration, and until it is quiet after it. Safe to use in a
    /// `select!`: a change whose quiet was not waited for is told of by the next call.
    pub(crate) async fn next(&mut self) -> String {
        loop {
            let quiet = self.found.as_ref().map(|(_, since)| *since + QUIET);
            tokio::select! {
                path = self.changed.recv() => match path {
                    Some(path) if self.concerns(&path) => self.found = Some((path, Instant::now())),
                    Some(_) => {}
                    None => std::future::pending().await,
                },
                () = tokio::time::sleep_until(quiet.unwrap_or_else(Instant::now)), if quiet.is_some() => {
                    if let Some((path, _)) = self.found.take() {
                        return format!("{} has changed", path.display());
                    }
                }
            }
        }
    }

    fn concerns(&self, path: &Path) -> bool {
        let is_profile =
            path.parent() == Some(&self.profiles) && path.extension().is_some_and(|e| e == "toml");
        self.file.as_deref() == Some(path) || is_profile
    }
}
