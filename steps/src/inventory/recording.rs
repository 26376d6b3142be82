//! Recording a version: one transaction for both databases.
//!
//! The object's row is made or found, and locked by an update that changes nothing: from there on whoever
//! else records the same object waits. Then either the version is there already, or it is the next one, perhaps after
//! some that were stored and not recorded. A superseded version whose own job records it after all is served from then on.
//!
//! **When things break.** Every refusal leaves the transaction unfinished, and so nothing behind.

use super::engine::{Engine, Sql, Transaction, Value};
use super::tables::{group, insert};
use super::{File, Record, Recorded, Unrecorded, ledger, reading};
use crate::outcome::{Failure, Result};

pub(super) async fn record(engine: &dyn Engine, before: &[Unrecorded], record: &Record) -> Result<Recorded> {
    record.check()?;
    before.iter().try_for_each(|one| one.record.check())?;
    let mut transaction = engine.write().await?;
    let recorded = write(&mut *transaction, before, record).await?;
    if !recorded.already {
        transaction.commit().await?;
    }
    Ok(recorded)
}

async fn write(
    transaction: &mut dyn Transaction,
    before: &[Unrecorded],
    record: &Record,
) -> Result<Recorded> {
    let mut head = locked_head(transaction, record).await?;
    refuse_another_version_of_the_same_work(transaction, record).await?;
    if record.version <= head {
        return compare(transaction, record).await;
    }
    for one in before.iter().filter(|one| one.record.version < record.version) {
        if one.record.version == head + 1 {
            insert_unrecorded(transaction, one).await?;
            head += 1;
        }
    }
    if record.version != head + 1 {
        let newest = if head == 0 { "there is none yet".into() } else { format!("the newest is {head}") };
        return Err(refused(record, &format!("versions follow without gaps, and {newest}")));
    }
    insert_version(transaction, record).await?;
    insert_files(transaction, record).await?;
    claim_local_ids(transaction, record).await?;
    let values = vec![record.version.into(), (&record.collection).into(), ark(record)];
    transaction
        .execute("UPDATE objects SET head = $1, collection = $2 WHERE ark = $3".into(), values)
        .await?;
    // Last, and in one order: all recorders share these rows.
    let ingest = &record.ingest;
    ledger::raise_in(transaction, super::BATCHES, u64::from(ingest.bid.number()) + 1).await?;
    ledger::raise_in(transaction, super::JOBS, u64::from(ingest.jid.number()) + 1).await?;
    Ok(Recorded { already: false })
}

async fn insert_unrecorded(transaction: &mut dyn Transaction, one: &Unrecorded) -> Result<()> {
    let record = &one.record;
    insert_version(transaction, record).await?;
    insert_files(transaction, record).await?;
    claim_local_ids(transaction, record).await?;
    if one.superseded {
        let mark = "INSERT INTO superseded (ark, version) VALUES ($1, $2)";
        transaction.execute(mark.into(), vec![ark(record), record.version.into()]).await?;
    }
    Ok(())
}

/// The newest version of the object, which is the caller's alone until the transaction ends.
async fn locked_head(transaction: &mut dyn Transaction, record: &Record) -> Result<u32> {
    let make =
        "INSERT INTO objects (ark, owner, collection, head) VALUES ($1, $2, $3, 0) ON CONFLICT DO NOTHING";
    let values = vec![ark(record), (&record.owner).into(), (&record.collection).into()];
    transaction.execute(make.into(), values).await?;
    transaction.execute("UPDATE objects SET head = head WHERE ark = $1".into(), vec![ark(record)]).await?;
    let look = "SELECT owner, head FROM objects WHERE ark = $1";
    let rows = transaction.rows(look.into(), vec![ark(record)]).await?;
    let row = rows.first().ok_or_else(|| refused(record, "its object was deleted just now"))?;
    let owner = row.text(0)?;
    if owner != record.owner {
        // It is decided before anything is stored. Whose it is, is not for whoever submitted.
        tracing::warn!(ark = %record.ark, owner, submitted_for = record.owner, "not recorded: it is another owner's object");
        return Err(refused(record, "the object is not one of this owner"));
    }
    row.number(1)
}

async fn refuse_another_version_of_the_same_work(
    transaction: &mut dyn Transaction,
    record: &Record,
) -> Result<()> {
    let look = "SELECT version FROM versions WHERE ark = $1 AND idempotency_key = $2";
    let rows = transaction.rows(look.into(), vec![ark(record), (&record.key).into()]).await?;
    match rows.first().map(|row| row.number::<u32>(0)).transpose()? {
        Some(version) if version != record.version => {
            let why = format!("the same work ({}) was recorded as version {version} before", record.key);
            Err(refused(record, &why))
        }
        _ => Ok(()),
    }
}

/// The version is there: is it this one?
async fn compare(transaction: &mut dyn Transaction, record: &Record) -> Result<Recorded> {
    let look = "SELECT v.idempotency_key, i.jid FROM versions v
        JOIN ingests i ON i.ark = v.ark AND i.version = v.version WHERE v.ark = $1 AND v.version = $2";
    let rows = transaction.rows(look.into(), vec![ark(record), record.version.into()]).await?;
    let row = rows.first().ok_or_else(|| refused(record, "a version below the newest one is missing"))?;
    let (key, jid) = (row.text(0)?, row.text(1)?);
    // A job that was requeued comes with another key, and is the same work.
    if key != record.key && jid != record.ingest.jid.to_string() {
        let why =
            format!("it was recorded by {jid} ({key}), and this is {} ({})", record.ingest.jid, record.key);
        return Err(refused(record, &why));
    }
    let known = reading::files(transaction, &record.ark, Some(record.version)).await?;
    let known = known.into_iter().next().map(|(_, files)| files).unwrap_or_default();
    if reading::superseded(transaction, &record.ark).await?.contains(&record.version) {
        return revive(transaction, &known, record).await;
    }
    if let Some(difference) = difference(&known, &sorted(&record.files)) {
        return Err(refused(record, &format!("it was recorded with other files: {difference}")));
    }
    let claimed = reading::local_ids_in(transaction, &record.ark).await?;
    if let Some(missing) = record.local_ids.iter().find(|id| !claimed.contains(id)) {
        return Err(refused(record, &format!("it was recorded without the local id `{missing}`")));
    }
    Ok(Recorded { already: true })
}

/// The job of a superseded version records it after all. Newer ones stay the newer ones.
async fn revive(transaction: &mut dyn Transaction, known: &[File], record: &Record) -> Result<Recorded> {
    if let Some(difference) = difference(known, &sorted(&record.files)) {
        return Err(refused(record, &format!("it was kept with other files: {difference}")));
    }
    let version = "UPDATE versions SET idempotency_key = $3, title = $4, creator = $5, date = $6 WHERE ark = $1 AND version = $2";
    let described = [&record.title, &record.creator, &record.date].map(Value::from);
    let values = [ark(record), record.version.into(), (&record.key).into()].into_iter().chain(described);
    transaction.execute(version.into(), values.collect()).await?;
    let ingest = "UPDATE ingests SET bid = $3, jid = $4, submitter = $5, profile = $6, at = $7
        WHERE ark = $1 AND version = $2";
    transaction.execute(ingest.into(), ingest_values(record)).await?;
    claim_local_ids(transaction, record).await?;
    let unmark = "DELETE FROM superseded WHERE ark = $1 AND version = $2";
    transaction.execute(unmark.into(), vec![ark(record), record.version.into()]).await?;
    Ok(Recorded { already: false })
}

/// The first thing in which two sorted lists differ.
fn difference(known: &[File], wanted: &[File]) -> Option<String> {
    let differing = known.iter().zip(wanted).find(|(known, wanted)| known != wanted);
    match differing {
        Some((known, wanted)) if known.path == wanted.path => {
            Some(format!("`{}` has another size, digest or type", known.path))
        }
        Some((known, wanted)) => Some(format!("`{}` is there, and `{}` was to be", known.path, wanted.path)),
        None if known.len() == wanted.len() => None,
        None => Some(format!("{} files are there, and {} were to be", known.len(), wanted.len())),
    }
}

/// Files by path, digests by algorithm: as they are read.
fn sorted(files: &[File]) -> Vec<File> {
    let mut files = files.to_vec();
    files.sort_by(|a, b| a.path.cmp(&b.path));
    for file in &mut files {
        file.digests.sort_by_key(crate::digest::Digest::algorithm);
    }
    files
}

async fn insert_version(transaction: &mut dyn Transaction, record: &Record) -> Result<()> {
    let version = "INSERT INTO versions (ark, version, idempotency_key, title, creator, date)
        VALUES ($1, $2, $3, $4, $5, $6)";
    let described = [&record.title, &record.creator, &record.date].map(Value::from);
    let values = [ark(record), record.version.into(), (&record.key).into()].into_iter().chain(described);
    transaction.execute(version.into(), values.collect()).await?;
    let ingest = "INSERT INTO ingests (ark, version, bid, jid, submitter, profile, at)
        VALUES ($1, $2, $3, $4, $5, $6, $7)";
    transaction.execute(ingest.into(), ingest_values(record)).await
}

fn ingest_values(record: &Record) -> Vec<Value> {
    let ingest = &record.ingest;
    vec![
        ark(record),
        record.version.into(),
        Value::Text(ingest.bid.to_string()),
        Value::Text(ingest.jid.to_string()),
        (&ingest.submitter).into(),
        (&ingest.profile).into(),
        Value::Text(ingest.at.to_string()),
    ]
}

async fn insert_files(transaction: &mut dyn Transaction, record: &Record) -> Result<()> {
    let (mut files, mut digests) = (Vec::new(), Vec::new());
    for (number, file) in (0_i64..).zip(sorted(&record.files)) {
        let place = [ark(record), record.version.into(), Value::Number(number)];
        for digest in &file.digests {
            let value = [digest.algorithm().name().into(), digest.hex().into()];
            digests.push(place.iter().cloned().chain(value).collect());
        }
        let size = Value::Number(i64::try_from(file.size).unwrap_or(i64::MAX));
        let rest = [Value::Text(file.path), size, (&file.mime).into()];
        files.push(place.into_iter().chain(rest).collect());
    }
    insert(transaction, "files (ark, version, number, path, size, mime)", 6, files, "").await?;
    insert(transaction, "digests (ark, version, number, algorithm, value)", 5, digests, "").await
}

async fn claim_local_ids(transaction: &mut dyn Transaction, record: &Record) -> Result<()> {
    // In one order, so that two who claim the same ids cannot wait for each other.
    let mut ids = record.local_ids.clone();
    ids.sort_unstable();
    ids.dedup();
    let row = |id: &String| vec![(&record.owner).into(), id.into(), ark(record)];
    let rows = ids.iter().map(row).collect();
    insert(transaction, "local_ids (owner, local_id, ark)", 3, rows, "ON CONFLICT DO NOTHING").await?;
    for some in ids.chunks(1_000) {
        let sql = format!(
            "SELECT local_id, ark FROM local_ids WHERE owner = $1 AND ark <> $2 AND local_id IN {}",
            group(2, some.len())
        );
        let values = [(&record.owner).into(), ark(record)].into_iter().chain(some.iter().map(Value::from));
        let taken = transaction.rows(Sql::Owned(sql), values.collect()).await?;
        if let Some(row) = taken.first() {
            let (id, other) = (row.text(0)?, row.text(1)?);
            let why = format!("the local id `{id}` of {} belongs to {other} already", record.owner);
            return Err(refused(record, &why));
        }
    }
    Ok(())
}

fn ark(record: &Record) -> Value {
    Value::Text(record.ark.to_string())
}

fn refused(record: &Record, why: &str) -> Failure {
    Failure::fail(format!("version {} of {} is not recorded: {why}", record.version, record.ark))
}
