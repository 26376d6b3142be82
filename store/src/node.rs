//! What is known about a node, and what can be asked of the tree.

use bytes::Bytes;

use crate::error::{Error, Kind, Result};
use crate::path;

/// The most bytes that one request may carry: paths, data and framing together. ZooKeeper drops the
/// connection of a client that sends a little more than this, so it is refused before it is sent.
pub const MAX_REQUEST: usize = 1_040_000;

/// The longest chroot: the client puts it before each path, and it counts.
pub(crate) const MAX_CHROOT: usize = 64;

/// What ZooKeeper's wire format adds to a path and its data, per operation, at the most: headers,
/// lengths, flags and the access list (52 bytes), and the chroot.
const FRAMING: usize = 64 + MAX_CHROOT;

/// A node's counters and times. All are ZooKeeper's, with its meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stat {
    /// The transaction that created the node.
    pub czxid: i64,
    /// The transaction that last set its data.
    pub mzxid: i64,
    /// The transaction that last created or deleted one of its children.
    pub pzxid: i64,
    /// When it was created, in milliseconds of the server's clock.
    pub ctime: i64,
    /// When its data was last set.
    pub mtime: i64,
    /// How often its data was set.
    pub version: i32,
    /// How many children were created and deleted, together.
    pub cversion: i32,
    /// How often its access list was set.
    pub aversion: i32,
    /// The session that owns it, 0 for a persistent node.
    pub ephemeral_owner: i64,
    pub data_length: i32,
    pub num_children: i32,
}

impl Stat {
    /// The number that the next sequential child will get. It never goes back.
    pub fn next_sequence(&self) -> i32 {
        // In 64 bits: the sum of two counters may pass what 32 hold.
        let sum = i64::from(self.cversion) + i64::from(self.num_children);
        i32::try_from(sum / 2).unwrap_or(i32::MAX)
    }
}

/// How a node lives and how it gets its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mode {
    Persistent,
    /// Ends with its session.
    Ephemeral,
    /// The parent's counter, in ten digits, is appended to the name.
    PersistentSequential,
    EphemeralSequential,
}

impl Mode {
    pub fn is_ephemeral(self) -> bool {
        matches!(self, Mode::Ephemeral | Mode::EphemeralSequential)
    }

    pub fn is_sequential(self) -> bool {
        matches!(self, Mode::PersistentSequential | Mode::EphemeralSequential)
    }
}

/// One write. Alone it is a request, several make a multi. A version of `None` means any.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Op {
    Check { path: String, version: Option<i32> },
    Create { path: String, data: Bytes, mode: Mode },
    Set { path: String, data: Bytes, version: Option<i32> },
    Delete { path: String, version: Option<i32> },
}

impl Op {
    /// Refuses the multi unless the node is there and has this version.
    pub fn check(path: impl Into<String>, version: impl Into<Option<i32>>) -> Self {
        Op::Check { path: path.into(), version: version.into() }
    }

    /// Creates a persistent node.
    pub fn create(path: impl Into<String>, data: impl Into<Bytes>) -> Self {
        Op::Create { path: path.into(), data: data.into(), mode: Mode::Persistent }
    }

    /// Creates a node that ends with this session.
    pub fn ephemeral(path: impl Into<String>, data: impl Into<Bytes>) -> Self {
        Op::Create { path: path.into(), data: data.into(), mode: Mode::Ephemeral }
    }

    pub fn set(path: impl Into<String>, data: impl Into<Bytes>, version: impl Into<Option<i32>>) -> Self {
        Op::Set { path: path.into(), data: data.into(), version: version.into() }
    }

    pub fn delete(path: impl Into<String>, version: impl Into<Option<i32>>) -> Self {
        Op::Delete { path: path.into(), version: version.into() }
    }

    pub fn path(&self) -> &str {
        match self {
            Op::Check { path, .. }
            | Op::Create { path, .. }
            | Op::Set { path, .. }
            | Op::Delete { path, .. } => path,
        }
    }

    /// The bytes that this operation adds to a request, not less than it really does.
    pub fn size(&self) -> usize {
        let data = match self {
            Op::Create { data, .. } | Op::Set { data, .. } => data.len(),
            Op::Check { .. } | Op::Delete { .. } => 0,
        };
        self.path().len() + data + FRAMING
    }

    fn validate(&self) -> Result<()> {
        match self {
            Op::Check { path, version } | Op::Set { path, version, .. } => {
                path::validate(path, false)?;
                not_negative(path, *version)
            }
            Op::Create { path, mode, .. } => not_the_root(path, mode.is_sequential()),
            Op::Delete { path, version } => {
                not_the_root(path, false)?;
                not_negative(path, *version)
            }
        }
    }
}

/// A sequential create directly below the root needs a prefix: the client cannot send it without.
fn not_the_root(path: &str, sequential: bool) -> Result<()> {
    if path == "/" {
        return Err(Error::new(Kind::BadArguments, "the root cannot be created or deleted").with_path("/"));
    }
    path::validate(path, sequential)
}

/// On the wire -1 means "any": a version that was computed wrongly must not become a way around the
/// fence.
fn not_negative(path: &str, version: Option<i32>) -> Result<()> {
    match version {
        Some(version) if version < 0 => {
            Err(Error::new(Kind::BadArguments, format!("{version} is not a version")).with_path(path))
        }
        _ => Ok(()),
    }
}

/// What one operation of a multi did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OpResult {
    Checked,
    /// With the name as made: a sequential one is longer than the one asked for.
    Created {
        path: String,
    },
    /// With the new version: the next fence.
    Set {
        stat: Stat,
    },
    Deleted,
}

/// One request to an engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    Get(String),
    Exists(String),
    Children(String),
    /// Several nodes as they are at one moment.
    GetMany(Vec<String>),
    /// The paths of this session's ephemeral nodes at or below a path.
    Ephemerals(String),
    Sync,
    Create {
        path: String,
        data: Bytes,
        mode: Mode,
    },
    Set {
        path: String,
        data: Bytes,
        version: Option<i32>,
    },
    Delete {
        path: String,
        version: Option<i32>,
    },
    Multi(Vec<Op>),
}

/// An engine's answer; each fits the request of the same name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    Get { data: Bytes, stat: Stat },
    Exists(Option<Stat>),
    Children { names: Vec<String>, stat: Stat },
    GetMany(Vec<Option<(Bytes, Stat)>>),
    Ephemerals(Vec<String>),
    Sync,
    Create { path: String, stat: Stat },
    Set(Stat),
    Delete,
    Multi(Vec<OpResult>),
}

impl Request {
    /// Everything that can be refused without asking the tree.
    pub(crate) fn validate(&self) -> Result<()> {
        match self {
            Request::Get(path)
            | Request::Exists(path)
            | Request::Children(path)
            | Request::Ephemerals(path) => path::validate(path, false),
            Request::GetMany(paths) => {
                paths.iter().try_for_each(|path| path::validate(path, false))?;
                fits(paths.first().map_or("/", String::as_str), self.size())
            }
            Request::Sync => Ok(()),
            Request::Create { path, mode, .. } => {
                not_the_root(path, mode.is_sequential())?;
                fits(path, self.size())
            }
            Request::Set { path, version, .. } => {
                path::validate(path, false)?;
                not_negative(path, *version)?;
                fits(path, self.size())
            }
            Request::Delete { path, version } => {
                not_the_root(path, false)?;
                not_negative(path, *version)
            }
            Request::Multi(ops) => {
                for (index, op) in ops.iter().enumerate() {
                    op.validate().map_err(|error| error.with_op(index))?;
                }
                fits(ops.first().map_or("/", Op::path), self.size())
            }
        }
    }

    /// The bytes of the request, not less than it really has.
    pub(crate) fn size(&self) -> usize {
        match self {
            Request::Get(path)
            | Request::Exists(path)
            | Request::Children(path)
            | Request::Ephemerals(path)
            | Request::Delete { path, .. } => path.len() + FRAMING,
            Request::GetMany(paths) => paths.iter().map(|path| path.len() + FRAMING).sum(),
            Request::Sync => FRAMING,
            Request::Create { path, data, .. } | Request::Set { path, data, .. } => {
                path.len() + data.len() + FRAMING
            }
            Request::Multi(ops) => ops.iter().map(Op::size).sum(),
        }
    }
}

fn fits(path: &str, size: usize) -> Result<()> {
    if size <= MAX_REQUEST {
        return Ok(());
    }
    let why = format!("{size} bytes, and a request holds at most {MAX_REQUEST}");
    Err(Error::new(Kind::TooLarge, why).with_path(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_over_the_limit_is_refused_and_one_below_it_is_not() {
        let set = |n: usize| Request::Set { path: "/a".into(), data: vec![0; n].into(), version: None };
        assert!(set(1_000_000).validate().is_ok());
        let error = set(MAX_REQUEST).validate().unwrap_err();
        assert_eq!(error.kind(), Kind::TooLarge);
        assert!(error.to_string().starts_with("/a: too large for one request: 10401"), "{error}");
    }

    #[test]
    fn a_multi_is_measured_as_a_whole() {
        let op = Op::create("/a", vec![0; 600_000]);
        assert!(Request::Multi(vec![op.clone()]).validate().is_ok());
        assert_eq!(Request::Multi(vec![op.clone(), op]).validate().unwrap_err().kind(), Kind::TooLarge);
    }

    #[test]
    fn the_next_sequence_number_counts_creates_only() {
        let stat = Stat { cversion: 7, num_children: 3, ..Stat::default() };
        assert_eq!(stat.next_sequence(), 5);
    }
}
