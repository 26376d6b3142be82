//! Reads everything that all versions of an object hold, through the service.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::TryStreamExt as _;

use super::Http;
use crate::outcome::{Cancel, Failure, Progress, Result};
use crate::storage::{Audit, Kept, Measured, Storage as _, StoredVersion, stop_if};

impl Http {
    pub(super) async fn check(&self, ark: &str, progress: &Progress, cancel: &Cancel) -> Result<Audit> {
        let Some(newest) = self.manifest(ark, None).await? else { return Ok(Audit::absent(ark)) };
        let head = newest.head;
        let place = format!("{}/manifest/{ark}", self.settings.base.as_str().trim_end_matches('/'));
        let mut audit = Audit { present: true, place, versions: head, ..Audit::default() };
        // What two versions share under one name is read once.
        let mut seen: BTreeMap<(String, String), Arc<Measured>> = BTreeMap::new();
        for version in 1..=head {
            let manifest = match self.manifest(ark, Some(version)).await {
                Ok(Some(manifest)) => manifest,
                Ok(None) => {
                    audit.problems.push(format!("v{version} has no manifest"));
                    continue;
                }
                Err(Failure::Fail(why)) => {
                    audit.problems.push(format!("v{version}: {why}"));
                    audit.state.insert(version, StoredVersion::Unreadable);
                    continue;
                }
                Err(other) => return Err(other),
            };
            let mut files = BTreeMap::new();
            for (path, kept) in manifest.files {
                let name = (path.clone(), kept.digest.to_string());
                if let Some(known) = seen.get(&name) {
                    files.insert(path, Arc::clone(known));
                    continue;
                }
                audit.files += 1;
                let read = self.read(ark, version, &path, &kept, progress, cancel).await;
                let measured = match read {
                    Ok(size) => {
                        if size == kept.size {
                            audit.bytes += size;
                        } else {
                            audit
                                .problems
                                .push(format!("v{version} `{path}` has {size} bytes, not {}", kept.size));
                        }
                        // The stream has ended well, so this is the digest of what was read.
                        Measured::Read { size, digests: vec![kept.digest] }
                    }
                    Err(Failure::Fail(why)) => {
                        audit.problems.push(format!("v{version} `{path}`: {why}"));
                        Measured::Damaged
                    }
                    Err(other) => return Err(other),
                };
                let measured = Arc::new(measured);
                seen.insert(name, Arc::clone(&measured));
                files.insert(path, measured);
                progress.add_file();
            }
            audit.state.insert(version, StoredVersion::Files(files));
        }
        Ok(audit)
    }

    async fn read(
        &self,
        ark: &str,
        version: u32,
        path: &str,
        kept: &Kept,
        progress: &Progress,
        cancel: &Cancel,
    ) -> Result<u64> {
        let mut bytes = 0;
        let mut pieces = self.content(ark, version, path, kept.digest.clone()).await?;
        while let Some(piece) = pieces.try_next().await? {
            stop_if(cancel)?;
            bytes += piece.len() as u64;
            progress.add_bytes(piece.len() as u64);
        }
        stop_if(cancel)?;
        Ok(bytes)
    }
}
