//! The status of a batch or of an access item.

use bytes::Bytes;

use super::fields::Fields;
use super::{Node, Other, Unreadable, encode};
use crate::date::Date;
use crate::dialect::Dialect;
use crate::states::States;

/// Where a thing is, since when and why.
#[derive(Debug, Clone, PartialEq)]
pub struct Status<S> {
    pub status: S,
    pub last_modified: Option<Date>,
    pub message: String,
    /// The last commits that have set it, newest last: how an author finds out whether its was applied.
    pub commits: Vec<String>,
    pub other: Other,
}

impl<S: States> Status<S> {
    const COMMITS: usize = 8;

    pub fn new(status: S, at: Date) -> Self {
        let (message, commits, other) = (String::new(), Vec::new(), Other::new());
        Self { status, last_modified: Some(at), message, commits, other }
    }

    /// The status after a commit.
    pub fn next(&self, status: S, at: Date, message: &str, commit: &str) -> Self {
        let kept = self.commits.len().saturating_sub(Self::COMMITS - 1);
        let mut commits = self.commits[kept..].to_vec();
        commits.push(commit.to_owned());
        let (last_modified, message) = (Some(at), message.to_owned());
        Self { status, last_modified, message, commits, other: self.other.clone() }
    }
}

impl<S: States> Node for Status<S> {
    fn read(data: &[u8]) -> Result<Self, Unreadable> {
        let mut fields = Fields::read(data)?;
        Ok(Self {
            status: fields.state("status")?.ok_or_else(|| Unreadable("it has no status".into()))?,
            last_modified: fields.modified()?,
            message: fields.text("message")?.unwrap_or_default(),
            commits: fields.texts("commits")?,
            other: fields.rest(),
        })
    }

    fn write(&self, dialect: Dialect) -> Bytes {
        let date = self.last_modified.map(|date| match dialect {
            Dialect::Design => date.to_string(),
            Dialect::MrtZk => date.to_merritt(),
        });
        let mut map = self.other.clone();
        map.insert("status".into(), self.status.json_name(dialect).into());
        map.insert("last_modified".into(), date.into());
        map.insert("message".into(), self.message.as_str().into());
        if !self.commits.is_empty() {
            map.insert("commits".into(), self.commits.clone().into());
        }
        encode(&map)
    }
}
