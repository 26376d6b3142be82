//! A tree that was lost or restored beside a storage and an inventory that were not: no used name is given out.

use ingest_queue::map;
use ingest_steps::ledger;
use ingest_steps::services::Services;

use crate::kit::{Stage, settings_in};
use crate::made::{ingest, job, recorded};
use crate::tree::{Tree, on_both_engines};

const FILES: &[(&str, &str)] = &[("a.txt", "one")];

/// Services as a node opens them on an existing storage and inventory, on this stage's tree.
async fn beside(first: &Stage, second: &mut Stage) {
    let settings = settings_in(first.dir());
    second.services = Services::open(settings, second.queue.session(), "node-1").await.unwrap();
    let inventory = second.services.inventory.clone().unwrap();
    ledger::reconcile(&second.queue, &*inventory).await.unwrap();
}

async fn an_empty_tree_beside_an_inventory_gives_out_no_used_name(tree: &Tree) {
    let before = Stage::new(&tree.session().await).await;
    let mut used = Vec::new();
    for _ in 0..6 {
        let jid = job(&before, FILES, &[]).await;
        used.push((jid, ingest(&before, jid).await));
    }
    let empty = Tree::embedded();
    let mut after = Stage::new(&empty.session().await).await;
    beside(&before, &mut after).await;
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
    an_empty_tree_beside_an_inventory_gives_out_no_used_name,
    a_deleted_counter_of_a_minter_gives_no_name_twice_even_without_its_second_record,
);
