//! Management requests. What holds, whatever breaks: **every request gets exactly one result; whoever sees a result
//! finds its data; requests of one line are begun in the order of their creation, each after the result of the one
//! before it; an action that says so is done once.**

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ingest_queue::date::Date;
use ingest_queue::dialect::Dialect;
use ingest_queue::error::{Error, Result};
use ingest_queue::map::{self, RequestNode};
use ingest_queue::plan::job::Action;
use ingest_queue::queue::Queue;
use ingest_queue::requests::{Living, NewRequest, next};
use ingest_store::Event;
use serde_json::{Value, json};

use crate::every_fault::through_every_fault;
use crate::tree::{Tree, on_both_engines, within};
use crate::world::{WHO, batch_of, clean, deposit, new_jobs, queue, queue_on, snapshot};

on_both_engines!(
    a_request_is_taken_answered_read_and_forgotten,
    the_same_id_is_the_same_request,
    a_request_whose_taker_is_gone_is_taken_again_and_the_old_taker_is_refused,
    who_waits_is_told_how_far_it_is_and_sleeps_meanwhile,
    a_request_that_a_node_is_at_is_not_forgotten,
    results_stay_while_somebody_waits_and_are_collected_afterwards,
    large_parameters_and_results_go_in_and_out_whole,
    a_request_that_is_taken_again_acts_on_its_job_once,
    what_is_wrong_with_requests_is_found_and_put_right,
);

fn new(action: &str) -> NewRequest {
    NewRequest {
        action: action.into(),
        who: "ann".into(),
        from: "tree ann@host".into(),
        wait: true,
        ..NewRequest::default()
    }
}

/// Far behind everything that has a date here.
fn later() -> Date {
    Date::from_millis(4_000_000_000_000)
}

async fn take(queue: &Queue, id: &str) -> ingest_queue::requests::TakenRequest {
    let line = queue.request(id).await.unwrap();
    queue.take_request(&line, WHO).await.unwrap()
}

async fn a_request_is_taken_answered_read_and_forgotten(tree: &Tree) {
    let (client, node) = (queue(tree).await, queue(tree).await);
    let before = snapshot(client.session()).await;
    let params = json!({"jid": "jid0000000001"});
    let id = client.put_request(&NewRequest { params: params.clone(), ..new("job.hold") }).await.unwrap();
    assert_eq!(node.request_params(&id).await.unwrap(), params);
    assert!(client.request_result(&id).await.unwrap().is_none());
    assert_eq!(client.request(&id).await.unwrap().state(), "waiting");
    let taken = take(&node, &id).await;
    assert_eq!(client.request(&id).await.unwrap().state(), "running");
    node.answer_request(taken, Ok(&json!({"state": "held"}))).await.unwrap();
    client.session().sync().await.unwrap();
    let answered = client.request_result(&id).await.unwrap().unwrap();
    assert_eq!((answered.result.ok, answered.data), (true, json!({"state": "held"})));
    assert_eq!(answered.result.node, "node-1");
    clean(client.session(), Dialect::Design).await;
    client.forget_request(&id).await.unwrap();
    assert_eq!(snapshot(client.session()).await, before, "nothing of it is left");
    assert!(matches!(client.request_result(&id).await, Err(Error::NotFound(_))));
}

async fn the_same_id_is_the_same_request(tree: &Tree) {
    let client = queue(tree).await;
    let id = client.put_request(&new("job.hold")).await.unwrap();
    let again = NewRequest { id: id.to_uppercase(), ..new("job.hold") };
    assert_eq!(client.put_request(&again).await.unwrap(), id);
    assert_eq!(client.requests().await.unwrap().len(), 1);
    let other = NewRequest { id: id.clone(), ..new("job.release") };
    assert!(matches!(client.put_request(&other).await, Err(Error::Invalid(_))));
    let bad = NewRequest { id: "seven".into(), ..new("job.hold") };
    assert!(matches!(client.put_request(&bad).await, Err(Error::NotFound(_))));
}

async fn a_request_whose_taker_is_gone_is_taken_again_and_the_old_taker_is_refused(tree: &Tree) {
    let session = tree.mortal_session().await;
    let (first, second) = (queue_on(&session, Dialect::Design).await, queue(tree).await);
    let id = second.put_request(&new("job.hold")).await.unwrap();
    first.session().sync().await.unwrap();
    let old = take(&first, &id).await;
    let line = second.request(&id).await.unwrap();
    assert!(matches!(second.take_request(&line, WHO).await, Err(Error::Busy { .. })));
    tree.expire(&session).await;
    let taken = take(&second, &id).await;
    assert_eq!(taken.request.attempt, 2);
    // It would have come back with its result, on whatever session.
    let zombie = first.answer_request(old, Ok(&json!("old"))).await;
    assert!(zombie.is_err(), "{zombie:?}");
    second.answer_request(taken, Ok(&json!("new"))).await.unwrap();
    assert_eq!(second.request_result(&id).await.unwrap().unwrap().data, json!("new"));
    clean(second.session(), Dialect::Design).await;
}

async fn who_waits_is_told_how_far_it_is_and_sleeps_meanwhile(tree: &Tree) {
    let (client, node) = (queue(tree).await, queue(tree).await);
    let id = client.put_request(&new("jobs.bulk")).await.unwrap();
    let (waiter, waits_for) = (client.clone(), id.clone());
    let (sender, mut heard) = tokio::sync::mpsc::unbounded_channel();
    let waiting = tokio::spawn(async move {
        waiter
            .await_request(&waits_for, |line| {
                let _ = sender.send((line.state(), line.request.progress.clone()));
            })
            .await
    });
    // Changes that follow each other closely may be told as one, so each is waited for before the next is made.
    let first = within(heard.recv()).await.unwrap();
    assert_ne!(first.0, "running", "nobody has taken it");
    let mut taken = take(&node, &id).await;
    while within(heard.recv()).await.unwrap().0 != "running" {}
    node.request_progress(&mut taken, "7 of 9").await.unwrap();
    while within(heard.recv()).await.unwrap() != ("running", "7 of 9".into()) {}
    node.answer_request(taken, Err(&json!({"title": "not now"}))).await.unwrap();
    let answered = within(waiting).await.unwrap().unwrap();
    assert_eq!((answered.result.ok, answered.result.problem), (false, Some(json!({"title": "not now"}))));
    let mut last = None;
    while let Some(line) = heard.recv().await {
        last = Some(line.0);
    }
    assert_eq!(last, Some("done"));
}

async fn a_request_that_a_node_is_at_is_not_forgotten(tree: &Tree) {
    let node = queue(tree).await;
    let id = node.put_request(&new("job.hold")).await.unwrap();
    let taken = take(&node, &id).await;
    assert!(matches!(node.forget_request(&id).await, Err(Error::Busy { .. })));
    assert_eq!(node.collect_requests(later(), Duration::ZERO, usize::MAX).await.unwrap().requests, 0);
    node.release_request(&taken).await.unwrap();
    node.forget_request(&id).await.unwrap();
    assert!(node.requests().await.unwrap().is_empty());
}

async fn results_stay_while_somebody_waits_and_are_collected_afterwards(tree: &Tree) {
    let session = tree.mortal_session().await;
    let (client, node) = (queue_on(&session, Dialect::Design).await, queue(tree).await);
    let id = client.put_request(&new("job.hold")).await.unwrap();
    node.session().sync().await.unwrap();
    let taken = take(&node, &id).await;
    node.answer_request(taken, Ok(&json!({"a": 1}))).await.unwrap();
    assert_eq!(
        node.collect_requests(later(), Duration::ZERO, usize::MAX).await.unwrap().requests,
        0,
        "somebody waits"
    );
    tree.expire(&session).await;
    let kept = node.collect_requests(node.now(), Duration::from_hours(1), usize::MAX).await.unwrap();
    assert_eq!(kept.requests, 0, "it is not old enough");
    assert_eq!(node.collect_requests(later(), Duration::ZERO, usize::MAX).await.unwrap().requests, 1);
    for kind in RequestNode::ALL {
        assert!(node.session().children(kind.dir()).await.unwrap().0.is_empty(), "{kind:?}");
    }
}

/// What does not get smaller by packing.
pub(crate) fn noise(bytes: usize) -> String {
    let mut state = 7_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(b'!' + u8::try_from((state >> 33) % 90).unwrap())
    };
    (0..bytes).map(|_| next()).collect()
}

async fn large_parameters_and_results_go_in_and_out_whole(tree: &Tree) {
    let (client, node) = (queue(tree).await, queue(tree).await);
    let large = json!(noise(1_500_000));
    let id = client.put_request(&NewRequest { params: large.clone(), ..new("job.hold") }).await.unwrap();
    node.session().sync().await.unwrap();
    assert_eq!(node.request_params(&id).await.unwrap(), large);
    let taken = take(&node, &id).await;
    node.answer_request(taken, Ok(&large)).await.unwrap();
    client.session().sync().await.unwrap();
    assert_eq!(client.request_result(&id).await.unwrap().unwrap().data, large);
    assert!(client.session().exists(RequestNode::Params.of(&id)).await.unwrap().is_none(), "they were read");
    client.forget_request(&id).await.unwrap();
    clean(client.session(), Dialect::Design).await;
    assert!(client.session().children(RequestNode::ResultData.dir()).await.unwrap().0.is_empty());
}

async fn a_request_that_is_taken_again_acts_on_its_job_once(tree: &Tree) {
    let session = tree.mortal_session().await;
    let (first, second) = (queue_on(&session, Dialect::Design).await, queue(tree).await);
    let (_, jids) = batch_of(&second, 1).await;
    let id = second.put_request(&new("job.hold")).await.unwrap();
    first.session().sync().await.unwrap();
    let _taken = take(&first, &id).await;
    let commit = || format!("request-{id}");
    first.act_once(jids[0], &Action::Hold, "", false, commit()).await.unwrap();
    // It dies before it can say so, and a person has released the job meanwhile.
    tree.expire(&session).await;
    second.act(jids[0], &Action::Release, "", false).await.unwrap();
    let taken = take(&second, &id).await;
    second.act_once(jids[0], &Action::Hold, "", false, commit()).await.unwrap();
    second.answer_request(taken, Ok(&Value::Null)).await.unwrap();
    let history = second.history(jids[0]).await.unwrap().unwrap();
    assert_eq!(history.entries.iter().filter(|entry| entry.commit == commit()).count(), 1);
    assert_eq!(second.job(jids[0]).await.unwrap().state(), ingest_queue::states::JobState::Pending);
    clean(second.session(), Dialect::Design).await;
}

async fn what_is_wrong_with_requests_is_found_and_put_right(tree: &Tree) {
    use ingest_queue::fsck::{self, Options};
    use ingest_store::Mode;
    let node = queue(tree).await;
    let session = node.session();
    let ids: Vec<String> = (0..4).map(|n| format!("00000000-0000-0000-0000-00000000000{n}")).collect();
    for id in &ids {
        node.put_request(&NewRequest { id: id.clone(), ..new("job.hold") }).await.unwrap();
    }
    // One without its result, one without its data, one that nobody can read, and a result of nothing.
    for id in &ids[..2] {
        let taken = take(&node, id).await;
        node.answer_request(taken, Ok(&json!({"a": 1}))).await.unwrap();
    }
    session.delete(RequestNode::Result.of(&ids[0]), None).await.unwrap();
    session.delete(RequestNode::ResultData.of(&ids[1]), None).await.unwrap();
    session.set(RequestNode::Request.of(&ids[2]), "garbage", None).await.unwrap();
    session.delete(RequestNode::Request.of(&ids[3]), None).await.unwrap();
    session.create(RequestNode::Result.of(&ids[3]), "{}", Mode::Persistent).await.unwrap();
    session.create(RequestNode::Lock.of(&ids[3]), "{}", Mode::Persistent).await.unwrap();
    let options = Options::new(Dialect::Design);
    let report = fsck::check(session, &options, &mut |_| ()).await.unwrap();
    let mut codes: Vec<_> = report.findings.iter().map(|found| found.code.text()).collect();
    codes.sort_unstable();
    codes.dedup();
    assert_eq!(codes, ["R01", "R02", "R03", "R04", "R05"], "{}", report.text());
    fsck::repair(session, &options, &report, &mut |_| ()).await.unwrap();
    clean(session, Dialect::Design).await;
    assert!(!node.request(&ids[0]).await.unwrap().request.done, "it is taken again");
}

/// A node that takes what it may, in order, until it is ended. `done` is what it has done.
async fn serve(queue: Queue, own: String, done: Arc<Mutex<Vec<String>>>) {
    let mut watch = queue.session().watch_tree(map::REQUESTS).await.unwrap();
    let all: Vec<String> = (0..3).map(|n| format!("node-{n}")).collect();
    loop {
        let Ok(lines) = queue.requests().await else { return };
        let mut idle = true;
        for line in next(&lines, Living { own: &own, all: &all }) {
            let taken = match queue.take_request(line, WHO).await {
                Ok(taken) => taken,
                Err(Error::Busy { .. } | Error::Changed { .. } | Error::Lost { .. } | Error::NotFound(_)) => {
                    continue;
                }
                Err(_) => return,
            };
            idle = false;
            // The action: here it is only noted.
            done.lock().unwrap().push(taken.id.clone());
            let id = taken.id.clone();
            if queue.answer_request(taken, Ok(&json!({"by": own, "id": id}))).await.is_err() {
                return;
            }
        }
        if idle && matches!(watch.next().await, Event::Ended(_)) {
            return;
        }
    }
}

/// Three nodes, a hundred requests, and one of the nodes is killed with a request in its hands.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_requests_get_one_result_each_though_a_taker_is_killed() {
    const REQUESTS: usize = 100;
    let tree = Tree::zookeeper().await;
    let client = queue(&tree).await;
    let done = Arc::<Mutex<Vec<String>>>::default();
    let mortal = tree.mortal_session().await;
    let victim = queue_on(&mortal, Dialect::Design).await;
    let mut ids = Vec::new();
    for n in 0..REQUESTS {
        let node = (n % 4 == 3).then(|| format!("node-{}", n / 4 % 3));
        // Those of the node that will be killed go to whoever is there.
        let node = node.filter(|node| node != "node-0");
        ids.push(client.put_request(&NewRequest { node, ..new("job.hold") }).await.unwrap());
    }
    victim.session().sync().await.unwrap();
    let hung = take(&victim, &ids[0]).await;
    let mut nodes = Vec::new();
    for n in 1..3 {
        nodes.push(tokio::spawn(serve(queue(&tree).await, format!("node-{n}"), done.clone())));
    }
    // The line of those for anybody stands still behind it.
    tree.expire(&mortal).await;
    drop(hung);
    let mut results = BTreeMap::new();
    for id in &ids {
        let answered = within(client.await_request(id, |_| ())).await.unwrap();
        assert_eq!(answered.data["id"], json!(id), "the data is that of its request");
        let stat = client.session().exists(RequestNode::Result.of(id)).await.unwrap().unwrap();
        assert_eq!(stat.version, 0, "a result is written once");
        results.insert(id.clone(), (stat.czxid, answered.result.attempt));
    }
    for node in nodes {
        node.abort();
    }
    assert_eq!(results[&ids[0]].1, 2, "the killed one's request was taken a second time");
    let done = done.lock().unwrap().clone();
    assert_eq!(done.len(), REQUESTS, "each was done once");
    for lane in [None, Some("node-1"), Some("node-2")] {
        let of_lane: Vec<&String> = ids
            .iter()
            .enumerate()
            .filter(|(n, _)| {
                let node =
                    (n % 4 == 3).then(|| format!("node-{}", n / 4 % 3)).filter(|node| node != "node-0");
                node.as_deref() == lane
            })
            .map(|(_, id)| id)
            .collect();
        assert!(of_lane.is_sorted_by_key(|id| results[*id].0), "{lane:?} has its results in order");
    }
    clean(client.session(), Dialect::Design).await;
}

const ID: &str = "11111111-2222-3333-4444-555555555555";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_has_one_result_whatever_breaks() {
    async fn prepare(queue: Queue) -> Result<()> {
        deposit(&queue, "uuid-1", &new_jobs(1)).await.map(|_| ())
    }
    async fn story(queue: Queue) -> Result<()> {
        let params = json!({"jid": "jid0000000001"});
        let request = NewRequest { id: ID.into(), params, wait: false, ..new("job.hold") };
        let id = queue.put_request(&request).await?;
        let line = queue.request(&id).await?;
        if !line.request.done {
            let mut taken = queue.take_request(&line, WHO).await?;
            let jid = serde_json::from_value(queue.request_params(&id).await?["jid"].clone()).unwrap();
            queue.act_once(jid, &Action::Hold, "", false, format!("request-{id}")).await?;
            queue.request_progress(&mut taken, "done, but for the answer").await?;
            queue.answer_request(taken, Ok(&json!({"jid": jid}))).await?;
        }
        let answered = queue.request_result(&id).await?.unwrap();
        assert_eq!((answered.result.ok, answered.data), (true, json!({"jid": "jid0000000001"})));
        // Parameters that a killed taker did not take away go with the rest.
        queue.collect_requests(later(), Duration::ZERO, usize::MAX).await.map(|_| ())
    }
    through_every_fault(prepare, story).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_result_is_never_without_its_data_whatever_breaks() {
    async fn prepare(queue: Queue) -> Result<()> {
        queue.put_request(&NewRequest { id: ID.into(), wait: false, ..new("fsck") }).await.map(|_| ())
    }
    async fn story(queue: Queue) -> Result<()> {
        let line = match queue.request(ID).await {
            Ok(line) => line,
            // Read and forgotten before it was killed; what was left behind is collected.
            Err(Error::NotFound(_)) => {
                queue.collect_requests(later(), Duration::ZERO, usize::MAX).await?;
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let large = json!(noise(200_000));
        if !line.request.done {
            let taken = queue.take_request(&line, WHO).await?;
            queue.answer_request(taken, Ok(&large)).await?;
        }
        assert!(queue.request_result(ID).await?.unwrap().data == large);
        queue.forget_request(ID).await?;
        queue.collect_requests(later(), Duration::ZERO, usize::MAX).await?;
        Ok(())
    }
    through_every_fault(prepare, story).await;
}
