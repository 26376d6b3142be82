//! The protocol as a model, explored to its last state: nodes that take jobs, move them on, hand them over, commit several together, give
//! them back; workers that die, nodes that crash, sessions that expire, answers that get lost; people who requeue, delete and
//! take locks away; batches that become jobs, end and report.
//!
//! What is sent to the tree is made by the functions that the product makes it with ([`ingest_queue::plan`], the lock
//! table's claims and releases, the committer's verdict on a lost answer). A plan is made at one step from what is read then, and
//! sent at a later one, so whatever can happen in between does.
//!
//! | what holds | where |
//! |---|---|
//! | a job is in exactly one queue and one list of its batch, those that its status names | [`rules`] |
//! | only whoever has taken a job last commits anything about it | [`tree_side`] |
//! | every row has one job, and no job is without a row | [`rules`] |
//! | a report is sent when all jobs have ended, names every one of them as it is, and has one number | [`batches`] |
//! | when faults stop, everything can still come to its end: from every state that there is | [`explore`] |
//!
//! Rules that are broken on purpose ([`Broken`]) must be found out; those tests say by what.
//!
//! `INGESTD_PROTOCOL=large` explores more nodes, jobs and faults.

mod batches;
mod explore;
mod jobs;
mod rules;
mod tree_side;
mod world;

use ingest_queue::states::JobState;

use self::explore::{Explored, Violation, explore};
use self::world::{Broken, Setup, World};

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

fn holds(name: &str, setup: &Setup) {
    match run(setup) {
        Ok(explored) => println!("{name}: {explored}"),
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
fn owners() -> Setup {
    Setup { nodes: size(2, 3), jobs: 1, from: JobState::Recording, faults: size(1, 3), ..Setup::default() }
}

/// Two jobs whose commits go together.
fn together() -> Setup {
    Setup { jobs: 2, from: JobState::Notify, faults: size(1, 2), coalesce: true, ..Setup::default() }
}

/// A person who requeues, deletes and takes locks away, beside the workers.
fn person() -> Setup {
    Setup { jobs: size(1, 2), from: JobState::Notify, faults: size(0, 1), asks: 2, ..Setup::default() }
}

/// The end of a batch: its jobs, its report, and a person who requeues meanwhile.
fn end() -> Setup {
    Setup {
        nodes: size(2, 2),
        jobs: size(1, 2),
        from: JobState::Notify,
        faults: size(0, 1),
        asks: 1,
        batch: true,
        ..Setup::default()
    }
}

/// Rows that become jobs, by two nodes, while somebody else makes jobs, too.
fn expansion() -> Setup {
    Setup {
        nodes: size(2, 3),
        rows: size(3, 4),
        faults: size(1, 2),
        batch: true,
        others: size(1, 2),
        ..Setup::default()
    }
}

#[test]
fn a_job_has_one_owner_and_comes_to_its_end() {
    holds("owners", &owners());
}

#[test]
fn commits_that_go_together_are_applied_or_refused_one_by_one() {
    holds("together", &together());
}

#[test]
fn what_a_person_does_beside_the_workers_breaks_nothing() {
    holds("person", &person());
}

#[test]
fn a_batch_reports_once_all_its_jobs_have_ended() {
    holds("end", &end());
    holds("end, with a fault", &Setup { faults: 1, asks: 0, ..end() });
}

#[test]
fn every_row_becomes_one_job() {
    holds("expansion", &expansion());
}

#[test]
fn a_fence_by_the_version_of_the_lock_is_found_out() {
    is_found_out(&owners(), Broken::FenceByLock, "is another's");
}

#[test]
fn a_commit_at_no_version_is_found_out() {
    is_found_out(&owners(), Broken::NoVersion, "is another's");
}

#[test]
fn a_lock_that_is_released_before_the_commit_is_found_out() {
    is_found_out(&Setup { faults: 2, ..owners() }, Broken::ReleaseFirst, "is another's");
}

#[test]
fn a_report_without_the_proof_that_nothing_is_left_is_found_out() {
    is_found_out(&end(), Broken::NoProofOfTheEnd, "has not ended");
}

#[test]
fn a_cursor_that_is_not_in_the_same_multi_is_found_out() {
    is_found_out(&expansion(), Broken::CursorApart, "rows");
}

#[test]
fn a_lost_answer_that_counts_as_refused_is_found_out() {
    is_found_out(&owners(), Broken::LostIsRefused, "cannot come to its end");
}
