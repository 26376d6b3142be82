//! The journal: what is to be done when, until when, and under which key.
//!
//! | what | where it is kept | who acts |
//! |---|---|---|
//! | a process date | in the job's status, and as `/journal/dates/MILLIS-JID`, until the job leaves pending | the index of every node, which has the refs in its heap |
//! | an expiration date | in the job's status, and as `/journal/expirations/MILLIS-JID`, until the job is begun, failed or gone | the timekeeper; whoever would acquire the job |
//! | a key | in the submission and the batch's status, and in `/journal/keys/HASH`, until the batch has ended | whoever makes, begins, ends, fails or deletes the batch |
//!
//! Each ref is made and removed in the multi that makes the job or moves it. So nobody has to be chosen to remove
//! the ref of a date that has come: it goes with the job, exactly once, by whoever takes it.
//!
//! A batch with a key waits unexpanded until its process date; one without is expanded at once, and its jobs wait. An
//! expired batch that is not expanded fails, and its report says so.
//!
//! **When things break.** The status is the truth. A job whose ref is missing is not handed out early: the date is
//! compared when it is acquired. A job that was being worked on when it expired is looked at again when it is given
//! back or waits in its next state. Wall clocks differ: dates are compared with the store's clock
//! ([`Queue::correct_clock`]).

mod keys;
pub mod merge;

use std::time::{Duration, Instant};

use bytes::Bytes;
use ingest_store::recipes::settle;

pub(crate) use keys::{KEY, KeyMove, is_about_keys};
pub use keys::{LONGEST as LONGEST_KEY, MOST_DISTURBED, key_of};

use crate::date::Date;
use crate::error::{Error, Result};
use crate::ids::{Bid, Jid};
use crate::map;
use crate::nodes::{Node, ReportedJob};
use crate::plan::batch::Batch;
use crate::plan::job::{Action, Job};
use crate::queue::Queue;
use crate::states::{BatchState, JobState};

/// In a report's line: when the job expired.
pub const EXPIRED: &str = "expired";

/// Something that people should hear of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alert {
    pub jid: Jid,
    pub at: Date,
    pub why: String,
}

/// Whether a batch may be expanded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begin {
    Now,
    /// It has a key, and a process date.
    NotBefore(Date),
    /// This one has the same key, and has not ended. Until this date it may wait.
    Behind(Bid, Option<Date>),
    /// It was to be begun before this date.
    Expired(Date),
    /// It waits for a person, until it expires.
    Until(Option<Date>),
}

impl ReportedJob {
    /// When it expired, if that is why it is not there.
    pub fn expired(&self) -> Option<&str> {
        self.other.get(EXPIRED)?.as_str()
    }
}

impl Queue {
    /// What people should hear of, from now on.
    pub fn alerts(&self) -> tokio::sync::broadcast::Receiver<Alert> {
        self.alerts.subscribe()
    }

    pub(crate) fn alert(&self, jid: Jid, why: &str) {
        // Nobody has to listen.
        let _ = self.alerts.send(Alert { jid, at: self.now(), why: why.to_owned() });
    }

    /// Refuses a job that is not due; one that has expired is removed.
    pub(crate) async fn is_ripe(&self, job: &Job) -> Result<()> {
        let (status, now) = (&job.status, self.now());
        if status.is_expired(now) {
            // Rarely needed, and large.
            if let Err(error @ Error::Store(_)) = Box::pin(self.expire(job.jid)).await {
                return Err(error);
            }
            return Err(Error::changed(job.jid, "it has expired"));
        }
        match status.process_date.filter(|date| *date > now && job.state() == JobState::Pending) {
            Some(until) => Err(Error::NotDue { what: job.jid.to_string(), until }),
            None => Ok(()),
        }
    }

    /// Removes a job that waits and has expired. `false`: it is not so, or not any more. `Busy`: somebody works
    /// on it, and will look again.
    pub async fn expire(&self, jid: Jid) -> Result<bool> {
        let job = match self.job(jid).await {
            Err(Error::NotFound(_)) => return Ok(false),
            job => job?,
        };
        let Some(date) = job.status.expiration_date.filter(|_| job.status.is_expired(self.now())) else {
            return Ok(false);
        };
        let message = format!("expired: it was to be begun before {date}, and was {} then", job.state());
        match self.act_at(jid, &Action::Expire, &message, job.version).await {
            Ok(_) => {
                tracing::warn!(%jid, bid = %job.bid, "{message}");
                Ok(true)
            }
            // Another was faster.
            Err(Error::NotFound(_) | Error::Changed { .. } | Error::Lost { .. } | Error::Refused { .. }) => {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// The same after its lock was given back: if it does not work out now, the timekeeper's next look does it.
    pub(crate) async fn expire_if_free(&self, jid: Jid) {
        if let Err(error) = Box::pin(self.expire(jid)).await {
            tracing::debug!(%jid, %error, "an expired job is left for later");
        }
    }

    /// What a batch says of a job that has expired, when the job itself is gone.
    pub(crate) async fn obituary(&self, job: &Job, message: &str) -> Result<Bytes> {
        let mut reported = self.reported_job(job.jid).await?;
        message.clone_into(&mut reported.message);
        let date = job.status.expiration_date.unwrap_or_else(|| self.now());
        reported.other.insert(EXPIRED.to_owned(), date.to_string().into());
        Ok(reported.write(self.dialect()))
    }

    /// Whether a batch that is pending or held may be expanded now.
    pub async fn may_begin(&self, batch: &Batch) -> Result<Begin> {
        let held = batch.state() == BatchState::Held;
        if !held && batch.state() != BatchState::Pending {
            return Ok(Begin::Now);
        }
        let submission = self.submission(batch.bid).await?;
        let (now, expiration) = (self.now(), submission.expiration_date());
        if let Some(date) = expiration.filter(|date| *date <= now) {
            return Ok(Begin::Expired(date));
        }
        if held {
            return Ok(Begin::Until(expiration));
        }
        let Some(key) = key_of(batch) else { return Ok(Begin::Now) };
        let keyed = self.keyed(key).await?;
        if let Some(first) = self.ahead_of(batch.bid, &keyed).await? {
            return Ok(Begin::Behind(first, expiration));
        }
        let process = submission.process_date().filter(|date| *date > now);
        // One that expires before it may begin is looked at then.
        let next = process.map(|date| expiration.map_or(date, |late| late.min(date)));
        Ok(next.map_or(Begin::Now, Begin::NotBefore))
    }

    /// Compares this machine's clock with the store's, and goes by the store's from now on. Answers by how many
    /// milliseconds this machine's is behind; what the way to the store can explain is nothing.
    pub async fn correct_clock(&self) -> Result<i64> {
        let (session, started) = (&self.session, Instant::now());
        let before = self.clock.uncorrected();
        let stat = settle(session, || session.set(map::JOURNAL, "", None)).await.answer?;
        let way = started.elapsed();
        let middle = before.after(way / 2);
        let off = stat.mtime.saturating_sub(middle.millis());
        let doubt = i64::try_from(way.as_millis()).unwrap_or(i64::MAX).saturating_add(2);
        let off = if off.abs() <= doubt { 0 } else { off };
        self.clock.set_offset(off);
        if off.unsigned_abs() > u64::try_from(WORRYING.as_millis()).unwrap_or(u64::MAX) {
            tracing::warn!(off, "this machine's clock differs from the tree's; dates go by the tree's");
        }
        Ok(off)
    }
}

/// A clock that is off by more is warned of.
const WORRYING: Duration = Duration::from_secs(2);
