//! Locks on objects and reservations of local ids.

use ingest_queue::dialect::Dialect;
use ingest_queue::error::Error;
use ingest_queue::map::{self, JobNode, Priority};
use ingest_queue::names::Side;
use ingest_queue::names::local_ids::Claimed;
use ingest_queue::nodes::{Identifiers, NameLock};
use ingest_queue::plan::job::Action;

use crate::tree::{Tree, on_both_engines};
use crate::world::{WHO, acquire, batch_of, clean, queue, queue_on, read, snapshot};

on_both_engines!(
    an_object_is_locked_for_one_job_at_a_time,
    two_objects_whose_names_share_a_path_are_told_apart,
    the_lock_on_an_object_ends_with_its_session,
    what_a_dead_task_of_this_session_left_is_replaced_or_swept,
    a_task_whose_job_was_taken_away_gives_its_object_back,
    what_a_dead_task_left_is_swept_also_while_its_job_is_worked_on_elsewhere,
    a_local_id_is_minted_for_by_one_job,
);

async fn an_object_is_locked_for_one_job_at_a_time(tree: &Tree) {
    let queue = queue(tree).await;
    let (_, jids) = batch_of(&queue, 2).await;
    let (mut first, mut second) = (acquire(&queue, jids[0]).await, acquire(&queue, jids[1]).await);
    for side in [Side::Storage, Side::Inventory] {
        queue.lock_object(&mut first, side, "ark:/13030/m5").await.unwrap();
        let busy = queue.lock_object(&mut second, side, "ark:/13030/m5").await.unwrap_err();
        assert!(matches!(&busy, Error::Busy { node, .. } if node == "node-1"), "{busy:?}");
        let theirs = queue.unlock_object(&mut second, side, "ark:/13030/m5").await.unwrap_err();
        assert!(matches!(theirs, Error::Lost { .. }), "{theirs:?}");
        clean(queue.session(), Dialect::Design).await;
        let tree = snapshot(queue.session()).await;
        let at = if side == Side::Storage { map::storage_lock } else { map::inventory_lock }("ark:/13030/m5");
        let lock: NameLock = read(&tree, &at);
        assert_eq!((lock.name.as_str(), lock.jid), ("ark:/13030/m5", Some(jids[0])));
        queue.unlock_object(&mut first, side, "ark:/13030/m5").await.unwrap();
        queue.unlock_object(&mut first, side, "ark:/13030/m5").await.unwrap();
        queue.lock_object(&mut second, side, "ark:/13030/m5").await.unwrap();
    }
}

async fn two_objects_whose_names_share_a_path_are_told_apart(tree: &Tree) {
    let queue = queue(tree).await;
    let (_, jids) = batch_of(&queue, 2).await;
    let (mut first, mut second) = (acquire(&queue, jids[0]).await, acquire(&queue, jids[1]).await);
    queue.lock_object(&mut first, Side::Storage, "ark:/13030/a_b").await.unwrap();
    let error = queue.lock_object(&mut second, Side::Storage, "ark:/13030/a/b").await.unwrap_err();
    assert!(error.to_string().contains("is held for ark:/13030/a_b, which has the same path"), "{error}");
}

async fn the_lock_on_an_object_ends_with_its_session(tree: &Tree) {
    let session = tree.mortal_session().await;
    let (here, there) = (queue_on(&session, Dialect::Design).await, queue(tree).await);
    let (_, jids) = batch_of(&here, 2).await;
    let mut first = acquire(&here, jids[0]).await;
    here.lock_object(&mut first, Side::Storage, "ark:/13030/m5").await.unwrap();
    tree.expire(&session).await;
    let mut second = acquire(&there, jids[1]).await;
    there.lock_object(&mut second, Side::Storage, "ark:/13030/m5").await.unwrap();
    clean(there.session(), Dialect::Design).await;
}

async fn what_a_dead_task_of_this_session_left_is_replaced_or_swept(tree: &Tree) {
    let (queue, elsewhere) = (queue(tree).await, queue(tree).await);
    let (_, jids) = batch_of(&queue, 2).await;
    let mut first = acquire(&queue, jids[0]).await;
    queue.lock_object(&mut first, Side::Storage, "ark:/13030/m5").await.unwrap();
    assert_eq!(queue.sweep_names().await.unwrap(), [] as [String; 0]);
    queue.release_all_of(WHO).await.unwrap();
    // The next attempt at the same job takes it over.
    let mut again = acquire(&queue, jids[0]).await;
    queue.lock_object(&mut again, Side::Storage, "ark:/13030/m5").await.unwrap();
    queue.release_all_of(WHO).await.unwrap();
    // Elsewhere one waits; here it is nobody's.
    let mut second = acquire(&elsewhere, jids[1]).await;
    let busy = elsewhere.lock_object(&mut second, Side::Storage, "ark:/13030/m5").await.unwrap_err();
    assert!(matches!(busy, Error::Busy { .. }), "{busy:?}");
    assert_eq!(queue.sweep_names().await.unwrap(), [map::storage_lock("ark:/13030/m5")]);
    elsewhere.lock_object(&mut second, Side::Storage, "ark:/13030/m5").await.unwrap();
    clean(queue.session(), Dialect::Design).await;
}

async fn a_task_whose_job_was_taken_away_gives_its_object_back(tree: &Tree) {
    let (here, elsewhere) = (queue(tree).await, queue(tree).await);
    let (_, jids) = batch_of(&here, 1).await;
    let mut robbed = acquire(&here, jids[0]).await;
    here.lock_object(&mut robbed, Side::Inventory, "ark:/13030/m5").await.unwrap();
    let priority = Action::SetPriority(Priority::new(7).unwrap());
    elsewhere.act(jids[0], &priority, "taken away", true).await.unwrap();
    let mut next = acquire(&elsewhere, jids[0]).await;
    // As long as its old task is at it, nobody sweeps it away.
    assert_eq!(here.sweep_names().await.unwrap(), [] as [String; 0]);
    let busy = elsewhere.lock_object(&mut next, Side::Inventory, "ark:/13030/m5").await.unwrap_err();
    assert!(matches!(busy, Error::Busy { .. }), "{busy:?}");
    let lost = here.unlock_object(&mut robbed, Side::Inventory, "ark:/13030/m5").await.unwrap_err();
    assert!(matches!(lost, Error::Lost { .. }), "{lost:?}");
    elsewhere.lock_object(&mut next, Side::Inventory, "ark:/13030/m5").await.unwrap();
    // It has nothing any more that it could give back.
    let theirs = here.unlock_object(&mut robbed, Side::Inventory, "ark:/13030/m5").await.unwrap_err();
    assert!(matches!(theirs, Error::Lost { .. }), "{theirs:?}");
    elsewhere.unlock_object(&mut next, Side::Inventory, "ark:/13030/m5").await.unwrap();
    clean(here.session(), Dialect::Design).await;
}

async fn what_a_dead_task_left_is_swept_also_while_its_job_is_worked_on_elsewhere(tree: &Tree) {
    let (here, elsewhere) = (queue(tree).await, queue(tree).await);
    let (_, jids) = batch_of(&here, 1).await;
    let mut first = acquire(&here, jids[0]).await;
    here.lock_object(&mut first, Side::Storage, "ark:/13030/m5").await.unwrap();
    here.release_all_of(WHO).await.unwrap();
    let mut next = acquire(&elsewhere, jids[0]).await;
    assert_eq!(here.sweep_names().await.unwrap(), [map::storage_lock("ark:/13030/m5")]);
    elsewhere.lock_object(&mut next, Side::Storage, "ark:/13030/m5").await.unwrap();
    assert_eq!(here.sweep_names().await.unwrap(), [] as [String; 0]);
    elsewhere.unlock_object(&mut next, Side::Storage, "ark:/13030/m5").await.unwrap();
    clean(here.session(), Dialect::Design).await;
}

async fn a_local_id_is_minted_for_by_one_job(tree: &Tree) {
    let queue = queue(tree).await;
    let (_, jids) = batch_of(&queue, 3).await;
    let (mut first, mut second) = (acquire(&queue, jids[0]).await, acquire(&queue, jids[1]).await);
    let none = Identifiers::default();
    let claim = async |lease: &mut _, ids: &[&str]| {
        let ids: Vec<_> = ids.iter().map(|id| (*id).to_owned()).collect();
        queue.claim_local_ids(lease, "an owner", &ids, &none).await.unwrap()
    };
    let of = |claimed: Claimed| match claimed {
        Claimed::All(all) => all.into_iter().map(|id| (id.primary_id, id.jid.unwrap(), id.also)).collect(),
        Claimed::Busy { .. } => Vec::new(),
    };
    for _ in 0..2 {
        assert_eq!(of(claim(&mut first, &["a", "b"]).await), vec![(String::new(), jids[0], vec![]); 2]);
    }
    // While the first is at it, the second waits, and has claimed nothing.
    let busy = Claimed::Busy { local_id: "b".into(), jid: jids[0] };
    assert_eq!(claim(&mut second, &["c", "b"]).await, busy);
    assert_eq!(queue.local_id("an owner", "c").await.unwrap(), None);
    let mut named = Identifiers { primary_id: Some("ark:/1/a".into()), ..none.clone() };
    named.local_id = vec!["a".into(), "b".into()];
    named.set_owner("an owner");
    named.set_minted("key");
    queue.assign(&mut first, &named).await.unwrap();
    queue.assign(&mut first, &named).await.unwrap();
    assert_eq!(queue.node::<Identifiers>(jids[0], JobNode::Identifiers).await.unwrap(), Some(named.clone()));
    // The second takes it, and keeps it when the first has gone.
    let expected = [(String::new(), jids[1], vec![]), ("ark:/1/a".into(), jids[0], vec![jids[1]])];
    assert_eq!(of(claim(&mut second, &["c", "b"]).await), expected.to_vec());
    clean(queue.session(), Dialect::Design).await;
    for id in ["a", "b"] {
        queue.free_local_id(&mut first, "an owner", id).await.unwrap();
    }
    assert_eq!(queue.local_id("an owner", "a").await.unwrap(), None);
    let left = queue.local_id("an owner", "b").await.unwrap().unwrap();
    assert_eq!((left.jid, left.also, left.primary_id.as_str()), (Some(jids[1]), vec![], "ark:/1/a"));
    // One that crashed before it minted is in nobody's way, and finds the other's when it comes back.
    queue.release_all_of(WHO).await.unwrap();
    let mut third = acquire(&queue, jids[2]).await;
    assert_eq!(of(claim(&mut third, &["c"]).await), [(String::new(), jids[2], vec![])].to_vec());
    let mut second = acquire(&queue, jids[1]).await;
    let busy = Claimed::Busy { local_id: "c".into(), jid: jids[2] };
    assert_eq!(claim(&mut second, &["c"]).await, busy);
    clean(queue.session(), Dialect::Design).await;
}
