//! What a person decides, from what is there now; it is sent later.

use ingest_queue::committer::Unit;
use ingest_queue::ids::Jid;
use ingest_queue::map::{self, JobNode, Priority};
use ingest_queue::plan::Lock;
use ingest_queue::plan::batch;
use ingest_queue::plan::job::{self, Action, Job};
use ingest_queue::states::{BatchList, JobState};
use ingest_store::{Op, path};

use super::explore::Step;
use super::same::Given;
use super::setup::{Ask, Broken, Setup};
use super::world::{Decided, Hand, Meant, Then, World, bid};

impl World {
    /// Nothing may rely on a person, so what one decides counts as a fault; what was decided is sent.
    pub(super) fn people(&self, setup: &Setup, next: &mut Vec<Step<World>>) {
        if self.asks == 0 || self.person.is_some() {
            return;
        }
        for jid in self.jids() {
            let Some(job) = self.job(jid) else { continue };
            for ask in setup.may {
                let Some(decided) = self.asked(setup, &job, *ask) else { continue };
                let mut to = self.clone();
                to.asks -= 1;
                let name = format!("a person decides: {ask:?} {jid}");
                to.person = Some(Given::new(Hand::of(vec![decided])));
                next.push(Step { name, fault: true, seen: None, to });
            }
        }
    }

    /// `None`: there is nothing to ask for, or it is refused at once.
    fn asked(&self, setup: &Setup, job: &Job, ask: Ask) -> Option<Decided> {
        let other = if job.priority == Priority::DEFAULT { Priority::FIRST } else { Priority::DEFAULT };
        let (name, action) = match ask {
            Ask::Requeue => ("requeue", Action::Requeue(Some(setup.from))),
            Ask::Delete => ("delete", Action::Delete),
            Ask::Hold => ("hold", Action::Hold),
            Ask::Release => ("release", Action::Release),
            Ask::Priority => ("priority", Action::SetPriority(other)),
            Ask::Force => ("priority by force", Action::SetPriority(other)),
        };
        // A lock that is taken away is there; one that is not asked for is not.
        if (ask == Ask::Force) != self.is_locked(job.jid) {
            return None;
        }
        // Of a job that has ended it is not worth the states.
        if matches!(ask, Ask::Priority) && !job.state().is_taken_from() {
            return None;
        }
        let lock = if ask == Ask::Force { Lock::TakeAway } else { Lock::Within };
        let mut checks = Vec::new();
        if action.concerns_the_batch() {
            let found = self.batch();
            let open = batch::open_for(&action, bid(), Some((found.state(), found.version)), false);
            match open {
                Ok(open) => checks.extend(open),
                Err(_) if setup.broken == Some(Broken::ActWhileReporting) => {}
                Err(_) => return None,
            }
        }
        if setup.broken == Some(Broken::ActWhileReporting) {
            checks.clear();
        }
        let scene = self.scene(&format!("{name} {}", job.jid));
        job::target(job, &action, scene.dialect).ok()?;
        let unit = if action.deletes() {
            let list = Some((BatchList::Deleted, bytes::Bytes::new()));
            job::delete(job, &self.below(job.jid), lock, list, &checks, &[], &scene).unit()
        } else {
            job::act(job, &action, "", lock, &checks, &scene).ok()?.unit()
        };
        let unit = Unit::new(broken(setup, unit.ops, job.jid), unit.mark);
        Some(Decided { unit, meant: Meant { name, right: None, then: Then::Nothing } })
    }

    fn below(&self, jid: Jid) -> Vec<String> {
        let dir = map::job(jid);
        self.tree.children(&dir).map(|name| path::join(&dir, name)).collect()
    }
}

fn broken(setup: &Setup, ops: Vec<Op>, jid: Jid) -> Vec<Op> {
    let (lock, status) = (JobNode::Lock.of(jid), JobNode::Status.of(jid));
    if setup.broken != Some(Broken::ActUnlocked) {
        return ops;
    }
    let ops = ops.into_iter().filter(|op| op.path() != lock);
    let unfenced = |op| match op {
        Op::Set { path, data, .. } if path == status => Op::set(path, data, None),
        op => op,
    };
    ops.map(unfenced).collect()
}

/// Whether a job has come as far as anybody takes it: what a person holds waits for a person.
pub(super) fn is_far_enough(setup: &Setup, state: JobState) -> bool {
    matches!(state, JobState::Completed | JobState::Failed | JobState::Held) || state == setup.until
}
