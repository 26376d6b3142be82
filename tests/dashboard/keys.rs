//! Without a mouse: everything that can be seen can be reached, and a whole form filled.

use serde_json::json;

use super::browser::{Browser, ENTER, RIGHT, TAB};
use super::judging::PAGES;
use super::kit::TestNode;

pub(crate) async fn an_address_is_submitted_by_keys(node: &TestNode, browser: &Browser) {
    let url = node.files.put("/typed.txt", "by keys alone");
    browser.open("").await;
    browser.press("gs".chars()).await;
    browser.until("the form", "return location.hash === '#/submit'").await;
    browser.quiet().await;
    browser.reach("source").await;
    browser.press([RIGHT]).await;
    browser.reach("url").await;
    browser.press(url.as_str().chars()).await;
    browser.reach("type").await;
    browser.press("a single".chars()).await;
    browser.reach("submitter").await;
    browser.press("kay".chars()).await;
    browser.press([ENTER]).await;
    browser.until("the batch's page", "return location.hash.startsWith('#/batch/bid')").await;
    let address = browser.look("return location.hash").await;
    let bid = address.as_str().unwrap().trim_start_matches("#/batch/");
    let batch = node.batch_is(bid, "completed").await;
    assert_eq!(batch["submitter"], "kay", "{batch}");
}

/// Whatever has the focus on its way is noted by what it is called: a list that changes meanwhile has other elements of
/// the same names.
const NOTE: &str = "
    window.called ??= (one) => [one.tagName, one.name ?? '', one.getAttribute('aria-label') ?? one.getAttribute('href') ?? one.textContent.trim()].join(' ');
    if (!window.reached) document.addEventListener('focusin', ({target}) => window.reached.add(window.called(target)));
    window.reached = new Set();";
/// Of a group of radio buttons Tab reaches the one that is chosen; the arrows reach the others.
const LEFT: &str = "
    return [...document.querySelectorAll('a[href], button, input, select, textarea, summary')]
        .filter((one) => one.checkVisibility({visibilityProperty: true}) && !(one.type === 'radio' && !one.checked))
        .map(window.called).filter((name) => !window.reached.has(name))";
/// What would have to be clicked and is none of those.
const ODD: &str = "return document.querySelectorAll('.page :is([onclick], [role=button], [role=link], [tabindex]:not(h1))').length";
/// At a time, before what is left is looked at.
const TABS: usize = 25;
const ROUNDS: usize = 20;

pub(crate) async fn everything_that_is_seen_is_reached_with_tab(node: &TestNode, browser: &Browser) {
    let page = node.get("jobs?limit=1").await;
    let (job, batch) = (&page["jobs"][0]["jid"], &page["jobs"][0]["bid"]);
    let of_one =
        [("job", job), ("batch", batch)].map(|(name, id)| format!("{name}/{}", id.as_str().unwrap()));
    for page in PAGES.into_iter().chain(of_one.iter().map(String::as_str)) {
        browser.open(page).await;
        browser.look(NOTE).await;
        let mut left = browser.look(LEFT).await;
        let many = left.as_array().unwrap().len();
        assert!(many > 15, "{page} has hardly anything: {left}");
        for _ in 0..ROUNDS {
            if left == json!([]) {
                break;
            }
            browser.press([TAB; TABS]).await;
            left = browser.look(LEFT).await;
        }
        assert_eq!(left, json!([]), "not reached with Tab on {page}");
        assert_eq!(browser.look(ODD).await, 0, "{page}");
    }
}
