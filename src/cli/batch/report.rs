//! `ingestd batch report`.

use anyhow::Result;
use clap::ValueEnum;

use crate::cli::client::Server;
use crate::cli::screen::Screen;

#[derive(Debug, clap::Args)]
pub(crate) struct Report {
    /// The batch, or its uuid
    batch: String,

    /// In which form
    #[arg(long, value_enum, default_value = "text", conflicts_with = "json")]
    format: Format,

    #[command(flatten)]
    server: Server,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// As the depositor reads it
    Text,
    /// A line for each job
    Csv,
    Json,
}

impl Report {
    pub(super) async fn run(self) -> Result<()> {
        let client = self.server.client()?;
        // However long it is: whoever reads it may be slow, and a report of very many jobs is long.
        let ask = client.get(&["batches", &self.batch, "report"]).patient();
        if self.server.json() || self.format == Format::Json {
            let report: crate::api::wire::Report = client.send(ask).await?;
            return self.server.output().print(&report);
        }
        let format = if self.format == Format::Csv { "csv" } else { "text" };
        let mut answer = client.answer(ask.with("format", Some(format))).await?;
        let screen = Screen::stdout();
        if self.format == Format::Text {
            return screen.text(&answer.text().await.map_err(|error| client.unreachable(error))?);
        }
        // It may be long, and whoever reads it need not wait for its end.
        while let Some(piece) = answer.chunk().await.map_err(|error| client.unreachable(error))? {
            screen.plain(&piece)?;
        }
        Ok(())
    }
}
