//! A check of a tree in full work: everything changes, each change is whole, and nothing is found.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ingest_queue::dialect::Dialect;
use ingest_queue::fsck::{self, Options};
use ingest_queue::ids::{Bid, Jid};
use ingest_queue::map::{self, BatchNode, JobNode, Priority, QueueRef};
use ingest_queue::nodes::{Expansion, JobStatus, Node};
use ingest_queue::states::{BatchList, BatchState, JobState};
use ingest_store::{Op, Session};
use rand::Rng;

use crate::planted::{empty, job_ops, now};
use crate::tree::{PATIENCE, Tree, on_both_engines};

on_both_engines!(work_that_goes_on_gives_no_finding, a_half_move_is_found_while_work_goes_on);

const JOBS: u32 = 30;
const MOVES: usize = 600;
const STATES: [JobState; 4] =
    [JobState::Downloading, JobState::Processing, JobState::Failed, JobState::Completed];

/// Moves, makes and deletes jobs, each in one multi.
struct Writer {
    session: Session,
    bid: Bid,
    jobs: Vec<(Jid, JobState, Priority)>,
    made: u64,
    next: u32,
}

impl Writer {
    async fn new(session: &Session) -> Self {
        let mut planted = empty(session, Dialect::Design).await;
        let bid = planted.batch(BatchState::Processing, Some((0, 10_000))).await;
        ingest_store::recipes::shard::write(session, &BatchNode::Manifest.of(bid), b"rows", None)
            .await
            .unwrap();
        let mut writer = Self { session: session.clone(), bid, jobs: Vec::new(), made: 0, next: 0 };
        for _ in 0..JOBS {
            writer.make().await;
        }
        writer
    }

    async fn make(&mut self) {
        let (jid, priority) = (Jid::new(self.next), Priority::nearest(i64::from(self.next % 100)));
        self.next += 1;
        self.made += 1;
        let expansion = Expansion { next: self.made, total: 10_000, ..Expansion::default() };
        let mut ops = job_ops(jid, self.bid, JobState::Downloading, priority, Dialect::Design);
        ops.push(Op::set(BatchNode::Expansion.of(self.bid), expansion.write(Dialect::Design), None));
        self.session.multi(ops).await.unwrap();
        self.jobs.push((jid, JobState::Downloading, priority));
    }

    async fn step(&mut self) {
        let (which, what) = (rand::rng().random_range(0..self.jobs.len()), rand::rng().random_range(0..20));
        let (jid, state, priority) = self.jobs[which];
        let old = QueueRef::new(state, priority, jid);
        let list = |state: JobState| map::batch_ref(self.bid, state.list(), jid);
        match what {
            0 => self.make().await,
            1 => {
                let nodes = [JobNode::Bid, JobNode::Configuration, JobNode::Status, JobNode::Priority];
                let mut ops: Vec<_> = nodes.iter().map(|node| Op::delete(node.of(jid), None)).collect();
                ops.push(Op::delete(map::job(jid), None));
                ops.push(Op::delete(old.path(), None));
                ops.push(Op::delete(list(state), None));
                ops.push(Op::create(map::batch_ref(self.bid, BatchList::Deleted, jid), ""));
                self.session.multi(ops).await.unwrap();
                self.jobs.swap_remove(which);
                self.make().await;
            }
            2 => {
                let new = QueueRef { priority: Priority::nearest(i64::from(priority.number()) ^ 1), ..old };
                let number = new.priority.number().to_string();
                let ops = vec![
                    Op::set(JobNode::Priority.of(jid), number, None),
                    Op::delete(old.path(), None),
                    Op::create(new.path(), ""),
                ];
                self.session.multi(ops).await.unwrap();
                self.jobs[which].2 = new.priority;
            }
            _ => {
                let to = STATES[rand::rng().random_range(0..STATES.len())];
                if to == state {
                    return;
                }
                let status = JobStatus::new(to, now()).write(Dialect::Design);
                let mut ops = vec![
                    Op::set(JobNode::Status.of(jid), status, None),
                    Op::delete(old.path(), None),
                    Op::create(QueueRef { state: to, ..old }.path(), ""),
                ];
                if to.list() != state.list() {
                    ops.extend([Op::delete(list(state), None), Op::create(list(to), "")]);
                }
                self.session.multi(ops).await.unwrap();
                self.jobs[which].1 = to;
            }
        }
    }
}

async fn work_that_goes_on_gives_no_finding(tree: &Tree) {
    let (session, checker) = (tree.session().await, tree.session().await);
    let mut writer = Writer::new(&session).await;
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = stop.clone();
    let writing = tokio::spawn(async move {
        let mut moves = 0;
        while moves < MOVES || !stopped.load(Ordering::Relaxed) {
            writer.step().await;
            moves += 1;
        }
    });
    // The work goes on until a check has met a job that was moving: without that this shows nothing.
    let checking = async {
        let mut checks = 0;
        while !writing.is_finished() {
            let report = fsck::check(&checker, &Options::new(Dialect::Design), &mut |_| ()).await.unwrap();
            assert_eq!(report.text(), "", "in check {checks}");
            checks += 1;
            if report.counts.suspects > 0 {
                stop.store(true, Ordering::Relaxed);
            }
        }
    };
    // Only a check that never meets one takes this long.
    tokio::time::timeout(20 * PATIENCE, checking).await.expect("no check met a job that was moving");
    writing.await.unwrap();
    assert!(stop.load(Ordering::Relaxed), "the writer has failed");
    fsck::clean(&checker, Dialect::Design).await.unwrap();
}

async fn a_half_move_is_found_while_work_goes_on(tree: &Tree) {
    let (session, checker) = (tree.session().await, tree.session().await);
    let mut writer = Writer::new(&session).await;
    let (broken, state, priority) = writer.jobs.remove(0);
    let lost = QueueRef::new(state, priority, broken).path();
    session.delete(lost.as_str(), None).await.unwrap();
    let writing = tokio::spawn(async move {
        for _ in 0..MOVES {
            writer.step().await;
        }
    });
    let mut checks = 0;
    while !writing.is_finished() || checks == 0 {
        checks += 1;
        let report = fsck::check(&checker, &Options::new(Dialect::Design), &mut |_| ()).await.unwrap();
        let found: Vec<_> = report.findings.iter().map(|finding| finding.path.as_str()).collect();
        assert_eq!(found, [lost.as_str()]);
    }
    writing.await.unwrap();
}
