//! What nobody sends who means well: paths that lead elsewhere, headers without end, bodies that do not come.

use std::time::Duration;

use ingest_harness::let_pass;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::kit::TestNode;

/// What a client sees of an answer: its status, 0 if there was none, and all of its text.
type Seen = (u16, String);

async fn connected(node: &TestNode) -> TcpStream {
    TcpStream::connect(node.base.strip_prefix("http://").unwrap()).await.unwrap()
}

async fn rest(mut stream: TcpStream) -> Seen {
    let mut answer = Vec::new();
    // It may be cut before all of it was sent.
    let _ = stream.read_to_end(&mut answer).await;
    let text = String::from_utf8_lossy(&answer).into_owned();
    let status = text.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)?.parse().ok());
    (status.unwrap_or(0), text)
}

/// Sends these bytes as they are: a client that means well would put some of them right.
async fn sent(node: &TestNode, bytes: &[u8]) -> Seen {
    let mut stream = connected(node).await;
    let _ = stream.write_all(bytes).await;
    rest(stream).await
}

async fn asked(node: &TestNode, method: &str, path: &str) -> Seen {
    let head = "host: localhost\r\nx-ingestd: 1\r\nconnection: close\r\ncontent-length: 0";
    sent(node, format!("{method} {path} HTTP/1.1\r\n{head}\r\n\r\n").as_bytes()).await
}

/// The ways out of a directory, as parts of a path.
const TRICKS: [&str; 10] = [
    "..",
    "%2e%2e",
    "..%2f..%2f..%2fetc%2fpasswd",
    "%2e%2e%2f%2e%2e%2fetc%2fpasswd",
    "%252e%252e%252f",
    "%2fetc%2fpasswd",
    "..%5c..%5cetc",
    "a%00b",
    "%ff%fe",
    "%0d%0aset-cookie:%20a=b",
];

#[tokio::test]
async fn a_path_leads_nowhere_but_where_it_says() {
    let node = TestNode::start_with("rate = 1000000", "[access]\ndir = 'access'\n").await;
    // Found by a path that leads out of any of its directories.
    std::fs::write(node.dir.path().join("node/secret"), "root:secret").unwrap();
    let document = node.get("/openapi.json").await.is(200).json;
    let mut tried = 0;
    for (path, methods) in document["paths"].as_object().unwrap() {
        if !path.contains('{') {
            continue;
        }
        for method in methods.as_object().unwrap().keys() {
            for trick in TRICKS {
                let with =
                    |part: &str| if part.starts_with('{') { trick.to_owned() } else { part.to_owned() };
                let concrete = path.split('/').map(with).collect::<Vec<_>>().join("/");
                let (status, text) = asked(&node, &method.to_uppercase(), &concrete).await;
                let allowed: &[u16] = match (method.as_str(), path.contains("{mnemonic}")) {
                    // A collection may have any name; it becomes none of a file, and none of another node of the tree.
                    ("put" | "delete", true) => &[200, 400, 404],
                    // Without a body some are refused before anybody looks for the thing.
                    ("post" | "put" | "patch", _) => &[400, 404, 405, 422],
                    _ => &[400, 404, 405],
                };
                assert!(allowed.contains(&status), "{method} {concrete}: {text}");
                let head = text.split("\r\n\r\n").next().unwrap().to_ascii_lowercase();
                assert!(!text.contains("root:") && !head.contains("set-cookie"), "{concrete}: {text}");
                tried += 1;
            }
        }
    }
    assert!(tried > 150, "{tried}");
    let secret = "node/secret";
    for path in [
        format!("/files/work/../{secret}"),
        format!("/files/work/%2e%2e/{secret}?expires=9999999999&signature=00"),
        format!("/files/uploads/..%2f..%2f{secret}"),
        "/files//etc/passwd".to_owned(),
        "/files/work//etc/passwd".to_owned(),
        "/files/%00".to_owned(),
        "/../../etc/passwd".to_owned(),
        "/%2e%2e/%2e%2e/etc/passwd".to_owned(),
        "/js/..%2f..%2fCargo.toml".to_owned(),
        "/js/%2e%2e/index.html%00.js".to_owned(),
        "//etc/passwd".to_owned(),
    ] {
        let (status, text) = asked(&node, "GET", &path).await;
        assert!(matches!(status, 400 | 404), "{path}: {text}");
        assert!(!text.contains("root:"), "{path}: {text}");
    }
    assert_eq!(node.get("/api/v1/fsck").await.is(200).text().matches("\"severity\"").count(), 0);
}

#[tokio::test]
async fn what_is_no_request_is_answered_with_what_is_wrong_or_not_at_all() {
    let node = TestNode::start_with("rate = 1000000\nmax_body = 1000", "").await;
    let many = "x: y\r\n".repeat(500);
    let json = "host: localhost\r\nconnection: close\r\ncontent-type: application/json\r\n";
    for (request, wanted) in [
        (format!("GET /healthz HTTP/1.1\r\nhost: localhost\r\n{many}\r\n"), 431),
        (format!("GET /{} HTTP/1.1\r\nhost: localhost\r\n\r\n", "a".repeat(70_000)), 414),
        ("GET /healthz HTTP/1.1\r\nconnection: close\r\n\r\n".to_owned(), 403),
        ("GET /healthz HTTP/1.1\r\nhost: evil.example.org\r\nconnection: close\r\n\r\n".to_owned(), 403),
        ("GET http://evil.example.org/healthz HTTP/1.1\r\nhost: evil.example.org\r\nconnection: close\r\n\r\n".to_owned(), 403),
        ("BREW /healthz HTTP/1.1\r\nhost: localhost\r\nx-ingestd: 1\r\nconnection: close\r\n\r\n".to_owned(), 405),
        ("no request at all\r\n\r\n".to_owned(), 400),
        ("GET /healthz HTTP/1.1\r\nhost: localhost\r\nx y: z\r\n\r\n".to_owned(), 400),
        (format!("POST /api/v1/jobs/bulk HTTP/1.1\r\n{json}content-length: x\r\n\r\n"), 400),
        (format!("POST /api/v1/jobs/bulk HTTP/1.1\r\n{json}transfer-encoding: chunked\r\n\r\nzz\r\n"), 400),
        (format!("POST /api/v1/jobs/bulk HTTP/1.1\r\n{json}content-length: 99999999999\r\n\r\n"), 413),
        (format!("POST /api/v1/jobs/bulk HTTP/1.1\r\n{json}content-length: 2\r\n\r\n\u{ff}"), 400),
    ] {
        let (status, text) = sent(&node, request.as_bytes()).await;
        assert_eq!(status, wanted, "{}…: {text}", request.get(..60).unwrap_or(&request));
    }
    node.get("/healthz").await.is(200);
}

#[tokio::test]
async fn whoever_sends_slowly_does_not_keep_others_waiting() {
    let node = TestNode::start_with("rate = 1000000\nstall = '400ms'\ntimeout = '1500ms'", "").await;
    let head = "host: localhost\r\nconnection: close\r\ncontent-length: 1000\r\ncontent-type:";
    let begun = [
        (
            "a body that stops",
            format!("POST /api/v1/jobs/bulk HTTP/1.1\r\n{head} application/json\r\n\r\n{{"),
        ),
        (
            "a form that stops",
            format!(
                "POST /api/v1/batches HTTP/1.1\r\n{head} application/x-www-form-urlencoded\r\n\r\nprofile="
            ),
        ),
        (
            "an upload that stops",
            format!(
                "POST /api/v1/batches HTTP/1.1\r\n{head} multipart/form-data; boundary=b\r\n\r\n--b\r\ncontent-disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\nabc"
            ),
        ),
    ];
    let mut waiting = Vec::new();
    for (what, bytes) in &begun {
        let mut stream = connected(&node).await;
        stream.write_all(bytes.as_bytes()).await.unwrap();
        waiting.push((what, stream));
    }
    // And a hundred that do not even come to the end of their headers.
    let mut headless = Vec::new();
    for _ in 0..100 {
        let mut stream = connected(&node).await;
        stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: local").await.unwrap();
        headless.push(stream);
    }
    node.get("/healthz").await.is(200);
    node.get("/api/v1/batches").await.is(200);
    for (what, stream) in waiting {
        let (status, text) = rest(stream).await;
        assert_eq!(status, 408, "{what}: {text}");
        let body: Value = serde_json::from_str(text.split("\r\n\r\n").nth(1).unwrap()).unwrap();
        assert_eq!(body["type"], "urn:ingestd:problem:timeout", "{what}: {text}");
    }
    for stream in headless {
        let (status, text) = rest(stream).await;
        assert!(matches!(status, 0 | 408), "{text}");
    }
    // One byte at a time, each in time: all of it is not.
    let (mut read, mut write) = connected(&node).await.into_split();
    let trickle = tokio::spawn(async move {
        let head = format!("POST /api/v1/jobs/bulk HTTP/1.1\r\n{head} application/json\r\n\r\n");
        let mut gone = write.write_all(head.as_bytes()).await.is_err();
        while !gone {
            let_pass(Duration::from_millis(100)).await;
            gone = write.write_all(b" ").await.is_err();
        }
    });
    let mut answer = [0; 12];
    read.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 408");
    trickle.abort();
    let uploads = std::fs::read_dir(node.dir.path().join("uploads")).into_iter().flatten();
    let uploads =
        uploads.filter(|entry| !entry.as_ref().unwrap().file_name().to_string_lossy().starts_with('.'));
    let uploads = uploads.count();
    assert_eq!(uploads, 0, "what broke off is not kept");
}
