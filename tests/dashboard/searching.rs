//! Jobs and batches that are looked for, and what is done to those that were found.

use reqwest::Method;
use serde_json::{Value, json};

use super::browser::{Browser, ENTER};
use super::kit::TestNode;

/// The ids in the list, in its order.
const FOUND: &str = "return [...document.querySelectorAll('tbody a.id[href^=\"#/job/\"]')].map(({textContent}) => textContent).join()";

async fn finds(browser: &Browser, jids: &[&str]) {
    let script = format!("{FOUND} === '{}'", jids.join(","));
    browser.quiet().await;
    browser.until(&format!("a list of {jids:?}"), &script).await;
}

/// How many come in a minute is counted from the moment that the page is opened.
pub(crate) async fn what_comes_in_a_minute_is_shown(node: &TestNode, browser: &Browser) {
    browser.open("").await;
    browser.reload().await;
    let rate = |is: &str| {
        format!("return document.querySelector('[data-state=completed] .rate')?.textContent === '{is}'")
    };
    browser.until("no rate", &rate("")).await;
    browser.until("a live stream", "return document.querySelector('.chip').textContent === 'running'").await;
    let bid = node.submit(node.files.put("/fast.txt", "one a minute").as_str(), json!({})).await;
    browser.until("one in a minute", &rate("1/min")).await;
    browser.css("[data-state=completed].moving .spark .some").await;
    node.batch_is(&bid, "completed").await;
}

pub(crate) async fn jobs_are_searched_and_acted_upon_together(node: &TestNode, browser: &Browser) {
    node.send(Method::PUT, "holds/queues/ingest", json!({"reason": "to be searched"})).await;
    let mut jids = Vec::new();
    for name in ["sought-1", "sought-2", "other"] {
        let url = node.files.put(&format!("/{name}.txt"), name);
        let bid = node.submit(url.as_str(), json!({})).await;
        jids.push(node.job_of(&bid).await);
    }
    let [first, second, other] = jids.as_slice() else { unreachable!() };
    node.send(Method::PUT, &format!("jobs/{first}/priority"), json!({"priority": "now"})).await;

    browser.open("jobs").await;
    browser.fill("Text", "sought-").await;
    browser.press([ENTER]).await;
    browser.until("the search in the address", "return location.hash === '#/jobs?text=sought-'").await;
    finds(browser, &[second, first]).await;
    // The names of classes are priorities, as everywhere.
    browser.click("More").await;
    browser.fill("Priority from", "important").await;
    browser.click("Search").await;
    finds(browser, &[]).await;
    browser.fill("Priority from", "").await;
    browser.fill("Priority to", "now").await;
    browser.click("Search").await;
    finds(browser, &[first]).await;
    browser.click("Act on all that match…").await;
    browser.choose("What", "Hold them").await;
    browser.fill("Reason", "found").await;
    browser.click("Show what it would do").await;
    browser.shows("1 job would be changed.").await;
    assert_eq!(
        node.get(&format!("jobs/{first}")).await["state"],
        "pending",
        "nothing is done before it is confirmed"
    );
    browser.click("Hold 1 job").await;
    browser.dialog_shows("1 job of 1 changed.").await;
    browser.close_dialog().await;
    node.job_is(first, "held").await;
    assert_eq!(node.get(&format!("jobs/{second}")).await["state"], "pending");

    browser.click("Clear").await;
    browser.choose("State", "held").await;
    browser.click("Search").await;
    finds(browser, &[first]).await;
    browser.click("Act on all that match…").await;
    browser.click("Show what it would do").await;
    browser.click("Release 1 job").await;
    browser.dialog_shows("1 job of 1 changed.").await;
    browser.close_dialog().await;
    node.job_is(first, "pending").await;
    finds(browser, &[]).await;
    node.send(Method::DELETE, "holds/queues/ingest", json!({})).await;
    for jid in [first, second, other] {
        node.job_is(jid, "completed").await;
    }
}

/// A node that is paused takes no batch: it waits, and can be held. A submission with its key becomes part of it.
pub(crate) async fn a_batch_is_held_and_released(node: &TestNode, browser: &Browser) {
    node.send(Method::POST, "node/pause", json!({})).await;
    let url = node.files.put("/patient.txt", "it waits");
    let bid = node.submit(url.as_str(), json!({"key": "the-same"})).await;
    browser.open("submit").await;
    browser.click_css("[name=source][value=url]").await;
    browser.fill("URL", url.as_str()).await;
    browser.choose("It is", "a single file").await;
    browser.fill("Submitter", "ann").await;
    browser.click("Describe it").await;
    browser.fill("Key", "the-same").await;
    browser.click_css("form.submit [type=submit]").await;
    browser.shows(&format!("{bid} waited under the same key, and is submitted anew.")).await;
    browser.quiet().await;

    browser.enter("Hold…").await;
    browser.css("dialog[open]").await;
    browser.press("not today".chars()).await;
    browser.press([ENTER]).await;
    let batch = node.batch_is(&bid, "held").await;
    assert!(batch["message"].as_str().unwrap().contains("not today"), "{batch}");
    browser.until("a held batch", "return document.querySelector('.headline .is-held') !== null").await;
    browser.enter("Release…").await;
    browser.css("dialog[open]").await;
    browser.press([ENTER]).await;
    node.batch_is(&bid, "pending").await;
    browser
        .until("a batch that waits", "return document.querySelector('.headline .is-waiting') !== null")
        .await;
    node.send(Method::POST, "node/resume", json!({})).await;
    node.batch_is(&bid, "completed").await;
}

/// Answers a batch whose only job has failed because its file was not there; now it is.
async fn failed(node: &TestNode, name: &str) -> (String, String) {
    let bid = node.submit(node.files.url(name).as_str(), json!({})).await;
    node.batch_is(&bid, "failed").await;
    node.files.put(name, "here now");
    let jid = node.job_of(&bid).await;
    (bid, jid)
}

fn was_tried_again(job: &Value) {
    assert_eq!(job["status"]["retry_count"], 1, "{job}");
}

pub(crate) async fn what_failed_of_a_batch_is_requeued(node: &TestNode, browser: &Browser) {
    let (bid, jid) = failed(node, "/late-1.txt").await;
    browser.open(&format!("batch/{bid}")).await;
    browser.click("Requeue failed…").await;
    browser.click("Show what it would do").await;
    browser.shows("1 job would be changed.").await;
    assert_eq!(
        node.get(&format!("jobs/{jid}")).await["state"],
        "failed",
        "nothing is done before it is confirmed"
    );
    browser.click("Requeue 1 job").await;
    browser.dialog_shows("1 job of 1 changed.").await;
    browser.close_dialog().await;
    was_tried_again(&node.job_is(&jid, "completed").await);
    browser.until("a completed job", "return document.querySelector('tbody .is-completed') !== null").await;
}

pub(crate) async fn a_failed_job_is_requeued_by_keys(node: &TestNode, browser: &Browser) {
    let (_, jid) = failed(node, "/late-2.txt").await;
    browser.open(&format!("job/{jid}")).await;
    browser.enter("Requeue…").await;
    browser.css("dialog[open]").await;
    browser.press("downloading".chars()).await;
    browser.reach("reason").await;
    browser.press("it is there now".chars()).await;
    browser.press([ENTER]).await;
    let job = node.job_is(&jid, "completed").await;
    was_tried_again(&job);
    let history = node.get(&format!("jobs/{jid}/history")).await;
    let entries = history["history"].as_array().unwrap();
    let again = entries.iter().find(|entry| entry["from"] == "failed").unwrap_or_else(|| panic!("{history}"));
    assert_eq!(again["to"], "downloading", "{history}");
    browser
        .until("a completed job", "return document.querySelector('.headline .is-completed') !== null")
        .await;
}
