//! What a payload is, and so what becomes of it.
//!
//! The depositor says it, or it is guessed: from the profile if it is a manifest, else from the extension. In
//! the tree and in every answer it is written with underscores; what is read may have hyphens.
//!
//! A payload that begins as a Checkm manifest (`#%checkm`, see [`is_manifest`]) is a list of what is to be stored, and is
//! never stored itself as a plain file, whatever it was said to be. That holds for payloads only: what lies in a container
//! or is listed in an object manifest is content, and content may be a manifest.
//!
//! **When things break.** An unknown type is refused by name, with those that are known. A manifest that does not say what
//! its rows are, or that was said to be a file, is refused with what to do instead. Everything else can be guessed: what is
//! nothing else is a file, and is kept as it came.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::manifest::{self, Kind};

/// What was handed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PayloadKind {
    /// One file, one object; never unpacked.
    File,
    /// An archive, one object; always unpacked.
    Container,
    /// A manifest of the files of one object.
    ObjectManifest,
    /// A manifest of object manifests: an object for each.
    ManifestOfManifests,
    /// A manifest of archives: an object for each.
    ContainerBatch,
    /// A manifest of files: an object for each.
    SingleFileBatch,
}

/// Names that are accepted beside [`PayloadKind::name`].
const OTHER_NAMES: [(&str, PayloadKind); 3] = [
    ("manifest_of_manifests", PayloadKind::ManifestOfManifests),
    ("container_batch", PayloadKind::ContainerBatch),
    ("single_file_batch", PayloadKind::SingleFileBatch),
];

/// Extensions of archives that are unpacked.
const ARCHIVES: [&str; 6] = [".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2"];

impl PayloadKind {
    pub const ALL: [PayloadKind; 6] = [
        PayloadKind::File,
        PayloadKind::Container,
        PayloadKind::ObjectManifest,
        PayloadKind::ManifestOfManifests,
        PayloadKind::ContainerBatch,
        PayloadKind::SingleFileBatch,
    ];

    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            PayloadKind::File => "file",
            PayloadKind::Container => "container",
            PayloadKind::ObjectManifest => "object_manifest",
            PayloadKind::ManifestOfManifests => "batch_manifest",
            PayloadKind::ContainerBatch => "container_batch_manifest",
            PayloadKind::SingleFileBatch => "single_file_batch_manifest",
        }
    }

    /// What a row of it becomes: the kind of each job's payload, if this makes a job of each row.
    pub fn of_rows(self) -> Option<PayloadKind> {
        match self {
            PayloadKind::ManifestOfManifests => Some(PayloadKind::ObjectManifest),
            PayloadKind::ContainerBatch => Some(PayloadKind::Container),
            PayloadKind::SingleFileBatch => Some(PayloadKind::File),
            PayloadKind::File | PayloadKind::Container | PayloadKind::ObjectManifest => None,
        }
    }

    /// From the manifest's profile, then from the extension. The profile stands in the first lines:
    /// [`FIRST_BYTES`] are enough of any real manifest.
    ///
    /// # Errors
    ///
    /// [`AmbiguousManifest`] if it begins as a manifest and its profile is missing or unknown: it is no file, and nothing
    /// says what its rows are.
    pub fn guess(file_name: &str, first_bytes: &[u8]) -> Result<Self, AmbiguousManifest> {
        match manifest::sniff(first_bytes) {
            Some(kind) => Ok(kind.into()),
            None if is_manifest(first_bytes) => Err(AmbiguousManifest(manifest::why_unknown(first_bytes))),
            None => Ok(Self::of_name(file_name)),
        }
    }

    /// From the extension alone: an archive is a container, everything else is a file.
    pub fn of_name(file_name: &str) -> Self {
        let name = file_name.rsplit('/').next().unwrap_or(file_name).to_ascii_lowercase();
        let archive = |extension: &&str| name.strip_suffix(*extension).is_some_and(|stem| !stem.is_empty());
        if ARCHIVES.iter().any(archive) { PayloadKind::Container } else { PayloadKind::File }
    }
}

impl From<Kind> for PayloadKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Object => PayloadKind::ObjectManifest,
            Kind::Batch => PayloadKind::ManifestOfManifests,
            Kind::ContainerBatch => PayloadKind::ContainerBatch,
            Kind::SingleFileBatch => PayloadKind::SingleFileBatch,
        }
    }
}

impl fmt::Display for PayloadKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// So many first bytes of a payload tell whether it is a manifest, and of which kind.
pub const FIRST_BYTES: u16 = 4096;

/// Whether a payload with these first bytes is a Checkm manifest, and so must not be stored as a plain file. A byte order
/// mark, blank lines, and any case are as good as `#%checkm` itself.
pub fn is_manifest(first_bytes: &[u8]) -> bool {
    manifest::begins_as_manifest(first_bytes)
}

/// Why a payload that was to be stored as a plain file is refused, and what to do: it is a manifest.
pub const MANIFEST_AS_FILE: &str = "the payload begins with `#%checkm`: it is a manifest and no plain file, and is not stored \
     as one; submit it with the type object_manifest, batch_manifest, container_batch_manifest or \
     single_file_batch_manifest, or put it into a container or an object manifest if it is itself what is to be stored";

/// A payload that begins as a manifest, and does not say of which kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the payload begins with `#%checkm`: it is a manifest and no plain file, and {0}, so nothing says what its rows are; \
     add `#%profile | {profile}` (or that of a batch), or submit it with its type: object_manifest, batch_manifest, \
     container_batch_manifest or single_file_batch_manifest",
    profile = Kind::Object.profile()
)]
pub struct AmbiguousManifest(String);

/// A type that is not known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no type of payload; known are {known}", known = PayloadKind::ALL.map(PayloadKind::name).join(", "))]
pub struct UnknownPayload(pub String);

impl FromStr for PayloadKind {
    type Err = UnknownPayload;

    /// Any case, with hyphens or underscores.
    fn from_str(text: &str) -> Result<Self, UnknownPayload> {
        let name = text.trim().to_ascii_lowercase().replace('-', "_");
        let own = PayloadKind::ALL.into_iter().find(|kind| kind.name() == name);
        let other = || OTHER_NAMES.into_iter().find(|(other, _)| *other == name).map(|(_, kind)| kind);
        own.or_else(other).ok_or_else(|| UnknownPayload(text.to_owned()))
    }
}

impl Serialize for PayloadKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for PayloadKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_read_with_hyphens_or_underscores_and_written_with_underscores() {
        for (text, kind) in [
            ("file", PayloadKind::File),
            ("Container", PayloadKind::Container),
            ("object-manifest", PayloadKind::ObjectManifest),
            ("object_manifest", PayloadKind::ObjectManifest),
            ("batch-manifest", PayloadKind::ManifestOfManifests),
            ("batch_manifest", PayloadKind::ManifestOfManifests),
            ("manifest-of-manifests", PayloadKind::ManifestOfManifests),
            ("container-batch-manifest", PayloadKind::ContainerBatch),
            ("single-file-batch-manifest", PayloadKind::SingleFileBatch),
            ("single_file_batch", PayloadKind::SingleFileBatch),
        ] {
            assert_eq!(text.parse(), Ok(kind), "{text}");
        }
        for kind in PayloadKind::ALL {
            assert_eq!(kind.to_string().parse(), Ok(kind));
            assert!(!kind.name().contains('-'));
            let json = serde_json::to_string(&kind).unwrap();
            assert_eq!(json, format!("\"{kind}\""));
            assert_eq!(serde_json::from_str::<PayloadKind>(&json).unwrap(), kind);
        }
    }

    #[test]
    fn an_unknown_kind_is_refused_by_name_with_those_that_are_known() {
        let error = "zip".parse::<PayloadKind>().unwrap_err().to_string();
        assert!(error.starts_with("`zip` is no type of payload; known are file, container,"), "{error}");
    }

    #[test]
    fn the_extension_tells_archives_from_files() {
        for name in ["a.zip", "A.ZIP", "a.tar", "a.tar.gz", "a.tgz", "a.tar.bz2", "dir/a.tbz2"] {
            assert_eq!(PayloadKind::guess(name, b"PK"), Ok(PayloadKind::Container), "{name}");
        }
        for name in ["a.gz", "zip", "a.zip.txt", ".zip", "dir.zip/a", "", "a.checkm"] {
            assert_eq!(PayloadKind::guess(name, b""), Ok(PayloadKind::File), "{name}");
        }
    }

    #[test]
    fn the_profile_counts_more_than_the_extension() {
        for kind in Kind::ALL {
            let first = format!("#%checkm_0.7\r\n# by hand\r\n#%profile | {}\r\n", kind.profile());
            assert_eq!(PayloadKind::guess("a.zip", first.as_bytes()), Ok(PayloadKind::from(kind)));
        }
    }

    #[test]
    fn a_text_that_only_speaks_of_a_profile_is_no_manifest() {
        let text = format!("Write this:\n#%profile | {}\n", Kind::Batch.profile());
        assert_eq!(PayloadKind::guess("notes.txt", text.as_bytes()), Ok(PayloadKind::File));
        let other = b"#%dataonem_0.1\n#%profile | http://uc3.cdlib.org/registry/ingest/manifest/mrt-dataone-manifest\n";
        assert_eq!(PayloadKind::guess("mrt-dataone-manifest.txt", other), Ok(PayloadKind::File));
        assert_eq!(PayloadKind::guess("a.jpg", &[0xff; 100]), Ok(PayloadKind::File));
    }

    #[test]
    fn a_payload_that_begins_as_a_manifest_is_never_guessed_to_be_a_file() {
        let utf16 = |mark: [u8; 2], order: fn(u16) -> [u8; 2]| {
            let units = "#%checkm_0.7\r\n".encode_utf16().flat_map(order);
            mark.into_iter().chain(units).collect::<Vec<u8>>()
        };
        let beginnings: [&[u8]; 8] = [
            b"#%checkm_0.7\nhttp://a | | | | | a\n#%eof\n",
            b"#%checkm",
            b"#%CheckM_0.7\n",
            b"#%checkm_1.0\n#%profile | http://example.org/mine\n",
            b"\xef\xbb\xbf#%checkm_0.7\n",
            b"\r\n \t#%CHECKM_0.7\n",
            &utf16([0xff, 0xfe], u16::to_le_bytes),
            &utf16([0xfe, 0xff], u16::to_be_bytes),
        ];
        for first in beginnings {
            let shown = String::from_utf8_lossy(first);
            assert!(is_manifest(first), "{shown}");
            for name in ["notes.txt", "a.zip"] {
                let why = PayloadKind::guess(name, first).unwrap_err().to_string();
                assert!(
                    why.contains("add `#%profile | http") && why.contains("with its type"),
                    "{shown}: {why}"
                );
            }
        }
        let why = PayloadKind::guess("a", beginnings[3]).unwrap_err().to_string();
        assert!(why.contains("its `#%profile` is `http://example.org/mine`, which is not known"), "{why}");
        for no_manifest in
            [&b"# %checkm_0.7"[..], b"x #%checkm_0.7", b"#%check", b"", b"\xff\xfe#\x01%\x00", b"\xff\xfe"]
        {
            assert!(!is_manifest(no_manifest), "{no_manifest:?}");
        }
    }

    #[test]
    fn a_batch_says_what_its_rows_are() {
        assert_eq!(PayloadKind::ManifestOfManifests.of_rows(), Some(PayloadKind::ObjectManifest));
        assert_eq!(PayloadKind::ContainerBatch.of_rows(), Some(PayloadKind::Container));
        assert_eq!(PayloadKind::SingleFileBatch.of_rows(), Some(PayloadKind::File));
        assert_eq!(PayloadKind::ObjectManifest.of_rows(), None);
    }
}
