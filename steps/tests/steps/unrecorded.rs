//! Versions that were stored and not recorded: they are in nobody's way, are not served, and nothing of them is lost.

use std::sync::Arc;

use ingest_queue::ids::Jid;
use ingest_queue::index::Until;
use ingest_queue::plan::job::Action;
use ingest_queue::states::JobState;
use ingest_steps::ark::Ark;
use ingest_steps::outcome::{Cancel, Failure, Progress};
use ingest_steps::step::assemble::{self, Form, Request};
use ingest_steps::step::{Ending, conclude};
use ingest_steps::storage::s3::S3;
use rocfl::ocfl::{OcflRepo, ValidationResult};

use crate::kit::{Stage, settings_in};
use crate::made::{ingest, is_all, job, objects, primary, recorded, step, work};
use crate::tree::{Tree, on_both_engines, within};

on_both_engines!(
    what_failed_in_recording_and_was_deleted_is_superseded_by_the_next_deposit,
    a_node_that_dies_between_store_and_record_is_waited_for,
    nothing_is_stored_over_a_lost_object,
);

const FILES: &[(&str, &str)] = &[("a.txt", "one")];

/// Stores a version and fails in recording.
async fn fails_in_recording(stage: &Stage, files: &[(&str, &str)]) -> Jid {
    let jid = job(stage, files, &["l"]).await;
    assert_eq!(work(stage, jid).await, Ending::Moved(JobState::Recording), "{:?}", stage.status(jid).await);
    let mut lease = stage.take(jid).await;
    conclude(&stage.queue, &mut lease, Err(Failure::fail("the disk is full"))).await.unwrap();
    jid
}

/// The version that people get.
async fn served(stage: &Stage, ark: &Ark, version: Option<u32>) -> Result<u32, Failure> {
    let request = Request { ark: ark.to_string(), version, form: Form::Zip };
    let requested = assemble::request(&stage.queue, &stage.services, &request).await?;
    Ok(requested.version)
}

async fn marks(stage: &Stage, ark: &Ark) -> Vec<bool> {
    let versions = recorded(stage, ark).await.unwrap().versions;
    versions.iter().map(|version| version.superseded).collect()
}

/// The tree, the content and the repository are valid, the last by another implementation.
async fn is_sound(stage: &Stage, ark: &Ark, versions: u32) {
    stage.fsck().await;
    let storage = &stage.services.storages["default"];
    let audit = storage.audit(&ark.to_string(), &Progress::default(), &Cancel::new()).await.unwrap();
    assert_eq!((audit.versions, audit.problems), (versions, vec![]));
    let root = stage.dir().join("storage");
    let invalid = tokio::task::spawn_blocking(move || {
        let mut found = Vec::new();
        let mut told = |result: &dyn ValidationResult| {
            found.extend(result.errors().iter().map(|error| format!("{error:?}")));
        };
        let repository = OcflRepo::fs_repo(root, None).unwrap();
        let mut validator = repository.validate_repo(true).unwrap();
        told(validator.storage_root_result());
        for object in validator.by_ref() {
            told(&object.unwrap());
        }
        told(validator.storage_hierarchy_result());
        found
    });
    assert_eq!(invalid.await.unwrap(), Vec::<String>::new());
}

async fn what_failed_in_recording_and_was_deleted_is_superseded_by_the_next_deposit(tree: &Tree) {
    let stage = Stage::new(&tree.session().await).await;
    let first = job(&stage, FILES, &["l"]).await;
    let ark = ingest(&stage, first).await;
    let lost = fails_in_recording(&stage, &[("a.txt", "two")]).await;
    assert_eq!(served(&stage, &ark, None).await, Ok(1), "what is not recorded is not served");
    assert!(matches!(served(&stage, &ark, Some(2)).await, Err(Failure::Hopeless(_))));
    stage.queue.act(lost, &Action::Delete, "", false).await.unwrap();
    stage.fsck().await;
    let next = job(&stage, &[("a.txt", "three")], &["l"]).await;
    assert_eq!(ingest(&stage, next).await, ark);
    assert_eq!(marks(&stage, &ark).await, [false, true, false]);
    assert_eq!(served(&stage, &ark, None).await, Ok(3));
    let Err(Failure::Hopeless(why)) = served(&stage, &ark, Some(2)).await else { panic!("it is served") };
    assert!(why.contains("was never completed") && why.contains("is 3"), "{why}");
    let kept = &recorded(&stage, &ark).await.unwrap().versions[1];
    assert_eq!((kept.ingest.jid, kept.ingest.submitter.as_str()), (lost, "depositor"));
    assert!(!kept.files.is_empty());
    is_sound(&stage, &ark, 3).await;
}

async fn a_node_that_dies_between_store_and_record_is_waited_for(tree: &Tree) {
    let dying = tree.mortal_session().await;
    let here = Stage::new(&dying).await;
    let settings = settings_in(here.dir());
    let own = tempfile::tempdir().unwrap();
    let mut there = Stage::in_dir(&tree.session().await, own, settings, "node-2").await;
    there.services.storages = here.services.storages.clone();
    there.services.inventory.clone_from(&here.services.inventory);
    let first = job(&here, FILES, &["l"]).await;
    let mut lease = here.take(first).await;
    step(&here, &mut lease).await.unwrap();
    // It is stored, and nobody knows.
    tree.expire(&dying).await;
    let next = job(&there, &[("b", "2")], &["l"]).await;
    let mut waiting = there.take(next).await;
    let answer = within(step(&there, &mut waiting)).await;
    let until = Until::Moved(first, JobState::Processing);
    assert!(matches!(&answer, Err(Failure::Blocked { until: found, .. }) if *found == until), "{answer:?}");
    conclude(&there.queue, &mut waiting, answer).await.unwrap();
    // Whoever takes it goes on with it.
    assert_eq!(work(&there, first).await, Ending::Moved(JobState::Recording));
    assert_eq!(work(&there, first).await, Ending::Moved(JobState::Notify));
    let ark = ingest(&there, next).await;
    assert_eq!(marks(&there, &ark).await, [false, false]);
    there.fsck().await;
}

async fn nothing_is_stored_over_a_lost_object(tree: &Tree) {
    let stage = Stage::new(&tree.session().await).await;
    let first = job(&stage, FILES, &["l"]).await;
    let ark = ingest(&stage, first).await;
    let before = recorded(&stage, &ark).await;
    let root = stage.dir().join("storage");
    for entry in std::fs::read_dir(&root).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && path.file_name().is_some_and(|name| name != "extensions") {
            std::fs::remove_dir_all(path).unwrap();
        }
    }
    let next = job(&stage, &[("a.txt", "two")], &["l"]).await;
    assert_eq!(work(&stage, next).await, Ending::Moved(JobState::Failed));
    let status = stage.status(next).await;
    assert!(status.message.contains(&format!("{ark} is lost")) && status.recoverable, "{status:?}");
    assert_eq!(objects(&stage).await, Vec::<String>::new());
    assert_eq!(recorded(&stage, &ark).await, before);
    stage.fsck().await;
}

#[tokio::test]
async fn a_bucket_keeps_a_superseded_version_and_is_not_written_over_when_it_is_lost() {
    let tree = Tree::embedded();
    let mut stage = Stage::new(&tree.session().await).await;
    let bucket = || Arc::new(S3::new(Arc::new(object_store::memory::InMemory::new()), ""));
    stage.services.storages.insert("default".into(), bucket());
    let first = job(&stage, FILES, &["l"]).await;
    let ark = ingest(&stage, first).await;
    let lost = fails_in_recording(&stage, &[("a.txt", "two")]).await;
    assert_eq!(served(&stage, &ark, None).await, Ok(1));
    stage.queue.act(lost, &Action::Delete, "", false).await.unwrap();
    let next = job(&stage, &[("a.txt", "three")], &["l"]).await;
    assert_eq!(ingest(&stage, next).await, ark);
    assert_eq!(marks(&stage, &ark).await, [false, true, false]);
    is_all(&stage, &ark, 3, &["l"], "").await;
    stage.services.storages.insert("default".into(), bucket());
    let late = job(&stage, FILES, &["l"]).await;
    assert_eq!(work(&stage, late).await, Ending::Moved(JobState::Failed));
    assert!(stage.status(late).await.message.contains("is lost"));
    assert_eq!(objects(&stage).await, Vec::<String>::new());
    stage.fsck().await;
    tree.close().await;
}

#[tokio::test]
async fn a_job_that_is_requeued_records_its_superseded_version_after_all() {
    let tree = Tree::embedded();
    let stage = Stage::new(&tree.session().await).await;
    let failed = fails_in_recording(&stage, FILES).await;
    let ark = primary(&stage, failed).await.unwrap();
    assert!(matches!(served(&stage, &ark, None).await, Err(Failure::Hopeless(_))));
    let next = job(&stage, &[("b", "2")], &["l"]).await;
    assert_eq!(ingest(&stage, next).await, ark);
    assert_eq!(marks(&stage, &ark).await, [true, false]);
    stage.queue.act(failed, &Action::Requeue(Some(JobState::Recording)), "", false).await.unwrap();
    assert_eq!(work(&stage, failed).await, Ending::Moved(JobState::Notify));
    assert_eq!(marks(&stage, &ark).await, [false, false]);
    assert_eq!(served(&stage, &ark, Some(1)).await, Ok(1));
    assert_eq!(served(&stage, &ark, None).await, Ok(2));
    is_sound(&stage, &ark, 2).await;
    tree.close().await;
}

#[tokio::test]
async fn a_job_that_is_requeued_before_the_next_one_records_is_waited_for() {
    let tree = Tree::embedded();
    let stage = Stage::new(&tree.session().await).await;
    let failed = fails_in_recording(&stage, FILES).await;
    let ark = primary(&stage, failed).await.unwrap();
    let next = job(&stage, &[("b", "2")], &["l"]).await;
    assert_eq!(work(&stage, next).await, Ending::Moved(JobState::Recording));
    stage.queue.act(failed, &Action::Requeue(Some(JobState::Recording)), "", false).await.unwrap();
    assert!(matches!(work(&stage, next).await, Ending::GivenBack(why) if why.contains("waits for")));
    assert_eq!(work(&stage, failed).await, Ending::Moved(JobState::Notify));
    assert_eq!(work(&stage, next).await, Ending::Moved(JobState::Notify));
    assert_eq!(marks(&stage, &ark).await, [false, false]);
    is_sound(&stage, &ark, 2).await;
    tree.close().await;
}

#[tokio::test]
async fn a_job_that_stores_anew_after_another_one_supersedes_its_own_first_version() {
    let tree = Tree::embedded();
    let stage = Stage::new(&tree.session().await).await;
    let failed = fails_in_recording(&stage, FILES).await;
    let ark = primary(&stage, failed).await.unwrap();
    let next = job(&stage, &[("b", "2")], &["l"]).await;
    assert_eq!(work(&stage, next).await, Ending::Moved(JobState::Recording));
    // It begins with processing: it waits for the newest version, whose job does not wait for it.
    stage.queue.act(failed, &Action::Requeue(Some(JobState::Processing)), "", false).await.unwrap();
    assert!(matches!(work(&stage, failed).await, Ending::GivenBack(why) if why.contains("waits for")));
    assert_eq!(work(&stage, next).await, Ending::Moved(JobState::Notify));
    assert_eq!(work(&stage, failed).await, Ending::Moved(JobState::Recording));
    assert_eq!(work(&stage, failed).await, Ending::Moved(JobState::Notify));
    assert_eq!(marks(&stage, &ark).await, [true, false, false]);
    is_sound(&stage, &ark, 3).await;
    tree.close().await;
}

#[tokio::test]
async fn a_version_that_the_inventory_has_lost_is_recorded_again_with_the_next_one() {
    let tree = Tree::embedded();
    let stage = Stage::new(&tree.session().await).await;
    let first = job(&stage, FILES, &["l"]).await;
    assert_eq!(work(&stage, first).await, Ending::Moved(JobState::Recording));
    let ark = primary(&stage, first).await.unwrap();
    // Its job has gone on, and the inventory is one of before.
    let mut lease = stage.take(first).await;
    conclude(&stage.queue, &mut lease, Ok(ingest_queue::plan::job::Change::default())).await.unwrap();
    let next = job(&stage, &[("b", "2")], &["l"]).await;
    assert_eq!(ingest(&stage, next).await, ark);
    assert_eq!(marks(&stage, &ark).await, [false, false]);
    let title = recorded(&stage, &ark).await.unwrap().versions[0].title.clone();
    assert_eq!(title.as_deref(), Some("A thing"));
    is_sound(&stage, &ark, 2).await;
    tree.close().await;
}
