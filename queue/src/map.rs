//! The map of the tree: the only place that knows a path.
//!
//! A *ref* is an empty node whose name says everything: `/jobs/states/STATE/PP-JID` puts a job into a
//! queue, `/batches/BID/states/LIST/JID` into a list of its batch.

use std::fmt;

use sha2::{Digest, Sha256};

use crate::dialect::Dialect;
use crate::feeds::Qid;
use crate::ids::{Aid, Bid, Jid};
use crate::states::{BatchList, JobState, States};

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

/// How soon a job runs: two digits, lower first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub struct Priority(u8);

/// Not a priority.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a priority: it is a number from 0 to 99, or one of {names}", names = Priority::names())]
pub struct NotAPriority(String);

impl Priority {
    pub const FIRST: Priority = Priority(0);
    pub const DEFAULT: Priority = Priority(5);
    /// From here on a job runs only when nothing below waits.
    pub const SLOW: Priority = Priority(80);
    pub const LAST: Priority = Priority(99);

    /// The classes that have a name, unless the configuration says otherwise.
    pub const CLASSES: &'static [(&'static str, Priority)] = &[
        ("now", Priority(0)),
        ("important", Priority(10)),
        ("new", Priority(20)),
        ("reset", Priority(50)),
        ("updates", Priority(70)),
        ("slow", Priority(80)),
        ("review", Priority(90)),
        ("time-allows", Priority(99)),
    ];

    pub fn new(number: i64) -> Option<Self> {
        u8::try_from(number).ok().filter(|number| *number <= 99).map(Self)
    }

    /// A number from elsewhere, brought into the range: a job beyond it would never be taken.
    pub fn nearest(number: i64) -> Self {
        Self(u8::try_from(number.clamp(0, 99)).unwrap_or(99))
    }

    pub const fn number(self) -> u8 {
        self.0
    }

    fn names() -> String {
        crate::classes::all().into_iter().map(|class| class.name).collect::<Vec<_>>().join(", ")
    }
}

impl Default for Priority {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02}", self.0)
    }
}

impl std::str::FromStr for Priority {
    type Err = NotAPriority;

    fn from_str(text: &str) -> Result<Self, NotAPriority> {
        let number = || text.parse().ok().and_then(Self::new);
        let class = || crate::classes::named(&crate::classes::all(), text);
        number().or_else(class).ok_or_else(|| NotAPriority(text.to_owned()))
    }
}

impl<'de> serde::Deserialize<'de> for Priority {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let number = i64::deserialize(from)?;
        Self::new(number).ok_or_else(|| serde::de::Error::custom(NotAPriority(number.to_string())))
    }
}

/// A job in a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QueueRef {
    pub state: JobState,
    pub priority: Priority,
    pub jid: Jid,
}

impl QueueRef {
    pub fn new(state: JobState, priority: Priority, jid: Jid) -> Self {
        Self { state, priority, jid }
    }

    pub fn path(self) -> String {
        format!("{JOB_STATES}/{}/{}-{}", self.state, self.priority, self.jid)
    }

    /// Takes the name of a ref apart.
    pub fn parse(state: JobState, name: &str) -> Option<Self> {
        let (priority, jid) = name.split_once('-')?;
        if priority.len() != 2 || !priority.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        let priority = priority.parse().ok().and_then(Priority::new)?;
        Some(Self { state, priority, jid: jid.parse().ok()? })
    }

    /// Takes a whole path apart.
    pub fn from_path(path: &str) -> Option<Self> {
        let (state, name) = path.strip_prefix(JOB_STATES)?.strip_prefix('/')?.split_once('/')?;
        let state = JobState::ALL.iter().copied().find(|known| known.name() == state)?;
        Self::parse(state, name)
    }
}

/// `/jobs/states/STATE`.
pub fn queue(state: JobState) -> String {
    format!("{JOB_STATES}/{state}")
}

pub fn job(jid: Jid) -> String {
    format!("{JOBS}/{jid}")
}

/// A node of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum JobNode {
    Bid,
    Configuration,
    Status,
    Priority,
    SpaceNeeded,
    Identifiers,
    Metadata,
    Inventory,
    Schedule,
    Work,
    History,
    Lock,
    /// Written by the `mrt-zk` dialect's processing for the storage service.
    Store,
}

impl JobNode {
    pub const ALL: [JobNode; 13] = [
        JobNode::Bid,
        JobNode::Configuration,
        JobNode::Status,
        JobNode::Priority,
        JobNode::SpaceNeeded,
        JobNode::Identifiers,
        JobNode::Metadata,
        JobNode::Inventory,
        JobNode::Schedule,
        JobNode::Work,
        JobNode::History,
        JobNode::Lock,
        JobNode::Store,
    ];

    pub fn name(self) -> &'static str {
        match self {
            JobNode::Bid => "bid",
            JobNode::Configuration => "configuration",
            JobNode::Status => "status",
            JobNode::Priority => "priority",
            JobNode::SpaceNeeded => "space_needed",
            JobNode::Identifiers => "identifiers",
            JobNode::Metadata => "metadata",
            JobNode::Inventory => "inventory",
            JobNode::Schedule => "schedule",
            JobNode::Work => "work",
            JobNode::History => "history",
            JobNode::Lock => "lock",
            JobNode::Store => "store",
        }
    }

    pub fn of(self, jid: Jid) -> String {
        format!("{JOBS}/{jid}/{}", self.name())
    }
}

pub fn batch(bid: Bid) -> String {
    format!("{BATCHES}/{bid}")
}

/// A node of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BatchNode {
    Submission,
    Status,
    Expansion,
    Manifest,
    StatusReport,
    States,
    Lock,
    Deleting,
    /// The profile that its jobs were made with.
    Profile,
}

impl BatchNode {
    pub const ALL: [BatchNode; 9] = [
        BatchNode::Submission,
        BatchNode::Status,
        BatchNode::Expansion,
        BatchNode::Manifest,
        BatchNode::StatusReport,
        BatchNode::States,
        BatchNode::Lock,
        BatchNode::Deleting,
        BatchNode::Profile,
    ];

    pub fn name(self) -> &'static str {
        match self {
            BatchNode::Submission => "submission",
            BatchNode::Status => "status",
            BatchNode::Expansion => "expansion",
            BatchNode::Manifest => "manifest",
            BatchNode::StatusReport => "status-report",
            BatchNode::States => "states",
            BatchNode::Lock => "lock",
            BatchNode::Deleting => "deleting",
            BatchNode::Profile => "profile",
        }
    }

    pub fn of(self, bid: Bid) -> String {
        format!("{BATCHES}/{bid}/{}", self.name())
    }
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

/// The two access queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AccessSize {
    Small,
    Large,
}

impl AccessSize {
    pub const ALL: [AccessSize; 2] = [AccessSize::Small, AccessSize::Large];

    pub fn name(self) -> &'static str {
        match self {
            AccessSize::Small => "small",
            AccessSize::Large => "large",
        }
    }

    /// `/access/small`.
    pub fn dir(self) -> String {
        format!("{ACCESS}/{}", self.name())
    }

    pub fn item(self, aid: Aid) -> String {
        format!("{ACCESS}/{}/{aid}", self.name())
    }

    pub fn token(self, aid: Aid) -> String {
        format!("{ACCESS}/{}/{aid}/token", self.name())
    }

    pub fn status(self, aid: Aid) -> String {
        format!("{ACCESS}/{}/{aid}/status", self.name())
    }

    pub fn lock(self, aid: Aid) -> String {
        format!("{ACCESS}/{}/{aid}/lock", self.name())
    }

    /// The hold that stops this queue.
    pub fn hold(self) -> HeldQueue {
        match self {
            AccessSize::Small => HeldQueue::AccessSmall,
            AccessSize::Large => HeldQueue::AccessLarge,
        }
    }
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
    fn a_queue_ref_is_read_as_it_is_written() {
        let entry = QueueRef::new(JobState::Downloading, Priority::new(3).unwrap(), Jid::new(12));
        assert_eq!(entry.path(), "/jobs/states/downloading/03-jid0000000012");
        assert_eq!(QueueRef::from_path(&entry.path()), Some(entry));
        for bad in
            ["3-jid0000000012", "003-jid0000000012", "+3-jid0000000012", "03jid0000000012", "03-jid12", ""]
        {
            assert_eq!(QueueRef::parse(JobState::Held, bad), None, "{bad}");
        }
        for bad in
            ["/jobs/states/downloading", "/jobs/states/Downloading/03-jid0000000012", "/jobs/jid0000000012"]
        {
            assert_eq!(QueueRef::from_path(bad), None, "{bad}");
        }
    }

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
    fn priorities_have_names_and_bounds() {
        assert_eq!("important".parse(), Ok(Priority::nearest(10)));
        assert_eq!("99".parse(), Ok(Priority::LAST));
        for bad in ["100", "-1", "urgent", ""] {
            assert!(bad.parse::<Priority>().unwrap_err().to_string().contains("time-allows"), "{bad}");
        }
        assert_eq!((Priority::nearest(1000), Priority::nearest(-4)), (Priority::LAST, Priority::FIRST));
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
