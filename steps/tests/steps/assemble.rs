//! Stored objects go out again: whole, verified, for those who have the token, and not for ever.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ingest_queue::access::AccessLease;
use ingest_queue::date::{Clock, Date};
use ingest_queue::ids::{Bid, Jid};
use ingest_queue::map::AccessSize;
use ingest_queue::queue::Queue;
use ingest_queue::states::AccessState;
use ingest_steps::archive::{self, unpack};
use ingest_steps::ark::Ark;
use ingest_steps::inventory::{Ingest, Record};
use ingest_steps::outcome::{Cancel, Failure, Progress};
use ingest_steps::services::Services;
use ingest_steps::settings::{self, Settings};
use ingest_steps::step::assemble::{self, Ending, Form, Found, Request, Requested, find, request};
use ingest_steps::storage::{Carried, Mode, StoreFile, StoreRequest, User};
use ingest_steps::urls::Urls;
use ingest_store::Session;

use crate::faults::Prepared;
use crate::kit::{Stage, below, sha256};
use crate::tree::{Tree, within};

const ARK: &str = "ark:/99999/fk4thing";
const HOLDER: &str = "access";

type Files = BTreeMap<String, Vec<u8>>;

fn files(of: &[(&str, &str)]) -> Files {
    of.iter().map(|(name, content)| ((*name).to_owned(), content.as_bytes().to_vec())).collect()
}

fn first() -> Files {
    files(&[
        ("producer/a.txt", "the first"),
        ("producer/deep/b 100%.txt", ""),
        ("system/mrt-erc.txt", "erc:"),
    ])
}

fn second() -> Files {
    files(&[("producer/a.txt", "the second one"), ("producer/c.txt", "new")])
}

/// A stage whose clock can be moved.
async fn stage(session: &Session, change: impl FnOnce(&mut Settings)) -> (Stage, Clock) {
    let mut stage = Stage::with(session, change).await;
    let clock = Clock::fixed(Date::from_millis(1_763_257_425_000));
    let settings = ingest_queue::queue::Settings::new("node-1");
    stage.queue = Queue::open(session, settings, clock.clone()).await.unwrap();
    (stage, clock)
}

/// Stores the next version of an object.
async fn store(stage: &Stage, storage: &str, ark: &str, files: &Files) -> u32 {
    let dir = tempfile::tempdir_in(stage.dir()).unwrap();
    let mut kept = Vec::new();
    for (number, (path, content)) in files.iter().enumerate() {
        let source = dir.path().join(number.to_string());
        std::fs::write(&source, content).unwrap();
        let digests = vec![sha256(content)];
        kept.push(StoreFile { path: path.clone(), source, size: content.len() as u64, digests });
    }
    let request = StoreRequest {
        ark: ark.into(),
        key: uuid::Uuid::new_v4().to_string(),
        mode: Mode::Add,
        files: kept,
        carried: Carried::default(),
        head: None,
        message: "a test".into(),
        user: User { name: "tests".into(), address: None },
        manifest_url: None,
    };
    let storage = &stage.services.storages[storage];
    let version = storage.store(&request, &Progress::default(), &Cancel::new()).await.unwrap().version;
    recorded(stage, ark, version).await;
    version
}

/// Records a version, as far as access asks for that.
async fn recorded(stage: &Stage, ark: &str, version: u32) {
    let Some(inventory) = &stage.services.inventory else { return };
    let ark: Ark = ark.parse().unwrap();
    if inventory.summary(&ark).await.unwrap().is_some_and(|summary| summary.head >= version) {
        return;
    }
    let ingest = Ingest {
        bid: Bid::new(1),
        jid: Jid::new(version),
        submitter: "depositor".into(),
        profile: "test_content".into(),
        at: Date::from_millis(0),
    };
    let record = Record {
        ark,
        owner: "owner".into(),
        collection: "tests".into(),
        version,
        key: format!("{version}"),
        local_ids: Vec::new(),
        title: None,
        creator: None,
        date: None,
        files: Vec::new(),
        ingest,
    };
    inventory.record(&record).await.unwrap();
}

fn wants(ark: &str, version: Option<u32>, form: Form) -> Request {
    Request { ark: ark.into(), version, form }
}

async fn ask(stage: &Stage, version: Option<u32>, form: Form) -> Requested {
    request(&stage.queue, &stage.services, &wants(ARK, version, form)).await.unwrap()
}

async fn take(queue: &Queue, size: AccessSize) -> AccessLease {
    queue.acquire_access(size, HOLDER).await.unwrap().unwrap()
}

/// Takes the first that waits, puts it together and concludes.
async fn work(queue: &Queue, services: &Services) -> Ending {
    let mut lease = take(queue, AccessSize::Small).await;
    let answer = assemble::run(queue, &mut lease, services, &Progress::default(), &Cancel::new()).await;
    assemble::conclude(queue, &mut lease, answer).await.unwrap()
}

async fn found(stage: &Stage, token: &str) -> Found {
    find(&stage.queue, &stage.services, token).await.unwrap()
}

async fn ready(stage: &Stage, token: &str) -> (PathBuf, u64, String) {
    match found(stage, token).await {
        Found::Ready { path, size, name } => (path, size, name),
        other => panic!("{other:?}"),
    }
}

fn unpacked(stage: &Stage, archive: &Path) -> (PathBuf, Files) {
    let into = stage.dir().join(uuid::Uuid::new_v4().to_string());
    let (progress, cancel) = (Progress::default(), Cancel::new());
    unpack(archive, &into, &archive::Limits::default(), &progress, &cancel).unwrap();
    let files = below(&into).into_iter().map(|(name, path)| (name, std::fs::read(path).unwrap())).collect();
    (into, files)
}

fn in_access_dir(stage: &Stage) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(&stage.services.settings.access.dir) else { return Vec::new() };
    entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect()
}

async fn a_zip_and_a_bag_hold_what_was_stored(tree: &Tree) {
    let (stage, _) = stage(&tree.session().await, |_| {}).await;
    store(&stage, "default", ARK, &first()).await;
    store(&stage, "default", ARK, &second()).await;
    // The newest, one that is not, and a bag of each; an ARK in another spelling is the same.
    for (version, form, expected) in [
        (None, Form::Zip, second()),
        (Some(1), Form::Zip, first()),
        (None, Form::Bag, second()),
        (Some(1), Form::Bag, first()),
    ] {
        let asked = ask(&stage, version, form).await;
        assert_eq!(asked.version, version.unwrap_or(2));
        assert_eq!(asked.bytes, expected.values().map(|content| content.len() as u64).sum::<u64>());
        let progress = Progress::default();
        let mut lease = take(&stage.queue, asked.size).await;
        let cancel = Cancel::new();
        let answer = assemble::run(&stage.queue, &mut lease, &stage.services, &progress, &cancel).await;
        assert_eq!(progress.done(), progress.all());
        let ending = assemble::conclude(&stage.queue, &mut lease, answer).await.unwrap();
        assert_eq!(ending, Ending::Completed);
        let (path, size, name) = ready(&stage, &asked.token).await;
        assert_eq!(name, format!("ark_99999_fk4thing_v{}.zip", asked.version));
        assert_eq!(size, std::fs::metadata(&path).unwrap().len());
        let token = stage.queue.access_token(asked.size, asked.aid).await.unwrap();
        assert_eq!(token.cloud_content_byte, size);
        assert_eq!(token.status, Some("completed".into()));
        assert_eq!(url::Url::parse(&token.url.unwrap()).unwrap().to_file_path().unwrap(), path);
        let (dir, mut content) = unpacked(&stage, &path);
        if form == Form::Bag {
            let bag = ingest_steps::bag::find_bag(&dir).unwrap().unwrap();
            let report = ingest_steps::bag::validate(&bag, &Progress::default(), &Cancel::new()).unwrap();
            assert!(report.valid(), "{report:?}");
            let root = format!("ark_99999_fk4thing_v{}/data/", asked.version);
            content = content
                .into_iter()
                .filter_map(|(name, content)| Some((name.strip_prefix(&root)?.to_owned(), content)))
                .collect();
        }
        assert_eq!(content, expected, "{version:?} {form:?}");
    }
    assert_eq!(in_access_dir(&stage).len(), 4);
    stage.fsck().await;
}

#[tokio::test]
async fn on_the_embedded_tree() {
    let tree = Tree::embedded();
    a_zip_and_a_bag_hold_what_was_stored(&tree).await;
    tree.close().await;
}

#[tokio::test]
async fn on_zookeeper() {
    let tree = Tree::zookeeper().await;
    a_zip_and_a_bag_hold_what_was_stored(&tree).await;
    tree.close().await;
}

#[tokio::test]
async fn what_is_not_there_is_said_before_anything_is_queued() {
    let tree = Tree::embedded();
    let (stage, _) = stage(&tree.session().await, |_| {}).await;
    store(&stage, "default", ARK, &first()).await;
    for (ark, version, why) in [
        ("ark:/99999/fk4other", None, "there is no object ark:/99999/fk4other here"),
        (ARK, Some(2), "has no version 2; it has the versions 1 to 1"),
        (ARK, Some(0), "has no version 0; it has the versions 1 to 1"),
        ("thing", None, "is no ARK"),
    ] {
        let answer = request(&stage.queue, &stage.services, &wants(ark, version, Form::Zip)).await;
        assert!(matches!(&answer, Err(Failure::Hopeless(text)) if text.contains(why)), "{answer:?}");
    }
    let same = wants("ark:99999/fk4-thing", None, Form::Zip);
    request(&stage.queue, &stage.services, &same).await.unwrap();
    assert_eq!(stage.queue.access_items(AccessSize::Small).await.unwrap().len(), 1);
    stage.fsck().await;
    tree.close().await;
}

#[tokio::test]
async fn sizes_decide_the_queue_and_what_waits_decides_the_time() {
    let tree = Tree::embedded();
    let (stage, _) = stage(&tree.session().await, |settings| {
        settings.access.large_from = 20;
        settings.access.rate = 10;
        let second = settings::Ocfl { dir: settings.work.dir.with_file_name("second"), staging: None };
        settings.storage.insert("second".into(), settings::Storage::Ocfl(second));
    })
    .await;
    let large = files(&[("a", "0123456789"), ("b", "0123456789")]);
    store(&stage, "second", ARK, &large).await;
    store(&stage, "default", "ark:/99999/fk4small", &files(&[("a", "0123456789012345678")])).await;
    let now = stage.queue.now();
    let asked = ask(&stage, None, Form::Zip).await;
    assert_eq!((asked.size, asked.anticipated), (AccessSize::Large, now.after(Duration::from_secs(2))));
    let asked = ask(&stage, None, Form::Zip).await;
    assert_eq!((asked.size, asked.anticipated), (AccessSize::Large, now.after(Duration::from_secs(4))));
    let anticipated = Some(asked.anticipated);
    assert_eq!(found(&stage, &asked.token).await, Found::Pending { anticipated });
    let small = wants("ark:/99999/fk4small", None, Form::Zip);
    let asked = request(&stage.queue, &stage.services, &small).await.unwrap();
    assert_eq!((asked.size, asked.anticipated), (AccessSize::Small, now.after(Duration::from_secs(2))));
    stage.fsck().await;
    tree.close().await;
}

#[tokio::test]
async fn damaged_content_fails_the_item_and_leaves_nothing() {
    let tree = Tree::embedded();
    let (stage, _) = stage(&tree.session().await, |_| {}).await;
    store(&stage, "default", ARK, &first()).await;
    let stored = ingest_steps::archive::files_of(&stage.dir().join("storage")).unwrap();
    let damaged = stored.iter().filter(|(_, path)| std::fs::read(path).unwrap() == b"the first");
    for (_, path) in damaged {
        std::fs::write(path, b"the worst").unwrap();
    }
    let asked = ask(&stage, None, Form::Zip).await;
    let ending = work(&stage.queue, &stage.services).await;
    assert!(matches!(&ending, Ending::Failed(why) if why.contains("producer/a.txt")), "{ending:?}");
    let Ending::Failed(why) = ending else { unreachable!() };
    assert_eq!(found(&stage, &asked.token).await, Found::Failed { why });
    assert_eq!(in_access_dir(&stage), [""; 0]);
    // The object is gone altogether.
    stage.queue.requeue_access(asked.size, asked.aid, "").await.unwrap();
    std::fs::remove_dir_all(stage.dir().join("storage")).unwrap();
    assert!(matches!(work(&stage.queue, &stage.services).await, Ending::Failed(_)));
    assert_eq!(in_access_dir(&stage), [""; 0]);
    assert!(stage.queue.locks().is_empty());
    stage.fsck().await;
    tree.close().await;
}

#[tokio::test]
async fn a_token_lives_as_long_as_it_should_and_no_other_opens_it() {
    let tree = Tree::embedded();
    let (stage, clock) = stage(&tree.session().await, |settings| {
        settings.access.keep = Duration::from_secs(100);
    })
    .await;
    store(&stage, "default", ARK, &first()).await;
    let asked = ask(&stage, None, Form::Zip).await;
    let other = ask(&stage, None, Form::Zip).await;
    assert!(matches!(found(&stage, &asked.token).await, Found::Pending { anticipated: Some(_) }));
    let secret = asked.token.rsplit('-').next().unwrap();
    assert!(secret.len() >= 32 && !other.token.contains(secret));
    clock.advance(Duration::from_secs(50));
    assert_eq!(work(&stage.queue, &stage.services).await, Ending::Completed);
    clock.advance(Duration::from_secs(99));
    let (path, ..) = ready(&stage, &asked.token).await;
    let swapped = other.token.replace(other.token.rsplit('-').next().unwrap(), secret);
    let longer = format!("{}0", asked.token);
    for wrong in
        [&swapped, &longer, &asked.token[..asked.token.len() - 1], "", secret, "small-qid0000000000-"]
    {
        assert_eq!(found(&stage, wrong).await, Found::Unknown, "{wrong}");
    }
    // Nothing has expired yet, and what waits never does.
    let cancel = Cancel::new();
    let expired = assemble::expire(&stage.queue, &stage.services, &cancel).await.unwrap();
    assert_eq!(expired, assemble::Expired::default());
    clock.advance(Duration::from_secs(1));
    assert_eq!(found(&stage, &asked.token).await, Found::Expired);
    assert!(path.exists());
    let expired = assemble::expire(&stage.queue, &stage.services, &cancel).await.unwrap();
    assert_eq!((expired.items, expired.files), (vec![(asked.size, asked.aid)], vec![path]));
    assert_eq!(found(&stage, &asked.token).await, Found::Unknown);
    assert!(matches!(found(&stage, &other.token).await, Found::Pending { .. }));
    assert_eq!(in_access_dir(&stage), [""; 0]);
    stage.fsck().await;
    tree.close().await;
}

#[tokio::test]
async fn what_nobody_names_or_writes_is_removed_and_nothing_else() {
    let tree = Tree::embedded();
    let (stage, _) = stage(&tree.session().await, |_| {}).await;
    store(&stage, "default", ARK, &first()).await;
    let asked = ask(&stage, None, Form::Zip).await;
    ask(&stage, None, Form::Zip).await;
    work(&stage.queue, &stage.services).await;
    let (kept, ..) = ready(&stage, &asked.token).await;
    let lease = take(&stage.queue, AccessSize::Small).await;
    let dir = stage.services.settings.access.dir.clone();
    let (done, at_work) = (asked.aid, lease.item().aid);
    let put = |name: String| std::fs::write(dir.join(name), "x").unwrap();
    put(format!(".small-{at_work}-aa.zip.part-1"));
    put(format!("small-{at_work}-aa.zip"));
    put("README".into());
    let leftovers = [
        // Of an attempt that was cut off, of one that does not count, and of items that are gone.
        format!(".small-{done}-bb.zip.part-2"),
        format!("small-{done}-bb.zip"),
        "small-qid0000000099-cc.zip".to_owned(),
        ".large-qid0000000000-cc.zip.part-3".to_owned(),
    ];
    for name in &leftovers {
        put(name.clone());
    }
    let expired = assemble::expire(&stage.queue, &stage.services, &Cancel::new()).await.unwrap();
    let mut removed = expired.files;
    removed.sort();
    let mut expected: Vec<_> = leftovers.iter().map(|name| dir.join(name)).collect();
    expected.sort();
    assert_eq!((expired.items, removed), (Vec::new(), expected));
    assert!(kept.exists());
    assert_eq!(in_access_dir(&stage).len(), 4);
    stage.fsck().await;
    tree.close().await;
}

#[tokio::test]
async fn one_that_is_told_to_stop_is_given_back_and_a_lock_keeps_others_away() {
    let tree = Tree::embedded();
    let (stage, _) = stage(&tree.session().await, |_| {}).await;
    store(&stage, "default", ARK, &first()).await;
    let asked = ask(&stage, None, Form::Zip).await;
    let mut lease = take(&stage.queue, asked.size).await;
    let settings = ingest_queue::queue::Settings::new("node-2");
    let other = Queue::open(&tree.session().await, settings, Clock::system()).await.unwrap();
    assert!(other.acquire_access(asked.size, HOLDER).await.unwrap().is_none());
    let cancel = Cancel::new();
    cancel.cancel();
    let answer =
        assemble::run(&stage.queue, &mut lease, &stage.services, &Progress::default(), &cancel).await;
    assert_eq!(answer, Err(Failure::Cancelled));
    assert_eq!(in_access_dir(&stage), [""; 0]);
    let ending = assemble::conclude(&stage.queue, &mut lease, answer).await.unwrap();
    assert!(matches!(ending, Ending::GivenBack(_)), "{ending:?}");
    assert!(matches!(found(&stage, &asked.token).await, Found::Pending { .. }));
    // The other takes it, and the file is there for both.
    assert_eq!(work(&other, &stage.services).await, Ending::Completed);
    ready(&stage, &asked.token).await;
    stage.fsck().await;
    tree.close().await;
}

#[tokio::test]
async fn whoever_has_lost_an_item_harms_nobody() {
    let tree = Tree::embedded();
    let (stage, _) = stage(&tree.session().await, |_| {}).await;
    store(&stage, "default", ARK, &first()).await;
    let asked = ask(&stage, None, Form::Zip).await;
    let session = tree.mortal_session().await;
    let settings = ingest_queue::queue::Settings::new("node-2");
    let doomed = Queue::open(&session, settings, Clock::system()).await.unwrap();
    let mut lease = take(&doomed, asked.size).await;
    tree.expire(&session).await;
    assert_eq!(work(&stage.queue, &stage.services).await, Ending::Completed);
    let (path, ..) = ready(&stage, &asked.token).await;
    let (progress, cancel) = (Progress::default(), Cancel::new());
    let answer = within(assemble::run(&doomed, &mut lease, &stage.services, &progress, &cancel)).await;
    assert!(answer.is_err(), "{answer:?}");
    assert_eq!(ready(&stage, &asked.token).await.0, path);
    stage.fsck().await;
    tree.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cut_off_anywhere_it_is_put_together_in_the_end_and_the_rest_is_cleared() {
    let prepare = async |session: Session| {
        let (stage, _) = stage(&session, |_| {}).await;
        store(&stage, "default", ARK, &first()).await;
        let asked = ask(&stage, None, Form::Bag).await;
        (stage, asked)
    };
    let (prepared, (stage, asked)) = Prepared::with(prepare).await;
    let services = &stage.services;
    let story = |queue: Queue| {
        let services = services.clone();
        async move {
            if let Some(mut lease) = queue.acquire_access(AccessSize::Small, HOLDER).await? {
                let (progress, cancel) = (Progress::default(), Cancel::new());
                let answer = assemble::run(&queue, &mut lease, &services, &progress, &cancel).await;
                assemble::conclude(&queue, &mut lease, answer).await?;
            }
            Ok::<_, ingest_queue::error::Error>(())
        }
    };
    let then = async |queue: Queue, what: String| {
        ingest_queue::fsck::clean(queue.session(), queue.dialect()).await.unwrap();
        if let Some(mut lease) = queue.acquire_access(AccessSize::Small, HOLDER).await.unwrap() {
            let (progress, cancel) = (Progress::default(), Cancel::new());
            let answer = assemble::run(&queue, &mut lease, services, &progress, &cancel).await;
            let ending = assemble::conclude(&queue, &mut lease, answer).await.unwrap();
            assert_eq!(ending, Ending::Completed, "{what}");
        }
        let item = queue.access_item(asked.size, asked.aid).await.unwrap();
        assert_eq!(item.status.status, AccessState::Completed, "{what}");
        assemble::expire(&queue, services, &Cancel::new()).await.unwrap();
        let Found::Ready { path, .. } = find(&queue, services, &asked.token).await.unwrap() else {
            panic!("{what}: it is not there");
        };
        let left = in_access_dir(&stage);
        assert_eq!(left, [path.file_name().unwrap().to_str().unwrap()], "{what}");
        ingest_queue::fsck::clean(queue.session(), queue.dialect()).await.unwrap();
        // The next run begins with an empty directory.
        std::fs::remove_file(path).unwrap();
    };
    prepared.through_every_fault(story, then).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_or_a_clean_up_that_is_cut_off_anywhere_leaves_a_sound_tree() {
    let prepare = async |session: Session| {
        let (stage, _) = stage(&session, |settings| settings.access.keep = Duration::ZERO).await;
        store(&stage, "default", ARK, &first()).await;
        ask(&stage, None, Form::Zip).await;
        assert_eq!(work(&stage.queue, &stage.services).await, Ending::Completed);
        stage
    };
    let (prepared, stage) = Prepared::with(prepare).await;
    let services = &stage.services;
    let story = |queue: Queue| {
        let services = services.clone();
        async move {
            request(&queue, &services, &wants(ARK, None, Form::Zip)).await?;
            assemble::expire(&queue, &services, &Cancel::new()).await.map(|_| ())
        }
    };
    let then = async |queue: Queue, what: String| {
        ingest_queue::fsck::clean(queue.session(), queue.dialect()).await.unwrap();
        assemble::expire(&queue, services, &Cancel::new()).await.unwrap();
        let items = queue.access_items(AccessSize::Small).await.unwrap();
        assert!(items.iter().all(|item| item.status.status == AccessState::Pending), "{what}: {items:?}");
        assert!(items.len() <= 1, "{what}: {items:?}");
        assert_eq!(in_access_dir(&stage), [""; 0], "{what}");
        ingest_queue::fsck::clean(queue.session(), queue.dialect()).await.unwrap();
    };
    prepared.through_every_fault(story, then).await;
}

#[tokio::test]
async fn a_node_that_has_not_the_file_says_who_has() {
    let tree = Tree::embedded();
    let urls = |host: &str| {
        let public = format!("https://{host}.example.org/").parse().unwrap();
        Some(Urls::new(public, [7; 32], Duration::from_mins(1)))
    };
    let (stage, _) = stage(&tree.session().await, |settings| settings.urls = urls("one")).await;
    store(&stage, "default", ARK, &first()).await;
    let asked = ask(&stage, None, Form::Zip).await;
    assert_eq!(work(&stage.queue, &stage.services).await, Ending::Completed);
    let (path, ..) = ready(&stage, &asked.token).await;
    let mut settings = Settings::clone(&stage.services.settings);
    settings.urls = urls("two");
    settings.access.dir = stage.dir().join("elsewhere");
    let other = stage.services.with_settings(settings);
    let told = find(&stage.queue, &other, &asked.token).await.unwrap();
    let Found::Elsewhere { url } = told else { panic!("{told:?}") };
    assert!(url.starts_with("https://one.example.org/files/access/small-"), "{url}");
    // The one that should have it does not send anybody to itself.
    std::fs::remove_file(path).unwrap();
    assert!(matches!(found(&stage, &asked.token).await, Found::Failed { .. }));
    tree.close().await;
}
