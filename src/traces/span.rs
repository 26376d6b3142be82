//! A span as OTLP has it, in JSON.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// What is done within this program, as opposed to calls of others.
const INTERNAL: u8 = 1;
const ERROR: u8 = 2;

/// A part of a trace that has ended.
#[derive(Debug, Clone)]
pub(super) struct Span {
    pub trace: [u8; 16],
    pub id: [u8; 8],
    pub name: String,
    pub began: SystemTime,
    pub ended: SystemTime,
    pub attributes: Vec<(String, Value)>,
    pub events: Vec<Happened>,
    /// Why it did not go well.
    pub error: Option<String>,
}

/// Something that was said meanwhile.
#[derive(Debug, Clone)]
pub(super) struct Happened {
    pub at: SystemTime,
    pub name: String,
    pub attributes: Vec<(String, Value)>,
}

/// The id of the trace of a thing: the same on every node of the tree.
pub(super) fn trace_id(tree: &str, thing: &str) -> [u8; 16] {
    let digest = Sha256::new().chain_update(tree).chain_update([0]).chain_update(thing).finalize();
    let mut id = [0; 16];
    id.copy_from_slice(&digest[..16]);
    id
}

/// Whether a trace is among this share of all.
pub(super) fn is_sampled(trace: [u8; 16], share: f64) -> bool {
    let [a, b, c, d, ..] = trace;
    f64::from(u32::from_be_bytes([a, b, c, d])) < share * (f64::from(u32::MAX) + 1.0)
}

fn nanos(time: SystemTime) -> String {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos()).to_string()
}

fn value(value: &Value) -> Value {
    match value {
        Value::Bool(yes) => json!({ "boolValue": yes }),
        Value::Number(number) if number.is_i64() || number.is_u64() => {
            json!({ "intValue": number.to_string() })
        }
        Value::Number(number) => json!({ "doubleValue": number }),
        Value::String(text) => json!({ "stringValue": text }),
        other => json!({ "stringValue": other.to_string() }),
    }
}

fn attributes(all: &[(String, Value)]) -> Vec<Value> {
    all.iter().map(|(key, given)| json!({ "key": key, "value": value(given) })).collect()
}

impl Span {
    fn json(&self) -> Value {
        let events: Vec<Value> = self.events.iter().map(Happened::json).collect();
        let status = match &self.error {
            Some(why) => json!({ "code": ERROR, "message": why }),
            None => json!({}),
        };
        json!({
            "traceId": format!("{:032x}", u128::from_be_bytes(self.trace)),
            "spanId": format!("{:016x}", u64::from_be_bytes(self.id)),
            "name": self.name,
            "kind": INTERNAL,
            "startTimeUnixNano": nanos(self.began),
            "endTimeUnixNano": nanos(self.ended),
            "attributes": attributes(&self.attributes),
            "events": events,
            "status": status,
        })
    }
}

impl Happened {
    fn json(&self) -> Value {
        json!({ "timeUnixNano": nanos(self.at), "name": self.name, "attributes": attributes(&self.attributes) })
    }
}

/// One request: several spans of this node.
pub(super) fn request(node: &str, spans: &[Span]) -> Value {
    let version = env!("CARGO_PKG_VERSION");
    let mut resource =
        vec![("service.name".to_owned(), "ingestd".into()), ("service.version".to_owned(), version.into())];
    if !node.is_empty() {
        resource.push(("service.instance.id".to_owned(), node.into()));
    }
    let spans: Vec<Value> = spans.iter().map(Span::json).collect();
    json!({ "resourceSpans": [{
        "resource": { "attributes": attributes(&resource) },
        "scopeSpans": [{ "scope": { "name": "ingestd", "version": version }, "spans": spans }],
    }]})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_the_same_trace_on_every_node_and_another_in_another_tree() {
        let one = trace_id("zk1:2181/ingest", "jid0000000007");
        assert_eq!(one, trace_id("zk1:2181/ingest", "jid0000000007"));
        assert_ne!(one, trace_id("zk1:2181/other", "jid0000000007"));
        assert_ne!(one, trace_id("zk1:2181/ingest", "jid0000000008"));
    }

    #[test]
    fn a_share_of_all_is_sampled() {
        let sampled = |share| {
            let ids = (0..1000).map(|number| trace_id("tree", &format!("jid{number}")));
            ids.filter(|id| is_sampled(*id, share)).count()
        };
        assert_eq!((sampled(1.0), sampled(0.0)), (1000, 0));
        assert!((50..200).contains(&sampled(0.1)), "{}", sampled(0.1));
    }

    #[test]
    fn values_have_the_types_of_the_protocol() {
        assert_eq!(value(&json!(7)), json!({"intValue": "7"}));
        assert_eq!(value(&json!(0.5)), json!({"doubleValue": 0.5}));
        assert_eq!(value(&json!(true)), json!({"boolValue": true}));
        assert_eq!(value(&json!("x")), json!({"stringValue": "x"}));
    }
}
