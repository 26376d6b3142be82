//! Live events: what a node tells while things happen there.
//!
//! **When things break.** A connection that ends is made anew, and goes on where it broke; a node that stays away is
//! given up after a while.

use std::time::Duration;

use anyhow::Result;

use super::Client;
use super::lines::Lines;
use crate::api::wire::BatchesChanged;
use crate::cli::exit::Failed;

/// How often a lost connection is made anew in a row, and the pauses between.
const TRIES: u32 = 10;
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);

/// Something may be otherwise than it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Change {
    /// Everything.
    All,
    /// These batches, and perhaps their jobs.
    Batches(BatchesChanged),
    /// Some jobs.
    Jobs,
}

/// The events of a node.
#[derive(Debug)]
pub(crate) struct Events {
    client: Client,
    open: Option<Lines>,
    last: Option<String>,
    tries: u32,
}

impl Client {
    pub(crate) fn events(&self) -> Events {
        Events { client: self.clone(), open: None, last: None, tries: 0 }
    }
}

impl Events {
    /// Waits for the next change.
    pub(crate) async fn next(&mut self) -> Result<Change> {
        loop {
            if self.open.is_none() {
                self.connect().await?;
                continue;
            }
            match self.read().await {
                Ok(Some(change)) => {
                    self.tries = 0;
                    return Ok(change);
                }
                Ok(None) => self.open = None,
                Err(error) if matches!(error.downcast_ref(), Some(Failed::NoServer { .. })) => {
                    self.open = None;
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn connect(&mut self) -> Result<()> {
        if self.tries > 0 {
            tokio::time::sleep((FIRST_PAUSE * 2u32.pow(self.tries.min(10) - 1)).min(LONGEST_PAUSE)).await;
        }
        self.tries += 1;
        let mut ask = self.client.get(&["events"]);
        if let Some(last) = &self.last {
            ask = ask.header("last-event-id", last);
        }
        match self.client.lines(ask).await {
            Ok(lines) => {
                self.open = Some(lines);
                Ok(())
            }
            Err(error) => match error.downcast_ref() {
                Some(Failed::NoServer { .. }) if self.tries < TRIES => Ok(()),
                Some(Failed::Problem(problem)) if problem.status == 503 && self.tries < TRIES => Ok(()),
                _ => Err(error),
            },
        }
    }

    /// The next event that says something; `None` if the stream has ended.
    async fn read(&mut self) -> Result<Option<Change>> {
        let Some(lines) = &mut self.open else { return Ok(None) };
        let (mut name, mut data) = (String::new(), String::new());
        while let Some(line) = lines.text().await? {
            if line.is_empty() {
                match change(&std::mem::take(&mut name), &std::mem::take(&mut data)) {
                    Some(change) => return Ok(Some(change)),
                    None => continue,
                }
            }
            let (field, value) = line.split_once(':').unwrap_or((&line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match field {
                "event" => value.clone_into(&mut name),
                "id" => self.last = Some(value.to_owned()),
                "data" if data.is_empty() => value.clone_into(&mut data),
                "data" => {
                    data.push('\n');
                    data.push_str(value);
                }
                _ => {}
            }
        }
        Ok(None)
    }
}

fn change(name: &str, data: &str) -> Option<Change> {
    match name {
        // `node` is also the first that is told once the tree is watched: what was read before may be old.
        "reset" | "node" => Some(Change::All),
        "jobs" | "counts" => Some(Change::Jobs),
        "batches" => Some(serde_json::from_str(data).map_or(Change::All, Change::Batches)),
        _ => None,
    }
}
