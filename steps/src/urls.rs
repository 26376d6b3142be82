//! URLs of this node's own files: uploads, working files, storage manifests, what was put together for access.
//!
//! `{public}/files/{path}?expires=SECONDS&signature=HEX`: nobody can guess one, and each is good for a time and for one
//! file. The signature is an HMAC-SHA-256 over the path and the time, by a key that the node keeps. Whoever has the URL
//! may fetch: another node, the storage service, the inventory.
//!
//! **When things break.** Another key, another path or another time is a wrong signature. A URL whose time is over is
//! told apart only from those that were signed here.

use std::fmt::{self, Write as _};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hmac::{Hmac, KeyInit as _, Mac as _};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use sha2::Sha256;
use url::Url;

/// What stays as it is in an element of a URL.
pub(crate) const ELEMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Where files are served, and by which key their URLs are signed. Clones share it.
#[derive(Clone, PartialEq, Eq)]
pub struct Urls {
    public: Url,
    key: Arc<[u8; 32]>,
    last: Duration,
}

/// What a URL is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Good,
    /// It was signed here, and its time is over.
    Over,
    Wrong,
}

impl Urls {
    /// `public` is where the node answers; URLs are good for `last`.
    pub fn new(public: Url, key: [u8; 32], last: Duration) -> Self {
        Self { public, key: Arc::new(key), last }
    }

    pub fn public(&self) -> &Url {
        &self.public
    }

    /// The URL of a file. The path is plain: its elements are encoded here.
    pub fn sign(&self, path: &str) -> Result<Url, String> {
        self.sign_at(path, SystemTime::now())
    }

    fn sign_at(&self, path: &str, now: SystemTime) -> Result<Url, String> {
        let since = now.checked_add(self.last).unwrap_or(now).duration_since(UNIX_EPOCH);
        let expires = since.map_or(0, |since| since.as_secs());
        let elements: Vec<_> =
            path.split('/').map(|part| utf8_percent_encode(part, ELEMENT).to_string()).collect();
        let base = self.public.as_str().trim_end_matches('/');
        let signature = hex(&self.mac(path, expires).finalize().into_bytes());
        let url = format!("{base}/files/{}?expires={expires}&signature={signature}", elements.join("/"));
        Url::parse(&url).map_err(|error| format!("{base}: {error}"))
    }

    /// A signature of something that is no file, such as what one node asks another: until when it is good, and itself.
    pub fn vouch(&self, what: &str, lasting: Duration) -> (u64, String) {
        let until = SystemTime::now() + lasting;
        let expires = until.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        (expires, hex(&self.mac(&voucher(what), expires).finalize().into_bytes()))
    }

    /// Whether a node with the same key has vouched for it until then.
    pub fn is_vouched(&self, what: &str, expires: u64, signature: &str) -> Verdict {
        self.check(&voucher(what), expires, signature)
    }

    /// Whether this node has signed the path until then. How long it takes says nothing about the signature.
    pub fn check(&self, path: &str, expires: u64, signature: &str) -> Verdict {
        let Some(given) = bytes(signature) else { return Verdict::Wrong };
        if self.mac(path, expires).verify_slice(&given).is_err() {
            return Verdict::Wrong;
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        if now < expires { Verdict::Good } else { Verdict::Over }
    }

    fn mac(&self, path: &str, expires: u64) -> Hmac<Sha256> {
        // A key that is shorter than a block is filled with zeros, as HMAC does it.
        let mut block = [0; 64];
        block[..32].copy_from_slice(&*self.key);
        let mut mac = Hmac::<Sha256>::new(&block.into());
        // The number has a fixed length, so that no path can be taken for another with another time.
        mac.update(&expires.to_be_bytes());
        mac.update(path.as_bytes());
        mac
    }
}

/// No path of a file begins so.
fn voucher(what: &str) -> String {
    format!("\0{what}")
}

impl fmt::Debug for Urls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Urls({}, {:?})", self.public, self.last)
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn bytes(hex: &str) -> Option<Vec<u8>> {
    let whole = hex.len() == 64 && hex.bytes().all(|byte| byte.is_ascii_hexdigit());
    whole.then(|| {
        (0..64).step_by(2).filter_map(|at| u8::from_str_radix(hex.get(at..at + 2)?, 16).ok()).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn urls(key: u8, last: u64) -> Urls {
        let public = Url::parse("http://node.example.org:8086/base/").unwrap();
        Urls::new(public, [key; 32], Duration::from_secs(last))
    }

    fn parts(url: &Url) -> (u64, String) {
        let get = |name: &str| url.query_pairs().find(|(key, _)| key == name).unwrap().1.into_owned();
        (get("expires").parse().unwrap(), get("signature"))
    }

    #[test]
    fn a_url_is_good_for_one_path_one_time_and_one_key() {
        let path = "work/bid0000000001/a b/ü?#.txt";
        let url = urls(1, 60).sign(path).unwrap();
        assert_eq!(url.path(), "/base/files/work/bid0000000001/a%20b/%C3%BC%3F%23.txt");
        let (expires, signature) = parts(&url);
        assert_eq!(urls(1, 60).check(path, expires, &signature), Verdict::Good);
        assert_eq!(urls(1, 60).check("work/other", expires, &signature), Verdict::Wrong);
        assert_eq!(urls(1, 60).check(path, expires + 1, &signature), Verdict::Wrong);
        assert_eq!(urls(2, 60).check(path, expires, &signature), Verdict::Wrong);
        for wrong in ["", "00", &signature[1..], &signature.replace(|c: char| c.is_ascii_digit(), "x")] {
            assert_eq!(urls(1, 60).check(path, expires, wrong), Verdict::Wrong, "{wrong}");
        }
        assert!(!format!("{:?}", urls(7, 1)).contains("7, 7"));
    }

    #[test]
    fn a_url_whose_time_is_over_says_so() {
        let long_ago = SystemTime::now() - Duration::from_secs(100);
        let (expires, signature) = parts(&urls(1, 60).sign_at("a", long_ago).unwrap());
        assert_eq!(urls(1, 60).check("a", expires, &signature), Verdict::Over);
        assert_eq!(urls(2, 60).check("a", expires, &signature), Verdict::Wrong);
    }

    #[test]
    fn a_voucher_is_for_one_thing_and_no_url_of_a_file() {
        let (expires, signature) = urls(1, 60).vouch("node GET /x", Duration::from_mins(5));
        assert_eq!(urls(1, 9).is_vouched("node GET /x", expires, &signature), Verdict::Good);
        assert_eq!(urls(1, 60).is_vouched("node GET /y", expires, &signature), Verdict::Wrong);
        assert_eq!(urls(1, 60).is_vouched("node GET /x", expires + 1, &signature), Verdict::Wrong);
        assert_eq!(urls(2, 60).is_vouched("node GET /x", expires, &signature), Verdict::Wrong);
        assert_eq!(urls(1, 60).check("node GET /x", expires, &signature), Verdict::Wrong);
        let (expires, signature) = urls(1, 60).vouch("x", Duration::ZERO);
        assert_eq!(urls(1, 60).is_vouched("x", expires, &signature), Verdict::Over);
    }
}
