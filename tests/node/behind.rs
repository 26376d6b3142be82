//! Two nodes, and the server of one of them is behind. What holds: **a read that carries the moment of a change sees the
//! change, or is answered `behind`; it is never answered with what was before.**

use std::time::Duration;

use ingest_harness::Laggard;
use ingest_queue::map;
use reqwest::Method;
use serde_json::{Value, json};

use crate::api::Api;
use crate::checks;
use crate::place::Place;

const PROFILE: &str = "name = 'maps'\ncollection = 'maps'\nowner = 'ark:/99999/fk4maps'\n";

fn holds(found: &Value) -> Vec<&str> {
    found["collections"].as_array().unwrap().iter().map(|hold| hold["name"].as_str().unwrap()).collect()
}

fn titles(found: &Value) -> Vec<&str> {
    let profiles = found["profiles"].as_array().unwrap().iter();
    profiles.filter(|one| one["name"] == "maps").map(|one| one["title"].as_str().unwrap()).collect()
}

async fn hold(api: &Api, name: &str) -> i64 {
    api.change(Method::PUT, &format!("holds/collections/{name}"), &json!({})).await.1
}

async fn put_profile(api: &Api, title: &str) -> i64 {
    let text = format!("{PROFILE}title = '{title}'\n");
    api.change(Method::PUT, "profiles/maps", &json!({ "text": text })).await.1
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_with_the_moment_of_a_change_waits_for_it_or_says_that_its_server_is_behind() {
    let (laggard, chroot) = (Laggard::start().await, ingest_harness::chroot());
    let place = Place::at(format!("{}{chroot}", laggard.others()), Duration::from_mins(1));
    let both = |name: &str| place.node(name).set("profiles.source", "both");
    let ahead = both("node-1").ready().await;
    let connect = format!("{}{chroot}", laggard.connect_string());
    let setup = both("node-2").set("store.engine.zookeeper.connect", connect.as_str());
    let behind = setup.set("api.timeout", "2s").ready().await;
    // What the server of the second node knows.
    let there = Place::at(connect, Duration::from_mins(1)).queue().await;
    let (a, b) = (Api::of(&place, "node-1"), Api::of(&place, "node-2"));

    // While its server keeps up, each change is seen, also what the node has in memory. A busy machine may need longer than the node
    // waits: then it says so, and never answers with what was before.
    let fresh = |found: &Value| found["type"] != "urn:ingestd:problem:behind";
    for n in 0..10 {
        let (name, title) = (format!("early-{n}"), format!("Maps {n}"));
        let moment = hold(&a, &name).await;
        let found = b.until("a server that keeps up", &format!("holds?ltime={moment}"), fresh).await;
        assert!(holds(&found).contains(&name.as_str()), "{found}");
        let moment = put_profile(&a, &title).await;
        let found = b.until("a server that keeps up", &format!("profiles?ltime={moment}"), fresh).await;
        assert_eq!(titles(&found), [title.as_str()], "{found}");
    }

    // The nodes have nothing more to write.
    let quiet = |found: &Value| {
        let nodes = found["nodes"].as_array().map(Vec::as_slice).unwrap_or_default();
        nodes.len() == 2 && nodes.iter().all(|node| node["lags"] == false)
    };
    a.until("both nodes run what the tree has", "nodes", quiet).await;
    laggard.fall_behind();
    let moment = hold(&a, "late").await;
    let later = put_profile(&a, "Late maps").await;
    let known = there.session().exists(map::collection_hold("late")).await.unwrap();
    assert_eq!(known, None, "its server is not behind");
    // Whoever does not care is answered with what the server has; or not at all, if the node is just writing something.
    let old = |(status, found): (u16, Value)| match status {
        200 => assert!(!holds(&found).contains(&"late"), "{found}"),
        _ => assert_eq!((status, &found["type"]), (503, &"urn:ingestd:problem:tree-away".into()), "{found}"),
    };
    old(b.get("holds").await);
    for path in [format!("holds?ltime={moment}"), format!("profiles?ltime={later}")] {
        let (status, found) = b.get(&path).await;
        assert_eq!((status, &found["type"]), (503, &"urn:ingestd:problem:behind".into()), "{found}");
    }
    old(b.get("holds").await);

    let asked = b.request(Method::GET, "holds").header("x-ingestd-ltime", moment).send();
    let answered = tokio::spawn(asked);
    laggard.catch_up();
    let answered = answered.await.unwrap().unwrap();
    let (status, found) = (answered.status().as_u16(), answered.json::<Value>().await.unwrap());
    // A server that takes longer than the node waits is behind; the next one who asks is answered.
    if status == 200 {
        assert!(holds(&found).contains(&"late"), "{found}");
    } else {
        assert_eq!((status, &found["type"]), (503, &"urn:ingestd:problem:behind".into()), "{found}");
    }
    let path = format!("holds?ltime={moment}");
    let found = b.until("its server has caught up", &path, fresh).await;
    assert!(holds(&found).contains(&"late"), "{found}");
    let found = b.until("its server has caught up", &format!("profiles?ltime={later}"), fresh).await;
    assert_eq!(titles(&found), ["Late maps"], "{found}");
    checks::clean(&place.queue().await).await;
    for node in [ahead, behind] {
        assert_eq!(node.drained().await, 0, "{}", node.process.tail());
    }
}
