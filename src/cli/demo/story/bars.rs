//! Batches while they are worked on: a bar for each, and one for each state with the jobs that have come so far. Where
//! there is no terminal, each change of a batch is a line.

use std::collections::BTreeMap;
use std::io::IsTerminal as _;

use anyhow::Result;
use indicatif::{MultiProgress, ProgressBar};
use ingest_queue::dialect::Dialect;
use ingest_queue::states::{BatchState, JobState, States as _};

use super::Told;
use crate::api::wire::{Batch, Counts};
use crate::cli::client::{Change, Client};
use crate::cli::progress;
use crate::cli::screen::Screen;

/// How many jobs are in a state or have passed it. How far those that failed have come is not counted.
fn reached(jobs: &BTreeMap<JobState, usize>, state: JobState) -> usize {
    state.way(Dialect::Design).filter_map(|state| jobs.get(&state)).sum()
}

pub(super) struct Bars<'a> {
    client: &'a Client,
    batches: Vec<Line<'a>>,
    states: Vec<(JobState, ProgressBar)>,
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
        let state = |state: JobState| {
            // As wide as the id of a batch.
            let bar = progress::things(0, &format!("{:13}", state.name()));
            let message = if state == JobState::Failed { "" } else { "reached" };
            (state, all.add(bar.with_message(message)))
        };
        let states = JobState::Pending.way(Dialect::Design).chain([JobState::Failed]).map(state).collect();
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
        for bar in self.batches.iter().map(|line| &line.bar).chain(self.states.iter().map(|(_, bar)| bar)) {
            bar.abandon();
        }
        Ok(self.batches.into_iter().filter_map(|bar| bar.seen).collect())
    }

    async fn look(&mut self, change: &Change) -> Result<()> {
        if std::io::stderr().is_terminal() {
            let counts: Counts = self.client.send(self.client.get(&["states", "counts"])).await?;
            let all = counts.jobs.values().sum::<usize>();
            for (state, bar) in &self.states {
                progress::set_total(bar, all as u64);
                bar.set_position(reached(&counts.jobs, *state) as u64);
            }
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
        progress::set_total(&self.bar, total);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_has_reached_its_state_and_all_before_it() {
        let jobs = [(JobState::Pending, 1), (JobState::Processing, 2), (JobState::Completed, 4)];
        let aside = [(JobState::Failed, 8), (JobState::Held, 16)];
        let jobs: BTreeMap<JobState, usize> = jobs.into_iter().chain(aside).collect();
        let found: Vec<usize> =
            JobState::Pending.way(Dialect::Design).map(|state| reached(&jobs, state)).collect();
        assert_eq!(found, [7, 6, 6, 6, 6, 4, 4, 4]);
        assert_eq!(reached(&jobs, JobState::Failed), 8);
    }
}
