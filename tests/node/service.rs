//! A node as a service: what its manager is told, and the unit that ships.

use std::os::unix::net::UnixDatagram;
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;

use crate::kit::ENDING;
use crate::place::Place;

/// The end of a service manager that is told things.
struct Manager(UnixDatagram);

impl Manager {
    /// The next message that is not one of those.
    fn told_but(&self, not: &str) -> String {
        loop {
            let mut message = [0; 4096];
            let length = self.0.recv(&mut message).expect("a message in time");
            let text = String::from_utf8(message[..length].to_vec()).unwrap();
            if text != not {
                return text;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_manager_is_told_ready_alive_reloading_and_stopping() {
    let place = Place::shared().await;
    let socket = place.path("notify");
    let manager = Manager(UnixDatagram::bind(&socket).unwrap());
    manager.0.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let setup = place.node("node-1").variable("NOTIFY_SOCKET", socket.to_str().unwrap());
    let node = setup.variable("WATCHDOG_USEC", "400000").start();
    assert_eq!(manager.told_but(""), "READY=1\nSTATUS=takes work");
    for _ in 0..3 {
        assert_eq!(manager.told_but(""), "WATCHDOG=1");
    }
    node.process.signal(Signal::HUP);
    let reloading = manager.told_but("WATCHDOG=1");
    let since =
        reloading.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").unwrap_or_else(|| panic!("{reloading}"));
    assert!(since.parse::<u64>().is_ok(), "{reloading}");
    assert_eq!(manager.told_but("WATCHDOG=1"), "READY=1");
    node.process.signal(Signal::TERM);
    assert_eq!(manager.told_but("WATCHDOG=1"), "STOPPING=1\nSTATUS=draining");
    assert_eq!(node.process.exited(ENDING).await, 0, "{}", node.process.tail());
}

/// `systemd-analyze` knows it all; without it, at least sections and assignments are what they should be.
#[test]
fn the_unit_that_ships_is_sound() {
    let text = std::fs::read_to_string("config/ingestd.service").unwrap();
    let mut section = "";
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        match line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            Some(name) => section = name,
            None => assert!(line.split_once('=').is_some_and(|(key, _)| !key.contains(' ')), "{line}"),
        }
        assert!(["Unit", "Service", "Install"].contains(&section), "{line}");
    }
    for needed in
        ["Type=notify", "WatchdogSec=", "KillMode=mixed", "RestartPreventExitStatus=3", "DynamicUser=yes"]
    {
        assert!(text.contains(needed), "{needed}");
    }
    let dir = tempfile::tempdir().unwrap();
    let unit = dir.path().join("ingestd.service");
    // The one thing that is not as it will be: where the binary is.
    std::fs::write(&unit, text.replace("/usr/local/bin/ingestd", env!("CARGO_BIN_EXE_ingestd"))).unwrap();
    let Ok(output) = Command::new("systemd-analyze").arg("verify").arg(&unit).output() else { return };
    let said = String::from_utf8_lossy(&output.stderr);
    let ours: Vec<&str> = said.lines().filter(|line| line.contains("ingestd.service")).collect();
    assert_eq!(ours, [""; 0], "{said}");
}
