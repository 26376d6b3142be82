//! Every submission is accounted for: one batch, one job for each row, one state for each job, one life.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;

use anyhow::Result;
use ingest_queue::dialect::Dialect;
use ingest_queue::ids::{Bid, Jid};
use ingest_queue::map::{self, JobNode, QueueRef};
use ingest_queue::nodes::{Configuration, History, Identifiers, JobStatus, Node as _};
use ingest_queue::states::{BatchList, JobState};

use super::super::deposit::{Fate, Row};
use super::super::kind::Kind;
use super::super::load::Made;
use super::super::settle;
use super::super::witness::Outcome;
use super::super::world::World;

/// A job, as the tree has it.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    pub(crate) jid: Jid,
    pub(crate) bid: Option<Bid>,
    pub(crate) state: Option<JobState>,
    pub(crate) message: String,
    /// The path of its file on its server.
    pub(crate) payload: String,
    /// The queues that it is in.
    pub(crate) queues: Vec<JobState>,
    /// The lists of batches that it is in.
    pub(crate) lists: Vec<(Bid, BatchList)>,
    pub(crate) history: Option<History>,
    /// The identifier of its object, as the tree has it.
    pub(crate) ark: Option<String>,
    pub(crate) locked: bool,
}

/// All jobs of the tree.
pub(crate) async fn all(world: &World) -> Result<Vec<Job>> {
    let (names, _) = world.patiently("the jobs", || world.session().children(map::JOBS)).await?;
    let jids: Vec<Jid> = names.iter().filter_map(|name| name.parse().ok()).collect();
    let queues = queues(world).await?;
    let lists = lists(world).await?;
    let read = async |node: JobNode| world.get_all(jids.iter().map(|jid| node.of(*jid)).collect()).await;
    let statuses = read(JobNode::Status).await?;
    let configurations = read(JobNode::Configuration).await?;
    let bids = read(JobNode::Bid).await?;
    let histories = read(JobNode::History).await?;
    let identifiers = read(JobNode::Identifiers).await?;
    let locks = read(JobNode::Lock).await?;
    let job = |(at, jid): (usize, &Jid)| {
        let status = statuses[at].as_ref().and_then(|data| JobStatus::read(data).ok());
        let configuration = configurations[at].as_ref().and_then(|data| Configuration::read(data).ok());
        let url = configuration.map(|configuration| configuration.payload_url).unwrap_or_default();
        let bid = bids[at].as_ref().and_then(|data| String::from_utf8_lossy(data).parse().ok());
        Job {
            jid: *jid,
            bid,
            state: status.as_ref().map(|status| status.status),
            message: status.map(|status| status.message).unwrap_or_default(),
            payload: url::Url::parse(&url).map(|url| url.path().to_owned()).unwrap_or(url),
            queues: queues.get(jid).cloned().unwrap_or_default(),
            lists: lists.get(jid).cloned().unwrap_or_default(),
            history: histories[at].as_ref().and_then(|data| History::read(data).ok()),
            ark: identifiers[at].as_ref().and_then(|data| Identifiers::read(data).ok()?.primary_id),
            locked: locks[at].is_some(),
        }
    };
    Ok(jids.iter().enumerate().map(job).collect())
}

async fn queues(world: &World) -> Result<BTreeMap<Jid, Vec<JobState>>> {
    let mut found = BTreeMap::<Jid, Vec<JobState>>::new();
    for QueueRef { state, jid, .. } in world.jobs(JobState::queues(Dialect::Design)).await? {
        found.entry(jid).or_default().push(state);
    }
    Ok(found)
}

async fn lists(world: &World) -> Result<BTreeMap<Jid, Vec<(Bid, BatchList)>>> {
    let (names, _) = world.patiently("the batches", || world.session().children(map::BATCHES)).await?;
    let mut found = BTreeMap::<Jid, Vec<(Bid, BatchList)>>::new();
    for bid in names.iter().filter_map(|name| name.parse::<Bid>().ok()) {
        for list in BatchList::ALL {
            let path = map::batch_list(bid, list);
            let (names, _) = world.patiently("a batch", || world.session().children(path.clone())).await?;
            for jid in names.iter().filter_map(|name| name.parse().ok()) {
                found.entry(jid).or_default().push((bid, list));
            }
        }
    }
    Ok(found)
}

/// The rows of all deposits, by the path of their file.
pub(crate) fn rows(made: &[Made]) -> BTreeMap<&str, &Row> {
    made.iter().flat_map(|made| &made.deposit.rows).map(|row| (row.path.as_str(), row)).collect()
}

/// The jobs that have failed although their rows have one of these fates.
pub(crate) async fn failed(world: &World, fates: &[Fate]) -> Result<Vec<Job>> {
    let made = world.ledger.made();
    let rows = rows(&made);
    let mut jobs = all(world).await?;
    jobs.retain(|job| {
        let fate = rows.get(job.payload.as_str()).map(|row| row.fate);
        job.state == Some(JobState::Failed) && fate.is_none_or(|fate| fates.contains(&fate))
    });
    Ok(jobs)
}

/// Judges all jobs and batches.
pub(crate) async fn judge(world: &World, jobs: &[Job]) -> Result<()> {
    let made = world.ledger.made();
    each_submission_once(world, &made, jobs).await?;
    let rows = rows(&made);
    for job in jobs {
        for wrong in wrongs(job, rows.get(job.payload.as_str()).copied(), &world.ledger.spoilt(job.jid)) {
            world.book.breach(format!("{}: {wrong}", job.jid));
        }
    }
    for (bid, state) in settle::batches(world).await? {
        if let Some(wrong) = wrong_end(bid, &state, jobs) {
            world.book.breach(wrong);
        }
    }
    Ok(())
}

/// A batch that has not ended as its jobs have.
fn wrong_end(bid: Bid, state: &str, jobs: &[Job]) -> Option<String> {
    let failed = jobs.iter().any(|job| job.bid == Some(bid) && job.state == Some(JobState::Failed));
    let end = if failed { "failed" } else { "completed" };
    (state != end).then(|| format!("{bid} is {state}, and should be {end}"))
}

async fn each_submission_once(world: &World, made: &[Made], jobs: &[Job]) -> Result<()> {
    let (names, _) = world.patiently("the batches", || world.session().children(map::BATCHES)).await?;
    let there: BTreeSet<Bid> = names.iter().filter_map(|name| name.parse().ok()).collect();
    let wanted: BTreeSet<Bid> = made.iter().map(|made| made.bid).collect();
    for bid in there.difference(&wanted) {
        world.book.breach(format!("{bid} was submitted by nobody"));
    }
    for made in made {
        let path = map::batch_uuid(&made.deposit.uuid);
        let found = world.get_all(vec![path]).await?.remove(0);
        if found.as_deref() != Some(made.bid.to_string().as_bytes()) {
            world
                .book
                .breach(format!("{} was answered {}, and leads to {found:?}", made.deposit.uuid, made.bid));
        }
        let mut of: Vec<&str> =
            jobs.iter().filter(|job| job.bid == Some(made.bid)).map(|job| job.payload.as_str()).collect();
        let mut rows: Vec<&str> = made.deposit.rows.iter().map(|row| row.path.as_str()).collect();
        of.sort_unstable();
        rows.sort_unstable();
        if of != rows {
            world.book.breach(format!("{} has jobs for {of:?}, and {rows:?} were submitted", made.bid));
        }
    }
    Ok(())
}

/// What is wrong with a job, of which somebody has spoilt these nodes.
fn wrongs(job: &Job, row: Option<&Row>, spoilt: &[JobNode]) -> Vec<String> {
    let mut wrongs = Vec::new();
    let Some(row) = row else { return vec![format!("nobody has deposited {}", job.payload)] };
    let end = match row.fate {
        Fate::Wrong => JobState::Failed,
        Fate::Good | Fate::Missing => JobState::Completed,
    };
    if job.state != Some(end) {
        wrongs.push(format!("it is {:?} and not {end}: {}", job.state, job.message));
    }
    if job.queues != job.state.into_iter().collect::<Vec<_>>() {
        wrongs.push(format!("it is {:?}, and in the queues {:?}", job.state, job.queues));
    }
    let list = if end == JobState::Failed { BatchList::Failed } else { BatchList::Completed };
    if job.bid.is_none_or(|bid| job.lists != [(bid, list)]) {
        wrongs.push(format!("it belongs to {:?}, and is in the lists {:?}", job.bid, job.lists));
    }
    if job.locked {
        wrongs.push("it is locked".to_owned());
    }
    // Whoever puts another node right notes that in the history, together with the status.
    if !spoilt.contains(&JobNode::History) {
        wrongs.extend(broken_life(job));
    }
    // Whatever cannot be read may fail a job, and then that is its message.
    if spoilt.is_empty() {
        wrongs.extend(match row.fate {
            Fate::Good => job.history.as_ref().and_then(failed_once),
            Fate::Wrong => wrong_reason(job, row),
            Fate::Missing => None,
        });
    }
    wrongs
}

/// A job whose file is not what was announced, and that has failed for something else.
fn wrong_reason(job: &Job, row: &Row) -> Option<String> {
    let reason = format!("{} was announced", row.announced());
    (!job.message.contains(&reason))
        .then(|| format!("it should say that {reason}, and says: {}", job.message))
}

/// Where a job has failed of which everything is good: no fault of ours, and no server that misbehaves for a while, may do that.
fn failed_once(history: &History) -> Option<String> {
    let failed = history.entries.iter().find(|entry| entry.to == JobState::Failed)?;
    Some(format!("it is good, and had failed: {failed:?}"))
}

/// Where a history does not go from one state to the next, up to that of the job, or has a commit twice.
fn broken_life(job: &Job) -> Option<String> {
    let Some(history) = &job.history else { return Some("it has no history that can be read".to_owned()) };
    let entries = &history.entries;
    let last = entries.last().map(|entry| entry.to);
    if last != job.state {
        return Some(format!("it is {:?}, and its history ends with {last:?}", job.state));
    }
    let commits: BTreeSet<&str> = entries.iter().map(|entry| entry.commit.as_str()).collect();
    if commits.len() != entries.len() {
        return Some(format!("a commit stands twice in its history: {history:?}"));
    }
    let torn = entries.windows(2).find(|pair| pair[1].from.is_some_and(|from| from != pair[0].to))?;
    Some(format!("its history is torn between {:?} and {:?}", torn[0], torn[1]))
}

/// Files that were served badly, and whose jobs are completed.
pub(crate) fn count_misdeeds(world: &World, jobs: &[Job]) {
    let done: BTreeSet<&str> = jobs
        .iter()
        .filter(|job| job.state == Some(JobState::Completed))
        .map(|job| job.payload.as_str())
        .collect();
    for made in world.ledger.made() {
        for (row, served) in made.deposit.rows.iter().zip(&made.served) {
            for _ in 0..served.misdeeds.load(Ordering::SeqCst) {
                let outcome = if done.contains(row.path.as_str()) {
                    Outcome::Witnessed(row.path.clone())
                } else {
                    Outcome::Missed(row.path.clone())
                };
                world.book.enter(Kind::BadServer, &outcome);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use ingest_queue::date::Date;
    use ingest_queue::nodes::{Entry, Other};

    use super::super::super::deposit::deposit;
    use super::*;

    fn row(fate: Fate) -> Row {
        let mut row = deposit(1, 1).rows.remove(0);
        row.fate = fate;
        row
    }

    fn life(states: &[JobState]) -> History {
        let entry = |(at, pair): (usize, &[JobState])| Entry {
            at: Date::from_millis(0),
            from: Some(pair[0]),
            to: pair[1],
            node: "node-1".into(),
            attempt: 1,
            commit: format!("c{at}"),
            message: String::new(),
            other: Other::new(),
        };
        History { entries: states.windows(2).enumerate().map(entry).collect() }
    }

    fn ended(state: JobState, list: BatchList) -> Job {
        let (bid, history) = (Bid::new(1), life(&[JobState::Pending, JobState::Notify, state]));
        Job {
            jid: Jid::new(1),
            bid: Some(bid),
            state: Some(state),
            message: format!(
                "http://host/d1/0.bin: sha-256 {} was announced, 00 came",
                row(Fate::Wrong).announced()
            ),
            payload: "/d1/0.bin".into(),
            queues: vec![state],
            lists: vec![(bid, list)],
            history: Some(history),
            ark: None,
            locked: false,
        }
    }

    fn completed() -> Job {
        ended(JobState::Completed, BatchList::Completed)
    }

    fn found(job: &Job, fate: Fate) -> String {
        wrongs(job, Some(&row(fate)), &[]).join("; ")
    }

    #[test]
    fn jobs_that_ended_as_they_should_are_in_order() {
        assert_eq!(found(&completed(), Fate::Good), "");
        assert_eq!(found(&ended(JobState::Failed, BatchList::Failed), Fate::Wrong), "");
    }

    #[test]
    fn the_wrong_end_two_queues_none_another_list_and_a_lock_are_found() {
        assert!(found(&completed(), Fate::Wrong).contains("not failed"));
        let two = Job { queues: vec![JobState::Notify, JobState::Completed], ..completed() };
        assert!(found(&two, Fate::Good).contains("in the queues"));
        let none = Job { queues: Vec::new(), ..completed() };
        assert!(found(&none, Fate::Good).contains("in the queues"));
        let list = ended(JobState::Completed, BatchList::Processing);
        assert!(found(&list, Fate::Good).contains("in the lists"));
        let lists = vec![(Bid::new(1), BatchList::Completed), (Bid::new(1), BatchList::Failed)];
        assert!(found(&Job { lists, ..completed() }, Fate::Good).contains("in the lists"));
        assert!(found(&Job { locked: true, ..completed() }, Fate::Good).contains("locked"));
        assert!(wrongs(&completed(), None, &[])[0].contains("nobody has deposited"));
    }

    #[test]
    fn a_torn_life_a_commit_twice_and_a_good_job_that_had_failed_are_found() {
        let mut torn =
            life(&[JobState::Pending, JobState::Estimating, JobState::Downloading, JobState::Completed]);
        torn.entries.remove(1);
        assert!(found(&Job { history: Some(torn), ..completed() }, Fate::Good).contains("torn"));
        let mut twice = life(&[JobState::Pending, JobState::Estimating, JobState::Completed]);
        twice.entries[1].commit = twice.entries[0].commit.clone();
        assert!(found(&Job { history: Some(twice), ..completed() }, Fate::Good).contains("twice"));
        let again = [JobState::Pending, JobState::Failed, JobState::Downloading, JobState::Completed];
        let failed = Job { history: Some(life(&again)), ..completed() };
        assert!(found(&failed, Fate::Good).contains("had failed"));
        assert_eq!(found(&failed, Fate::Missing), "");
        assert_eq!(wrongs(&failed, Some(&row(Fate::Good)), &[JobNode::Status]), Vec::<String>::new());
    }

    #[test]
    fn a_job_without_a_history_up_to_its_end_is_found_unless_that_was_spoilt() {
        let none = Job { history: None, ..completed() };
        let empty = Job { history: Some(History::default()), ..completed() };
        let early = Job { history: Some(life(&[JobState::Pending, JobState::Notify])), ..completed() };
        for (job, said) in
            [(none, "no history"), (empty, "ends with None"), (early, "ends with Some(Notify)")]
        {
            assert!(found(&job, Fate::Good).contains(said), "{said}");
            let with = |spoilt: &[JobNode]| wrongs(&job, Some(&row(Fate::Good)), spoilt).len();
            assert_eq!((with(&[JobNode::Status, JobNode::Priority]), with(&[JobNode::History])), (1, 0));
        }
    }

    #[test]
    fn a_wrong_file_whose_job_failed_for_something_else_is_found_unless_it_was_spoilt() {
        let message = "http://host/d1/0.bin: connection reset (6 retries)".to_owned();
        let other = Job { message, ..ended(JobState::Failed, BatchList::Failed) };
        assert!(found(&other, Fate::Wrong).contains("was announced, and says: http"));
        assert!(wrongs(&other, Some(&row(Fate::Wrong)), &[JobNode::Status]).is_empty());
    }

    #[test]
    fn a_batch_ends_as_its_jobs_did() {
        let (good, bad) = (completed(), ended(JobState::Failed, BatchList::Failed));
        let of_another = Job { bid: Some(Bid::new(2)), ..bad.clone() };
        let end = |state: &str, jobs: &[Job]| wrong_end(Bid::new(1), state, jobs).unwrap_or_default();
        assert_eq!(end("completed", &[good.clone(), of_another.clone()]), "");
        assert_eq!(end("failed", &[good.clone(), bad.clone()]), "");
        assert!(end("completed", &[good.clone(), bad]).ends_with("should be failed"));
        assert!(end("failed", &[good.clone(), of_another]).ends_with("should be completed"));
        assert!(end("reporting", &[good]).ends_with("is reporting, and should be completed"));
    }
}
