//! Which addresses a depositor's URL may lead to.
//!
//! A URL comes from outside, and the node that follows it stands inside. So every address that is not
//! plainly public is refused, unless the configuration allows its network or its host. The check is made
//! on the address that is connected to: a name is judged each time by what it resolves to, within the
//! resolver of the client, so that a name which changes its address between check and connection gains
//! nothing.
//!
//! **When things break.** A name with public and forbidden addresses is reached at the public ones only. A
//! name that has forbidden ones alone gives [`Forbidden`], which is found again in the client's error.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use url::{Host, Url};

/// A block of addresses, as `10.0.0.0/8` or `fd00::/8`; a single address is a block of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    prefix: u8,
}

impl Network {
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let shift = 32 - u32::from(self.prefix);
                u32::from(own).checked_shr(shift) == u32::from(other).checked_shr(shift)
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                let shift = 128 - u32::from(self.prefix);
                u128::from(own).checked_shr(shift) == u128::from(other).checked_shr(shift)
            }
            _ => false,
        }
    }
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr =
            address.parse().map_err(|_| format!("`{text}` is no network like 10.0.0.0/8"))?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let prefix = match prefix {
            Some(prefix) => prefix
                .parse()
                .ok()
                .filter(|prefix| *prefix <= most)
                .ok_or_else(|| format!("the prefix of `{text}` is not a number from 0 to {most}"))?,
            None => most,
        };
        Ok(Self { address, prefix })
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

/// What is allowed although it is not public: a network, or a host by its name.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Allowed {
    Network(Network),
    Host(String),
}

impl TryFrom<String> for Allowed {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let text = text.trim();
        let numeric = text.contains([':', '/']) || text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        if numeric {
            return text.parse().map(Allowed::Network);
        }
        let named = text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_'));
        if named && !text.is_empty() {
            return Ok(Allowed::Host(plain_host(text)));
        }
        Err(format!("`{text}` is neither a network like 10.0.0.0/8 nor a host like files.example.org"))
    }
}

impl From<Allowed> for String {
    fn from(allowed: Allowed) -> String {
        match allowed {
            Allowed::Network(network) => network.to_string(),
            Allowed::Host(host) => host,
        }
    }
}

/// A name as it is compared: lower case, and without the dot of the root.
fn plain_host(host: &str) -> String {
    host.trim_end_matches('.').to_ascii_lowercase()
}

/// An address that must not be connected to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{host}` is at {address}, which is {why}; if this is meant, add the network or the host to `fetch.allowed`"
)]
pub struct Forbidden {
    pub host: String,
    pub address: IpAddr,
    pub why: &'static str,
}

/// Blocks of IPv4 that are not public (IANA's registry of special-purpose addresses).
const NOT_PUBLIC_4: [([u8; 4], u8, &str); 16] = [
    ([0, 0, 0, 0], 8, "unspecified"),
    ([10, 0, 0, 0], 8, "private"),
    ([100, 64, 0, 0], 10, "shared by a carrier's customers"),
    ([127, 0, 0, 0], 8, "loopback"),
    ([169, 254, 0, 0], 16, "link-local"),
    ([172, 16, 0, 0], 12, "private"),
    ([192, 0, 0, 0], 24, "reserved for protocols"),
    ([192, 0, 2, 0], 24, "for documentation"),
    ([192, 88, 99, 0], 24, "a 6to4 relay"),
    ([192, 168, 0, 0], 16, "private"),
    ([198, 18, 0, 0], 15, "for benchmarks"),
    ([198, 51, 100, 0], 24, "for documentation"),
    ([203, 0, 113, 0], 24, "for documentation"),
    ([224, 0, 0, 0], 4, "multicast"),
    ([255, 255, 255, 255], 32, "broadcast"),
    ([240, 0, 0, 0], 4, "reserved"),
];

/// Blocks of IPv6 that are not public. What is outside of `2000::/3` is not either.
const NOT_PUBLIC_6: [([u16; 8], u8, &str); 13] = [
    ([0; 8], 128, "unspecified"),
    ([0, 0, 0, 0, 0, 0, 0, 1], 128, "loopback"),
    ([0; 8], 96, "an IPv4 address in disguise"),
    ([0, 0, 0, 0, 0xffff, 0, 0, 0], 96, "an IPv4 address in disguise"),
    ([0x64, 0xff9b, 1, 0, 0, 0, 0, 0], 48, "a local translation to IPv4"),
    ([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7, "unique-local"),
    ([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10, "link-local"),
    ([0xfec0, 0, 0, 0, 0, 0, 0, 0], 10, "site-local"),
    ([0xff00, 0, 0, 0, 0, 0, 0, 0], 8, "multicast"),
    ([0x2001, 0, 0, 0, 0, 0, 0, 0], 23, "reserved for protocols"),
    ([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32, "for documentation"),
    ([0x2002, 0, 0, 0, 0, 0, 0, 0], 16, "an IPv4 address in disguise"),
    ([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20, "for documentation"),
];

/// Why an address is not public; None if it is.
pub fn not_public(address: IpAddr) -> Option<&'static str> {
    match address.to_canonical() {
        IpAddr::V4(address) => not_public_4(address),
        IpAddr::V6(address) => not_public_6(address),
    }
}

fn not_public_4(address: Ipv4Addr) -> Option<&'static str> {
    NOT_PUBLIC_4.iter().find_map(|(block, prefix, why)| {
        let network = Network { address: IpAddr::from(*block), prefix: *prefix };
        network.contains(address.into()).then_some(*why)
    })
}

fn not_public_6(address: Ipv6Addr) -> Option<&'static str> {
    let listed = NOT_PUBLIC_6.iter().find_map(|(block, prefix, why)| {
        let network = Network { address: IpAddr::from(*block), prefix: *prefix };
        network.contains(address.into()).then_some(*why)
    });
    if listed.is_some() {
        return listed;
    }
    let words = address.segments();
    // The well-known translation to IPv4: as good as the address that it holds.
    if words[..6] == [0x64, 0xff9b, 0, 0, 0, 0] {
        let [.., a, b, c, d] = address.octets();
        return not_public_4(Ipv4Addr::new(a, b, c, d));
    }
    (words[0] & 0xe000 != 0x2000).then_some("outside of the public addresses")
}

/// Judges hosts and addresses by the rules.
#[derive(Debug, Clone, Default)]
pub(super) struct Guard(Arc<Vec<Allowed>>);

impl Guard {
    pub(super) fn new(allowed: Vec<Allowed>) -> Self {
        Self(Arc::new(allowed))
    }

    /// Refuses an address that is neither public nor allowed.
    pub(super) fn check(&self, host: &str, address: IpAddr) -> Result<(), Forbidden> {
        let Some(why) = not_public(address) else { return Ok(()) };
        let name = plain_host(host);
        let canonical = address.to_canonical();
        let allowed = self.0.iter().any(|allowed| match allowed {
            Allowed::Network(network) => network.contains(address) || network.contains(canonical),
            Allowed::Host(host) => *host == name,
        });
        if allowed { Ok(()) } else { Err(Forbidden { host: host.to_owned(), address, why }) }
    }

    /// The same for a URL, as far as that can be told without asking for a name: an address that is written out does not
    /// pass the resolver, and `localhost` is this machine wherever one asks.
    pub(super) fn check_url(&self, url: &Url) -> Result<(), Forbidden> {
        let address: IpAddr = match url.host() {
            Some(Host::Ipv4(address)) => address.into(),
            Some(Host::Ipv6(address)) => address.into(),
            Some(Host::Domain(name)) if is_localhost(name) => {
                let of_six = self.check(name, Ipv6Addr::LOCALHOST.into());
                return of_six.or_else(|_| self.check(name, Ipv4Addr::LOCALHOST.into()));
            }
            Some(Host::Domain(_)) | None => return Ok(()),
        };
        self.check(url.host_str().unwrap_or_default(), address)
    }
}

fn is_localhost(name: &str) -> bool {
    let name = plain_host(name);
    name == "localhost" || name.ends_with(".localhost")
}

/// Resolves names, and keeps only the addresses that may be connected to. Clones share it.
#[derive(Clone)]
pub(super) struct GuardedNames {
    pub(super) guard: Guard,
    pub(super) names: Arc<dyn Resolve>,
}

impl fmt::Debug for GuardedNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("GuardedNames").field(&self.guard).finish()
    }
}

impl GuardedNames {
    /// Refuses a name that has addresses, and none that may be connected to.
    pub(super) async fn check(&self, host: &str) -> Result<(), Forbidden> {
        let Ok(name) = host.parse::<Name>() else { return Ok(()) };
        match self.resolve(name).await {
            Err(error) => error.downcast::<Forbidden>().map_or(Ok(()), |forbidden| Err(*forbidden)),
            Ok(_) => Ok(()),
        }
    }
}

impl Resolve for GuardedNames {
    fn resolve(&self, name: Name) -> Resolving {
        let host = name.as_str().to_owned();
        let guard = self.guard.clone();
        let resolving = self.names.resolve(name);
        Box::pin(async move {
            let mut kept = Vec::new();
            let mut refused = None;
            for address in resolving.await? {
                match guard.check(&host, address.ip()) {
                    Ok(()) => kept.push(address),
                    Err(forbidden) => refused = Some(forbidden),
                }
            }
            match refused {
                Some(forbidden) if kept.is_empty() => Err(forbidden.into()),
                _ => Ok(Box::new(kept.into_iter()) as Addrs),
            }
        })
    }
}

/// The names as the system knows them.
#[derive(Debug, Clone, Copy)]
pub struct SystemNames;

impl Resolve for SystemNames {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let found: Vec<SocketAddr> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn every_kind_of_address_that_is_not_public_is_known() {
        for text in [
            "0.0.0.0",
            "0.1.2.3",
            "10.1.2.3",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "127.9.9.9",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.1",
            "192.0.2.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.7",
            "203.0.113.7",
            "224.0.0.1",
            "239.1.1.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::7f00:1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::ffff:0:127.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b::10.0.0.1",
            "64:ff9b:1::1",
            "100::1",
            "2001::1",
            "2001:10::1",
            "2001:db8::1",
            "2002:7f00:1::",
            "2002:808:808::1",
            "3fff::1",
            "5f00::1",
            "fc00::1",
            "fd12:3456::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
            "4000::1",
        ] {
            assert!(not_public(ip(text)).is_some(), "{text} is taken for public");
        }
    }

    #[test]
    fn public_addresses_are_let_through() {
        for text in [
            "1.1.1.1",
            "8.8.8.8",
            "100.63.255.255",
            "100.128.0.1",
            "172.15.0.1",
            "172.32.0.1",
            "192.0.1.1",
            "198.20.0.1",
            "223.255.255.255",
            "2606:4700::1111",
            "2001:4860:4860::8888",
            "::ffff:8.8.8.8",
            "64:ff9b::8.8.8.8",
        ] {
            assert_eq!(not_public(ip(text)), None, "{text}");
        }
    }

    #[test]
    fn a_network_and_a_host_can_be_allowed() {
        let allow = |text: &str| Guard::new(vec![Allowed::try_from(text.to_owned()).unwrap()]);
        let net = allow("10.0.0.0/8");
        assert!(net.check("a", ip("10.200.1.1")).is_ok());
        assert!(net.check("a", ip("::ffff:10.200.1.1")).is_ok(), "the same address, written otherwise");
        assert!(net.check("a", ip("192.168.0.1")).is_err());
        let host = allow("Files.Example.org");
        assert!(host.check("files.example.ORG.", ip("127.0.0.1")).is_ok());
        assert!(host.check("other.example.org", ip("127.0.0.1")).is_err());
        assert!(allow("0.0.0.0/0").check("a", ip("127.0.0.1")).is_ok());
        assert!(allow("::1").check("a", ip("::1")).is_ok());
        assert!(allow("fd00::/8").check("a", ip("fc00::1")).is_err());
    }

    #[test]
    fn a_url_is_judged_by_what_is_written_in_it() {
        let guard = Guard::new(vec![Allowed::try_from("10.0.0.0/8".to_owned()).unwrap()]);
        let judged = |text: &str| guard.check_url(&text.parse().unwrap()).map_err(|forbidden| forbidden.why);
        for text in [
            "http://127.0.0.1/x",
            "http://localhost:80/",
            "https://a.LocalHost./",
            "http://0x7f.1/",
            "http://2130706433/",
        ] {
            assert_eq!(judged(text), Err("loopback"), "{text}");
        }
        assert_eq!(judged("http://[::1]/x"), Err("loopback"));
        assert_eq!(judged("http://169.254.169.254/latest"), Err("link-local"));
        for text in
            ["http://10.1.2.3/", "http://8.8.8.8/", "http://localhost.example.org/", "file:///etc/passwd"]
        {
            assert_eq!(judged(text), Ok(()), "{text}");
        }
    }

    #[test]
    fn what_is_neither_network_nor_host_is_refused_with_its_text() {
        for text in ["10.0.0.0/33", "10.0.0/8", "fd00::/129", "", "a b", "1.2.3", "*.example.org"] {
            let error = Allowed::try_from(text.to_owned()).unwrap_err();
            assert!(error.contains(&format!("`{text}`")), "{error}");
        }
    }

    #[test]
    fn a_refusal_names_host_address_reason_and_remedy() {
        let error = Guard::default().check("intranet", ip("192.168.0.9")).unwrap_err().to_string();
        assert_eq!(
            error,
            "`intranet` is at 192.168.0.9, which is private; if this is meant, add the network or the host to `fetch.allowed`"
        );
    }
}
