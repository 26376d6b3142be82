//! Batches while they are worked on: a bar for each, and one line with the jobs in each state. Where there is no
//! terminal, each change of a batch is a line.

use std::io::IsTerminal as _;

use anyhow::Result;
use indicatif::{MultiProgress, ProgressBar};
use ingest_queue::states::{BatchState, States as _};

use super::Told;
use crate::api::wire::{Batch, Counts};
use crate::cli::client::{Change, Client};
use crate::cli::progress;
use crate::cli::screen::Screen;

pub(super) struct Bars<'a> {
    client: &'a Client,
    batches: Vec<Line<'a>>,
    states: ProgressBar,
    _all: MultiProgress,
}

struct Line<'a> {
    told: &'a Told,
    bar: ProgressBar,
    seen: Option<Batch>,
}

impl<'a> Bars<'a> {
    pub(super) fn new(client: &'a Client, batches: &'a [Told]) -> Self {
        let all = MultiProgress::new();
        let bar = |told: &'a Told| {
            let bar = all.add(progress::things(0, &told.bid.to_string()));
            Line { told, bar, seen: None }
        };
        let batches = batches.iter().map(bar).collect();
        let states = all.add(progress::waiting("the jobs"));
        Self { client, batches, states, _all: all }
    }

    pub(super) async fn until_ended(self) -> Result<Vec<Batch>> {
        self.until(|batch| matches!(batch.line.state, BatchState::Completed | BatchState::Failed)).await
    }

    /// Follows them by the node's events until each is as wanted.
    pub(super) async fn until(mut self, wanted: impl Fn(&Batch) -> bool) -> Result<Vec<Batch>> {
        let mut events = self.client.events();
        let mut change = Change::All;
        loop {
            self.look(&change).await?;
            if self.batches.iter().all(|bar| bar.seen.as_ref().is_some_and(&wanted)) {
                break;
            }
            change = events.next().await?;
        }
        self.states.finish_and_clear();
        for bar in &self.batches {
            bar.bar.abandon();
        }
        Ok(self.batches.into_iter().filter_map(|bar| bar.seen).collect())
    }

    async fn look(&mut self, change: &Change) -> Result<()> {
        if std::io::stderr().is_terminal() {
            let counts: Counts = self.client.send(self.client.get(&["states", "counts"])).await?;
            let some = counts.jobs.iter().filter(|(_, count)| **count > 0);
            let some: Vec<String> = some.map(|(state, count)| format!("{state} {count}")).collect();
            self.states.set_message(some.join("  "));
        }
        for bar in &mut self.batches {
            let concerned = match change {
                Change::All => true,
                Change::Batches(changed) => changed.more > 0 || changed.changed.contains(&bar.told.bid),
                Change::Jobs => false,
            };
            if concerned {
                bar.look(self.client).await?;
            }
        }
        Ok(())
    }
}

impl Line<'_> {
    async fn look(&mut self, client: &Client) -> Result<()> {
        let now: Batch = client.send(client.get(&["batches", &self.told.bid.to_string()])).await?;
        let (jobs, state) = (now.line.jobs, now.line.state.name());
        let total = now.line.expansion.map_or(0, |expansion| expansion.total);
        self.bar.set_length(total);
        self.bar.set_position((jobs.completed + jobs.failed) as u64);
        self.bar.set_message(state);
        let before = self.seen.replace(now);
        let changed =
            before.is_none_or(|before| (before.line.state.name(), before.line.jobs) != (state, jobs));
        if changed && !std::io::stderr().is_terminal() {
            let Told { bid, about } = self.told;
            let (done, failed) = (jobs.completed, jobs.failed);
            Screen::note(&format!("  {bid}  {about}: {state}, {done} of {total} completed, {failed} failed"));
        }
        Ok(())
    }
}
