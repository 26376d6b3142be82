//! The two ways to write the same tree. Reading understands both, always.

/// What this node writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, serde::Serialize, serde::Deserialize)]
pub enum Dialect {
    /// Lower-case states, RFC 3339 dates.
    #[default]
    #[serde(rename = "design")]
    Design,
    /// What Merritt's library writes and reads, so that its inventory and storage services and its admin
    /// tools work on the same tree unchanged. They are neither atomic nor fenced.
    #[serde(rename = "mrt-zk")]
    MrtZk,
}

impl Dialect {
    /// How many references one list may hold: the listing of the other library fails a little above.
    pub fn max_refs(self) -> Option<usize> {
        match self {
            Dialect::Design => None,
            Dialect::MrtZk => Some(40_000),
        }
    }
}
