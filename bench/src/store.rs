//! What the two engines commit per second through one [`Session`], at several numbers of requests in
//! flight.
//!
//! For each kind of work the order is: bare client, ours on the same server, ours on the embedded
//! engine, bare client again. The baseline of both engines is the mean of the bare client's two
//! figures: for `zookeeper` the ratio says what our layer costs, for `embedded` how the engine compares
//! with a real server.
//!
//! After each part the tree is read back, and has to say the same as the acknowledgements did.

use std::collections::HashMap;
use std::ops::ControlFlow;

use anyhow::{Context as _, Result, bail, ensure};
use bytes::Bytes;
use ingest_store::{Mode, Op, Session};

use crate::Context;
use crate::ceiling::Ceiling;
use crate::job::{BATCH_STATUS, Job, STATES, Tree};
use crate::load::{self, Span, Worker};
use crate::trees::{EMBEDDED, ENGINES, Trees, ZOOKEEPER};

/// What a worker does in one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    /// One transition.
    Multi,
    /// Take the lock, then a transition that also gives it back.
    LockAndMulti,
    /// The transitions of this many jobs in one multi.
    ManyPerMulti(u16),
    /// Take the lock and give it back.
    Lock,
}

/// A kind of work and how many do it at once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Workload {
    pub(crate) work: Work,
    pub(crate) tasks: usize,
}

const WORKLOADS: &[Workload] = &[
    Workload { work: Work::Multi, tasks: 1 },
    Workload { work: Work::Multi, tasks: 8 },
    Workload { work: Work::Multi, tasks: 64 },
    Workload { work: Work::Multi, tasks: 256 },
    Workload { work: Work::LockAndMulti, tasks: 1 },
    Workload { work: Work::LockAndMulti, tasks: 64 },
    Workload { work: Work::ManyPerMulti(16), tasks: 8 },
    Workload { work: Work::Lock, tasks: 64 },
];

impl Workload {
    /// What follows the engine in the name of its case.
    pub(crate) fn name(&self) -> String {
        match self.work {
            Work::Multi => format!("c={}", self.tasks),
            Work::LockAndMulti => format!("lock + multi c={}", self.tasks),
            Work::ManyPerMulti(jobs) => format!("{jobs} per multi c={}", self.tasks),
            Work::Lock => format!("lock create/delete c={}", self.tasks),
        }
    }

    fn case(&self, engine: &str) -> String {
        format!("{engine} {}", self.name())
    }

    pub(crate) fn baseline(&self, engine: &str) -> String {
        match (engine, self.work) {
            (ZOOKEEPER, Work::Multi) => format!("bare 5-op multi {}", self.name()),
            (ZOOKEEPER, _) => format!("bare {}", self.name()),
            _ => format!("zookeeper server {}", self.name()),
        }
    }

    /// How many jobs each task has, and how many things that count one step does.
    fn jobs_per_task(&self) -> u16 {
        match self.work {
            Work::ManyPerMulti(jobs) => jobs,
            Work::Multi | Work::LockAndMulti | Work::Lock => 1,
        }
    }

    fn engines(&self, context: &Context) -> Vec<&'static str> {
        ENGINES.into_iter().filter(|engine| context.wants(&self.case(engine))).collect()
    }
}

/// Runs the benchmark.
pub(crate) async fn run(context: Context) -> Result<()> {
    let chosen: Vec<_> = WORKLOADS
        .iter()
        .map(|workload| (workload, workload.engines(&context)))
        .filter(|(_, engines)| !engines.is_empty())
        .collect();
    if chosen.is_empty() {
        let known: Vec<_> = WORKLOADS.iter().map(Workload::name).collect();
        bail!("no such case; known are, after `zookeeper ` or `embedded `: {}", known.join(", "));
    }
    context.report.plan(1 + chosen.iter().map(|(_, engines)| engines.len() + 2).sum::<usize>());
    let trees = Trees::start().await?;
    let Ceiling { bare, reader: zookeeper } = Ceiling::warmed_up(&trees, &context).await?;
    let embedded = trees.open(EMBEDDED, "embedded").await?;
    make_parents(&embedded.session).await?;
    for (workload, engines) in chosen {
        let baseline = async || {
            let what = format!("bare client {}", workload.name());
            let _part = context.report.part(&what);
            measure(&bare, &zookeeper, workload, context.span).await.context(what)
        };
        let before = baseline().await?;
        let mut ours = Vec::new();
        for engine in engines {
            let session = if engine == ZOOKEEPER { &zookeeper } else { &embedded.session };
            let case = workload.case(engine);
            let _part = context.report.part(&case);
            ours.push((engine, measure(session, session, workload, context.span).await.context(case)?));
        }
        let baseline = f64::midpoint(before, baseline().await?);
        for (engine, value) in ours {
            let row = context.report.row(workload.case(engine), value, "per_s");
            context.report.print(&row.against(workload.baseline(engine), baseline))?;
        }
    }

    embedded.close().await?;
    zookeeper.close().await?;
    Ok(())
}

/// What has to be there before anything is measured.
pub(crate) async fn make_parents(session: &Session) -> Result<()> {
    for state in STATES {
        session.make_dirs(&format!("/jobs/states/{state}")).await?;
    }
    session.create_with_parents(BATCH_STATUS, r#"{"status":"processing"}"#, Mode::Persistent).await?;
    Ok(())
}

/// One part: makes the jobs, lets `tree` work on them, and checks by `reader`, which sees the same tree,
/// that all of it happened. Returns transitions, or pairs of lock and unlock, per second.
pub(crate) async fn measure<T: Tree>(
    tree: &T,
    reader: &Session,
    workload: &Workload,
    span: Span,
) -> Result<f64> {
    let mut running = Running::begin(tree, reader, workload).await?;
    let per_s = running.go_on(span).await?;
    running.end().await?;
    Ok(per_s)
}

/// Jobs that are worked on, in one part or in several.
#[derive(Debug)]
pub(crate) struct Running<T> {
    reader: Session,
    workload: Workload,
    tasks: Vec<Task<T>>,
    completed: u64,
}

impl<T: Tree> Running<T> {
    /// Makes the jobs; `reader` sees the same tree as `tree`.
    pub(crate) async fn begin(tree: &T, reader: &Session, workload: &Workload) -> Result<Self> {
        let per_task = workload.jobs_per_task();
        let jobs: Vec<_> = (0..workload.tasks * usize::from(per_task)).map(Job::new).collect();
        create(reader, &jobs).await?;
        let task = |jobs: &[Job]| Task { tree: tree.clone(), work: workload.work, jobs: jobs.to_vec() };
        let tasks = jobs.chunks(per_task.into()).map(task).collect();
        Ok(Self { reader: reader.clone(), workload: *workload, tasks, completed: 0 })
    }

    /// Transitions, or pairs of lock and unlock, per second.
    pub(crate) async fn go_on(&mut self, span: Span) -> Result<f64> {
        let outcome = load::run(std::mem::take(&mut self.tasks), span).await?;
        self.tasks = outcome.workers;
        self.completed += outcome.completed;
        Ok(outcome.per_s * f64::from(self.workload.jobs_per_task()))
    }

    /// Checks that all of it happened, and removes the jobs.
    pub(crate) async fn end(self) -> Result<()> {
        let per_task = u64::from(self.workload.jobs_per_task());
        let jobs: Vec<_> = self.tasks.into_iter().flat_map(|task| task.jobs).collect();
        let transitions = if self.workload.work == Work::Lock { 0 } else { self.completed * per_task };
        verify(&self.reader, &jobs, transitions).await?;
        remove(&self.reader, &jobs).await
    }
}

/// One of those that are at work at once, with jobs that nobody else touches.
#[derive(Debug)]
struct Task<T> {
    tree: T,
    work: Work,
    jobs: Vec<Job>,
}

impl<T: Tree> Worker for Task<T> {
    async fn step(&mut self) -> Result<ControlFlow<()>> {
        let lock = matches!(self.work, Work::LockAndMulti | Work::Lock);
        if lock {
            for job in &mut self.jobs {
                self.tree.lock(job).await?;
                job.locks += 1;
            }
        }
        if self.work == Work::Lock {
            for job in &self.jobs {
                self.tree.unlock(job).await?;
            }
            return Ok(ControlFlow::Continue(()));
        }
        self.tree.commit(&self.jobs, lock).await?;
        self.jobs.iter_mut().for_each(Job::advance);
        Ok(ControlFlow::Continue(()))
    }
}

impl Tree for Session {
    async fn commit(&self, jobs: &[Job], locked: bool) -> Result<()> {
        let mut ops = Vec::with_capacity(jobs.len() * 6);
        for job in jobs {
            let (from, to) = (job.stage(), job.next_stage());
            ops.push(Op::set(job.status.as_str(), to.status.clone(), job.version));
            ops.push(Op::delete(from.queue_ref.as_str(), None));
            ops.push(Op::create(to.queue_ref.as_str(), Bytes::new()));
            ops.push(Op::set(job.history.as_str(), to.history.clone(), None));
            ops.push(Op::check(BATCH_STATUS, 0));
            if locked {
                ops.push(Op::delete(job.lock.as_str(), None));
            }
        }
        self.multi(ops).await?;
        Ok(())
    }

    async fn lock(&self, job: &Job) -> Result<()> {
        self.create(job.lock.as_str(), job.owner.clone(), Mode::Ephemeral).await?;
        Ok(())
    }

    async fn unlock(&self, job: &Job) -> Result<()> {
        self.delete(job.lock.as_str(), None).await?;
        Ok(())
    }
}

/// How many jobs are made or removed in one multi.
const CHUNK: usize = 64;

async fn create(session: &Session, jobs: &[Job]) -> Result<()> {
    for jobs in jobs.chunks(CHUNK) {
        let ops = jobs.iter().flat_map(|job| {
            let stage = job.stage();
            [
                Op::create(job.node.as_str(), Bytes::new()),
                Op::create(job.status.as_str(), stage.status.clone()),
                Op::create(job.history.as_str(), stage.history.clone()),
                Op::create(stage.queue_ref.as_str(), Bytes::new()),
            ]
        });
        session.multi(ops.collect()).await?;
    }
    Ok(())
}

async fn remove(session: &Session, jobs: &[Job]) -> Result<()> {
    for jobs in jobs.chunks(CHUNK) {
        let paths =
            jobs.iter().flat_map(|job| [&job.stage().queue_ref, &job.history, &job.status, &job.node]);
        session.multi(paths.map(|path| Op::delete(path.as_str(), None)).collect()).await?;
    }
    Ok(())
}

/// Reads the jobs back: as many transitions as were acknowledged, one ref each, locks as often taken
/// as given back.
async fn verify(session: &Session, jobs: &[Job], transitions: u64) -> Result<()> {
    session.sync().await?;
    let mut refs: HashMap<String, Vec<&str>> = HashMap::new();
    for state in STATES {
        for name in session.children(format!("/jobs/states/{state}")).await?.0 {
            let id = name.split_once('-').map_or("", |(_, id)| id).to_owned();
            refs.entry(id).or_default().push(state);
        }
    }
    let mut committed = 0;
    for job in jobs {
        let (_, status) = session.get(job.status.as_str()).await?;
        let (version, acknowledged) = (status.version, job.version);
        ensure!(
            version == acknowledged,
            "{} has version {version}, but {acknowledged} transitions were acknowledged",
            job.status
        );
        committed += u64::try_from(version)?;
        let (expected, found) = ([job.stage().state], refs.remove(&job.id).unwrap_or_default());
        ensure!(found == expected, "{} has refs in {found:?}, and should have one in {expected:?}", job.id);
        let (children, node) = session.children(job.node.as_str()).await?;
        ensure!(children.len() == 2, "{} has the children {children:?} after the work", job.node);
        // The counter has the two nodes that stay, too.
        let (locks, taken) = (node.next_sequence() - 2, job.locks);
        ensure!(locks == taken, "{} was locked {locks} times, but {taken} were acknowledged", job.node);
    }
    ensure!(
        committed == transitions,
        "the versions of the status nodes add up to {committed}, but {transitions} transitions were acknowledged"
    );
    ensure!(refs.is_empty(), "there are refs of jobs that nobody made: {refs:?}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch;
    use crate::trees::embedded_at;

    #[test]
    fn a_case_begins_with_its_engine_and_names_its_baseline() {
        let names: Vec<_> = WORKLOADS
            .iter()
            .map(|w| (w.case(ZOOKEEPER), w.baseline(ZOOKEEPER), w.baseline(EMBEDDED)))
            .collect();
        let find = |case: &str| names.iter().find(|(name, ..)| name == case).unwrap();
        assert_eq!(find("zookeeper c=64").1, "bare 5-op multi c=64");
        assert_eq!(find("zookeeper c=64").2, "zookeeper server c=64");
        assert_eq!(find("zookeeper 16 per multi c=8").1, "bare 16 per multi c=8");
        assert_eq!(find("zookeeper lock create/delete c=64").2, "zookeeper server lock create/delete c=64");
    }

    async fn embedded() -> (tempfile::TempDir, Session) {
        let dir = scratch::directory().unwrap();
        let session = embedded_at(dir.path()).await.unwrap().session;
        make_parents(&session).await.unwrap();
        (dir, session)
    }

    #[tokio::test]
    async fn what_was_done_is_found_in_the_tree() {
        let (_dir, session) = embedded().await;
        let jobs = vec![Job::new(0), Job::new(1)];
        create(&session, &jobs).await.unwrap();
        let mut task = Task { tree: session.clone(), work: Work::LockAndMulti, jobs };
        for _ in 0..3 {
            assert!(task.step().await.unwrap().is_continue());
        }
        verify(&session, &task.jobs, 6).await.unwrap();
        remove(&session, &task.jobs).await.unwrap();
        assert!(session.children("/jobs/states/downloading").await.unwrap().0.is_empty());
    }

    #[tokio::test]
    async fn every_mismatch_is_named() {
        let (_dir, session) = embedded().await;
        let jobs = vec![Job::new(0)];
        create(&session, &jobs).await.unwrap();
        let found = async |jobs: &[Job], transitions| {
            verify(&session, jobs, transitions).await.unwrap_err().to_string()
        };
        assert!(found(&jobs, 1).await.contains("add up to 0, but 1 transitions"));
        let mut ahead = jobs.clone();
        ahead[0].advance();
        assert!(found(&ahead, 1).await.contains("has version 0, but 1 transitions were acknowledged"));
        session.lock(&jobs[0]).await.unwrap();
        assert!(found(&jobs, 0).await.contains("after the work"));
        session.unlock(&jobs[0]).await.unwrap();
        assert!(found(&jobs, 0).await.contains("was locked 1 times, but 0"));
        session.create(jobs[0].next_stage().queue_ref.as_str(), "", Mode::Persistent).await.unwrap();
        assert!(found(&jobs, 0).await.contains("should have one in"));
    }
}
