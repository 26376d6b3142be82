//! Reads everything that all versions of an object hold.
//!
//! **When things break.** An inventory that is damaged or missing is a problem of its version, and the others are
//! audited. A bucket that cannot be read is a failure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::TryStreamExt as _;
use object_store::path::Path;
use object_store::{Error, ObjectStore as _, ObjectStoreExt as _};

use super::S3;
use super::inventory::{Entry, INVENTORY, Inventory, version_numbers};
use super::told::{no_bucket, told};
use crate::digest::{Algorithm, Digest, Digests};
use crate::outcome::{Cancel, Progress, Result};
use crate::storage::{Audit, Measured, StoredVersion, stop_if};

impl S3 {
    pub(super) async fn check(&self, ark: &str, progress: &Progress, cancel: &Cancel) -> Result<Audit> {
        let object = self.object(ark);
        let listed =
            self.store.list_with_delimiter(Some(&object)).await.map_err(|error| told(&object, &error))?;
        if listed.common_prefixes.is_empty() && listed.objects.is_empty() {
            return Ok(Audit::absent(ark));
        }
        let mut audit = Audit { present: true, place: object.to_string(), ..Audit::default() };
        // Every version that has an inventory, and that if it can be believed.
        let mut found: BTreeMap<u32, Option<Inventory>> = BTreeMap::new();
        for number in version_numbers(&listed.common_prefixes) {
            stop_if(cancel)?;
            let Some((path, bytes)) = self.inventory_bytes(ark, number).await? else { continue };
            let read = Inventory::read(ark, number, &bytes);
            let read = read.map_err(|why| audit.problems.push(format!("{path} is damaged: {why}")));
            found.insert(number, read.ok());
        }
        let Some((&head, _)) = found.last_key_value() else {
            audit.problems.push(format!(
                "nothing in {object} has an {INVENTORY}: all are lost, or a store is under way or was killed"
            ));
            return Ok(audit);
        };
        audit.versions = head;
        let newest = found.values().flatten().last().map(|newest| newest.keys.clone()).unwrap_or_default();
        let mut contents: BTreeMap<Path, Arc<Measured>> = BTreeMap::new();
        for number in 1..=head {
            let inventory = match found.get(&number) {
                Some(Some(inventory)) => inventory,
                Some(None) => {
                    audit.state.insert(number, StoredVersion::Unreadable);
                    continue;
                }
                None => {
                    audit.problems.push(format!("v{number} has no {INVENTORY}"));
                    continue;
                }
            };
            if inventory.keys.iter().any(|(version, key)| newest.get(version) != Some(key)) {
                audit
                    .problems
                    .push(format!("v{number}/{INVENTORY} tells the versions otherwise than the newest"));
            }
            let mut files = BTreeMap::new();
            for (name, entry) in &inventory.files {
                let path = self.content(ark, entry)?;
                let measured = match contents.get(&path) {
                    Some(known) => Arc::clone(known),
                    None => Arc::new(self.measure(&path, name, entry, &mut audit, progress, cancel).await?),
                };
                contents.insert(path, Arc::clone(&measured));
                files.insert(name.clone(), measured);
            }
            audit.state.insert(number, StoredVersion::Files(files));
        }
        // Where a version says nothing readable of its files, nobody knows which of them belong there.
        let all_readable = (1..=head).all(|number| found.get(&number).is_some_and(Option::is_some));
        // The version after the newest may just be in the making.
        let next = self.version(ark, head.saturating_add(1));
        let inventories: BTreeSet<Path> =
            found.keys().map(|number| self.version(ark, *number).join(INVENTORY)).collect();
        let mut listed = self.store.list(Some(&object));
        while let Some(meta) = listed.try_next().await.map_err(|error| told(&object, &error))? {
            let path = meta.location;
            let known = inventories.contains(&path) || contents.contains_key(&path);
            if all_readable && !known && !path.prefix_matches(&next) {
                audit.problems.push(format!("`{path}` is in no inventory"));
            }
        }
        Ok(audit)
    }

    async fn measure(
        &self,
        path: &Path,
        name: &str,
        entry: &Entry,
        audit: &mut Audit,
        progress: &Progress,
        cancel: &Cancel,
    ) -> Result<Measured> {
        let others = entry.fixity.iter().filter_map(|(algorithm, hex)| {
            let algorithm = algorithm.parse().ok()?;
            Digest::new(algorithm, hex).ok()
        });
        let mut expected: Vec<Digest> = others.collect();
        expected.extend(Digest::new(Algorithm::Sha512, &entry.sha512));
        let mut digests = Digests::of(expected.iter().map(Digest::algorithm));
        audit.files += 1;
        let mut pieces = match self.store.get(path).await {
            Ok(found) => found.into_stream(),
            Err(error @ Error::NotFound { .. }) if !no_bucket(&error) => {
                audit.problems.push(format!("`{name}` cannot be read: {error}"));
                return Ok(Measured::Missing);
            }
            Err(error) => return Err(told(path, &error)),
        };
        while let Some(piece) = pieces.try_next().await.map_err(|error| told(path, &error))? {
            stop_if(cancel)?;
            digests.update(&piece);
            progress.add_bytes(piece.len() as u64);
        }
        let size = digests.bytes();
        audit.bytes += size;
        if size != entry.size {
            audit.problems.push(format!("`{path}` has {size} bytes, not {}", entry.size));
        }
        let found = digests.finish();
        let wrong = expected.iter().filter(|expected| !found.contains(expected));
        audit.problems.extend(wrong.map(|wrong| format!("`{path}` has not the digest {wrong}")));
        progress.add_file();
        stop_if(cancel)?;
        Ok(Measured::Read { size, digests: found })
    }
}
