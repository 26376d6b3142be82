//! Requests of the tree on three nodes, one of which is killed. What holds: **every request gets exactly one result,
//! those of one line in their order, and what all nodes share is applied by each of them.**

use ingest_queue::map::RequestNode;
use ingest_queue::requests::NewRequest;
use serde_json::{Value, json};

use crate::kit::{self, On, Place};

fn asked(action: &str, node: Option<&str>, params: Value) -> NewRequest {
    NewRequest {
        action: action.into(),
        node: node.map(str::to_owned),
        who: "ann".into(),
        from: "tree ann@host".into(),
        params,
        wait: true,
        ..NewRequest::default()
    }
}

async fn three_nodes_answer(on: On) {
    let place = Place::new(on).await;
    let mut nodes = Vec::new();
    for number in 0..3 {
        nodes.push(place.node_with(&format!("node-{number}"), None, |_, _| {}).await);
    }
    let queue = place.queue().await;
    let mut ids = Vec::new();
    for number in 0..30 {
        let action = if number % 2 == 0 { "queue.hold" } else { "queue.release" };
        let id = queue.put_request(&asked(action, None, json!({"queue": "ingest"}))).await.unwrap();
        ids.push(id);
        if number == 10 {
            nodes.remove(0).stop();
        }
    }
    let mut order = Vec::new();
    for (number, id) in ids.iter().enumerate() {
        let answered = queue.await_request(id, |_| ()).await.unwrap();
        assert!(answered.result.ok, "{answered:?}");
        assert_eq!(answered.data["held"], json!(number % 2 == 0), "{answered:?}");
        let stat = queue.session().exists(RequestNode::Result.of(id)).await.unwrap().unwrap();
        assert_eq!(stat.version, 0, "a result is written once");
        order.push(stat.czxid);
    }
    assert!(order.is_sorted(), "{order:?}");
    assert_eq!(queue.read_holds().await.unwrap().queues().count(), 0, "the last was a release");

    let id = queue.put_request(&asked("node.pause", Some("node-1"), json!({}))).await.unwrap();
    let answered = queue.await_request(&id, |_| ()).await.unwrap();
    assert_eq!((answered.result.node.as_str(), &answered.data["mode"]), ("node-1", &json!("paused")));
    let id = queue.put_request(&asked("node.puase", None, json!({}))).await.unwrap();
    let problem = queue.await_request(&id, |_| ()).await.unwrap().result.problem.unwrap();
    assert!(problem["detail"].as_str().unwrap().contains("did you mean `node.pause`?"), "{problem}");

    let text = "name = 'maps'\ncollection = 'maps'\ntitle = 'Maps'\nowner = 'ark:/99999/fk4m'\n";
    let put = asked("profile.put", None, json!({"name": "maps", "text": text}));
    let id = queue.put_request(&put).await.unwrap();
    let answered = queue.await_request(&id, |_| ()).await.unwrap();
    assert_eq!(answered.data["version"], 1, "{answered:?}");
    for node in &nodes {
        let mut shared = node.house().shared_changes();
        shared.wait_for(|now| now.profiles.iter().any(|one| one.name == "maps")).await.unwrap();
    }
    // Each says in the registry which ones it runs.
    let mark = queue.shared().await.unwrap().profiles_mark();
    assert!(mark.starts_with("1-"), "{mark}");
    ingest_harness::eventually("all nodes say what they run", kit::PATIENCE, || async {
        let all = kit::components(&queue).await;
        (all.len() == nodes.len() && all.iter().all(|one| one.profiles == mark)).then_some(())
    })
    .await;
    kit::clean(&queue).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn three_nodes_answer_every_request_once_embedded() {
    three_nodes_answer(On::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn three_nodes_answer_every_request_once_zookeeper() {
    three_nodes_answer(On::Zookeeper).await;
}
