//! Items of the access queues as lines of a listing: the small ones first, each queue in the order of its ids.

use std::fmt;
use std::str::FromStr;

use ingest_store::Session;
use serde::{Deserialize, Serialize};

use super::node::{self, Read, Trouble};
use super::{Look, Page, PageRequest, candidates, turn, width};
use crate::error::Result;
use crate::ids::Aid;
use crate::map::AccessSize;
use crate::nodes::{AccessStatus, AccessToken, Node};
use crate::states::AccessState;

/// A choice of items. All that is said must hold.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AccessFilter {
    /// Of this queue alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<AccessSize>,
    /// Any of these.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub states: Vec<AccessState>,
    /// This one: each queue may have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aid: Option<Aid>,
}

/// What a person sees of an item.
#[derive(Debug, Clone, PartialEq)]
pub struct AccessLine {
    pub size: AccessSize,
    pub aid: Aid,
    pub status: AccessStatus,
    /// Empty if it cannot be read.
    pub token: AccessToken,
}

/// A place in the order of all items, `small-qid0000000007`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) size: AccessSize,
    pub(super) aid: Aid,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.size.name(), self.aid)
    }
}

impl FromStr for Place {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (size, aid) = text.split_once('-').ok_or(())?;
        let size = AccessSize::ALL.into_iter().find(|known| known.name() == size).ok_or(())?;
        Ok(Self { size, aid: aid.parse().map_err(|_| ())? })
    }
}

/// A page of the access items that a filter selects.
pub async fn access(
    session: &Session,
    filter: &AccessFilter,
    page: &PageRequest,
) -> Result<Page<AccessLine>> {
    let (limit, after) = page.read()?;
    let candidates = candidates::access(session, filter, after, page.newest_first).await?;
    let look = |place| look(session, filter, place);
    let mut page = turn(&candidates.ids, limit, width(session), look).await?;
    page.unreadable.splice(0..0, candidates.bad);
    Ok(page)
}

async fn look(session: &Session, filter: &AccessFilter, place: Place) -> Result<Look<AccessLine>> {
    node::settled(find(session, filter, place).await)
}

async fn find(session: &Session, filter: &AccessFilter, place: Place) -> Read<Look<AccessLine>> {
    let Place { size, aid } = place;
    let Some(status) = node::read_status::<AccessStatus>(session, size.item(aid), size.status(aid)).await?
    else {
        return Ok(Look::nothing());
    };
    if !filter.states.is_empty() && !filter.states.contains(&status.status) {
        return Ok(Look::nothing());
    }
    let mut unreadable = Vec::new();
    let token = node::read(session, size.token(aid), AccessToken::read).await;
    let token = node::spare(token, &mut unreadable).map_err(Trouble::Ends)?.unwrap_or_default();
    Ok(Look { line: Some(AccessLine { size, aid, status, token }), unreadable })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_queue_and_an_id() {
        let place: Place = "large-qid0000000007".parse().unwrap();
        assert_eq!(
            (place.size, place.aid, place.to_string().as_str()),
            (AccessSize::Large, Aid::new(7), "large-qid0000000007")
        );
        assert!("small-qid1999999999".parse::<Place>().unwrap() < place, "the small ones come first");
        for wrong in ["", "qid0000000007", "medium-qid0000000007", "small-7", "small-jid0000000007", "small"]
        {
            assert!(wrong.parse::<Place>().is_err(), "{wrong}");
        }
    }
}
