//! The map of the tree: the only place that knows a path.
//!
//! A *ref* is an empty node whose name says everything: `/jobs/states/STATE/PP-JID` puts a job into a
//! queue, `/batches/BID/states/LIST/JID` into a list of its batch.

mod access;
mod batch;
mod job;
mod priority;

pub use access::AccessSize;
pub use batch::BatchNode;
pub use job::{JobNode, QueueRef};
pub use priority::{NotAPriority, Priority};

use sha2::{Digest, Sha256};

use crate::dialect::Dialect;
use crate::feeds::Qid;
use crate::ids::{Bid, Jid};
use crate::states::{BatchList, JobState};

pub const BATCHES: &str = "/batches";
pub const BATCH_UUIDS: &str = "/batch-uuids";
pub const JOBS: &str = "/jobs";
pub const JOB_STATES: &str = "/jobs/states";
pub const JOURNAL: &str = "/journal";
pub const JOURNAL_KEYS: &str = "/journal/keys";
pub const JOURNAL_DATES: &str = "/journal/dates";
pub const JOURNAL_EXPIRATIONS: &str = "/journal/expirations";
pub const LOCKS: &str = "/locks";
pub const QUEUE_HOLDS: &str = "/locks/queue";
pub const COLLECTION_HOLDS: &str = "/locks/collections";
pub const STORAGE_LOCKS: &str = "/locks/storage";
pub const INVENTORY_LOCKS: &str = "/locks/inventory";
pub const LOCAL_IDS: &str = "/locks/localid";
pub const ACCESS: &str = "/access";
pub const OUTBOX: &str = "/outbox";
/// What the administrators are to be told.
pub const ALERTS: &str = "/alerts";
pub const SPACE: &str = "/space";
pub const MINTER: &str = "/minter";
/// Which repository the tree belongs to; set anew when a repair has made the tree fit again.
pub const REPOSITORY: &str = "/repository";
pub const COMPONENTS: &str = "/components";
pub const NODES: &str = "/components/node";
pub const SEMAPHORES: &str = "/semaphores";
pub const ELECTIONS: &str = "/elections";
pub const CLEANUP: &str = "/cleanup";
pub const QUARANTINE: &str = "/quarantine";
pub const QUEUES: &str = "/queues";
pub const WORKERS: &str = "/workers";
/// What the names of workers begin with.
pub const WORKER: &str = "worker-";
pub const REQUESTS: &str = "/requests";
pub const PROFILES: &str = "/profiles";
pub const CONF: &str = "/system/conf";
pub const CONF_LOCK: &str = "/system/conf-lock";

/// What else stands at the top of the tree, in neither this list nor a constant above.
pub const OTHER_TOPS: &[&str] =
    &["journal", "requests", "cleanup", "elections", "system", "profiles", "ltime"];

/// The directories that a node makes at its start.
pub fn directories(dialect: Dialect) -> Vec<String> {
    let fixed = [
        BATCHES,
        BATCH_UUIDS,
        JOBS,
        JOB_STATES,
        QUEUE_HOLDS,
        COLLECTION_HOLDS,
        STORAGE_LOCKS,
        INVENTORY_LOCKS,
        LOCAL_IDS,
    ];
    let ours = [
        JOURNAL_KEYS,
        JOURNAL_DATES,
        JOURNAL_EXPIRATIONS,
        OUTBOX,
        ALERTS,
        QUARANTINE,
        QUEUES,
        WORKERS,
        PROFILES,
        "/system",
    ];
    let requests = RequestNode::ALL.map(RequestNode::dir);
    let queues = JobState::queues(dialect).map(queue);
    let access = AccessSize::ALL.map(AccessSize::dir);
    fixed
        .into_iter()
        .map(str::to_owned)
        .chain(queues)
        .chain(access)
        .chain(ours.map(str::to_owned))
        .chain(requests)
        .collect()
}

/// `/jobs/states/STATE`.
pub fn queue(state: JobState) -> String {
    format!("{JOB_STATES}/{state}")
}

pub fn job(jid: Jid) -> String {
    format!("{JOBS}/{jid}")
}

pub fn batch(bid: Bid) -> String {
    format!("{BATCHES}/{bid}")
}

/// `/batches/BID/states/LIST`.
pub fn batch_list(bid: Bid, list: BatchList) -> String {
    format!("{BATCHES}/{bid}/states/{}", list.name())
}

/// `/batches/BID/states/LIST/JID`.
pub fn batch_ref(bid: Bid, list: BatchList, jid: Jid) -> String {
    format!("{BATCHES}/{bid}/states/{}/{jid}", list.name())
}

/// `/batch-uuids/UUID`.
pub fn batch_uuid(uuid: &str) -> String {
    format!("{BATCH_UUIDS}/{uuid}")
}

/// `/queues/QID`.
pub fn feed(qid: Qid) -> String {
    format!("{QUEUES}/{qid}")
}

/// `/queues/QID/lock`.
pub fn feed_lock(qid: Qid) -> String {
    format!("{QUEUES}/{qid}/lock")
}

/// `/queues/QID/ask`: somebody wants it to be asked now.
pub fn feed_ask(qid: Qid) -> String {
    format!("{QUEUES}/{qid}/ask")
}

/// `/alerts/NAME`.
pub fn alert(name: &str) -> String {
    format!("{ALERTS}/{name}")
}

/// `/outbox/BID-N`.
pub fn outbox(bid: Bid, number: u32) -> String {
    format!("{OUTBOX}/{bid}-{number}")
}

/// `/journal/dates/MILLIS-JID`: sorted by name they are sorted by date.
pub fn journal_date(millis: i64, jid: Jid) -> String {
    format!("{JOURNAL_DATES}/{:015}-{jid}", millis.max(0))
}

/// `/journal/expirations/MILLIS-JID`: the same for the dates after which it is too late.
pub fn journal_expiration(millis: i64, jid: Jid) -> String {
    format!("{JOURNAL_EXPIRATIONS}/{:015}-{jid}", millis.max(0))
}

/// Takes the name of such a node apart.
pub fn parse_journal_date(name: &str) -> Option<(i64, Jid)> {
    let (millis, jid) = name.split_once('-')?;
    Some((millis.parse().ok()?, jid.parse().ok()?))
}

/// `/journal/keys/HASH`.
pub fn journal_key(key: &str) -> String {
    format!("{JOURNAL_KEYS}/{}", hash(&[key]))
}

/// A whole queue that a person can hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum HeldQueue {
    Ingest,
    AccessSmall,
    AccessLarge,
}

impl HeldQueue {
    pub const ALL: [HeldQueue; 3] = [HeldQueue::Ingest, HeldQueue::AccessSmall, HeldQueue::AccessLarge];

    pub fn name(self) -> &'static str {
        match self {
            HeldQueue::Ingest => "ingest",
            HeldQueue::AccessSmall => "accessSmall",
            HeldQueue::AccessLarge => "accessLarge",
        }
    }

    pub fn path(self) -> String {
        format!("{QUEUE_HOLDS}/{}", self.name())
    }
}

/// `/locks/collections/MNEMONIC`.
pub fn collection_hold(mnemonic: &str) -> String {
    format!("{COLLECTION_HOLDS}/{}", escape(mnemonic))
}

pub fn storage_lock(ark: &str) -> String {
    format!("{STORAGE_LOCKS}/{}", escape(ark))
}

pub fn inventory_lock(ark: &str) -> String {
    format!("{INVENTORY_LOCKS}/{}", escape(ark))
}

/// `/locks/localid/HASH`: a local id belongs to its owner, a collection or a depositor.
pub fn local_id(owner: &str, local_id: &str) -> String {
    format!("{LOCAL_IDS}/{}", hash(&[owner, local_id]))
}

/// A name in a path: `:/` and `/` become `_`, as in the other systems that share these locks. Two
/// names may become one: the full name is in the data. What no path may hold becomes `_` too.
pub fn escape(name: &str) -> String {
    let escaped = name.replace(":/", "_");
    let escaped: String =
        escaped.chars().map(|c| if c == '/' || c.is_control() || c > '\u{d7ff}' { '_' } else { c }).collect();
    match escaped.as_str() {
        "" | "." | ".." => format!("_{escaped}"),
        _ => escaped,
    }
}

/// Half of SHA-256 over the parts, in 32 hex digits; their borders count.
pub fn hash(parts: &[&str]) -> String {
    let mut sha = Sha256::new();
    for part in parts {
        sha.update((part.len() as u64).to_be_bytes());
        sha.update(part.as_bytes());
    }
    let digest = sha.finalize();
    let half: [u8; 16] = std::array::from_fn(|at| digest.get(at).copied().unwrap_or(0));
    format!("{:032x}", u128::from_be_bytes(half))
}

/// A node of a management request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RequestNode {
    Request,
    Lock,
    Params,
    Result,
    ResultData,
    Waiter,
}

impl RequestNode {
    pub const ALL: [RequestNode; 6] = [
        RequestNode::Request,
        RequestNode::Lock,
        RequestNode::Params,
        RequestNode::Result,
        RequestNode::ResultData,
        RequestNode::Waiter,
    ];

    pub fn name(self) -> &'static str {
        match self {
            RequestNode::Request => "requests",
            RequestNode::Lock => "locks",
            RequestNode::Params => "params",
            RequestNode::Result => "results",
            RequestNode::ResultData => "result-data",
            RequestNode::Waiter => "waiters",
        }
    }

    /// `/requests/results`.
    pub fn dir(self) -> String {
        format!("{REQUESTS}/{}", self.name())
    }

    /// `/requests/results/UUID`.
    pub fn of(self, uuid: &str) -> String {
        format!("{REQUESTS}/{}/{uuid}", self.name())
    }
}

/// `/profiles/NAME`.
pub fn profile(name: &str) -> String {
    format!("{PROFILES}/{}", escape(name))
}

/// The fence of a lock of this map, `None` for a lock that has none.
pub fn fence_of(lock: &str) -> Option<String> {
    let of_request = lock.strip_prefix(REQUESTS).and_then(|rest| rest.strip_prefix("/locks/"));
    if let Some(uuid) = of_request {
        return Some(RequestNode::Request.of(uuid));
    }
    let thing = lock.strip_suffix("/lock")?;
    // A feed is its own fence.
    if ingest_store::path::parent(thing) == QUEUES {
        return Some(thing.to_owned());
    }
    let ours = [JOBS, BATCHES, ACCESS].iter().any(|top| ingest_store::path::is_within(thing, top));
    ours.then(|| format!("{thing}/status"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped_as_other_systems_do_and_always_fit_a_path() {
        assert_eq!(storage_lock("ark:/13030/m5rn35s8"), "/locks/storage/ark_13030_m5rn35s8");
        for odd in ["", ".", "..", "a/b", "\u{0}", "a\u{7}b", "\u{f000}", "\u{1f600}", "\u{fff9}"] {
            let path = collection_hold(odd);
            assert!(ingest_store::path::validate(&path, false).is_ok(), "{odd:?} becomes {path:?}");
        }
    }

    #[test]
    fn the_borders_of_what_is_hashed_count() {
        assert_ne!(local_id("ab", "c"), local_id("a", "bc"));
        assert_eq!(local_id("ab", "c").len(), LOCAL_IDS.len() + 33);
    }

    #[test]
    fn dates_of_the_journal_sort_by_name() {
        let path = journal_date(1_763_000_000_000, Jid::new(4));
        assert_eq!(path, "/journal/dates/001763000000000-jid0000000004");
        let name = ingest_store::path::name(&path);
        assert_eq!(parse_journal_date(name), Some((1_763_000_000_000, Jid::new(4))));
    }

    #[test]
    fn only_locks_on_jobs_batches_access_items_and_feeds_have_a_fence() {
        assert_eq!(fence_of("/jobs/jid0000000001/lock").as_deref(), Some("/jobs/jid0000000001/status"));
        assert_eq!(
            fence_of("/access/small/qid0000000001/lock").as_deref(),
            Some("/access/small/qid0000000001/status")
        );
        let feed = Qid::of("herbarium");
        assert_eq!(fence_of(&feed_lock(feed)), Some(super::feed(feed)));
        assert_eq!(fence_of("/locks/storage/ark_1_2"), None);
        assert_eq!(fence_of("/components/node/a-0000000001"), None);
    }
}
