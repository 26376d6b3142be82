//! An object on its way from processing to notify, with every call to the tree and to every service broken in
//! every way. The next worker goes on, and in the end the object is stored once, under one identifier; what
//! else was minted is used for nothing, and listed where the service keeps it.

use std::collections::BTreeSet;
use std::sync::Arc;

use ingest_queue::ids::Jid;
use ingest_queue::plan::job::Action;
use ingest_queue::states::JobState;
use ingest_steps::settings::{self, Settings};
use ingest_steps::step::conclude;
use ingest_store::engines::embedded::{Embedded, EmbeddedConfig};
use ingest_store::faults::{Fault, Faulty};
use ingest_store::{Limits, Session};
use tempfile::TempDir;

use crate::breaking::{Harm, Plan, broken};
use crate::ezid::Service;
use crate::kit::{Stage, WHO, settings_in};
use crate::made::{ingest, is_all, job, job_with, primary, recorded, step, work};
use crate::tree::within;

const FILES: &[(&str, &str)] = &[("a.txt", "one"), ("b", "two")];
const LOCAL_IDS: &[&str] = &["l", "m"];

/// What the job brings to its object.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Deposit {
    New,
    NewWithEzid,
    /// To an object that has [`FILES`].
    Update,
}

/// An update of [`FILES`], and what comes of it.
const UPDATE: &[(&str, &str)] = &[("b", "changed"), ("c", "three"), ("mrt-delete.txt", "a.txt")];
const UPDATED: [&str; 2] = ["producer/b", "producer/c"];

/// Two nodes with the same services; the calls of the first can be broken.
struct Ground {
    faulty: Faulty,
    tree: Embedded,
    first: Stage,
    next: Stage,
    ezid: Option<Service>,
    deposit: Deposit,
    jid: Jid,
    _dir: TempDir,
}

fn place() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

impl Ground {
    async fn new(deposit: Deposit) -> Self {
        let dir = place();
        let tree = Embedded::open(&EmbeddedConfig::new(dir.path().join("tree"))).unwrap();
        let faulty = Faulty::new(tree.clone());
        let session = Session::open(Arc::new(faulty.clone()), Limits::default()).await.unwrap();
        let clean = Session::open(Arc::new(tree.clone()), Limits::default()).await.unwrap();
        let ezid = if deposit == Deposit::NewWithEzid { Some(Service::start().await) } else { None };
        let settings = || -> Settings {
            let mut settings = settings_in(dir.path());
            if let Some(service) = &ezid {
                settings.minter.insert("default".into(), settings::Minter::Ezid(service.config()));
            }
            settings
        };
        let next = Stage::in_dir(&clean, place(), settings(), "node-2").await;
        let mut first = Stage::in_dir(&session, place(), settings(), "node-1").await;
        first.services.storages = next.services.storages.clone();
        first.services.inventory.clone_from(&next.services.inventory);
        let mut jid = job(&next, FILES, LOCAL_IDS).await;
        if deposit == Deposit::Update {
            ingest(&next, jid).await;
            jid = job_with(&next, UPDATE, LOCAL_IDS, |new| {
                new.configuration.submission_mode = "update".into();
            })
            .await;
        }
        Self { faulty, tree, first, next, ezid, deposit, jid, _dir: dir }
    }

    /// Works on the job with the first node until it is done, or something breaks.
    async fn first_goes(&self) {
        let stage = &self.first;
        loop {
            let Ok(job) = stage.queue.job(self.jid).await else { return };
            if !matches!(job.state(), JobState::Processing | JobState::Recording) {
                return;
            }
            let Ok(mut lease) = stage.queue.acquire(job.entry(), WHO).await else { return };
            let answer = step(stage, &mut lease).await;
            if conclude(&stage.queue, &mut lease, answer).await.is_err() {
                return;
            }
        }
    }

    /// The first is gone. The next goes on to the end, requeueing what failed; answers how often.
    async fn next_goes_on(&self, what: &str) -> u32 {
        let _ = self.first.queue.session().close().await;
        self.next.fsck().await;
        let mut requeued = 0;
        for _ in 0..6 {
            match self.next.status(self.jid).await.status {
                JobState::Notify => return requeued,
                JobState::Failed => {
                    requeued += 1;
                    self.next.queue.act(self.jid, &Action::Requeue(None), "", false).await.unwrap();
                }
                _ => {
                    work(&self.next, self.jid).await;
                }
            }
        }
        panic!("{what}: it does not come to its end: {:?}", self.next.status(self.jid).await);
    }

    async fn ends_well(self, what: &str) {
        let ark = primary(&self.next, self.jid).await.unwrap();
        let versions = if self.deposit == Deposit::Update { 2 } else { 1 };
        is_all(&self.next, &ark, versions, LOCAL_IDS, what).await;
        if self.deposit == Deposit::Update {
            let newest = recorded(&self.next, &ark).await.unwrap().versions.remove(1);
            let paths = newest.files.into_iter().map(|file| file.path);
            let paths: Vec<_> = paths.filter(|path| path.starts_with("producer/")).collect();
            assert_eq!(paths, UPDATED, "{what}");
        }
        if let Some(service) = &self.ezid {
            let mut names = service.state.lock().names.clone();
            let used = names.remove(&ark.to_string()).unwrap();
            assert_eq!(used["_status"], "public", "{what}");
            let orphans = self.next.services.minters["default"].orphans().await.unwrap().unwrap();
            let listed: BTreeSet<_> =
                orphans.iter().filter_map(|orphan| orphan.ark.as_ref()).map(ToString::to_string).collect();
            let doubts = orphans.iter().filter(|orphan| orphan.ark.is_none()).count();
            let unlisted = names.keys().filter(|name| !listed.contains(*name)).count();
            assert!(unlisted <= doubts, "{what}: {names:?} are reserved, and {orphans:?} is listed");
            assert!(names.values().all(|name| name["_status"] == "reserved"), "{what}: {names:?}");
            assert!(listed.iter().all(|name| names.contains_key(name)), "{what}: {listed:?} in {names:?}");
            let key = self.jid.to_string();
            assert!(orphans.iter().all(|orphan| orphan.key.starts_with(&key) && orphan.since.is_some()));
        }
        let _ = self.next.queue.session().close().await;
        within(self.tree.close()).await;
    }
}

async fn every_call_to_the_tree(deposit: Deposit) {
    let mut struck = 0;
    for fault in Fault::ALL {
        for call in 0.. {
            let what = format!("{fault:?} at call {call}");
            let ground = Ground::new(deposit).await;
            ground.faulty.break_call(call, fault);
            let kills = matches!(fault, Fault::KillBefore | Fault::KillAfter);
            within(async {
                tokio::select! {
                    () = ground.first_goes() => {}
                    () = ground.faulty.happened(), if kills => {}
                }
            })
            .await;
            let happened = ground.faulty.has_happened();
            let requeued = ground.next_goes_on(&what).await;
            // The tree alone fails no job.
            assert_eq!(requeued, 0, "{what}");
            ground.ends_well(&what).await;
            if !happened {
                break;
            }
            struck += 1;
        }
    }
    let least = if deposit == Deposit::Update { 6 * 12 } else { 6 * 20 };
    assert!(struck > least, "only {struck} calls were broken");
}

async fn every_call_to_a_service(deposit: Deposit, expected: &[&str]) {
    let mut struck = BTreeSet::new();
    for harm in Harm::ALL {
        for call in 0.. {
            let mut ground = Ground::new(deposit).await;
            let plan = Plan::new(call, harm);
            ground.first.services = broken(&ground.first.services, &plan);
            within(async {
                tokio::select! {
                    () = ground.first_goes() => {}
                    () = plan.killed() => {}
                }
            })
            .await;
            let broken = plan.broken();
            let what = format!("{harm:?} at call {call}, {broken:?}");
            let requeued = ground.next_goes_on(&what).await;
            let fails = broken.is_some() && matches!(harm, Harm::FailBefore | Harm::FailAfter);
            assert_eq!(requeued, u32::from(fails), "{what}");
            ground.ends_well(&what).await;
            match broken {
                Some(broken) => struck.insert(broken),
                None => break,
            };
        }
    }
    assert_eq!(struck, expected.iter().map(|name| (*name).to_owned()).collect());
}

const CALLS_OF_A_NEW_OBJECT: [&str; 8] =
    ["find", "knows", "manifest", "publish", "record", "reserve", "store", "summary"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fault_at_any_call_to_the_tree_leaves_one_object() {
    every_call_to_the_tree(Deposit::New).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fault_at_any_call_to_the_tree_leaves_one_object_and_lists_the_orphans() {
    every_call_to_the_tree(Deposit::NewWithEzid).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fault_at_any_call_to_a_service_leaves_one_object() {
    every_call_to_a_service(Deposit::New, &CALLS_OF_A_NEW_OBJECT).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fault_at_any_call_to_a_service_leaves_one_object_and_lists_the_orphans() {
    every_call_to_a_service(Deposit::NewWithEzid, &CALLS_OF_A_NEW_OBJECT).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fault_at_any_call_to_the_tree_leaves_one_update() {
    every_call_to_the_tree(Deposit::Update).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fault_at_any_call_to_a_service_leaves_one_update() {
    let expected = ["find", "knows", "manifest", "record", "store", "summary", "version_of"];
    every_call_to_a_service(Deposit::Update, &expected).await;
}
