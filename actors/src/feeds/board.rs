//! How the feeds of this node fare, for people and for metrics; and how those who consume them are told.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ingest_queue::date::Date;
use ingest_queue::feeds::Qid;
use ingest_steps::feed::Round;
use ingest_steps::outcome::Cancel;
use parking_lot::{Mutex, RwLock};
use tokio::sync::Notify;

/// What a node does with a feed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Doing {
    /// Another has it, or a person has paused it.
    #[default]
    Waiting,
    /// The source is asked, or its items are consumed.
    Asking,
    /// Everything was consumed; it waits for more.
    Idle,
    /// It could not be asked, and is tried again.
    Failing,
}

impl Doing {
    pub fn name(self) -> &'static str {
        match self {
            Doing::Waiting => "waiting",
            Doing::Asking => "asking",
            Doing::Idle => "idle",
            Doing::Failing => "failing",
        }
    }
}

/// A feed as it fares here, since the node began.
#[derive(Debug, Clone, Default)]
pub struct Status {
    pub doing: Doing,
    pub taken: u64,
    pub known: u64,
    pub skipped: u64,
    pub errors: u64,
    /// Failures since it could be asked last.
    pub in_a_row: u32,
    pub trouble: Option<String>,
    /// When it was asked last, and when everything that there was had been consumed.
    pub asked: Option<Date>,
    pub caught_up: Option<Date>,
    /// When it is asked again, if nothing happens before.
    pub next: Option<Date>,
    /// Since when there has been something that is not consumed.
    pub behind: Option<Date>,
}

impl Status {
    /// For how long something has been waiting there, as far as that is known.
    pub fn lag(&self, now: Date) -> Duration {
        self.behind.map_or(Duration::ZERO, |since| since.until(now))
    }
}

/// One who consumes, as its supervisor sees it.
#[derive(Debug)]
pub struct Control {
    pub name: String,
    pub qid: Qid,
    pub(crate) cancel: Cancel,
    /// Ask now.
    pub(crate) ask: Notify,
    /// Something has happened to the feed's nodes: look whether it is still, or may be, ours.
    pub(crate) look: Notify,
    status: Mutex<Status>,
}

impl Control {
    pub(crate) fn new(name: &str, qid: Qid, before: Option<Status>) -> Self {
        let status = Status { doing: Doing::Waiting, next: None, ..before.unwrap_or_default() };
        Self {
            name: name.to_owned(),
            qid,
            cancel: Cancel::new(),
            ask: Notify::new(),
            look: Notify::new(),
            status: Mutex::new(status),
        }
    }

    pub fn status(&self) -> Status {
        self.status.lock().clone()
    }

    pub(crate) fn doing(&self, doing: Doing, now: Date) {
        let mut status = self.status.lock();
        status.doing = doing;
        if doing == Doing::Asking {
            status.asked = Some(now);
            status.next = None;
            status.behind.get_or_insert(now);
        }
        if doing == Doing::Waiting {
            (status.next, status.behind) = (None, None);
        }
    }

    pub(crate) fn went_well(&self, round: &Round, now: Date) {
        let mut status = self.status.lock();
        status.taken += round.taken;
        status.known += round.known;
        status.skipped += round.skipped;
        (status.in_a_row, status.trouble) = (0, None);
        if !round.more {
            status.doing = Doing::Idle;
            status.caught_up = Some(now);
            status.behind = None;
        }
    }

    /// How many in a row these are.
    pub(crate) fn failed(&self, why: &str) -> u32 {
        let mut status = self.status.lock();
        status.doing = Doing::Failing;
        status.errors += 1;
        status.in_a_row += 1;
        status.trouble = Some(why.to_owned());
        status.in_a_row
    }

    pub(crate) fn next(&self, at: Option<Date>) {
        self.status.lock().next = at;
    }
}

/// All of a node, by name.
#[derive(Debug, Default)]
pub struct Board(RwLock<BTreeMap<String, Arc<Control>>>);

impl Board {
    pub fn all(&self) -> Vec<Arc<Control>> {
        self.0.read().values().cloned().collect()
    }

    pub fn get(&self, name: &str) -> Option<Arc<Control>> {
        self.0.read().get(name).cloned()
    }

    /// A feed that is to be consumed here. What was counted before goes on.
    pub(crate) fn begin(&self, name: &str, qid: Qid) -> Arc<Control> {
        let mut all = self.0.write();
        let before = all.get(name).map(|control| control.status());
        let control = Arc::new(Control::new(name, qid, before));
        all.insert(name.to_owned(), control.clone());
        control
    }
}
