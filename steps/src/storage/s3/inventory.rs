//! What a version is: its inventory, read, and committed last and once.

use std::collections::BTreeMap;

use bytes::Bytes;
use object_store::path::Path;
use object_store::{Error, ObjectStore as _, ObjectStoreExt as _, PutMode, PutPayload};
use serde::{Deserialize, Serialize};

use super::S3;
use super::told::{no_bucket, told};
use crate::digest::{Algorithm, Digest};
use crate::outcome::{Failure, Result};
use crate::storage::User;

pub(super) const INVENTORY: &str = "inventory.json";

/// What `inventory.json` of a version says.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Inventory {
    pub(super) id: String,
    pub(super) version: u32,
    pub(super) created: String,
    pub(super) message: String,
    pub(super) user: User,
    /// The key of every store so far, by version.
    pub(super) keys: BTreeMap<u32, String>,
    pub(super) files: BTreeMap<String, Entry>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Entry {
    pub(super) sha512: String,
    pub(super) size: u64,
    /// The key of the content, below the object.
    pub(super) content: String,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) fixity: BTreeMap<String, String>,
}

impl Inventory {
    /// What is written of this version of this object, or why that cannot be believed.
    pub(super) fn read(ark: &str, number: u32, bytes: &[u8]) -> Result<Self, String> {
        let found: Self = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        if found.id != ark || found.version != number || !found.keys.keys().copied().eq(1..=number) {
            return Err(format!("it is of {} v{}, and does not know all versions", found.id, found.version));
        }
        for (path, entry) in &found.files {
            let inside = entry.content.starts_with('v') && Path::parse(&entry.content).is_ok();
            if !inside || Digest::new(Algorithm::Sha512, &entry.sha512).is_err() {
                return Err(format!("its file `{path}` has no content or no digest"));
            }
        }
        Ok(found)
    }
}

impl S3 {
    pub(super) async fn inventory(&self, ark: &str, number: u32) -> Result<Option<Inventory>> {
        let Some((path, bytes)) = self.inventory_bytes(ark, number).await? else { return Ok(None) };
        let damaged = |why| Failure::fail(format!("{path} is damaged: {why}"));
        Inventory::read(ark, number, &bytes).map(Some).map_err(damaged)
    }

    /// The inventory of a version as it is, and its key; nothing if there is none.
    pub(super) async fn inventory_bytes(&self, ark: &str, number: u32) -> Result<Option<(Path, Bytes)>> {
        let path = self.version(ark, number).join(INVENTORY);
        match self.store.get(&path).await {
            Ok(found) => {
                let bytes = found.bytes().await.map_err(|error| told(&path, &error))?;
                Ok(Some((path, bytes)))
            }
            Err(error @ Error::NotFound { .. }) if !no_bucket(&error) => Ok(None),
            Err(error) => Err(told(&path, &error)),
        }
    }

    /// The newest version; one without an inventory is not made yet.
    pub(super) async fn head(&self, ark: &str) -> Result<Option<Inventory>> {
        let object = self.object(ark);
        let listed =
            self.store.list_with_delimiter(Some(&object)).await.map_err(|error| told(&object, &error))?;
        for number in version_numbers(&listed.common_prefixes).into_iter().rev() {
            if let Some(found) = self.inventory(ark, number).await? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Puts the inventory where there is none. Whether the version is the one that it says, and not another's.
    pub(super) async fn commit(&self, inventory: &Inventory, key: &str) -> Result<bool> {
        let path = self.version(&inventory.id, inventory.version).join(INVENTORY);
        let bytes = serde_json::to_vec_pretty(inventory)
            .map_err(|error| Failure::fail(format!("the inventory of {}: {error}", inventory.id)))?;
        let put = self.store.put_opts(&path, PutPayload::from(bytes), PutMode::Create.into()).await;
        let Err(error) = put else { return Ok(true) };
        // A put that was repeated on the wire finds itself; one whose answer was lost is found here too.
        let same = |found: &Inventory| {
            let contents =
                |of: &Inventory| of.files.values().map(|entry| entry.content.clone()).collect::<Vec<_>>();
            found.keys.get(&inventory.version).map(String::as_str) == Some(key)
                && contents(found) == contents(inventory)
        };
        match self.inventory(&inventory.id, inventory.version).await {
            Ok(Some(found)) => Ok(same(&found)),
            _ => Err(told(&path, &error)),
        }
    }
}

/// The numbers of the versions that are listed, in their order.
pub(super) fn version_numbers(prefixes: &[Path]) -> Vec<u32> {
    let number = |path: &Path| path.filename()?.strip_prefix('v')?.parse().ok();
    let mut numbers: Vec<u32> = prefixes.iter().filter_map(number).collect();
    numbers.sort_unstable();
    numbers
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[tokio::test]
    async fn a_version_is_committed_once_and_finds_itself() {
        let s3 = S3::new(Arc::new(object_store::memory::InMemory::new()), "");
        let inventory = |key: &str, content: &str| {
            let (sha512, content) = ("a".repeat(128), content.to_owned());
            let entry = Entry { sha512, size: 1, content, fixity: BTreeMap::new() };
            Inventory {
                id: "ark:/1/2".into(),
                version: 1,
                created: String::new(),
                message: String::new(),
                user: User { name: "x".into(), address: None },
                keys: BTreeMap::from([(1, key.to_owned())]),
                files: BTreeMap::from([("a".to_owned(), entry)]),
            }
        };
        let ours = inventory("ours", "v1/content/x/a");
        assert!(s3.commit(&ours, "ours").await.unwrap());
        // The answer was lost and the put repeated: it is the same commit.
        assert!(s3.commit(&ours, "ours").await.unwrap());
        for (key, content) in [("theirs", "v1/content/x/a"), ("ours", "v1/content/y/a")] {
            assert!(!s3.commit(&inventory(key, content), key).await.unwrap());
        }
        let kept = s3.inventory("ark:/1/2", 1).await.unwrap().unwrap();
        assert_eq!((&kept.keys[&1], &kept.files["a"].content), (&"ours".into(), &"v1/content/x/a".into()));
    }
}
