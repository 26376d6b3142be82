//! What the configuration says of the node itself. Every section may be left out.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use ingest_queue::classes::{self, Class};
use ingest_queue::committer::Together;
use ingest_queue::dialect::Dialect;
use ingest_queue::index;
use ingest_queue::limits::rules::{Rules, Said};
use ingest_queue::limits::set::Configured;
use ingest_queue::states::{JobState, States as _};
use serde::Deserialize;

use crate::restart::Policy;

/// More workers than this, in all pools together, are refused: each may hold locks, and a server with very many
/// ephemeral nodes of one session cannot be restarted.
pub const MOST_WORKERS: usize = 5_000;

/// All sections that are about the node and its actors.
#[derive(Debug, Clone, PartialEq, Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    pub node: Node,
    pub pools: Pools,
    pub queue: Queue,
    pub supervision: Supervision,
    pub shutdown: Shutdown,
    pub upkeep: Upkeep,
    pub workers: Workers,
    pub stats: Stats,
    pub limits: Limits,
}

/// `[node]`: who this is.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Node {
    /// Empty: the machine's host name.
    pub name: String,
    /// Where the node keeps its own records: the restart log.
    pub dir: PathBuf,
    /// The most bytes of one file of the restart log; there are two.
    #[serde(with = "ingest_steps::size")]
    pub restart_log: u64,
    /// Do the work of the states. Without it jobs walk through them and nothing is done: for measuring.
    pub work: bool,
}

impl Default for Node {
    fn default() -> Self {
        Self { name: String::new(), dir: "data/node".into(), restart_log: 1 << 20, work: true }
    }
}

/// `[pools.STATE]`: how many work on a state at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pool {
    pub size: usize,
    /// A step that makes no progress for so long is stopped, counted and tried again.
    #[serde(with = "humantime_serde")]
    pub stall: Duration,
}

impl Pool {
    const fn new(size: usize, minutes: u64) -> Self {
        Self { size, stall: Duration::from_mins(minutes) }
    }
}

/// `[pools]`: all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Pools {
    pub pending: Pool,
    pub estimating: Pool,
    pub provisioning: Pool,
    pub downloading: Pool,
    pub processing: Pool,
    pub recording: Pool,
    pub notify: Pool,
    pub access_small: Pool,
    pub access_large: Pool,
}

impl Default for Pools {
    fn default() -> Self {
        Self {
            pending: Pool::new(4, 10),
            estimating: Pool::new(4, 10),
            provisioning: Pool::new(1, 10),
            downloading: Pool::new(8, 10),
            processing: Pool::new(4, 30),
            recording: Pool::new(4, 10),
            notify: Pool::new(4, 15),
            access_small: Pool::new(2, 10),
            access_large: Pool::new(1, 10),
        }
    }
}

impl Pools {
    /// The pools of job states, by state.
    pub fn of_jobs(&self) -> BTreeMap<JobState, Pool> {
        BTreeMap::from([
            (JobState::Pending, self.pending),
            (JobState::Estimating, self.estimating),
            (JobState::Provisioning, self.provisioning),
            (JobState::Downloading, self.downloading),
            (JobState::Processing, self.processing),
            (JobState::Recording, self.recording),
            (JobState::Notify, self.notify),
        ])
    }

    /// One of them by its name.
    pub fn named(&self, name: &str) -> Option<Pool> {
        match name {
            "access_small" => Some(self.access_small),
            "access_large" => Some(self.access_large),
            name => JobState::from_name(name).and_then(|state| self.of_jobs().get(&state).copied()),
        }
    }

    /// How many workers all of them have.
    pub fn workers(&self) -> usize {
        let of_jobs: usize = self.of_jobs().values().map(|pool| pool.size).sum();
        of_jobs.saturating_add(self.access_small.size).saturating_add(self.access_large.size)
    }

    /// What is wrong with them, if anything is.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let workers = self.workers();
        if workers > MOST_WORKERS {
            problems
                .push(format!("pools: {workers} workers in all are too many; {MOST_WORKERS} is the most"));
        }
        if self.provisioning.size > 1 {
            problems.push("pools.provisioning.size: one looks at all that wait; it is 0 or 1".into());
        }
        problems
    }
}

/// `[queue]`: how this node takes part in the queue.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Queue {
    pub dialect: Dialect,
    /// How often a job may crash or stall its worker before it fails as poison.
    pub max_timeouts: u32,
    /// How long a job waits for each step of priority that it is lifted; absent: never.
    #[serde(with = "humantime_serde")]
    pub ageing: Option<Duration>,
    /// How long each node leaves a job to those that come before it.
    #[serde(with = "humantime_serde")]
    pub rank_delay: Duration,
    /// How far behind the first of its priority, in job numbers, a job may be that this node comes first for, to be taken
    /// before it while the first is left to the nodes before this one. 0: strictly in order.
    pub rank_window: u32,
    /// How long a ref that disagrees with its job's status is left alone before it is looked at again.
    #[serde(with = "humantime_serde")]
    pub doubt: Duration,
    /// Commits under way at once, and transitions in one commit.
    pub commits: usize,
    pub together: usize,
    /// Priorities that have a name.
    #[serde(deserialize_with = "classes::read")]
    pub classes: Vec<Class>,
}

impl Default for Queue {
    fn default() -> Self {
        let index::Settings { ageing, rank_delay, rank_window, doubt } = index::Settings::default();
        let Together { in_flight, units } = Together::default();
        let dialect = Dialect::default();
        let (commits, together, classes) = (in_flight, units, classes::defaults());
        Self { dialect, max_timeouts: 10, ageing, rank_delay, rank_window, doubt, commits, together, classes }
    }
}

impl Queue {
    pub fn index(&self) -> index::Settings {
        let Self { ageing, rank_delay, rank_window, doubt, .. } = *self;
        index::Settings { ageing, rank_delay, rank_window, doubt }
    }

    pub fn committing(&self) -> Together {
        Together { in_flight: self.commits, units: self.together }
    }
}

/// `[supervision]`: how patient supervisors are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Supervision {
    /// More deaths of one actor than this in `within` are too many: its parent dies, too, and at last the node.
    pub max_restarts: u32,
    #[serde(with = "humantime_serde")]
    pub within: Duration,
    /// The first restart is made at once. This is the pause before the second; it doubles with each that follows.
    #[serde(with = "humantime_serde")]
    pub backoff: Duration,
    #[serde(with = "humantime_serde")]
    pub max_backoff: Duration,
    /// After how long without any progress what is done for a batch is stopped, and begun again where it was.
    #[serde(with = "humantime_serde")]
    pub batch_stall: Duration,
}

impl Default for Supervision {
    fn default() -> Self {
        let Policy { max_restarts, within, backoff, max_backoff } = Policy::default();
        Self { max_restarts, within, backoff, max_backoff, batch_stall: Duration::from_hours(1) }
    }
}

impl Supervision {
    pub fn policy(&self) -> Policy {
        let Self { max_restarts, within, backoff, max_backoff, .. } = *self;
        Policy { max_restarts, within, backoff, max_backoff }
    }
}

/// `[shutdown]`: how the node ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Shutdown {
    /// How long running steps may take to end after the first signal.
    #[serde(with = "humantime_serde")]
    pub grace: Duration,
}

impl Default for Shutdown {
    fn default() -> Self {
        Self { grace: Duration::from_mins(5) }
    }
}

/// `[upkeep]`: what is looked at from time to time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Upkeep {
    /// How often the index is compared with the tree, and locks and directories that nobody needs are looked for.
    #[serde(with = "humantime_serde")]
    pub every: Duration,
    /// How long a completed batch, with its jobs, stays in the tree.
    #[serde(with = "humantime_serde")]
    pub keep_batches: Duration,
    /// How long a management request stays that nobody waits for.
    #[serde(with = "humantime_serde")]
    pub keep_requests: Duration,
    /// How long parts of a large value stay that nobody has announced: longer than any node takes to write one.
    #[serde(with = "humantime_serde")]
    pub keep_parts: Duration,
    pub jobs: Round,
    pub batches: Round,
    pub requests: Round,
    pub semaphores: Round,
    pub keys: Round,
    pub shards: Round,
}

/// `[upkeep.NAME]`: a routine that one node runs for all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Round {
    #[serde(with = "humantime_serde")]
    pub every: Duration,
}

impl Default for Upkeep {
    fn default() -> Self {
        let every = |minutes| Round { every: Duration::from_mins(minutes) };
        Self {
            every: Duration::from_mins(10),
            keep_batches: Duration::from_hours(24 * 30),
            keep_requests: Duration::from_hours(24),
            keep_parts: Duration::from_hours(1),
            jobs: every(10),
            batches: every(10),
            requests: every(10),
            semaphores: every(10),
            keys: every(60),
            shards: every(360),
        }
    }
}

/// `[stats]`: what one node writes down for all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Stats {
    /// How often it is written down what waits and what has ended.
    #[serde(with = "humantime_serde")]
    pub every: Duration,
    /// How long that is kept.
    #[serde(with = "humantime_serde")]
    pub keep: Duration,
}

impl Default for Stats {
    fn default() -> Self {
        Self { every: Duration::from_mins(5), keep: Duration::from_hours(24) }
    }
}

/// `[limits]`: how many jobs are worked on at a time, over all nodes.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// The states in which limits hold.
    pub states: BTreeSet<String>,
    /// The same for those of hosts.
    pub host_states: BTreeSet<String>,
    /// By name; `default` is for all others.
    pub collections: BTreeMap<String, u32>,
    pub hosts: BTreeMap<String, u32>,
    pub profiles: BTreeMap<String, u32>,
    pub names: BTreeMap<String, u32>,
}

impl Default for Limits {
    fn default() -> Self {
        let Rules { states, host_states, .. } = Rules::default();
        let (collections, hosts) = (BTreeMap::new(), BTreeMap::new());
        let (profiles, names) = (BTreeMap::new(), BTreeMap::new());
        Self { states, host_states, collections, hosts, profiles, names }
    }
}

impl Limits {
    pub fn configured(&self) -> Configured {
        let table = |limits: &BTreeMap<String, u32>| {
            limits.iter().map(|(name, limit)| (name.clone(), Some(*limit))).collect()
        };
        let hosts = self.hosts.iter().map(|(name, limit)| (name.to_ascii_lowercase(), *limit)).collect();
        let said = Said {
            collections: table(&self.collections),
            hosts: table(&hosts),
            profiles: table(&self.profiles),
            names: table(&self.names),
        };
        Configured { said, states: self.states.clone(), host_states: self.host_states.clone() }
    }
}

/// `[workers]`: how feeds are divided among the nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Workers {
    /// So long nobody may have come or gone before feeds are divided anew.
    #[serde(with = "humantime_serde")]
    pub settle: Duration,
}

impl Default for Workers {
    fn default() -> Self {
        Self { settle: Duration::from_secs(3) }
    }
}
