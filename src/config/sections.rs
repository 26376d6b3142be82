//! Who reads which section.

use ingest_store::StoreConfig;
use serde::de::DeserializeOwned;
use toml::{Table, Value};

use super::keys::{self, SIZES};
use crate::api::ApiSettings;
use crate::logs::LogSettings;
use crate::traces::TraceSettings;

/// The sections of the node itself; those that are named nowhere here are of the steps.
const NODE: [&str; 9] =
    ["node", "pools", "queue", "supervision", "shutdown", "upkeep", "workers", "stats", "limits"];

/// Everything, typed; or why not.
#[derive(Debug)]
pub(super) struct Parts {
    pub store: Result<StoreConfig, String>,
    pub steps: Result<ingest_steps::settings::Settings, String>,
    pub node: Result<ingest_actors::settings::Settings, String>,
    pub log: Result<LogSettings, String>,
    pub api: Result<ApiSettings, String>,
    pub traces: Result<TraceSettings, String>,
}

impl Parts {
    /// Of the whole configuration, in which every default stands.
    pub(super) fn read(all: &Table) -> Self {
        let all = numbered(all);
        let whole = |section: &str| all.get(section).cloned().unwrap_or_else(|| Value::Table(Table::new()));
        let part = |fits: &dyn Fn(&str) -> bool| {
            let sections = all.iter().filter(|(section, _)| fits(section));
            Value::Table(sections.map(|(section, value)| (section.clone(), value.clone())).collect())
        };
        let of_node = |section: &str| NODE.contains(&section);
        let of_steps =
            |section: &str| !of_node(section) && !["store", "log", "api", "traces"].contains(&section);
        // Its classes are what priorities elsewhere are read by.
        let node = typed::<ingest_actors::settings::Settings>(part(&of_node));
        if let Ok(node) = &node {
            ingest_queue::classes::hold(&node.queue.classes);
        }
        Self {
            store: typed(whole("store")),
            log: typed(whole("log")),
            api: typed(whole("api")),
            traces: typed(whole("traces")),
            node,
            steps: typed(part(&of_steps)),
        }
    }
}

/// Whether a section can be read, or why not.
pub(super) fn check(section: &str, content: Table) -> Result<(), String> {
    let alone = numbered(&Table::from_iter([(section.to_owned(), Value::Table(content))]));
    let content = |alone: &Table| alone.get(section).cloned().unwrap_or(Value::Boolean(false));
    match section {
        "store" => typed::<StoreConfig>(content(&alone)).map(drop),
        "log" => typed::<LogSettings>(content(&alone)).map(drop),
        "api" => typed::<ApiSettings>(content(&alone)).map(drop),
        "traces" => typed::<TraceSettings>(content(&alone)).map(drop),
        section if NODE.contains(&section) => {
            typed::<ingest_actors::settings::Settings>(Value::Table(alone)).map(drop)
        }
        _ => typed::<ingest_steps::settings::Settings>(Value::Table(alone)).map(drop),
    }
}

fn typed<T: DeserializeOwned>(value: Value) -> Result<T, String> {
    T::deserialize(value).map_err(|error| error.message().to_owned())
}

/// With the sizes as numbers that have to be numbers. One that cannot be read is left to the section to refuse.
pub(super) fn numbered(all: &Table) -> Table {
    let mut all = all.clone();
    for size in SIZES.map(keys::split) {
        let bytes = keys::find(&all, &size).and_then(Value::as_str).map(ingest_steps::size::parse);
        if let Some(Ok(bytes)) = bytes {
            keys::insert(&mut all, &size, Value::Integer(i64::try_from(bytes).unwrap_or(i64::MAX)));
        }
    }
    all
}
