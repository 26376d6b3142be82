//! The local minter when answers are lost, the caller is killed or the session ends, at every call.

use std::collections::HashSet;
use std::sync::Arc;

use ingest_harness::{Proxy, RequestKind, Server, chroot};
use ingest_steps::minter::Minter;
use ingest_steps::minter::local::LocalMinter;
use ingest_steps::outcome::{Failure, Result};
use ingest_store::engines::embedded::{Embedded, EmbeddedConfig};
use ingest_store::engines::zookeeper::{Zookeeper, ZookeeperConfig};
use ingest_store::faults::{Fault, Faulty};
use ingest_store::{Limits, Session, Store};

use crate::local::{TEMPLATE, minter};
use crate::request;
use crate::tree::within;

/// Opens a minter and takes two names, in blocks of one.
async fn two_names(session: &Session, minted: &mut Vec<String>) -> Result<()> {
    let opened = LocalMinter::open(session, TEMPLATE.parse().unwrap(), 1).await?;
    for _ in 0..2 {
        minted.push(opened.reserve(&request()).await?.to_string());
    }
    Ok(())
}

#[tokio::test]
async fn a_fault_at_any_call_never_gives_a_name_twice() {
    let mut broken = 0;
    for fault in Fault::ALL {
        for call in 0.. {
            let dir = tempfile::tempdir().unwrap();
            let tree = Embedded::open(&EmbeddedConfig::new(dir.path().join("tree"))).unwrap();
            let faulty = Faulty::new(tree.clone());
            let session = Session::open(Arc::new(faulty.clone()), Limits::default()).await.unwrap();
            let other = Session::open(Arc::new(tree.clone()), Limits::default()).await.unwrap();
            let mut minted = Vec::new();
            faulty.break_call(call, fault);
            let ended = tokio::select! {
                ended = two_names(&session, &mut minted) => Some(ended),
                () = faulty.happened(), if matches!(fault, Fault::KillBefore | Fault::KillAfter) => None,
            };
            if !faulty.has_happened() {
                break;
            }
            broken += 1;
            let as_promised = match fault {
                Fault::LoseRequest | Fault::LoseAnswer => matches!(ended, Some(Ok(()))),
                Fault::ExpireBefore | Fault::ExpireAfter => matches!(ended, Some(Err(Failure::Lost(_)))),
                Fault::KillBefore | Fault::KillAfter => ended.is_none(),
            };
            assert!(as_promised, "{fault:?} at call {call}: {ended:?}");
            within(two_names(&other, &mut minted)).await.unwrap();
            let different: HashSet<_> = minted.iter().collect();
            assert_eq!(different.len(), minted.len(), "{fault:?} at call {call}: {minted:?}");
            within(tree.close()).await;
        }
    }
    assert!(broken > 30, "only {broken} calls were broken");
}

#[tokio::test]
async fn a_lost_answer_of_a_real_server_skips_a_block_and_uses_none_twice() {
    let server = Server::shared().await;
    let proxy = Proxy::start(server.address());
    let chroot = chroot();
    let store = |connect: &str| {
        let config = ZookeeperConfig::new(format!("{connect}{chroot}"));
        Store::new(Arc::new(Zookeeper::new(config).unwrap()), Limits::default())
    };
    let session = store(&proxy.connect_string()).session().await.unwrap();
    let clean = store(&server.connect_string()).session().await.unwrap();
    let ours = minter(&session, TEMPLATE, 1).await;
    let theirs = minter(&clean, TEMPLATE, 1).await;
    let mut minted = vec![ours.reserve(&request()).await.unwrap()];

    let dropped = proxy.drop_reply(RequestKind::SetData);
    minted.push(within(ours.reserve(&request())).await.unwrap());
    assert_eq!(dropped.happened().await.err, 0, "the server had applied it");
    minted.push(theirs.reserve(&request()).await.unwrap());
    minted.push(ours.reserve(&request()).await.unwrap());

    assert_eq!(minted.iter().collect::<HashSet<_>>().len(), 4, "{minted:?}");
    let (data, _) = clean.get(ours.counter()).await.unwrap();
    let counter: serde_json::Value = serde_json::from_slice(&data).unwrap();
    assert_eq!(counter["next"], 5, "four names, and one number that nobody knows of");
    within(session.close()).await.unwrap();
    within(clean.close()).await.unwrap();
}
