//! The files for Prometheus and Grafana name what `/metrics` has, and nothing else.

use std::collections::BTreeSet;
use std::path::Path;

use crate::kit::TestNode;

/// Families that are not there before something has happened that nobody wants to happen.
const LATER: [&str; 2] = ["ingestd_restarts_total", "ingestd_retries_total"];

fn file(name: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("config/monitoring").join(name))
        .unwrap()
}

/// Every word that begins like a metric of ours.
fn names(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("ingestd_")).map(str::to_owned).collect()
}

#[tokio::test]
async fn what_alerts_and_panels_ask_for_is_what_a_node_tells() {
    let node = TestNode::start().await;
    let bid = node.submit("a.txt", "one").await;
    node.batch_is(&bid, "completed").await;
    let mut told = names(&node.get("/metrics").await.is(200).text());
    let meters = include_str!("../../actors/src/meters.rs");
    for name in LATER {
        let plain = name.trim_start_matches("ingestd_").trim_end_matches("_total");
        assert!(meters.contains(&format!("\"{plain}\"")), "{name}");
        told.insert(name.to_owned());
    }
    for asked in ["alerts.yml", "grafana.json"] {
        let asked_for = names(&file(asked));
        assert!(asked_for.len() >= 9, "{asked}: {asked_for:?}");
        let missing: Vec<_> = asked_for.difference(&told).collect();
        assert!(missing.is_empty(), "{asked} asks for {missing:?}, and a node tells {told:?}");
    }
}

#[test]
fn panels_are_json_and_each_has_a_question() {
    let dashboard: serde_json::Value = serde_json::from_str(&file("grafana.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    assert!(panels.len() >= 12);
    let mut ids = BTreeSet::new();
    for panel in panels {
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{panel}");
        assert!(!panel["targets"].as_array().unwrap().is_empty(), "{panel}");
    }
}
