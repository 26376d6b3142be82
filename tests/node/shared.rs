//! A profile and the settings of all nodes are changed while jobs run, and a node is killed. What holds: **a job ends with the
//! profile that it began with, on whatever node; batches that come later have the new one; every node applies a change by
//! event, and the registry says which version it runs.**

use std::process::Command;

use ingest_harness::FileServer;
use ingest_queue::map::JobNode;
use ingest_queue::nodes::{Configuration, Submission};
use ingest_queue::states::{BatchList, BatchState};
use ingest_steps::inventory::Inventory as _;
use ingest_steps::inventory::sqlite::SqliteInventory;
use reqwest::Method;
use serde_json::{Value, json};

use crate::api::Api;
use crate::checks;
use crate::kit::{self, many};
use crate::place::Place;

const JOBS: usize = 8;

async fn put(api: &Api, collection: &str, owner: &str) -> Value {
    let text = format!("name = 'maps'\ncollection = '{collection}'\ntitle = 'Maps'\nowner = '{owner}'\n");
    api.change(Method::PUT, "profiles/maps", &json!({ "text": text })).await.0
}

/// Waits until all nodes run what the tree has; answers the list.
async fn applied(api: &Api, nodes: usize, settings: &str) -> Value {
    let all = |found: &Value| {
        let lines = found["nodes"].as_array().map(Vec::as_slice).unwrap_or_default();
        lines.len() == nodes
            && found["settings"].as_str().is_some_and(|mark| mark.starts_with(settings))
            && lines.iter().all(|node| {
                node["lags"] == false
                    && node["profiles"] == found["profiles"]
                    && node["settings"] == found["settings"]
            })
    };
    api.until("all nodes run what the tree has", "nodes", all).await
}

/// What `ingestd nodes` prints.
fn printed(api: &Api, arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ingestd"));
    let ran =
        command.arg("nodes").args(arguments).env_clear().env("INGESTD_SERVER", api.base()).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_end_with_the_profile_that_they_began_with_and_new_batches_take_the_new_one() {
    let (place, files) = (Place::shared().await, FileServer::start().await);
    let setup = |name: &str| place.node(name).set("profiles.source", "both").set("pools.downloading.size", 2);
    let (one, two) = (setup("node-1").ready().await, setup("node-2").ready().await);
    let (api, other) = (Api::of(&place, "node-1"), Api::of(&place, "node-2"));
    let queue = place.queue().await;
    assert_eq!(put(&api, "maps", "ark:/99999/fk4one").await["version"], 1);
    let before = applied(&other, 2, "-").await;

    files.hold();
    files.pass(1);
    let of_maps = |submission| Submission { profile_name: "maps".into(), ..submission };
    let old = kit::submit(&queue, of_maps(many(&files, "old", JOBS))).await;
    files.until("two downloads of each node", |traffic| traffic.open == 4).await;

    // In the middle of it, through either node.
    assert_eq!(put(&other, "atlases", "ark:/99999/fk4two").await["version"], 2);
    let set = json!({"set": {"pools.downloading.size": 3}});
    api.change(Method::PATCH, "settings", &set).await;
    let after = applied(&api, 2, "1-").await;
    assert_ne!(before["profiles"], after["profiles"]);
    files.until("three downloads of each node", |traffic| traffic.open == 6).await;
    // People see it, too.
    let mark = after["profiles"].as_str().unwrap();
    let (table, list) = (printed(&api, &[]), printed(&api, &["--json"]));
    assert!(!table.contains("is behind"), "{table}");
    assert_eq!(serde_json::from_str::<Value>(&list).unwrap()["nodes"][1]["profiles"], mark, "{list}");

    let new = kit::submit(&queue, of_maps(many(&files, "new", JOBS))).await;
    // What it had begun, another goes on with.
    two.process.kill().await;
    files.release();
    let inventory = SqliteInventory::open(&place.path("inventory.sqlite")).await;
    for (bid, name, version, collection, owner) in
        [(old, "old", 1, "maps", "ark:/99999/fk4one"), (new, "new", 2, "atlases", "ark:/99999/fk4two")]
    {
        assert_eq!(
            kit::reported(&queue, bid).await,
            BatchState::Completed,
            "{}",
            checks::left_of(&queue, bid).await
        );
        let completed = kit::jobs(&queue, bid, BatchList::Completed).await;
        assert_eq!(completed.len(), JOBS);
        for jid in completed {
            let made: Option<Configuration> = queue.node(jid, JobNode::Configuration).await.unwrap();
            assert_eq!(made.unwrap().profile_version, Some(version), "{jid}");
        }
        let inventory = inventory.as_ref().unwrap();
        for n in 0..JOBS {
            let ark = inventory.find(owner, &format!("{name}-{n}")).await.unwrap();
            let ark = ark.unwrap_or_else(|| panic!("{name}-{n} of {owner} is not in the inventory"));
            assert_eq!(inventory.object(&ark).await.unwrap().unwrap().collection, collection, "{name}-{n}");
        }
    }
    applied(&api, 1, "1-").await;
    checks::clean(&queue).await;
    assert_eq!(one.drained().await, 0, "{}", one.process.tail());
}
