//! The rows of a batch, chunk after chunk, read off the runtime.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use tokio::sync::mpsc;

use super::frozen::{self, KnownRow};
use super::gather::Gathered;
use crate::archive::disk;
use crate::manifest::{Limits, Reader};
use crate::outcome::{Cancel, Failure, Progress, Result};
use crate::payload::PayloadKind;
use crate::services::blocking;

/// How many chunks are read ahead.
const AHEAD: usize = 1;

/// Where rows come from.
pub(super) enum Source {
    Rows(Vec<KnownRow>),
    Manifest(PathBuf),
}

impl Source {
    pub(super) fn of(gathered: Gathered, manifest: &Path) -> Self {
        match gathered {
            Gathered::Rows(rows) => Source::Rows(rows),
            Gathered::Manifest { .. } => Source::Manifest(manifest.to_owned()),
        }
    }

    /// What was frozen, in a file.
    pub(super) async fn read(path: &Path) -> Result<Self> {
        let path = path.to_owned();
        blocking("reading the manifest", move || {
            let broken = |error: io::Error| disk(&path, &error);
            let mut file = BufReader::new(File::open(&path).map_err(broken)?);
            if !frozen::is_frozen_rows(file.fill_buf().map_err(broken)?) {
                return Ok(Source::Manifest(path));
            }
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes).map_err(broken)?;
            Ok(Source::Rows(frozen::read(&bytes)?))
        })
        .await
    }

    /// The rows from `from` on, so many at a time. A failure is the last item.
    pub(super) fn chunks(
        self,
        from: u64,
        at_once: usize,
        cancel: &Cancel,
    ) -> mpsc::Receiver<Result<Vec<KnownRow>>> {
        let (sender, receiver) = mpsc::channel(AHEAD);
        let cancel = cancel.clone();
        // Ends when the receiver is gone, or with the rows.
        drop(tokio::task::spawn_blocking(move || {
            let sent = match self {
                Source::Rows(rows) => send(rows.into_iter().map(Ok), from, at_once, &sender),
                Source::Manifest(path) => match open(&path, &Progress::default(), &cancel) {
                    Ok((kind, rows)) => {
                        let known = |row: Result<_, crate::manifest::Error>| match row {
                            Ok(row) => Ok(KnownRow { kind, row }),
                            Err(error) => Err(Failure::from(error)),
                        };
                        send(rows.map(known), from, at_once, &sender)
                    }
                    Err(failure) => Err(failure),
                },
            };
            if let Err(failure) = sent {
                let failure = if cancel.is_cancelled() { Failure::Cancelled } else { failure };
                // Nobody listens any more: nobody has to know.
                let _ = sender.blocking_send(Err(failure));
            }
        }));
        receiver
    }
}

fn send(
    rows: impl Iterator<Item = Result<KnownRow>>,
    from: u64,
    at_once: usize,
    to: &mpsc::Sender<Result<Vec<KnownRow>>>,
) -> Result<()> {
    let mut chunk = Vec::with_capacity(at_once.min(10_000));
    for (number, row) in (0..).zip(rows) {
        let row = row?;
        if number < from {
            continue;
        }
        chunk.push(row);
        if chunk.len() == at_once && to.blocking_send(Ok(std::mem::take(&mut chunk))).is_err() {
            return Ok(());
        }
    }
    if !chunk.is_empty() {
        let _ = to.blocking_send(Ok(chunk));
    }
    Ok(())
}

/// Opens a batch manifest, and says what its rows are. Blocks.
fn open(
    path: &Path,
    progress: &Progress,
    cancel: &Cancel,
) -> Result<(PayloadKind, Reader<BufReader<Watched>>)> {
    let reader = Reader::open(watched(path, progress, cancel)?, Limits::default())?;
    let kind = PayloadKind::from(reader.kind());
    match kind.of_rows() {
        Some(kind) => Ok((kind, reader)),
        None => Err(Failure::fail(format!("a {kind} is one object, and has no rows that are objects"))),
    }
}

/// A file of which every read is a beat, and which ends with an error when cancelled. Blocks.
pub(in crate::step) fn watched(
    path: &Path,
    progress: &Progress,
    cancel: &Cancel,
) -> Result<BufReader<Watched>> {
    let file = File::open(path).map_err(|error| disk(path, &error))?;
    let watched = Watched { file, progress: progress.clone(), cancel: cancel.clone() };
    Ok(BufReader::with_capacity(256 << 10, watched))
}

pub(in crate::step) struct Watched {
    file: File,
    progress: Progress,
    cancel: Cancel,
}

impl Read for Watched {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.cancel.is_cancelled() {
            return Err(io::Error::other("stopped"));
        }
        self.progress.beat();
        self.file.read(buffer)
    }
}
