//! What nodes decide to do with the batch: expand it, end it, report it.

use bytes::Bytes;
use ingest_queue::committer::{Mark, Unit};
use ingest_queue::dialect::Dialect;
use ingest_queue::ids::Jid;
use ingest_queue::map::{self, BatchNode};
use ingest_queue::nodes::Node as _;
use ingest_queue::plan::batch::{self, Batch};
use ingest_queue::plan::claim::{self, Taker};
use ingest_queue::plan::job::NewJob;
use ingest_queue::plan::report::{self, Told};
use ingest_queue::states::{BatchList, BatchState};
use ingest_store::Op;
use ingest_store::recipes::lock_table::release_ops;

use super::explore::Step;
use super::setup::{Broken, Setup};
use super::world::{BatchWork, Decided, Meant, Report, Right, Stage, TURN, Then, World, bid, come_so_far};

impl World {
    pub(super) fn decide_on_the_batch(&self, setup: &Setup, at: usize, next: &mut Vec<Step<World>>) {
        if !self.nodes[at].is_free_for_the_batch(setup) {
            return;
        }
        let Some(work) = self.nodes[at].batch.clone() else {
            if self.batch_wants_something() && self.tree.get(&BatchNode::Lock.of(bid())).is_none() {
                self.decide(at, vec![self.take_batch()], next);
            }
            return;
        };
        let batch = work.batch();
        match batch.state() {
            BatchState::Processing if work.owed > 0 => {
                self.decide_as_owner(setup, at, &work, self.pay(&work), next);
            }
            BatchState::Processing => self.process(setup, at, &work, &batch, next),
            BatchState::Reporting => self.report(setup, at, &work, &batch, next),
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

    /// Rows become jobs; then it ends, or waits for what is left.
    fn process(
        &self,
        setup: &Setup,
        at: usize,
        work: &BatchWork,
        batch: &Batch,
        next: &mut Vec<Step<World>>,
    ) {
        let (cursor, version) = self.expansion();
        let expanded = match setup.broken {
            Some(Broken::EndUnexpanded) => Ok(version),
            _ => batch::is_expanded(Some((&cursor, version))),
        };
        if !cursor.done {
            for rows in 1..=2 {
                self.expand(setup, at, work, rows, next);
            }
        }
        let Ok(version) = expanded else { return };
        if work.waits || !self.list(BatchList::Processing).is_empty() {
            self.decide_as_owner(setup, at, work, release_batch(work), next);
        } else {
            self.decide_as_owner(setup, at, work, self.end(setup, work, batch, version), next);
        }
    }

    /// Whatever the owner of the batch commits rests on its right to it.
    fn decide_as_owner(
        &self,
        setup: &Setup,
        at: usize,
        work: &BatchWork,
        mut decided: Decided,
        next: &mut Vec<Step<World>>,
    ) {
        decided.meant.right = Some(Right::Batch(work.turn));
        if setup.broken == Some(Broken::NoFenceOfTheBatch) {
            decided.unit.ops = unfenced(decided.unit.ops);
        }
        self.decide(at, vec![decided], next);
    }

    pub(super) fn list(&self, list: BatchList) -> Vec<Jid> {
        self.tree.children(&map::batch_list(bid(), list)).map(|name| name.parse().unwrap()).collect()
    }

    fn take_batch(&self) -> Decided {
        let taking = claim::batch(&self.batch(), Vec::new(), &Taker::default(), &self.scene("take batch"));
        let (mut unit, turn) = (taking.unit(), self.turn());
        unit.ops.push(another_turn());
        let then = Then::Batch(Some(BatchWork::of(&taking.after, turn + 1)));
        // Nobody has taken it since it was read.
        let meant = Meant { name: "take the batch", right: Some(Right::Batch(turn)), then };
        Decided { unit, meant }
    }

    /// The next rows become jobs, that wait where those of this setup begin.
    fn expand(&self, setup: &Setup, at: usize, work: &BatchWork, rows: u64, next: &mut Vec<Step<World>>) {
        let (cursor, version) = self.expansion();
        if cursor.next + rows > cursor.total {
            return;
        }
        let scene = self.scene(&format!("expand {rows}"));
        let jobs = self.tree.get(map::JOBS).unwrap();
        let number = u32::try_from(jobs.creates).unwrap();
        let numbers = (number, Op::set(map::JOBS, Bytes::new(), jobs.version));
        let new = vec![NewJob::default(); usize::try_from(rows).unwrap()];
        let (count, plan) = batch::chunk(bid(), work.check(), (&cursor, version), numbers, &new, &scene);
        let mut unit = plan.unit();
        for place in 0..u32::try_from(count).unwrap() {
            unit.ops.extend(come_so_far(Jid::new(number + place), setup.from));
        }
        let mut after = work.clone();
        if setup.broken == Some(Broken::CursorApart) {
            unit.ops.retain(|op| op.path() != BatchNode::Expansion.of(bid()));
            after.owed = rows;
        }
        let decided = decided("expand", unit, Then::Batch(Some(after)));
        self.decide_as_owner(setup, at, work, decided, next);
    }

    /// The cursor, after the jobs: where that rule is broken.
    fn pay(&self, work: &BatchWork) -> Decided {
        let (mut cursor, version) = self.expansion();
        cursor.next += work.owed;
        cursor.done = cursor.next >= cursor.total;
        cursor.commit = self.scene("pay").commit;
        let path = BatchNode::Expansion.of(bid());
        let mark = Mark::holds(path.as_str(), cursor.commit.as_str());
        let ops = vec![Op::set(path, cursor.write(Dialect::Design), version)];
        let then = Then::Batch(Some(BatchWork { owed: 0, ..work.clone() }));
        decided("pay", Unit::new(ops, mark), then)
    }

    fn end(&self, setup: &Setup, work: &BatchWork, batch: &Batch, cursor: i32) -> Decided {
        let plan = batch::end(batch, cursor, &self.scene("end")).unwrap();
        let mut unit = plan.unit();
        if setup.broken == Some(Broken::NoProofOfTheEnd) {
            let proof = batch::proof_of_the_end(bid());
            unit.ops.retain(|op| !proof.contains(op));
        }
        decided("end the batch", unit, Then::Batch(Some(BatchWork::of(&plan.after, work.turn))))
    }

    /// Draft and outbox, mail, note, end.
    fn report(&self, setup: &Setup, at: usize, work: &BatchWork, batch: &Batch, next: &mut Vec<Step<World>>) {
        let sent_first = setup.broken == Some(Broken::SentFirst);
        let decided = match (&work.report, work.stage) {
            (None, _) => self.post(work),
            (Some(report), Stage::Posted) if sent_first => self.note_sent(work, report, Stage::Mailed),
            (Some(report), Stage::Posted) => return self.mail(at, work, report, next),
            (Some(report), Stage::Mailed) if sent_first => return self.mail(at, work, report, next),
            (Some(report), Stage::Mailed) => self.note_sent(work, report, Stage::Sent),
            (Some(report), Stage::Sent) => self.finish(report, batch),
        };
        self.decide_as_owner(setup, at, work, decided, next);
    }

    fn drafted(&self) -> Report {
        let lists = [BatchList::Completed, BatchList::Failed, BatchList::Deleted].map(|list| self.list(list));
        let [completed, failed, deleted] = lists;
        Report { number: report::number_after(self.last_report()), completed, failed, deleted }
    }

    /// The report is in the outbox before it is sent.
    fn post(&self, work: &BatchWork) -> Decided {
        let drafted = self.drafted();
        let (ops, _) = report::post(bid(), drafted.number, work.check(), &self.scene("post"));
        let unit = settled(ops, drafted.number);
        decided("post the report", unit, Then::Posted(BatchWork { report: Some(drafted), ..work.clone() }))
    }

    fn note_sent(&self, work: &BatchWork, report: &Report, then: Stage) -> Decided {
        // Whoever has the right to the batch finds it there.
        let Some(outgoing) = self.outgoing(report.number) else {
            let unit = settled(vec![work.check()], report.number);
            return decided("find no report", unit, Then::Batch(None));
        };
        let (ops, _) = report::sent(outgoing, work.check(), &self.scene("sent"));
        let work = BatchWork { stage: then, ..work.clone() };
        decided("note that it was sent", settled(ops, report.number), Then::Batch(Some(work)))
    }

    fn finish(&self, report: &Report, batch: &Batch) -> Decided {
        let status_report = self.tree.get(&BatchNode::StatusReport.of(bid()));
        let announced = Bytes::from(vec![u8::try_from(report.number).unwrap()]);
        let told = Told {
            number: report.number,
            announced: Some((announced, status_report.map(|node| node.version))),
            posted: self.outgoing(report.number).is_some(),
            to: report::outcome(report.completed.len(), report.failed.len(), report.deleted.len(), 0),
        };
        let plan = report::finish(batch, told, "", &self.scene("finish")).unwrap();
        let mut unit = plan.unit();
        unit.ops.push(another_turn());
        decided("finish the report", unit, Then::Batch(None))
    }

    /// An effect outside of the tree, behind a gate.
    fn mail(&self, at: usize, work: &BatchWork, report: &Report, next: &mut Vec<Step<World>>) {
        let mut to = self.clone();
        let may = self.batch().version == work.version;
        if may {
            to.judge_mail(report);
            if !to.mails.contains(report) {
                to.mails.push(report.clone());
            }
            let after = if work.stage == Stage::Posted { Stage::Mailed } else { Stage::Sent };
            to.nodes[at].batch.as_mut().unwrap().stage = after;
        } else {
            to.nodes[at].batch = None;
        }
        let name = format!("node {at} mails report {}", report.number);
        next.push(Step { name, fault: false, seen: may.then_some("a report is sent"), to });
    }

    fn judge_mail(&mut self, report: &Report) {
        if *report != self.drafted() {
            self.wrong = Some(format!("a report is sent that is not true: {report:?}"));
        }
        if self.mails.iter().any(|mail| mail.number == report.number && mail != report) {
            self.wrong = Some(format!("two reports have the number {}", report.number));
        }
        for jid in self.list(BatchList::Processing) {
            self.wrong = Some(format!("a report is sent, and {jid} has not ended"));
        }
        if !self.expansion().0.done {
            self.wrong = Some("a report is sent, and its expansion has not ended".into());
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
        let tree = self.tree.after(&ops, 0).unwrap().0;
        next.push(Step {
            name: format!("somebody makes {jid}"),
            fault: true,
            seen: Some("somebody else makes a job"),
            to: to.tidied(tree),
        });
    }
}

fn decided(name: &'static str, unit: Unit, then: Then) -> Decided {
    Decided { unit, meant: Meant { name, right: None, then } }
}

/// The batch is another's from here on, or nobody's.
fn another_turn() -> Op {
    Op::set(TURN, Bytes::new(), None)
}

/// The operations without the version that everything of the batch's owner rests on.
fn unfenced(ops: Vec<Op>) -> Vec<Op> {
    let fence = BatchNode::Status.of(bid());
    let unfenced = |op| match op {
        Op::Check { path, .. } if path == fence => None,
        Op::Set { path, data, .. } if path == fence => Some(Op::set(path, data, None)),
        op => Some(op),
    };
    ops.into_iter().filter_map(unfenced).collect()
}

/// Operations that are sent until they are answered, without a mark: whatever refuses them then is the answer.
fn settled(ops: Vec<Op>, number: u32) -> Unit {
    Unit::new(ops, Mark::holds(map::outbox(bid(), number), ""))
}

fn release_batch(work: &BatchWork) -> Decided {
    let (lock, fence) = (BatchNode::Lock.of(bid()), BatchNode::Status.of(bid()));
    let mut ops = release_ops(&lock, &fence, work.version, work.status.clone());
    ops.push(another_turn());
    decided("release the batch", Unit::new(ops, Mark::Gone(lock)), Then::Batch(None))
}
