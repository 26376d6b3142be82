//! The local minter on both engines.

use std::collections::HashSet;

use ingest_steps::ark::Ark;
use ingest_steps::minter::Minter;
use ingest_steps::minter::local::LocalMinter;
use ingest_steps::outcome::Failure;
use ingest_store::Session;

use crate::request;
use crate::tree::{Tree, on_both_engines, within};

pub(crate) const TEMPLATE: &str = "13030/c7.reedeedk";

pub(crate) async fn minter(session: &Session, template: &str, block: u64) -> LocalMinter {
    LocalMinter::open(session, template.parse().unwrap(), block).await.unwrap()
}

async fn mint(minter: &LocalMinter, count: usize) -> Vec<Ark> {
    let request = request();
    let mut arks = Vec::new();
    for _ in 0..count {
        arks.push(minter.reserve(&request).await.unwrap());
    }
    arks
}

async fn next_number(session: &Session, minter: &LocalMinter) -> serde_json::Value {
    let (data, _) = session.get(minter.counter()).await.unwrap();
    serde_json::from_slice::<serde_json::Value>(&data).unwrap()["next"].clone()
}

async fn eight_nodes_at_once_never_mint_the_same(tree: &Tree) {
    let mut nodes = tokio::task::JoinSet::new();
    for node in 0..8_u64 {
        let session = tree.session().await;
        nodes.spawn(async move {
            // Small blocks of different sizes, so that the nodes meet often.
            let minter = minter(&session, TEMPLATE, 1 + node % 3).await;
            mint(&minter, 40).await
        });
    }
    let arks: Vec<Ark> = within(nodes.join_all()).await.into_iter().flatten().collect();
    let different: HashSet<_> = arks.iter().collect();
    assert_eq!((arks.len(), different.len()), (320, 320));
    assert!(arks.iter().all(|ark| ark.is_checked() && ark.is_on("ark:/13030/c7")), "{arks:?}");
}

async fn tasks_of_one_node_share_its_block(tree: &Tree) {
    let session = tree.session().await;
    let minter = minter(&session, TEMPLATE, 100).await;
    let request = request();
    let arks = within(futures::future::join_all((0..100).map(|_| minter.reserve(&request)))).await;
    let different: HashSet<_> = arks.into_iter().map(Result::unwrap).collect();
    assert_eq!(different.len(), 100);
    assert_eq!(next_number(&session, &minter).await, 100, "one block was enough");
}

async fn a_node_that_comes_back_skips_the_rest_of_its_block(tree: &Tree) {
    let session = tree.session().await;
    let mut before = mint(&minter(&session, TEMPLATE, 10).await, 3).await;
    let again = minter(&session, TEMPLATE, 10).await;
    before.extend(mint(&again, 3).await);
    assert_eq!(before.iter().collect::<HashSet<_>>().len(), 6);
    assert_eq!(next_number(&session, &again).await, 20);
}

async fn another_template_on_the_same_counter_is_refused(tree: &Tree) {
    let session = tree.session().await;
    mint(&minter(&session, TEMPLATE, 10).await, 1).await;
    let refused = LocalMinter::open(&session, "13030/c7.seedeedk".parse().unwrap(), 10).await.unwrap_err();
    let Failure::Fail(why) = refused else { panic!("{refused:?}") };
    assert!(why.contains("/minter/13030_c7") && why.contains("13030/c7.reedeedk"), "{why}");
}

async fn a_shoulder_that_begins_like_another_is_refused(tree: &Tree) {
    let session = tree.session().await;
    minter(&session, TEMPLATE, 10).await;
    minter(&session, "13030/c8.reek", 10).await;
    let refused = LocalMinter::open(&session, "13030/c72.reek".parse().unwrap(), 10).await.unwrap_err();
    assert!(refused.to_string().contains("begins like /minter/13030_c7"), "{refused}");
}

async fn a_shoulder_that_is_used_up_says_so(tree: &Tree) {
    let session = tree.session().await;
    let minter = minter(&session, "13030/c7.sd", 4).await;
    let arks = mint(&minter, 10).await;
    assert_eq!(arks.iter().collect::<HashSet<_>>().len(), 10);
    let Err(Failure::Fail(why)) = minter.reserve(&request()).await else { panic!("there is no eleventh") };
    assert!(why.contains("all 10 names") && why.contains("configure a new shoulder"), "{why}");
}

async fn a_counter_that_cannot_be_read_mints_nothing(tree: &Tree) {
    let session = tree.session().await;
    let minter = minter(&session, TEMPLATE, 1).await;
    session.set(minter.counter(), "seven", None).await.unwrap();
    let Err(Failure::Fail(why)) = minter.reserve(&request()).await else { panic!("it was not a number") };
    assert!(why.contains("/minter/13030_c7: the counter cannot be read"), "{why}");
}

async fn publishing_is_nothing_and_there_are_no_orphans(tree: &Tree) {
    let session = tree.session().await;
    let minter = minter(&session, TEMPLATE, 1).await;
    let ark = minter.reserve(&request()).await.unwrap();
    for _ in 0..2 {
        minter.publish(&ark, &request()).await.unwrap();
    }
    assert_eq!(minter.orphans().await, Ok(Some(Vec::new())));
}

on_both_engines!(
    eight_nodes_at_once_never_mint_the_same,
    tasks_of_one_node_share_its_block,
    a_node_that_comes_back_skips_the_rest_of_its_block,
    another_template_on_the_same_counter_is_refused,
    a_shoulder_that_begins_like_another_is_refused,
    a_shoulder_that_is_used_up_says_so,
    a_counter_that_cannot_be_read_mints_nothing,
    publishing_is_nothing_and_there_are_no_orphans,
);
