//! The faults themselves: each is made, seen, and undone before it ends.
//!
//! **When things break.** What the harness cannot do, or what a node does not do that it must, is an error; the run counts
//! it as a breach.

pub(crate) mod bulk;
mod disk;
mod force;
mod holds;
mod links;
mod nodes;
mod servers;
mod settings;
mod znodes;

use anyhow::Result;

use super::kind::Kind;
use super::schedule::Planned;
use super::witness::Outcome;
use super::world::World;

/// Makes a fault, and waits until it is over.
pub(crate) async fn make(world: &World, planned: &Planned) -> Result<Outcome> {
    match planned.kind {
        Kind::Kill => nodes::kill(world, planned).await,
        Kind::Freeze => nodes::freeze(world, planned).await,
        Kind::Replace => nodes::replace(world, planned).await,
        Kind::Drain => nodes::drain(world, planned).await,
        Kind::Leader => servers::leader(world, planned).await,
        Kind::Quorum => servers::quorum(world, planned).await,
        Kind::Rolling => servers::rolling(world).await,
        Kind::Cut => links::cut(world, planned).await,
        Kind::LostAnswer => links::lost_answer(world, planned).await,
        Kind::SlowLink => links::slow(world, planned).await,
        Kind::FullDisk => disk::full(world, planned).await,
        Kind::CorruptNode => znodes::corrupt(world, planned).await,
        Kind::Hold => holds::hold(world, planned).await,
        Kind::Resize => settings::resize(world, planned).await,
        Kind::Reload => settings::reload(world, planned).await,
        Kind::Bulk => bulk::act(world, planned).await,
        Kind::Force => force::rob(world, planned).await,
        Kind::BadServer => Ok(Outcome::Missed("it lies in what is deposited".into())),
    }
}
