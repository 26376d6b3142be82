//! One action on all jobs that a filter selects.
//!
//! A run has an id, told before it begins: after a break, the same command with `--run-id` goes on, and no job is
//! touched twice. What cannot be taken back is counted first, and asked about.

use anyhow::Result;
use ingest_queue::states::{JobState, States as _};
use serde_json::Value;

use super::act::Which;
use super::list;
use crate::api::wire::{Bulk, BulkAction, BulkDry, BulkRan};
use crate::cli::client::Client;
use crate::cli::confirm::Confirm;
use crate::cli::exit::Failed;
use crate::cli::screen::Screen;
use crate::cli::{progress, words};

/// What is to be done.
#[derive(Debug, Clone)]
pub(super) struct Wanted {
    pub(super) action: BulkAction,
    pub(super) state: Option<JobState>,
    pub(super) priority: Option<Value>,
    /// Only with consent.
    pub(super) confirm: Option<Confirm>,
}

impl Wanted {
    pub(super) fn new(action: BulkAction) -> Self {
        Self { action, state: None, priority: None, confirm: None }
    }
}

pub(super) async fn run(which: &Which, wanted: Wanted) -> Result<()> {
    if which.filter.is_empty() && !which.all {
        let why = "which jobs? Name them, narrow them down by a filter, or say --all".to_owned();
        return Err(Failed::Usage(why).into());
    }
    let client = which.server.client()?;
    let bulk = Bulk {
        action: wanted.action,
        state: wanted.state,
        priority: wanted.priority,
        filter: which.filter.wire(),
        dry_run: false,
        all: which.all,
        confirm: wanted.confirm.is_some(),
        id: Some(which.run_id.clone().unwrap_or_else(|| uuid::Uuid::new_v4().simple().to_string())),
        reason: which.reason.clone(),
    };
    if which.dry_run {
        let dry = count(&client, &bulk).await?;
        if which.server.json() {
            return which.server.output().print(&dry);
        }
        return show(&dry, false);
    }
    if let Some(confirm) = wanted.confirm {
        confirm.can_be_asked("deleting jobs")?;
        if !confirm.is_given() {
            let dry = count(&client, &bulk).await?;
            if dry.total == 0 {
                return Screen::stdout().say("There are no such jobs.");
            }
            show(&dry, true)?;
            let jobs = words::count(dry.total, "job", "jobs");
            let warning = "Their depositors will not be told what became of them: reports will only name them as deleted.";
            confirm.ask(&format!("Delete {jobs}"), warning)?;
        }
    }
    go(&client, which, &bulk).await
}

async fn count(client: &Client, bulk: &Bulk) -> Result<BulkDry> {
    let bulk = Bulk { dry_run: true, id: None, ..bulk.clone() };
    let bar = progress::waiting("counting");
    let dry = client.send(client.post(&["jobs", "bulk"]).json(&bulk)?.patient()).await;
    bar.finish_and_clear();
    dry
}

fn show(dry: &BulkDry, beside: bool) -> Result<()> {
    let screen = Screen::stdout();
    let states: Vec<_> =
        dry.states.iter().map(|(state, count)| format!("{count} {}", state.name())).collect();
    let states = if states.is_empty() { String::new() } else { format!(" ({})", states.join(", ")) };
    let text = format!("{}: {}{states}", dry.what, words::count(dry.total, "job", "jobs"));
    if beside {
        Screen::note(&text);
        return Ok(());
    }
    screen.say(&text)?;
    if !dry.examples.is_empty() {
        screen.table(&list::table(&dry.examples))?;
        if dry.total > dry.examples.len() {
            screen.say(&format!("and {} more", dry.total - dry.examples.len()))?;
        }
    }
    super::unreadable(&dry.first_unreadable);
    Ok(())
}

async fn go(client: &Client, which: &Which, bulk: &Bulk) -> Result<()> {
    let id = bulk.id.clone().unwrap_or_default();
    let bar = progress::waiting(&format!("at work; if it is stopped, --run-id {id} goes on"));
    let ran = client.send::<BulkRan>(client.post(&["jobs", "bulk"]).json(bulk)?.patient()).await;
    bar.finish_and_clear();
    let ran = match ran {
        Err(error) if matches!(error.downcast_ref(), Some(Failed::NoServer { .. })) => {
            Screen::note(&format!(
                "Perhaps it was done in part: the same command with --run-id {id} goes on."
            ));
            return Err(error);
        }
        other => other?,
    };
    if which.server.json() {
        which.server.output().print(&ran)?;
    } else {
        tell(&ran)?;
    }
    if let Some(why) = &ran.stopped {
        let why = format!("it ended early: {why}. The same command with --run-id {} goes on", ran.id);
        return Err(Failed::NotAll(why).into());
    }
    if ran.refused > 0 || ran.unreadable > 0 {
        let why =
            format!("{} of {} jobs were refused, {} unreadable", ran.refused, ran.total, ran.unreadable);
        return Err(Failed::NotAll(why).into());
    }
    Ok(())
}

fn tell(ran: &BulkRan) -> Result<()> {
    let mut text = format!("{}: {} of {} done", ran.what, ran.done, words::count(ran.total, "job", "jobs"));
    let rest = [
        (ran.skipped, "done before"),
        (ran.gone, "gone or changed meanwhile"),
        (ran.refused, "refused"),
        (ran.unreadable, "unreadable"),
    ];
    for (count, what) in rest {
        if count > 0 {
            text = format!("{text}, {count} {what}");
        }
    }
    Screen::stdout().say(&text)?;
    for refusal in &ran.refusals {
        Screen::note(&format!("refused: {}: {}", refusal.jid, refusal.why));
    }
    super::unreadable(&ran.first_unreadable);
    Ok(())
}
