//! The connection string, taken apart with errors that say what is wrong, and the question why a
//! server does not answer.

use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::error::{Error, Kind, Result};
use crate::node::MAX_CHROOT;
use crate::path;

/// The hosts of an ensemble, and the node below which this application keeps its tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) hosts: Vec<String>,
    pub(super) chroot: Option<String>,
}

impl Address {
    /// `host:port,host:port/chroot`; a missing port is 2181.
    pub(super) fn parse(connect: &str) -> Result<Self> {
        let refuse = |why: String| {
            let example = "expected host:port,host:port/chroot";
            Err(Error::new(Kind::BadArguments, format!("connection string {connect:?}: {why}; {example}")))
        };
        let (hosts, chroot) = match connect.find('/') {
            Some(at) => (&connect[..at], Some(&connect[at..])),
            None => (connect, None),
        };
        let mut parsed = Vec::new();
        for host in hosts.split(',').map(str::trim) {
            if host.is_empty() {
                return refuse("an empty host".into());
            }
            match with_port(host) {
                Ok(host) => parsed.push(host),
                Err(why) => return refuse(why),
            }
        }
        let chroot = chroot.filter(|chroot| *chroot != "/");
        if let Some(chroot) = chroot
            && let Err(error) = path::validate(chroot, false)
        {
            return refuse(format!("chroot {error}"));
        }
        if let Some(chroot) = chroot
            && chroot.len() > MAX_CHROOT
        {
            return refuse(format!(
                "the chroot has {} bytes, and at most {MAX_CHROOT} are allowed",
                chroot.len()
            ));
        }
        Ok(Self { hosts: parsed, chroot: chroot.map(str::to_owned) })
    }

    /// The hosts alone, as the client wants them.
    pub(super) fn cluster(&self) -> String {
        self.hosts.join(",")
    }

    /// Why no session could be had, host by host, as far as it can be seen from here.
    pub(super) async fn diagnose(&self) -> String {
        let mut reasons = Vec::new();
        for host in &self.hosts {
            let reason = match timeout(Duration::from_secs(2), TcpStream::connect(host)).await {
                Ok(Ok(_)) => "accepts connections but gives no session (starting, without quorum, or TLS on one side only)".into(),
                Ok(Err(error)) => error.to_string(),
                Err(_) => "does not answer".into(),
            };
            reasons.push(format!("{host}: {reason}"));
        }
        reasons.join("; ")
    }
}

fn with_port(host: &str) -> Result<String, String> {
    if host.contains("://") || host.contains(char::is_whitespace) || host.contains('@') {
        return Err(format!("{host:?} is not a host"));
    }
    // An IPv6 address has its own colons, and stands in brackets.
    let (name, port) = match (host.starts_with('['), host.rfind(']'), host.rfind(':')) {
        (true, None, _) => return Err(format!("{host:?} lacks a closing bracket")),
        (true, Some(end), _) if end + 1 == host.len() => (host, None),
        (true, Some(end), Some(colon)) if colon == end + 1 => (&host[..colon], Some(&host[colon + 1..])),
        (true, ..) => return Err(format!("{host:?} has something after its bracket that is not a port")),
        (false, _, Some(colon)) => (&host[..colon], Some(&host[colon + 1..])),
        (false, _, None) => (host, None),
    };
    if name.is_empty() || name == "[]" {
        return Err(format!("{host:?} has no host name"));
    }
    match port {
        None => Ok(format!("{name}:2181")),
        Some(port) => match port.parse::<u16>() {
            Ok(number) if number > 0 => Ok(host.to_owned()),
            _ => Err(format!("{port:?} is not a port")),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_ports_and_chroot_are_found() {
        let address = Address::parse("a:1, b,[::1]:3/ingest/main").unwrap();
        assert_eq!(address.hosts, ["a:1", "b:2181", "[::1]:3"]);
        assert_eq!(address.chroot.as_deref(), Some("/ingest/main"));
        assert_eq!(Address::parse("a:1/").unwrap().chroot, None);
    }

    #[test]
    fn a_chroot_that_would_not_fit_into_every_request_is_refused() {
        let chroot = format!("/{}", "c".repeat(MAX_CHROOT - 1));
        assert!(Address::parse(&format!("a:1{chroot}")).is_ok());
        let error = Address::parse(&format!("a:1{chroot}c")).unwrap_err();
        assert!(error.to_string().contains("at most 64"), "{error}");
    }

    #[test]
    fn a_bad_connection_string_is_refused_with_its_reason() {
        for (connect, why) in [
            ("", "empty host"),
            ("a:1,,b:2", "empty host"),
            ("a:0", "\"0\" is not a port"),
            ("a:99999", "is not a port"),
            ("a:port", "is not a port"),
            (":2181", "no host name"),
            ("[::1", "closing bracket"),
            ("[::1]x", "not a port"),
            ("user@host:1", "is not a host"),
            ("a b:1", "is not a host"),
            ("a:1/x/", "end with '/'"),
            ("a:1/x//y", "empty name"),
        ] {
            let error = Address::parse(connect).expect_err(connect);
            assert_eq!(error.kind(), Kind::BadArguments, "{connect}");
            let text = error.to_string();
            assert!(text.contains(why) && text.contains("expected host:port"), "{connect}: {text}");
        }
    }
}
