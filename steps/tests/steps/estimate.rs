//! How big a job is, whatever its payload is and whoever answers.

use std::sync::Arc;

use ingest_harness::eventually;
use ingest_queue::map::Priority;
use ingest_queue::plan::job::Change;
use ingest_queue::states::JobState;
use ingest_steps::outcome::{Cancel, Failure, Progress};
use ingest_steps::payload::PayloadKind;
use ingest_steps::settings::Slower;
use ingest_steps::step::{Payload, Task, conclude, estimate};
use tokio::sync::Semaphore;

use crate::download::{manifest, payload};
use crate::kit::{FileServer, Stage, sha256};
use crate::tree::{PATIENCE, Tree};
use ingest_harness::bad_server::{Act, BadServer, answer};

async fn estimated(
    stage: &Stage,
    payload: &Payload,
    progress: &Progress,
    cancel: &Cancel,
) -> Result<Change, Failure> {
    let jid = stage.job(payload).await;
    stage.bring(jid, JobState::Estimating).await;
    let mut lease = stage.take(jid).await;
    let mut task = Task::open(&stage.queue, &mut lease, &stage.services, progress, cancel).await.unwrap();
    let change = estimate::run(&mut task, &stage.services).await;
    if cancel.is_cancelled() {
        stage.queue.give_back(&mut lease, None).await.unwrap();
        return change;
    }
    conclude(&stage.queue, &mut lease, change.clone()).await.unwrap();
    assert_eq!(stage.status(jid).await.status, JobState::Provisioning);
    change
}

async fn of(stage: &Stage, payload: &Payload) -> Change {
    estimated(stage, payload, &Progress::default(), &Cancel::new()).await.unwrap()
}

#[tokio::test]
async fn announced_sizes_count_and_others_are_asked_for() {
    let tree = Tree::embedded();
    let stage = Stage::new(&tree.session().await).await;
    let server = FileServer::start().await;
    let url = server.put("/a", [1_u8; 1000]);
    let mut file = payload(PayloadKind::File, url.clone(), "a");
    assert_eq!(of(&stage, &file).await.space_needed, Some(1000));
    assert_eq!(server.asked("/a"), ["HEAD"]);
    file.size = Some(7);
    assert_eq!(of(&stage, &file).await.space_needed, Some(7));
    // Room for the archive and for what is in it.
    let container = payload(PayloadKind::Container, url.clone(), "a.zip");
    assert_eq!(of(&stage, &container).await.space_needed, Some(2000));

    let b = server.put("/b", [2_u8; 50]);
    let text = manifest(&[
        (url.clone(), None, None, "a"),
        (b, None, Some(50), "b"),
        (server.url("/none"), None, None, "c"),
    ]);
    let object = payload(PayloadKind::ObjectManifest, server.put("/m", text.as_str()), "m");
    let change = of(&stage, &object).await;
    assert_eq!(change.space_needed, i64::try_from(1050 + text.len()).ok());
    assert!(change.message.contains("3 files, at least"), "{}", change.message);
    assert!(change.message.contains("1 of the sizes is not known"), "{}", change.message);
    assert_eq!(server.asked("/b"), [""; 0]);
    stage.fsck().await;
    tree.close().await;
}

#[tokio::test]
async fn nothing_that_goes_wrong_fails_the_job() {
    let tree = Tree::embedded();
    let stage = Stage::with(&tree.session().await, |settings| settings.fetch.retries = 0).await;
    let server = FileServer::start().await;
    // It has the port, and does not listen: nobody else can get it meanwhile.
    let deaf = tokio::net::TcpSocket::new_v4().unwrap();
    deaf.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let closed = deaf.local_addr().unwrap();
    let away = |path: &str| format!("http://{closed}{path}").parse().unwrap();
    let mut wrong = payload(PayloadKind::ObjectManifest, server.put("/m", "x"), "m");
    wrong.digest = Some(sha256(b"y"));
    for (payload, why) in [
        (payload(PayloadKind::File, away("/a"), "a"), "unknown size"),
        (payload(PayloadKind::Container, server.url("/none"), "a"), "unknown size"),
        (payload(PayloadKind::ObjectManifest, away("/m"), "m"), "not known: the manifest"),
        (
            payload(PayloadKind::ObjectManifest, server.put("/bad", "no manifest"), "m"),
            "not known: the manifest",
        ),
        (payload(PayloadKind::ManifestOfManifests, server.url("/b"), "m"), "is a batch"),
        (wrong, "was announced"),
    ] {
        let change = of(&stage, &payload).await;
        assert_eq!((change.space_needed, change.priority), (Some(0), None), "{payload}");
        assert!(change.message.contains(why), "{}", change.message);
    }
    // Also what another program wrote, and what the profile forbids.
    stage.profile(|text| text.replace("[notify]", "allowed_hosts = [\"example.org\"]\n[notify]"));
    let change = of(&stage, &payload(PayloadKind::File, server.put("/a", "abc"), "a")).await;
    assert_eq!((change.space_needed, server.asked("/a").len()), (Some(0), 0));
    stage.fsck().await;
    tree.close().await;
}

#[tokio::test]
async fn large_jobs_are_put_back_and_none_is_put_forward() {
    let tree = Tree::embedded();
    let stage = Stage::with(&tree.session().await, |settings| {
        settings.estimating.slower = vec![Slower { from: 1000, priority: Priority::SLOW }];
    })
    .await;
    let url: url::Url = "https://example.org/a".parse().unwrap();
    let sized = |size| Payload { size: Some(size), ..payload(PayloadKind::File, url.clone(), "a") };
    assert_eq!(of(&stage, &sized(999)).await.priority, None);
    assert_eq!(of(&stage, &sized(1000)).await.priority, Some(Priority::SLOW));
    let late = stage.job_with(&sized(5000), |new| new.priority = Priority::LAST).await;
    stage.bring(late, JobState::Estimating).await;
    let mut lease = stage.take(late).await;
    let change = estimate::run(&mut stage.task(&mut lease).await, &stage.services).await;
    conclude(&stage.queue, &mut lease, change).await.unwrap();
    assert_eq!(stage.queue.job(late).await.unwrap().priority, Priority::LAST);
    stage.fsck().await;
    tree.close().await;
}

#[tokio::test]
async fn so_many_sizes_are_asked_for_at_a_time_and_a_silent_host_is_left_alone() {
    let tree = Tree::embedded();
    let stage = Stage::with(&tree.session().await, |settings| {
        settings.estimating.at_once = 3;
        settings.fetch.per_host = 100;
    })
    .await;
    let (files, server) = (FileServer::start().await, BadServer::start().await);
    let paths: Vec<String> = (0..30).map(|number| format!("/f{number}")).collect();
    let gate = Arc::new(Semaphore::new(0));
    for path in &paths {
        let gate = gate.clone();
        server.on(path, move |_| vec![Act::Await(gate.clone()), Act::Send(answer(404, &[], b""))]);
    }
    let rows: Vec<_> =
        paths.iter().map(|path| (server.url(path), None, None, path.trim_start_matches('/'))).collect();
    let object = payload(PayloadKind::ObjectManifest, files.put("/m", manifest(&rows)), "m");
    let (progress, cancel) = (Progress::default(), Cancel::new());
    let estimating = estimated(&stage, &object, &progress, &cancel);
    let watching = async {
        eventually("three requests", PATIENCE, || async { (server.all_requests() >= 3).then_some(()) }).await;
        // All that may be asked at a time are begun before the first of them arrives, and each that is begun is counted,
        // as is the manifest: while none is answered, there is no fourth question.
        assert_eq!((progress.done().0, server.all_requests()), (1 + 3, 3));
        gate.add_permits(1000);
    };
    let (change, ()) = tokio::join!(estimating, watching);
    assert_eq!(change.unwrap().message, "30 files, of unknown size");
    // Twice for each question; those under way when it fell silent are still answered.
    let most = 2 * (estimate::PATIENCE as usize + 2);
    assert!(server.all_requests() <= most, "{} requests", server.all_requests());
    stage.fsck().await;
    tree.close().await;
}

#[tokio::test]
async fn being_stopped_comes_out() {
    let tree = Tree::embedded();
    let stage = Stage::new(&tree.session().await).await;
    let server = BadServer::start().await;
    server.on("/a", |_| vec![Act::Stall]);
    let (progress, cancel) = (Progress::default(), Cancel::new());
    let stopping = async {
        eventually("a request", PATIENCE, || async { (server.requests("/a") > 0).then_some(()) }).await;
        cancel.cancel();
    };
    let file = payload(PayloadKind::File, server.url("/a"), "a");
    let (answer, ()) = tokio::join!(estimated(&stage, &file, &progress, &cancel), stopping);
    assert_eq!(answer, Err(Failure::Cancelled));
    stage.fsck().await;
    tree.close().await;
}
