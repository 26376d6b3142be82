//! Every change of a single file of an object, and of larger parts of it: the verdict on each.

use std::fs;

use ingest_steps::audit::verdict::Verdict::{self, Altered, Lost, RolledBack, Sound, Unstored};

use crate::fixture::{FIRST, Fixture, OTHER};
use crate::objects::ARK;
use crate::place::Place;

/// Which files of an object.
type Chosen = fn(&str) -> bool;

/// What is done with a file.
const CHANGES: [&str; 6] = ["delete", "truncate", "first byte", "last byte", "replace", "append"];

fn changed(change: &str, content: &[u8]) -> Option<Vec<u8>> {
    let mut content = content.to_vec();
    match change {
        "delete" => return None,
        "truncate" => content.clear(),
        "first byte" => content[0] ^= 1,
        "last byte" => *content.last_mut().unwrap() ^= 1,
        "replace" => content = b"something else altogether".to_vec(),
        _ => content.push(b'x'),
    }
    Some(content)
}

/// Changes each file in each way; `expected` of its name without the random parts, and the change.
async fn every_file_in_every_way(fixture: &Fixture, expected: impl Fn(&str, &str) -> Verdict) -> usize {
    let files = fixture.files().await;
    let mut tried = 0;
    for (name, content) in &files {
        for change in CHANGES {
            match changed(change, content) {
                None => fixture.remove(name).await,
                Some(content) => fixture.write(name, &content).await,
            }
            let (verdict, why) = fixture.verdict().await;
            assert_eq!(verdict, expected(name, change), "{change} {name}: {why:#?}");
            fixture.restore(&files).await;
            tried += 1;
        }
    }
    assert_eq!(fixture.verdict().await.0, Sound);
    tried
}

#[tokio::test]
async fn every_change_of_a_file_of_an_ocfl_object_has_its_verdict() {
    let fixture = Fixture::ocfl(Place::sqlite()).await.filled().await;
    let expected = |name: &str, change: &str| match (name.contains("/content/"), change) {
        (true, "delete") => Lost,
        _ => Altered,
    };
    // The namaste file, three inventories with their sidecars, three files of content.
    assert_eq!(every_file_in_every_way(&fixture, expected).await, 10 * CHANGES.len());
}

#[tokio::test]
async fn every_change_of_a_key_of_an_object_in_a_bucket_has_its_verdict() {
    let fixture = Fixture::s3(Place::sqlite()).await.filled().await;
    let expected = |name: &str, change: &str| match (name, change) {
        // A version is there as soon as its inventory is.
        ("v2/inventory.json", "delete") => RolledBack,
        (_, "delete") => Lost,
        _ => Altered,
    };
    // Two inventories; each version's content, which is kept once only against the head.
    let tried = every_file_in_every_way(&fixture, expected).await;
    assert_eq!(tried, fixture.files().await.len() * CHANGES.len());
    assert!(tried >= 5 * CHANGES.len(), "{tried}");
}

#[tokio::test]
async fn every_larger_damage_of_an_ocfl_object_has_its_verdict() {
    let fixture = Fixture::ocfl(Place::sqlite()).await.filled().await;
    let (object, other) = (fixture.object(ARK), fixture.object(OTHER));
    let files = fixture.files().await;
    let remove = |names: &[&str]| {
        for name in names {
            fs::remove_file(object.join(name)).unwrap();
        }
    };
    let table: [(&str, Verdict, &dyn Fn()); 13] = [
        ("the newest version", Lost, &|| fs::remove_dir_all(object.join("v2")).unwrap()),
        ("the first version", Lost, &|| fs::remove_dir_all(object.join("v1")).unwrap()),
        ("the object", Unstored, &|| fs::remove_dir_all(&object).unwrap()),
        ("the object, with the tuples above it", Unstored, &|| {
            fs::remove_dir_all(object.ancestors().nth(3).unwrap()).unwrap();
        }),
        ("all that the object has", Lost, &|| {
            fs::remove_dir_all(&object).unwrap();
            fs::create_dir(&object).unwrap();
        }),
        ("the object, for a file", Lost, &|| {
            fs::remove_dir_all(&object).unwrap();
            fs::write(&object, "").unwrap();
        }),
        ("the namaste file and the root inventory", Altered, &|| {
            remove(&["0=ocfl_object_1.1", "inventory.json"]);
        }),
        ("all inventories", Lost, &|| {
            remove(&["0=ocfl_object_1.1", "inventory.json", "v1/inventory.json", "v2/inventory.json"]);
        }),
        ("a version, cleanly", RolledBack, &|| {
            fs::remove_dir_all(object.join("v2")).unwrap();
            for name in ["inventory.json", "inventory.json.sha512"] {
                fs::copy(object.join("v1").join(name), object.join(name)).unwrap();
            }
        }),
        ("nothing, but with a new file in the object", Altered, &|| {
            fs::write(object.join("x"), "x").unwrap();
        }),
        ("nothing, but with a new file in the content", Altered, &|| {
            fs::write(object.join("v1/content/x"), "x").unwrap();
        }),
        ("nothing, but with a version that nobody knows", Altered, &|| {
            fs::create_dir_all(object.join("v3/content")).unwrap();
        }),
        ("the root inventory, for that of another object", Altered, &|| {
            for name in ["inventory.json", "inventory.json.sha512"] {
                fs::copy(other.join(name), object.join(name)).unwrap();
            }
        }),
    ];
    for (what, expected, damage) in table {
        damage();
        let (verdict, why) = fixture.verdict().await;
        assert_eq!(verdict, expected, "without {what}: {why:#?}");
        if object.is_file() {
            fs::remove_file(&object).unwrap();
        }
        fixture.restore(&files).await;
    }
    assert_eq!(fixture.verdict().await.0, Sound);
}

#[tokio::test]
async fn every_larger_damage_of_an_object_in_a_bucket_has_its_verdict() {
    let fixture = Fixture::s3(Place::sqlite()).await.filled().await;
    let files = fixture.files().await;
    let table: [(&str, Verdict, Chosen); 4] = [
        ("the newest version", RolledBack, |name| name.starts_with("v2/")),
        ("the first version", Lost, |name| name.starts_with("v1/")),
        ("the object", Unstored, |_| true),
        ("all inventories", Lost, |name| name.ends_with("/inventory.json")),
    ];
    for (what, expected, goes) in table {
        for name in files.keys().filter(|name| goes(name)) {
            fixture.remove(name).await;
        }
        let (verdict, why) = fixture.verdict().await;
        assert_eq!(verdict, expected, "without {what}: {why:#?}");
        fixture.restore(&files).await;
    }
    fixture.write("v1/content/dead/x", b"x").await;
    assert_eq!(fixture.verdict().await.0, Altered);
    fixture.restore(&files).await;
    assert_eq!(fixture.verdict().await.0, Sound);
}

/// Where an object is forged as a whole, it agrees with itself, and only the inventory knows better.
#[tokio::test]
async fn content_and_inventories_that_are_forged_together_are_altered() {
    for ocfl in [true, false] {
        let make = async || {
            if ocfl { Fixture::ocfl(Place::sqlite()).await } else { Fixture::s3(Place::sqlite()).await }
        };
        let (fixture, forgery) = (make().await.filled().await, make().await);
        // The same sizes and names.
        forgery.store(ARK, 1, &[("a", "the FIRST"), FIRST[1], ("same", "the FIRST")]).await;
        forgery.store(ARK, 2, &[("a", "the FIRST"), ("b/c.txt", "changed")]).await;
        fixture.restore(&forgery.files().await).await;
        let (verdict, why) = fixture.verdict().await;
        assert_eq!(verdict, Altered, "{why:#?}");
        let [first, same] = why.as_slice() else { panic!("{why:#?}") };
        assert!(first.starts_with("version 1: `a` has not the digest sha-512"), "{first}");
        assert!(same.starts_with("version 1: `same` has not the digest sha-512"), "{same}");
    }
}
