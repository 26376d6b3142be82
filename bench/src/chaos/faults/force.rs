//! People take a job away from whoever works on it (`--force`): its worker goes on, and what it commits is refused.

use std::time::Duration;

use anyhow::Result;
use ingest_harness::let_pass;
use ingest_queue::ids::Jid;
use ingest_queue::map::JobNode;
use reqwest::Method;
use serde_json::json;

use super::super::people;
use super::super::schedule::Planned;
use super::super::witness::Outcome;
use super::super::world::{LOOK, World, working};

/// Looks for somebody at work, and jobs that are taken away.
const LOOKS: usize = 100;
const TRIES: usize = 4;
/// How long a step may go on before it wants to commit something.
const REFUSED_WITHIN: Duration = Duration::from_secs(8);
const LET_GO: &str = "let go: it is not this node's any more";

pub(super) async fn rob(world: &World, planned: &Planned) -> Result<Outcome> {
    let (mut last, mut tries) = ("nobody worked on anything".to_owned(), 0);
    for number in 0..LOOKS {
        let Some(jid) = locked(world, number).await? else {
            let_pass(LOOK).await;
            continue;
        };
        let marks: Vec<usize> = world.members.iter().map(|member| member.tail.mark()).collect();
        let body = json!({"priority": planned.variant / 4 % 90, "force": true, "reason": "chaos"});
        let path = format!("/api/v1/jobs/{jid}/priority");
        world.ledger.rob(jid);
        let answer = people::settle(world, planned.node, Method::PUT, &path, Some(&body)).await?;
        last = format!("{jid}: {}, and nobody let it go", answer.status);
        tries += 1;
        if answer.status.is_success() && is_let_go(world, &marks, jid).await {
            return Ok(Outcome::Witnessed(format!("{jid}, whose worker let it go")));
        }
        if tries == TRIES {
            break;
        }
    }
    Ok(Outcome::Missed(last))
}

/// A job that somebody works on.
async fn locked(world: &World, number: usize) -> Result<Option<Jid>> {
    let jids: Vec<Jid> = world.jobs(working()).await?.into_iter().map(|job| job.jid).collect();
    let locks = world.get_all(jids.iter().map(|jid| JobNode::Lock.of(*jid)).collect()).await?;
    let locked: Vec<Jid> = jids.into_iter().zip(locks).filter_map(|(jid, lock)| lock.map(|_| jid)).collect();
    Ok(locked.get(number % locked.len().max(1)).copied())
}

/// Whether a node says of this job that it was refused.
async fn is_let_go(world: &World, marks: &[usize], jid: Jid) -> bool {
    let name = jid.to_string();
    let until = std::time::Instant::now() + REFUSED_WITHIN;
    loop {
        let said = world.members.iter().zip(marks).any(|(member, mark)| {
            let said = member
                .tail
                .since(*mark, |line| line["message"] == LET_GO && line.to_string().contains(&name));
            said.is_some()
        });
        if said || std::time::Instant::now() >= until {
            return said;
        }
        let_pass(LOOK).await;
    }
}
