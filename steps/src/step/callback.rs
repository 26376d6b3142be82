//! `notify`: the profile's service is told that the object is stored and recorded.
//!
//! The body is the job as JSON, without anything secret: URLs are shown without users, passwords and tokens. All
//! calls for a job carry the same key, so that a service can tell a repetition. Without a callback in the profile
//! there is nothing to do.
//!
//! **When things break.** See [`crate::notify`] for what is called again. A call that finally failed fails the
//! job, and it can be requeued: a job that was killed after the call makes it once more.

use ingest_queue::map::JobNode;
use ingest_queue::nodes;
use ingest_queue::plan::job::Change;
use serde_json::{Value, json};
use url::Url;

use super::Task;
use super::process::{CHANGES, Said};
use crate::fetch::redacted;
use crate::outcome::Result;
use crate::services::Services;

/// Calls the profile's callback, if it has one.
pub async fn run(task: &mut Task<'_>, services: &Services) -> Result<Change> {
    let Some(callback) = task.profile.callback.clone() else { return Ok(Change::default()) };
    let said: Option<nodes::Inventory> = task.queue.node(task.lease.jid(), JobNode::Inventory).await?;
    let body = body(task, said.as_ref());
    let (jid, key) = (task.lease.jid().to_string(), task.lease.effect_key());
    task.gate().await?;
    services.notifier.call(&callback, &jid, &body, &key, &task.progress, &task.cancel).await?;
    Ok(Change::message(format!("called back {}", redacted(callback.url()))))
}

fn body(task: &Task<'_>, inventory: Option<&nodes::Inventory>) -> Value {
    let changes = inventory.and_then(|inventory| inventory.other.get(CHANGES));
    let said = inventory.and_then(Said::read);
    let said = said.as_ref();
    let (job, configuration, metadata) = (task.lease.job(), &task.configuration, &task.metadata);
    let payload = Url::parse(&configuration.payload_url).map(|url| redacted(&url)).ok();
    let history = job.history.iter().flat_map(|history| &history.entries);
    let history: Vec<_> =
        history.map(|entry| json!({ "at": entry.at, "from": entry.from.map(|s| s.to_string()), "to": entry.to.to_string() })).collect();
    json!({
        "jid": job.jid.to_string(),
        "bid": job.bid.to_string(),
        "status": job.state().to_string(),
        "last_modification_date": job.status.last_modification_date,
        "retry_count": job.status.retry_count,
        "primary_id": task.identifiers.primary_id,
        "local_id": task.identifiers.local_id,
        "version": said.map(|said| said.version),
        "files": said.map(|said| said.files),
        "bytes": said.map(|said| said.bytes),
        "changes": changes,
        "profile": task.profile.name,
        "collection": task.profile.collection,
        "submitter": configuration.submitter,
        "submission_mode": configuration.submission_mode,
        "payload_url": payload,
        "payload_type": configuration.payload_type,
        "erc_who": metadata.erc_who,
        "erc_what": metadata.erc_what,
        "erc_when": metadata.erc_when,
        "history": history,
    })
}
