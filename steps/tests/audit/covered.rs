//! What must not turn an audit green: a lost object that is deposited again. And what must not turn it red: a version
//! that is stored and recorded while the audit reads.

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use ingest_steps::audit::Scope;
use ingest_steps::audit::verdict::Verdict::{Altered, RolledBack, Sound, Unrecorded, Unstored};
use ingest_steps::inventory::Inventory;
use ingest_steps::outcome::{Cancel, Progress, Result};
use ingest_steps::storage::{Audit, Content, Entry, Storage, StoreRequest, Stored, StoredManifest};

use crate::fixture::{FIRST, Fixture, SECOND, audit, auditor, record};
use crate::objects::{ARK, request, store};
use crate::place::Place;

#[tokio::test]
async fn a_lost_object_that_is_deposited_again_stays_red() {
    let fixture = Fixture::ocfl(Place::sqlite()).await;
    fixture.deposit(ARK, 1, &FIRST).await;
    fixture.deposit(crate::fixture::OTHER, 1, &FIRST[..1]).await;
    std::fs::remove_dir_all(fixture.object(ARK)).unwrap();
    assert_eq!(fixture.verdict().await.0, Unstored);
    // Stored by the next job, which the inventory refuses then.
    fixture.store(ARK, 1, &SECOND).await;
    let (verdict, why) = fixture.verdict().await;
    assert_eq!(verdict, ingest_steps::audit::verdict::Verdict::Lost, "{why:#?}");
    let told = |part: &str| why.iter().any(|line| line.contains(part));
    assert!(told("`b/c.txt` has not the digest") && told("`same` is recorded, and is not in"), "{why:#?}");
}

#[tokio::test]
async fn a_lost_object_with_the_same_names_deposited_again_is_altered() {
    let fixture = Fixture::ocfl(Place::sqlite()).await.filled().await;
    std::fs::remove_dir_all(fixture.object(ARK)).unwrap();
    fixture.store(ARK, 1, &[("a", "x"), ("b/c.txt", "y"), ("same", "z")]).await;
    assert_eq!(fixture.verdict().await.0, RolledBack);
    fixture.store(ARK, 2, &[("a", "v"), ("b/c.txt", "w")]).await;
    assert_eq!(fixture.verdict().await.0, Altered);
}

#[tokio::test]
async fn a_version_between_storing_and_recording_is_unrecorded() {
    let fixture = Fixture::ocfl(Place::sqlite()).await.filled().await;
    fixture.store(ARK, 3, &FIRST).await;
    let (verdict, why) = fixture.verdict().await;
    assert_eq!(
        (verdict, why),
        (Unrecorded, vec!["version 3 is stored, and the inventory does not know it".to_owned()])
    );
    fixture.record(ARK, 3).await;
    assert_eq!(fixture.verdict().await.0, Sound);
}

#[tokio::test]
async fn an_outside_inventory_is_not_missed() {
    let fixture = Fixture::ocfl(Place::sqlite()).await.filled().await;
    let found = audit(&auditor(&fixture.storage, None), Scope::All).await.unwrap();
    assert_eq!(found.iter().map(|found| found.verdict).collect::<Vec<_>>(), [Sound, Sound]);
}

/// A storage in which a version is made, before or after an audit, and recorded at once.
#[derive(Debug)]
struct Busy {
    inner: Arc<dyn Storage>,
    inventory: Arc<dyn Inventory>,
    request: StoreRequest,
    before: bool,
}

impl Busy {
    async fn work(&self) {
        let version = store(&*self.inner, &self.request).await.unwrap().version;
        record(&*self.inner, &*self.inventory, ARK, version).await;
    }
}

impl Storage for Busy {
    fn store<'a>(
        &'a self,
        request: &'a StoreRequest,
        progress: &'a Progress,
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<Stored>> {
        self.inner.store(request, progress, cancel)
    }

    fn version_of<'a>(&'a self, ark: &'a str, key: &'a str) -> BoxFuture<'a, Result<Option<Stored>>> {
        self.inner.version_of(ark, key)
    }

    fn manifest<'a>(
        &'a self,
        ark: &'a str,
        version: Option<u32>,
    ) -> BoxFuture<'a, Result<Option<StoredManifest>>> {
        self.inner.manifest(ark, version)
    }

    fn open<'a>(&'a self, ark: &'a str, version: u32, path: &'a str) -> BoxFuture<'a, Result<Content>> {
        self.inner.open(ark, version, path)
    }

    fn audit<'a>(
        &'a self,
        ark: &'a str,
        progress: &'a Progress,
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<Audit>> {
        async move {
            if self.before {
                self.work().await;
            }
            let audit = self.inner.audit(ark, progress, cancel).await;
            if !self.before {
                self.work().await;
            }
            audit
        }
        .boxed()
    }

    fn entries(&self) -> BoxStream<'_, Result<Entry>> {
        self.inner.entries()
    }
}

#[tokio::test]
async fn a_version_that_is_made_and_recorded_while_its_object_is_read_is_sound() {
    for before in [true, false] {
        for versions in [0, 1] {
            let fixture = Fixture::ocfl(Place::sqlite()).await;
            if versions == 1 {
                fixture.deposit(ARK, 1, &FIRST).await;
            }
            let busy: Arc<dyn Storage> = Arc::new(Busy {
                inner: fixture.storage.clone(),
                inventory: fixture.inventory.clone(),
                request: request(fixture.dir.path(), "next", &SECOND),
                before,
            });
            let named = Scope::Objects(vec![ARK.to_owned()]);
            let found = audit(&auditor(&busy, Some(&fixture.inventory)), named).await.unwrap();
            let [found] = found.as_slice() else { panic!("{found:#?}") };
            // Nobody had it when it was looked for.
            let nothing = !before && versions == 0;
            let expected = if nothing { ingest_steps::audit::verdict::Verdict::Unknown } else { Sound };
            assert_eq!(found.verdict, expected, "{before} {versions}: {found:#?}");
        }
    }
}
