//! Values, and where each comes from.

use std::collections::BTreeMap;
use std::path::Path as File;

use toml::{Table, Value};

use super::keys::{self, KEYS, Path};
use super::problem::Problem;

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Origin {
    Default,
    /// Of the file: line and column, from 1.
    File(usize, usize),
    /// Of the environment: the variable's name.
    Variable(String),
    /// Of the settings of the cluster: which of them.
    Cluster(String),
}

impl Origin {
    /// A problem with what comes from there.
    pub(super) fn problem(&self, file: Option<&File>, key: &[String], message: impl Into<String>) -> Problem {
        let (line, column, variable) = match self {
            Origin::Default | Origin::Cluster(_) => (None, None, None),
            Origin::File(line, column) => (Some(*line), Some(*column), None),
            Origin::Variable(name) => (None, None, Some(name.clone())),
        };
        let elsewhere = variable.is_some() || matches!(self, Origin::Cluster(_));
        let file = if elsewhere { None } else { file.map(File::to_owned) };
        let (key, message) = (keys::dotted(key), message.into());
        Problem { file, line, column, variable, key, message, did_you_mean: None }
    }
}

/// The value of a key.
#[derive(Clone)]
pub(super) struct Leaf {
    pub value: Value,
    pub origin: Origin,
    /// It was given as a file or a variable, and so is not shown.
    pub hidden: bool,
}

#[derive(Clone)]
pub(super) enum Node {
    Table(Tree),
    Leaf(Leaf),
}

/// A table.
#[derive(Clone)]
pub(super) struct Tree {
    pub nodes: BTreeMap<String, Node>,
    pub origin: Origin,
}

impl Tree {
    pub(super) fn new(origin: Origin) -> Self {
        Self { nodes: BTreeMap::new(), origin }
    }

    pub(super) fn node(&self, path: &[String]) -> Option<&Node> {
        let (first, rest) = path.split_first()?;
        match self.nodes.get(first)? {
            node if rest.is_empty() => Some(node),
            Node::Table(table) => table.node(rest),
            Node::Leaf(_) => None,
        }
    }

    pub(super) fn leaf(&self, path: &[String]) -> Option<&Leaf> {
        match self.node(path)? {
            Node::Leaf(leaf) => Some(leaf),
            Node::Table(_) => None,
        }
    }

    pub(super) fn table(&self, path: &[String]) -> Option<&Tree> {
        match path {
            [] => Some(self),
            path => match self.node(path)? {
                Node::Table(table) => Some(table),
                Node::Leaf(_) => None,
            },
        }
    }

    /// Puts something there. Tables on the way are made.
    pub(super) fn set(&mut self, path: &[String], node: Node, origin: &Origin) {
        match path {
            [] => {}
            [last] => {
                self.nodes.insert(last.clone(), node);
            }
            [first, rest @ ..] => {
                let mut table = match self.nodes.remove(first) {
                    Some(Node::Table(table)) => table,
                    Some(Node::Leaf(_)) | None => Tree::new(origin.clone()),
                };
                table.set(rest, node, origin);
                self.nodes.insert(first.clone(), Node::Table(table));
            }
        }
    }

    pub(super) fn remove(&mut self, path: &[String]) {
        match path {
            [] => {}
            [last] => {
                self.nodes.remove(last);
            }
            [first, rest @ ..] => {
                if let Some(Node::Table(table)) = self.nodes.get_mut(first) {
                    table.remove(rest);
                }
            }
        }
    }

    /// Where it stands, or else its table.
    pub(super) fn origin(&self, path: &[String]) -> Origin {
        match self.node(path) {
            Some(Node::Leaf(leaf)) => leaf.origin.clone(),
            Some(Node::Table(table)) => table.origin.clone(),
            None if path.is_empty() => self.origin.clone(),
            None => self.origin(&path[..path.len() - 1]),
        }
    }

    /// All values.
    pub(super) fn leaves(&self) -> Vec<(Path, &Leaf)> {
        fn walk<'a>(tree: &'a Tree, path: &mut Path, found: &mut Vec<(Path, &'a Leaf)>) {
            for (name, node) in &tree.nodes {
                path.push(name.clone());
                match node {
                    Node::Table(table) => walk(table, path, found),
                    Node::Leaf(leaf) => found.push((path.clone(), leaf)),
                }
                path.pop();
            }
        }
        let mut found = Vec::new();
        walk(self, &mut Path::new(), &mut found);
        found
    }

    /// All tables, the outer ones first.
    pub(super) fn tables(&self) -> Vec<Path> {
        fn walk(tree: &Tree, path: &mut Path, found: &mut Vec<Path>) {
            for (name, node) in &tree.nodes {
                if let Node::Table(table) = node {
                    path.push(name.clone());
                    found.push(path.clone());
                    walk(table, path, found);
                    path.pop();
                }
            }
        }
        let mut found = Vec::new();
        walk(self, &mut Path::new(), &mut found);
        found
    }

    /// Without where the values come from.
    pub(super) fn plain(&self) -> Table {
        let plain = |node: &Node| match node {
            Node::Table(table) => Value::Table(table.plain()),
            Node::Leaf(leaf) => leaf.value.clone(),
        };
        self.nodes.iter().map(|(name, node)| (name.clone(), plain(node))).collect()
    }

    /// The kind of the table that a path leads to or through, if it has one that there is.
    pub(super) fn kind(&self, path: &[String]) -> Option<&'static str> {
        (1..=path.len()).rev().find_map(|depth| {
            let table = &path[..depth];
            let kinds = KEYS.kinds(table);
            let kind = self.table(table)?.leaf(&["kind".to_owned()]).and_then(|leaf| leaf.value.as_str());
            let kind = kind.or_else(|| KEYS.default_kind(table))?;
            kinds.into_iter().find(|known| *known == kind)
        })
    }
}
