//! Digests: the algorithms that depositors and services name, and several of one stream at once.

use std::fmt;
use std::io;
use std::path::Path;
use std::str::FromStr;

use sha2::Digest as _;

use crate::outcome::{Cancel, Failure, Progress};

/// An algorithm that is known here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Algorithm {
    Crc32,
    Md5,
    Sha1,
    Sha256,
    Sha512,
}

impl Algorithm {
    pub const ALL: [Algorithm; 5] =
        [Algorithm::Crc32, Algorithm::Md5, Algorithm::Sha1, Algorithm::Sha256, Algorithm::Sha512];

    /// As specifications write it.
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::Crc32 => "crc32",
            Algorithm::Md5 => "md5",
            Algorithm::Sha1 => "sha-1",
            Algorithm::Sha256 => "sha-256",
            Algorithm::Sha512 => "sha-512",
        }
    }

    /// As file names and OCFL write it: without the hyphen.
    pub fn plain_name(self) -> &'static str {
        match self {
            Algorithm::Sha1 => "sha1",
            Algorithm::Sha256 => "sha256",
            Algorithm::Sha512 => "sha512",
            other => other.name(),
        }
    }

    /// How many hex digits a value has.
    pub fn digits(self) -> usize {
        match self {
            Algorithm::Crc32 => 8,
            Algorithm::Md5 => 32,
            Algorithm::Sha1 => 40,
            Algorithm::Sha256 => 64,
            Algorithm::Sha512 => 128,
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why something is no digest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotADigest {
    #[error("`{0}` is no digest algorithm; known are crc32, md5, sha-1, sha-256, sha-512")]
    Algorithm(String),
    #[error("a {algorithm} digest has {} hex digits, and `{value}` has {} characters", .algorithm.digits(), .value.chars().count())]
    Length { algorithm: Algorithm, value: String },
    #[error("`{0}` is not hexadecimal")]
    Hex(String),
}

impl FromStr for Algorithm {
    type Err = NotADigest;

    /// Any case, with or without hyphens or underscores.
    fn from_str(text: &str) -> Result<Self, NotADigest> {
        let plain: String =
            text.chars().filter(|c| !matches!(c, '-' | '_' | ' ')).map(|c| c.to_ascii_lowercase()).collect();
        Algorithm::ALL
            .into_iter()
            .find(|algorithm| algorithm.plain_name() == plain)
            .ok_or_else(|| NotADigest::Algorithm(text.to_owned()))
    }
}

/// A value of one algorithm, in lower case.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Digest {
    algorithm: Algorithm,
    hex: String,
}

impl Digest {
    /// Checks the value's length and digits.
    pub fn new(algorithm: Algorithm, value: &str) -> Result<Self, NotADigest> {
        let value = value.trim();
        if value.chars().count() != algorithm.digits() {
            return Err(NotADigest::Length { algorithm, value: value.to_owned() });
        }
        if !value.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(NotADigest::Hex(value.to_owned()));
        }
        Ok(Self { algorithm, hex: value.to_ascii_lowercase() })
    }

    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    pub fn hex(&self) -> &str {
        &self.hex
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.algorithm, self.hex)
    }
}

/// One algorithm at work.
#[derive(Debug, Clone)]
enum State {
    Crc32(crc32fast::Hasher),
    Md5(md5::Md5),
    Sha1(sha1::Sha1),
    Sha256(sha2::Sha256),
    Sha512(sha2::Sha512),
}

/// Computes several digests of one stream.
#[derive(Debug, Clone)]
pub struct Digests {
    states: Vec<(Algorithm, State)>,
    bytes: u64,
}

impl Digests {
    /// Of these algorithms, each once.
    pub fn of(algorithms: impl IntoIterator<Item = Algorithm>) -> Self {
        let mut algorithms: Vec<_> = algorithms.into_iter().collect();
        algorithms.sort_unstable();
        algorithms.dedup();
        let state = |algorithm| match algorithm {
            Algorithm::Crc32 => State::Crc32(crc32fast::Hasher::new()),
            Algorithm::Md5 => State::Md5(md5::Md5::new()),
            Algorithm::Sha1 => State::Sha1(sha1::Sha1::new()),
            Algorithm::Sha256 => State::Sha256(sha2::Sha256::new()),
            Algorithm::Sha512 => State::Sha512(sha2::Sha512::new()),
        };
        let states = algorithms.into_iter().map(|algorithm| (algorithm, state(algorithm))).collect();
        Self { states, bytes: 0 }
    }

    pub fn update(&mut self, data: &[u8]) {
        self.bytes += data.len() as u64;
        for (_, state) in &mut self.states {
            match state {
                State::Crc32(hasher) => hasher.update(data),
                State::Md5(hasher) => hasher.update(data),
                State::Sha1(hasher) => hasher.update(data),
                State::Sha256(hasher) => hasher.update(data),
                State::Sha512(hasher) => hasher.update(data),
            }
        }
    }

    /// How many bytes it has seen.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The values, in the order of [`Algorithm`].
    pub fn finish(self) -> Vec<Digest> {
        let finish = |(algorithm, state)| {
            let hex = match state {
                State::Crc32(hasher) => format!("{:08x}", hasher.finalize()),
                State::Md5(hasher) => hex(&hasher.finalize()),
                State::Sha1(hasher) => hex(&hasher.finalize()),
                State::Sha256(hasher) => hex(&hasher.finalize()),
                State::Sha512(hasher) => hex(&hasher.finalize()),
            };
            Digest { algorithm, hex }
        };
        self.states.into_iter().map(finish).collect()
    }

    /// Reads a file to its end, counts its bytes, and stops between chunks when cancelled. Blocks.
    pub fn read_whole(&mut self, path: &Path, progress: &Progress, cancel: &Cancel) -> Result<(), Failure> {
        let broken = |error: io::Error| crate::archive::disk(path, &error);
        let mut file = std::fs::File::open(path).map_err(broken)?;
        let mut buffer = vec![0; 256 << 10];
        loop {
            if cancel.is_cancelled() {
                return Err(Failure::Cancelled);
            }
            match io::Read::read(&mut file, &mut buffer) {
                Ok(0) => return Ok(()),
                Ok(count) => {
                    self.update(&buffer[..count]);
                    progress.add_bytes(count as u64);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(broken(error)),
            }
        }
    }

    /// Reads a file to its end. Blocks: call it off the runtime.
    pub fn read_file(&mut self, path: &Path) -> io::Result<()> {
        let mut file = std::fs::File::open(path)?;
        let mut buffer = vec![0; 256 << 10];
        loop {
            let count = match io::Read::read(&mut file, &mut buffer) {
                Ok(0) => return Ok(()),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            self.update(&buffer[..count]);
        }
    }
}

/// Bytes in lower-case hex.
pub fn hex(bytes: &[u8]) -> String {
    use fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The published values of the empty string and of `abc`.
    const KNOWN: [(Algorithm, &str, &str); 5] = [
        (Algorithm::Crc32, "00000000", "352441c2"),
        (Algorithm::Md5, "d41d8cd98f00b204e9800998ecf8427e", "900150983cd24fb0d6963f7d28e17f72"),
        (
            Algorithm::Sha1,
            "da39a3ee5e6b4b0d3255bfef95601890afd80709",
            "a9993e364706816aba3e25717850c26c9cd0d89d",
        ),
        (
            Algorithm::Sha256,
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
        ),
        (
            Algorithm::Sha512,
            "cf83e1357eefb8bdf1542850d66d8007d620e4050b5715dc83f4a921d36ce9ce47d0d13c5d85f2b0ff8318d2877eec2f63b931bd47417a81a538327af927da3e",
            "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f",
        ),
    ];

    #[test]
    fn known_values_come_out_in_pieces_and_at_once() {
        for (algorithm, empty, abc) in KNOWN {
            assert_eq!(Digests::of([algorithm]).finish()[0].hex(), empty);
            let mut digests = Digests::of([algorithm, algorithm]);
            digests.update(b"a");
            digests.update(b"bc");
            assert_eq!(digests.bytes(), 3);
            let found = digests.finish();
            assert_eq!(found, [Digest::new(algorithm, abc).unwrap()]);
        }
    }

    #[test]
    fn all_spellings_of_an_algorithm_are_known() {
        for (text, algorithm) in [
            ("md5", Algorithm::Md5),
            ("MD5", Algorithm::Md5),
            ("SHA256", Algorithm::Sha256),
            ("sha-256", Algorithm::Sha256),
            ("SHA-512", Algorithm::Sha512),
            ("sha_1", Algorithm::Sha1),
            ("CRC32", Algorithm::Crc32),
        ] {
            assert_eq!(text.parse(), Ok(algorithm), "{text}");
        }
        assert!("sha3".parse::<Algorithm>().unwrap_err().to_string().contains("`sha3` is no digest"));
    }

    #[test]
    fn a_value_has_its_length_and_hex_digits() {
        let upper = Digest::new(Algorithm::Md5, " 900150983CD24FB0D6963F7D28E17F72 ").unwrap();
        assert_eq!(upper.to_string(), "md5 900150983cd24fb0d6963f7d28e17f72");
        let short = Digest::new(Algorithm::Md5, "9001").unwrap_err().to_string();
        assert_eq!(short, "a md5 digest has 32 hex digits, and `9001` has 4 characters");
        let wrong = Digest::new(Algorithm::Crc32, "3524é1c2").unwrap_err();
        assert_eq!(wrong, NotADigest::Hex("3524é1c2".into()));
    }

    #[test]
    fn a_file_is_read_to_its_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, vec![7; 600_000]).unwrap();
        let mut digests = Digests::of(Algorithm::ALL);
        digests.read_file(&path).unwrap();
        let mut expected = Digests::of(Algorithm::ALL);
        expected.update(&vec![7; 600_000]);
        assert_eq!((digests.bytes(), digests.finish()), (600_000, expected.finish()));
    }

    #[test]
    fn reading_counts_and_stops() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, vec![7; 600_000]).unwrap();
        let (progress, cancel) = (Progress::default(), Cancel::new());
        let mut digests = Digests::of([Algorithm::Sha256]);
        digests.read_whole(&path, &progress, &cancel).unwrap();
        assert_eq!((digests.bytes(), progress.done()), (600_000, (0, 600_000)));
        cancel.cancel();
        assert_eq!(digests.read_whole(&path, &progress, &cancel), Err(Failure::Cancelled));
        let why = digests.read_whole(&dir.path().join("none"), &progress, &Cancel::new()).unwrap_err();
        assert!(why.to_string().contains("none"), "{why}");
    }
}
