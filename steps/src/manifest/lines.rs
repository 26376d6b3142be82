//! Lines of a stream, each in bounded memory.
//!
//! **When things break.** A line that is too long, or is no text, is passed over without being kept; the next
//! one is read as if nothing had been.

use std::io::{self, BufRead};

/// A line, or why it is none.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line<'a> {
    /// Without its end.
    Text(&'a str),
    /// Longer than the limit.
    TooLong,
    /// No UTF-8 from here on; what stands before it.
    NotText(&'a str),
}

/// Reads lines and counts them.
#[derive(Debug)]
pub(super) struct Lines<R> {
    input: R,
    limit: usize,
    buffer: Vec<u8>,
    too_long: bool,
    number: u64,
    /// The line in the buffer is to be given once more.
    again: bool,
}

impl<R: BufRead> Lines<R> {
    pub(super) fn new(input: R, limit: usize) -> Self {
        Self { input, limit, buffer: Vec::new(), too_long: false, number: 0, again: false }
    }

    /// How many lines were read.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Gives the line that was read last once more.
    pub(super) fn put_back(&mut self) {
        self.again = true;
    }

    /// The next line and its number, from 1; `None` at the end.
    pub(super) fn next(&mut self) -> io::Result<Option<(u64, Line<'_>)>> {
        if !std::mem::take(&mut self.again) && !self.fill()? {
            return Ok(None);
        }
        let line = self.buffer.strip_suffix(b"\r").unwrap_or(&self.buffer);
        if self.too_long || line.len() > self.limit {
            return Ok(Some((self.number, Line::TooLong)));
        }
        let line = match std::str::from_utf8(line) {
            Ok(text) => Line::Text(text),
            Err(error) => {
                let (valid, _) = line.split_at(error.valid_up_to());
                Line::NotText(std::str::from_utf8(valid).unwrap_or_default())
            }
        };
        Ok(Some((self.number, line)))
    }

    /// Reads one line into the buffer; `false` at the end.
    fn fill(&mut self) -> io::Result<bool> {
        self.buffer.clear();
        self.too_long = false;
        let mut any = false;
        loop {
            let chunk = match self.input.fill_buf() {
                Ok(chunk) => chunk,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if chunk.is_empty() {
                break;
            }
            any = true;
            let end = chunk.iter().position(|byte| *byte == b'\n');
            let part = &chunk[..end.unwrap_or(chunk.len())];
            // One more than the limit, for the CR of a line that just fits.
            self.too_long |= self.buffer.len() + part.len() > self.limit + 1;
            if !self.too_long {
                self.buffer.extend_from_slice(part);
            }
            let used = part.len() + usize::from(end.is_some());
            self.input.consume(used);
            if end.is_some() {
                break;
            }
        }
        self.number += u64::from(any);
        Ok(any)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(input: &[u8]) -> Vec<String> {
        let mut lines = Lines::new(io::BufReader::with_capacity(3, input), 5);
        let mut found = Vec::new();
        while let Some((number, line)) = lines.next().unwrap() {
            found.push(format!("{line:?}"));
            assert_eq!(number, found.len() as u64);
        }
        assert_eq!(lines.number(), found.len() as u64);
        found
    }

    #[test]
    fn either_line_end_and_none_at_the_end() {
        assert_eq!(read(b"ab\r\n\ncd"), [r#"Text("ab")"#, r#"Text("")"#, r#"Text("cd")"#]);
        assert_eq!(read(b"a\n"), [r#"Text("a")"#]);
        assert!(read(b"").is_empty());
    }

    #[test]
    fn a_line_of_just_the_limit_fits_with_either_end() {
        assert_eq!(read(b"12345\r\n12345\n12345"), [r#"Text("12345")"#; 3]);
        assert_eq!(read(b"123456\n123456\r\n12345\n"), ["TooLong", "TooLong", r#"Text("12345")"#]);
    }

    #[test]
    fn the_line_after_one_that_is_no_text_is_read() {
        assert_eq!(read(b"a\xff|b\nc\n"), [r#"NotText("a")"#, r#"Text("c")"#]);
    }

    #[test]
    fn a_line_that_was_put_back_comes_once_more_under_its_number() {
        let mut lines = Lines::new(&b"a\nb\n"[..], 5);
        assert_eq!(lines.next().unwrap(), Some((1, Line::Text("a"))));
        lines.put_back();
        assert_eq!(lines.next().unwrap(), Some((1, Line::Text("a"))));
        assert_eq!(lines.next().unwrap(), Some((2, Line::Text("b"))));
        assert_eq!(lines.next().unwrap(), None);
    }

    #[test]
    fn a_line_without_end_is_not_kept() {
        let input = io::Read::take(io::repeat(b'x'), 5_000_000);
        let mut lines = Lines::new(io::BufReader::new(input), 1000);
        assert_eq!(lines.next().unwrap(), Some((1, Line::TooLong)));
        assert!(lines.buffer.capacity() <= 16_384, "{} bytes are kept", lines.buffer.capacity());
        assert_eq!(lines.next().unwrap(), None);
    }
}
