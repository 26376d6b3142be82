//! Znodes that nobody of ours has written: garbage instead of data, a name that is none, a ref that leads astray.
//!
//! People find it with `fsck` and put it right with `fsck --repair`, if no node has done so before. Nothing else is repaired: whatever
//! else `fsck` calls wrong then, with everything in full work, is a breach.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use ingest_harness::let_pass;
use ingest_queue::dialect::Dialect;
use ingest_queue::fsck::{self, Code, Finding, Options, Severity};
use ingest_queue::ids::{Bid, Jid};
use ingest_queue::map::{self, BatchNode, JobNode, Priority, QueueRef};
use ingest_queue::states::{BatchState, JobState};
use ingest_store::{Kind, Op};

use super::super::schedule::Planned;
use super::super::witness::Outcome;
use super::super::world::{World, working};

const GARBAGE: &[u8] = b"{\"status\": \"down\xff";
const RIGHT_WITHIN: Duration = Duration::from_mins(2);
const PAUSE: Duration = Duration::from_millis(300);
const TRIES: usize = 20;

/// What was spoilt.
struct Spoilt {
    path: String,
    what: What,
    /// What else it may make look wrong.
    near: Vec<String>,
}

/// How one sees that it is still there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    /// Garbage instead of data.
    Data,
    /// A node that nobody of ours makes.
    Name,
    /// A ref of this job, which may have become right meanwhile.
    Ref(Jid),
}

/// What was seen of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    There,
    Gone,
    /// The job has moved meanwhile, or the servers are away.
    Unsure,
}

impl Spoilt {
    async fn look(&self, world: &World) -> Result<Seen> {
        let before = self.job(world).await;
        let found = world.get_all(vec![self.path.clone()]).await?.remove(0);
        let is_there = match self.what {
            What::Data => found.is_some_and(|data| data == GARBAGE),
            What::Name => found.is_some(),
            What::Ref(_) => return Ok(stray(&self.path, before, found.is_some(), self.job(world).await)),
        };
        Ok(if is_there { Seen::There } else { Seen::Gone })
    }

    /// The version of its job's status, and where the job belongs.
    async fn job(&self, world: &World) -> Option<Placed> {
        let What::Ref(jid) = self.what else { return None };
        let job = world.queue.job(jid).await.ok()?;
        Some((job.version, job.entry()))
    }

    fn concerns(&self, finding: &Finding) -> bool {
        finding.path == self.path || self.near.iter().any(|near| finding.path.contains(near.as_str()))
    }
}

type Placed = (i32, QueueRef);

/// Whether a ref leads astray that was looked for between two looks at its job. Refs move together with the status, so what is
/// there while its version stays the same is right or wrong by that status.
fn stray(path: &str, before: Option<Placed>, found: bool, after: Option<Placed>) -> Seen {
    match (before, after) {
        (Some((first, _)), Some((last, own))) if first == last => {
            if found && own.path() != path {
                Seen::There
            } else {
                Seen::Gone
            }
        }
        _ => Seen::Unsure,
    }
}

pub(super) async fn corrupt(world: &World, planned: &Planned) -> Result<Outcome> {
    for _ in 0..TRIES {
        let spoilt = match planned.variant % 6 {
            0 => job(world, planned, JobNode::Status).await?,
            1 => job(world, planned, JobNode::Priority).await?,
            2 => job(world, planned, JobNode::History).await?,
            3 => foreign(world).await?,
            4 => astray(world, planned).await?,
            _ => batch(world, planned).await?,
        };
        if let Some(spoilt) = spoilt {
            return put_right(world, spoilt).await;
        }
        let_pass(PAUSE).await;
    }
    Ok(Outcome::Missed("there was nothing to spoil".into()))
}

/// Chooses a job that nobody works on.
async fn chosen(world: &World, planned: &Planned) -> Result<Option<QueueRef>> {
    let jobs = world.jobs(working().chain([JobState::Pending, JobState::Failed])).await?;
    let nth = usize::try_from(planned.variant / 6).unwrap_or(0);
    Ok(jobs.get(nth % jobs.len().max(1)).copied())
}

/// Commits under the lock of a job or a batch, as admin actions do; false if somebody has it.
async fn spoil(world: &World, lock: String, ops: Vec<Op>) -> Result<bool> {
    let mut all = vec![Op::ephemeral(lock.clone(), "{}")];
    all.extend(ops);
    all.push(Op::delete(lock, None));
    let tries = AtomicUsize::new(0);
    let sent = world.patiently("spoiling something", || {
        tries.fetch_add(1, Ordering::Relaxed);
        world.session().multi(all.clone())
    });
    match sent.await.map_err(anyhow::Error::downcast::<ingest_store::Error>) {
        Ok(_) => Ok(true),
        // Its answer was lost, and it was applied: what it makes is there.
        Err(Ok(error)) if tries.load(Ordering::Relaxed) > 1 && error.failed_op() == Some(1) => Ok(true),
        Err(Ok(error)) if matches!(error.kind(), Kind::NodeExists | Kind::NoNode) => Ok(false),
        Err(Ok(error)) => Err(error.into()),
        Err(Err(error)) => Err(error),
    }
}

fn near(jid: Jid, bid: Option<Bid>) -> Vec<String> {
    std::iter::once(jid.to_string()).chain(bid.map(|bid| bid.to_string())).collect()
}

async fn bid_of(world: &World, jid: Jid) -> Option<Bid> {
    let (data, _) = world.session().get(JobNode::Bid.of(jid)).await.ok()?;
    String::from_utf8_lossy(&data).parse().ok()
}

async fn job(world: &World, planned: &Planned, node: JobNode) -> Result<Option<Spoilt>> {
    let Some(QueueRef { jid, .. }) = chosen(world, planned).await? else { return Ok(None) };
    let path = node.of(jid);
    let near = near(jid, bid_of(world, jid).await);
    let done = spoil(world, JobNode::Lock.of(jid), vec![Op::set(path.clone(), GARBAGE, None)]).await?;
    if done {
        world.ledger.spoil(jid, node);
    }
    Ok(done.then_some(Spoilt { path, what: What::Data, near }))
}

/// A name that is none, in a queue.
async fn foreign(world: &World) -> Result<Option<Spoilt>> {
    let path = format!("{}/what-is-this", map::queue(JobState::Downloading));
    let made = world.session().multi(vec![Op::create(path.clone(), "")]).await;
    Ok(made.is_ok().then_some(Spoilt { path, what: What::Name, near: Vec::new() }))
}

/// A ref in a queue where the job is not.
async fn astray(world: &World, planned: &Planned) -> Result<Option<Spoilt>> {
    let Some(QueueRef { state, jid, .. }) = chosen(world, planned).await? else { return Ok(None) };
    let elsewhere = if state == JobState::Recording { JobState::Notify } else { JobState::Recording };
    let path = QueueRef::new(elsewhere, Priority::DEFAULT, jid).path();
    let near = near(jid, bid_of(world, jid).await);
    let done = spoil(world, JobNode::Lock.of(jid), vec![Op::create(path.clone(), "")]).await?;
    Ok(done.then_some(Spoilt { path, what: What::Ref(jid), near }))
}

/// The status of a batch whose jobs are under way.
async fn batch(world: &World, planned: &Planned) -> Result<Option<Spoilt>> {
    let Some(QueueRef { jid, .. }) = chosen(world, planned).await? else { return Ok(None) };
    let Some(bid) = bid_of(world, jid).await else { return Ok(None) };
    let Ok(found) = world.queue.batch(bid).await else { return Ok(None) };
    let expanded = world.queue.expansion(bid).await.ok().flatten().is_some_and(|expansion| expansion.done);
    if found.state() != BatchState::Processing || !expanded {
        return Ok(None);
    }
    let path = BatchNode::Status.of(bid);
    let set = Op::set(path.clone(), GARBAGE, found.version);
    match spoil(world, BatchNode::Lock.of(bid), vec![set]).await {
        Ok(done) => Ok(done.then_some(Spoilt { path, what: What::Data, near: vec![bid.to_string()] })),
        Err(error) if error.to_string().contains("version") => Ok(None),
        Err(error) => Err(error),
    }
}

/// Checks and repairs until nothing is said about it any more.
async fn put_right(world: &World, spoilt: Spoilt) -> Result<Outcome> {
    let options = Options::new(Dialect::Design);
    let (mut named, until) = (Vec::new(), Instant::now() + RIGHT_WITHIN);
    let seen = loop {
        match fsck::check(world.session(), &options, &mut |_| ()).await {
            // The servers are away: once more.
            Err(_) if Instant::now() < until => {}
            Err(error) => return Err(error.into()),
            Ok(mut report) => {
                let (mine, others) =
                    report.findings.into_iter().partition(|finding| spoilt.concerns(finding));
                report.findings = mine;
                blame(world, others);
                if report.findings.is_empty() {
                    let seen = spoilt.look(world).await?;
                    // A job that moves is not judged by a check: of a ref it may have been silent only this time.
                    if !matches!(spoilt.what, What::Ref(_)) || seen == Seen::Gone || Instant::now() >= until {
                        break seen;
                    }
                }
                for code in report.findings.iter().map(|finding| finding.code.to_string()) {
                    if !named.contains(&code) {
                        named.push(code);
                    }
                }
                ensure!(
                    Instant::now() < until,
                    "{} was spoilt, and is not put right:\n{}",
                    spoilt.path,
                    report.text()
                );
                let _ = fsck::repair(world.session(), &options, &report, &mut |_| ()).await;
            }
        }
        let_pass(PAUSE).await;
    };
    ensure!(seen != Seen::There, "{} was spoilt, and nobody says so", spoilt.path);
    if seen == Seen::Unsure {
        return Ok(Outcome::Missed(format!("{}, and nobody could see whether it is right", spoilt.path)));
    }
    let by =
        if named.is_empty() { "a node put it right".into() } else { format!("fsck: {}", named.join(" ")) };
    Ok(Outcome::Witnessed(format!("{}, {by}", spoilt.path)))
}

/// What a check calls wrong that nobody has spoilt.
fn blame(world: &World, findings: Vec<Finding>) {
    for finding in findings.into_iter().filter(|finding| finding.severity != Severity::Info) {
        // At the end no slot may be held at all.
        if finding.code == Code::LeakedSlot && world.ledger.tells_of_robbed(&finding.to_string()) {
            continue;
        }
        world.book.breach(format!("fsck, in the middle of work: {finding}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ref_is_astray_only_where_its_job_is_not_while_that_stays_as_it_is() {
        let at = |version, state| Some((version, QueueRef::new(state, Priority::DEFAULT, Jid::new(7))));
        let path = QueueRef::new(JobState::Recording, Priority::DEFAULT, Jid::new(7)).path();
        let (waiting, recording) = (at(3, JobState::Downloading), at(9, JobState::Recording));
        assert_eq!(stray(&path, waiting, true, waiting), Seen::There);
        assert_eq!(stray(&path, waiting, false, waiting), Seen::Gone);
        assert_eq!(stray(&path, recording, true, recording), Seen::Gone);
        assert_eq!(stray(&path, recording, true, at(10, JobState::Notify)), Seen::Unsure);
        assert_eq!(stray(&path, None, true, waiting), Seen::Unsure);
        let urgent = Some((9, QueueRef::new(JobState::Recording, Priority::nearest(1), Jid::new(7))));
        assert_eq!(stray(&path, urgent, true, urgent), Seen::There);
    }
}
