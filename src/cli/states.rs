//! `ingestd states`: the state tables, as the program itself knows them.

use anyhow::Result;
use clap::ValueEnum;
use ingest_queue::dialect::Dialect;
use ingest_queue::states::{self, AccessState, BatchState, JobState, States, To};
use serde_json::{Value, json};

/// The command's options.
#[derive(Debug, clap::Args)]
pub(super) struct Print {
    /// Only this table
    #[arg(value_enum)]
    of: Option<Of>,

    /// How to print it
    #[arg(long, value_enum, default_value = "table")]
    format: Format,

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
    /// Markdown
    Table,
    /// A Mermaid state diagram
    Diagram,
    Json,
}

impl Print {
    pub(super) fn run(self) -> Result<()> {
        let dialect = self.dialect.get();
        let wanted = |of| self.of.is_none_or(|wanted| wanted == of);
        let mut tables = serde_json::Map::new();
        for of in Of::value_variants().iter().copied().filter(|of| wanted(*of)) {
            let (name, text, rows) = match of {
                Of::Jobs => ("jobs", self.text::<JobState>(dialect), rows::<JobState>(dialect)),
                Of::Batches => ("batches", self.text::<BatchState>(dialect), rows::<BatchState>(dialect)),
                Of::Access => ("access", self.text::<AccessState>(dialect), rows::<AccessState>(dialect)),
            };
            if self.format == Format::Json {
                tables.insert(name.to_owned(), rows);
            } else {
                println!("{text}");
            }
        }
        if self.format == Format::Json {
            println!("{}", serde_json::to_string_pretty(&tables)?);
        }
        Ok(())
    }

    fn text<S: States>(&self, dialect: Dialect) -> String {
        if self.format == Format::Diagram {
            states::diagram::<S>(dialect)
        } else {
            states::table::<S>(dialect)
        }
    }
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
