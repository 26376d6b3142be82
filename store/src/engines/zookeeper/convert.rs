//! Between the client's types and ours.
//!
//! Every failure of the transport becomes [`Kind::ConnectionLoss`], however the client calls it (an
//! end of file, a link without answers, a client that was closed under the request): the request was
//! handed over, so it may have been applied.

use zookeeper_client as zk;

use crate::error::{Error, Kind};
use crate::node::{Mode, Stat};
use crate::watch::SessionState;

pub(super) fn stat(stat: &zk::Stat) -> Stat {
    Stat {
        czxid: stat.czxid,
        mzxid: stat.mzxid,
        pzxid: stat.pzxid,
        ctime: stat.ctime,
        mtime: stat.mtime,
        version: stat.version,
        cversion: stat.cversion,
        aversion: stat.aversion,
        ephemeral_owner: stat.ephemeral_owner,
        data_length: stat.data_length,
        num_children: stat.num_children,
    }
}

pub(super) fn mode(mode: Mode) -> zk::CreateMode {
    match mode {
        Mode::Persistent => zk::CreateMode::Persistent,
        Mode::Ephemeral => zk::CreateMode::Ephemeral,
        Mode::PersistentSequential => zk::CreateMode::PersistentSequential,
        Mode::EphemeralSequential => zk::CreateMode::EphemeralSequential,
    }
}

pub(super) fn state(state: zk::SessionState) -> SessionState {
    match state {
        zk::SessionState::SyncConnected => SessionState::Connected,
        zk::SessionState::Disconnected | zk::SessionState::ConnectedReadOnly => SessionState::Suspended,
        zk::SessionState::Expired => SessionState::Expired,
        zk::SessionState::AuthFailed | zk::SessionState::Closed => SessionState::Closed,
    }
}

pub(super) fn error(error: &zk::Error, path: &str) -> Error {
    use zk::Error as Z;
    let at = |kind| Error::at(kind, path);
    match error {
        Z::NoNode => at(Kind::NoNode),
        Z::NodeExists => at(Kind::NodeExists),
        Z::BadVersion => at(Kind::BadVersion),
        Z::NotEmpty => at(Kind::NotEmpty),
        Z::NoChildrenForEphemerals => at(Kind::NoChildrenForEphemerals),
        Z::NoAuth => at(Kind::NoAuth),
        Z::InvalidAcl => at(Kind::InvalidAcl),
        Z::BadArguments(why) => Error::new(Kind::BadArguments, **why).with_path(path),
        Z::SessionExpired => Error::new(Kind::Expired, ""),
        Z::AuthFailed => Error::new(Kind::AuthFailed, ""),
        Z::Throttled => Error::new(Kind::Busy, "the server throttles this client"),
        Z::ConnectionLoss
        | Z::Timeout
        | Z::NoHosts
        | Z::SessionMoved
        | Z::ClientClosed
        | Z::NotReadOnly
        | Z::Custom(_) => Error::new(Kind::ConnectionLoss, error.to_string()),
        other => Error::new(Kind::Unexpected, other.to_string()).with_path(path),
    }
}
