//! An OCFL repository, judged by an independent validator.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use futures::{StreamExt as _, TryStreamExt as _};
use ingest_steps::digest::Algorithm;
use ingest_steps::outcome::{Cancel, Failure, Progress};
use ingest_steps::storage::ocfl::Ocfl;
use ingest_steps::storage::{Mode, Storage as _};
use rocfl::ocfl::{OcflRepo, ValidationResult};
use tempfile::TempDir;

use crate::objects::{self, ARK, carrying, contents, file, pairs, problems, read, request, store};

/// All that the validator has to say of the root and every object in it, warnings too.
pub(crate) fn verdict(root: &Path) -> Vec<String> {
    fn told(result: &dyn ValidationResult, into: &mut Vec<String>) {
        into.extend(result.errors().iter().map(|error| format!("{error:?}")));
        into.extend(result.warnings().iter().map(|warning| format!("{warning:?}")));
    }
    let repository = OcflRepo::fs_repo(root, None).unwrap();
    let mut found = Vec::new();
    let mut validator = repository.validate_repo(true).unwrap();
    told(validator.storage_root_result(), &mut found);
    for object in validator.by_ref() {
        told(&object.unwrap(), &mut found);
    }
    told(validator.storage_hierarchy_result(), &mut found);
    found
}

pub(crate) struct Bench {
    pub(crate) dir: TempDir,
    pub(crate) ocfl: Ocfl,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("work")).unwrap();
        let ocfl = Ocfl::open(&dir.path().join("ocfl"), None).unwrap();
        Self { dir, ocfl }
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.dir.path().join("ocfl")
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.dir.path().join("work")
    }

    /// The directory of the one object that there is.
    fn object(&self) -> PathBuf {
        let mut path = self.root();
        for _ in 0..4 {
            let mut entries = fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path());
            path = entries.find(|path| path.is_dir() && !path.ends_with("extensions")).unwrap();
        }
        path
    }

    fn staged(&self) -> usize {
        fs::read_dir(self.dir.path().join("ocfl.staging")).unwrap().count()
    }

    /// Files of content in the object.
    fn contents(&self) -> BTreeSet<String> {
        fn walk(path: &Path, top: &Path, into: &mut BTreeSet<String>) {
            for entry in fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()) {
                if entry.is_dir() {
                    walk(&entry, top, into);
                } else if entry.to_str().unwrap().contains("/content/") {
                    into.insert(entry.strip_prefix(top).unwrap().to_str().unwrap().to_owned());
                }
            }
        }
        let mut found = BTreeSet::new();
        walk(&self.object(), &self.object(), &mut found);
        found
    }
}

const FIRST: [(&str, &str); 4] = [("a", "one"), ("b/c.txt", "two"), ("b/same", "one"), ("empty", "")];
const SECOND: [(&str, &str); 4] = [("a", "one"), ("b/c.txt", "changed"), ("new/d", "two"), ("new/e", "five")];

#[tokio::test]
async fn an_empty_root_is_sound() {
    let bench = Bench::new();
    assert_eq!(verdict(&bench.root()), [""; 0]);
    Ocfl::open(&bench.root(), None).unwrap();
}

#[tokio::test]
async fn a_new_object_is_sound_and_reads_back() {
    let bench = Bench::new();
    let stored = store(&bench.ocfl, &request(&bench.work(), "k1", &FIRST)).await.unwrap();
    assert_eq!((stored.version, stored.already, stored.size), (1, false, 9));
    assert_eq!(verdict(&bench.root()), [""; 0]);
    assert_eq!(contents(&bench.ocfl, 1).await, pairs(&FIRST));
    assert_eq!(problems(&bench.ocfl).await, [""; 0]);
    let manifest = bench.ocfl.manifest(ARK, None).await.unwrap().unwrap();
    assert_eq!((manifest.version, manifest.head, manifest.message.as_str()), (1, 1, "as k1 says"));
    assert_eq!((manifest.key.as_deref(), manifest.files), (Some("k1"), stored.files));
    assert_eq!(bench.staged(), 0);
}

#[tokio::test]
async fn a_further_version_is_sound_and_keeps_unchanged_content_once() {
    let bench = Bench::new();
    store(&bench.ocfl, &request(&bench.work(), "k1", &FIRST)).await.unwrap();
    let mut second = request(&bench.work(), "k2", &SECOND);
    second.mode = Mode::Update;
    let stored = store(&bench.ocfl, &second).await.unwrap();
    assert_eq!((stored.version, stored.already), (2, false));
    assert_eq!(verdict(&bench.root()), [""; 0]);
    assert_eq!(contents(&bench.ocfl, 1).await, pairs(&FIRST));
    assert_eq!(contents(&bench.ocfl, 2).await, pairs(&SECOND));
    let expected =
        ["v1/content/a", "v1/content/b/c.txt", "v1/content/empty", "v2/content/b/c.txt", "v2/content/new/e"];
    assert_eq!(bench.contents(), expected.map(str::to_owned).into());
    assert_eq!((problems(&bench.ocfl).await, bench.staged()), (vec![], 0));
}

#[tokio::test]
async fn a_version_without_new_content_is_sound() {
    let bench = Bench::new();
    store(&bench.ocfl, &request(&bench.work(), "k1", &FIRST)).await.unwrap();
    // Once with copies that turn out to be known, once with digests that say so beforehand.
    store(&bench.ocfl, &request(&bench.work(), "k2", &FIRST[..2])).await.unwrap();
    let mut third = request(&bench.work(), "k3", &[]);
    third.files = vec![file(&bench.work(), "x/y", "two", &[Algorithm::Sha512, Algorithm::Sha1])];
    store(&bench.ocfl, &third).await.unwrap();
    assert_eq!(verdict(&bench.root()), [""; 0]);
    assert_eq!(contents(&bench.ocfl, 3).await, pairs(&[("x/y", "two")]));
    assert!(!bench.object().join("v2/content").exists() && !bench.object().join("v3/content").exists());
    assert_eq!(problems(&bench.ocfl).await, [""; 0]);
}

#[tokio::test]
async fn what_is_carried_forward_is_sound_and_kept_once() {
    let bench = Bench::new();
    objects::carries_files_forward(&bench.ocfl, &bench.work()).await;
    assert_eq!(verdict(&bench.root()), [""; 0]);
    let expected = ["v1/content/a", "v1/content/b/c", "v1/content/gone", "v2/content/a", "v3/content/e"];
    assert_eq!((bench.contents(), bench.staged()), (expected.map(str::to_owned).into(), 0));
}

#[tokio::test]
async fn what_is_carried_forward_is_not_read() {
    let bench = Bench::new();
    store(&bench.ocfl, &request(&bench.work(), "k1", &FIRST)).await.unwrap();
    let wanted =
        carrying(&bench.ocfl, &bench.work(), "k2", &[("n", "new")], &["a", "b/c.txt", "b/same", "empty"])
            .await;
    // Content that is damaged is carried forward all the same: an audit is what reads it.
    let content = bench.object().join("v1/content/b/c.txt");
    fs::write(&content, "owt").unwrap();
    let progress = Progress::default();
    bench.ocfl.store(&wanted, &progress, &Cancel::new()).await.unwrap();
    assert_eq!(progress.all(), (1, 3));
    let told = problems(&bench.ocfl).await;
    assert!(!told.is_empty() && told.iter().all(|problem| problem.contains("b/c.txt")), "{told:?}");
    // One that is not there any more is not.
    fs::remove_file(&content).unwrap();
    let gone = bench.ocfl.manifest(ARK, None).await.unwrap_err();
    assert!(gone.to_string().contains("v1/content/b/c.txt"), "{gone}");
}

#[tokio::test]
async fn a_version_of_an_object_that_has_moved_on_is_not_made() {
    let bench = Bench::new();
    objects::refuses_what_the_newest_version_has_overtaken(&bench.ocfl, &bench.work()).await;
    assert_eq!((verdict(&bench.root()), bench.staged()), (vec![], 0));
}

#[tokio::test]
async fn ten_versions_are_in_their_order() {
    let bench = Bench::new();
    for number in 1..=11 {
        let content = number.to_string();
        let made = store(&bench.ocfl, &request(&bench.work(), &content, &[("a", &content)])).await.unwrap();
        assert_eq!(made.version, number);
    }
    assert_eq!(verdict(&bench.root()), [""; 0]);
    assert_eq!(read(&bench.ocfl, 10, "a").await.unwrap(), "10");
}

#[tokio::test]
async fn odd_names_are_kept_as_they_are() {
    let bench = Bench::new();
    let deep = vec!["d"; 200].join("/");
    let long = "é".repeat(127);
    let files = [
        ("a b  c", "1"),
        ("ünï/日本語.txt", "2"),
        ("e\u{301} and é", "3"),
        (deep.as_str(), "4"),
        (long.as_str(), "5"),
        ("%41 'x' *?|", "8"),
        ("inventory.json", "9"),
        ("v1/content/a", "10"),
        (".hidden/...", "11"),
    ];
    store(&bench.ocfl, &request(&bench.work(), "k1", &files)).await.unwrap();
    assert_eq!(verdict(&bench.root()), [""; 0]);
    assert_eq!(contents(&bench.ocfl, 1).await, pairs(&files));
    assert_eq!(problems(&bench.ocfl).await, [""; 0]);
}

#[tokio::test]
async fn names_that_json_escapes_are_kept_as_they_are() {
    // The validator borrows its strings from the JSON text and so cannot read escaped ones: no verdict here.
    let bench = Bench::new();
    let files = [("back\\slash", "6"), ("line\nfeed", "7"), ("\"quoted\"", "8")];
    store(&bench.ocfl, &request(&bench.work(), "k1", &files)).await.unwrap();
    assert_eq!(contents(&bench.ocfl, 1).await, pairs(&files));
    assert_eq!(problems(&bench.ocfl).await, [""; 0]);
}

#[tokio::test]
async fn names_that_ocfl_forbids_are_refused_before_anything_is_made() {
    let bench = Bench::new();
    for path in ["../out", "/etc/x", "a/./b", "a//b", "a/", ""] {
        let refused = store(&bench.ocfl, &request(&bench.work(), "k1", &[("ok", "1"), (path, "2")])).await;
        assert!(matches!(refused, Err(Failure::Hopeless(_))), "{path:?}: {refused:?}");
    }
    assert_eq!((bench.ocfl.manifest(ARK, None).await.unwrap(), bench.staged()), (None, 0));
}

#[tokio::test]
async fn the_same_key_again_finds_its_version_and_changes_nothing() {
    let bench = Bench::new();
    let first = request(&bench.work(), "k1", &FIRST);
    let made = store(&bench.ocfl, &first).await.unwrap();
    store(&bench.ocfl, &request(&bench.work(), "k2", &SECOND)).await.unwrap();
    // Its files may be gone by now.
    fs::remove_dir_all(bench.work()).unwrap();
    let again = store(&bench.ocfl, &first).await.unwrap();
    assert_eq!((again.version, again.already), (1, true));
    assert_eq!(again.files, made.files);
    assert_eq!(bench.ocfl.manifest(ARK, None).await.unwrap().unwrap().head, 2);
}

#[tokio::test]
async fn an_update_needs_an_object() {
    let bench = Bench::new();
    let mut update = request(&bench.work(), "k1", &FIRST);
    update.mode = Mode::Update;
    let refused = store(&bench.ocfl, &update).await.unwrap_err();
    assert!(matches!(&refused, Failure::Fail(why) if why.contains(ARK)), "{refused}");
    assert_eq!(verdict(&bench.root()), [""; 0]);
}

#[tokio::test]
async fn a_source_that_is_not_what_the_request_says_is_not_stored() {
    let bench = Bench::new();
    let good = request(&bench.work(), "k1", &FIRST);
    let mut wrong = Vec::new();
    for change in 0..5 {
        let mut request = good.clone();
        let last = request.files.last_mut().unwrap();
        match change {
            0 => last.size = 5,
            1 => last.digests = file(&bench.work(), "x", "other", &[Algorithm::Md5]).digests,
            2 => last.source = bench.work().join("missing"),
            3 => {
                last.source = bench.work().join("link");
                std::os::unix::fs::symlink("/etc/hostname", &last.source).unwrap();
            }
            _ => last.source = bench.work(),
        }
        wrong.push(store(&bench.ocfl, &request).await.unwrap_err());
        assert_eq!((verdict(&bench.root()), bench.staged()), (vec![], 0));
        assert_eq!(bench.ocfl.manifest(ARK, None).await.unwrap(), None);
    }
    assert!(wrong.iter().all(|failure| matches!(failure, Failure::Fail(_))), "{wrong:?}");
    assert!(wrong[0].to_string().contains("0 bytes, not 5"), "{}", wrong[0]);
}

#[tokio::test]
async fn a_store_that_is_told_to_stop_leaves_nothing() {
    let bench = Bench::new();
    let cancel = Cancel::new();
    cancel.cancel();
    let stopped =
        bench.ocfl.store(&request(&bench.work(), "k1", &FIRST), &Progress::default(), &cancel).await;
    assert_eq!(stopped.unwrap_err(), Failure::Cancelled);
    assert_eq!((verdict(&bench.root()), bench.staged()), (vec![], 0));
}

#[tokio::test]
async fn stores_of_one_object_at_once_each_make_a_version() {
    let bench = Bench::new();
    let requests: Vec<_> = (0..8)
        .map(|n| request(&bench.work(), &format!("k{}", n % 4), &[("a", &(n % 4).to_string())]))
        .collect();
    let all = requests.iter().map(|request| store(&bench.ocfl, request));
    let stored = futures::future::try_join_all(all).await.unwrap();
    let versions: BTreeSet<_> = stored.iter().map(|stored| stored.version).collect();
    assert_eq!((versions, stored.iter().filter(|stored| stored.already).count()), ((1..=4).collect(), 4));
    assert_eq!(verdict(&bench.root()), [""; 0]);
}

#[tokio::test]
async fn stores_through_two_openings_do_not_disturb_each_other() {
    let bench = Bench::new();
    let other = Ocfl::open(&bench.root(), None).unwrap();
    let (one, two) = (request(&bench.work(), "k1", &FIRST), request(&bench.work(), "k2", &SECOND));
    let (one, two) = futures::join!(store(&bench.ocfl, &one), store(&other, &two));
    // The one that came too late is told to come again.
    let late = [&one, &two].into_iter().filter(|result| matches!(result, Err(Failure::Again(_)))).count();
    assert_eq!(late + [&one, &two].into_iter().filter(|result| result.is_ok()).count(), 2, "{one:?} {two:?}");
    assert!(late < 2);
    assert_eq!((verdict(&bench.root()), bench.staged()), (vec![], 0));
}

#[tokio::test]
async fn all_objects_are_listed() {
    let bench = Bench::new();
    let mut expected = BTreeSet::new();
    for number in 0..20 {
        let mut one = request(&bench.work(), "k", &[("a", "1")]);
        one.ark = format!("ark:/99999/fk4{number}");
        store(&bench.ocfl, &one).await.unwrap();
        expected.insert(one.ark);
    }
    assert_eq!(bench.ocfl.objects().try_collect::<BTreeSet<_>>().await.unwrap(), expected);
    assert_eq!(verdict(&bench.root()), [""; 0]);
}

#[tokio::test]
async fn an_object_that_cannot_be_read_does_not_hide_the_others() {
    let bench = Bench::new();
    store(&bench.ocfl, &request(&bench.work(), "k", &FIRST)).await.unwrap();
    let object = bench.object();
    fs::write(object.join("inventory.json"), "{").unwrap();
    let mut other = request(&bench.work(), "k", &FIRST);
    other.ark = "ark:/99999/other".into();
    store(&bench.ocfl, &other).await.unwrap();
    // Its first version says which one it is.
    let found: BTreeSet<_> = bench.ocfl.objects().try_collect().await.unwrap();
    assert_eq!(found, BTreeSet::from([ARK.into(), "ark:/99999/other".into()]));
    fs::remove_file(object.join("v1/inventory.json")).unwrap();
    let found: Vec<_> = bench.ocfl.objects().collect().await;
    assert_eq!(found.iter().filter(|found| found.is_err()).count(), 1);
    assert!(found.contains(&Ok("ark:/99999/other".into())));
}

#[tokio::test]
async fn an_audit_tells_every_damage() {
    let bench = Bench::new();
    store(&bench.ocfl, &request(&bench.work(), "k1", &FIRST)).await.unwrap();
    store(&bench.ocfl, &request(&bench.work(), "k2", &SECOND)).await.unwrap();
    let object = bench.object();
    fs::write(object.join("v1/content/a"), "One").unwrap();
    fs::remove_file(object.join("v1/content/b/c.txt")).unwrap();
    fs::write(object.join("v2/content/stray"), "").unwrap();
    fs::create_dir(object.join("v2/content/hollow")).unwrap();
    fs::write(object.join("v1/inventory.json"), "{}").unwrap();
    fs::write(object.join("note"), "").unwrap();
    fs::remove_file(object.join("0=ocfl_object_1.1")).unwrap();
    let told = problems(&bench.ocfl).await;
    for part in [
        "`v1/content/a` has not the digest sha-512",
        "`v1/content/a` has not the digest sha-256",
        "`v1/content/a` has not the digest md5",
        "`v1/content/b/c.txt` cannot be read",
        "`v2/content/stray` is not in the manifest",
        "`v2/content/hollow` is an empty directory",
        "v1/inventory.json has not the digest of its sidecar",
        "`note` does not belong",
        "0=ocfl_object_1.1 is missing",
    ] {
        assert!(told.iter().any(|line| line.contains(part)), "{part}: {told:#?}");
    }
    assert!(read(&bench.ocfl, 1, "a").await.unwrap_err().to_string().contains("damaged"));
}

#[tokio::test]
async fn an_audit_goes_on_without_the_root_inventory() {
    let bench = Bench::new();
    store(&bench.ocfl, &request(&bench.work(), "k1", &FIRST)).await.unwrap();
    fs::write(bench.object().join("inventory.json"), "{").unwrap();
    fs::write(bench.object().join("v1/content/a"), "One").unwrap();
    let told = problems(&bench.ocfl).await;
    assert!(told.iter().any(|line| line.contains("`v1/content/a` has not the digest")), "{told:#?}");
    assert!(told.iter().any(|line| line.starts_with("inventory.json")), "{told:#?}");
    let refused = store(&bench.ocfl, &request(&bench.work(), "k2", &SECOND)).await.unwrap_err();
    assert!(refused.to_string().contains("damaged"), "{refused}");
}

#[tokio::test]
async fn an_audit_counts_and_can_be_stopped() {
    let bench = Bench::new();
    store(&bench.ocfl, &request(&bench.work(), "k1", &FIRST)).await.unwrap();
    let progress = Progress::default();
    let audit = bench.ocfl.audit(ARK, &progress, &Cancel::new()).await.unwrap();
    assert_eq!((audit.versions, audit.files, audit.bytes, progress.done()), (1, 3, 6, (3, 6)));
    let cancel = Cancel::new();
    cancel.cancel();
    assert_eq!(bench.ocfl.audit(ARK, &progress, &cancel).await, Err(Failure::Cancelled));
    let none = bench.ocfl.audit("ark:/99999/none", &progress, &Cancel::new()).await.unwrap();
    assert!(!none.present && none.problems.len() == 1, "{none:?}");
}

#[test]
fn a_root_that_many_begin_at_once_is_made_once() {
    for _ in 0..20 {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        std::thread::scope(|scope| {
            let opened: Vec<_> = (0..6).map(|_| scope.spawn(|| Ocfl::open(&root, None).map(drop))).collect();
            for one in opened {
                one.join().unwrap().unwrap();
            }
        });
        assert_eq!(verdict(&root), Vec::<String>::new());
        assert_eq!(std::fs::read_dir(dir.path().join("root.staging")).unwrap().count(), 0);
    }
}

#[test]
fn a_directory_that_is_no_root_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("thesis.doc"), "").unwrap();
    let refused = Ocfl::open(dir.path(), None).unwrap_err().to_string();
    assert!(refused.contains("thesis.doc") && refused.contains("empty directory"), "{refused}");
    let inside = Ocfl::open(&dir.path().join("r"), Some(&dir.path().join("r/staging"))).unwrap_err();
    assert!(inside.to_string().contains("name one outside"), "{inside}");
}

#[tokio::test]
async fn another_spelling_of_an_ark_is_refused() {
    let bench = Bench::new();
    crate::objects::refuses_other_spellings(&bench.ocfl, &bench.work()).await;
    assert_eq!(bench.ocfl.objects().collect::<Vec<_>>().await, []);
}
