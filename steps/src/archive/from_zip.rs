//! Zips: the directory is read and checked as a whole, then the members one by one.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use bzip2::read::BzDecoder;
use flate2::read::DeflateDecoder;

use super::names::Register;
use super::refused;
use super::staging::{Staging, disk, unreadable};
use super::zip_directory::{self, Member, Method};
use crate::outcome::Result;

pub(super) fn unpack(archive: &Path, staging: &mut Staging<'_>) -> Result<()> {
    let mut file = File::open(archive).map_err(|error| disk(archive, &error))?;
    let members = zip_directory::read(&mut file, staging.limits, staging.cancel)?;
    check_together(&members, staging)?;
    for member in &members {
        staging.stop_if_cancelled()?;
        if member.name.directory {
            staging.directory(&member.name.path)?;
        } else {
            write(&mut file, member, staging)?;
        }
    }
    Ok(())
}

/// What only shows when all members are looked at, before anything is written.
fn check_together(members: &[Member], staging: &Staging<'_>) -> Result<()> {
    let mut names = Register::default();
    for member in members {
        names.add(&member.name.path, member.name.directory, staging.limits)?;
    }
    let total = members.iter().fold(0_u64, |sum, member| sum.saturating_add(member.size));
    staging.announced(total)?;
    let files = members.iter().filter(|member| !member.name.directory).count();
    staging.progress.announce(files as u64, total);
    Ok(())
}

fn write(file: &mut File, member: &Member, staging: &mut Staging<'_>) -> Result<()> {
    let path = &member.name.path;
    file.seek(SeekFrom::Start(member.start)).map_err(|error| unreadable(&error))?;
    let packed = BufReader::new(file).take(member.packed);
    // A byte more than announced shows that there is more, without reading all of it.
    let most = member.size.saturating_add(1);
    let mut content = match member.method {
        Method::Stored => Checked::new(packed.take(most)),
        Method::Deflate => Checked::new(DeflateDecoder::new(packed).take(most)),
        Method::Bzip2 => Checked::new(BzDecoder::new(packed).take(most)),
    };
    let written = staging.file(path, &mut content)?;
    if written != member.size {
        let relation = if written > member.size { "more" } else { "less" };
        return Err(refused(path, format!("it has {relation} than the {} bytes announced", member.size)));
    }
    if content.crc.finalize() != member.crc {
        return Err(refused(path, "its checksum is wrong: it was damaged on its way; send it again"));
    }
    Ok(())
}

/// Computes the checksum of what is read.
struct Checked<'a> {
    inner: Box<dyn Read + 'a>,
    crc: crc32fast::Hasher,
}

impl<'a> Checked<'a> {
    fn new(inner: impl Read + 'a) -> Self {
        Self { inner: Box::new(inner), crc: crc32fast::Hasher::new() }
    }
}

impl Read for Checked<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.crc.update(&buffer[..count]);
        Ok(count)
    }
}
