//! The jobs of a report, as many as there are: packed, so that a million of them take little memory.
//!
//! They are kept in their order as lines of json, a block at a time, and a full block is compressed. Clones share the blocks.
//!
//! **When things break.** What is in memory was packed here, so that unpacking it cannot fail but by a defect; it is an error all the
//! same, of the one who reads.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, BufRead as _, Cursor};

use bytes::Bytes;
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use super::{ReportedJob, encode};

/// A block has this many bytes, and what its last line has over it.
const BLOCK: usize = 128 << 10;
/// Twice as small as the fastest, and as fast as jobs can be read.
const LEVEL: i32 = 3;

/// Jobs of a report, in their order.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Rows {
    full: Vec<Block>,
    /// Lines that are not a full block yet.
    last: Vec<u8>,
    count: usize,
}

#[derive(Clone, PartialEq, Eq)]
struct Block {
    data: Bytes,
    /// Bytes of its lines, if they are compressed.
    packed: Option<usize>,
}

impl Rows {
    pub fn push(&mut self, job: &ReportedJob) {
        self.last.extend_from_slice(&encode(job));
        self.last.push(b'\n');
        self.count += 1;
        if self.last.len() >= BLOCK {
            self.full.push(Block::new(std::mem::take(&mut self.last)));
        }
    }

    pub fn len(&self) -> usize {
        self.count
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// One after the other. After an error there is nothing more. It shares what it reads.
    pub fn iter(&self) -> impl Iterator<Item = io::Result<ReportedJob>> + use<> {
        let rows = self.clone();
        let jobs = (0..=rows.full.len()).flat_map(move |at| match rows.block(at) {
            Ok(lines) => read(lines).collect::<Vec<_>>(),
            Err(error) => vec![Err(error)],
        });
        until_error(jobs)
    }

    /// The jobs as items of a json array, without its brackets, each as `shown` has it; some at a time. It shares what it reads.
    pub fn pieces<T, F>(&self, shown: F) -> impl Iterator<Item = io::Result<Bytes>> + use<T, F>
    where
        T: Serialize,
        F: Fn(ReportedJob) -> T,
    {
        let mut first = true;
        let rows = self.clone();
        let blocks = (0..=rows.full.len()).map(move |at| {
            let mut piece = Vec::with_capacity(BLOCK);
            for job in read(rows.block(at)?) {
                if !std::mem::take(&mut first) {
                    piece.push(b',');
                }
                serde_json::to_writer(&mut piece, &shown(job?))?;
            }
            Ok(piece.into())
        });
        until_error(blocks)
    }

    /// The lines of a block; behind the full ones comes the last.
    fn block(&self, at: usize) -> io::Result<Cow<'_, [u8]>> {
        self.full.get(at).map_or(Ok(self.last.as_slice().into()), Block::lines)
    }
}

impl Block {
    fn new(lines: Vec<u8>) -> Self {
        match zstd::bulk::compress(&lines, LEVEL) {
            // The buffer that it was compressed into is as long as the lines.
            Ok(data) if data.len() < lines.len() => {
                Self { data: Bytes::copy_from_slice(&data), packed: Some(lines.len()) }
            }
            _ => Self { data: lines.into(), packed: None },
        }
    }

    fn lines(&self) -> io::Result<Cow<'_, [u8]>> {
        match self.packed {
            None => Ok(self.data.as_ref().into()),
            Some(size) => zstd::bulk::decompress(&self.data, size).map(Cow::Owned),
        }
    }
}

fn read(lines: Cow<'_, [u8]>) -> impl Iterator<Item = io::Result<ReportedJob>> {
    Cursor::new(lines).split(b'\n').map(|line| Ok(serde_json::from_slice(&line?)?))
}

fn until_error<T>(all: impl Iterator<Item = io::Result<T>>) -> impl Iterator<Item = io::Result<T>> {
    let mut over = false;
    all.take_while(move |item| !std::mem::replace(&mut over, item.is_err()))
}

impl fmt::Debug for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const ENOUGH: usize = 10;
        let mut list = f.debug_list();
        list.entries(self.iter().take(ENOUGH));
        if self.count > ENOUGH { list.finish_non_exhaustive() } else { list.finish() }
    }
}

impl FromIterator<ReportedJob> for Rows {
    fn from_iter<I: IntoIterator<Item = ReportedJob>>(jobs: I) -> Self {
        let mut rows = Self::default();
        for job in jobs {
            rows.push(&job);
        }
        rows
    }
}

impl<'de> Deserialize<'de> for Rows {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Jobs;

        impl<'de> Visitor<'de> for Jobs {
            type Value = Rows;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array of jobs")
            }

            // As good as one that is not there.
            fn visit_unit<E>(self) -> Result<Rows, E> {
                Ok(Rows::default())
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut jobs: A) -> Result<Rows, A::Error> {
                let mut rows = Rows::default();
                while let Some(job) = jobs.next_element::<ReportedJob>()? {
                    rows.push(&job);
                }
                Ok(rows)
            }
        }

        from.deserialize_any(Jobs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As long as those of real deposits, with names that do not repeat themselves.
    fn job(number: u64) -> ReportedJob {
        let name = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let text = format!(
            r#"{{"jid":"jid{number:010}","primary_id":"ark:/99999/fk4{name:x}","local_id":["sheet-{number}"],
                "payload_url":"https://herbarium.example.org/sheets/{number}/{name:x}.tiff","payload_type":"file",
                "erc_who":"Zoë Ünal","erc_what":"Sheet {number}","erc_when":"1897","message":"line\nbreak","mark":{number}}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn what_was_pushed_is_there_in_its_order_and_whole() {
        for count in [0, 1, 3000] {
            let jobs: Vec<_> = (0..count).map(job).collect();
            let rows: Rows = jobs.iter().cloned().collect();
            assert_eq!(rows.len() as u64, count);
            assert_eq!(rows.iter().collect::<io::Result<Vec<_>>>().unwrap(), jobs);
            assert_eq!(rows.clone(), jobs.into_iter().collect::<Rows>());
        }
    }

    #[test]
    fn pieces_together_are_the_array() {
        for count in [0, 1, 3000] {
            let rows: Rows = (0..count).map(job).collect();
            let pieces: Vec<Bytes> = rows.pieces(|job| job.jid).collect::<io::Result<_>>().unwrap();
            let array = format!("[{}]", String::from_utf8(pieces.concat()).unwrap());
            let jids: Vec<crate::ids::Jid> = serde_json::from_str(&array).unwrap();
            assert_eq!(jids, (0..count).map(|number| job(number).jid).collect::<Vec<_>>());
        }
    }

    #[test]
    fn they_take_a_third_of_their_json_at_the_most() {
        let rows: Rows = (0..20_000).map(job).collect();
        let plain: usize = (0..=rows.full.len()).map(|at| rows.block(at).unwrap().len()).sum();
        let packed = rows.full.iter().map(|block| block.data.len()).sum::<usize>() + rows.last.len();
        assert!(rows.full.len() > 10 && packed * 3 < plain, "{packed} of {plain} bytes");
    }

    #[test]
    fn a_damaged_block_is_an_error_and_the_end() {
        let mut rows: Rows = (0..3000).map(job).collect();
        let damaged = rows.full[1].data.slice(..20);
        rows.full[1].data = damaged;
        let read: Vec<_> = rows.iter().collect();
        assert!(read.last().unwrap().is_err() && read.iter().filter(|job| job.is_err()).count() == 1);
        assert_eq!(rows.pieces(|job| job.jid).filter(Result::is_err).count(), 1);
    }
}
