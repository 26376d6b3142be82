//! The connection is lost, and comes back.

use serde_json::json;

use super::browser::Browser;
use super::kit::TestNode;

pub(crate) async fn a_node_that_goes_away_is_noticed_and_found_again() {
    let mut node = TestNode::start("").await;
    let browser = Browser::start(&node.base).await;
    browser.open("").await;
    browser
        .until(
            "live counts",
            "return document.querySelector('[data-state=completed] strong').textContent === '0'",
        )
        .await;
    node.kill();
    browser.shows("The connection is lost").await;
    browser.shows("What you see is from").await;
    // What is asked meanwhile is answered with what to do.
    browser.click("Pause").await;
    browser.shows("Is the node running?").await;
    browser.click("Try now").await;
    browser.shows("The connection is lost").await;
    // Nobody has to do anything when it is back.
    node.start_again().await;
    browser.until("no banner", "return document.querySelector('.banner').hidden").await;
    let url = node.files.put("/after.txt", "all is well");
    let bid = node.submit(url.as_str(), json!({})).await;
    node.batch_is(&bid, "completed").await;
    browser
        .until(
            "counts that live again",
            "return document.querySelector('[data-state=completed] strong').textContent === '1'",
        )
        .await;
}
