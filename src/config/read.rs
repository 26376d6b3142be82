//! From TOML to a tree: which keys are not known, and what stands in another place.
//!
//! A text may be given as `{ file = "…" }`, which is what stands in the file without the line's end, or as
//! `{ env = "…" }`, which is the value of a variable.

use std::collections::HashMap;
use std::io::Read as _;
use std::path::{Path as File, PathBuf};

use toml::de::{DeTable, DeValue};
use toml::{Table, Value};

use super::environment::Environment;
use super::keys::{self, KEYS, Key, Path, Place};
use super::problem::{Problem, closest};
use super::tree::{Leaf, Node, Origin, Tree};

/// The largest file that a text is taken from.
const LARGEST_TEXT: u64 = 64 << 10;

/// Reads tables, and collects what is wrong.
pub(super) struct Reader<'a> {
    pub file: Option<&'a File>,
    pub environment: &'a Environment,
    pub problems: Vec<Problem>,
    /// What was given and could not be used: it is not missing.
    pub refused: Vec<Path>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(file: Option<&'a File>, environment: &'a Environment) -> Self {
        Self { file, environment, problems: Vec::new(), refused: Vec::new() }
    }
}

/// Where the keys and the values of a text begin.
struct Spans<'a> {
    text: &'a str,
    begins: HashMap<Path, (usize, usize)>,
}

/// Of the two that stand on a line.
#[derive(Clone, Copy)]
enum Side {
    Key,
    Value,
}

impl Spans<'_> {
    fn table(&mut self, table: &DeTable<'_>, path: &mut Path) {
        for (key, value) in table {
            path.push(key.get_ref().to_string());
            self.begins.insert(path.clone(), (key.span().start, value.span().start));
            self.value(value.get_ref(), path);
            path.pop();
        }
    }

    fn value(&mut self, value: &DeValue<'_>, path: &mut Path) {
        match value {
            DeValue::Table(table) => self.table(table, path),
            DeValue::Array(array) => {
                for (index, element) in array.iter().enumerate() {
                    path.push(index.to_string());
                    self.value(element.get_ref(), path);
                    path.pop();
                }
            }
            _ => {}
        }
    }

    fn origin(&self, path: &[String], side: Side) -> Origin {
        let offset = self.begins.get(path).map_or(0, |(key, value)| match side {
            Side::Key => *key,
            Side::Value => *value,
        });
        let (line, column) = position(self.text, offset);
        Origin::File(line, column)
    }
}

fn first_line(message: &str) -> &str {
    message.lines().next().unwrap_or_default()
}

/// Line and column of an offset, from 1; the column in letters.
fn position(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let start = before.rfind('\n').map_or(0, |end| end + 1);
    (before.matches('\n').count() + 1, before[start..].chars().count() + 1)
}

type Origins<'a> = dyn Fn(&[String], Side) -> Origin + 'a;

impl Reader<'_> {
    /// The text of a file. What is no TOML is told wholly, and then nothing of the file is used.
    pub(super) fn text(&mut self, text: &str) -> Option<Tree> {
        let (document, errors) = DeTable::parse_recoverable(text);
        let mut told: Vec<_> =
            errors.iter().map(|error| (error.span(), first_line(error.message()))).collect();
        let plain = toml::from_str::<Table>(text);
        if let (true, Err(error)) = (told.is_empty(), &plain) {
            // What can be written and not be held: a number. The reader would tell which, and it may be a secret.
            told.push((error.span(), "a number that is too large"));
        }
        let right = told.is_empty();
        for (span, message) in told {
            let (line, column) = position(text, span.map_or(0, |span| span.start));
            self.wrong(&Origin::File(line, column), &[], message);
        }
        let plain = plain.ok().filter(|_| right)?;
        let mut spans = Spans { text, begins: HashMap::new() };
        spans.table(document.get_ref(), &mut Path::new());
        let origins = |path: &[String], side: Side| spans.origin(path, side);
        let mut tree = Tree::new(Origin::Default);
        self.table(&plain, &mut Path::new(), None, &origins, &mut tree);
        Some(tree)
    }

    /// A value of the environment for a key, or for a table that is written in one line.
    pub(super) fn variable(
        &mut self,
        path: &[String],
        kind: Option<&str>,
        value: &Value,
        name: &str,
    ) -> Option<Node> {
        let origins = |_: &[String], _: Side| Origin::Variable(name.to_owned());
        self.node(value, &mut path.to_vec(), kind, &origins)
    }

    /// A value of the settings of the cluster for a key.
    pub(super) fn of_cluster(&mut self, path: &[String], value: &Value, mark: &str) -> Option<Node> {
        let origins = |_: &[String], _: Side| Origin::Cluster(mark.to_owned());
        self.node(value, &mut path.to_vec(), None, &origins)
    }

    fn table(
        &mut self,
        from: &Table,
        path: &mut Path,
        kind: Option<&str>,
        origins: &Origins<'_>,
        to: &mut Tree,
    ) {
        for (name, value) in from {
            path.push(name.clone());
            if let Some(node) = self.node(value, path, kind, origins) {
                to.nodes.insert(name.clone(), node);
            }
            path.pop();
        }
    }

    fn node(
        &mut self,
        value: &Value,
        path: &mut Path,
        kind: Option<&str>,
        origins: &Origins<'_>,
    ) -> Option<Node> {
        match (KEYS.place(path, kind), value) {
            (Place::Key(key), value) => self.leaf(key, value, path, origins).map(Node::Leaf),
            (Place::Table, Value::Table(inner)) => {
                let said = inner.get("kind").and_then(Value::as_str).or_else(|| KEYS.default_kind(path));
                let known = KEYS.kinds(path).into_iter().find(|known| Some(*known) == said);
                let mut table = Tree::new(origins(path, Side::Key));
                self.table(inner, path, known.or(kind), origins, &mut table);
                Some(Node::Table(table))
            }
            (Place::Table, value) => {
                let why = format!("expected a table, and there is {}", article(value.type_str()));
                self.refuse(&origins(path, Side::Value), path, why);
                None
            }
            (Place::Unknown, _) => {
                self.unknown(path, kind, &origins(path, Side::Key));
                None
            }
        }
    }

    fn leaf(&mut self, key: &Key, value: &Value, path: &mut Path, origins: &Origins<'_>) -> Option<Leaf> {
        let origin = origins(path, Side::Value);
        match (&key.sample, value) {
            (Value::String(_), Value::Table(reference)) => {
                let value = match self.referred(reference) {
                    Ok(text) => Value::String(text),
                    Err(why) => {
                        self.refuse(&origin, path, why);
                        return None;
                    }
                };
                Some(Leaf { value, origin, hidden: true })
            }
            (Value::Array(sample), Value::Array(elements)) => {
                self.elements(sample, elements, path, origins);
                Some(Leaf { value: value.clone(), origin, hidden: false })
            }
            _ => Some(Leaf { value: value.clone(), origin, hidden: false }),
        }
    }

    /// Tables in a list: each may have the keys that the sample has.
    fn elements(&mut self, sample: &[Value], elements: &[Value], path: &mut Path, origins: &Origins<'_>) {
        let Some(Value::Table(sample)) = sample.first() else { return };
        for (index, element) in elements.iter().enumerate() {
            for name in element.as_table().into_iter().flat_map(Table::keys) {
                if sample.contains_key(name) {
                    continue;
                }
                path.extend([index.to_string(), name.clone()]);
                let mut problem = origins(path, Side::Key).problem(self.file, path, "unknown key");
                problem.did_you_mean = closest(name, sample.keys().map(String::as_str));
                self.problems.push(problem);
                path.truncate(path.len() - 2);
            }
        }
    }

    fn unknown(&mut self, path: &[String], kind: Option<&str>, origin: &Origin) {
        let Some((name, table)) = path.split_last() else { return };
        let known = KEYS.names(table, kind);
        let mut problem = origin.problem(self.file, path, "unknown key");
        problem.did_you_mean = closest(name, known.iter().map(String::as_str));
        if let (None, Some(kind)) = (&problem.did_you_mean, kind) {
            problem.message = format!("unknown key of the kind `{kind}`");
        }
        self.problems.push(problem);
    }

    /// The text that stands elsewhere. Problems name the place, and never what is there.
    fn referred(&self, reference: &Table) -> Result<String, String> {
        let mut entries = reference.iter();
        match (entries.next(), entries.next()) {
            (Some((kind, Value::String(name))), None) if kind == "env" => match self.environment.get(name) {
                Some(value) => value
                    .to_str()
                    .map(str::to_owned)
                    .ok_or_else(|| format!("the variable {name} is not UTF-8")),
                None => Err(format!("the variable {name} is not set")),
            },
            (Some((kind, Value::String(file))), None) if kind == "file" => {
                text_of(&PathBuf::from(file)).map_err(|why| format!("{file}: {why}"))
            }
            _ => Err("expected a text, `{ file = \"…\" }` or `{ env = \"…\" }`".to_owned()),
        }
    }

    fn refuse(&mut self, origin: &Origin, path: &[String], message: impl Into<String>) {
        self.refused.push(path.to_vec());
        self.wrong(origin, path, message);
    }

    pub(super) fn wrong(&mut self, origin: &Origin, key: &[String], message: impl Into<String>) {
        self.problems.push(origin.problem(self.file, key, message));
    }
}

/// A file's text without the line end that editors and `echo` leave.
fn text_of(file: &File) -> Result<String, String> {
    let mut bytes = Vec::new();
    // Bounded, because it need not be a file: a pipe has no size and may have no end.
    let opened = std::fs::File::open(file).map_err(|error| error.to_string())?;
    opened.take(LARGEST_TEXT + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() as u64 > LARGEST_TEXT {
        let most = ingest_steps::size::show(LARGEST_TEXT);
        return Err(format!("it is larger than {most}, and no text for a key"));
    }
    let text = String::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned())?;
    let line = text.strip_suffix('\n').unwrap_or(&text);
    Ok(line.strip_suffix('\r').unwrap_or(line).to_owned())
}

fn article(kind: &str) -> String {
    let an = kind.starts_with(['a', 'e', 'i', 'o', 'u']);
    format!("{} {kind}", if an { "an" } else { "a" })
}

/// A value as the environment has it: TOML where that works, otherwise text. Where a text is wanted, a number stays one.
pub(super) fn value_of(key: Option<&Key>, text: &str) -> Value {
    let read = toml::from_str::<Table>(&format!("value = {text}")).ok().filter(|read| read.len() == 1);
    let read = read.and_then(|mut read| read.remove("value"));
    let wants_text = key.is_some_and(|key| key.sample.is_str());
    match read {
        Some(value @ (Value::String(_) | Value::Table(_))) => value,
        Some(value) if !wants_text => value,
        _ => Value::String(text.to_owned()),
    }
}

/// The same, for a path.
pub(super) fn value_at(path: &[String], kind: Option<&str>, text: &str) -> Value {
    value_of(KEYS.key(path, kind), text)
}

/// Whether the URL in a text has a password.
pub(super) fn has_password(text: &str) -> bool {
    let authority =
        text.split_once("://").map(|(_, rest)| rest.split(['/', '?', '#']).next().unwrap_or(rest));
    authority.and_then(|authority| authority.rsplit_once('@')).is_some_and(|(user, _)| user.contains(':'))
}

/// Whether a value may not be shown.
pub(super) fn is_hidden(path: &[String], leaf: &Leaf) -> bool {
    // A list of none has no secrets.
    let empty = leaf.value.as_array().is_some_and(Vec::is_empty);
    leaf.hidden || (keys::is_secret(path) && !empty) || leaf.value.as_str().is_some_and(has_password)
}
