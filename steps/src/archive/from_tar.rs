//! Tars: read once from the first block to the last.
//!
//! The headers' fields are read by the `tar` crate. The walk from header to header is ours: it holds long
//! names and extended headers to a size, takes the size of an extended header for the one that counts,
//! and demands the end mark, without which a cut tar looks like a whole one.

use std::fs::File;
use std::io::{BufReader, ErrorKind, Read};
use std::path::Path;

use bzip2::read::MultiBzDecoder;
use flate2::read::MultiGzDecoder;
use tar::Header;

use super::names::{self, Name};
use super::staging::{Staging, disk, unreadable};
use super::{ArchiveKind, damaged, refused};
use crate::outcome::Result;

pub(super) const BLOCK: usize = 512;
/// The longest extended header or long name that is read.
const EXTENSION: u64 = 1 << 20;
const READ_AHEAD: usize = 128 << 10;

pub(super) fn unpack(archive: &Path, kind: ArchiveKind, staging: &mut Staging<'_>) -> Result<()> {
    let file = File::open(archive).map_err(|error| disk(archive, &error))?;
    let file = BufReader::with_capacity(READ_AHEAD, file);
    let source: Box<dyn Read> = match kind {
        ArchiveKind::TarGz => Box::new(BufReader::new(MultiGzDecoder::new(file))),
        ArchiveKind::TarBz2 => Box::new(BufReader::new(MultiBzDecoder::new(file))),
        ArchiveKind::Tar | ArchiveKind::Zip => Box::new(file),
    };
    Walk { source, staging }.all()
}

/// Whether a block is a header with the right checksum.
pub(super) fn header_is_whole(block: &[u8; BLOCK]) -> bool {
    let mut header = Header::new_old();
    header.as_mut_bytes().copy_from_slice(block);
    let Ok(told) = header.cksum() else { return false };
    let others = || block[..148].iter().chain(&block[156..]);
    let sum: u32 = others().map(|byte| u32::from(*byte)).sum::<u32>() + 8 * 32;
    // Old writers added the bytes up as signed numbers.
    let signed: i64 = others().map(|byte| i64::from(byte.cast_signed())).sum::<i64>() + 8 * 32;
    block.iter().any(|byte| *byte != 0) && (told == sum || i64::from(told) == signed)
}

struct Walk<'a, 's> {
    source: Box<dyn Read>,
    staging: &'a mut Staging<'s>,
}

/// What records before a member say about it.
#[derive(Debug, Default)]
struct Extensions {
    long_name: Option<Vec<u8>>,
    long_link: Option<Vec<u8>>,
    pax: Option<Vec<(Vec<u8>, Vec<u8>)>>,
}

impl Extensions {
    fn is_empty(&self) -> bool {
        self.long_name.is_none() && self.long_link.is_none() && self.pax.is_none()
    }

    fn pax(&self, key: &str) -> Option<&[u8]> {
        let all = self.pax.as_deref().unwrap_or_default();
        // The last one counts.
        all.iter().rev().find(|(name, _)| name == key.as_bytes()).map(|(_, value)| value.as_slice())
    }

    fn name(&self, header: &Header) -> Vec<u8> {
        match (self.pax("path"), &self.long_name) {
            (Some(path), _) => path.to_vec(),
            (None, Some(path)) => path.clone(),
            (None, None) => header.path_bytes().into_owned(),
        }
    }
}

impl Walk<'_, '_> {
    fn all(mut self) -> Result<()> {
        let mut extensions = Extensions::default();
        while let Some(header) = self.header()? {
            self.staging.stop_if_cancelled()?;
            match header.as_bytes()[156] {
                b'L' => once(&mut extensions.long_name, self.long(&header)?)?,
                b'K' => once(&mut extensions.long_link, self.long(&header)?)?,
                b'x' => once(&mut extensions.pax, read_pax(&self.extension(&header)?)?)?,
                b'g' => self.global(&header)?,
                _ => self.member(&header, &std::mem::take(&mut extensions))?,
            }
        }
        if !extensions.is_empty() {
            return Err(damaged("it ends with a header of a member that does not follow"));
        }
        let nothing_but_zeros = |bytes: &[u8]| {
            let blank = bytes.iter().all(|byte| *byte == 0);
            if blank { Ok(()) } else { Err(damaged("something follows its end mark")) }
        };
        // The checksum of a compressed stream comes at its very end, so it is read to there.
        self.staging.drain(&mut self.source, nothing_but_zeros)
    }

    /// The next header, `None` at the end mark.
    fn header(&mut self) -> Result<Option<Header>> {
        let mut header = Header::new_old();
        self.exactly(header.as_mut_bytes(), "it has no end mark")?;
        if header.as_bytes().iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        if header_is_whole(header.as_bytes()) {
            Ok(Some(header))
        } else {
            Err(damaged("a header has the wrong checksum"))
        }
    }

    fn member(&mut self, header: &Header, extensions: &Extensions) -> Result<()> {
        let raw = extensions.name(header);
        let Some(Name { path, directory }) = names::read(&raw, self.staging.limits)? else {
            // The archive's own directory. It may be nothing else, and has no content.
            return match (header.as_bytes()[156], size_of(header, extensions, ".")?) {
                (b'5', 0) => Ok(()),
                _ => Err(refused(".", "it is named as the directory itself and is none")),
            };
        };
        if let Some(why) = cannot_be_kept(header.as_bytes()[156]) {
            return Err(refused(&path, why));
        }
        if extensions.pax.iter().flatten().any(|(key, _)| key.starts_with(b"GNU.sparse.")) {
            return Err(refused(&path, "sparse files are not unpacked; pack it without `--sparse`"));
        }
        let size = size_of(header, extensions, &path)?;
        // Writers older than POSIX know a directory only by its slash.
        if directory || header.as_bytes()[156] == b'5' {
            return match size {
                0 => self.staging.directory(&path),
                _ => Err(refused(&path, "it is a directory and has content")),
            };
        }
        if size > self.staging.limits.member {
            let most = self.staging.limits.member;
            return Err(refused(&path, format!("it has {size} bytes, and {most} are allowed in one file")));
        }
        let written = self.staging.file(&path, &mut (&mut self.source).take(size))?;
        if written != size {
            return Err(damaged(format!("member {path:?} has {written} of {size} bytes")));
        }
        self.padding(size)
    }

    fn long(&mut self, header: &Header) -> Result<Vec<u8>> {
        let mut name = self.extension(header)?;
        // It ends with a NUL; one inside stays and is refused with the name.
        if name.last() == Some(&0) {
            name.pop();
        }
        Ok(name)
    }

    /// Headers for all members that follow: they may not rename or resize them all.
    fn global(&mut self, header: &Header) -> Result<()> {
        let all = read_pax(&self.extension(header)?)?;
        match all.iter().find(|(key, _)| matches!(key.as_slice(), b"path" | b"size" | b"linkpath")) {
            None => Ok(()),
            Some((key, _)) => Err(damaged(format!(
                "a global header sets the {} of all members",
                String::from_utf8_lossy(key)
            ))),
        }
    }

    /// The content of a record that describes others.
    fn extension(&mut self, header: &Header) -> Result<Vec<u8>> {
        let size = header.entry_size().map_err(damaged)?;
        if size > EXTENSION {
            return Err(damaged(format!("an extended header has {size} bytes, and {EXTENSION} are allowed")));
        }
        let mut content = Vec::new();
        let keep = |bytes: &[u8]| {
            content.extend_from_slice(bytes);
            Ok(())
        };
        // They count as if they were written, else an archive could have them without end.
        self.staging.drain(&mut header.as_bytes().as_slice(), |_| Ok(()))?;
        self.staging.drain(&mut (&mut self.source).take(size), keep)?;
        if content.len() as u64 != size {
            return Err(damaged("it ends inside an extended header"));
        }
        self.padding(size)?;
        Ok(content)
    }

    fn padding(&mut self, size: u64) -> Result<()> {
        let length = size.wrapping_neg() % BLOCK as u64;
        // Less than a block, so that it always fits.
        let length = usize::try_from(length).unwrap_or_default();
        self.exactly(&mut [0; BLOCK][..length], "it ends inside a member")
    }

    fn exactly(&mut self, buffer: &mut [u8], cut: &str) -> Result<()> {
        self.source.read_exact(buffer).map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => damaged(cut),
            _ => unreadable(&error),
        })
    }
}

/// The size that counts.
fn size_of(header: &Header, extensions: &Extensions, path: &str) -> Result<u64> {
    match extensions.pax("size") {
        None => header.entry_size().map_err(|error| damaged(format!("member {path:?}: {error}"))),
        Some(text) => std::str::from_utf8(text)
            .ok()
            .and_then(|text| text.parse().ok())
            .ok_or_else(|| damaged(format!("member {path:?}: its extended size is no number"))),
    }
}

fn once<T>(place: &mut Option<T>, value: T) -> Result<()> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(damaged("two headers of one kind describe the same member")),
    }
}

fn cannot_be_kept(kind: u8) -> Option<String> {
    Some(match kind {
        0 | b'0' | b'5' | b'7' => return None,
        b'1' => "it is a hard link; links are not unpacked, pack the files themselves".into(),
        b'2' => "it is a symbolic link; links are not unpacked, pack the files themselves".into(),
        b'3' | b'4' => "it is a device".into(),
        b'6' => "it is a fifo".into(),
        b'S' => "sparse files are not unpacked; pack it without `--sparse`".into(),
        other => format!("it is of the unknown type {:?}", char::from(other)),
    })
}

/// Records `LENGTH KEY=VALUE\n`, where the length counts the record.
fn read_pax(mut content: &[u8]) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut all = Vec::new();
    while !content.is_empty() {
        let (record, rest) =
            pax_record(content).ok_or_else(|| damaged("an extended header cannot be read"))?;
        all.push(record);
        content = rest;
    }
    Ok(all)
}

type Record = (Vec<u8>, Vec<u8>);

fn pax_record(content: &[u8]) -> Option<(Record, &[u8])> {
    let space = content.iter().take(20).position(|byte| *byte == b' ')?;
    let length: usize = std::str::from_utf8(&content[..space]).ok()?.parse().ok()?;
    let (record, rest) = content.split_at_checked(length)?;
    let field = record.get(space + 1..)?.strip_suffix(b"\n")?;
    let equals = field.iter().position(|byte| *byte == b'=')?;
    Some(((field[..equals].to_vec(), field[equals + 1..].to_vec()), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extended_headers_are_read_by_their_lengths() {
        let read = read_pax(b"12 path=a\nb\n11 size=10\n").unwrap();
        assert_eq!(read, [(b"path".to_vec(), b"a\nb".to_vec()), (b"size".to_vec(), b"10".to_vec())]);
    }

    #[test]
    fn extended_headers_that_make_no_sense_are_refused() {
        for wrong in [
            &b"path=a\n"[..],
            b"0 path=a\n",
            b"3 path=a\n",
            b"99 path=a\n",
            b"-1 path=a\n",
            b"9 path=a",
            b"7 path\n",
            b"18446744073709551616 a=b\n",
            b" a=b\n",
        ] {
            assert!(read_pax(wrong).is_err(), "{wrong:?}");
        }
    }
}
