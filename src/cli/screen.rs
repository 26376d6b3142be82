//! What people read: lines that fit the terminal, and nothing that a stranger's name could do to it.
//!
//! The width is that of `COLUMNS`, or of the terminal. Where there is neither, as in a pipe or a file, lines are as
//! long as they are. Colour is for terminals only, and never with `NO_COLOR` or on a dumb one.
//!
//! **When things break.** Whoever reads may leave early (`| head`): then the command ends quietly.

mod letters;
mod paint;
mod records;
mod table;

use std::io::{self, IsTerminal, Write};

use anyhow::Result;

pub(super) use letters::{escaped, wrapped};
pub(super) use paint::Paint;
pub(super) use records::Records;
pub(super) use table::{Cell, Column, Table};

use super::exit::Failed;

/// The narrowest that is tried: below, words could not be told apart any more.
const NARROWEST: usize = 20;

/// How wide a help is at most.
const HELP: usize = 100;

/// Where the answer goes: stdout.
#[derive(Debug, Clone, Copy)]
pub(super) struct Screen {
    width: Option<usize>,
    colour: bool,
}

impl Screen {
    pub(super) fn stdout() -> Self {
        Self { width: width(&io::stdout()), colour: colour(io::stdout().is_terminal()) }
    }

    pub(super) fn stderr() -> Self {
        Self { width: width(&io::stderr()), colour: colour(io::stderr().is_terminal()) }
    }

    /// Where there is colour, in this one.
    pub(super) fn painted(&self, paint: Paint, text: &str) -> String {
        paint.on(text, self.colour)
    }

    /// A sentence, in as many lines as it needs.
    pub(super) fn say(&self, text: &str) -> Result<()> {
        self.out(&self.lines(text, ""))
    }

    /// Beside the answer, to stderr.
    pub(super) fn note(text: &str) {
        let screen = Self::stderr();
        let _ = io::stderr().write_all(screen.lines(text, "").as_bytes());
    }

    /// A problem: with the program's name before it.
    pub(super) fn complain(text: &str) {
        let screen = Self::stderr();
        let text = screen.lines(&format!("ingestd: {text}"), "  ");
        let _ = io::stderr().write_all(text.as_bytes());
    }

    pub(super) fn table(&self, table: &Table) -> Result<()> {
        self.out(&table.text(self.width, self.colour))
    }

    pub(super) fn records(&self, records: &Records) -> Result<()> {
        self.out(&records.text(self.width, self.colour))
    }

    /// Records as part of a help, which is never wider than its other parts.
    pub(super) fn help(self, records: &Records) -> String {
        records.text(Some(self.width.unwrap_or(HELP).min(HELP)), false)
    }

    /// Text of several lines from elsewhere, each of which is wrapped.
    pub(super) fn text(&self, text: &str) -> Result<()> {
        let lines = text.lines().map(|line| self.lines(line, "  "));
        self.out(&lines.collect::<String>())
    }

    /// What is for programs, as it is.
    pub(super) fn plain(&self, text: &(impl AsRef<[u8]> + ?Sized)) -> Result<()> {
        self.out(text)
    }

    fn lines(&self, text: &str, indent: &str) -> String {
        let mut all = String::new();
        for line in wrapped(&escaped(text), self.width, indent) {
            all.push_str(&line);
            all.push('\n');
        }
        all
    }

    #[expect(clippy::unused_self, reason = "one way out for all of it")]
    fn out(&self, text: &(impl AsRef<[u8]> + ?Sized)) -> Result<()> {
        let mut out = io::stdout().lock();
        match out.write_all(text.as_ref()).and_then(|()| out.flush()) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(Failed::NobodyReads.into()),
            other => Ok(other?),
        }
    }
}

fn width(stream: &impl std::os::fd::AsFd) -> Option<usize> {
    let told = std::env::var("COLUMNS").ok().and_then(|columns| columns.trim().parse::<usize>().ok());
    let terminal = || terminal_size::terminal_size_of(stream).map(|(width, _)| usize::from(width.0));
    told.filter(|columns| *columns > 0)
        .or_else(terminal)
        .filter(|columns| *columns > 0)
        .map(|w| w.max(NARROWEST))
}

fn colour(terminal: bool) -> bool {
    let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    terminal && !unwanted && !dumb
}
