//! Live events, as a page that is open gets them.

use std::time::Duration;

use futures::StreamExt as _;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::kit::{TestNode, on_a_server, tokens};

/// A stream of events.
struct Stream {
    bytes: futures::stream::BoxStream<'static, reqwest::Result<bytes::Bytes>>,
    text: String,
}

#[derive(Debug)]
struct Event {
    id: String,
    name: String,
    data: Value,
}

impl Stream {
    async fn open(node: &TestNode, last: Option<&str>) -> Self {
        let mut request = node.request(Method::GET, "/api/v1/events");
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self { bytes: response.bytes_stream().boxed(), text: String::new() }
    }

    async fn next(&mut self) -> Event {
        loop {
            if let Some((block, rest)) = self.text.split_once("\n\n") {
                let line = |name: &str| {
                    let found = block.lines().find_map(|line| line.strip_prefix(name));
                    found.map(|value| value.trim_start_matches(':').trim_start().to_owned())
                };
                let event = Event {
                    id: line("id").unwrap_or_default(),
                    name: line("event").unwrap_or_default(),
                    data: serde_json::from_str(&line("data").unwrap_or_default()).unwrap_or_default(),
                };
                let rest = rest.to_owned();
                self.text = rest;
                if !event.name.is_empty() {
                    return event;
                }
                continue;
            }
            let piece = timeout(Duration::from_mins(1), self.bytes.next()).await.expect("an event in time");
            self.text.push_str(std::str::from_utf8(&piece.expect("the stream goes on").unwrap()).unwrap());
        }
    }

    /// The next event of this name that fits.
    async fn until(&mut self, name: &str, fits: impl Fn(&Value) -> bool) -> Event {
        loop {
            let event = self.next().await;
            if event.name == name && fits(&event.data) {
                return event;
            }
        }
    }
}

#[tokio::test]
async fn whoever_listens_hears_of_everything_that_happens() {
    let node = TestNode::start().await;
    let mut stream = Stream::open(&node, None).await;
    assert_eq!(stream.next().await.name, "reset");
    let node_now = stream.until("node", |_| true).await;
    assert_eq!((&node_now.data["mode"], &node_now.data["ready"]), (&"running".into(), &true.into()));
    stream.until("counts", |data| data["jobs"]["completed"] == 0).await;

    let bid = node.submit("a.txt", "one").await;
    stream.until("batches", |data| data["changed"].as_array().unwrap().contains(&bid.as_str().into())).await;
    let completed = |data: &Value| data["jobs"]["completed"] == 1;
    let counted = stream.until("counts", completed).await;
    let jid = node.job_is(&bid, "completed").await;

    node.send(Method::PUT, "/api/v1/holds/queues/ingest", &json!({})).await.is(200);
    stream.until("holds", |_| true).await;
    node.post("/api/v1/node/pause", json!({})).await.is(200);
    let paused = stream.until("node", |data| data["mode"] == "paused").await;
    assert_eq!(paused.data["ready"], false);
    node.send(Method::PATCH, "/api/v1/pools/notify", &json!({"size": 1})).await.is(200);
    stream.until("nodes", |_| true).await;

    // A connection that broke goes on where it was.
    let mut again = Stream::open(&node, Some(&counted.id)).await;
    let first = again.next().await;
    assert_ne!(first.name, "reset");
    again.until("node", |data| data["mode"] == "paused").await;
    // From the beginning: where the job went is told, and it ended where it is.
    let mut late = Stream::open(&node, Some("00000000-0")).await;
    let reset = late.next().await;
    assert_eq!((reset.name.as_str(), &reset.data["why"]), ("reset", &"too much has happened since".into()));
    late.until("counts", completed).await;
    node.delete("/api/v1/holds/queues/ingest").await.is(200);
    late.until("holds", |_| true).await;
    node.get(&format!("/api/v1/jobs/{jid}")).await.is(200);
}

#[tokio::test]
async fn moved_jobs_are_named_and_streams_are_bounded_and_end_with_the_node() {
    let mut node = TestNode::start_with("max_streams = 1", "[pools.pending]\nsize = 0\n").await;
    let mut stream = Stream::open(&node, None).await;
    stream.until("counts", |_| true).await;
    node.get("/api/v1/events").await.problem(429, "too-many-requests", "max_streams");
    let bid = node.submit("a.txt", "one").await;
    let moved = stream.until("jobs", |_| true).await;
    assert_eq!(moved.data["moved"][0]["state"], "pending", "{moved:?}");
    let jid = node.job_is(&bid, "pending").await;
    node.post(&format!("/api/v1/jobs/{jid}/hold"), json!({})).await.is(200);
    let held = stream.until("jobs", |data| data["moved"][0]["state"] == "held").await;
    assert_eq!((&held.data["moved"][0]["jid"], &held.data["more"]), (&jid.as_str().into(), &0.into()));
    node.post(&format!("/api/v1/jobs/{jid}/release"), json!({})).await.is(200);
    stream.until("jobs", |data| data["moved"][0]["state"] == "pending").await;
    node.post("/api/v1/node/drain", json!({})).await.is(202);
    assert!(node.ended().await.success());
}

#[tokio::test]
async fn depositors_hear_of_their_own_batches_and_of_nothing_else() {
    let tokens = tokens(&[("ann", "depositor"), ("bob", "depositor"), ("ada", "admin")]);
    let mut node = TestNode::start_with(&format!("{tokens}\nmax_streams = 4"), "").await;
    node.with_token(Some("ada-token"));
    let mut all = Stream::open(&node, None).await;
    node.with_token(Some("ann-token"));
    let mut anns = Stream::open(&node, None).await;
    assert_eq!(anns.next().await.name, "reset");
    node.with_token(Some("bob-token"));
    let mut bobs = Stream::open(&node, None).await;
    // Two of four are for depositors.
    node.get("/api/v1/events").await.problem(429, "too-many-requests", "max_streams");
    all.until("node", |_| true).await;

    let submit = async |node: &TestNode, url: &str| {
        let body = json!({"profile": "test_content", "payload_url": url, "type": "file"});
        node.post("/api/v1/batches", body).await.is(201).json["bid"].as_str().unwrap().to_owned()
    };
    let of_bob = submit(&node, node.files.url("/nothing").as_str()).await;
    node.batch_is(&of_bob, "failed").await;
    node.with_token(Some("ann-token"));
    let of_ann = submit(&node, node.files.put("/a.txt", "one").as_str()).await;
    node.batch_is(&of_ann, "completed").await;
    all.until("batches", |data| data["changed"].as_array().unwrap().contains(&of_ann.as_str().into())).await;

    // Until hers has come, whatever else she was told are resets.
    loop {
        let event = anns.next().await;
        if event.name == "batches" {
            assert_eq!(
                (&event.data["changed"], &event.data["more"]),
                (&json!([of_ann]), &json!(0)),
                "{event:?}"
            );
            break;
        }
        assert_eq!(event.name, "reset", "{event:?}");
    }
    node.with_token(Some("ada-token"));
    node.delete(&format!("/api/v1/batches/{of_bob}?confirm=true")).await.is(200);
    let gone = bobs.until("batches", |data| data["gone"] != json!([])).await;
    assert_eq!(gone.data["gone"], json!([of_bob]), "{gone:?}");
}

#[tokio::test]
async fn a_job_that_nobody_survives_is_told_to_whoever_listens() {
    let node = TestNode::start_with("", "max_timeouts = 2\n[pools.downloading]\nstall = '1s'\n").await;
    let mut stream = Stream::open(&node, None).await;
    // Takes a request and never answers: the step stalls, and again.
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/never", silent.local_addr().unwrap());
    // With its size, which would be asked for otherwise.
    let body =
        json!({"profile": "test_content", "submitter": "ann", "payload_url": url, "type": "file", "size": 5});
    let bid = node.post("/api/v1/batches", body).await.is(201).json["bid"].as_str().unwrap().to_owned();
    let alert = stream.until("alert", |_| true).await;
    let jid = node.job_is(&bid, "failed").await;
    assert_eq!(alert.data["jid"], jid);
    assert_eq!(
        alert.data["what"],
        "poison: its worker crashed or stalled 2 times, most recently in downloading"
    );
    let metrics = node.get("/metrics").await.is(200).text();
    assert!(
        metrics.lines().any(|line| line.starts_with("ingestd_poisoned_jobs_total") && line.ends_with(" 1")),
        "{metrics}"
    );
}

#[tokio::test]
async fn an_alert_is_told_by_every_node_whichever_has_seen_it() {
    let connect = ingest_harness::shared_connect_string_with_chroot().await;
    let more = "max_timeouts = 2\n[pools.downloading]\nstall = '1s'\n";
    let worker = TestNode::start_in(on_a_server(&connect, "", more), reqwest::Client::builder()).await;
    let dir = on_a_server(&connect, "", more);
    let config = dir.path().join("ingestd.toml");
    let text = std::fs::read_to_string(&config).unwrap().replace("name = 'node-1'", "name = 'node-2'");
    std::fs::write(&config, text).unwrap();
    let listener = TestNode::start_in(dir, reqwest::Client::builder()).await;
    // It takes no work, so that it sees nothing itself.
    listener.post("/api/v1/node/pause", json!({})).await.is(200);
    let mut streams = [Stream::open(&listener, None).await, Stream::open(&worker, None).await];
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/never", silent.local_addr().unwrap());
    let body =
        json!({"profile": "test_content", "submitter": "ann", "payload_url": url, "type": "file", "size": 5});
    let bid = worker.post("/api/v1/batches", body).await.is(201).json["bid"].as_str().unwrap().to_owned();
    let jid = worker.job_is(&bid, "failed").await;
    for stream in &mut streams {
        let alert = stream.until("alert", |_| true).await;
        assert_eq!((&alert.data["jid"], alert.data.get("feed")), (&json!(jid), None));
        let what = "poison: its worker crashed or stalled 2 times, most recently in downloading";
        assert_eq!(alert.data["what"], what);
    }
    let metrics = listener.get("/metrics").await.is(200).text();
    assert!(metrics.contains("ingestd_poisoned_jobs_total 0\n"), "it has not seen it itself: {metrics}");
}
