//! What can go wrong, sorted by what a caller does next.
//!
//! An [`Error`] has a [`Kind`] to match on and a message for people that names the path and, in a
//! multi, the operation. The one question that every caller has to ask is answered by
//! [`Error::outcome`]: was the request certainly not applied, or *perhaps* applied?

use std::fmt;

/// Result of a store call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The reason of a failure. The first group are ZooKeeper's own answers, the same on both engines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Kind {
    /// The node, or the parent of a node to create, is not there.
    NoNode,
    /// A node to create is there already.
    NodeExists,
    /// The node has another version than the one named.
    BadVersion,
    /// A node to delete has children.
    NotEmpty,
    /// Ephemeral nodes cannot have children.
    NoChildrenForEphemerals,
    /// The session's identity may not do this to the node.
    NoAuth,
    /// The access list of a create is not usable for this session.
    InvalidAcl,
    /// A malformed path, name, address or option; nothing was sent.
    BadArguments,
    /// More bytes than a server accepts in one request; nothing was sent.
    TooLarge,

    /// The connection broke while the request was under way.
    ConnectionLoss,
    /// No answer within the deadline of the call. The request may still be applied later.
    Deadline,

    /// Too many requests were waiting until the deadline; nothing was sent.
    Busy,
    /// The session stayed disconnected until the deadline; nothing was sent.
    Suspended,

    /// The session is over on the server, its ephemeral nodes are gone.
    Expired,
    /// The session was closed or replaced by a new one on this side; nothing was sent.
    Closed,
    /// The server refused the credentials.
    AuthFailed,
    /// No server could be reached within the configured limit.
    Unreachable,

    /// The embedded store is open in another process.
    InUse,
    /// Data that this program did not write, or that is damaged.
    Corrupt,
    /// The disk below the embedded store failed.
    Disk,
    /// An answer that has no place in the protocol.
    Unexpected,
}

/// What is known about a failed request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It was certainly not applied and never will be.
    NotApplied,
    /// It was applied, or will be, or not: look before repeating it.
    Unknown,
}

/// What a caller does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// The tree is not as the caller thought: read again and decide again.
    ReadAgain,
    /// Find out whether it was applied, on this session.
    FindOut,
    /// Try the same again a little later.
    RetryLater,
    /// Everything that this session owned is lost: build a new one.
    Rebuild,
    /// The request itself is wrong; repeating it cannot help.
    GiveUp,
    /// The store cannot be used any more: stop the node with this message.
    StopNode,
}

/// A failed store call.
#[derive(Debug, Clone, thiserror::Error)]
pub struct Error {
    kind: Kind,
    op: Option<usize>,
    path: Option<String>,
    detail: String,
}

impl Error {
    /// A failure of this kind. For whoever implements an engine.
    pub fn new(kind: Kind, detail: impl Into<String>) -> Self {
        Self { kind, op: None, path: None, detail: detail.into() }
    }

    /// The same, about a path.
    pub fn at(kind: Kind, path: &str) -> Self {
        Self { kind, op: None, path: Some(path.to_owned()), detail: String::new() }
    }

    pub(crate) fn with_path(mut self, path: &str) -> Self {
        self.path.get_or_insert_with(|| path.to_owned());
        self
    }

    /// The same, as the failure of a multi at this operation.
    pub fn with_op(mut self, index: usize) -> Self {
        self.op = Some(index);
        self
    }

    /// The reason, to match on.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The index of the operation that refused a multi; nothing of the multi was applied.
    pub fn failed_op(&self) -> Option<usize> {
        self.op
    }

    /// The same failure, seen by the author of some operations in the middle of a multi that begin at
    /// `start`.
    pub fn relative_to(mut self, start: usize) -> Self {
        self.op = self.op.and_then(|op| op.checked_sub(start));
        self
    }

    /// The path that the failure is about, if it is about one.
    pub fn path(&self) -> Option<&str> {
        self.path.as_deref()
    }

    /// Whether the request may have been applied all the same.
    pub fn outcome(&self) -> Outcome {
        match self.kind {
            Kind::ConnectionLoss | Kind::Deadline | Kind::Expired | Kind::Unexpected | Kind::Disk => {
                Outcome::Unknown
            }
            _ => Outcome::NotApplied,
        }
    }

    /// What the caller should do about it.
    pub fn next(&self) -> Next {
        match self.kind {
            Kind::NoNode
            | Kind::NodeExists
            | Kind::BadVersion
            | Kind::NotEmpty
            | Kind::NoChildrenForEphemerals => Next::ReadAgain,
            Kind::ConnectionLoss | Kind::Deadline | Kind::Unexpected => Next::FindOut,
            Kind::Busy | Kind::Suspended | Kind::Unreachable => Next::RetryLater,
            Kind::Expired | Kind::Closed => Next::Rebuild,
            Kind::NoAuth | Kind::InvalidAcl | Kind::BadArguments | Kind::TooLarge | Kind::AuthFailed => {
                Next::GiveUp
            }
            Kind::InUse | Kind::Corrupt | Kind::Disk => Next::StopNode,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(op) = self.op {
            write!(f, "operation {op} of the multi: ")?;
        }
        match &self.path {
            Some(path) => write!(f, "{path}: {}", self.kind)?,
            None => write!(f, "{}", self.kind)?,
        }
        if !self.detail.is_empty() {
            write!(f, ": {}", self.detail)?;
        }
        Ok(())
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::NoNode => "no such node",
            Kind::NodeExists => "the node exists already",
            Kind::BadVersion => "the node has another version",
            Kind::NotEmpty => "the node has children",
            Kind::NoChildrenForEphemerals => "an ephemeral node cannot have children",
            Kind::NoAuth => {
                "not permitted: check the configured user and password, and the node's access list"
            }
            Kind::InvalidAcl => "the access list is not valid for this session",
            Kind::BadArguments => "bad argument",
            Kind::TooLarge => "too large for one request",
            Kind::ConnectionLoss => "the connection was lost before an answer came",
            Kind::Deadline => "no answer within the deadline",
            Kind::Busy => "too many requests are waiting",
            Kind::Suspended => "not connected",
            Kind::Expired => "the session has expired",
            Kind::Closed => "the session is closed",
            Kind::AuthFailed => "the server refused the credentials",
            Kind::Unreachable => "no server could be reached",
            Kind::InUse => "the store is in use",
            Kind::Corrupt => "damaged or foreign data",
            Kind::Disk => "the disk failed",
            Kind::Unexpected => "unexpected answer",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_multi_names_the_operation_the_path_and_the_reason() {
        let error = Error::at(Kind::BadVersion, "/jobs/jid0000000007/status").with_op(3);
        assert_eq!(
            error.to_string(),
            "operation 3 of the multi: /jobs/jid0000000007/status: the node has another version"
        );
        assert_eq!(error.failed_op(), Some(3));
    }

    #[test]
    fn every_transport_failure_means_perhaps() {
        for kind in [Kind::ConnectionLoss, Kind::Deadline, Kind::Expired] {
            assert_eq!(Error::new(kind, "").outcome(), Outcome::Unknown, "{kind:?}");
        }
        for kind in [Kind::Busy, Kind::Suspended, Kind::Closed, Kind::BadVersion, Kind::TooLarge] {
            assert_eq!(Error::new(kind, "").outcome(), Outcome::NotApplied, "{kind:?}");
        }
    }
}
