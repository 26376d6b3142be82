//! An object is named, described and stored; its second version; conflicts; requeues.

use std::sync::Arc;

use ingest_queue::ids::Jid;
use ingest_queue::index::Until;
use ingest_queue::map::JobNode;
use ingest_queue::nodes::{Identifiers, Inventory};
use ingest_queue::plan::job::Action;
use ingest_queue::states::JobState;
use ingest_steps::ark::Ark;
use ingest_steps::manifest;
use ingest_steps::outcome::Failure;
use ingest_steps::payload::PayloadKind;
use ingest_steps::step::{Ending, conclude, process};
use ingest_steps::urls::{Urls, Verdict};

use crate::kit::{OWNER, Stage, settings_in};
use crate::made::{self, download, ingest, is_all, job, job_with, objects, primary, step, work};
use crate::tree::{Tree, on_both_engines, within};

on_both_engines!(
    two_jobs_with_one_local_id_get_one_identifier,
    a_job_that_finds_the_object_locked_is_parked_until_it_is_free,
);

const FILES: &[(&str, &str)] = &[("a.txt", "one"), ("dir/b c.xml", "<two/>")];

#[tokio::test]
async fn an_object_and_its_second_version() {
    let tree = Tree::embedded();
    let stage = Stage::new(&tree.session().await).await;
    let first = job(&stage, FILES, &["shelf 12", "s12"]).await;
    let ark = ingest(&stage, first).await;
    assert!(ark.is_checked() && ark.is_on("ark:/99999/fk4"), "{ark}");
    is_all(&stage, &ark, 1, &["shelf 12", "s12"], "").await;
    // By one local id alone, and with a third one.
    let second = job(&stage, &[("a.txt", "one"), ("new", "x")], &["s12", "box"]).await;
    assert_eq!(ingest(&stage, second).await, ark);
    is_all(&stage, &ark, 2, &["shelf 12", "s12", "box"], "").await;
    let changes = "1 added, 0 replaced, 0 removed, 2 unchanged";
    assert_eq!(stage.status(second).await.message, format!("{ark} version 2 is recorded: {changes}"));
    // By its identifier, in any spelling, as an update.
    let third = job_with(&stage, FILES, &[], |new| {
        new.identifiers.primary_id = Some(ark.to_string().replace("ark:/", "ARK:").replace("fk4", "fk-4"));
        new.configuration.submission_mode = "update".into();
    })
    .await;
    assert_eq!(ingest(&stage, third).await, ark);
    is_all(&stage, &ark, 3, &[], "").await;
    let node: Option<Identifiers> = stage.queue.node(third, JobNode::Identifiers).await.unwrap();
    assert_eq!(node.unwrap().primary_id, Some(ark.to_string()));
    let paths: Vec<_> = made::recorded(&stage, &ark).await.unwrap().versions[1]
        .files
        .iter()
        .map(|file| file.path.clone())
        .collect();
    let system = ["dc.xml", "erc.txt", "ingest.txt", "submission-manifest.txt"];
    let mut expected = vec!["producer/a.txt".to_owned(), "producer/dir/b c.xml".to_owned()];
    expected.push("producer/new".to_owned());
    expected.extend(system.map(|name| format!("system/mrt-{name}")));
    assert_eq!(paths, expected);
    tree.close().await;
}

#[tokio::test]
async fn a_node_that_serves_its_files_signs_the_url_of_each() {
    let tree = Tree::embedded();
    let public = "https://ingest.example.org/".parse::<url::Url>().unwrap();
    let urls = Urls::new(public.clone(), [7; 32], std::time::Duration::from_mins(1));
    let stage = Stage::with(&tree.session().await, |settings| {
        settings.fetch.public_url = Some(public);
        settings.urls = Some(urls.clone());
    })
    .await;
    let jid = job_with(&stage, FILES, &[], |_| {}).await;
    let mut lease = stage.take(jid).await;
    let (bid, attempt) = (lease.job().bid, lease.job().status.attempt);
    step(&stage, &mut lease).await.unwrap();
    let system = stage.services.work.attempt(bid, jid, attempt).system();
    let text = std::fs::read(system.join("mrt-storage-manifest.txt")).unwrap();
    let rows = manifest::Reader::open(text.as_slice(), manifest::Limits::default()).unwrap();
    let rows: Vec<_> = rows.map(Result::unwrap).collect();
    assert_eq!(rows.len(), 6);
    for row in rows {
        let url: url::Url = row.url.parse().unwrap();
        let path = percent_encoding::percent_decode_str(url.path()).decode_utf8().unwrap().into_owned();
        let path = path.strip_prefix("/files/").unwrap();
        let get = |name: &str| url.query_pairs().find(|(key, _)| key == name).unwrap().1.into_owned();
        let verdict = urls.check(path, get("expires").parse().unwrap(), &get("signature"));
        assert_eq!(verdict, Verdict::Good, "{url}");
        assert!(stage.services.work.root().join(path.strip_prefix("work/").unwrap()).is_file(), "{path}");
    }
    tree.close().await;
}

#[tokio::test]
async fn the_system_files_say_what_is_known_and_nothing_secret() {
    let tree = Tree::embedded();
    let public = "https://ingest.example.org/files/".parse::<url::Url>().unwrap();
    let stage = Stage::with(&tree.session().await, |settings| settings.fetch.public_url = Some(public)).await;
    let jid = job_with(&stage, FILES, &["s12"], |new| {
        new.metadata.erc_who = Some("Lindqvist, A.".into());
        new.metadata.other.insert("dc_Subject".into(), "Campanula".into());
    })
    .await;
    let mut lease = stage.take(jid).await;
    let (bid, attempt) = (lease.job().bid, lease.job().status.attempt);
    let answer = step(&stage, &mut lease).await;
    conclude(&stage.queue, &mut lease, answer).await.unwrap();
    let ark = primary(&stage, jid).await.unwrap();
    let dir = stage.services.work.attempt(bid, jid, attempt);
    let read = |name: &str| std::fs::read_to_string(dir.system().join(name)).unwrap();
    assert_eq!(
        read("mrt-erc.txt"),
        format!("erc:\nwho: Lindqvist, A.\nwhat: A thing\nwhen: (:unas)\nwhere: {ark}\nwhere: s12\n")
    );
    assert!(read("mrt-dc.xml").contains("<dc:subject>Campanula</dc:subject>"));
    let ingest = read("mrt-ingest.txt");
    assert!(
        ingest.contains(&format!("job: {jid}\n")) && ingest.contains("submitter: depositor\n"),
        "{ingest}"
    );
    for name in ["mrt-ingest.txt", "mrt-submission-manifest.txt"] {
        assert!(!read(name).contains("hidden"), "{}", read(name));
    }
    let rows = |name: &str| {
        let text = read(name);
        let rows: Vec<_> = manifest::Reader::open(text.as_bytes(), manifest::Limits::default())
            .unwrap()
            .map(Result::unwrap)
            .collect();
        rows
    };
    let came = rows("mrt-submission-manifest.txt");
    assert_eq!((came[1].name.as_str(), came[1].size), ("dir/b c.xml", Some(6)));
    assert!(came[1].url.ends_with("/a%20b.zip#dir%2Fb%20c.xml"), "{}", came[1].url);
    let handed = rows("mrt-storage-manifest.txt");
    assert_eq!(handed.len(), 6);
    let url = format!("https://ingest.example.org/files/work/{bid}/{jid}/");
    assert!(handed.iter().all(|row| row.url.starts_with(&url) && row.digest.is_some()), "{handed:?}");
    assert_eq!(handed[1].mime_type.as_deref(), Some("text/xml"));
    let node: Inventory = stage.queue.node(jid, JobNode::Inventory).await.unwrap().unwrap();
    assert!(node.manifest_url.ends_with("/system/mrt-storage-manifest.txt"), "{node:?}");
    assert_eq!(node.mode, "add");
    assert_eq!(process::Said::read(&node).unwrap().version, 1);
    assert_eq!(stage.status(jid).await.message, format!("{ark} version 1, 6 files"));
    stage.fsck().await;
    tree.close().await;
}

#[tokio::test]
async fn the_depositors_own_manifest_is_kept_as_it_came() {
    let tree = Tree::embedded();
    let stage = Stage::new(&tree.session().await).await;
    let jid = job_with(&stage, FILES, &[], |new| {
        made::payload(PayloadKind::ObjectManifest).write(&mut new.configuration);
    })
    .await;
    // It was not kept: that is downloading's to repair.
    assert_eq!(work(&stage, jid).await, Ending::Moved(JobState::Failed));
    assert!(stage.status(jid).await.message.contains("requeue the job from downloading"));
    let kept = primary(&stage, jid).await.unwrap();
    stage.queue.act(jid, &Action::Requeue(Some(JobState::Downloading)), "", false).await.unwrap();
    download(&stage, jid, FILES).await;
    let job = stage.queue.job(jid).await.unwrap();
    let dir = stage.services.work.attempt(job.bid, jid, job.status.attempt);
    std::fs::write(dir.system().join("mrt-submission-manifest.txt"), "as it came").unwrap();
    let ark = ingest(&stage, jid).await;
    assert_eq!(ark, kept, "a requeue keeps the identifier");
    is_all(&stage, &ark, 1, &[], "").await;
    let object = made::recorded(&stage, &ark).await.unwrap();
    let own = object.versions[0].files.iter().find(|file| file.path.contains("submission")).unwrap();
    assert_eq!(own.size, 10);
    tree.close().await;
}

#[tokio::test]
async fn identifiers_that_do_not_agree_fail_the_job_with_both_named() {
    let tree = Tree::embedded();
    let stage = Stage::new(&tree.session().await).await;
    let (a, b) = (job(&stage, FILES, &["a"]).await, job(&stage, FILES, &["b"]).await);
    let a = ingest(&stage, a).await;
    // The second is stored and not recorded: its reservation knows it.
    assert_eq!(work(&stage, b).await, Ending::Moved(JobState::Recording));
    let b = primary(&stage, b).await.unwrap();
    assert_ne!(a, b);
    let both = job(&stage, FILES, &["new", "a", "b"]).await;
    let given = job_with(&stage, FILES, &["a"], |new| new.identifiers.primary_id = Some(b.to_string())).await;
    for jid in [both, given] {
        assert_eq!(work(&stage, jid).await, Ending::Moved(JobState::Failed));
        let why = stage.status(jid).await.message;
        assert!(why.contains(&a.to_string()) && why.contains(&b.to_string()), "{why}");
    }
    assert_eq!(objects(&stage).await.len(), 2);
    // The failed one is in nobody's way.
    let new = job(&stage, FILES, &["new"]).await;
    let new = ingest(&stage, new).await;
    assert!(new != a && new != b);
    stage.fsck().await;
    tree.close().await;
}

#[tokio::test]
async fn an_update_and_a_replacement_need_an_object() {
    let tree = Tree::embedded();
    let stage = Stage::new(&tree.session().await).await;
    for (primary, mode, why, recoverable) in [
        (None, "update", "neither a primary_id nor a local id names one", true),
        (None, "replace", "neither a primary_id nor a local id names one", true),
        (Some("ark:/99999/fk4nobody"), "update", "no object ark:/99999/fk4nobody can be added to", false),
        (Some("ark:/99999/fk4nobody"), "replace", "no object ark:/99999/fk4nobody can be added to", false),
        (Some("fk4nobody"), "update", "`fk4nobody` is no ARK", false),
        (None, "merge", "the submission mode `merge` is not known; known are add, update, replace", false),
    ] {
        let jid = job_with(&stage, FILES, &["l"], |new| {
            new.identifiers.primary_id = primary.map(str::to_owned);
            new.configuration.submission_mode = mode.into();
        })
        .await;
        assert_eq!(work(&stage, jid).await, Ending::Moved(JobState::Failed));
        let status = stage.status(jid).await;
        assert!(status.message.contains(why), "{status:?}");
        assert_eq!(status.recoverable, recoverable, "{status:?}");
    }
    assert!(objects(&stage).await.is_empty());
    stage.fsck().await;
    tree.close().await;
}

#[tokio::test]
async fn files_that_are_not_here_or_not_what_they_were_fail_the_job() {
    let tree = Tree::embedded();
    let stage = Stage::new(&tree.session().await).await;
    let jid = job(&stage, FILES, &["l"]).await;
    let job = stage.queue.job(jid).await.unwrap();
    let dir = stage.services.work.attempt(job.bid, jid, job.status.attempt);
    std::fs::write(dir.producer().join("a.txt"), "two").unwrap();
    assert_eq!(work(&stage, jid).await, Ending::Moved(JobState::Failed));
    let why = stage.status(jid).await.message;
    assert!(why.contains("producer/a.txt") && why.contains("requeue the job from downloading"), "{why}");
    let ark = primary(&stage, jid).await.unwrap();
    stage.queue.act(jid, &Action::Requeue(None), "", false).await.unwrap();
    std::fs::remove_dir_all(dir.path()).unwrap();
    assert_eq!(work(&stage, jid).await, Ending::Moved(JobState::Failed));
    assert!(stage.status(jid).await.message.contains("requeue the job from downloading"));
    stage.queue.act(jid, &Action::Requeue(Some(JobState::Downloading)), "", false).await.unwrap();
    download(&stage, jid, FILES).await;
    assert_eq!(ingest(&stage, jid).await, ark);
    is_all(&stage, &ark, 1, &["l"], "").await;
    tree.close().await;
}

#[tokio::test]
async fn what_was_stored_before_a_requeue_is_not_stored_again_unless_it_changed() {
    let tree = Tree::embedded();
    let stage = Stage::new(&tree.session().await).await;
    let jid = job(&stage, FILES, &["l"]).await;
    assert_eq!(work(&stage, jid).await, Ending::Moved(JobState::Recording));
    let ark = primary(&stage, jid).await.unwrap();
    let again = async |files: Option<&[(&str, &str)]>| {
        let mut lease = stage.take(jid).await;
        conclude(&stage.queue, &mut lease, Err(Failure::fail("a fault"))).await.unwrap();
        let from = files.map_or(JobState::Processing, |_| JobState::Downloading);
        stage.queue.act(jid, &Action::Requeue(Some(from)), "", false).await.unwrap();
        if let Some(files) = files {
            download(&stage, jid, files).await;
        }
        assert_eq!(work(&stage, jid).await, Ending::Moved(JobState::Recording));
        stage.status(jid).await.message
    };
    assert_eq!(again(None).await, format!("{ark} version 1, 6 files"));
    assert_eq!(again(Some(FILES)).await, format!("{ark} version 1, 6 files"));
    assert_eq!(again(Some(&[("a.txt", "repaired")])).await, format!("{ark} version 2, 5 files"));
    stage.fsck().await;
    tree.close().await;
}

/// Two nodes, one storage and one inventory.
pub(crate) async fn two_nodes(tree: &Tree) -> (Stage, Stage) {
    let here = Stage::new(&tree.session().await).await;
    let settings = settings_in(here.dir());
    let mut there =
        Stage::in_dir(&tree.session().await, tempfile::tempdir().unwrap(), settings, "node-2").await;
    there.services.storages = here.services.storages.clone();
    there.services.inventory.clone_from(&here.services.inventory);
    (here, there)
}

/// Works on both until both have come so far, parking whoever has to wait as a node does.
async fn both_come_to(stages: [&Stage; 2], jids: [Jid; 2], to: JobState) {
    let barrier = Arc::new(tokio::sync::Barrier::new(2));
    let side = async |stage: &Stage, jid| {
        let mut lease = stage.take(jid).await;
        barrier.wait().await;
        let answer = step(stage, &mut lease).await;
        let is_blocked = matches!(answer, Err(Failure::Blocked { .. }));
        let ending = conclude(&stage.queue, &mut lease, answer).await.unwrap();
        assert!(is_blocked || matches!(ending, Ending::Moved(_)), "{ending:?}");
    };
    within(Box::pin(async { tokio::join!(side(stages[0], jids[0]), side(stages[1], jids[1])) })).await;
    // One after the other, in whichever order they may.
    for _ in 0..4 {
        for (stage, jid) in stages.iter().zip(jids) {
            if stage.status(jid).await.status != to {
                work(stage, jid).await;
            }
        }
    }
    for jid in jids {
        assert_eq!(stages[0].status(jid).await.status, to, "{:?}", stages[0].status(jid).await);
    }
}

async fn two_jobs_with_one_local_id_get_one_identifier(tree: &Tree) {
    let (here, there) = two_nodes(tree).await;
    for round in 0..5 {
        let id = format!("id {round}");
        let one = job(&here, &[("a", &id)], &[&id, "x"][..1]).await;
        let two = job(&here, &[("b", &id)], &[&id]).await;
        both_come_to([&here, &there], [one, two], JobState::Notify).await;
        let ark = primary(&here, one).await.unwrap();
        assert_eq!(primary(&here, two).await, Some(ark.clone()));
        assert_eq!(objects(&here).await.len(), round + 1);
        let versions = made::recorded(&here, &ark).await.unwrap().versions;
        assert_eq!(versions.iter().map(|version| version.superseded).collect::<Vec<_>>(), [false, false]);
        assert_eq!(here.queue.local_id(OWNER, &id).await.unwrap(), None);
    }
    here.fsck().await;
}

async fn a_job_that_finds_the_object_locked_is_parked_until_it_is_free(tree: &Tree) {
    let (here, there) = two_nodes(tree).await;
    here.profile(|text| text.replace("[notify]", "ark_prefixes = [\"ark:/99999/fk4\"]\n[notify]"));
    let ark: Ark = "ark:/99999/fk4given".parse().unwrap();
    let given =
        |new: &mut ingest_queue::plan::job::NewJob| new.identifiers.primary_id = Some(ark.to_string());
    let (one, two) = (job_with(&here, FILES, &[], given).await, job_with(&here, FILES, &[], given).await);
    let mut lease = there.take(two).await;
    let side = ingest_queue::names::Side::Storage;
    there.queue.lock_object(&mut lease, side, &ark.to_string()).await.unwrap();
    let mut waiting = here.take(one).await;
    let answer = within(step(&here, &mut waiting)).await;
    let until = Until::Gone(side.path(&ark.to_string()));
    assert!(
        matches!(&answer, Err(Failure::Blocked { why, until: found }) if why.contains("node-2") && *found == until),
        "{answer:?}"
    );
    conclude(&here.queue, &mut waiting, answer).await.unwrap();
    assert!(here.status(one).await.message.contains("waits for another job"), "{:?}", here.status(one).await);
    assert_eq!(objects(&here).await.len(), 0, "it has nothing to do but to wait");
    here.fsck().await;
    there.queue.unlock_object(&mut lease, side, &ark.to_string()).await.unwrap();
    assert_eq!(work(&here, one).await, Ending::Moved(JobState::Recording));
    assert_eq!(objects(&here).await.len(), 1);
    here.fsck().await;
}
