//! What was ordered, as it may stand in a log: in a line of bounded length, and without what opens doors.

use ingest_queue::shared::digest_of;
use ingest_steps::fetch::{is_secret, redacted_text};
use serde_json::{Map, Value, json};

use super::order::Order;

/// A longer line is cut.
const LONGEST: usize = 2000;

impl Order {
    /// The action and the parameters that it was given: `job.delete {"confirm":true,"jid":"jid0000000007"}`.
    ///
    /// Parameters that say nothing are left out, and of a profile there is its digest. URLs lose their passwords and
    /// signatures, and settings their values if their names say that they are secret.
    pub fn told(&self) -> String {
        let action = self.action();
        let mut params = match serde_json::to_value(self).as_mut().map(Value::as_object_mut) {
            Ok(Some(order)) => order.remove("params").unwrap_or_default(),
            _ => Value::Null,
        };
        clean(&mut params);
        if let Value::Object(params) = &mut params {
            params.retain(|name, value| action.needs(name) || !is_nothing(value));
            if let Order::PutProfile(profile) = self {
                let (bytes, digest) = (profile.text.len(), digest_of(&profile.text));
                params.insert("text".to_owned(), json!(format!("{bytes} bytes, {digest}")));
            }
            if let Some(Value::Object(settings)) = params.get_mut("settings") {
                hide(settings);
            }
        }
        let line = match &params {
            Value::Object(params) if params.is_empty() => action.name.to_owned(),
            params => format!("{} {params}", action.name),
        };
        shortened(line)
    }
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(said) => !said,
        Value::String(text) => text.is_empty(),
        Value::Array(values) => values.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Number(_) => false,
    }
}

/// Settings that are secret are refused; what somebody tried to set is not shown, either.
fn hide(settings: &mut Map<String, Value>) {
    for (name, value) in settings {
        match value {
            value if is_secret(name) => *value = json!("***"),
            Value::Object(inner) => hide(inner),
            _ => {}
        }
    }
}

fn clean(value: &mut Value) {
    match value {
        Value::String(text) => *text = redacted_text(text),
        Value::Array(values) => values.iter_mut().for_each(clean),
        Value::Object(fields) => {
            // Of a filter there is what was asked for.
            fields
                .retain(|_, value| !value.is_null() && value.as_array().is_none_or(|list| !list.is_empty()));
            fields.values_mut().for_each(clean);
        }
        _ => {}
    }
}

fn shortened(line: String) -> String {
    match line.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::super::ACTIONS;
    use super::*;

    fn told(action: &str, params: Value) -> String {
        Order::read(action, params).unwrap().told()
    }

    #[test]
    fn what_was_given_is_told_and_what_says_nothing_is_not() {
        for (action, params, line) in [
            ("fsck", json!({}), "fsck"),
            ("node.pause", json!({"reason": ""}), "node.pause"),
            ("node.pause", json!({"reason": "a look"}), r#"node.pause {"reason":"a look"}"#),
            (
                "job.delete",
                json!({"jid": "jid0000000007", "confirm": true, "force": false}),
                r#"job.delete {"confirm":true,"jid":"jid0000000007"}"#,
            ),
            (
                "jobs.bulk",
                json!({"action": "delete", "dry_run": true, "filter": {"states": ["failed"]}}),
                r#"jobs.bulk {"action":"delete","dry_run":true,"filter":{"states":["failed"]}}"#,
            ),
            (
                "jobs.bulk",
                json!({"action": "hold", "filter": {"scheduled": false}}),
                r#"jobs.bulk {"action":"hold","filter":{"scheduled":false}}"#,
            ),
            // From the beginning: that has to be seen.
            (
                "feed.reset",
                json!({"feed": "scans", "last": "", "confirm": "scans"}),
                r#"feed.reset {"confirm":"scans","feed":"scans","last":""}"#,
            ),
            ("settings.unset", json!({"keys": ["log.filter"]}), r#"settings.unset {"keys":["log.filter"]}"#),
        ] {
            assert_eq!(told(action, params), line);
        }
    }

    #[test]
    fn what_opens_doors_is_not_told() {
        let profile = json!({"name": "a", "text": "callback = 'https://u:hunter2@example.org/'"});
        let reason =
            json!({"jid": "jid0000000001", "reason": "see https://u:hunter2@example.org/?sig=hunter2"});
        let settings = json!({"settings": {
            "pools.notify.size": 3, "mail.password": "hunter2", "s3": {"secret_key": ["hunter2"]}, "at": "http://u:hunter2@x/",
        }});
        for (action, params, says) in [
            ("profile.put", profile, "bytes, "),
            ("job.hold", reason, "see https://***@example.org/?sig=***"),
            ("settings.set", settings, r#""pools.notify.size":3"#),
        ] {
            let line = told(action, params);
            assert!(!line.contains("hunter2") && line.contains(says), "{line}");
        }
    }

    #[test]
    fn a_line_is_bounded_whatever_was_ordered() {
        let keys: Vec<String> = (0..1000).map(|at| format!("ä.{at}")).collect();
        let line = told("settings.unset", json!({ "keys": keys }));
        assert_eq!(line.chars().count(), LONGEST + 1, "{line}");
        assert!(ACTIONS.iter().all(|action| action.name.len() < 50));
    }
}
