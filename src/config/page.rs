//! What is written about the keys: the page `docs/configuration.md`, and the list of `ingestd config keys`. Both come from
//! the file that ships: a key is described by the comment above it, and so is a section.

use std::fmt::Write as _;

use serde::Serialize;
use toml::Value;

use super::environment::{RESERVED, variable};
use super::keys::{self, KEYS, Key, LIVE, SHIPPED};

/// What no table can say.
const HEAD: &str = include_str!("page.md");

/// A key, for people.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct KeyLine {
    /// `storage.NAME.dir`
    pub key: String,
    /// Of which kind its section is, where there are kinds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// As TOML; absent: there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
    /// Its section cannot be without it.
    pub required: bool,
    /// A change holds without a restart.
    pub live: bool,
    /// It is never shown.
    pub secret: bool,
    pub variable: String,
    pub effect: String,
}

/// All keys, in the order of the file. Those of tables that are written in one line are one.
pub(crate) fn lines() -> Vec<KeyLine> {
    let mut lines = Vec::new();
    for section in sections() {
        for (at, (name, _)) in section.keys.iter().enumerate() {
            let mut path = section.path.clone();
            path.push(name.clone());
            let Some(key) = section.key(name) else { continue };
            let written = keys::dotted(&path);
            lines.push(KeyLine {
                variable: variable(&path),
                kind: section.kind.clone(),
                default: key.default().map(|value| value.to_string()),
                required: key.required,
                live: keys::is_live(&path),
                secret: keys::is_secret(&path),
                effect: section.effect(at),
                key: written,
            });
        }
    }
    lines
}

/// A section as it stands in the file.
#[derive(Debug, Default)]
struct Section {
    /// Names that can be chosen are NAME.
    path: Vec<String>,
    kind: Option<String>,
    text: Vec<String>,
    /// Each with the comment above it; none: that of the key before it.
    keys: Vec<(String, String)>,
}

/// A key of a section, whether it is one or a table in one line.
struct Described {
    keys: Vec<&'static Key>,
    required: bool,
}

impl Described {
    fn default(&self) -> Option<Value> {
        match self.keys.as_slice() {
            [key] => key.default.clone(),
            _ => None,
        }
    }
}

impl Section {
    fn key(&self, name: &str) -> Option<Described> {
        let mut pattern: Vec<String> =
            self.path.iter().map(|part| if part == NAME { "*".to_owned() } else { part.clone() }).collect();
        pattern.push(name.to_owned());
        let of_key = |key: &&'static Key| key.pattern.starts_with(&pattern) && key.kind == self.kind;
        let found: Vec<&'static Key> = KEYS.all.iter().filter(of_key).collect();
        let whole = found.iter().any(|key| key.pattern == pattern);
        let required = whole && found.iter().any(|key| key.required);
        (!found.is_empty()).then_some(Described { keys: found, required })
    }

    /// What a key does; of several under one comment, that of the first.
    fn effect(&self, at: usize) -> String {
        let above = self.keys.get(..=at).unwrap_or_default().iter().rev();
        above.map(|(_, text)| text).find(|text| !text.is_empty()).cloned().unwrap_or_default()
    }

    fn title(&self) -> String {
        let path = keys::dotted(&self.path);
        match &self.kind {
            Some(kind) => format!("`[{path}]`, `kind` = `{kind}`"),
            None => format!("`[{path}]`"),
        }
    }

    /// Whether its keys are described nowhere: they are those of the sections beside it.
    fn is_one_of_many(&self) -> bool {
        self.path.len() > 1 && self.keys.len() > 1 && self.keys.iter().all(|(_, text)| text.is_empty())
    }
}

const NAME: &str = "NAME";

/// The sections of the file that ships, with their comments.
fn sections() -> Vec<Section> {
    let mut found: Vec<Section> = Vec::new();
    // Paragraphs of comments; the last one grows.
    let mut comments = vec![String::new()];
    for line in SHIPPED.lines() {
        let bare = line.strip_prefix("# ").unwrap_or(line);
        if let Some(header) = bare.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            let pattern = keys::pattern(&keys::split(header));
            let path = pattern.into_iter().map(|part| if part == "*" { NAME.to_owned() } else { part });
            let mut text: Vec<String> = std::mem::replace(&mut comments, vec![String::new()]);
            text.retain(|paragraph| !paragraph.is_empty());
            if found.is_empty() {
                // What stands above it is about the file.
                text = text.pop().into_iter().collect();
            }
            found.push(Section { path: path.collect(), text, ..Section::default() });
            continue;
        }
        let inner = bare.strip_prefix("# ").unwrap_or(bare);
        if let (Some(section), true) = (found.last_mut(), keys::is_key(inner)) {
            let (name, value) = inner.split_once(" = ").unwrap_or((inner, ""));
            let text = std::mem::replace(&mut comments, vec![String::new()]);
            if name == "kind" {
                section.kind = Some(value.trim_matches('"').to_owned());
            } else {
                section.keys.push((name.to_owned(), text.join(" ").trim().to_owned()));
            }
            continue;
        }
        match line.trim_start_matches(['#', ' ']) {
            "" => comments.push(String::new()),
            text => {
                if let Some(last) = comments.last_mut() {
                    last.push_str(if last.is_empty() { "" } else { " " });
                    last.push_str(text);
                }
            }
        }
    }
    found
}

/// The page. Writing to a text does not fail.
pub(crate) fn markdown() -> String {
    let reserved: Vec<String> = RESERVED.iter().skip(1).map(|name| format!("`{name}`")).collect();
    let mut page = HEAD.replace("@RESERVED@", &reserved.join(", "));
    page.push_str("## What holds without a restart\n\nWhen the configuration is read again, changes of these keys hold at once. All others need a restart, and are told.\n\n");
    for live in LIVE {
        let _ = writeln!(page, "- `{live}`");
    }
    let mut sections = sections().into_iter().peekable();
    while let Some(section) = sections.next() {
        if !section.is_one_of_many() {
            one(&mut page, &section);
            continue;
        }
        let mut beside = vec![section];
        while let Some(next) = sections.next_if(|next| is_beside(&beside[0], next)) {
            beside.push(next);
        }
        match beside.as_slice() {
            [alone] => one(&mut page, alone),
            _ => many(&mut page, &beside),
        }
    }
    page
}

fn is_beside(first: &Section, next: &Section) -> bool {
    let names = |section: &Section| section.keys.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    next.is_one_of_many()
        && next.path.split_last().map(|(_, above)| above) == first.path.split_last().map(|(_, above)| above)
        && names(next) == names(first)
}

fn one(page: &mut String, section: &Section) {
    let _ = writeln!(page, "\n## {}\n", section.title());
    for paragraph in &section.text {
        let _ = writeln!(page, "{}\n", paragraph.strip_prefix("- ").unwrap_or(paragraph));
    }
    if section.keys.is_empty() {
        return;
    }
    page.push_str("| key | default | effect |\n|---|---|---|\n");
    // Keys under one comment are one row.
    for row in section.keys.chunk_by(|_, (_, text)| text.is_empty()) {
        let names: Vec<String> = row.iter().map(|(name, _)| format!("`{name}`")).collect();
        let defaults: Vec<String> = row.iter().map(|(name, _)| default_of(section, name)).collect();
        let effect = row.first().map(|(_, text)| text.replace('|', "\\|")).unwrap_or_default();
        let defaults =
            if defaults.iter().all(String::is_empty) { String::new() } else { defaults.join(", ") };
        let _ = writeln!(page, "| {} | {defaults} | {effect} |", names.join(", "));
    }
}

/// Sections that have the same keys: a row each.
fn many(page: &mut String, sections: &[Section]) {
    let [first, ..] = sections else { return };
    let above = first.path.split_last().map(|(_, above)| keys::dotted(above)).unwrap_or_default();
    let _ = writeln!(page, "\n## `[{above}.…]`\n");
    for paragraph in first.text.split_last().map(|(_, before)| before).unwrap_or_default() {
        let _ = writeln!(page, "{paragraph}\n");
    }
    let names: Vec<String> = first.keys.iter().map(|(name, _)| format!("`{name}`")).collect();
    let _ = writeln!(page, "| section | {} | |", names.join(" | "));
    let _ = writeln!(page, "|---|{}---|", "---|".repeat(names.len()));
    for section in sections {
        let defaults: Vec<String> = section.keys.iter().map(|(name, _)| default_of(section, name)).collect();
        let about = section.text.last().cloned().unwrap_or_default();
        let _ = writeln!(page, "| `{}` | {} | {about} |", keys::dotted(&section.path), defaults.join(" | "));
    }
}

fn default_of(section: &Section, name: &str) -> String {
    let Some(key) = section.key(name) else { return String::new() };
    match key.default() {
        Some(Value::String(text)) if text.is_empty() => "empty".to_owned(),
        Some(Value::String(text)) => format!("`{text}`"),
        Some(value) => format!("`{value}`"),
        None if key.required => String::new(),
        None => "absent".to_owned(),
    }
}
