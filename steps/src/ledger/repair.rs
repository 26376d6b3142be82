//! Makes a tree fit again that is older than what is beside it.
//!
//! The counters are raised past the used numbers. Then `/repository` is written: the identity that the places have, the numbers
//! that the tree has lost, and when; this wakes the nodes. It comes last, so that no node works on a tree that is repaired only
//! in part. What belongs to another repository is left to a person.
//!
//! **When things break.** Everything can be run again. The lost numbers are those between the tree's counter and what is known, so
//! they are written before the counter is moved.

use ingest_queue::fsck::{Code, Finding, Outcome, Repaired};
use ingest_queue::map;
use ingest_queue::queue::Queue;
use ingest_store::recipes::settle;
use ingest_store::{Kind, Op};

use super::{BATCHES, Examined, Identity, JOBS, LOST, LostNumbers, Places, begin, lost, read};
use crate::minter::local;
use crate::outcome::{Failure, Result};

/// In `/repository`: when the tree was made to fit last.
const REPAIRED: &str = "repaired";
/// How often `/repository` may be changed while it is written.
const TRIES: usize = 20;

impl Examined {
    /// Puts right what was found; says what became of each finding.
    pub(super) async fn repair(&self, queue: &Queue, places: &Places) -> Result<Vec<Repaired>> {
        if self.is_foreign() {
            let left = |finding: &Finding| {
                let what = "a person must look: not all of this belongs to one repository".to_owned();
                Repaired { code: finding.code, path: finding.path.clone(), outcome: Outcome::ByHand, what }
            };
            return Ok(self.findings.iter().map(left).collect());
        }
        Queue::make_directories(queue.session(), queue.dialect()).await.map_err(Failure::from)?;
        let identity = match &self.identity {
            Some(identity) => identity.clone(),
            None => begin(queue).await?,
        };
        let gap = self.gap();
        // The numbers that are lost are known only until the counters are raised.
        self.write_tree(queue, &identity, gap, false).await?;
        let number = |counter| {
            let next = self.known.get(counter).map_or(0, |known| known.next);
            u32::try_from(next).unwrap_or(u32::MAX)
        };
        let (batches, jobs) = (number(BATCHES), number(JOBS));
        queue.raise_numbers(batches, jobs).await.map_err(Failure::from)?;
        for (path, next) in &self.minters {
            raise_minter(queue, path, *next).await?;
        }
        self.mark(places, &identity).await;
        self.write_tree(queue, &identity, None, true).await?;
        let told = |finding: &Finding| {
            let what = match (finding.code, finding.path.as_str()) {
                (Code::TreeBehind, map::BATCHES) => format!("it counts from {batches}"),
                (Code::TreeBehind, map::JOBS) => format!("it counts from {jobs}"),
                (Code::TreeBehind, _) => {
                    "it counts from the first number that the inventory does not know".into()
                }
                _ => format!("it belongs to the repository {}", identity.id),
            };
            Repaired { code: finding.code, path: finding.path.clone(), outcome: Outcome::Fixed, what }
        };
        Ok(self.findings.iter().map(told).collect())
    }

    /// The numbers that were used and that the tree does not know.
    fn gap(&self) -> Option<LostNumbers> {
        let jobs_end = self.known.get(JOBS).map_or(0, |known| u32::try_from(known.next).unwrap_or(u32::MAX));
        let (batches, jobs) = self.counted;
        (batches > 0 && jobs < jobs_end).then_some(LostNumbers { batches, jobs, jobs_end })
    }

    async fn write_tree(
        &self,
        queue: &Queue,
        identity: &Identity,
        gap: Option<LostNumbers>,
        is_whole: bool,
    ) -> Result<()> {
        let session = queue.session();
        for _ in 0..TRIES {
            let found = read(queue, map::REPOSITORY).await?;
            // The one of the tree if it has one: what else stands there stays.
            let mut now = match &found {
                Some((data, _)) => Identity::read(data, map::REPOSITORY)?,
                None if is_whole || gap.is_some() => identity.clone(),
                None => return Ok(()),
            };
            let mut gaps = lost(&now);
            gaps.extend(gap.filter(|gap| !gaps.contains(gap)));
            if !gaps.is_empty() {
                let gaps = serde_json::to_value(gaps).map_err(|error| Failure::fail(error.to_string()))?;
                now.other.insert(LOST.to_owned(), gaps);
            }
            if is_whole {
                now.other.insert(REPAIRED.to_owned(), queue.now().to_string().into());
            }
            let op = match &found {
                Some((_, stat)) => Op::set(map::REPOSITORY, now.write(), stat.version),
                None => Op::create(map::REPOSITORY, now.write()),
            };
            match settle(session, || session.multi(vec![op.clone()])).await.answer {
                Ok(_) => return Ok(()),
                Err(error) if matches!(error.kind(), Kind::BadVersion | Kind::NodeExists | Kind::NoNode) => {}
                Err(error) => return Err(ingest_queue::error::Error::from(error).into()),
            }
        }
        Err(Failure::Again(format!("{} is changed all the time", map::REPOSITORY)))
    }
}

async fn raise_minter(queue: &Queue, path: &str, next: u64) -> Result<()> {
    let session = queue.session();
    for _ in 0..TRIES {
        let Some((data, stat)) = read(queue, path).await? else { return Ok(()) };
        let Some(raised) = local::raised(&data, next) else { return Ok(()) };
        match settle(session, || session.set(path, raised.clone(), stat.version)).await.answer {
            Ok(_) => return Ok(()),
            Err(error) if matches!(error.kind(), Kind::BadVersion | Kind::NoNode) => {}
            Err(error) => return Err(ingest_queue::error::Error::from(error).into()),
        }
    }
    Err(Failure::Again(format!("{path} is changed all the time")))
}
