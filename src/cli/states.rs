//! `ingestd states`: the state tables, as the program itself knows them.

use anyhow::Result;
use clap::ValueEnum;
use ingest_queue::dialect::Dialect;
use ingest_queue::states::{self, AccessState, BatchState, JobState, States, To};
use serde_json::{Value, json};

use super::client::Output;
use super::screen::{Cell, Column, Screen, Table};

/// The command's options.
#[derive(Debug, clap::Args)]
pub(super) struct Print {
    /// Only this table
    #[arg(value_enum)]
    of: Option<Of>,

    /// How to print it
    #[arg(long, value_enum, default_value = "table", conflicts_with = "json")]
    format: Format,

    #[command(flatten)]
    output: Output,

    #[command(flatten)]
    dialect: super::DialectOption,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Of {
    Jobs,
    Batches,
    Access,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A table that fits the terminal
    Table,
    /// A table in Markdown
    Markdown,
    /// A Mermaid state diagram
    Diagram,
    Json,
}

impl Print {
    pub(super) fn run(self) -> Result<()> {
        let dialect = self.dialect.get();
        let wanted = |of| self.of.is_none_or(|wanted| wanted == of);
        let json = self.output.json || self.format == Format::Json;
        let mut tables = serde_json::Map::new();
        for of in Of::value_variants().iter().copied().filter(|of| wanted(*of)) {
            let (name, rows) = match of {
                Of::Jobs => ("jobs", self.print::<JobState>(dialect, json)?),
                Of::Batches => ("batches", self.print::<BatchState>(dialect, json)?),
                Of::Access => ("access", self.print::<AccessState>(dialect, json)?),
            };
            tables.insert(name.to_owned(), rows);
        }
        if json { self.output.print(&tables) } else { Ok(()) }
    }

    /// Prints a table, unless all of them are printed as one document; answers its rows.
    fn print<S: States>(&self, dialect: Dialect, json: bool) -> Result<Value> {
        let rows = rows::<S>(dialect);
        let screen = Screen::stdout();
        match self.format {
            _ if json => {}
            Format::Markdown => screen.plain(&format!("{}\n", states::table::<S>(dialect)))?,
            Format::Diagram => screen.plain(&format!("{}\n", states::diagram::<S>(dialect)))?,
            Format::Table | Format::Json => {
                screen.table(&table(&rows))?;
                screen.plain("\n")?;
            }
        }
        Ok(rows)
    }
}

fn table(rows: &Value) -> Table {
    let mut table =
        Table::new([Column::prose("FROM"), Column::prose("TO"), Column::word("BY"), Column::prose("EFFECT")]);
    let text = |value: &Value| match value {
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", "),
        value => value.as_str().unwrap_or_default().to_owned(),
    };
    for row in rows.as_array().into_iter().flatten() {
        table.row(["from", "to", "by", "effect"].map(|field| Cell::new(text(&row[field]))));
    }
    table
}

fn rows<S: States>(dialect: Dialect) -> Value {
    let rows = states::rows::<S>(dialect).map(|row| {
        let from: Vec<_> = row.from.iter().map(|state| state.name()).collect();
        let to: Vec<_> = match row.to {
            To::State(state) => vec![state.name()],
            To::Restart(states) => states.iter().map(|state| state.name()).collect(),
            To::Deleted => vec!["deleted"],
            To::Cleaned => vec!["cleaned"],
        };
        json!({ "from": from, "to": to, "by": row.by.to_string(), "effect": row.effect })
    });
    rows.collect()
}
