//! How far the counters of the tree have been used: the second record of them.
//!
//! The tree gives out numbers, and a tree can be lost, or be replaced by an older copy of itself. The inventory keeps a
//! record of its own, which is raised after the tree's counter and so is never ahead of it: an inventory that is ahead
//! proves that the tree is older.
//!
//! **When things break.** A raise that fails changes nothing and can be repeated. A claim whose answer was lost leaves
//! numbers that nobody uses.

use std::collections::BTreeMap;
use std::ops::Range;

use super::Claim;
use super::engine::{Engine, Transaction, Value};
use crate::ark::Ark;
use crate::outcome::{Failure, Result};

pub(super) async fn knows(engine: &dyn Engine, ark: &Ark) -> Result<bool> {
    let look = "SELECT head FROM objects WHERE ark = $1";
    let rows = engine.read().await?.rows(look.into(), vec![Value::Text(ark.to_string())]).await?;
    Ok(!rows.is_empty())
}

pub(super) async fn counters(engine: &dyn Engine) -> Result<BTreeMap<String, u64>> {
    let rows = engine.read().await?.rows("SELECT name, next FROM counters".into(), Vec::new()).await?;
    rows.iter().map(|row| Ok((row.text(0)?, row.number(1)?))).collect()
}

pub(super) async fn raise(engine: &dyn Engine, counters: &[(&str, u64)]) -> Result<()> {
    let mut transaction = engine.write().await?;
    for (name, next) in counters {
        raise_in(&mut *transaction, name, *next).await?;
    }
    transaction.commit().await
}

/// Raises a counter in a transaction. A counter that need not be raised is not locked.
pub(super) async fn raise_in(transaction: &mut dyn Transaction, name: &str, next: u64) -> Result<()> {
    let insert = "INSERT INTO counters (name, next) VALUES ($1, 0) ON CONFLICT DO NOTHING";
    transaction.execute(insert.into(), vec![name.into()]).await?;
    let raise = "UPDATE counters SET next = $1 WHERE name = $2 AND next < $1";
    transaction.execute(raise.into(), vec![number(next)?, name.into()]).await
}

pub(super) async fn claim(
    engine: &dyn Engine,
    counter: &str,
    numbers: Range<u64>,
    prefix: &str,
) -> Result<Claim> {
    let mut transaction = engine.write().await?;
    let next = locked(&mut *transaction, counter, prefix).await?;
    let claim = if next <= numbers.start { Claim::Granted } else { Claim::Used(next) };
    if claim == Claim::Granted {
        let set = "UPDATE counters SET next = $1 WHERE name = $2";
        transaction.execute(set.into(), vec![number(numbers.end)?, counter.into()]).await?;
    }
    transaction.commit().await?;
    Ok(claim)
}

/// The first free number of a counter, whose row is the caller's alone until the transaction ends.
async fn locked(transaction: &mut dyn Transaction, counter: &str, prefix: &str) -> Result<u64> {
    let lock = "UPDATE counters SET next = next WHERE name = $1";
    transaction.execute(lock.into(), vec![counter.into()]).await?;
    let look = "SELECT next FROM counters WHERE name = $1";
    let rows = transaction.rows(look.into(), vec![counter.into()]).await?;
    if let Some(row) = rows.first() {
        return row.number(0);
    }
    let length = Value::Number(i64::try_from(prefix.len()).unwrap_or(i64::MAX));
    let count = "SELECT COUNT(*) FROM objects WHERE SUBSTR(ark, 1, CAST($1 AS INTEGER)) = $2";
    let rows = transaction.rows(count.into(), vec![length, prefix.into()]).await?;
    let named = rows.first().map_or(Ok(0), |row| row.number(0))?;
    raise_in(transaction, counter, named).await?;
    transaction.execute(lock.into(), vec![counter.into()]).await?;
    let rows = transaction.rows(look.into(), vec![counter.into()]).await?;
    rows.first().map_or(Ok(named), |row| row.number(0))
}

fn number(next: u64) -> Result<Value> {
    i64::try_from(next)
        .map(Value::Number)
        .map_err(|_| Failure::fail(format!("the number {next} is beyond what the inventory can count")))
}
