//! `request`, `requests`, `profile`, `settings`, `ltime`, and what `config check` says of the cluster.

use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;

use crate::kit::{TestNode, configure, on_a_server};
use crate::ran::{Ran, command, run};

const ID: &str = "11111111-2222-4333-8444-555555555555";
const PROFILE: &str = "name = 'maps'\ncollection = 'maps'\ntitle = 'Maps'\nowner = 'ark:/99999/fk4maps'\n";

fn json_of(ran: &Ran) -> Value {
    serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{error}: {ran:?}"))
}

#[tokio::test]
async fn requests_are_put_into_the_tree_seen_and_taken_back_without_a_node() {
    let connect = ingest_harness::shared_connect_string_with_chroot().await;
    let dir = on_a_server(&connect, "", "");
    let nowhere = "http://127.0.0.1:1";
    let cli = async |arguments: &[&str]| {
        run(command(dir.path(), nowhere, &[arguments, &["--tree", &connect]].concat())).await
    };
    cli(&["requests"]).await.is(0).says(&["There are no requests."]);
    assert_eq!(json_of(&cli(&["requests", "--json"]).await.is(0))["requests"], json!([]));
    // What is wrong is told before anything is written.
    cli(&["request", "queue.hodl"]).await.is(2).complains(&["did you mean `queue.hold`?"]);
    cli(&["request", "queue.hold", "-p", "que=x"]).await.is(2).complains(&["did you mean `queue`?"]);
    cli(&["request", "queue.hold", "-p", "queue"]).await.is(2).complains(&["NAME=VALUE"]);
    cli(&["request", "queue.hold"]).await.is(2).complains(&["queue"]);
    cli(&["request", "node.pause"]).await.is(2).complains(&["--node"]);
    cli(&["request", "fsck", "--id", "seven"]).await.is(10).complains(&["no uuid"]);
    cli(&["request", "fsck", "--params-from", "nothing.json"]).await.is(1).complains(&["nothing.json"]);
    cli(&["requests"]).await.is(0).says(&["There are no requests."]);

    let hold = ["request", "queue.hold", "--param", "queue=ingest", "--id", ID];
    let put = cli(&[&hold[..], &["--no-wait"]].concat()).await.is(0);
    put.says(&["queue.hold was put: ingestd requests show", ID]);
    // The same id again is the same request.
    let again = json_of(&cli(&[&hold[..], &["--no-wait", "--json"]].concat()).await.is(0));
    assert_eq!((&again["id"], &again["state"]), (&ID.into(), &"waiting".into()), "{again}");
    cli(&["request", "fsck", "--id", ID, "--no-wait"]).await.is(2).complains(&["another request"]);
    let late = cli(&[&hold[..], &["--timeout", "50ms"]].concat()).await.is(8);
    late.complains(&["no result within 50ms", "the request goes on"]);
    let listed = cli(&["requests", "--state", "waiting"]).await.is(0);
    listed.says(&["ID", "ACTION", ID, "queue.hold", "waiting"]);
    assert_eq!(json_of(&cli(&["requests", "--state", "done", "--json"]).await.is(0))["requests"], json!([]));
    cli(&["requests", "show", ID]).await.is(0).says(&["is waiting", "waits for a node"]);
    assert_eq!(json_of(&cli(&["requests", "show", ID, "--json"]).await.is(0))["state"], "waiting");
    cli(&["requests", "forget", ID])
        .await
        .is(12)
        .complains(&["forgetting a request cannot be taken back", "--yes"]);
    cli(&["requests", "show", ID]).await.is(0);
    cli(&["requests", "forget", ID, "--yes"]).await.is(0).says(&["is gone."]);
    cli(&["requests", "show", ID]).await.is(10);
    cli(&["requests", "forget", ID, "--yes"]).await.is(10);
    run(command(dir.path(), nowhere, &["requests"])).await.is(8);

    // A node comes, and does what was left for it; whoever waits at the tree is told.
    cli(&[&hold[..], &["--no-wait"]].concat()).await.is(0);
    let node = TestNode::start_in(dir, reqwest::Client::builder()).await;
    let cli = async |arguments: &[&str]| node.cli(&[arguments, &["--tree", &connect]].concat()).await;
    let release = cli(&["request", "queue.release", "-p", "queue=ingest"]).await.is(0);
    release.says(&["done by", "node-1", "held", "false", "changed", "true"]);
    let held = json_of(&cli(&["requests", "show", ID, "--json"]).await.is(0));
    assert_eq!((&held["ok"], &held["data"]["held"]), (&true.into(), &true.into()), "{held}");
    assert_eq!(json_of(&cli(&["requests", "forget", ID, "--yes", "--json"]).await.is(0)), json!({"id": ID}));
    let refused = cli(&["request", "job.hold", "-p", "jid=jid0000000099", "--json"]).await.is(10);
    assert_eq!(json_of(&refused)["problem"]["status"], 404);
    let paused = cli(&["request", "node.pause", "--node", "node-1", "--json"]).await.is(0);
    assert_eq!(
        (&json_of(&paused)["node"], &json_of(&paused)["data"]["mode"]),
        (&json!("node-1"), &json!("paused"))
    );
    cli(&["request", "node.pause", "--node", "node-7"]).await.is(2).complains(&["no node `node-7` lives"]);
    let checked = cli(&["config", "check", "--config", "ingestd.toml", "--cluster"]).await.is(0);
    checked.says(&["# Nothing is set for the whole cluster."]);
    node.cli(&["settings", "set", "pools.downloading.size=3"]).await.is(0);
    let checked = cli(&["config", "check", "--config", "ingestd.toml", "--cluster"]).await.is(0);
    checked.says(&["size = 3  # the cluster, 1-", "# With the settings of the cluster, 1-"]);
}

#[tokio::test]
async fn requests_go_through_a_node_and_are_waited_for() {
    let node = TestNode::start().await;
    let done =
        node.cli(&["request", "collection.hold", "-p", "collection=maps", "-p", "reason=a look"]).await.is(0);
    done.says(&["done by", "node-1", "maps", "held"]);
    assert_eq!(node.json(&["requests"]).await["requests"], json!([]), "what was read is taken away");
    // Of several lines, from a file and from stdin.
    std::fs::write(node.dir.path().join("p.json"), r#"{"collection": "maps", "all": false}"#).unwrap();
    let done =
        node.json(&["request", "collection.release", "--params-from", "p.json", "-p", "all=true"]).await;
    assert_eq!((&done["ok"], &done["data"]["released"]["jobs"]), (&true.into(), &0.into()), "{done}");
    let mut piped =
        command(node.dir.path(), &node.base, &["request", "fsck", "--params-from", "-", "--json"]);
    let mut child = piped.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"{}").await.unwrap();
    let output = child.wait_with_output().await.unwrap();
    let checked: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &checked["data"]["clean"]), (Some(0), &true.into()), "{checked}");

    node.cli(&["request", "jobs.bulk", "-p", "action=hold", "-p", "filter.batch=nonsense"]).await.is(2);
    let bulk = node
        .json(&["request", "jobs.bulk", "-p", "action=requeue", "-p", "filter.states=[\"failed\"]"])
        .await;
    assert_eq!(bulk["ok"], true, "{bulk}");
    let limit = ["request", "limit.set", "-p", "kind=host", "-p", "name=Files.Example.org", "-p", "limit=2"];
    let limit = node.json(&limit).await;
    assert_eq!(
        limit["data"],
        json!({"kind": "host", "name": "files.example.org", "limit": 2, "changed": true})
    );
    node.cli(&["limits"]).await.is(0).says(&["files.example.org", "2", "set"]);
    let cleared = ["request", "limit.clear", "-p", "kind=host", "-p", "name=files.example.org"];
    assert_eq!(node.json(&cleared).await["data"]["changed"], true);
    node.cli(&["limits"]).await.is(0).says(&["Nothing is limited."]);
    node.cli(&["request", "limit.set", "-p", "kind=colour", "-p", "name=red"]).await.is(10);
    assert_eq!(node.json(&["request", "upkeep.run", "-p", "routine=keys"]).await["data"]["removed"], 0);
    node.cli(&["request", "upkeep.run", "-p", "routine=dust"]).await.is(10).complains(&["the routines are"]);

    let put = node.json(&["request", "queue.hold", "-p", "queue=ingest", "--id", ID, "--no-wait"]).await;
    assert_eq!(put["id"], ID, "{put}");
    // Whoever comes later waits for the same one.
    node.cli(&["request", "queue.hold", "-p", "queue=ingest", "--id", ID, "--timeout", "1m"]).await.is(0);
    node.cli(&["requests", "show", ID]).await.is(10);
    node.cli(&["requests", "--state", "sleeping"]).await.is(2).complains(&["waiting, running or done"]);
    let actions = node.cli(&["requests", "--actions"]).await.is(0);
    actions.says(&["ACTION", "job.requeue", "jid [state] [reason] [force]", "limit.set", "admin"]);
    let actions = node.json(&["requests", "--actions"]).await;
    let named = |name: &str| actions["actions"].as_array().unwrap().iter().any(|one| one["name"] == name);
    node.cli(&["request", "feed.pause", "-p", "feed=nothing"]).await.is(10).complains(&["no feed nothing"]);
    assert!(
        named("profile.put") && named("feed.reset") && named("limit.clear") && named("upkeep.run"),
        "{actions}"
    );
}

#[tokio::test]
async fn profiles_and_settings_are_changed_for_all_nodes() {
    let dir = tempfile::tempdir().unwrap();
    configure(dir.path(), "", "");
    let file = dir.path().join("ingestd.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(file, text.replace("[profiles]\n", "[profiles]\nsource = 'both'\n")).unwrap();
    let node = TestNode::start_in(dir, reqwest::Client::builder()).await;
    let write = |text: &str| std::fs::write(node.dir.path().join("maps.toml"), text).unwrap();

    node.cli(&["profile", "list"]).await.is(0).says(&["PROFILE", "test_content", "file"]);
    node.cli(&["profile", "show", "maps"]).await.is(10);
    node.cli(&["profile", "put", "maps.toml"]).await.is(1).complains(&["maps.toml"]);
    write(&PROFILE.replace("title", "titel"));
    node.cli(&["profile", "put", "maps.toml"]).await.is(2).complains(&["text:3", "did you mean `title`?"]);
    write(PROFILE);
    node.cli(&["profile", "put", "maps.toml"]).await.is(0).says(&["The profile maps is version 1 now."]);
    node.cli(&["profile", "put", "maps.toml"]).await.is(0).says(&["version 1, as before."]);
    // Read on the node that may not have heard of it: what was just put is there.
    let moment = node.cli(&["ltime"]).await.is(0).out.trim().to_owned();
    node.cli(&["profile", "list", "--ltime", &moment]).await.is(0).says(&["maps", "Maps", "tree, 1"]);
    assert!(node.json(&["ltime"]).await["ltime"].as_i64().unwrap() > moment.parse().unwrap());
    node.cli(&["profile", "show", "maps"]).await.is(0).says(&["# version 1, ", "put by", "title = 'Maps'"]);
    write(&PROFILE.replace("Maps", "More maps"));
    assert_eq!(node.json(&["profile", "put", "maps.toml"]).await["version"], 2);
    assert_eq!(node.json(&["profile", "show", "maps"]).await["version"], 2);
    let nodes = node.json(&["nodes", "--ltime", &moment]).await;
    assert!(nodes["profiles"].as_str().unwrap().starts_with("1-"), "{nodes}");
    node.cli(&["profile", "delete", "maps"])
        .await
        .is(12)
        .complains(&["deleting a profile cannot be", "--yes"]);
    node.cli(&["profile", "show", "maps"]).await.is(0);
    node.cli(&["profile", "delete", "maps", "--yes"]).await.is(0).says(&["The profile maps is gone."]);
    node.cli(&["profile", "delete", "maps", "--yes"]).await.is(10);
    assert_eq!(node.json(&["profile", "list"]).await["profiles"].as_array().unwrap().len(), 1);

    node.cli(&["settings", "show"]).await.is(0).says(&["Nothing is set for the whole cluster."]);
    node.cli(&["settings", "set", "pools.downloading.size"]).await.is(2).complains(&["KEY=VALUE"]);
    node.cli(&["settings", "set", "pools.downlaoding.size=3"]).await.is(2).complains(&["did you mean"]);
    node.cli(&["settings", "set", "node.name=x"]).await.is(2).complains(&["each node has its own"]);
    let set = ["settings", "set", "pools.downloading.size=3", "pools.downloading.stall=5m"];
    node.cli(&set).await.is(0).says(&["The settings are version 1 now."]);
    assert_eq!(node.json(&set).await["changed"], false);
    let shown = node.cli(&["settings", "show"]).await.is(0);
    shown.says(&["KEY", "VALUE", "pools.downloading.size", "3", "pools.downloading.stall", "5m"]);
    let check = ["config", "check", "--config", "ingestd.toml"];
    node.cli(&check).await.is(0).says(&["# The settings of the cluster were not looked at: --cluster"]);
    assert_eq!(node.json(&check).await["cluster"], json!({"looked": false, "mark": null}));
    let with = [&check[..], &["--cluster"]].concat();
    node.cli(&with).await.is(0).says(&["size = 3  # the cluster, 1-"]);
    let found = node.json(&with).await;
    assert_eq!(found["effective"]["pools"]["downloading"]["size"], 3, "{found}");
    assert!(found["sources"]["pools.downloading.size"].as_str().unwrap().starts_with("the cluster, 1-"));
    assert!(found["cluster"]["mark"].as_str().unwrap().starts_with("1-"));
    run(command(node.dir.path(), "http://127.0.0.1:1", &with)).await.is(8).complains(&["no node answers"]);
    // The environment of a node stands over it.
    let mut own = command(node.dir.path(), &node.base, &with);
    own.env("INGESTD_POOLS_DOWNLOADING_SIZE", "5");
    run(own).await.is(0).says(&["size = 5  # INGESTD_POOLS_DOWNLOADING_SIZE"]);
    node.cli(&["settings", "unset", "pools.downloading.size"]).await.is(0).says(&["version 2 now."]);
    let left = node.json(&["settings", "show"]).await;
    assert_eq!(left["settings"], json!({"pools.downloading.stall": "5m"}), "{left}");
}
