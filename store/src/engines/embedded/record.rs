//! How a node lies in the file.
//!
//! The key of a node is its parent's path, a zero byte, and its name: no path holds a zero byte, so
//! the children of a node are one range of keys, in the order of their names. The root's key is
//! empty. The value is a fixed header of counters, little-endian, and then the data.
//!
//! `creates` counts the children ever created, as ZooKeeper's server does inside: it is the next
//! sequence number, and the `cversion` that clients see is derived from it and the live children.

use bytes::Bytes;

use crate::error::{Error, Kind, Result};
use crate::node::Stat;
use crate::path;

pub(super) type Key = Vec<u8>;

/// Written into the file when it is made; any other number is refused.
pub(super) const FORMAT: u64 = 1;

const HEADER: usize = 5 * 8 + 3 * 4 + 8;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) czxid: i64,
    pub(super) mzxid: i64,
    pub(super) pzxid: i64,
    pub(super) ctime: i64,
    pub(super) mtime: i64,
    pub(super) version: i32,
    pub(super) creates: i32,
    pub(super) children: i32,
    pub(super) owner: i64,
    pub(super) data: Bytes,
}

impl Node {
    pub(super) fn stat(&self) -> Stat {
        Stat {
            czxid: self.czxid,
            mzxid: self.mzxid,
            pzxid: self.pzxid,
            ctime: self.ctime,
            mtime: self.mtime,
            version: self.version,
            cversion: self.creates.wrapping_mul(2).wrapping_sub(self.children),
            aversion: 0,
            ephemeral_owner: self.owner,
            data_length: i32::try_from(self.data.len()).unwrap_or(i32::MAX),
            num_children: self.children,
        }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut value = Vec::with_capacity(HEADER + self.data.len());
        for long in [self.czxid, self.mzxid, self.pzxid, self.ctime, self.mtime] {
            value.extend_from_slice(&long.to_le_bytes());
        }
        for int in [self.version, self.creates, self.children] {
            value.extend_from_slice(&int.to_le_bytes());
        }
        value.extend_from_slice(&self.owner.to_le_bytes());
        value.extend_from_slice(&self.data);
        value
    }

    pub(super) fn decode(value: &[u8]) -> Result<Self> {
        let mut fields = Fields(value);
        let node = (|| {
            Some(Self {
                czxid: fields.long()?,
                mzxid: fields.long()?,
                pzxid: fields.long()?,
                ctime: fields.long()?,
                mtime: fields.long()?,
                version: fields.int()?,
                creates: fields.int()?,
                children: fields.int()?,
                owner: fields.long()?,
                data: Bytes::copy_from_slice(fields.0),
            })
        })();
        node.ok_or_else(|| {
            Error::new(Kind::Corrupt, format!("a node's record has only {} bytes", value.len()))
        })
    }
}

/// What is left of a record while it is read; struct expressions are evaluated in the order written.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn long(&mut self) -> Option<i64> {
        self.take().map(i64::from_le_bytes)
    }

    fn int(&mut self) -> Option<i32> {
        self.take().map(i32::from_le_bytes)
    }

    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*field)
    }
}

pub(super) fn key(path: &str) -> Key {
    if path == "/" {
        return Key::new();
    }
    let (parent, name) = (path::parent(path), path::name(path));
    let mut key = Key::with_capacity(path.len() + 2);
    key.extend_from_slice(parent.as_bytes());
    key.push(0);
    key.extend_from_slice(name.as_bytes());
    key
}

/// The range of the keys of a node's children, and how many bytes of each come before the name.
pub(super) fn children_range(path: &str) -> (Key, Key, usize) {
    let mut from = Key::with_capacity(path.len() + 1);
    from.extend_from_slice(path.as_bytes());
    let mut to = from.clone();
    from.push(0);
    to.push(1);
    let skip = from.len();
    (from, to, skip)
}

/// The key of an ephemeral node in the index of ephemerals: those of one session lie together.
pub(super) fn owned_key(owner: i64, path: &str) -> Key {
    let mut key = owner.to_be_bytes().to_vec();
    key.extend_from_slice(path.as_bytes());
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_reads_back_as_it_was_written() {
        let node = Node {
            czxid: 1,
            mzxid: -2,
            pzxid: i64::MAX,
            ctime: 4,
            mtime: 5,
            version: 6,
            creates: 7,
            children: 3,
            owner: -9,
            data: Bytes::from_static(b"data"),
        };
        assert_eq!(Node::decode(&node.encode()).unwrap(), node);
        assert_eq!(node.stat().cversion, 11);
    }

    #[test]
    fn a_record_that_is_cut_short_is_corrupt() {
        for length in 0..HEADER {
            assert_eq!(Node::decode(&vec![0; length]).unwrap_err().kind(), Kind::Corrupt, "{length}");
        }
        assert!(Node::decode(&[0; HEADER]).is_ok());
    }

    #[test]
    fn the_children_of_a_node_are_one_range_and_nobody_elses() {
        let (from, to, skip) = children_range("/a");
        let inside = |path: &str| (from.clone()..to.clone()).contains(&key(path));
        assert!(inside("/a/x") && inside("/a/!") && inside("/a/\u{ffff0}"));
        assert!(!inside("/a") && !inside("/ab") && !inside("/a/x/y") && !inside("/ab/x") && !inside("/"));
        assert_eq!(&key("/a/name")[skip..], b"name");
    }
}
