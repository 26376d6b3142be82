//! One tree, two engines: every behaviour here is promised by the embedded engine and by a real
//! ZooKeeper server alike.
//!
//! Each module lists its behaviours, and `conformance!` makes a test of each on both engines:
//! `deleting::embedded::…` and `deleting::zookeeper::…`. Whoever adds a behaviour that only one of
//! them has, has found a bug.

// In a test, also in its helpers, an unwrap is an assertion.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod tree;

/// Runs each of these behaviours on a new tree of either engine.
macro_rules! conformance {
    ($($behaviour:ident),+ $(,)?) => {
        mod embedded {
            $(#[tokio::test]
            async fn $behaviour() {
                let tree = $crate::tree::Tree::embedded();
                super::$behaviour(&tree).await;
                tree.close().await;
            })+
        }

        mod zookeeper {
            $(#[tokio::test]
            async fn $behaviour() {
                let tree = $crate::tree::Tree::zookeeper().await;
                super::$behaviour(&tree).await;
                tree.close().await;
            })+
        }
    };
}

mod concurrency;
mod counters;
mod creating;
mod deleting;
mod ephemerals;
mod exists_watches;
mod limits;
mod making_dirs;
mod multi;
mod multi_refused;
mod reading;
mod sessions;
mod setting;
mod tree_watches;
mod watch_ends;
mod watches_together;
