//! A bag that came out of a container: what it does not bring along is fetched, then all of it is validated.
//!
//! The object is the bag as a whole, as it was sent: its tag files belong to what the depositor vouches for. Files
//! of `fetch.txt` come by the same rules as all others, with the digests that the bag's manifests promise.

use std::collections::HashSet;

use super::beyond;
use super::files::{self, Item, Room, guessed};
use super::names::{Names, folds_case, tidy};
use super::site::Site;
use crate::bag::{Bag, find_bag, validate};
use crate::digest::Digest;
use crate::outcome::{Failure, Result};
use crate::services::blocking;
use crate::work::FileRecord;

/// The files that were fetched besides those that came out of the container; none if it is no bag.
pub(super) async fn complete(site: &Site<'_>, members: &[FileRecord]) -> Result<Vec<FileRecord>> {
    let producer = site.dir.producer();
    let Some(dir) = blocking("looking for a bag", move || find_bag(&producer)).await? else {
        return Ok(Vec::new());
    };
    let place = dir.clone();
    let fetched = match blocking("opening the bag", move || Bag::open(&place)).await {
        Ok(bag) => fetch(site, &bag, members).await?,
        // The validation tells all that is wrong.
        Err(Failure::Hopeless(_)) => Vec::new(),
        Err(failure) => return Err(failure),
    };
    let (progress, cancel) = (site.progress.clone(), site.cancel.clone());
    let report = blocking("validating the bag", move || validate(&dir, &progress, &cancel)).await?;
    for warning in &report.warnings {
        tracing::info!(%warning, dir = %site.dir.path().display(), "the bag does something in a way of its own");
    }
    report.verdict()?;
    Ok(fetched)
}

async fn fetch(site: &Site<'_>, bag: &Bag, members: &[FileRecord]) -> Result<Vec<FileRecord>> {
    if bag.fetch().is_empty() {
        return Ok(Vec::new());
    }
    let items = items(site, bag, members)?;
    let limits = &site.profile.limits;
    if (members.len() + items.len()) as u64 > limits.files {
        let what = format!("the bag has more than {} files with those to fetch", limits.files);
        return Err(beyond(site.profile, "files", &what));
    }
    let here = members.iter().map(|record| record.size).sum();
    let bytes = files::judge(site.profile, &items, here)?;
    site.progress.announce((members.len() + items.len()) as u64, bytes);
    files::fetch_all(site, items, &Room::of(limits, bytes)).await
}

/// What `fetch.txt` lists and what is not there.
fn items(site: &Site<'_>, bag: &Bag, members: &[FileRecord]) -> Result<Vec<Item>> {
    let below = bag.dir().strip_prefix(site.dir.path()).ok().and_then(|path| path.to_str());
    let below = below.ok_or_else(|| Failure::fail(format!("{}: is not below", bag.dir().display())))?;
    let mut names = Names::new(folds_case(site.dir.path()));
    members.iter().try_for_each(|record| names.add(&record.path))?;
    let here: HashSet<&str> = members.iter().map(|record| record.path.as_str()).collect();
    let payload = bag.payload();
    let mut items = Vec::new();
    for row in bag.fetch() {
        let path = format!("{below}/{}", tidy(&row.path)?);
        if here.contains(path.as_str()) {
            continue;
        }
        names.add(&path)?;
        let wrong = |error| Failure::hopeless(format!("fetch.txt: {}: {error}", row.path));
        let url = url::Url::parse(&row.url).map_err(wrong)?;
        site.allows(&url).map_err(|failure| failure.during(&row.path))?;
        let digests: Vec<Digest> =
            payload.get(row.path.as_str()).into_iter().flatten().copied().cloned().collect();
        items.push(Item { size: row.length, digests, mime: guessed(&path), ..Item::new(path, url) });
    }
    Ok(items)
}
