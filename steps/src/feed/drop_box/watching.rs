//! Changes in directories, told by the system: one instance of inotify for all drop boxes of the process, because a user
//! may have few of them.
//!
//! **When things break.** If more happened than the system could keep, everybody is told. If the system cannot watch, opening a
//! drop box fails with its reason.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use notify::event::{AccessKind, AccessMode};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use parking_lot::Mutex;
use tokio::sync::mpsc;

/// Who is told of which directory.
type Listeners = Arc<Mutex<HashMap<PathBuf, Vec<(u64, mpsc::Sender<()>)>>>>;

struct Hub {
    watcher: Mutex<RecommendedWatcher>,
    listeners: Listeners,
    next: Mutex<u64>,
}

static HUB: OnceLock<Result<Hub, String>> = OnceLock::new();

/// A directory is watched as long as this lives.
#[derive(Debug)]
pub(super) struct Watching {
    dir: PathBuf,
    number: u64,
}

fn hub() -> Result<&'static Hub, String> {
    HUB.get_or_init(Hub::start).as_ref().map_err(Clone::clone)
}

impl Hub {
    fn start() -> Result<Self, String> {
        let listeners = Listeners::default();
        let told = listeners.clone();
        let tell = move |event: notify::Result<Event>| {
            if event.as_ref().is_ok_and(|event| !event.need_rescan() && only_read(event.kind)) {
                return;
            }
            let all = told.lock();
            let concerned = |dir: &Path| match &event {
                Ok(event) if !event.need_rescan() => {
                    event.paths.iter().any(|path| path == dir || path.parent() == Some(dir))
                }
                _ => true,
            };
            for (_, listener) in all.iter().filter(|(dir, _)| concerned(dir)).flat_map(|(_, all)| all) {
                // One word is enough, however much has changed.
                let _ = listener.try_send(());
            }
        };
        let watcher = notify::recommended_watcher(tell).map_err(|error| error.to_string())?;
        Ok(Self { watcher: Mutex::new(watcher), listeners, next: Mutex::new(0) })
    }
}

/// Whoever looks into a box because something was told of it must not be told of that: it would look for ever.
fn only_read(kind: EventKind) -> bool {
    matches!(kind, EventKind::Access(access) if access != AccessKind::Close(AccessMode::Write))
}

/// Watches a directory. Blocks for a moment.
pub(super) fn watch(dir: &Path) -> Result<(Watching, mpsc::Receiver<()>), String> {
    let hub = hub()?;
    let dir = dir.canonicalize().map_err(|error| error.to_string())?;
    let (sender, receiver) = mpsc::channel(1);
    // The watcher's lock first, and the listeners' only for a moment: events wait for the latter.
    let mut watcher = hub.watcher.lock();
    let number = {
        let mut next = hub.next.lock();
        *next += 1;
        *next
    };
    let first = {
        let mut listeners = hub.listeners.lock();
        let of_dir = listeners.entry(dir.clone()).or_default();
        of_dir.push((number, sender));
        of_dir.len() == 1
    };
    let watching = Watching { dir, number };
    if first && let Err(error) = watcher.watch(&watching.dir, RecursiveMode::NonRecursive) {
        drop(watcher);
        drop(watching);
        return Err(error.to_string());
    }
    Ok((watching, receiver))
}

impl Drop for Watching {
    fn drop(&mut self) {
        let Ok(hub) = hub() else { return };
        let mut watcher = hub.watcher.lock();
        let last = {
            let mut listeners = hub.listeners.lock();
            let of_dir = listeners.entry(self.dir.clone()).or_default();
            of_dir.retain(|(number, _)| *number != self.number);
            let last = of_dir.is_empty();
            if last {
                listeners.remove(&self.dir);
            }
            last
        };
        if last {
            // A directory that is gone is not watched any more by itself.
            let _ = watcher.unwatch(&self.dir);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    async fn told(receiver: &mut mpsc::Receiver<()>) {
        tokio::time::timeout(Duration::from_secs(30), receiver.recv()).await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn everybody_is_told_of_their_own_directory() {
        let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (first, mut to_first) = watch(one.path()).unwrap();
        let (_second, mut to_second) = watch(one.path()).unwrap();
        let (_third, mut to_third) = watch(other.path()).unwrap();
        std::fs::write(one.path().join("a"), "a").unwrap();
        told(&mut to_first).await;
        told(&mut to_second).await;
        assert!(to_third.try_recv().is_err());
        // One who leaves takes nothing from the others.
        drop(first);
        std::fs::write(one.path().join("b"), "b").unwrap();
        told(&mut to_second).await;
        assert!(watch(&one.path().join("none")).is_err());
    }

    #[tokio::test]
    async fn nobody_is_told_of_reading() {
        let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::write(one.path().join("a"), "a").unwrap();
        std::fs::create_dir(one.path().join("b")).unwrap();
        let (_first, mut to_first) = watch(one.path()).unwrap();
        let (_second, mut to_second) = watch(other.path()).unwrap();
        for _ in 0..10 {
            assert_eq!(std::fs::read_dir(one.path()).unwrap().count(), 2);
            assert_eq!(std::fs::read_dir(one.path().join("b")).unwrap().count(), 0);
            assert_eq!(std::fs::read(one.path().join("a")).unwrap(), b"a");
        }
        // Everything comes in its order: what is told of the other one comes after all of that.
        std::fs::write(other.path().join("c"), "c").unwrap();
        told(&mut to_second).await;
        assert!(to_first.try_recv().is_err());
    }
}
