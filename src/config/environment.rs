//! The environment: `INGESTD_POOLS_DOWNLOADING_SIZE=8` is `pools.downloading.size`.
//!
//! Names are resolved against the keys that there are, because underscores stand for the dots and for themselves.
//! A name that is chosen, as in `INGESTD_STORAGE_CLOUD_SECRET_KEY`, is one that the file has, or else is taken in
//! small letters.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

use super::keys::{self, KEYS, Path, Place};
use super::problem::closest;
use super::read::{self, Reader};
use super::tree::{Origin, Tree};

const PREFIX: &str = "INGESTD_";

/// The variable with the path of the file.
pub(crate) const CONFIG: &str = "INGESTD_CONFIG";

/// Names that are no keys: of the command line, and of the tests.
pub(super) const RESERVED: &[&str] = &[
    CONFIG,
    "INGESTD_SERVER",
    "INGESTD_TOKEN",
    "INGESTD_TOKEN_FILE",
    "INGESTD_CA_FILE",
    "INGESTD_LOG",
    "INGESTD_SEQUENCES",
    "INGESTD_CRASHES",
    "INGESTD_CRASH_CHILD",
    "INGESTD_CASES",
    "INGESTD_SEED",
    "INGESTD_KILL_SECONDS",
    "INGESTD_IDLE_SECONDS",
    "INGESTD_OUTAGE_SECONDS",
    "INGESTD_MANY_FEEDS",
    "INGESTD_LOAD_BATCHES",
    "INGESTD_LEAVING_CLIENTS",
    "INGESTD_DASHBOARD_JOBS",
    "INGESTD_FUZZ_EXAMPLES",
    "INGESTD_FUZZ_INPUTS",
    "INGESTD_SCHEDULED",
    "INGESTD_CHAOS_MINUTES",
    "INGESTD_ADVISORIES",
    "INGESTD_PROTOCOL",
    "INGESTD_WRITE_DOCS",
    "INGESTD_LTIME",
    "INGESTD_TREE",
];

/// The variables that a process has. They are never shown.
#[derive(Clone, Default)]
pub(crate) struct Environment(BTreeMap<OsString, OsString>);

impl Environment {
    /// Those of this process.
    pub(crate) fn of_process() -> Self {
        std::env::vars_os().collect()
    }

    pub(crate) fn get(&self, name: &str) -> Option<&OsStr> {
        self.0.get(OsStr::new(name)).map(OsString::as_os_str)
    }
}

impl<K: Into<OsString>, V: Into<OsString>> FromIterator<(K, V)> for Environment {
    fn from_iter<T: IntoIterator<Item = (K, V)>>(variables: T) -> Self {
        Self(variables.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }
}

impl std::fmt::Debug for Environment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Environment({} variables)", self.0.len())
    }
}

/// The variable of a key.
pub(super) fn variable(path: &[String]) -> String {
    let letter = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    PREFIX.to_owned() + &path.join("_").chars().map(letter).collect::<String>()
}

/// Lays the environment over what the file says.
pub(super) fn lay(reader: &mut Reader<'_>, over: &mut Tree) {
    let names = reader.environment.0.keys().filter_map(|name| name.to_str());
    let ours = names.filter(|name| name.starts_with(PREFIX) && !RESERVED.contains(name));
    let mut found = Vec::new();
    for name in ours.map(str::to_owned).collect::<Vec<_>>() {
        if let Some(path) = resolve(&name, over) {
            found.push((path, name));
            continue;
        }
        let mut problem = Origin::Variable(name.clone()).problem(None, &[], "there is no such key");
        problem.did_you_mean = closest(&name, known(over).iter().map(String::as_str));
        reader.problems.push(problem);
    }
    // Kinds first, because they say which keys there are; tables before the keys in them.
    found.sort_by_key(|(path, _)| (path.last().is_none_or(|name| name != "kind"), path.len()));
    let chosen: Vec<Path> = found.iter().map(|(path, _)| path.clone()).collect();
    for (path, name) in found {
        let Some(value) = reader.environment.get(&name).and_then(OsStr::to_str) else {
            reader.wrong(&Origin::Variable(name.clone()), &path, "the value is not UTF-8");
            continue;
        };
        make_room(over, &path, &chosen);
        let kind = over.kind(&path);
        let value = read::value_at(&path, kind, value);
        if let Some(node) = reader.variable(&path, kind, &value, &name) {
            let kind = if path.ends_with(&["kind".to_owned()]) { value.as_str() } else { None };
            if let Some(kind) = kind {
                change_kind(over, &path[..path.len() - 1], kind);
            }
            over.set(&path, node, &Origin::Variable(name));
        }
    }
}

/// Of tables that exclude each other the environment chooses anew. What the environment has chosen itself stays, and
/// is told to be too much.
fn make_room(over: &mut Tree, path: &[String], chosen: &[Path]) {
    for depth in 1..path.len() {
        if !keys::is_choice(&path[..depth]) {
            continue;
        }
        let others: Vec<Path> = match over.table(&path[..depth]) {
            Some(table) => {
                table.nodes.keys().map(|name| [&path[..depth], std::slice::from_ref(name)].concat()).collect()
            }
            None => Vec::new(),
        };
        for other in others {
            if other != path[..=depth] && !chosen.iter().any(|path| path.starts_with(&other)) {
                over.remove(&other);
            }
        }
    }
}

/// Keys of another kind go with the kind.
fn change_kind(over: &mut Tree, table: &[String], kind: &str) {
    let names: Vec<String> =
        over.table(table).map(|table| table.nodes.keys().cloned().collect()).unwrap_or_default();
    for name in names {
        let path = [table, &[name]].concat();
        if let Place::Unknown = KEYS.place(&path, Some(kind)) {
            over.remove(&path);
        }
    }
}

/// The names that a chosen name may have: those of the file, and the default's.
fn names(over: &Tree, table: &str) -> Vec<String> {
    let there = over.table(&[table.to_owned()]).map(|table| table.nodes.keys().cloned().collect());
    let mut names: Vec<String> = there.unwrap_or_default();
    names.push(keys::DEFAULT_NAME.to_owned());
    names
}

/// Keys, and tables that are written in one line.
fn patterns() -> Vec<Path> {
    let mut all: Vec<Path> = Vec::new();
    for key in &KEYS.all {
        all.extend((key.section + 1..=key.pattern.len()).map(|depth| key.pattern[..depth].to_vec()));
    }
    all.sort();
    all.dedup();
    all
}

fn resolve(name: &str, over: &Tree) -> Option<Path> {
    let mut best: Option<(bool, usize, Path)> = None;
    for pattern in patterns() {
        let candidate = match pattern.iter().position(|part| part == "*") {
            None => (variable(&pattern) == name).then(|| (true, 0, pattern.clone())),
            Some(star) => {
                let before = variable(&pattern[..star]) + "_";
                let after = variable(&pattern[star + 1..]);
                let after = format!("_{}", after.strip_prefix(PREFIX).unwrap_or_default());
                let chosen = name.strip_prefix(&before).and_then(|rest| rest.strip_suffix(&after));
                chosen.filter(|chosen| !chosen.is_empty()).map(|chosen| {
                    let spelt =
                        |name: &String| variable(std::slice::from_ref(name)) == format!("{PREFIX}{chosen}");
                    let there = names(over, &pattern[0]).into_iter().find(spelt);
                    let mut path = pattern.clone();
                    let known = there.is_some();
                    path[star] = there.unwrap_or_else(|| chosen.to_ascii_lowercase());
                    (known, after.len(), path)
                })
            }
        };
        best = best.max(candidate);
    }
    best.map(|(.., path)| path)
}

/// The names of all variables that there could be.
fn known(over: &Tree) -> Vec<String> {
    let mut known = Vec::new();
    for pattern in patterns() {
        match pattern.iter().position(|part| part == "*") {
            None => known.push(variable(&pattern)),
            Some(star) => known.extend(names(over, &pattern[0]).into_iter().map(|name| {
                let mut path = pattern.clone();
                path[star] = name;
                variable(&path)
            })),
        }
    }
    known
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    use super::*;

    #[test]
    fn every_key_has_a_variable_of_its_own() {
        let mut all: Vec<String> = patterns().iter().map(|pattern| variable(pattern)).collect();
        assert!(all.len() > 120, "{}", all.len());
        let count = all.len();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), count);
        assert!(!all.iter().any(|name| RESERVED.contains(&name.as_str())));
    }

    /// All names in the files of a directory, and below it.
    fn names_in(dir: &Path, found: &mut BTreeMap<String, PathBuf>) {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                if !path.ends_with("target") && !path.ends_with("corpus") {
                    names_in(&path, found);
                }
                continue;
            }
            names_in_file(&path, found);
        }
    }

    fn names_in_file(path: &Path, found: &mut BTreeMap<String, PathBuf>) {
        let text = String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned();
        for (at, _) in text.match_indices(PREFIX) {
            let is_part = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
            let name: String = text[at..].chars().take_while(|c| is_part(*c)).collect();
            if name != PREFIX {
                found.entry(name).or_insert_with(|| path.to_owned());
            }
        }
    }

    /// A node that a test starts has the variables that the test was given.
    #[test]
    fn what_the_tests_and_the_benchmarks_are_told_by_is_no_unknown_key() {
        let mut found = BTreeMap::new();
        for dir in ["tests", "bench", "store", "queue", "steps", "actors", "src/cli"] {
            names_in(&Path::new(env!("CARGO_MANIFEST_DIR")).join(dir), &mut found);
        }
        names_in_file(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/fuzzed.rs"), &mut found);
        assert!(found.contains_key("INGESTD_CHAOS_MINUTES") && found.len() > 20, "{found:?}");
        // Wrong on purpose.
        found.remove("INGESTD_FETCH_RETRY");
        let nothing = Tree::new(Origin::Default);
        found.retain(|name, _| !RESERVED.contains(&name.as_str()) && resolve(name, &nothing).is_none());
        assert!(found.is_empty(), "a node would refuse to start with these: {found:?}");
    }
}
