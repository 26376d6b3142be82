//! A store: the state is asked for, the manifest is handed over, and what was kept is compared.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use percent_encoding::utf8_percent_encode;
use reqwest::Method;
use serde::Deserialize;
use serde_json::json;
use url::Url;

use super::{ELEMENT, Http};
use crate::digest::Digest;
use crate::outcome::{Cancel, Failure, Progress, Result};
use crate::storage::{Kept, Storage as _, StoreRequest, Stored, stop_if};

#[derive(Debug, Deserialize)]
pub(super) struct Receipt {
    pub(super) version: u32,
    files: u64,
    bytes: u64,
}

impl Http {
    /// One hand-over: asks whether it was done, and if not does it. Whether it was.
    async fn hand_over(&self, request: &StoreRequest, manifest: &Url) -> Result<(Receipt, bool)> {
        let state = self.address(&["state", &request.ark], &[("key", &request.key)]).await?;
        if let Some(receipt) = self.answer(self.request(Method::GET, state)).await? {
            return Ok((receipt, true));
        }
        let verb = if request.mode.needs_object() { "update" } else { "add" };
        let url = self.address(&[verb, &self.settings.node, &request.ark], &[]).await?;
        let mut body = json!({ "manifest": manifest, "message": request.message, "user": request.user });
        if let Some(head) = request.head {
            // The service may have moved on since the files were chosen; it can refuse for itself, too.
            let newest = self.manifest(&request.ark, None).await?.map_or(0, |manifest| manifest.head);
            request.check_head(newest)?;
            body["head"] = head.into();
        }
        let key = utf8_percent_encode(&request.key, ELEMENT).to_string();
        let post = self.request(Method::POST, url).header("Idempotency-Key", key).json(&body);
        let unknown = || {
            Failure::fail(format!(
                "the storage service does not know {}, or its node {}",
                request.ark, self.settings.node
            ))
        };
        Ok((self.answer(post).await?.ok_or_else(unknown)?, false))
    }

    pub(super) async fn make(
        &self,
        request: &StoreRequest,
        progress: &Progress,
        cancel: &Cancel,
    ) -> Result<Stored> {
        let url = request.manifest_url.as_ref().ok_or_else(|| {
            Failure::fail(format!("{} has no address of its manifest to hand over", request.ark))
        })?;
        let tries = AtomicU32::new(0);
        let work = || async {
            stop_if(cancel)?;
            // The first answer of the state tells of earlier attempts, later ones of our own.
            let first = tries.fetch_add(1, Ordering::Relaxed) == 0;
            let (receipt, there) = self.hand_over(request, url).await?;
            Ok((receipt, there && first))
        };
        let work = self.patiently(cancel, work);
        tokio::pin!(work);
        let mut beat = tokio::time::interval(Duration::from_secs(5));
        // The service tells nothing while it works; the request's own timeout bounds the wait.
        let (receipt, already) = loop {
            tokio::select! {
                done = &mut work => break done?,
                () = cancel.cancelled() => return Err(Failure::Cancelled),
                _ = beat.tick() => progress.beat(),
            }
        };
        let (files, bytes) = request.total();
        if !already && (receipt.files, receipt.bytes) != (files, bytes) {
            return Err(Failure::fail(format!(
                "{} v{}: the storage service took {} files of {} bytes, and {files} of {bytes} were sent",
                request.ark, receipt.version, receipt.files, receipt.bytes
            )));
        }
        let gone =
            || Failure::fail(format!("{} v{} was stored and is not there", request.ark, receipt.version));
        let kept = self.manifest(&request.ark, Some(receipt.version)).await?.ok_or_else(gone)?.files;
        if !already {
            compare(request, &kept)?;
        }
        let size = kept.values().map(|file| file.size).sum();
        Ok(Stored { version: receipt.version, already, files: kept, size })
    }
}

/// Every path, size and digest is as it was sent.
fn compare(request: &StoreRequest, kept: &BTreeMap<String, Kept>) -> Result<()> {
    let mut sent: BTreeSet<&str> = request.files.iter().map(|file| file.path.as_str()).collect();
    sent.extend(request.carried.files.keys().map(String::as_str));
    let more = kept.keys().find(|path| !sent.contains(path.as_str()));
    let mut wrong = more.map(|path| format!("`{path}` was not sent"));
    for file in &request.files {
        let Some(there) = kept.get(&file.path) else {
            wrong = Some(format!("`{}` is missing", file.path));
            break;
        };
        let same =
            |digest: &Digest| digest.algorithm() != there.digest.algorithm() || *digest == there.digest;
        if there.size != file.size || !file.digests.iter().all(same) {
            wrong = Some(format!("`{}` has {} bytes and {}", file.path, there.size, there.digest));
            break;
        }
    }
    for (path, carried) in &request.carried.files {
        let there = kept.get(path);
        if there.is_none_or(|there| (there.size, &there.digest) != (carried.size, &carried.digest)) {
            wrong = Some(format!("`{path}` is not as it was to be carried forward"));
            break;
        }
    }
    match wrong {
        None => Ok(()),
        Some(what) => Err(Failure::fail(format!(
            "{}: the storage service kept something else than was sent: {what}",
            request.ark
        ))),
    }
}
