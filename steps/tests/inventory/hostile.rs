//! Texts and numbers that nobody should send, and objects that are large.

use ingest_steps::inventory::{MAX_NAME, Record};
use ingest_steps::outcome::Failure;

use crate::place::{Place, on_both_databases};
use crate::{OWNER, ark, file, record};

/// What the refusal says, and what is wrong.
type Change = (&'static str, fn(&mut Record));

async fn any_text_comes_back_as_it_was(place: &Place) {
    let inventory = place.open().await;
    let texts = [
        "'; DROP TABLE objects; --".to_owned(),
        "$1 \"x\" \\ % _ ?".to_owned(),
        "Ünïcode 名 \u{1f600}\u{301}\r\n\t\u{7f}".to_owned(),
        "x".repeat(100_000),
    ];
    let files: Vec<_> = texts.iter().map(|text| file(text, "content")).collect();
    for (job, text) in (1..).zip(&texts) {
        let mut wanted = record(&format!("m5{job}"), 1, job);
        wanted.title = Some(text.clone());
        wanted.local_ids = vec![text.chars().take(MAX_NAME / 4).collect()];
        wanted.files.clone_from(&files);
        inventory.record(&wanted).await.unwrap();
        let object = inventory.object(&wanted.ark).await.unwrap().unwrap();
        wanted.files.sort_by(|a, b| a.path.cmp(&b.path));
        assert_eq!((&object.versions[0].title, &object.local_ids), (&wanted.title, &wanted.local_ids));
        assert_eq!(object.versions[0].files, wanted.files);
        assert_eq!(inventory.find(OWNER, &wanted.local_ids[0]).await, Ok(Some(wanted.ark)));
    }
}

async fn what_no_database_holds_is_refused_before_it_is_asked(place: &Place) {
    let inventory = place.open().await;
    let changes: [Change; 9] = [
        ("the first version is 1", |record| record.version = 0),
        ("there is a NUL in `a\\0b`", |record| record.title = Some("a\0b".into())),
        ("there is a NUL", |record| record.files[0].path = "\0".into()),
        ("the local id `` is not", |record| record.local_ids.push(String::new())),
        ("is not 1 to 1024 bytes", |record| record.local_ids.push("x".repeat(MAX_NAME + 1))),
        ("the key `` is not", |record| record.key.clear()),
        ("is empty or there twice", |record| record.files[0].path = record.files[1].path.clone()),
        ("no file has 18446744073709551615 bytes", |record| record.files[0].size = u64::MAX),
        ("two digests of one algorithm", |record| {
            let digest = record.files[0].digests[0].clone();
            record.files[0].digests.push(digest);
        }),
    ];
    for (expected, change) in changes {
        let mut wanted = record("m5a", 1, 1);
        change(&mut wanted);
        match inventory.record(&wanted).await {
            Err(Failure::Hopeless(why)) if why.contains(expected) && why.len() < 300 => {}
            other => panic!("{expected}: {other:?}"),
        }
    }
    assert_eq!(inventory.find("a\0", "b\0").await, Ok(None));
    assert_eq!(place.rows().await, 0);
}

async fn a_large_object_is_recorded_whole(place: &Place) {
    let inventory = place.open().await;
    let mut wanted = record("m5a", 1, 1);
    wanted.files = (0..2_501).map(|number| file(&format!("producer/{number:05}"), "x")).collect();
    wanted.local_ids = (0..1_501).map(|number| format!("id-{number:05}")).collect();
    inventory.record(&wanted).await.unwrap();
    let object = inventory.object(&ark("m5a")).await.unwrap().unwrap();
    assert_eq!((&object.versions[0].files, &object.local_ids), (&wanted.files, &wanted.local_ids));
    assert!(inventory.record(&wanted).await.unwrap().already);
    let second = Record { local_ids: vec!["id-01500".into()], ..record("m5b", 1, 2) };
    assert!(matches!(inventory.record(&second).await, Err(Failure::Fail(_))));
}

async fn an_object_without_files_and_local_ids_is_an_object(place: &Place) {
    let inventory = place.open().await;
    let wanted = Record { files: Vec::new(), local_ids: Vec::new(), ..record("m5a", 1, 1) };
    inventory.record(&wanted).await.unwrap();
    assert!(inventory.object(&ark("m5a")).await.unwrap().unwrap().versions[0].files.is_empty());
    assert!(inventory.record(&wanted).await.unwrap().already);
}

on_both_databases!(
    any_text_comes_back_as_it_was,
    what_no_database_holds_is_refused_before_it_is_asked,
    a_large_object_is_recorded_whole,
    an_object_without_files_and_local_ids_is_an_object,
);
