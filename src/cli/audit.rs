//! `ingestd audit`: reads stored objects, and compares their content with the digests that they were stored with.

use anyhow::Result;

use super::client::Server;
use super::exit::Failed;
use super::progress;
use super::screen::{Cell, Column, Paint, Screen, Table};
use super::words;
use crate::api::wire::{AuditLine, Audited, AuditedObject};

/// The command's options.
#[derive(Debug, clap::Args)]
pub(super) struct Audit {
    /// The objects' ARKs
    #[arg(required_unless_present_any = ["batch", "all"], conflicts_with_all = ["batch", "all"])]
    ark: Vec<String>,

    /// All objects of this batch
    #[arg(long, value_name = "BATCH", conflicts_with = "all")]
    batch: Option<String>,

    /// All objects that are stored
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
        let mut objects = Vec::new();
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
                AuditLine::Object(object) => objects.push(object),
                AuditLine::Done(done) => break done,
                AuditLine::Problem(problem) => return Err(Failed::Problem(Box::new(problem)).into()),
            }
        };
        bar.finish_and_clear();
        if !self.server.json() {
            print(&objects, &done)?;
        }
        if done.damaged == 0 {
            return Ok(());
        }
        let objects = words::count(done.objects, "object", "objects");
        Err(Failed::Found(format!("{} of {objects} not as stored", done.damaged)).into())
    }
}

fn print(objects: &[AuditedObject], done: &Audited) -> Result<()> {
    let screen = Screen::stdout();
    if objects.is_empty() {
        return screen.say("There are no such objects.");
    }
    let mut table = Table::new([
        Column::text("OBJECT"),
        Column::word("STORAGE").minor(),
        Column::number("VERSIONS").minor(),
        Column::number("FILES"),
        Column::number("BYTES"),
        Column::word("VERDICT"),
    ]);
    for object in objects {
        let verdict = match object.problems.len() {
            0 => Cell::new("sound").painted(Paint::Good),
            count => Cell::new(words::count(count, "problem", "problems")).painted(Paint::Bad),
        };
        table.row([
            Cell::new(&object.ark),
            Cell::new(&object.storage),
            Cell::new(object.versions.to_string()),
            Cell::new(object.files.to_string()),
            Cell::new(words::bytes(object.bytes)),
            verdict,
        ]);
    }
    screen.table(&table)?;
    for object in objects {
        for problem in &object.problems {
            screen.say(&format!("{}: {problem}", object.ark))?;
        }
    }
    screen.say(&format!(
        "{}, {} files, {}: {} not as stored",
        words::count(done.objects, "object", "objects"),
        done.files,
        words::bytes(done.bytes),
        done.damaged
    ))
}
