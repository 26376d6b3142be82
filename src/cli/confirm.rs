//! Whether it is really meant: for what cannot be taken back.

use std::io::{BufRead as _, IsTerminal as _};

use anyhow::Result;

use super::exit::Failed;
use super::screen::Screen;

/// The option of every command that asks.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(super) struct Confirm {
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
}

impl Confirm {
    pub(super) fn is_given(self) -> bool {
        self.yes
    }

    /// Refuses at once where nobody can be asked.
    pub(super) fn can_be_asked(self, what: &str) -> Result<()> {
        if self.yes || (std::io::stdin().is_terminal() && std::io::stderr().is_terminal()) {
            return Ok(());
        }
        let why =
            format!("{what} cannot be taken back, and nobody is there to be asked: say --yes if it is meant");
        Err(Failed::NotConfirmed(why).into())
    }

    /// Tells what would happen, and asks whether it may. Only `y` and `yes` are a yes.
    pub(super) fn ask(self, what: &str, warning: &str) -> Result<()> {
        self.can_be_asked(what)?;
        if self.yes {
            return Ok(());
        }
        Screen::note(warning);
        Screen::note(&format!("{what}? [y/N]"));
        let mut answer = String::new();
        std::io::stdin().lock().read_line(&mut answer)?;
        if matches!(answer.trim().to_lowercase().as_str(), "y" | "yes") {
            return Ok(());
        }
        Err(Failed::NotConfirmed("nothing was done".to_owned()).into())
    }
}
