//! The protocol as a model, explored to its last state: nodes that take jobs, let them in, move them on, hand them over, commit several
//! together, give them back; workers that die, nodes that crash, sessions that expire, answers that get lost; people who requeue, delete,
//! hold, release, change priorities and take locks away; batches that become jobs, end and report.
//!
//! What is sent to the tree is made by the functions that the product makes it with ([`ingest_queue::plan`], the lock
//! table's claims and releases), and what an answer means is told by the committer's own ([`Sending`](ingest_queue::committer::Sending)). A plan
//! is made at one step from what is read then, and each multi is sent at a later one, so whatever can happen in between does.
//!
//! | what holds | where |
//! |---|---|
//! | a job is in exactly one queue and one list of its batch, those that its status names | [`rules`] |
//! | only whoever has taken a job last commits anything about it | [`tree_side`] |
//! | every row has one job, and no job is without a row | [`rules`] |
//! | a report is sent when all jobs have ended, names every one of them as it is, and has one number | [`batches`] |
//! | what is noted as sent was sent | [`rules`] |
//! | when faults stop, and no person does anything any more, everything can still come to its end: from every state that there is | [`explore`] |
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
    explore(
        &World::new(setup),
        |world, next| world.steps(setup, next),
        |world| world.judge(setup),
        |world| world.has_come_to_its_end(setup),
    )
}

/// Everything holds, and all of this has happened somewhere on the way.
fn holds(name: &str, setup: &Setup, seen: &[&str]) {
    let begin = std::time::Instant::now();
    match run(setup) {
        Ok(explored) => {
            println!("{name}: {explored}, {} ms", begin.elapsed().as_millis());
            for what in seen {
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
    Setup { nodes: size(2, 3), jobs: 1, from: JobState::Recording, faults: size(1, 2), ..Setup::default() }
}

/// The same with two jobs; in the large with a fault.
fn owners() -> Setup {
    Setup { jobs: 2, faults: size(0, 1), ..owner() }
}

/// Jobs whose commits go together.
fn together() -> Setup {
    Setup { jobs: size(2, 3), from: JobState::Notify, faults: 1, coalesce: true, ..Setup::default() }
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

/// The end of a batch: its jobs, its report, and a person who requeues meanwhile.
fn end() -> Setup {
    let may = &[Ask::Requeue, Ask::Delete];
    let (jobs, from) = (2, JobState::Notify);
    Setup { jobs, from, faults: 0, asks: 1, may, batch: true, coalesce: true, ..Setup::default() }
}

/// Rows that become jobs, while somebody else makes jobs, too; the jobs are worked on, and the batch ends.
fn whole() -> Setup {
    Setup { rows: 2, faults: size(0, 1), others: size(1, 0), batch: true, ..Setup::default() }
}

#[test]
fn a_job_has_one_owner_and_comes_to_its_end() {
    let seen = ["taken by another before", "changed before it is taken"];
    holds("owner", &owner(), &[&seen[..], &["found applied after all"]].concat());
    holds("owners", &owners(), &seen);
}

#[test]
fn commits_that_go_together_are_applied_or_refused_one_by_one() {
    holds("together", &together(), &["taken out, and the rest sent again", "found applied after all"]);
}

#[test]
fn what_a_person_does_beside_the_workers_breaks_nothing() {
    let seen = ["a person is refused: busy", "a person is refused: changed", "changed before it is taken"];
    holds("person", &person(), &[&seen[..], &["a person's found applied after all"]].concat());
    holds("person, two jobs", &Setup { jobs: 2, faults: 0, asks: 1, ..person() }, &seen);
}

#[test]
fn what_a_person_holds_and_releases_is_in_one_state() {
    let seen = ["a person is refused: busy", "a person is refused: changed"];
    holds("held", &held(), &[&seen[..], &["a person's found applied after all"]].concat());
    holds("held, two jobs", &Setup { jobs: 2, faults: 0, ..held() }, &seen);
}

#[test]
fn a_pending_job_is_let_in_once() {
    let seen = ["a person is refused: busy", "taken by another before"];
    holds("pending", &pending(), &seen);
    holds("pending, with a fault", &Setup { faults: 1, asks: 0, ..pending() }, &["found applied after all"]);
    holds("pending, two jobs", &Setup { jobs: 2, faults: 0, asks: 0, ..pending() }, &seen[1..]);
}

#[test]
fn a_batch_reports_once_all_its_jobs_have_ended() {
    holds("end", &end(), &["a batch is not empty"]);
    let setup = Setup { faults: 1, asks: 0, ..end() };
    holds("end, with a fault", &setup, &["posted before", "found applied after all"]);
}

#[test]
fn every_row_becomes_one_job_and_the_report_waits_for_all_of_them() {
    holds("whole", &whole(), &[]);
    holds("whole, with a fault", &Setup { rows: 1, faults: 1, ..whole() }, &["found applied after all"]);
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
    is_found_out(&Setup { faults: 2, ..owner() }, Broken::ReleaseFirst, "is another's");
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
