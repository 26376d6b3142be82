//! The keys that there are. They are read from the file that ships: what stands there is a key, what is a comment there
//! is one too, and the values are the defaults. What the file cannot say is in the tables below.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use toml::{Table, Value};

use super::sections;

/// The configuration that holds if there is no other.
pub(super) const SHIPPED: &str = include_str!("../../config/ingestd.toml");

/// Tables whose tables have names that are chosen: in patterns of keys the name is a star.
const NAMED: [&str; 3] = ["storage", "minter", "feeds"];

/// Tables whose keys have names that are chosen: each is as the one that the file has.
const OPEN: [&str; 4] = ["limits.collections", "limits.hosts", "limits.profiles", "limits.names"];

/// The name of the one that is there if a file has none.
pub(super) const DEFAULT_NAME: &str = "default";

/// Tables of which exactly one table is there.
const CHOICES: [&str; 2] = ["store.engine", "mail.by"];

/// What is never shown. A name without a table is one in any table.
const SECRET: [&str; 6] =
    ["password", "secret_key", "access_key", "inventory.url", "api.tokens", "api.url_key"];

/// What holds at once when the configuration is read again; the rest needs a restart. A star is all keys of a table.
pub(super) const LIVE: &[&str] = &[
    "pools.*",
    "limits.*",
    "stats.*",
    "supervision.*",
    "shutdown.*",
    "upkeep.*",
    "work.quota",
    "work.keep_leftovers",
    "work.node_grace",
    "unpack.*",
    "expanding.*",
    "estimating.*",
    "provisioning.*",
    "downloading.*",
    "mail.admins",
    "access.large_from",
    "access.keep",
    "access.rate",
    "log.filter",
    "log.throttle.*",
    "workers.*",
    "feeds.*",
];

/// Sizes that their owner wants as a number: the loader makes one of them.
pub(super) const SIZES: [&str; 1] = ["store.engine.embedded.cache"];

/// Where something stands: the names of the tables, and of the key.
pub(super) type Path = Vec<String>;

/// As it is written: `pools.downloading.size`.
pub(super) fn dotted(path: &[String]) -> String {
    path.join(".")
}

pub(super) fn split(dotted: &str) -> Path {
    dotted.split('.').map(str::to_owned).collect()
}

/// Where it stands in the table of keys: a name that is chosen becomes a star.
pub(super) fn pattern(path: &[String]) -> Path {
    let mut pattern = path.to_vec();
    if is_named(path.get(..1).unwrap_or_default())
        && let Some(name) = pattern.get_mut(1)
    {
        "*".clone_into(name);
    }
    if let [table @ .., name] = pattern.as_mut_slice()
        && OPEN.contains(&dotted(table).as_str())
    {
        DEFAULT_NAME.clone_into(name);
    }
    pattern
}

pub(super) fn is_named(path: &[String]) -> bool {
    matches!(path, [table] if NAMED.contains(&table.as_str()))
}

pub(super) fn is_choice(path: &[String]) -> bool {
    CHOICES.contains(&dotted(path).as_str())
}

pub(super) fn is_secret(path: &[String]) -> bool {
    let whole = dotted(path);
    SECRET.iter().any(|secret| path.last().is_some_and(|name| name == secret) || whole == *secret)
}

/// Whether a change of it holds without a restart.
pub(super) fn is_live(path: &[String]) -> bool {
    let whole = dotted(path);
    LIVE.iter().any(|live| match live.strip_suffix('*') {
        Some(table) => whole.starts_with(table),
        None => whole == *live,
    })
}

/// A key. Those of tables that are written in one line are keys of their own.
#[derive(Debug, Clone)]
pub(super) struct Key {
    pub pattern: Path,
    /// How many of its names are those of its section.
    pub section: usize,
    /// Of tables that have kinds: the kind that has it.
    pub kind: Option<String>,
    /// A value that is right.
    pub sample: Value,
    /// What holds if it is not given.
    pub default: Option<Value>,
    /// Without it, its table is wrong.
    pub required: bool,
}

/// A section of the file that ships.
#[derive(Debug, Clone, Default)]
struct Section {
    pattern: Path,
    kind: Option<String>,
    /// Only an example: the section is a comment.
    example: bool,
    given: Table,
    /// Keys that are comments within their section.
    absent: Table,
    /// All of them, as they stand there.
    order: Vec<String>,
}

impl Section {
    fn sample(&self) -> Table {
        let mut sample = self.given.clone();
        sample.extend(self.absent.clone());
        sample
    }
}

/// All of them, in the order of the file.
#[derive(Debug)]
pub(super) struct Keys {
    pub all: Vec<Key>,
    sections: Vec<Section>,
    defaults: Table,
}

/// What stands at a path.
#[derive(Debug)]
pub(super) enum Place<'a> {
    Key(&'a Key),
    Table,
    Unknown,
}

pub(super) static KEYS: LazyLock<Keys> = LazyLock::new(|| Keys::read(SHIPPED));

impl Keys {
    /// A test holds that the file that ships can be read.
    fn read(shipped: &str) -> Self {
        let defaults = toml::from_str(shipped).unwrap_or_default();
        let mut keys = Self { all: Vec::new(), sections: sections(shipped), defaults };
        let mut found_keys = Vec::new();
        for section in &keys.sections {
            let mut path = section.pattern.clone();
            let mut found = Vec::new();
            flatten(&section.sample(), &mut path, &mut found);
            found.sort_by_key(|(pattern, _)| {
                section.order.iter().position(|name| *name == pattern[section.pattern.len()])
            });
            for (pattern, sample) in found {
                let required = keys.is_required(section, &pattern);
                let inner = &pattern[section.pattern.len()..];
                let given = find(&section.given, inner).is_some() && !(section.example && required);
                let default = given.then(|| sample.clone());
                let (kind, section) = (section.kind.clone(), section.pattern.len());
                found_keys.push(Key { pattern, section, kind, sample, default, required });
            }
        }
        keys.all = found_keys;
        keys
    }

    /// Whether a section that is right becomes wrong without the key.
    fn is_required(&self, section: &Section, pattern: &[String]) -> bool {
        let mut sample = section.sample();
        remove(&mut sample, &pattern[section.pattern.len()..]);
        let top = self.around(section, &section.pattern, sample);
        sections::check(&section.pattern[0], top).is_err()
    }

    /// The whole top section with one of its tables as given, and the rest as it is by default.
    fn around(&self, section: &Section, table: &[String], content: Table) -> Table {
        let mut top = match self.defaults.get(&table[0]) {
            Some(Value::Table(top)) => top.clone(),
            _ => Table::new(),
        };
        let inner = &table[1..];
        if inner.is_empty() {
            // Keys of this table; tables within it stay.
            if section.kind.is_some() {
                return content;
            }
            top.extend(content);
            return top;
        }
        if is_choice(&table[..table.len() - 1]) {
            remove(&mut top, &inner[..inner.len() - 1]);
        }
        insert(&mut top, inner, Value::Table(content));
        top
    }

    /// Whether the value of one key is right, the others of its section being so.
    pub(super) fn probe(&self, path: &[String], kind: Option<&str>, value: &Value) -> Result<(), String> {
        let wanted = pattern(path);
        let of_key = |section: &&Section| {
            wanted.starts_with(&section.pattern)
                && kind.is_none_or(|kind| section.kind.as_deref() == Some(kind))
                && find(&section.sample(), &wanted[section.pattern.len()..]).is_some()
        };
        // The innermost: `[log.throttle]` before `[log]`.
        let Some(section) = self.sections.iter().filter(of_key).max_by_key(|section| section.pattern.len())
        else {
            return Ok(());
        };
        let depth = section.pattern.len();
        let mut sample = section.sample();
        insert(&mut sample, &path[depth..], value.clone());
        sections::check(&path[0], self.around(section, &path[..depth], sample))
    }

    fn of_kind<'a>(&'a self, kind: Option<&'a str>) -> impl Iterator<Item = &'a Key> {
        let fits = move |key: &&Key| match (&key.kind, kind) {
            (Some(of), Some(kind)) => of == kind,
            _ => true,
        };
        self.all.iter().filter(fits)
    }

    /// What stands there; a kind that is not known can have the keys of all.
    pub(super) fn place<'a>(&'a self, path: &[String], kind: Option<&'a str>) -> Place<'a> {
        let wanted = pattern(path);
        let mut place = Place::Unknown;
        for key in self.of_kind(kind) {
            if key.pattern == wanted {
                return Place::Key(key);
            }
            if key.pattern.starts_with(&wanted) {
                place = Place::Table;
            }
        }
        place
    }

    pub(super) fn key<'a>(&'a self, path: &[String], kind: Option<&'a str>) -> Option<&'a Key> {
        match self.place(path, kind) {
            Place::Key(key) => Some(key),
            Place::Table | Place::Unknown => None,
        }
    }

    /// The names that may stand in a table.
    pub(super) fn names(&self, table: &[String], kind: Option<&str>) -> BTreeSet<String> {
        let wanted = pattern(table);
        let within = self.of_kind(kind).filter(|key| key.pattern.starts_with(&wanted));
        within.filter_map(|key| key.pattern.get(wanted.len()).cloned()).collect()
    }

    /// The kinds that a table can have; none if it has no kinds.
    pub(super) fn kinds(&self, table: &[String]) -> Vec<&str> {
        let wanted = pattern(table);
        let of_table = self.sections.iter().filter(|section| section.pattern == wanted);
        of_table.filter_map(|section| section.kind.as_deref()).collect()
    }

    /// The kind of a table that does not say it.
    pub(super) fn default_kind(&self, table: &[String]) -> Option<&str> {
        let wanted = pattern(table);
        let chosen = !is_named(&table[..1]) || table.get(1).is_some_and(|name| name == DEFAULT_NAME);
        let shipped = self.sections.iter().find(|section| section.pattern == wanted && !section.example);
        shipped.filter(|_| chosen)?.kind.as_deref()
    }

    /// The tables that are there by default.
    pub(super) fn default_tables(&self) -> impl Iterator<Item = Path> {
        let shipped = self.sections.iter().filter(|section| !section.example);
        shipped.map(|section| {
            let concrete = |part: &String| if part == "*" { DEFAULT_NAME.to_owned() } else { part.clone() };
            section.pattern.iter().map(concrete).collect()
        })
    }
}

/// Keys and those of tables that are written in one line.
fn flatten(table: &Table, path: &mut Path, found: &mut Vec<(Path, Value)>) {
    for (name, value) in table {
        path.push(name.clone());
        match value {
            Value::Table(inner) => flatten(inner, path, found),
            value => found.push((path.clone(), value.clone())),
        }
        path.pop();
    }
}

pub(super) fn find<'a>(table: &'a Table, path: &[String]) -> Option<&'a Value> {
    let (first, rest) = path.split_first()?;
    let value = table.get(first)?;
    if rest.is_empty() { Some(value) } else { find(value.as_table()?, rest) }
}

fn remove(table: &mut Table, path: &[String]) {
    match path {
        [] => {}
        [last] => {
            table.remove(last);
        }
        [first, rest @ ..] => {
            if let Some(Value::Table(inner)) = table.get_mut(first) {
                remove(inner, rest);
            }
        }
    }
}

/// Tables on the way are made.
pub(super) fn insert(table: &mut Table, path: &[String], value: Value) {
    match path {
        [] => {}
        [last] => {
            table.insert(last.clone(), value);
        }
        [first, rest @ ..] => {
            let inner = table.entry(first.clone()).or_insert_with(|| Value::Table(Table::new()));
            if let Value::Table(inner) = inner {
                insert(inner, rest, value);
            }
        }
    }
}

/// A line that gives a key a value.
pub(super) fn is_key(line: &str) -> bool {
    let name = line.split_once(" = ").map(|(name, _)| name);
    name.is_some_and(|name| name.chars().all(|c| c.is_ascii_lowercase() || c == '_'))
}

/// The sections of the file, those in comments too.
fn sections(shipped: &str) -> Vec<Section> {
    let mut found: Vec<Section> = Vec::new();
    for line in shipped.lines() {
        let bare = line.strip_prefix("# ").unwrap_or(line);
        if let Some(header) = bare.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            let example = bare != line;
            found.push(Section { pattern: pattern(&split(header)), example, ..Section::default() });
            continue;
        }
        let Some(section) = found.last_mut() else { continue };
        let (bare, absent) = match bare.strip_prefix("# ") {
            Some(bare) => (bare, true),
            None => (bare, bare != line && !section.example),
        };
        if is_key(bare) {
            let read: Table = toml::from_str(bare).unwrap_or_default();
            section.order.extend(read.keys().cloned());
            if absent { section.absent.extend(read) } else { section.given.extend(read) }
        }
    }
    for section in &mut found {
        section.kind = section.given.get("kind").and_then(Value::as_str).map(str::to_owned);
    }
    found
}
