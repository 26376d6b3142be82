//! Where a job belongs whose process date came while nobody looked: the order is priority, then process date, and a job without
//! a date has that of its insertion.
//!
//! Job numbers grow with time, so it is enough to know which number was the highest at a date. That is read from some of
//! the jobs that wait: all of them if there are not more than [`SAMPLES`], else as many at even distances. Then a place may be
//! wrong by as many jobs as lie between two of them, which is fewer than several nodes change the order by anyway
//! (`queue.rank_window`). It is read once, when a node begins: what comes later finds its place in memory.

use ingest_store::Session;
use ingest_store::recipes::look;

use crate::ids::Jid;
use crate::map;

/// How many jobs are looked at, at most.
const SAMPLES: usize = 4096;
/// How many in one request.
const TOGETHER: usize = 256;

/// A date that had come before it was known, in the order of dates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Overdue {
    pub(super) millis: i64,
    pub(super) jid: Jid,
}

/// When jobs were inserted, in their order.
#[derive(Debug)]
pub(super) struct Inserted(Vec<(u32, i64)>);

impl Inserted {
    pub(super) async fn read(session: &Session, mut jids: Vec<Jid>) -> Result<Self, ingest_store::Error> {
        jids.sort_unstable();
        let step = jids.len().div_ceil(SAMPLES).max(1);
        let jids: Vec<Jid> = jids.into_iter().step_by(step).collect();
        let mut inserted = Vec::with_capacity(jids.len());
        for some in jids.chunks(TOGETHER) {
            let paths: Vec<String> = some.iter().map(|jid| map::job(*jid)).collect();
            let found = look(session, || session.get_many(paths.clone())).await?;
            // One that has gone meanwhile is nobody's neighbour.
            let there =
                some.iter().zip(found).filter_map(|(jid, found)| Some((jid.number(), found?.1.ctime)));
            inserted.extend(there);
        }
        Ok(Self(inserted))
    }

    /// The highest of these numbers at a date; 0 if there was none yet.
    pub(super) fn highest_at(&self, millis: i64) -> u32 {
        let before = self.0.partition_point(|(_, inserted)| *inserted <= millis);
        before.checked_sub(1).map_or(0, |last| self.0[last].0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_number_at_a_date_is_that_of_the_last_that_was_inserted_by_then() {
        let inserted = Inserted(vec![(3, 100), (5, 200), (9, 200), (12, 300)]);
        let highest = [99, 100, 199, 200, 299, 300, 999].map(|millis| inserted.highest_at(millis));
        assert_eq!(highest, [0, 3, 3, 9, 9, 12, 12]);
        assert_eq!(Inserted(Vec::new()).highest_at(7), 0);
    }
}
