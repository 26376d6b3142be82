//! A browser that is driven over `WebDriver`: what a person sees, clicks and types.
//!
//! Chromium is connected to its driver by a pipe and the driver is a child of the test: when one ends, however it does, so does the other.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use ingest_harness::eventually;
use serde_json::{Value, json};
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_mins(3);
/// How `WebDriver` names an element.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

pub(crate) const ENTER: char = '\u{e007}';
pub(crate) const ESCAPE: char = '\u{e00c}';
pub(crate) const TAB: char = '\u{e004}';
pub(crate) const RIGHT: char = '\u{e014}';

/// What is behind an open dialog cannot be reached. Part of the path, because dialogs close while one looks.
const REACHABLE: &str = "[not(//dialog[@open]) or ancestor::dialog]";

/// How often Tab is pressed before something counts as out of reach.
const FAR: usize = 150;

pub(crate) struct Browser {
    client: reqwest::Client,
    session: String,
    base: String,
    driver: Child,
    _profile: TempDir,
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

/// Something on the page.
#[derive(Debug, Clone)]
pub(crate) struct Element(String);

impl Browser {
    /// Opens the dashboard of the node at `base`.
    pub(crate) async fn start(base: &str) -> Self {
        let mut driver = Command::new("chromedriver")
            .arg("--port=0")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("chromedriver, of Debian's package chromium-driver: tests/run installs it");
        let mut said = BufReader::new(driver.stdout.take().unwrap()).lines();
        let port = said
            .find_map(|line| {
                let line = line.unwrap();
                line.split_once("successfully on port ")?.1.trim_end_matches('.').parse::<u16>().ok()
            })
            .expect("chromedriver says where it listens");
        // Whatever else it says is read, so that it can go on speaking.
        std::thread::spawn(move || said.map_while(Result::ok).for_each(drop));
        let profile = tempfile::tempdir().unwrap();
        let directory = format!("--user-data-dir={}", profile.path().display());
        let arguments = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--hide-scrollbars",
            "--remote-debugging-pipe",
            "--force-prefers-reduced-motion",
            "--lang=en",
            &directory,
        ];
        let wanted = json!({"capabilities": {"alwaysMatch": {
            "goog:loggingPrefs": {"browser": "ALL"},
            "goog:chromeOptions": {"args": arguments},
        }}});
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let root = format!("http://127.0.0.1:{port}");
        let mut browser =
            Self { client, session: root.clone(), base: base.to_owned(), driver, _profile: profile };
        let session = browser.post("/session", wanted).await;
        browser.session = format!("{root}/session/{}", session["sessionId"].as_str().unwrap());
        browser.size(1280, 900).await;
        browser.colours("light").await;
        browser.post("/url", json!({"url": format!("{base}/")})).await;
        browser
    }

    async fn ask(&self, request: reqwest::RequestBuilder) -> Result<Value, String> {
        let answer: Value = request.send().await.unwrap().json().await.unwrap();
        match answer["value"]["error"].as_str() {
            Some(error) => Err(format!("{error}: {}", answer["value"]["message"])),
            None => Ok(answer["value"].clone()),
        }
    }

    async fn try_post(&self, path: &str, body: Value) -> Result<Value, String> {
        self.ask(self.client.post(format!("{}{path}", self.session)).json(&body)).await
    }

    async fn post(&self, path: &str, body: Value) -> Value {
        self.try_post(path, body).await.unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    /// Opens a page of the dashboard by its address, as a bookmark does.
    pub(crate) async fn open(&self, page: &str) {
        self.post("/url", json!({"url": format!("{}/#/{page}", self.base)})).await;
        self.quiet().await;
    }

    /// The page that the address names is there, and has read everything.
    pub(crate) async fn quiet(&self) {
        let script = "if (document.querySelector('main.alone')) return true; \
                      return document.querySelector('.page')?.dataset.address === (location.hash || '#/') \
                      && !document.querySelector('[aria-busy]')";
        self.until("a page that has read everything", script).await;
    }

    pub(crate) async fn reload(&self) {
        self.post("/refresh", json!({})).await;
        self.quiet().await;
    }

    pub(crate) async fn size(&self, width: u32, height: u32) {
        let metrics = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.post(
            "/goog/cdp/execute",
            json!({"cmd": "Emulation.setDeviceMetricsOverride", "params": metrics}),
        )
        .await;
    }

    /// What the system prefers: `light` or `dark`.
    pub(crate) async fn colours(&self, scheme: &str) {
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}, {"name": "prefers-reduced-motion", "value": "reduce"}]});
        self.post("/goog/cdp/execute", json!({"cmd": "Emulation.setEmulatedMedia", "params": features}))
            .await;
    }

    /// Looks at something of the page; tests act by clicks and keys alone.
    pub(crate) async fn look(&self, script: &str) -> Value {
        self.post("/execute/sync", json!({"script": script, "args": []})).await
    }

    pub(crate) async fn look_async(&self, script: &str) -> Value {
        self.post("/execute/async", json!({"script": script, "args": []})).await
    }

    /// Waits until a look is true. A look that fails is not true yet: what it looks at may not be drawn, because the page
    /// changes just then.
    pub(crate) async fn until(&self, what: &str, script: &str) {
        let last = std::cell::RefCell::new(None);
        let done = eventually_or(what, || async {
            let looked = self.try_post("/execute/sync", json!({"script": script, "args": []})).await;
            let is_true = looked.as_ref().is_ok_and(|seen| *seen == true);
            *last.borrow_mut() = looked.err();
            is_true.then_some(())
        })
        .await;
        if done.is_none() {
            let page = self.look("return document.body.innerText").await;
            let (page, error) = (page.as_str().unwrap_or_default(), last.take().unwrap_or_default());
            panic!("waited in vain for {what}; {error}; the page says:\n{page}");
        }
    }

    /// Waits until the page shows a text.
    pub(crate) async fn shows(&self, text: &str) {
        let script = format!("return document.body.innerText.includes({})", json!(text));
        self.until(&format!("the text {text:?}"), &script).await;
    }

    /// Waits until the open dialog has a text: a notice of an earlier action may have the same one.
    pub(crate) async fn dialog_shows(&self, text: &str) {
        let script = format!(
            "return (document.querySelector('dialog[open]')?.innerText ?? '').includes({})",
            json!(text)
        );
        self.until(&format!("the text {text:?} in the dialog"), &script).await;
    }

    /// Closes the dialog that shows what was done, and waits until it is gone.
    pub(crate) async fn close_dialog(&self) {
        self.click_by("xpath", "//dialog[@open]//footer//button[normalize-space()='Close']").await;
        self.until("the dialog to be gone", "return !document.querySelector('dialog')").await;
    }

    /// Waits until the content of the page, without menu and messages, has a text.
    pub(crate) async fn page_shows(&self, text: &str) {
        let script =
            format!("return (document.querySelector('.page')?.innerText ?? '').includes({})", json!(text));
        self.until(&format!("the text {text:?} on the page"), &script).await;
    }

    /// Waits for an element that can be seen.
    pub(crate) async fn find(&self, how: &str, what: &str) -> Element {
        let looking = json!({"using": how, "value": what});
        let found = eventually_or(what, || async {
            let found = self.post("/elements", looking.clone()).await;
            for element in found.as_array().unwrap() {
                let id = element[ELEMENT].as_str().unwrap();
                let url = format!("{}/element/{id}/displayed", self.session);
                if self.ask(self.client.get(url)).await.is_ok_and(|shown| shown == true) {
                    return Some(Element(id.to_owned()));
                }
            }
            None
        })
        .await;
        if let Some(found) = found {
            return found;
        }
        let page = self.look("return document.body.innerText").await;
        panic!("there is no {what}; the page says:\n{}", page.as_str().unwrap_or_default());
    }

    pub(crate) async fn css(&self, selector: &str) -> Element {
        self.find("css selector", selector).await
    }

    /// Clicks the button or link with this text; in the dialog, if one is open.
    pub(crate) async fn click(&self, text: &str) {
        let quoted = quoted(text);
        let path = format!(
            "//*[self::button or self::a or self::summary][normalize-space()={quoted} or @aria-label={quoted}]{REACHABLE}"
        );
        self.click_by("xpath", &path).await;
    }

    pub(crate) async fn click_css(&self, selector: &str) {
        self.click_by("css selector", selector).await;
    }

    /// What was found may be drawn anew, or be covered by something that moves away, just when it is clicked.
    async fn click_by(&self, how: &str, what: &str) {
        let last = std::cell::RefCell::new(String::new());
        let clicked = eventually_or(what, || async {
            let element = self.find(how, what).await;
            match self.try_post(&format!("/element/{}/click", element.0), json!({})).await {
                Ok(_) => Some(()),
                Err(error) => {
                    *last.borrow_mut() = error;
                    None
                }
            }
        })
        .await;
        assert!(clicked.is_some(), "{what} cannot be clicked: {}", last.borrow());
    }

    /// The control with this label, in the dialog if one is open.
    pub(crate) async fn labelled(&self, label: &str) -> Element {
        let label = quoted(label);
        let path = format!(
            "(//*[@id=//label[normalize-space()={label}]/@for] | \
             //label[normalize-space(span)={label}]//*[self::input or self::select] | //input[@aria-label={label}]){REACHABLE}"
        );
        self.find("xpath", &path).await
    }

    /// Types into the control with this label, instead of what was there.
    pub(crate) async fn fill(&self, label: &str, text: &str) {
        let element = self.labelled(label).await;
        self.post(&format!("/element/{}/clear", element.0), json!({})).await;
        self.send(&element, text).await;
    }

    pub(crate) async fn send(&self, element: &Element, text: &str) {
        self.post(&format!("/element/{}/value", element.0), json!({"text": text})).await;
    }

    /// Chooses from the list with this label, by typing what it says.
    pub(crate) async fn choose(&self, label: &str, text: &str) {
        let element = self.labelled(label).await;
        self.send(&element, text).await;
    }

    /// Presses keys, wherever the focus is.
    pub(crate) async fn press(&self, keys: impl IntoIterator<Item = char>) {
        let strokes: Vec<Value> = keys
            .into_iter()
            .flat_map(|key| {
                [json!({"type": "keyDown", "value": key}), json!({"type": "keyUp", "value": key})]
            })
            .collect();
        self.post("/actions", json!({"actions": [{"type": "key", "id": "keyboard", "actions": strokes}]}))
            .await;
    }

    /// Goes on with Tab until the focus is on what has this text, label or name: everything can be reached so.
    pub(crate) async fn reach(&self, what: &str) {
        let script = format!(
            "const one = document.activeElement; \
             return [one?.textContent, one?.getAttribute('aria-label'), one?.name].includes({})",
            json!(what)
        );
        for _ in 0..FAR {
            if self.look(&script).await == true {
                return;
            }
            self.press([TAB]).await;
        }
        panic!("{what} is not reached with Tab");
    }

    /// Presses a button as those do who have no mouse: Tab until it has the focus, then Enter.
    pub(crate) async fn enter(&self, what: &str) {
        self.reach(what).await;
        self.press([ENTER]).await;
    }

    pub(crate) async fn picture(&self, path: &Path) {
        let url = format!("{}/screenshot", self.session);
        let picture = self.ask(self.client.get(url)).await.unwrap();
        std::fs::write(path, decoded(picture.as_str().unwrap())).unwrap();
    }

    /// No script has failed, and nothing was refused by the page's own policy.
    pub(crate) async fn complains_of_nothing(&self) {
        let log = self.post("/se/log", json!({"type": "browser"})).await;
        let complaints: Vec<&Value> = log
            .as_array()
            .unwrap()
            .iter()
            // Answers that are no success are the subject of some of the tests.
            .filter(|entry| {
                entry["level"] == "SEVERE"
                    && !entry["message"].as_str().unwrap().contains("Failed to load resource")
            })
            .collect();
        assert!(complaints.is_empty(), "{complaints:#?}");
    }
}

async fn eventually_or<T, F: Future<Output = Option<T>>>(what: &str, check: impl Fn() -> F) -> Option<T> {
    let end = std::time::Instant::now() + PATIENCE;
    eventually(what, PATIENCE * 2, || async {
        match check().await {
            Some(found) => Some(Some(found)),
            None => (std::time::Instant::now() > end).then_some(None),
        }
    })
    .await
}

/// As `XPath` writes a text.
fn quoted(text: &str) -> String {
    if text.contains('\'') { format!("\"{text}\"") } else { format!("'{text}'") }
}

/// Base64, which screenshots come in.
fn decoded(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut count) = (0_u32, 0);
    for letter in text.bytes() {
        let value = match letter {
            b'A'..=b'Z' => letter - b'A',
            b'a'..=b'z' => letter - b'a' + 26,
            b'0'..=b'9' => letter - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => continue,
        };
        bits = (bits << 6) | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count).to_le_bytes()[0]);
        }
    }
    bytes
}
