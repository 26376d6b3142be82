//! What is found out of a payload while its job is pending.

use ingest_queue::ids::Jid;
use ingest_queue::states::JobState;
use ingest_steps::digest::Digest;
use ingest_steps::manifest::Kind;
use ingest_steps::outcome::{Cancel, Failure, Progress};
use ingest_steps::payload::PayloadKind;
use ingest_steps::step::{Ending, Payload, Task, check, conclude};
use url::Url;

use crate::expand::manifest;
use crate::kit::{FileServer, Stage, sha256};
use crate::tree::Tree;

fn payload(kind: PayloadKind, url: Url, size: Option<u64>, digest: Option<Digest>) -> Payload {
    Payload { kind, url, name: "a".into(), size, digest, mime: None }
}

/// Checks a new job, and what becomes of it; the reason if it failed.
async fn checked(stage: &Stage, payload: &Payload) -> (Jid, Option<Failure>) {
    let jid = stage.job(payload).await;
    let mut lease = stage.take(jid).await;
    let answer = {
        let mut task = stage.task(&mut lease).await;
        check::run(&mut task, &stage.services).await
    };
    let failure = answer.clone().err();
    let ending = conclude(&stage.queue, &mut lease, answer).await.unwrap();
    let expected = if failure.is_some() { JobState::Failed } else { JobState::Estimating };
    assert_eq!(ending, Ending::Moved(expected));
    let hopeless = matches!(failure, Some(Failure::Hopeless(_)));
    assert_eq!(stage.status(jid).await.recoverable, !hopeless);
    stage.fsck().await;
    (jid, failure)
}

#[tokio::test]
async fn an_object_manifest_is_read_whole() {
    let tree = Tree::embedded();
    let stage = Stage::with(&tree.session().await, |settings| settings.expanding.max_manifest = 1000).await;
    stage.profile(|text| {
        let hosts = "allowed_hosts = [\"127.0.0.1\", \"example.org\"]\nowner =";
        text.replace("owner =", hosts) + "[limits]\nfiles = 3\nfile_bytes = 100\nobject_bytes = 150\n"
    });
    let server = FileServer::start().await;
    let of = |rows: &[&str]| manifest(Kind::Object, rows.iter().map(|row| (*row).to_owned()));
    let good = of(&["https://example.org/a | | | 100 | | a", "https://example.org/b | | | 50 | | b"]);
    let put = |text: &str| server.put("/o.checkm", text.as_bytes().to_vec());
    let object = PayloadKind::ObjectManifest;
    let (size, digest) = (good.len() as u64, sha256(good.as_bytes()));
    let fine = payload(object, put(&good), Some(size), Some(digest.clone()));
    assert_eq!(checked(&stage, &fine).await.1, None);
    let bare = payload(object, put(&good), None, None);
    assert_eq!(checked(&stage, &bare).await.1, None);
    let twice = of(&[
        "https://example.org/a | | | | | a",
        "https://elsewhere.org/b | | | 101 | | b",
        "https://example.org/a | | | | | a",
        "| | | | | c",
    ]);
    let batch = manifest(Kind::Batch, ["https://example.org/a | | | | | a".into()]);
    let four = of(&[
        "https://example.org/a | | | 90 | | a",
        "https://example.org/b | | | 90 | | b",
        "https://example.org/c | | | | | c",
        "https://example.org/d | | | | | d",
    ]);
    for (text, size, digest, parts) in [
        (&good, Some(size + 1), None, vec!["bytes were announced"]),
        (&good, None, Some(sha256(b"other")), vec!["was announced, and it is sha-256"]),
        (
            &twice,
            None,
            None,
            vec![
                "line 4: https://elsewhere.org/b: the profile",
                "line 4: 101 bytes",
                "line 5, column",
                "line 6, column",
            ],
        ),
        (&good.replace("#%eof\n", ""), None, None, vec!["it was cut off"]),
        (&batch, None, None, vec!["it is a mrt-batch-manifest"]),
        (
            &four,
            None,
            None,
            vec!["4 files, and the profile test_content takes at most 3", "180 bytes, and the profile"],
        ),
    ] {
        let (_, failure) = checked(&stage, &payload(object, put(text), size, digest)).await;
        let Some(Failure::Hopeless(why)) = &failure else { panic!("{failure:?}") };
        for part in parts {
            assert!(why.contains(part), "{part}: {why}");
        }
    }
    let long = of(&["https://example.org/a | | | | | a"]) + &"# remark\n".repeat(200);
    let (_, failure) = checked(&stage, &payload(object, put(&long), None, None)).await;
    assert!(
        matches!(&failure, Some(Failure::Hopeless(why)) if why.contains("expanding.max_manifest")),
        "{failure:?}"
    );
    // What cannot be had now is not wrong: it goes on, and fails where it can be requeued.
    let (jid, failure) = checked(&stage, &payload(object, server.url("/none"), None, None)).await;
    assert_eq!(failure, None);
    let message = stage.status(jid).await.message;
    assert!(message.contains("could not be checked") && message.contains("404"), "{message}");
    let left = crate::kit::below(stage.services.work.root());
    assert!(left.iter().all(|(name, _)| !name.contains("manifest")), "{left:?}");
    tree.close().await;
}

#[tokio::test]
async fn an_upload_is_compared_with_what_was_announced_and_stays_where_it_is() {
    let tree = Tree::embedded();
    let roots = tempfile::tempdir().unwrap();
    let root = roots.path().to_owned();
    let stage = Stage::with(&tree.session().await, |settings| settings.fetch.file_roots = vec![root]).await;
    let path = roots.path().join("a.zip");
    std::fs::write(&path, "content").unwrap();
    let url = Url::from_file_path(&path).unwrap();
    let of = |kind, size, digest| payload(kind, url.clone(), size, digest);
    let right = of(PayloadKind::Container, Some(7), Some(sha256(b"content")));
    assert_eq!(checked(&stage, &right).await.1, None);
    assert_eq!(std::fs::read(&path).unwrap(), b"content");
    for wrong in [of(PayloadKind::File, Some(8), None), of(PayloadKind::Container, None, Some(sha256(b"x")))]
    {
        let failure = checked(&stage, &wrong).await.1;
        assert!(matches!(failure, Some(Failure::Hopeless(_))), "{failure:?}");
    }
    // A manifest is no file, whatever was said of it; what it says is not looked at.
    std::fs::write(&path, "#%checkm_0.7\n").unwrap();
    for size in [Some(13), None] {
        let failure = checked(&stage, &of(PayloadKind::File, size, None)).await.1;
        assert!(
            matches!(&failure, Some(Failure::Hopeless(why)) if why.contains("no plain file")),
            "{failure:?}"
        );
    }
    let jid = stage.job(&right).await;
    let mut lease = stage.take(jid).await;
    let (progress, cancel) = (Progress::default(), Cancel::new());
    let mut task = Task::open(&stage.queue, &mut lease, &stage.services, &progress, &cancel).await.unwrap();
    cancel.cancel();
    assert_eq!(check::run(&mut task, &stage.services).await, Err(Failure::Cancelled));
    tree.close().await;
}

#[tokio::test]
async fn what_is_checked_when_it_is_downloaded_passes_without_a_request() {
    let tree = Tree::embedded();
    let stage = Stage::new(&tree.session().await).await;
    let server = FileServer::start().await;
    let file = payload(PayloadKind::File, server.url("/a"), Some(1), Some(sha256(b"x")));
    assert_eq!(checked(&stage, &file).await.1, None);
    assert!(server.asked("/a").is_empty());
    let needed =
        |payload: &Payload| check::is_needed(&crate::kit::new_job(payload).configuration, &stage.services);
    assert!(!needed(&file));
    assert!(needed(&payload(PayloadKind::ObjectManifest, server.url("/a"), None, None)));
    assert!(needed(&payload(PayloadKind::File, "file:///a".parse().unwrap(), Some(1), None)));
    assert!(check::is_needed(&ingest_queue::nodes::Configuration::default(), &stage.services));
    tree.close().await;
}
