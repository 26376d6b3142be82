//! Batches, followed until they have ended.
//!
//! On a terminal each has a bar; elsewhere each change is a line on stderr, and with `--json` one on stdout. The node
//! tells when something changes; nothing is asked before that.
//!
//! **When things break.** A connection that breaks is made anew, see [`client::events`](super::client). A batch that is
//! gone has ended: somebody has deleted it, or it was cleaned up.

use std::io::IsTerminal as _;

use anyhow::Result;
use indicatif::{MultiProgress, ProgressBar};
use ingest_queue::states::{BatchState, States as _};

use super::client::{Change, Client, Output};
use super::exit::Failed;
use super::progress;
use super::screen::Screen;
use crate::api::wire::Batch;

/// A batch that is looked at.
struct Followed {
    /// As it was named.
    name: String,
    seen: Option<Batch>,
    gone: bool,
    bar: ProgressBar,
}

impl Followed {
    fn has_ended(&self) -> bool {
        self.gone || self.seen.as_ref().is_some_and(has_ended)
    }

    fn is_named(&self, changed: &crate::api::wire::BatchesChanged) -> bool {
        let Some(batch) = &self.seen else { return true };
        changed.more > 0
            || changed.changed.contains(&batch.line.bid)
            || changed.gone.contains(&batch.line.bid)
    }
}

/// A batch that has failed goes on as long as some of its jobs are tried again.
fn has_ended(batch: &Batch) -> bool {
    matches!(batch.line.state, BatchState::Completed | BatchState::Failed) && batch.line.jobs.processing == 0
}

/// Follows them to their end, and fails if one of them has not completed.
pub(super) async fn follow(client: &Client, names: &[String], output: Output) -> Result<()> {
    let bars = MultiProgress::new();
    let mut all: Vec<Followed> = Vec::new();
    for name in names {
        let bar = bars.add(progress::things(0, name));
        all.push(Followed { name: name.clone(), seen: None, gone: false, bar });
    }
    let mut events = client.events();
    let mut change = Change::All;
    loop {
        for batch in all.iter_mut().filter(|batch| !batch.has_ended()) {
            let look = match &change {
                Change::All => true,
                Change::Batches(changed) => batch.is_named(changed),
                Change::Jobs => false,
            };
            if look {
                look_at(client, batch, output).await?;
            }
        }
        if all.iter().all(Followed::has_ended) {
            return ended(&all);
        }
        change = events.next().await?;
    }
}

async fn look_at(client: &Client, followed: &mut Followed, output: Output) -> Result<()> {
    let now: Batch = match client.send(client.get(&["batches", &followed.name])).await {
        Ok(batch) => batch,
        Err(error) => match error.downcast_ref() {
            Some(Failed::Problem(problem)) if problem.status == 404 && followed.seen.is_some() => {
                followed.gone = true;
                return Ok(());
            }
            // The event stream waits for the node to come back, and looks again.
            Some(Failed::NoServer { .. }) if followed.seen.is_some() => return Ok(()),
            _ => return Err(error),
        },
    };
    if followed.seen.as_ref() == Some(&now) {
        return Ok(());
    }
    let counts = now.line.jobs;
    let done = counts.completed + counts.failed + counts.deleted;
    let total = now.line.expansion.map_or(0, |expansion| expansion.total);
    progress::set_total(&followed.bar, total);
    followed.bar.set_position(done as u64);
    followed.bar.set_prefix(now.line.bid.to_string());
    followed.bar.set_message(now.line.state.name());
    if output.json {
        output.line(&now)?;
    } else if !std::io::stderr().is_terminal() && followed.seen.as_ref().map(sentence) != Some(sentence(&now))
    {
        Screen::note(&sentence(&now));
    }
    let was_held = followed.seen.as_ref().is_some_and(|batch| batch.held_jobs > 0);
    if now.line.state == BatchState::Held || (now.held_jobs > 0 && !was_held) {
        followed.bar.suspend(|| Screen::note(&waits(&now)));
    }
    if has_ended(&now) {
        followed.bar.abandon();
    }
    followed.seen = Some(now);
    Ok(())
}

fn sentence(batch: &Batch) -> String {
    let line = &batch.line;
    let total = line.expansion.map_or_else(|| "?".to_owned(), |expansion| expansion.total.to_string());
    let jobs = &line.jobs;
    let mut text =
        format!("{}: {}, {} of {total} jobs completed", line.bid, line.state.name(), jobs.completed);
    for (count, what) in [(jobs.failed, "failed"), (jobs.deleted, "deleted"), (batch.held_jobs, "held")] {
        if count > 0 {
            text = format!("{text}, {count} {what}");
        }
    }
    text
}

fn waits(batch: &Batch) -> String {
    let bid = batch.line.bid;
    if batch.line.state == BatchState::Held {
        return format!("{bid} is held, and waits: `ingestd batch release {bid}` lets it go on");
    }
    format!("{bid} waits for held jobs: `ingestd job release --batch {bid} --state held` lets them go on")
}

/// The verdict over all of them.
fn ended(all: &[Followed]) -> Result<()> {
    let mut wrong = Vec::new();
    for followed in all {
        match &followed.seen {
            _ if followed.gone => wrong.push(format!("{} is not there any more", followed.name)),
            Some(batch) if batch.line.state == BatchState::Completed => {}
            Some(batch) => {
                let (bid, jobs) = (batch.line.bid, batch.line.jobs);
                let why = if jobs.failed == 0 && jobs.completed > 0 {
                    format!(
                        "but what was tried again has completed since; `ingestd batch update-report {bid}` tells the depositor"
                    )
                } else if batch.line.message.is_empty() {
                    format!("{} of its jobs have failed", jobs.failed)
                } else {
                    batch.line.message.clone()
                };
                wrong.push(format!("{bid} has failed: {why}"));
            }
            None => {}
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(Failed::NotAll(wrong.join("; ")).into()) }
}
