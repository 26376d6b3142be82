//! The second half of the demo: a deposit on two nodes, with all that can happen to it.

use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use ingest_queue::batches::Ended;
use ingest_queue::date::Clock;
use ingest_queue::dialect::Dialect;
use ingest_queue::error::Error;
use ingest_queue::fsck;
use ingest_queue::index::Settings as FinderSettings;
use ingest_queue::index::finder::Finder;
use ingest_queue::list::{self, Filter, PageRequest};
use ingest_queue::map;
use ingest_queue::nodes::{Configuration, Submission};
use ingest_queue::plan::job::{Action, Change, NewJob};
use ingest_queue::queue::{Queue, Settings};
use ingest_queue::states::{BatchList, JobState};
use ingest_store::Session;

use super::title;

const OBJECTS: u64 = 12;
/// The object that fails at its first try.
const BROKEN: &str = "https://example.org/objects/7";
/// So many transitions the first node makes before it dies.
const LAST_WORDS: usize = 30;

/// Two sessions are two nodes; the first one dies.
pub(super) async fn show(first: Session, second: Session) -> Result<()> {
    ensure!(
        first.exists(map::JOBS).await?.is_none(),
        "/jobs is there already: give the demo a chroot of its own"
    );
    let a = Queue::open(&first, Settings::new("node-a"), Clock::system()).await?;
    let b = Queue::open(&second, Settings::new("node-b"), Clock::system()).await?;

    title("A deposit becomes a batch, and the batch becomes jobs");
    let submission =
        Submission { profile_name: "demo".into(), submitter: "you".into(), ..Submission::default() };
    let bid = a.create_batch("demo-1", &submission).await?.bid;
    let again = b.create_batch("demo-1", &submission).await?;
    ensure!(again.known && again.bid == bid, "a repeated uuid has made a second batch");
    println!("  {bid}; the same uuid again, on the other node, is answered with {}", again.bid);
    let mut lease = a.acquire_batch(bid, "demo").await?;
    a.begin_expansion(&mut lease, b"demo", OBJECTS).await?;
    let jobs: Vec<_> = (1..=OBJECTS).map(new_job).collect();
    a.expand(&mut lease, 0, &jobs).await?;
    a.release_batch(&mut lease).await?;
    println!("  {OBJECTS} jobs, made in one commit together with the cursor");

    title("Two nodes work on them; node-a dies in the middle");
    let of_a = work(&a, LAST_WORDS).await?;
    first.close().await?;
    println!("  node-a made {of_a} transitions, and is gone");
    clean(&second).await?;
    println!("  fsck, before anybody has tidied up: clean");
    let of_b = work(&b, usize::MAX).await?;
    println!("  node-b made the other {of_b}");

    title("One job failed; the batch ends all the same, and the report says so");
    let mut lease = b.acquire_batch(bid, "demo").await?;
    ensure!(b.end_batch(&mut lease).await? == Ended::Yes, "the batch has not ended");
    println!("  {bid} is now {}", report(&b, &mut lease).await?);
    let filter = Filter { states: vec![JobState::Failed], ..Filter::default() };
    let failed = list::jobs(&second, &filter, &PageRequest::default()).await?.lines;
    let failed = failed.first().context("no job has failed")?;
    println!("  {} failed: {}", failed.jid, failed.message);

    title("An operator requeues it, and sends an update");
    let refused = b.act(failed.jid, &Action::Hold, "", false).await.err().context("a failed job was held")?;
    println!("  what the tables do not allow is refused: {refused}");
    b.act(failed.jid, &Action::Requeue(None), "by you: the server is back", false).await?;
    work(&b, usize::MAX).await?;
    b.act_on_batch(bid, ingest_queue::plan::batch::BatchAction::UpdateReport, "by you", false).await?;
    let mut lease = b.acquire_batch(bid, "demo").await?;
    println!("  {bid} is now {}", report(&b, &mut lease).await?);
    let done =
        second.exists(map::batch_list(bid, BatchList::Completed)).await?.map_or(0, |stat| stat.num_children);
    ensure!(u64::try_from(done)? == OBJECTS, "{done} of {OBJECTS} jobs are completed");
    clean(&second).await?;
    println!("  fsck: clean");

    let removed = b.clean_batch(bid, |_| ()).await?;
    println!("  and cleaned up: {} jobs, and the batch", removed.jobs);
    for name in second.children("/").await?.0 {
        if name != "zookeeper" && name != "kept" {
            super::remove(&second, &format!("/{name}")).await?;
        }
    }
    Ok(())
}

fn new_job(number: u64) -> NewJob {
    let configuration = Configuration {
        profile_name: "demo".into(),
        submitter: "you".into(),
        payload_url: format!("https://example.org/objects/{number}"),
        payload_type: "file".into(),
        ..Configuration::default()
    };
    NewJob { configuration, ..NewJob::default() }
}

/// Works on what there is, until nothing is left or so many transitions are made.
async fn work(queue: &Queue, most: usize) -> Result<usize> {
    let finder = Arc::new(Finder::start(queue.session(), FinderSettings::default()).await?);
    let mut made = 0;
    let states: Vec<_> = JobState::queues(Dialect::Design).filter(|state| state.is_taken_from()).collect();
    for state in states.into_iter().cycle() {
        if made >= most || !anything_left(queue.session()).await? {
            break;
        }
        while made < most && finder.waiting(state) > 0 {
            let Some(candidate) = finder.next(state).await else { bail!("the finder has ended") };
            let mut lease = match queue.acquire(candidate.entry, "demo").await {
                Ok(lease) => lease,
                Err(Error::Changed { .. }) => {
                    finder.finished(candidate.entry);
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            let first_try = lease.job().status.retry_count == 0;
            if state == JobState::Downloading && first_try && url(queue, &lease).await? == BROKEN {
                queue.fail(&mut lease, &Change::message(format!("{BROKEN}: no route to host"))).await?;
            } else {
                queue.succeed(&mut lease, &Change::default()).await?;
            }
            finder.finished(candidate.entry);
            made += 1;
        }
    }
    Ok(made)
}

async fn url(queue: &Queue, lease: &ingest_queue::jobs::Lease) -> Result<String> {
    Ok(queue.configuration(lease.jid()).await?.payload_url)
}

async fn anything_left(session: &Session) -> Result<bool> {
    let counts = list::counts(session).await?;
    Ok(counts.iter().any(|(state, count)| state.is_taken_from() && *count > 0))
}

async fn report(queue: &Queue, lease: &mut ingest_queue::batches::BatchLease) -> Result<String> {
    let mut draft = queue.draft_report(lease).await?;
    ensure!(draft.is_news(), "there is nothing to report");
    queue.report_sent(lease, &mut draft).await?;
    let state = queue.finish_report(lease, &draft).await?;
    let told = queue.batch(draft.bid).await?.status.message;
    Ok(format!("{state} ({told}; report {})", draft.key()))
}

async fn clean(session: &Session) -> Result<()> {
    fsck::clean(session, Dialect::Design)
        .await
        .map_err(|findings| anyhow::anyhow!("the tree is not clean:\n{findings}"))
}
