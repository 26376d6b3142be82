//! `ingestd audit`: reads stored objects, and compares their content with their digests and with the inventory.
//!
//! Objects are printed some hundreds at a time, so that a million of them fit. At the end each verdict that was given
//! is printed with what to do about it.

use anyhow::Result;

use super::client::Server;
use super::exit::Failed;
use super::progress;
use super::screen::{Cell, Column, Paint, Screen, Table};
use super::words;
use crate::api::wire::{AuditLine, AuditVerdict, Audited, AuditedObject};

/// The command's options.
#[derive(Debug, clap::Args)]
pub(super) struct Audit {
    /// The objects' ARKs
    #[arg(required_unless_present_any = ["batch", "all"], conflicts_with_all = ["batch", "all"])]
    ark: Vec<String>,

    /// All objects of this batch
    #[arg(long, value_name = "BATCH", conflicts_with = "all")]
    batch: Option<String>,

    /// All objects that are recorded or stored, and whatever else lies in the storages
    #[arg(long)]
    all: bool,

    #[command(flatten)]
    server: Server,
}

impl Audit {
    pub(super) async fn run(self) -> Result<()> {
        let client = self.server.client()?;
        let mut ask = client.get(&["objects", "audit"]);
        for ark in &self.ark {
            ask = ask.with("ark", Some(ark));
        }
        let ask = ask.with("batch", self.batch.as_ref()).with("all", self.all.then_some(true));
        let bar = progress::waiting("reading");
        let mut lines = client.lines(ask).await?;
        let mut waiting = Vec::new();
        let done = loop {
            let Some(line) = lines.next::<AuditLine>().await? else {
                return Err(client.not_understood("the answer has broken off").into());
            };
            if self.server.json() && !matches!(line, AuditLine::Progress(_)) {
                bar.suspend(|| self.server.output().line(&line))?;
            }
            match line {
                AuditLine::Progress(now) => bar.set_message(format!(
                    "{} done, {}: {}",
                    words::count(now.objects, "object", "objects"),
                    words::bytes(now.bytes),
                    now.ark
                )),
                AuditLine::Object(object) if self.server.json() => drop(object),
                AuditLine::Object(object) => {
                    waiting.push(object);
                    if waiting.len() >= AT_ONCE {
                        bar.suspend(|| print(&mut waiting))?;
                    }
                }
                AuditLine::Done(done) => break done,
                AuditLine::Problem(problem) => {
                    bar.suspend(|| print(&mut waiting))?;
                    return Err(Failed::Problem(Box::new(problem)).into());
                }
            }
        };
        bar.finish_and_clear();
        if !self.server.json() {
            print(&mut waiting)?;
            sum(&done)?;
        }
        if done.damaged == 0 {
            return Ok(());
        }
        let objects = words::count(done.objects, "object", "objects");
        Err(Failed::Found(format!("{} of {objects} not as stored", done.damaged)).into())
    }
}

/// As many are printed as one table.
const AT_ONCE: usize = 500;

/// Those that wait: a table, and below it what is wrong with them.
fn print(waiting: &mut Vec<AuditedObject>) -> Result<()> {
    if waiting.is_empty() {
        return Ok(());
    }
    let screen = Screen::stdout();
    let objects = std::mem::take(waiting);
    let mut table = Table::new([
        Column::text("OBJECT"),
        Column::word("STORAGE").minor(),
        Column::number("VERSIONS").minor(),
        Column::number("FILES"),
        Column::number("BYTES"),
        Column::word("VERDICT"),
        Column::word("FOUND"),
    ]);
    for object in &objects {
        let sound = object.verdict == AuditVerdict::Sound;
        let paint = if sound { Paint::Good } else { Paint::Bad };
        let found = match object.problems.len() {
            0 => String::new(),
            count => words::count(count, "problem", "problems"),
        };
        table.row([
            Cell::new(name(object)),
            Cell::new(&object.storage),
            Cell::new(object.versions.to_string()),
            Cell::new(object.files.to_string()),
            Cell::new(words::bytes(object.bytes)),
            Cell::new(object.verdict.verdict().word()).painted(paint),
            Cell::new(found),
        ]);
    }
    screen.table(&table)?;
    for object in &objects {
        for problem in &object.problems {
            screen.say(&format!("{}: {problem}", name(object)))?;
        }
    }
    Ok(())
}

fn sum(done: &Audited) -> Result<()> {
    let screen = Screen::stdout();
    if done.objects == 0 {
        return screen.say("There are no such objects.");
    }
    screen.say(&format!(
        "{}, {} files, {}: {} not as stored",
        words::count(done.objects, "object", "objects"),
        done.files,
        words::bytes(done.bytes),
        done.damaged
    ))?;
    for (verdict, count) in done.verdicts.iter().filter(|(verdict, _)| **verdict != AuditVerdict::Sound) {
        let verdict = verdict.verdict();
        screen.say(&format!("{count} {verdict}: {}", verdict.advice()))?;
    }
    Ok(())
}

/// What it is called: by its ARK, or by where it lies.
fn name(object: &AuditedObject) -> &str {
    if object.ark.is_empty() { &object.place } else { &object.ark }
}
