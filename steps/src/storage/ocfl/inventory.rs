//! The inventory of an OCFL object: what it says, and whether it can be believed.
//!
//! **When things break.** An inventory that is no JSON, names another object, has gaps in its versions or
//! paths that leave the object is refused as a whole, with the first reason. So are shapes that OCFL allows
//! but that are not written here: another digest algorithm than sha512, padded version numbers, another
//! content directory.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use crate::digest::{Algorithm, Digest};
use crate::storage::User;

pub(super) const FILE: &str = "inventory.json";
pub(super) const SIDECAR: &str = "inventory.json.sha512";
pub(super) const CONTENT: &str = "content";
const TYPE: &str = "https://ocfl.io/1.1/spec/#inventory";
/// The last line of a version's message holds the key of the store that made it.
const KEY_LINE: &str = "Ingest-Key: ";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Inventory {
    pub(super) id: String,
    #[serde(rename = "type")]
    pub(super) spec: String,
    pub(super) digest_algorithm: String,
    pub(super) head: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) content_directory: Option<String>,
    /// Digest to the paths of its content, from the object's root.
    pub(super) manifest: BTreeMap<String, Vec<String>>,
    pub(super) versions: BTreeMap<String, Version>,
    /// Algorithm to digest to paths of content.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) fixity: BTreeMap<String, BTreeMap<String, Vec<String>>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Version {
    pub(super) created: String,
    /// Digest to logical paths.
    pub(super) state: BTreeMap<String, Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) message: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) user: Option<User>,
}

impl Inventory {
    /// Of an object that has no version yet.
    pub(super) fn new(id: &str) -> Self {
        Self {
            id: id.to_owned(),
            spec: TYPE.to_owned(),
            digest_algorithm: Algorithm::Sha512.plain_name().to_owned(),
            head: "v0".to_owned(),
            content_directory: None,
            manifest: BTreeMap::new(),
            versions: BTreeMap::new(),
            fixity: BTreeMap::new(),
        }
    }

    pub(super) fn read(bytes: &[u8]) -> Result<Self, String> {
        let inventory: Self = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        inventory.check()?;
        Ok(inventory)
    }

    fn check(&self) -> Result<(), String> {
        if self.digest_algorithm != Algorithm::Sha512.plain_name() {
            return Err(format!("its digestAlgorithm is `{}`, not sha512", self.digest_algorithm));
        }
        if let Some(other) = self.content_directory.as_deref().filter(|name| *name != CONTENT) {
            return Err(format!("its contentDirectory is `{other}`, not `{CONTENT}`"));
        }
        let head = self.newest().ok_or_else(|| format!("its head is `{}`", self.head))?;
        let count = u32::try_from(self.versions.len()).unwrap_or(u32::MAX);
        if count != head || (1..=head).any(|number| !self.versions.contains_key(&name(number))) {
            return Err(format!("its head is {}, and its versions are not v1 to {0}", self.head));
        }
        for (digest, paths) in &self.manifest {
            Digest::new(Algorithm::Sha512, digest).map_err(|error| error.to_string())?;
            if paths.is_empty() {
                return Err(format!("digest {digest} has no content"));
            }
            for path in paths {
                let mut names = path.split('/');
                let version = names.next().and_then(number).filter(|number| *number <= head);
                let inside = names.next() == Some(CONTENT) && is_relative(path);
                if version.is_none() || !inside || names.next().is_none() {
                    return Err(format!("`{}` is no path of content", path.escape_debug()));
                }
            }
        }
        for (version, said) in &self.versions {
            for (digest, paths) in &said.state {
                if !self.manifest.contains_key(digest) {
                    return Err(format!("{version} has digest {digest}, which is not in the manifest"));
                }
                if let Some(path) = paths.iter().find(|path| !is_relative(path)) {
                    return Err(format!("{version} has the path `{}`", path.escape_debug()));
                }
            }
        }
        Ok(())
    }

    /// As it is written, with its digest.
    pub(super) fn write(&self) -> Result<Vec<u8>, serde_json::Error> {
        let mut bytes = serde_json::to_vec_pretty(self)?;
        bytes.push(b'\n');
        Ok(bytes)
    }

    /// The number of the newest version.
    pub(super) fn newest(&self) -> Option<u32> {
        number(&self.head)
    }

    pub(super) fn version(&self, number: u32) -> Option<&Version> {
        self.versions.get(&name(number))
    }

    /// The version that a store with this key made.
    pub(super) fn version_of(&self, key: &str) -> Option<u32> {
        self.versions
            .iter()
            .find(|(_, version)| version.key() == Some(key))
            .and_then(|(name, _)| number(name))
    }

    /// Where the content of a digest is.
    pub(super) fn content(&self, digest: &str) -> Option<&str> {
        self.manifest.get(digest)?.first().map(String::as_str)
    }

    pub(super) fn add_fixity(&mut self, digest: &Digest, path: &str) {
        if !matches!(digest.algorithm(), Algorithm::Md5 | Algorithm::Sha1 | Algorithm::Sha256) {
            return;
        }
        let block = self.fixity.entry(digest.algorithm().plain_name().to_owned()).or_default();
        let paths = block.entry(digest.hex().to_owned()).or_default();
        if !paths.iter().any(|known| known == path) {
            paths.push(path.to_owned());
        }
    }
}

impl Version {
    pub(super) fn key(&self) -> Option<&str> {
        self.message.as_deref()?.lines().last()?.strip_prefix(KEY_LINE)
    }

    /// The message without the line of the key.
    pub(super) fn text(&self) -> &str {
        let message = self.message.as_deref().unwrap_or_default();
        let end = self.key().and_then(|_| message.rfind(KEY_LINE)).unwrap_or(message.len());
        message[..end].trim_end()
    }

    /// Logical path to digest.
    pub(super) fn paths(&self) -> HashMap<&str, &str> {
        let pairs =
            self.state.iter().flat_map(|(digest, paths)| paths.iter().map(move |path| (path, digest)));
        pairs.map(|(path, digest)| (path.as_str(), digest.as_str())).collect()
    }
}

/// A message that carries a key.
pub(super) fn message_with(text: &str, key: &str) -> String {
    let text = text.trim_end();
    if text.is_empty() { format!("{KEY_LINE}{key}") } else { format!("{text}\n\n{KEY_LINE}{key}") }
}

/// `v3` of 3.
pub(super) fn name(number: u32) -> String {
    format!("v{number}")
}

/// 3 of `v3`; nothing of `v0`, `v03` or anything else.
pub(super) fn number(name: &str) -> Option<u32> {
    let digits = name.strip_prefix('v')?;
    let plain = digits.bytes().all(|digit| digit.is_ascii_digit()) && !digits.starts_with('0');
    if plain { digits.parse().ok() } else { None }
}

/// The digest that a sidecar holds.
pub(super) fn sidecar_digest(text: &str) -> Option<&str> {
    let mut words = text.split_ascii_whitespace();
    let digest = words.next()?;
    (words.next() == Some(FILE) && words.next().is_none()).then_some(digest)
}

fn is_relative(path: &str) -> bool {
    !path.contains('\0') && path.split('/').all(|name| !matches!(name, "" | "." | ".."))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sound() -> Inventory {
        let digest = "a".repeat(128);
        let mut inventory = Inventory::new("ark:/1/2");
        inventory.head = "v1".into();
        inventory.manifest.insert(digest.clone(), vec!["v1/content/a".into()]);
        let version = Version {
            created: "2026-01-01T00:00:00Z".into(),
            state: BTreeMap::from([(digest, vec!["a".into()])]),
            message: Some(message_with("first\n", "k")),
            user: None,
        };
        inventory.versions.insert("v1".into(), version);
        inventory
    }

    #[test]
    fn what_is_written_is_read_and_the_key_is_found() {
        let inventory = sound();
        let read = Inventory::read(&inventory.write().unwrap()).unwrap();
        assert_eq!((&read, read.version_of("k"), read.version_of("first")), (&inventory, Some(1), None));
        assert_eq!(read.version(1).unwrap().text(), "first");
    }

    #[test]
    fn a_key_in_the_text_of_a_message_is_not_the_key() {
        let message = message_with("Ingest-Key: theirs", "ours");
        let version = Version { message: Some(message), ..sound().versions["v1"].clone() };
        assert_eq!((version.key(), version.text()), (Some("ours"), "Ingest-Key: theirs"));
    }

    #[test]
    fn an_inventory_that_cannot_be_believed_is_refused() {
        let digest = "a".repeat(128);
        for path in
            ["../x", "v1/content/../../x", "v1/content", "v2/content/a", "/v1/content/a", "v1/other/a"]
        {
            let mut wrong = sound();
            wrong.manifest.insert(digest.clone(), vec![path.into()]);
            assert!(wrong.check().is_err(), "{path}");
        }
        let mut gap = sound();
        gap.head = "v2".into();
        assert!(gap.check().is_err());
        let mut lost = sound();
        lost.manifest.clear();
        assert!(lost.check().unwrap_err().contains("not in the manifest"));
        assert!(Inventory::read(b"{").is_err());
    }

    #[test]
    fn version_names_have_no_padding() {
        assert_eq!((number("v1"), number("v10"), name(10)), (Some(1), Some(10), "v10".into()));
        for wrong in ["v0", "v01", "v", "1", "v-1", "v+1", "v99999999999"] {
            assert_eq!(number(wrong), None, "{wrong}");
        }
    }
}
