//! The sample deposits: a herbarium in small, made for this program.
//!
//! The files come with a list of their digests, which the manifests quote. So a file that was altered is found out by
//! the node, and not here.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use bytes::Bytes;

/// The picture that is served damaged at first.
pub(super) const DAMAGED: &str = "sword-fern.png";

const SUMS: &str = "SHA256SUMS";

const SHIPPED: [(&str, &[u8]); 6] = [
    (SUMS, include_bytes!("samples/SHA256SUMS")),
    ("fern.png", include_bytes!("samples/fern.png")),
    (DAMAGED, include_bytes!("samples/sword-fern.png")),
    ("letter.txt", include_bytes!("samples/letter.txt")),
    ("field-notes.zip", include_bytes!("samples/field-notes.zip")),
    ("specimen-bag.zip", include_bytes!("samples/specimen-bag.zip")),
];

/// Files, and the digests that they should have.
#[derive(Debug)]
pub(super) struct Samples {
    files: BTreeMap<&'static str, Bytes>,
    sums: BTreeMap<String, String>,
}

impl Samples {
    /// Those of the program, or files of the same names in a directory.
    pub(super) fn load(dir: Option<&Path>) -> Result<Self> {
        let mut files = BTreeMap::new();
        for (name, shipped) in SHIPPED {
            let bytes = match dir {
                Some(dir) => {
                    let path = dir.join(name);
                    std::fs::read(&path).with_context(|| format!("the sample {}", path.display()))?.into()
                }
                None => Bytes::from_static(shipped),
            };
            files.insert(name, bytes);
        }
        let sums = files.remove(SUMS).unwrap_or_default();
        let sums = std::str::from_utf8(&sums).context(SUMS)?;
        let sums = sums.lines().filter_map(|line| line.split_once("  "));
        let sums = sums.map(|(digest, name)| (name.to_owned(), digest.to_owned())).collect();
        Ok(Self { files, sums })
    }

    pub(super) fn files(&self) -> impl Iterator<Item = (&'static str, &Bytes)> {
        self.files.iter().map(|(name, bytes)| (*name, bytes))
    }

    pub(super) fn bytes(&self, name: &str) -> Result<&Bytes> {
        self.files.get(name).with_context(|| format!("there is no sample {name}"))
    }

    /// The digest that a file should have.
    pub(super) fn digest(&self, name: &str) -> Result<&str> {
        match self.sums.get(name) {
            Some(digest) => Ok(digest),
            None => bail!("{SUMS} has no line for {name}"),
        }
    }
}

/// A copy in which one byte is another.
pub(super) fn with_one_byte_altered(bytes: &Bytes) -> Bytes {
    let mut altered = bytes.to_vec();
    if let Some(byte) = altered.last_mut() {
        *byte ^= 1;
    }
    altered.into()
}

#[cfg(test)]
mod tests {
    use sha2::{Digest as _, Sha256};

    use super::*;

    #[test]
    fn the_samples_are_what_their_list_says() {
        let samples = Samples::load(None).unwrap();
        let mut count = 0;
        for (name, bytes) in samples.files() {
            let hex: Vec<String> = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
            let found = hex.concat();
            assert_eq!(found, samples.digest(name).unwrap(), "{name}");
            assert_ne!(with_one_byte_altered(bytes), bytes);
            count += 1;
        }
        assert_eq!((count, samples.sums.len()), (5, 5));
    }
}
