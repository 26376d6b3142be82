//! A tree that was lost or restored beside a storage and an inventory that were not: no used name is given out.

use ingest_queue::fsck::Options;
use ingest_queue::map;
use ingest_steps::ledger::{self, Places};
use ingest_steps::services::Services;
use ingest_steps::settings::MailBy;

use crate::kit::{Stage, settings_in};
use crate::made::{ingest, job, recorded};
use crate::tree::{Tree, on_both_engines};

const FILES: &[(&str, &str)] = &[("a.txt", "one")];

/// Services as a node opens them on an existing storage and inventory, on this stage's tree.
async fn beside(first: &Stage, second: &mut Stage) -> Places {
    let settings = settings_in(first.dir());
    second.services = Services::open(settings, second.queue.session(), "node-1").await.unwrap();
    Places::of(&second.services).unwrap()
}

/// What a node does when it opens a session on a tree where nothing differs.
async fn adopted(stage: &Stage) -> Places {
    let places = Places::of(&stage.services).unwrap();
    let examined = ledger::examine(&stage.queue, &places).await.unwrap();
    assert_eq!(examined.findings(), []);
    examined.adopt(&stage.queue, &places).await.unwrap();
    places
}

/// What is found beside a tree, by code and path.
async fn found(stage: &Stage, places: &Places, repair: bool) -> Vec<(&'static str, String)> {
    let options = Options::new(stage.queue.dialect());
    let checked = ledger::fsck(&stage.queue, &options, Some(places), repair, &mut |_| ()).await.unwrap();
    checked.report.findings.into_iter().map(|finding| (finding.code.text(), finding.path)).collect()
}

async fn an_empty_tree_beside_an_inventory_is_told_and_gives_out_no_used_name(tree: &Tree) {
    let before = Stage::new(&tree.session().await).await;
    adopted(&before).await;
    let mut used = Vec::new();
    for _ in 0..6 {
        let jid = job(&before, FILES, &[]).await;
        used.push((jid, ingest(&before, jid).await));
    }
    let empty = Tree::embedded();
    let mut after = Stage::new(&empty.session().await).await;
    let places = beside(&before, &mut after).await;
    let differs = ["/batches", "/jobs", "/minter/99999_fk4"].map(|path| ("N02", path.to_owned()));
    let expected: Vec<_> = differs.into_iter().chain([("N04", "/repository".to_owned())]).collect();
    assert_eq!(found(&after, &places, false).await, expected);
    assert_eq!(found(&after, &places, true).await, []);
    assert_eq!(ledger::examine(&after.queue, &places).await.unwrap().findings(), []);
    for _ in 0..6 {
        let jid = job(&after, FILES, &[]).await;
        let ark = ingest(&after, jid).await;
        assert!(used.iter().all(|(old, named)| *old != jid && *named != ark), "{jid} and {ark} are used");
        let versions = recorded(&after, &ark).await.unwrap().versions;
        assert_eq!(versions.len(), 1, "{ark} is an object of its own");
        used.push((jid, ark));
    }
    after.fsck().await;
    empty.close().await;
}

async fn directories_know_numbers_that_the_inventory_does_not(tree: &Tree) {
    let stage = Stage::new(&tree.session().await).await;
    let places = adopted(&stage).await;
    let work = stage.services.work.root().join("bid0000000041").join("jid0000000500");
    std::fs::create_dir_all(work).unwrap();
    let MailBy::Outbox { dir } = stage.services.settings.mail.by.clone() else {
        panic!("there is an outbox")
    };
    std::fs::write(dir.join("bid0000000050-1@localhost.eml"), "").unwrap();
    let differs = ["/batches", "/jobs"].map(|path| ("N02", path.to_owned()));
    assert_eq!(found(&stage, &places, false).await, differs);
    let text = ledger::examine(&stage.queue, &places).await.unwrap().text();
    assert!(text.contains("the outbox") && text.contains("the working directory"), "{text}");
    assert_eq!(found(&stage, &places, true).await, []);
    assert_eq!(stage.queue.numbers().await.unwrap(), (51, 501));
}

async fn places_of_two_repositories_are_named_with_both_and_left_to_a_person(tree: &Tree) {
    let ours = Stage::new(&tree.session().await).await;
    adopted(&ours).await;
    let other = Tree::embedded();
    let theirs = Stage::new(&other.session().await).await;
    adopted(&theirs).await;
    let mut settings = settings_in(ours.dir());
    settings.storage = settings_in(theirs.dir()).storage;
    let places = Places::open(&settings).await.unwrap();
    let examined = ledger::examine(&ours.queue, &places).await.unwrap();
    assert!(examined.is_foreign());
    let text = examined.text();
    let id = |data: &[u8]| serde_json::from_slice::<serde_json::Value>(data).unwrap()["id"].clone();
    for stage in [&ours, &theirs] {
        let (data, _) = stage.queue.session().get(map::REPOSITORY).await.unwrap();
        assert!(text.contains(id(&data).as_str().unwrap()), "{text}");
    }
    let before = found(&ours, &places, false).await;
    assert_eq!(before.iter().map(|(code, _)| *code).collect::<Vec<_>>(), ["N05"]);
    assert_eq!(found(&ours, &places, true).await, before, "nothing is overwritten");
    other.close().await;
}

async fn a_place_without_an_identity_is_told_and_gets_it(tree: &Tree) {
    let stage = Stage::new(&tree.session().await).await;
    let places = adopted(&stage).await;
    let MailBy::Outbox { dir } = stage.services.settings.mail.by.clone() else {
        panic!("there is an outbox")
    };
    std::fs::remove_file(dir.join(".ingestd-repository.json")).unwrap();
    let differs = found(&stage, &places, false).await;
    assert!(matches!(differs.as_slice(), [("N06", path)] if path.contains("the outbox")), "{differs:?}");
    assert_eq!(found(&stage, &places, true).await, []);
    assert!(dir.join(".ingestd-repository.json").exists());
}

async fn a_deleted_counter_of_a_minter_gives_no_name_twice_even_without_its_second_record(tree: &Tree) {
    let stage = Stage::new(&tree.session().await).await;
    let first = job(&stage, FILES, &[]).await;
    let first = ingest(&stage, first).await;
    let session = stage.queue.session();
    let (names, _) = session.children(map::MINTER).await.unwrap();
    for name in names {
        session.delete(format!("{}/{name}", map::MINTER), None).await.unwrap();
    }
    // The rest of the block is in memory: a new session begins with the counter.
    let mut again = Stage::new(session).await;
    again.services = stage.services.on(session).await.unwrap();
    let second = job(&again, FILES, &[]).await;
    let second = ingest(&again, second).await;
    assert_ne!(first, second);
    // Neither the tree nor the inventory remembers: the storage does.
    for name in session.children(map::MINTER).await.unwrap().0 {
        session.delete(format!("{}/{name}", map::MINTER), None).await.unwrap();
    }
    let mut forgetful = settings_in(stage.dir());
    forgetful.inventory = settings_in(again.dir()).inventory;
    again.services = Services::open(forgetful, session, "node-1").await.unwrap();
    let third = job(&again, FILES, &[]).await;
    let third = ingest(&again, third).await;
    assert!(third != first && third != second, "{third} is used");
    stage.fsck().await;
}

on_both_engines!(
    an_empty_tree_beside_an_inventory_is_told_and_gives_out_no_used_name,
    directories_know_numbers_that_the_inventory_does_not,
    places_of_two_repositories_are_named_with_both_and_left_to_a_person,
    a_place_without_an_identity_is_told_and_gets_it,
    a_deleted_counter_of_a_minter_gives_no_name_twice_even_without_its_second_record,
);
