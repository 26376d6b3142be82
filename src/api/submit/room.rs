//! Room for uploads: what is announced is promised before a byte of it is stored, and a reserve stays free.
//!
//! **When things break.** A file system that cannot be asked refuses nothing: writing finds out.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ingest_steps::size;

use crate::api::problem::{Answer, Kind, Refusal};

/// So many bytes are written before the file system is asked again.
const ASK_AFTER: u64 = 16 << 20;

/// Bytes that all uploads together have announced and not written yet. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Promised(Arc<AtomicU64>);

/// The room of one upload. What of it was not used is free again when it is dropped.
#[derive(Debug)]
pub(super) struct Room {
    dir: PathBuf,
    reserve: u64,
    promised: Promised,
    /// Announced, and not written yet.
    left: u64,
    unasked: u64,
}

impl Room {
    /// Promises room for `announced` bytes, or refuses.
    pub(super) async fn promise(
        dir: &Path,
        reserve: u64,
        promised: &Promised,
        announced: u64,
    ) -> Answer<Self> {
        // It cannot be asked before it is there; if it cannot be made, writing says why.
        let _ = tokio::fs::create_dir_all(dir).await;
        let room =
            Self { dir: dir.to_owned(), reserve, promised: promised.clone(), left: announced, unasked: 0 };
        room.promised.0.fetch_add(announced, Ordering::Relaxed);
        room.ask().await?;
        Ok(room)
    }

    /// So many bytes were written.
    pub(super) async fn used(&mut self, bytes: u64) -> Answer<()> {
        let promised = bytes.min(self.left);
        self.left -= promised;
        self.promised.0.fetch_sub(promised, Ordering::Relaxed);
        self.unasked += bytes;
        if self.unasked < ASK_AFTER {
            return Ok(());
        }
        self.unasked = 0;
        self.ask().await
    }

    async fn ask(&self) -> Answer<()> {
        let dir = self.dir.clone();
        let asked = tokio::task::spawn_blocking(move || rustix::fs::statvfs(&dir)).await;
        let Ok(Ok(stat)) = asked else { return Ok(()) };
        let free = stat.f_bavail.saturating_mul(stat.f_frsize);
        let promised = self.promised.0.load(Ordering::Relaxed);
        match refused(free, promised, self.reserve) {
            Some(why) => Err(Refusal::new(Kind::NO_SPACE, why)),
            None => Ok(()),
        }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.promised.0.fetch_sub(self.left, Ordering::Relaxed);
    }
}

/// Why there is no room, if there is none.
fn refused(free: u64, promised: u64, reserve: u64) -> Option<String> {
    (free < promised.saturating_add(reserve)).then(|| {
        format!(
            "the disk for uploads has {} free: {} are promised to uploads, and {} are kept free (`api.upload_reserve`)",
            size::show(free),
            size::show(promised),
            size::show(reserve)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_promised_and_the_reserve_are_not_given_away_again() {
        assert_eq!(refused(100, 60, 40), None);
        let why = refused(2048, 1025, 1024).unwrap();
        assert!(why.contains("2 KiB free") && why.contains("api.upload_reserve"), "{why}");
        assert!(refused(u64::MAX - 1, u64::MAX, u64::MAX).is_some());
    }

    #[tokio::test]
    async fn room_that_was_promised_is_given_back_with_the_upload() {
        let (dir, promised) = (tempfile::tempdir().unwrap(), Promised::default());
        let all = || promised.0.load(Ordering::Relaxed);
        let mut room = Room::promise(dir.path(), 0, &promised, 100).await.unwrap();
        room.used(30).await.unwrap();
        assert_eq!(all(), 70);
        room.used(80).await.unwrap();
        assert_eq!(all(), 0, "more came than was announced");
        drop(room);
        let room = Room::promise(dir.path(), 0, &promised, 7).await.unwrap();
        assert_eq!(all(), 7);
        drop(room);
        assert_eq!(all(), 0);
        let refused = Room::promise(dir.path(), u64::MAX, &promised, 7).await.unwrap_err();
        assert_eq!((refused.kind, all()), (Kind::NO_SPACE, 0));
    }
}
