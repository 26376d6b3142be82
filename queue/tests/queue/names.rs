//! Locks on objects and reservations of local ids.

use ingest_queue::dialect::Dialect;
use ingest_queue::error::Error;
use ingest_queue::map;
use ingest_queue::names::{Reserved, Side};
use ingest_queue::nodes::NameLock;

use crate::tree::{Tree, on_both_engines};
use crate::world::{acquire, batch_of, clean, queue, queue_on, read, snapshot};

on_both_engines!(
    an_object_is_locked_for_one_job_at_a_time,
    two_objects_whose_names_share_a_path_are_told_apart,
    the_lock_on_an_object_ends_with_its_session,
    a_local_id_is_reserved_once,
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

async fn a_local_id_is_reserved_once(tree: &Tree) {
    let queue = queue(tree).await;
    let (_, jids) = batch_of(&queue, 2).await;
    let (mut first, mut second) = (acquire(&queue, jids[0]).await, acquire(&queue, jids[1]).await);
    let reserve = async |lease: &mut _, ark: &str| {
        queue.reserve_local_id(lease, "demo_content", "box 7", ark).await.unwrap()
    };
    assert_eq!(reserve(&mut first, "ark:/1/a").await, Reserved::Now);
    // Another attempt of the same job finds its own.
    assert_eq!(reserve(&mut first, "ark:/1/a").await, Reserved::Now);
    let theirs = Reserved::Before { primary_id: "ark:/1/a".into() };
    assert_eq!(reserve(&mut second, "ark:/1/b").await, theirs);
    assert_eq!(queue.local_id("demo_content", "box 7").await.unwrap().unwrap().jid, Some(jids[0]));
    clean(queue.session(), Dialect::Design).await;
    // What is another's is not given up.
    queue.free_local_id(&mut second, "demo_content", "box 7").await.unwrap();
    assert!(queue.local_id("demo_content", "box 7").await.unwrap().is_some());
    queue.free_local_id(&mut first, "demo_content", "box 7").await.unwrap();
    assert_eq!(queue.local_id("demo_content", "box 7").await.unwrap(), None);
    assert_eq!(reserve(&mut second, "ark:/1/b").await, Reserved::Now);
}
