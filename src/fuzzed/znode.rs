//! Whatever lies in a node is read or refused; what was read can be written in either dialect, and read again as the same.

use ingest_queue::dialect::Dialect;
use ingest_queue::ids::{Bid, Jid};
use ingest_queue::map::QueueRef;
use ingest_queue::nodes::{self, Node, read_id};
use ingest_queue::states::JobState;

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

fn shown(data: &[u8]) -> String {
    String::from_utf8_lossy(data).into_owned()
}
