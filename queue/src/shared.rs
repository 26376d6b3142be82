//! What all nodes share by the tree: profiles and the settings of the cluster.
//!
//! A document is a text with a version and a digest, sharded, because it may be large. Whoever changes one holds the
//! write lock of all of them while it is judged and written, so that what was judged together holds together; whoever
//! wants to see all of them as they were at one moment holds the read lock.
//!
//! **When things break.** A document is set in one multi that rests on the lock and on the version that was read: a
//! writer that has lost its lock changes nothing. A reader sees the old text or the new one, whole. One that cannot be
//! read is told with its reason, and the others are read all the same.

use ingest_store::recipes::{rw_lock, settle, shard};
use ingest_store::{Kind, Op};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::committer::{Mark, Unit, commit_alone};
use crate::date::Date;
use crate::error::{Error, Result};
use crate::map;
use crate::nodes::Unreadable;
use crate::queue::Queue;

/// The most bytes of a text.
pub const LARGEST: usize = 1 << 20;

/// A document.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Document {
    pub name: String,
    /// How often it was written.
    pub version: u32,
    /// SHA-256 of the text.
    pub digest: String,
    pub who: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Date>,
    pub text: String,
}

impl Document {
    /// Version and digest in short: `3-9f86d081884c`. Two that are the same are the same text.
    pub fn mark(&self) -> String {
        format!("{}-{}", self.version, self.digest.get(..12).unwrap_or(&self.digest))
    }
}

/// Everything that is shared, at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SharedNow {
    pub settings: Option<Document>,
    /// By name.
    pub profiles: Vec<Document>,
    /// Paths that cannot be read, and why.
    pub unreadable: Vec<(String, String)>,
}

impl SharedNow {
    /// What the settings are, in short; `-`: none.
    pub fn settings_mark(&self) -> String {
        self.settings.as_ref().map_or_else(|| "-".to_owned(), Document::mark)
    }

    /// What the profiles are together, in short; `-`: none.
    pub fn profiles_mark(&self) -> String {
        if self.profiles.is_empty() {
            return "-".to_owned();
        }
        let marks: Vec<String> =
            self.profiles.iter().map(|one| format!("{} {}", one.name, one.mark())).collect();
        format!("{}-{}", marks.len(), digest_of(&marks.join("\n")).get(..12).unwrap_or_default())
    }
}

/// In hex digits.
pub fn digest_of(text: &str) -> String {
    use std::fmt::Write as _;
    Sha256::digest(text.as_bytes()).iter().fold(String::new(), |mut hex, byte| {
        // Writing to a String cannot fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

/// Takes a document apart, unless it is none, or its text is not the one that was written.
pub fn read(data: &[u8]) -> std::result::Result<Document, String> {
    let document: Document = serde_json::from_slice(data).map_err(|error| error.to_string())?;
    if digest_of(&document.text) != document.digest {
        return Err("its text is not that of its digest".to_owned());
    }
    Ok(document)
}

/// The same for whoever only checks it.
pub(crate) fn readable(data: &[u8]) -> std::result::Result<(), Unreadable> {
    read(data).map(drop).map_err(Unreadable)
}

/// What became of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changed {
    /// As it is now; absent: it is gone.
    pub document: Option<Document>,
    /// False: it was so already.
    pub changed: bool,
}

impl Queue {
    /// A profile of the tree.
    pub async fn shared_profile(&self, name: &str) -> Result<Option<Document>> {
        Ok(self.document(&map::profile(name)).await?.map(|(document, _)| document))
    }

    /// The settings of the cluster.
    pub async fn shared_settings(&self) -> Result<Option<Document>> {
        Ok(self.document(map::CONF).await?.map(|(document, _)| document))
    }

    /// Everything, at one moment.
    pub async fn shared(&self) -> Result<SharedNow> {
        let held = rw_lock::read(&self.session, map::CONF_LOCK, self.settings.node.clone()).await?;
        let found = self.shared_unlocked().await;
        held.release().await?;
        found
    }

    /// The same without the lock, for whoever only shows it: each document is whole, and two may be of two moments.
    pub async fn shared_unlocked(&self) -> Result<SharedNow> {
        let mut now = SharedNow::default();
        let mut names = match self.children(map::PROFILES).await {
            Err(error) if error.kind() == Kind::NoNode => Vec::new(),
            names => names?,
        };
        names.sort_unstable();
        let paths = names.iter().map(|name| map::profile(name)).chain([map::CONF.to_owned()]);
        for path in paths {
            match self.document(&path).await {
                Ok(Some((document, _))) if path == map::CONF => now.settings = Some(document),
                Ok(Some((document, _))) => now.profiles.push(document),
                Ok(None) => {}
                Err(Error::Corrupt { path, why }) => now.unreadable.push((path, why)),
                Err(error) => return Err(error),
            }
        }
        Ok(now)
    }

    async fn document(&self, path: &str) -> Result<Option<(Document, i32)>> {
        let found = match shard::read(&self.session, path, 2 * LARGEST as u64).await {
            Err(error) if error.kind() == Kind::NoNode => None,
            Err(error) if error.kind() == Kind::Corrupt => return Err(Error::corrupt(path, error)),
            found => found?,
        };
        let Some((data, stat)) = found else { return Ok(None) };
        let document = read(&data).map_err(|why| Error::corrupt(path, why))?;
        Ok(Some((document, stat.version)))
    }

    /// Puts a profile. Its text was judged before; `who` is told to others.
    pub async fn put_profile(&self, name: &str, text: &str, who: &str) -> Result<Changed> {
        self.change(&map::profile(name), name, who, |_| Ok(Some(text.to_owned()))).await
    }

    pub async fn delete_profile(&self, name: &str, who: &str) -> Result<Changed> {
        let missing = || Error::NotFound(format!("profile `{name}` in the tree"));
        self.change(&map::profile(name), name, who, |before| match before {
            Some(_) => Ok(None),
            None => Err(missing()),
        })
        .await
    }

    /// Changes the settings of the cluster: `change` makes the new text of the old one, judges it, or refuses.
    pub async fn change_settings(
        &self,
        who: &str,
        change: impl Fn(&str) -> Result<String> + Send,
    ) -> Result<Changed> {
        let change = |before: Option<&Document>| change(before.map_or("", |before| &before.text)).map(Some);
        self.change(map::CONF, "settings", who, change).await
    }

    async fn change(
        &self,
        path: &str,
        name: &str,
        who: &str,
        change: impl Fn(Option<&Document>) -> Result<Option<String>>,
    ) -> Result<Changed> {
        let owner = format!("{who} on {}", self.settings.node);
        let held = rw_lock::write(&self.session, map::CONF_LOCK, owner).await?;
        let changed = self.change_under(&held, path, name, who, change).await;
        // Not released, it would end with the session at the latest.
        if let Err(error) = held.release().await {
            tracing::debug!(%error, "the lock of the settings is released later");
        }
        changed
    }

    /// A document that is gone: its node is empty first, so that nobody ever sees half of it.
    async fn withdraw(&self, held: &rw_lock::Held, path: &str) -> Result<()> {
        let Some(stat) = self.exists(path).await? else { return Ok(()) };
        let ops = vec![held.fence(), Op::set(path, "", stat.version)];
        let settled = settle(&self.session, || self.session.multi(ops.clone())).await;
        if let Err(error) = settled.answer {
            let (now, _) = self.get(path).await?;
            // The lost try may have been the one that did it.
            if !settled.repeated || !now.is_empty() {
                return Err(error.into());
            }
        }
        if let Err(error) = shard::remove_whole(&self.session, path).await {
            tracing::debug!(%error, path, "what is left of it is removed later");
        }
        Ok(())
    }

    async fn change_under(
        &self,
        held: &rw_lock::Held,
        path: &str,
        name: &str,
        who: &str,
        change: impl Fn(Option<&Document>) -> Result<Option<String>>,
    ) -> Result<Changed> {
        let before = match self.document(path).await {
            // Whoever puts it again mends it.
            Err(Error::Corrupt { .. }) => None,
            before => before?,
        };
        let text = change(before.as_ref().map(|(document, _)| document))?;
        let Some(text) = text else {
            self.withdraw(held, path).await?;
            return Ok(Changed { document: None, changed: true });
        };
        if text.len() > LARGEST {
            return Err(Error::Invalid(format!(
                "{name} has {} bytes, and {LARGEST} is the most",
                text.len()
            )));
        }
        let digest = digest_of(&text);
        if let Some((document, _)) = before.as_ref().filter(|(document, _)| document.digest == digest) {
            return Ok(Changed { document: Some(document.clone()), changed: false });
        }
        let document = Document {
            name: name.to_owned(),
            version: before.map_or(0, |(document, _)| document.version) + 1,
            digest,
            who: who.to_owned(),
            at: Some(self.now()),
            text,
        };
        let bytes = serde_json::to_vec(&document).map_err(|error| Error::Invalid(error.to_string()))?;
        let prepared = shard::prepare(&self.session, path, &bytes).await?;
        let write = match self.exists(path).await? {
            Some(stat) => prepared.op(path, stat.version),
            None => Op::create(path, prepared.announcement()),
        };
        let mark = Mark::holds(path, prepared.id());
        commit_alone(&self.session, Unit::new(vec![held.fence(), write], mark)).await?;
        if let Err(error) = shard::remove_replaced(&self.session, path, &prepared).await {
            tracing::debug!(%error, path, "parts of the old text are collected later");
        }
        Ok(Changed { document: Some(document), changed: true })
    }
}
