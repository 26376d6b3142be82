//! `downloading`: everything of a job comes into the directory of this attempt, whole and verified.
//!
//! | payload | what comes of it |
//! |---|---|
//! | file | `producer/NAME`, never unpacked; refused if it begins as a Checkm manifest, whoever said that it is a file |
//! | container | unpacked into `producer/`; a bag is validated and kept as it was sent, its own files too |
//! | object manifest | `system/mrt-submission-manifest.txt`, and `producer/NAME` for each of its rows |
//!
//! Every file has its line in the attempt's records when it is whole, its announced size and digest are right and
//! it is on the disk. What earlier attempts have verified is read again and linked, and their parts go on here if
//! this node has fetched them: nothing that is whole is fetched twice. A manifest without an announced digest is
//! the exception, as a depositor may have repaired it.
//!
//! The profile's limits and hosts hold for each URL that the depositor wrote. A redirect may lead to another host:
//! that is for the host to say whom the profile trusts; which addresses may be reached at all is checked on every
//! hop. An upload that this node serves itself is from no foreign host.
//!
//! **When things break.** The first file that fails stops the others, and its failure names it; what is whole by
//! then stays for the next attempt. A wrong size or digest, a missing file or a limit that was passed is
//! [`Failure::Fail`]; a server that is away or a full disk [`Failure::Later`]; an archive, bag or manifest that is
//! wrong [`Failure::Hopeless`]. Directories of earlier attempts are not touched, except that parts are taken out.

mod amount;
mod bag;
mod container;
mod earlier;
mod files;
mod manifest;
mod names;
mod site;

use std::fs::File;
use std::io::Read as _;

use ingest_queue::map::JobNode;
use ingest_queue::nodes::{Node as _, Work};
use ingest_queue::plan::job::Change;
use ingest_store::Op;

pub(super) use self::amount::{about, counted};
use self::files::{Item, Room};
pub(super) use self::manifest::{NAME as MANIFEST, rows_of};
use self::site::Site;
use super::{Payload, Task};
use crate::archive::disk;
use crate::fetch::redacted;
use crate::manifest::NotKept;
use crate::outcome::{Failure, Result};
use crate::payload::{self, FIRST_BYTES, MANIFEST_AS_FILE, PayloadKind};
use crate::profile::Profile;
use crate::services::{Services, blocking};
use crate::work::FileRecord;

/// Brings the files of a job here.
pub async fn run(task: &mut Task<'_>, services: &Services) -> Result<Change> {
    let payload = Payload::of(&task.configuration)?;
    let site = Site::open(task, services).await?;
    site.allows(&payload.url)?;
    let brought = match payload.kind {
        PayloadKind::File => all_kept(file(&site, &payload).await),
        PayloadKind::Container => all_kept(container::bring(&site, &payload).await),
        PayloadKind::ObjectManifest => manifest::bring(&site, &payload).await,
        kind => Err(Failure::hopeless(format!("a {kind} is a batch, not the payload of one job"))),
    };
    // Also after a failure: the next attempt takes what is whole.
    let settled = site.settle().await;
    let (records, not_kept) = brought?;
    settled?;
    // Said of this attempt: what an earlier one had to say does not hold any more.
    let note = not_kept.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    Ok(Change { note: Some(note), ..change(task, services, &records) })
}

fn all_kept(records: Result<Vec<FileRecord>>) -> Result<(Vec<FileRecord>, Vec<NotKept>)> {
    Ok((records?, Vec::new()))
}

async fn file(site: &Site<'_>, payload: &Payload) -> Result<Vec<FileRecord>> {
    let name = names::tidy(&payload.name)?;
    let item = Item::of(payload, format!("producer/{name}"), &name);
    site.progress.announce(1, payload.size.unwrap_or(0));
    let path = site.dir.path().join(&item.path);
    let records = files::fetch_all(site, vec![item], &Room::of(&site.profile.limits, 0)).await?;
    // What it is, only its content says; and that is here now.
    let is_manifest = blocking("looking at the file", move || {
        let mut first = Vec::new();
        let read = File::open(&path).and_then(|file| file.take(FIRST_BYTES.into()).read_to_end(&mut first));
        read.map_err(|error| disk(&path, &error))?;
        Ok(payload::is_manifest(&first))
    });
    if is_manifest.await? {
        return Err(Failure::hopeless(format!("{}: {MANIFEST_AS_FILE}", redacted(&payload.url))));
    }
    Ok(records)
}

/// What goes along with the transition: the attempt counts from then on, and takes what it really takes.
fn change(task: &Task<'_>, services: &Services, records: &[FileRecord]) -> Change {
    let job = task.lease.job();
    let bytes = records.iter().map(|record| record.size).sum();
    let of_producer = records.iter().filter(|record| record.path.starts_with("producer/"));
    let work = Work {
        node: services.work.node().to_owned(),
        file_system: services.work.file_system().to_owned(),
        directory: services.work.job(job.bid, job.jid).to_string_lossy().into_owned(),
        attempt: job.status.attempt,
        reserved: bytes,
        other: task.work.as_ref().map(|work| work.other.clone()).unwrap_or_default(),
    };
    let (path, data) = (JobNode::Work.of(job.jid), work.write(task.queue.dialect()));
    let write = if task.work.is_some() { Op::set(path, data, None) } else { Op::create(path, data) };
    Change {
        space_needed: Some(i64::try_from(bytes).unwrap_or(i64::MAX)),
        also: vec![write],
        ..Change::message(format!("{}, {}", counted(of_producer.count() as u64), about(bytes)))
    }
}

/// That an object is larger than its profile allows; a person can change that.
fn beyond(profile: &Profile, key: &str, what: &str) -> Failure {
    Failure::fail(format!("{what}: raise `limits.{key}` of the profile `{}`, or send less", profile.name))
}
