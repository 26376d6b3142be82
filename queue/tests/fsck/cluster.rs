//! What all nodes share: feeds and who consumes them, management requests, profiles and settings. Each finding, and what a repair
//! makes of it: nothing that could be read is lost, and what cannot be mended is left to a person, who is told so.

use ingest_queue::date::{Clock, Date};
use ingest_queue::dialect::Dialect;
use ingest_queue::feeds::Qid;
use ingest_queue::fsck::Outcome;
use ingest_queue::map::{self, BatchNode, RequestNode};
use ingest_queue::nodes::{FeedNode, FrozenProfile, Node, Quarantined, RequestResult};
use ingest_queue::queue::{Queue, Settings};
use ingest_queue::requests::NewRequest;
use ingest_queue::states::BatchState;
use ingest_store::recipes::shard;
use ingest_store::{Mode, Op, Session};
use serde_json::json;

use crate::planted::{empty, plant};
use crate::tree::{Tree, on_both_engines};
use crate::{check, found, repair, repair_all};

on_both_engines!(
    f01_a_checkpoint_that_cannot_be_read_pauses_its_feed,
    f02_a_feed_with_the_name_of_another_is_left_to_a_person,
    f03_a_worker_that_belongs_to_no_session_goes,
    f04_what_cannot_be_read_of_who_has_which_feeds_is_divided_anew,
    r01_a_request_that_cannot_be_read_goes_to_the_quarantine,
    r02_a_result_without_a_request_goes_to_the_quarantine,
    r02_a_request_without_its_result_is_taken_again,
    r03_a_result_says_that_its_data_is_lost,
    r03_a_result_that_cannot_be_read_says_so_and_nothing_is_done_again,
    r04_locks_of_requests_that_are_gone_or_done_go,
    r05_what_is_left_of_a_request_is_collected,
    c01_a_profile_that_cannot_be_read_is_mended_by_whoever_puts_it_again,
    c02_settings_that_cannot_be_read_are_mended_by_whoever_sets_them,
    c03_a_frozen_profile_that_cannot_be_read_goes_to_the_quarantine,
);

const DESIGN: Dialect = Dialect::Design;

async fn on(tree: &Tree) -> (Session, Queue) {
    let session = tree.session().await;
    empty(&session, DESIGN).await;
    let queue = Queue::on(&session, Settings::new("node-1"), Clock::system());
    (session, queue)
}

async fn create(session: &Session, path: impl Into<String>, data: impl Into<bytes::Bytes>) {
    session.create(path, data, Mode::Persistent).await.unwrap();
}

/// Everything that was put aside: where it was.
async fn put_aside(session: &Session) -> Vec<String> {
    let mut paths = Vec::new();
    for name in session.children(map::QUARANTINE).await.unwrap().0 {
        let (data, _) = session.get(format!("{}/{name}", map::QUARANTINE)).await.unwrap();
        paths.push(Quarantined::read(&data).unwrap().path);
    }
    paths
}

/// All that is found is this, and a repair leaves it to a person.
async fn is_left_to_a_person(session: &Session, code: &str, at: &str) {
    assert_eq!(found(session, DESIGN).await, [(code, at.to_owned())]);
    let repaired = repair(session, DESIGN).await;
    assert_eq!(repaired.len(), 1);
    assert_eq!(repaired[0].outcome, Outcome::ByHand, "{}", repaired[0]);
    assert_eq!(found(session, DESIGN).await, [(code, at.to_owned())], "it is as it was");
}

async fn f01_a_checkpoint_that_cannot_be_read_pauses_its_feed(tree: &Tree) {
    let (session, _) = on(tree).await;
    let at = map::feed(Qid::of("herbarium"));
    create(&session, at.as_str(), "garbage").await;
    assert_eq!(found(&session, DESIGN).await, [("F01", at.clone())]);
    repair_all(&session, DESIGN).await;
    let feed = FeedNode::read(&session.get(at.as_str()).await.unwrap().0).unwrap();
    assert!(
        feed.paused.is_some() && feed.last.is_empty(),
        "nothing comes again unless a person says so: {feed:?}"
    );
    assert_eq!(put_aside(&session).await, [at]);
}

async fn f02_a_feed_with_the_name_of_another_is_left_to_a_person(tree: &Tree) {
    let (session, _) = on(tree).await;
    let at = map::feed(Qid::of("herbarium"));
    create(&session, at.as_str(), r#"{"last":"7","name":"another"}"#).await;
    is_left_to_a_person(&session, "F02", &at).await;
}

async fn f03_a_worker_that_belongs_to_no_session_goes(tree: &Tree) {
    let (session, _) = on(tree).await;
    let (lasting, living) =
        (format!("{}/worker-0000000001", map::WORKERS), format!("{}/worker-0000000002", map::WORKERS));
    create(&session, lasting.as_str(), r#"{"queues":[]}"#).await;
    session.create(living.as_str(), r#"{"queues":[]}"#, Mode::Ephemeral).await.unwrap();
    assert_eq!(found(&session, DESIGN).await, [("F03", lasting.clone())]);
    repair_all(&session, DESIGN).await;
    assert!(session.exists(lasting.as_str()).await.unwrap().is_none());
    assert!(session.exists(living.as_str()).await.unwrap().is_some());
    assert_eq!(put_aside(&session).await, [lasting]);
}

async fn f04_what_cannot_be_read_of_who_has_which_feeds_is_divided_anew(tree: &Tree) {
    let (session, queue) = on(tree).await;
    session.set(map::WORKERS, "[1]", None).await.unwrap();
    assert_eq!(found(&session, DESIGN).await, [("F04", map::WORKERS.to_owned())]);
    repair_all(&session, DESIGN).await;
    assert!(session.get(map::WORKERS).await.unwrap().0.is_empty());
    assert!(queue.workers().await.unwrap().all.is_empty());
    assert_eq!(put_aside(&session).await, [map::WORKERS]);
}

/// On one engine: what counts is a number, and ten thousand nodes take their time.
#[tokio::test]
async fn f05_too_many_feeds_are_left_to_a_person() {
    let tree = Tree::embedded();
    let (session, _) = on(&tree).await;
    let names: Vec<String> = (0..=10_000).map(|n| format!("feed {n}")).collect();
    for some in names.chunks(900) {
        let node = |name: &String| {
            let feed = FeedNode { name: name.clone(), ..FeedNode::default() };
            Op::create(map::feed(Qid::of(name)), feed.write(DESIGN))
        };
        session.multi(some.iter().map(node).collect()).await.unwrap();
    }
    let repaired = repair(&session, DESIGN).await;
    let outcomes: Vec<_> =
        repaired.iter().map(|one| (one.code.text(), one.path.as_str(), one.outcome)).collect();
    assert_eq!(outcomes, [("F05", map::QUEUES, Outcome::ByHand)]);
    session.delete(map::feed(Qid::of(&names[0])), None).await.unwrap();
    assert!(found(&session, DESIGN).await.is_empty(), "ten thousand are not too many");
}

const ID: &str = "00000000-0000-4000-8000-000000000001";

/// Puts a request, and answers it with some data.
async fn answered(queue: &Queue) {
    put(queue).await;
    let line = queue.request(ID).await.unwrap();
    let taken = queue.take_request(&line, "a test").await.unwrap();
    queue.answer_request(taken, Ok(&json!({"held": true}))).await.unwrap();
}

async fn put(queue: &Queue) {
    let new =
        NewRequest { id: ID.into(), action: "job.hold".into(), who: "ann".into(), ..NewRequest::default() };
    queue.put_request(&new).await.unwrap();
}

async fn r01_a_request_that_cannot_be_read_goes_to_the_quarantine(tree: &Tree) {
    let (session, queue) = on(tree).await;
    put(&queue).await;
    let at = RequestNode::Request.of(ID);
    session.set(at.as_str(), "garbage", None).await.unwrap();
    assert_eq!(found(&session, DESIGN).await, [("R01", at.clone())]);
    repair_all(&session, DESIGN).await;
    assert!(session.exists(at.as_str()).await.unwrap().is_none());
    assert_eq!(put_aside(&session).await, [at]);
}

async fn r02_a_result_without_a_request_goes_to_the_quarantine(tree: &Tree) {
    let (session, queue) = on(tree).await;
    answered(&queue).await;
    session.delete(RequestNode::Request.of(ID), None).await.unwrap();
    let (result, data) = (RequestNode::Result.of(ID), RequestNode::ResultData.of(ID));
    let mut all = found(&session, DESIGN).await;
    all.sort();
    assert_eq!(all, [("R02", result.clone()), ("R05", data)]);
    repair(&session, DESIGN).await;
    assert!(session.exists(result.as_str()).await.unwrap().is_none());
    assert_eq!(put_aside(&session).await, [result]);
}

async fn r02_a_request_without_its_result_is_taken_again(tree: &Tree) {
    let (session, queue) = on(tree).await;
    answered(&queue).await;
    session.delete(RequestNode::Result.of(ID), None).await.unwrap();
    assert_eq!(found(&session, DESIGN).await, [("R02", RequestNode::Request.of(ID))]);
    repair_all(&session, DESIGN).await;
    let line = queue.request(ID).await.unwrap();
    assert_eq!(line.state(), "waiting");
    let taken = queue.take_request(&line, "a test").await.unwrap();
    queue.answer_request(taken, Ok(&json!("again"))).await.unwrap();
    assert_eq!(queue.request_result(ID).await.unwrap().unwrap().data, json!("again"));
    assert!(found(&session, DESIGN).await.is_empty());
}

async fn r03_a_result_says_that_its_data_is_lost(tree: &Tree) {
    let (session, queue) = on(tree).await;
    answered(&queue).await;
    shard::remove_whole(&session, &RequestNode::ResultData.of(ID)).await.unwrap();
    assert!(queue.request_result(ID).await.is_err());
    assert_eq!(found(&session, DESIGN).await, [("R03", RequestNode::Result.of(ID))]);
    repair_all(&session, DESIGN).await;
    let answered = queue.request_result(ID).await.unwrap().unwrap();
    assert!(answered.result.ok && answered.data.is_null());
    assert!(answered.result.other.contains_key("lost_data"), "{:?}", answered.result);
}

async fn r03_a_result_that_cannot_be_read_says_so_and_nothing_is_done_again(tree: &Tree) {
    let (session, queue) = on(tree).await;
    answered(&queue).await;
    let at = RequestNode::Result.of(ID);
    session.set(at.as_str(), "garbage", None).await.unwrap();
    assert!(queue.request_result(ID).await.is_err());
    assert_eq!(found(&session, DESIGN).await, [("R03", at.clone())]);
    repair_all(&session, DESIGN).await;
    let result = RequestResult::read(&session.get(at.as_str()).await.unwrap().0).unwrap();
    let problem = result.problem.unwrap();
    assert!(!result.ok && problem["detail"].as_str().unwrap().contains("is lost"), "{problem}");
    assert_eq!(queue.request(ID).await.unwrap().state(), "done");
    assert_eq!(put_aside(&session).await, [at]);
}

async fn r04_locks_of_requests_that_are_gone_or_done_go(tree: &Tree) {
    let (session, queue) = on(tree).await;
    let gone = RequestNode::Lock.of("00000000-0000-4000-8000-000000000002");
    answered(&queue).await;
    let done = RequestNode::Lock.of(ID);
    for at in [&gone, &done] {
        create(&session, at.as_str(), "{}").await;
    }
    let mut all = found(&session, DESIGN).await;
    all.sort();
    assert_eq!(all, [("R04", done), ("R04", gone)]);
    repair_all(&session, DESIGN).await;
    assert!(session.children(RequestNode::Lock.dir()).await.unwrap().0.is_empty());
}

async fn r05_what_is_left_of_a_request_is_collected(tree: &Tree) {
    let (session, queue) = on(tree).await;
    let kinds = [RequestNode::Params, RequestNode::ResultData];
    for kind in kinds {
        shard::write(&session, &kind.of(ID), b"{}", None).await.unwrap();
    }
    let report = check(&session, DESIGN).await;
    assert!(report.is_clean(), "they are nobody's trouble:\n{}", report.text());
    let mut all = found(&session, DESIGN).await;
    all.sort();
    assert_eq!(all, [("R05", RequestNode::Params.of(ID)), ("R05", RequestNode::ResultData.of(ID))]);
    for repaired in repair(&session, DESIGN).await {
        assert_eq!(repaired.outcome, Outcome::ByHand, "{repaired}");
    }
    // That is what the routine is for.
    let later = Date::from_millis(4_000_000_000_000);
    queue.collect_requests(later, std::time::Duration::ZERO, usize::MAX).await.unwrap();
    assert!(found(&session, DESIGN).await.is_empty());
}

/// The ways in which a document cannot be read.
async fn spoil(session: &Session, at: &str, way: usize) {
    // No announcement; a value that is no document; a text that is another than was written.
    let other = br#"{"name":"maps","version":1,"digest":"00","who":"ann","text":"x"}"#;
    if way == 0 {
        session.set(at, "garbage", None).await.unwrap();
    } else {
        let value: &[u8] = if way == 1 { b"[1]" } else { other };
        shard::write(session, at, value, None).await.unwrap();
    }
}

async fn c01_a_profile_that_cannot_be_read_is_mended_by_whoever_puts_it_again(tree: &Tree) {
    let (session, queue) = on(tree).await;
    let at = map::profile("maps");
    for way in 0..3 {
        queue.put_profile("maps", "x", "ann").await.unwrap();
        assert!(found(&session, DESIGN).await.is_empty());
        spoil(&session, &at, way).await;
        is_left_to_a_person(&session, "C01", &at).await;
        queue.put_profile("maps", "y", "ann").await.unwrap();
        assert!(check(&session, DESIGN).await.is_clean(), "way {way}");
        queue.delete_profile("maps", "ann").await.unwrap();
    }
}

async fn c02_settings_that_cannot_be_read_are_mended_by_whoever_sets_them(tree: &Tree) {
    let (session, queue) = on(tree).await;
    for way in 0..3 {
        queue.change_settings("ann", |_| Ok(format!("x = {way}"))).await.unwrap();
        spoil(&session, map::CONF, way).await;
        is_left_to_a_person(&session, "C02", map::CONF).await;
        queue.change_settings("ann", |_| Ok("y = 1".into())).await.unwrap();
        assert!(check(&session, DESIGN).await.is_clean(), "way {way}");
    }
}

async fn c03_a_frozen_profile_that_cannot_be_read_goes_to_the_quarantine(tree: &Tree) {
    let session = tree.session().await;
    let planted = plant(&session, DESIGN).await;
    let at = BatchNode::Profile.of(planted.bid(BatchState::Processing));
    let frozen = FrozenProfile { name: "p".into(), ..FrozenProfile::default() };
    create(&session, at.as_str(), frozen.write(DESIGN)).await;
    assert!(found(&session, DESIGN).await.is_empty());
    session.set(at.as_str(), "garbage", None).await.unwrap();
    assert_eq!(found(&session, DESIGN).await, [("C03", at.clone())]);
    repair_all(&session, DESIGN).await;
    assert!(session.exists(at.as_str()).await.unwrap().is_none());
    assert_eq!(put_aside(&session).await, [at]);
}
