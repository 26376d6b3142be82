//! Writes a zip off the runtime, piece by piece, under a temporary name until it is whole.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use tempfile::NamedTempFile;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use zip::write::{SimpleFileOptions, ZipWriter};
use zip::{CompressionMethod, DateTime};

use crate::archive::disk;
use crate::outcome::{Failure, Result};

/// Pieces that may be on their way to the disk.
const AHEAD: usize = 8;
/// From here on a member's header has long numbers.
const LARGE: u64 = 0xF000_0000;

enum Piece {
    File {
        name: String,
        size: u64,
    },
    Data(Bytes),
    /// Without it whatever was written is thrown away.
    End,
}

pub(super) struct Writer {
    pieces: mpsc::Sender<Piece>,
    task: JoinHandle<Result<Option<u64>>>,
}

impl Writer {
    /// A zip that will be there when it is finished.
    pub(super) fn start(to: &Path) -> Self {
        let (pieces, received) = mpsc::channel(AHEAD);
        let to = to.to_owned();
        let task = tokio::task::spawn_blocking(move || write(&to, received));
        Self { pieces, task }
    }

    pub(super) async fn start_file(&self, name: &str, size: u64) -> Result<()> {
        self.send(Piece::File { name: name.to_owned(), size }).await
    }

    pub(super) async fn data(&self, data: Bytes) -> Result<()> {
        self.send(Piece::Data(data)).await
    }

    /// It is whole and on the disk; answers its size.
    pub(super) async fn finish(self) -> Result<u64> {
        // If it cannot be sent, the answer says why.
        let _ = self.pieces.send(Piece::End).await;
        drop(self.pieces);
        joined(self.task).await?.ok_or_else(|| Failure::fail("it was not written to its end"))
    }

    /// Nothing is left when this returns; a failure is the writer's own.
    pub(super) async fn give_up(self) -> Result<()> {
        drop(self.pieces);
        joined(self.task).await.map(|_| ())
    }

    async fn send(&self, piece: Piece) -> Result<()> {
        let ended = |_| Failure::fail("the writer has ended before its time");
        self.pieces.send(piece).await.map_err(ended)
    }
}

async fn joined(task: JoinHandle<Result<Option<u64>>>) -> Result<Option<u64>> {
    match task.await {
        Ok(answer) => answer,
        Err(error) => Err(Failure::fail(format!("writing ended without an answer: {error}"))),
    }
}

/// `None`: it was given up.
fn write(to: &Path, mut pieces: mpsc::Receiver<Piece>) -> Result<Option<u64>> {
    let dir =
        to.parent().filter(|dir| !dir.as_os_str().is_empty()).map_or(PathBuf::from("."), Path::to_owned);
    fs::create_dir_all(&dir).map_err(|error| disk(&dir, &error))?;
    let name = to.file_name().unwrap_or_default().to_string_lossy();
    let part = tempfile::Builder::new()
        .prefix(&format!(".{name}.part-"))
        .tempfile_in(&dir)
        .map_err(|error| disk(&dir, &error))?;
    let mut zip = ZipWriter::new(BufWriter::with_capacity(128 << 10, part));
    let broken = |error: io::Error| disk(to, &error);
    loop {
        match pieces.blocking_recv() {
            None => return Ok(None),
            Some(Piece::File { name, size }) => {
                let options = SimpleFileOptions::default()
                    .compression_method(CompressionMethod::Stored)
                    .last_modified_time(DateTime::default())
                    .unix_permissions(0o644)
                    .large_file(size >= LARGE);
                zip.start_file(name, options).map_err(|error| broken(error.into()))?;
            }
            Some(Piece::Data(data)) => zip.write_all(&data).map_err(broken)?,
            Some(Piece::End) => break,
        }
    }
    let part: NamedTempFile = zip
        .finish()
        .map_err(io::Error::from)
        .and_then(|buffer| buffer.into_inner().map_err(io::IntoInnerError::into_error))
        .map_err(broken)?;
    let size = part.as_file().metadata().map_err(broken)?.len();
    part.as_file().sync_all().map_err(broken)?;
    part.persist(to).map_err(|error| broken(error.error))?;
    File::open(&dir).and_then(|dir| dir.sync_all()).map_err(broken)?;
    Ok(Some(size))
}
