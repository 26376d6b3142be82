//! What a million jobs are to one node and one server: `bench -- scale [--rows N]`.
//!
//! One ZooKeeper server with 8 GB, and `ingestd run` as a process. A manifest is handed over by `ingestd submit`, the node is
//! killed in the middle of its expansion and another life of it goes on; then as many jobs wait as the manifest has
//! rows, and it is measured what that costs: how long a node takes to start, what it takes of memory, how long its lists
//! and its dashboard take to answer, how long small requests take while large lists are asked for all the time, what it
//! costs to acquire a job. Beside each of these is the same with 100 jobs on the same server in the same run. Then the jobs are
//! worked on: in turn with those of small trees on the same server, once with a connection that is lost in the middle, and at last until
//! none is left and their batch is reported. The tree must be as fsck wants it.
//!
//! It fails if a row has no job or two (the payloads of all jobs are read back), if a node takes more than 600 MB, if something of the API does not answer, or if the tree is
//! not clean. With 10 s or more a part it also fails if a job is dearer by more than three tenths than among 100, and with 100,000 rows
//! or more if an answer takes too long ([`asking`]), if large lists make small requests wait ([`small`]), or if the work stands still for longer
//! than a session lasts after its node has listed everything again ([`working`]).

mod asking;
mod batch;
mod ending;
mod rows;
mod small;
mod working;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use ingest_harness::{Matcher, RequestKind};
use ingest_queue::map;
use ingest_queue::states::JobState;
use ingest_store::Session;
use ingest_store::recipes::look;
use tempfile::TempDir;

use self::batch::{Expanding, Killed};
use crate::acquire::{self, Queued};
use crate::node::daemon::{self, Daemon, Home, Pools};
use crate::report;
use crate::trees::{self, Opened, Trees, ZOOKEEPER};
use crate::{Context, scratch};

const ROWS: u64 = 1_000_000;
const FEW: u64 = 100;
/// From so many rows on everything is as in a real node.
const FULL: u64 = 100_000;
const HEAP: &str = "8g";
/// The most that a node may ever have had.
const MOST_MEMORY: u64 = 600_000_000;
/// The cost of a job is flat within 1.3.
const LEAST_RATIO: f64 = 1.0 / 1.3;
const WORKERS: usize = 128;
/// Nobody takes a job: all of them wait.
const WAITING: Pools = Pools { pending: 0, others: WORKERS };
const WORKING: Pools = Pools { pending: WORKERS, others: WORKERS };
const PARTS: usize = 12;
const CASE: &str = "zookeeper scale";

/// Runs the benchmark.
pub(crate) async fn run(context: Context) -> Result<()> {
    if !context.wants(CASE) {
        bail!("no such case; known is: {CASE}");
    }
    let rows = context.rows.unwrap_or(ROWS);
    ensure!(rows >= 2 * FEW, "fewer than {} rows are not many", 2 * FEW);
    let scale = Scale {
        trees: Trees::with_heap(HEAP).await?,
        dir: scratch::directory()?,
        program: daemon::program()?,
        context,
        rows,
    };
    scale.context.report.plan(PARTS);
    scale.measure().await
}

/// All that the parts share.
struct Scale {
    trees: Trees,
    dir: TempDir,
    program: PathBuf,
    context: Context,
    rows: u64,
}

/// What was seen of a node on whose tree so many jobs wait.
struct Seen {
    start: Duration,
    memory: daemon::Memory,
    answers: Vec<asking::Answered>,
}

impl Scale {
    async fn measure(&self) -> Result<()> {
        let few = self.part(&format!("{FEW} rows: expanded"));
        let home = self.deposit("few", FEW, false).await?.home;
        drop(few);
        let (few, home_of_few) = {
            let _part = self.part(&format!("{FEW} waiting: start, lists"));
            let (seen, daemon) = self.look(home, "few", FEW).await?;
            (seen, daemon.drain().await?)
        };
        let expanding = {
            let _part = self.part(&format!("{} rows: expanded, with a kill in the middle", self.rows));
            self.deposit("many", self.rows, true).await?
        };
        self.tell(&expanding)?;
        let bid = expanding.bid;
        let (many, daemon) = {
            let _part = self.part(&format!("{} waiting: start, lists", self.rows));
            self.look(expanding.home, "many", self.rows).await?
        };
        let mut wrong = self.compare(&few, &many)?;
        {
            let _part = self.part("small requests, alone and beside large lists");
            wrong.extend(small::measure(&self.context, &self.trees, &daemon.address()?, self.rows).await?);
        }
        if !self.judges() {
            wrong.clear();
        }
        let memory = daemon.memory()?.most;
        self.mb(&format!("node, most memory, {} waiting, lists asked for all the time", self.rows), memory)?;
        ensure!(memory < MOST_MEMORY, "the node had {memory} bytes, and may have {MOST_MEMORY}");
        let home = daemon.drain().await?;
        {
            let _part = self.part(&format!("acquiring one of {}, in turn with one of {FEW}", self.rows));
            wrong.extend(self.acquire().await?);
        }
        drop(home_of_few);
        let home = {
            let _part = self.part("worked on, in turn with small trees");
            self.work(home).await?
        };
        let home = {
            let _part = self.part("worked on, with a connection that is lost");
            let (home, long) = self.listed_again(home).await?;
            wrong.extend(long);
            home
        };
        {
            let _part = self.part("worked on until the batch is reported");
            wrong.extend(self.end(home, bid).await?);
        }
        self.mb("server, memory", self.trees.server_memory())?;
        {
            let _part = self.part("fsck");
            self.fsck().await?;
        }
        report::judge(&wrong)
    }

    /// Whether times are judged: with few rows and in a fraction of a second they say more about the machine.
    fn judges(&self) -> bool {
        self.rows >= FULL && self.context.judges()
    }

    fn part(&self, what: &str) -> crate::report::Part<'_> {
        self.context.report.part(what)
    }

    /// The tree of this name as a node finds it.
    fn engine(&self, name: &str) -> String {
        self.engine_at(&self.trees.address(name))
    }

    fn engine_at(&self, connect: &str) -> String {
        let timeout = self.session_timeout().as_secs();
        format!("[store.engine.zookeeper]\nconnect = '{connect}'\nsession_timeout = '{timeout}s'\n")
    }

    /// The one of the defaults; with few rows nobody wants to wait for it.
    fn session_timeout(&self) -> Duration {
        Duration::from_secs(if self.rows < FULL { 3 } else { 10 })
    }

    async fn open(&self, name: &str) -> Result<Opened> {
        self.trees.open(ZOOKEEPER, name).await
    }

    /// Hands a manifest over, and lets a node expand it; all its jobs wait.
    async fn deposit(&self, name: &str, rows: u64, killed: bool) -> Result<Expanding> {
        let manifest = self.dir.path().join(format!("{name}.checkm"));
        crate::manifest::write(&manifest, rows)?;
        let tree = self.open(name).await?;
        // A short manifest may be expanded before a busy machine lets this process kill the node. So the answer to the commit in the
        // middle is held back: the node cannot go on from there.
        let link = (killed && rows < FULL).then(|| self.trees.link());
        let engine = match &link {
            Some(link) => self.engine_at(&format!("{}/{name}", link.connect_string())),
            None => self.engine(name),
        };
        let daemon = Home::new(&engine)?.start(&self.program, WAITING).await?;
        let middle = link.as_ref().map(|link| {
            let commits = Matcher::kind(RequestKind::Multi).with_path("/expansion");
            link.stall_reply(commits.skip(batch::commits_before_the_middle(rows)))
        });
        let killed = match middle {
            Some(middle) => Killed::At(middle),
            None if killed => Killed::WhenSeen,
            None => Killed::Never,
        };
        let mut expanding =
            batch::expand(&self.program, daemon, &tree.session, &manifest, rows, killed).await?;
        expanding.home = expanding.home.on(&self.engine(name));
        self.all_wait(&tree.session, rows).await?;
        tree.close().await?;
        Ok(expanding)
    }

    /// Every row has one job, which waits.
    async fn all_wait(&self, session: &Session, rows: u64) -> Result<()> {
        // Beside the jobs there is the directory of the queues.
        for (dir, beside) in [(map::JOBS.to_owned(), 1), (map::queue(JobState::Pending), 0)] {
            let stat = look(session, || session.exists(dir.as_str()))
                .await?
                .with_context(|| format!("{dir} is missing"))?;
            let there = u64::try_from(stat.num_children)? - beside;
            ensure!(there == rows, "{dir} has {there} of {rows} jobs");
        }
        rows::check(session, rows).await
    }

    /// Starts a node on a tree where so many jobs wait, and asks for its lists.
    async fn look(&self, home: Home, name: &str, rows: u64) -> Result<(Seen, Daemon)> {
        let began = Instant::now();
        let daemon = home.start(&self.program, WAITING).await?;
        let start = began.elapsed();
        let answers = asking::all(&daemon.address()?, rows).await.with_context(|| name.to_owned())?;
        Ok((Seen { start, memory: daemon.memory()?, answers }, daemon))
    }

    fn tell(&self, expanding: &Expanding) -> Result<()> {
        let report = &self.context.report;
        let rows = self.rows;
        report.print(&report.row(
            format!("{rows} rows accepted"),
            expanding.accepted.as_secs_f64() * 1e3,
            "ms",
        ))?;
        report.print(&report.row(format!("{rows} rows expanded"), expanding.per_s, "per_s"))?;
        // Far below the 2^52 that a float counts exactly.
        #[allow(clippy::cast_precision_loss)]
        let at = expanding.killed_at as f64;
        report.print(&report.row(format!("{rows} rows: killed at row"), at, "rows"))?;
        let again = expanding.again.as_secs_f64() * 1e3;
        report.print(&report.row(format!("{rows} rows: from the kill to the next row"), again, "ms"))?;
        self.mb(&format!("node, most memory, {rows} rows expanded"), expanding.memory.most)?;
        ensure!(expanding.memory.most < MOST_MEMORY, "the node had {} bytes", expanding.memory.most);
        self.mb("server, memory, all rows expanded", self.trees.server_memory())
    }

    /// Says what was seen, and what took too long.
    fn compare(&self, few: &Seen, many: &Seen) -> Result<Vec<String>> {
        let mut slow = Vec::new();
        for (seen, rows) in [(few, FEW), (many, self.rows)] {
            let report = &self.context.report;
            let start = seen.start.as_secs_f64() * 1e3;
            report.print(&report.row(format!("start, {rows} waiting"), start, "ms"))?;
            self.mb(&format!("node, memory, {rows} waiting"), seen.memory.now)?;
            for answer in &seen.answers {
                let first = format!("{}, {rows} waiting, the first time", answer.what);
                report.print(&report.row(first, answer.first.as_secs_f64() * 1e3, "ms"))?;
                let then = format!("{}, {rows} waiting", answer.what);
                report.print(&report.row(then, answer.then.as_secs_f64() * 1e3, "ms"))?;
                slow.extend(answer.is_slow(rows));
            }
        }
        Ok(slow)
    }

    /// What a job costs among very many; said if it is too much.
    async fn acquire(&self) -> Result<Option<String>> {
        let few = Queued::open(self.open("few").await?, FEW).await?;
        let many = Queued::open(self.open("many").await?, self.rows).await?;
        let case = format!("{ZOOKEEPER} {} waiting", self.rows);
        let ratio = acquire::compare(&self.context, &case, ZOOKEEPER, few, many).await?;
        let short = || format!("one of {} is acquired at {ratio:.2} of the speed of one of {FEW}", self.rows);
        Ok((self.context.judges() && ratio < LEAST_RATIO).then(short))
    }

    async fn fsck(&self) -> Result<()> {
        let tree = self.open("many").await?;
        let began = Instant::now();
        trees::check(&tree.session).await?;
        tree.close().await?;
        let report = &self.context.report;
        report.print(&report.row(
            format!("fsck, {} jobs", self.rows),
            began.elapsed().as_secs_f64() * 1e3,
            "ms",
        ))
    }

    fn mb(&self, what: &str, bytes: u64) -> Result<()> {
        // Far below the 2^52 that a float counts exactly.
        #[allow(clippy::cast_precision_loss)]
        let mb = bytes as f64 / 1e6;
        self.context.report.print(&self.context.report.row(what, mb, "mb"))
    }
}

/// What `ingestd submit` says.
fn submit(program: &Path, address: &str, manifest: &Path) -> tokio::process::Command {
    let mut command = tokio::process::Command::new(program);
    command
        .args(["submit", "--json", "--profile", "herbarium_content", "--submitter", "herbarium/curators"])
        .args(["--type", "single-file-batch-manifest", "--server", address, "--manifest"])
        .arg(manifest)
        .kill_on_drop(true);
    command
}
