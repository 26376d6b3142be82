//! One action on all jobs that a filter selects.
//!
//! A run has an id, told before it begins: after a break, the same command with `--run-id` goes on, and no job is
//! touched twice. What cannot be taken back is counted first, and asked about; what is then done is done to as many
//! jobs as were shown, or to none. A dry run prints the command that does it, with the count to expect.

use std::ffi::OsString;

use anyhow::Result;
use ingest_actors::actions::shell_word;
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
    let mut bulk = Bulk {
        action: wanted.action,
        state: wanted.state,
        priority: wanted.priority,
        filter: which.filter.wire(),
        dry_run: false,
        all: which.all,
        expected: which.expect,
        confirm: wanted.confirm.is_some(),
        id: Some(which.run_id.clone().unwrap_or_else(|| uuid::Uuid::new_v4().simple().to_string())),
        reason: which.reason.clone(),
    };
    if which.dry_run {
        let dry = count(&client, &bulk).await?;
        let command = command(std::env::args_os(), dry.total);
        if which.server.json() {
            return which.server.output().print(&Counted { dry, command });
        }
        show(&dry, false)?;
        if let Some(command) = command.filter(|_| dry.total > 0) {
            Screen::stdout().say(&format!("To do it, to these and no others: {command}"))?;
        }
        return Ok(());
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
            // A run that goes on has fewer left than it began with, and was asked about then.
            bulk.expected = which.run_id.is_none().then_some(dry.total);
        }
    }
    go(&client, which, &bulk).await
}

/// A dry run, and the command that does what it has counted.
#[derive(Debug, serde::Serialize)]
struct Counted {
    #[serde(flatten)]
    dry: BulkDry,
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<String>,
}

/// The command of a dry run without that, and with the count. `None`: it cannot be shown, because it is no text.
fn command(arguments: impl Iterator<Item = OsString>, total: usize) -> Option<String> {
    let arguments = arguments.skip(1).map(OsString::into_string).collect::<Result<Vec<_>, _>>().ok()?;
    let mut words = vec!["ingestd".to_owned()];
    let (mut arguments, mut is_dry) = (arguments.iter(), true);
    while let Some(word) = arguments.next() {
        match word.as_str() {
            "--dry-run" if is_dry => {
                words.extend(["--expect".to_owned(), total.to_string()]);
                is_dry = false;
            }
            "--expect" => {
                arguments.next();
            }
            word if word.starts_with("--expect=") => {}
            word => words.push(shell_word(word)),
        }
    }
    Some(words.join(" "))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_of_a_dry_run_is_the_same_with_the_count() {
        let shown = |words: &[&str]| command(words.iter().map(OsString::from), 7);
        assert_eq!(
            shown(&[
                "/usr/bin/ingestd",
                "job",
                "requeue",
                "--group",
                "g1-00",
                "--dry-run",
                "--reason",
                "it's back"
            ]),
            Some(r"ingestd job requeue --group g1-00 --expect 7 --reason 'it'\''s back'".to_owned())
        );
        let with_count = ["ingestd", "job", "hold", "--expect", "5", "--all", "--dry-run", "--expect=6"];
        assert_eq!(shown(&with_count), Some("ingestd job hold --all --expect 7".to_owned()));
    }
}
