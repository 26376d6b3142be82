//! What people do, by clicks and keys; and what the node says came of it.

use ingest_harness::eventually;
use reqwest::Method;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::net::TcpListener;

use super::browser::{Browser, ENTER, ESCAPE};
use super::kit::TestNode;

/// Answers the batch.
pub(crate) async fn a_file_is_submitted_and_watched_until_it_is_completed(
    node: &TestNode,
    browser: &Browser,
) -> String {
    let file = node.dir.path().join("map.txt");
    std::fs::write(&file, "a map").unwrap();
    browser.open("").await;
    browser.click("Submit").await;
    browser.quiet().await;
    let upload = browser.labelled("File").await;
    browser.send(&upload, file.to_str().unwrap()).await;
    browser.fill("Submitter", "ann").await;
    browser.click("Describe it").await;
    browser.fill("Title", "A map of the island").await;
    browser.click_css("form.submit [type=submit]").await;
    // It leads to the batch, and nobody reloads anything from here on.
    browser.until("the batch's page", "return location.hash.startsWith('#/batch/bid')").await;
    let address = browser.look("return location.hash").await;
    let bid = address.as_str().unwrap().trim_start_matches("#/batch/").to_owned();
    browser
        .until("a completed batch", "return document.querySelector('.headline .is-completed') !== null")
        .await;
    browser.page_shows("1 of 1").await;
    browser.page_shows("Report 1").await;
    browser.until("a completed job", "return document.querySelector('tbody .is-completed') !== null").await;
    let batch = node.batch_is(&bid, "completed").await;
    assert_eq!((&batch["submitter"], &batch["report"]["completed"]), (&json!("ann"), &json!(1)), "{batch}");
    let job = node.get(&format!("jobs/{}", node.job_of(&bid).await)).await;
    assert_eq!(job["metadata"]["erc_what"], "A map of the island", "{job}");
    browser.click("Pipeline").await;
    let count = "return document.querySelector('[data-state=completed] strong').textContent === '1'";
    browser.until("the job among the completed", count).await;
    bid
}

pub(crate) async fn a_queue_and_a_job_are_held_and_released(node: &TestNode, browser: &Browser) {
    browser.open("holds").await;
    browser.click("Hold Ingest").await;
    browser.fill("Reason", "a look first").await;
    browser.click("Hold").await;
    browser.page_shows("a look first").await;
    let holds = node.get("holds").await;
    assert_eq!(
        (&holds["queues"][0]["name"], &holds["queues"][0]["why"]),
        (&json!("ingest"), &json!("a look first"))
    );

    let url = node.files.put("/late.txt", "it can wait");
    let bid = node.submit(url.as_str(), json!({})).await;
    let jid = node.job_of(&bid).await;
    browser.open(&format!("job/{jid}")).await;
    // By keys alone: the dialog opens with the focus in it, and Enter confirms.
    browser.until("a button that holds", "return [...document.querySelectorAll('.actions button')].some(({textContent}) => textContent === 'Hold…')").await;
    browser.enter("Hold…").await;
    browser.css("dialog[open]").await;
    browser.press("rights are unclear".chars()).await;
    browser.press([ENTER]).await;
    let job = node.job_is(&jid, "held").await;
    assert!(job["status"]["message"].as_str().unwrap().contains("rights are unclear"), "{job}");
    browser.until("a held job", "return document.querySelector('.headline .is-held') !== null").await;
    browser
        .until("a history with the hold", "return document.querySelector('.history .is-held') !== null")
        .await;

    browser.enter("Release…").await;
    browser.css("dialog[open]").await;
    browser.press([ENTER]).await;
    node.job_is(&jid, "pending").await;
    browser.until("a released job", "return document.querySelector('.headline .is-held') === null").await;
    browser.click("Priority…").await;
    browser.fill("Priority", "7").await;
    browser.click("Set the priority").await;
    node.says(&format!("jobs/{jid}"), "another priority", |job| job["priority"] == 7).await;
    // A class is a priority, too.
    browser.click("Priority…").await;
    browser.fill("Priority", "important").await;
    browser.click("Set the priority").await;
    browser.shows(&format!("{jid} has priority 10 now.")).await;
    node.says(&format!("jobs/{jid}"), "the priority of the class", |job| job["priority"] == 10).await;

    browser.open("holds").await;
    browser.click("Lift the hold of Ingest").await;
    browser.click("Lift").await;
    node.says("holds", "no hold", |holds| holds["queues"] == json!([])).await;
    node.batch_is(&bid, "completed").await;
}

pub(crate) async fn a_collection_is_held_and_lifted(node: &TestNode, browser: &Browser) {
    browser.open("holds").await;
    browser.click("Hold a collection…").await;
    browser.fill("Collection", "tests").await;
    browser.fill("Reason", "the curator is away").await;
    browser.click("Hold").await;
    browser.page_shows("the curator is away").await;
    let url = node.files.put("/curated.txt", "for the curator");
    let bid = node.submit(url.as_str(), json!({})).await;
    node.batch_is(&bid, "held").await;
    // Somebody else holds another, and it appears.
    node.send(Method::PUT, "holds/collections/others", json!({"reason": "from elsewhere"})).await;
    browser.page_shows("from elsewhere").await;
    // Without what it has stopped: the page says what stays behind, and how that is released.
    browser.click("Lift the hold of tests").await;
    browser.click_css("dialog [name=all]").await;
    browser.click("Lift").await;
    browser.shows("1 batch and 0 jobs of tests stay held").await;
    browser.shows("ingestd release collection tests --all").await;
    node.batch_is(&bid, "held").await;
    node.send(Method::PUT, "holds/collections/tests", json!({"reason": "once more"})).await;
    browser.page_shows("once more").await;
    browser.click("Lift the hold of tests").await;
    browser.click("Lift").await;
    browser.shows("1 batch and 0 jobs were released").await;
    node.batch_is(&bid, "completed").await;
    browser.click("Lift the hold of others").await;
    browser.click("Lift").await;
    browser.page_shows("No collection is held.").await;
}

pub(crate) async fn one_group_of_failures_is_requeued_and_no_other_is(node: &TestNode, browser: &Browser) {
    let urls = [
        node.files.url("/not-there-1.txt"),
        node.files.url("/not-there-2.txt"),
        node.files.forbid("/closed-1.txt"),
    ];
    let mut batches = Vec::new();
    for url in &urls {
        batches.push(node.submit(url.as_str(), json!({})).await);
    }
    for bid in &batches {
        node.batch_is(bid, "failed").await;
    }
    browser.open("failed").await;
    browser.page_shows("3 jobs failed, for 2 reasons.").await;
    browser.click_css("[aria-label$='the server answers 403 Forbidden']").await;
    browser.css("dialog[open]").await;
    browser.click("Show what it would do").await;
    browser.shows("1 job would be changed.").await;
    // One more fails with the same reason before it is done: then nothing is.
    let url = node.files.forbid("/closed-2.txt");
    batches.push(node.submit(url.as_str(), json!({})).await);
    node.batch_is(&batches[3], "failed").await;
    browser.click("Requeue 1 job").await;
    browser.dialog_shows("2 match now, and 1 were expected").await;
    assert_eq!(retries(node, &batches).await, [0, 0, 0, 0]);
    node.files.put("/closed-1.txt", "open now");
    node.files.put("/closed-2.txt", "open now");
    browser.click("Back").await;
    browser.click("Show what it would do").await;
    browser.shows("2 jobs would be changed.").await;
    browser.click("Requeue 2 jobs").await;
    browser.shows("2 jobs of 2 changed.").await;
    browser.click("Close").await;
    for bid in &batches[2..] {
        node.job_is(&node.job_of(bid).await, "completed").await;
    }
    assert_eq!(retries(node, &batches).await, [0, 0, 1, 1]);
    browser.page_shows("2 jobs failed, for 1 reason.").await;
    browser.click("Show them").await;
    browser.page_shows("404 Not Found").await;
    assert_eq!(browser.look("return document.querySelectorAll('tbody tr').length").await, 2);
    for (at, bid) in batches[..2].iter().enumerate() {
        node.files.put(&format!("/not-there-{}.txt", at + 1), "here now");
        let jid = node.job_of(bid).await;
        node.send(Method::POST, &format!("jobs/{jid}/requeue"), json!({})).await;
        node.job_is(&jid, "completed").await;
    }
}

/// How often the job of each of these batches was requeued.
async fn retries(node: &TestNode, batches: &[String]) -> Vec<u64> {
    let mut retries = Vec::new();
    for bid in batches {
        let job = node.get(&format!("jobs/{}", node.job_of(bid).await)).await;
        retries.push(job["status"]["retry_count"].as_u64().unwrap());
    }
    retries
}

fn focused(text: &str) -> String {
    format!("return document.activeElement?.textContent === '{text}'")
}

pub(crate) async fn failed_jobs_are_requeued_together(node: &TestNode, browser: &Browser) {
    let mut batches = Vec::new();
    for number in 0..3 {
        batches
            .push(node.submit(node.files.url(&format!("/missing-{number}.txt")).as_str(), json!({})).await);
    }
    for bid in &batches {
        node.batch_is(bid, "failed").await;
    }
    browser.open("").await;
    browser
        .until(
            "three failed jobs in the menu",
            "return document.querySelector('.menu a[href=\"#/failed\"] .count').textContent === '3'",
        )
        .await;
    browser.click_css("[data-state=failed] a").await;
    browser.page_shows("3 jobs failed, for 1 reason.").await;
    for number in 0..3 {
        node.files.put(&format!("/missing-{number}.txt"), "here now");
    }
    // By keys alone: the dialog shows what it would do, then does it, then ends, with Enter each time.
    browser.enter("Requeue…").await;
    browser.css("dialog[open]").await;
    browser.reach("reason").await;
    browser.press("the source was repaired".chars()).await;
    browser.press([ENTER]).await;
    browser.shows("3 jobs would be changed.").await;
    let states = node.get("states/counts").await;
    assert_eq!(states["jobs"]["failed"], 3, "a dry run changes nothing: {states}");
    browser.until("the focus on what does it", &focused("Requeue 3 jobs")).await;
    browser.press([ENTER]).await;
    browser.shows("3 jobs of 3 changed.").await;
    browser.until("the focus on the end", &focused("Close")).await;
    browser.press([ENTER]).await;
    browser.until("no dialog", "return document.querySelector('dialog') === null").await;
    for bid in &batches {
        let jid = node.job_of(bid).await;
        let job = node.job_is(&jid, "completed").await;
        assert_eq!(job["status"]["retry_count"], 1, "{job}");
    }
    browser.page_shows("No job has failed.").await;

    browser.open(&format!("batch/{}", batches[0])).await;
    browser.click("Update report…").await;
    browser.click("Send the report").await;
    browser.page_shows("Report 2").await;
    let batch = node.batch_is(&batches[0], "completed").await;
    assert_eq!(batch["report"]["number"], 2, "{batch}");
}

pub(crate) async fn a_pool_is_resized_and_the_node_paused(node: &TestNode, browser: &Browser) {
    browser.open("nodes").await;
    // Which profiles of the tree it runs, and which settings: none.
    browser.page_shows("- · -").await;
    // Tab chooses what is in the field, and what is typed takes its place.
    browser.reach("Workers of downloading").await;
    browser.press(['3', ENTER]).await;
    browser.shows("downloading has 3 workers now").await;
    let is_resized = |pool: &serde_json::Value| pool["size"] == 3 && pool["live"] == 3;
    node.says("pools/downloading", "three workers", is_resized).await;
    browser.click("Pause").await;
    browser.shows("This node is paused").await;
    assert_eq!(node.get("node").await["mode"], "paused");
    browser.click_css(".banner button").await;
    node.says("node", "running", |node| node["mode"] == "running").await;
    browser.until("no banner", "return document.querySelector('.banner').hidden").await;
}

pub(crate) async fn an_object_is_asked_for(node: &TestNode, browser: &Browser, bid: &str) {
    let job = node.get(&format!("jobs/{}", node.job_of(bid).await)).await;
    let ark = job["identifiers"]["primary_id"].as_str().unwrap();
    browser.open("access").await;
    browser.click("Ask for an object…").await;
    browser.fill("ARK", ark).await;
    browser.click("Ask for it").await;
    browser.page_shows("Fetch it").await;
    let items = node.get("access").await;
    assert_eq!(
        (&items["items"][0]["ark"], &items["items"][0]["state"]),
        (&json!(ark), &json!("completed")),
        "{items}"
    );
}

/// The content of the only object that was stored when this is called, as it lies there.
fn stored(dir: &Path) -> PathBuf {
    let mut left = vec![dir.join("storage")];
    while let Some(next) = left.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                left.push(path);
            } else if std::fs::read(&path).unwrap() == b"a map" {
                return path;
            }
        }
    }
    panic!("nobody has stored the map");
}

pub(crate) async fn an_object_that_could_not_be_had_is_tried_again_or_given_up(
    node: &TestNode,
    browser: &Browser,
    bid: &str,
) {
    let file = stored(node.dir.path());
    let job = node.get(&format!("jobs/{}", node.job_of(bid).await)).await;
    let ask = json!({"ark": job["identifiers"]["primary_id"]});
    std::fs::write(&file, "a mop").unwrap();
    let mut asked = Vec::new();
    for _ in 0..2 {
        let answer = node.send(Method::POST, "access", ask.clone()).await;
        asked.push(answer["aid"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned());
    }
    let [again, given_up] = asked.as_slice() else { unreachable!() };
    browser.open("access").await;
    browser.css(&format!("[aria-label='Requeue {given_up}']")).await;
    std::fs::write(&file, "a map").unwrap();
    browser.click(&format!("Requeue {again}")).await;
    let is = |aid: &str, state: &str| {
        let (aid, state) = (aid.to_owned(), state.to_owned());
        move |list: &serde_json::Value| {
            let items = list["items"].as_array().unwrap();
            items.iter().any(|item| item["aid"] == *aid && item["state"] == *state)
        }
    };
    node.says("access", "it was put together", is(again, "completed")).await;
    browser.click(&format!("Delete {given_up}")).await;
    browser.shows("Whoever has asked for it will not get it.").await;
    assert!(is(given_up, "failed")(&node.get("access").await), "nothing is done before it is confirmed");
    browser.click("Delete").await;
    browser.shows(&format!("{given_up} was deleted.")).await;
    let is_failed = is(given_up, "failed");
    node.says("access", "it is gone", |list| !is_failed(list)).await;
}

pub(crate) async fn a_job_and_a_batch_are_deleted(node: &TestNode, browser: &Browser) {
    let mut failed = Vec::new();
    for name in ["/never-1.txt", "/never-2.txt"] {
        let bid = node.submit(node.files.url(name).as_str(), json!({})).await;
        node.batch_is(&bid, "failed").await;
        failed.push((node.job_of(&bid).await, bid));
    }
    let (jid, _) = &failed[0];
    browser.open(&format!("job/{jid}")).await;
    browser.click("Delete…").await;
    browser.shows("The depositor will not be told about it.").await;
    // Whoever thinks better of it has done nothing.
    browser.press([ESCAPE]).await;
    browser.until("no dialog", "return document.querySelector('dialog') === null").await;
    assert_eq!(node.get(&format!("jobs/{jid}")).await["state"], "failed");
    browser.enter("Delete…").await;
    browser.css("dialog[open]").await;
    browser.press("nobody wants it".chars()).await;
    browser.enter("Delete the job").await;
    browser.shows(&format!("{jid} was deleted.")).await;
    node.says(&format!("jobs?batch={}&state=failed", failed[0].1), "no job", |page| {
        page["jobs"] == json!([])
    })
    .await;
    let (jid, bid) = &failed[1];
    browser.open(&format!("batch/{bid}")).await;
    browser.click("Delete…").await;
    browser.shows("The depositor will not be told about them.").await;
    browser.click("Delete the batch").await;
    browser.shows(&format!("{bid} was deleted, with 1 job")).await;
    node.says(&format!("batches/{bid}"), "it is gone", |batch| batch["status"] == 404).await;
    node.says(&format!("jobs/{jid}"), "it is gone", |job| job["status"] == 404).await;
}

/// The last of all: it ends.
pub(crate) async fn the_node_is_drained(node: &mut TestNode, browser: &Browser) {
    browser.open("nodes").await;
    browser.click("Drain…").await;
    browser.shows("It has to be started again from outside.").await;
    assert_eq!(node.get("node").await["mode"], "running", "nothing is done before it is confirmed");
    browser.click("Drain and end").await;
    assert!(node.ended().await.success());
    browser.shows("The connection is lost").await;
    let fsck = node.fsck().await;
    assert!(fsck.status.success(), "{}", String::from_utf8_lossy(&fsck.stdout));
}

pub(crate) async fn what_is_wrong_with_a_submission_is_said_beside_its_fields(
    node: &TestNode,
    browser: &Browser,
) {
    let before = node.get("states/counts").await["batches"].clone();
    browser.open("submit").await;
    browser.click_css("[name=source][value=url]").await;
    browser.click_css("form.submit [type=submit]").await;
    browser.shows("Something is missing: URL").await;
    browser.fill("URL", node.files.url("/x").as_str()).await;
    browser.fill("Submitter", "ann").await;
    browser.click("Describe it").await;
    browser.choose("Digest", "sha-256").await;
    browser.fill("Its value", "abc").await;
    browser.click_css("form.submit [type=submit]").await;
    browser.shows("64 hex digits").await;
    browser.until("the focus on the field", "return document.activeElement.name === 'digestValue'").await;
    assert_eq!(node.get("states/counts").await["batches"], before);
}

pub(crate) async fn a_restart_appears_while_one_looks(node: &TestNode, browser: &Browser) {
    // A server that takes a request and never answers: the step stalls.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/never", silent.local_addr().unwrap());
    browser.open("nodes").await;
    browser.click_css("[aria-label^='Change when a step of downloading']").await;
    browser.fill("After", "1s").await;
    browser.click("Set").await;
    node.says("pools/downloading", "another stall", |pool| pool["stall"] == "1s").await;
    browser.open("restarts").await;
    browser.page_shows("Nothing was restarted.").await;
    let bid = node.submit(&url, json!({"type": "file", "size": 5})).await;
    browser.page_shows("stall").await;
    browser.page_shows(&bid).await;
    let restarts = node.get("restarts").await;
    assert_eq!(
        (&restarts["restarts"][0]["reason"], &restarts["restarts"][0]["batch"]),
        (&json!("stall"), &json!(bid))
    );
    browser.click("Supervision").await;
    browser.css("[data-name=session] > .actor.well").await;
    let marked = "const crowd = document.querySelector('.crowd[data-name=downloading]'); \
                  return /, [12] restarted/.test(crowd?.querySelector('summary').textContent) && crowd.querySelector('.dot.again') !== null";
    browser.until("a restarted worker among those of downloading", marked).await;
    // And once more: then it is given up, and whoever looks is told so until they have seen it.
    eventually("the end of that job", Duration::from_secs(90), || async {
        let job = node.get(&format!("jobs/{}", node.job_of(&bid).await)).await;
        (job["state"] == "failed").then_some(())
    })
    .await;
    let jid = node.job_of(&bid).await;
    let alert =
        "return (document.querySelector('.notices.wrong .notice')?.textContent ?? '').includes('poison')";
    browser.until("word of a job that nobody survives", alert).await;
    browser.click(&jid).await;
    browser.page_shows("most recently in downloading").await;
    browser.click_css(".notices.wrong [aria-label='Dismiss this message']").await;
    browser.until("no word of it", "return !document.querySelector('.notices.wrong .notice')").await;
    drop(silent);
    node.send(Method::PATCH, "pools/downloading", json!({"stall": "10m"})).await;
}
