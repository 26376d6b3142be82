//! Very many jobs: the pages answer, lists come in pages, and what moves is seen to move.
//!
//! `INGESTD_DASHBOARD_JOBS=100000` is the full count.

use std::path::Path;
use std::sync::Arc;

use ingest_queue::batches::Expanded;
use ingest_queue::date::Clock;
use ingest_queue::map::{AccessSize, HeldQueue};
use ingest_queue::nodes::{AccessToken, Configuration, Submission};
use ingest_queue::plan::job::NewJob;
use ingest_queue::queue::{Queue, Settings};
use ingest_store::engines::embedded::{Embedded, EmbeddedConfig};
use ingest_store::{Limits, Store};
use reqwest::Method;
use serde_json::json;

use super::browser::Browser;
use super::kit::TestNode;

const JOBS: u64 = 20_000;
/// Objects that somebody wants to have: a page of them, and some.
const ITEMS: usize = 57;
/// Jobs of one call: the queue makes multis of them.
const AT_ONCE: u64 = 5_000;

fn jobs() -> u64 {
    std::env::var("INGESTD_DASHBOARD_JOBS").map_or(JOBS, |text| text.parse().unwrap())
}

/// A batch of so many jobs, all of which wait because their queue is held.
async fn fill(dir: &Path, jobs: u64) {
    let embedded = Embedded::open(&EmbeddedConfig::new(dir.join("tree"))).unwrap();
    let session = Store::new(Arc::new(embedded.clone()), Limits::default()).session().await.unwrap();
    let queue = Queue::open(&session, Settings::new("filler"), Clock::system()).await.unwrap();
    queue.hold_queue(HeldQueue::Ingest, "ann", "far too many").await.unwrap();
    queue.hold_queue(HeldQueue::AccessSmall, "ann", "more than a page").await.unwrap();
    for _ in 0..ITEMS {
        queue.create_access(AccessSize::Small, &AccessToken::default()).await.unwrap();
    }
    let submission = Submission {
        profile_name: "test_content".into(),
        collection: Some("tests".into()),
        submitter: "ann".into(),
        payload_type: Some("single_file_batch_manifest".into()),
        ..Submission::default()
    };
    let created = queue.create_batch("very-many", &submission).await.unwrap();
    let mut lease = queue.acquire_batch(created.bid, "filler").await.unwrap();
    let mut next = queue.begin_expansion(&mut lease, b"#%checkm_0.7\n", jobs).await.unwrap();
    while next < jobs {
        let until = (next + AT_ONCE).min(jobs);
        let rows: Vec<NewJob> = (next..until).map(job).collect();
        let expanded = queue.expand(&mut lease, next, &rows).await.unwrap();
        assert_eq!(expanded, Expanded::To(until));
        next = until;
    }
    queue.release_batch(&mut lease).await.unwrap();
    session.close().await.unwrap();
    embedded.close().await;
}

fn job(row: u64) -> NewJob {
    let configuration = Configuration {
        profile_name: "test_content".into(),
        collection: Some("tests".into()),
        submitter: "ann".into(),
        payload_url: format!("http://127.0.0.1:9/{row:06}.tif"),
        payload_type: "file".into(),
        response_type: "json".into(),
        submission_mode: "add".into(),
        ..Configuration::default()
    };
    NewJob { configuration, ..NewJob::default() }
}

/// As the pages write numbers.
fn shown(number: u64) -> String {
    format!("{},{:03}", number / 1_000, number % 1_000)
}

async fn counts(browser: &Browser, state: &str, count: &str) {
    let script =
        format!("return document.querySelector('[data-state={state}] strong').textContent === '{count}'");
    browser.until(&format!("{count} jobs that are {state}"), &script).await;
}

pub(crate) async fn the_dashboard_stays_live_with_very_many_jobs() {
    let all = jobs();
    let node = TestNode::start_prepared("", async |dir| fill(dir, all).await).await;
    let browser = Browser::start(&node.base).await;
    browser.open("").await;
    counts(&browser, "pending", &shown(all)).await;
    counts(&browser, "held", "0").await;
    // Somebody else moves one, and whoever looks sees it without doing anything.
    let newest = node.get("jobs?limit=1&order=newest").await;
    let jid = newest["jobs"][0]["jid"].as_str().unwrap().to_owned();
    node.send(Method::POST, &format!("jobs/{jid}/hold"), json!({"reason": "one of many"})).await;
    counts(&browser, "pending", &shown(all - 1)).await;
    counts(&browser, "held", "1").await;

    for page in ["batches", "failed", "holds", "access", "nodes", "tree", "restarts", "audit"] {
        browser.open(page).await;
    }
    let rows = "return document.querySelectorAll('tbody tr').length";
    browser.open("access").await;
    assert_eq!(browser.look(rows).await, 50);
    browser.page_shows("7 more to look at").await;
    browser.click("Next page").await;
    browser.quiet().await;
    assert_eq!(browser.look(rows).await, ITEMS - 50);
    browser.click("First page").await;
    browser.quiet().await;
    assert_eq!(browser.look(rows).await, 50);
    browser.open("jobs").await;
    assert_eq!(browser.look(rows).await, 50);
    let first = "return document.querySelector('tbody a.id').textContent";
    assert_eq!(browser.look(first).await, jid, "the newest comes first");
    browser.click("Next page").await;
    browser.quiet().await;
    assert_eq!(browser.look(rows).await, 50);
    assert_ne!(browser.look(first).await, jid);
    browser.page_shows(&format!("{} more to look at", shown(all - 100))).await;
    browser.open(&format!("batch/{}", newest["jobs"][0]["bid"].as_str().unwrap())).await;
    browser.page_shows(&shown(all)).await;

    // By a click, and the list that is looked at follows.
    browser.open("jobs?state=held").await;
    assert_eq!(browser.look(rows).await, 1);
    browser.click(&jid).await;
    browser.quiet().await;
    browser.click("Release…").await;
    browser.click("Release").await;
    node.job_is(&jid, "pending").await;
    browser.click("Pipeline").await;
    counts(&browser, "pending", &shown(all)).await;
    browser.complains_of_nothing().await;
}
