//! Reading objects: one transaction, one moment.
//!
//! **When things break.** Rows that this program could not have written are a failure that shows them, and
//! never a guess.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::engine::{Engine, Sql, Transaction, Value};
use super::tables::group;
use super::{File, FileRows, Ingest, Object, Rows, Summary, Version};
use crate::ark::Ark;
use crate::digest::Digest;
use crate::outcome::{Failure, Result};

pub(super) async fn find(engine: &dyn Engine, owner: &str, local_id: &str) -> Result<Option<Ark>> {
    // Nothing of the kind was ever recorded, and PostgreSQL would not even be asked.
    if owner.contains('\0') || local_id.contains('\0') {
        return Ok(None);
    }
    let mut transaction = engine.read().await?;
    let look = "SELECT ark FROM local_ids WHERE owner = $1 AND local_id = $2";
    let rows = transaction.rows(look.into(), vec![owner.into(), local_id.into()]).await?;
    rows.first().map(|row| row.parsed(0)).transpose()
}

pub(super) async fn local_ids(engine: &dyn Engine, ark: &Ark) -> Result<Vec<String>> {
    local_ids_in(&mut *engine.read().await?, ark).await
}

pub(super) async fn local_ids_in(transaction: &mut dyn Transaction, ark: &Ark) -> Result<Vec<String>> {
    let look = "SELECT local_id FROM local_ids WHERE ark = $1";
    let rows = transaction.rows(look.into(), vec![value(ark)]).await?;
    let mut ids = rows.iter().map(|row| row.text(0)).collect::<Result<Vec<_>>>()?;
    // Here and not there: databases sort by their own rules.
    ids.sort_unstable();
    Ok(ids)
}

pub(super) async fn objects(engine: &dyn Engine, after: Option<&str>) -> Result<Vec<String>> {
    let mut transaction = engine.read().await?;
    // A name that is empty comes before all others.
    let look = "SELECT ark FROM objects WHERE ark > $1 ORDER BY ark LIMIT 500";
    let rows = transaction.rows(look.into(), vec![after.unwrap_or_default().into()]).await?;
    rows.iter().map(|row| row.text(0)).collect()
}

pub(super) async fn unlisted(engine: &dyn Engine, names: &[String]) -> Result<Vec<String>> {
    let mut transaction = engine.read().await?;
    let mut unlisted = Vec::new();
    for some in names.chunks(1_000) {
        let sql = format!("SELECT ark FROM objects WHERE ark IN {}", group(0, some.len()));
        let rows = transaction.rows(Sql::Owned(sql), some.iter().map(Value::from).collect()).await?;
        let listed = rows.iter().map(|row| row.text(0)).collect::<Result<HashSet<_>>>()?;
        unlisted.extend(some.iter().filter(|name| !listed.contains(*name)).cloned());
    }
    Ok(unlisted)
}

pub(super) async fn rows(engine: &dyn Engine, ark: &str) -> Result<Option<Rows>> {
    let mut transaction = engine.read().await?;
    let mut rows = Rows::default();
    let look = "SELECT head FROM objects WHERE ark = $1";
    let found = transaction.rows(look.into(), vec![ark.into()]).await?;
    rows.head = found.first().map(|row| row.number(0)).transpose()?;
    for row in
        transaction.rows("SELECT version FROM versions WHERE ark = $1".into(), vec![ark.into()]).await?
    {
        rows.versions.entry(row.number(0)?).or_default().version = true;
    }
    for row in transaction.rows("SELECT version FROM ingests WHERE ark = $1".into(), vec![ark.into()]).await?
    {
        rows.versions.entry(row.number(0)?).or_default().ingest = true;
    }
    let look = "SELECT version, number, algorithm, value FROM digests
        WHERE ark = $1 ORDER BY version, number, algorithm";
    let mut digests: BTreeMap<(u32, u64), Vec<(String, String)>> = BTreeMap::new();
    for row in transaction.rows(look.into(), vec![ark.into()]).await? {
        let of = digests.entry((row.number(0)?, row.number(1)?)).or_default();
        of.push((row.text(2)?, row.text(3)?));
    }
    let look = "SELECT version, number, path, size FROM files WHERE ark = $1 ORDER BY version, number";
    for row in transaction.rows(look.into(), vec![ark.into()]).await? {
        let version = row.number(0)?;
        let digests = digests.remove(&(version, row.number(1)?)).unwrap_or_default();
        let file = FileRows { path: row.text(2)?, size: row.number(3)?, digests };
        rows.versions.entry(version).or_default().files.push(file);
    }
    let none = rows.head.is_none() && rows.versions.is_empty();
    Ok((!none).then_some(rows))
}

pub(super) async fn summary(engine: &dyn Engine, ark: &Ark) -> Result<Option<Summary>> {
    let mut transaction = engine.read().await?;
    let look = "SELECT owner, collection, head FROM objects WHERE ark = $1";
    let rows = transaction.rows(look.into(), vec![value(ark)]).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let superseded = superseded(&mut *transaction, ark).await?;
    Ok(Some(Summary { owner: row.text(0)?, collection: row.text(1)?, head: row.number(2)?, superseded }))
}

pub(super) async fn superseded(transaction: &mut dyn Transaction, ark: &Ark) -> Result<BTreeSet<u32>> {
    let look = "SELECT version FROM superseded WHERE ark = $1";
    let rows = transaction.rows(look.into(), vec![value(ark)]).await?;
    rows.iter().map(|row| row.number(0)).collect()
}

pub(super) async fn object(engine: &dyn Engine, ark: &Ark) -> Result<Option<Object>> {
    let mut transaction = engine.read().await?;
    let look = "SELECT owner, collection FROM objects WHERE ark = $1";
    let rows = transaction.rows(look.into(), vec![value(ark)]).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let (owner, collection) = (row.text(0)?, row.text(1)?);
    let mut files = files(&mut *transaction, ark, None).await?;
    let superseded = superseded(&mut *transaction, ark).await?;
    let look = "SELECT v.version, v.idempotency_key, v.title, v.creator, v.date,
            i.bid, i.jid, i.submitter, i.profile, i.at
        FROM versions v JOIN ingests i ON i.ark = v.ark AND i.version = v.version
        WHERE v.ark = $1 ORDER BY v.version";
    let mut versions = Vec::new();
    for row in transaction.rows(look.into(), vec![value(ark)]).await? {
        let version = row.number(0)?;
        versions.push(Version {
            version,
            key: row.text(1)?,
            title: row.optional(2)?,
            creator: row.optional(3)?,
            date: row.optional(4)?,
            files: files.remove(&version).unwrap_or_default(),
            ingest: Ingest {
                bid: row.parsed(5)?,
                jid: row.parsed(6)?,
                submitter: row.text(7)?,
                profile: row.text(8)?,
                at: row.parsed(9)?,
            },
            superseded: superseded.contains(&version),
        });
    }
    let local_ids = local_ids_in(&mut *transaction, ark).await?;
    Ok(Some(Object { ark: ark.clone(), owner, collection, local_ids, versions }))
}

/// The files of all versions or of one, by version.
pub(super) async fn files(
    transaction: &mut dyn Transaction,
    ark: &Ark,
    version: Option<u32>,
) -> Result<BTreeMap<u32, Vec<File>>> {
    let (from, to) = version.map_or((0, u32::MAX), |version| (version, version));
    let values = || vec![value(ark), from.into(), to.into()];
    let look = "SELECT version, number, algorithm, value FROM digests
        WHERE ark = $1 AND version BETWEEN $2 AND $3";
    let mut digests: BTreeMap<(u32, u64), Vec<Digest>> = BTreeMap::new();
    for row in transaction.rows(look.into(), values()).await? {
        let digest = Digest::new(row.parsed(2)?, &row.text(3)?)
            .map_err(|error| Failure::fail(format!("the inventory holds what it should not: {error}")))?;
        digests.entry((row.number(0)?, row.number(1)?)).or_default().push(digest);
    }
    let look = "SELECT version, number, path, size, mime FROM files
        WHERE ark = $1 AND version BETWEEN $2 AND $3 ORDER BY version, number";
    let mut files: BTreeMap<u32, Vec<File>> = BTreeMap::new();
    for row in transaction.rows(look.into(), values()).await? {
        let version = row.number(0)?;
        let mut digests = digests.remove(&(version, row.number(1)?)).unwrap_or_default();
        digests.sort_by_key(Digest::algorithm);
        let file = File { path: row.text(2)?, size: row.number(3)?, digests, mime: row.optional(4)? };
        files.entry(version).or_default().push(file);
    }
    Ok(files)
}

fn value(ark: &Ark) -> Value {
    Value::Text(ark.to_string())
}
