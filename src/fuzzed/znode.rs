//! Whatever lies in a node is read or refused; what was read can be written in either dialect, and read again as the same. A value that
//! is announced is never longer than it may be, whatever is packed into it.

use bytes::Bytes;
use ingest_actors::node::upkeep::Run;
use ingest_actors::registrar::Info;
use ingest_actors::stats::Stats;
use ingest_queue::alerts::AlertNode;
use ingest_queue::dialect::Dialect;
use ingest_queue::ids::{Bid, Jid};
use ingest_queue::limits::rules::Rules;
use ingest_queue::limits::{Holding, Named};
use ingest_queue::map::QueueRef;
use ingest_queue::nodes::{self, Node, read_id};
use ingest_queue::shared;
use ingest_queue::states::JobState;
use ingest_steps::minter::Note;
use ingest_steps::minter::local::Counter;
use ingest_steps::step::admit::Reserved;
use ingest_steps::step::expand::frozen_rows;
use ingest_store::recipes::semaphore;
use ingest_store::recipes::shard::{Unpacked, unpack};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// What is wanted of a value at most.
const LIMIT: u64 = 1 << 20;

pub(super) fn run(data: &[u8]) {
    // All of them: which node it lies in, nobody knows.
    again::<nodes::JobStatus>(data);
    again::<nodes::BatchStatus>(data);
    again::<nodes::AccessStatus>(data);
    again::<nodes::AccessToken>(data);
    again::<nodes::Submission>(data);
    again::<nodes::Expansion>(data);
    again::<nodes::FrozenProfile>(data);
    again::<nodes::Outgoing>(data);
    again::<nodes::ReportedJob>(data);
    again::<nodes::StatusReport>(data);
    again::<nodes::Configuration>(data);
    again::<nodes::History>(data);
    again::<nodes::Identifiers>(data);
    again::<nodes::Inventory>(data);
    again::<nodes::Metadata>(data);
    again::<nodes::Schedule>(data);
    again::<nodes::Store>(data);
    again::<nodes::Work>(data);
    again::<nodes::Hold>(data);
    again::<nodes::LocalId>(data);
    again::<nodes::NameLock>(data);
    again::<nodes::Owner>(data);
    again::<nodes::Quarantined>(data);
    again::<nodes::Keys>(data);
    again::<nodes::FeedNode>(data);
    again::<nodes::WorkerNode>(data);
    again::<nodes::AssignmentNode>(data);
    again::<nodes::Request>(data);
    again::<nodes::RequestResult>(data);
    again::<nodes::Number>(data);
    again::<Rules>(data);
    again::<Holding>(data);
    again::<Named>(data);
    again::<AlertNode>(data);
    again::<Reserved>(data);
    json::<Info>(data);
    json::<Run>(data);
    json::<Stats>(data);
    json::<Counter>(data);
    json::<Note>(data);
    json::<semaphore::Parent>(data);
    let _ = frozen_rows(data);
    document(data);
    value(data);
    let _ = read_id::<Jid>(data);
    let _ = read_id::<Bid>(data);
    if let Ok(name) = std::str::from_utf8(data) {
        for state in JobState::ALL {
            let entry = QueueRef::parse(*state, name);
            // A name that means something is the name that we would write.
            assert!(
                entry.is_none_or(|entry| entry.path().ends_with(&format!("/{name}"))),
                "{name:?} is {entry:?}"
            );
        }
    }
}

fn again<N: Node>(data: &[u8]) {
    let Ok(node) = N::read(data) else { return };
    for dialect in [Dialect::Design, Dialect::MrtZk] {
        let written = node.write(dialect);
        let read = N::read(&written).unwrap_or_else(|why| {
            panic!(
                "{}: {} was written, and cannot be read: {why}",
                std::any::type_name::<N>(),
                shown(&written)
            )
        });
        let twice = read.write(dialect);
        assert_eq!(shown(&twice), shown(&written), "{}", std::any::type_name::<N>());
    }
}

/// The same for what is json and nothing else.
fn json<T: Serialize + DeserializeOwned>(data: &[u8]) {
    let Ok(node) = serde_json::from_slice::<T>(data) else { return };
    let written = serde_json::to_vec(&node).expect("what was read can be written");
    let read: T = serde_json::from_slice(&written).unwrap_or_else(|why| {
        panic!("{}: {} was written, and cannot be read: {why}", std::any::type_name::<T>(), shown(&written))
    });
    let twice = serde_json::to_vec(&read).expect("what was read can be written");
    assert_eq!(shown(&twice), shown(&written), "{}", std::any::type_name::<T>());
}

/// Settings or a profile: what is taken is the text that was written.
fn document(data: &[u8]) {
    let Ok(document) = shared::read(data) else { return };
    assert_eq!(shared::digest_of(&document.text), document.digest);
    assert!(document.mark().starts_with(&format!("{}-", document.version)));
    json::<shared::Document>(data);
}

/// A value in a node of its own: as long as it says, and as long as it may be.
fn value(data: &[u8]) {
    let Ok(unpacked) = unpack("/value", &Bytes::copy_from_slice(data), LIMIT) else { return };
    if let Unpacked::Value(value) = unpacked {
        assert!(value.len() as u64 <= LIMIT, "{} bytes", value.len());
        let head = data.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let head: serde_json::Value = serde_json::from_slice(head).expect("it was read");
        assert_eq!(head["size"], value.len());
        document(&value);
        let _ = frozen_rows(&value);
    }
}

fn shown(data: &[u8]) -> String {
    String::from_utf8_lossy(data).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(name: &str) -> Vec<u8> {
        let corpus = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/corpus/znode");
        std::fs::read(corpus.join(name)).unwrap()
    }

    /// A sample that nobody can read tries nothing.
    #[test]
    fn the_samples_are_what_they_are_called() {
        fn node<N: Node>(name: &str) {
            N::read(&sample(name)).unwrap_or_else(|why| panic!("{name}: {why}"));
        }
        fn json<T: DeserializeOwned>(name: &str) {
            let read: Result<T, _> = serde_json::from_slice(&sample(name));
            assert!(read.is_ok(), "{name}: {:?}", read.err());
        }
        node::<Rules>("limits");
        node::<Holding>("slot");
        node::<Named>("semaphore");
        node::<AlertNode>("alert");
        node::<Reserved>("space");
        json::<Info>("registry");
        json::<Run>("cleanup");
        json::<Stats>("stats");
        json::<Counter>("counter");
        json::<Note>("note");
        json::<semaphore::Parent>("semaphore-parent");
        assert_eq!(frozen_rows(&sample("frozen-rows")).unwrap(), 1);
        assert!(shared::read(&sample("document")).is_ok());
        let unpacked = |name: &str| unpack("/value", &sample(name).into(), LIMIT);
        assert!(matches!(unpacked("value"), Ok(Unpacked::Value(value)) if value == sample("document")));
        assert!(matches!(unpacked("value-in-parts"), Ok(Unpacked::InParts(_))));
        for bomb in ["value-bomb", "value-wide"] {
            assert!(
                matches!(unpacked(bomb), Err(error) if error.kind() == ingest_store::Kind::Corrupt),
                "{bomb}"
            );
        }
    }
}
