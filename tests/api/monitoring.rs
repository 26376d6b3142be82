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

/// The rules as Prometheus reads them, by the reader of YAML of Debian's Python.
fn rules() -> serde_json::Value {
    let read = "import json, sys, yaml; json.dump(yaml.safe_load(sys.stdin), sys.stdout)";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/monitoring/alerts.yml");
    let mut python = std::process::Command::new("/usr/bin/python3");
    let output = python.args(["-c", read]).stdin(std::fs::File::open(path).unwrap()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn rules_are_yaml_and_each_says_what_to_do() {
    let rules = rules();
    let mut names = BTreeSet::new();
    for rule in
        rules["groups"].as_array().unwrap().iter().flat_map(|group| group["rules"].as_array().unwrap())
    {
        assert!(names.insert(rule["alert"].as_str().unwrap().to_owned()), "twice: {rule}");
        let expr = rule["expr"].as_str().unwrap();
        for (open, close) in [('(', ')'), ('{', '}'), ('[', ']')] {
            assert_eq!(expr.matches(open).count(), expr.matches(close).count(), "{expr}");
        }
        assert!(matches!(rule["labels"]["severity"].as_str(), Some("page" | "warn")), "{rule}");
        for text in ["summary", "description"] {
            assert!(rule["annotations"][text].as_str().is_some_and(|text| !text.is_empty()), "{rule}");
        }
        let lasts = rule["for"].as_str().is_none_or(|lasts| lasts.ends_with(['s', 'm', 'h']));
        assert!(lasts, "{rule}");
    }
    assert!(names.len() >= 9, "{names:?}");
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
