//! What a service manager is told: ready, reloading, stopping, alive.
//!
//! Without `NOTIFY_SOCKET` nobody is told anything. A message that cannot be sent is lost, and nobody is stopped by it.

use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// The way to the service manager, if there is one.
#[derive(Debug, Default)]
pub(crate) struct Systemd {
    to: Option<(UnixDatagram, SocketAddr)>,
    watchdog: Option<Duration>,
}

impl Systemd {
    /// As the environment of this process says.
    pub(crate) fn of_process() -> Self {
        let socket = std::env::var_os("NOTIFY_SOCKET");
        let address = socket.as_deref().and_then(|socket| match socket.as_bytes() {
            [b'@', name @ ..] => SocketAddr::from_abstract_name(name).ok(),
            _ => SocketAddr::from_pathname(socket).ok(),
        });
        let to = address.and_then(|address| Some((UnixDatagram::unbound().ok()?, address)));
        let ours = std::env::var("WATCHDOG_PID").map_or(true, |pid| pid == std::process::id().to_string());
        let every = std::env::var("WATCHDOG_USEC").ok().and_then(|text| text.parse().ok());
        // Twice in the time, so that one beat may be late.
        let watchdog = every.filter(|_| ours).map(|every| Duration::from_micros(every) / 2);
        Self { watchdog: watchdog.filter(|_| to.is_some()), to }
    }

    /// How often it is to be said that the process is alive.
    pub(crate) fn watchdog(&self) -> Option<Duration> {
        self.watchdog
    }

    pub(crate) fn say(&self, what: &str) {
        if let Some((socket, address)) = &self.to {
            let _ = socket.send_to_addr(what.as_bytes(), address);
        }
    }

    /// Since when, by the clock that the manager compares with.
    pub(crate) fn reloading(&self) {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let micros = i128::from(now.tv_sec) * 1_000_000 + i128::from(now.tv_nsec) / 1_000;
        self.say(&format!("RELOADING=1\nMONOTONIC_USEC={micros}"));
    }
}
