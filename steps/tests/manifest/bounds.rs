//! Hostile and huge manifests: bounded memory, no panic, one pass.

use std::cell::Cell;
use std::io::{self, BufRead, BufReader, Read};
use std::rc::Rc;

use ingest_steps::manifest::{Error, Kind, Limits, Reader, validate, validate_within};

use super::{header, manifest, problem, problems};

#[test]
fn a_nul_is_a_fault_of_its_line() {
    let text = manifest(Kind::Object, "http://a | | | | | a\0b\nhttp://b | | | | | b");
    assert_eq!(problem(text, "NUL"), (4, 20));
}

#[test]
fn a_line_that_is_not_utf_8_is_a_fault_of_that_line() {
    let mut bytes = header(Kind::Object).into_bytes();
    bytes.extend(b"http://\xc3\xa9 | | | | | caf\xe9 | \nhttp://b | | | | | b | x | \xff\n#%eof\n");
    let found = problems(bytes);
    assert_eq!(found.iter().map(|p| (p.0, p.1)).collect::<Vec<_>>(), [(4, 20), (5, 28)]);
    assert!(found[0].2.contains("not UTF-8"), "{found:?}");
    let mut bytes = b"#%checkm_0.7\n# caf\xe9\n#%profile | ".to_vec();
    bytes.extend(format!("{}\nhttp://a|||||a\n#%eof", Kind::Object.profile()).bytes());
    assert_eq!(problem(bytes, "not UTF-8"), (2, 1));
}

#[test]
fn a_line_over_the_limit_is_a_fault_of_that_line_and_the_next_is_read() {
    let most = Limits::default().line;
    let rest = " | | | | | a";
    let fits = format!("h{}{rest}", "x".repeat(most - rest.len() - 1));
    assert_eq!(fits.len(), most);
    assert!(validate(manifest(Kind::Object, &fits).as_bytes()).is_ok());
    let text = manifest(Kind::Object, &format!("x{fits}\nhttp://b | | | | | b | \nhttp://c"));
    let found = problems(text);
    assert_eq!(found.iter().map(|p| (p.0, p.1)).collect::<Vec<_>>(), [(4, 1), (6, 9)]);
    assert!(found[0].2.contains("longer than 65536 bytes"), "{found:?}");
}

#[test]
fn messages_do_not_repeat_a_huge_field() {
    let huge = "é".repeat(30_000);
    for line in [
        format!("http://a | {huge} | 00 | | | a"),
        format!("http://a | md5 | {huge} | | | a"),
        format!("http://a | | | {huge} | | a"),
        format!("http://a | | | | | /{huge}"),
    ] {
        let found = problems(manifest(Kind::Object, &line));
        assert!(found.len() == 1 && found[0].2.len() < 500, "{}", found[0].2.len());
    }
}

/// Gives the same bytes again and again, so many in all.
struct Endless {
    pattern: Vec<u8>,
    at: usize,
    left: usize,
}

fn endless(pattern: impl Into<Vec<u8>>, bytes: usize) -> BufReader<Endless> {
    BufReader::new(Endless { pattern: pattern.into(), at: 0, left: bytes })
}

impl Read for Endless {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = buffer.len().min(self.left);
        for byte in &mut buffer[..count] {
            *byte = self.pattern[self.at];
            self.at = (self.at + 1) % self.pattern.len();
        }
        self.left -= count;
        Ok(count)
    }
}

fn listed(input: impl BufRead) -> usize {
    match validate(input) {
        Err(Error::Corrupt(problems)) => problems.list().len(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_no_manifest_at_all_is_refused_at_its_first_lines() {
    for pattern in [&b"\0"[..], b"x", b"\xff\xd8\n", b"PK\x03\x04\n\0\n", b"| | |\n", b"#\n", b"\r", b"{}\n"]
    {
        assert!(listed(endless(pattern, 3 << 20)) <= 3, "{pattern:?}");
    }
}

#[test]
fn a_million_blank_lines_are_nothing() {
    assert_eq!(listed(endless("\n", 1_000_000)), 1);
    let text = manifest(Kind::Object, "http://a | | | | | a");
    let blank = "\n".repeat(1_000_000);
    assert_eq!(validate(format!("{blank}{text}{blank}").as_bytes()).unwrap().rows, 1);
}

#[test]
fn a_million_faults_are_a_hundred_and_a_number() {
    let header = header(Kind::Object);
    let input = Read::chain(header.as_bytes(), endless("x\n", 600_000)).chain(&b"#%eof"[..]);
    let Err(Error::Corrupt(found)) = validate(BufReader::new(input)) else { panic!() };
    assert_eq!((found.list().len(), found.more()), (100, 299_900));
}

#[test]
fn a_line_without_end_is_one_fault() {
    let header = header(Kind::Object);
    let input = Read::chain(header.as_bytes(), endless("x", 20 << 20));
    let Err(Error::Corrupt(found)) = validate(BufReader::new(input)) else { panic!() };
    let places: Vec<_> = found.list().iter().map(|p| (p.line, p.column)).collect();
    assert_eq!(places, [(4, 1), (5, 1)]);
}

#[test]
fn there_is_a_limit_on_rows() {
    let limits = Limits { rows: 2, ..Limits::default() };
    let two = "http://a | | | | | a\nhttp://b | | | | | b";
    assert_eq!(validate_within(manifest(Kind::Object, two).as_bytes(), limits).unwrap().rows, 2);
    let three = format!("{two}\nhttp://c | | | | | c\nhttp://d");
    let Err(Error::Corrupt(found)) = validate_within(manifest(Kind::Object, &three).as_bytes(), limits)
    else {
        panic!()
    };
    assert_eq!(found.to_string(), "line 6, column 1: more than 2 rows; split the manifest");
}

/// What was taken of an input, and what was offered.
#[derive(Clone, Default)]
struct Taken {
    bytes: Rc<Cell<u64>>,
    /// How often its buffer was looked at.
    fills: Rc<Cell<u64>>,
}

/// Makes rows as they are asked for and counts what is taken. It has one row at a time, so whoever reads it
/// and keeps no rows has read it in bounded memory.
struct Generated {
    rows: u64,
    made: u64,
    chunk: Vec<u8>,
    at: usize,
    taken: Taken,
}

impl Generated {
    fn new(kind: Kind, rows: u64) -> (Self, Taken) {
        let taken = Taken::default();
        let chunk = header(kind).into_bytes();
        (Self { rows, made: 0, chunk, at: 0, taken: taken.clone() }, taken)
    }
}

impl Read for Generated {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        panic!("it is to be read by its buffer")
    }
}

impl BufRead for Generated {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.taken.fills.set(self.taken.fills.get() + 1);
        if self.at == self.chunk.len() && self.made <= self.rows {
            let number = self.made;
            self.chunk = if number == self.rows {
                b"#%eof\n".to_vec()
            } else {
                format!("https://example.org/{number} | | | 10 | | dir/file-{number}.tif | image/tiff\n")
                    .into()
            };
            self.at = 0;
            self.made += 1;
        }
        Ok(&self.chunk[self.at..])
    }

    fn consume(&mut self, count: usize) {
        self.at += count;
        self.taken.bytes.set(self.taken.bytes.get() + count as u64);
    }
}

#[test]
fn two_hundred_thousand_rows_are_read_in_one_pass_a_line_at_a_time() {
    const ROWS: u64 = 200_000;
    let (input, taken) = Generated::new(Kind::Object, ROWS);
    let reader = Reader::open(input, Limits::default()).unwrap();
    let (mut rows, mut before, mut longest) = (0, taken.bytes.get(), 0);
    for row in reader {
        let row = row.unwrap();
        assert_eq!((row.size, row.name), (Some(10), format!("dir/file-{rows}.tif")));
        rows += 1;
        longest = longest.max(taken.bytes.get() - before);
        before = taken.bytes.get();
    }
    assert_eq!(rows, ROWS);
    // Nothing is read ahead: between two rows no more is taken than a row (and, once, the header).
    assert!(longest < 100, "{longest} bytes were taken for one row");
    // One look at the buffer for each line, and one or two at the end.
    assert!(taken.fills.get() <= ROWS + 10, "{} looks", taken.fills.get());
}

#[test]
fn validating_takes_every_byte_once() {
    let (input, taken) = Generated::new(Kind::SingleFileBatch, 50_000);
    let summary = validate(input).unwrap();
    assert_eq!((summary.rows, summary.bytes), (50_000, 500_000));
    let (again, whole) = Generated::new(Kind::SingleFileBatch, 50_000);
    let lines = again.lines_by_buffer();
    assert_eq!((taken.bytes.get(), lines), (whole.bytes.get(), 50_004));
}

impl Generated {
    /// Reads itself to the end; how many lines there were.
    fn lines_by_buffer(mut self) -> u64 {
        let mut lines = 0;
        loop {
            let chunk = self.fill_buf().unwrap();
            if chunk.is_empty() {
                return lines;
            }
            lines += chunk.split(|byte| *byte == b'\n').count() as u64 - 1;
            let count = chunk.len();
            self.consume(count);
        }
    }
}
