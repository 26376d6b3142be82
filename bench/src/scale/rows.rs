//! Every row of the manifest has one job: the addresses of all payloads are read back, and each is ticked off.

use anyhow::{Context as _, Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use ingest_queue::ids::Jid;
use ingest_queue::map::{self, JobNode};
use ingest_queue::nodes::{Configuration, Node as _};
use ingest_store::Session;
use ingest_store::recipes::look;

/// Jobs that are read with one request, and requests at a time.
const TOGETHER: usize = 64;
const AT_ONCE: usize = 8;

/// Fails unless each of so many rows has exactly one job.
pub(super) async fn check(session: &Session, rows: u64) -> Result<()> {
    let names = look(session, || session.children(map::JOBS)).await?.0;
    let jids: Vec<Jid> = names.iter().filter_map(|name| name.parse().ok()).collect();
    drop(names);
    let mut sheet = Sheet::new(rows)?;
    let mut read =
        stream::iter(jids.chunks(TOGETHER)).map(|jids| rows_of(session, jids)).buffer_unordered(AT_ONCE);
    while let Some(found) = read.try_next().await? {
        for (jid, row) in found {
            sheet.tick(row).with_context(|| jid.to_string())?;
        }
    }
    sheet.is_full()
}

/// Of which rows these jobs are.
async fn rows_of(session: &Session, jids: &[Jid]) -> Result<Vec<(Jid, u64)>> {
    let paths: Vec<String> = jids.iter().map(|jid| JobNode::Configuration.of(*jid)).collect();
    let found = look(session, || session.get_many(paths.clone())).await?;
    let row = |(jid, node): (&Jid, Option<(bytes::Bytes, ingest_store::Stat)>)| {
        let (data, _) = node.with_context(|| format!("{jid} has no configuration"))?;
        let url = Configuration::read(&data)?.payload_url;
        Ok((*jid, row_of(&url).with_context(|| format!("{jid} is of no row: {url}"))?))
    };
    jids.iter().zip(found).map(row).collect()
}

/// The number in an address, as `manifest::write` has put it there.
fn row_of(url: &str) -> Option<u64> {
    url.rsplit_once('/')?.1.strip_prefix("sheet-")?.strip_suffix(".tif")?.parse().ok()
}

/// A mark for each row: a megabyte for a million.
struct Sheet {
    ticked: Vec<bool>,
}

impl Sheet {
    fn new(rows: u64) -> Result<Self> {
        Ok(Self { ticked: vec![false; usize::try_from(rows)?] })
    }

    fn tick(&mut self, row: u64) -> Result<()> {
        let at = usize::try_from(row).ok().and_then(|row| self.ticked.get_mut(row));
        let at = at.with_context(|| format!("the manifest has no row {row}"))?;
        ensure!(!std::mem::replace(at, true), "row {row} has two jobs");
        Ok(())
    }

    fn is_full(&self) -> Result<()> {
        let missing = self.ticked.iter().filter(|ticked| !**ticked).count();
        let first = self.ticked.iter().position(|ticked| !ticked).unwrap_or_default();
        ensure!(missing == 0, "{missing} rows have no job, the first of them is {first}");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch;

    #[test]
    fn a_row_without_a_job_or_with_two_is_found() {
        let mut sheet = Sheet::new(3).unwrap();
        for row in [2, 0] {
            sheet.tick(row).unwrap();
        }
        assert_eq!(sheet.is_full().unwrap_err().to_string(), "1 rows have no job, the first of them is 1");
        assert_eq!(sheet.tick(2).unwrap_err().to_string(), "row 2 has two jobs");
        assert_eq!(sheet.tick(3).unwrap_err().to_string(), "the manifest has no row 3");
        sheet.tick(1).unwrap();
        sheet.is_full().unwrap();
    }

    #[test]
    fn the_row_is_in_the_address_that_the_manifest_gives() {
        let dir = scratch::directory().unwrap();
        let path = dir.path().join("manifest.checkm");
        crate::manifest::write(&path, 12).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let urls = text.lines().filter_map(|line| line.split_once(" | ")).map(|(url, _)| url);
        let rows: Vec<u64> = urls.filter_map(row_of).collect();
        assert_eq!(rows, (0..12).collect::<Vec<_>>());
        assert_eq!(row_of("https://files.example.org/other.tif"), None);
    }
}
