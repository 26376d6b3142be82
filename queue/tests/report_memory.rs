//! What a report takes of memory while it is written and read: that of a million jobs stays far below the 600 MB of a node.
//!
//! Measured as the most memory that this process ever had, which therefore does nothing else: one test. The count is smaller; as json its
//! jobs would take much more than what is allowed.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::sync::Arc;

use ingest_queue::date::Clock;
use ingest_queue::ids::Jid;
use ingest_queue::nodes::{Other, ReportedJob, Submission};
use ingest_queue::queue::{Queue, Settings};
use ingest_store::engines::embedded::{Embedded, EmbeddedConfig};
use ingest_store::{Limits, Store};

const JOBS: u32 = 150_000;
/// 200 MB for a million.
const BYTES_PER_JOB: u64 = 200;

/// The most memory of this process so far.
fn most() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<u64>().unwrap() * 1024
}

/// As long as those of real deposits, with names that do not repeat themselves.
fn job(number: u32) -> ReportedJob {
    let name = u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ReportedJob {
        jid: Jid::new(number),
        primary_id: Some(format!("ark:/99999/fk4{:x}", name >> 32)),
        local_id: vec![format!("herbarium:sheet-{number}")],
        payload_url: format!(
            "https://files.herbarium.example.org/deposits/2026/sheets/{number}/{:x}.tiff",
            name >> 40
        ),
        payload_type: "single_file".into(),
        erc_who: Some("Lindqvist, A.; Ünal, Z.".into()),
        erc_what: Some(format!(
            "Sheet {number} of the collection of vascular plants, digitised in full colour"
        )),
        erc_when: Some("1897-06-12".into()),
        message: "stored and recorded".into(),
        other: Other::new(),
    }
}

#[tokio::test]
async fn the_report_of_a_million_jobs_is_written_and_read_within_200_mb() {
    let dir = tempfile::tempdir().unwrap();
    let tree = Embedded::open(&EmbeddedConfig::new(dir.path())).unwrap();
    let session = Store::new(Arc::new(tree), Limits::default()).session().await.unwrap();
    let queue = Queue::open(&session, Settings::new("node-1"), Clock::system()).await.unwrap();
    let bid = queue.create_batch("one", &Submission::default()).await.unwrap().bid;
    let mut lease = queue.acquire_batch(bid, "node-1").await.unwrap();
    queue.fail_batch(&mut lease, "it owes a report").await.unwrap();
    let mut lease = queue.acquire_batch(bid, "node-1").await.unwrap();
    let mut draft = queue.draft_report(&mut lease).await.unwrap();
    let as_json = u64::try_from(serde_json::to_vec(&job(JOBS)).unwrap().len()).unwrap();
    assert!(as_json > BYTES_PER_JOB * 3 / 2, "{as_json}");

    let before = most();
    for number in 0..JOBS {
        draft.report.successful_jobs.push(&job(number));
    }
    queue.report_sent(&mut lease, &mut draft).await.unwrap();
    queue.finish_report(&mut lease, &draft).await.unwrap();
    let written = (most() - before) / u64::from(JOBS);
    // Both are there at the same time.
    assert_eq!(queue.last_report(bid).await.unwrap().unwrap(), draft.report);
    let read = (most() - before) / u64::from(JOBS);
    println!(
        "{as_json} bytes a job as json; {written} in memory while it is written, {read} while it is read"
    );
    assert!((10..=BYTES_PER_JOB).contains(&written), "{written} bytes a job while it is written");
    assert!(read <= BYTES_PER_JOB, "{read} bytes a job while it is read");
}
