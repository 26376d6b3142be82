//! Putting things right, one at a time, each in one multi.
//!
//! Each thing is looked at again first, until two looks are equal, and what is then wrong with it is
//! put right at the versions that were seen: what was changed meanwhile refuses the multi, and is
//! looked at again. Jobs and batches are changed under their own lock, which is made and removed in the
//! same multi; one that is taken refuses it, and the thing is left alone.
//!
//! **When things break.** A repair that is interrupted has repaired some things whole and others not at
//! all. A lost answer is settled by looking again: what was put right is not found any more.

use ingest_store::recipes::{self, shard};
use ingest_store::{Kind, Op, Session, path};

use super::finding::{Finding, Fix, Outcome, Repaired, Verdict};
use super::reader::Reader;
use super::thing::{Thing, View};
use super::{Context, Observer, Options, Progress, job, lists, mark, quarantine};
use crate::error::{Error, Result};
use crate::ids::Bid;
use crate::map::{self, BatchNode, JobNode};
use crate::nodes::{Node, Owner};
use crate::states::BatchList;

/// How often a thing is planned anew because it was changed.
const TRIES: usize = 5;

/// Jobs come before batches: a batch is judged by its jobs. Directories come before everything.
fn order(thing: &Thing) -> u8 {
    match thing {
        Thing::Mark(mark::Mark::Directory, _) => 0,
        Thing::Job(_) => 1,
        Thing::Batch(_) => 2,
        Thing::Lists(_) => 3,
        Thing::Mark(..) => 4,
    }
}

/// Puts right everything that was found, thing by thing.
pub(super) async fn all(
    reader: &Reader,
    options: &Options,
    findings: &[Finding],
    observer: &mut Observer<'_>,
) -> Result<Vec<Repaired>> {
    let mut findings: Vec<&Finding> = findings.iter().filter(|finding| finding.thing.is_some()).collect();
    findings.sort_by_key(|finding| finding.thing.as_ref().map(|thing| (order(thing), thing.key())));
    // Those of one thing are next to each other now, and are put right together.
    let things: Vec<&[&Finding]> = findings.chunk_by(|a, b| a.thing == b.thing).collect();
    let (total, mut repaired) = (things.len(), Vec::with_capacity(findings.len()));
    for (done, findings) in things.into_iter().enumerate() {
        repaired.extend(thing(reader, options, findings).await?);
        observer.tell(Progress { stage: "repairs", done: done + 1, total });
    }
    Ok(repaired)
}

/// The batch that a repair has changed.
pub(super) fn batch(repaired: &Repaired) -> Option<Bid> {
    repaired.path.strip_prefix(map::BATCHES)?.strip_prefix('/')?.split('/').next()?.parse().ok()
}

/// Puts a thing right; says what became of each of its findings.
async fn thing(reader: &Reader, options: &Options, findings: &[&Finding]) -> Result<Vec<Repaired>> {
    let Some(thing) = findings.first().and_then(|finding| finding.thing.as_ref()) else {
        return Ok(Vec::new());
    };
    let session = reader.session();
    let mut applied_perhaps = false;
    for _ in 0..TRIES {
        reader.freshen().await?;
        let Some(view) = thing.settled(reader).await? else {
            break;
        };
        let context = Context::new(options);
        let verdicts = view.judge(&context);
        if verdicts.iter().all(Verdict::is_by_hand) {
            return Ok(told(findings, &verdicts, applied_perhaps));
        }
        let repair = prepare(session, &view, &verdicts, &context, options).await?;
        let settled = recipes::settle(session, || session.multi(repair.ops.clone())).await;
        match settled.answer {
            Ok(_) => return Ok(done(findings, &verdicts, &repair.what)),
            Err(error) if is_taken(&error, &repair) => {
                let what = busy(reader, &repair.lock).await?;
                return Ok(each(findings, Outcome::Busy, &what));
            }
            Err(error) => match error.kind() {
                Kind::NoNode | Kind::NodeExists | Kind::BadVersion => applied_perhaps |= settled.repeated,
                Kind::NotEmpty | Kind::TooLarge => {
                    let what = format!("a person must look: {error}");
                    return Ok(each(findings, Outcome::Left, &what));
                }
                _ => return Err(error.into()),
            },
        }
    }
    Ok(each(findings, Outcome::Left, "it is changed all the time: run the repair again"))
}

/// A multi, and what it needs.
struct Prepared {
    ops: Vec<Op>,
    /// The lock that the multi makes; empty if none.
    lock: String,
    what: String,
}

async fn prepare(
    session: &Session,
    view: &View,
    verdicts: &[Verdict],
    context: &Context,
    options: &Options,
) -> Result<Prepared> {
    if !matches!(view, View::Mark(_)) || verdicts.iter().any(|verdict| verdict.keep.is_some()) {
        make_dirs(session, map::QUARANTINE).await?;
    }
    match view {
        View::Job(view) => {
            let plan = job::plan(view, context);
            for (bid, list) in &plan.lists {
                make_list(session, *bid, *list).await?;
            }
            let lock = if view.there { JobNode::Lock.of(view.jid) } else { String::new() };
            Ok(Prepared { ops: plan.ops, lock, what: plan.what })
        }
        View::Batch(view) => {
            let (bid, guard, lasting) =
                (view.bid, super::batch::guard(view), super::batch::lasting_lock(view));
            for verdict in verdicts.iter().filter(|verdict| verdict.fix == Fix::Collect) {
                collect(session, &verdict.path, options).await?;
            }
            // The lock that lasts is removed where ours is made.
            let others = verdicts.iter().filter(|verdict| verdict.path != BatchNode::Lock.of(bid));
            Ok(under_lock(bid, guard, lasting, others, context))
        }
        View::Lists(view) => {
            let bid = view.bid();
            if verdicts.iter().any(|verdict| verdict.code == super::Code::NoList) {
                make(session, &BatchNode::States.of(bid)).await?;
            }
            Ok(under_lock(bid, lists::guard(view), None, verdicts.iter(), context))
        }
        View::Mark(view) => {
            for verdict in verdicts.iter().filter(|verdict| verdict.code == super::Code::NoDirectory) {
                make_dirs(session, path::parent(&verdict.path)).await?;
            }
            let ops = mark::guard(view).into_iter().chain(ops(verdicts.iter(), context)).collect();
            Ok(Prepared { ops, lock: String::new(), what: text(verdicts) })
        }
    }
}

fn under_lock<'a>(
    bid: Bid,
    guard: Vec<Op>,
    lasting: Option<i32>,
    verdicts: impl Iterator<Item = &'a Verdict>,
    context: &Context,
) -> Prepared {
    let verdicts: Vec<&Verdict> = verdicts.collect();
    let lock = BatchNode::Lock.of(bid);
    let mut all: Vec<Op> = lasting.map(|version| Op::delete(lock.as_str(), version)).into_iter().collect();
    all.push(Op::ephemeral(lock.as_str(), context.owner()));
    all.extend(guard);
    all.extend(ops(verdicts.iter().copied(), context));
    all.push(Op::delete(lock.as_str(), None));
    Prepared { ops: all, lock, what: "put right".to_owned() }
}

fn ops<'a>(verdicts: impl Iterator<Item = &'a Verdict>, context: &Context) -> Vec<Op> {
    let verdicts: Vec<_> = verdicts.filter(|verdict| !verdict.is_by_hand()).collect();
    let kept = verdicts.iter().filter(|verdict| verdict.keep.is_some()).count();
    let mut ops = Vec::new();
    for Verdict { path, fix, keep, .. } in verdicts {
        ops.extend(keep.as_ref().map(|keep| quarantine::op(path, keep, kept, context)));
        match fix {
            Fix::Write { version: Some(version), data } => ops.push(Op::set(path, data.clone(), *version)),
            Fix::Write { version: None, data } => ops.push(Op::create(path, data.clone())),
            Fix::Remove { version } => ops.push(Op::delete(path, *version)),
            Fix::Person(_) | Fix::Together | Fix::Collect => {}
        }
    }
    ops
}

fn text(verdicts: &[Verdict]) -> String {
    verdicts.first().map_or_else(String::new, |verdict| verdict.code.repair().to_owned())
}

/// A list of a batch is made where a ref needs it; a batch that is gone stays gone.
async fn make_list(session: &Session, bid: Bid, list: BatchList) -> Result<()> {
    make(session, &BatchNode::States.of(bid)).await?;
    make(session, &map::batch_list(bid, list)).await
}

async fn make(session: &Session, at: &str) -> Result<()> {
    let create = || session.create(at, "", ingest_store::Mode::Persistent);
    match recipes::settle(session, create).await.answer {
        Err(error) if !matches!(error.kind(), Kind::NodeExists | Kind::NoNode) => Err(error.into()),
        _ => Ok(()),
    }
}

async fn make_dirs(session: &Session, at: &str) -> Result<()> {
    Ok(recipes::settle(session, || session.make_dirs(at)).await.answer?)
}

async fn collect(session: &Session, at: &str, options: &Options) -> Result<()> {
    match recipes::settle(session, || shard::collect(session, at, options.grace, usize::MAX)).await.answer {
        Err(error) if !matches!(error.kind(), Kind::NoNode | Kind::Corrupt) => Err(error.into()),
        _ => Ok(()),
    }
}

/// The multi was refused because somebody else has the lock.
fn is_taken(error: &ingest_store::Error, repair: &Prepared) -> bool {
    let refused = error.failed_op().and_then(|index| repair.ops.get(index));
    error.kind() == Kind::NodeExists && refused.is_some_and(|op| op.path() == repair.lock)
}

async fn busy(reader: &Reader, lock: &str) -> Result<String> {
    let owner = reader.get(lock).await?.and_then(|(data, _)| Owner::read(&data).ok()).unwrap_or_default();
    let what = path::parent(lock).to_owned();
    let node = if owner.node.is_empty() { "another node".to_owned() } else { owner.node };
    Ok(Error::Busy { what, node, since: owner.since }.to_string())
}

fn each(findings: &[&Finding], outcome: Outcome, what: &str) -> Vec<Repaired> {
    findings.iter().map(|finding| became(finding, outcome, what)).collect()
}

/// What was put right, and what is left to a person.
fn done(findings: &[&Finding], verdicts: &[Verdict], what: &str) -> Vec<Repaired> {
    let became = |finding: &&Finding| match same(finding, verdicts) {
        Some(verdict) if verdict.is_by_hand() => became(finding, Outcome::ByHand, &finding.repair),
        Some(_) => became(finding, Outcome::Fixed, what),
        None => became(finding, Outcome::Gone, "it was right already"),
    };
    findings.iter().map(became).collect()
}

/// Nothing can be put right: it is gone, or it was never for us.
fn told(findings: &[&Finding], verdicts: &[Verdict], applied_perhaps: bool) -> Vec<Repaired> {
    let became = |finding: &&Finding| match same(finding, verdicts) {
        Some(_) => became(finding, Outcome::ByHand, &finding.repair),
        None if applied_perhaps => became(finding, Outcome::Fixed, "put right"),
        None => became(finding, Outcome::Gone, "it was right already"),
    };
    findings.iter().map(became).collect()
}

fn same<'v>(finding: &Finding, verdicts: &'v [Verdict]) -> Option<&'v Verdict> {
    verdicts.iter().find(|verdict| verdict.code == finding.code && verdict.path == finding.path)
}

fn became(finding: &Finding, outcome: Outcome, what: &str) -> Repaired {
    Repaired { code: finding.code, path: finding.path.clone(), outcome, what: what.to_owned() }
}
