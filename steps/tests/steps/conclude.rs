//! What becomes of a job after its step.

use ingest_queue::plan::job::Change;
use ingest_queue::states::JobState;
use ingest_steps::outcome::Failure;
use ingest_steps::payload::PayloadKind;
use ingest_steps::step::{Ending, Payload, conclude};
use ingest_store::Op;
use url::Url;

use crate::kit::Stage;
use crate::tree::Tree;

fn payload() -> Payload {
    Payload {
        kind: PayloadKind::File,
        url: Url::parse("https://example.org/a").unwrap(),
        name: "a".into(),
        size: None,
        digest: None,
        mime: None,
    }
}

#[tokio::test]
async fn each_answer_has_its_ending() {
    let tree = Tree::embedded();
    let stage = Stage::new(&tree.session().await).await;
    let here = JobState::Downloading;
    let on = Change { also: vec![Op::create("/minter/ezid-beside", "x")], ..Change::default() };
    for (answer, state, recoverable) in [
        (Ok(on), JobState::Processing, true),
        (Err(Failure::later("no route")), JobState::Failed, true),
        (Err(Failure::fail("404")), JobState::Failed, true),
        (Err(Failure::hopeless("cut off")), JobState::Failed, false),
        (Err(Failure::Again("locked".into())), here, true),
        (Err(Failure::Cancelled), here, true),
        (Err(Failure::Lost("taken".into())), here, true),
    ] {
        let jid = stage.job(&payload()).await;
        stage.bring(jid, here).await;
        let mut lease = stage.take(jid).await;
        let ending = conclude(&stage.queue, &mut lease, answer.clone()).await.unwrap();
        let status = stage.status(jid).await;
        assert_eq!((status.status, status.recoverable), (state, recoverable), "{answer:?}");
        assert_eq!(matches!(ending, Ending::Moved(_)), state != here, "{answer:?}");
        // Nothing counts as a crash.
        assert_eq!(status.start_processing_date, None, "{answer:?}");
    }
    // What goes along with a transition was written with it.
    assert!(stage.queue.session().exists("/minter/ezid-beside").await.unwrap().is_some());
    stage.fsck().await;
    tree.close().await;
}

#[tokio::test]
async fn what_goes_along_is_written_with_the_transition_or_not_at_all() {
    let tree = Tree::embedded();
    let stage = Stage::new(&tree.session().await).await;
    let jid = stage.job(&payload()).await;
    stage.bring(jid, JobState::Downloading).await;
    let mut lease = stage.take(jid).await;
    let also = vec![Op::create("/minter/ezid-beside", "x"), Op::set("/minter", "", 99)];
    let answer = conclude(&stage.queue, &mut lease, Ok(Change { also, ..Change::default() })).await;
    assert!(answer.is_err(), "{answer:?}");
    assert_eq!(stage.status(jid).await.status, JobState::Downloading);
    assert!(stage.queue.session().exists("/minter/ezid-beside").await.unwrap().is_none());
    stage.queue.give_back(&mut lease, None).await.unwrap();
    stage.fsck().await;
    tree.close().await;
}

#[tokio::test]
async fn the_gate_is_closed_when_the_job_is_anothers() {
    let tree = Tree::embedded();
    let stage = Stage::new(&tree.session().await).await;
    let jid = stage.job(&payload()).await;
    stage.bring(jid, JobState::Downloading).await;
    let mut lease = stage.take(jid).await;
    let task = stage.task(&mut lease).await;
    task.gate().await.unwrap();
    let action = ingest_queue::plan::job::Action::SetPriority(ingest_queue::map::Priority::LAST);
    stage.queue.act(jid, &action, "", true).await.unwrap();
    assert!(matches!(task.gate().await, Err(Failure::Lost(_))));
    task.cancel.cancel();
    assert_eq!(task.gate().await, Err(Failure::Cancelled));
    tree.close().await;
}
