//! What is in the tree, as it may be seen: without passwords and signatures.

use ingest_queue::list;
use ingest_steps::fetch::redacted;
use serde::Serialize;
use serde_json::{Map, Value};
use url::Url;

use super::wire::{BatchCounts, BatchLine, Expansion, JobLine, LockedBy, Unreadable};

/// A URL without what opens doors.
pub(crate) fn url(text: &str) -> String {
    Url::parse(text).map_or_else(|_| text.to_owned(), |url| redacted(&url))
}

/// A node of the tree as JSON; texts that are URLs lose their secrets, wherever they stand.
pub(crate) fn plain(node: &impl Serialize) -> Map<String, Value> {
    match serde_json::to_value(node) {
        Ok(Value::Object(mut map)) => {
            map.values_mut().for_each(clean);
            map
        }
        _ => Map::new(),
    }
}

fn clean(value: &mut Value) {
    match value {
        Value::String(text) if text.contains("://") => {
            // A row of an inline manifest has more than the URL.
            let words: Vec<String> = text.split(' ').map(url).collect();
            *text = words.join(" ");
        }
        Value::Array(values) => values.iter_mut().for_each(clean),
        Value::Object(map) => map.values_mut().for_each(clean),
        _ => {}
    }
}

pub(crate) fn unread(unread: list::Unread) -> Unreadable {
    Unreadable { path: unread.path, why: unread.why }
}

fn locked_by(by: list::LockedBy) -> LockedBy {
    LockedBy { node: by.node, since: by.since }
}

pub(crate) fn batch_line(line: list::BatchLine) -> BatchLine {
    let list::ListCounts { batch_processing, batch_failed, batch_completed, batch_deleted } = line.jobs;
    BatchLine {
        bid: line.bid,
        uuid: line.uuid,
        state: line.state,
        message: line.message,
        last_modified: line.last_modified,
        profile: line.profile,
        collection: line.collection,
        submitter: line.submitter,
        jobs: BatchCounts {
            processing: batch_processing,
            failed: batch_failed,
            completed: batch_completed,
            deleted: batch_deleted,
        },
        expansion: line.expansion.map(|list::Expanded { next, total, done }| Expansion { next, total, done }),
        deleting: line.deleting,
        locked_by: line.locked_by.map(locked_by),
    }
}

pub(crate) fn job_line(line: list::JobLine) -> JobLine {
    JobLine {
        jid: line.jid,
        bid: line.bid,
        state: line.state,
        priority: line.priority.number(),
        class: ingest_queue::classes::name_of(line.priority.number()),
        space_needed: line.space_needed,
        profile: line.profile,
        collection: line.collection,
        submitter: line.submitter,
        message: line.message,
        retry_count: line.retry_count,
        attempt: line.attempt,
        recoverable: line.recoverable,
        last_modified: line.last_modified,
        process_date: line.process_date,
        expiration_date: line.expiration_date,
        primary_id: line.primary_id,
        local_ids: line.local_ids,
        locked_by: line.locked_by.map(locked_by),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_of_urls_are_not_seen_wherever_they_stand() {
        let node = serde_json::json!({
            "payload_url": "https://ann:hunter2@example.org/a?signature=hunter2&x=1",
            "manifest": [{"url": "http://u:hunter2@x/y"}, "http://u:hunter2@x/y local-1 ark:/1/2"],
            "other": {"deep": "http://u:hunter2@x/"},
        });
        let seen = plain(&node);
        let text = serde_json::to_string(&seen).unwrap();
        assert!(!text.contains("hunter2"), "{text}");
        assert!(text.contains("x=1") && text.contains("local-1 ark:/1/2"), "{text}");
    }
}
