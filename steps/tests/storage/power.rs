//! A store during which the power goes: what was not synced may be gone, in whatever way the file system chooses.

use std::fs;

use ingest_steps::storage::Storage as _;
use ingest_steps::storage::disk::{Disk, Loss};
use ingest_steps::storage::ocfl::Ocfl;

use crate::kill::{FIRST, SECOND, Then, judge_between, repair_and_judge};
use crate::objects::{ARK, contents, pairs, problems, request, store};
use crate::ocfl::verdict;

/// All that is tried at every operation.
const LOSSES: [Loss; 7] = [
    Loss::Everything,
    Loss::Renames,
    Loss::Contents,
    Loss::Directory(0),
    Loss::One(0),
    Loss::One(1),
    Loss::One(2),
];

/// Cuts the power at every operation of the store of the second version, or of the first; how many there were.
async fn cut_everywhere(new: bool, loss: Loss) -> u64 {
    for operation in 1.. {
        let dir = tempfile::tempdir().unwrap();
        let [root, work, aside] = ["ocfl", "work", "aside"].map(|name| dir.path().join(name));
        fs::create_dir(&work).unwrap();
        fs::create_dir(&aside).unwrap();
        let sound = Ocfl::open(&root, None).unwrap();
        let wanted = if new {
            request(&work, "wanted", &FIRST)
        } else {
            store(&sound, &request(&work, "before", &FIRST)).await.unwrap();
            request(&work, "wanted", &SECOND)
        };
        let disk = Disk::that_loses_power_at(operation, &aside);
        let result = store(&Ocfl::open_on(&root, None, disk.clone()).unwrap(), &wanted).await;
        let ended = !disk.has_failed();
        disk.cut_power(loss).unwrap();
        let place = format!("operation {operation}, {loss:?}");
        judge_between(&sound, new, &place).await;
        if ended {
            // What was told to be stored outlives the cut.
            let version = if new { 1 } else { 2 };
            assert_eq!(result.unwrap().version, version);
            assert_eq!(sound.manifest(ARK, None).await.unwrap().unwrap().head, version, "{place}");
        }
        repair_and_judge(&sound, &root, &wanted, new, Then::StoreAgain, &work, &place).await;
        if ended {
            return operation - 1;
        }
    }
    unreachable!()
}

#[tokio::test]
async fn a_new_object_is_there_or_not_after_the_power_went() {
    for loss in LOSSES {
        assert!(cut_everywhere(true, loss).await > 30);
    }
}

#[tokio::test]
async fn a_new_version_is_there_or_not_after_the_power_went() {
    for loss in LOSSES {
        assert!(cut_everywhere(false, loss).await > 30);
    }
}

#[tokio::test]
async fn a_root_that_was_made_is_there_after_the_power_went() {
    for loss in LOSSES {
        for operation in 1.. {
            let dir = tempfile::tempdir().unwrap();
            let [root, work, aside] = ["deep/below/ocfl", "work", "aside"].map(|name| dir.path().join(name));
            fs::create_dir(&work).unwrap();
            fs::create_dir(&aside).unwrap();
            let disk = Disk::that_loses_power_at(operation, &aside);
            let opened = Ocfl::open_on(&root, None, disk.clone());
            let ended = !disk.has_failed();
            disk.cut_power(loss).unwrap();
            let place = format!("operation {operation}, {loss:?}");
            if ended {
                opened.unwrap();
                assert!(root.join("0=ocfl_1.1").is_file(), "{place}");
                break;
            }
            let again = Ocfl::open(&root, None).expect(&place);
            store(&again, &request(&work, "k", &FIRST)).await.expect(&place);
            assert_eq!(contents(&again, 1).await, pairs(&FIRST), "{place}");
            assert_eq!((verdict(&root), problems(&again).await), (vec![], vec![]), "{place}");
        }
    }
}
