//! Tokens and roles.

use super::browser::Browser;
use super::kit::TestNode;
use super::running::tokens;

pub(crate) async fn roles() {
    let tokens = tokens(&[("ann", "depositor"), ("olga", "operator"), ("ada", "admin")]);
    let node = TestNode::start(&tokens).await;
    let browser = Browser::start(&node.base).await;
    browser.shows("This node asks who you are.").await;
    browser.fill("Token", "a guess").await;
    browser.click("Log in").await;
    browser.shows("Log in again with a token of this node.").await;

    enter(&browser, "ann-token").await;
    assert_eq!(menu(&browser).await, ["Batches", "Jobs", "Submit"]);
    browser.page_shows("No batches yet.").await;
    // What is handed over in her name appears while she looks.
    let body =
        serde_json::json!({"profile": "test_content", "payload_url": "http://127.0.0.1:1/x", "type": "file"});
    let request =
        reqwest::Client::new().post(format!("{}/api/v1/batches", node.base)).bearer_auth("ann-token");
    let answer = request.json(&body).send().await.unwrap();
    let submitted: serde_json::Value = serde_json::from_slice(&answer.bytes().await.unwrap()).unwrap();
    browser.page_shows(submitted["bid"].as_str().unwrap_or_else(|| panic!("{submitted}"))).await;
    browser.open("nodes").await;
    browser.page_shows("There is no such page").await;
    let kept = browser.look("return JSON.stringify(localStorage) + document.cookie").await;
    assert!(!kept.as_str().unwrap().contains("ann-token"), "{kept}");
    browser.click("Log out").await;
    browser.shows("This node asks who you are.").await;

    enter(&browser, "olga-token").await;
    browser.open("nodes").await;
    browser.page_shows("Pools of this node").await;
    browser.until("pools", "return document.querySelectorAll('tbody tr').length > 8").await;
    let buttons = "return [...document.querySelectorAll('.page button, .page input')].map((one) => one.textContent || one.name)";
    assert_eq!(
        browser.look(buttons).await,
        serde_json::json!(["Pause"]),
        "an operator neither drains nor resizes"
    );
    browser.until("a live stream", "return document.querySelector('.chip').textContent === 'running'").await;
    // It stays for this tab, and nobody asks again.
    browser.reload().await;
    browser.page_shows("Pools of this node").await;
    browser.click("Log out").await;

    enter(&browser, "ada-token").await;
    browser.open("nodes").await;
    browser.page_shows("Drain…").await;
    browser.labelled("Workers of downloading").await;
    browser.complains_of_nothing().await;
}

async fn enter(browser: &Browser, token: &str) {
    browser.fill("Token", token).await;
    browser.click("Log in").await;
    browser.css(".menu").await;
    browser.open("").await;
}

async fn menu(browser: &Browser) -> Vec<String> {
    let names = browser.look("return [...document.querySelectorAll('.menu a span:nth-of-type(1)')].map(({textContent}) => textContent)").await;
    names.as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_owned()).collect()
}
