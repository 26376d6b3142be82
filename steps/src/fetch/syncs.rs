//! Directories are made safe for several files at once.
//!
//! A file that got its name is there after a power cut only when its directory was synced. Of files that get
//! their names in one directory at the same time, one syncs it for all: whoever comes while that is under way
//! waits for the next, which begins after its own name was given.
//!
//! **When things break.** A sync that fails fails for all that waited for it. Everything here blocks.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

/// The directories that are being synced.
#[derive(Debug, Default)]
pub(super) struct Syncs(Mutex<HashMap<PathBuf, Arc<Directory>>>);

#[derive(Debug, Default)]
struct Directory {
    state: Mutex<State>,
    ended: Condvar,
}

/// Syncs have numbers, from 1.
#[derive(Debug, Default)]
struct State {
    under_way: bool,
    /// How many calls have waited for a sync that was under way.
    waited: usize,
    begun: u64,
    done: u64,
    /// The last that failed.
    failed: Option<(u64, io::ErrorKind, String)>,
}

impl Syncs {
    /// Returns when all names that were given in the directory before the call are safe.
    pub(super) fn sync(&self, dir: &Path) -> io::Result<()> {
        self.sync_by(dir, || File::open(dir)?.sync_all())
    }

    fn sync_by(&self, dir: &Path, sync: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let directory = self.0.lock().entry(dir.to_owned()).or_default().clone();
        let done = directory.sync(sync);
        let mut all = self.0.lock();
        // The map has one, and this call.
        if Arc::strong_count(&directory) == 2 {
            all.remove(dir);
        }
        done
    }
}

impl Directory {
    fn sync(&self, sync: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let mut state = self.state.lock();
        let needed = state.begun + 1;
        state.waited += usize::from(state.under_way);
        while state.under_way && state.done < needed {
            self.ended.wait(&mut state);
        }
        if state.done >= needed {
            return match &state.failed {
                Some((number, kind, why)) if *number >= needed => Err(io::Error::new(*kind, why.clone())),
                _ => Ok(()),
            };
        }
        state.under_way = true;
        state.begun += 1;
        let number = state.begun;
        drop(state);
        let synced = sync();
        let mut state = self.state.lock();
        state.under_way = false;
        state.done = number;
        if let Err(error) = &synced {
            state.failed = Some((number, error.kind(), error.to_string()));
        }
        self.ended.notify_all();
        synced
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    use super::*;

    /// One sync is under way when eight more are asked for; how many there were, and how many failed.
    fn nine(fails: bool) -> (usize, usize) {
        let (syncs, dir, count) = (Syncs::default(), Path::new("dir"), AtomicUsize::new(0));
        let (let_go, held) = mpsc::channel::<()>();
        let (begun, has_begun) = mpsc::channel();
        let one = || {
            count.fetch_add(1, Ordering::SeqCst);
            if fails { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
        };
        let (all, counted) = (&syncs, &count);
        let failed = std::thread::scope(|scope| {
            scope.spawn(move || {
                let first = || {
                    begun.send(()).unwrap();
                    held.recv().unwrap();
                    counted.fetch_add(1, Ordering::SeqCst);
                    Ok(())
                };
                all.sync_by(dir, first).unwrap();
            });
            has_begun.recv().unwrap();
            let others: Vec<_> = (0..8).map(|_| scope.spawn(|| syncs.sync_by(dir, one))).collect();
            let directory = syncs.0.lock().get(dir).unwrap().clone();
            // Each counts itself under the lock that it gives up by waiting.
            while directory.state.lock().waited < 8 {
                std::thread::yield_now();
            }
            drop(directory);
            let_go.send(()).unwrap();
            others.into_iter().filter_map(|other| other.join().unwrap().err()).count()
        });
        assert!(syncs.0.lock().is_empty());
        (count.into_inner(), failed)
    }

    #[test]
    fn those_that_wait_share_the_next_sync() {
        assert_eq!(nine(false), (2, 0));
    }

    #[test]
    fn a_sync_that_fails_fails_for_all_of_them() {
        assert_eq!(nine(true).1, 8);
    }

    #[test]
    fn a_directory_that_is_gone_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let syncs = Syncs::default();
        syncs.sync(dir.path()).unwrap();
        assert!(syncs.sync(&dir.path().join("none")).is_err());
        assert!(syncs.0.lock().is_empty());
    }
}
