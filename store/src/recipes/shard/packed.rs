//! A value as it lies in the tree.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::io::{self, Read};

use bytes::Bytes;

use super::WINDOW;
use crate::error::{Error, Kind, Result};

/// A value that is compressed, in memory.
#[derive(Debug, Clone)]
pub struct Packed {
    parts: Vec<Bytes>,
    size: u64,
}

impl Packed {
    pub(super) fn new(parts: Vec<Bytes>, size: u64) -> Self {
        Self { parts, size }
    }

    /// The bytes of the value.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The value, piece by piece. It is whole and undamaged if it was read to its end without an error. What was read is let go.
    pub fn into_reader(self) -> io::Result<impl Read> {
        let compressed = Parts { parts: self.parts.into() };
        let mut decoder = zstd::Decoder::new(compressed)?;
        decoder.window_log_max(WINDOW)?;
        Ok(Measured { value: decoder, size: self.size, read: 0 })
    }

    pub(super) fn value(self, path: &str) -> Result<Vec<u8>> {
        let mut value = Vec::new();
        self.into_reader()
            .and_then(|mut reader| reader.read_to_end(&mut value))
            .map_err(|error| Error::new(Kind::Corrupt, error.to_string()).with_path(path))?;
        Ok(value)
    }
}

/// Parts, one after the other.
struct Parts {
    parts: VecDeque<Bytes>,
}

impl Read for Parts {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while let Some(part) = self.parts.front_mut() {
            if part.is_empty() {
                self.parts.pop_front();
                continue;
            }
            let count = part.len().min(into.len());
            into[..count].copy_from_slice(&part.split_to(count));
            return Ok(count);
        }
        Ok(0)
    }
}

/// As much as was announced, whatever the frame says.
struct Measured<R> {
    value: R,
    size: u64,
    read: u64,
}

impl<R: Read> Read for Measured<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.value.read(into)?;
        self.read += count as u64;
        let ended = count == 0 && !into.is_empty();
        let (read, size) = (self.read, self.size);
        let why = match read.cmp(&size) {
            Ordering::Greater => format!("more than the {size} bytes that were announced"),
            Ordering::Less if ended => format!("{read} bytes where {size} were announced"),
            _ => return Ok(count),
        };
        Err(io::Error::new(io::ErrorKind::InvalidData, why))
    }
}
