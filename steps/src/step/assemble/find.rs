//! What whoever has a token is told.

use std::path::PathBuf;

use ingest_queue::date::Date;
use ingest_queue::error::Error;
use ingest_queue::ids::Aid;
use ingest_queue::map::{self, AccessSize};
use ingest_queue::queue::Queue;
use ingest_queue::states::AccessState;

use super::{Wanted, file_of};
use crate::outcome::Result;
use crate::services::Services;

/// How far it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// It waits, or is being put together.
    Pending {
        anticipated: Option<Date>,
    },
    Ready {
        path: PathBuf,
        size: u64,
        /// For people.
        name: String,
    },
    /// It was there, and its time is over. Once [`super::expire`] has been there it is `Unknown`.
    Expired,
    /// Nobody was given such a token.
    Unknown,
    Failed {
        why: String,
    },
    /// It is whole, and on the disk of another node, which serves it here.
    Elsewhere {
        url: String,
    },
}

/// Finds what a token stands for. A token that is wrong in any way is as unknown as any other.
pub async fn find(queue: &Queue, services: &Services, token: &str) -> Result<Found> {
    let Some((size, aid, secret)) = parts(token) else { return Ok(Found::Unknown) };
    let (kept, item) = match futures::try_join!(queue.access_token(size, aid), queue.access_item(size, aid)) {
        Err(Error::NotFound(_)) => return Ok(Found::Unknown),
        found => found?,
    };
    // By their hashes: how long it takes says nothing about how much of it was right.
    if kept.token.is_empty() || map::hash(&[secret]) != map::hash(&[&kept.token]) {
        return Ok(Found::Unknown);
    }
    let anticipated = kept.anticipated_availability_time.as_ref().and_then(|time| time.parse().ok());
    match item.status.status {
        AccessState::Pending | AccessState::Processing => Ok(Found::Pending { anticipated }),
        AccessState::Failed => Ok(Found::Failed { why: item.status.message }),
        AccessState::Deleted => Ok(Found::Unknown),
        AccessState::Completed if is_over(&item.status, queue.now(), services) => Ok(Found::Expired),
        AccessState::Completed => {
            let Some(file) = file_of(&kept, size, aid) else {
                return Ok(Found::Failed { why: "its token names no file".into() });
            };
            let path = services.settings.access.dir.join(file);
            match tokio::fs::metadata(&path).await {
                Ok(file) => {
                    let name = Wanted::read(&kept).map_or_else(|_| aid.to_string(), |wanted| wanted.name());
                    Ok(Found::Ready { path, size: file.len(), name: format!("{name}.zip") })
                }
                Err(error) => match kept.url.filter(|url| url.starts_with("http")) {
                    Some(url) if !is_ours(services, &url) => Ok(Found::Elsewhere { url }),
                    _ => Ok(Found::Failed { why: format!("its file is not on this node: {error}") }),
                },
            }
        }
    }
}

/// Whether this node itself should have it.
fn is_ours(services: &Services, url: &str) -> bool {
    let own = services.settings.urls.as_ref().map(|urls| urls.public().origin());
    let theirs = url::Url::parse(url).map(|url| url.origin());
    theirs.is_ok_and(|theirs| own == Some(theirs))
}

/// Whether it was there long enough.
pub(super) fn is_over(status: &ingest_queue::nodes::AccessStatus, now: Date, services: &Services) -> bool {
    status.last_modified.is_some_and(|done| done.after(services.settings.access.keep) <= now)
}

/// `SIZE-AID-SECRET`.
fn parts(token: &str) -> Option<(AccessSize, Aid, &str)> {
    let (size, rest) = token.split_once('-')?;
    let (aid, secret) = rest.split_once('-')?;
    let size = AccessSize::ALL.into_iter().find(|known| known.name() == size)?;
    Some((size, aid.parse().ok()?, secret))
}
