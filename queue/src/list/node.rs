//! Reading one node for a listing: it is there, it is not, or it cannot be read.

use ingest_store::{Kind, Session};
use serde::Serialize;

use super::Look;
use crate::date::Date;
use crate::error::{Error, Result};
use crate::nodes::{Node, Owner, Unreadable};
use crate::reads;

/// Something that could not be read, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unread {
    pub path: String,
    pub why: String,
}

impl Unread {
    pub(super) fn new(path: impl Into<String>, why: &impl ToString) -> Self {
        Self { path: path.into(), why: why.to_string() }
    }
}

/// Who holds a lock. A lock that does not say so is a lock all the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LockedBy {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    pub since: Date,
}

/// Why a read gave nothing to show.
#[derive(Debug)]
pub(super) enum Trouble {
    /// Reported, and the listing goes on.
    Unread(Unread),
    /// The listing ends.
    Ends(Error),
}

impl From<ingest_store::Error> for Trouble {
    fn from(error: ingest_store::Error) -> Self {
        Trouble::Ends(error.into())
    }
}

pub(super) type Read<T> = std::result::Result<T, Trouble>;

/// A node's content; `None` if it is not there.
pub(super) async fn read<T>(
    session: &Session,
    path: String,
    parse: impl Fn(&[u8]) -> Result<T, Unreadable>,
) -> Read<Option<T>> {
    match reads::get(session, &path).await {
        Ok((data, _)) => match parse(&data) {
            Ok(content) => Ok(Some(content)),
            Err(why) => Err(Trouble::Unread(Unread::new(path, &why))),
        },
        Err(error) if error.kind() == Kind::NoNode => Ok(None),
        // Somebody else's node, among ours.
        Err(error) if error.kind() == Kind::NoAuth => Err(Trouble::Unread(Unread::new(path, &error))),
        Err(error) => Err(error.into()),
    }
}

/// The status of a job or a batch; `None` if the whole thing is gone.
pub(super) async fn read_status<T: Node>(session: &Session, thing: String, path: String) -> Read<Option<T>> {
    let status = read(session, path.clone(), T::read).await?;
    if status.is_none() && reads::exists(session, thing).await?.is_some() {
        return Err(Trouble::Unread(Unread::new(path, &"it is missing")));
    }
    Ok(status)
}

/// Who holds the lock at this path, if anybody does.
pub(super) async fn locked_by(session: &Session, path: String) -> Read<Option<LockedBy>> {
    match reads::get(session, path).await {
        Ok((data, stat)) => {
            let owner = Owner::read(&data).unwrap_or_default();
            let node = Some(owner.node).filter(|node| !node.is_empty());
            Ok(Some(LockedBy { node, since: owner.since.unwrap_or(Date::from_millis(stat.ctime)) }))
        }
        Err(error) if matches!(error.kind(), Kind::NoNode | Kind::NoAuth) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// For parts that a line can do without: what cannot be read is reported, and left out.
pub(super) fn spare<T: Default>(part: Read<T>, unreadable: &mut Vec<Unread>) -> Result<T> {
    part.or_else(|trouble| match trouble {
        Trouble::Unread(what) => {
            unreadable.push(what);
            Ok(T::default())
        }
        Trouble::Ends(error) => Err(error),
    })
}

/// What a look has shown, when its most important part may be unreadable.
pub(super) fn settled<T>(look: Read<Look<T>>) -> Result<Look<T>> {
    look.or_else(|trouble| match trouble {
        Trouble::Unread(what) => Ok(Look::unreadable(what)),
        Trouble::Ends(error) => Err(error),
    })
}
