//! Files by signed URLs, and uploads that nobody needs any more.

use std::sync::Arc;
use std::time::Duration;

use ingest_harness::eventually;
use ingest_queue::date::Clock;
use ingest_queue::map::JobNode;
use ingest_queue::nodes::Inventory;
use ingest_queue::queue::{Queue, Settings};
use ingest_steps::manifest;
use ingest_steps::urls::Urls;
use ingest_store::engines::zookeeper::{Zookeeper, ZookeeperConfig};
use ingest_store::{Limits, Store};
use reqwest::Method;
use reqwest::multipart::{Form, Part};
use url::Url;

use super::kit::{Answer, TestNode, on_a_server, sha256};

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
    // Without the file that says to which repository they belong.
    let count = || {
        let names = std::fs::read_dir(&uploads).unwrap().map(|entry| entry.unwrap().file_name());
        names.filter(|name| !name.to_string_lossy().starts_with('.')).count()
    };
    assert_eq!(count(), 1, "it can be requeued");
    node.delete(&format!("/api/v1/batches/{bid}?confirm=true")).await.is(200);
    eventually("the end of the upload", Duration::from_mins(1), || {
        std::future::ready((count() == 0).then_some(()))
    })
    .await;
}

#[tokio::test]
async fn a_storage_manifest_and_what_it_names_are_fetched_by_their_urls_and_by_no_others() {
    let connect = ingest_harness::shared_connect_string_with_chroot().await;
    // Nobody records it here: its files stay, as for an inventory service elsewhere.
    let dir = on_a_server(&connect, "", "[pools.recording]\nsize = 0\n");
    let node = TestNode::start_in(dir, reqwest::Client::builder()).await;
    let bid = node.submit("a.txt", "one of them").await;
    let jid = node.job_is(&bid, "recording").await;
    // What the API shows opens no doors: another service reads the tree.
    let shown = node.get(&format!("/api/v1/jobs/{jid}")).await.is(200).text();
    assert!(shown.contains("signature=***"), "{shown}");
    let engine = Arc::new(Zookeeper::new(ZookeeperConfig::new(connect.as_str())).unwrap());
    let session = Store::new(engine, Limits::default()).session().await.unwrap();
    let queue = Queue::open(&session, Settings::new("test"), Clock::system()).await.unwrap();
    let said: Inventory = queue.node(jid.parse().unwrap(), JobNode::Inventory).await.unwrap().unwrap();
    let at = |url: &str| url.strip_prefix(&node.base).unwrap_or_else(|| panic!("{url}")).to_owned();
    let good = at(&said.manifest_url);
    let text = node.get(&good).await.is(200).text();
    let rows = manifest::Reader::open(text.as_bytes(), manifest::Limits::default()).unwrap();
    let rows: Vec<_> = rows.map(Result::unwrap).collect();
    assert!(rows.iter().any(|row| row.name.ends_with("a.txt")), "{rows:?}");
    for row in &rows {
        let file = node.get(&at(&row.url)).await.is(200);
        assert_eq!(Some(file.bytes.len() as u64), row.size, "{row:?}");
        let digest = row.digest.as_ref().unwrap();
        assert_eq!(digest.hex(), sha256(&file.text()), "{row:?}");
    }

    // The same by the node's key, for no time at all; with another signature, date or path it is as unknown as any other.
    let url = Url::parse(&said.manifest_url).unwrap();
    let plain = percent_encoding::percent_decode_str(url.path()).decode_utf8().unwrap();
    let of = plain.strip_prefix("/files/").unwrap();
    node.get(&path(&node, &urls(&node, 60), of)).await.is(200);
    node.get(&path(&node, &urls(&node, 0), of)).await.problem(410, "expired", "");
    let (head, signature) = good.rsplit_once("signature=").unwrap();
    let first = if signature.starts_with('0') { "1" } else { "0" };
    for wrong in [
        format!("{head}signature={first}{}", &signature[1..]),
        format!("{head}signature="),
        good.replace("expires=", "expires=9"),
        good.replace("mrt-storage-manifest", "mrt-ingest"),
        good.split('?').next().unwrap().to_owned(),
    ] {
        let refused = node.get(&wrong).await.problem(404, "not-found", "");
        assert!(!refused.text().contains("one of them"), "{wrong}");
    }
}
