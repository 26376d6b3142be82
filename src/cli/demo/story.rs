//! What the demo does and tells, step by step. Every number in it is the node's answer.

mod bars;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};
use ingest_queue::ids::Bid;
use ingest_queue::states::{BatchState, JobState, States as _};

use self::bars::Bars;
use super::deposits::{self, Deposit};
use super::mail;
use super::samples::{DAMAGED, Samples};
use super::source::Source;
use crate::api::wire::{Batch, BatchActed, JobActed, JobLine, JobPage, Submitted};
use crate::cli::client::Client;
use crate::cli::screen::{Paint, Screen};

pub(super) struct Story<'a> {
    pub(super) client: Client,
    pub(super) dir: &'a Path,
    pub(super) log: PathBuf,
    /// The directory stays when the demo has ended.
    pub(super) kept: bool,
}

/// A batch that was submitted.
pub(super) struct Told {
    pub(super) bid: Bid,
    pub(super) about: &'static str,
}

impl Story<'_> {
    pub(super) async fn tell(&self, samples: &Samples, source: &Source, stays: bool) -> Result<()> {
        let server = self.client.server();
        title("A node, and a depositor's server")?;
        say(&format!("The node runs in {}; its log is {}.", self.dir.display(), self.log.display()))?;
        say(&format!("Its dashboard: {server}"))?;
        let deposits = deposits::prepare(samples, source)?;
        let batches = self.submit(&deposits).await?;
        title("The node works")?;
        let ended = Bars::new(&self.client, &batches).until_ended().await?;
        let failed = self.as_expected(&ended)?;
        self.reports(&batches, failed)?;
        self.objects(10).await?;
        self.repair(samples, source, failed).await?;
        self.objects(11).await?;
        if stays {
            title("The node goes on")?;
            say(&format!("Look at {server} and submit something yourself; Ctrl-C ends it."))?;
        }
        Ok(())
    }

    pub(super) fn farewell(&self) -> Result<()> {
        let what = if self.kept { "Everything is left in" } else { "The node has ended; with it goes" };
        say("")?;
        say(&format!("{what} {}.", self.dir.display()))
    }

    async fn submit(&self, deposits: &[Deposit]) -> Result<Vec<Told>> {
        title("One deposit of each kind is submitted")?;
        let mut batches = Vec::new();
        for Deposit { about, submission } in deposits {
            let taken: Submitted = self.client.send(self.client.post(&["batches"]).json(submission)?).await?;
            say(&format!("  {}  {about}", taken.bid))?;
            batches.push(Told { bid: taken.bid, about });
        }
        say(&format!("In the last one, one byte of {DAMAGED} is not what its manifest says."))?;
        Ok(batches)
    }

    /// All completed but the last, of which one job failed.
    fn as_expected(&self, ended: &[Batch]) -> Result<Bid> {
        let Some((last, others)) = ended.split_last() else { bail!("nothing was submitted") };
        for batch in others {
            let (bid, state) = (batch.line.bid, batch.line.state);
            ensure!(
                state == BatchState::Completed,
                "{bid} should have completed, and is {}: {}; see {}",
                state.name(),
                batch.line.message,
                self.log.display()
            );
        }
        let (state, jobs) = (last.line.state, last.line.jobs);
        ensure!(
            state == BatchState::Failed && (jobs.completed, jobs.failed) == (2, 1),
            "{} should have failed with one of its three jobs, and is {} with {} completed and {} failed",
            last.line.bid,
            state.name(),
            jobs.completed,
            jobs.failed
        );
        Ok(last.line.bid)
    }

    fn reports(&self, batches: &[Told], failed: Bid) -> Result<()> {
        let is_mail = |entry: std::fs::DirEntry| entry.path().extension().is_some_and(|end| end == "eml");
        let outbox = std::fs::read_dir(self.dir.join("outbox"));
        let mails =
            outbox.map_or(0, |entries| entries.flatten().map(is_mail).filter(|is_mail| *is_mail).count());
        title("What the depositor is told")?;
        say(&format!(
            "{mails} reports in {}. This is the one of {failed}:",
            self.dir.join("outbox").display()
        ))?;
        ensure!(mails == batches.len(), "there should be {} reports", batches.len());
        self.report(failed, 1)
    }

    /// The mail, as it lies in the outbox.
    fn report(&self, bid: Bid, number: u32) -> Result<()> {
        let mail = self.dir.join(format!("outbox/{bid}-{number}@localhost.eml"));
        let message =
            std::fs::read_to_string(&mail).with_context(|| format!("the report {}", mail.display()))?;
        let text = mail::text(&message).with_context(|| format!("{} has no text", mail.display()))?;
        let quoted: Vec<String> = text.lines().map(|line| format!("  | {line}")).collect();
        Screen::stdout().text(&quoted.join("\n"))
    }

    async fn objects(&self, count: usize) -> Result<()> {
        let mut objects: Vec<JobLine> = self.jobs(None, JobState::Completed).await?;
        objects.sort_by_key(|job| job.jid);
        let storage = self.dir.join("storage");
        title(&format!("{} objects are stored", objects.len()))?;
        ensure!(objects.len() == count, "there should be {count} objects");
        let Some(ark) = objects.first().and_then(|job| job.primary_id.clone()) else {
            bail!("an object has no identifier");
        };
        for job in &objects {
            let ark = job.primary_id.as_deref().unwrap_or("(none)");
            say(&format!("  {ark}  {}", job.local_ids.join("; ")))?;
        }
        let server = self.client.server();
        say(&format!("They lie in {}, an OCFL repository. To look at them:", storage.display()))?;
        say(&format!("  find {} -type f", storage.display()))?;
        say(&format!("  ingestd job list --server {server}"))?;
        say(&format!("  ingestd access submit {ark} --server {server}"))
    }

    /// The source is repaired, the job requeued, the depositor told.
    async fn repair(&self, samples: &Samples, source: &Source, failed: Bid) -> Result<()> {
        title("The source is repaired, and the job requeued")?;
        let jobs = self.jobs(Some(failed), JobState::Failed).await?;
        let [job] = jobs.as_slice() else { bail!("one job should have failed, and not {}", jobs.len()) };
        say(&format!("{} failed: {}", job.jid, job.message))?;
        source.put(DAMAGED, samples.bytes(DAMAGED)?.clone());
        let jid = job.jid.to_string();
        let reason = serde_json::json!({ "reason": "the depositor has repaired the file" });
        let acted: JobActed =
            self.client.send(self.client.post(&["jobs", &jid, "requeue"]).json(&reason)?).await?;
        say(&format!(
            "{jid} is requeued: {} → {}",
            acted.from.name(),
            acted.state.map_or("?", JobState::name)
        ))?;
        let told = [Told { bid: failed, about: "the same batch" }];
        let batch = Bars::new(&self.client, &told).until(|batch| batch.line.jobs.processing == 0).await?;
        let jobs = batch.first().context("the batch is gone")?.line.jobs;
        ensure!(
            (jobs.completed, jobs.failed) == (3, 0),
            "{jid} has failed again; see {}",
            self.log.display()
        );
        let ask = self.client.post(&["batches", &failed.to_string(), "update-report"]);
        let _: BatchActed = self.client.send(ask.json(&serde_json::json!({}))?).await?;
        let batch = Bars::new(&self.client, &told).until_ended().await?;
        let batch = &batch.first().context("the batch is gone")?.line;
        ensure!(
            batch.state == BatchState::Completed,
            "{failed} should have completed now, and is {}: {}; see {}",
            batch.state.name(),
            batch.message,
            self.log.display()
        );
        title("What the depositor is told now")?;
        self.report(failed, 2)
    }

    async fn jobs(&self, batch: Option<Bid>, state: JobState) -> Result<Vec<JobLine>> {
        let ask = self.client.get(&["jobs"]).with("state", Some(state.name())).with("batch", batch);
        let page: JobPage = self.client.send(ask.with("limit", Some(1000))).await?;
        Ok(page.jobs)
    }
}

fn title(text: &str) -> Result<()> {
    let screen = Screen::stdout();
    screen.plain(&format!("\n{}\n", screen.painted(Paint::Title, text)))
}

fn say(text: &str) -> Result<()> {
    Screen::stdout().say(text)
}
