//! `ingestd demo`: what there is today, shown on the real thing.
//!
//! That is the tree and its guarantees: two nodes share a job, one dies at work, the other goes on,
//! nothing is lost and nothing is done twice. And a deposit that becomes jobs, which walk through their
//! states without real work. Every line is what the tree has answered; if it answers anything else the demo fails.

mod deposit;

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use ingest_store::engine::Engine;
use ingest_store::engines::embedded::{Embedded, EmbeddedConfig};
use ingest_store::engines::zookeeper::{Zookeeper, ZookeeperConfig};
use ingest_store::recipes::lock_table::{Claim, LockTable};
use ingest_store::{Kind, Limits, Mode, Op, Session, Store, Woken};

/// The command's options.
#[derive(Debug, clap::Args)]
pub(super) struct Demo {
    /// Use this ensemble (host:port,host:port/chroot) instead of a tree in a temporary directory;
    /// what the demo makes below the chroot is removed at the end
    #[arg(long, value_name = "CONNECT")]
    zookeeper: Option<String>,

    /// End by itself; today it always does
    #[arg(long)]
    once: bool,
}

const JOB: &str = "/demo/jid0000000000";
const TRANSITIONS: u32 = 512;

impl Demo {
    pub(super) async fn run(self) -> Result<()> {
        match self.zookeeper {
            Some(connect) => {
                println!("A tree on the ZooKeeper ensemble {connect}.");
                let config = ZookeeperConfig {
                    connect_limit: Duration::from_secs(10),
                    ..ZookeeperConfig::new(connect)
                };
                show(Arc::new(Zookeeper::new(config)?)).await?;
            }
            None => embedded().await?,
        }
        println!();
        println!(
            "These are the tree and the model that stands on it. The real work of the states, the daemon, its API"
        );
        println!("and its dashboard are not there yet.");
        Ok(())
    }
}

async fn embedded() -> Result<()> {
    let dir = tempfile::tempdir().context("a temporary directory for the tree")?;
    let config = EmbeddedConfig::new(dir.path().join("tree"));
    println!("A tree in one file, {}: no server, no configuration.", config.dir.display());
    let tree = Embedded::open(&config)?;
    show(Arc::new(tree.clone())).await?;

    title("The process ends, and another opens the same directory");
    let second = Embedded::open(&config).err().context("two processes have opened one tree")?;
    println!("  while the first one lives: {second}");
    tree.close().await;
    let session = session(Arc::new(Embedded::open(&config)?)).await?;
    let (status, stat) = session.get("/kept").await?;
    println!("  afterwards: /kept is still {:?}, version {}", String::from_utf8_lossy(&status), stat.version);
    Ok(())
}

async fn show(engine: Arc<dyn Engine>) -> Result<()> {
    let (a, b) = (session(engine.clone()).await?, session(engine.clone()).await?);
    ensure!(a.exists("/demo").await?.is_none(), "/demo is there already: give the demo a chroot of its own");
    a.create_with_parents(format!("{JOB}/status"), "pending", Mode::Persistent).await?;

    title("Two nodes, one job");
    let (on_a, on_b) = (LockTable::new(&a), LockTable::new(&b));
    let token_a = on_a.acquire(claim("node-a", 0)).await?;
    println!("  node-a has taken it: lock and status in one commit, token {}", token_a.version());
    let refused =
        on_b.acquire(claim("node-b", token_a.version())).await.err().context("two nodes have one lock")?;
    println!("  node-b is refused:   {refused}");

    title("node-a dies at work");
    let (_, released) = b.watch_exists(format!("{JOB}/lock")).await?;
    a.close().await?;
    ensure!(released.woken().await == Woken::Deleted, "the lock has outlived its node");
    println!(
        "  its lock went with its session, and node-b was told: nobody has looked, nobody has waited for a timer"
    );
    let token_b = on_b.acquire(claim("node-b", token_a.version())).await?;
    println!("  node-b has taken the job: token {}", token_b.version());

    title("What node-a had under way arrives late");
    let late = b.multi(vec![token_a.set("completed"), Op::create("/demo/done-twice", "")]).await;
    let late = late.err().context("a commit with an old token was accepted")?;
    ensure!(late.kind() == Kind::BadVersion, "refused for another reason: {late}");
    println!("  refused as a whole:  {late}");
    b.multi(vec![token_b.set("completed"), Op::delete(format!("{JOB}/lock"), None)]).await?;
    on_b.gone(&token_b);
    println!("  node-b has completed it: {}", text(&b, &format!("{JOB}/status")).await?);

    title(&format!("{TRANSITIONS} transitions, each one atomic multi on disk"));
    let one_by_one = transitions(&b, 1).await?;
    let together = transitions(&b, 64).await?;
    let faster = together / one_by_one;
    println!("  one after the other: {one_by_one:.0} a second");
    println!("  64 side by side:     {together:.0} a second ({faster:.1} times as many)");

    remove(&b, "/demo").await?;
    deposit::show(session(engine.clone()).await?, b.clone()).await?;
    if engine.name() == "embedded" {
        b.create("/kept", "", Mode::Persistent).await?;
        b.set("/kept", "what was acknowledged", 0).await?;
    }
    b.close().await?;
    Ok(())
}

/// How many transitions a second a number of jobs makes side by side.
async fn transitions(session: &Session, jobs: u32) -> Result<f64> {
    let each = TRANSITIONS / jobs;
    session.make_dirs("/demo/states").await?;
    for job in 0..jobs {
        session.create_with_parents(format!("/demo/{jobs}-{job}/status"), "", Mode::Persistent).await?;
        session.create(format!("/demo/states/{jobs}-{job}-0"), "", Mode::Persistent).await?;
    }
    let started = Instant::now();
    let work = (0..jobs).map(|job| async move {
        for version in 0..each {
            let step = i32::try_from(version)?;
            let ops = vec![
                Op::set(format!("/demo/{jobs}-{job}/status"), format!("step {version}"), step),
                Op::delete(format!("/demo/states/{jobs}-{job}-{version}"), None),
                Op::create(format!("/demo/states/{jobs}-{job}-{}", version + 1), ""),
            ];
            session.multi(ops).await?;
        }
        anyhow::Ok(())
    });
    futures::future::try_join_all(work).await?;
    Ok(f64::from(each * jobs) / started.elapsed().as_secs_f64())
}

async fn session(engine: Arc<dyn Engine>) -> Result<Session> {
    Ok(Store::new(engine, Limits::default()).session().await?)
}

fn claim(node: &str, version: i32) -> Claim {
    Claim {
        lock: format!("{JOB}/lock"),
        owner: node.to_owned().into(),
        fence: format!("{JOB}/status"),
        version,
        data: format!("downloading on {node}").into(),
        more: Vec::new(),
        holder: node.to_owned(),
    }
}

async fn text(session: &Session, path: &str) -> Result<String> {
    Ok(String::from_utf8_lossy(&session.get(path).await?.0).into_owned())
}

async fn remove(session: &Session, path: &str) -> Result<()> {
    for name in session.children(path).await?.0 {
        Box::pin(remove(session, &format!("{path}/{name}"))).await?;
    }
    Ok(session.delete(path, None).await?)
}

fn title(text: &str) {
    println!();
    println!("{text}");
}
