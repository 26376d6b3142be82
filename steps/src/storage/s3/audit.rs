//! Reads everything that all versions of an object hold.

use std::collections::BTreeSet;

use futures::TryStreamExt as _;
use object_store::path::Path;
use object_store::{Error, ObjectStore as _, ObjectStoreExt as _};

use super::S3;
use super::inventory::{Entry, INVENTORY};
use super::told::told;
use crate::digest::{Algorithm, Digest, Digests};
use crate::outcome::{Cancel, Failure, Progress, Result};
use crate::storage::{Audit, stop_if};

impl S3 {
    pub(super) async fn check(&self, ark: &str, progress: &Progress, cancel: &Cancel) -> Result<Audit> {
        let none = || Failure::fail(format!("there is no object {ark} to audit"));
        let head = self.head(ark).await?.ok_or_else(none)?;
        let mut audit = Audit { versions: head.version, ..Audit::default() };
        let mut known = BTreeSet::new();
        for number in 1..=head.version {
            known.insert(self.version(ark, number).join(INVENTORY));
            let found = match self.inventory(ark, number).await {
                Ok(Some(found)) => found,
                Ok(None) => {
                    audit.problems.push(format!("v{number} has no {INVENTORY}"));
                    continue;
                }
                Err(Failure::Fail(why)) => {
                    audit.problems.push(why);
                    continue;
                }
                Err(other) => return Err(other),
            };
            let agrees = found.keys.iter().all(|(version, key)| head.keys.get(version) == Some(key));
            if !agrees {
                audit
                    .problems
                    .push(format!("v{number}/{INVENTORY} tells the versions otherwise than the newest"));
            }
            for (name, entry) in &found.files {
                let path = self.content(ark, entry)?;
                if known.insert(path.clone()) {
                    self.check_content(&path, name, entry, &mut audit, progress, cancel).await?;
                }
            }
        }
        // The version after the newest may just be in the making.
        let next = self.version(ark, head.version + 1);
        let object = self.object(ark);
        let mut listed = self.store.list(Some(&object));
        while let Some(meta) = listed.try_next().await.map_err(|error| told(&object, &error))? {
            if !known.contains(&meta.location) && !meta.location.prefix_matches(&next) {
                audit.problems.push(format!("`{}` is in no inventory", meta.location));
            }
        }
        Ok(audit)
    }

    async fn check_content(
        &self,
        path: &Path,
        name: &str,
        entry: &Entry,
        audit: &mut Audit,
        progress: &Progress,
        cancel: &Cancel,
    ) -> Result<()> {
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
            Err(error @ Error::NotFound { .. }) => {
                audit.problems.push(format!("`{name}` cannot be read: {error}"));
                return Ok(());
            }
            Err(error) => return Err(told(path, &error)),
        };
        while let Some(piece) = pieces.try_next().await.map_err(|error| told(path, &error))? {
            stop_if(cancel)?;
            digests.update(&piece);
            progress.add_bytes(piece.len() as u64);
        }
        audit.bytes += digests.bytes();
        if digests.bytes() != entry.size {
            audit.problems.push(format!("`{path}` has {} bytes, not {}", digests.bytes(), entry.size));
        }
        let found = digests.finish();
        let wrong = expected.iter().filter(|expected| !found.contains(expected));
        audit.problems.extend(wrong.map(|wrong| format!("`{path}` has not the digest {wrong}")));
        progress.add_file();
        stop_if(cancel)
    }
}
