//! The tree goes away, and the API says so.

use std::time::Duration;

use ingest_harness::{Server, ServerConfig, eventually};

use super::kit::{TestNode, configure};

#[tokio::test]
async fn while_the_tree_is_away_requests_are_answered_503_and_then_all_is_well_again() {
    let server = Server::start(ServerConfig::default()).await;
    let dir = tempfile::tempdir().unwrap();
    configure(dir.path(), "", "");
    let config = dir.path().join("ingestd.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    let zookeeper = format!(
        "[store.engine.zookeeper]\nconnect = '{}/api'\nsession_timeout = '20s'",
        server.connect_string()
    );
    std::fs::write(&config, text.replace("[store.engine.embedded]\ndir = 'tree'", &zookeeper)).unwrap();
    let node = TestNode::start_in(dir, reqwest::Client::builder()).await;
    node.get("/api/v1/batches").await.is(200);
    server.kill().await;
    let away = eventually("a node that is not ready", Duration::from_mins(1), || async {
        let answer = node.get("/readyz").await;
        (answer.status == 503).then_some(answer)
    })
    .await;
    assert_eq!(away.json["reason"], "the connection to the tree is lost");
    node.get("/healthz").await.is(200);
    let refused = node.get("/api/v1/batches").await.problem(503, "tree-away", "");
    assert!(refused.header("retry-after").parse::<u64>().unwrap() >= 1);
    let metrics = node.get("/metrics").await.is(200).text();
    assert!(metrics.contains("ingestd_session_state{state=\"suspended\"} 1"), "{metrics}");
    server.restart().await;
    eventually("a node that is ready again", Duration::from_mins(1), || async {
        (node.get("/readyz").await.status == 200).then_some(())
    })
    .await;
    node.get("/api/v1/batches").await.is(200);
    let bid = node.submit("a.txt", "one").await;
    node.batch_is(&bid, "completed").await;
}
