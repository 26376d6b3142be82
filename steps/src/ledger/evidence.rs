//! Numbers of batches and jobs that directories know: in the names of what lies there. A directory that is not there knows none.

use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use ingest_queue::ids::{Bid, Jid};

use crate::archive::disk as broken;
use crate::outcome::Result;
use crate::services::blocking;

/// The first batch and the first job that no working directory knows.
pub(super) async fn of_work(dir: PathBuf) -> Result<(u32, u32)> {
    blocking("looking at the working directory", move || {
        let (mut batches, mut jobs) = (0, 0);
        for name in names(&dir)? {
            let Ok(bid) = name.parse::<Bid>() else { continue };
            batches = batches.max(bid.number().saturating_add(1));
            jobs = jobs.max(first_unknown::<Jid>(&names(&dir.join(&name))?, Jid::number));
        }
        Ok((batches, jobs))
    })
    .await
}

/// The first batch of which no message lies in an outbox.
pub(super) async fn of_outbox(dir: PathBuf) -> Result<u32> {
    blocking("looking at the outbox", move || {
        let names = names(&dir)?;
        let bids: Vec<String> =
            names.iter().filter_map(|name| Some(name.split_once('-')?.0.to_owned())).collect();
        Ok(first_unknown::<Bid>(&bids, Bid::number))
    })
    .await
}

fn first_unknown<T: FromStr>(names: &[String], number: impl Fn(T) -> u32) -> u32 {
    let numbers = names.iter().filter_map(|name| name.parse().ok()).map(number);
    numbers.max().map_or(0, |highest| highest.saturating_add(1))
}

fn names(dir: &Path) -> Result<Vec<String>> {
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        Err(error) => return Err(broken(dir, &error)),
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|error| broken(dir, &error))?;
        names.extend(entry.file_name().into_string().ok());
    }
    Ok(names)
}
