//! Files by signed URLs, and uploads that nobody needs any more.

use std::time::Duration;

use ingest_harness::eventually;
use ingest_steps::urls::Urls;
use reqwest::Method;
use reqwest::multipart::{Form, Part};

use super::kit::{Answer, TestNode};

/// As the node signs them.
fn urls(node: &TestNode, last: u64) -> Urls {
    let key = std::fs::read(node.dir.path().join("node/url-key")).unwrap();
    Urls::new(node.base.parse().unwrap(), key.try_into().unwrap(), Duration::from_secs(last))
}

fn path(node: &TestNode, urls: &Urls, of: &str) -> String {
    urls.sign(of).unwrap().as_str().strip_prefix(&node.base).unwrap().to_owned()
}

#[tokio::test]
async fn a_working_file_is_served_to_whoever_has_its_url_and_for_its_time() {
    let node = TestNode::start().await;
    let dir = node.dir.path().join("work/bid0000000001/a b");
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("ü.html"), "<script>alert(1)</script>").unwrap();
    let file = "work/bid0000000001/a b/ü.html";
    let good = path(&node, &urls(&node, 60), file);
    let answer = node.get(&good).await.is(200);
    assert_eq!(answer.text(), "<script>alert(1)</script>");
    assert_eq!(answer.header("content-type"), "application/octet-stream");
    assert!(answer.header("content-disposition").starts_with("attachment"), "{:?}", answer.headers);
    assert_eq!(answer.header("content-security-policy"), "default-src 'none'; sandbox");
    let part = node.request(Method::GET, &good).header("range", "bytes=-9").send().await.unwrap();
    assert_eq!(Answer::of(part).await.is(206).text(), "</script>");
    node.get(&path(&node, &urls(&node, 0), file)).await.problem(410, "expired", "");
    node.get(&good.replace("bid0000000001", "bid0000000002")).await.problem(404, "not-found", "");
    for other in [
        "work/nothing",
        "work/../node/url-key",
        "work//etc/passwd",
        "work",
        "else/x",
        "uploads/../x",
        "work/bid0000000001",
    ] {
        node.get(&path(&node, &urls(&node, 60), other)).await.problem(404, "not-found", "");
    }
}

#[tokio::test]
async fn an_upload_goes_with_its_batch() {
    let node = TestNode::start_with("", "[upkeep]\nevery = '300ms'\n").await;
    let form = Form::new()
        .part("file", Part::text("no zip at all").file_name("a.zip"))
        .text("profile", "test_content")
        .text("submitter", "ann")
        .text("type", "container");
    let answer = node.request(Method::POST, "/api/v1/batches").multipart(form).send().await.unwrap();
    let bid = Answer::of(answer).await.is(201).json["bid"].as_str().unwrap().to_owned();
    node.batch_is(&bid, "failed").await;
    let uploads = node.dir.path().join("uploads");
    assert_eq!(std::fs::read_dir(&uploads).unwrap().count(), 1, "it can be requeued");
    node.delete(&format!("/api/v1/batches/{bid}?confirm=true")).await.is(200);
    eventually("the end of the upload", Duration::from_mins(1), || {
        let left = std::fs::read_dir(&uploads).unwrap().count();
        std::future::ready((left == 0).then_some(()))
    })
    .await;
}
