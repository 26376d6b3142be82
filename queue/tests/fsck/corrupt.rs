//! Every node of a healthy tree is spoilt in turn, in every way. Nothing panics; what is wrong is found
//! where it is, and nowhere else; a repair leaves a clean tree, or says that a person must look; and it
//! loses nothing that could be read.

use ingest_queue::dialect::Dialect;
use ingest_queue::fsck::{self, Finding, Options, Report};
use ingest_queue::map;
use ingest_queue::nodes::{Node, Quarantined};
use ingest_store::{Session, path};

use crate::check;
use crate::planted::plant;
use crate::snapshot::{Snapshot, delete_all};
use crate::tree::Tree;

const DESIGN: Dialect = Dialect::Design;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Spoilt {
    /// With everything below it.
    Deleted,
    Empty,
    Garbage,
    WrongType,
    Megabyte,
}

const ALL: [Spoilt; 5] =
    [Spoilt::Deleted, Spoilt::Empty, Spoilt::Garbage, Spoilt::WrongType, Spoilt::Megabyte];

impl Spoilt {
    fn data(self) -> Vec<u8> {
        match self {
            Spoilt::Deleted | Spoilt::Empty => Vec::new(),
            Spoilt::Garbage => vec![0, 255, b'{', b'"', 7, 0xc3, b'\n', 0],
            Spoilt::WrongType => b"[1]".to_vec(),
            Spoilt::Megabyte => vec![b'x'; 1_000_000],
        }
    }
}

/// What is expected of a check.
#[derive(Debug, PartialEq)]
enum Expected {
    Nothing,
    /// A finding at this path, and besides it only these.
    At(String, Vec<String>),
    /// A branch of the tree is gone: something is found.
    Something,
}

/// A finding at the path itself.
fn here(at: &str) -> Expected {
    Expected::At(at.to_owned(), Vec::new())
}

/// The nodes that may be missing, whose data means nothing, or that are found elsewhere, are named here;
/// all others are found where they are.
fn expected(at: &str, spoilt: Spoilt, snapshot: &Snapshot) -> Expected {
    let names: Vec<&str> = at.split('/').skip(1).collect();
    let deleted = spoilt == Spoilt::Deleted;
    let unless = |legal: bool| if legal { Expected::Nothing } else { here(at) };
    let branch = if deleted { Expected::Something } else { Expected::Nothing };
    match names[..] {
        // It also says who is to consume which feeds.
        ["workers"] if !deleted && spoilt != Spoilt::Empty => here(at),
        // Needed, with everything below them.
        _ if map::directories(DESIGN).iter().any(|dir| path::is_within(dir, at)) => branch,
        ["batches", bid, ..] => batch(at, bid, &names[2..], spoilt, snapshot),
        ["jobs", "states", state, _] => unless(!deleted || state == "completed"),
        ["jobs", _] => branch,
        // Its job has a slot, which nobody needs without it.
        ["jobs", _, "lock"] if deleted => Expected::Something,
        // What they hold means nothing to us, and they come and go.
        ["space" | "ltime"]
        | ["access", _, _]
        | ["semaphores", _, _, "holder"]
        | ["jobs", _, "lock" | "store" | "foreign"]
        | ["locks", "storage" | "inventory", _]
        | ["access", _, _, "lock"] => Expected::Nothing,
        // Their names say everything.
        ["journal", "dates" | "expirations", _] => unless(!deleted),
        // What must be there.
        ["jobs", _, "status" | "bid" | "configuration"]
        | ["batch-uuids", _]
        | ["journal", "keys", _]
        | ["access", ..] => here(at),
        // A slot says who holds it; without it, or without its semaphore, nobody does.
        ["semaphores", _, _] if !deleted => Expected::At(format!("{at}/holder"), Vec::new()),
        // What may be empty.
        ["semaphores"] | ["locks", "queue" | "collections", _] | ["space", _] => {
            unless(deleted || spoilt == Spoilt::Empty)
        }
        // What may be missing.
        _ => unless(deleted),
    }
}

fn batch(at: &str, bid: &str, rest: &[&str], spoilt: Spoilt, snapshot: &Snapshot) -> Expected {
    let deleted = spoilt == Spoilt::Deleted;
    let counted = format!("/batches/{bid}/expansion");
    let manifest = format!("/batches/{bid}/manifest");
    // The only one that is not expanded to its end.
    let expanding = snapshot.below(&manifest).len() > 1;
    let (something, nothing) = (Expected::Something, Expected::Nothing);
    match rest {
        [] if deleted => something,
        ["states"] if deleted && snapshot.0.contains_key(&counted) => something,
        // Lists are made when they are needed, but for that of the running jobs.
        ["states", list] if deleted => {
            let empty = snapshot.below(at).len() == 1;
            let needed = expanding && *list == "batch-processing";
            if empty && !needed { nothing } else { something }
        }
        // A job that is in no list is missing in the count as well, and that is all if it is gone.
        ["states", "batch-deleted", _] if deleted => Expected::At(counted, Vec::new()),
        ["states", _, _] if deleted => Expected::At(at.to_owned(), vec![counted]),
        [] | ["lock"] | ["states", ..] => nothing,
        ["manifest" | "status-report"] if (deleted || spoilt == Spoilt::Empty) && !expanding => nothing,
        ["manifest", _] if !deleted => nothing,
        ["manifest", ..] => Expected::At(manifest, Vec::new()),
        _ => here(at),
    }
}

fn as_expected(report: &Report, expected: &Expected) -> Result<(), String> {
    let found = |at: &str| report.findings.iter().any(|finding| finding.path == at);
    let complain = |what: &str| Err(format!("expected {expected:?}: {what}\n{}", report.text()));
    match expected {
        Expected::Nothing if report.findings.is_empty() => Ok(()),
        Expected::Nothing => complain("and something is found"),
        Expected::At(at, _) if !found(at) => complain("and it is not found"),
        Expected::At(at, besides) => {
            let other = |finding: &&Finding| finding.path != *at && !besides.contains(&finding.path);
            match report.findings.iter().find(other) {
                Some(other) => complain(&format!("and {} is found as well", other.path)),
                None => Ok(()),
            }
        }
        Expected::Something if report.findings.is_empty() => complain("and nothing is found"),
        Expected::Something => Ok(()),
    }
}

/// What may be different after a repair: the refs, the status, the history and the date of the job or
/// the batch that the node belongs to. Everything else that is not spoilt is as it was.
fn nothing_is_lost(before: &Snapshot, after: &Snapshot, spoilt_at: &str) -> Result<(), String> {
    let owner = spoilt_at.split(['/', '-']).find(|name| name.starts_with("jid"));
    let owner = owner.or_else(|| spoilt_at.split('/').find(|name| name.starts_with("bid0")));
    for (at, node) in &before.0 {
        if path::is_within(at, spoilt_at) || after.0.get(at) == Some(node) {
            continue;
        }
        let of_owner = owner.is_some_and(|owner| at.contains(owner));
        let hint = ["/status", "/history", "/expansion"].iter().any(|end| at.ends_with(end))
            || at.contains("/states/")
            || at.starts_with(map::JOURNAL);
        if !(of_owner && hint) {
            return Err(format!("{at} was {node:?} and is {:?}", after.0.get(at)));
        }
    }
    Ok(())
}

/// Data that is not where it was is in the quarantine.
fn is_kept(after: &Snapshot, at: &str, data: &[u8]) -> Result<(), String> {
    if data.is_empty() || after.0.get(at).is_some_and(|(now, _)| now == data) {
        return Ok(());
    }
    let kept = after
        .below(map::QUARANTINE)
        .into_iter()
        .filter_map(|name| Quarantined::read(&after.0[name].0).ok())
        .any(|kept| kept.path == at && (data.len() < 65_536) == kept.bytes.is_none());
    if kept { Ok(()) } else { Err(format!("what was in {at} is lost")) }
}

async fn spoil(session: &Session, snapshot: &Snapshot, at: &str, spoilt: Spoilt) {
    if spoilt == Spoilt::Deleted {
        delete_all(session, snapshot, at).await;
    } else {
        session.set(at, spoilt.data(), None).await.unwrap();
    }
}

/// Spoils one node, checks, repairs, checks.
async fn case(session: &Session, snapshot: &Snapshot, at: &str, spoilt: Spoilt) -> Result<(), String> {
    spoil(session, snapshot, at, spoilt).await;
    let report = check(session, DESIGN).await;
    let expected = expected(at, spoilt, snapshot);
    as_expected(&report, &expected)?;
    let spoilt_tree = Snapshot::take(session).await;
    let options = Options::new(DESIGN);
    let repaired =
        fsck::repair(session, &options, &report, &mut |_| ()).await.map_err(|error| error.to_string())?;
    let busy = |at: &str| {
        repaired.iter().any(|repaired| repaired.path == at && repaired.outcome == fsck::Outcome::Busy)
    };
    let after = Snapshot::take(session).await;
    if expected != Expected::Something {
        nothing_is_lost(&spoilt_tree, &after, at)?;
        is_kept(&after, at, &spoilt.data())?;
    }
    let again = check(session, DESIGN).await;
    let left = |finding: &&Finding| {
        finding.severity != fsck::Severity::Info && !finding.by_hand && !busy(&finding.path)
    };
    match again.findings.iter().find(left) {
        Some(left) => Err(format!("after the repair there is still {left}")),
        None => Ok(()),
    }
}

async fn every_node(tree: &Tree, spoilt: Spoilt, one_of: usize) {
    let session = tree.session().await;
    plant(&session, DESIGN).await;
    let snapshot = Snapshot::take(&session).await;
    let mut failed = Vec::new();
    for at in snapshot.0.keys().step_by(one_of) {
        if let Err(why) = case(&session, &snapshot, at, spoilt).await {
            failed.push(format!("{at} {spoilt:?}: {why}"));
        }
        snapshot.restore(&session).await;
    }
    assert!(failed.is_empty(), "{} of {} nodes:\n{}", failed.len(), snapshot.0.len(), failed.join("\n"));
}

async fn on_the_embedded_engine(spoilt: Spoilt) {
    let tree = Tree::embedded();
    every_node(&tree, spoilt, 1).await;
    tree.close().await;
}

#[tokio::test]
async fn every_node_that_is_deleted_is_missed_if_it_is_needed() {
    on_the_embedded_engine(Spoilt::Deleted).await;
}

#[tokio::test]
async fn every_node_that_is_empty_is_found_if_it_should_not_be() {
    on_the_embedded_engine(Spoilt::Empty).await;
}

#[tokio::test]
async fn every_node_that_holds_garbage_is_found() {
    on_the_embedded_engine(Spoilt::Garbage).await;
}

#[tokio::test]
async fn every_node_that_holds_json_of_another_type_is_found() {
    on_the_embedded_engine(Spoilt::WrongType).await;
}

#[tokio::test]
async fn every_node_that_holds_a_megabyte_is_found() {
    on_the_embedded_engine(Spoilt::Megabyte).await;
}

#[tokio::test]
async fn a_sample_of_the_nodes_is_found_on_zookeeper() {
    for (number, spoilt) in ALL.into_iter().enumerate() {
        let tree = Tree::zookeeper().await;
        every_node(&tree, spoilt, 29 + number).await;
        tree.close().await;
    }
}
