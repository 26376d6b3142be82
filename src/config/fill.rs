//! What was not said: the defaults, and what has none and is missing.

use super::keys::{self, DEFAULT_NAME, KEYS, Path};
use super::read::Reader;
use super::tree::{Leaf, Node, Origin, Tree};

fn kind_of(table: &[String]) -> Path {
    [table, &["kind".to_owned()]].concat()
}

fn default(value: impl Into<toml::Value>) -> Node {
    Node::Leaf(Leaf { value: value.into(), origin: Origin::Default, hidden: false })
}

/// The tables that there are by default, unless others were chosen in their place.
pub(super) fn tables(tree: &mut Tree, named_by_file: &[String]) {
    for table in KEYS.default_tables() {
        let (Some((name, above)), Some(top)) = (table.split_last(), table.first()) else { continue };
        let taken = keys::is_choice(above) && tree.table(above).is_some_and(|above| !above.nodes.is_empty());
        let left_out = keys::is_named(above) && name == DEFAULT_NAME && named_by_file.contains(top);
        if tree.node(&table).is_none() && !taken && !left_out {
            tree.set(&table, Node::Table(Tree::new(Origin::Default)), &Origin::Default);
        }
    }
}

/// The keys that have defaults; those that have none and are needed are problems.
pub(super) fn keys(tree: &mut Tree, reader: &mut Reader<'_>) {
    for table in tree.tables() {
        let kinds = KEYS.kinds(&table);
        if !kinds.is_empty() && tree.leaf(&kind_of(&table)).is_none() {
            let Some(kind) = KEYS.default_kind(&table) else {
                let why = format!("is missing: one of {}", kinds.join(", "));
                reader.wrong(&tree.origin(&table), &kind_of(&table), why);
                continue;
            };
            tree.set(&kind_of(&table), default(kind), &Origin::Default);
        }
        let kind = tree.kind(&table);
        if !kinds.is_empty() && kind.is_none() {
            // A kind that does not exist: that is said where values are judged.
            continue;
        }
        let wanted = keys::pattern(&table);
        for key in &KEYS.all {
            let own = key.pattern.len() == wanted.len() + 1 && key.pattern.starts_with(&wanted);
            let path: Path = table.iter().chain(key.pattern.last()).cloned().collect();
            if !own || (key.kind.is_some() && key.kind.as_deref() != kind) || tree.node(&path).is_some() {
                continue;
            }
            match &key.default {
                Some(value) => tree.set(&path, default(value.clone()), &Origin::Default),
                None if key.required && !reader.refused.contains(&path) => {
                    reader.wrong(&tree.origin(&table), &path, "is missing");
                }
                None => {}
            }
        }
    }
    for table in tree.tables().iter().filter(|table| keys::is_choice(table)) {
        let names: Vec<String> =
            tree.table(table).map(|table| table.nodes.keys().cloned().collect()).unwrap_or_default();
        if names.len() > 1 {
            let origin = tree.origin(&[&table[..], &names[1..2]].concat());
            reader.wrong(&origin, table, format!("only one of {} can be chosen", names.join(" and ")));
        }
    }
}
