//! Objects to process: jobs whose files are here, and what is true at the end of every story.

use futures::StreamExt as _;
use ingest_queue::ids::Jid;
use ingest_queue::jobs::{Lease, Write};
use ingest_queue::nodes::Work;
use ingest_queue::plan::job::{Change, NewJob};
use ingest_queue::states::JobState;
use ingest_steps::ark::Ark;
use ingest_steps::digest::{Algorithm, Digests};
use ingest_steps::inventory::Object;
use ingest_steps::outcome::{Cancel, Progress, Result};
use ingest_steps::payload::PayloadKind;
use ingest_steps::step::{Ending, Payload, conclude, process, record};
use ingest_steps::work::FileRecord;

use crate::kit::{OWNER, Stage};
use crate::tree::within;

pub(crate) fn payload(kind: PayloadKind) -> Payload {
    Payload {
        kind,
        url: "https://ann:hidden@example.org/a%20b.zip".parse().unwrap(),
        name: "a b.zip".into(),
        size: None,
        digest: None,
        mime: None,
    }
}

/// A job in processing that has these files and local ids.
pub(crate) async fn job(stage: &Stage, files: &[(&str, &str)], local_ids: &[&str]) -> Jid {
    job_with(stage, files, local_ids, |_| {}).await
}

pub(crate) async fn job_with(
    stage: &Stage,
    files: &[(&str, &str)],
    local_ids: &[&str],
    change: impl FnOnce(&mut NewJob),
) -> Jid {
    let local_ids: Vec<String> = local_ids.iter().map(|id| (*id).to_owned()).collect();
    let jid = stage
        .job_with(&payload(PayloadKind::Container), |new| {
            new.configuration.local_id.clone_from(&local_ids);
            new.identifiers.local_id = local_ids;
            change(new);
        })
        .await;
    stage.bring(jid, JobState::Downloading).await;
    download(stage, jid, files).await;
    jid
}

/// The work of downloading.
pub(crate) async fn download(stage: &Stage, jid: Jid, files: &[(&str, &str)]) {
    let mut lease = stage.take(jid).await;
    let job = lease.job();
    let attempt = job.status.attempt;
    let dir = stage.services.work.make_attempt(job.bid, jid, attempt).unwrap();
    for (name, content) in files {
        let path = format!("producer/{name}");
        let place = dir.path().join(&path);
        std::fs::create_dir_all(place.parent().unwrap()).unwrap();
        std::fs::write(&place, content).unwrap();
        let mut digests = Digests::of([Algorithm::Md5, Algorithm::Sha256, Algorithm::Sha512]);
        digests.update(content.as_bytes());
        let size = content.len() as u64;
        dir.note(&FileRecord { path, size, digests: digests.finish(), mime: None, source: None }).unwrap();
    }
    let work = Work { node: "node-1".into(), attempt, ..Work::default() };
    stage.queue.write(&mut lease, &[Write::Work(work)]).await.unwrap();
    stage.queue.succeed(&mut lease, &Change::default()).await.unwrap();
}

/// The work of the state that the job is in.
pub(crate) async fn step(stage: &Stage, lease: &mut Lease) -> Result<Change> {
    let from = lease.job().state();
    let (progress, cancel) = (Progress::default(), Cancel::new());
    let mut task =
        ingest_steps::step::Task::open(&stage.queue, lease, &stage.services, &progress, &cancel).await?;
    match from {
        JobState::Processing => process::run(&mut task, &stage.services).await,
        JobState::Recording => record::run(&mut task, &stage.services).await,
        other => panic!("nothing is done here in {other}"),
    }
}

/// Takes a job, does its work and commits what came of it.
pub(crate) async fn work(stage: &Stage, jid: Jid) -> Ending {
    let mut lease = stage.take(jid).await;
    let answer = within(step(stage, &mut lease)).await;
    conclude(&stage.queue, &mut lease, answer).await.unwrap()
}

/// Through processing and recording.
pub(crate) async fn ingest(stage: &Stage, jid: Jid) -> Ark {
    assert_eq!(work(stage, jid).await, Ending::Moved(JobState::Recording), "{:?}", stage.status(jid).await);
    assert_eq!(work(stage, jid).await, Ending::Moved(JobState::Notify), "{:?}", stage.status(jid).await);
    primary(stage, jid).await.unwrap()
}

pub(crate) async fn primary(stage: &Stage, jid: Jid) -> Option<Ark> {
    let node = ingest_queue::map::JobNode::Identifiers;
    let ids: Option<ingest_queue::nodes::Identifiers> = stage.queue.node(jid, node).await.unwrap();
    ids?.primary_id.map(|id| id.parse().unwrap())
}

pub(crate) async fn objects(stage: &Stage) -> Vec<String> {
    stage.services.storages["default"].objects().map(Result::unwrap).collect().await
}

pub(crate) async fn recorded(stage: &Stage, ark: &Ark) -> Option<Object> {
    stage.services.inventory.as_ref().unwrap().object(ark).await.unwrap()
}

/// One object with this many versions is all there is, whole, recorded, and known by its local ids.
pub(crate) async fn is_all(stage: &Stage, ark: &Ark, versions: u32, local_ids: &[&str], what: &str) {
    assert_eq!(objects(stage).await, [ark.to_string()], "{what}");
    let storage = &stage.services.storages["default"];
    let audit = storage.audit(&ark.to_string(), &Progress::default(), &Cancel::new()).await.unwrap();
    assert_eq!((audit.versions, audit.problems), (versions, vec![]), "{what}");
    let object = recorded(stage, ark).await.unwrap();
    assert_eq!(object.versions.len(), versions as usize, "{what}");
    for id in local_ids {
        let found = stage.services.inventory.as_ref().unwrap().find(OWNER, id).await.unwrap();
        assert_eq!(found.as_ref(), Some(ark), "{what}");
        assert_eq!(stage.queue.local_id(OWNER, id).await.unwrap(), None, "{what}");
    }
    stage.fsck().await;
}
