//! People change how a node works: the size of a pool, its configuration, a configuration that is wrong.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use ingest_harness::let_pass;
use reqwest::Method;
use rustix::process::Signal;
use serde_json::{Value, json};

use super::super::people;
use super::super::schedule::Planned;
use super::super::witness::Outcome;
use super::super::world::{LOOK, World};

const POOLS: [&str; 4] = ["downloading", "processing", "recording", "notify"];
const SEEN_WITHIN: Duration = Duration::from_secs(10);

fn pool(planned: &Planned) -> &'static str {
    POOLS[usize::try_from(planned.variant).unwrap_or(0) % POOLS.len()]
}

/// The size that a pool gets. Another than it has: a pool that does not change proves nothing.
fn another(variant: u32, pool: &Value) -> u64 {
    let is_now = |size: &u64| [&pool["size"], &pool["live"]].iter().any(|now| now.as_u64() == Some(*size));
    let wanted = u64::from(variant / 8 % 7);
    // Of three in a row one is neither of two.
    (wanted..wanted + 3).map(|size| 1 + size % 7).find(|size| !is_now(size)).unwrap_or(1)
}

/// A pool becomes larger or smaller, and then what its file says again.
pub(super) async fn resize(world: &World, planned: &Planned) -> Result<Outcome> {
    let name = pool(planned);
    let path = format!("/api/v1/pools/{name}");
    let told = format!("{} {name}", world.members[planned.node].name);
    let ask = |method, body| people_ask(world, planned.node, method, path.clone(), body);
    let Some(before) = ask(Method::GET, None).await else {
        return Ok(Outcome::Missed(format!("{told}: it does not answer")));
    };
    let size = another(planned.variant, &before);
    let told = format!("{told} to {size}");
    if ask(Method::PATCH, Some(json!({"size": size}))).await.is_none() {
        return Ok(Outcome::Missed(format!("{told}: it does not answer")));
    }
    let until = Instant::now() + SEEN_WITHIN;
    let mut live = None;
    while live != Some(size) && Instant::now() < until {
        live = ask(Method::GET, None).await.and_then(|pool| pool["live"].as_u64());
        let_pass(LOOK).await;
    }
    ask(Method::PATCH, Some(json!({"size": before["size"]}))).await;
    let text = format!("{told}, {live:?} live");
    Ok(if live == Some(size) { Outcome::Witnessed(text) } else { Outcome::Missed(text) })
}

/// A yes of this node, if it gives one.
async fn people_ask(
    world: &World,
    node: usize,
    method: Method,
    path: String,
    body: Option<Value>,
) -> Option<Value> {
    let answer = people::ask(world, node, method, &path, body.as_ref()).await.ok()?;
    answer.status.is_success().then_some(answer.body)
}

/// The file is changed, or made wrong, or SIGHUP is sent.
pub(super) async fn reload(world: &World, planned: &Planned) -> Result<Outcome> {
    let member = &world.members[planned.node];
    // Nobody kills it meanwhile: with a file that is wrong it would not start.
    let mut node = member.node().await;
    let (name, mark) = (pool(planned), member.tail.mark());
    let says = |message: &'static str, part: String| {
        member.tail.says(mark, SEEN_WITHIN, move |line| {
            line["message"] == message && line.to_string().contains(&part)
        })
    };
    let (what, seen) = match planned.variant / 4 % 3 {
        0 => {
            let key = format!("pools.{name}.size");
            let before = node.setup.value(&key).and_then(|size| size.parse::<i64>().ok()).unwrap_or(3);
            node.change(&key, before % 4 + 1);
            (format!("{key} from {before}"), says("applied", key).await)
        }
        1 => {
            node.setup.write(&format!("{}\n[pools.{name}x]\nsize = 1\n", node.setup.text()));
            let seen = says("the configuration is wrong", format!("{name}x")).await;
            node.setup.write(&node.setup.text());
            ("a wrong file".to_owned(), seen)
        }
        _ => {
            ensure!(node.process.is_running(), "{} has ended", member.name);
            node.process.signal(Signal::HUP);
            ("SIGHUP".to_owned(), says("reloaded", "SIGHUP".into()).await)
        }
    };
    let text = format!("{}, {what}", member.name);
    Ok(if seen.is_some() { Outcome::Witnessed(text) } else { Outcome::Missed(text) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_always_gets_another_size_than_it_has_and_the_same_one_for_a_seed() {
        for variant in (0..200).map(|step| step * 8) {
            for (size, live) in (1..=7).flat_map(|size| (0..=7).map(move |live| (size, live))) {
                let pool = json!({"size": size, "live": live});
                let new = another(variant, &pool);
                assert!((1..=7).contains(&new) && new != size && new != live, "{variant}: {pool} to {new}");
                assert_eq!(new, another(variant, &pool));
            }
            assert_ne!(another(variant, &json!({"size": 3, "live": null})), 3);
        }
    }
}
