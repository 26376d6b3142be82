//! Steps that stand still, and jobs that nobody survives.
//!
//! Invariants: a step without progress is stopped, counted once and begun again, and one with progress is left alone. A
//! job that nobody survives is begun as often as is allowed and then fails, and nobody else is kept waiting by it.

use std::collections::BTreeSet;
use std::time::Duration;

use ingest_actors::settings::Settings;
use ingest_harness::FileServer;
use ingest_queue::states::{BatchList, BatchState, JobState, States as _};
use ingest_steps::manifest::Kind;
use ingest_steps::settings as steps;

use crate::kit::{self, On, Place};
use crate::made;
use crate::trick::{Act, Trick};

const STALL: Duration = Duration::from_millis(300);

async fn a_step_without_progress_in_any_state_is_stopped_counted_and_retried(on: On) {
    let place = Place::new(on).await;
    let files = FileServer::start().await;
    let trick = Trick::real();
    for state in &kit::STEPS {
        trick.next(*state, [Act::Hang]);
    }
    let node = place
        .node_with("node-1", Some(trick.clone()), |node, _| {
            let pools = &mut node.pools;
            for pool in [&mut pools.pending, &mut pools.estimating, &mut pools.downloading] {
                pool.stall = STALL;
            }
            for pool in [&mut pools.processing, &mut pools.recording, &mut pools.notify] {
                pool.stall = STALL;
            }
        })
        .await;
    let queue = place.queue().await;
    // In every state the first that comes hangs.
    let mut bids = Vec::new();
    for number in 0..kit::STEPS.len() {
        let rows = [made::file_row(&files, &format!("/o/{number}"), b"first", "first.txt")];
        let url = files.put(&format!("/{number}.checkm"), made::manifest(Kind::Object, &rows));
        bids.push(kit::submit(&queue, kit::submission(&url, None)).await);
    }
    let mut counted = 0;
    for bid in bids {
        assert_eq!(kit::reported(&queue, bid).await, BatchState::Completed);
        let jid = kit::jobs(&queue, bid, BatchList::Completed).await[0];
        counted += kit::timeouts(&queue, jid).await;
    }
    assert_eq!(counted, 6);
    let restarts = node.restarts(99).unwrap();
    assert!(
        restarts.iter().all(|restart| restart.reason == "stall" && restart.job.is_some()),
        "{restarts:?}"
    );
    let seen: BTreeSet<_> = restarts.iter().filter_map(|restart| restart.state.as_deref()).collect();
    assert_eq!(seen, kit::STEPS.iter().map(|state| state.name()).collect());
    assert_eq!((restarts.len(), node.snapshot().await.unwrap().stalls), (6, 6));
    kit::clean(&queue).await;
    kit::drained(node).await;
    kit::clean(&queue).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_without_progress_in_any_state_is_stopped_counted_and_retried_embedded() {
    a_step_without_progress_in_any_state_is_stopped_counted_and_retried(On::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_without_progress_in_any_state_is_stopped_counted_and_retried_zookeeper() {
    a_step_without_progress_in_any_state_is_stopped_counted_and_retried(On::Zookeeper).await;
}

async fn an_expansion_without_progress_is_stopped_and_begun_again(on: On) {
    let place = Place::new(on).await;
    let files = FileServer::start().await;
    // Takes the first request and never answers it.
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = silent.local_addr().unwrap();
    let node = place.node_with("node-1", None, |node, _| node.supervision.batch_stall = STALL).await;
    let queue = place.queue().await;
    let url = format!("http://{address}/list.checkm").parse().unwrap();
    let bid = kit::submit(&queue, kit::submission(&url, Some("batch-manifest"))).await;
    let (held, _) = silent.accept().await.unwrap();
    let stalled = kit::restarted(&node, &format!("batch {bid}")).await;
    assert_eq!((stalled.reason.as_str(), stalled.job), ("stall", None));
    // Another batch is not kept waiting by it, and the one who begins again asks again.
    let row = [made::file_row(&files, "/o/1", b"first", "first.txt")];
    let good = files.put("/good.checkm", made::manifest(Kind::Object, &row));
    let other = kit::submit(&queue, kit::submission(&good, None)).await;
    assert_eq!(kit::reported(&queue, other).await, BatchState::Completed);
    silent.accept().await.unwrap();
    drop((held, silent));
    kit::drained(node).await;
    kit::clean(&queue).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expansion_without_progress_is_stopped_and_begun_again_embedded() {
    an_expansion_without_progress_is_stopped_and_begun_again(On::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expansion_without_progress_is_stopped_and_begun_again_zookeeper() {
    an_expansion_without_progress_is_stopped_and_begun_again(On::Zookeeper).await;
}

async fn a_step_with_progress_runs_on_and_is_stopped_when_it_has_none_also_by_another_timekeeper(on: On) {
    let place = Place::new(on).await;
    let files = FileServer::start().await;
    let trick = Trick::real();
    let state = JobState::Downloading;
    trick.close(state);
    trick.beat(true);
    let node =
        place.node_with("node-1", Some(trick.clone()), |node, _| node.pools.downloading.stall = STALL).await;
    let queue = place.queue().await;
    let bid = kit::submit(&queue, kit::submission(&files.put("/a.txt", "a"), Some("file"))).await;
    trick.until("a download", |seen| seen.running(state) == 1).await;
    // It is looked at after a second, and then several times.
    ingest_harness::let_pass(Duration::from_secs(1) + 4 * STALL).await;
    assert_eq!(trick.seen(|seen| (seen.begun(state), seen.running(state))), (1, 1));
    let tree = node.tree();
    tree.children.iter().find(|child| child.name == "timekeeper").unwrap().cell.kill();
    kit::restarted(&node, "timekeeper").await;
    trick.beat(false);
    trick.until("the next try", |seen| seen.begun(state) == 2).await;
    trick.beat(true);
    trick.open(state);
    assert_eq!(kit::reported(&queue, bid).await, BatchState::Completed);
    let jid = kit::jobs(&queue, bid, BatchList::Completed).await[0];
    assert_eq!(kit::timeouts(&queue, jid).await, 1);
    kit::clean(&queue).await;
    kit::drained(node).await;
    kit::clean(&queue).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_with_progress_runs_on_and_is_stopped_when_it_has_none_also_by_another_timekeeper_embedded() {
    a_step_with_progress_runs_on_and_is_stopped_when_it_has_none_also_by_another_timekeeper(On::Embedded)
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_with_progress_runs_on_and_is_stopped_when_it_has_none_also_by_another_timekeeper_zookeeper() {
    a_step_with_progress_runs_on_and_is_stopped_when_it_has_none_also_by_another_timekeeper(On::Zookeeper)
        .await;
}

async fn a_job_that_nobody_survives_fails_as_poison_and_its_batch_is_reported(on: On) {
    let place = Place::new(on).await;
    let files = FileServer::start().await;
    let trick = Trick::real();
    let state = JobState::Processing;
    trick.next(state, [Act::Panic; 20]);
    let change = |node: &mut Settings, steps: &mut steps::Settings| {
        node.queue.max_timeouts = 3;
        steps.mail.admins = vec!["admins@example.org".into()];
    };
    let node = place.node_with("node-1", Some(trick.clone()), change).await;
    let mut alerts = node.house().alerts();
    let queue = place.queue().await;
    let bid = kit::submit(&queue, kit::submission(&files.put("/a.txt", "a"), Some("file"))).await;
    assert_eq!(kit::reported(&queue, bid).await, BatchState::Failed);
    let jid = kit::jobs(&queue, bid, BatchList::Failed).await[0];
    let (status, _) = queue.job_status(jid).await.unwrap();
    assert_eq!(status.message, "poison: its worker crashed or stalled 3 times, most recently in processing");
    assert_eq!(trick.seen(|seen| seen.begun(state)), 3);
    // People are told at once: whoever listens, by a number, and by mail.
    let alert = tokio::time::timeout(kit::PATIENCE, alerts.recv()).await.unwrap().unwrap();
    assert_eq!((alert.jid, alert.why.as_str()), (jid, status.message.as_str()));
    let mut registry = prometheus_client::registry::Registry::default();
    node.house().meters.register(&mut registry);
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    assert!(text.contains("poisoned_jobs_total 1"), "{text}");
    assert!(text.contains("transitions_total{from=\"processing\",to=\"failed\"} 1"), "{text}");
    let mails = ingest_harness::eventually("the mails", kit::PATIENCE, || async {
        Some(kit::mails(&place.outbox())).filter(|mails| mails.len() == 2)
    });
    assert!(mails.await.iter().any(|id| id.contains(&format!("alert-{jid}"))), "the administrators");
    kit::clean(&queue).await;
    kit::drained(node).await;
    kit::clean(&queue).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_nobody_survives_fails_as_poison_and_its_batch_is_reported_embedded() {
    a_job_that_nobody_survives_fails_as_poison_and_its_batch_is_reported(On::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_nobody_survives_fails_as_poison_and_its_batch_is_reported_zookeeper() {
    a_job_that_nobody_survives_fails_as_poison_and_its_batch_is_reported(On::Zookeeper).await;
}

async fn another_time_for_stalls_holds_for_what_runs_already(on: On) {
    let place = Place::new(on).await;
    let files = FileServer::start().await;
    let trick = Trick::real();
    let state = JobState::Downloading;
    trick.next(state, [Act::Hang]);
    // Nobody here waits for that long.
    let long = 100 * kit::PATIENCE;
    let node =
        place.node_with("node-1", Some(trick.clone()), |node, _| node.pools.downloading.stall = long).await;
    let queue = place.queue().await;
    let bid = kit::submit(&queue, kit::submission(&files.put("/a.txt", "a"), Some("file"))).await;
    trick.until("a download", |seen| seen.running(state) == 1).await;
    let mut settings = (**node.house().settings.load()).clone();
    settings.pools.downloading.stall = STALL;
    node.apply(settings, place.steps("node-1"));
    trick.until("the next try", |seen| seen.begun(state) == 2).await;
    assert_eq!(kit::reported(&queue, bid).await, BatchState::Completed);
    let restarts = node.restarts(9).unwrap();
    assert_eq!(restarts.iter().map(|restart| restart.reason.as_str()).collect::<Vec<_>>(), ["stall"]);
    kit::clean(&queue).await;
    kit::drained(node).await;
    kit::clean(&queue).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_time_for_stalls_holds_for_what_runs_already_embedded() {
    another_time_for_stalls_holds_for_what_runs_already(On::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_time_for_stalls_holds_for_what_runs_already_zookeeper() {
    another_time_for_stalls_holds_for_what_runs_already(On::Zookeeper).await;
}
