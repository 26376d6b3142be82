//! What is managed beside jobs and batches: limits, feeds, requests, profiles, settings, upkeep.

use reqwest::Method;
use serde_json::{Value, json};

use super::browser::{Browser, ESCAPE};
use super::kit::{MAPS, TestNode};

fn limit_of(limits: &Value, name: &str) -> Option<u64> {
    let all = limits["limits"].as_array().unwrap();
    all.iter().find(|one| one["kind"] == "collection" && one["name"] == name)?["limit"].as_u64()
}

pub(crate) async fn a_limit_is_set_changed_and_cleared(node: &TestNode, browser: &Browser) {
    browser.open("holds").await;
    browser.page_shows("Nothing is limited.").await;
    browser.enter("Set a limit…").await;
    browser.choose("Kind", "collection").await;
    browser.fill("Name", "tests").await;
    browser.fill("At a time", "3").await;
    browser.click("Set").await;
    browser.shows("The collection tests has a limit of 3.").await;
    node.says("limits", "a limit", |limits| limit_of(limits, "tests") == Some(3)).await;
    browser.click("Change the limit of collection tests").await;
    browser.fill("At a time", "2").await;
    browser.click("Set").await;
    node.says("limits", "another limit", |limits| limit_of(limits, "tests") == Some(2)).await;
    browser.click("Change the limit of collection tests").await;
    browser.fill("At a time", "").await;
    browser.click("Set").await;
    browser.shows("The collection tests has no limit.").await;
    node.says("limits", "no limit", |limits| limit_of(limits, "tests").is_none()).await;
    let cleared = "const row = document.querySelector('[aria-label=\"Change the limit of collection tests\"]')?.closest('tr'); \
                   return !row || row.textContent.includes('no limit')";
    browser.until("a page without that limit", cleared).await;
}

pub(crate) async fn a_feed_is_paused_resumed_asked_and_set_back(node: &TestNode, browser: &Browser) {
    let place = node.dir.path().join("scans");
    std::fs::create_dir(&place).unwrap();
    browser.open("feeds").await;
    browser.page_shows("There are no feeds").await;
    node.reconfigure(
        "[feeds.scans]\nkind = 'drop_box'\npath = 'scans'\nready = 'rename'\nprofile = 'test_content'\nsubmitter = 'scanner'\ntype = 'file'\n",
    );
    node.says("feeds/scans", "a node that consumes it", |feed| feed["node"] == "node-1").await;
    browser.page_shows("automatic: any node").await;
    browser.click("Pause scans").await;
    browser.fill("Reason", "the scanner is dirty").await;
    browser.click("Pause").await;
    browser.page_shows("the scanner is dirty").await;
    node.says("feeds/scans", "paused", |feed| feed["paused"]["why"] == "the scanner is dirty").await;
    std::fs::write(place.join(".plate.tif"), "a plate").unwrap();
    std::fs::rename(place.join(".plate.tif"), place.join("plate.tif")).unwrap();
    browser.click("Resume scans").await;
    browser.click("Resume").await;
    let feed = node.says("feeds/scans", "a batch", |feed| feed["batch"].is_string()).await;
    assert_eq!((&feed["items"], &feed["paused"]), (&json!(1), &Value::Null), "{feed}");
    node.batch_is(feed["batch"].as_str().unwrap(), "completed").await;
    browser.page_shows("consumed").await;

    browser.click("Ask scans").await;
    browser.click("Ask").await;
    browser.shows("scans is asked now.").await;
    let asked = |log: &Value| {
        let entries = log["entries"].as_array().unwrap();
        entries.iter().any(|entry| entry["what"] == "POST /api/v1/feeds/scans/ask" && entry["status"] == 200)
    };
    node.says("audit", "that it was asked", asked).await;

    browser.click("Set the checkpoint of scans").await;
    browser.fill("Checkpoint", "").await;
    browser.fill("The feed's name", "scones").await;
    browser.click("Set").await;
    // What was typed is not the feed's name: nothing is done, and the dialog says so.
    browser.until("a problem", "return document.querySelector('dialog .problem') !== null").await;
    assert_ne!(node.get("feeds/scans").await["last"], "");
    browser.fill("The feed's name", "scans").await;
    browser.click("Set").await;
    browser.shows("scans goes on at its new checkpoint.").await;
    node.says("feeds/scans", "the beginning", |feed| feed["last"] == "").await;
}

/// The last of the feed: nobody consumes it any more.
pub(crate) async fn a_feed_is_forgotten(node: &TestNode, browser: &Browser) {
    browser.open("feeds").await;
    browser.page_shows("consumed").await;
    let forget = "return document.querySelector('[aria-label=\"Forget scans\"]') === null";
    assert_eq!(browser.look(forget).await, true, "what is consumed cannot be forgotten");
    node.reconfigure("");
    browser.click("Forget scans").await;
    browser.shows("Its checkpoint goes with it, for good.").await;
    assert_eq!(node.get("feeds/scans").await["name"], "scans", "nothing is done before it is confirmed");
    browser.click("Forget the feed").await;
    browser.shows("scans is forgotten.").await;
    node.says("feeds", "no feed", |list| list["feeds"] == json!([])).await;
    browser.page_shows("There are no feeds").await;
}

/// More than a page of them.
const MANY: usize = 55;

pub(crate) async fn requests_come_and_go_while_one_looks(node: &TestNode, browser: &Browser) {
    browser.open("requests").await;
    browser.page_shows("Nothing is asked of the nodes by the tree.").await;
    // Nobody does anything here, and what others ask for appears, with what came of it.
    let refused = node.request("job.hold", json!({"jid": "jid0000009999"})).await;
    browser.page_shows("refused").await;
    browser.page_shows("job jid0000009999").await;
    browser.click(&format!("Show the result of job.hold {refused}")).await;
    browser.shows("Attempt").await;
    browser.until("its problem", "return document.querySelector('dialog .problem') !== null").await;
    browser.press([ESCAPE]).await;

    let take = format!("Take job.hold {refused} away");
    browser.click(&take).await;
    browser.shows("Its result goes with it").await;
    browser.press([ESCAPE]).await;
    browser.until("no dialog", "return document.querySelector('dialog') === null").await;
    assert_eq!(node.get(&format!("requests/{refused}")).await["state"], "done", "it was thought better of");
    browser.click(&take).await;
    browser.click("Take away").await;
    browser.shows("job.hold was taken away.").await;
    node.says(&format!("requests/{refused}"), "it is gone", |request| request["status"] == 404).await;

    // Somebody else was faster: that is said, and not swallowed.
    let done = node.request("queue.release", json!({"queue": "accessSmall"})).await;
    browser.page_shows("done").await;
    browser.click(&format!("Take queue.release {done} away")).await;
    node.says(&format!("requests/{done}"), "done", |request| request["ok"] == true).await;
    node.send(Method::DELETE, &format!("requests/{done}"), json!({})).await;
    browser.click("Take away").await;
    browser.until("a problem", "return document.querySelector('dialog .problem') !== null").await;
    browser.press([ESCAPE]).await;

    let mut ids = Vec::new();
    for _ in 0..MANY {
        ids.push(node.request("queue.release", json!({"queue": "accessSmall"})).await);
    }
    let shown =
        "[...document.querySelectorAll('tbody td:nth-child(2) .hint')].map(({textContent}) => textContent)";
    let first = format!("return {shown}[0] === '{}' && {shown}.length === 50", ids[MANY - 1]);
    browser.until("the newest first", &first).await;
    browser.click("Next page").await;
    browser.quiet().await;
    let rest = format!("return {shown}.at(-1) === '{}' && {shown}.length === {}", ids[0], MANY - 50);
    browser.until("the oldest last", &rest).await;
    for id in ids {
        node.says(&format!("requests/{id}"), "done", |request| request["ok"] == true).await;
        node.send(Method::DELETE, &format!("requests/{id}"), json!({})).await;
    }
}

pub(crate) async fn a_profile_is_put_shown_and_deleted(node: &TestNode, browser: &Browser) {
    browser.open("settings").await;
    browser.page_shows("a file of this node").await;
    browser.click("Put a profile…").await;
    browser.fill("Name", "maps").await;
    browser.fill("Text", &MAPS.replace("title", "titel")).await;
    browser.click("Put it").await;
    // What is wrong is said where it was typed, with its line.
    browser.shows("text:3").await;
    assert_eq!(node.get("profiles/maps").await["status"], 404);
    browser.fill("Text", MAPS).await;
    browser.click("Put it").await;
    browser.shows("maps was put, version 1.").await;
    browser.page_shows("version 1").await;
    assert_eq!(node.get("profiles/maps").await["text"], MAPS);
    browser.click("Show maps").await;
    browser.shows("owner = 'ark:/99999/fk4maps'").await;
    browser.press([ESCAPE]).await;
    browser.click("Delete maps").await;
    browser.shows("Jobs that were made with it end with it.").await;
    assert_eq!(node.get("profiles/maps").await["name"], "maps", "nothing is done before it is confirmed");
    browser.click("Delete the profile").await;
    browser.shows("maps was deleted from the tree.").await;
    node.says("profiles/maps", "it is gone", |profile| profile["status"] == 404).await;
    browser
        .until(
            "no profile of the tree",
            "return document.querySelector('[aria-label=\"Show maps\"]') === null",
        )
        .await;
}

pub(crate) async fn a_setting_of_all_nodes_is_set_and_unset(node: &TestNode, browser: &Browser) {
    let own = node.get("pools/processing").await["size"].clone();
    browser.open("settings").await;
    browser.page_shows("Nothing is set for all nodes").await;
    browser.enter("Set a key…").await;
    browser.fill("Key", "pools.processing.size").await;
    browser.fill("Value", "many").await;
    browser.click("Set").await;
    browser.until("a problem", "return document.querySelector('dialog .problem') !== null").await;
    assert_eq!(node.get("settings").await["settings"], json!({}));
    browser.fill("Value", "5").await;
    browser.click("Set").await;
    browser.shows("pools.processing.size is set").await;
    node.says("pools/processing", "five workers", |pool| pool["size"] == 5).await;
    // Where it comes from is shown as soon as this node runs it.
    browser.page_shows("the cluster, 1-").await;
    browser.click("Change pools.processing.size").await;
    browser.fill("Value", "6").await;
    browser.click("Set").await;
    node.says("pools/processing", "six workers", |pool| pool["size"] == 6).await;
    browser.click("Unset pools.processing.size").await;
    browser.shows("Each node has again what its own configuration says.").await;
    browser.click("Unset").await;
    node.says("pools/processing", "its own size", |pool| pool["size"] == own).await;
    browser.page_shows("Nothing is set for all nodes").await;
}

pub(crate) async fn a_routine_is_run(node: &TestNode, browser: &Browser) {
    let last = |list: &Value| {
        let routines = list["routines"].as_array().unwrap();
        routines.iter().find(|one| one["name"] == "keys").map(|one| one["last"]["at"].clone()).unwrap()
    };
    let before = last(&node.get("upkeep").await);
    browser.open("nodes").await;
    browser.click("Run keys now").await;
    browser.shows("It removes keys that lead to nothing that waits.").await;
    assert_eq!(last(&node.get("upkeep").await), before, "nothing is done before it is confirmed");
    browser.click("Run").await;
    browser.shows("keys ran: 0 removed.").await;
    let after = last(&node.get("upkeep").await);
    assert!(after.is_string() && after != before, "{before}, then {after}");
}

pub(crate) async fn what_others_do_appears_in_the_audit_log(node: &TestNode, browser: &Browser) {
    browser.open("audit").await;
    let what = "PUT /api/v1/holds/queues/accessLarge";
    let seen = format!("return document.querySelector('.page').innerText.includes('{what}')");
    assert_eq!(browser.look(&seen).await, false, "nobody has held it yet");
    node.send(Method::PUT, "holds/queues/accessLarge", json!({"reason": "to be seen"})).await;
    browser.page_shows(what).await;
    node.send(Method::DELETE, "holds/queues/accessLarge", json!({})).await;
}
