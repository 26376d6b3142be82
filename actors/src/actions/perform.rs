//! Doing what was ordered, on this node.

use std::sync::Arc;

use ingest_queue::error::Error;
use ingest_queue::fsck;
use ingest_queue::holds::{StillHeld, Was};
use ingest_queue::ids::{Bid, Jid};
use ingest_queue::jobs::signed;
use ingest_queue::limits::set::Wanted;
use ingest_queue::list::{self, BatchFilter, PageRequest};
use ingest_queue::map::{HeldQueue, Priority};
use ingest_queue::plan::batch::BatchAction;
use ingest_queue::plan::job::Action as JobAction;
use ingest_queue::queue::Queue;
use ingest_queue::states::AccessState;
use ingest_steps::ledger::{self, Checked, Places};
use ractor::rpc::CallResult;
use serde_json::{Value, json};

use super::order::{DeleteBatch, OnBatch, Order, ReleaseCollection, SetPool};
use super::refused::{Kind, Refused};
use super::{bulk, feed, limit, pool_of};
use crate::house::{House, Life, Mode};
use crate::janitor;
use crate::janitor::upkeep::{Ran, Routine};
use crate::shared;

/// In whose name something is done, and for which request.
#[derive(Debug, Clone, Default)]
pub struct By {
    pub who: String,
    /// The id of the request: what is committed for it carries it.
    pub request: Option<String>,
    /// The request was taken before: perhaps it was done in part.
    pub repeated: bool,
}

type Answer<T = Value> = Result<T, Refused>;

/// Does it. `tell` hears how far it is, if it takes long.
pub async fn perform(
    house: &Arc<House>,
    life: &Arc<Life>,
    order: &Order,
    by: &By,
    tell: &(dyn Fn(String) + Send + Sync),
) -> Answer {
    let queue = &life.queue;
    match order {
        Order::RequeueJob(on) => {
            on_job(queue, by, on.jid, &JobAction::Requeue(on.state), &on.reason, on.force).await
        }
        Order::HoldJob(on) => on_job(queue, by, on.jid, &JobAction::Hold, &on.reason, on.force).await,
        Order::ReleaseJob(on) => on_job(queue, by, on.jid, &JobAction::Release, &on.reason, on.force).await,
        Order::JobPriority(on) => {
            let action = JobAction::SetPriority(priority_of("priority", &on.priority)?);
            on_job(queue, by, on.jid, &action, &on.reason, on.force).await
        }
        Order::DeleteJob(on) => {
            if !on.confirm {
                let (status, _) = queue.job_status(on.jid).await?;
                confirmed(false, format_args!("{}, which is {}, would go", on.jid, status.status))?;
            }
            on_job(queue, by, on.jid, &JobAction::Delete, &on.reason, on.force).await
        }
        Order::Bulk(order) => bulk::run(queue, order, by, tell).await,
        Order::HoldBatch(on) => on_batch(queue, by, on, BatchAction::Hold).await,
        Order::ReleaseBatch(on) => on_batch(queue, by, on, BatchAction::Release).await,
        Order::UpdateReport(on) => on_batch(queue, by, on, BatchAction::UpdateReport).await,
        Order::DeleteBatch(on) => delete_batch(queue, by, on).await,
        Order::HoldQueue(on) => {
            let (held, why) = (queue_of(&on.queue)?, reason(&on.reason)?);
            let was = queue.hold_queue(held, &by.who, why).await?;
            Ok(hold_changed("queue", held.name(), true, &was))
        }
        Order::ReleaseQueue(on) => {
            let held = queue_of(&on.queue)?;
            let was = queue.release_queue(held).await?;
            Ok(hold_changed("queue", held.name(), false, &was))
        }
        Order::HoldCollection(on) => {
            let (name, why) = (mnemonic(&on.collection)?, reason(&on.reason)?);
            let was = queue.hold_collection(name, &by.who, why).await?;
            let mut answer = hold_changed("collection", name, true, &was);
            if let Some(warning) = unknown_collection(life, name).await? {
                answer["warning"] = json!(warning);
            }
            Ok(answer)
        }
        Order::ReleaseCollection(on) => release_collection(queue, by, on).await,
        Order::RequeueAccess(on) => {
            let message = signed(&by.who, reason(&on.reason)?);
            queue.requeue_access(on.size, on.aid, &message).await?;
            Ok(json!({ "size": on.size, "aid": on.aid, "state": AccessState::Processing }))
        }
        Order::DeleteAccess(on) => {
            let why = reason(&on.reason)?;
            queue.access_item(on.size, on.aid).await?;
            if !on.confirm {
                let detail =
                    format!("{}: whoever asked for it will not be told; confirm=true does it", on.aid);
                return Err(Refused::new(Kind::NeedsConfirmation, detail));
            }
            queue.delete_access(on.size, on.aid).await?;
            tracing::info!(who = by.who, why, item = %on.aid, "an access item was deleted");
            Ok(json!({ "size": on.size, "aid": on.aid }))
        }
        Order::Fsck(_) => check(life, by, false, tell).await,
        Order::Repair(_) => check(life, by, true, tell).await,
        Order::Pause(on) => mode(house, by, reason(&on.reason)?, Mode::Paused),
        Order::Resume(on) => mode(house, by, reason(&on.reason)?, Mode::Running),
        Order::Drain(on) => {
            let why = reason(&on.reason)?;
            let changed = house.mode() != Mode::Draining;
            tracing::info!(who = by.who, why, "told to drain");
            house.drain();
            Ok(json!({ "mode": Mode::Draining.name(), "changed": changed }))
        }
        Order::SetPool(order) => set_pool(house, by, order),
        Order::PutProfile(order) => shared::put_profile(life, &order.name, &order.text, by).await,
        Order::DeleteProfile(order) => shared::delete_profile(life, &order.name, by).await,
        Order::SetSettings(order) => shared::set_settings(house, life, &order.settings, by).await,
        Order::UnsetSettings(order) => shared::unset_settings(house, life, &order.keys, by).await,
        Order::SetLimit(order) => {
            let to = order.limit.map_or(Wanted::NoLimit, Wanted::AtMost);
            limit::change(queue, &order.kind, &order.name, to).await
        }
        Order::ClearLimit(order) => {
            limit::change(queue, &order.kind, &order.name, Wanted::AsTheFileSays).await
        }
        Order::PauseFeed(on) => feed::pause(queue, by, on).await,
        Order::ResumeFeed(on) => feed::resume(queue, on).await,
        Order::AskFeed(on) => feed::ask(queue, by, on).await,
        Order::ResetFeed(on) => feed::reset(queue, by, on).await,
        Order::ForgetFeed(on) => feed::forget(queue, on).await,
        Order::RunUpkeep(order) => run_upkeep(house, &order.routine).await,
    }
}

async fn on_job(queue: &Queue, by: &By, jid: Jid, action: &JobAction, why: &str, force: bool) -> Answer {
    let message = signed(&by.who, reason(why)?);
    let acted = match &by.request {
        Some(id) => queue.act_once(jid, action, &message, force, format!("request-{id}")).await?,
        None => queue.act(jid, action, &message, force).await?,
    };
    let mut answer = json!({ "jid": jid, "from": acted.from, "state": acted.to });
    if let JobAction::SetPriority(priority) = action {
        answer["priority"] = json!(priority.number());
    }
    if let Some(warning) = acted.warning {
        answer["warning"] = json!(warning);
    }
    Ok(answer)
}

/// A batch by its id, or by the uuid that the depositor was given.
async fn batch_of(queue: &Queue, name: &str) -> Answer<Bid> {
    if let Ok(bid) = name.parse() {
        return Ok(bid);
    }
    let shown: String = name.chars().take(64).collect();
    let unknown = || Refused::new(Kind::NotFound, format!("there is no batch {}", shown.escape_debug()));
    match queue.find_batch(name).await {
        Ok(Some(bid)) => Ok(bid),
        Ok(None) | Err(Error::Invalid(_)) => Err(unknown()),
        Err(error) => Err(error.into()),
    }
}

async fn on_batch(queue: &Queue, by: &By, on: &OnBatch, action: BatchAction) -> Answer {
    let why = reason(&on.reason)?;
    let bid = batch_of(queue, &on.batch).await?;
    let from = queue.batch(bid).await?.state();
    let state = queue.act_on_batch(bid, action, &signed(&by.who, why), on.force).await?;
    Ok(json!({ "bid": bid, "from": from, "state": state }))
}

async fn delete_batch(queue: &Queue, by: &By, on: &DeleteBatch) -> Answer {
    let why = reason(&on.reason)?.to_owned();
    let bid = batch_of(queue, &on.batch).await?;
    let state = queue.batch(bid).await?.state();
    confirmed(on.confirm, format_args!("{bid}, which is {state}, and all its jobs would go"))?;
    // It goes on when whoever asked has gone: half a batch helps nobody.
    let (queue, who, force) = (queue.clone(), by.who.clone(), on.force);
    let deleting = tokio::spawn(async move { queue.delete_batch(bid, &who, &why, force, |_| {}).await });
    let lost = |error: tokio::task::JoinError| Refused::new(Kind::Internal, error.to_string());
    let deletion = deleting.await.map_err(lost)??;
    let warning = "the depositor will not be told";
    Ok(json!({ "bid": bid, "deleted_jobs": deletion.jobs, "warning": warning }))
}

/// What to say of a collection that nobody has heard of: perhaps its name is mistyped. Only so many batches are looked
/// at as a page of a list looks at, the newest first.
async fn unknown_collection(life: &Life, name: &str) -> Answer<Option<String>> {
    let known: Vec<String> =
        life.services().profiles.read().iter().map(|profile| profile.collection.clone()).collect();
    if known.iter().any(|collection| collection == name) {
        return Ok(None);
    }
    let filter = BatchFilter { collection: Some(name.to_owned()), ..BatchFilter::default() };
    let page = PageRequest { limit: 1, newest_first: true, ..PageRequest::default() };
    if !list::batches(life.queue.session(), &filter, &page).await?.lines.is_empty() {
        return Ok(None);
    }
    let meant = ingest_steps::profile::closest(name, known.iter().map(String::as_str));
    let hint = meant.map(|meant| format!("; did you mean `{meant}`?")).unwrap_or_default();
    Ok(Some(format!("no profile and none of the latest batches is of a collection of this name{hint}")))
}

async fn release_collection(queue: &Queue, by: &By, on: &ReleaseCollection) -> Answer {
    let name = mnemonic(&on.collection)?;
    let was = queue.release_collection(name).await?;
    let mut answer = hold_changed("collection", name, false, &was);
    if on.all {
        let released = queue.release_collection_and_all(name, &by.who, |_| {}).await?;
        let (jobs, batches, refused) = (released.jobs, released.batches, released.refused);
        answer["released"] = json!({ "jobs": jobs, "batches": batches, "refused": refused });
    }
    let StillHeld { jobs, batches } = queue.still_held(name).await?;
    answer["still_held"] = json!({ "jobs": jobs, "batches": batches });
    if jobs + batches > 0 {
        answer["still_held"]["command"] =
            json!(format!("ingestd release collection {} --all", shell_word(name)));
    }
    Ok(answer)
}

/// A word of a command line that a shell reads as it is.
pub fn shell_word(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:@%+=,".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

fn hold_changed(kind: &str, name: &str, held: bool, was: &Was) -> Value {
    json!({ "kind": kind, "name": name, "held": held, "changed": *was == Was::Changed })
}

fn queue_of(name: &str) -> Answer<HeldQueue> {
    HeldQueue::ALL.into_iter().find(|queue| queue.name().eq_ignore_ascii_case(name)).ok_or_else(|| {
        let known = HeldQueue::ALL.map(HeldQueue::name).join(", ");
        Refused::new(Kind::NotFound, format!("the queues are {known}"))
    })
}

/// A name in the tree is not longer than one of a profile.
fn mnemonic(name: &str) -> Answer<&str> {
    if name.chars().count() > 100 {
        return Err(Refused::field("mnemonic", "a collection's name has at most 100 letters"));
    }
    Ok(name)
}

async fn check(life: &Life, by: &By, repair: bool, tell: &(dyn Fn(String) + Send + Sync)) -> Answer {
    let queue = &life.queue;
    let options = fsck::Options { who: by.who.clone(), ..fsck::Options::new(queue.dialect()) };
    let mut progress = |now: fsck::Progress| tell(format!("{}: {} of {}", now.stage, now.done, now.total));
    let places = Places::of(&life.services());
    let places = places.map_err(|failure| Refused::new(Kind::Internal, failure.to_string()))?;
    let Checked { repaired, report } =
        ledger::fsck(queue, &options, Some(&places), repair, &mut progress).await?;
    Ok(json!({ "clean": report.is_clean(), "repaired": repaired, "report": report }))
}

fn mode(house: &House, by: &By, why: &str, mode: Mode) -> Answer {
    if house.mode() == Mode::Draining {
        return Err(Refused::new(Kind::Refused, "the node is draining, and does not come back"));
    }
    let changed = house.set_mode(mode);
    tracing::info!(who = by.who, why, mode = mode.name(), changed, "told how to go on");
    Ok(json!({ "mode": house.mode().name(), "changed": changed }))
}

fn set_pool(house: &House, by: &By, order: &SetPool) -> Answer {
    let name = &order.pool;
    let shown = || name.chars().take(64).collect::<String>();
    let unknown = || Refused::new(Kind::NotFound, format!("there is no pool {}", shown().escape_debug()));
    let mut pools = house.settings.load().pools;
    let pool = pool_of(&mut pools, name).ok_or_else(unknown)?;
    if let Some(size) = order.size {
        pool.size = size;
    }
    if let Some(stall) = &order.stall {
        let read: std::time::Duration =
            humantime::parse_duration(stall).map_err(|error| Refused::field("stall", error.to_string()))?;
        if read.is_zero() {
            return Err(Refused::field("stall", "it has to last longer than no time"));
        }
        pool.stall = read;
    }
    let changed = *pool;
    if let Some(problem) = pools.problems().into_iter().next() {
        return Err(Refused::field("size", problem));
    }
    house.set_pools(|pools| {
        if let Some(pool) = pool_of(pools, name) {
            *pool = changed;
        }
    });
    tracing::info!(who = by.who, pool = name, size = changed.size, "a pool was changed");
    let stall = humantime::format_duration(changed.stall).to_string();
    Ok(json!({ "name": name, "size": changed.size, "stall": stall }))
}

/// The janitor of this node does it, unless another node is at it.
async fn run_upkeep(house: &House, name: &str) -> Answer {
    let routine = Routine::from_name(name).ok_or_else(|| {
        let known = Routine::ALL.map(Routine::name);
        let rest = format!("the routines are {}", known.join(", "));
        Refused::unknown("routine", name, known.into_iter(), &rest)
    })?;
    let away = || Refused::new(Kind::Starting, "the node cannot be asked now: it is starting, or ends");
    let janitor = house.directory.janitor.read().clone().ok_or_else(away)?;
    let asked = janitor.call(|reply| janitor::Message::Run(routine, reply), None).await;
    let Ok(CallResult::Success(ran)) = asked else { return Err(away()) };
    match ran {
        Ran::Now(run) => Ok(json!(run)),
        Ran::Busy(node) => Err(Refused::new(Kind::Busy, format!("{node} is at it now"))),
        Ran::Not(why) => Err(Refused::new(Kind::Starting, format!("the tree cannot be asked now: {why}"))),
    }
}

/// Why somebody does something: not too long for a status.
pub(super) fn reason(text: &str) -> Answer<&str> {
    const LONGEST: usize = 1000;
    if text.chars().count() > LONGEST {
        return Err(Refused::field("reason", format!("at most {LONGEST} letters")));
    }
    Ok(text.trim())
}

/// Refuses what silences a report, unless it is confirmed.
pub(super) fn confirmed(confirm: bool, what: impl std::fmt::Display) -> Answer<()> {
    if confirm {
        return Ok(());
    }
    let detail = format!("{what}: the depositor will not be told what became of it; confirm=true does it");
    Err(Refused::new(Kind::NeedsConfirmation, detail))
}

/// A number, or the name of a class.
pub(super) fn priority_of(field: &str, value: &Value) -> Answer<Priority> {
    let text = match (value.as_str(), value.as_f64()) {
        (Some(text), _) => text.to_owned(),
        // JSON has one kind of numbers: 2.0 is 2.
        (None, Some(number)) if number.fract() == 0.0 => format!("{number:.0}"),
        (None, _) => value.to_string(),
    };
    text.parse().map_err(|error| Refused::field(field, format!("{error}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Pools;

    #[test]
    fn a_priority_is_a_number_or_a_name() {
        assert_eq!(priority_of("p", &json!(10)).unwrap().number(), 10);
        assert_eq!(priority_of("p", &json!(2.0)).unwrap().number(), 2);
        assert_eq!(priority_of("p", &json!("slow")).unwrap().number(), 80);
        for wrong in [json!(100), json!(2.5), json!(-1), json!(null), json!([1])] {
            assert!(priority_of("p", &wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_word_of_a_command_is_one_word_in_a_shell() {
        assert_eq!(shell_word("maps-2"), "maps-2");
        assert_eq!(shell_word(""), "''");
        assert_eq!(shell_word("it's $HOME"), r"'it'\''s $HOME'");
    }

    #[test]
    fn every_pool_can_be_changed() {
        let mut pools = Pools::default();
        let of_jobs: Vec<&str> =
            pools.of_jobs().into_keys().map(ingest_queue::states::States::name).collect();
        for (at, name) in of_jobs.into_iter().chain(["access_small", "access_large"]).enumerate() {
            pool_of(&mut pools, name).unwrap().size = at + 100;
            assert_eq!(pools.named(name).unwrap().size, at + 100, "{name}");
        }
        assert!(pool_of(&mut pools, "nothing").is_none());
    }
}
