//! What all nodes share by the tree, as this one applies it: profiles, and settings of the whole cluster.
//!
//! Every change of them is an event, which the watcher turns into a look; what was found is applied at once, and the
//! registrar says which version this node runs.
//!
//! Profiles come from where `profiles.source` says. Settings are made by whoever reads the configuration: it is told of
//! every change by [`House::shared`](crate::house::House), and says by which judge new ones are judged.
//!
//! **When things break.** What cannot be read is not applied: a node stays with what it had, says so, and shows the
//! version that it really runs. A profile or a setting is judged whole before it is written; the judge is the one of the
//! files.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use ingest_queue::error::Error;
use ingest_queue::shared::{Changed, SharedNow};
use ingest_steps::profile::{Profile, Profiles};
use ingest_steps::services::Services;
use ingest_steps::settings::ProfileSource;
use serde_json::{Map, Value, json};

use crate::actions::{By, FieldProblem, Kind, Refused};
use crate::crash::Crash;
use crate::house::{House, Life, tell};
use crate::registrar;

/// Judges settings of the cluster, given as TOML: what is wrong with them.
#[derive(Default)]
pub(crate) struct Judge(std::sync::OnceLock<Box<Judging>>);

/// All problems of a text.
pub type Judging = dyn Fn(&str) -> Vec<FieldProblem> + Send + Sync;

impl fmt::Debug for Judge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Judge")
    }
}

impl Judge {
    pub(crate) fn set(&self, judge: Box<Judging>) {
        let _ = self.0.set(judge);
    }

    fn judge(&self, text: &str) -> Vec<FieldProblem> {
        self.0.get().map(|judge| judge(text)).unwrap_or_default()
    }
}

/// Looks at what is shared, and applies it.
pub(crate) async fn look(house: &Arc<House>, life: &Life) -> Result<(), Crash> {
    let now = life.queue.shared().await.map_err(Crash::error)?;
    apply(house, &life.services(), now);
    Ok(())
}

pub(crate) fn apply(house: &Arc<House>, services: &Services, now: SharedNow) {
    for (path, why) in &now.unreadable {
        tracing::error!(path, why, "it cannot be read, and is not applied; what was before holds");
    }
    let mut now = now;
    let before = house.shared();
    let is_bad = |at: &str| now.unreadable.iter().any(|(path, _)| path == at);
    // What was readable before still holds.
    if is_bad(ingest_queue::map::CONF) {
        now.settings.clone_from(&before.settings);
    }
    let kept = before.profiles.iter().filter(|one| is_bad(&ingest_queue::map::profile(&one.name)));
    let kept: Vec<_> = kept.cloned().collect();
    now.profiles.extend(kept);
    let changed = house.set_shared(now);
    combine(house, services);
    if changed {
        tell(&house.directory.registrar, registrar::Message::Refresh);
    }
}

/// The profiles of the files and of the tree together, as the configuration wants them.
pub(crate) fn combine(house: &House, services: &Services) {
    // Whoever comes second sees what the first one saw, or later.
    let mut combined = services.profiles.write();
    let shared = house.shared();
    let texts = shared.profiles.iter().map(|one| (one.name.as_str(), one.version, one.text.as_str()));
    let files = house.files.load_full();
    let all = match house.steps.load().profiles.source {
        ProfileSource::Files => Profiles::clone(&files),
        ProfileSource::Tree => Profiles::of_texts(texts),
        ProfileSource::Both => Profiles::of_texts(texts).over(&files),
    };
    for problem in all.problems() {
        tracing::warn!(%problem, "a profile is not used");
    }
    *combined = Arc::new(all);
}

/// What is wrong with a profile, by its lines.
fn judged(services: &Services, name: &str, text: &str) -> Result<Profile, Refused> {
    let file = format!("{name}.toml");
    let problem = |line: Option<usize>, message: String| FieldProblem {
        field: line.map_or_else(|| "text".to_owned(), |line| format!("text:{line}")),
        message,
    };
    let wrong = |problems| Refused::of_fields(Kind::Unprocessable, problems);
    let profile = Profile::parse(Path::new(&file), text)
        .map_err(|problems| wrong(problems.into_iter().map(|one| problem(one.line, one.what)).collect()))?;
    let misses = [services.storage_of(&profile).err(), services.minter_of(&profile).err()];
    let misses: Vec<_> = misses.into_iter().flatten().map(|why| problem(None, why.to_string())).collect();
    if misses.is_empty() { Ok(profile) } else { Err(wrong(misses)) }
}

fn answer(kind: &str, name: &str, changed: &Changed) -> Value {
    let document = changed.document.as_ref();
    json!({
        "kind": kind,
        "name": name,
        "changed": changed.changed,
        "version": document.map(|document| document.version),
        "digest": document.map(|document| document.digest.clone()),
    })
}

pub(crate) async fn put_profile(life: &Life, name: &str, text: &str, by: &By) -> Result<Value, Refused> {
    judged(&life.services(), name, text)?;
    let changed = life.queue.put_profile(name, text, &by.who).await?;
    Ok(answer("profile", name, &changed))
}

pub(crate) async fn delete_profile(life: &Life, name: &str, by: &By) -> Result<Value, Refused> {
    let changed = life.queue.delete_profile(name, &by.who).await?;
    Ok(answer("profile", name, &changed))
}

pub(crate) async fn set_settings(
    house: &House,
    life: &Life,
    settings: &Map<String, Value>,
    by: &By,
) -> Result<Value, Refused> {
    let mut given = Vec::new();
    for (key, value) in settings {
        let unfit = || Refused::unprocessable(key, "it is null, or no value of a setting");
        given.push((key.clone(), toml::Value::try_from(value).map_err(|_| unfit())?));
    }
    change(house, life, by, |table| {
        for (key, value) in &given {
            insert(table, &key.split('.').collect::<Vec<_>>(), value.clone());
        }
    })
    .await
}

pub(crate) async fn unset_settings(
    house: &House,
    life: &Life,
    keys: &[String],
    by: &By,
) -> Result<Value, Refused> {
    change(house, life, by, |table| {
        for key in keys {
            remove(table, &key.split('.').collect::<Vec<_>>());
        }
    })
    .await
}

async fn change(
    house: &House,
    life: &Life,
    by: &By,
    change: impl Fn(&mut toml::Table) + Send + Sync,
) -> Result<Value, Refused> {
    // What the judge says does not go through the queue's errors as it is.
    let refused = parking_lot::Mutex::new(None);
    let judged = |before: &str| {
        let mut table: toml::Table = toml::from_str(before).unwrap_or_default();
        change(&mut table);
        let text = toml::to_string(&table).map_err(|error| Error::Invalid(error.to_string()))?;
        let problems = house.judge.judge(&text);
        if problems.is_empty() {
            return Ok(text);
        }
        *refused.lock() = Some(Refused::of_fields(Kind::Unprocessable, problems));
        Err(Error::Invalid("the settings are not right".into()))
    };
    let changed = life.queue.change_settings(&by.who, judged).await;
    if let Some(refused) = refused.into_inner() {
        return Err(refused);
    }
    Ok(answer("settings", "settings", &changed?))
}

fn insert(table: &mut toml::Table, path: &[&str], value: toml::Value) {
    match path {
        [] => {}
        [last] => {
            table.insert((*last).to_owned(), value);
        }
        [first, rest @ ..] => {
            let inner =
                table.entry((*first).to_owned()).or_insert_with(|| toml::Value::Table(toml::Table::new()));
            if !inner.is_table() {
                *inner = toml::Value::Table(toml::Table::new());
            }
            if let toml::Value::Table(inner) = inner {
                insert(inner, rest, value);
            }
        }
    }
}

/// Tables that are empty then go with it.
fn remove(table: &mut toml::Table, path: &[&str]) {
    match path {
        [] => {}
        [last] => {
            table.remove(*last);
        }
        [first, rest @ ..] => {
            let empty = match table.get_mut(*first) {
                Some(toml::Value::Table(inner)) => {
                    remove(inner, rest);
                    inner.is_empty()
                }
                _ => false,
            };
            if empty {
                table.remove(*first);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_set_in_their_tables_and_taken_out_again() {
        let mut table = toml::Table::new();
        insert(&mut table, &["pools", "downloading", "size"], toml::Value::Integer(4));
        insert(&mut table, &["pools", "downloading", "stall"], "5m".into());
        assert_eq!(toml::to_string(&table).unwrap(), "[pools.downloading]\nsize = 4\nstall = \"5m\"\n");
        remove(&mut table, &["pools", "downloading", "size"]);
        remove(&mut table, &["upkeep", "every"]);
        assert_eq!(toml::to_string(&table).unwrap(), "[pools.downloading]\nstall = \"5m\"\n");
        remove(&mut table, &["pools", "downloading", "stall"]);
        assert!(table.is_empty());
    }
}
