//! Submissions to node processes, and what is waited for.

use std::time::Duration;

use ingest_harness::FileServer;
pub(crate) use ingest_harness::node::{ENDING, Node, Setup};
use ingest_queue::ids::{Bid, Jid};
use ingest_queue::map::{self, BatchNode};
use ingest_queue::nodes::Submission;
use ingest_queue::queue::Queue;
use ingest_queue::states::{BatchList, BatchState};
use ingest_steps::manifest::Kind;
use ingest_store::Event;
use url::Url;

use crate::place::PROFILE;

/// A batch of files: its manifest is put on the server, with a local id for each.
pub(crate) fn many(files: &FileServer, name: &str, count: usize) -> Submission {
    let rows = (0..count).map(|n| {
        let url = files.put(&format!("/{name}/{n}.txt"), format!("file {n} of {name}\n").repeat(20));
        format!("{url} | | | | | {n}.txt | | {name}-{n} | Lindqvist, A. | Thing {n} | 2001")
    });
    let rows: Vec<String> = rows.collect();
    let profile = Kind::SingleFileBatch.profile();
    let text = format!("#%checkm_0.7\n#%profile | {profile}\n{}\n#%eof\n", rows.join("\n"));
    submission(&files.put(&format!("/{name}.checkm"), text), Some("single_file_batch_manifest"))
}

pub(crate) fn submission(url: &Url, kind: Option<&str>) -> Submission {
    Submission {
        profile_name: PROFILE.into(),
        submitter: "depositor".into(),
        payload_url: Some(url.to_string()),
        payload_type: kind.map(str::to_owned),
        ..Submission::default()
    }
}

pub(crate) async fn submit(queue: &Queue, mut submission: Submission) -> Bid {
    submission.insertion_date = Some(queue.now());
    let uuid = uuid::Uuid::new_v4().to_string();
    queue.create_batch(&uuid, &submission).await.unwrap().bid
}

/// Waits until a batch has ended and its report is sent, by its events.
pub(crate) async fn reported(queue: &Queue, bid: Bid) -> BatchState {
    let waited = tokio::time::timeout(Duration::from_mins(3), async {
        let mut watch = queue.session().watch_tree(BatchNode::Status.of(bid)).await.unwrap();
        loop {
            let state = queue.batch(bid).await.unwrap().state();
            if matches!(state, BatchState::Completed | BatchState::Failed) {
                return state;
            }
            if let Event::Ended(state) = watch.next().await {
                panic!("{bid} was waited for, and the session is {state:?}");
            }
        }
    });
    match waited.await {
        Ok(state) => state,
        Err(late) => panic!("{bid} does not end: {late}: {}", crate::checks::left_of(queue, bid).await),
    }
}

pub(crate) async fn jobs(queue: &Queue, bid: Bid, list: BatchList) -> Vec<Jid> {
    let (names, _) = queue.session().children(map::batch_list(bid, list)).await.unwrap();
    let mut jids: Vec<Jid> = names.iter().filter_map(|name| name.parse().ok()).collect();
    jids.sort_unstable();
    jids
}

/// How long something lasts, by the environment.
pub(crate) fn seconds(variable: &str, otherwise: u64) -> Duration {
    let given = std::env::var(variable).ok().and_then(|text| text.parse().ok());
    Duration::from_secs(given.unwrap_or(otherwise))
}
