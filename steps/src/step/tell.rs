//! What depositors are told of a batch: that it is queued, what became of it, what has changed since.
//!
//! A report is noted in the outbox of the tree before it is sent, with its number and its date; its Message-ID
//! is the batch and the number. So the same report is the same message on whichever node it is composed again,
//! and no report has two ids. A batch that failed before it had jobs owes its report 1 from that moment on:
//! [`Queue::with_report_in_outbox`] finds it.
//!
//! **When things break.** A report is sent at least once, always under its id: a node that dies between sending
//! it and noting that leaves it to be sent again. One that cannot be sent keeps the batch as it is, with the
//! reason in its message, and is [`Failure::Later`]; the lease is still the caller's then. If nobody can be
//! told, not even an administrator, the report is finished and the batch's message says so.

use ingest_queue::batches::{BatchLease, NOTE, ReportDraft};
use ingest_queue::ids::Bid;
use ingest_queue::nodes::Submission;
use ingest_queue::queue::Queue;
use ingest_queue::states::BatchState;

use crate::mail::Message;
use crate::outcome::{Failure, Progress, Result, on_a_thread};
use crate::profile::Profile;
use crate::report::{self, About};
use crate::services::Services;

/// In a batch's status: when its depositor was told that it is queued.
const TOLD_QUEUED: &str = "told_queued";

/// What became of a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Told {
    /// It was sent, now or before, and the batch is in this state.
    Sent(BatchState),
    /// Nothing has changed since the last one.
    NoNews(BatchState),
    /// There is nobody to tell.
    Nobody(BatchState),
}

/// Sends the report that a batch owes, and ends it. Gives the lease back if that is done.
pub async fn run(
    queue: &Queue,
    lease: &mut BatchLease,
    services: &Services,
    progress: &Progress,
) -> Result<Told> {
    let draft = queue.draft_report_telling(lease, &|_| progress.beat()).await?;
    match attempt(queue, lease, services, draft).await {
        // The tree was away, or the batch is another's: there is nothing to note.
        Err(failure @ (Failure::Again(_) | Failure::Lost(_) | Failure::Cancelled)) => Err(failure),
        Err(failure) => Err(put_off(queue, lease, &failure).await),
        told => told,
    }
}

async fn attempt(
    queue: &Queue,
    lease: &mut BatchLease,
    services: &Services,
    mut draft: ReportDraft,
) -> Result<Told> {
    if !draft.is_news() {
        return Ok(Told::NoNews(queue.finish_report(lease, &draft).await?));
    }
    let submission = queue.submission(draft.bid).await?;
    let profile = profile(queue, services, draft.bid, &submission.profile_name).await?;
    let mut message = composed(&draft, submission, profile, services).await?;
    let bad = address(&mut message, services);
    let nobody = message.to.is_empty();
    let mut notes = Vec::new();
    if nobody {
        notes.push("nobody was told: neither the profile nor the submission gives an address, and there are no `mail.admins`".to_owned());
    }
    if !bad.is_empty() {
        notes.push(format!("no mail address: {}", bad.join(", ")));
    }
    if !notes.is_empty() {
        draft.report.other.insert(NOTE.into(), notes.join("; ").into());
    }
    if draft.sent.is_none() {
        if !nobody {
            gate(queue, lease).await?;
            services.mail.send(&message).await?;
        }
        queue.report_sent(lease, &mut draft).await?;
    }
    // Nobody needs it while the report is written to the tree.
    drop(message);
    let state = queue.finish_report(lease, &draft).await?;
    Ok(if nobody { Told::Nobody(state) } else { Told::Sent(state) })
}

/// On a thread of its own: a report can be long.
async fn composed(
    draft: &ReportDraft,
    submission: Submission,
    profile: Profile,
    services: &Services,
) -> Result<Message> {
    let (draft, sender) = (draft.clone(), services.sender.clone());
    let composed = on_a_thread(move || {
        let about = About { bid: draft.bid, submission: &submission, profile: &profile };
        report::report(&about, &draft, &sender)
    });
    composed.await.map_err(|error| Failure::fail(format!("its report cannot be composed: {error}")))?
}

/// As it is now, so that an address that was put right holds; one that is gone as the batch has kept it.
async fn profile(queue: &Queue, services: &Services, bid: Bid, name: &str) -> Result<Profile> {
    let missing = match services.profile(name) {
        Ok(profile) => return Ok(profile),
        Err(missing) => missing,
    };
    let frozen = queue.frozen_profile(bid).await?;
    frozen.and_then(|frozen| Profile::thaw(&frozen).ok()).ok_or(missing)
}

/// Tells the depositor that a submission is queued, if its profile wants that and it was not done before. In
/// doubt it is sent again, under the same id. `true` if it was sent. Keeps the lease.
pub async fn queued(queue: &Queue, lease: &mut BatchLease, services: &Services) -> Result<bool> {
    let bid = lease.bid();
    if lease.batch().status.other.contains_key(TOLD_QUEUED) {
        return Ok(false);
    }
    let submission = queue.submission(bid).await?;
    let profile = services.profile(&submission.profile_name)?;
    if !profile.notify.queued {
        return Ok(false);
    }
    let Some(mut message) = queued_message(lease, &submission, &profile, services) else { return Ok(false) };
    address(&mut message, services);
    if message.to.is_empty() {
        return Ok(false);
    }
    gate(queue, lease).await?;
    services.mail.send(&message).await?;
    queue.note_told(lease, TOLD_QUEUED).await?;
    Ok(true)
}

/// With the date of the submission, which does not change.
fn queued_message(
    lease: &BatchLease,
    submission: &Submission,
    profile: &Profile,
    services: &Services,
) -> Option<Message> {
    let about = About { bid: lease.bid(), submission, profile };
    Some(report::queued(&about, &services.sender, submission.insertion_date?))
}

/// Leaves out what is no address, so that it keeps nobody else from being told; and answers it. If nobody is
/// left, the administrators are told.
fn address(message: &mut Message, services: &Services) -> Vec<String> {
    let is_address = |text: &String| text.parse::<lettre::message::Mailbox>().is_ok();
    let (good, bad) = std::mem::take(&mut message.to).into_iter().partition(is_address);
    message.to = good;
    if message.to.is_empty() {
        message.to = services.settings.mail.admins.iter().filter(|text| is_address(text)).cloned().collect();
    }
    bad
}

/// Passed before something is sent: the batch is still ours. An answer that takes too long counts as none.
async fn gate(queue: &Queue, lease: &BatchLease) -> Result<()> {
    let limit = queue.session().timeout() / 3;
    match tokio::time::timeout(limit, queue.gate_of_batch(lease)).await {
        Ok(answer) => Ok(answer?),
        Err(_) => Err(Failure::Again(format!("the tree did not answer within {limit:?}"))),
    }
}

/// The batch stays what it is, and says why.
async fn put_off(queue: &Queue, lease: &mut BatchLease, failure: &Failure) -> Failure {
    let why = format!("its report is not sent yet: {failure}");
    // The message of a batch that failed is what is to be told.
    let may_note = lease.batch().state().is_reporting() && lease.batch().status.message != why;
    if may_note && let Err(error) = queue.note_batch(lease, &why).await {
        return error.into();
    }
    Failure::Later(why)
}
