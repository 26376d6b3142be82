//! What is recorded, what is answered the second time, and what is refused.

use ingest_queue::ids::Jid;
use ingest_steps::digest::Algorithm;
use ingest_steps::inventory::{
    BATCHES, Claim, Inventory, JOBS, Object, Record, Recorded, Unrecorded, Version,
};
use ingest_steps::outcome::Failure;

use crate::place::{Place, on_both_databases};
use crate::{OWNER, ark, digest, file, record};

const NEW: Recorded = Recorded { already: false };
const ALREADY: Recorded = Recorded { already: true };

/// Why a record fails; it must be a failure that a person can repair.
/// What the refusal says, and what is wrong.
type Change = (&'static str, fn(&mut Record));

async fn refused(inventory: &dyn Inventory, record: &Record) -> String {
    match inventory.record(record).await {
        Err(Failure::Fail(why)) => why,
        other => panic!("{other:?}"),
    }
}

fn version_of(record: &Record) -> Version {
    Version {
        version: record.version,
        key: record.key.clone(),
        title: record.title.clone(),
        creator: record.creator.clone(),
        date: record.date.clone(),
        files: record.files.clone(),
        ingest: record.ingest.clone(),
        superseded: false,
    }
}

async fn an_object_is_read_as_it_was_recorded(place: &Place) {
    let inventory = place.open().await;
    let first = record("m5a", 1, 1);
    let mut second = record("m5a", 2, 2);
    second.collection = "ucop_other".into();
    second.local_ids = vec!["another".into()];
    second.files.push(file("system/z", ""));
    second.files[2].mime = None;
    second.files[2].digests.clear();
    assert_eq!(inventory.record(&first).await, Ok(NEW));
    assert_eq!(inventory.record(&second).await, Ok(NEW));
    let expected = Object {
        ark: ark("m5a"),
        owner: OWNER.into(),
        collection: "ucop_other".into(),
        local_ids: vec!["another".into(), "local-m5a".into()],
        versions: vec![version_of(&first), version_of(&second)],
    };
    assert_eq!(inventory.object(&ark("m5-a")).await, Ok(Some(expected.clone())));
    assert_eq!(place.open().await.object(&ark("m5a")).await, Ok(Some(expected)), "another node sees it");
}

async fn what_was_never_recorded_is_not_there(place: &Place) {
    let inventory = place.open().await;
    assert_eq!(inventory.object(&ark("m5a")).await, Ok(None));
    assert_eq!(inventory.local_ids(&ark("m5a")).await, Ok(Vec::new()));
    assert_eq!(inventory.find(OWNER, "local-m5a").await, Ok(None));
}

async fn all_objects_are_found_page_by_page(place: &Place) {
    let inventory = place.open().await;
    assert_eq!(inventory.objects(None).await, Ok(Vec::new()));
    // More than a page.
    let mut expected = Vec::new();
    for number in 0..510 {
        let name = format!("m{number}");
        inventory.record(&record(&name, 1, number)).await.unwrap();
        expected.push(ark(&name).to_string());
    }

    let (mut found, mut pages) = (Vec::new(), 0);
    loop {
        let page = inventory.objects(found.last().map(String::as_str)).await.unwrap();
        if page.is_empty() {
            break;
        }
        pages += 1;
        found.extend(page);
    }
    assert_eq!(pages, 2);
    found.sort_unstable();
    expected.sort_unstable();
    assert_eq!(found, expected);
    // More than one statement asks for.
    let others: Vec<_> = (0..1_010).map(|number| ark(&format!("x{number}")).to_string()).collect();
    assert_eq!(inventory.unlisted(&[&others[..], &found].concat()).await.unwrap(), others);
}

async fn recording_again_changes_nothing(place: &Place) {
    let inventory = place.open().await;
    let mut record = record("m5a", 1, 1);
    assert_eq!(inventory.record(&record).await, Ok(NEW));
    let before = (inventory.object(&record.ark).await, place.rows().await);
    // In any order.
    record.files.reverse();
    record.files[0].digests.reverse();
    assert_eq!(inventory.record(&record).await, Ok(ALREADY));
    assert_eq!((inventory.object(&record.ark).await, place.rows().await), before);
}

async fn an_old_version_is_answered_too_when_newer_ones_are_there(place: &Place) {
    let inventory = place.open().await;
    inventory.record(&record("m5a", 1, 1)).await.unwrap();
    inventory.record(&record("m5a", 2, 2)).await.unwrap();
    assert_eq!(inventory.record(&record("m5a", 1, 1)).await, Ok(ALREADY));
}

async fn a_requeued_job_is_the_same_work(place: &Place) {
    let inventory = place.open().await;
    inventory.record(&record("m5a", 1, 1)).await.unwrap();
    let requeued = Record { key: format!("{}/recording/1", Jid::new(1)), ..record("m5a", 1, 1) };
    assert_eq!(inventory.record(&requeued).await, Ok(ALREADY));
}

async fn a_version_of_another_job_is_refused(place: &Place) {
    let inventory = place.open().await;
    inventory.record(&record("m5a", 1, 1)).await.unwrap();
    let why = refused(&*inventory, &record("m5a", 1, 2)).await;
    assert!(why.contains("version 1 of ark:/13030/m5a"), "{why}");
    assert!(why.contains("recorded by jid0000000001") && why.contains("this is jid0000000002"), "{why}");
}

async fn the_same_work_is_not_recorded_as_two_versions(place: &Place) {
    let inventory = place.open().await;
    inventory.record(&record("m5a", 1, 1)).await.unwrap();
    let why = refused(&*inventory, &record("m5a", 2, 1)).await;
    assert!(why.contains("was recorded as version 1 before"), "{why}");
}

async fn the_same_version_with_other_files_is_refused(place: &Place) {
    let inventory = place.open().await;
    let recorded = record("m5a", 1, 1);
    inventory.record(&recorded).await.unwrap();
    let changes: [Change; 7] = [
        ("`producer/text.txt` has another", |record| record.files[0].size += 1),
        ("`producer/text.txt` has another", |record| record.files[0].mime = None),
        ("`producer/text.txt` has another", |record| record.files[0].digests.truncate(1)),
        ("`producer/text.txt` has another", |record| {
            record.files[0].digests[0] = digest(Algorithm::Md5, "0");
        }),
        ("`producer/text.txt` is there, and `producer/other.txt`", |record| {
            record.files[0].path = "producer/other.txt".into();
        }),
        ("2 files are there, and 1 were to be", |record| record.files.truncate(1)),
        ("2 files are there, and 3 were to be", |record| record.files.push(file("z", ""))),
    ];
    for (expected, change) in changes {
        let mut other = recorded.clone();
        change(&mut other);
        let why = refused(&*inventory, &other).await;
        assert!(why.contains("recorded with other files") && why.contains(expected), "{why}");
    }
    let why = refused(&*inventory, &Record { local_ids: vec!["new".into()], ..recorded.clone() }).await;
    assert!(why.contains("without the local id `new`"), "{why}");
    assert_eq!(inventory.record(&recorded).await, Ok(ALREADY));
}

async fn versions_follow_without_gaps(place: &Place) {
    let inventory = place.open().await;
    let why = refused(&*inventory, &record("m5a", 2, 1)).await;
    assert!(why.contains("version 2 of ark:/13030/m5a") && why.contains("there is none yet"), "{why}");
    inventory.record(&record("m5a", 1, 1)).await.unwrap();
    let why = refused(&*inventory, &record("m5a", 3, 3)).await;
    assert!(why.contains("version 3") && why.contains("the newest is 1"), "{why}");
    assert_eq!(inventory.record(&record("m5a", 2, 2)).await, Ok(NEW));
}

async fn an_object_keeps_its_owner(place: &Place) {
    let inventory = place.open().await;
    inventory.record(&record("m5a", 1, 1)).await.unwrap();
    let why = refused(&*inventory, &Record { owner: "somebody".into(), ..record("m5a", 2, 2) }).await;
    assert!(!why.contains(OWNER) && why.contains("not one of this owner"), "whose it is, is not told: {why}");
}

async fn a_version_that_was_not_recorded_is_superseded_by_the_next_one(place: &Place) {
    let inventory = place.open().await;
    inventory.record(&record("m5a", 1, 1)).await.unwrap();
    let gap = |superseded| {
        let record = Record { local_ids: Vec::new(), ..record("m5a", 2, 2) };
        [Unrecorded { record, superseded }]
    };
    let third = record("m5a", 3, 3);
    assert_eq!(inventory.record_after(&gap(true), &third).await, Ok(NEW));
    let summary = inventory.summary(&third.ark).await.unwrap().unwrap();
    assert_eq!((summary.head, summary.current(), summary.superseded), (3, Some(3), [2].into()));
    assert_eq!((summary.owner.as_str(), summary.collection.as_str()), (OWNER, "ucop_demo"));
    let versions = inventory.object(&third.ark).await.unwrap().unwrap().versions;
    assert_eq!(versions.iter().map(|one| one.superseded).collect::<Vec<_>>(), [false, true, false]);
    assert_eq!(versions[1].files, version_of(&gap(true)[0].record).files, "it is kept");
    // Repeated, nothing changes.
    assert_eq!(inventory.record_after(&gap(true), &third).await, Ok(ALREADY));
    // Its own job records it after all.
    let late = Record { key: format!("{}/recording/1", Jid::new(2)), ..record("m5a", 2, 2) };
    let other = Record { files: Vec::new(), ..late.clone() };
    assert!(refused(&*inventory, &other).await.contains("kept with other files"));
    assert_eq!(inventory.record(&late).await, Ok(NEW));
    assert_eq!(inventory.record(&late).await, Ok(ALREADY));
    let summary = inventory.summary(&third.ark).await.unwrap().unwrap();
    assert_eq!((summary.head, summary.superseded), (3, [].into()));
    // One that the inventory had lost is recorded as it was.
    let after = record("m5b", 2, 4);
    let first = Unrecorded { record: record("m5b", 1, 5), superseded: false };
    assert_eq!(inventory.record_after(&[first], &after).await, Ok(NEW));
    assert_eq!(inventory.summary(&after.ark).await.unwrap().unwrap().superseded, [].into());
}

async fn a_local_id_leads_to_its_object(place: &Place) {
    let inventory = place.open().await;
    let mut first = record("m5a", 1, 1);
    first.local_ids = vec!["b".into(), "a".into(), "b".into()];
    inventory.record(&first).await.unwrap();
    for id in ["a", "b"] {
        assert_eq!(inventory.find(OWNER, id).await, Ok(Some(ark("m5a"))));
    }
    assert_eq!(inventory.find("somebody", "a").await, Ok(None));
    assert_eq!(inventory.find(OWNER, "A").await, Ok(None), "the case of a local id counts");
    assert_eq!(inventory.local_ids(&ark("m5a")).await, Ok(vec!["a".into(), "b".into()]));
}

async fn a_local_id_of_two_objects_is_refused_and_both_are_named(place: &Place) {
    let inventory = place.open().await;
    inventory.record(&record("m5a", 1, 1)).await.unwrap();
    let before = place.rows().await;
    let mut second = record("m5b", 1, 2);
    second.local_ids.push("local-m5a".into());
    let why = refused(&*inventory, &second).await;
    for part in ["`local-m5a`", "ark:/13030/m5a", "ark:/13030/m5b", OWNER] {
        assert!(why.contains(part), "{why}");
    }
    assert_eq!(inventory.object(&ark("m5b")).await, Ok(None));
    assert_eq!(place.rows().await, before, "what is refused leaves nothing behind");
}

async fn two_owners_may_have_the_same_local_id(place: &Place) {
    let inventory = place.open().await;
    inventory.record(&Record { local_ids: vec!["1".into()], ..record("m5a", 1, 1) }).await.unwrap();
    let other = Record { local_ids: vec!["1".into()], owner: "somebody".into(), ..record("m5b", 1, 2) };
    inventory.record(&other).await.unwrap();
    assert_eq!(inventory.find(OWNER, "1").await, Ok(Some(ark("m5a"))));
    assert_eq!(inventory.find("somebody", "1").await, Ok(Some(ark("m5b"))));
}

async fn recording_raises_the_counters_and_never_lowers_them(place: &Place) {
    let inventory = place.open().await;
    inventory.raise(&[(BATCHES, 2), (JOBS, 40)]).await.unwrap();
    inventory.record(&record("m5a", 1, 7)).await.unwrap();
    let counters = inventory.counters().await.unwrap();
    assert_eq!((counters[BATCHES], counters[JOBS]), (4, 40));
    assert!(inventory.knows(&ark("m5a")).await.unwrap());
    assert!(!inventory.knows(&ark("m5b")).await.unwrap());
}

async fn a_range_of_numbers_is_granted_once(place: &Place) {
    let inventory = place.open().await;
    let claims =
        futures::future::join_all((0..8).map(|_| inventory.claim("/minter/x", 5..9, "ark:/1/x"))).await;
    let granted = claims.iter().filter(|claim| **claim == Ok(Claim::Granted)).count();
    let refused = claims.iter().filter(|claim| **claim == Ok(Claim::Used(9))).count();
    assert_eq!((granted, refused), (1, 7), "{claims:?}");
}

async fn a_counter_that_is_new_begins_after_the_names_that_are_recorded(place: &Place) {
    let inventory = place.open().await;
    for (name, job) in [("m5a", 1), ("m5b", 2), ("c7a", 3)] {
        inventory.record(&record(name, 1, job)).await.unwrap();
    }
    let claim = inventory.claim("/minter/13030_m5", 0..4, "ark:/13030/m5").await;
    assert_eq!(claim, Ok(Claim::Used(2)));
    let claim = inventory.claim("/minter/13030_m5", 2..4, "ark:/13030/m5").await;
    assert_eq!(claim, Ok(Claim::Granted));
}

on_both_databases!(
    recording_raises_the_counters_and_never_lowers_them,
    a_range_of_numbers_is_granted_once,
    a_counter_that_is_new_begins_after_the_names_that_are_recorded,
    an_object_is_read_as_it_was_recorded,
    what_was_never_recorded_is_not_there,
    all_objects_are_found_page_by_page,
    recording_again_changes_nothing,
    an_old_version_is_answered_too_when_newer_ones_are_there,
    a_requeued_job_is_the_same_work,
    a_version_of_another_job_is_refused,
    the_same_work_is_not_recorded_as_two_versions,
    the_same_version_with_other_files_is_refused,
    versions_follow_without_gaps,
    an_object_keeps_its_owner,
    a_version_that_was_not_recorded_is_superseded_by_the_next_one,
    a_local_id_leads_to_its_object,
    a_local_id_of_two_objects_is_refused_and_both_are_named,
    two_owners_may_have_the_same_local_id,
);
