//! What becomes of a submission: jobs, a hold, or a reason.

use ingest_queue::batches::BatchLease;
use ingest_queue::ids::{Bid, Jid};
use ingest_queue::map;
use ingest_queue::nodes::{Configuration, Identifiers, Metadata, Submission};
use ingest_queue::plan::batch::BatchAction;
use ingest_queue::states::BatchState;
use ingest_steps::manifest::Kind;
use ingest_steps::outcome::{Cancel, Failure, Progress};
use ingest_steps::step::expand::{self, Expansion};
use serde_json::json;

use crate::kit::{FileServer, PROFILE, Stage, WHO, digest, sha256};
use crate::tree::Tree;

pub(crate) fn submission(url: &str) -> Submission {
    Submission {
        profile_name: PROFILE.into(),
        submitter: "depositor".into(),
        payload_url: Some(url.to_owned()),
        ..Submission::default()
    }
}

pub(crate) fn manifest(kind: Kind, rows: impl IntoIterator<Item = String>) -> String {
    let rows: String = rows.into_iter().map(|row| row + "\n").collect();
    format!("#%checkm_0.7\n#%profile | {}\n{rows}#%eof\n", kind.profile())
}

pub(crate) async fn pending(stage: &Stage, submission: &Submission) -> (Bid, BatchLease) {
    let uuid = uuid::Uuid::new_v4().to_string();
    let bid = stage.queue.create_batch(&uuid, submission).await.unwrap().bid;
    (bid, stage.queue.acquire_batch(bid, WHO).await.unwrap())
}

/// Expands a submission; what became of it, and its jobs.
async fn expanded(stage: &Stage, submission: &Submission) -> (Bid, Expansion) {
    let (bid, mut lease) = pending(stage, submission).await;
    let progress = Progress::default();
    let answer =
        expand::run(&stage.queue, &mut lease, &stage.services, &progress, &Cancel::new()).await.unwrap();
    if let Expansion::Done { jobs } = answer {
        assert_eq!((progress.done().0, progress.all().0), (jobs, jobs));
        stage.queue.release_batch(&mut lease).await.unwrap();
    }
    assert!(!stage.services.work.batch(bid).exists(), "nothing is left on the disk");
    stage.fsck().await;
    (bid, answer)
}

pub(crate) async fn jobs_of(stage: &Stage, bid: Bid) -> Vec<Jid> {
    let list = map::batch_list(bid, ingest_queue::states::BatchList::Processing);
    let (names, _) = stage.queue.session().children(list).await.unwrap();
    let mut jids: Vec<Jid> = names.iter().map(|name| name.parse().unwrap()).collect();
    jids.sort_unstable();
    jids
}

async fn job(stage: &Stage, jid: Jid) -> (Configuration, Identifiers, Metadata) {
    let identifiers = stage.queue.node(jid, map::JobNode::Identifiers).await.unwrap().unwrap_or_default();
    let metadata = stage.queue.node(jid, map::JobNode::Metadata).await.unwrap().unwrap_or_default();
    (stage.queue.configuration(jid).await.unwrap(), identifiers, metadata)
}

async fn why_failed(stage: &Stage, submission: &Submission) -> String {
    let (bid, answer) = expanded(stage, submission).await;
    let Expansion::Failed(why) = answer else { panic!("{answer:?}") };
    let batch = stage.queue.batch(bid).await.unwrap();
    assert_eq!((batch.state(), &batch.status.message), (BatchState::Failed, &why));
    assert!(jobs_of(stage, bid).await.is_empty());
    assert!(stage.queue.with_report_in_outbox().await.unwrap().contains(&bid), "its report is owed");
    why
}

#[tokio::test]
async fn a_batch_manifest_of_each_kind_becomes_a_job_for_each_row() {
    let tree = Tree::embedded();
    let stage = Stage::with(&tree.session().await, |settings| settings.expanding.rows_at_once = 3).await;
    stage.profile(|text| text.replace("owner =", "priority = \"new\"\nowner ="));
    let server = FileServer::start().await;
    for (kind, payload_type) in [
        (Kind::Batch, "object_manifest"),
        (Kind::ContainerBatch, "container"),
        (Kind::SingleFileBatch, "file"),
    ] {
        let row = |n: usize| {
            let digest = digest(ingest_steps::digest::Algorithm::Md5, &[0]);
            format!(
                "https://example.org/{n}.x | MD5 | {} | {n} | | n{n}.x | ark:/99999/fk4{n} | a{n};b;a{n} | who | what {n} | 2001 | someone",
                digest.hex().to_uppercase()
            )
        };
        let text = manifest(kind, (0..8).map(row));
        let url = server.put("/m.txt", text);
        for given in [None, Some(kind)] {
            let given = given.map(|kind| ingest_steps::payload::PayloadKind::from(kind).name().to_owned());
            let submission = Submission { payload_type: given, ..submission(url.as_str()) };
            let (bid, answer) = expanded(&stage, &submission).await;
            assert_eq!(answer, Expansion::Done { jobs: 8 });
            let jids = jobs_of(&stage, bid).await;
            assert_eq!(jids.len(), 8);
            for (n, jid) in jids.into_iter().enumerate() {
                let (configuration, identifiers, metadata) = job(&stage, jid).await;
                assert_eq!(configuration.payload_url, format!("https://example.org/{n}.x"));
                assert_eq!(
                    (configuration.payload_type.as_str(), configuration.collection()),
                    (payload_type, "tests")
                );
                assert_eq!(configuration.other["payload_filename"], json!(format!("n{n}.x")));
                assert_eq!(configuration.other["digest_type"], json!("md5"));
                assert_eq!(
                    (configuration.submission_mode.as_str(), configuration.response_type.as_str()),
                    ("add", "json")
                );
                assert_eq!(identifiers.local_id, [format!("a{n}"), "b".into()]);
                assert_eq!(configuration.local_id, identifiers.local_id);
                assert_eq!(identifiers.primary_id, Some(format!("ark:/99999/fk4{n}")));
                assert_eq!(metadata.erc_what, Some(format!("what {n}")));
                assert_eq!(metadata.other["dc_contributor"], json!("someone"));
                let found = stage.queue.job(jid).await.unwrap();
                assert_eq!(found.priority.number(), 20);
            }
        }
    }
    tree.close().await;
}

#[tokio::test]
async fn a_payload_that_is_one_object_is_one_job_with_what_the_submission_says() {
    let tree = Tree::embedded();
    let stage = Stage::new(&tree.session().await).await;
    let server = FileServer::start().await;
    let object = manifest(Kind::Object, ["https://example.org/a | | | | | a".to_owned()]);
    let urls = [
        (server.put("/a%20b.zip", "PK"), "container", "a b.zip"),
        (server.put("/notes", "text"), "file", "notes"),
        (server.put("/object.checkm", object), "object_manifest", "object.checkm"),
    ];
    for (url, kind, name) in urls {
        let mut submission = Submission {
            erc_who: Some("Ada".into()),
            erc_what: Some("A thing".into()),
            erc_where: Some("here".into()),
            submission_mode: Some("Update".into()),
            response_type: Some("xml".into()),
            ..submission(url.as_str())
        };
        submission.other.insert("localIdentifier".into(), "a; b".into());
        submission.other.insert("primaryIdentifier".into(), "ark:/99999/fk4x".into());
        submission.other.insert("digestType".into(), "SHA256".into());
        submission.other.insert("digestValue".into(), sha256(b"x").hex().into());
        submission.other.insert("size".into(), "12".into());
        submission.other.insert("DC.subject".into(), "bugs".into());
        let (bid, answer) = expanded(&stage, &submission).await;
        assert_eq!(answer, Expansion::Done { jobs: 1 });
        let (configuration, identifiers, metadata) = job(&stage, jobs_of(&stage, bid).await[0]).await;
        assert_eq!(
            (configuration.payload_type.as_str(), configuration.payload_url.as_str()),
            (kind, url.as_str())
        );
        assert_eq!(configuration.other["payload_filename"], json!(name));
        assert_eq!(configuration.other["payload_size"], json!(12));
        assert_eq!(configuration.other["digest_value"], json!(sha256(b"x").hex()));
        assert_eq!(
            (configuration.submission_mode.as_str(), configuration.response_type.as_str()),
            ("update", "xml")
        );
        assert_eq!(
            (identifiers.local_id, identifiers.primary_id),
            (vec!["a".into(), "b".into()], Some("ark:/99999/fk4x".into()))
        );
        assert_eq!((metadata.erc_who.as_deref(), metadata.erc_where.as_deref()), (Some("Ada"), Some("here")));
        assert_eq!(metadata.other["dc_subject"], json!("bugs"));
    }
    tree.close().await;
}

#[tokio::test]
async fn rows_inside_a_submission_have_its_kind_or_that_of_their_extension() {
    let tree = Tree::embedded();
    let stage = Stage::new(&tree.session().await).await;
    let rows = json!([
        "https://example.org/a.checkm one ark:/99999/fk4a",
        {"url": "https://example.org/b.tar.gz?x=y.checkm", "local_id": ["two"]},
        "file:///uploads/c",
    ]);
    let base = Submission { payload_url: None, manifest: Some(rows), ..submission("") };
    for (given, expected) in [
        (None, ["object_manifest", "container", "file"]),
        (Some("container-batch-manifest"), ["container"; 3]),
        (Some("file"), ["file"; 3]),
    ] {
        let submission = Submission { payload_type: given.map(str::to_owned), ..base.clone() };
        let (bid, answer) = expanded(&stage, &submission).await;
        assert_eq!(answer, Expansion::Done { jobs: 3 });
        let mut kinds = Vec::new();
        for jid in jobs_of(&stage, bid).await {
            kinds.push(job(&stage, jid).await.0.payload_type);
        }
        assert_eq!(kinds, expected);
    }
    tree.close().await;
}

#[tokio::test]
async fn what_cannot_be_expanded_fails_with_every_reason() {
    let tree = Tree::embedded();
    let stage = Stage::with(&tree.session().await, |settings| {
        settings.fetch.retries = 1;
        settings.expanding.max_manifest = 2000;
    })
    .await;
    stage.profile(|text| {
        text.replace("owner =", "allowed_hosts = [\"127.0.0.1\", \"example.org\"]\nowner =")
            + "[limits]\nfile_bytes = 10\n"
    });
    let server = FileServer::start().await;
    let rows = [
        "https://elsewhere.org/a | | | | | a",
        "ftp://example.org/b | | | | | b",
        "https://example.org/c | md5 | 00 | | | c",
        "https://example.org/d | | | 11 | | d",
        "https://example.org/e | | | 10 | | e",
    ];
    let url = server.put("/m", manifest(Kind::SingleFileBatch, rows.map(str::to_owned)));
    let why = why_failed(&stage, &submission(url.as_str())).await;
    let lines: Vec<_> = why.lines().collect();
    assert_eq!(lines.len(), 4, "{why}");
    for (line, part) in lines.iter().zip([
        "line 3: https://elsewhere.org/a: the profile test_content allows no payloads from elsewhere.org",
        "line 4: ftp://example.org/b: `ftp` is not fetched",
        "line 5, column 31: ",
        "line 6: https://example.org/d: 11 bytes, and the profile test_content takes at most 10",
    ]) {
        assert!(line.starts_with(part), "{line}");
    }
    let cut = manifest(Kind::Batch, ["https://example.org/a | | | | | a".into()]).replace("#%eof\n", "");
    let good = manifest(Kind::Batch, ["https://example.org/a | | | | | a".into()]);
    let long = manifest(Kind::Batch, (0..100).map(|n| format!("https://example.org/{n} | | | | | {n}")));
    let batch = Some("batch_manifest".to_owned());
    let as_batch = |url: url::Url| Submission { payload_type: batch.clone(), ..submission(url.as_str()) };
    let mut digested = as_batch(server.put("/good", good.clone()));
    digested.other.insert("digest_type".into(), "md5".into());
    digested.other.insert("digest_value".into(), "0".repeat(32).into());
    let cases = [
        (as_batch(server.put("/cut", cut)), "it was cut off"),
        (as_batch(server.put("/empty", manifest(Kind::Batch, []))), "has no rows"),
        (as_batch(server.put("/other", "no manifest")), "line 1"),
        (as_batch(server.put("/long", long)), "(`expanding.max_manifest`)"),
        (digested, "was announced"),
        (
            Submission { payload_type: Some("container_batch".into()), ..as_batch(server.url("/good")) },
            "says that it is a batch_manifest",
        ),
        (as_batch(server.url("/missing")), "404"),
        (as_batch("http://127.0.0.1:1/x".parse().unwrap()), "127.0.0.1:1"),
        (as_batch("https://elsewhere.org/m".parse().unwrap()), "allows no payloads from elsewhere.org"),
        (submission("gopher://example.org/m"), "`gopher` is not fetched"),
        (submission(""), "there is no payload"),
        (
            Submission { payload_type: Some("zip".into()), ..submission("https://example.org/a") },
            "`zip` is no type of payload",
        ),
        (
            Submission {
                submission_mode: Some("merge".into()),
                response_type: Some("turtle".into()),
                ..submission("https://example.org/a")
            },
            "`merge` is not known; known are add, update, replace\nthe response type `turtle`",
        ),
        (
            Submission { manifest: Some(json!(["x y z w", "https://elsewhere.org/"])), ..submission("") },
            "manifest[0]",
        ),
    ];
    for (submission, part) in cases {
        let why = why_failed(&stage, &submission).await;
        assert!(why.contains(part), "{part}: {why}");
    }
    tree.close().await;
}

#[tokio::test]
async fn a_manifest_that_does_not_say_what_its_rows_are_is_refused_and_not_taken_for_a_file() {
    let tree = Tree::embedded();
    let stage = Stage::new(&tree.session().await).await;
    let server = FileServer::start().await;
    let row = "https://example.org/a | | | | | a\n#%eof\n";
    let cases = [
        ("/a.checkm", format!("#%checkm_0.7\n{row}"), "it has no `#%profile`"),
        ("/a.zip", format!("\u{feff}#%CheckM_0.7\r\n{row}"), "it has no `#%profile`"),
        (
            "/notes.txt",
            format!("\n#%checkm_0.7\n#%profile | http://example.org/x\n{row}"),
            "`http://example.org/x`",
        ),
        (
            "/late",
            format!("#%checkm_0.7\n{}#%profile | {}\n{row}", "# x\n".repeat(2000), Kind::Batch.profile()),
            "4096",
        ),
    ];
    for (path, text, part) in cases {
        let url = server.put(path, text);
        let why = why_failed(&stage, &submission(url.as_str())).await;
        assert!(why.starts_with(url.as_str()) && why.contains(part), "{why}");
        assert!(
            why.contains("it is a manifest and no plain file") && why.contains("submit it with its type"),
            "{why}"
        );
        assert_eq!(server.asked(path).len(), 1, "it is looked at once");
    }
    tree.close().await;
}

#[tokio::test]
async fn values_that_a_manifest_has_too_many_are_refused_or_noted_for_the_report() {
    let tree = Tree::embedded();
    let stage = Stage::new(&tree.session().await).await;
    let server = FileServer::start().await;
    let fields = "#%fields | nfo:fileUrl | nfo:hashAlgorithm | nfo:hashValue | nfo:fileSize | nfo:fileLastModified | \
        nfo:fileName | mrt:unheard\nhttps";
    let text = |row: &str| manifest(Kind::SingleFileBatch, [row.to_owned()]).replace("https", fields);
    let url = server.put("/surplus", text("https://example.org/a | | | | | a | | lost"));
    let why = why_failed(&stage, &submission(url.as_str())).await;
    assert!(why.starts_with("line 4, column 39: the row has 8 columns, and `#%fields` declares 7"), "{why}");
    let url = server.put("/unheard", text("https://example.org/a | | | | | a | x"));
    let (bid, answer) = expanded(&stage, &submission(url.as_str())).await;
    assert_eq!(answer, Expansion::Done { jobs: 1 });
    let noted = stage.queue.batch(bid).await.unwrap().status.other["not_kept"].clone();
    assert_eq!(
        noted,
        json!(["column 7 of the manifest (`mrt:unheard`): 1 value is not kept: no such column is known"])
    );
    tree.close().await;
}

#[tokio::test]
async fn a_held_profile_waits_once_for_a_person() {
    let tree = Tree::embedded();
    let stage = Stage::new(&tree.session().await).await;
    stage.profile(|text| text.replace("owner =", "hold = true\nowner ="));
    let submission = Submission { payload_type: Some("file".into()), ..submission("https://example.org/a") };
    let (bid, answer) = expanded(&stage, &submission).await;
    assert!(matches!(&answer, Expansion::Held(why) if why.contains("test_content")), "{answer:?}");
    assert_eq!(stage.queue.batch(bid).await.unwrap().state(), BatchState::Held);
    stage.queue.act_on_batch(bid, BatchAction::Release, "looked at", false).await.unwrap();
    let mut lease = stage.queue.acquire_batch(bid, WHO).await.unwrap();
    let (progress, cancel) = (Progress::default(), Cancel::new());
    let answer = expand::run(&stage.queue, &mut lease, &stage.services, &progress, &cancel).await.unwrap();
    assert_eq!(answer, Expansion::Done { jobs: 1 });
    stage.fsck().await;
    tree.close().await;
}

#[tokio::test]
async fn a_held_collection_holds_its_batches_under_either_name() {
    let tree = Tree::embedded();
    let stage = Stage::new(&tree.session().await).await;
    stage.queue.hold_collection("tests", "an operator", "moving disks").await.unwrap();
    let submission = Submission { payload_type: Some("file".into()), ..submission("https://example.org/a") };
    for collection in [None, Some("tests".to_owned())] {
        let submission = Submission { collection, ..submission.clone() };
        let (bid, answer) = expanded(&stage, &submission).await;
        assert!(matches!(&answer, Expansion::Held(why) if why.contains("moving disks")), "{answer:?}");
        assert_eq!(stage.queue.batch(bid).await.unwrap().state(), BatchState::Held);
    }
    tree.close().await;
}

#[tokio::test]
async fn an_expansion_goes_on_from_what_is_frozen() {
    let tree = Tree::embedded();
    let stage = Stage::with(&tree.session().await, |settings| settings.expanding.rows_at_once = 10).await;
    let server = FileServer::start().await;
    let rows = |n| format!("https://example.org/{n} | | | | | n{n}");
    let text = manifest(Kind::SingleFileBatch, (0..35).map(rows));
    let url = server.put("/m.txt", text.clone());
    let submission = submission(url.as_str());
    let (bid, mut lease) = pending(&stage, &submission).await;
    let (progress, cancel) = (Progress::default(), Cancel::new());
    // Stopped before it began: nothing is frozen.
    cancel.cancel();
    let stopped = expand::run(&stage.queue, &mut lease, &stage.services, &progress, &cancel).await;
    assert_eq!(stopped, Err(Failure::Cancelled));
    assert_eq!(lease.batch().state(), BatchState::Pending);
    // Another node froze it, made seven jobs and died.
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("m");
    std::fs::write(&path, &text).unwrap();
    stage.queue.begin_expansion_from(&mut lease, &path, 35).await.unwrap();
    let new = |n: usize| {
        let mut job = crate::kit::new_job(&ingest_steps::step::Payload {
            kind: ingest_steps::payload::PayloadKind::File,
            url: format!("https://example.org/{n}").parse().unwrap(),
            name: format!("n{n}"),
            size: None,
            digest: None,
            mime: None,
        });
        job.configuration.collection = Some("tests".into());
        job
    };
    stage.queue.expand(&mut lease, 0, &(0..7).map(new).collect::<Vec<_>>()).await.unwrap();
    let asked = server.asked("/m.txt").len();
    server.put("/m.txt", "something else");
    let cancel = Cancel::new();
    let answer = expand::run(&stage.queue, &mut lease, &stage.services, &progress, &cancel).await.unwrap();
    assert_eq!(answer, Expansion::Done { jobs: 35 });
    assert_eq!(server.asked("/m.txt").len(), asked, "the URL is not read again");
    let mut urls = Vec::new();
    for jid in jobs_of(&stage, bid).await {
        urls.push(job(&stage, jid).await.0.payload_url);
    }
    assert_eq!(urls, (0..35).map(|n| format!("https://example.org/{n}")).collect::<Vec<_>>());
    // Once more is the same answer, and no job.
    let again = expand::run(&stage.queue, &mut lease, &stage.services, &progress, &cancel).await.unwrap();
    assert_eq!((again, jobs_of(&stage, bid).await.len()), (Expansion::Done { jobs: 35 }, 35));
    assert!(!stage.services.work.batch(bid).exists());
    stage.fsck().await;
    tree.close().await;
}

#[tokio::test]
async fn a_profile_or_a_disk_that_is_missing_here_leaves_the_batch_as_it_is() {
    let tree = Tree::embedded();
    let stage = Stage::new(&tree.session().await).await;
    let server = FileServer::start().await;
    let good = manifest(Kind::Batch, ["https://example.org/a | | | | | a".into()]);
    let url = server.put("/m", good);
    let (progress, cancel) = (Progress::default(), Cancel::new());
    let unknown = Submission { profile_name: "nobodys".into(), ..submission(url.as_str()) };
    let (bid, mut lease) = pending(&stage, &unknown).await;
    let failure =
        expand::run(&stage.queue, &mut lease, &stage.services, &progress, &cancel).await.unwrap_err();
    assert!(matches!(&failure, Failure::Later(why) if why.contains("no profile `nobodys`")), "{failure:?}");
    let batch = stage.queue.batch(bid).await.unwrap();
    assert_eq!((batch.state(), batch.status.message), (BatchState::Pending, failure.to_string()));
    // A file stands where the directory of the batch should be.
    let (bid, mut lease) = pending(&stage, &submission(url.as_str())).await;
    std::fs::write(stage.services.work.batch(bid), "").unwrap();
    let failure =
        expand::run(&stage.queue, &mut lease, &stage.services, &progress, &cancel).await.unwrap_err();
    assert!(matches!(&failure, Failure::Later(_)), "{failure:?}");
    assert_eq!(stage.queue.batch(bid).await.unwrap().state(), BatchState::Pending);
    std::fs::remove_file(stage.services.work.batch(bid)).unwrap();
    let answer = expand::run(&stage.queue, &mut lease, &stage.services, &progress, &cancel).await.unwrap();
    assert_eq!(answer, Expansion::Done { jobs: 1 });
    stage.fsck().await;
    tree.close().await;
}

#[tokio::test]
async fn a_batch_is_expanded_on_a_server() {
    let tree = Tree::zookeeper().await;
    let stage = Stage::new(&tree.session().await).await;
    let server = FileServer::start().await;
    let rows = (0..300).map(|n| format!("https://example.org/{n} | | | | | n{n}"));
    let url = server.put("/m", manifest(Kind::ContainerBatch, rows));
    let (bid, answer) = expanded(&stage, &submission(url.as_str())).await;
    assert_eq!((answer, jobs_of(&stage, bid).await.len()), (Expansion::Done { jobs: 300 }, 300));
    tree.close().await;
}

#[tokio::test]
async fn a_job_ends_with_the_profile_that_it_began_with() {
    let tree = Tree::embedded();
    let stage = Stage::with(&tree.session().await, |_| {}).await;
    let server = FileServer::start().await;
    let url = server.put("/one.txt", "one");
    let (bid, answer) = expanded(&stage, &submission(url.as_str())).await;
    assert_eq!(answer, Expansion::Done { jobs: 1 });
    let (configuration, ..) = job(&stage, jobs_of(&stage, bid).await[0]).await;
    let before = stage.services.profile(&configuration.profile_name).unwrap();
    // Changed, and then gone: neither is for this job.
    stage.profile(|text| text.replace("owner =", "priority = \"slow\"\nowner ="));
    let now = stage.services.profile(&configuration.profile_name).unwrap();
    assert_ne!(now.priority, before.priority);
    let kept = stage.services.profile_of(&stage.queue, &configuration).await.unwrap();
    assert_eq!(*kept, before);
    *stage.services.profiles.write() = std::sync::Arc::default();
    let kept = stage.services.profile_of(&stage.queue, &configuration).await.unwrap();
    assert_eq!(*kept, before);
    // Jobs from before there were frozen profiles go by the profile of now.
    stage.profile(|text| text.replace("owner =", "priority = \"slow\"\nowner ="));
    let old = Configuration { other: ingest_queue::nodes::Other::new(), ..configuration };
    assert_eq!(stage.services.profile_of(&stage.queue, &old).await.unwrap().priority, now.priority);
}
