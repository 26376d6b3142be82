//! Reading a mark, and what it leads to.

use std::collections::BTreeMap;

use futures::future::OptionFuture;
use ingest_store::{Stat, path};

use super::super::reader::{Found, Reader, Seen};
use super::super::{requests, sharded};
use super::{LeadsTo, Mark, MarkView, is_under_way, lost_job, outgoing};
use crate::error::Result;
use crate::ids::{Bid, Jid};
use crate::limits::Holding;
use crate::map::{self, BatchNode, JobNode};
use crate::nodes::{BatchStatus, JobStatus, Keys, LocalId, Node, read_id};
use crate::shared;

pub(in super::super) async fn look(reader: &Reader, mark: Mark, at: &str) -> Result<MarkView> {
    let seen = reader.get(at).await?;
    let stat = seen.as_ref().map_or(Stat::default(), |(_, stat)| *stat);
    let node = match seen {
        Some((value, stat)) => Seen::Good { value, found: Found::from(stat) },
        None => Seen::Missing,
    };
    let leads_to = match (mark, node.good()) {
        (Mark::Uuid, Some(data)) => batch(reader, read_id(data).ok()).await?,
        (Mark::Key | Mark::ClaimedKey, Some(data)) => {
            keyed(reader, &Keys::read(data).unwrap_or_default()).await?
        }
        (Mark::Outgoing, Some(_)) => batch(reader, outgoing(path::name(at)).map(|(bid, _)| bid)).await?,
        (Mark::Reservation, Some(data)) => holder(reader, LocalId::read(data).unwrap_or_default()).await?,
        (Mark::Date, _) => match map::parse_journal_date(path::name(at)) {
            Some((_, jid)) => {
                let there = reader.stat(&map::job(jid)).await?;
                let status_at = JobNode::Status.of(jid);
                let status = there.map(|_| reader.read::<JobStatus>(&status_at));
                LeadsTo::Dated(jid, OptionFuture::from(status).await.transpose()?)
            }
            None => LeadsTo::Nothing,
        },
        (Mark::Slot, Some(_)) => slot(reader, path::parent(at)).await?,
        (Mark::AccessStatus | Mark::AccessToken, _) => {
            LeadsTo::Item(reader.stat(path::parent(at)).await?.is_some())
        }
        (Mark::Request | Mark::RequestLock | Mark::RequestResult | Mark::OfRequest, _) => {
            LeadsTo::Request(Box::new(requests::look(reader, path::name(at)).await?))
        }
        (Mark::Profile | Mark::Conf, Some(_)) => {
            LeadsTo::Sharded(sharded::look(reader, at, shared::readable).await?.value.trouble())
        }
        _ => LeadsTo::Nothing,
    };
    let (ephemeral, children) = (stat.ephemeral_owner != 0, stat.num_children);
    Ok(MarkView { mark, path: at.to_owned(), node, ephemeral, children, leads_to })
}

async fn batch(reader: &Reader, bid: Option<Bid>) -> Result<LeadsTo> {
    let Some(bid) = bid else {
        return Ok(LeadsTo::Nothing);
    };
    let there = reader.stat(&map::batch(bid)).await?;
    let status_at = BatchNode::Status.of(bid);
    let status =
        OptionFuture::from(there.map(|_| reader.read::<BatchStatus>(&status_at))).await.transpose()?;
    Ok(LeadsTo::Batch(bid, status.map(|status| status.map(|status| status.status))))
}

async fn keyed(reader: &Reader, keys: &Keys) -> Result<LeadsTo> {
    let mut found = BTreeMap::new();
    for bid in keys.keys.iter().flat_map(|keyed| keyed.waiting.into_iter().chain(keyed.running)) {
        if let LeadsTo::Batch(bid, state) = batch(reader, Some(bid)).await? {
            found.insert(bid, state);
        }
    }
    Ok(LeadsTo::Keyed(found))
}

async fn job(reader: &Reader, jid: Option<Jid>) -> Result<LeadsTo> {
    let Some(jid) = jid else {
        return Ok(LeadsTo::Nothing);
    };
    let there = reader.stat(&map::job(jid)).await?;
    let status_at = JobNode::Status.of(jid);
    let status = OptionFuture::from(there.map(|_| reader.read::<JobStatus>(&status_at))).await.transpose()?;
    Ok(LeadsTo::Job(jid, status.map(|status| status.map(|status| status.status))))
}

/// Who took a slot, and whether they still are at it. Whoever works on a job has its lock.
async fn slot(reader: &Reader, at: &str) -> Result<LeadsTo> {
    let Some((data, stat)) = reader.get(at).await? else { return Ok(LeadsTo::Nothing) };
    let jid = Holding::read(&data).ok().and_then(|holding| holding.job);
    let locked = match jid {
        Some(jid) => reader.stat(&JobNode::Lock.of(jid)).await?.is_some(),
        None => false,
    };
    Ok(LeadsTo::Slot(jid, locked, stat.version))
}

/// The job that a local id is kept for: of several the first that has not ended.
async fn holder(reader: &Reader, reserved: LocalId) -> Result<LeadsTo> {
    let mut found = job(reader, reserved.jid).await?;
    for jid in reserved.also {
        if lost_job(&found, is_under_way).is_none() {
            break;
        }
        found = job(reader, Some(jid)).await?;
    }
    Ok(found)
}
