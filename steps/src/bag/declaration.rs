//! `bagit.txt`: two lines that say the version and the encoding of the other tag files.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::str::FromStr;

use super::broken;
use super::report::{Code, Notes};
use crate::outcome::Result;

const NAME: &str = "bagit.txt";
/// It has two short lines; nobody needs more of a longer one.
const LONGEST: u64 = 4096;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    pub major: u32,
    pub minor: u32,
}

impl Version {
    pub const V1_0: Version = Version { major: 1, minor: 0 };
    const OLDEST: Version = Version { major: 0, minor: 93 };
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl FromStr for Version {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |part: &str| {
            let digits = part.bytes().all(|byte| byte.is_ascii_digit());
            if digits { part.parse().ok() } else { None }
        };
        text.split_once('.')
            .and_then(|(major, minor)| Some(Version { major: number(major)?, minor: number(minor)? }))
            .ok_or_else(|| format!("`{text}` is no version; write for example 1.0"))
    }
}

/// How tag files are encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    Utf8,
    Latin1,
}

/// What a bag declares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Declaration {
    pub version: Version,
    pub encoding: Encoding,
}

/// Reads it from the bag's directory; `None` where nothing else can be read for want of it.
pub(super) fn read(
    dir: &Path,
    found: &BTreeMap<String, u64>,
    notes: &mut Notes,
) -> Result<Option<Declaration>> {
    if !found.contains_key(NAME) {
        notes.problem(Code::NoDeclaration, NAME, "there is no bagit.txt, so it is no bag");
        return Ok(None);
    }
    let mut bytes = Vec::new();
    File::open(dir.join(NAME))
        .and_then(|file| file.take(LONGEST).read_to_end(&mut bytes))
        .map_err(|error| broken(&dir.join(NAME), &error))?;
    Ok(parse(&bytes, notes))
}

fn parse(bytes: &[u8], notes: &mut Notes) -> Option<Declaration> {
    let mut wrong = |why: &str| notes.problem(Code::BadDeclaration, NAME, why);
    let bytes = match bytes.strip_prefix(b"\xef\xbb\xbf") {
        None => bytes,
        Some(rest) => {
            wrong("it begins with a byte order mark; write UTF-8 without one");
            rest
        }
    };
    let Ok(text) = std::str::from_utf8(bytes) else {
        wrong("it is not UTF-8");
        return None;
    };
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let lines: Vec<_> = text.strip_suffix('\n').unwrap_or(&text).split('\n').collect();
    if lines.len() != 2 {
        wrong(&format!("it has {} lines, and has to have two", lines.len()));
    }
    let version = lines.first().and_then(|line| field(line, "BagIt-Version"));
    let encoding = lines.get(1).and_then(|line| field(line, "Tag-File-Character-Encoding"));
    if version.is_none() {
        wrong("its first line is not `BagIt-Version: ` and a version");
    }
    if encoding.is_none() {
        wrong("its second line is not `Tag-File-Character-Encoding: ` and an encoding");
    }
    let (version, encoding) = (known_version(version?, notes), known_encoding(encoding?, notes));
    let declaration = Declaration { version: version?, encoding: encoding? };
    // Old bags were freer with spaces.
    let exact = |line: &str, label: &str| line.strip_prefix(label).is_some_and(|rest| rest == rest.trim());
    let all_exact = lines.len() >= 2
        && exact(lines[0], "BagIt-Version: ")
        && exact(lines[1], "Tag-File-Character-Encoding: ");
    if declaration.version >= Version::V1_0 && !all_exact {
        notes.problem(Code::BadDeclaration, NAME, "there has to be one space after a colon, and no other");
    }
    Some(declaration)
}

fn field<'a>(line: &'a str, label: &str) -> Option<&'a str> {
    let (found, value) = line.split_once(':')?;
    (found.trim() == label && !value.trim().is_empty()).then(|| value.trim())
}

fn known_version(text: &str, notes: &mut Notes) -> Option<Version> {
    let version = match text.parse::<Version>() {
        Ok(version) => version,
        Err(why) => {
            notes.problem(Code::BadDeclaration, NAME, why);
            return None;
        }
    };
    if version < Version::OLDEST || version > Version::V1_0 {
        let why =
            format!("version {version} is not known; known are {} to {}", Version::OLDEST, Version::V1_0);
        notes.problem(Code::UnknownVersion, NAME, why);
        return None;
    }
    Some(version)
}

fn known_encoding(text: &str, notes: &mut Notes) -> Option<Encoding> {
    match text.to_ascii_uppercase().as_str() {
        "UTF-8" | "UTF8" | "US-ASCII" | "ASCII" => Some(Encoding::Utf8),
        "ISO-8859-1" | "LATIN1" => Some(Encoding::Latin1),
        _ => {
            let why = format!("the encoding `{text}` is not known; write tag files in UTF-8");
            notes.problem(Code::UnknownEncoding, NAME, why);
            None
        }
    }
}
