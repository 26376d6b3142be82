//! Files of a job, of every kind of payload, come here whole or not at all.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use ingest_queue::ids::{Bid, Jid};
use ingest_queue::map::JobNode;
use ingest_queue::nodes::Work;
use ingest_queue::plan::job::Change;
use ingest_queue::states::JobState;
use ingest_steps::digest::{Algorithm, Digest};
use ingest_steps::outcome::{Cancel, Failure, Progress};
use ingest_steps::payload::PayloadKind;
use ingest_steps::step::{Ending, Payload, Task, conclude, download};
use ingest_steps::work::{AttemptDir, FileRecord};
use url::Url;

use crate::kit::{FileServer, Stage, below, digest, sha256};
use crate::tree::Tree;

pub(crate) fn payload(kind: PayloadKind, url: Url, name: &str) -> Payload {
    Payload { kind, url, name: name.into(), size: None, digest: None, mime: None }
}

/// Rows of an object manifest: URL, digest, size, name.
pub(crate) fn manifest(rows: &[(Url, Option<Digest>, Option<usize>, &str)]) -> String {
    let mut text = String::from(
        "#%checkm_0.7\n#%profile | http://uc3.cdlib.org/registry/ingest/manifest/mrt-ingest-manifest\n\
         #%prefix | mrt: | http://merritt.cdlib.org/terms#\n\
         #%prefix | nfo: | http://www.semanticdesktop.org/ontologies/2007/03/22/nfo#\n\
         #%fields | nfo:fileUrl | nfo:hashAlgorithm | nfo:hashValue | nfo:fileSize | nfo:fileLastModified | \
         nfo:fileName | mrt:mimeType\n",
    );
    for (url, digest, size, name) in rows {
        let (algorithm, hex) = digest.as_ref().map(|d| (d.algorithm().name(), d.hex())).unwrap_or_default();
        let size = size.map(|size| size.to_string()).unwrap_or_default();
        writeln!(text, "{url} | {algorithm} | {hex} | {size} | | {name} |").unwrap();
    }
    text + "#%eof\n"
}

/// A job that is being downloaded.
pub(crate) struct Case<'a> {
    pub(crate) stage: &'a Stage,
    pub(crate) jid: Jid,
    pub(crate) bid: Bid,
    pub(crate) cancel: Cancel,
    pub(crate) progress: Progress,
}

impl<'a> Case<'a> {
    pub(crate) async fn new(stage: &'a Stage, payload: &Payload) -> Self {
        let jid = stage.job(payload).await;
        stage.bring(jid, JobState::Downloading).await;
        let bid = stage.queue.job(jid).await.unwrap().bid;
        Self { stage, jid, bid, cancel: Cancel::new(), progress: Progress::default() }
    }

    /// One attempt, whose lease is given back whatever comes of it.
    pub(crate) async fn attempt(&self) -> (Result<Change, Failure>, AttemptDir) {
        self.attempt_on(self.stage).await
    }

    /// The same by another node.
    pub(crate) async fn attempt_on(&self, stage: &Stage) -> (Result<Change, Failure>, AttemptDir) {
        let mut lease = stage.take(self.jid).await;
        let number = lease.job().status.attempt;
        let mut task = Task::open(&stage.queue, &mut lease, &stage.services, &self.progress, &self.cancel)
            .await
            .unwrap();
        let answer = download::run(&mut task, &stage.services).await;
        stage.queue.give_back(&mut lease, None).await.unwrap();
        (answer, stage.services.work.attempt(self.bid, self.jid, number))
    }

    pub(crate) async fn whole(&self) -> (Change, AttemptDir) {
        let (answer, dir) = self.attempt().await;
        (answer.unwrap(), dir)
    }

    pub(crate) async fn fails(&self) -> (Failure, AttemptDir) {
        let (answer, dir) = self.attempt().await;
        (answer.unwrap_err(), dir)
    }
}

pub(crate) fn content(dir: &AttemptDir) -> Vec<(String, Vec<u8>)> {
    below(&dir.producer()).into_iter().map(|(name, path)| (name, fs::read(path).unwrap())).collect()
}

pub(crate) fn named(files: &[(&str, &[u8])]) -> Vec<(String, Vec<u8>)> {
    files.iter().map(|(name, content)| ((*name).to_owned(), content.to_vec())).collect()
}

pub(crate) fn record(dir: &AttemptDir, path: &str) -> FileRecord {
    let records = dir.records().unwrap();
    records.into_iter().find(|record| record.path == path).unwrap_or_else(|| panic!("no record of {path}"))
}

fn assert_is(record: &FileRecord, content: &[u8]) {
    assert_eq!(record.size, content.len() as u64);
    for algorithm in [Algorithm::Sha256, Algorithm::Sha512] {
        assert!(record.digests.contains(&digest(algorithm, content)), "{record:?}");
    }
}

#[tokio::test]
async fn a_file_is_brought_and_never_unpacked() {
    let tree = Tree::embedded();
    let stage = Stage::new(&tree.session().await).await;
    let server = FileServer::start().await;
    let url = server.put("/a.zip", *b"PK\x03\x04 no archive");
    let mut payload = payload(PayloadKind::File, url.clone(), "in/a.zip");
    payload.digest = Some(digest(Algorithm::Md5, b"PK\x03\x04 no archive"));
    let case = Case::new(&stage, &payload).await;
    let mut lease = stage.take(case.jid).await;
    let attempt = lease.job().status.attempt;
    let mut task = stage.task(&mut lease).await;
    let change = download::run(&mut task, &stage.services).await.unwrap();
    assert_eq!((change.space_needed, change.message.as_str()), (Some(15), "1 file, 15 B"));
    let ending = conclude(&stage.queue, &mut lease, Ok(change)).await.unwrap();
    assert_eq!(ending, Ending::Moved(JobState::Processing));

    let dir = stage.services.work.attempt(case.bid, case.jid, attempt);
    assert_eq!(content(&dir), named(&[("in/a.zip", b"PK\x03\x04 no archive")]));
    let record = record(&dir, "producer/in/a.zip");
    assert_is(&record, b"PK\x03\x04 no archive");
    assert!(record.digests.contains(payload.digest.as_ref().unwrap()));
    assert_eq!(record.mime.as_deref(), Some("application/zip"));
    assert_eq!(record.source.as_deref(), Some(sha256(url.as_str().as_bytes()).hex()));
    let work: Work = stage.queue.node(case.jid, JobNode::Work).await.unwrap().unwrap();
    assert_eq!((work.attempt, work.reserved, work.node.as_str()), (attempt, 15, "node-1"));
    assert_eq!(PathBuf::from(work.directory), stage.services.work.job(case.bid, case.jid));
    stage.fsck().await;
    tree.close().await;
}

#[tokio::test]
async fn a_payload_that_is_a_manifest_is_never_stored_as_a_file() {
    let tree = Tree::embedded();
    let stage = Stage::new(&tree.session().await).await;
    let server = FileServer::start().await;
    let of_object = manifest(&[(server.put("/f", "file"), None, None, "f")]);
    for (path, text) in [
        ("/with-profile.checkm", of_object.clone()),
        ("/without.txt", "#%checkm_0.7\nhttp://a | | | | | a\n#%eof\n".to_owned()),
        ("/marked", format!("\u{feff}{}", of_object.replace("#%checkm", "#%CHECKM"))),
    ] {
        let url = server.put(path, text.clone());
        let mut payload = payload(PayloadKind::File, url.clone(), "f");
        payload.digest = Some(sha256(text.as_bytes()));
        let case = Case::new(&stage, &payload).await;
        for _ in 0..2 {
            let (failure, _) = case.fails().await;
            let Failure::Hopeless(why) = &failure else { panic!("{failure:?}") };
            assert!(
                why.starts_with(url.as_str()) && why.contains("submit it with the type object_manifest"),
                "{why}"
            );
        }
        assert_eq!(server.asked(path).len(), 1, "it is fetched once");
    }
    // What is listed in an object manifest is content.
    let rows = [(server.url("/with-profile.checkm"), None, None, "list.checkm")];
    let url = server.put("/o.checkm", manifest(&rows));
    let case = Case::new(&stage, &payload(PayloadKind::ObjectManifest, url, "o")).await;
    let (_, dir) = case.whole().await;
    assert_eq!(content(&dir), named(&[("list.checkm", of_object.as_bytes())]));
    stage.fsck().await;
    tree.close().await;
}

#[tokio::test]
async fn what_is_not_kept_of_an_object_manifest_is_told_of_its_job() {
    let tree = Tree::embedded();
    let stage = Stage::new(&tree.session().await).await;
    let server = FileServer::start().await;
    let text = manifest(&[(server.put("/f", "file"), None, None, "f")]);
    let with_title =
        text.replace("mrt:mimeType", "mrt:mimeType | mrt:title").replace("| f |", "| f | | A title");
    assert_ne!(with_title, text);
    let url = server.put("/o.checkm", with_title);
    let jid = stage.job(&payload(PayloadKind::ObjectManifest, url, "o")).await;
    stage.bring(jid, JobState::Downloading).await;
    let mut lease = stage.take(jid).await;
    let mut task = stage.task(&mut lease).await;
    let change = download::run(&mut task, &stage.services).await.unwrap();
    assert_eq!(
        conclude(&stage.queue, &mut lease, Ok(change)).await.unwrap(),
        Ending::Moved(JobState::Processing)
    );
    let status = stage.status(jid).await;
    let note = status.other["note"].as_str().unwrap();
    assert!(note.starts_with("column 8 of the manifest (`mrt:title`): 1 value is not kept"), "{note}");
    // It stays to the end, beside whatever is said meanwhile.
    let mut lease = stage.take(jid).await;
    stage.queue.succeed(&mut lease, &Change::message("stored")).await.unwrap();
    assert_eq!(stage.status(jid).await.other["note"], note);
    stage.fsck().await;
    tree.close().await;
}

#[tokio::test]
async fn what_provisioning_wrote_is_set_and_not_made_again() {
    let tree = Tree::zookeeper().await;
    let stage = Stage::new(&tree.session().await).await;
    let server = FileServer::start().await;
    let case = Case::new(&stage, &payload(PayloadKind::File, server.put("/a", *b"abc"), "a")).await;
    let mut lease = stage.take(case.jid).await;
    let before = Work { node: "other".into(), reserved: 9_000, ..Work::default() };
    stage.queue.write(&mut lease, &[ingest_queue::jobs::Write::Work(before)]).await.unwrap();
    let mut task = stage.task(&mut lease).await;
    let change = download::run(&mut task, &stage.services).await;
    conclude(&stage.queue, &mut lease, change).await.unwrap();
    let work: Work = stage.queue.node(case.jid, JobNode::Work).await.unwrap().unwrap();
    assert_eq!((work.reserved, work.node.as_str()), (3, "node-1"));
    stage.fsck().await;
    tree.close().await;
}

#[tokio::test]
async fn every_row_of_a_manifest_becomes_a_file() {
    let tree = Tree::embedded();
    let stage = Stage::new(&tree.session().await).await;
    let server = FileServer::start().await;
    let (a, b, c) = (server.put("/a", *b"one"), server.put("/b", *b"two!"), server.put("/c", *b""));
    let text = manifest(&[
        (a, Some(sha256(b"one")), Some(3), "a.txt"),
        (b, Some(digest(Algorithm::Sha1, b"two!")), None, "sub/deep/b.xml"),
        (c, None, None, "mrt-erc.txt"),
    ]);
    let url = server.put("/m.checkm", text.as_str());
    let mut payload = payload(PayloadKind::ObjectManifest, url, "m.checkm");
    payload.digest = Some(sha256(text.as_bytes()));
    let case = Case::new(&stage, &payload).await;
    let (change, dir) = case.whole().await;
    let files = [("a.txt", b"one".as_slice()), ("mrt-erc.txt", b""), ("sub/deep/b.xml", b"two!")];
    assert_eq!(content(&dir), named(&files));
    for (name, content) in files {
        assert_is(&record(&dir, &format!("producer/{name}")), content);
    }
    assert_eq!(record(&dir, "producer/sub/deep/b.xml").mime.as_deref(), Some("text/xml"));
    assert_eq!(fs::read_to_string(dir.path().join("system/mrt-submission-manifest.txt")).unwrap(), text);
    let bytes = 7 + text.len() as u64;
    assert_eq!(change.space_needed, i64::try_from(bytes).ok());
    assert_eq!(case.progress.done(), (4, bytes));
    stage.fsck().await;
    tree.close().await;
}

#[tokio::test]
async fn a_wrong_digest_fails_with_both_values_and_keeps_the_others() {
    let tree = Tree::embedded();
    let stage = Stage::with(&tree.session().await, |settings| settings.downloading.at_once = 1).await;
    let server = FileServer::start().await;
    let (a, b) = (server.put("/a", *b"one"), server.put("/b", *b"wrong"));
    let (right, wrong) = (sha256(b"right"), sha256(b"wrong"));
    let text = manifest(&[
        (a, Some(sha256(b"one")), Some(3), "a.txt"),
        (b, Some(right.clone()), Some(5), "dir/b.txt"),
    ]);
    let manifest = server.put("/m", text);
    let case = Case::new(&stage, &payload(PayloadKind::ObjectManifest, manifest, "m")).await;
    let (failure, dir) = case.fails().await;
    let Failure::Fail(why) = &failure else { panic!("{failure:?}") };
    for part in ["producer/dir/b.txt", right.hex(), wrong.hex()] {
        assert!(why.contains(part), "{why}");
    }
    assert_eq!(content(&dir), named(&[("a.txt", b"one")]));
    // The depositor has repaired it; what was right is not fetched again.
    server.put("/b", *b"right");
    let (_, dir) = case.whole().await;
    assert_eq!(content(&dir), named(&[("a.txt", b"one"), ("dir/b.txt", b"right")]));
    assert_eq!(server.asked("/a").len(), 1);
    assert_eq!(server.asked("/b").len(), 2);
    stage.fsck().await;
    tree.close().await;
}

#[tokio::test]
async fn a_manifest_that_is_not_the_announced_one_or_corrupt_is_refused() {
    let tree = Tree::embedded();
    let stage = Stage::new(&tree.session().await).await;
    let server = FileServer::start().await;
    let text = manifest(&[(server.put("/a", *b"one"), None, None, "a")]);
    let mut wrong = payload(PayloadKind::ObjectManifest, server.put("/m", text.as_str()), "m");
    wrong.digest = Some(sha256(b"another"));
    let (failure, _) = Case::new(&stage, &wrong).await.fails().await;
    assert!(matches!(&failure, Failure::Fail(why) if why.contains(sha256(b"another").hex())), "{failure}");

    let cut = server.put("/cut", text.replace("#%eof\n", ""));
    let (failure, _) =
        Case::new(&stage, &payload(PayloadKind::ObjectManifest, cut, "cut")).await.fails().await;
    assert!(matches!(&failure, Failure::Hopeless(why) if why.contains("#%eof")), "{failure}");
    let batch = server.put("/batch", text.replace("mrt-ingest-manifest", "mrt-batch-manifest"));
    let (failure, _) =
        Case::new(&stage, &payload(PayloadKind::ObjectManifest, batch, "b")).await.fails().await;
    assert!(matches!(&failure, Failure::Hopeless(why) if why.contains("batch_manifest")), "{failure}");
    assert_eq!(server.asked("/a"), [""; 0]);
    stage.fsck().await;
    tree.close().await;
}

#[tokio::test]
async fn names_that_clash_are_refused_before_anything_is_fetched() {
    let tree = Tree::embedded();
    let stage = Stage::new(&tree.session().await).await;
    let server = FileServer::start().await;
    let url = server.put("/a", *b"one");
    let text = manifest(&[(url.clone(), None, None, "a/b"), (url.clone(), None, None, "a")]);
    let clash = payload(PayloadKind::ObjectManifest, server.put("/m", text), "m");
    let (failure, dir) = Case::new(&stage, &clash).await.fails().await;
    assert!(
        matches!(&failure, Failure::Hopeless(why) if why.contains("`a` is a directory of the name on line 6; it cannot be a file too")),
        "{failure}"
    );
    assert_eq!((server.asked("/a").len(), content(&dir)), (0, Vec::new()));
    // Here case matters.
    let text = manifest(&[(url.clone(), None, None, "README"), (url, None, None, "readme")]);
    let case = Case::new(&stage, &payload(PayloadKind::ObjectManifest, server.put("/n", text), "n")).await;
    assert_eq!(content(&case.whole().await.1).len(), 2);
    stage.fsck().await;
    tree.close().await;
}

#[tokio::test]
async fn limits_of_the_profile_hold() {
    let tree = Tree::embedded();
    let stage = Stage::new(&tree.session().await).await;
    let server = FileServer::start().await;
    let (a, b) = (server.put("/a", [1_u8; 100]), server.put("/b", [2_u8; 100]));
    let sized = manifest(&[(a.clone(), None, Some(100), "a"), (b.clone(), None, Some(100), "b")]);
    let unsized_rows = manifest(&[(a.clone(), None, None, "a"), (b, None, None, "b")]);
    let (sized, unsized_rows) = (server.put("/sized", sized), server.put("/unsized", unsized_rows));
    for (limit, url, why) in [
        ("files = 1", &sized, "`limits.files`"),
        ("file_bytes = 99", &sized, "`limits.file_bytes`"),
        ("object_bytes = 199", &sized, "`limits.object_bytes`"),
        ("file_bytes = 99", &unsized_rows, "longer than 99 bytes"),
        ("object_bytes = 199", &unsized_rows, ""),
    ] {
        stage.profile(|text| format!("{text}\n[limits]\n{limit}\n"));
        let case = Case::new(&stage, &payload(PayloadKind::ObjectManifest, url.clone(), "m")).await;
        let (failure, _) = case.fails().await;
        assert!(matches!(&failure, Failure::Fail(text) if text.contains(why)), "{limit}: {failure}");
    }
    let hosts = "allowed_hosts = [\"files.example.org\"]\n[notify]";
    stage.profile(|text| text.replace("[notify]", hosts));
    let (failure, _) = Case::new(&stage, &payload(PayloadKind::File, a, "a")).await.fails().await;
    assert!(matches!(&failure, Failure::Fail(why) if why.contains("`allowed_hosts`")), "{failure}");
    stage.fsck().await;
    tree.close().await;
}

#[tokio::test]
async fn a_file_that_is_not_there_is_named_and_stops_the_others() {
    let tree = Tree::embedded();
    let stage = Stage::new(&tree.session().await).await;
    let server = FileServer::start().await;
    let names: Vec<String> = (0..200).map(|number| format!("f{number}")).collect();
    let mut rows = vec![(server.url("/none"), None, None, "none")];
    rows.extend(
        names.iter().map(|name| (server.put(&format!("/{name}"), name.as_str()), None, None, name.as_str())),
    );
    let url = server.put("/m", manifest(&rows));
    let case = Case::new(&stage, &payload(PayloadKind::ObjectManifest, url, "m")).await;
    let (failure, dir) = case.fails().await;
    assert!(matches!(&failure, Failure::Fail(why) if why.contains("producer/none: ")), "{failure}");
    assert!(content(&dir).len() < 150, "the others went on");
    assert!(!case.cancel.is_cancelled());
    stage.fsck().await;
    tree.close().await;
}

#[tokio::test]
async fn what_this_node_serves_itself_is_from_no_foreign_host() {
    let tree = Tree::embedded();
    let server = FileServer::start().await;
    let stage = Stage::with(&tree.session().await, |settings| {
        settings.fetch.allowed.clear();
        settings.fetch.public_url = Some(server.url("/"));
    })
    .await;
    stage.profile(|text| text.replace("[notify]", "allowed_hosts = [\"example.org\"]\n[notify]"));
    let case = Case::new(&stage, &payload(PayloadKind::File, server.put("/a", *b"upload"), "a")).await;
    assert_eq!(content(&case.whole().await.1), named(&[("a", b"upload")]));
    stage.fsck().await;
    tree.close().await;
}
