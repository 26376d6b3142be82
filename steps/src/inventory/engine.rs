//! What a database has to do for the inventory: transactions of statements with values.
//!
//! The statements are the same for both: `$1` for values, `TEXT` and `BIGINT`, `ON CONFLICT DO NOTHING`. What
//! differs is how a transaction begins and which errors pass by themselves.
//!
//! **When things break.** A transaction that is dropped before its commit leaves nothing. A commit that fails
//! leaves a doubt.

use std::borrow::Cow;

use futures::future::BoxFuture;

use crate::outcome::{Failure, Result};

/// A statement. Values are never written into it.
pub(super) type Sql = Cow<'static, str>;

/// A value that is bound or read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value {
    Text(String),
    Number(i64),
    Nothing,
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Value::Text(text.to_owned())
    }
}

impl From<&String> for Value {
    fn from(text: &String) -> Self {
        Value::Text(text.clone())
    }
}

impl From<u32> for Value {
    fn from(number: u32) -> Self {
        Value::Number(number.into())
    }
}

impl From<&Option<String>> for Value {
    fn from(text: &Option<String>) -> Self {
        text.as_ref().map_or(Value::Nothing, Value::from)
    }
}

/// A row that was read.
#[derive(Debug)]
pub(super) struct Row(pub(super) Vec<Value>);

impl Row {
    pub(super) fn text(&self, at: usize) -> Result<String> {
        self.optional(at)?.ok_or_else(|| self.misfit(at, "a text"))
    }

    pub(super) fn optional(&self, at: usize) -> Result<Option<String>> {
        match self.0.get(at) {
            Some(Value::Text(text)) => Ok(Some(text.clone())),
            Some(Value::Nothing) => Ok(None),
            _ => Err(self.misfit(at, "a text")),
        }
    }

    /// A text that is written in a form of its own: an id, a date, a name of an algorithm.
    pub(super) fn parsed<T: std::str::FromStr<Err: std::fmt::Display>>(&self, at: usize) -> Result<T> {
        let text = self.text(at)?;
        text.parse()
            .map_err(|error| Failure::fail(format!("the inventory holds what it should not: {error}")))
    }

    pub(super) fn number<T: TryFrom<i64>>(&self, at: usize) -> Result<T> {
        match self.0.get(at) {
            Some(Value::Number(number)) => T::try_from(*number).map_err(|_| self.misfit(at, "such a number")),
            _ => Err(self.misfit(at, "a number")),
        }
    }

    fn misfit(&self, at: usize, wanted: &str) -> Failure {
        Failure::fail(format!(
            "the inventory holds what it should not: column {at} of {self:?} is not {wanted}"
        ))
    }
}

/// A transaction under way.
pub(super) trait Transaction: Send {
    fn execute(&mut self, sql: Sql, values: Vec<Value>) -> BoxFuture<'_, Result<()>>;

    fn rows(&mut self, sql: Sql, values: Vec<Value>) -> BoxFuture<'_, Result<Vec<Row>>>;

    fn commit(self: Box<Self>) -> BoxFuture<'static, Result<()>>;
}

/// A database.
pub(super) trait Engine: Send + Sync {
    /// A transaction that may write. Rows that it changed are locked until it ends, and what others have
    /// committed before a statement is seen by it.
    fn write(&self) -> BoxFuture<'_, Result<Box<dyn Transaction>>>;

    /// A transaction that sees one moment.
    fn read(&self) -> BoxFuture<'_, Result<Box<dyn Transaction>>>;
}

/// Implements [`Transaction`] for one driver, whose types differ in name only.
macro_rules! transaction_of {
    ($transaction:ident, $database:ty, $failure:path) => {
        struct $transaction {
            inner: sqlx::Transaction<'static, $database>,
            /// To be named in errors.
            place: std::sync::Arc<str>,
        }

        impl $transaction {
            fn bound(
                values: Vec<Value>,
                sql: Sql,
            ) -> sqlx::query::Query<'static, $database, <$database as sqlx::Database>::Arguments> {
                // Long lists are written in many lengths: only fixed statements are worth keeping.
                let fixed = matches!(sql, std::borrow::Cow::Borrowed(_));
                let query = sqlx::query(sqlx::AssertSqlSafe(sql)).persistent(fixed);
                values.into_iter().fold(query, |query, value| match value {
                    Value::Text(text) => query.bind(text),
                    Value::Number(number) => query.bind(number),
                    Value::Nothing => query.bind(None::<String>),
                })
            }

            fn read(row: &<$database as sqlx::Database>::Row) -> sqlx::Result<Row> {
                use sqlx::{Row as _, TypeInfo as _, ValueRef as _};
                let value = |at| {
                    let raw = row.try_get_raw(at)?;
                    if raw.is_null() {
                        return Ok(Value::Nothing);
                    }
                    if raw.type_info().name() == "TEXT" {
                        row.try_get(at).map(Value::Text)
                    } else {
                        row.try_get(at).map(Value::Number)
                    }
                };
                (0..row.len()).map(value).collect::<sqlx::Result<_>>().map(Row)
            }
        }

        impl Transaction for $transaction {
            fn execute(&mut self, sql: Sql, values: Vec<Value>) -> BoxFuture<'_, Result<()>> {
                async move {
                    let done = Self::bound(values, sql).execute(&mut *self.inner).await;
                    done.map(|_| ()).map_err(|error| $failure(&self.place, error))
                }
                .boxed()
            }

            fn rows(&mut self, sql: Sql, values: Vec<Value>) -> BoxFuture<'_, Result<Vec<Row>>> {
                async move {
                    let rows = Self::bound(values, sql).fetch_all(&mut *self.inner).await;
                    rows.and_then(|rows| rows.iter().map(Self::read).collect())
                        .map_err(|error| $failure(&self.place, error))
                }
                .boxed()
            }

            fn commit(self: Box<Self>) -> BoxFuture<'static, Result<()>> {
                async move { self.inner.commit().await.map_err(|error| $failure(&self.place, error)) }.boxed()
            }
        }
    };
}
pub(super) use transaction_of;

/// Implements [`super::Inventory`] for an engine.
macro_rules! inventory_of {
    ($inventory:ty) => {
        impl Inventory for $inventory {
            fn record_after<'a>(
                &'a self,
                before: &'a [super::Unrecorded],
                record: &'a Record,
            ) -> BoxFuture<'a, Result<Recorded>> {
                recording::record(self, before, record).boxed()
            }

            fn summary<'a>(&'a self, ark: &'a Ark) -> BoxFuture<'a, Result<Option<super::Summary>>> {
                reading::summary(self, ark).boxed()
            }

            fn find<'a>(&'a self, owner: &'a str, local_id: &'a str) -> BoxFuture<'a, Result<Option<Ark>>> {
                reading::find(self, owner, local_id).boxed()
            }

            fn object<'a>(&'a self, ark: &'a Ark) -> BoxFuture<'a, Result<Option<Object>>> {
                reading::object(self, ark).boxed()
            }

            fn local_ids<'a>(&'a self, ark: &'a Ark) -> BoxFuture<'a, Result<Vec<String>>> {
                reading::local_ids(self, ark).boxed()
            }

            fn objects<'a>(&'a self, after: Option<&'a str>) -> BoxFuture<'a, Result<Vec<String>>> {
                reading::objects(self, after).boxed()
            }

            fn unlisted<'a>(&'a self, names: &'a [String]) -> BoxFuture<'a, Result<Vec<String>>> {
                reading::unlisted(self, names).boxed()
            }

            fn rows<'a>(&'a self, ark: &'a str) -> BoxFuture<'a, Result<Option<super::Rows>>> {
                reading::rows(self, ark).boxed()
            }

            fn knows<'a>(&'a self, ark: &'a Ark) -> BoxFuture<'a, Result<bool>> {
                ledger::knows(self, ark).boxed()
            }

            fn counters(&self) -> BoxFuture<'_, Result<std::collections::BTreeMap<String, u64>>> {
                ledger::counters(self).boxed()
            }

            fn raise<'a>(&'a self, counters: &'a [(&'a str, u64)]) -> BoxFuture<'a, Result<()>> {
                ledger::raise(self, counters).boxed()
            }

            fn claim<'a>(
                &'a self,
                counter: &'a str,
                numbers: std::ops::Range<u64>,
                prefix: &'a str,
            ) -> BoxFuture<'a, Result<super::Claim>> {
                ledger::claim(self, counter, numbers, prefix).boxed()
            }

            fn place(&self) -> String {
                self.place.to_string()
            }

            fn identity(&self) -> BoxFuture<'_, Result<Option<crate::identity::Identity>>> {
                repository::identity(self).boxed()
            }

            fn identify<'a>(&'a self, identity: &'a crate::identity::Identity) -> BoxFuture<'a, Result<()>> {
                repository::identify(self, identity).boxed()
            }

            fn ingested(
                &self,
                bid: ingest_queue::ids::Bid,
                jid: ingest_queue::ids::Jid,
            ) -> BoxFuture<'_, Result<Option<super::Ingested>>> {
                repository::ingested(self, bid, jid).boxed()
            }

            fn ingests_of(
                &self,
                bid: ingest_queue::ids::Bid,
                jids: std::ops::Range<u32>,
            ) -> BoxFuture<'_, Result<Vec<super::Ingested>>> {
                repository::ingests_of(self, bid, jids).boxed()
            }

            fn replace_job(
                &self,
                lost: ingest_queue::ids::Jid,
                replacement: ingest_queue::ids::Jid,
            ) -> BoxFuture<'_, Result<bool>> {
                repository::replace_job(self, lost, replacement).boxed()
            }
        }
    };
}
pub(super) use inventory_of;
