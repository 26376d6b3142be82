//! Which repository the inventory belongs to, and what it knows of the jobs of a tree that was restored.
//!
//! A batch that was in a backup is expanded again after a restore, and its jobs get new numbers. A job that does the work of
//! one that the tree has lost replaces it here, once: two can never take over the same version.
//!
//! **When things break.** Each call is one transaction and can be repeated.

use std::ops::Range;

use ingest_queue::ids::{Bid, Jid};

use super::Ingested;
use super::engine::{Engine, Row, Value};
use crate::identity::Identity;
use crate::outcome::{Failure, Result};

pub(super) async fn identity(engine: &dyn Engine) -> Result<Option<Identity>> {
    let look = "SELECT id, created FROM repository WHERE number = 1";
    let rows = engine.read().await?.rows(look.into(), Vec::new()).await?;
    let read = |row: &Row| Ok(Identity::of(row.text(0)?, row.parsed(1)?));
    rows.first().map(read).transpose()
}

pub(super) async fn identify(engine: &dyn Engine, identity: &Identity) -> Result<()> {
    let mut transaction = engine.write().await?;
    let insert = "INSERT INTO repository (number, id, created) VALUES (1, $1, $2) ON CONFLICT DO NOTHING";
    let values = [identity.id.clone(), identity.created.to_string()].map(Value::Text);
    transaction.execute(insert.into(), values.into()).await?;
    transaction.commit().await
}

/// The newest version that this job recorded, or that one recorded which it has replaced.
pub(super) async fn ingested(engine: &dyn Engine, bid: Bid, jid: Jid) -> Result<Option<Ingested>> {
    let look = "SELECT jid, ark, version FROM ingests WHERE bid = $1
        AND (jid = $2 OR jid IN (SELECT jid FROM replaced_jobs WHERE replacement = $2))
        ORDER BY version DESC LIMIT 1";
    let values = vec![Value::Text(bid.to_string()), Value::Text(jid.to_string())];
    let rows = engine.read().await?.rows(look.into(), values).await?;
    rows.first().map(read).transpose()
}

/// What jobs of a batch recorded whose numbers are in this range, and which nobody has replaced.
pub(super) async fn ingests_of(engine: &dyn Engine, bid: Bid, jids: Range<u32>) -> Result<Vec<Ingested>> {
    // The names have as many digits as any number: they sort as numbers do.
    let look = "SELECT jid, ark, version FROM ingests WHERE bid = $1 AND jid >= $2 AND jid < $3
        AND jid NOT IN (SELECT jid FROM replaced_jobs) ORDER BY jid, version";
    let values = [bid.to_string(), Jid::new(jids.start).to_string(), Jid::new(jids.end).to_string()];
    let rows = engine.read().await?.rows(look.into(), values.map(Value::Text).into()).await?;
    rows.iter().map(read).collect()
}

pub(super) async fn replace_job(engine: &dyn Engine, lost: Jid, replacement: Jid) -> Result<bool> {
    let mut transaction = engine.write().await?;
    let insert = "INSERT INTO replaced_jobs (jid, replacement) VALUES ($1, $2) ON CONFLICT DO NOTHING";
    let values = [lost.to_string(), replacement.to_string()].map(Value::Text);
    transaction.execute(insert.into(), values.into()).await?;
    let look = "SELECT replacement FROM replaced_jobs WHERE jid = $1";
    let rows = transaction.rows(look.into(), vec![Value::Text(lost.to_string())]).await?;
    let row = rows.first().ok_or_else(|| Failure::fail(format!("{lost} was replaced and is not")))?;
    let ours = row.text(0)? == replacement.to_string();
    transaction.commit().await?;
    Ok(ours)
}

fn read(row: &Row) -> Result<Ingested> {
    Ok(Ingested { jid: row.parsed(0)?, ark: row.parsed(1)?, version: row.number(2)? })
}
