//! All objects are those of the inventory and those of the storages, each once, and what is none of them.

use std::collections::BTreeMap;
use std::fs;

use ingest_steps::audit::verdict::Verdict::{self, Foreign, Lost, Sound, Unknown, Unrecorded, Unstored};
use ingest_steps::audit::{Audited, Scope};
use ingest_steps::outcome::Failure;
use object_store::ObjectStoreExt as _;
use object_store::path::Path as Key;

use crate::fixture::{Back, FIRST, Fixture, OTHER, audit};
use crate::objects::ARK;
use crate::place::Place;

fn verdicts(found: &[Audited]) -> BTreeMap<Verdict, usize> {
    let mut verdicts = BTreeMap::new();
    for one in found {
        *verdicts.entry(one.verdict).or_default() += 1;
    }
    verdicts
}

/// More than two pages of either.
const MANY: u32 = 1_020;

#[tokio::test]
async fn every_object_of_the_inventory_and_of_the_storage_is_told_once() {
    let fixture = Fixture::s3(Place::sqlite()).await;
    for number in 0..MANY {
        let ark = format!("ark:/99999/x{number:04}");
        if number % 2 == 0 {
            fixture.deposit(&ark, 1, &FIRST[..1]).await;
        } else {
            fixture.store(&ark, 1, &FIRST[..1]).await;
        }
    }
    // Every tenth of those that are recorded is gone.
    let Back::S3 { bucket } = &fixture.back else { panic!() };
    let mut gone = 0;
    let keys: Vec<_> = futures::TryStreamExt::try_collect(bucket.list(None)).await.unwrap();
    for key in keys {
        let key: Key = key.location;
        let number = key.as_ref().split("Fx").nth(1).unwrap()[..4].parse::<u32>().unwrap();
        if number % 20 == 0 {
            gone += usize::from(key.as_ref().ends_with("v1/inventory.json"));
            bucket.delete(&key).await.unwrap();
        }
    }
    let found = audit(&fixture.auditor(), Scope::All).await.unwrap();
    let (recorded, unrecorded) = (MANY as usize / 2, MANY as usize / 2);
    let expected = [(Sound, recorded - gone), (Unrecorded, unrecorded), (Unstored, gone)];
    assert_eq!(verdicts(&found), BTreeMap::from(expected));
    let mut arks: Vec<_> = found.iter().map(|found| found.ark.clone()).collect();
    arks.sort_unstable();
    arks.dedup();
    assert_eq!(arks.len(), MANY as usize);
    let named = audit(&fixture.auditor(), Scope::Objects(arks)).await.unwrap();
    let sorted = |mut list: Vec<Audited>| {
        list.sort_by(|a, b| a.ark.cmp(&b.ark));
        list
    };
    assert_eq!(sorted(named), sorted(found));
}

#[tokio::test]
async fn what_is_no_object_is_told_with_where_it_lies() {
    let fixture = Fixture::ocfl(Place::sqlite()).await.filled().await;
    let Back::Ocfl { root } = &fixture.back else { panic!() };
    let object = fixture.object(ARK);
    let tuple = object.parent().unwrap();
    let elsewhere = fixture.object("ark:/99999/elsewhere");
    let strange = fixture.object("ark:/99999/strange");
    let empty = fixture.object("ark:/99999/empty");
    fs::write(root.join("stray.txt"), "").unwrap();
    fs::create_dir(root.join("lost+found")).unwrap();
    fs::write(tuple.parent().unwrap().join("stray"), "").unwrap();
    fs::write(tuple.join("stray"), "").unwrap();
    fs::create_dir(tuple.join("0".repeat(64))).unwrap();
    fs::create_dir_all(&elsewhere).unwrap();
    fs::copy(object.join("inventory.json"), elsewhere.join("inventory.json")).unwrap();
    fs::create_dir_all(&strange).unwrap();
    fs::write(strange.join("inventory.json"), r#"{"id": "info:other"}"#).unwrap();
    fs::create_dir_all(&empty).unwrap();
    // These belong there: what is the root's own, and the tuples that a killed store has left.
    fs::create_dir(root.join("extensions/another")).unwrap();
    fs::write(root.join("extensions/another/file"), "").unwrap();
    fs::write(root.join("ocfl_1.1.md"), "").unwrap();
    fs::create_dir_all(root.join("fff/fff")).unwrap();

    let found = audit(&fixture.auditor(), Scope::All).await.unwrap();
    assert_eq!(verdicts(&found), BTreeMap::from([(Sound, 2), (Foreign, 8)]), "{found:#?}");
    let expected = [
        (root.join("stray.txt"), "this file is no object"),
        (root.join("lost+found"), "this directory is no object"),
        (tuple.parent().unwrap().join("stray"), "this file is no object"),
        (tuple.join("stray"), "this file is no object"),
        (tuple.join("0".repeat(64)), "this directory is no object"),
        (elsewhere, "whose place is"),
        (strange, "it is the object `info:other`"),
        (empty, "no inventory in it says which object it is"),
    ];
    for (place, why) in expected {
        let place = place.display().to_string();
        let one = found.iter().find(|found| found.place == place).unwrap_or_else(|| panic!("{place}"));
        assert!(one.ark.is_empty() && one.storage == "default", "{one:?}");
        assert!(one.findings[0].what.contains(&place) && one.findings[0].what.contains(why), "{one:?}");
    }
}

#[tokio::test]
async fn keys_that_are_of_no_object_are_told() {
    let fixture = Fixture::s3(Place::sqlite()).await.filled().await;
    let Back::S3 { bucket } = &fixture.back else { panic!() };
    let strays = ["stray", "not an ark/v1/inventory.json", "ark:%2F99999%2Ffk4abc/note/x"];
    for key in strays.iter().chain(&["extensions/identity/config.json"]) {
        let key = Key::parse(format!("some/prefix/{key}")).unwrap();
        bucket.put(&key, "x".into()).await.unwrap();
    }
    let found = audit(&fixture.auditor(), Scope::All).await.unwrap();
    let foreign: Vec<_> = found.iter().filter(|found| found.verdict == Foreign).collect();
    assert_eq!(foreign.len(), 3, "{found:#?}");
    for stray in strays {
        assert!(foreign.iter().any(|found| found.place == format!("some/prefix/{stray}")), "{stray}");
    }
}

#[tokio::test]
async fn an_object_that_nobody_has_is_unknown() {
    let fixture = Fixture::ocfl(Place::sqlite()).await.filled().await;
    let nobody = Scope::Objects(vec!["ark:/99999/nobody".to_owned()]);
    let found = audit(&fixture.auditor(), nobody).await.unwrap();
    assert_eq!(found.iter().map(|found| found.verdict).collect::<Vec<_>>(), [Unknown]);
}

/// An empty directory in the place of a file system that is not mounted has lost nothing.
#[tokio::test]
async fn a_storage_root_that_is_not_there_ends_the_audit() {
    let fixture = Fixture::ocfl(Place::sqlite()).await.filled().await;
    let Back::Ocfl { root } = &fixture.back else { panic!() };
    fs::rename(root, root.with_extension("away")).unwrap();
    fs::create_dir(root).unwrap();
    for scope in [Scope::All, Scope::Objects(vec![ARK.to_owned()])] {
        match audit(&fixture.auditor(), scope).await {
            Err(Failure::Later(why)) if why.contains("is it mounted?") => {}
            other => panic!("{other:?}"),
        }
    }
}

/// Of two storages that have an object, the one that is behind is measured by what it has.
#[tokio::test]
async fn an_older_copy_in_another_storage_is_no_rolled_back_object() {
    let (fixture, copy) =
        (Fixture::ocfl(Place::sqlite()).await.filled().await, Fixture::s3(Place::sqlite()).await);
    copy.store(ARK, 1, &FIRST).await;
    let mut auditor = fixture.auditor();
    auditor.storages.insert("copy".into(), copy.storage.clone());
    let named = vec![ARK.to_owned(), OTHER.to_owned()];
    let found = audit(&auditor, Scope::Objects(named)).await.unwrap();
    assert_eq!(verdicts(&found), BTreeMap::from([(Sound, 3)]), "{found:#?}");
    assert_eq!(audit(&auditor, Scope::All).await.unwrap().len(), 3);
    // And where the newer one is lost, the older one is what is left.
    fs::remove_dir_all(fixture.object(ARK)).unwrap();
    let found = audit(&auditor, Scope::All).await.unwrap();
    assert_eq!(verdicts(&found), BTreeMap::from([(Sound, 1), (Verdict::RolledBack, 1)]), "{found:#?}");
    fs::create_dir_all(fixture.object(ARK)).unwrap();
    let found = audit(&auditor, Scope::All).await.unwrap();
    let expected = [(Sound, 1), (Verdict::RolledBack, 1), (Lost, 1)];
    assert_eq!(verdicts(&found), BTreeMap::from(expected), "{found:#?}");
}
