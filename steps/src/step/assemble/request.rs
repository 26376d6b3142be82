//! Asking for an object.

use std::time::Duration;

use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use ingest_queue::date::Date;
use ingest_queue::error::Error;
use ingest_queue::ids::Aid;
use ingest_queue::map::AccessSize;
use ingest_queue::nodes::AccessToken;
use ingest_queue::queue::Queue;
use ingest_queue::states::{AccessState, States as _};
use rand::TryRngCore as _;

use super::{Form, Wanted};
use crate::ark::Ark;
use crate::outcome::{Failure, Result};
use crate::services::Services;
use crate::storage::StoredManifest;

/// Bytes of a secret.
const SECRET: usize = 32;
/// Tokens read at a time.
const AT_ONCE: usize = 16;

/// What somebody wants to have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    pub ark: String,
    /// Absent: the newest.
    pub version: Option<u32>,
    pub form: Form,
}

/// What was asked for is in the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requested {
    pub size: AccessSize,
    pub aid: Aid,
    /// For whoever asked, and for nobody else.
    pub token: String,
    pub version: u32,
    /// Of all files together.
    pub bytes: u64,
    /// When it will be there, as far as it can be told.
    pub anticipated: Date,
}

/// Finds an object and queues it to be put together. What is not there is [`Failure::Hopeless`], and says so.
pub async fn request(queue: &Queue, services: &Services, request: &Request) -> Result<Requested> {
    let ark: Ark = request.ark.parse().map_err(|error| Failure::hopeless(format!("{error}")))?;
    let version = served(services, &ark, request.version).await?;
    let ark = ark.to_string();
    let (storage, manifest) = look_up(services, &ark, version).await?;
    let bytes = manifest.files.values().fold(0_u64, |sum, file| sum.saturating_add(file.size));
    let settings = &services.settings.access;
    let size = if bytes >= settings.large_from { AccessSize::Large } else { AccessSize::Small };
    let before = bytes_before(queue, size).await?;
    let seconds = before.saturating_add(bytes).div_ceil(settings.rate.max(1));
    let anticipated = queue.now().after(Duration::from_secs(seconds));
    let secret = secret()?;
    let mut token = AccessToken {
        token: secret.clone(),
        cloud_content_byte: bytes,
        status: Some(AccessState::Pending.name().into()),
        anticipated_availability_time: Some(anticipated.to_string()),
        ..AccessToken::default()
    };
    Wanted { ark, version: manifest.version, form: request.form, storage }.write(&mut token);
    let aid = queue.create_access(size, &token).await?;
    let token = format!("{}-{aid}-{secret}", size.name());
    Ok(Requested { size, aid, token, version: manifest.version, bytes, anticipated })
}

/// The version that is meant: one that is recorded, and not superseded. Where the inventory is outside nothing is known of
/// that, and the storage decides.
async fn served(services: &Services, ark: &Ark, version: Option<u32>) -> Result<Option<u32>> {
    let Some(inventory) = &services.inventory else { return Ok(version) };
    let none = || Failure::hopeless(format!("there is no object {ark} here"));
    let summary = inventory.summary(ark).await?.ok_or_else(none)?;
    let newest = summary.current().ok_or_else(none)?;
    match version {
        None => Ok(Some(newest)),
        Some(version) if version == 0 || version > summary.head => Err(Failure::hopeless(format!(
            "{ark} has no version {version}; it has the versions 1 to {}",
            summary.head
        ))),
        Some(version) if summary.superseded.contains(&version) => Err(Failure::hopeless(format!(
            "version {version} of {ark} was never completed and is not served; the newest that is, is {newest}"
        ))),
        Some(version) => Ok(Some(version)),
    }
}

/// The storage that has the object, and the version that is meant. One that cannot be asked matters only if
/// no other has it.
async fn look_up(services: &Services, ark: &str, version: Option<u32>) -> Result<(String, StoredManifest)> {
    let (mut best, mut newest, mut away) = (None::<(String, StoredManifest)>, None, None);
    for (name, storage) in &services.storages {
        let named = |failure: Failure| failure.during(format!("storage.{name}"));
        let found = match storage.manifest(ark, version).await {
            // Is it there at all?
            Ok(None) if version.is_some() => storage.manifest(ark, None).await,
            found => found,
        };
        match found.map_err(named) {
            Err(failure) => away = Some(failure),
            Ok(None) => {}
            Ok(Some(manifest)) => {
                newest = newest.max(Some(manifest.head));
                let fits = version.is_none_or(|version| version == manifest.version);
                if fits && best.as_ref().is_none_or(|(_, best)| best.head < manifest.head) {
                    best = Some((name.clone(), manifest));
                }
            }
        }
    }
    match (best, away, newest, version) {
        (Some(found), ..) => Ok(found),
        (None, Some(failure), ..) => Err(failure),
        (None, None, Some(newest), Some(version)) => Err(Failure::hopeless(format!(
            "{ark} has no version {version}; it has the versions 1 to {newest}"
        ))),
        (None, None, ..) => Err(Failure::hopeless(format!("there is no object {ark} here"))),
    }
}

/// Bytes of all that waits or is being put together in a queue.
async fn bytes_before(queue: &Queue, size: AccessSize) -> Result<u64> {
    let items = queue.access_items(size).await?;
    let waits = |state| matches!(state, AccessState::Pending | AccessState::Processing);
    let aids: Vec<_> =
        items.into_iter().filter(|item| waits(item.status.status)).map(|item| item.aid).collect();
    let sizes = stream::iter(aids)
        .map(|aid| async move {
            match queue.access_token(size, aid).await {
                Ok(token) => Ok(token.cloud_content_byte),
                // Gone meanwhile, or nobody's.
                Err(Error::NotFound(_) | Error::Corrupt { .. }) => Ok(0),
                Err(error) => Err(error),
            }
        })
        .buffered(AT_ONCE);
    Ok(sizes.try_fold(0_u64, async |sum, bytes| Ok(sum.saturating_add(bytes))).await?)
}

/// Random bits of the system's own source.
fn secret() -> Result<String> {
    let mut bytes = [0; SECRET];
    rand::rngs::OsRng
        .try_fill_bytes(&mut bytes)
        .map_err(|error| Failure::later(format!("the system gives no random bits: {error}")))?;
    Ok(crate::digest::hex(&bytes))
}
