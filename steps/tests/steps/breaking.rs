//! Services around services: they count their calls, and break one of them.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use ingest_queue::ids::{Bid, Jid};
use ingest_steps::ark::Ark;
use ingest_steps::identity::Identity;
use ingest_steps::inventory::{
    Claim, Ingested, Inventory, Object, Record, Recorded, Rows, Summary, Unrecorded,
};
use ingest_steps::minter::{MintRequest, Minter, Orphan};
use ingest_steps::outcome::{Cancel, Failure, Progress, Result};
use ingest_steps::services::Services;
use ingest_steps::storage::{Audit, Content, Entry, Storage, StoreRequest, Stored, StoredManifest};
use parking_lot::Mutex;
use tokio::sync::Notify;

/// What happens to one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Harm {
    /// It is not done, and the caller is told to come later.
    FailBefore,
    /// It is done, and the caller is told to come later.
    FailAfter,
    /// It is not done, and the caller is killed.
    KillBefore,
    /// It is done, and the caller is killed.
    KillAfter,
}

impl Harm {
    pub(crate) const ALL: [Harm; 4] = [Harm::FailBefore, Harm::FailAfter, Harm::KillBefore, Harm::KillAfter];
}

/// Which call is broken, and how.
#[derive(Debug)]
pub(crate) struct Plan {
    calls: AtomicUsize,
    trap: Mutex<Option<(usize, Harm)>>,
    happened: AtomicBool,
    killed: AtomicBool,
    sprung: Notify,
    what: Mutex<String>,
}

impl Plan {
    pub(crate) fn new(number: usize, harm: Harm) -> Arc<Self> {
        Arc::new(Self {
            calls: AtomicUsize::new(0),
            trap: Mutex::new(Some((number, harm))),
            happened: AtomicBool::new(false),
            killed: AtomicBool::new(false),
            sprung: Notify::new(),
            what: Mutex::default(),
        })
    }

    /// The call that was broken.
    pub(crate) fn broken(&self) -> Option<String> {
        self.happened.load(Ordering::SeqCst).then(|| self.what.lock().clone())
    }

    /// Waits for a kill. A caller that is told to come later is not killed, however late this is asked.
    pub(crate) async fn killed(&self) {
        loop {
            let sprung = self.sprung.notified();
            if self.killed.load(Ordering::SeqCst) {
                return;
            }
            sprung.await;
        }
    }

    async fn around<T>(&self, what: &str, call: impl Future<Output = Result<T>>) -> Result<T> {
        let number = self.calls.fetch_add(1, Ordering::SeqCst);
        let trap = *self.trap.lock();
        let Some((_, harm)) = trap.filter(|(at, _)| *at == number) else { return call.await };
        if matches!(harm, Harm::FailAfter | Harm::KillAfter) {
            call.await?;
        }
        what.clone_into(&mut self.what.lock());
        self.happened.store(true, Ordering::SeqCst);
        if matches!(harm, Harm::FailBefore | Harm::FailAfter) {
            return Err(Failure::later(format!("a planned fault of {what}")));
        }
        self.killed.store(true, Ordering::SeqCst);
        self.sprung.notify_waiters();
        std::future::pending().await
    }
}

#[derive(Debug)]
struct Broken<T> {
    plan: Arc<Plan>,
    real: T,
}

/// The same services, of which one call is going to break.
pub(crate) fn broken(services: &Services, plan: &Arc<Plan>) -> Services {
    let mut services = services.clone();
    for minter in services.minters.values_mut() {
        *minter = Arc::new(Broken { plan: plan.clone(), real: minter.clone() });
    }
    for storage in services.storages.values_mut() {
        *storage = Arc::new(Broken { plan: plan.clone(), real: storage.clone() });
    }
    if let Some(inventory) = &mut services.inventory {
        *inventory = Arc::new(Broken { plan: plan.clone(), real: inventory.clone() });
    }
    services
}

impl Minter for Broken<Arc<dyn Minter>> {
    fn reserve<'a>(&'a self, request: &'a MintRequest) -> BoxFuture<'a, Result<Ark>> {
        self.plan.around("reserve", self.real.reserve(request)).boxed()
    }

    fn publish<'a>(&'a self, ark: &'a Ark, request: &'a MintRequest) -> BoxFuture<'a, Result<()>> {
        self.plan.around("publish", self.real.publish(ark, request)).boxed()
    }

    fn orphans(&self) -> BoxFuture<'_, Result<Option<Vec<Orphan>>>> {
        self.real.orphans()
    }
}

impl Storage for Broken<Arc<dyn Storage>> {
    fn store<'a>(
        &'a self,
        request: &'a StoreRequest,
        progress: &'a Progress,
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<Stored>> {
        self.plan.around("store", self.real.store(request, progress, cancel)).boxed()
    }

    fn version_of<'a>(&'a self, ark: &'a str, key: &'a str) -> BoxFuture<'a, Result<Option<Stored>>> {
        self.plan.around("version_of", self.real.version_of(ark, key)).boxed()
    }

    fn manifest<'a>(
        &'a self,
        ark: &'a str,
        version: Option<u32>,
    ) -> BoxFuture<'a, Result<Option<StoredManifest>>> {
        self.plan.around("manifest", self.real.manifest(ark, version)).boxed()
    }

    fn open<'a>(&'a self, ark: &'a str, version: u32, path: &'a str) -> BoxFuture<'a, Result<Content>> {
        self.real.open(ark, version, path)
    }

    fn audit<'a>(
        &'a self,
        ark: &'a str,
        progress: &'a Progress,
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<Audit>> {
        self.real.audit(ark, progress, cancel)
    }

    fn entries(&self) -> BoxStream<'_, Result<Entry>> {
        self.real.entries()
    }
}

impl Inventory for Broken<Arc<dyn Inventory>> {
    fn record_after<'a>(
        &'a self,
        before: &'a [Unrecorded],
        record: &'a Record,
    ) -> BoxFuture<'a, Result<Recorded>> {
        self.plan.around("record", self.real.record_after(before, record)).boxed()
    }

    fn summary<'a>(&'a self, ark: &'a Ark) -> BoxFuture<'a, Result<Option<Summary>>> {
        self.plan.around("summary", self.real.summary(ark)).boxed()
    }

    fn find<'a>(&'a self, owner: &'a str, local_id: &'a str) -> BoxFuture<'a, Result<Option<Ark>>> {
        self.plan.around("find", self.real.find(owner, local_id)).boxed()
    }

    fn object<'a>(&'a self, ark: &'a Ark) -> BoxFuture<'a, Result<Option<Object>>> {
        self.plan.around("object", self.real.object(ark)).boxed()
    }

    fn local_ids<'a>(&'a self, ark: &'a Ark) -> BoxFuture<'a, Result<Vec<String>>> {
        self.plan.around("local_ids", self.real.local_ids(ark)).boxed()
    }

    fn objects<'a>(&'a self, after: Option<&'a str>) -> BoxFuture<'a, Result<Vec<String>>> {
        self.real.objects(after)
    }

    fn unlisted<'a>(&'a self, names: &'a [String]) -> BoxFuture<'a, Result<Vec<String>>> {
        self.real.unlisted(names)
    }

    fn rows<'a>(&'a self, ark: &'a str) -> BoxFuture<'a, Result<Option<Rows>>> {
        self.real.rows(ark)
    }

    fn knows<'a>(&'a self, ark: &'a Ark) -> BoxFuture<'a, Result<bool>> {
        self.plan.around("knows", self.real.knows(ark)).boxed()
    }

    fn counters(&self) -> BoxFuture<'_, Result<BTreeMap<String, u64>>> {
        self.real.counters()
    }

    fn raise<'a>(&'a self, counters: &'a [(&'a str, u64)]) -> BoxFuture<'a, Result<()>> {
        self.real.raise(counters)
    }

    fn claim<'a>(
        &'a self,
        counter: &'a str,
        numbers: Range<u64>,
        prefix: &'a str,
    ) -> BoxFuture<'a, Result<Claim>> {
        self.real.claim(counter, numbers, prefix)
    }

    fn place(&self) -> String {
        self.real.place()
    }

    fn identity(&self) -> BoxFuture<'_, Result<Option<Identity>>> {
        self.real.identity()
    }

    fn identify<'a>(&'a self, identity: &'a Identity) -> BoxFuture<'a, Result<()>> {
        self.real.identify(identity)
    }

    fn ingested(&self, bid: Bid, jid: Jid) -> BoxFuture<'_, Result<Option<Ingested>>> {
        self.plan.around("ingested", self.real.ingested(bid, jid)).boxed()
    }

    fn ingests_of(&self, bid: Bid, jids: Range<u32>) -> BoxFuture<'_, Result<Vec<Ingested>>> {
        self.plan.around("ingests_of", self.real.ingests_of(bid, jids)).boxed()
    }

    fn replace_job(&self, lost: Jid, replacement: Jid) -> BoxFuture<'_, Result<bool>> {
        self.plan.around("replace_job", self.real.replace_job(lost, replacement)).boxed()
    }
}
