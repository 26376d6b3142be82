//! Any bytes in any node: read or refused, never a panic; and what is read is written as it was.

use ingest_queue::dialect::Dialect;
use ingest_queue::ids::{Aid, Bid, Jid};
use ingest_queue::nodes::{
    AccessStatus, AccessToken, BatchStatus, Configuration, Expansion, History, Hold, Identifiers, Inventory,
    JobStatus, LocalId, Metadata, NameLock, Node, Number, Outgoing, Owner, Quarantined, Schedule,
    StatusReport, Store, Submission, Work, read_id,
};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::runs::{cases, check};

/// What is written is read again as the same, and written again as the same bytes.
fn settles<N: Node>(data: &[u8], name: &str) -> Result<(), String> {
    let read = match N::read(data) {
        Ok(read) => read,
        Err(why) if why.to_string().is_empty() => return Err(format!("{name}: no reason")),
        Err(_) => return Ok(()),
    };
    for dialect in [Dialect::Design, Dialect::MrtZk] {
        let written = read.write(dialect);
        let again = N::read(&written).map_err(|why| format!("{name}: its own {written:?}: {why}"))?;
        if again.write(dialect) != written {
            return Err(format!("{name}: {written:?} becomes {:?}", again.write(dialect)));
        }
        unknown_is_kept(data, &written).map_err(|why| format!("{name} in {dialect:?}: {why}"))?;
    }
    Ok(())
}

/// Fields whose names begin with `zz` are nobody's.
fn unknown_is_kept(read: &[u8], written: &[u8]) -> Result<(), String> {
    let fields = |data: &[u8]| match serde_json::from_slice(data) {
        Ok(Value::Object(map)) => map.into_iter().filter(|(name, _)| name.starts_with("zz")).collect(),
        _ => Map::new(),
    };
    let (read, written) = (fields(read), fields(written));
    if read == written { Ok(()) } else { Err(format!("{read:?} became {written:?}")) }
}

fn every_node_settles(data: &[u8]) -> Result<(), String> {
    macro_rules! each {
        ($($node:ty),+) => { $(settles::<$node>(data, stringify!($node))?;)+ };
    }
    each!(
        JobStatus,
        BatchStatus,
        AccessStatus,
        Configuration,
        Identifiers,
        Metadata,
        Inventory,
        Store,
        Schedule,
        Work,
        History,
        Submission,
        Expansion,
        StatusReport,
        Outgoing,
        AccessToken,
        Owner,
        Hold,
        NameLock,
        LocalId,
        Quarantined,
        Number
    );
    let _ = (read_id::<Jid>(data), read_id::<Bid>(data), read_id::<Aid>(data));
    Ok(())
}

#[test]
fn any_bytes_are_read_or_refused() {
    check(cases(400), &vec(any::<u8>(), 0..60), |data| every_node_settles(&data));
}

#[test]
fn json_of_any_depth_is_read_or_refused() {
    for depth in [10, 127, 128, 10_000] {
        for (open, close) in [("[", "]"), (r#"{"a":"#, "}"), (r#"{"zz":["#, "]}")] {
            let data = format!("{}1{}", open.repeat(depth), close.repeat(depth));
            every_node_settles(data.as_bytes()).unwrap();
            every_node_settles(open.repeat(depth).as_bytes()).unwrap();
        }
    }
}

/// Names that some node knows, and some that none does.
fn name() -> impl Strategy<Value = String> {
    let known = "status last_successful_status last_modification_date last_modified retry_count message attempt \
        recoverable start_processing_date commits batchID batch_id profile_name collection submitter payload_url manifest \
        type insertion_date key local_id primary_id primary erc_what manifest_url mode delete process_date timeout_count \
        node file_system reserved digest next total done number failed_jobs successful_jobs deleted_jobs bid composed sent \
        token delivery-node cloud-content-byte url incarnation session since who why when jid owner text hex bytes path";
    let known: Vec<&str> = known.split_whitespace().collect();
    prop_oneof![8 => prop::sample::select(known).prop_map(str::to_owned), 1 => "zz[a-c]"]
}

/// Values that some field takes, and some that none does.
fn value() -> impl Strategy<Value = Value> {
    let text = prop::sample::select(vec![
        "",
        "pending",
        "Failed",
        "UPDATEREPORTING",
        "2026-11-16T01:43:45.123Z",
        "2026-11-16 01:43:45 +0000",
        "bid0000000001",
        "jid0000000001",
        "a;b",
        "\u{1f600}\u{0}",
    ]);
    let leaf = prop_oneof![
        3 => text.prop_map(Value::from),
        1 => any::<i64>().prop_map(Value::from),
        1 => any::<u64>().prop_map(Value::from),
        1 => (0..9_u8).prop_map(Value::from),
        1 => any::<bool>().prop_map(Value::from),
        1 => Just(Value::Null),
        1 => Just(json!(0.5)),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..3).prop_map(Value::from),
            btree_map(name(), inner, 0..4).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

#[test]
fn any_json_is_read_or_refused_and_what_nobody_knows_is_kept() {
    // Objects with a status, so that these get far.
    let object =
        btree_map(name(), value(), 0..6).prop_map(|map| Value::Object(map.into_iter().collect())).boxed();
    let status = object.clone().prop_map(|mut object| {
        object["status"] = "failed".into();
        object
    });
    let history = object.clone().prop_map(|mut entry| {
        entry["at"] = "2026-11-16T01:43:45.000Z".into();
        entry["to"] = "Held".into();
        Value::from(vec![entry])
    });
    let any_json = prop_oneof![2 => object, 3 => status, 1 => history, 1 => value()];
    check(cases(1500), &any_json, |json| every_node_settles(json.to_string().as_bytes()));
}
