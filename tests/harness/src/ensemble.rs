//! Several real servers that elect a leader.
//!
//! [`Ensemble::start`] returns when all members serve. Each fault returns when it has taken effect: a
//! killed leader is gone, a lost quorum is noticed by the survivor, a healed ensemble serves everywhere.
//! Who leads is asked from the members themselves (`srvr`), never assumed.

use std::thread;

use rustix::process::Signal;

use crate::clock::{PATIENCE, off_runtime, poll};
use crate::config::ServerConfig;
use crate::four_letter::mode;
use crate::ports;
use crate::server::{Membership, NotServing, Server};

const ATTEMPTS: usize = 3;

/// Where the others find a member; ids are counted from 1.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seat {
    pub(crate) id: usize,
    /// Where a leader is followed.
    pub(crate) quorum: u16,
    pub(crate) election: u16,
}

impl Seat {
    fn line(&self) -> String {
        let Seat { id, quorum, election } = self;
        format!("server.{id}=127.0.0.1:{quorum}:{election}")
    }
}

/// A running ensemble; members are counted from 0.
#[derive(Debug, Clone)]
pub struct Ensemble {
    members: Vec<Server>,
}

impl Ensemble {
    /// Starts `size` members with every default.
    pub async fn start(size: usize) -> Ensemble {
        Self::start_with(size, ServerConfig::default()).await
    }

    /// Starts `size` members that share a configuration (but never a data directory).
    pub async fn start_with(size: usize, config: ServerConfig) -> Ensemble {
        off_runtime(move || Self::start_blocking(size, &config, |_, seen| seen.to_vec())).await
    }

    /// `view` says where a member finds the others: it is told the member's id, and where they really are.
    pub(crate) fn start_blocking(
        size: usize,
        config: &ServerConfig,
        mut view: impl FnMut(usize, &[Seat]) -> Vec<Seat>,
    ) -> Ensemble {
        assert!(config.data_dir.is_none(), "members of an ensemble cannot share a data directory");
        for _ in 0..ATTEMPTS {
            let seats: Vec<_> =
                (1..=size).map(|id| Seat { id, quorum: ports::free(), election: ports::free() }).collect();
            let launch = |id| {
                let lines = view(id, &seats).iter().map(Seat::line).collect();
                let membership = Membership { id, lines };
                Server::launch(config, ports::free(), Some(&membership))
            };
            let members: Vec<_> = (1..=size).map(launch).collect();
            match members.iter().try_for_each(Server::wait_until_serving) {
                Ok(()) => return Ensemble { members },
                Err(NotServing::PortTaken) => {}
                Err(NotServing::Failed(why)) => panic!("{why}"),
            }
        }
        panic!("no ensemble: {ATTEMPTS} times somebody else took one of its ports first");
    }

    /// All members, as a client wants them.
    pub fn connect_string(&self) -> String {
        let members: Vec<_> = self.members.iter().map(Server::connect_string).collect();
        members.join(",")
    }

    pub fn connect_string_of(&self, index: usize) -> String {
        self.members[index].connect_string()
    }

    pub fn server(&self, index: usize) -> &Server {
        &self.members[index]
    }

    pub fn servers(&self) -> &[Server] {
        &self.members
    }

    /// Waits until exactly one member leads. A paused member is not asked: it may still believe it does.
    pub async fn leader(&self) -> usize {
        let ensemble = self.clone();
        off_runtime(move || ensemble.leader_blocking()).await
    }

    fn leader_blocking(&self) -> usize {
        let leader = poll(PATIENCE, || {
            let mut leaders = (0..self.members.len()).filter(|&index| self.leads(index));
            leaders.next().filter(|_| leaders.next().is_none())
        });
        leader.unwrap_or_else(|| panic!("the ensemble {} elects no leader", self.connect_string()))
    }

    fn leads(&self, index: usize) -> bool {
        let member = &self.members[index];
        let asked = member.is_running() && !member.is_paused();
        asked && mode(member.address()).is_some_and(|mode| mode == "leader" || mode == "standalone")
    }

    /// Kills the leader and returns which it was. The others elect another; wait for [`Self::leader`].
    pub async fn kill_leader(&self) -> usize {
        let leader = self.leader().await;
        self.members[leader].kill().await;
        leader
    }

    /// Kills all members but one, waits until that one no longer serves, and returns which it is.
    pub async fn lose_quorum(&self) -> usize {
        let ensemble = self.clone();
        off_runtime(move || {
            let running = |index: &usize| ensemble.members[*index].is_running();
            let survivor = (0..ensemble.members.len()).find(running).expect("a member that runs");
            for (_, member) in ensemble.members.iter().enumerate().filter(|(index, _)| *index != survivor) {
                member.end_blocking(Signal::KILL);
            }
            let address = ensemble.members[survivor].address();
            let noticed = poll(PATIENCE, || mode(address).is_none().then_some(()));
            assert!(noticed.is_some(), "{address} still serves without a quorum");
            survivor
        })
        .await
    }

    /// Resumes and restarts whatever is not running, and waits until every member serves.
    pub async fn heal(&self) {
        let ensemble = self.clone();
        off_runtime(move || {
            for member in &ensemble.members {
                if !member.is_running() {
                    member.relaunch();
                } else if member.is_paused() {
                    member.resume();
                }
            }
            ensemble.members.iter().for_each(Server::require_serving);
        })
        .await;
    }

    /// Freezes a member; see [`Server::pause`].
    pub fn pause(&self, index: usize) {
        self.members[index].pause();
    }

    pub fn resume(&self, index: usize) {
        self.members[index].resume();
    }

    /// Restarts every member, one after the other; each serves again before the next one stops.
    pub async fn rolling_restart(&self) {
        for member in &self.members {
            member.restart().await;
        }
    }
}

impl Drop for Ensemble {
    fn drop(&mut self) {
        // Each member's end takes some milliseconds; together they take no longer than one.
        thread::scope(|scope| {
            for member in self.members.drain(..) {
                scope.spawn(move || drop(member));
            }
        });
    }
}
