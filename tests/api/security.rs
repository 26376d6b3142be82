//! Who may do what, from where, and what nobody may.

use reqwest::Method;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::kit::{Answer, TestNode, configure, sha256, spawn, tokens};

#[tokio::test]
async fn each_role_may_do_what_it_is_for() {
    let api = tokens(&[("ann", "depositor"), ("bob", "depositor"), ("oli", "operator"), ("ada", "admin")]);
    let mut node = TestNode::start_with(&api, "").await;
    // Open to anybody.
    for path in ["/healthz", "/readyz", "/openapi.json"] {
        node.get(path).await.is(200);
    }
    let refused = node.get("/api/v1/batches").await.problem(401, "unauthorized", "Bearer");
    assert_eq!(refused.header("www-authenticate"), "Bearer");
    for path in ["/metrics", "/api/v1/me", "/api/v1/events", "/api/v1/states"] {
        node.get(path).await.problem(401, "unauthorized", "");
    }
    node.post("/api/v1/batches", json!({})).await.problem(401, "unauthorized", "");

    node.with_token(Some("ann-token"));
    assert_eq!(node.get("/api/v1/me").await.is(200).json["role"], "depositor");
    let url = node.files.put("/a.txt", "one").to_string();
    let submission = |submitter: Option<&str>| {
        let mut body = json!({"profile": "test_content", "payload_url": url, "type": "file", "uuid": "anns"});
        if let Some(submitter) = submitter {
            body["submitter"] = submitter.into();
        }
        body
    };
    let wrong = node.post("/api/v1/batches", submission(Some("bob"))).await.problem(400, "invalid", "ann's");
    assert_eq!(wrong.fields(), ["submitter"]);
    let mut prior = submission(None);
    prior["priority"] = 0.into();
    node.post("/api/v1/batches", prior).await.problem(400, "invalid", "only operators");
    let bid =
        node.post("/api/v1/batches", submission(None)).await.is(201).json["bid"].as_str().unwrap().to_owned();
    node.batch_is(&bid, "completed").await;
    let jid = node.job_is(&bid, "completed").await;
    for (method, path) in [
        (Method::GET, "/api/v1/holds"),
        (Method::GET, "/api/v1/nodes"),
        (Method::GET, "/metrics"),
        (Method::GET, "/api/v1/jobs/reasons"),
        (Method::GET, "/api/v1/jobs?submitter=bob"),
        (Method::POST, "/api/v1/node/pause"),
        (Method::POST, "/api/v1/access"),
        (Method::POST, "/api/v1/jobs/bulk"),
        (Method::DELETE, "/api/v1/jobs/jid0000000001?confirm=true"),
    ] {
        node.send(method, path, &json!({})).await.problem(403, "forbidden", "");
    }

    // What belongs to others is not there.
    node.with_token(Some("bob-token"));
    for path in [
        format!("batches/{bid}"),
        format!("batches/{bid}/report"),
        format!("jobs/{jid}"),
        format!("jobs/{jid}/history"),
    ] {
        node.get(&format!("/api/v1/{path}")).await.problem(404, "not-found", "");
    }
    assert_eq!(node.get("/api/v1/batches").await.json["batches"], json!([]));
    assert_eq!(node.get("/api/v1/jobs").await.json["jobs"], json!([]));
    node.post("/api/v1/batches", submission(None)).await.problem(409, "refused", "somebody else's");

    node.with_token(Some("oli-token"));
    node.get(&format!("/api/v1/jobs/{jid}")).await.is(200);
    node.get("/metrics").await.is(200);
    for (method, path, body) in [
        (Method::DELETE, format!("/api/v1/jobs/{jid}?confirm=true"), json!({})),
        (Method::DELETE, format!("/api/v1/batches/{bid}?confirm=true"), json!({})),
        (Method::PATCH, "/api/v1/pools/notify".into(), json!({"size": 1})),
        (Method::POST, "/api/v1/node/drain".into(), json!({})),
        (Method::GET, "/api/v1/audit".into(), json!({})),
        (Method::POST, format!("/api/v1/jobs/{jid}/hold"), json!({"force": true})),
        (Method::POST, "/api/v1/jobs/bulk".into(), json!({"action": "delete", "filter": {"batch": bid}})),
        (
            Method::POST,
            "/api/v1/requests".into(),
            json!({"action": "jobs.bulk", "params": {"action": "delete", "filter": {"batch": bid}}}),
        ),
    ] {
        node.send(method, &path, &body).await.problem(403, "forbidden", "this is for admin");
    }
    node.with_token(Some("ada-token"));
    let audit = node.get("/api/v1/audit").await.is(200);
    let entries = audit.json["entries"].as_array().unwrap();
    assert!(entries.iter().any(|entry| entry["who"] == "oli" && entry["status"] == 403), "{}", audit.text());

    // Whoever guesses is stopped, and then not even a right one is told so.
    node.with_token(Some("wrong"));
    let mut refused = 0;
    for _ in 0..30 {
        match node.get("/api/v1/me").await.status {
            401 => {}
            429 => refused += 1,
            other => panic!("{other}"),
        }
    }
    assert!(refused > 0);
    let log = std::fs::read_to_string(node.dir.path().join("log")).unwrap();
    for secret in ["ann-token", "ada-token", &sha256("ada-token"), "wrong"] {
        assert!(!log.contains(secret), "{secret} is in the log");
    }
}

#[tokio::test]
async fn other_sites_and_other_names_are_refused() {
    let node = TestNode::start_with("hosts = ['ingest.test']\nrate = 100000", "").await;
    let sent = async |headers: &[(&str, &str)], body: Option<&'static str>| {
        let mut request = node.request(Method::POST, "/api/v1/node/pause");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        Answer::of(request.body(body.unwrap_or_default()).send().await.unwrap()).await
    };
    let json = ("content-type", "application/json");
    let own = node.base.as_str();
    sent(&[], None).await.problem(415, "unsupported-media-type", "X-Ingestd");
    sent(&[("content-type", "text/plain")], Some("{}")).await.problem(415, "unsupported-media-type", "");
    sent(&[("content-type", "application/x-www-form-urlencoded")], Some("a=b")).await.problem(
        415,
        "unsupported-media-type",
        "",
    );
    sent(&[json, ("origin", "https://evil.example.org")], None).await.problem(403, "cross-origin", "");
    sent(&[json, ("origin", "null")], None).await.problem(403, "cross-origin", "");
    sent(&[json, ("origin", "http://127.0.0.1:1")], None).await.problem(403, "cross-origin", "");
    sent(&[json, ("sec-fetch-site", "cross-site")], None).await.problem(403, "cross-origin", "");
    sent(&[json, ("sec-fetch-site", "same-site")], None).await.problem(403, "cross-origin", "");
    sent(&[json, ("host", "evil.example.org")], None).await.problem(403, "wrong-host", "evil.example.org");
    assert_eq!(node.get("/api/v1/node").await.json["mode"], "running", "nothing has happened so far");
    sent(&[json, ("origin", own), ("sec-fetch-site", "same-origin")], Some("{}")).await.is(200);
    sent(&[("x-ingestd", "1")], None).await.is(200);
    sent(&[json, ("host", "localhost")], None).await.is(200);
    sent(&[json, ("host", "ingest.test:80")], None).await.is(200);
    // A form of another site.
    let form = node.request(Method::POST, "/api/v1/batches").header("origin", "https://evil.example.org");
    let form = form.form(&[("profile", "test_content")]);
    Answer::of(form.send().await.unwrap()).await.problem(403, "cross-origin", "");
    // Rebinding reads nothing, either.
    let read = node.request(Method::GET, "/api/v1/batches").header("host", "evil.example.org");
    Answer::of(read.send().await.unwrap()).await.problem(403, "wrong-host", "");

    let answer = node.get("/api/v1/batches").await.is(200);
    for (name, value) in [
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "DENY"),
        ("referrer-policy", "no-referrer"),
        ("cache-control", "no-store"),
    ] {
        assert_eq!(answer.header(name), value, "{name}");
    }
    assert!(answer.header("content-security-policy").contains("frame-ancestors 'none'"));
    assert_eq!(answer.header("access-control-allow-origin"), "");
}

#[tokio::test]
async fn whatever_is_answered_can_be_framed_sniffed_and_read_by_nobody_else() {
    let node = TestNode::start().await;
    let page = node.get("/").await.is(200).text();
    let script = page.split('"').find(|part| part.starts_with("/dashboard/") && part.contains("/js/"));
    for (path, status) in [
        ("/", 200),
        (script.expect("a script"), 200),
        ("/api/v1/batches", 200),
        ("/api/v1/batches/bid0000000099", 404),
        ("/openapi.json", 200),
        ("/healthz", 200),
        ("/metrics", 200),
        ("/files/uploads/nothing", 404),
        ("/nothing", 404),
    ] {
        let answer = node.get(path).await.is(status);
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("x-frame-options", "DENY"),
            ("referrer-policy", "no-referrer"),
            ("cross-origin-opener-policy", "same-origin"),
            ("cross-origin-resource-policy", "same-origin"),
            ("permissions-policy", "camera=(), geolocation=(), microphone=()"),
            ("access-control-allow-origin", ""),
        ] {
            assert_eq!(answer.header(name), value, "{path}: {name}");
        }
        let policy: Vec<&str> = answer.header("content-security-policy").split("; ").collect();
        for rule in ["default-src 'none'", "base-uri 'none'", "frame-ancestors 'none'"] {
            assert!(policy.contains(&rule), "{path}: {policy:?}");
        }
        assert!(
            !policy.iter().any(|rule| rule.contains("unsafe") || rule.contains('*')),
            "{path}: {policy:?}"
        );
        let scripts = policy.iter().find(|rule| rule.starts_with("script-src"));
        assert_eq!(scripts, Some(&"script-src 'self'"), "{path}");
        if !path.starts_with("/dashboard/") {
            assert!(matches!(answer.header("cache-control"), "no-store" | "no-cache" | ""), "{path}");
        }
    }
}

#[tokio::test]
async fn requests_are_bounded_in_number_size_and_time() {
    let node = TestNode::start_with("rate = 5\nstall = '500ms'\ntimeout = '2s'", "").await;
    // At once: to answer all of them at this rate takes most of a minute, however slow the machine is.
    let answers = futures::future::join_all((0..200).map(|_| node.get("/healthz"))).await;
    let limited = answers.into_iter().find(|answer| answer.status == 429);
    let limited = limited.expect("a limit").problem(429, "too-many-requests", "");
    assert!(limited.header("retry-after").parse::<u64>().unwrap() >= 1);

    let address = node.base.strip_prefix("http://").unwrap();
    let exchange = async |text: &[u8]| {
        let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
        // It may be refused before all of it is sent.
        let _ = stream.write_all(text).await;
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8_lossy(&answer).into_owned()
    };
    let slow = exchange(b"POST /api/v1/batches HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: 10\r\n\r\n{").await;
    assert!(slow.starts_with("HTTP/1.1 408") || slow.starts_with("HTTP/1.1 429"), "{slow}");
    let mut large = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nx: ".to_vec();
    large.extend(vec![b'a'; 10 << 20]);
    large.extend(b"\r\n\r\n");
    // It is refused long before all of it is sent; and still whoever reads only then finds the answer.
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    stream.write_all(&large).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 431"), "{answer}");
    let nothing = exchange(b"GET /healthz HTTP/1.1\r\nhost:").await;
    assert!(nothing.is_empty() || nothing.starts_with("HTTP/1.1 4"), "{nothing}");
}

#[tokio::test]
async fn a_node_that_others_reach_does_not_start_without_tokens() {
    let dir = tempfile::tempdir().unwrap();
    configure(dir.path(), "", "");
    let config = dir.path().join("ingestd.toml");
    let text = std::fs::read_to_string(&config).unwrap().replace("127.0.0.1:0", "0.0.0.0:0");
    std::fs::write(&config, text).unwrap();
    let mut child = spawn(dir.path());
    let status = tokio::task::spawn_blocking(move || child.wait().unwrap()).await.unwrap();
    assert_eq!(status.code(), Some(3));
    let log = std::fs::read_to_string(dir.path().join("log")).unwrap();
    assert!(
        log.contains("api.listen: 0.0.0.0 can be reached from elsewhere, and there are no tokens"),
        "{log}"
    );
}

#[tokio::test]
async fn the_api_speaks_tls_and_the_node_fetches_its_own_uploads_by_it() {
    let dir = tempfile::tempdir().unwrap();
    let names = ["127.0.0.1".to_owned(), "localhost".to_owned()];
    let issued = rcgen::generate_simple_self_signed(names).unwrap();
    let pem = issued.cert.pem();
    std::fs::write(dir.path().join("cert.pem"), &pem).unwrap();
    std::fs::write(dir.path().join("key.pem"), issued.signing_key.serialize_pem()).unwrap();
    configure(dir.path(), "tls = { cert = 'cert.pem', key = 'key.pem' }", "");
    let config = dir.path().join("ingestd.toml");
    let text = std::fs::read_to_string(&config).unwrap().replace("[fetch]\n", "[fetch]\nca = 'cert.pem'\n");
    std::fs::write(&config, text).unwrap();
    let trusted = reqwest::Certificate::from_pem(pem.as_bytes()).unwrap();
    let node = TestNode::start_in(dir, reqwest::Client::builder().tls_certs_only([trusted])).await;
    assert!(node.base.starts_with("https://127.0.0.1:"), "{}", node.base);
    let file = reqwest::multipart::Part::text("one").file_name("a.txt");
    let form = reqwest::multipart::Form::new()
        .part("file", file)
        .text("profile", "test_content")
        .text("submitter", "ann");
    let answer = node.request(Method::POST, "/api/v1/batches").multipart(form).send().await.unwrap();
    let bid = Answer::of(answer).await.is(201).json["bid"].as_str().unwrap().to_owned();
    let batch = node.batch_is(&bid, "completed").await;
    assert_eq!(batch["jobs"]["completed"], 1, "{batch}");
    assert_eq!(node.get("/healthz").await.header("strict-transport-security"), "max-age=31536000");
    let plain = reqwest::get(node.base.replace("https", "http") + "/healthz").await;
    assert!(plain.is_err(), "{plain:?}");
}
