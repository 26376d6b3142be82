//! Traces, as a collector gets them.

use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use super::kit::TestNode;

/// A collector of OTLP over HTTP, in JSON: it takes what is posted to `/v1/traces`.
struct Collector {
    url: String,
    requests: mpsc::UnboundedReceiver<Value>,
}

impl Collector {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (sender, requests) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, sender.clone()));
            }
        });
        Self { url, requests }
    }

    /// Spans as they come, until there are as many as these of a kind that is looked for.
    async fn spans(&mut self, wanted: usize, fits: impl Fn(&Value) -> bool) -> Vec<Value> {
        let mut found = Vec::new();
        while found.len() < wanted {
            let next = tokio::time::timeout(Duration::from_mins(1), self.requests.recv()).await;
            let request = next.expect("spans in time").expect("a collector");
            let resource = &request["resourceSpans"][0];
            let attributes = attributes(&resource["resource"]);
            assert_eq!(attributes["service.name"], "ingestd", "{request}");
            assert_eq!(attributes["service.instance.id"], "node-1", "{request}");
            let spans = resource["scopeSpans"][0]["spans"].as_array().unwrap().clone();
            found.extend(spans.into_iter().filter(&fits));
        }
        found
    }
}

async fn serve(stream: TcpStream, sender: mpsc::UnboundedSender<Value>) -> Option<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let (mut line, mut length, mut is_json) = (String::new(), 0, false);
        stream.read_line(&mut line).await.ok().filter(|read| *read > 0)?;
        assert_eq!(line.trim_end(), "POST /v1/traces HTTP/1.1");
        loop {
            let mut header = String::new();
            stream.read_line(&mut header).await.ok()?;
            let header = header.trim_end().to_ascii_lowercase();
            match header.split_once(": ") {
                Some(("content-length", value)) => length = value.parse().ok()?,
                Some(("content-type", value)) => is_json = value == "application/json",
                Some(_) => {}
                None => break,
            }
        }
        assert!(is_json);
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await.ok()?;
        sender.send(serde_json::from_slice(&body).ok()?).ok()?;
        let answer = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}";
        stream.write_all(answer.as_bytes()).await.ok()?;
    }
}

/// As an object of plain values.
fn attributes(of: &Value) -> Value {
    let plain = |value: &Value| value.as_object().unwrap().values().next().unwrap().clone();
    let all = of["attributes"].as_array().unwrap().iter();
    all.map(|one| (one["key"].as_str().unwrap().to_owned(), plain(&one["value"]))).collect()
}

#[tokio::test]
async fn every_step_of_a_job_is_a_span_of_its_trace() {
    let mut collector = Collector::start().await;
    let traces = format!("[traces]\nendpoint = '{}'\n", collector.url);
    let node = TestNode::start_with("", &traces).await;
    let bid = node.submit("a.txt", "one").await;
    node.batch_is(&bid, "completed").await;
    let jid = node.job_is(&bid, "completed").await;
    let states =
        ["pending", "estimating", "provisioning", "downloading", "processing", "recording", "notify"];
    let of_job = |span: &Value| attributes(span)["ingest.job"] == jid.as_str();
    // The pending job is let in by whoever goes on with it, and provisioning looks at all jobs at once.
    let spans =
        collector.spans(4, |span| of_job(span) && states[3..].iter().any(|name| span["name"] == *name)).await;
    for span in &spans {
        let attributes = attributes(span);
        assert_eq!(attributes["ingest.batch"], bid.as_str(), "{span}");
        assert_eq!(
            (&attributes["ingest.state"], &attributes["ingest.node"]),
            (&span["name"], &"node-1".into())
        );
        assert!(attributes["ingest.attempt"].as_str().unwrap().parse::<u32>().unwrap() > 0, "{span}");
        assert_eq!(span["traceId"], spans[0]["traceId"], "a job is one trace");
        assert_eq!(
            (span["traceId"].as_str().unwrap().len(), span["spanId"].as_str().unwrap().len()),
            (32, 16)
        );
        let time = |name: &str| span[name].as_str().unwrap().parse::<u128>().unwrap();
        assert!(time("startTimeUnixNano") <= time("endTimeUnixNano"), "{span}");
        assert!(span["status"]["code"].is_null(), "{span}");
    }
    let mut seen: Vec<&str> = spans.iter().map(|span| span["name"].as_str().unwrap()).collect();
    seen.sort_unstable();
    assert_eq!(seen, ["downloading", "notify", "processing", "recording"]);

    // A step that fails says why.
    let bid = node.submit_url(node.files.url("/nothing").as_str()).await;
    node.batch_is(&bid, "failed").await;
    let of_batch =
        |span: &Value| attributes(span)["ingest.batch"] == bid.as_str() && span["status"]["code"] == 2;
    let failed = collector.spans(1, of_batch).await.remove(0);
    assert!(failed["status"]["message"].as_str().unwrap().contains("404"), "{failed}");
    assert_eq!(failed["events"].as_array().unwrap().last().unwrap()["name"], "failed", "{failed}");
}

#[tokio::test]
async fn a_collector_that_is_away_stops_nobody() {
    let mut node = TestNode::start_with("", "[traces]\nendpoint = 'http://127.0.0.1:1/'\n").await;
    let bid = node.submit("a.txt", "one").await;
    node.batch_is(&bid, "completed").await;
    node.post("/api/v1/node/drain", serde_json::json!({})).await.is(202);
    assert!(node.ended().await.success());
    let log = std::fs::read_to_string(node.dir.path().join("log")).unwrap();
    assert_eq!(log.matches("traces cannot be sent, and are dropped until they can").count(), 1, "{log}");
}
