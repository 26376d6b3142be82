//! Counters that would give out again what is there.

use ingest_queue::date::Clock;
use ingest_queue::dialect::Dialect;
use ingest_queue::fsck::{self, Options, Outcome};
use ingest_queue::ids::{Bid, Jid};
use ingest_queue::map;
use ingest_queue::nodes::Submission;
use ingest_queue::queue::{Queue, Settings};
use ingest_store::Mode;

use crate::planted::{empty, plant};
use crate::tree::{Tree, on_both_engines};
use crate::{check, found, repair};

on_both_engines!(
    n01_a_counter_behind_a_name_that_is_there_is_raised_past_it,
    n01_a_name_that_is_too_far_ahead_is_left_to_a_person,
    n03_a_counter_of_a_minter_that_cannot_be_read_is_left_to_a_person,
    a_check_of_the_tree_alone_says_nothing_of_what_is_beside_it,
);

const DESIGN: Dialect = Dialect::Design;

/// Only what is said of counters: the names are not whole batches or jobs.
async fn of_counters(session: &ingest_store::Session) -> Vec<(&'static str, String)> {
    found(session, DESIGN).await.into_iter().filter(|(code, _)| code.starts_with('N')).collect()
}

async fn n01_a_counter_behind_a_name_that_is_there_is_raised_past_it(tree: &Tree) {
    let session = tree.session().await;
    empty(&session, DESIGN).await;
    let (bid, jid) = (Bid::new(2_000), Jid::new(3_000));
    session.create(map::batch(bid), "", Mode::Persistent).await.unwrap();
    session.create(map::job(jid), "", Mode::Persistent).await.unwrap();
    let expected = [("N01", map::BATCHES.to_owned()), ("N01", map::JOBS.to_owned())];
    assert_eq!(of_counters(&session).await, expected);
    let repaired = repair(&session, DESIGN).await;
    let fixed = repaired.iter().filter(|one| one.code.text() == "N01" && one.outcome == Outcome::Fixed);
    assert_eq!(fixed.count(), 2, "{repaired:?}");
    assert_eq!(of_counters(&session).await, []);
    let queue = Queue::on(&session, Settings::new("node-1"), Clock::system());
    assert_eq!(queue.numbers().await.unwrap(), (2_001, 3_001));
    assert_eq!(queue.create_batch("u", &Submission::default()).await.unwrap().bid, Bid::new(2_001));
}

async fn n01_a_name_that_is_too_far_ahead_is_left_to_a_person(tree: &Tree) {
    let session = tree.session().await;
    empty(&session, DESIGN).await;
    session.create(map::batch(Bid::new(2_000_000_000)), "", Mode::Persistent).await.unwrap();
    let report = check(&session, DESIGN).await;
    let finding = report.findings.iter().find(|finding| finding.code.text() == "N01").unwrap();
    assert!(finding.by_hand && finding.repair.contains("remove what is ahead"), "{finding}");
    let repaired = fsck::repair(&session, &Options::new(DESIGN), &report, &mut |_| ()).await.unwrap();
    assert!(repaired.iter().any(|one| one.code.text() == "N01" && one.outcome == Outcome::ByHand));
    assert_eq!(of_counters(&session).await, [("N01", map::BATCHES.to_owned())]);
}

async fn n03_a_counter_of_a_minter_that_cannot_be_read_is_left_to_a_person(tree: &Tree) {
    let session = tree.session().await;
    empty(&session, DESIGN).await;
    for (name, data) in [("whole", r#"{"template":"99999/fk4.zeek","next":3}"#), ("broken", "garbage")] {
        session.create_with_parents(format!("{}/{name}", map::MINTER), data, Mode::Persistent).await.unwrap();
    }
    session.make_dirs("/minter/ezid-99999_fk4").await.unwrap();
    let expected = [("N03", "/minter/broken".to_owned())];
    assert_eq!(found(&session, DESIGN).await, expected);
    let repaired = repair(&session, DESIGN).await;
    assert_eq!(repaired.iter().map(|one| one.outcome).collect::<Vec<_>>(), [Outcome::ByHand]);
    assert_eq!(found(&session, DESIGN).await, expected, "it is as it was");
}

async fn a_check_of_the_tree_alone_says_nothing_of_what_is_beside_it(tree: &Tree) {
    let session = tree.session().await;
    plant(&session, DESIGN).await;
    session.create(map::REPOSITORY, "{}", Mode::Persistent).await.unwrap();
    assert_eq!(found(&session, DESIGN).await, []);
}
