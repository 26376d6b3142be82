//! What nodes decide to do with the batch: expand it, end it, report it.

use bytes::Bytes;
use ingest_queue::committer::Mark;
use ingest_queue::dialect::Dialect;
use ingest_queue::ids::Jid;
use ingest_queue::map::{self, BatchNode};
use ingest_queue::nodes::Node as _;
use ingest_queue::plan::Lock;
use ingest_queue::plan::batch::{self, Batch};
use ingest_queue::plan::job::NewJob;
use ingest_queue::states::{BatchList, BatchState, Who};
use ingest_store::Op;
use ingest_store::recipes::lock_table::{Claim, release_ops};

use super::explore::Step;
use super::world::{BatchWork, Broken, Report, Setup, Shared, Then, Unit, World, bid, scene};

impl World {
    pub(super) fn decide_on_the_batch(&self, setup: &Setup, at: usize, next: &mut Vec<Step<World>>) {
        if !self.is_free(at) {
            return;
        }
        let Some(work) = self.nodes[at].batch.clone() else {
            if self.batch_wants_something() && self.tree.get(&BatchNode::Lock.of(bid())).is_none() {
                self.decide(at, vec![self.take_batch(at)], next);
            }
            return;
        };
        let batch = work.batch();
        match batch.state() {
            BatchState::Processing if work.owed > 0 => self.decide(at, vec![self.pay(at, &work)], next),
            BatchState::Processing if !self.expansion().0.done => {
                for rows in 1..=2 {
                    self.expand(setup, at, &work, rows, next);
                }
            }
            BatchState::Processing if work.waits || !self.list(BatchList::Processing).is_empty() => {
                self.decide(at, vec![release_batch(&work)], next);
            }
            BatchState::Processing => self.decide(at, vec![self.end(setup, at, &batch)], next),
            BatchState::Reporting => self.report(at, &work, &batch, next),
            _ => {}
        }
    }

    fn batch_wants_something(&self) -> bool {
        match self.batch().state() {
            BatchState::Processing => !self.expansion().0.done || self.list(BatchList::Processing).is_empty(),
            BatchState::Reporting => true,
            _ => false,
        }
    }

    pub(super) fn list(&self, list: BatchList) -> Vec<Jid> {
        self.tree.children(&map::batch_list(bid(), list)).map(|name| name.parse().unwrap()).collect()
    }

    fn take_batch(&self, at: usize) -> Unit {
        let found = self.batch();
        let scene = scene(format!("take batch {at} {}", found.version));
        let status = found.status.next(found.state(), scene.now, "", &scene.commit);
        let claim = Claim {
            lock: BatchNode::Lock.of(bid()),
            owner: Bytes::new(),
            fence: BatchNode::Status.of(bid()),
            version: found.version,
            data: status.write(scene.dialect),
            more: Vec::new(),
            holder: String::new(),
        };
        let mark = Mark::holds(claim.fence.as_str(), scene.commit.as_str());
        let after = Batch { bid: bid(), status, version: found.version + 1 };
        let then = Then::Batch(Some(BatchWork::of(&after)));
        Unit { name: "take the batch", ops: claim.ops(), mark, owner: None, then }
    }

    /// The next rows become jobs.
    fn expand(&self, setup: &Setup, at: usize, work: &BatchWork, rows: u64, next: &mut Vec<Step<World>>) {
        let (cursor, version) = self.expansion();
        if cursor.next + rows > cursor.total {
            return;
        }
        let scene = scene(format!("expand {at} {version} {rows}"));
        let lease = Op::check(BatchNode::Status.of(bid()), work.version);
        let jobs = self.tree.get(map::JOBS).unwrap();
        let numbers = (u32::try_from(jobs.creates).unwrap(), Op::set(map::JOBS, Bytes::new(), jobs.version));
        let new = vec![NewJob::default(); usize::try_from(rows).unwrap()];
        let (_, plan) = batch::chunk(bid(), lease, (&cursor, version), numbers, &new, &scene);
        let mut work = work.clone();
        let mut ops = plan.ops;
        if setup.broken == Some(Broken::CursorApart) {
            ops.retain(|op| op.path() != BatchNode::Expansion.of(bid()));
            work.owed = rows;
        }
        let then = Then::Batch(Some(work));
        self.decide(at, vec![Unit { name: "expand", ops, mark: plan.mark, owner: None, then }], next);
    }

    /// The cursor, after the jobs: where that rule is broken.
    fn pay(&self, at: usize, work: &BatchWork) -> Unit {
        let (mut cursor, version) = self.expansion();
        cursor.next += work.owed;
        cursor.done = cursor.next >= cursor.total;
        cursor.commit = format!("pay {at} {version}");
        let path = BatchNode::Expansion.of(bid());
        let mark = Mark::holds(path.as_str(), cursor.commit.as_str());
        let ops = vec![Op::set(path, cursor.write(Dialect::Design), version)];
        let then = Then::Batch(Some(BatchWork { owed: 0, ..work.clone() }));
        Unit { name: "pay", ops, mark, owner: None, then }
    }

    fn end(&self, setup: &Setup, at: usize, batch: &Batch) -> Unit {
        let scene = scene(format!("end {at} {}", batch.version));
        let plan = batch::end(batch, self.expansion().1, &scene).unwrap();
        let mut ops = plan.ops;
        if setup.broken == Some(Broken::NoProofOfTheEnd) {
            let proof = batch::proof_of_the_end(bid());
            ops.retain(|op| !proof.contains(op));
        }
        let then = Then::Batch(Some(BatchWork::of(&plan.after)));
        Unit { name: "end the batch", ops, mark: plan.mark, owner: None, then }
    }

    /// Draft and outbox, mail, end.
    fn report(&self, at: usize, work: &BatchWork, batch: &Batch, next: &mut Vec<Step<World>>) {
        match &work.report {
            None => self.decide(at, vec![self.post(at, work)], next),
            Some(report) if !work.mailed => self.mail(at, work, report, next),
            Some(report) => self.decide(at, vec![finish(at, report, batch, self)], next),
        }
    }

    fn drafted(&self) -> Report {
        let lists = [BatchList::Completed, BatchList::Failed, BatchList::Deleted].map(|list| self.list(list));
        let [completed, failed, deleted] = lists;
        let last =
            self.tree.get(&BatchNode::StatusReport.of(bid())).map_or(0, |node| u32::from(node.data[0]));
        Report { number: last + 1, completed, failed, deleted }
    }

    /// The report is in the outbox before it is sent.
    fn post(&self, at: usize, work: &BatchWork) -> Unit {
        let report = self.drafted();
        let path = map::outbox(bid(), report.number);
        let text = format!("post {at} {}", work.version);
        let mut ops = vec![Op::check(BatchNode::Status.of(bid()), work.version)];
        if self.tree.get(&path).is_none() {
            ops.push(Op::create(path.as_str(), text.clone()));
        }
        let then = Then::Batch(Some(BatchWork { report: Some(report), ..work.clone() }));
        Unit { name: "post the report", ops, mark: Mark::holds(path, text), owner: None, then }
    }

    /// An effect outside of the tree, behind a gate.
    fn mail(&self, at: usize, work: &BatchWork, report: &Report, next: &mut Vec<Step<World>>) {
        let mut to = self.clone();
        if self.batch().version == work.version {
            to.judge_mail(report);
            if !to.mails.contains(report) {
                to.mails.push(report.clone());
            }
            to.nodes[at].batch.as_mut().unwrap().mailed = true;
        } else {
            to.nodes[at].batch = None;
        }
        let name = format!("node {at} mails report {}", report.number);
        next.push(Step { name, fault: false, to: to.tidied() });
    }

    fn judge_mail(&mut self, report: &Report) {
        let expansion = self.expansion().0;
        if !expansion.done {
            self.wrong = Some("a report is sent, and its expansion has not ended".into());
        }
        for jid in self.list(BatchList::Processing) {
            self.wrong = Some(format!("a report is sent, and {jid} has not ended"));
        }
        if *report != self.drafted() {
            self.wrong = Some(format!("a report is sent that is not true: {report:?}"));
        }
        if self.mails.iter().any(|mail| mail.number == report.number && mail != report) {
            self.wrong = Some(format!("two reports have the number {}", report.number));
        }
    }

    /// Jobs of other batches, at the same numbers.
    pub(super) fn make_other_jobs(&self, next: &mut Vec<Step<World>>) {
        if self.others == 0 {
            return;
        }
        let mut to = self.clone();
        to.others -= 1;
        let jobs = self.tree.get(map::JOBS).unwrap();
        let jid = Jid::new(u32::try_from(jobs.creates).unwrap());
        let ops = [Op::set(map::JOBS, Bytes::new(), jobs.version), Op::create(map::job(jid), Bytes::new())];
        to.tree = Shared::new(self.tree.after(&ops, 0).unwrap().0);
        next.push(Step { name: format!("somebody makes {jid}"), fault: true, to: to.tidied() });
    }
}

fn release_batch(work: &BatchWork) -> Unit {
    let (lock, fence) = (BatchNode::Lock.of(bid()), BatchNode::Status.of(bid()));
    let ops = release_ops(&lock, &fence, work.version, work.status.clone());
    Unit { name: "release the batch", ops, mark: Mark::Gone(lock), owner: None, then: Then::Batch(None) }
}

fn finish(at: usize, report: &Report, batch: &Batch, world: &World) -> Unit {
    let scene = scene(format!("finish {at} {}", batch.version));
    let path = BatchNode::StatusReport.of(bid());
    let data = vec![u8::try_from(report.number).unwrap()];
    let announced = match world.tree.get(&path) {
        Some(node) => Op::set(path, data, node.version),
        None => Op::create(path, data),
    };
    let more = [announced, Op::delete(map::outbox(bid(), report.number), None)];
    let to = if report.failed.is_empty() { BatchState::Completed } else { BatchState::Failed };
    let plan = batch::advance(batch, to, Who::Worker, "", Lock::GiveBack, &more, &scene).unwrap();
    Unit { name: "finish the report", ops: plan.ops, mark: plan.mark, owner: None, then: Then::Batch(None) }
}
