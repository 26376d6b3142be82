//! Free loopback ports.
//!
//! Ports are taken from below the range that the kernel uses for outgoing connections. Inside that range
//! a client that retries a stopped server can be given the server's own port as its source, is then
//! connected to itself, and keeps the restarted server from binding.
//!
//! Between choosing and binding another process may still take a port; whoever starts a server on one
//! must try again with another.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;

use parking_lot::Mutex;

const RANGE: Range<u16> = 10_240..32_000;

/// Ports handed out in this process, so that two tests of it never race for one.
static TAKEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());

/// A port that nobody listens on at this moment.
pub(crate) fn free() -> u16 {
    for _ in 0..10_000 {
        let port = rand::random_range(RANGE);
        let mut taken = TAKEN.lock();
        if !taken.contains(&port) && TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            taken.insert(port);
            return port;
        }
    }
    panic!("no free loopback port in {RANGE:?}");
}
