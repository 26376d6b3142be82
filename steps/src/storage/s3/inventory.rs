//! What a version is: its inventory, read, and committed last and once.

use std::collections::BTreeMap;

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

impl S3 {
    pub(super) async fn inventory(&self, ark: &str, number: u32) -> Result<Option<Inventory>> {
        let path = self.version(ark, number).join(INVENTORY);
        let bytes = match self.store.get(&path).await {
            Ok(found) => found.bytes().await.map_err(|error| told(&path, &error))?,
            Err(error @ Error::NotFound { .. }) if !no_bucket(&error) => return Ok(None),
            Err(error) => return Err(told(&path, &error)),
        };
        let damaged = |why: String| Failure::fail(format!("{path} is damaged: {why}"));
        let found: Inventory = serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
        if found.id != ark || found.version != number || !found.keys.keys().copied().eq(1..=number) {
            return Err(damaged(format!(
                "it is of {} v{}, and does not know all versions",
                found.id, found.version
            )));
        }
        for (path, entry) in &found.files {
            let inside = entry.content.starts_with('v') && Path::parse(&entry.content).is_ok();
            if !inside || Digest::new(Algorithm::Sha512, &entry.sha512).is_err() {
                return Err(damaged(format!("its file `{path}` has no content or no digest")));
            }
        }
        Ok(Some(found))
    }

    /// The newest version; one without an inventory is not made yet.
    pub(super) async fn head(&self, ark: &str) -> Result<Option<Inventory>> {
        let object = self.object(ark);
        let listed =
            self.store.list_with_delimiter(Some(&object)).await.map_err(|error| told(&object, &error))?;
        let number = |path: &Path| path.filename()?.strip_prefix('v')?.parse().ok();
        let mut numbers: Vec<u32> = listed.common_prefixes.iter().filter_map(number).collect();
        numbers.sort_unstable();
        for number in numbers.into_iter().rev() {
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
