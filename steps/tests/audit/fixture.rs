//! An object of two versions, stored and recorded, and another one that nobody touches.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use futures::TryStreamExt as _;
use ingest_queue::date::Date;
use ingest_queue::ids::{Bid, Jid};
use ingest_steps::audit::verdict::Verdict;
use ingest_steps::audit::{Audited, Auditor, Scope, Watch};
use ingest_steps::inventory::{File, Ingest, Inventory, Record};
use ingest_steps::outcome::{Cancel, Failure};
use ingest_steps::storage::Storage;
use ingest_steps::storage::ocfl::Ocfl;
use ingest_steps::storage::s3::S3;
use object_store::memory::InMemory;
use object_store::path::Path as Key;
use object_store::{ObjectStore, ObjectStoreExt as _};
use tempfile::TempDir;
use tokio::sync::mpsc;

use crate::objects::{ARK, request, store};
use crate::place::Place;

pub(crate) const OTHER: &str = "ark:/99999/other";
/// `same` has the content of `a`, which is kept once.
pub(crate) const FIRST: [(&str, &str); 3] =
    [("a", "the first"), ("b/c.txt", "the second"), ("same", "the first")];
pub(crate) const SECOND: [(&str, &str); 2] = [("a", "the first"), ("b/c.txt", "changed")];

pub(crate) enum Back {
    Ocfl { root: PathBuf },
    S3 { bucket: Arc<dyn ObjectStore> },
}

pub(crate) struct Fixture {
    pub(crate) dir: TempDir,
    pub(crate) back: Back,
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) inventory: Arc<dyn Inventory>,
    pub(crate) database: Place,
}

impl Fixture {
    pub(crate) async fn ocfl(database: Place) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("ocfl");
        let storage = Arc::new(Ocfl::open(&root, None).unwrap());
        Self::on(dir, Back::Ocfl { root }, storage, database).await
    }

    pub(crate) async fn s3(database: Place) -> Self {
        let bucket = Arc::new(InMemory::new());
        let storage = Arc::new(S3::new(bucket.clone(), "some/prefix"));
        Self::on(tempfile::tempdir().unwrap(), Back::S3 { bucket }, storage, database).await
    }

    async fn on(dir: TempDir, back: Back, storage: Arc<dyn Storage>, database: Place) -> Self {
        let inventory: Arc<dyn Inventory> = database.open().await.into();
        Self { dir, back, storage, inventory, database }
    }

    /// The two objects, stored and recorded.
    pub(crate) async fn filled(self) -> Self {
        self.deposit(ARK, 1, &FIRST).await;
        self.deposit(ARK, 2, &SECOND).await;
        self.deposit(OTHER, 1, &FIRST[..1]).await;
        self
    }

    pub(crate) async fn deposit(&self, ark: &str, version: u32, files: &[(&str, &str)]) {
        self.store(ark, version, files).await;
        self.record(ark, version).await;
    }

    pub(crate) async fn store(&self, ark: &str, version: u32, files: &[(&str, &str)]) {
        let mut request = request(self.dir.path(), &format!("k{version}"), files);
        request.ark = ark.into();
        assert_eq!(store(&*self.storage, &request).await.unwrap().version, version);
    }

    /// Records what is stored, as the step does.
    pub(crate) async fn record(&self, ark: &str, version: u32) {
        record(&*self.storage, &*self.inventory, ark, version).await;
    }

    pub(crate) fn auditor(&self) -> Auditor {
        auditor(&self.storage, Some(&self.inventory))
    }

    /// The verdicts on both objects, which are the same whether they are named or found.
    pub(crate) async fn audited(&self) -> Vec<Audited> {
        let named = vec![ARK.to_owned(), OTHER.to_owned()];
        let mut named = audit(&self.auditor(), Scope::Objects(named)).await.unwrap();
        let mut found = audit(&self.auditor(), Scope::All).await.unwrap();
        for list in [&mut named, &mut found] {
            list.sort_by(|a, b| a.ark.cmp(&b.ark));
        }
        assert_eq!(named, found);
        named
    }

    /// The verdict on the one object, while the other is sound.
    pub(crate) async fn verdict(&self) -> (Verdict, Vec<String>) {
        let found = self.audited().await;
        let [one, other] = found.as_slice() else { panic!("{found:#?}") };
        assert_eq!((one.ark.as_str(), other.ark.as_str(), other.verdict), (ARK, OTHER, Verdict::Sound));
        assert_eq!(one.verdict == Verdict::Sound, one.findings.is_empty(), "{one:#?}");
        let worst = one.findings.iter().map(|finding| finding.verdict).max();
        assert_eq!(worst.unwrap_or(Verdict::Sound), one.verdict, "{one:#?}");
        (one.verdict, one.findings.iter().map(|finding| finding.what.clone()).collect())
    }

    /// The directory of an object.
    pub(crate) fn object(&self, ark: &str) -> PathBuf {
        let Back::Ocfl { root } = &self.back else { panic!("it has no directories") };
        let name = crate::objects::digests(ark, &[ingest_steps::digest::Algorithm::Sha256]).remove(0);
        let name = name.hex();
        root.join(&name[..3]).join(&name[3..6]).join(&name[6..9]).join(name)
    }

    /// All files of the one object with their content, by their names in it.
    pub(crate) async fn files(&self) -> BTreeMap<String, Vec<u8>> {
        match &self.back {
            Back::Ocfl { .. } => {
                let top = self.object(ARK);
                let (mut files, mut dirs) = (BTreeMap::new(), vec![top.clone()]);
                while let Some(dir) = dirs.pop() {
                    for entry in std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()) {
                        if entry.is_dir() {
                            dirs.push(entry);
                        } else {
                            let name = entry.strip_prefix(&top).unwrap().to_str().unwrap().to_owned();
                            files.insert(name, std::fs::read(entry).unwrap());
                        }
                    }
                }
                files
            }
            Back::S3 { bucket } => {
                let prefix = Key::parse(KEYS).unwrap();
                let keys: Vec<_> =
                    bucket.list(Some(&prefix)).map_ok(|meta| meta.location).try_collect().await.unwrap();
                let mut files = BTreeMap::new();
                for key in keys {
                    let content = bucket.get(&key).await.unwrap().bytes().await.unwrap();
                    let name = key.as_ref().strip_prefix(KEYS).unwrap().trim_start_matches('/').to_owned();
                    files.insert(name, content.to_vec());
                }
                files
            }
        }
    }

    pub(crate) async fn write(&self, name: &str, content: &[u8]) {
        match &self.back {
            Back::Ocfl { .. } => {
                let path = self.object(ARK).join(name);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, content).unwrap();
            }
            Back::S3 { bucket } => {
                let key = Key::parse(format!("{KEYS}/{name}")).unwrap();
                bucket.put(&key, content.to_vec().into()).await.unwrap();
            }
        }
    }

    pub(crate) async fn remove(&self, name: &str) {
        match &self.back {
            Back::Ocfl { .. } => std::fs::remove_file(self.object(ARK).join(name)).unwrap(),
            Back::S3 { bucket } => {
                bucket.delete(&Key::parse(format!("{KEYS}/{name}")).unwrap()).await.unwrap();
            }
        }
    }

    /// The one object as it was.
    pub(crate) async fn restore(&self, files: &BTreeMap<String, Vec<u8>>) {
        if let Back::Ocfl { .. } = &self.back {
            let _ = std::fs::remove_dir_all(self.object(ARK));
        } else {
            for name in self.files().await.into_keys() {
                self.remove(&name).await;
            }
        }
        for (name, content) in files {
            self.write(name, content).await;
        }
    }
}

const KEYS: &str = "some/prefix/ark:%2F99999%2Ffk4abc";

pub(crate) fn auditor(storage: &Arc<dyn Storage>, inventory: Option<&Arc<dyn Inventory>>) -> Auditor {
    Auditor {
        storages: BTreeMap::from([("default".to_owned(), storage.clone())]),
        inventory: inventory.cloned(),
    }
}

pub(crate) async fn record(storage: &dyn Storage, inventory: &dyn Inventory, ark: &str, version: u32) {
    let stored = storage.manifest(ark, Some(version)).await.unwrap().unwrap();
    let files = stored.files.into_iter().map(|(path, kept)| File {
        path,
        size: kept.size,
        digests: vec![kept.digest],
        mime: None,
    });
    let key = format!("{ark}/{version}");
    let record = Record {
        ark: ark.parse().unwrap(),
        owner: "owner".into(),
        collection: "collection".into(),
        version,
        local_ids: vec![format!("local {ark}")],
        title: None,
        creator: None,
        date: None,
        files: files.collect(),
        ingest: Ingest {
            bid: Bid::new(1),
            jid: Jid::new(version),
            submitter: "depositor".into(),
            profile: "profile".into(),
            at: Date::from_millis(1_763_257_425_123),
        },
        key,
    };
    assert!(!inventory.record(&record).await.unwrap().already);
}

/// Everything that an audit sends.
pub(crate) async fn audit(auditor: &Auditor, scope: Scope) -> Result<Vec<Audited>, Failure> {
    let (sink, mut found) = mpsc::channel(1);
    let (watch, cancel) = (Watch::default(), Cancel::new());
    let receive = async {
        let mut all = Vec::new();
        while let Some(one) = found.recv().await {
            all.push(one);
        }
        all
    };
    let (ended, all) = tokio::join!(auditor.run(scope, &watch, &cancel, sink), receive);
    ended.map(|()| all)
}
