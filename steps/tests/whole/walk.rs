//! A node without actors: takes a batch through its states, one job after the other.

use futures::StreamExt as _;
use ingest_queue::batches::Ended;
use ingest_queue::ids::{Bid, Jid};
use ingest_queue::map;
use ingest_queue::nodes::{Identifiers, Submission};
use ingest_queue::plan::batch::BatchAction;
use ingest_queue::plan::job::Action;
use ingest_queue::states::{BatchList, JobState};
use ingest_steps::ark::Ark;
use ingest_steps::outcome::{Cancel, Progress};
use ingest_steps::step::expand::{self, Expansion};
use ingest_steps::step::tell::{self, Told};
use ingest_steps::step::{self, Task, admit, clean, conclude, record};
use url::Url;

use crate::kit::{PROFILE, Stage, WHO};

pub(crate) fn submission(url: &Url, kind: Option<&str>) -> Submission {
    Submission {
        profile_name: PROFILE.into(),
        submitter: "depositor".into(),
        payload_url: Some(url.to_string()),
        payload_type: kind.map(str::to_owned),
        erc_who: Some("Lindqvist, A.".into()),
        erc_what: Some("A thing".into()),
        ..Submission::default()
    }
}

/// A batch that has just been submitted.
pub(crate) async fn submit(stage: &Stage, mut submission: Submission) -> Bid {
    submission.insertion_date = Some(stage.queue.now());
    let uuid = uuid::Uuid::new_v4().to_string();
    stage.queue.create_batch(&uuid, &submission).await.unwrap().bid
}

/// To its report, whatever becomes of it.
pub(crate) async fn walk(stage: &Stage, bid: Bid) -> Told {
    let (queue, services) = (&stage.queue, &stage.services);
    let mut lease = queue.acquire_batch(bid, WHO).await.unwrap();
    tell::queued(queue, &mut lease, services).await.unwrap();
    match expand::run(queue, &mut lease, services, &Progress::default(), &Cancel::new()).await.unwrap() {
        Expansion::Done { .. } => queue.release_batch(&mut lease).await.unwrap(),
        Expansion::Failed(_) => {
            let mut lease = queue.acquire_batch(bid, WHO).await.unwrap();
            return tell::run(queue, &mut lease, services, &Progress::default()).await.unwrap();
        }
        other => panic!("{bid} is {other:?}"),
    }
    while work(stage, bid).await {}
    end(stage, bid).await
}

/// Ends a batch whose jobs have all ended, and tells.
pub(crate) async fn end(stage: &Stage, bid: Bid) -> Told {
    let mut lease = stage.queue.acquire_batch(bid, WHO).await.unwrap();
    assert_eq!(stage.queue.end_batch(&mut lease).await.unwrap(), Ended::Yes);
    let told = tell::run(&stage.queue, &mut lease, &stage.services, &Progress::default()).await.unwrap();
    for jid in jobs(stage, bid, BatchList::Completed).await {
        clean::job(&stage.services, bid, jid).await.unwrap();
    }
    told
}

/// Requeues a failed job, takes it to its end, and tells what has changed.
pub(crate) async fn again(stage: &Stage, bid: Bid, jid: Jid) -> Told {
    stage.queue.act(jid, &Action::Requeue(None), "its source was repaired", false).await.unwrap();
    while work(stage, bid).await {}
    stage.queue.act_on_batch(bid, BatchAction::UpdateReport, "", false).await.unwrap();
    let mut lease = stage.queue.acquire_batch(bid, WHO).await.unwrap();
    tell::run(&stage.queue, &mut lease, &stage.services, &Progress::default()).await.unwrap()
}

/// One step of every job of a batch; whether there may be another.
pub(crate) async fn work(stage: &Stage, bid: Bid) -> bool {
    let (queue, services) = (&stage.queue, &stage.services);
    let (progress, cancel) = (Progress::default(), Cancel::new());
    let mut moved = false;
    for jid in jobs(stage, bid, BatchList::Processing).await {
        let found = stage.status(jid).await.status;
        if found == JobState::Provisioning || (found == JobState::Recording && !record::is_ours(services)) {
            continue;
        }
        let mut lease = stage.take(jid).await;
        let answer = match Task::open(queue, &mut lease, services, &progress, &cancel).await {
            Ok(mut task) => step::run(&mut task, services).await,
            Err(failure) => Err(failure),
        };
        conclude(queue, &mut lease, answer).await.unwrap();
        moved = true;
    }
    let waiting = admit::waiting(queue).await.unwrap();
    let cycle = admit::cycle(queue, services, WHO, &waiting, &progress, &cancel).await.unwrap();
    moved || !cycle.admitted.is_empty()
}

pub(crate) async fn jobs(stage: &Stage, bid: Bid, list: BatchList) -> Vec<Jid> {
    let (names, _) = stage.queue.session().children(map::batch_list(bid, list)).await.unwrap();
    let mut jids: Vec<Jid> = names.iter().filter_map(|name| name.parse().ok()).collect();
    jids.sort_unstable();
    jids
}

pub(crate) async fn ark_of(stage: &Stage, jid: Jid) -> Ark {
    let node = map::JobNode::Identifiers;
    let identifiers: Identifiers = stage.queue.node(jid, node).await.unwrap().unwrap();
    identifiers.primary_id.unwrap().parse().unwrap()
}

/// The files of an object as it is stored now, with their content.
pub(crate) async fn stored(stage: &Stage, ark: &Ark) -> Vec<(String, Vec<u8>)> {
    let storage = &stage.services.storages["default"];
    let manifest = storage.manifest(&ark.to_string(), None).await.unwrap().unwrap();
    let mut files = Vec::new();
    for path in manifest.files.keys() {
        let content = storage.open(&ark.to_string(), manifest.version, path).await.unwrap();
        let chunks: Vec<_> = content.stream.map(Result::unwrap).collect().await;
        files.push((path.clone(), chunks.concat()));
    }
    files
}

/// Every object that is stored is whole and in the inventory, each once; nothing is left in the working
/// directory, no lock and no reservation in the tree.
pub(crate) async fn all_is_well(stage: &Stage, objects: usize) {
    let storage = &stage.services.storages["default"];
    let arks: Vec<String> = storage.objects().map(Result::unwrap).collect().await;
    assert_eq!(arks.len(), objects, "{arks:?}");
    for ark in &arks {
        let audit = storage.audit(ark, &Progress::default(), &Cancel::new()).await.unwrap();
        assert_eq!(audit.problems, Vec::<String>::new(), "{ark}");
        if let Some(inventory) = &stage.services.inventory {
            let object = inventory.object(&ark.parse().unwrap()).await.unwrap().unwrap();
            let manifest = storage.manifest(ark, None).await.unwrap().unwrap();
            assert_eq!(object.versions.len(), usize::try_from(manifest.head).unwrap(), "{ark}");
            let newest = object.versions.last().unwrap();
            let recorded: Vec<_> = newest.files.iter().map(|file| file.path.clone()).collect();
            assert_eq!(recorded, manifest.files.keys().cloned().collect::<Vec<_>>(), "{ark}");
        }
    }
    for dir in [map::STORAGE_LOCKS, map::INVENTORY_LOCKS] {
        assert_eq!(stage.queue.session().children(dir).await.unwrap().0, Vec::<String>::new());
    }
    if record::is_ours(&stage.services) {
        assert_eq!(stage.queue.session().children(map::LOCAL_IDS).await.unwrap().0, Vec::<String>::new());
    }
    stage.fsck().await;
}
