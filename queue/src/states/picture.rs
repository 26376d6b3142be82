//! The state tables for people: as a table and as a diagram, in Markdown.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::{States, To};
use crate::dialect::Dialect;

/// The rows as a Markdown table.
pub fn table<S: States>(dialect: Dialect) -> String {
    let mut text = "| from | to | by | effect |\n|---|---|---|---|\n".to_owned();
    for row in rows::<S>(dialect) {
        let from: Vec<_> = row.from.iter().map(|state| state.name()).collect();
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} |",
            from.join(", "),
            row.to.describe(),
            row.by,
            if row.effect.is_empty() { "–" } else { row.effect }
        );
    }
    text
}

/// The rows as a Mermaid state diagram, one arrow for each pair of states.
pub fn diagram<S: States>(dialect: Dialect) -> String {
    let mut arrows: BTreeMap<(S, Option<S>, &str), Vec<String>> = BTreeMap::new();
    for row in rows::<S>(dialect) {
        for from in row.from {
            let (to, end) = match row.to {
                To::State(state) => (Some(state), ""),
                // Drawn to the first only: the label says that there are others.
                To::Restart(states) => (states.first().copied(), " (or another working state)"),
                To::Deleted => (None, " (deleted)"),
                To::Cleaned => (None, " (cleaned)"),
            };
            arrows.entry((*from, to, end)).or_default().push(row.by.to_string());
        }
    }
    let mut text = "stateDiagram-v2\n".to_owned();
    if let Some((first, ..)) = S::NAMES.first() {
        let _ = writeln!(text, "    [*] --> {}", symbol(first.name()));
    }
    for ((from, to, end), mut by) in arrows {
        by.dedup();
        let to = to.map_or("[*]".to_owned(), |to| symbol(to.name()));
        let _ = writeln!(text, "    {} --> {to}: {}{end}", symbol(from.name()), by.join(", "));
    }
    text
}

/// The rows of a table that a dialect has.
pub fn rows<S: States>(dialect: Dialect) -> impl Iterator<Item = &'static super::Move<S>> {
    S::MOVES.iter().filter(move |row| row.only.is_empty() || row.only.contains(&dialect))
}

/// Mermaid takes a hyphen for the beginning of an arrow.
fn symbol(name: &str) -> String {
    name.replace('-', "_")
}
