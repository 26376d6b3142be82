//! How far fetching goes, as the configuration file says it.

use std::path::PathBuf;
use std::time::Duration;

use url::Url;

use super::address::Allowed;
use crate::size;

/// The section `fetch`. Every key may be left out.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Rules {
    /// Networks (`10.0.0.0/8`) and hosts (`files.example.org`) that may be reached although they are not
    /// public. Default: none.
    pub allowed: Vec<Allowed>,
    /// Where this node serves files itself; exempt from the check of addresses. The node sets it from
    /// `api.public_url`.
    #[serde(skip)]
    pub public_url: Option<Url>,
    /// Directories below which `file:` URLs may point. Default: none, so that all are refused.
    pub file_roots: Vec<PathBuf>,
    /// A PEM file with certificates of authorities that are trusted besides those of this machine. Default:
    /// none.
    pub ca: Option<PathBuf>,
    /// How many redirects one request follows. Default: 10.
    pub max_redirects: u32,
    /// The largest file. Default: 10 TiB.
    #[serde(with = "size")]
    pub max_bytes: u64,
    /// How long a connection may take, with its name and its TLS. Default: 20s.
    #[serde(with = "humantime_serde")]
    pub connect_timeout: Duration,
    /// How long a server may send nothing, before its answer or within it. Default: 60s.
    #[serde(with = "humantime_serde")]
    pub stall: Duration,
    /// The slowest server that is put up with, in bytes a second over the time of `stall`; 0 is no limit.
    /// Default: 64.
    #[serde(with = "size")]
    pub slowest: u64,
    /// How many times a file is tried again, in all. Default: 6.
    pub retries: u32,
    /// The pause before the first retry; it doubles with each, and is shortened by chance by up to a half.
    /// Default: 1s.
    #[serde(with = "humantime_serde")]
    pub backoff: Duration,
    /// The longest pause between retries. Default: 1m.
    #[serde(with = "humantime_serde")]
    pub max_backoff: Duration,
    /// The longest `Retry-After` that is waited for; of a longer one, only so much. Default: 5m.
    #[serde(with = "humantime_serde")]
    pub max_retry_after: Duration,
    /// Requests to one host at a time. Default: 4.
    pub per_host: usize,
    /// Requests of this node at a time. Default: 32.
    pub per_node: usize,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            allowed: Vec::new(),
            public_url: None,
            file_roots: Vec::new(),
            ca: None,
            max_redirects: 10,
            max_bytes: 10 << 40,
            connect_timeout: Duration::from_secs(20),
            stall: Duration::from_mins(1),
            slowest: 64,
            retries: 6,
            backoff: Duration::from_secs(1),
            max_backoff: Duration::from_mins(1),
            max_retry_after: Duration::from_mins(5),
            per_host: 4,
            per_node: 32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_section_is_the_default() {
        assert_eq!(toml::from_str::<Rules>("").unwrap(), Rules::default());
    }

    #[test]
    fn keys_are_read_and_unknown_ones_refused() {
        let text = "allowed = ['10.0.0.0/8', 'files.example.org']\nstall = '90s'\nmax_bytes = '2 GiB'\nslowest = 100";
        let rules: Rules = toml::from_str(text).unwrap();
        assert_eq!((rules.allowed.len(), rules.stall), (2, Duration::from_secs(90)));
        assert_eq!((rules.max_bytes, rules.slowest), (2 << 30, 100));
        assert!(
            toml::from_str::<Rules>("max_redirect = 3").unwrap_err().to_string().contains("max_redirects")
        );
        assert!(toml::from_str::<Rules>("allowed = ['10.0.0.0/99']").is_err());
    }
}
