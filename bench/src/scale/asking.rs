//! How long the lists and the dashboard take to answer. The first time a list is asked for it may have to be made: 2 s; afterwards
//! half a second.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use reqwest::Client;
use serde_json::Value;

/// How often each is asked for.
const TIMES: usize = 5;

/// Nobody waits longer for a page.
const MOST_FIRST: Duration = Duration::from_secs(2);
const MOST_THEN: Duration = Duration::from_millis(500);

/// An answer's times.
pub(super) struct Answered {
    pub(super) what: &'static str,
    /// The node has not been asked for it before.
    pub(super) first: Duration,
    /// The one in the middle of those after.
    pub(super) then: Duration,
}

impl Answered {
    /// What takes longer than it may.
    pub(super) fn is_slow(&self, rows: u64) -> Option<String> {
        let slow = self.first > MOST_FIRST || self.then > MOST_THEN;
        slow.then(|| {
            format!(
                "{}, {rows} waiting, took {:?} the first time and then {:?}, and may take {MOST_FIRST:?} and {MOST_THEN:?}",
                self.what, self.first, self.then
            )
        })
    }
}

/// What is asked for.
const ASKED: &[(&str, &str)] = &[
    ("dashboard, its page", "/"),
    ("dashboard, counts", "/api/v1/states/counts"),
    ("metrics", "/metrics"),
    ("jobs, newest first", "/api/v1/jobs?limit=50&order=newest"),
    ("jobs, oldest first", "/api/v1/jobs?limit=50"),
    ("jobs, another page", "/api/v1/jobs?limit=50&after=jid0000000050"),
    ("jobs by state", "/api/v1/jobs?limit=50&state=pending"),
    ("jobs of a batch", "/api/v1/jobs?limit=50&batch=BID"),
    ("jobs that failed", "/api/v1/jobs?limit=50&state=failed"),
    ("batches", "/api/v1/batches?limit=50&order=newest"),
    ("a batch", "/api/v1/batches/BID"),
    ("a job", "/api/v1/jobs/JID"),
];

pub(super) fn client() -> Result<Client> {
    Ok(Client::builder().no_proxy().build()?)
}

/// The body of an answer that must be a good one.
pub(super) async fn get(client: &Client, address: &str, path: &str) -> Result<String> {
    let answer = client.get(format!("{address}{path}")).send().await.with_context(|| path.to_owned())?;
    let (status, text) = (answer.status(), answer.text().await?);
    ensure!(status.is_success(), "{path}: {status}: {text}");
    Ok(text)
}

/// Asks for everything, and checks that the lists know of all jobs.
pub(super) async fn all(address: &str, rows: u64) -> Result<Vec<Answered>> {
    let client = client()?;
    let batches: Value = serde_json::from_str(&get(&client, address, "/api/v1/batches").await?)?;
    let bid = batches["batches"][0]["bid"].as_str().context("no batch")?.to_owned();
    let mut answers = Vec::new();
    for (what, path) in ASKED {
        let path = path.replace("BID", &bid).replace("JID", "jid0000000007");
        let mut times = Vec::new();
        for _ in 0..=TIMES {
            let began = Instant::now();
            let text = get(&client, address, &path).await?;
            times.push(began.elapsed());
            check(&path, &text, rows)?;
        }
        let first = times.remove(0);
        times.sort_unstable();
        answers.push(Answered { what, first, then: times[times.len() / 2] });
    }
    Ok(answers)
}

/// A first page of all jobs says how many more there are.
fn check(path: &str, text: &str, rows: u64) -> Result<()> {
    if !path.starts_with("/api/v1/jobs?") || path.contains("after=") || path.contains("failed") {
        return Ok(());
    }
    let page: Value = serde_json::from_str(text)?;
    let shown = page["jobs"].as_array().map_or(0, Vec::len) as u64;
    let left = page["left"].as_u64().unwrap_or(0);
    ensure!(shown + left == rows, "{path} shows {shown} of {rows} jobs and knows of {left} more");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_nobody_waits_for_is_told() {
        let answered = |first, then| {
            let ms = Duration::from_millis;
            Answered { what: "jobs by state", first: ms(first), then: ms(then) }.is_slow(1_000_000)
        };
        assert_eq!(answered(1_900, 400), None);
        let told = answered(1_900, 600).unwrap();
        assert!(
            told.starts_with("jobs by state, 1000000 waiting, took 1.9s the first time and then 600ms"),
            "{told}"
        );
        assert!(answered(2_100, 1).is_some());
    }
}
