//! What the power takes with it when it goes: a record of every change that was not synced yet, so that a test can
//! undo it on the real file system.
//!
//! A new, moved or removed name lasts once the directory that it stands in is synced, content once its file is.
//! Everything else may be there after the cut or not; [`Loss`] says which of it is not.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

/// What of the unsynced changes is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    Everything,
    /// Files have their old names, the rest lasts.
    Renames,
    /// Files have their names, and nothing in them.
    Contents,
    /// The directory with the Nth-last change has forgotten all of its own, the others have not.
    Directory(usize),
    /// The Nth-last change alone, although later ones last: nothing but a sync keeps an order.
    One(usize),
}

#[derive(Debug)]
enum Change {
    Made,
    Content,
    /// From there, over a file of which this is a copy.
    Renamed(PathBuf, Option<PathBuf>),
    /// What was removed is here; nothing if it was an empty directory.
    Removed(Option<PathBuf>),
}

#[derive(Debug)]
struct Unsynced {
    path: PathBuf,
    change: Change,
}

impl Unsynced {
    fn directory(&self) -> Option<&Path> {
        if matches!(self.change, Change::Content) { None } else { self.path.parent() }
    }
}

/// The record. What would be gone for good is put aside in a directory of its own, on the same file system.
#[derive(Debug)]
pub(super) struct Power {
    aside: PathBuf,
    unsynced: Mutex<Vec<Unsynced>>,
    count: std::sync::atomic::AtomicU64,
}

impl Power {
    pub(super) fn new(aside: &Path) -> Self {
        Self {
            aside: aside.to_owned(),
            unsynced: Mutex::default(),
            count: std::sync::atomic::AtomicU64::default(),
        }
    }

    fn fresh(&self) -> PathBuf {
        self.aside.join(self.count.fetch_add(1, std::sync::atomic::Ordering::Relaxed).to_string())
    }

    fn note(&self, path: &Path, change: Change) {
        self.unsynced.lock().push(Unsynced { path: path.to_owned(), change });
    }

    pub(super) fn made(&self, path: &Path) {
        self.note(path, Change::Made);
    }

    pub(super) fn written(&self, path: &Path) {
        self.note(path, Change::Content);
    }

    pub(super) fn file_synced(&self, path: &Path) {
        self.unsynced.lock().retain(|one| one.path != path || !matches!(one.change, Change::Content));
    }

    pub(super) fn dir_synced(&self, path: &Path) {
        self.unsynced.lock().retain(|one| one.directory() != Some(path));
    }

    pub(super) fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let over = if to.is_file() {
            let copy = self.fresh();
            fs::copy(to, &copy)?;
            Some(copy)
        } else {
            None
        };
        fs::rename(from, to)?;
        let mut unsynced = self.unsynced.lock();
        for one in unsynced.iter_mut() {
            moved(&mut one.path, from, to);
        }
        unsynced.push(Unsynced { path: to.to_owned(), change: Change::Renamed(from.to_owned(), over) });
        Ok(())
    }

    pub(super) fn remove(&self, path: &Path) -> io::Result<()> {
        let kept = self.fresh();
        fs::rename(path, &kept)?;
        self.note(path, Change::Removed(Some(kept)));
        Ok(())
    }

    pub(super) fn removed_empty(&self, path: &Path) {
        self.note(path, Change::Removed(None));
    }

    /// Takes it all back that is lost, the last first.
    pub(super) fn cut(&self, loss: Loss) -> io::Result<()> {
        let mut unsynced = std::mem::take(&mut *self.unsynced.lock());
        let forgetful = match loss {
            Loss::Directory(number) => unsynced.iter().rev().nth(number).and_then(Unsynced::directory),
            _ => None,
        };
        let forgetful = forgetful.map(Path::to_owned);
        for number in 0.. {
            let Some(one) = unsynced.pop() else { break };
            let gone = match loss {
                Loss::Everything => true,
                Loss::Renames => matches!(one.change, Change::Renamed(..)),
                Loss::Contents => matches!(one.change, Change::Content),
                Loss::Directory(_) => forgetful.is_some() && one.directory() == forgetful.as_deref(),
                Loss::One(nth) => nth == number,
            };
            if !gone {
                continue;
            }
            if let Change::Renamed(from, _) = &one.change {
                for earlier in &mut unsynced {
                    moved(&mut earlier.path, &one.path, from);
                }
            }
            match undo(&one) {
                // It went with its directory.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                other => other?,
            }
        }
        Ok(())
    }
}

/// The path of what lay below `from` and lies below `to` now.
fn moved(path: &mut PathBuf, from: &Path, to: &Path) {
    if let Ok(below) = path.strip_prefix(from) {
        *path = if below.as_os_str().is_empty() { to.to_owned() } else { to.join(below) };
    }
}

fn undo(one: &Unsynced) -> io::Result<()> {
    let path = &one.path;
    match &one.change {
        Change::Made if path.is_dir() => fs::remove_dir_all(path),
        Change::Made => fs::remove_file(path),
        Change::Content => OpenOptions::new().write(true).truncate(true).open(path).map(|_| ()),
        Change::Renamed(from, over) => {
            fs::rename(path, from)?;
            over.as_ref().map_or(Ok(()), |over| fs::rename(over, path))
        }
        // Something new has its name, and with it the removal has lasted.
        Change::Removed(_) if path.exists() => Ok(()),
        Change::Removed(Some(kept)) => fs::rename(kept, path),
        Change::Removed(None) => fs::create_dir(path),
    }
}
