//! What holds, where it comes from, and what has changed. Secrets are masked in all of it.

use std::fmt::{self, Write as _};
use std::path::PathBuf;

use serde::Serialize;
use serde_json::Map;
use toml::Value;

use super::keys::{self, KEYS, Path};
use super::read;
use super::tree::{Leaf, Node, Origin, Tree};

/// Stands for a secret, however long that is.
pub(super) const MASK: &str = "********";

/// Every key that has a value.
#[derive(Clone)]
pub(crate) struct Effective {
    tree: Tree,
    file: Option<PathBuf>,
}

impl fmt::Debug for Effective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |(path, leaf): &(Path, &Leaf)| (keys::dotted(path), shown(path, leaf).to_string());
        f.debug_map().entries(self.tree.leaves().iter().map(shown)).finish()
    }
}

/// One key that is not as it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Change {
    pub key: String,
    /// As TOML; absent: it had none.
    pub from: Option<String>,
    /// As TOML; absent: it has none any more.
    pub to: Option<String>,
    /// Both values are masked.
    pub secret: bool,
    /// It holds at once; otherwise from the next start on.
    pub live: bool,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = |value: &Option<String>| value.clone().unwrap_or_else(|| "nothing".to_owned());
        write!(f, "{}: {} becomes {}", self.key, value(&self.from), value(&self.to))?;
        if self.live { Ok(()) } else { write!(f, " with the next start") }
    }
}

impl Effective {
    pub(super) fn new(tree: Tree, file: Option<PathBuf>) -> Self {
        Self { tree, file }
    }

    pub(super) fn tree(&self) -> &Tree {
        &self.tree
    }

    /// Where values come from that are not the default.
    pub(crate) fn sources(&self) -> Vec<(String, String)> {
        let ordered = self.ordered().into_iter();
        ordered.filter_map(|(path, leaf)| Some((keys::dotted(&path), self.source(&path, leaf)?))).collect()
    }

    fn source(&self, path: &[String], leaf: &Leaf) -> Option<String> {
        let default = KEYS.key(path, self.tree.kind(path)).and_then(|key| key.default.as_ref());
        if default.is_some_and(|default| same(default, &leaf.value)) {
            return None;
        }
        match &leaf.origin {
            Origin::Default => None,
            Origin::File(line, _) => {
                let file = self.file.as_ref().map(|file| file.display().to_string()).unwrap_or_default();
                Some(format!("{file}:{line}"))
            }
            Origin::Variable(name) => Some(name.clone()),
            Origin::Cluster(mark) => Some(format!("the cluster, {mark}")),
        }
    }

    /// In the order of the file that ships.
    fn ordered(&self) -> Vec<(Path, &Leaf)> {
        let place = |path: &Path| {
            let kind = self.tree.kind(path);
            let key = KEYS.key(path, kind)?;
            KEYS.all.iter().position(|known| std::ptr::eq(known, key))
        };
        let mut leaves = self.tree.leaves();
        // Tables with names one after the other, not key by key.
        leaves.sort_by_cached_key(|(path, _)| {
            let named = keys::is_named(&path[..1]);
            let top = KEYS.all.iter().position(|key| key.pattern[0] == path[0]);
            if named { (top, path.get(1).cloned(), place(path)) } else { (place(path), None, None) }
        });
        leaves
    }

    /// As TOML, with where it comes from behind each value that is not the default.
    pub(crate) fn text(&self) -> String {
        let (mut text, mut table) = (String::new(), Path::new());
        for (path, leaf) in self.ordered() {
            let depth = KEYS.key(&path, self.tree.kind(&path)).map_or(path.len() - 1, |key| key.section);
            if path[..depth] != table[..] {
                table = path[..depth].to_vec();
                let gap = if text.is_empty() { "" } else { "\n" };
                // Writing to a string does not fail.
                let _ = writeln!(text, "{gap}[{}]", quoted(&table));
            }
            let _ = write!(text, "{} = {}", quoted(&path[depth..]), shown(&path, leaf));
            if let Some(source) = self.source(&path, leaf) {
                let _ = write!(text, "  # {source}");
            }
            text.push('\n');
        }
        text
    }

    /// As one object.
    pub(crate) fn json(&self) -> serde_json::Value {
        let mut all = Map::new();
        for (path, leaf) in self.tree.leaves() {
            let value = serde_json::to_value(shown(&path, leaf)).unwrap_or_default();
            put(&mut all, &path, value);
        }
        serde_json::Value::Object(all)
    }

    /// This one, with what may change while a node runs as the other says.
    pub(super) fn with_live_of(&self, new: &Effective) -> Effective {
        let mut tree = self.tree.clone();
        for (path, _) in self.tree.leaves().iter().filter(|(path, _)| keys::is_live(path)) {
            tree.remove(path);
        }
        for (path, leaf) in new.tree.leaves().into_iter().filter(|(path, _)| keys::is_live(path)) {
            tree.set(&path, Node::Leaf(leaf.clone()), &leaf.origin);
        }
        // A named table of which nothing is left is gone.
        for (name, node) in &mut tree.nodes {
            if let Node::Table(table) = node
                && keys::is_named(std::slice::from_ref(name))
            {
                table.nodes.retain(|_, node| !matches!(node, Node::Table(inner) if inner.nodes.is_empty()));
            }
        }
        Effective::new(tree, self.file.clone())
    }

    /// What differs, key by key. Other spellings of the same time or size do not.
    pub(super) fn difference(&self, new: &Effective) -> Vec<Change> {
        let (old_leaves, new_leaves) = (self.ordered(), new.ordered());
        let gone = old_leaves.iter().filter(|(path, _)| new.tree.leaf(path).is_none());
        let all = new_leaves.iter().chain(gone).map(|(path, _)| path);
        let changes = all.filter_map(|path| {
            let (from, to) = (self.tree.leaf(path), new.tree.leaf(path));
            if let (Some(from), Some(to)) = (from, to)
                && same_at(path, &from.value, &to.value)
            {
                return None;
            }
            let secret = [from, to].into_iter().flatten().any(|leaf| read::is_hidden(path, leaf));
            let value = |leaf: &Leaf| if secret { MASK.to_owned() } else { leaf.value.to_string() };
            let (from, to) = (from.map(value), to.map(value));
            Some(Change { key: keys::dotted(path), from, to, secret, live: keys::is_live(path) })
        });
        changes.collect()
    }
}

fn put(all: &mut Map<String, serde_json::Value>, path: &[String], value: serde_json::Value) {
    match path {
        [] => {}
        [last] => {
            all.insert(last.clone(), value);
        }
        [first, rest @ ..] => {
            let inner = all.entry(first.clone()).or_insert_with(|| serde_json::Value::Object(Map::new()));
            if let serde_json::Value::Object(inner) = inner {
                put(inner, rest, value);
            }
        }
    }
}

/// A value that may be seen.
fn shown(path: &[String], leaf: &Leaf) -> Value {
    if read::is_hidden(path, leaf) { Value::String(MASK.to_owned()) } else { leaf.value.clone() }
}

/// Names that TOML wants in quotes have them.
fn quoted(path: &[String]) -> String {
    let bare = |name: &String| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c))
    };
    let parts = path
        .iter()
        .map(|name| if bare(name) { name.clone() } else { Value::String(name.clone()).to_string() });
    parts.collect::<Vec<_>>().join(".")
}

/// As [`same`], for keys whose values are times or sizes.
fn same_at(path: &[String], a: &Value, b: &Value) -> bool {
    let sample = KEYS.all.iter().find(|key| key.pattern == keys::pattern(path)).map(|key| &key.sample);
    match sample {
        Some(sample) if is_time(sample) || is_size(sample) => same(a, b),
        _ => a == b,
    }
}

/// Whether two values say the same.
fn same(a: &Value, b: &Value) -> bool {
    let times = || Some((time(a)?, time(b)?));
    let sizes = || Some((size(a)?, size(b)?));
    a == b || times().is_some_and(|(a, b)| a == b) || sizes().is_some_and(|(a, b)| a == b)
}

fn is_time(sample: &Value) -> bool {
    time(sample).is_some()
}

/// A size is one that has a unit: a name may well be a number.
fn is_size(sample: &Value) -> bool {
    sample.as_str().is_some_and(|text| text.ends_with('B')) && size(sample).is_some()
}

fn time(value: &Value) -> Option<std::time::Duration> {
    humantime::parse_duration(value.as_str()?).ok()
}

fn size(value: &Value) -> Option<u64> {
    match value {
        Value::Integer(bytes) => u64::try_from(*bytes).ok(),
        value => ingest_steps::size::parse(value.as_str()?).ok(),
    }
}
