//! A store that is stopped at each of its operations on the file system, one after the other.

use std::fs;
use std::path::Path;

use ingest_steps::storage::disk::Disk;
use ingest_steps::storage::ocfl::Ocfl;
use ingest_steps::storage::{Storage as _, StoreRequest};

use crate::objects::{ARK, carrying, contents, pairs, problems, request, store};
use crate::ocfl::verdict;

pub(crate) const FIRST: [(&str, &str); 3] = [("a", "one"), ("b/c", "two"), ("b/d", "one")];
pub(crate) const SECOND: [(&str, &str); 3] = [("a", "one"), ("b/c", "new"), ("e/f", "two")];
const THIRD: [(&str, &str); 1] = [("z", "last")];

/// What is done after the fault, before the object is judged.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Then {
    StoreAgain,
    StoreAnother,
    Recover,
}

/// Stops the store of the second version, or of the first, at every operation; how many there were.
async fn stop_everywhere(new: bool, disk: fn(u64) -> Disk, then: Then) -> u64 {
    for operation in 1.. {
        let dir = tempfile::tempdir().unwrap();
        let (root, work) = (dir.path().join("ocfl"), dir.path().join("work"));
        fs::create_dir(&work).unwrap();
        let sound = Ocfl::open(&root, None).unwrap();
        let wanted = if new {
            request(&work, "wanted", &FIRST)
        } else {
            store(&sound, &request(&work, "before", &FIRST)).await.unwrap();
            // Of its files one is carried forward.
            carrying(&sound, &work, "wanted", &SECOND[1..], &["a"]).await
        };
        let disk = disk(operation);
        let faulty = Ocfl::open_on(&root, None, disk.clone()).unwrap();
        let result = store(&faulty, &wanted).await;
        let place = format!("operation {operation}, {then:?}");
        if !disk.has_failed() {
            assert_eq!(result.unwrap().version, if new { 1 } else { 2 });
            return operation - 1;
        }
        drop(faulty);
        judge_between(&sound, new, &place).await;
        repair_and_judge(&sound, &root, &wanted, new, then, &work, &place).await;
    }
    unreachable!()
}

/// Right after the fault readers see the old object or the new one, whole.
pub(crate) async fn judge_between(ocfl: &Ocfl, new: bool, place: &str) {
    let Some(manifest) = ocfl.manifest(ARK, None).await.expect(place) else {
        assert!(new, "{place}: the object is gone");
        return;
    };
    assert_eq!(contents(ocfl, 1).await, pairs(&FIRST), "{place}");
    if manifest.version == 2 {
        assert_eq!(contents(ocfl, 2).await, pairs(&SECOND), "{place}");
    }
}

pub(crate) async fn repair_and_judge(
    ocfl: &Ocfl,
    root: &Path,
    wanted: &StoreRequest,
    new: bool,
    then: Then,
    work: &Path,
    place: &str,
) {
    let target = if new { 1 } else { 2 };
    let files = if new { &FIRST } else { &SECOND };
    match then {
        Then::StoreAgain => {
            assert_eq!(store(ocfl, wanted).await.expect(place).version, target, "{place}");
            assert_eq!(contents(ocfl, target).await, pairs(files), "{place}");
            // And once more: there is one version of it, not two.
            let again = store(ocfl, wanted).await.expect(place);
            assert_eq!((again.version, again.already), (target, true), "{place}");
            assert_eq!(ocfl.manifest(ARK, None).await.unwrap().unwrap().head, target, "{place}");
        }
        Then::StoreAnother => {
            let made = store(ocfl, &request(work, "another", &THIRD)).await.expect(place);
            assert_eq!(contents(ocfl, made.version).await, pairs(&THIRD), "{place}");
        }
        Then::Recover => ocfl.recover(ARK).await.expect(place),
    }
    assert_eq!(verdict(root), [""; 0], "{place}");
    if ocfl.manifest(ARK, None).await.unwrap().is_some() {
        assert_eq!(problems(ocfl).await, [""; 0], "{place}");
    }
    let staging = root.with_file_name("ocfl.staging");
    assert_eq!(fs::read_dir(staging).unwrap().count(), 0, "{place}");
}

#[tokio::test]
async fn a_killed_store_of_a_new_object_is_done_again() {
    assert!(stop_everywhere(true, Disk::that_dies_at, Then::StoreAgain).await > 30);
}

#[tokio::test]
async fn a_killed_store_of_a_new_object_does_not_hinder_another() {
    stop_everywhere(true, Disk::that_dies_at, Then::StoreAnother).await;
}

#[tokio::test]
async fn a_killed_store_of_a_new_object_can_be_recovered() {
    stop_everywhere(true, Disk::that_dies_at, Then::Recover).await;
}

#[tokio::test]
async fn a_killed_store_of_a_version_is_done_again() {
    assert!(stop_everywhere(false, Disk::that_dies_at, Then::StoreAgain).await > 30);
}

#[tokio::test]
async fn a_killed_store_of_a_version_does_not_hinder_another() {
    stop_everywhere(false, Disk::that_dies_at, Then::StoreAnother).await;
}

#[tokio::test]
async fn a_killed_store_of_a_version_can_be_recovered() {
    stop_everywhere(false, Disk::that_dies_at, Then::Recover).await;
}

#[tokio::test]
async fn an_operation_that_fails_once_is_survived() {
    stop_everywhere(true, Disk::that_fails_at, Then::StoreAgain).await;
    stop_everywhere(false, Disk::that_fails_at, Then::StoreAgain).await;
}

#[tokio::test]
async fn a_repair_that_is_killed_is_repaired() {
    // The latest moment at which a kill leaves a version that the root inventory does not know.
    for operation in 1..12 {
        let dir = tempfile::tempdir().unwrap();
        let (root, work) = (dir.path().join("ocfl"), dir.path().join("work"));
        fs::create_dir(&work).unwrap();
        let sound = Ocfl::open(&root, None).unwrap();
        store(&sound, &request(&work, "before", &FIRST)).await.unwrap();
        let wanted = request(&work, "wanted", &SECOND);
        leave_half_a_commit(&root, &wanted).await;
        let faulty = Ocfl::open_on(&root, None, Disk::that_dies_at(operation)).unwrap();
        let _ = faulty.recover(ARK).await;
        let again = store(&sound, &wanted).await.unwrap();
        assert_eq!((again.version, again.already), (2, true), "operation {operation}");
        assert_eq!(verdict(&root), [""; 0], "operation {operation}");
    }
}

/// Kills stores later and later until one leaves `v2` without a root inventory that knows it.
async fn leave_half_a_commit(root: &Path, wanted: &StoreRequest) {
    for operation in 1.. {
        let faulty = Ocfl::open_on(root, None, Disk::that_dies_at(operation)).unwrap();
        assert!(store(&faulty, wanted).await.is_err());
        if half_made(root) {
            return;
        }
    }
}

fn half_made(directory: &Path) -> bool {
    directory.join("v2").is_dir()
        || fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .any(|path| path.is_dir() && half_made(&path))
}

#[test]
fn a_root_that_was_half_made_is_made() {
    for operation in 1.. {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("ocfl");
        let disk = Disk::that_dies_at(operation);
        let opened = Ocfl::open_on(&root, None, disk.clone());
        if !disk.has_failed() {
            opened.unwrap();
            assert!(operation > 10);
            return;
        }
        opened.unwrap_err();
        Ocfl::open(&root, None).unwrap();
        assert_eq!(verdict(&root), [""; 0], "operation {operation}");
    }
}
