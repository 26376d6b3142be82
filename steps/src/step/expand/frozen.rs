//! The rows of what is no batch manifest, as they are frozen in the tree:
//!
//! ```json
//! {"rows": [{"kind": "container", "url": "…", "name": "a.zip", "size": 3, "digest_type": "md5",
//!            "digest_value": "…", "local_id": ["a"], "primary_id": "ark:/…", "key": "…"}]}
//! ```
//!
//! All but the first three may be absent. A checkm manifest never begins with `{`.

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::manifest::Row;
use crate::outcome::{Failure, Result};
use crate::payload::PayloadKind;

/// A row, and what kind of payload it names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KnownRow {
    pub(super) kind: PayloadKind,
    pub(super) row: Row,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Frozen {
    rows: Vec<FrozenRow>,
}

#[derive(Debug, Serialize, Deserialize)]
struct FrozenRow {
    kind: PayloadKind,
    url: String,
    name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    digest_type: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    digest_value: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    local_id: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    primary_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<String>,
}

pub(super) fn is_frozen_rows(first: &[u8]) -> bool {
    first.first() == Some(&b'{')
}

pub(super) fn write(rows: &[KnownRow]) -> Result<Vec<u8>> {
    let rows = rows
        .iter()
        .map(|KnownRow { kind, row }| FrozenRow {
            kind: *kind,
            url: row.url.clone(),
            name: row.name.clone(),
            size: row.size,
            digest_type: row.digest.as_ref().map(|digest| digest.algorithm().name().to_owned()),
            digest_value: row.digest.as_ref().map(|digest| digest.hex().to_owned()),
            local_id: row.local_ids.clone(),
            primary_id: row.primary_id.clone(),
            key: row.key.clone(),
        })
        .collect();
    serde_json::to_vec(&Frozen { rows }).map_err(|error| Failure::fail(format!("its rows: {error}")))
}

pub(super) fn read(bytes: &[u8]) -> Result<Vec<KnownRow>> {
    let unreadable = |why: &dyn std::fmt::Display| Failure::fail(format!("the frozen rows: {why}"));
    let frozen: Frozen = serde_json::from_slice(bytes).map_err(|error| unreadable(&error))?;
    let known = |row: FrozenRow| {
        let digest = match (&row.digest_type, &row.digest_value) {
            (Some(algorithm), Some(value)) => {
                let algorithm = algorithm.parse().map_err(|error| unreadable(&error))?;
                Some(Digest::new(algorithm, value).map_err(|error| unreadable(&error))?)
            }
            _ => None,
        };
        let FrozenRow { kind, url, name, size, local_id, primary_id, key, .. } = row;
        let row = Row { url, name, size, digest, local_ids: local_id, primary_id, key, ..Row::default() };
        Ok(KnownRow { kind, row })
    };
    frozen.rows.into_iter().map(known).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::Algorithm;

    #[test]
    fn rows_are_read_back() {
        let whole = Row {
            url: "https://example.org/a.zip".into(),
            name: "a.zip".into(),
            size: Some(3),
            digest: Some(Digest::new(Algorithm::Crc32, "00c0ffee").unwrap()),
            local_ids: vec!["a;b".into(), "c".into()],
            primary_id: Some("ark:/99999/fk4a".into()),
            key: Some("first".into()),
            ..Row::default()
        };
        let bare = Row { url: "file:///a".into(), name: "a".into(), ..Row::default() };
        let rows = vec![
            KnownRow { kind: PayloadKind::Container, row: whole },
            KnownRow { kind: PayloadKind::File, row: bare },
        ];
        let bytes = write(&rows).unwrap();
        assert!(is_frozen_rows(&bytes) && !is_frozen_rows(b"#%checkm_0.7"));
        assert_eq!(read(&bytes), Ok(rows));
    }
}
