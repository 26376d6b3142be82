//! The system files of an object, and the manifest by which it is handed to the storage.
//!
//! | file | holds |
//! |---|---|
//! | `system/mrt-erc.txt`, `system/mrt-dc.xml` | who, what, when, where; Dublin Core |
//! | `system/mrt-ingest.txt` | where the object came from |
//! | `system/mrt-submission-manifest.txt` | the depositor's own object manifest, or what came instead of one |
//! | `system/mrt-delete.txt` | which files the depositor removes, as it came: only if the payload had it |
//! | `system/mrt-storage-manifest.txt` | all of these and the producer's files, with the URL of each |
//!
//! All but the last are part of the object, and have the same bytes in every attempt. The storage manifest is the
//! hand-over: it is not stored, because it names places on this disk (or below the public URL, if there is one). It
//! is written when it is known which files of the newest version are carried forward.
//!
//! **When things break.** Files appear whole: written beside, synced and renamed. The next attempt writes its own.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use percent_encoding::utf8_percent_encode;
use url::Url;

use super::Sources;
use crate::archive::disk as broken;
use crate::ark::Ark;
use crate::digest::{Algorithm, Digest, Digests};
use crate::document::{self, Description};
use crate::fetch::redacted;
use crate::manifest::{Kind, Row, Writer};
use crate::outcome::{Failure, Result};
use crate::payload::PayloadKind;
use crate::services::{Services, blocking};
use crate::settings::Settings;
use crate::step::{Payload, Task};
use crate::storage::{Carried, StoreFile};
use crate::urls::ELEMENT;
use crate::work::{AttemptDir, WorkDir};

const ERC: &str = "system/mrt-erc.txt";
const DUBLIN_CORE: &str = "system/mrt-dc.xml";
const INGEST: &str = "system/mrt-ingest.txt";
const SUBMISSION: &str = "system/mrt-submission-manifest.txt";
const STORAGE: &str = "system/mrt-storage-manifest.txt";
const DELETE: &str = "system/mrt-delete.txt";

/// Everything that this job brings to its object.
#[derive(Debug)]
pub(super) struct Made {
    dir: AttemptDir,
    described: Vec<Described>,
}

impl Made {
    pub(super) fn files(&self) -> Vec<StoreFile> {
        let files = self.described.iter().map(|file| StoreFile {
            path: file.path.clone(),
            source: file.dir.path().join(&file.from),
            size: file.size,
            digests: file.digests.clone(),
        });
        files.collect()
    }

    /// Where the depositor says which files are removed.
    pub(super) fn delete(&self) -> Option<PathBuf> {
        let file = self.described.iter().find(|file| file.path == DELETE)?;
        Some(file.dir.path().join(&file.from))
    }
}

/// Writes the system files into this attempt's directory.
pub(super) async fn make(task: &Task<'_>, services: &Services, ark: &Ark, sources: &Sources) -> Result<Made> {
    let job = task.lease.job();
    let payload = Payload::of(&task.configuration)?;
    let about = description(task, ark);
    let texts = vec![
        (ERC, document::erc(&about)),
        (DUBLIN_CORE, document::dublin_core(&about)),
        (INGEST, ingest(task, ark, &payload)),
    ];
    let work = services.work.clone();
    let (bid, jid, attempt) = (job.bid, job.jid, job.status.attempt);
    let (sources, progress) = (sources.clone(), task.progress.clone());
    blocking("writing the system files", move || {
        let dir = work.make_attempt(bid, jid, attempt)?;
        let mut files = Vec::with_capacity(sources.records.len() + 4);
        for record in &sources.records {
            // An instruction to us, and no content of the depositor's.
            let path = if record.path == super::delete::NAME { DELETE } else { &record.path };
            files.push(Described {
                path: path.to_owned(),
                from: record.path.clone(),
                dir: sources.dir.clone(),
                size: record.size,
                digests: record.digests.clone(),
                mime: record.mime.clone(),
            });
        }
        for (name, text) in texts {
            write(&dir, name, |file| file.write_all(text.as_bytes()))?;
            files.push(described(&dir, name)?);
            progress.add_file();
        }
        submission(&dir, &sources, &payload, &files)?;
        files.push(described(&dir, SUBMISSION)?);
        Ok(Made { dir, described: files })
    })
    .await
}

/// Writes the storage manifest of all that the job brings and of what is carried forward; where it is.
pub(super) async fn hand_over(
    task: &Task<'_>,
    services: &Services,
    made: &Arc<Made>,
    carried: &Carried,
) -> Result<Url> {
    let (work, settings) = (services.work.clone(), services.settings.clone());
    let (made, carried, progress) = (Arc::clone(made), carried.clone(), task.progress.clone());
    blocking("writing the storage manifest", move || {
        let dir = &made.dir;
        let place = |dir: &AttemptDir, path: &str| place(&work, &settings, dir, path);
        let sent = made.described.iter().map(|file| {
            let url = place(&file.dir, &file.from)?;
            Ok(row(url.to_string(), file.path.clone(), file))
        });
        let older = carried.files.iter().map(|(path, kept)| {
            Ok(Row {
                url: address(&kept.location),
                name: path.clone(),
                digest: Some(kept.digest.clone()),
                size: Some(kept.size),
                mime_type: mime(path),
                ..Row::default()
            })
        });
        manifest(dir, STORAGE, sent.chain(older))?;
        progress.add_file();
        fs::File::open(dir.system())
            .and_then(|system| system.sync_all())
            .map_err(|error| broken(&dir.system(), &error))?;
        place(dir, STORAGE)
    })
    .await
}

/// The URL of a place in a storage: it is one, or a path on a disk, or a key in a bucket.
fn address(location: &str) -> String {
    if Url::parse(location).is_ok() {
        return location.to_owned();
    }
    let on_disk = Url::from_file_path(location).map(String::from);
    on_disk.unwrap_or_else(|()| {
        let elements: Vec<_> = location.split('/').map(encoded).collect();
        format!("s3:///{}", elements.join("/"))
    })
}

/// A file of the object, and where it is.
#[derive(Debug)]
struct Described {
    path: String,
    /// Its path below the directory.
    from: String,
    dir: AttemptDir,
    size: u64,
    digests: Vec<Digest>,
    mime: Option<String>,
}

fn description(task: &Task<'_>, ark: &Ark) -> Description {
    let metadata = &task.metadata;
    let mut identifiers = vec![ark.to_string()];
    for id in task.identifiers.local_id.iter().chain(&metadata.erc_where) {
        if !identifiers.contains(id) {
            identifiers.push(id.clone());
        }
    }
    let term = |(name, value): (&String, &serde_json::Value)| {
        let name = name.to_ascii_lowercase();
        let term = name.strip_prefix("dc_").or_else(|| name.strip_prefix("dc."))?;
        Some((term.to_owned(), value.as_str()?.to_owned()))
    };
    Description {
        who: metadata.erc_who.clone(),
        what: metadata.erc_what.clone(),
        when: metadata.erc_when.clone(),
        identifiers,
        dublin_core: metadata.other.iter().filter_map(term).collect(),
    }
}

/// Nothing of this attempt, and no time: every attempt writes the same.
fn ingest(task: &Task<'_>, ark: &Ark, payload: &Payload) -> String {
    let (job, configuration, profile) = (task.lease.job(), &task.configuration, &task.profile);
    let (bid, jid, ark) = (job.bid.to_string(), job.jid.to_string(), ark.to_string());
    let url = redacted(&payload.url);
    let mut entries = vec![
        ("batch", bid.as_str()),
        ("job", &jid),
        ("submitter", &configuration.submitter),
        ("profile", &profile.name),
        ("collection", &profile.collection),
        ("owner", &profile.owner),
        ("mode", &configuration.submission_mode),
        ("type", payload.kind.name()),
        ("payload", &url),
        ("primaryIdentifier", &ark),
    ];
    entries.extend(task.identifiers.local_id.iter().map(|id| ("localIdentifier", id.as_str())));
    document::ingest_record(&entries)
}

/// The depositor's own manifest, or one of what came.
fn submission(dir: &AttemptDir, sources: &Sources, payload: &Payload, files: &[Described]) -> Result<()> {
    if payload.kind == PayloadKind::ObjectManifest {
        let (from, to) = (sources.dir.path().join(SUBMISSION), dir.path().join(SUBMISSION));
        if from == to {
            return Ok(());
        }
        let mut own = fs::File::open(&from).map_err(|error| {
            Failure::fail(format!("{}: {error}; requeue the job from downloading", from.display()))
        })?;
        return write(dir, SUBMISSION, |file| std::io::copy(&mut own, file).map(drop));
    }
    let url = redacted(&payload.url);
    let producer = files.iter().filter_map(|file| Some((file, file.from.strip_prefix(super::PRODUCER)?)));
    let rows = producer.map(|(file, name)| {
        let url = match payload.kind {
            PayloadKind::File => url.clone(),
            // A member of what was fetched.
            _ => format!("{url}#{}", encoded(name)),
        };
        Ok(row(url, name.to_owned(), file))
    });
    manifest(dir, SUBMISSION, rows)
}

fn row(url: String, name: String, file: &Described) -> Row {
    let digest = |algorithm| file.digests.iter().find(|digest| digest.algorithm() == algorithm);
    let best = digest(Algorithm::Sha256).or_else(|| digest(Algorithm::Sha512)).or(file.digests.first());
    let mime_type = file.mime.clone().or_else(|| mime(&file.path));
    Row { url, name, digest: best.cloned(), size: Some(file.size), mime_type, ..Row::default() }
}

/// What the name of a file says of its type.
pub(crate) fn mime(path: &str) -> Option<String> {
    mime_guess::from_path(path).first_raw().map(str::to_owned)
}

fn manifest(dir: &AttemptDir, name: &str, mut rows: impl Iterator<Item = Result<Row>>) -> Result<()> {
    let path = dir.path().join(name);
    let mut refused = None;
    write(dir, name, |file| {
        let mut writer = Writer::begin(std::io::BufWriter::new(file), Kind::Object)?;
        let written = rows.try_for_each(|row| match writer.row(&row?) {
            Ok(()) => Ok(()),
            Err(crate::manifest::write::NotWritten::Io(error)) => Err(broken(&path, &error)),
            Err(error) => Err(Failure::hopeless(format!("{name}: {error}"))),
        });
        refused = written.err();
        writer.finish().map(drop)
    })?;
    refused.map_or(Ok(()), Err)
}

/// Writes a file so that it appears whole.
fn write(
    dir: &AttemptDir,
    name: &str,
    content: impl FnOnce(&mut fs::File) -> std::io::Result<()>,
) -> Result<()> {
    let path = dir.path().join(name);
    let written = (|| {
        let mut part = tempfile::NamedTempFile::new_in(dir.system())?;
        content(part.as_file_mut())?;
        part.as_file().sync_all()?;
        part.persist(&path).map_err(|error| error.error)
    })();
    written.map(drop).map_err(|error| broken(&path, &error))
}

fn described(dir: &AttemptDir, name: &str) -> Result<Described> {
    let path = dir.path().join(name);
    let mut digests = Digests::of([Algorithm::Sha256, Algorithm::Sha512]);
    digests.read_file(&path).map_err(|error| broken(&path, &error))?;
    let size = digests.bytes();
    Ok(Described {
        path: name.to_owned(),
        from: name.to_owned(),
        dir: dir.clone(),
        size,
        digests: digests.finish(),
        mime: mime(name),
    })
}

/// The URL of a file: below the public one, if there is one, or on this disk.
fn place(work: &WorkDir, settings: &Settings, dir: &AttemptDir, path: &str) -> Result<Url> {
    let file = dir.path().join(path);
    let Some(public) = &settings.fetch.public_url else {
        return Url::from_file_path(&file)
            .map_err(|()| Failure::fail(format!("{} has no URL", file.display())));
    };
    let below = |root: &Path| dir.path().strip_prefix(root).ok()?.to_str().map(str::to_owned);
    let below = below(work.root())
        .ok_or_else(|| Failure::fail(format!("{} is not a working directory", dir.path().display())))?;
    if let Some(urls) = &settings.urls {
        return urls.sign(&format!("work/{below}/{path}")).map_err(Failure::fail);
    }
    let elements: Vec<_> = below.split('/').chain(path.split('/')).map(encoded).collect();
    let url = format!("{}/work/{}", public.as_str().trim_end_matches('/'), elements.join("/"));
    Url::parse(&url).map_err(|error| Failure::fail(format!("{url}: {error}")))
}

fn encoded(text: &str) -> String {
    utf8_percent_encode(text, ELEMENT).to_string()
}
