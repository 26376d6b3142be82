//! What nobody needs any more goes in bounded steps, on both engines.
//!
//! The invariant: however much there is, a step removes so much at the most; the next goes on, on whatever node, also if
//! the one before ended in the middle; nothing is removed twice or left.

use std::time::Duration;

use ingest_queue::date::{Clock, Date};
use ingest_queue::dialect::Dialect;
use ingest_queue::error::Result;
use ingest_queue::fsck;
use ingest_queue::ids::{Bid, Jid};
use ingest_queue::list::{self, Filter, PageRequest};
use ingest_queue::map::{self, BatchNode, JobNode, RequestNode};
use ingest_queue::nodes::{JobStatus, Keys, Node as _};
use ingest_queue::queue::{Queue, Settings};
use ingest_queue::requests::NewRequest;
use ingest_queue::states::JobState;
use ingest_store::recipes::shard;
use ingest_store::{Mode, path};

use crate::every_fault::through_every_fault;
use crate::requests::noise;
use crate::tree::{Tree, on_both_engines};
use crate::world::{batch_of, bring, clean, deposit, new_jobs, queue, queue_on, waiting};

on_both_engines!(
    everything_goes_in_bounded_steps_and_any_node_goes_on,
    a_completed_job_that_has_left_its_queue_keeps_its_date_and_its_place_in_every_list,
);

const HOUR: Duration = Duration::from_hours(1);

/// Far behind everything that has a date here.
fn later() -> Date {
    Date::from_millis(4_000_000_000_000)
}

#[derive(Debug, Clone, Copy)]
enum What {
    CompletedJobs,
    Requests,
    /// What is left of requests that are gone.
    Leftovers,
    IdleSemaphores,
    LeakedSlots,
    Keys,
    /// Of large values that were never announced.
    Parts,
}

impl What {
    const ALL: [What; 7] = [
        What::CompletedJobs,
        What::Requests,
        What::Leftovers,
        What::IdleSemaphores,
        What::LeakedSlots,
        What::Keys,
        What::Parts,
    ];

    async fn plant(self, queue: &Queue, count: usize) {
        let put = async |at: String, data: String| {
            queue.session().create_with_parents(at, data, Mode::Persistent).await.unwrap();
        };
        if let What::CompletedJobs = self {
            for jid in batch_of(queue, count).await.1 {
                bring(queue, jid, JobState::Completed).await;
            }
            return;
        }
        if let What::LeakedSlots = self {
            put(semaphore("slots"), r#"{"kind":"host","name":"slots"}"#.into()).await;
        }
        let bid = if let What::Parts = self { batch_of(queue, 1).await.0 } else { Bid::new(0) };
        for number in 0..count {
            match self {
                What::CompletedJobs => {}
                What::Requests => {
                    queue.put_request(&asked()).await.unwrap();
                }
                What::Leftovers => {
                    put(RequestNode::Params.of(&ingest_queue::requests::new_id()), "{}".into()).await;
                }
                What::IdleSemaphores => put(semaphore(&number.to_string()), said(number)).await,
                What::LeakedSlots => {
                    let slot = path::join(&semaphore("slots"), &format!("{number:04}"));
                    put(slot.clone(), format!(r#"{{"job":"{}"}}"#, Jid::new(9_999))).await;
                    put(path::join(&slot, "holder"), String::new()).await;
                }
                What::Keys => {
                    let key = format!("key-{number}");
                    let nobody = Keys::default().waits(&key, Bid::new(9_999)).write(Dialect::Design);
                    put(map::journal_key(&key), String::from_utf8(nobody.to_vec()).unwrap()).await;
                }
                What::Parts => {
                    let at = BatchNode::Manifest.of(bid);
                    shard::prepare(queue.session(), &at, noise(200_000).as_bytes()).await.unwrap();
                }
            }
        }
    }

    /// A step.
    async fn run_once(self, queue: &Queue, most: usize) -> Result<usize> {
        match self {
            What::CompletedJobs => queue.clean_jobs(most).await,
            What::Requests | What::Leftovers => {
                let collected = queue.collect_requests(later(), HOUR, most).await?;
                Ok(collected.requests + collected.leftovers)
            }
            What::IdleSemaphores => Ok(queue.clean_semaphores(Duration::ZERO, most).await?.all()),
            What::LeakedSlots => Ok(queue.clean_semaphores(HOUR, most).await?.all()),
            What::Keys => {
                fsck::collect_keys(queue.session(), &fsck::Options::new(Dialect::Design), most).await
            }
            What::Parts => queue.collect_parts(Duration::ZERO, most).await,
        }
    }
}

fn asked() -> NewRequest {
    NewRequest { action: "job.hold".into(), who: "ann".into(), ..NewRequest::default() }
}

fn semaphore(name: &str) -> String {
    format!("{}/host-{name}", map::SEMAPHORES)
}

fn said(number: usize) -> String {
    format!(r#"{{"kind":"host","name":"{number}"}}"#)
}

async fn everything_goes_in_bounded_steps_and_any_node_goes_on(tree: &Tree) {
    let second = queue(tree).await;
    for what in What::ALL {
        what.plant(&second, 5).await;
        let session = tree.mortal_session().await;
        let first = queue_on(&session, Dialect::Design).await;
        assert_eq!(what.run_once(&first, 2).await.unwrap(), 2, "{what:?}");
        // It is gone, in the midst of it.
        tree.expire(&session).await;
        for expected in [2, 1, 0] {
            assert_eq!(what.run_once(&second, 2).await.unwrap(), expected, "{what:?}");
        }
        clean(second.session(), Dialect::Design).await;
    }
    assert_eq!(waiting(second.session(), JobState::Completed).await, []);
    for dir in [RequestNode::Request.dir(), RequestNode::Params.dir(), map::JOURNAL_KEYS.to_owned()] {
        assert_eq!(second.session().children(dir.as_str()).await.unwrap().0, Vec::<String>::new(), "{dir}");
    }
}

/// Each step by itself, with every fault in the midst of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn completed_jobs_and_old_requests_are_gone_once_whatever_breaks() {
    async fn prepare(queue: Queue) -> Result<()> {
        deposit(&queue, "uuid-1", &new_jobs(2)).await?;
        for jid in [Jid::new(1), Jid::new(2)] {
            bring(&queue, jid, JobState::Completed).await;
        }
        queue.put_request(&asked()).await?;
        queue.put_request(&asked()).await.map(|_| ())
    }
    async fn story(queue: Queue) -> Result<()> {
        for what in [What::CompletedJobs, What::Requests] {
            while what.run_once(&queue, 1).await? > 0 {}
        }
        Ok(())
    }
    through_every_fault(prepare, story).await;
}

async fn a_completed_job_that_has_left_its_queue_keeps_its_date_and_its_place_in_every_list(tree: &Tree) {
    for dialect in [Dialect::Design, Dialect::MrtZk] {
        let session = tree.session().await;
        let queue = queue_on(&session, dialect).await;
        let (bid, jids) = batch_of(&queue, 2).await;
        for jid in &jids {
            bring(&queue, *jid, JobState::Completed).await;
        }
        let completed = queue.now();
        let state = Filter { states: vec![JobState::Completed], batch: None, ..Filter::default() };
        let listed = async |filter: &Filter| {
            let page = list::jobs(&session, filter, &PageRequest::default()).await.unwrap();
            let lines = page.lines.into_iter().filter(|line| line.bid == Some(bid));
            lines.map(|line| (line.jid, line.last_modified)).collect::<Vec<_>>()
        };
        let counted = async || list::counts(&session).await.unwrap()[&JobState::Completed];
        let (before, count) = (listed(&state).await, counted().await);
        assert_eq!(before, jids.iter().map(|jid| (*jid, Some(completed))).collect::<Vec<_>>());
        // An hour later; and so as an older version did it, which set the date anew.
        let settings = Settings { dialect, ..Settings::new("node-2") };
        let janitor = Queue::open(&session, settings, Clock::fixed(completed.after(HOUR))).await.unwrap();
        assert_eq!(janitor.clean_jobs(10).await.unwrap(), 2);
        assert_eq!(waiting(&session, JobState::Completed).await, []);
        let (status, _) = janitor.job_status(jids[0]).await.unwrap();
        assert_eq!(status.last_modification_date, Some(completed));
        let (status, _) = janitor.job_status(jids[1]).await.unwrap();
        let old = JobStatus { last_modification_date: Some(janitor.now()), ..status }.write(dialect);
        session.set(JobNode::Status.of(jids[1]), old, None).await.unwrap();
        assert_eq!((listed(&state).await, counted().await), (before, count), "{dialect:?}");
        let newer = Filter { newer_than: Some(completed.after(HOUR / 2)), ..Filter::default() };
        assert_eq!(listed(&newer).await, []);
        clean(&session, dialect).await;
    }
}
