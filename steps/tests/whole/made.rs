//! Payloads of every kind, made for the tests of whole runs.

use std::io::{Cursor, Write as _};

use ingest_harness::FileServer;
use ingest_steps::digest::{Algorithm, Digests};
use ingest_steps::manifest::Kind;

/// Names and contents.
pub(crate) type Files<'a> = [(&'a str, &'a [u8])];

/// The digest of some bytes, in hexadecimal.
pub(crate) fn hex(algorithm: Algorithm, data: &[u8]) -> String {
    let mut digests = Digests::of([algorithm]);
    digests.update(data);
    digests.finish().remove(0).hex().to_owned()
}

pub(crate) fn zip(files: &Files<'_>) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (name, content) in files {
        zip.start_file(*name, zip::write::SimpleFileOptions::default()).unwrap();
        zip.write_all(content).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

pub(crate) fn tar(files: &Files<'_>) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    for (name, content) in files {
        let mut header = tar::Header::new_ustar();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        tar.append_data(&mut header, name, *content).unwrap();
    }
    tar.into_inner().unwrap()
}

pub(crate) fn tar_gz(files: &Files<'_>) -> Vec<u8> {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(&tar(files)).unwrap();
    packed.finish().unwrap()
}

pub(crate) fn tar_bz2(files: &Files<'_>) -> Vec<u8> {
    let mut packed = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
    packed.write_all(&tar(files)).unwrap();
    packed.finish().unwrap()
}

/// A bag of one file, in a zip.
pub(crate) fn bag(payload: &[u8]) -> Vec<u8> {
    let manifest = format!("{}  data/letter.txt\n", hex(Algorithm::Sha256, payload));
    zip(&[
        ("bag/bagit.txt", b"BagIt-Version: 1.0\nTag-File-Character-Encoding: UTF-8\n"),
        ("bag/manifest-sha256.txt", manifest.as_bytes()),
        ("bag/data/letter.txt", payload),
    ])
}

pub(crate) fn manifest(kind: Kind, rows: &[String]) -> String {
    format!("#%checkm_0.7\n#%profile | {}\n{}#%eof\n", kind.profile(), rows.concat())
}

/// A row of one of the three batch manifests.
pub(crate) fn row(server: &FileServer, path: &str, content: &[u8], name: &str, local_id: &str) -> String {
    let url = server.put(path, content);
    let (digest, size) = (hex(Algorithm::Sha256, content), content.len());
    format!("{url} | sha256 | {digest} | {size} | | {name} | | {local_id} | Doe | Title of {name} | 2020\n")
}

/// A row of an object manifest.
pub(crate) fn file_row(server: &FileServer, path: &str, content: &[u8], name: &str) -> String {
    let url = server.put(path, content);
    let (digest, size) = (hex(Algorithm::Md5, content), content.len());
    format!("{url} | md5 | {digest} | {size} | | {name} | text/plain\n")
}
