//! What a node writes about its work, for machines and for people.

use ingest_harness::FileServer;
use ingest_queue::date::Date;
use ingest_queue::states::BatchState;

use crate::kit::{self, Node, many, submission};
use crate::place::Place;

const JOBS: usize = 12;

/// A batch that is completed and one that fails.
async fn worked(place: &Place, node: &Node) {
    let (files, queue) = (FileServer::start().await, place.queue().await);
    let good = kit::submit(&queue, many(&files, "logged", JOBS)).await;
    let bad = kit::submit(&queue, submission(&files.url("/missing"), Some("file"))).await;
    assert_eq!(kit::reported(&queue, good).await, BatchState::Completed);
    assert_eq!(kit::reported(&queue, bad).await, BatchState::Failed);
    assert_eq!(node.drained().await, 0, "{}", node.process.tail());
}

#[tokio::test(flavor = "multi_thread")]
async fn every_line_of_work_says_which_job_of_which_batch_where_and_for_the_how_manieth_time() {
    let place = Place::shared().await;
    let node = place.node("node-1").ready().await;
    worked(&place, &node).await;
    let said = node.process.output();
    let lines = node.lines();
    assert_eq!(lines.len(), said.lines().count(), "every line is an object:\n{said}");
    let of = |message: &str| lines.iter().filter(|line| line["message"] == message).collect::<Vec<_>>();
    assert_eq!((of("completed").len(), of("failed").len()), (JOBS, 1));
    let work = lines.iter().filter(|line| line["target"] == "ingest_actors::worker");
    for line in work.chain(of("restarted")) {
        for key in ["batch", "job", "state", "node"] {
            assert!(line[key].is_string(), "{key} is missing in {line}");
        }
        assert!(line["attempt"].is_u64() && line["node"] == "node-1", "{line}");
    }
    let failed = of("failed")[0];
    assert!(failed["state"] == "downloading" && failed["level"] == "WARN", "{failed}");
    assert!(failed["why"].as_str().unwrap().contains("404"), "{failed}");
    for line in of("expanded").into_iter().chain(of("reported")) {
        assert!(line["batch"].is_string() && line["node"] == "node-1", "{line}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn text_can_be_read_and_lines_of_different_jobs_are_never_counted_as_one() {
    let place = Place::shared().await;
    let setup = place
        .node("node-1")
        .set("log.format", "text")
        .set("log.filter", "info")
        .set("log.throttle.times", 3)
        .set("log.throttle.within", "1h");
    let node = setup.start();
    node.process.says("ready", |output| output.contains(" INFO ready node=node-1").then_some(())).await;
    worked(&place, &node).await;
    let said = node.process.output();
    for line in said.lines() {
        let (time, rest) = line.split_once(' ').unwrap();
        assert!(time.parse::<Date>().is_ok(), "{line}");
        assert!([" INFO ", " WARN ", "ERROR "].iter().any(|level| rest.starts_with(level)), "{line}");
        assert!(!line.contains('\x1b'), "{line}");
    }
    let count = |part: &str| said.lines().filter(|line| line.contains(part)).count();
    assert_eq!(count(" INFO completed node=node-1 batch=bid0000000000 job=jid00000000"), JOBS, "{said}");
    assert_eq!(count("last message repeated"), 0, "{said}");
}
