//! Limits over all nodes, set and cleared.

use ingest_queue::limits::rules::Kind as LimitKind;
use ingest_queue::limits::set::Wanted;
use ingest_queue::queue::Queue;
use serde_json::{Value, json};

use super::refused::{Kind, Refused};

/// The most letters of a name.
const LONGEST: usize = 200;

pub(super) async fn change(queue: &Queue, kind: &str, name: &str, to: Wanted) -> Result<Value, Refused> {
    let kind = LimitKind::from_name(kind).ok_or_else(|| {
        let known = LimitKind::ALL.map(LimitKind::name).join(", ");
        Refused::new(Kind::NotFound, format!("the kinds of limits are {known}"))
    })?;
    if name.chars().count() > LONGEST {
        let why = format!("the name of a limit has at most {LONGEST} letters");
        return Err(Refused::field("name", why));
    }
    let name = kind.as_kept(name);
    let changed = queue.set_limit(kind, &name, to).await?;
    let limit = queue.read_limits().await?.rules.limit(kind, &name).map(|(limit, _)| limit);
    let mut answer = json!({ "kind": kind.name(), "name": name, "changed": changed });
    if let Some(limit) = limit {
        answer["limit"] = json!(limit);
    }
    Ok(answer)
}
