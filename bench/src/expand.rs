//! How many jobs per second the queue makes from the rows of a batch.
//!
//! The baseline is the bare client on the server: multis of the same creates, as many in each as the
//! queue's hold, prepared beforehand and sent one after another, as the queue does: each of its multis moves the
//! cursor from where the one before has left it. On the server at least half of that is asked for.
//!
//! Beside it stands what the server takes in from somebody who need not care where to go on: the same multis, 64 in
//! flight. Nothing is asked for of that.
//!
//! After each part the tree is read back: as many jobs as were acknowledged, each with all its nodes, in
//! the queue and in the list of its batch; fsck of what the queue has made is clean.

use anyhow::{Context as _, Result, bail, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use ingest_queue::committer::MAX_OPS;
use ingest_queue::date::Clock;
use ingest_queue::dialect::Dialect;
use ingest_queue::ids::{Bid, Jid};
use ingest_queue::map;
use ingest_queue::plan::Scene;
use ingest_queue::plan::job::{self, NewJob};
use ingest_queue::states::{BatchList, JobState};
use ingest_store::{Op, Session};

use crate::Context;
use crate::bare::Bare;
use crate::ceiling::IN_FLIGHT;
use crate::deposit::{Deposit, ROWS, new_jobs};
use crate::load::{self, Rounds};
use crate::report;
use crate::trees::{self, ENGINES, Trees, ZOOKEEPER};

/// What is asked for of the bare client's rate, on the same server.
const LEAST: f64 = 0.5;
const BASELINE: &str = "bare chunked creates";
const PIPELINED: &str = "bare chunked creates c=64";
/// How many rounds of the queue the bare client prepares at once if its multis are pipelined: the end of a round, when
/// ever fewer are in flight, is to be a small part of it.
const LONGER: usize = 8;
/// More than any run reaches.
const TOTAL: u64 = u32::MAX as u64;
/// What else is in each multi of the queue: its fence, the numbers and the cursor.
const BESIDE: usize = 3;

fn case(engine: &str) -> String {
    format!("{engine} jobs")
}

/// Runs the benchmark.
pub(crate) async fn run(context: Context) -> Result<()> {
    let engines: Vec<_> = ENGINES.into_iter().filter(|engine| context.wants(&case(engine))).collect();
    if engines.is_empty() {
        bail!("no such case; known are: {}", ENGINES.map(case).join(", "));
    }
    context.report.plan(engines.len() + 5);
    // All that the baselines make stays, too.
    let trees = Trees::large().await?;
    let baseline = async |(what, rows, in_flight): (&str, usize, usize), when: &str, span| {
        let _part = context.report.part(&format!("{what}, {when}"));
        let name = format!("{when}-{in_flight}");
        let tree = trees.open(ZOOKEEPER, &name).await?;
        let deposit = Deposit::begin(&tree.session, TOTAL).await?;
        let bare = trees.bare(&name).await?;
        let mut creates = Creates { bare, bid: deposit.bid(), next: 0, rows, in_flight };
        let per_s = load::in_rounds(&mut creates, span).await.context(what.to_owned())?;
        verify(&tree.session, deposit.bid(), creates.next).await?;
        tree.close().await?;
        anyhow::Ok(per_s)
    };
    let (chunked, pipelined) = ((BASELINE, ROWS, 1), (PIPELINED, ROWS * LONGER, IN_FLIGHT));
    baseline(chunked, "warming-up", context.server_warm_up()).await?;
    let before = baseline(chunked, "before", context.span).await?;
    let before_pipelined = baseline(pipelined, "before", context.span).await?;
    let mut ours = Vec::new();
    for engine in engines {
        let case = case(engine);
        let _part = context.report.part(&case);
        let tree = trees.open(engine, &format!("jobs-{engine}")).await?;
        let mut deposit = Deposit::begin(&tree.session, TOTAL).await?;
        let per_s = load::in_rounds(&mut deposit, context.span).await.context(case.clone())?;
        let made = verify(&tree.session, deposit.bid(), deposit.next()).await?;
        let cursor = deposit.queue.expansion(deposit.bid()).await?.map(|expansion| expansion.next);
        ensure!(cursor == Some(deposit.next()), "{case}: the cursor is at {cursor:?} after {made} jobs");
        drop(deposit.end().await?);
        trees::check(&tree.session).await.context(case.clone())?;
        tree.close().await?;
        ours.push((case, per_s, made));
    }
    let all_pipelined = f64::midpoint(before_pipelined, baseline(pipelined, "after", context.span).await?);
    let baseline = f64::midpoint(before, baseline(chunked, "after", context.span).await?);
    let mut short = Vec::new();
    for (case, per_s, made) in ours {
        let row = context.report.row(case.as_str(), per_s, "per_s").against(BASELINE, baseline);
        context.report.print(&row)?;
        if context.judges() && case.starts_with(ZOOKEEPER) {
            short.extend(row.falls_short(LEAST));
        }
        let row = context.report.row(format!("{case}, beside pipelined ones"), per_s, "per_s");
        context.report.print(&row.against(PIPELINED, all_pipelined))?;
        // Far below the 2^52 that a float counts exactly.
        #[allow(clippy::cast_precision_loss)]
        let made = made as f64;
        context.report.print(&context.report.row(format!("{case} read back"), made, "jobs"))?;
    }
    report::judge(&short)
}

impl Rounds for Deposit {
    type Round = Vec<NewJob>;

    async fn prepare(&mut self) -> Result<Vec<NewJob>> {
        Ok(new_jobs(self.next(), ROWS))
    }

    async fn play(&mut self, jobs: Vec<NewJob>) -> Result<u64> {
        self.expand(&jobs).await?;
        Ok(jobs.len() as u64)
    }
}

/// The bare client, which makes the jobs of a batch.
#[derive(Debug)]
struct Creates {
    bare: Bare,
    bid: Bid,
    next: u64,
    /// How many rows a round has,
    rows: usize,
    /// and how many of its multis are sent before the first is answered.
    in_flight: usize,
}

impl Rounds for Creates {
    type Round = Vec<Vec<Op>>;

    async fn prepare(&mut self) -> Result<Vec<Vec<Op>>> {
        let mut jobs = Vec::with_capacity(self.rows);
        for (number, new) in (self.next..).zip(new_jobs(self.next, self.rows)) {
            jobs.push(creates(u32::try_from(number)?, self.bid, &new));
        }
        let per_multi = (MAX_OPS - BESIDE) / jobs[0].len();
        Ok(jobs.chunks(per_multi).map(<[_]>::concat).collect())
    }

    async fn play(&mut self, multis: Vec<Vec<Op>>) -> Result<u64> {
        let bare = &self.bare;
        stream::iter(multis)
            .map(async |multi| bare.create_all(&multi).await)
            .buffer_unordered(self.in_flight)
            .try_collect::<()>()
            .await?;
        self.next += self.rows as u64;
        Ok(self.rows as u64)
    }
}

fn creates(number: u32, bid: Bid, new: &NewJob) -> Vec<Op> {
    let now = Clock::system().now();
    let scene = Scene { dialect: Dialect::Design, now, node: String::new(), commit: String::new() };
    job::create(Jid::new(number), bid, new, &scene)
}

/// Reads the jobs back, and returns how many they are.
async fn verify(session: &Session, bid: Bid, acknowledged: u64) -> Result<u64> {
    session.sync().await?;
    let nodes = creates(0, bid, &new_jobs(0, 1)[0]);
    let nodes = nodes.iter().filter(|op| op.path().starts_with(&map::job(Jid::new(0)))).count() - 1;
    let names = session.children(map::JOBS).await?.0;
    let jobs: Vec<Jid> = names.iter().filter_map(|name| name.parse().ok()).collect();
    let made = jobs.len() as u64;
    ensure!(made == acknowledged, "{made} jobs are there, but {acknowledged} were acknowledged");
    for list in [map::queue(JobState::Pending), map::batch_list(bid, BatchList::Processing)] {
        let refs = session.exists(list.as_str()).await?.map(|stat| i64::from(stat.num_children));
        ensure!(refs == i64::try_from(made).ok(), "{list} has {refs:?} refs of {made} jobs");
    }
    stream::iter(jobs)
        .map(async |jid| {
            let found = session.exists(map::job(jid)).await?.map(|stat| stat.num_children);
            ensure!(found == i32::try_from(nodes).ok(), "{jid} has {found:?} nodes, and not {nodes}");
            Ok(())
        })
        .buffer_unordered(IN_FLIGHT)
        .try_collect::<()>()
        .await?;
    Ok(made)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch;
    use crate::trees::embedded_at;

    #[tokio::test]
    async fn the_bare_creates_are_those_of_the_queue() {
        let dir = scratch::directory().unwrap();
        let session = embedded_at(dir.path()).await.unwrap().session;
        let mut deposit = Deposit::begin(&session, TOTAL).await.unwrap();
        let round = deposit.prepare().await.unwrap();
        assert_eq!(deposit.play(round).await.unwrap(), ROWS as u64);
        assert_eq!(verify(&session, deposit.bid(), ROWS as u64).await.unwrap(), ROWS as u64);
        for op in creates(7, deposit.bid(), &new_jobs(7, 1)[0]) {
            let Op::Create { path, data, .. } = op else { panic!("{op:?}") };
            let (found, _) = session.get(path.as_str()).await.unwrap();
            assert_eq!(found.len(), data.len(), "{path}");
        }
    }

    #[tokio::test]
    async fn jobs_that_are_not_there_are_missed() {
        let dir = scratch::directory().unwrap();
        let session = embedded_at(dir.path()).await.unwrap().session;
        let mut deposit = Deposit::begin(&session, TOTAL).await.unwrap();
        deposit.expand(&new_jobs(0, 3)).await.unwrap();
        let missed = async |jobs| verify(&session, deposit.bid(), jobs).await.unwrap_err().to_string();
        assert!(missed(4).await.contains("3 jobs are there, but 4"));
        let metadata = format!("{}/metadata", map::job(Jid::new(1)));
        session.delete(metadata, None).await.unwrap();
        assert!(missed(3).await.contains("jid0000000001 has Some(6) nodes, and not 7"));
    }
}
