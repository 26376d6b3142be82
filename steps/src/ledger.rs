//! Keeps the tree from giving out numbers that were used.
//!
//! The tree counts batches and jobs. A tree that is empty, or restored from a backup, counts numbers again that the
//! inventory has recorded. [`reconcile`] runs before a node works on a session: it moves the counters of the tree past what
//! the inventory knows, and then tells the inventory how far the tree has counted.
//!
//! **When things break.** It can be repeated. A counter that was moved only part of the way is moved on by the next call.

use ingest_queue::queue::Queue;

use crate::inventory::{BATCHES, Inventory, JOBS};
use crate::outcome::Result;

/// Moves the counters of the tree past the numbers that the inventory knows, and the inventory's after those of the tree.
pub async fn reconcile(queue: &Queue, inventory: &dyn Inventory) -> Result<()> {
    // Read before the tree: the inventory is never ahead of a tree that is not older.
    let known = inventory.counters().await?;
    let of = |name: &str| known.get(name).map_or(0, |next| u32::try_from(*next).unwrap_or(u32::MAX));
    let (batches, jobs) = (of(BATCHES), of(JOBS));
    let (tree_batches, tree_jobs) = queue.raise_numbers(batches, jobs).await?;
    for (counter, tree, inventory) in [(BATCHES, tree_batches, batches), (JOBS, tree_jobs, jobs)] {
        if tree < inventory {
            tracing::error!(
                counter,
                tree,
                inventory,
                "the tree is older than the inventory, or another tree; its counter was moved past the used numbers"
            );
        }
    }
    let counted = [(BATCHES, tree_batches.max(batches)), (JOBS, tree_jobs.max(jobs))];
    let counted = counted.map(|(name, next)| (name, u64::from(next)));
    if counted.iter().all(|(name, next)| known.get(*name) == Some(next)) {
        return Ok(());
    }
    inventory.raise(&counted).await
}
