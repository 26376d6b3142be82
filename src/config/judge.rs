//! Whether the values are right, and whether they make sense together.

use std::path::{Path as File, PathBuf};

use ingest_steps::feed::settings as feed;
use ingest_steps::fetch::Fetcher;
use ingest_steps::minter::noid::Template;
use ingest_steps::profile::{self, Profile, Profiles};
use ingest_steps::settings::Storage;
use ingest_store::EngineConfig;
use ingest_store::engines::zookeeper::Zookeeper;
use toml::Value;

use super::fill;
use super::keys::{self, KEYS, Path};
use super::problem::{Problem, closest};
use super::read::{self, Reader};
use super::sections::Parts;
use super::tree::{Leaf, Origin, Tree};

/// What a value has to be besides its type.
#[derive(Debug, Clone, Copy)]
pub(super) enum Rule {
    /// With 0 of them nothing would ever happen.
    AtLeastOne,
    /// A time that passes.
    Lasting,
    /// More than 0, at most 1.
    Share,
    /// A NOID template.
    Template,
    /// A mail address, or a list of them.
    Mailbox,
}

/// Which. A star is any name.
pub(super) const RULES: &[(&str, Rule)] = &[
    ("store.limits.deadline", Rule::Lasting),
    ("store.limits.max_requests", Rule::AtLeastOne),
    ("store.limits.watch_backlog", Rule::AtLeastOne),
    ("store.engine.zookeeper.session_timeout", Rule::Lasting),
    ("store.engine.zookeeper.connect_limit", Rule::Lasting),
    ("node.restart_log", Rule::AtLeastOne),
    ("pools.*.stall", Rule::Lasting),
    ("queue.max_timeouts", Rule::AtLeastOne),
    ("queue.ageing", Rule::Lasting),
    ("queue.commits", Rule::AtLeastOne),
    ("queue.together", Rule::AtLeastOne),
    ("supervision.within", Rule::Lasting),
    ("supervision.batch_stall", Rule::Lasting),
    ("upkeep.every", Rule::Lasting),
    ("upkeep.*.every", Rule::Lasting),
    ("upkeep.keep_parts", Rule::Lasting),
    ("stats.every", Rule::Lasting),
    ("work.quota", Rule::AtLeastOne),
    ("fetch.max_bytes", Rule::AtLeastOne),
    ("fetch.connect_timeout", Rule::Lasting),
    ("fetch.stall", Rule::Lasting),
    ("fetch.per_host", Rule::AtLeastOne),
    ("fetch.per_node", Rule::AtLeastOne),
    ("unpack.total", Rule::AtLeastOne),
    ("unpack.member", Rule::AtLeastOne),
    ("unpack.ratio", Rule::AtLeastOne),
    ("unpack.members", Rule::AtLeastOne),
    ("unpack.depth", Rule::AtLeastOne),
    ("unpack.name", Rule::AtLeastOne),
    ("expanding.max_manifest", Rule::AtLeastOne),
    ("expanding.rows_at_once", Rule::AtLeastOne),
    ("estimating.at_once", Rule::AtLeastOne),
    ("provisioning.max_used", Rule::Share),
    ("provisioning.cycle", Rule::Lasting),
    ("downloading.at_once", Rule::AtLeastOne),
    ("notify.timeout", Rule::Lasting),
    ("storage.*.timeout", Rule::Lasting),
    ("storage.*.tries", Rule::AtLeastOne),
    ("minter.*.timeout", Rule::Lasting),
    ("minter.*.tries", Rule::AtLeastOne),
    ("minter.*.block", Rule::AtLeastOne),
    ("minter.*.template", Rule::Template),
    ("inventory.connections", Rule::AtLeastOne),
    ("mail.from", Rule::Mailbox),
    ("mail.admins", Rule::Mailbox),
    ("mail.by.smtp.timeout", Rule::Lasting),
    ("access.keep", Rule::Lasting),
    ("access.large_from", Rule::AtLeastOne),
    ("access.rate", Rule::AtLeastOne),
    ("log.throttle.within", Rule::Lasting),
    ("api.max_upload", Rule::AtLeastOne),
    ("api.max_body", Rule::AtLeastOne),
    ("api.rate", Rule::AtLeastOne),
    ("api.max_connections", Rule::AtLeastOne),
    ("api.max_streams", Rule::AtLeastOne),
    ("api.timeout", Rule::Lasting),
    ("api.stall", Rule::Lasting),
    ("api.urls_last", Rule::Lasting),
    ("api.audit_log", Rule::AtLeastOne),
    ("traces.sample", Rule::Share),
    ("workers.settle", Rule::Lasting),
    ("feeds.*.interval", Rule::Lasting),
    ("feeds.*.stable", Rule::Lasting),
    ("feeds.*.max_pages", Rule::AtLeastOne),
];

impl Rule {
    /// Why a value of the right type is wrong.
    fn broken(self, value: &Value) -> Option<String> {
        match (self, value) {
            (Rule::AtLeastOne, Value::Integer(0)) => Some("0 makes no sense here: at least 1".to_owned()),
            (Rule::AtLeastOne, Value::String(text)) if ingest_steps::size::parse(text) == Ok(0) => {
                Some("0 makes no sense here: at least 1".to_owned())
            }
            (Rule::Lasting, Value::String(text))
                if humantime::parse_duration(text).is_ok_and(|d| d.is_zero()) =>
            {
                Some("it has to last longer than no time".to_owned())
            }
            (Rule::Share, value) => {
                #[allow(clippy::cast_precision_loss, reason = "only whether it is 1 matters")]
                let share = value.as_float().or_else(|| value.as_integer().map(|whole| whole as f64))?;
                let right = share > 0.0 && share <= 1.0;
                (!right).then(|| format!("{share} is no share: more than 0, at most 1"))
            }
            (Rule::Template, Value::String(text)) => {
                text.parse::<Template>().err().map(|error| error.to_string())
            }
            (Rule::Mailbox, Value::String(text)) => {
                let wrong = text.parse::<lettre::message::Mailbox>().is_err();
                wrong.then(|| format!("`{text}` is not a mail address"))
            }
            (Rule::Mailbox, Value::Array(all)) => all.iter().find_map(|one| self.broken(one)),
            _ => None,
        }
    }
}

pub(super) fn fits(pattern: &str, path: &[String]) -> bool {
    let parts: Vec<&str> = pattern.split('.').collect();
    parts.len() == path.len() && parts.iter().zip(path).all(|(part, name)| *part == "*" || part == name)
}

/// Everything that is wrong with values, one by one and together.
pub(super) fn all(tree: &Tree, reader: &Reader<'_>) -> Vec<Problem> {
    let (mut problems, mut sound) = (Vec::new(), tree.clone());
    for (path, leaf) in tree.leaves() {
        if let Some(why) = wrong(tree, &path, leaf) {
            problems.push(leaf.origin.problem(reader.file, &path, why));
            sound.remove(&path);
        }
    }
    // What is wrong was said; the rest is judged with defaults in its place.
    fill::keys(&mut sound, &mut Reader::new(reader.file, reader.environment));
    problems.extend(together(&sound, reader.file));
    problems.extend(profiles(&sound, reader.file));
    problems
}

fn wrong(tree: &Tree, path: &[String], leaf: &Leaf) -> Option<String> {
    if leaf.origin == Origin::Default {
        return None;
    }
    let found = KEYS.probe(path, tree.kind(path), &leaf.value).err().or_else(|| {
        let rule = RULES.iter().find(|(pattern, _)| fits(pattern, path));
        rule.and_then(|(_, rule)| rule.broken(&leaf.value))
    })?;
    if read::is_hidden(path, leaf) {
        // What it should have been is at the end of the message; what it is, before.
        let wanted = found.rsplit_once(", expected ").map(|(_, wanted)| format!("expected {wanted}; "));
        return Some(format!(
            "{}the value is not shown",
            wanted.unwrap_or_else(|| "it is not right; ".to_owned())
        ));
    }
    if found.contains("did not match any variant") {
        let sample = KEYS.key(path, tree.kind(path)).map(|key| key.sample.to_string()).unwrap_or_default();
        return Some(format!("it is not right; write it like {sample}"));
    }
    Some(found.lines().next().unwrap_or_default().to_owned())
}

/// What no key is wrong with alone.
fn together(tree: &Tree, file: Option<&File>) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut wrong = |key: &str, why: String| {
        let path = if key.is_empty() { Path::new() } else { keys::split(key) };
        problems.push(tree.origin(&path).problem(file, &path, why));
    };
    let parts = Parts::read(&tree.plain());
    if let Ok(node) = &parts.node {
        for problem in node.pools.problems().into_iter().chain(node.limits.configured().problems()) {
            match problem.split_once(": ") {
                Some((key, why)) => wrong(key, why.to_owned()),
                None => wrong("pools", problem),
            }
        }
    }
    if let Ok(api) = &parts.api {
        for (key, why) in api.problems() {
            wrong(key, why);
        }
    }
    if let Ok(traces) = &parts.traces {
        for (key, why) in traces.problems() {
            wrong(key, why);
        }
    }
    if let Ok(store) = &parts.store
        && let EngineConfig::Zookeeper(zookeeper) = &store.engine
        && let Err(error) = Zookeeper::new(zookeeper.clone())
    {
        wrong("store.engine.zookeeper", error.to_string());
    }
    if let Ok(steps) = &parts.steps {
        if steps.fetch.ca.is_some()
            && let Err(failure) = Fetcher::new(steps.fetch.clone())
        {
            wrong("fetch.ca", failure.to_string());
        }
        for (name, why) in feed::problems(&steps.feeds) {
            wrong(&format!("feeds.{name}"), why);
        }
        let mut dirs: Vec<(&PathBuf, &String)> = Vec::new();
        for (name, storage) in &steps.storage {
            let key = format!("storage.{name}");
            match storage {
                Storage::S3(s3) => {
                    if let Err(failure) = s3.open() {
                        wrong(&key, failure.to_string());
                    }
                }
                Storage::Ocfl(ocfl) => {
                    if let Some((_, other)) = dirs.iter().find(|(dir, _)| **dir == ocfl.dir) {
                        wrong(&format!("{key}.dir"), format!("the storage `{other}` has the same directory"));
                    }
                    dirs.push((&ocfl.dir, name));
                }
                Storage::Http(_) => {}
            }
        }
    }
    problems
}

/// Profiles that cannot be read, and those that want what is not configured.
fn profiles(tree: &Tree, file: Option<&File>) -> Vec<Problem> {
    let key = ["profiles", "dir"].map(str::to_owned);
    let Some(dir) = tree.leaf(&key).and_then(|leaf| leaf.value.as_str()).map(PathBuf::from) else {
        return Vec::new();
    };
    let source = ["profiles", "source"].map(str::to_owned);
    if tree.leaf(&source).and_then(|leaf| leaf.value.as_str()) == Some("tree") {
        return Vec::new();
    }
    let all = match Profiles::load(&dir) {
        Ok(all) => all,
        Err(error) => {
            let from = std::env::current_dir().unwrap_or_default();
            let hint = match error.kind() {
                std::io::ErrorKind::NotFound if dir.is_relative() => format!(
                    "; it is looked for in {}: start there, or say with profiles.dir where the profiles lie",
                    from.display()
                ),
                std::io::ErrorKind::NotFound => "; make it, and put profiles into it".to_owned(),
                _ => String::new(),
            };
            let why = format!("{}: {error}{hint}", dir.display());
            return vec![tree.origin(&key).problem(file, &key, why)];
        }
    };
    let mut problems: Vec<Problem> = all.problems().iter().map(of_profile).collect();
    problems.extend(profiles_of_feeds(tree, file, &all));
    for profile in all.iter() {
        for (table, wanted) in [("storage", &profile.storage), ("minter", &profile.minter)] {
            let known = tree.table(&[table.to_owned()]).map(|table| table.nodes.keys());
            let known: Vec<&str> = known.into_iter().flatten().map(String::as_str).collect();
            if !known.contains(&wanted.as_str()) {
                problems.push(not_configured(&dir, profile, table, wanted, &known));
            }
        }
    }
    problems
}

/// Feeds whose profile is not there.
fn profiles_of_feeds(tree: &Tree, file: Option<&File>, all: &Profiles) -> Vec<Problem> {
    let mut problems = Vec::new();
    let feeds = tree.table(&["feeds".to_owned()]).map(|table| table.nodes.keys());
    for name in feeds.into_iter().flatten() {
        let key = ["feeds", name, "profile"].map(str::to_owned);
        let Some(wanted) = tree.leaf(&key).and_then(|leaf| leaf.value.as_str()) else { continue };
        if all.iter().any(|profile| profile.name == wanted) {
            continue;
        }
        let mut problem = tree.origin(&key).problem(file, &key, format!("there is no profile `{wanted}`"));
        problem.did_you_mean = closest(wanted, all.iter().map(|profile| profile.name.as_str()));
        problems.push(problem);
    }
    problems
}

fn of_profile(problem: &profile::Problem) -> Problem {
    let profile::Problem { file, line, what } = problem.clone();
    // A callback may have a password in it; what the reader of TOML says may have the callback in it.
    let secret = line.is_some_and(|line| line_at(&file, line).is_some_and(|text| is_of(&text, "callback")));
    let message = if secret && !what.starts_with("callback:") {
        "callback: it is not right; the value is not shown".to_owned()
    } else {
        what
    };
    let file = Some(file);
    Problem { file, line, column: None, variable: None, key: String::new(), message, did_you_mean: None }
}

fn not_configured(dir: &File, profile: &Profile, key: &str, wanted: &str, known: &[&str]) -> Problem {
    let file = dir.join(format!("{}.toml", profile.name));
    let text = std::fs::read_to_string(&file).unwrap_or_default();
    let line = text.lines().position(|line| is_of(line, key)).map(|index| index + 1);
    let message = format!("there is no [{key}.{wanted}] in the configuration, only {}", known.join(", "));
    let did_you_mean = closest(wanted, known.iter().copied());
    Problem {
        file: Some(file),
        line,
        column: None,
        variable: None,
        key: key.to_owned(),
        message,
        did_you_mean,
    }
}

fn line_at(file: &File, line: usize) -> Option<String> {
    std::fs::read_to_string(file).ok()?.lines().nth(line.checked_sub(1)?).map(str::to_owned)
}

fn is_of(line: &str, key: &str) -> bool {
    line.trim_start().strip_prefix(key).is_some_and(|rest| rest.trim_start().starts_with('='))
}

/// Something is wrong that was found in no value: at least its section is named. Secrets are taken out.
pub(super) fn unforeseen(tree: &Tree, file: Option<&File>, section: &str, why: &str) -> Problem {
    let mut why = why.to_owned();
    for (path, leaf) in tree.leaves() {
        if read::is_hidden(&path, leaf) {
            let value = leaf.value.as_str().map_or_else(|| leaf.value.to_string(), str::to_owned);
            if !value.is_empty() {
                why = why.replace(&value, super::effective::MASK);
            }
        }
    }
    let path = if section.is_empty() { Path::new() } else { keys::split(section) };
    tree.origin(&path).problem(file, &path, why)
}
