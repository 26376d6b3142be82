//! Stored objects, asked for and fetched.

use std::time::Duration;

use ingest_harness::eventually;
use reqwest::Method;
use serde_json::{Value, json};

use super::kit::{Answer, TestNode, configure};

const PATIENCE: Duration = Duration::from_mins(1);
const ACCESS: &str = "[access]\ndir = 'access'\n";

/// A node with a stored object, and its ARK.
async fn with_object() -> (TestNode, String) {
    let node = TestNode::start_with("", ACCESS).await;
    let bid = node.submit("a.txt", "what was deposited").await;
    node.batch_is(&bid, "completed").await;
    let jid = node.job_is(&bid, "completed").await;
    let job = node.get(&format!("/api/v1/jobs/{jid}")).await.json;
    let ark = job["identifiers"]["primary_id"].as_str().unwrap().to_owned();
    (node, ark)
}

async fn fetched(node: &TestNode, url: &str) -> Answer {
    eventually("the object", PATIENCE, || async {
        let answer = node.get(url).await;
        (answer.status != 202).then_some(answer)
    })
    .await
}

#[tokio::test]
async fn an_object_is_asked_for_waited_for_and_fetched_until_its_time_is_over() {
    let (node, ark) = with_object().await;
    node.send(Method::PUT, "/api/v1/holds/queues/accessSmall", &json!({})).await.is(200);
    let asked = node.post("/api/v1/access", json!({"ark": ark})).await.is(202);
    let url = asked.json["url"].as_str().unwrap().to_owned();
    assert_eq!((asked.header("location"), &asked.json["size"]), (url.as_str(), &"small".into()));
    assert!(
        asked.json["anticipated-availability-time"].is_string() && asked.json["bytes"].as_u64() > Some(18)
    );
    let pending = node.get(&url).await.is(202);
    assert!(pending.header("retry-after").parse::<u64>().unwrap() >= 1);
    assert!(pending.json["anticipated-availability-time"].is_string(), "{}", pending.text());
    node.delete("/api/v1/holds/queues/accessSmall").await.is(200);

    let zip = fetched(&node, &url).await.is(200);
    assert_eq!(zip.header("content-type"), "application/zip");
    assert!(
        zip.header("content-disposition").starts_with("attachment; filename=\"ark_99999_"),
        "{:?}",
        zip.headers
    );
    assert!(zip.bytes.starts_with(b"PK"));
    assert!(zip.text().contains("what was deposited"), "members are stored as they are");
    let part = node.request(Method::GET, &url).header("range", "bytes=1-3").send().await.unwrap();
    let part = Answer::of(part).await.is(206);
    assert_eq!(
        (part.bytes.as_slice(), part.header("content-range")),
        (&zip.bytes[1..4], format!("bytes 1-3/{}", zip.bytes.len()).as_str())
    );
    let none = node.request(Method::GET, &url).header("range", "bytes=999999-").send().await.unwrap();
    Answer::of(none).await.problem(416, "range", "");
    let head = node.request(Method::HEAD, &url).send().await.unwrap();
    assert_eq!(
        (head.status().as_u16(), head.headers()["content-length"].to_str().unwrap()),
        (200, zip.bytes.len().to_string().as_str())
    );

    let items = node.get("/api/v1/access").await.is(200);
    let line = &items.json["items"][0];
    assert_eq!(
        (&line["state"], &line["ark"], &line["form"]),
        (&"completed".into(), &ark.as_str().into(), &"zip".into())
    );
    assert!(!items.text().contains(url.rsplit('-').next().unwrap()), "the secret is in no list");
    assert_eq!(node.get("/api/v1/access?size=large").await.is(200).json["items"], json!([]));
    assert_eq!(node.get("/api/v1/access?state=failed").await.is(200).json["items"], json!([]));
    node.get("/api/v1/access?size=huge").await.problem(400, "invalid", "small or large");

    // Its time is over as soon as the configuration says so.
    configure(node.dir.path(), "", &format!("{ACCESS}keep = '1ms'\n"));
    let over = eventually("the end of its time", PATIENCE, || async {
        let answer = node.get(&url).await;
        (answer.status != 200).then_some(answer)
    })
    .await;
    over.problem(410, "expired", "ask for it again");
}

#[tokio::test]
async fn what_is_not_there_is_not_found_and_what_failed_is_tried_again() {
    let (node, ark) = with_object().await;
    let ask = async |body: Value| node.post("/api/v1/access", body).await;
    ask(json!({"ark": "ark:/99999/fk4nothing"})).await.problem(404, "not-found", "");
    ask(json!({"ark": ark, "version": 7})).await.problem(404, "not-found", "no version 7");
    assert_eq!(ask(json!({"ark": "doi:10.1/x"})).await.problem(400, "invalid", "").fields(), ["ark"]);
    assert_eq!(
        ask(json!({"ark": ark, "form": "tar"})).await.problem(400, "invalid", "zip and bag").fields(),
        ["form"]
    );
    ask(json!({})).await.problem(422, "unprocessable", "missing field `ark`");
    node.get("/api/v1/access/small-qid0000000000-guess").await.problem(404, "not-found", "");
    node.get("/api/v1/access/nonsense").await.problem(404, "not-found", "");

    // Damage what is stored: it cannot be put together.
    node.send(Method::PUT, "/api/v1/holds/queues/accessSmall", &json!({})).await.is(200);
    let asked = ask(json!({"ark": ark, "form": "bag"})).await.is(202).json;
    let file = stored(node.dir.path());
    let content = std::fs::read(&file).unwrap();
    std::fs::write(&file, "what was damaged..").unwrap();
    node.delete("/api/v1/holds/queues/accessSmall").await.is(200);
    let url = asked["url"].as_str().unwrap();
    fetched(&node, url).await.problem(424, "access-failed", "damaged");
    let item = format!("/api/v1/access/items/small/{}", asked["aid"].as_str().unwrap());
    node.delete(&item).await.problem(409, "needs-confirmation", "");
    node.delete(&format!("{item}?force=true")).await.problem(400, "invalid", "force");
    node.delete(&format!("{item}?reason={}", "x".repeat(1001))).await.problem(400, "invalid", "1000");
    std::fs::write(&file, content).unwrap();
    assert_eq!(node.post(&format!("{item}/requeue"), json!({})).await.is(200).json["state"], "processing");
    fetched(&node, url).await.is(200);
    node.post(&format!("{item}/requeue"), json!({})).await.problem(409, "refused", "");
    node.delete(&format!("{item}?confirm=true")).await.problem(409, "refused", "");
    node.delete("/api/v1/access/items/small/qid0000000099?confirm=true").await.problem(404, "not-found", "");
    node.delete("/api/v1/access/items/huge/qid0000000099?confirm=true").await.problem(404, "not-found", "");
}

/// The file that was deposited, where it is kept.
fn stored(dir: &std::path::Path) -> std::path::PathBuf {
    let mut dirs = vec![dir.join("storage")];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                dirs.push(path);
            } else if std::fs::read(&path).unwrap() == b"what was deposited" {
                return path;
            }
        }
    }
    panic!("nothing is stored");
}
