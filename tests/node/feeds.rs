//! Nodes that are killed while they consume a drop box.
//!
//! Invariant: every file that was put there becomes exactly one batch, and one object, whoever was killed when.

use std::time::Duration;

use ingest_harness::clock::PATIENCE;
use ingest_harness::{eventually, let_pass};
use ingest_queue::map;

use crate::checks;
use crate::kit::seconds;
use crate::place::{PROFILE, Place};

#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_are_killed_while_they_consume_a_drop_box_lose_and_double_nothing() {
    let connect = ingest_harness::shared_connect_string_with_chroot().await;
    let place = Place::at(connect, Duration::from_secs(2));
    let dir = place.path("box");
    std::fs::create_dir(&dir).unwrap();
    let mut nodes = Vec::new();
    for name in ["node-1", "node-2"] {
        let setup = place
            .node(name)
            .set("workers.settle", "50ms")
            .set("fetch.file_roots", vec![toml::Value::from(dir.to_str().unwrap())])
            .set("feeds.scans.kind", "drop_box")
            .set("feeds.scans.path", dir.to_str().unwrap())
            .set("feeds.scans.ready", "rename")
            .set("feeds.scans.profile", PROFILE)
            .set("feeds.scans.submitter", "scanner");
        nodes.push(setup.start());
    }
    for node in &nodes {
        node.ready().await;
    }
    let queue = place.queue().await;
    let put = |number: usize| {
        std::fs::write(dir.join(format!(".{number}")), format!("file {number}")).unwrap();
        std::fs::rename(dir.join(format!(".{number}")), dir.join(format!("file-{number}.txt"))).unwrap();
    };
    let (kills, each) = (usize::try_from(seconds("INGESTD_KILL_SECONDS", 6).as_secs() / 2).unwrap(), 12);
    let mut files = 0;
    for kill in 0..kills {
        for _ in 0..each {
            put(files);
            files += 1;
        }
        // While the files are being taken.
        let_pass(Duration::from_millis(40 * (kill as u64 % 5))).await;
        let listed = queue.list_feeds().await.unwrap();
        let owner = listed.first().and_then(|one| one.owner.as_ref()).map(|owner| owner.node.clone());
        let unlucky = nodes.iter().position(|node| Some(node.name()) == owner.as_deref()).unwrap_or(kill % 2);
        nodes[unlucky].replace().await;
    }
    let batches = async || queue.session().children(map::BATCHES).await.unwrap().0;
    let found = eventually("a batch for each file", 2 * PATIENCE, || async {
        let found = batches().await;
        (found.len() >= files).then_some(found)
    })
    .await;
    assert_eq!(found.len(), files);
    for bid in &found {
        checks::completed_once(&queue, bid.parse().unwrap(), 1).await;
    }
    let feed = queue.list_feeds().await.unwrap().remove(0).feed.node;
    assert_eq!(feed.items, files as u64);
    checks::one_object_each(&place, (0..files).map(|number| format!("file-{number}.txt"))).await;
    assert_eq!(batches().await.len(), files);
    checks::clean(&queue).await;
    for node in &nodes {
        assert_eq!(node.drained().await, 0, "{}", node.process.tail());
    }
    checks::clean(&queue).await;
}
