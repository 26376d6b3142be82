//! The state tables, and how many are in each state.

use std::collections::BTreeMap;

use ingest_queue::date::Date;
use ingest_queue::states::JobState;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// All tables.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct States {
    pub dialect: String,
    pub jobs: StateTable,
    pub batches: StateTable,
    pub access: StateTable,
}

/// The states of one kind of thing, and who moves it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct StateTable {
    pub states: Vec<String>,
    pub moves: Vec<Move>,
    /// In the language of Mermaid.
    pub diagram: String,
}

/// A row of a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct Move {
    pub from: Vec<String>,
    pub to: Vec<String>,
    /// `state`, `restart` (one of `to`), `deleted` or `cleaned`.
    pub kind: String,
    pub by: String,
    pub why: String,
    pub effect: String,
}

/// How many there are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct Counts {
    #[schema(value_type = String, format = DateTime)]
    pub at: Date,
    #[schema(value_type = BTreeMap<String, usize>)]
    pub jobs: BTreeMap<JobState, usize>,
    /// All items of each access queue.
    pub access: BTreeMap<String, usize>,
    /// All batches of the tree.
    pub batches: usize,
}
