//! An object manifest: itself as it was sent, and the file of each of its rows.

use std::fs::File;
use std::io::{BufReader, Seek as _};
use std::path::Path;

use super::beyond;
use super::files::{self, Item, Room, guessed};
use super::names::{Names, folds_case, tidy};
use super::site::Site;
use crate::archive::disk as broken;
use crate::manifest::{self, Kind, Limits, NotKept, Reader, Row};
use crate::outcome::{Failure, Result};
use crate::services::blocking;
use crate::step::Payload;
use crate::work::FileRecord;

/// Where the manifest is kept, below the attempt's directory.
pub(in crate::step) const NAME: &str = "system/mrt-submission-manifest.txt";

/// Its files and itself, and what is not kept of its rows.
pub(super) async fn bring(site: &Site<'_>, payload: &Payload) -> Result<(Vec<FileRecord>, Vec<NotKept>)> {
    let manifest = fetch(site, payload).await?;
    let most = site.profile.limits.files;
    let path = site.dir.path().join(NAME);
    let rows = blocking("reading the manifest", move || rows_of(&path, most)).await;
    let rows = rows.map_err(|failure| failure.during("the manifest"))?;
    let (rows, not_kept) = rows.ok_or_else(|| {
        beyond(
            site.profile,
            "files",
            &format!("the manifest has more than {most} files, and an object may not"),
        )
    })?;
    let items = items(site, &rows)?;
    let bytes = files::judge(site.profile, &items, 0)?;
    site.progress.announce(items.len() as u64 + 1, bytes.saturating_add(manifest.size));
    let mut records = files::fetch_all(site, items, &Room::of(&site.profile.limits, bytes)).await?;
    records.push(manifest);
    Ok((records, not_kept))
}

/// The manifest itself. Without an announced digest it is never taken from before: it may have been repaired.
async fn fetch(site: &Site<'_>, payload: &Payload) -> Result<FileRecord> {
    let item = Item::of(payload, NAME.to_owned(), NAME);
    let room = Room::up_to(site.services.settings.expanding.max_manifest);
    let record = if payload.digest.is_some() {
        files::bring(site, &item, &room, site.cancel).await?
    } else {
        files::fetch(site, &item, &room, site.cancel).await?
    };
    site.note(&record).await?;
    Ok(record)
}

/// The rows of an object manifest that has no fault, and what of them is not kept; `None` if they are more than `most`.
/// Blocks.
pub(in crate::step) fn rows_of(path: &Path, most: u64) -> Result<Option<(Vec<Row>, Vec<NotKept>)>> {
    let mut file = File::open(path).map_err(|error| broken(path, &error))?;
    let summary = manifest::validate(BufReader::new(&file))?;
    if summary.kind != Kind::Object {
        let kind = crate::payload::PayloadKind::from(summary.kind);
        return Err(Failure::hopeless(format!("it is a {kind}, not the manifest of one object")));
    }
    if summary.rows > most {
        return Ok(None);
    }
    file.rewind().map_err(|error| broken(path, &error))?;
    let rows = Reader::open(BufReader::new(&file), Limits::default())?;
    Ok(Some((rows.collect::<Result<_, manifest::Error>>()?, summary.not_kept)))
}

fn items(site: &Site<'_>, rows: &[Row]) -> Result<Vec<Item>> {
    let mut names = Names::new(folds_case(site.dir.path()));
    let mut items = Vec::with_capacity(rows.len());
    for row in rows {
        let name = tidy(&row.name)?;
        names.add(&name)?;
        let wrong = |error| {
            let url = row.url.escape_debug();
            Failure::hopeless(format!("{name}: `{url}` is no URL: {error}"))
        };
        let url = url::Url::parse(&row.url).map_err(wrong)?;
        site.allows(&url).map_err(|failure| failure.during(&name))?;
        items.push(Item {
            size: row.size,
            digests: row.digest.iter().cloned().collect(),
            mime: row.mime_type.clone().or_else(|| guessed(&name)),
            ..Item::new(format!("producer/{name}"), url)
        });
    }
    Ok(items)
}
