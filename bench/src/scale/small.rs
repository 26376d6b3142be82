//! Small requests beside large lists: a write of another session on the same server, and one job shown by the node that makes
//! the lists. Then the same beside another who asks the server itself for all names of the queue, one time after
//! another, as a node does when it starts, after a reconnect and with the sweep; and beside three who ask at the same moment, as three nodes do
//! that have lost the same server.
//!
//! They are stalled if 99 of 100 take longer than ten times what they take alone and, on top of that, 50 ms beside lists, which come
//! from what the node has, or 250 ms beside listings, each of which the server answers before it turns to others. Of three at the same moment nothing
//! is asked.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use futures::future::try_join_all;
use ingest_queue::map;
use ingest_queue::states::JobState;
use ingest_store::recipes::{look, settle};
use ingest_store::{Mode, Session};

use super::asking::{client, get};
use crate::Context;
use crate::trees::{Opened, Trees, ZOOKEEPER};

/// Large lists, none of which another one answers.
const LARGE: &[&str] = &[
    "/api/v1/jobs?limit=50&order=newest",
    "/api/v1/jobs?limit=50&state=pending",
    "/api/v1/jobs?limit=50&batch=bid0000000000",
    "/api/v1/jobs?limit=50&state=pending&after=jid0000000100",
];
const ONE: &str = "/api/v1/jobs/jid0000000007";
const PLACE: &str = "/small";
/// How many list at the same moment.
const AT_ONCE: usize = 3;

/// When small requests are stalled: so many times what they take alone,
const TIMES_ALONE: f64 = 10.0;
/// and so many milliseconds more beside lists, and beside listings.
const BESIDE_MS: [f64; 2] = [50.0, 250.0];

/// What is stalled, by the milliseconds that 99 of 100 take alone, beside lists and beside listings.
fn stalled(what: &str, p99: [f64; 3]) -> Vec<String> {
    let [alone, beside @ ..] = p99;
    let mut stalled = Vec::new();
    for ((ms, more), who) in beside.into_iter().zip(BESIDE_MS).zip(["lists", "listings"]) {
        let most = TIMES_ALONE * alone + more;
        if ms > most {
            stalled.push(format!("{what}: p99 of {ms:.1} ms beside {who}, {alone:.1} ms alone; at most {most:.1} ms is asked for"));
        }
    }
    stalled
}

/// Times of one kind of request.
#[derive(Debug, Default)]
struct Times(Vec<Duration>);

impl Times {
    fn ms(&mut self, percent: usize) -> f64 {
        self.0.sort_unstable();
        let at = (self.0.len() * percent / 100).min(self.0.len().saturating_sub(1));
        self.0.get(at).map_or(0.0, |time| time.as_secs_f64() * 1e3)
    }
}

/// Says how long they take, and which of them are stalled.
pub(super) async fn measure(
    context: &Context,
    trees: &Trees,
    address: &str,
    rows: u64,
) -> Result<Vec<String>> {
    let tree = trees.open(ZOOKEEPER, "small").await?;
    tree.session.create(PLACE, "", Mode::Persistent).await?;
    let span = context.span.measured;
    let alone = both(&tree.session, address, span).await?;
    let lists = async {
        let client = client()?;
        let mut asked = 0_u32;
        for path in LARGE.iter().cycle() {
            get(&client, address, path).await?;
            asked += 1;
            // Never: whoever waits for the other ends this.
            if asked == u32::MAX {
                break;
            }
        }
        anyhow::Ok(())
    };
    let beside = tokio::select! {
        beside = both(&tree.session, address, span) => beside?,
        ended = lists => return Err(ended.err().unwrap_or_else(|| anyhow::anyhow!("the lists have ended"))),
    };
    let (listed, listing) = beside_listings(trees, &tree.session, address, span, rows, 1).await?;
    let (crowded, crowd) = beside_listings(trees, &tree.session, address, span, rows, AT_ONCE).await?;
    tree.close().await?;
    let report = &context.report;
    let kinds = [
        ("a small write", [alone.0, beside.0, listed.0, crowded.0]),
        ("one job shown", [alone.1, beside.1, listed.1, crowded.1]),
    ];
    let beside = [
        "alone".to_owned(),
        format!("beside lists of {rows}"),
        format!("beside listings of {rows}"),
        format!("beside {AT_ONCE} listings of {rows} at once"),
    ];
    let mut wrong = Vec::new();
    for (what, mut times) in kinds {
        for (name, percent) in [("median", 50), ("p99", 99), ("longest", 100)] {
            for (times, beside) in times.iter_mut().zip(&beside) {
                report.print(&report.row(format!("{what}, {name}, {beside}"), times.ms(percent), "ms"))?;
            }
        }
        let [alone, beside, listed, _] = times.each_mut().map(|times| times.ms(99));
        wrong.extend(stalled(what, [alone, beside, listed]));
    }
    let listings =
        [(format!("a listing of {rows}"), listing), (format!("{AT_ONCE} listings of {rows} at once"), crowd)];
    for (what, mut times) in listings {
        for (name, percent) in [("median", 50), ("longest", 100)] {
            report.print(&report.row(format!("{what}, {name}"), times.ms(percent), "ms"))?;
        }
    }
    Ok(wrong)
}

/// The same while so many other sessions list the whole queue again and again, each time all at the same moment; and how long
/// it took until all had their list.
async fn beside_listings(
    trees: &Trees,
    session: &Session,
    address: &str,
    span: Duration,
    rows: u64,
    listers: usize,
) -> Result<((Times, Times), Times)> {
    let listers = try_join_all((0..listers).map(|_| trees.open(ZOOKEEPER, "many"))).await?;
    let queue = map::queue(JobState::Pending);
    let list = async |lister: &Opened| {
        let (names, _) = look(&lister.session, || lister.session.children(queue.as_str())).await?;
        ensure!(names.len() as u64 == rows, "{} of {rows} names were listed", names.len());
        Ok(())
    };
    let listing = times(span, async || try_join_all(listers.iter().map(&list)).await.map(drop));
    let found = tokio::try_join!(both(session, address, span), listing)?;
    for lister in listers {
        lister.close().await?;
    }
    Ok(found)
}

/// Both kinds side by side, each one request after another.
async fn both(session: &Session, address: &str, span: Duration) -> Result<(Times, Times)> {
    let client = client()?;
    let write =
        async || settle(session, || session.set(PLACE, "x", None)).await.answer.map(drop).map_err(Into::into);
    let show = async || get(&client, address, ONE).await.map(drop);
    tokio::try_join!(times(span, write), times(span, show))
}

async fn times(span: Duration, request: impl AsyncFn() -> Result<()>) -> Result<Times> {
    let (began, mut times) = (Instant::now(), Times::default());
    while times.0.is_empty() || began.elapsed() < span {
        let asked = Instant::now();
        request().await?;
        times.0.push(asked.elapsed());
    }
    Ok(times)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_request_may_wait_for_a_listing_and_not_for_many() {
        assert_eq!(stalled("a small write", [0.8, 3.6, 57.6]), Vec::<String>::new());
        let both = stalled("a small write", [0.8, 58.1, 300.0]);
        assert_eq!(both.len(), 2, "{both:?}");
        assert!(both[0].starts_with("a small write: p99 of 58.1 ms beside lists, 0.8 ms alone"), "{both:?}");
        assert!(stalled("a small write", [20.0, 240.0, 440.0]).is_empty(), "a busy machine is no stall");
    }
}
