//! People at the API of the nodes: they ask one, and if that does not answer, the next.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use ingest_harness::let_pass;
use reqwest::{Client, Method, StatusCode};
use serde_json::Value;

use super::world::World;

const ANSWER_WITHIN: Duration = Duration::from_secs(12);
const PATIENCE: Duration = Duration::from_mins(3);
const PAUSE: Duration = Duration::from_millis(200);

/// What a node has answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) body: Value,
}

impl Answer {
    /// It may be asked again, here or elsewhere.
    fn is_passing(&self) -> bool {
        matches!(self.status.as_u16(), 408 | 429 | 500..)
    }
}

fn client() -> &'static Client {
    static CLIENT: OnceLock<Client> = OnceLock::new();
    CLIENT.get_or_init(|| {
        let built =
            Client::builder().no_proxy().timeout(ANSWER_WITHIN).connect_timeout(Duration::from_secs(2));
        built.build().unwrap_or_default()
    })
}

/// Asks one node once.
pub(crate) async fn ask(
    world: &World,
    node: usize,
    method: Method,
    path: &str,
    body: Option<&Value>,
) -> Result<Answer> {
    let member = &world.members[node % world.members.len()];
    let base = member.address().context("nobody knows where its API is")?;
    let request = client().request(method, format!("{base}{path}")).header("X-Ingestd", "1");
    let request = match body {
        Some(body) => request.json(body),
        None => request,
    };
    let answer = request.send().await?;
    let status = answer.status();
    let text = answer.text().await?;
    Ok(Answer { status, body: serde_json::from_str(&text).unwrap_or(Value::String(text)) })
}

/// Asks one node after the other, until one says yes or gives a reason why not. Only for what may be asked twice.
pub(crate) async fn settle(
    world: &World,
    node: usize,
    method: Method,
    path: &str,
    body: Option<&Value>,
) -> Result<Answer> {
    let until = Instant::now() + PATIENCE;
    let mut at = node;
    loop {
        let last = match ask(world, at, method.clone(), path, body).await {
            Ok(answer) if !answer.is_passing() => return Ok(answer),
            Ok(answer) => format!("{} {}", answer.status, answer.body),
            Err(error) => format!("{error:#}"),
        };
        if Instant::now() >= until {
            bail!("{method} {path} is answered by nobody; the last said: {last}");
        }
        at += 1;
        let_pass(PAUSE).await;
    }
}

/// The same, and it must be a yes.
pub(crate) async fn insist(
    world: &World,
    node: usize,
    method: Method,
    path: &str,
    body: Option<&Value>,
) -> Result<Value> {
    let answer = settle(world, node, method.clone(), path, body).await?;
    if !answer.status.is_success() {
        bail!("{method} {path} is refused: {} {}", answer.status, answer.body);
    }
    Ok(answer.body)
}
