use ingest_queue::dialect::Dialect;
use ingest_queue::fsck::{self, Options, Progress};
use ingest_queue::map::{self, BatchNode};
use ingest_queue::nodes::{Hold, Node};
use ingest_queue::states::BatchState;
use ingest_store::Mode;

use crate::planted::plant;
use crate::snapshot::Snapshot;
use crate::tree::{Tree, on_both_engines};
use crate::{BOTH, check, found, repair};

on_both_engines!(
    a_tree_with_everything_in_it_is_clean_in_either_dialect,
    an_empty_tree_is_clean,
    a_check_changes_nothing_and_tells_how_far_it_is,
    a_batch_that_is_being_deleted_is_only_mentioned,
    what_foreign_writers_leave_out_is_not_missed_in_their_dialect,
);

async fn a_tree_with_everything_in_it_is_clean_in_either_dialect(tree: &Tree) {
    let session = tree.session().await;
    for dialect in BOTH {
        let planted = plant(&session, dialect).await;
        let report = check(&session, dialect).await;
        assert_eq!(report.text(), "", "in {dialect:?}");
        assert_eq!(report.counts.batches, planted.batches.len());
        assert_eq!((report.counts.suspects, report.counts.unsettled), (0, 0));
        let empty = Snapshot(std::collections::BTreeMap::new());
        empty.restore(&session).await;
    }
}

async fn an_empty_tree_is_clean(tree: &Tree) {
    let session = tree.session().await;
    for dialect in BOTH {
        fsck::clean(&session, dialect).await.unwrap();
    }
}

async fn a_check_changes_nothing_and_tells_how_far_it_is(tree: &Tree) {
    let session = tree.session().await;
    plant(&session, Dialect::Design).await;
    session.create("/unknown", "x", Mode::Persistent).await.unwrap();
    let before = Snapshot::take(&session).await;
    let mut told: Vec<Progress> = Vec::new();
    let options = Options::new(Dialect::Design);
    fsck::check(&session, &options, &mut |progress| told.push(progress)).await.unwrap();
    assert_eq!(Snapshot::take(&session).await, before);
    for stage in ["directories", "queues", "batches", "jobs", "marks", "suspects"] {
        let last = told.iter().rfind(|progress| progress.stage == stage).unwrap();
        assert!(last.done == last.total && last.total > 0, "{last:?}");
    }
}

async fn a_batch_that_is_being_deleted_is_only_mentioned(tree: &Tree) {
    let session = tree.session().await;
    let planted = plant(&session, Dialect::Design).await;
    let bid = planted.bid(BatchState::Completed);
    let mark = Hold { who: "me".into(), ..Hold::default() }.write(Dialect::Design);
    session.create(BatchNode::Deleting.of(bid), mark, Mode::Persistent).await.unwrap();
    let half = Snapshot::take(&session).await;
    // One of its two jobs is gone, whole.
    let (jobs, _) =
        session.children(map::batch_list(bid, ingest_queue::states::BatchList::Completed)).await.unwrap();
    for at in half.0.keys().rev().filter(|at| at.contains(&jobs[0])) {
        session.delete(at.as_str(), None).await.unwrap();
    }
    assert_eq!(found(&session, Dialect::Design).await, [("B07", BatchNode::Deleting.of(bid))]);
    assert!(check(&session, Dialect::Design).await.is_clean());
    repair(&session, Dialect::Design).await;
    assert_eq!(found(&session, Dialect::Design).await, [("B07", BatchNode::Deleting.of(bid))]);
}

async fn what_foreign_writers_leave_out_is_not_missed_in_their_dialect(tree: &Tree) {
    let session = tree.session().await;
    let planted = plant(&session, Dialect::MrtZk).await;
    let whole = Snapshot::take(&session).await;
    for (bid, state) in &planted.batches {
        let expansion = BatchNode::Expansion.of(*bid);
        if whole.0.contains_key(&expansion) {
            session.delete(expansion, None).await.unwrap();
        }
        if *state == BatchState::Pending {
            crate::snapshot::delete_all(&session, &whole, &BatchNode::States.of(*bid)).await;
        }
    }
    // Their locks are empty, and so are their local ids.
    let local_id = map::local_id("o", "l");
    session.set(local_id.as_str(), "", None).await.unwrap();
    assert_eq!(check(&session, Dialect::MrtZk).await.text(), "");
    let missed = found(&session, Dialect::Design).await;
    assert!(missed.contains(&("L02", local_id)), "{missed:?}");
    assert!(missed.iter().any(|(code, _)| *code == "B03"), "{missed:?}");
}
