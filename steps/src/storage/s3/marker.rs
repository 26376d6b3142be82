//! Which repository a bucket belongs to, in an object beside those of the storage.

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use object_store::path::Path;
use object_store::{Error, ObjectStore, ObjectStoreExt as _, PutMode, PutPayload};

use super::S3;
use super::told::told;
use crate::identity::{Identity, Marker};
use crate::outcome::Result;

/// The object that holds the id of the repository.
#[derive(Debug)]
pub(crate) struct S3Marker {
    what: String,
    store: Arc<dyn ObjectStore>,
    path: Path,
}

impl S3Marker {
    /// Below `extensions`, as in an OCFL storage root: nothing there is an object.
    pub(crate) fn new(what: String, storage: &S3, name: &str) -> Self {
        let path = storage.prefix.clone().join("extensions").join(name).join("config.json");
        Self { what, store: storage.store.clone(), path }
    }
}

impl Marker for S3Marker {
    fn place(&self) -> String {
        format!("{} ({} in the bucket)", self.what, self.path)
    }

    fn read(&self) -> BoxFuture<'_, Result<Option<Identity>>> {
        async move {
            let found = match self.store.get(&self.path).await {
                Ok(found) => found.bytes().await,
                Err(Error::NotFound { .. }) => return Ok(None),
                Err(error) => Err(error),
            };
            let data = found.map_err(|error| told(&self.path, &error))?;
            Identity::read(&data, &self.place()).map(Some)
        }
        .boxed()
    }

    fn write<'a>(&'a self, identity: &'a Identity) -> BoxFuture<'a, Result<()>> {
        async move {
            let payload = PutPayload::from(identity.write());
            match self.store.put_opts(&self.path, payload, PutMode::Create.into()).await {
                Ok(_) | Err(Error::AlreadyExists { .. }) => Ok(()),
                Err(error) => Err(told(&self.path, &error)),
            }
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use futures::StreamExt as _;
    use ingest_queue::date::Date;

    use super::*;
    use crate::storage::Storage as _;

    #[tokio::test]
    async fn the_id_of_a_bucket_is_written_once_and_is_no_object() {
        for prefix in ["", "objects", "deep/er"] {
            let s3 = S3::new(Arc::new(object_store::memory::InMemory::new()), prefix);
            let marker = S3Marker::new("the storage".into(), &s3, "ingestd-repository");
            assert_eq!(marker.read().await.unwrap(), None);
            let first = Identity::begin(Date::from_millis(1_763_000_000_000));
            marker.write(&first).await.unwrap();
            marker.write(&Identity::begin(Date::from_millis(0))).await.unwrap();
            assert_eq!(marker.read().await.unwrap(), Some(first), "{prefix}");
            assert_eq!(s3.entries().collect::<Vec<_>>().await, [], "{prefix}");
        }
    }
}
