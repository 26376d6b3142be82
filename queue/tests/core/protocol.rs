//! The protocol as a model, explored to its last state: nodes that take jobs, let them in, move them on, hand them over, commit several
//! together, give them back; workers that die, nodes that crash, sessions that expire, answers that get lost; people who requeue, delete,
//! hold, release, change priorities and take locks away; batches that become jobs, end and report.
//!
//! What is sent to the tree is made by the functions that the product makes it with ([`ingest_queue::plan`], the lock
//! table's claims and releases), and what an answer means is told by the committer's own ([`Sending`](ingest_queue::committer::Sending)). A plan
//! is made at one step from what is read then, and each multi is sent at a later one, so whatever can happen in between does. After a
//! lost answer the same is sent again, which may get lost again; if it is then refused, each mark is read at a step of its own.
//!
//! A node has one plan for jobs under way, or several that go together, besides what dead workers have left; where a setup says so
//! ([`Setup::overlap`]) one for the batch at the same time. That is not said of every setup with a batch: it makes their states four times
//! as many and more.
//!
//! | what holds | where |
//! |---|---|
//! | a job is in exactly one queue and one list of its batch, those that its status names | [`rules`] |
//! | only whoever has taken a job last commits anything about it; likewise the batch, and nobody once it is given back | [`tree_side`] |
//! | a job is taken once in each state, and again only if something breaks or a person does something | [`rules`] |
//! | every row has one job, and no job is without a row | [`rules`] |
//! | a report is sent when all jobs have ended, names every one of them as it is, and has one number | [`batches`] |
//! | what is noted as sent was sent | [`rules`] |
//! | when faults stop, and no person does anything any more, everything comes to its end: from every state that there is an end can be reached, and no way goes in circles | [`explore`] |
//!
//! Rules that are broken on purpose ([`Broken`]) must be found out; those tests say by what.
//!
//! `INGESTD_PROTOCOL=large` explores more nodes, jobs and faults.

mod batches;
mod explore;
mod faults;
mod jobs;
mod people;
mod rules;
mod same;
mod setup;
mod tree_side;
mod world;

use std::cell::RefCell;

use ingest_queue::states::JobState;

use self::explore::{Explored, Violation, explore};
use self::setup::{Ask, Broken, Setup};
use self::world::World;

fn large() -> bool {
    std::env::var("INGESTD_PROTOCOL").is_ok_and(|value| value == "large")
}

/// One thing in the small, another in the large.
fn size(small: u8, more: u8) -> u8 {
    if large() { more } else { small }
}

fn run(setup: &Setup) -> Result<Explored, Violation> {
    let known = RefCell::default();
    explore(
        &World::new(setup),
        |world, next| world.steps(setup, next),
        |world| world.judge(setup, &mut known.borrow_mut()),
        |world| world.has_come_to_its_end(setup),
    )
}

/// Everything holds, and all of this has happened somewhere on the way, besides what does in every such setup.
fn holds(name: &str, setup: &Setup, seen: &[&str]) {
    let begin = std::time::Instant::now();
    match run(setup) {
        Ok(explored) => {
            println!("{name}: {explored}, {} ms", begin.elapsed().as_millis());
            for what in setup.always_seen().iter().chain(seen) {
                assert!(explored.seen.contains(what), "{name}: {what} is not explored");
            }
        }
        Err(violation) => panic!("{name}: {violation}"),
    }
}

/// The rule that was broken is found out, by this.
fn is_found_out(setup: &Setup, broken: Broken, by: &str) {
    let setup = Setup { broken: Some(broken), ..setup.clone() };
    match run(&setup) {
        Ok(explored) => panic!("{broken:?} was not found out: {explored}"),
        Err(violation) => assert!(violation.why.contains(by), "{broken:?}: {violation}"),
    }
}

/// A job that is taken, handed over, and taken again by others after crashes.
fn owner() -> Setup {
    Setup { nodes: 2, jobs: 1, from: JobState::Recording, ..Setup::default() }
}

/// The same with two jobs: claims, hand-overs and commits of both also go together.
fn owners() -> Setup {
    Setup { jobs: 2, faults: size(0, 1), coalesce: true, ..owner() }
}

/// Jobs that are taken, end and go together.
fn together() -> Setup {
    Setup { jobs: 2, from: JobState::Notify, faults: 1, coalesce: true, ..Setup::default() }
}

/// A person who requeues, deletes, changes priorities and takes locks away, beside the workers.
fn person() -> Setup {
    let may = &[Ask::Requeue, Ask::Delete, Ask::Priority, Ask::Force];
    Setup { jobs: 1, from: JobState::Notify, faults: 1, asks: size(1, 2), may, ..Setup::default() }
}

/// A job that waits for room, and a person who holds and releases it.
fn held() -> Setup {
    let may = &[Ask::Hold, Ask::Release, Ask::Delete];
    let (from, until) = (JobState::Provisioning, JobState::Downloading);
    Setup { jobs: 1, from, until, faults: 1, asks: 2, may, ..Setup::default() }
}

/// A job that is let in from pending, and a person who does something to it meanwhile.
fn pending() -> Setup {
    let may = &[Ask::Hold, Ask::Release, Ask::Priority];
    let (from, until) = (JobState::Pending, JobState::Provisioning);
    Setup { jobs: 1, from, until, faults: size(0, 1), asks: 1, may, ..Setup::default() }
}

/// The end of a batch: its jobs, its report, and a person who requeues or deletes meanwhile.
fn end() -> Setup {
    let may = &[Ask::Requeue, Ask::Delete];
    let (jobs, from) = (2, JobState::Notify);
    Setup { jobs, from, faults: 0, asks: 1, may, batch: true, coalesce: true, ..Setup::default() }
}

/// Rows that become jobs, while somebody else makes jobs, too; the jobs are worked on, and the batch ends.
fn whole() -> Setup {
    Setup { rows: 2, faults: 0, others: 1, batch: true, ..Setup::default() }
}

#[test]
fn a_job_has_one_owner_and_comes_to_its_end() {
    let seen = ["taken by another before", "changed before it is taken", "found applied after all"];
    holds("owner", &owner(), &seen);
    holds("owner, three nodes", &Setup { nodes: 3, faults: size(1, 2), ..owner() }, &seen);
    let setup = Setup { faults: 2, from: JobState::Notify, ..owner() };
    holds("owner, two faults", &setup, &["lost again"]);
}

#[test]
fn two_jobs_that_are_handed_over_have_one_owner_each() {
    let seen = ["claims go together", "hand-overs go together", "a claim and a commit go together"];
    holds("owners", &owners(), &seen);
    if large() {
        let seen = ["taken by another before", "found applied after all"];
        holds("owners, three nodes", &Setup { nodes: 3, coalesce: false, ..owners() }, &seen);
    }
}

#[test]
fn commits_that_go_together_are_applied_or_refused_one_by_one() {
    let seen = ["taken out, and the rest sent again", "found applied after all", "claims go together"];
    holds("together", &together(), &seen);
    if large() {
        holds("together, three jobs", &Setup { jobs: 3, faults: 0, ..together() }, &seen[..1]);
        holds("together, two faults", &Setup { faults: 2, ..together() }, &["lost again"]);
    }
}

#[test]
fn what_a_person_does_beside_the_workers_breaks_nothing() {
    let seen = ["a person is refused: busy", "a person is refused: changed", "changed before it is taken"];
    holds("person", &person(), &[&seen[..], &["a person's found applied after all"]].concat());
    holds("person, two jobs", &Setup { jobs: 2, faults: size(0, 1), asks: 1, ..person() }, &seen);
}

#[test]
fn what_a_person_holds_and_releases_is_in_one_state() {
    let seen = ["a person is refused: busy", "a person is refused: changed"];
    holds("held", &held(), &[&seen[..], &["a person's found applied after all"]].concat());
    holds("held, two jobs", &Setup { jobs: 2, faults: 0, ..held() }, &seen);
    if large() {
        holds("held, two jobs and a fault", &Setup { jobs: 2, asks: 1, ..held() }, &seen);
    }
}

#[test]
fn a_pending_job_is_let_in_once() {
    let seen = ["a person is refused: busy", "taken by another before"];
    holds("pending", &pending(), &seen);
    holds("pending, with a fault", &Setup { faults: 1, asks: 0, ..pending() }, &["found applied after all"]);
    let setup = Setup { jobs: 2, faults: 0, asks: 0, coalesce: large(), ..pending() };
    holds("pending, two jobs", &setup, &seen[1..]);
}

#[test]
fn a_batch_reports_once_all_its_jobs_have_ended() {
    holds("end", &end(), &["a batch is not empty"]);
    let setup = Setup { faults: 1, asks: 0, coalesce: large(), ..end() };
    holds("end, with a fault", &setup, &["posted before", "found applied after all"]);
    let setup = Setup { nodes: 3, asks: 0, coalesce: false, ..end() };
    holds("end, three nodes", &setup, &["taken by another before"]);
    if large() {
        let setup = Setup { jobs: 1, faults: 1, ..setup };
        holds("end, three nodes and a fault", &setup, &["posted before", "found applied after all"]);
    }
}

#[test]
fn a_person_changes_jobs_while_the_batch_ends_and_something_breaks() {
    let seen =
        ["found applied after all", "a person is refused: changed", "a person's found applied after all"];
    let setup = Setup { jobs: size(1, 2), faults: 1, coalesce: false, ..end() };
    holds("end, a person and a fault", &setup, &seen);
}

#[test]
fn a_node_commits_for_the_batch_and_for_its_jobs_at_once() {
    let setup = Setup { overlap: true, ..end() };
    holds("end, at once", &Setup { asks: 0, ..setup.clone() }, &["claims go together"]);
    let setup = Setup { jobs: 1, faults: size(0, 1), ..setup };
    holds("end, at once, with a person", &setup, &["a batch is not empty"]);
    if large() {
        let setup = Setup { rows: 1, faults: 1, overlap: true, ..whole() };
        holds("whole, at once", &setup, &["found applied after all"]);
    }
}

#[test]
fn every_row_becomes_one_job_and_the_report_waits_for_all_of_them() {
    holds("whole", &whole(), &["taken by another before"]);
    let seen = ["found applied after all"];
    holds("whole, with a fault", &Setup { rows: 1, faults: 1, ..whole() }, &seen);
    if large() {
        holds("whole, two rows and a fault", &Setup { faults: 1, others: 0, ..whole() }, &seen);
    }
}

#[test]
fn a_fence_by_the_version_of_the_lock_is_found_out() {
    is_found_out(&owner(), Broken::FenceByLock, "is another's");
}

#[test]
fn a_commit_at_no_version_is_found_out() {
    is_found_out(&owner(), Broken::NoVersion, "is another's");
}

#[test]
fn a_lock_that_is_released_before_the_commit_is_found_out() {
    is_found_out(&Setup { faults: 0, ..owner() }, Broken::ReleaseFirst, "is taken again and again");
}

#[test]
fn a_batch_whose_owner_commits_at_no_version_is_found_out() {
    let setup = Setup { jobs: 1, faults: 1, asks: 0, ..end() };
    is_found_out(&setup, Broken::NoFenceOfTheBatch, "the batch is another's");
}

#[test]
fn a_report_without_the_proof_that_nothing_is_left_is_found_out() {
    is_found_out(&end(), Broken::NoProofOfTheEnd, "has not ended");
}

#[test]
fn a_batch_that_ends_before_it_is_expanded_is_found_out() {
    is_found_out(&whole(), Broken::EndUnexpanded, "its expansion has not ended");
}

#[test]
fn a_cursor_that_is_not_in_the_same_multi_is_found_out() {
    is_found_out(&Setup { faults: 1, ..whole() }, Broken::CursorApart, "rows");
}

#[test]
fn a_lost_answer_that_counts_as_refused_is_found_out() {
    is_found_out(&owner(), Broken::LostIsRefused, "cannot come to its end");
}

#[test]
fn a_person_who_asks_neither_for_the_lock_nor_for_the_version_is_found_out() {
    let setup = Setup { jobs: 1, faults: 0, asks: 1, ..person() };
    is_found_out(&setup, Broken::ActUnlocked, "cannot come to its end");
}

#[test]
fn a_requeue_while_the_batch_reports_is_found_out() {
    is_found_out(&end(), Broken::ActWhileReporting, "a report is sent");
}

#[test]
fn a_report_that_is_noted_as_sent_before_it_is_sent_is_found_out() {
    is_found_out(&end(), Broken::SentFirst, "is noted as sent, and was not");
}
