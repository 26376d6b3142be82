//! An ensemble whose first member can fall behind.
//!
//! That member hears from its leader through a link of its own, which can be held back: then it goes on to serve its
//! clients what it knows, while the others decide without it. It never leads: of members that know the same, the one with
//! the highest id does.
//!
//! Neither the member nor its leader gives up within a minute, and neither do sessions that ask for one as long: what is
//! left of a test then is a member that has begun anew.

use std::net::{Ipv4Addr, SocketAddr};

use crate::clock::off_runtime;
use crate::config::ServerConfig;
use crate::ensemble::{Ensemble, Seat};
use crate::faults::Direction;
use crate::proxy::Proxy;

/// The member that can fall behind.
const MEMBER: usize = 0;

/// The ensemble and the links of its first member.
#[derive(Debug)]
pub struct Laggard {
    ensemble: Ensemble,
    links: Vec<Proxy>,
}

impl Laggard {
    /// Starts three members; all serve, and none is behind.
    pub async fn start() -> Laggard {
        // 120 ticks of half a second.
        let config = ServerConfig::default().line("syncLimit=120");
        let (ensemble, links) = off_runtime(move || {
            let mut links = Vec::new();
            let ensemble = Ensemble::start_blocking(3, &config, |id, seats| {
                if id != MEMBER + 1 {
                    return seats.to_vec();
                }
                // Those of an attempt whose ports were taken go.
                links = seats.iter().map(link).collect();
                let ports = links.iter().map(|link| link.address().port());
                seats.iter().zip(ports).map(|(seat, port)| through(*seat, port)).collect()
            });
            (ensemble, links)
        })
        .await;
        let leader = ensemble.leader().await;
        assert_ne!(leader, MEMBER, "the member with the lowest id leads");
        Laggard { ensemble, links }
    }

    /// The member that can fall behind, as its clients want it.
    pub fn connect_string(&self) -> String {
        self.ensemble.connect_string_of(MEMBER)
    }

    /// All others.
    pub fn others(&self) -> String {
        let others = (0..self.ensemble.servers().len()).filter(|index| *index != MEMBER);
        others.map(|index| self.ensemble.connect_string_of(index)).collect::<Vec<_>>().join(",")
    }

    /// From now on it learns nothing that the others decide.
    pub fn fall_behind(&self) {
        for link in &self.links {
            link.stall(Direction::ToClient);
        }
    }

    /// It learns everything that it has missed.
    pub fn catch_up(&self) {
        self.links.iter().for_each(Proxy::heal);
    }
}

fn link(to: &Seat) -> Proxy {
    Proxy::start_raw(SocketAddr::from((Ipv4Addr::LOCALHOST, to.quorum)))
}

/// Itself it has to find where it listens; only leaders are found through a link.
fn through(seat: Seat, port: u16) -> Seat {
    if seat.id == MEMBER + 1 { seat } else { Seat { quorum: port, ..seat } }
}
