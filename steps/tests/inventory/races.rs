//! Several nodes at once, and callers that go away.

use std::sync::Arc;
use std::task::Poll;

use ingest_steps::inventory::{Record, Recorded};
use ingest_steps::outcome::{Failure, Result};

use crate::place::{Place, on_both_databases};
use crate::{OWNER, record};

/// Eight nodes, each with a record of its own, begin together.
async fn eight_at_once(place: &Place, wanted: impl Fn(u32) -> Record) -> Vec<Result<Recorded>> {
    let start = Arc::new(tokio::sync::Barrier::new(8));
    let mut nodes = tokio::task::JoinSet::new();
    for node in 1..=8 {
        let (inventory, wanted, start) = (place.open().await, wanted(node), start.clone());
        nodes.spawn(async move {
            start.wait().await;
            inventory.record(&wanted).await
        });
    }
    nodes.join_all().await
}

fn new_ones(answers: &[Result<Recorded>]) -> usize {
    answers.iter().filter(|answer| matches!(answer, Ok(Recorded { already: false }))).count()
}

async fn of_eight_that_record_the_same_one_does_and_all_are_told_so(place: &Place) {
    let answers = eight_at_once(place, |_| record("m5a", 1, 1)).await;
    assert_eq!(new_ones(&answers), 1, "{answers:?}");
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
}

async fn of_eight_jobs_with_the_same_version_one_wins(place: &Place) {
    let answers = eight_at_once(place, |node| record("m5a", 1, node)).await;
    assert_eq!(new_ones(&answers), 1, "{answers:?}");
    assert_eq!(answers.iter().filter(|answer| matches!(answer, Err(Failure::Fail(_)))).count(), 7);
}

async fn of_eight_that_record_the_same_next_version_one_does_and_all_are_told_so(place: &Place) {
    place.open().await.record(&record("m5a", 1, 9)).await.unwrap();
    let answers = eight_at_once(place, |_| record("m5a", 2, 1)).await;
    assert_eq!(new_ones(&answers), 1, "{answers:?}");
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
}

async fn of_eight_objects_with_the_same_local_ids_one_wins(place: &Place) {
    let answers = eight_at_once(place, |node| {
        // In different orders, and many: nobody waits for somebody who waits for him.
        let mut local_ids: Vec<_> = (0..800).map(|number| format!("id-{number}")).collect();
        local_ids.rotate_left(node as usize * 100);
        Record { local_ids, ..record(&format!("m5{node}"), 1, node) }
    })
    .await;
    assert_eq!(new_ones(&answers), 1, "{answers:?}");
    assert_eq!(answers.iter().filter(|answer| matches!(answer, Err(Failure::Fail(_)))).count(), 7);
    let inventory = place.open().await;
    let winner = inventory.find(OWNER, "id-7").await.unwrap().unwrap();
    assert_eq!(inventory.local_ids(&winner).await.unwrap().len(), 800);
    assert_eq!(place.numbers("SELECT COUNT(*) FROM objects").await, [1]);
}

async fn eight_different_objects_are_all_recorded(place: &Place) {
    let answers = eight_at_once(place, |node| record(&format!("m5{node}"), 1, node)).await;
    assert_eq!(new_ones(&answers), 8, "{answers:?}");
}

async fn a_record_that_is_dropped_anywhere_is_whole_or_not_there(place: &Place) {
    let inventory = place.open().await;
    let mut dropped = 0;
    // How far it comes with so many polls is the scheduler's; with so many tries it is everywhere.
    for polls in 1..=40 {
        let wanted = record(&format!("m5x{polls}"), 1, polls);
        let mut recording = inventory.record(&wanted);
        let mut left = polls;
        let ended = std::future::poll_fn(|context| {
            if left == 0 {
                return Poll::Ready(None);
            }
            left -= 1;
            recording.as_mut().poll(context).map(Some)
        })
        .await;
        drop(recording);
        dropped += u32::from(ended.is_none());
        if let Some(object) = inventory.object(&wanted.ark).await.unwrap() {
            assert_eq!((&object.versions[0].files, &object.local_ids), (&wanted.files, &wanted.local_ids));
        }
        // The next one does not find it in its way.
        inventory.record(&wanted).await.unwrap();
    }
    assert!(dropped > 0, "all of them came to their end");
}

on_both_databases!(
    of_eight_that_record_the_same_one_does_and_all_are_told_so,
    of_eight_jobs_with_the_same_version_one_wins,
    of_eight_that_record_the_same_next_version_one_does_and_all_are_told_so,
    of_eight_objects_with_the_same_local_ids_one_wins,
    eight_different_objects_are_all_recorded,
    a_record_that_is_dropped_anywhere_is_whole_or_not_there,
);
