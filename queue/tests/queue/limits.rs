//! Limits over all nodes, on both engines.
//!
//! The invariant: at no moment are more slots of a limit held than it says; after it was lowered, than were held before.
//! And no slot is lost: whatever breaks, all of them can be taken again.

use std::collections::BTreeSet;
use std::time::Duration;

use ingest_queue::dialect::Dialect;
use ingest_queue::error::Error;
use ingest_queue::ids::Jid;
use ingest_queue::limits::follow::{Follower, News};
use ingest_queue::limits::rules::{From, Kind, Semaphore};
use ingest_queue::limits::set::{Configured, Wanted};
use ingest_queue::map;
use ingest_queue::plan::job::{Action, Change};
use ingest_queue::queue::Queue;
use ingest_queue::states::{JobState, Who};
use ingest_store::{Event, Session};

use crate::tree::{Tree, on_both_engines, within};
use crate::world::{WHO, acquire, batch_of, bring, clean, entry, queue};

on_both_engines!(
    a_slot_is_taken_with_the_job_and_given_back_with_its_transition,
    a_hand_over_keeps_what_the_next_state_needs_and_gives_back_the_rest,
    a_hand_over_into_a_limit_that_is_reached_is_refused_and_changes_nothing,
    many_plans_of_one_limit_are_committed_together,
    three_nodes_never_hold_more_than_the_limit_and_use_all_of_it,
    the_slots_of_a_node_that_is_gone_come_back_with_its_session,
    a_limit_is_raised_and_lowered_while_slots_are_held,
    what_a_person_has_set_goes_before_the_file_until_it_is_cleared,
    a_slot_that_was_given_up_comes_back_by_the_sweep,
    a_worker_whose_job_was_taken_away_gives_its_slot_back_when_it_stops,
    slots_whose_job_nobody_works_on_are_found_by_any_node,
    where_there_is_no_limit_nothing_is_written,
    a_new_limit_counts_those_who_begin_after_it,
    those_who_follow_are_told_of_room,
    the_states_in_which_a_limit_holds_are_changed_live,
);

const HOST: &str = "example.org";

fn host() -> Semaphore {
    Semaphore::new(Kind::Host, HOST)
}

async fn held(queue: &Queue) -> usize {
    queue.holders(&host()).await.unwrap().len()
}

/// Jobs that wait to be downloaded.
async fn downloads(queue: &Queue, count: usize) -> Vec<Jid> {
    let (_, jids) = batch_of(queue, count).await;
    for jid in &jids {
        bring(queue, *jid, JobState::Downloading).await;
    }
    jids
}

async fn set(queue: &Queue, limit: u32) {
    assert!(queue.set_limit(Kind::Host, HOST, Wanted::AtMost(limit)).await.unwrap());
}

fn is_at_limit<T: std::fmt::Debug>(answer: Result<T, Error>) -> bool {
    match answer {
        Err(Error::AtLimit { semaphore, .. }) => semaphore == host(),
        other => panic!("{other:?}"),
    }
}

/// A node that follows the limits, as nodes do.
async fn following(tree: &Tree) -> (Queue, tokio::task::JoinHandle<()>) {
    let queue = queue(tree).await;
    let follower = Follower::start(&queue).await.unwrap();
    (queue, tokio::spawn(follower.run(|_: News| {})))
}

/// What a queue that follows its limits is told.
async fn news(queue: &Queue) -> tokio::sync::mpsc::UnboundedReceiver<News> {
    let (send, told) = tokio::sync::mpsc::unbounded_channel();
    let follower = Follower::start(queue).await.unwrap();
    tokio::spawn(follower.run(move |news| drop(send.send(news))));
    told
}

/// Tells the most slots that were ever held at a time and how many were given back, by events.
async fn watch_most(session: &Session) -> tokio::sync::watch::Receiver<(usize, usize)> {
    let (tell, told) = tokio::sync::watch::channel((0, 0));
    let mut watch = session.watch_tree(map::SEMAPHORES).await.unwrap();
    tokio::spawn(async move {
        let (mut held, mut given_back) = (BTreeSet::new(), 0);
        loop {
            match watch.next().await {
                Event::Created(path) if path.ends_with("/holder") => {
                    held.insert(path);
                }
                Event::Deleted(path) if path.ends_with("/holder") => {
                    given_back += usize::from(held.remove(&path));
                }
                Event::Ended(_) => return,
                _ => {}
            }
            tell.send_modify(|(most, ended)| (*most, *ended) = ((*most).max(held.len()), given_back));
        }
    });
    told
}

async fn a_slot_is_taken_with_the_job_and_given_back_with_its_transition(tree: &Tree) {
    let queue = queue(tree).await;
    let jids = downloads(&queue, 3).await;
    set(&queue, 2).await;
    let mut first = acquire(&queue, jids[0]).await;
    let mut second = acquire(&queue, jids[1]).await;
    assert!(is_at_limit(queue.acquire(entry(&queue, jids[2]).await, WHO).await));
    let holders = queue.holders(&host()).await.unwrap();
    let jobs: BTreeSet<_> = holders.iter().filter_map(|holding| holding.job).collect();
    assert_eq!(jobs, BTreeSet::from([jids[0], jids[1]]));
    assert!(holders.iter().all(|holding| holding.node == "node-1" && holding.state == "downloading"));
    clean(queue.session(), Dialect::Design).await;
    // On to the next state, where hosts are not limited.
    queue.succeed(&mut first, &Change::default()).await.unwrap();
    assert_eq!(held(&queue).await, 1);
    let mut third = acquire(&queue, jids[2]).await;
    // Given back without a transition.
    queue.give_back(&mut second, None).await.unwrap();
    queue.fail(&mut third, &Change::message("no route to host")).await.unwrap();
    assert_eq!(held(&queue).await, 0);
    clean(queue.session(), Dialect::Design).await;
}

async fn a_hand_over_keeps_what_the_next_state_needs_and_gives_back_the_rest(tree: &Tree) {
    let queue = queue(tree).await;
    let jids = downloads(&queue, 2).await;
    set(&queue, 1).await;
    queue.set_limit(Kind::Profile, "demo_content", Wanted::AtMost(1)).await.unwrap();
    let profile = Semaphore::new(Kind::Profile, "demo_content");
    let mut lease = acquire(&queue, jids[0]).await;
    queue.hand_over(&mut lease, JobState::Processing, Who::Worker, &Change::default()).await.unwrap();
    assert_eq!((held(&queue).await, queue.holders(&profile).await.unwrap().len()), (0, 1));
    // Whoever needs both gets both or none.
    assert!(queue.acquire(entry(&queue, jids[1]).await, WHO).await.is_err());
    assert_eq!(held(&queue).await, 0);
    queue.hand_over(&mut lease, JobState::Recording, Who::Worker, &Change::default()).await.unwrap();
    assert_eq!(queue.holders(&profile).await.unwrap().len(), 0);
    let mut second = acquire(&queue, jids[1]).await;
    queue.give_back(&mut second, None).await.unwrap();
    queue.give_back(&mut lease, None).await.unwrap();
    clean(queue.session(), Dialect::Design).await;
}

async fn a_hand_over_into_a_limit_that_is_reached_is_refused_and_changes_nothing(tree: &Tree) {
    let queue = queue(tree).await;
    let jids = downloads(&queue, 2).await;
    let states = BTreeSet::from(["processing".to_owned()]);
    let mut configured = Configured { states, ..Configured::default() };
    configured.said.profiles.insert("default".into(), Some(1));
    assert!(queue.configure_limits(&configured).await.unwrap());
    assert!(!queue.configure_limits(&configured).await.unwrap());
    let (mut one, mut other) = (acquire(&queue, jids[0]).await, acquire(&queue, jids[1]).await);
    queue.hand_over(&mut one, JobState::Processing, Who::Worker, &Change::default()).await.unwrap();
    let refused = queue.hand_over(&mut other, JobState::Processing, Who::Worker, &Change::default()).await;
    assert!(matches!(refused, Err(Error::AtLimit { .. })), "{refused:?}");
    queue.succeed(&mut other, &Change::default()).await.unwrap();
    queue.succeed(&mut one, &Change::default()).await.unwrap();
    clean(queue.session(), Dialect::Design).await;
}

async fn many_plans_of_one_limit_are_committed_together(tree: &Tree) {
    let (queue, _following) = following(tree).await;
    let jids = downloads(&queue, 16).await;
    set(&queue, 16).await;
    let entries = futures::future::join_all(jids.iter().map(|jid| entry(&queue, *jid))).await;
    let leases = futures::future::join_all(entries.iter().map(|entry| queue.acquire(*entry, WHO))).await;
    assert!(leases.iter().all(Result::is_ok));
    assert_eq!(held(&queue).await, 16);
    let moved = leases.into_iter().map(|lease| async {
        queue.succeed(&mut lease.unwrap(), &Change::default()).await.unwrap();
    });
    futures::future::join_all(moved).await;
    assert_eq!(held(&queue).await, 0);
    clean(queue.session(), Dialect::Design).await;
}

async fn three_nodes_never_hold_more_than_the_limit_and_use_all_of_it(tree: &Tree) {
    let one = queue(tree).await;
    let jids = downloads(&one, 24).await;
    set(&one, 5).await;
    let mut told = watch_most(&tree.session().await).await;
    let mut nodes = Vec::new();
    for _ in 0..3 {
        nodes.push(following(tree).await.0);
    }
    let work = nodes.iter().map(|node| async {
        for jid in &jids {
            loop {
                let job = node.job(*jid).await.unwrap();
                if job.state() != JobState::Downloading {
                    break;
                }
                match node.acquire(job.entry(), WHO).await {
                    Ok(mut lease) => {
                        node.succeed(&mut lease, &Change::default()).await.unwrap();
                    }
                    Err(Error::AtLimit { .. }) => tokio::task::yield_now().await,
                    Err(_) => break,
                }
            }
        }
    });
    futures::future::join_all(work).await;
    assert_eq!(held(&one).await, 0);
    // Whoever watches may be behind: what it says counts once it has seen the last slot given back.
    let (most, _) = *within(told.wait_for(|(_, given_back)| *given_back == jids.len())).await.unwrap();
    assert!((1..=5).contains(&most), "{most}");
    clean(one.session(), Dialect::Design).await;
}

async fn the_slots_of_a_node_that_is_gone_come_back_with_its_session(tree: &Tree) {
    let (one, other) = (queue(tree).await, queue(tree).await);
    let jids = downloads(&one, 3).await;
    set(&one, 2).await;
    let _leases = (acquire(&other, jids[0]).await, acquire(&other, jids[1]).await);
    assert!(is_at_limit(one.acquire(entry(&one, jids[2]).await, WHO).await));
    other.session().close().await.unwrap();
    let mut lease = acquire(&one, jids[2]).await;
    assert_eq!(held(&one).await, 1);
    one.give_back(&mut lease, None).await.unwrap();
    clean(one.session(), Dialect::Design).await;
}

async fn a_limit_is_raised_and_lowered_while_slots_are_held(tree: &Tree) {
    let queue = queue(tree).await;
    let jids = downloads(&queue, 6).await;
    set(&queue, 4).await;
    let mut leases = Vec::new();
    for jid in &jids[..4] {
        leases.push(acquire(&queue, *jid).await);
    }
    set(&queue, 2).await;
    // Whoever has a slot keeps it, and nobody gets one before fewer than two are held.
    for lease in leases.drain(..2) {
        let mut lease = lease;
        assert!(is_at_limit(queue.acquire(entry(&queue, jids[4]).await, WHO).await));
        queue.give_back(&mut lease, None).await.unwrap();
    }
    clean(queue.session(), Dialect::Design).await;
    assert!(is_at_limit(queue.acquire(entry(&queue, jids[4]).await, WHO).await));
    queue.give_back(&mut leases.remove(0), None).await.unwrap();
    let mut lease = acquire(&queue, jids[4]).await;
    assert!(is_at_limit(queue.acquire(entry(&queue, jids[5]).await, WHO).await));
    set(&queue, 3).await;
    let mut last = acquire(&queue, jids[5]).await;
    for lease in [&mut lease, &mut last, &mut leases[0]] {
        queue.give_back(lease, None).await.unwrap();
    }
    assert_eq!(held(&queue).await, 0);
}

async fn what_a_person_has_set_goes_before_the_file_until_it_is_cleared(tree: &Tree) {
    let queue = queue(tree).await;
    let mut configured = Configured::default();
    configured.said.hosts.insert(HOST.into(), Some(3));
    queue.configure_limits(&configured).await.unwrap();
    let limit = async || queue.read_limits().await.unwrap().rules.limit(Kind::Host, HOST);
    assert_eq!(limit().await, Some((3, From::File)));
    set(&queue, 7).await;
    queue.configure_limits(&configured).await.unwrap();
    assert_eq!(limit().await, Some((7, From::Set)));
    queue.set_limit(Kind::Host, HOST, Wanted::NoLimit).await.unwrap();
    assert_eq!(limit().await, None);
    assert!(queue.set_limit(Kind::Host, HOST, Wanted::AsTheFileSays).await.unwrap());
    assert!(!queue.set_limit(Kind::Host, HOST, Wanted::AsTheFileSays).await.unwrap());
    assert_eq!(limit().await, Some((3, From::File)));
    clean(queue.session(), Dialect::Design).await;
}

async fn a_slot_that_was_given_up_comes_back_by_the_sweep(tree: &Tree) {
    let queue = queue(tree).await;
    let jids = downloads(&queue, 2).await;
    set(&queue, 1).await;
    drop(acquire(&queue, jids[0]).await);
    queue.release_all_of(WHO).await.unwrap();
    assert_eq!(held(&queue).await, 1);
    assert_eq!(queue.sweep_locks().await.unwrap().len(), 1);
    let mut lease = acquire(&queue, jids[1]).await;
    // What is claimed is left alone.
    assert_eq!(queue.sweep_locks().await.unwrap().len(), 0);
    queue.give_back(&mut lease, None).await.unwrap();
    assert_eq!(held(&queue).await, 0);
}

async fn a_worker_whose_job_was_taken_away_gives_its_slot_back_when_it_stops(tree: &Tree) {
    let queue = queue(tree).await;
    let jids = downloads(&queue, 2).await;
    set(&queue, 1).await;
    let mut told = news(&queue).await;
    let mut lease = acquire(&queue, jids[0]).await;
    queue.act(jids[0], &Action::SetPriority(map::Priority::FIRST), "by a test", true).await.unwrap();
    // It may still be at work.
    assert_eq!(held(&queue).await, 1);
    assert!(matches!(queue.give_back(&mut lease, None).await, Err(Error::Lost { .. })));
    while held(&queue).await > 0 || queue.limits().room(&host()) == Some(0) {
        assert_eq!(told.recv().await, Some(News::Freed(host().node_name())));
    }
    let mut lease = acquire(&queue, jids[1]).await;
    queue.give_back(&mut lease, None).await.unwrap();
}

async fn slots_whose_job_nobody_works_on_are_found_by_any_node(tree: &Tree) {
    let (one, other) = (queue(tree).await, queue(tree).await);
    let jids = downloads(&one, 3).await;
    set(&one, 2).await;
    // The lock is released and the slot is not: as of a node that lives and has forgotten it.
    std::mem::forget(acquire(&other, jids[0]).await);
    other.release_all_of(WHO).await.unwrap();
    let mut working = acquire(&other, jids[1]).await;
    assert_eq!(held(&one).await, 2);
    let cleaned = one.clean_semaphores(Duration::from_hours(1), usize::MAX).await.unwrap();
    assert_eq!((cleaned.slots, cleaned.semaphores), (1, 0));
    let holders = one.holders(&host()).await.unwrap();
    assert_eq!(holders.iter().map(|holding| holding.job).collect::<Vec<_>>(), [Some(jids[1])]);
    other.give_back(&mut working, None).await.unwrap();
    // And a semaphore that nobody has needed for a while goes, and is made again when it is needed.
    let cleaned = one.clean_semaphores(Duration::ZERO, usize::MAX).await.unwrap();
    assert_eq!((cleaned.slots, cleaned.semaphores), (0, 1));
    let mut lease = acquire(&other, jids[2]).await;
    assert_eq!(held(&one).await, 1);
    other.give_back(&mut lease, None).await.unwrap();
    clean(one.session(), Dialect::Design).await;
}

async fn where_there_is_no_limit_nothing_is_written(tree: &Tree) {
    let queue = queue(tree).await;
    let jids = downloads(&queue, 1).await;
    let mut lease = acquire(&queue, jids[0]).await;
    assert!(queue.session().exists(map::SEMAPHORES).await.unwrap().is_none());
    queue.succeed(&mut lease, &Change::default()).await.unwrap();
    assert!(queue.semaphores().await.unwrap().is_empty());
}

/// The rule of limits that are new: nobody who is at work is stopped or counted; who moves on into a state in which it
/// holds needs a slot like everybody else.
async fn a_new_limit_counts_those_who_begin_after_it(tree: &Tree) {
    let queue = queue(tree).await;
    let jids = downloads(&queue, 5).await;
    let mut before = [acquire(&queue, jids[0]).await, acquire(&queue, jids[1]).await];
    set(&queue, 1).await;
    queue.set_limit(Kind::Profile, "demo_content", Wanted::AtMost(1)).await.unwrap();
    assert_eq!(held(&queue).await, 0, "who is at work does not count");
    let mut after = acquire(&queue, jids[2]).await;
    assert!(is_at_limit(queue.acquire(entry(&queue, jids[3]).await, WHO).await));
    // The next state is limited by profiles, and the one slot is taken.
    let refused =
        queue.hand_over(&mut before[0], JobState::Processing, Who::Worker, &Change::default()).await;
    assert!(matches!(refused, Err(Error::AtLimit { .. })), "{refused:?}");
    queue.succeed(&mut before[0], &Change::default()).await.unwrap();
    queue.succeed(&mut after, &Change::default()).await.unwrap();
    queue.hand_over(&mut before[1], JobState::Processing, Who::Worker, &Change::default()).await.unwrap();
    let profile = Semaphore::new(Kind::Profile, "demo_content");
    assert_eq!(
        (held(&queue).await, queue.holders(&profile).await.unwrap().len()),
        (0, 1),
        "from now on it counts"
    );
    queue.give_back(&mut before[1], None).await.unwrap();
    clean(queue.session(), Dialect::Design).await;
}

async fn those_who_follow_are_told_of_room(tree: &Tree) {
    let queue = queue(tree).await;
    let jids = downloads(&queue, 1).await;
    set(&queue, 1).await;
    let mut told = news(&queue).await;
    let mut lease = acquire(&queue, jids[0]).await;
    assert_eq!(queue.limits().room(&host()), Some(0));
    queue.give_back(&mut lease, None).await.unwrap();
    assert_eq!(told.recv().await, Some(News::Freed(host().node_name())));
    set(&queue, 3).await;
    while told.recv().await.unwrap() != News::Changed {}
}

async fn the_states_in_which_a_limit_holds_are_changed_live(tree: &Tree) {
    let queue = queue(tree).await;
    let jids = downloads(&queue, 2).await;
    set(&queue, 1).await;
    let mut told = news(&queue).await;
    let mut first = acquire(&queue, jids[0]).await;
    assert!(is_at_limit(queue.acquire(entry(&queue, jids[1]).await, WHO).await));
    assert!(queue.limits().may_hold(&host(), JobState::Downloading));
    let elsewhere = Configured { host_states: ["processing".to_owned()].into(), ..Configured::default() };
    assert!(queue.configure_limits(&elsewhere).await.unwrap());
    while told.recv().await.unwrap() != News::Changed {}
    queue.read_limits().await.unwrap();
    assert!(!queue.limits().may_hold(&host(), JobState::Downloading));
    // The limit is as it was, and there is no room: it is of no concern here.
    assert!(queue.limits().may_limit(&host().node_name()));
    let mut second = acquire(&queue, jids[1]).await;
    assert_eq!(held(&queue).await, 1, "whoever has a slot keeps it until it moves on");
    queue.succeed(&mut first, &Change::default()).await.unwrap();
    assert_eq!(held(&queue).await, 0);
    queue.hand_over(&mut second, JobState::Processing, Who::Worker, &Change::default()).await.unwrap();
    assert_eq!(held(&queue).await, 1, "in the state in which it holds now it does");
    queue.give_back(&mut second, None).await.unwrap();
    clean(queue.session(), Dialect::Design).await;
}
