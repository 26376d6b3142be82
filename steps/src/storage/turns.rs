//! Turns: within this process one store at a time works on an object.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::{Mutex as Turn, OwnedMutexGuard};

#[derive(Debug, Default)]
pub(super) struct Turns(Mutex<HashMap<String, Weak<Turn<()>>>>);

impl Turns {
    /// Waits until nobody else works on this object; the turn lasts as long as the guard.
    pub(super) async fn take(&self, ark: &str) -> OwnedMutexGuard<()> {
        let turn = {
            let mut turns = self.0.lock();
            // Objects that nobody works on any more are forgotten here, so the map stays as small as the work.
            turns.retain(|_, turn| turn.strong_count() > 0);
            let known = turns.get(ark).and_then(Weak::upgrade);
            known.unwrap_or_else(|| {
                let turn = Arc::new(Turn::new(()));
                turns.insert(ark.to_owned(), Arc::downgrade(&turn));
                turn
            })
        };
        turn.lock_owned().await
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn one_at_a_time_per_object() {
        let turns = Turns::default();
        let first = turns.take("a").await;
        let other = turns.take("b").await;
        assert!(turns.take("a").now_or_never().is_none());
        drop((first, other));
        assert!(turns.take("a").now_or_never().is_some());
        let _last = turns.take("c").await;
        assert_eq!(turns.0.lock().len(), 1);
    }
}
