//! Nodes that ask each other: the restarts of all of them, in one list.

use ingest_harness::{Server, ServerConfig};
use serde_json::{Value, json};

use super::kit::{TestNode, configure, tokens};

/// A node of this name on a server, where people need tokens, and which signs with this key.
async fn node(server: &Server, name: &str, key: char) -> TestNode {
    node_with(server, name, key, None).await
}

/// The same by TLS, if there are a certificate and its key. Nodes trust what `fetch.ca` says.
async fn node_with(server: &Server, name: &str, key: char, tls: Option<(&str, &str)>) -> TestNode {
    let dir = tempfile::tempdir().unwrap();
    let (tokens, key) = (tokens(&[("oli", "operator")]), key.to_string().repeat(40));
    let mut client = reqwest::Client::builder();
    let mut api = format!("{tokens}\nurl_key = '{key}'");
    if let Some((cert, key)) = tls {
        std::fs::write(dir.path().join("cert.pem"), cert).unwrap();
        std::fs::write(dir.path().join("key.pem"), key).unwrap();
        api.push_str("\ntls = { cert = 'cert.pem', key = 'key.pem' }");
        client = client.tls_certs_only([reqwest::Certificate::from_pem(cert.as_bytes()).unwrap()]);
    }
    configure(dir.path(), &api, "");
    let config = dir.path().join("ingestd.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    let connect = server.connect_string();
    let zookeeper = format!("[store.engine.zookeeper]\nconnect = '{connect}/peers'\nsession_timeout = '20s'");
    let text = text
        .replace("[store.engine.embedded]\ndir = 'tree'", &zookeeper)
        .replace("name = 'node-1'", &format!("name = '{name}'"));
    let text = if tls.is_some() { text.replace("[fetch]\n", "[fetch]\nca = 'cert.pem'\n") } else { text };
    std::fs::write(&config, text).unwrap();
    let mut node = TestNode::start_in(dir, client).await;
    node.with_token(Some("oli-token"));
    let entry = |actor: &str, at: &str| json!({"at": at, "node": name, "actor": actor, "pool": "notify", "reason": "panic", "count": 1, "backoff_ms": 0});
    let second = if name == "node-1" { "2026-01-03T00:00:00Z" } else { "2026-01-02T00:00:00Z" };
    let log = format!("{}\n{}\n", entry("notify-1", "2026-01-01T00:00:00Z"), entry("notify-2", second));
    std::fs::write(node.dir.path().join("node/restarts.jsonl"), log).unwrap();
    node
}

/// Of whom, and which.
fn seen(answer: &Value) -> Vec<String> {
    let restarts = answer["restarts"].as_array().unwrap().iter();
    restarts.map(|one| format!("{} {}", one["node"], one["actor"]).replace('"', "")).collect()
}

fn missing(answer: &Value) -> Vec<&str> {
    answer["missing"].as_array().unwrap().iter().map(|one| one["node"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn restarts_of_all_nodes_are_one_list_and_who_cannot_be_asked_is_named() {
    let server = Server::start(ServerConfig::default()).await;
    let first = node(&server, "node-1", 'k').await;
    let mut second = node(&server, "node-2", 'k').await;
    let third = node(&server, "node-3", 'x').await;

    let all = first.get("/api/v1/restarts").await.is(200).json;
    let of_both = ["node-1 notify-2", "node-2 notify-2", "node-1 notify-1", "node-2 notify-1"];
    assert_eq!((seen(&all), missing(&all)), (of_both.map(str::to_owned).to_vec(), vec!["node-3"]), "{all}");
    // With another key nobody is known, and the answer says what helps.
    assert!(all["missing"][0]["why"].as_str().unwrap().contains("api.url_key"), "{all}");
    let alone = third.get("/api/v1/restarts").await.is(200).json;
    assert_eq!((seen(&alone).len(), missing(&alone)), (2, vec!["node-1", "node-2"]), "{alone}");

    // Filters hold for all of them; one can be asked for alone, from any other.
    let some = first.get("/api/v1/restarts?actor=notify-1&limit=1").await.is(200).json;
    assert_eq!(seen(&some), ["node-1 notify-1"], "{some}");
    let one = first.get("/api/v1/restarts?node=node-2").await.is(200).json;
    assert_eq!((seen(&one).len(), missing(&one).len()), (2, 0), "{one}");
    assert_eq!(seen(&one)[0], "node-2 notify-2");
    first.get("/api/v1/restarts?node=node-9").await.problem(404, "not-found", "node-9");

    // A signature is for what it was made for: nobody else can make one, and it opens nothing else.
    let forged = async |path: &str, header: &str| {
        let request = first.client.get(format!("{}{path}", first.base)).header("authorization", header);
        request.send().await.unwrap().status().as_u16()
    };
    let forgery = format!("Ingestd-Node 99999999999 {}", "0".repeat(64));
    for path in ["/api/v1/restarts", "/api/v1/batches", "/metrics"] {
        assert_eq!(forged(path, &forgery).await, 401, "{path}");
    }
    assert_eq!(forged("/api/v1/restarts", "Ingestd-Node").await, 401);

    // One that has died is still in the tree for a while.
    second.kill();
    let rest = first.get("/api/v1/restarts").await.is(200).json;
    assert_eq!((seen(&rest).len(), missing(&rest)), (2, vec!["node-2", "node-3"]), "{rest}");
    let why = rest["missing"][0]["why"].as_str().unwrap();
    assert!(why.contains(&second.base) && why.contains("refused"), "{why}");

    // Without the tree there are its own, and the word that others may be missing.
    server.kill().await;
    let own = ingest_harness::eventually("its own alone", std::time::Duration::from_mins(1), || async {
        let own = first.get("/api/v1/restarts").await.is(200).json;
        own["missing"][0]["node"].is_null().then_some(own)
    })
    .await;
    let of_before = |own: &Value| seen(own).iter().filter(|one| one.contains("notify")).count();
    assert_eq!(of_before(&own), 2, "{own}");
    let log = std::fs::read_to_string(third.dir.path().join("log")).unwrap();
    assert!(!log.contains("oli-token"));
}

#[tokio::test]
async fn nodes_ask_each_other_by_tls_and_trust_no_other_certificate() {
    let server = Server::start(ServerConfig::default()).await;
    let issue = || {
        let issued = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        (issued.cert.pem(), issued.signing_key.serialize_pem())
    };
    let ((cert, key), (other, other_key)) = (issue(), issue());
    let first = node_with(&server, "node-1", 'k', Some((&cert, &key))).await;
    let second = node_with(&server, "node-2", 'k', Some((&cert, &key))).await;
    assert!(second.base.starts_with("https://"), "{}", second.base);
    // The same key for signatures, and a certificate that the others do not know.
    let _third = node_with(&server, "node-3", 'k', Some((&other, &other_key))).await;
    let all = first.get("/api/v1/restarts").await.is(200).json;
    assert_eq!((seen(&all).len(), missing(&all)), (4, vec!["node-3"]), "{all}");
    let why = all["missing"][0]["why"].as_str().unwrap();
    assert!(why.contains("certificate"), "{why}");
}
