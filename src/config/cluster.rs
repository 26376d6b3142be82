//! Settings of the whole cluster: keys that hold on every node, over its file and under its environment.
//!
//! Only what holds without a restart can be set so, and nothing that is secret: the tree is read by all.

use toml::{Table, Value};

use super::keys::{self, KEYS, Path, Place};
use super::problem::closest;
use super::read::Reader;
use super::tree::{Origin, Tree};

/// Settings of the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cluster {
    /// Version and digest in short.
    pub mark: String,
    /// TOML.
    pub text: String,
}

/// Lays them over what the file says.
pub(super) fn lay(reader: &mut Reader<'_>, over: &mut Tree, cluster: &Cluster) {
    let origin = Origin::Cluster(cluster.mark.clone());
    let table: Table = match toml::from_str(&cluster.text) {
        Ok(table) => table,
        Err(error) => {
            reader.wrong(&origin, &[], format!("the settings of the cluster: {}", error.message()));
            return;
        }
    };
    let mut found = Vec::new();
    flatten(&table, &mut Path::new(), &mut found);
    for (path, value) in found {
        if let Place::Unknown | Place::Table = KEYS.place(&path, None) {
            let mut problem = origin.problem(None, &path, "there is no such key");
            let live = KEYS.all.iter().filter(|key| keys::is_live(&key.pattern));
            let known: Vec<String> = live.map(|key| keys::dotted(&key.pattern)).collect();
            problem.did_you_mean = closest(&keys::dotted(&path), known.iter().map(String::as_str));
            reader.problems.push(problem);
            continue;
        }
        if !keys::is_live(&path) || keys::is_secret(&path) {
            let why = "each node has its own: only what holds without a restart can be set for the cluster";
            reader.wrong(&origin, &path, why);
            continue;
        }
        if let Some(node) = reader.of_cluster(&path, &value, &cluster.mark) {
            over.set(&path, node, &origin);
        }
    }
}

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
