//! Reads everything that all versions of an object hold, through the service.

use std::collections::BTreeSet;

use futures::TryStreamExt as _;

use super::Http;
use crate::outcome::{Cancel, Failure, Progress, Result};
use crate::storage::{Audit, Kept, Storage as _, stop_if};

impl Http {
    pub(super) async fn check(&self, ark: &str, progress: &Progress, cancel: &Cancel) -> Result<Audit> {
        let none = || Failure::fail(format!("there is no object {ark} to audit"));
        let head = self.manifest(ark, None).await?.ok_or_else(none)?.head;
        let mut audit = Audit { versions: head, ..Audit::default() };
        let mut seen = BTreeSet::new();
        for version in 1..=head {
            let Some(manifest) = self.manifest(ark, Some(version)).await? else {
                audit.problems.push(format!("v{version} has no manifest"));
                continue;
            };
            for (path, kept) in manifest.files {
                // What two versions share under one name is read once.
                if !seen.insert((path.clone(), kept.digest.to_string())) {
                    continue;
                }
                audit.files += 1;
                let read = self.read(ark, version, &path, &kept, progress, cancel).await;
                match read {
                    Ok(bytes) if bytes != kept.size => {
                        audit
                            .problems
                            .push(format!("v{version} `{path}` has {bytes} bytes, not {}", kept.size));
                    }
                    Ok(bytes) => audit.bytes += bytes,
                    Err(Failure::Fail(why)) => audit.problems.push(format!("v{version} `{path}`: {why}")),
                    Err(other) => return Err(other),
                }
                progress.add_file();
            }
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
