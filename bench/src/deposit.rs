//! A batch as a depositor hands it over, and its jobs as the queue makes them.

use anyhow::{Result, ensure};
use ingest_queue::batches::{BatchLease, Expanded};
use ingest_queue::date::Clock;
use ingest_queue::ids::Bid;
use ingest_queue::nodes::{Configuration, Identifiers, Metadata, Submission};
use ingest_queue::plan::job::NewJob;
use ingest_queue::queue::{Queue, Settings};
use ingest_store::Session;

/// How many rows are expanded by one call.
pub(crate) const ROWS: usize = 2_000;

/// Frozen with each batch; nobody reads it here.
const MANIFEST: &[u8] = b"#%checkm_0.7\n";
const PROFILE: &str = "herbarium_content";
const SUBMITTER: &str = "herbarium/curators";

/// A batch that is being expanded, alone in its tree.
#[derive(Debug)]
pub(crate) struct Deposit {
    pub(crate) queue: Queue,
    lease: BatchLease,
    next: u64,
}

impl Deposit {
    /// Makes a batch of so many rows on an empty tree.
    pub(crate) async fn begin(session: &Session, rows: u64) -> Result<Self> {
        let queue = Queue::open(session, Settings::new("node-1"), Clock::system()).await?;
        let submission = Submission {
            profile_name: PROFILE.into(),
            submitter: SUBMITTER.into(),
            payload_filename: Some("objects.checkm".into()),
            payload_type: Some("object_manifest".into()),
            ..Submission::default()
        };
        let created = queue.create_batch("6b1c2a1e-8d0a-4f2a-9d5e-0a4c1f6d7b90", &submission).await?;
        let mut lease = queue.acquire_batch(created.bid, "expander").await?;
        let next = queue.begin_expansion(&mut lease, MANIFEST, rows).await?;
        Ok(Self { queue, lease, next })
    }

    pub(crate) fn bid(&self) -> Bid {
        self.lease.bid()
    }

    /// The next row that has no job.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Makes the jobs of the next rows.
    pub(crate) async fn expand(&mut self, jobs: &[NewJob]) -> Result<()> {
        let expanded = self.queue.expand(&mut self.lease, self.next, jobs).await?;
        self.next += jobs.len() as u64;
        ensure!(expanded == Expanded::To(self.next), "the expansion stopped at {expanded:?}");
        Ok(())
    }

    /// Gives the batch back.
    pub(crate) async fn end(mut self) -> Result<Queue> {
        self.queue.release_batch(&mut self.lease).await?;
        Ok(self.queue)
    }
}

/// What the rows from `first` on become.
pub(crate) fn new_jobs(first: u64, count: usize) -> Vec<NewJob> {
    (first..).take(count).map(new_job).collect()
}

/// The same with nothing that a job can do without: for trees that hold very many.
pub(crate) fn plain_jobs(first: u64, count: usize) -> Vec<NewJob> {
    let plain = |job: NewJob| NewJob { configuration: job.configuration, ..NewJob::default() };
    new_jobs(first, count).into_iter().map(plain).collect()
}

fn new_job(row: u64) -> NewJob {
    let local_id = format!("sheet:{row:08}");
    NewJob {
        configuration: Configuration {
            profile_name: PROFILE.into(),
            profile_version: Some(1),
            submitter: SUBMITTER.into(),
            payload_url: format!("https://deposits.example.org/herbarium/2026/{row:08}/object.zip"),
            payload_type: "container".into(),
            response_type: "json".into(),
            submission_mode: "add".into(),
            local_id: vec![local_id.clone()],
            ..Configuration::default()
        },
        identifiers: Identifiers { local_id: vec![local_id], ..Identifiers::default() },
        metadata: Metadata {
            erc_what: Some(format!("Campanula rotundifolia, sheet {row}")),
            erc_who: Some("Lindqvist, A.; Okafor, N.".into()),
            erc_when: Some("2026".into()),
            ..Metadata::default()
        },
        ..NewJob::default()
    }
}
