//! Access: a stored object is put together as one file that people can fetch.
//!
//! [`request`] finds the object, adds an item to the small or to the large queue, and answers with a token
//! that nobody can guess. [`run`] puts it together below `access.dir`: a zip of the files as they are, or a
//! zip of a bag with them. Members are stored and not packed any further, since most content is packed already.
//! [`find`] tells whoever has the token how far it is, and [`expire`] removes what was there long enough.
//!
//! Every file is compared with the digest that it was stored with, on its way. What is put together has its
//! name only when it is whole and on the disk.
//!
//! All configured storages are asked for an object; of several that have it the one with the newest version
//! counts. The version is settled by the request: one that is stored later changes nothing about it.
//!
//! The token is `SIZE-AID-SECRET`: two parts to find the item by, and 256 random bits. The tree keeps only the
//! secret, and it is compared by its hash.
//!
//! **When things break.** A crash leaves a file with a temporary name, which [`expire`] removes, and an item that
//! the next worker takes. Two workers are kept apart by the item's lock, and each attempt writes a file of its own:
//! the token names the one that counts, the others go with [`expire`]. A stored file that is damaged or missing fails the item, and
//! nothing is left of it.

mod expire;
mod find;
mod request;
mod write;

use std::path::{Path, PathBuf};
use std::str::FromStr;

use futures::StreamExt as _;
use ingest_queue::access::AccessLease;
use ingest_queue::error::Error;
use ingest_queue::ids::Aid;
use ingest_queue::map::{self, AccessSize};
use ingest_queue::nodes::AccessToken;
use ingest_queue::queue::Queue;
use ingest_queue::states::{AccessState, States as _};
use serde_json::Value;
use url::Url;

pub use expire::{Expired, expire};
pub use find::{Found, find};
pub use request::{Request, Requested, request};

use self::write::Writer;
use crate::digest::{Algorithm, Digests};
use crate::outcome::{Cancel, Failure, Progress, Result};
use crate::services::Services;
use crate::storage::{Storage, StoredManifest};

/// What an object is put together as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Its files under their own names.
    Zip,
    /// A bag of version 1.0, in a directory of its own, with a sha-512 of each file.
    Bag,
}

impl Form {
    pub fn name(self) -> &'static str {
        match self {
            Form::Zip => "zip",
            Form::Bag => "bag",
        }
    }
}

impl FromStr for Form {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "zip" => Ok(Form::Zip),
            "bag" => Ok(Form::Bag),
            other => {
                Err(format!("`{}` is no form of an object; known are zip and bag", other.escape_debug()))
            }
        }
    }
}

/// What an item's token says of the object, in fields of our own.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Wanted {
    ark: String,
    version: u32,
    form: Form,
    storage: String,
}

impl Wanted {
    fn write(&self, token: &mut AccessToken) {
        token.other.insert("ark".into(), self.ark.as_str().into());
        token.other.insert("version".into(), self.version.into());
        token.other.insert("form".into(), self.form.name().into());
        token.other.insert("storage".into(), self.storage.as_str().into());
    }

    fn read(token: &AccessToken) -> Result<Self> {
        let text = |name: &str| {
            let found = token.other.get(name).and_then(Value::as_str).map(str::to_owned);
            found.ok_or_else(|| {
                Failure::fail(format!("its token has no `{name}`: nobody knows what to assemble"))
            })
        };
        let version = token.other.get("version").and_then(Value::as_u64);
        Ok(Self {
            ark: text("ark")?,
            version: version
                .and_then(|version| u32::try_from(version).ok())
                .ok_or_else(|| Failure::fail("its token has no `version`"))?,
            form: text("form")?.parse().map_err(Failure::fail)?,
            storage: text("storage")?,
        })
    }

    /// What people see: the name of the object, with its version.
    fn name(&self) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' };
        let ark: String = map::escape(&self.ark).chars().map(plain).collect();
        format!("{ark}_v{}", self.version)
    }
}

/// The field of a token that names the file, below `access.dir`.
const FILE: &str = "file";

/// A name for the file of an item that no other attempt at it has: whoever has lost the item harms nobody. It
/// says which item it belongs to, and nothing of the token.
fn new_name(size: AccessSize, aid: Aid) -> String {
    format!("{}-{aid}-{}.zip", size.name(), uuid::Uuid::new_v4().simple())
}

/// Whose file a name belongs to, and whether it is whole or temporary.
fn owner_of(name: &str) -> Option<(AccessSize, Aid, bool)> {
    let (name, whole) = match name.strip_prefix('.') {
        Some(name) => (name.split_once(".part-")?.0, false),
        None => (name, true),
    };
    let (size, rest) = name.strip_suffix(".zip")?.split_once('-')?;
    let (aid, attempt) = rest.split_once('-')?;
    let size = AccessSize::ALL.into_iter().find(|known| known.name() == size)?;
    let aid = aid.parse().ok()?;
    let plain = !attempt.is_empty() && attempt.bytes().all(|byte| byte.is_ascii_hexdigit());
    plain.then_some((size, aid, whole))
}

/// The name of the file that an item's token tells, if it is one of that item's.
fn file_of(token: &AccessToken, size: AccessSize, aid: Aid) -> Option<&str> {
    let name = token.other.get(FILE).and_then(Value::as_str)?;
    (owner_of(name) == Some((size, aid, true))).then_some(name)
}

/// What was put together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assembled {
    pub path: PathBuf,
    pub size: u64,
}

/// Puts an object together, and tells its token where it is. [`conclude`] comes after it.
pub async fn run(
    queue: &Queue,
    lease: &mut AccessLease,
    services: &Services,
    progress: &Progress,
    cancel: &Cancel,
) -> Result<Assembled> {
    let (size, aid) = (lease.item().size, lease.item().aid);
    let mut token = queue.access_token(size, aid).await?;
    let wanted = Wanted::read(&token)?;
    let storage = services.storages.get(&wanted.storage).ok_or_else(|| {
        Failure::fail(format!(
            "the storage `{0}` is not configured any more; add [storage.{0}]",
            wanted.storage
        ))
    })?;
    let manifest = storage.manifest(&wanted.ark, Some(wanted.version)).await?.ok_or_else(|| {
        Failure::fail(format!("version {} of {} is not stored any more", wanted.version, wanted.ark))
    })?;
    let bytes = manifest.files.values().map(|file| file.size).sum();
    progress.announce(manifest.files.len() as u64, bytes);
    let name = new_name(size, aid);
    let path = services.settings.access.dir.join(&name);
    let writer = Writer::start(&path);
    let day = queue.now().to_string().chars().take(10).collect();
    let source = Source { storage: storage.as_ref(), manifest: &manifest, progress, cancel };
    let assembled = match source.pour(&writer, &wanted, day).await {
        Ok(()) => writer.finish().await?,
        // Why it could not be written is better known there.
        Err(failure) => return Err(writer.give_up().await.err().unwrap_or(failure)),
    };
    token.cloud_content_byte = assembled;
    token.other.insert(FILE.into(), name.as_str().into());
    token.status = Some(AccessState::Completed.name().into());
    token.url = place(services, &name, &path).map(|url| url.to_string());
    token.anticipated_availability_time = Some(queue.now().to_string());
    queue.write_access_token(lease, &token).await?;
    Ok(Assembled { path, size: assembled })
}

/// Where the file can be fetched: from this node, if it serves files, or from this disk.
fn place(services: &Services, name: &str, path: &Path) -> Option<Url> {
    match &services.settings.urls {
        Some(urls) => urls.sign(&format!("access/{name}")).ok(),
        None => Url::from_file_path(std::path::absolute(path).unwrap_or_else(|_| path.to_owned())).ok(),
    }
}

/// What became of an item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    Completed,
    Failed(String),
    /// It is as before, and waits for the next to take it.
    GivenBack(String),
    Lost(String),
}

/// Commits what a run answered.
pub async fn conclude(
    queue: &Queue,
    lease: &mut AccessLease,
    answer: Result<Assembled>,
) -> Result<Ending, Error> {
    match answer {
        Ok(_) => {
            queue.finish_access(lease, AccessState::Completed, "").await?;
            Ok(Ending::Completed)
        }
        Err(Failure::Later(why) | Failure::Fail(why) | Failure::Hopeless(why)) => {
            queue.finish_access(lease, AccessState::Failed, &why).await?;
            Ok(Ending::Failed(why))
        }
        Err(failure) => match queue.give_back_access(lease).await {
            Ok(()) => Ok(Ending::GivenBack(failure.to_string())),
            Err(error @ Error::Lost { .. }) => Ok(Ending::Lost(error.to_string())),
            Err(error) => Err(error),
        },
    }
}

/// An object on its way out of its storage.
struct Source<'a> {
    storage: &'a dyn Storage,
    manifest: &'a StoredManifest,
    progress: &'a Progress,
    cancel: &'a Cancel,
}

impl Source<'_> {
    async fn pour(&self, writer: &Writer, wanted: &Wanted, day: String) -> Result<()> {
        let root = match wanted.form {
            Form::Zip => String::new(),
            Form::Bag => format!("{}/data/", wanted.name()),
        };
        let (mut lines, mut bytes) = (String::new(), 0);
        for (path, kept) in &self.manifest.files {
            let sha512 = self.file(writer, path, &format!("{root}{path}")).await?;
            lines.push_str(&line(&sha512, &format!("data/{path}")));
            bytes += kept.size;
            self.progress.add_file();
        }
        if wanted.form == Form::Bag {
            self.tags(writer, wanted, &lines, bytes, &day).await?;
        }
        Ok(())
    }

    /// One file, compared with what was stored; answers its sha-512.
    async fn file(&self, writer: &Writer, path: &str, name: &str) -> Result<String> {
        let kept = self.manifest.files.get(path).ok_or_else(|| Failure::fail(format!("no file `{path}`")))?;
        let during = |failure: Failure| failure.during(format!("{} `{path}`", self.manifest.ark));
        let open = self.storage.open(&self.manifest.ark, self.manifest.version, path);
        let mut content = self.or_stopped(open).await?.map_err(during)?;
        let mut digests = Digests::of([Algorithm::Sha512, kept.digest.algorithm()]);
        writer.start_file(name, kept.size).await?;
        while let Some(piece) = self.or_stopped(content.stream.next()).await? {
            let piece = piece.map_err(during)?;
            digests.update(&piece);
            self.progress.add_bytes(piece.len() as u64);
            writer.data(piece).await?;
        }
        if digests.bytes() != kept.size {
            let why = format!("it has {} bytes, and not the {} that were stored", digests.bytes(), kept.size);
            return Err(during(Failure::fail(why)));
        }
        let found = digests.finish();
        if !found.contains(&kept.digest) {
            return Err(during(Failure::fail(format!("its digest is not {}", kept.digest))));
        }
        let sha512 = found.into_iter().find(|digest| digest.algorithm() == Algorithm::Sha512);
        sha512.map(|digest| digest.hex().to_owned()).ok_or_else(|| Failure::fail("there is no sha-512 of it"))
    }

    /// The files that make a bag of a directory.
    async fn tags(&self, writer: &Writer, wanted: &Wanted, lines: &str, bytes: u64, day: &str) -> Result<()> {
        let info = format!(
            "External-Identifier: {}\nBagging-Date: {day}\nPayload-Oxum: {bytes}.{}\n",
            wanted.ark,
            self.manifest.files.len()
        );
        let declaration = "BagIt-Version: 1.0\nTag-File-Character-Encoding: UTF-8\n";
        let mut of_tags = String::new();
        for (name, text) in
            [("bagit.txt", declaration), ("bag-info.txt", info.as_str()), ("manifest-sha512.txt", lines)]
        {
            let mut digests = Digests::of([Algorithm::Sha512]);
            digests.update(text.as_bytes());
            of_tags.extend(digests.finish().iter().map(|digest| line(digest.hex(), name)));
            self.tag(writer, wanted, name, text).await?;
        }
        self.tag(writer, wanted, "tagmanifest-sha512.txt", &of_tags).await
    }

    async fn tag(&self, writer: &Writer, wanted: &Wanted, name: &str, text: &str) -> Result<()> {
        writer.start_file(&format!("{}/{name}", wanted.name()), text.len() as u64).await?;
        writer.data(bytes::Bytes::copy_from_slice(text.as_bytes())).await
    }

    async fn or_stopped<T>(&self, work: impl Future<Output = T>) -> Result<T> {
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => Err(Failure::Cancelled),
            answer = work => Ok(answer),
        }
    }
}

/// A line of a bag's manifest.
fn line(hex: &str, path: &str) -> String {
    let path = path.replace('%', "%25").replace('\n', "%0A").replace('\r', "%0D");
    format!("{hex}  {path}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_tells_whose_it_is() {
        let aid = Aid::new(7);
        let name = new_name(AccessSize::Large, aid);
        assert_ne!(name, new_name(AccessSize::Large, aid));
        assert_eq!(owner_of(&name), Some((AccessSize::Large, aid, true)));
        assert_eq!(owner_of(&format!(".{name}.part-Xy12")), Some((AccessSize::Large, aid, false)));
        let odd = "large-qid0000000007-../../x.zip";
        for other in
            ["", ".", "large.zip", "huge-qid0000000007-a.zip", "large-7-a.zip", &name[1..], ".x.part-y", odd]
        {
            assert_eq!(owner_of(other), None, "{other}");
        }
        // A token that names another's file names none.
        let token = |name: &str| {
            let mut token = AccessToken::default();
            token.other.insert(FILE.into(), name.into());
            token
        };
        assert_eq!(file_of(&token(&name), AccessSize::Large, aid), Some(name.as_str()));
        assert_eq!(file_of(&token(&name), AccessSize::Small, aid), None);
        assert_eq!(file_of(&token("../secret"), AccessSize::Large, aid), None);
    }

    #[test]
    fn what_people_see_is_a_plain_name() {
        let wanted =
            |ark: &str| Wanted { ark: ark.into(), version: 2, form: Form::Bag, storage: "default".into() };
        assert_eq!(wanted("ark:/99999/fk4x").name(), "ark_99999_fk4x_v2");
        assert_eq!(wanted("ark:/99999/fk4/../\n").name(), "ark_99999_fk4_..___v2");
        let mut token = AccessToken::default();
        assert!(Wanted::read(&token).is_err());
        wanted("ark:/99999/fk4x").write(&mut token);
        assert_eq!(Wanted::read(&token).unwrap(), wanted("ark:/99999/fk4x"));
    }
}
