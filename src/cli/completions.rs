//! `ingestd completions` and `ingestd man`: what a shell, `man` and `docs/cli.md` know of the commands.

mod page;

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::CommandFactory as _;
use clap_complete::Shell;

use super::Arguments;
use super::client::Output;
use super::screen::Screen;

/// The command's options.
#[derive(Debug, clap::Args)]
pub(super) struct Completions {
    /// The shell
    shell: Shell,
}

impl Completions {
    pub(super) fn run(self) -> Result<()> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Arguments::command(), "ingestd", &mut script);
        Screen::stdout().plain(&script)
    }
}

/// The command's options.
#[derive(Debug, clap::Args)]
pub(super) struct Man {
    /// Where the pages go, one for each command; it is made if it is not there
    #[arg(long, value_name = "DIR", required_unless_present = "markdown")]
    dir: Option<PathBuf>,

    /// Print all of it as one page in Markdown instead
    #[arg(long, conflicts_with_all = ["dir", "json"])]
    markdown: bool,

    #[command(flatten)]
    output: Output,
}

impl Man {
    pub(super) fn run(self) -> Result<()> {
        let Some(dir) = self.dir.filter(|_| !self.markdown) else {
            return Screen::stdout().plain(&page::markdown(super::command()));
        };
        let shown = dir.display().to_string();
        std::fs::create_dir_all(&dir).with_context(|| shown.clone())?;
        clap_mangen::generate_to(super::command(), &dir).with_context(|| shown.clone())?;
        let mut pages = Vec::new();
        for entry in std::fs::read_dir(&dir).with_context(|| shown.clone())? {
            let name = entry.with_context(|| shown.clone())?.file_name().to_string_lossy().into_owned();
            if name.starts_with("ingestd") && name.ends_with(".1") {
                pages.push(name);
            }
        }
        pages.sort_unstable();
        if self.output.json {
            return self.output.print(&serde_json::json!({ "dir": shown, "pages": pages }));
        }
        Screen::stdout().say(&format!("{} pages in {shown}", pages.len()))
    }
}
