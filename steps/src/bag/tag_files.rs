//! The other tag files: manifests, `fetch.txt` and `bag-info.txt`, line by line.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use super::declaration::{Declaration, Encoding};
use super::report::{Code, Notes};
use super::{broken, paths};
use crate::digest::{Algorithm, Digest};
use crate::outcome::Result;

/// The longest line that is read.
const LINE: usize = 64 << 10;
/// Of `bag-info.txt` all is kept, so it has an end.
const INFO: u64 = 16 << 20;

/// A row of `fetch.txt`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchRow {
    pub url: String,
    /// Bytes, if they are known.
    pub length: Option<u64>,
    /// Where it goes: below `data/`, without `..`.
    pub path: String,
}

#[derive(Debug, Clone)]
pub(super) struct Manifest {
    /// Of the file.
    pub(super) name: String,
    /// It lists tag files, not the payload.
    pub(super) of_tags: bool,
    /// `None` is one that is not known here.
    pub(super) algorithm: Option<Algorithm>,
    pub(super) rows: Vec<Row>,
}

#[derive(Debug, Clone)]
pub(super) struct Row {
    pub(super) path: String,
    /// As it is written, where that is something else.
    pub(super) written: Option<String>,
    /// `None` where the algorithm is not known.
    pub(super) digest: Option<Digest>,
}

/// All manifests among the files of the bag's directory.
pub(super) fn read_manifests(
    dir: &Path,
    found: &BTreeMap<String, u64>,
    declaration: Declaration,
    notes: &mut Notes,
) -> Result<Vec<Manifest>> {
    let mut manifests = Vec::new();
    for name in found.keys() {
        let Some(stem) = name.strip_suffix(".txt") else { continue };
        let (of_tags, algorithm) = match (stem.strip_prefix("tagmanifest-"), stem.strip_prefix("manifest-")) {
            (Some(algorithm), _) => (true, algorithm),
            (None, Some(algorithm)) => (false, algorithm),
            (None, None) => continue,
        };
        let algorithm = algorithm.parse().ok();
        if algorithm.is_none() {
            notes.warning(
                Code::UnknownAlgorithm,
                name,
                "its algorithm is not known, so its digests are not compared",
            );
        }
        let mut rows = Vec::new();
        each_line(dir, name, declaration.encoding, notes, |line, text, notes| {
            rows.extend(manifest_row(text, (name, line), algorithm, declaration, notes));
        })?;
        manifests.push(Manifest { name: name.clone(), of_tags, algorithm, rows });
    }
    Ok(manifests)
}

/// `DIGEST PATH`.
fn manifest_row(
    text: &str,
    (name, line): (&str, u64),
    algorithm: Option<Algorithm>,
    declaration: Declaration,
    notes: &mut Notes,
) -> Option<Row> {
    let Some((digest, written)) = split_blank(text) else {
        notes.problem(Code::BadLine, name, format!("line {line} is not a digest, a space and a path"));
        return None;
    };
    let digest = match algorithm.map(|algorithm| Digest::new(algorithm, digest)).transpose() {
        Ok(digest) => digest,
        Err(error) => {
            notes.problem(Code::BadLine, name, format!("line {line}: {error}"));
            return None;
        }
    };
    let path = read_path(written, (name, line), declaration, notes)?;
    let written = (path != written).then(|| written.to_owned());
    Some(Row { path, written, digest })
}

/// A path that stays in the bag.
fn read_path(
    written: &str,
    (name, line): (&str, u64),
    declaration: Declaration,
    notes: &mut Notes,
) -> Option<String> {
    // Tools that compute checksums mark binary files, and begin with the directory.
    let mut plain = written.strip_prefix('*').unwrap_or(written);
    plain = plain.strip_prefix("./").unwrap_or(plain);
    if plain != written {
        notes.warning(Code::OddPath, written, format!("in line {line} of {name} it begins with `*` or `./`"));
    }
    let path = paths::decode(plain, declaration.version);
    match paths::check(&path) {
        Ok(()) => Some(path),
        Err(why) => {
            notes.problem(Code::BadPath, path, format!("in line {line} of {name}, {why}"));
            None
        }
    }
}

/// The rows of `fetch.txt`, if there is one.
pub(super) fn read_fetch(
    dir: &Path,
    found: &BTreeMap<String, u64>,
    declaration: Declaration,
    notes: &mut Notes,
) -> Result<Vec<FetchRow>> {
    const NAME: &str = "fetch.txt";
    let mut rows = Vec::new();
    if found.contains_key(NAME) {
        each_line(dir, NAME, declaration.encoding, notes, |line, text, notes| {
            rows.extend(fetch_row(text, (NAME, line), declaration, notes));
        })?;
    }
    Ok(rows)
}

/// `URL LENGTH PATH`.
fn fetch_row(
    text: &str,
    (name, line): (&str, u64),
    declaration: Declaration,
    notes: &mut Notes,
) -> Option<FetchRow> {
    let parts =
        split_blank(text).and_then(|(url, rest)| split_blank(rest).map(|(length, path)| (url, length, path)));
    let Some((url, length, path)) = parts else {
        notes.problem(Code::BadLine, name, format!("line {line} is not a URL, a length and a path"));
        return None;
    };
    let digits = !length.is_empty() && length.bytes().all(|byte| byte.is_ascii_digit());
    let known = if digits { length.parse().ok() } else { None };
    if known.is_none() && length != "-" {
        notes.problem(
            Code::BadLine,
            name,
            format!("line {line}: the length `{length}` is no number and no `-`"),
        );
        return None;
    }
    if url::Url::parse(url).is_err() {
        notes.problem(Code::BadLine, name, format!("line {line}: `{url}` is no URL"));
        return None;
    }
    let path = read_path(path, (name, line), declaration, notes)?;
    if !paths::is_payload(&path) {
        notes.problem(
            Code::Misplaced,
            path,
            format!("line {line} of {name} fetches it, and it is not below data/"),
        );
        return None;
    }
    Some(FetchRow { url: url.to_owned(), length: known, path })
}

/// Labels and values of `bag-info.txt` (`package-info.txt` before 0.95), if there is one.
pub(super) fn read_info(
    dir: &Path,
    found: &BTreeMap<String, u64>,
    declaration: Declaration,
    notes: &mut Notes,
) -> Result<Vec<(String, String)>> {
    let mut info: Vec<(String, String)> = Vec::new();
    let Some((name, size)) =
        ["bag-info.txt", "package-info.txt"].iter().find_map(|name| found.get_key_value(*name))
    else {
        return Ok(info);
    };
    if *size > INFO {
        notes.problem(Code::BadLine, name, format!("it has {size} bytes, and {INFO} are allowed"));
        return Ok(info);
    }
    each_line(dir, name, declaration.encoding, notes, |line, text, notes| {
        match (text.starts_with([' ', '\t']), info.last_mut(), text.split_once(':')) {
            // A value goes on in lines that begin with a blank.
            (true, Some((_, value)), _) => {
                value.push(' ');
                value.push_str(text.trim());
            }
            (false, _, Some((label, value))) => info.push((label.trim().to_owned(), value.trim().to_owned())),
            _ => {
                notes.problem(
                    Code::BadLine,
                    name,
                    format!("line {line} is not a label, a colon and a value"),
                );
            }
        }
    })?;
    Ok(info)
}

fn split_blank(text: &str) -> Option<(&str, &str)> {
    let (first, rest) = text.split_once([' ', '\t'])?;
    let rest = rest.trim_start_matches([' ', '\t']);
    (!first.is_empty() && !rest.is_empty()).then_some((first, rest))
}

/// Calls `each` with the number and text of every line that has something in it. Lines end with LF, CR or
/// both.
fn each_line(
    dir: &Path,
    name: &str,
    encoding: Encoding,
    notes: &mut Notes,
    mut each: impl FnMut(u64, &str, &mut Notes),
) -> Result<()> {
    let path = dir.join(name);
    let mut reader = BufReader::new(File::open(&path).map_err(|error| broken(&path, &error))?);
    let mut line = Vec::new();
    let mut number = 0;
    let mut after_cr = false;
    let mut end_line = |line: &mut Vec<u8>| {
        number += 1;
        one_line(line, (name, number), encoding, notes, &mut each);
        line.clear();
    };
    loop {
        let bytes = reader.fill_buf().map_err(|error| broken(&path, &error))?;
        if bytes.is_empty() {
            break;
        }
        for byte in bytes {
            match byte {
                b'\n' if after_cr => {}
                b'\n' | b'\r' => end_line(&mut line),
                // One byte more shows that it is too long; the others are not kept.
                other if line.len() <= LINE => line.push(*other),
                _ => {}
            }
            after_cr = *byte == b'\r';
        }
        let count = bytes.len();
        reader.consume(count);
    }
    if !line.is_empty() {
        end_line(&mut line);
    }
    Ok(())
}

fn one_line(
    line: &[u8],
    (name, number): (&str, u64),
    encoding: Encoding,
    notes: &mut Notes,
    each: &mut impl FnMut(u64, &str, &mut Notes),
) {
    let mut bytes = line;
    if let Some(rest) = line.strip_prefix(b"\xef\xbb\xbf").filter(|_| number == 1) {
        notes.problem(Code::BadLine, name, "it begins with a byte order mark; write UTF-8 without one");
        bytes = rest;
    }
    if bytes.len() > LINE {
        notes.problem(Code::BadLine, name, format!("line {number} has more than {LINE} bytes"));
        return;
    }
    let text = match encoding {
        Encoding::Latin1 => Cow::Owned(bytes.iter().map(|byte| char::from(*byte)).collect()),
        Encoding::Utf8 => {
            let Ok(text) = std::str::from_utf8(bytes) else {
                notes.problem(Code::BadLine, name, format!("line {number} is not UTF-8"));
                return;
            };
            Cow::Borrowed(text)
        }
    };
    if !text.trim().is_empty() {
        each(number, &text, notes);
    }
}
