//! The configuration: the defaults, one file over them, the settings of the cluster over that, the environment over all.
//!
//! | to find | look in |
//! |---|---|
//! | which keys there are, which are secret, which hold without a restart | [`keys`] |
//! | how a file is read, and texts that stand elsewhere | [`read`] |
//! | `INGESTD_…` | [`environment`] |
//! | settings of the whole cluster | [`cluster`] |
//! | the defaults | [`fill`], and the file that ships |
//! | what is judged | [`judge`] |
//! | what is shown, and what changed | [`effective`] |
//! | what is written about the keys | [`page`] |
//!
//! **When things break.** Everything that is wrong is told at once, each with its place and key and what was perhaps
//! meant. A configuration with a problem is not used, not even in part. Secrets are in no message.

mod cluster;
mod effective;
mod environment;
mod fill;
mod judge;
mod keys;
mod page;
mod problem;
mod read;
mod sections;
#[cfg(test)]
mod tests;
mod tree;

use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use ingest_store::StoreConfig;

pub(crate) use self::cluster::Cluster;
pub(crate) use self::effective::{Change, Effective};
pub(crate) use self::environment::{CONFIG, Environment};
pub(crate) use self::page::{KeyLine, lines as key_lines, markdown as page};
pub(crate) use self::problem::{Problem, Problems};

use self::read::Reader;
use self::sections::Parts;
use self::tree::{Origin, Tree};
use crate::api::ApiSettings;
use crate::logs::LogSettings;
use crate::traces::TraceSettings;

/// Where a file is looked for if none is named: the first that is there. Without any, the defaults hold.
const PLACES: [&str; 2] = ["config/ingestd.toml", "/etc/ingestd/ingestd.toml"];

/// A configuration without problems.
pub(crate) struct Loaded {
    pub store: StoreConfig,
    pub steps: ingest_steps::settings::Settings,
    pub node: ingest_actors::settings::Settings,
    pub log: LogSettings,
    pub api: ApiSettings,
    pub traces: TraceSettings,
    /// The file that was read, if there is one.
    pub path: Option<PathBuf>,
    /// Every key, as it holds.
    pub effective: Effective,
}

impl fmt::Debug for Loaded {
    /// Without secrets, wherever they stand.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loaded")
            .field("path", &self.path)
            .field("effective", &self.effective)
            .finish_non_exhaustive()
    }
}

/// A configuration as far as it can be read, and what is wrong with it.
#[derive(Debug)]
pub(crate) struct Checked {
    pub effective: Effective,
    pub problems: Vec<Problem>,
    loaded: Option<Loaded>,
}

/// Reads the file that is named, or that `INGESTD_CONFIG` names, or the first of the usual ones, and lays the
/// environment over it. Blocks: files are read.
pub(crate) fn load(path: Option<&Path>, environment: &Environment) -> Result<Loaded, Problems> {
    let Checked { problems, loaded, .. } = check(path, environment);
    match loaded {
        Some(loaded) if problems.is_empty() => Ok(loaded),
        _ => Err(Problems(problems)),
    }
}

/// The same with settings of the cluster between the file and the environment.
pub(crate) fn load_with(
    path: Option<&Path>,
    environment: &Environment,
    cluster: Option<&Cluster>,
) -> Result<Loaded, Problems> {
    let places = PLACES.map(PathBuf::from);
    let Checked { problems, loaded, .. } = check_all(path, environment, &places, cluster);
    match loaded {
        Some(loaded) if problems.is_empty() => Ok(loaded),
        _ => Err(Problems(problems)),
    }
}

/// The same, for whoever also wants to see a configuration that has problems.
pub(crate) fn check(path: Option<&Path>, environment: &Environment) -> Checked {
    check_in(path, environment, &PLACES.map(PathBuf::from))
}

/// The same with settings of the cluster.
pub(crate) fn check_with(path: Option<&Path>, environment: &Environment, cluster: &Cluster) -> Checked {
    check_all(path, environment, &PLACES.map(PathBuf::from), Some(cluster))
}

/// What is wrong with settings of the cluster, on a node with this configuration.
pub(crate) fn judge_cluster(
    path: Option<&Path>,
    environment: &Environment,
    cluster: &Cluster,
) -> Vec<Problem> {
    let places = PLACES.map(PathBuf::from);
    // What is wrong without them is none of their fault.
    let before = check_all(path, environment, &places, None).problems;
    let after = check_all(path, environment, &places, Some(cluster)).problems;
    after.into_iter().filter(|problem| !before.contains(problem)).collect()
}

/// What differs between two of them, key by key.
pub(crate) fn difference(old: &Loaded, new: &Loaded) -> Vec<Change> {
    old.effective.difference(&new.effective)
}

/// What holds after a change under a node that runs: the old one, with what needs no restart as the new one says.
pub(crate) fn changed_live(old: &Loaded, new: &Loaded) -> Result<Loaded, String> {
    let effective = old.effective.with_live_of(&new.effective);
    typed(&effective, old.path.clone()).map_err(|(section, why)| format!("{section}: {why}"))
}

fn check_in(path: Option<&Path>, environment: &Environment, places: &[PathBuf]) -> Checked {
    check_all(path, environment, places, None)
}

/// The file that holds where none is named, if there is one.
pub(crate) fn file_of(environment: &Environment) -> Option<PathBuf> {
    found(None, environment, &PLACES.map(PathBuf::from))
}

/// The file that is named, on the command line or in the environment, or the first that is there.
fn found(path: Option<&Path>, environment: &Environment, places: &[PathBuf]) -> Option<PathBuf> {
    named(path, environment).or_else(|| places.iter().find(|place| place.exists()).cloned())
}

fn named(path: Option<&Path>, environment: &Environment) -> Option<PathBuf> {
    let told = || environment.get(CONFIG).filter(|path| !path.is_empty()).map(PathBuf::from);
    path.map(Path::to_owned).or_else(told)
}

fn check_all(
    path: Option<&Path>,
    environment: &Environment,
    places: &[PathBuf],
    cluster: Option<&Cluster>,
) -> Checked {
    let must = named(path, environment).is_some();
    let path = found(path, environment, places);
    let mut reader = Reader::new(path.as_deref(), environment);
    let tree = path.as_deref().and_then(|path| file(path, must, &mut reader));
    let readable = path.is_none() || tree.is_some();
    let mut tree = tree.unwrap_or_else(|| Tree::new(Origin::Default));
    if let Some(cluster) = cluster {
        cluster::lay(&mut reader, &mut tree, cluster);
    }
    complete(tree, readable, reader)
}

/// What is wrong with a text, if it were the file.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn check_text(text: &str, environment: &Environment) -> Checked {
    let mut reader = Reader::new(None, environment);
    let tree = reader.text(text);
    let readable = tree.is_some();
    complete(tree.unwrap_or_else(|| Tree::new(Origin::Default)), readable, reader)
}

fn file(path: &Path, must: bool, reader: &mut Reader<'_>) -> Option<Tree> {
    match std::fs::read_to_string(path) {
        Ok(text) => reader.text(&text),
        Err(error) if error.kind() == ErrorKind::NotFound && must => {
            reader.wrong(&Origin::Default, &[], "there is no such file");
            None
        }
        Err(error) => {
            reader.wrong(&Origin::Default, &[], format!("it cannot be read: {error}"));
            None
        }
    }
}

fn complete(mut tree: Tree, readable: bool, mut reader: Reader<'_>) -> Checked {
    let named_by_file: Vec<String> = tree.nodes.keys().cloned().collect();
    environment::lay(&mut reader, &mut tree);
    fill::tables(&mut tree, &named_by_file);
    let told = reader.problems.len();
    fill::keys(&mut tree, &mut reader);
    if readable {
        let judged = judge::all(&tree, &reader);
        reader.problems.extend(judged);
    } else {
        // What a file that cannot be read would have said is not missing.
        reader.problems.truncate(told);
    }
    let (file, mut problems) = (reader.file, reader.problems);
    let path = file.map(Path::to_owned);
    let effective = Effective::new(tree, path.clone());
    let mut loaded = None;
    if problems.is_empty() {
        match typed(&effective, path) {
            Ok(typed) => loaded = Some(typed),
            Err((section, why)) => problems.push(judge::unforeseen(effective.tree(), file, section, &why)),
        }
    }
    let place =
        |problem: &Problem| (problem.file.clone(), problem.line, problem.column, problem.variable.clone());
    problems.sort_by_key(place);
    Checked { effective, problems, loaded }
}

fn typed(effective: &Effective, path: Option<PathBuf>) -> Result<Loaded, (&'static str, String)> {
    let Parts { store, steps, node, log, api, traces } = Parts::read(&effective.tree().plain());
    let of = |section: &'static str| move |why: String| (section, why);
    Ok(Loaded {
        store: store.map_err(of("store"))?,
        steps: steps.map_err(of(""))?,
        node: node.map_err(of(""))?,
        log: log.map_err(of("log"))?,
        api: api.map_err(of("api"))?,
        traces: traces.map_err(of("traces"))?,
        path,
        effective: effective.clone(),
    })
}
