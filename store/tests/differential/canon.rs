//! Answers in a form in which two engines can be compared: transaction ids by their order, owners by
//! the number of their session, times not at all.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use ingest_store::{Error, Kind, OpResult, Stat};

/// What one step answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    Get(Vec<u8>, Counters),
    Exists(Option<Counters>),
    Children(Vec<String>, Counters),
    Ephemerals(Vec<String>),
    Created(String, Counters),
    Set(Counters),
    Done,
    Multi(Vec<Part>),
    Refused(Kind, Option<usize>, Option<String>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Part {
    Checked,
    Created(String),
    Set(Counters),
    Deleted,
}

/// A stat without what may differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Counters {
    version: i32,
    cversion: i32,
    aversion: i32,
    owner: Option<usize>,
    length: i32,
    children: i32,
    next_sequence: i32,
    /// How the three transaction ids stand to each other.
    order: [Ordering; 3],
}

/// The sessions of a sequence, by id; the number is the order of their opening.
pub(crate) type Owners = BTreeMap<i64, usize>;

pub(crate) fn counters(stat: &Stat, owners: &Owners) -> Counters {
    let Stat { czxid, mzxid, pzxid, .. } = *stat;
    assert!(stat.version > 0 || stat.ctime == stat.mtime, "a node that was never set is as old as its data");
    Counters {
        version: stat.version,
        cversion: stat.cversion,
        aversion: stat.aversion,
        owner: (stat.ephemeral_owner != 0).then(|| owners[&stat.ephemeral_owner]),
        length: stat.data_length,
        children: stat.num_children,
        next_sequence: stat.next_sequence(),
        order: [czxid.cmp(&mzxid), mzxid.cmp(&pzxid), czxid.cmp(&pzxid)],
    }
}

pub(crate) fn refused(error: &Error) -> Answer {
    Answer::Refused(error.kind(), error.failed_op(), error.path().map(str::to_owned))
}

pub(crate) fn parts(results: Vec<OpResult>, owners: &Owners) -> Answer {
    let parts = results.into_iter().map(|result| match result {
        OpResult::Checked => Part::Checked,
        OpResult::Created { path } => Part::Created(path),
        OpResult::Set { stat } => Part::Set(counters(&stat, owners)),
        OpResult::Deleted => Part::Deleted,
    });
    Answer::Multi(parts.collect())
}

/// The whole tree at the end: data, counters, and every transaction id as its rank among all of them.
pub(crate) fn tree(nodes: BTreeMap<String, (Vec<u8>, Stat)>, owners: &Owners) -> Vec<String> {
    let mut zxids: Vec<i64> = nodes.values().flat_map(|(_, s)| [s.czxid, s.mzxid, s.pzxid]).collect();
    zxids.sort_unstable();
    zxids.dedup();
    let rank = |zxid: i64| zxids.binary_search(&zxid).unwrap();
    let line = |(path, (data, stat)): (String, (Vec<u8>, Stat))| {
        let (c, m, p) = (rank(stat.czxid), rank(stat.mzxid), rank(stat.pzxid));
        format!("{path} {} c{c} m{m} p{p} {:?}", data.escape_ascii(), counters(&stat, owners))
    };
    nodes.into_iter().map(line).collect()
}
