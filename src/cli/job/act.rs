//! `ingestd job requeue`, `hold`, `release`, `delete` and `priority`: on jobs that are named, or on all that a filter
//! selects.

use anyhow::Result;
use ingest_queue::ids::Jid;
use ingest_queue::states::{JobState, States as _};
use reqwest::Method;
use serde_json::json;

use super::bulk;
use super::filter::{self, Filter};
use crate::api::wire::{self, BulkAction, Doing, Job, JobActed};
use crate::cli::client::{Ask, Client, Server};
use crate::cli::confirm::Confirm;
use crate::cli::exit::Failed;
use crate::cli::many::each;

/// What all of them take.
#[derive(Debug, clap::Args)]
pub(crate) struct Which {
    /// The jobs; otherwise those that the filter selects
    job: Vec<Jid>,

    /// Only tell which jobs, and do nothing
    #[arg(long)]
    pub(super) dry_run: bool,

    /// Only if the filter selects so many jobs now, as a dry run has counted them; otherwise nothing is done
    #[arg(long, value_name = "N", conflicts_with_all = ["job", "run_id"])]
    pub(super) expect: Option<usize>,

    /// The id of a run that was stopped, to go on with it
    #[arg(long, value_name = "ID", conflicts_with = "job")]
    pub(super) run_id: Option<String>,

    /// Why, for the status and the history
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(super) reason: String,

    /// Take the lock away from whoever works on it; only for jobs that are named
    #[arg(long, requires = "job")]
    force: bool,

    #[command(flatten)]
    pub(super) filter: Filter,

    /// All jobs: without it an empty filter is an error
    #[arg(long, help_heading = "Which jobs")]
    pub(super) all: bool,

    #[command(flatten)]
    pub(super) server: Server,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Requeue {
    /// Where they start; otherwise after the last state that each has finished
    #[arg(long, value_name = "STATE", value_parser = filter::state)]
    from: Option<JobState>,

    #[command(flatten)]
    which: Which,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Hold {
    #[command(flatten)]
    which: Which,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Release {
    #[command(flatten)]
    which: Which,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Delete {
    #[command(flatten)]
    confirm: Confirm,

    #[command(flatten)]
    which: Which,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Priority {
    /// 0 to 99, lower runs first; or a class: now, important, new, reset, updates, slow, review, time-allows
    #[arg(value_parser = crate::cli::words::any_priority)]
    priority: serde_json::Value,

    #[command(flatten)]
    which: Which,
}

impl Requeue {
    pub(super) async fn run(self) -> Result<()> {
        let body =
            wire::Requeue { state: self.from, reason: self.which.reason.clone(), force: self.which.force };
        let ask = |client: &Client, jid: &str| client.post(&["jobs", jid, "requeue"]).json(&body);
        let bulk = bulk::Wanted { state: self.from, ..bulk::Wanted::new(BulkAction::Requeue) };
        self.which.run("requeue", "will be tried again", ask, bulk).await
    }
}

impl Hold {
    pub(super) async fn run(self) -> Result<()> {
        let body = self.which.doing();
        let ask = |client: &Client, jid: &str| client.post(&["jobs", jid, "hold"]).json(&body);
        self.which.run("hold", "held", ask, bulk::Wanted::new(BulkAction::Hold)).await
    }
}

impl Release {
    pub(super) async fn run(self) -> Result<()> {
        let body = self.which.doing();
        let ask = |client: &Client, jid: &str| client.post(&["jobs", jid, "release"]).json(&body);
        self.which.run("release", "released", ask, bulk::Wanted::new(BulkAction::Release)).await
    }
}

impl Delete {
    pub(super) async fn run(self) -> Result<()> {
        let (reason, force) = (self.which.reason.clone(), self.which.force);
        let ask = |client: &Client, jid: &str| {
            let ask = client.ask(Method::DELETE, &["jobs", jid]).with("confirm", Some(true));
            let ask = ask.with("reason", (!reason.is_empty()).then_some(&reason));
            Ok(ask.with("force", force.then_some(true)))
        };
        let bulk = bulk::Wanted { confirm: Some(self.confirm), ..bulk::Wanted::new(BulkAction::Delete) };
        self.which.run("delete", "deleted", ask, bulk).await
    }
}

impl Priority {
    pub(super) async fn run(self) -> Result<()> {
        let priority = self.priority;
        let (reason, force) = (self.which.reason.clone(), self.which.force);
        let body = wire::SetPriority { priority: priority.clone(), reason, force };
        let ask =
            |client: &Client, jid: &str| client.ask(Method::PUT, &["jobs", jid, "priority"]).json(&body);
        let bulk = bulk::Wanted { priority: Some(priority), ..bulk::Wanted::new(BulkAction::Priority) };
        self.which.run("priority", "changed", ask, bulk).await
    }
}

impl Which {
    fn doing(&self) -> Doing {
        Doing { reason: self.reason.clone(), force: self.force }
    }

    async fn run(
        self,
        name: &str,
        done: &str,
        ask: impl Fn(&Client, &str) -> Result<Ask>,
        bulk: bulk::Wanted,
    ) -> Result<()> {
        if self.job.is_empty() {
            return bulk::run(&self, bulk).await;
        }
        if self.all || !self.filter.is_empty() {
            let why = "name jobs, or select them by a filter: not both".to_owned();
            return Err(Failed::Usage(why).into());
        }
        let client = self.server.client()?;
        let jids: Vec<String> = self.job.iter().map(ToString::to_string).collect();
        if self.dry_run {
            return self.would(&client, &jids, name).await;
        }
        let act = async |jid: &str| {
            if let Some(confirm) = bulk.confirm {
                sure(&client, jid, confirm).await?;
            }
            client.send::<JobActed>(ask(&client, jid)?).await
        };
        each(&jids, self.server.output(), act, |acted| told(acted, done)).await
    }

    /// Whether the state tables allow it.
    async fn would(&self, client: &Client, jids: &[String], name: &str) -> Result<()> {
        let look = async |jid: &str| {
            let job: Job = client.send(client.get(&["jobs", jid])).await?;
            let allowed = job.may.iter().any(|may| may == name);
            Ok(json!({ "jid": job.jid, "state": job.state, "allowed": allowed, "may": job.may }))
        };
        let told = |seen: &serde_json::Value| {
            let word = if seen["allowed"] == true { "would be done" } else { "would be refused" };
            let text = |field: &str| seen[field].as_str().unwrap_or_default().to_owned();
            format!("{} is {}: {name} {word}", text("jid"), text("state"))
        };
        each(jids, self.server.output(), look, told).await
    }
}

async fn sure(client: &Client, jid: &str, confirm: Confirm) -> Result<()> {
    confirm.can_be_asked("deleting a job")?;
    if confirm.is_given() {
        return Ok(());
    }
    let job: Job = client.send(client.get(&["jobs", jid])).await?;
    let submitter =
        job.configuration.get("submitter").and_then(serde_json::Value::as_str).unwrap_or("its depositor");
    let warning = format!(
        "{} of {} is {}. {submitter} will not be told what became of it: the report will only name it as deleted.",
        job.jid,
        job.bid,
        job.state.name()
    );
    confirm.ask(&format!("Delete {}", job.jid), &warning)
}

fn told(acted: &JobActed, done: &str) -> String {
    let JobActed { jid, from, state, priority, warning } = acted;
    if let Some(warning) = warning {
        return format!("{jid} {done}: it was {}; {warning}", from.name());
    }
    if let Some(priority) = priority {
        return format!("{jid} {done}: its priority is {priority}");
    }
    let now = state.map_or("gone", |state| state.name());
    format!("{jid} {done}: it was {}, and is {now}", from.name())
}
