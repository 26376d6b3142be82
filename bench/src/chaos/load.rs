//! Deposits, one after the other, as long as faults are made; and who was told what of each.
//!
//! A deposit is submitted over HTTP to whichever node answers, under its own uuid, again and again until one says yes.
//! What it was answered is entered: at the end every one of them must be there once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result};
use ingest_harness::let_pass;
use ingest_queue::ids::{Bid, Jid};
use ingest_queue::map::JobNode;
use parking_lot::Mutex;
use serde_json::json;

use super::deposit::{Deposit, Fate, deposit};
use super::people;
use super::source::{Published, Served};
use super::world::World;

/// As many jobs are under way at most: enough for everybody to have something to do.
const BACKLOG: usize = 50;
/// So many in a run at most: every check reads all of them.
const MOST: u32 = 1200;
const PAUSE: Duration = Duration::from_millis(700);

/// A deposit that somebody has said yes to.
#[derive(Debug, Clone)]
pub(crate) struct Made {
    pub(crate) deposit: Deposit,
    pub(crate) bid: Bid,
    pub(crate) served: Vec<Arc<Served>>,
}

/// What was deposited.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    next: AtomicU64,
    full: AtomicBool,
    made: Mutex<Vec<Made>>,
    spoilt: Mutex<BTreeMap<Jid, Vec<JobNode>>>,
    robbed: Mutex<BTreeSet<Jid>>,
}

impl Ledger {
    /// Nothing more is deposited by itself.
    pub(crate) fn close(&self) {
        self.full.store(true, Ordering::SeqCst);
    }

    pub(crate) fn made(&self) -> Vec<Made> {
        self.made.lock().clone()
    }

    /// How many misdeeds the files that complete are served with: a download succeeds after the last of its misdeeds.
    fn misdeeds(&self) -> usize {
        let made = self.made.lock();
        let rows = made.iter().flat_map(|made| &made.deposit.rows);
        rows.filter(|row| row.fate == Fate::Good).map(|row| row.misdeeds.len()).sum()
    }

    /// Somebody has written garbage into this node of a job.
    pub(crate) fn spoil(&self, jid: Jid, node: JobNode) {
        self.spoilt.lock().entry(jid).or_default().push(node);
    }

    /// The nodes of a job that somebody has written garbage into.
    pub(crate) fn spoilt(&self, jid: Jid) -> Vec<JobNode> {
        self.spoilt.lock().get(&jid).cloned().unwrap_or_default()
    }

    /// A job is taken from its worker, who keeps its slot of a limit until it has noticed that and stopped.
    pub(crate) fn rob(&self, jid: Jid) {
        self.robbed.lock().insert(jid);
    }

    /// Whether a text is about a job that was taken from its worker.
    pub(crate) fn tells_of_robbed(&self, text: &str) -> bool {
        self.robbed.lock().iter().any(|jid| text.contains(&jid.to_string()))
    }

    /// Every source has from now on what it lacked.
    pub(crate) fn repair_sources(&self) {
        self.made.lock().iter().flat_map(|made| &made.served).for_each(|served| served.repair());
    }
}

/// Deposits until the ledger is closed, and until enough is deposited that `misdeeds` files are served badly and complete all the
/// same: on a slow machine the run may be over before.
pub(crate) async fn run(world: &World, length: Duration, misdeeds: usize) -> Result<()> {
    let pause = PAUSE.max(length / MOST);
    while !world.ledger.full.load(Ordering::SeqCst) || world.ledger.misdeeds() < misdeeds {
        if world.under_way().await? < BACKLOG {
            submit(world, None).await?;
        }
        let_pass(pause).await;
    }
    Ok(())
}

/// Makes one deposit, for a collection if it matters.
pub(crate) async fn submit(world: &World, collection: Option<&'static str>) -> Result<Bid> {
    let number = world.ledger.next.fetch_add(1, Ordering::SeqCst);
    let mut deposit = deposit(world.seed, number);
    if let Some(collection) = collection {
        deposit.collection = collection;
    }
    let Published { payload, sha256, served } = world.sources.publish(&deposit);
    let mut body = json!({
        "profile": format!("{}_content", deposit.collection),
        "submitter": "chaos",
        "payload_url": payload.as_str(),
        "uuid": deposit.uuid,
    });
    match sha256 {
        None => body["type"] = "single_file_batch_manifest".into(),
        Some(sha256) => {
            body["type"] = "file".into();
            body["local_id"] = json!([deposit.rows[0].local_id]);
            body["digest_type"] = "sha-256".into();
            body["digest_value"] = sha256.into();
        }
    }
    let at = usize::try_from(number).unwrap_or(0);
    let answer = people::insist(world, at, reqwest::Method::POST, "/api/v1/batches", Some(&body)).await?;
    let bid = answer["bid"].as_str().and_then(|bid| bid.parse().ok());
    let bid = bid.with_context(|| format!("a submission was answered {answer}"))?;
    world.ledger.made.lock().push(Made { deposit, bid, served });
    Ok(bid)
}
