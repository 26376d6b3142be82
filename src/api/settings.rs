//! `[api]`.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use ingest_steps::size;
use serde::Deserialize;
use url::Url;

use super::wire::Role;

/// Where the API is served, to whom, and how much of it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ApiSettings {
    /// Address and port; port 0 is any that is free.
    pub listen: SocketAddr,
    /// Where others reach it; absent: at the address that it listens on.
    pub public_url: Option<Url>,
    /// Absent: plain HTTP.
    pub tls: Option<Tls>,
    /// Who may do what. None: whoever reaches it may do everything, and it listens on loopback only.
    pub tokens: Vec<Token>,
    /// Names that requests may have in `Host`, besides those of loopback and of the public URL.
    pub hosts: Vec<String>,
    /// Where uploads are kept while their batch is in the tree.
    pub uploads: PathBuf,
    /// The largest upload, and the largest other body.
    #[serde(with = "size")]
    pub max_upload: u64,
    #[serde(with = "size")]
    pub max_body: u64,
    /// What uploads leave free of the disk that they are on.
    #[serde(with = "size")]
    pub upload_reserve: u64,
    /// Requests a second from one address, with twice as many in a burst.
    pub rate: u32,
    /// Connections at a time.
    pub max_connections: usize,
    /// Streams of live events at a time.
    pub max_streams: usize,
    /// How long an answer may take.
    #[serde(with = "humantime_serde")]
    pub timeout: Duration,
    /// How long a client may send nothing, in the middle of a request.
    #[serde(with = "humantime_serde")]
    pub stall: Duration,
    /// How long URLs of this node's files are good.
    #[serde(with = "humantime_serde")]
    pub urls_last: Duration,
    /// What such URLs are signed with, the same on nodes that share a public URL; absent: made, and kept in `node.dir`.
    pub url_key: Option<UrlKey>,
    /// The most bytes of one file of the audit log; there are two.
    #[serde(with = "size")]
    pub audit_log: u64,
}

impl Default for ApiSettings {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 8086)),
            public_url: None,
            tls: None,
            tokens: Vec::new(),
            hosts: Vec::new(),
            uploads: "data/uploads".into(),
            max_upload: 1 << 40,
            max_body: 16 << 20,
            upload_reserve: 1 << 30,
            rate: 1000,
            max_connections: 1024,
            max_streams: 64,
            timeout: Duration::from_secs(30),
            stall: Duration::from_secs(30),
            urls_last: Duration::from_hours(24 * 90),
            url_key: None,
            audit_log: 4 << 20,
        }
    }
}

/// A certificate and its key, PEM files.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Tls {
    pub cert: PathBuf,
    pub key: PathBuf,
}

/// Somebody who may do something.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Token {
    pub name: String,
    pub role: Role,
    /// Of the token, in hex: the token itself stands nowhere.
    #[serde(deserialize_with = "digest")]
    pub sha256: [u8; 32],
}

/// A secret of the operator's, of any length that cannot be guessed.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct UrlKey(String);

impl UrlKey {
    const SHORTEST: usize = 32;

    pub(crate) fn text(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for UrlKey {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if text.len() < Self::SHORTEST {
            return Err(format!("it is too short: at least {} letters", Self::SHORTEST));
        }
        Ok(Self(text))
    }
}

impl fmt::Debug for UrlKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UrlKey(***)")
    }
}

fn digest<'de, D: serde::Deserializer<'de>>(from: D) -> Result<[u8; 32], D::Error> {
    let text = String::deserialize(from)?;
    let wrong = || serde::de::Error::custom("a sha256 has 64 hex digits");
    if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(wrong());
    }
    let mut digest = [0; 32];
    for (at, byte) in digest.iter_mut().enumerate() {
        let pair = text.get(at * 2..at * 2 + 2).ok_or_else(wrong)?;
        *byte = u8::from_str_radix(pair, 16).map_err(|_| wrong())?;
    }
    Ok(digest)
}

impl ApiSettings {
    /// What is wrong with them together: the key, and why.
    pub(crate) fn problems(&self) -> Vec<(&'static str, String)> {
        let mut found = Vec::new();
        let ip = self.listen.ip();
        if !ip.is_loopback() && self.tokens.is_empty() {
            let why = format!(
                "{ip} can be reached from elsewhere, and there are no tokens: add api.tokens, or listen on 127.0.0.1"
            );
            found.push(("api.listen", why));
        }
        if ip.is_unspecified() && self.public_url.is_none() {
            let why = format!(
                "{ip} is every address of this machine: say by which others reach it, in api.public_url"
            );
            found.push(("api.listen", why));
        }
        if let Some(url) = &self.public_url {
            let whole = matches!(url.scheme(), "http" | "https") && url.has_host();
            if !whole || url.query().is_some() || url.fragment().is_some() || !url.username().is_empty() {
                found.push((
                    "api.public_url",
                    "it is no http or https URL, without user, query and fragment".into(),
                ));
            }
        }
        for (at, token) in self.tokens.iter().enumerate() {
            if token.name.trim().is_empty()
                || token.name.len() > 100
                || token.name.chars().any(char::is_control)
            {
                found.push(("api.tokens", format!("token {at}: its name has 1 to 100 letters")));
            }
            if self.tokens[..at].iter().any(|other| other.sha256 == token.sha256) {
                found.push(("api.tokens", format!("`{}` is somebody else's token, too", token.name)));
            }
            if self.tokens[..at].iter().any(|other| other.name == token.name && other.role != token.role) {
                found.push(("api.tokens", format!("`{}` has two roles", token.name)));
            }
        }
        if let Some(tls) = &self.tls
            && let Err(why) = super::serve::tls(tls)
        {
            found.push(("api.tls", why));
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<ApiSettings, String> {
        toml::from_str(text).map_err(|error| error.message().to_owned())
    }

    fn why(text: &str) -> String {
        let problems = read(text).unwrap().problems();
        problems.iter().map(|(key, why)| format!("{key}: {why}")).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn another_address_needs_tokens() {
        assert_eq!(why("") + &why("listen = '[::1]:0'"), "");
        assert!(why("listen = '192.0.2.1:80'").contains("there are no tokens"));
        let hash = "ab".repeat(32);
        let token = format!("tokens = [{{ name = 'ann', role = 'admin', sha256 = '{hash}' }}]\n");
        assert_eq!(why(&format!("{token}listen = '192.0.2.1:80'")), "");
        assert!(why(&format!("{token}listen = '0.0.0.0:80'")).contains("every address"));
        assert_eq!(why(&format!("{token}listen = '0.0.0.0:80'\npublic_url = 'https://a.example.org'")), "");
        let twice = format!(
            "tokens = [{{ name = 'a', role = 'admin', sha256 = '{hash}' }}, {{ name = 'b', role = 'operator', sha256 = '{hash}' }}]"
        );
        assert!(why(&twice).contains("somebody else's"));
    }

    #[test]
    fn what_cannot_be_read_is_refused() {
        for (text, expected) in [
            ("tokens = [{ name = 'a', role = 'king', sha256 = '' }]", "unknown variant `king`"),
            ("tokens = [{ name = 'a', role = 'admin', sha256 = 'ab' }]", "64 hex digits"),
            ("url_key = 'short'", "too short"),
            ("listen = 'localhost'", "socket address"),
            ("token = []", "unknown field"),
        ] {
            let found = read(text).unwrap_err();
            assert!(found.contains(expected), "{text}: {found}");
        }
        assert!(why("public_url = 'ftp://x/'").contains("no http or https URL"));
        assert!(why("tls = { cert = '/no/such', key = '/no/such' }").contains("/no/such"));
        assert!(!format!("{:?}", read(&format!("url_key = '{}'", "k".repeat(40)))).contains("kkk"));
    }
}
