//! The access queue.

use ingest_queue::dialect::Dialect;
use ingest_queue::error::Error;
use ingest_queue::map::AccessSize;
use ingest_queue::nodes::AccessToken;
use ingest_queue::states::AccessState;

use crate::tree::{Tree, on_both_engines};
use crate::world::{WHO, clean, queue, queue_on, snapshot};

on_both_engines!(
    items_are_taken_in_their_order_and_once,
    an_item_whose_worker_is_gone_is_taken_again,
    a_spent_lease_on_an_item_is_refused,
    a_token_keeps_what_it_was_given,
    a_busy_item_is_not_deleted,
    a_refused_move_of_an_item_says_what_is_allowed,
);

fn token(name: &str) -> AccessToken {
    AccessToken {
        token: name.into(),
        delivery_node: 7,
        cloud_content_byte: 1 << 33,
        ..AccessToken::default()
    }
}

async fn items_are_taken_in_their_order_and_once(tree: &Tree) {
    let (here, there) = (queue(tree).await, queue(tree).await);
    let mut made = Vec::new();
    for n in 0..6 {
        made.push(here.create_access(AccessSize::Large, &token(&n.to_string())).await.unwrap());
    }
    assert!(made.is_sorted());
    let mut taken = Vec::new();
    for n in 0..6 {
        let queue = if n % 2 == 0 { &here } else { &there };
        taken.push(queue.acquire_access(AccessSize::Large, WHO).await.unwrap().unwrap());
    }
    assert_eq!(taken.iter().map(|lease| lease.item().aid).collect::<Vec<_>>(), made);
    assert!(here.acquire_access(AccessSize::Large, WHO).await.unwrap().is_none());
    assert!(here.acquire_access(AccessSize::Small, WHO).await.unwrap().is_none());
    for (n, lease) in taken.iter_mut().enumerate() {
        let queue = if n % 2 == 0 { &here } else { &there };
        queue.finish_access(lease, AccessState::Completed, "").await.unwrap();
    }
    clean(here.session(), Dialect::Design).await;
}

async fn an_item_whose_worker_is_gone_is_taken_again(tree: &Tree) {
    let session = tree.mortal_session().await;
    let (here, there) = (queue_on(&session, Dialect::Design).await, queue(tree).await);
    let aid = here.create_access(AccessSize::Small, &token("a")).await.unwrap();
    here.acquire_access(AccessSize::Small, WHO).await.unwrap().unwrap();
    assert!(there.acquire_access(AccessSize::Small, WHO).await.unwrap().is_none());
    tree.expire(&session).await;
    let lease = there.acquire_access(AccessSize::Small, WHO).await.unwrap().unwrap();
    assert_eq!(lease.item().aid, aid);
    clean(there.session(), Dialect::Design).await;
}

async fn a_spent_lease_on_an_item_is_refused(tree: &Tree) {
    let queue = queue(tree).await;
    queue.create_access(AccessSize::Small, &token("a")).await.unwrap();
    let mut zombie = queue.acquire_access(AccessSize::Small, "pool-1").await.unwrap().unwrap();
    queue.release_all_of("pool-1").await.unwrap();
    let mut other = queue.acquire_access(AccessSize::Small, "pool-2").await.unwrap().unwrap();
    let before = snapshot(queue.session()).await;
    for answer in [
        queue.finish_access(&mut zombie, AccessState::Failed, "").await,
        queue.write_access_token(&mut zombie, &token("b")).await,
        queue.give_back_access(&mut zombie).await,
    ] {
        assert!(matches!(answer, Err(Error::Lost { .. })), "{answer:?}");
    }
    assert_eq!(snapshot(queue.session()).await, before);
    queue.finish_access(&mut other, AccessState::Completed, "").await.unwrap();
    clean(queue.session(), Dialect::Design).await;
}

async fn a_token_keeps_what_it_was_given(tree: &Tree) {
    let queue = queue(tree).await;
    let mut given = token("a");
    given.other.insert("cloud-host".into(), "example.org".into());
    let aid = queue.create_access(AccessSize::Small, &given).await.unwrap();
    assert_eq!(queue.access_token(AccessSize::Small, aid).await.unwrap(), given);
    let mut lease = queue.acquire_access(AccessSize::Small, WHO).await.unwrap().unwrap();
    given.url = Some("https://example.org/a.zip".into());
    queue.write_access_token(&mut lease, &given).await.unwrap();
    queue.finish_access(&mut lease, AccessState::Completed, "").await.unwrap();
    assert_eq!(queue.access_token(AccessSize::Small, aid).await.unwrap(), given);
    let tree = snapshot(queue.session()).await;
    let json = &tree[&AccessSize::Small.token(aid)];
    for part in ["\"delivery-node\":7", "\"cloud-content-byte\":8589934592", "\"cloud-host\":\"example.org\""]
    {
        assert!(json.contains(part), "{part} is not in {json}");
    }
}

async fn a_busy_item_is_not_deleted(tree: &Tree) {
    let (here, there) = (queue(tree).await, queue(tree).await);
    let aid = here.create_access(AccessSize::Small, &token("a")).await.unwrap();
    let mut lease = here.acquire_access(AccessSize::Small, WHO).await.unwrap().unwrap();
    here.finish_access(&mut lease, AccessState::Failed, "no such object").await.unwrap();
    there.requeue_access(AccessSize::Small, aid, "by an operator").await.unwrap();
    let mut lease = here.acquire_access(AccessSize::Small, WHO).await.unwrap().unwrap();
    here.finish_access(&mut lease, AccessState::Failed, "no such object").await.unwrap();
    let lock = AccessSize::Small.lock(aid);
    here.session().create(lock.as_str(), "", ingest_store::Mode::Ephemeral).await.unwrap();
    let answer = there.delete_access(AccessSize::Small, aid).await;
    assert!(matches!(answer, Err(Error::Busy { .. })), "{answer:?}");
    here.session().delete(lock, None).await.unwrap();
    there.delete_access(AccessSize::Small, aid).await.unwrap();
    assert!(matches!(there.delete_access(AccessSize::Small, aid).await, Err(Error::NotFound(_))));
    clean(here.session(), Dialect::Design).await;
}

async fn a_refused_move_of_an_item_says_what_is_allowed(tree: &Tree) {
    let queue = queue(tree).await;
    let aid = queue.create_access(AccessSize::Small, &token("a")).await.unwrap();
    let error = queue.delete_access(AccessSize::Small, aid).await.unwrap_err().to_string();
    for part in ["small access item", "pending", "deleted", "admin", "processing (by queue)"] {
        assert!(error.contains(part), "{part} is not in: {error}");
    }
}
