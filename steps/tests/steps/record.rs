//! What was stored is recorded, once, and in the order of its versions.

use ingest_queue::ids::Jid;
use ingest_queue::index::Until;
use ingest_queue::map::JobNode;
use ingest_queue::plan::job::Action;
use ingest_queue::states::JobState;
use ingest_steps::outcome::Failure;
use ingest_steps::settings;
use ingest_steps::step::{Ending, conclude, record};
use ingest_store::Op;

use crate::kit::{OWNER, Stage};
use crate::made::{ingest, is_all, job, primary, recorded, step, work};
use crate::tree::{Tree, within};

const FILES: &[(&str, &str)] = &[("a.txt", "one")];

/// Two versions that are stored and not recorded, as a node of an older release left them: it did not wait before storing.
async fn two_stored(stage: &Stage) -> (Jid, Jid) {
    let (first, second) = (job(stage, FILES, &["l"]).await, job(stage, &[("b", "2")], &["l"]).await);
    assert_eq!(work(stage, first).await, Ending::Moved(JobState::Recording));
    // The first is out of sight for as long as the second stores.
    let status = JobNode::Status.of(first);
    let (data, _) = stage.queue.session().get(status.as_str()).await.unwrap();
    let failed = String::from_utf8(data.to_vec()).unwrap().replacen("\"recording\"", "\"failed\"", 1);
    stage.queue.session().set(status.as_str(), failed, None).await.unwrap();
    assert_eq!(work(stage, second).await, Ending::Moved(JobState::Recording));
    stage.queue.session().set(status, data, None).await.unwrap();
    (first, second)
}

#[tokio::test]
async fn a_version_waits_for_the_one_before_it_without_a_worker() {
    let tree = Tree::embedded();
    let stage = Stage::new(&tree.session().await).await;
    let (first, second) = two_stored(&stage).await;
    let ark = primary(&stage, first).await.unwrap();
    let mut lease = stage.take(second).await;
    let answer = within(step(&stage, &mut lease)).await;
    let until = Until::Moved(first, JobState::Recording);
    assert!(
        matches!(&answer, Err(Failure::Blocked { why, until: found }) if why.contains("version 1") && *found == until),
        "{answer:?}"
    );
    let ending = conclude(&stage.queue, &mut lease, answer).await.unwrap();
    assert!(matches!(ending, Ending::GivenBack(_)), "{ending:?}");
    let why = stage.status(second).await.message;
    assert!(why.contains(&format!("waits for {first}")), "its status says why: {why}");
    stage.fsck().await;
    assert_eq!(work(&stage, first).await, Ending::Moved(JobState::Notify));
    assert_eq!(work(&stage, second).await, Ending::Moved(JobState::Notify));
    is_all(&stage, &ark, 2, &["l"], "").await;
    tree.close().await;
}

#[tokio::test]
async fn recording_again_changes_nothing() {
    let tree = Tree::embedded();
    let stage = Stage::new(&tree.session().await).await;
    let jid = job(&stage, FILES, &["l"]).await;
    let ark = ingest(&stage, jid).await;
    let before = recorded(&stage, &ark).await;
    let mut lease = stage.take(jid).await;
    conclude(&stage.queue, &mut lease, Err(Failure::fail("the callback"))).await.unwrap();
    for state in [JobState::Recording, JobState::Processing] {
        stage.queue.act(jid, &Action::Requeue(Some(state)), "", false).await.unwrap();
        while stage.status(jid).await.status != JobState::Notify {
            assert!(matches!(work(&stage, jid).await, Ending::Moved(JobState::Recording | JobState::Notify)));
        }
        let mut lease = stage.take(jid).await;
        conclude(&stage.queue, &mut lease, Err(Failure::fail("the callback"))).await.unwrap();
        assert_eq!(recorded(&stage, &ark).await, before);
    }
    is_all(&stage, &ark, 1, &["l"], "").await;
    tree.close().await;
}

#[tokio::test]
async fn a_storage_that_has_something_else_is_not_recorded() {
    let tree = Tree::embedded();
    let stage = Stage::new(&tree.session().await).await;
    let jid = job(&stage, FILES, &["l"]).await;
    assert_eq!(work(&stage, jid).await, Ending::Moved(JobState::Recording));
    let ark = primary(&stage, jid).await.unwrap();
    let at = JobNode::Inventory.of(jid);
    let (data, _) = stage.queue.session().get(at.as_str()).await.unwrap();
    let said: serde_json::Value = serde_json::from_slice(&data).unwrap();
    for (name, value, why) in [
        ("version", serde_json::json!(2), "is not in the storage"),
        ("key", "jid0000000007-processing-0".into(), "it was stored with the key"),
        ("files", 7.into(), "files of"),
        ("digest", "00".into(), "a path, a size or a digest differs"),
    ] {
        let mut wrong = said.clone();
        wrong[name] = value;
        let text = wrong.to_string();
        stage.queue.session().multi(vec![Op::set(at.as_str(), text, None)]).await.unwrap();
        let mut lease = stage.take(jid).await;
        let answer = step(&stage, &mut lease).await.unwrap_err().to_string();
        assert!(answer.contains(why), "{name}: {answer}");
        stage.queue.give_back(&mut lease, None).await.unwrap();
    }
    assert_eq!(recorded(&stage, &ark).await, None);
    assert!(stage.queue.local_id(OWNER, "l").await.unwrap().is_some(), "it is not given up");
    stage.queue.session().multi(vec![Op::set(at, data, None)]).await.unwrap();
    assert_eq!(work(&stage, jid).await, Ending::Moved(JobState::Notify));
    is_all(&stage, &ark, 1, &["l"], "").await;
    tree.close().await;
}

#[tokio::test]
async fn an_outside_inventory_is_left_alone() {
    let tree = Tree::embedded();
    let session = tree.session().await;
    let stage = Stage::with(&session, |settings| settings.inventory = settings::Inventory::Outside {}).await;
    assert!(!record::is_ours(&stage.services));
    let (one, two) = (job(&stage, FILES, &["l"]).await, job(&stage, FILES, &["l"]).await);
    for jid in [one, two] {
        assert_eq!(work(&stage, jid).await, Ending::Moved(JobState::Recording));
    }
    // While it is under way its reservation tells.
    assert_eq!(primary(&stage, one).await, primary(&stage, two).await);
    let mut lease = stage.take(one).await;
    assert!(matches!(step(&stage, &mut lease).await, Err(Failure::Fail(_))));
    stage.fsck().await;
    tree.close().await;
}
