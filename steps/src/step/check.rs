//! The check of a pending job: what can be known of its payload before anything is done for it.
//!
//! An object manifest is fetched and read whole: its digest, its faults, its number of files and bytes, its
//! hosts. A job with an identifier that was given, or with local ids, is asked whether it may write to that object, before
//! anything is fetched ([`rights`](crate::rights)). A file or container that was uploaded to this machine is read for its
//! size and digest, and a file for whether it is a manifest, which is not stored as a file. Others pass: theirs are checked
//! when they are downloaded.
//!
//! **When things break.** What is wrong with the payload is [`Failure::Hopeless`], with every reason. A payload
//! that cannot be had now is not wrong: the job goes on with a note, and fails where it is downloaded, from
//! where it can be requeued; out of pending it could not. Nothing is kept; the check can run again.

use ingest_queue::nodes::Configuration;
use ingest_queue::plan::job::Change;

use super::expand::gather::{Found, RowRules, each_row};
use super::expand::rows::watched;
use super::{Payload, Task, object};
use crate::ark::Ark;
use crate::digest::Digest;
use crate::fetch::{Fetched, Most, Wanted, redacted};
use crate::manifest::{self, Kind, validate};
use crate::outcome::{Failure, Result};
use crate::payload::{self, FIRST_BYTES, MANIFEST_AS_FILE, PayloadKind};
use crate::rights;
use crate::services::{Services, blocking};

/// What bounds a manifest.
pub(super) const LONGEST: &str = "expanding.max_manifest";

/// In the configuration of a job: its identifier was given.
pub(super) const GIVEN: &str = "given_identifier";

/// Whether there is something to check. What cannot be read is to be looked at.
pub fn is_needed(configuration: &Configuration, services: &Services) -> bool {
    let is_given = configuration.other.contains_key(GIVEN);
    // A local id leads to an object of its owner; who may write to that is a question only if somebody may not.
    let is_restricted = || !configuration.local_id.is_empty() && services.profiles.read().any_restricted();
    is_given || is_restricted() || Payload::of(configuration).map_or(true, |payload| is_to_be_read(&payload))
}

/// Refuses a job that has no right to the object that it names.
async fn check_rights(task: &Task<'_>, services: &Services) -> Result<()> {
    let (writer, owner) = (task.writer(), &task.profile.owner);
    rights::may_use(&task.profile, writer.submitter).map_err(Failure::hopeless)?;
    let Some(inventory) = &services.inventory else { return Ok(()) };
    let mut led_to = Vec::new();
    for id in task.identifiers.local_id.iter().map(|id| id.trim()).filter(|id| !id.is_empty()) {
        task.progress.beat();
        led_to.extend(inventory.find(owner, id).await?);
        let reserved = task.queue.local_id(owner, id).await?.map(|reserved| reserved.primary_id);
        led_to.extend(reserved.and_then(|ark| ark.parse::<Ark>().ok()));
    }
    let given = task.identifiers.primary_id.as_deref().map(str::trim).filter(|id| !id.is_empty());
    let given = given.map(str::parse::<Ark>).transpose();
    let given = given.map_err(|error| Failure::hopeless(format!("the primary identifier: {error}")))?;
    for ark in &led_to {
        object::may_write(task.queue, services, &writer, ark, rights::Found::ByLocalId).await?;
    }
    match given.filter(|ark| !led_to.contains(ark) && task.identifiers.minted().is_none()) {
        Some(ark) => {
            let found = rights::given(&ark, &task.profile);
            object::may_write(task.queue, services, &writer, &ark, found).await.map(|_| ())
        }
        None => Ok(()),
    }
}

fn is_to_be_read(payload: &Payload) -> bool {
    let says_something =
        payload.digest.is_some() || payload.size.is_some() || payload.kind == PayloadKind::File;
    payload.kind == PayloadKind::ObjectManifest || payload.url.scheme() == "file" && says_something
}

/// Checks the payload of a pending job.
pub async fn run(task: &mut Task<'_>, services: &Services) -> Result<Change> {
    let payload = Payload::of(&task.configuration)?;
    let own = services.fetcher.rules().public_url.clone();
    let rules = RowRules { profile: task.profile.as_ref().clone(), own };
    rules.url(payload.url.as_str()).map_err(Failure::hopeless)?;
    match check_rights(task, services).await {
        // It is asked again before anything is stored.
        Err(Failure::Later(why) | Failure::Fail(why)) => {
            return Ok(Change::message(format!("its rights could not be checked: {why}")));
        }
        checked => checked?,
    }
    let checked = match payload.kind {
        _ if !is_to_be_read(&payload) => Ok(()),
        PayloadKind::ObjectManifest => object_manifest(task, services, &payload, rules).await,
        _ => local(task, services, &payload).await,
    };
    match checked {
        Ok(()) => Ok(Change::default()),
        Err(Failure::Fail(why)) if why.ends_with(&format!("(`{LONGEST}`)")) => Err(Failure::Hopeless(why)),
        Err(Failure::Later(why) | Failure::Fail(why)) => {
            Ok(Change::message(format!("its payload could not be checked: {why}")))
        }
        Err(failure) => Err(failure),
    }
}

async fn local(task: &Task<'_>, services: &Services, payload: &Payload) -> Result<()> {
    if payload.kind == PayloadKind::File {
        let reading = services.fetcher.beginning(&payload.url, FIRST_BYTES, &task.progress, &task.cancel);
        if payload::is_manifest(&reading.await?) {
            return Err(Failure::hopeless(format!("{}: {MANIFEST_AS_FILE}", redacted(&payload.url))));
        }
    }
    let algorithms = payload.digest.iter().map(Digest::algorithm).collect();
    let looked = services.fetcher.look_at_local(&payload.url, algorithms, &task.progress, &task.cancel);
    let (size, digests) = looked.await?;
    compare(payload, size, &digests)
}

/// Whether it is what the depositor announced.
fn compare(payload: &Payload, size: u64, digests: &[Digest]) -> Result<()> {
    let shown = redacted(&payload.url);
    if let Some(announced) = payload.size.filter(|announced| *announced != size) {
        return Err(Failure::hopeless(format!(
            "{shown}: {announced} bytes were announced, and it has {size}"
        )));
    }
    let Some(announced) = &payload.digest else { return Ok(()) };
    match digests.iter().find(|digest| digest.algorithm() == announced.algorithm()) {
        Some(found) if found == announced => Ok(()),
        found => {
            let found = found.map_or_else(|| "none".to_owned(), ToString::to_string);
            Err(Failure::hopeless(format!(
                "{shown}: the digest {announced} was announced, and it is {found}"
            )))
        }
    }
}

async fn object_manifest(
    task: &Task<'_>,
    services: &Services,
    payload: &Payload,
    rules: RowRules,
) -> Result<()> {
    let jid = task.lease.jid();
    let bid = match task.configuration.batch_id {
        Some(bid) => bid,
        None => task.queue.job(jid).await?.bid,
    };
    let dir = services.work.job(bid, jid);
    // Another attempt at the same job may look at the same time.
    let path = dir.join(format!("manifest-{:06}", task.lease.job().status.attempt));
    let making = dir.clone();
    blocking("a directory", move || {
        std::fs::create_dir_all(&making).map_err(|error| crate::archive::disk(&making, &error))
    })
    .await?;
    let most = Most { bytes: services.settings.expanding.max_manifest, by: LONGEST };
    let algorithms = payload.digest.iter().map(Digest::algorithm).collect();
    let wanted = Wanted { algorithms, ..Wanted::new(payload.url.clone()) };
    let checked = async {
        let Fetched { size, digests, .. } =
            services.fetcher.fetch_within(&wanted, most, &path, &task.progress, &task.cancel).await?;
        compare(payload, size, &digests)?;
        let (path, progress, cancel) = (path.clone(), task.progress.clone(), task.cancel.clone());
        blocking("checking the manifest", move || {
            let found = look(&path, &rules, &progress, &cancel);
            if cancel.is_cancelled() { Err(Failure::Cancelled) } else { found }
        })
        .await
    };
    let checked = checked.await;
    let _ = tokio::fs::remove_file(&path).await;
    let _ = tokio::fs::remove_dir(&dir).await;
    let shown = redacted(&payload.url);
    checked.map_err(|failure| match failure {
        Failure::Hopeless(why) if !why.starts_with(&shown) => Failure::Hopeless(format!("{shown}:\n{why}")),
        failure => failure,
    })
}

/// All that is wrong with an object manifest, for this profile. Blocks.
fn look(
    path: &std::path::Path,
    rules: &RowRules,
    progress: &crate::outcome::Progress,
    cancel: &crate::outcome::Cancel,
) -> Result<()> {
    let limits = rules.profile.limits;
    let profile = &rules.profile.name;
    let mut found = Found::default();
    match validate(watched(path, progress, cancel)?) {
        Ok(summary) if summary.kind != Kind::Object => {
            let why = format!(
                "it is a {}, and one object is described by a {}",
                summary.kind,
                Kind::Object.profile_name()
            );
            return Err(Failure::hopeless(why));
        }
        Ok(summary) => {
            let limit = |what: &str, has: u64, most: u64, key: &str| {
                (has > most).then(|| {
                    format!("{has} {what}, and the profile {profile} takes at most {most} (`limits.{key}`)")
                })
            };
            let files = limit("files", summary.rows, limits.files, "files");
            let bytes = limit("bytes", summary.bytes, limits.object_bytes, "object_bytes");
            files.into_iter().chain(bytes).for_each(|why| found.push(0, why));
        }
        Err(manifest::Error::Corrupt(problems)) => found.extend(&problems),
        Err(error) => return Err(error.into()),
    }
    each_row(path, progress, cancel, |line, row| {
        if let Err(why) = rules.url(&row.url) {
            found.push(line, format!("line {line}: {why}"));
        }
        if let Some(size) = row.size.filter(|size| *size > limits.file_bytes) {
            let most = limits.file_bytes;
            let why =
                format!("{size} bytes, and the profile {profile} takes at most {most} (`limits.file_bytes`)");
            found.push(line, format!("line {line}: {why}"));
        }
    })?;
    found.into_result()
}
