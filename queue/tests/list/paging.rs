use ingest_queue::ids::Jid;
use ingest_queue::list::{self, Filter, JobLine, Page, PageRequest};
use ingest_queue::map::{JobNode, Priority, QueueRef};
use ingest_queue::states::JobState;
use ingest_store::{Op, Session};

use crate::planted::{alike, go, ground, plant, uproot};
use crate::tree::{Tree, on_both_engines};

on_both_engines!(
    pages_follow_each_other_in_the_order_of_ids_until_the_end,
    a_job_that_stays_is_shown_once_while_others_come_and_go,
    a_job_that_changes_its_priority_between_pages_is_neither_shown_twice_nor_skipped,
    a_job_that_leaves_the_state_is_not_shown_on_a_later_page,
    the_newest_jobs_come_first_if_asked_for,
    a_walk_meets_every_job_once,
    a_listing_can_run_in_a_task_of_its_own,
);

fn of(state: JobState) -> Filter {
    Filter { states: vec![state], ..Filter::default() }
}

async fn page(session: &Session, filter: &Filter, after: Option<String>) -> Page<JobLine> {
    list::jobs(session, filter, &PageRequest { limit: 4, after, ..PageRequest::default() }).await.unwrap()
}

fn numbers(page: &Page<JobLine>) -> Vec<u32> {
    page.lines.iter().map(|line| line.jid.number()).collect()
}

async fn pages_follow_each_other_in_the_order_of_ids_until_the_end(tree: &Tree) {
    let session = tree.session().await;
    ground(&session).await;
    plant(&session, &alike(0..10, JobState::Failed)).await;
    for filter in [Filter::default(), of(JobState::Failed)] {
        let first = page(&session, &filter, None).await;
        let second = page(&session, &filter, first.next.clone()).await;
        let third = page(&session, &filter, second.next.clone()).await;
        assert_eq!(numbers(&first), [0, 1, 2, 3]);
        assert_eq!(numbers(&second), [4, 5, 6, 7]);
        assert_eq!(numbers(&third), [8, 9]);
        assert_eq!((third.next, third.left, first.unreadable.len()), (None, 0, 0));
    }
}

async fn the_newest_jobs_come_first_if_asked_for(tree: &Tree) {
    let session = tree.session().await;
    ground(&session).await;
    plant(&session, &alike(0..6, JobState::Failed)).await;
    for filter in [Filter::default(), of(JobState::Failed)] {
        let mut request = PageRequest { limit: 4, newest_first: true, after: None };
        let first = list::jobs(&session, &filter, &request).await.unwrap();
        request.after.clone_from(&first.next);
        let second = list::jobs(&session, &filter, &request).await.unwrap();
        assert_eq!((numbers(&first), numbers(&second)), (vec![5, 4, 3, 2], vec![1, 0]));
        assert_eq!((first.left, second.next, second.left), (2, None, 0));
    }
}

async fn a_job_that_stays_is_shown_once_while_others_come_and_go(tree: &Tree) {
    let session = tree.session().await;
    ground(&session).await;
    let jobs = alike(0..12, JobState::Failed);
    plant(&session, &jobs).await;
    let first = page(&session, &of(JobState::Failed), None).await;
    assert_eq!(numbers(&first), [0, 1, 2, 3]);
    // One before the cursor, the one that it stands on, one after it; and new ones at the end.
    for gone in [1, 3, 5] {
        uproot(&session, &jobs[gone]).await;
    }
    plant(&session, &alike(12..14, JobState::Failed)).await;
    let second = page(&session, &of(JobState::Failed), first.next).await;
    assert_eq!(numbers(&second), [4, 6, 7, 8]);
    uproot(&session, &jobs[8]).await;
    let third = page(&session, &of(JobState::Failed), second.next).await;
    assert_eq!(numbers(&third), [9, 10, 11, 12]);
    let last = page(&session, &of(JobState::Failed), third.next).await;
    assert_eq!((numbers(&last), last.next), (vec![13], None));
}

async fn a_job_that_changes_its_priority_between_pages_is_neither_shown_twice_nor_skipped(tree: &Tree) {
    let session = tree.session().await;
    ground(&session).await;
    plant(&session, &alike(0..8, JobState::Pending)).await;
    let first = page(&session, &of(JobState::Pending), None).await;
    for (number, priority) in [(0, 99), (7, 0)] {
        let (jid, priority) = (Jid::new(number), Priority::nearest(priority));
        let ops = vec![
            Op::delete(QueueRef::new(JobState::Pending, Priority::DEFAULT, jid).path(), None),
            Op::create(QueueRef::new(JobState::Pending, priority, jid).path(), ""),
            Op::set(JobNode::Priority.of(jid), priority.number().to_string(), None),
        ];
        session.multi(ops).await.unwrap();
    }
    let second = page(&session, &of(JobState::Pending), first.next).await;
    assert_eq!((numbers(&second), second.next), (vec![4, 5, 6, 7], None));
    assert_eq!(second.lines[3].priority, Priority::FIRST);
}

async fn a_job_that_leaves_the_state_is_not_shown_on_a_later_page(tree: &Tree) {
    let session = tree.session().await;
    ground(&session).await;
    plant(&session, &alike(0..6, JobState::Failed)).await;
    let first = page(&session, &of(JobState::Failed), None).await;
    go(&session, Jid::new(4), JobState::Estimating, "c").await.unwrap();
    let second = page(&session, &of(JobState::Failed), first.next).await;
    assert_eq!(numbers(&second), [5]);
}

async fn a_walk_meets_every_job_once(tree: &Tree) {
    let session = tree.session().await;
    ground(&session).await;
    plant(&session, &alike(0..600, JobState::Failed)).await;
    plant(&session, &alike(600..610, JobState::Held)).await;
    let filter = of(JobState::Failed);
    let mut walk = list::walk(&session, &filter, Some(Jid::new(9))).await.unwrap();
    assert_eq!(walk.left(), 590);
    let (mut met, mut chunks) = (Vec::new(), 0);
    while let Some(chunk) = walk.next().await.unwrap() {
        chunks += 1;
        met.extend(chunk.jobs.iter().map(|job| job.jid.number()));
    }
    assert_eq!(met, (10..600).collect::<Vec<_>>());
    assert!(chunks > 1 && walk.left() == 0);
}

async fn a_listing_can_run_in_a_task_of_its_own(tree: &Tree) {
    let session = tree.session().await;
    ground(&session).await;
    plant(&session, &alike(0..3, JobState::Failed)).await;
    let task = tokio::spawn(async move {
        let mut walked = 0;
        let filter = Filter::default();
        let mut walk = list::walk(&session, &filter, None).await.unwrap();
        while let Some(chunk) = walk.next().await.unwrap() {
            walked += chunk.jobs.len();
        }
        let batches = list::batches(&session, &list::BatchFilter::default(), &PageRequest::default()).await;
        let jobs = list::jobs(&session, &filter, &PageRequest::default()).await.unwrap();
        (list::counts(&session).await.unwrap()[&JobState::Failed], walked, jobs.lines.len(), batches.is_ok())
    });
    assert_eq!(task.await.unwrap(), (3, 3, 3, true));
}
