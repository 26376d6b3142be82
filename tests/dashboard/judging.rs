//! How the pages are: inert whatever is in the names, narrow enough, good for everybody, light on the node.

use serde_json::{Value, json};

use super::browser::{Browser, ESCAPE, TAB};
use super::kit::TestNode;

pub(crate) const PAGES: [&str; 14] = [
    "", "batches", "jobs", "failed", "holds", "feeds", "access", "nodes", "settings", "tree", "restarts",
    "requests", "audit", "submit",
];

/// Pages whose tables are easily empty, and what shows that they are not.
const FILLED: [(&str, &str); 4] = [
    ("feeds", "automatic: any node"),
    ("holds", "Change…"),
    ("requests", "refused"),
    ("settings", "version 1"),
];

/// What would betray itself if it ever became more than a text.
const HOSTILE: &str = "<img src=x onerror=\"window.pwned=1\"><script>window.pwned=2</script>\"'><svg onload=window.pwned=3>{{7*7}}";

pub(crate) async fn an_empty_node_says_so_everywhere(browser: &Browser) {
    for (page, says) in [
        ("", "Nothing: all workers are idle."),
        ("batches", "No batches yet."),
        ("jobs", "No jobs."),
        ("failed", "No job has failed."),
        ("holds", "No collection is held."),
        ("feeds", "There are no feeds"),
        ("access", "Nothing is being put together."),
        ("restarts", "Nothing was restarted."),
        ("requests", "Nothing is asked of the nodes by the tree."),
        ("settings", "Nothing is set for all nodes"),
        ("job/jid0000000099", "jid0000000099"),
        ("nowhere", "There is no such page"),
    ] {
        browser.open(page).await;
        browser.page_shows(says).await;
    }
}

pub(crate) async fn keys_alone_lead_everywhere(browser: &Browser) {
    browser.open("").await;
    browser.reload().await;
    browser.press([TAB]).await;
    assert_eq!(browser.look("return document.activeElement.textContent").await, "Skip to the content");
    browser.press([super::browser::ENTER]).await;
    assert_eq!(browser.look("return document.activeElement.id").await, "main");
    assert_eq!(browser.look("return location.hash").await, "#/", "the link does not lead to another page");
    for (keys, title) in
        [("gb", "Batches"), ("gj", "Jobs"), ("gf", "Failed jobs"), ("gt", "Supervision"), ("gp", "Pipeline")]
    {
        browser.press(keys.chars()).await;
        browser.until(title, &format!("return document.activeElement.tagName === 'H1' && document.activeElement.textContent === '{title}'")).await;
    }
    browser.press("gj".chars()).await;
    browser.quiet().await;
    browser.press(['/']).await;
    browser.press("gb".chars()).await;
    assert_eq!(
        browser.look("return [document.activeElement.type, document.activeElement.value]").await,
        json!(["search", "gb"]),
        "letters in a field are letters"
    );
    browser.press([TAB]).await;
    browser.click("Keyboard shortcuts").await;
    browser.shows("Read this page again").await;
    browser.press([ESCAPE]).await;
    browser.until("no dialog", "return document.querySelector('dialog') === null").await;
    let back = "return document.activeElement.getAttribute('aria-label') === 'Keyboard shortcuts'";
    browser.until("the focus where it was", back).await;
    let outline = browser.look("return getComputedStyle(document.activeElement).outlineStyle").await;
    assert_eq!(outline, "solid", "the focus can be seen");
}

pub(crate) async fn hostile_names_do_nothing(node: &TestNode, browser: &Browser) {
    let url = format!("{}?name={}", node.files.url("/nowhere"), "%3Cscript%3E");
    let more = json!({
        "submitter": HOSTILE, "title": HOSTILE, "creator": HOSTILE, "date": HOSTILE, "note": HOSTILE, "local_id": [HOSTILE],
        "filename": HOSTILE, "notification": HOSTILE, "dc": {"subject": HOSTILE, "rights": HOSTILE, "description": HOSTILE},
    });
    let bid = match node.send(reqwest::Method::POST, "batches", with(&url, &more)).await {
        answer if answer["bid"].is_string() => answer["bid"].as_str().unwrap().to_owned(),
        // What the node itself refuses cannot become a name.
        refused => {
            let fields: Vec<&str> = refused["problems"]
                .as_array()
                .unwrap()
                .iter()
                .map(|one| one["field"].as_str().unwrap())
                .collect();
            let mut left = more.clone();
            for field in fields {
                left.as_object_mut().unwrap().remove(field);
            }
            assert!(left.get("submitter").is_some() && left.get("title").is_some(), "{refused}");
            node.submit(&url, left).await
        }
    };
    let jid = node.job_of(&bid).await;
    node.batch_is(&bid, "failed").await;
    node.send(reqwest::Method::PUT, "holds/queues/accessLarge", json!({"reason": HOSTILE})).await;
    let collection = "holds/collections/%3Cimg%20src%3Dx%20onerror%3Dwindow.pwned%3D5%3E";
    let held = node.send(reqwest::Method::PUT, collection, json!({"reason": HOSTILE})).await;
    assert_eq!(held["held"], true, "{held}");
    let path = format!("jobs/{jid}/requeue");
    // In the name of somebody who has chosen it well.
    let name = "<img src=x onerror=window.pwned=6>";
    let request = node.client.post(format!("{}/api/v1/{path}", node.base)).header("x-ingestd-user", name);
    let answer = request.json(&json!({"reason": HOSTILE})).send().await.unwrap();
    assert!(answer.status().is_success(), "{answer:?}");
    node.job_is(&jid, "failed").await;
    for page in PAGES.iter().copied().chain([format!("batch/{bid}").as_str(), format!("job/{jid}").as_str()])
    {
        browser.open(page).await;
        assert_eq!(browser.look("return window.pwned ?? null").await, Value::Null, "{page}");
        let strange = "return document.querySelectorAll('.page :is(img, script, iframe, object, [onerror], [onload])').length";
        assert_eq!(browser.look(strange).await, 0, "{page}");
    }
    for page in [format!("batch/{bid}"), format!("job/{jid}"), "batches".to_owned(), "holds".to_owned()] {
        browser.open(&page).await;
        browser.page_shows("<script>window.pwned=2</script>").await;
    }
    browser.open("holds").await;
    browser.page_shows("<img src=x onerror=window.pwned=5>").await;
    for page in [format!("job/{jid}"), "audit".to_owned()] {
        browser.open(&page).await;
        browser.page_shows("<img src=x onerror=window.pwned=6>").await;
    }
    node.send(reqwest::Method::DELETE, collection, json!({})).await;
    // In the address, too.
    browser.open("job/%3Cimg%20src=x%20onerror=window.pwned=4%3E").await;
    browser.page_shows("<img src=x onerror=window.pwned=4>").await;
    assert_eq!(browser.look("return window.pwned ?? null").await, Value::Null);
}

fn with(url: &str, more: &Value) -> Value {
    let mut body = json!({"profile": "test_content", "submitter": "ann", "payload_url": url, "type": "file"});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

pub(crate) async fn every_page_fits_a_phone_and_satisfies_axe(node: &TestNode, browser: &Browser) {
    let axe = axe();
    node.fill_every_table().await;
    let failed = node.get("jobs?state=failed").await;
    let (jid, bid) = (failed["jobs"][0]["jid"].as_str().unwrap(), failed["jobs"][0]["bid"].as_str().unwrap());
    let (job, batch) = (format!("job/{jid}"), format!("batch/{bid}"));
    for page in PAGES.iter().copied().chain([job.as_str(), batch.as_str()]) {
        browser.size(390, 844).await;
        browser.open(page).await;
        if let Some((_, row)) = FILLED.iter().find(|(name, _)| *name == page) {
            browser.page_shows(row).await;
        }
        // What is cut off by its frame makes the page no wider, and cannot be pressed all the same.
        let wide = "const out = [...document.querySelectorAll('.page :is(a, button, input, select, textarea, summary)')] \
                        .filter((one) => one.checkVisibility() && one.getBoundingClientRect().right > innerWidth + 1).map((one) => one.textContent || one.name); \
                    return [document.documentElement.scrollWidth <= innerWidth, out]";
        let fits = browser.look(wide).await;
        assert_eq!(fits, json!([true, []]), "{page} is wider than a phone");
        judge(browser, &axe, &format!("{page} on a phone")).await;
        browser.size(1280, 900).await;
        browser.colours("dark").await;
        judge(browser, &axe, &format!("{page} in the dark")).await;
        browser.colours("light").await;
    }
    browser.open("failed").await;
    browser.click("Requeue all…").await;
    browser.css("dialog[open]").await;
    judge(browser, &axe, "a dialog").await;
    browser.press([ESCAPE]).await;
}

/// The judge is fetched once; where that cannot be, the test says so and fails.
fn axe() -> String {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/dashboard/axe");
    let output = std::process::Command::new(script).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    std::fs::read_to_string(String::from_utf8(output.stdout).unwrap().trim()).unwrap()
}

async fn judge(browser: &Browser, axe: &str, what: &str) {
    if browser.look("return typeof window.axe").await != "object" {
        browser.look(axe).await;
    }
    let found = browser
        .look_async(
            "const done = arguments[0]; axe.run(document, {resultTypes: ['violations']}).then(({violations, passes}) => done({
                rules: passes.length,
                violations: violations.map(({impact, id, nodes}) => [impact, id, nodes.slice(0, 3).map(({html, failureSummary}) => [html, failureSummary])]),
             }), (error) => done({error: String(error)}));",
        )
        .await;
    assert!(found["rules"].as_u64().is_some_and(|rules| rules > 15), "axe has not looked at {what}: {found}");
    assert_eq!(found["violations"], json!([]), "{what}");
}

/// However many jobs there are, a page asks for fifty of them.
pub(crate) async fn lists_are_asked_for_in_pages(browser: &Browser) {
    for page in ["", "jobs", "jobs?state=completed", "batches", "access", "feeds", "holds"] {
        browser.open(page).await;
        let asked = browser
            .look("return performance.getEntriesByType('resource').map(({name}) => name).filter((name) => /api\\/v1\\/(jobs|batches|access|feeds|limits)(\\?|$)/.test(name))")
            .await;
        let asked: Vec<&str> = asked.as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
        assert!(!asked.is_empty() || page.is_empty(), "{page}");
        for name in asked {
            let limit =
                name.split("limit=").nth(1).and_then(|rest| rest.split('&').next()?.parse::<u32>().ok());
            assert!(limit.is_some_and(|limit| limit <= 50), "{name}");
        }
    }
}

/// What the picture's rates and the stream are made of, with a clock and pieces that the test chooses.
pub(crate) async fn events_are_read_in_any_pieces_and_counted_once(browser: &Browser) {
    let module = |name: &str| {
        format!("import(document.querySelector('script[type=module]').src.replace('main.js', '{name}'))")
    };
    let counted = browser
        .look_async(&format!(
            "const done = arguments[0]; {}.then(({{Flow}}) => {{
                const flow = new Flow();
                const second = (number) => 1_000_000 + number * 1_000;
                flow.follow(['pending', 'downloading', 'processing', 'completed']);
                flow.begin('jid0000000005');
                // An old one, of which nothing is known but where it is; then it jumps.
                flow.moved([{{jid: 'jid0000000001', state: 'downloading'}}], second(0));
                flow.moved([{{jid: 'jid0000000001', state: 'completed'}}], second(1));
                // A new one was pending before anything was told about it; the same news again is no news.
                flow.moved([{{jid: 'jid0000000006', state: 'processing'}}], second(2));
                flow.moved([{{jid: 'jid0000000006', state: 'processing'}}], second(3));
                flow.moved([{{jid: 'jid0000000006', state: null}}], second(3));
                const rates = (at) => ['pending', 'downloading', 'processing', 'completed'].map((state) => flow.rate(state, second(at)));
                done([rates(5), flow.bars('completed', 2, second(5)), flow.bars('completed', 2, second(40)), rates(61), flow.isMoving(second(70))]);
            }}, (error) => done(String(error)))",
            module("flow.js")
        ))
        .await;
    assert_eq!(counted, json!([[1, 2, 2, 1], [0, 1], [1, 0], [1, 1, 1, 0], false]), "{counted}");
    let read = browser
        .look_async(&format!(
            "const done = arguments[0]; {}.then(({{Parser}}) => {{
                const text = ': hello\\n\\nevent: counts\\nid: 7\\ndata: {{\"jobs\":\\ndata: {{}}}}\\n\\nevent: jobs\\r\\ndata:{{\"moved\": []}}\\r\\n\\r\\ndata: broken\\n\\n';
                const whole = new Parser().push(text);
                const parser = new Parser();
                const pieces = [...text].flatMap((letter) => parser.push(letter));
                done([whole, JSON.stringify(whole) === JSON.stringify(pieces)]);
            }}, (error) => done(String(error)))",
            module("live.js")
        ))
        .await;
    let events = json!([
        {"name": "beat", "id": "", "data": {}},
        {"name": "counts", "id": "7", "data": {"jobs": {}}},
        {"name": "jobs", "id": "", "data": {"moved": []}},
        {"name": "reset", "id": "", "data": {"why": "an event could not be read"}},
    ]);
    assert_eq!(read, json!([events, true]), "{read}");
}
