//! What wakes the provisioner before its time.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use crate::outcome::Cancel;

/// A word from whoever has freed space, or has brought a job that wants some. Clones are the same. A word
/// that comes while nobody waits is kept, and many are as good as one.
#[derive(Debug, Clone, Default)]
pub struct Freed(Arc<Notify>);

impl Freed {
    pub fn poke(&self) {
        self.0.notify_one();
    }
}

/// Why it is time to look again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Woken {
    Freed,
    /// The time of a cycle has passed. Space that other nodes free on a shared file system is found by this.
    Time,
    Stopped,
}

/// Waits for a poke, for the end, or for this time to pass.
pub async fn next_look(freed: &Freed, look_again: Duration, cancel: &Cancel) -> Woken {
    tokio::select! {
        biased;
        () = cancel.cancelled() => Woken::Stopped,
        () = freed.0.notified() => Woken::Freed,
        () = tokio::time::sleep(look_again) => Woken::Time,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_hours(1);

    #[tokio::test]
    async fn a_poke_wakes_at_once_and_is_not_lost_while_nobody_waits() {
        let (freed, cancel) = (Freed::default(), Cancel::new());
        freed.clone().poke();
        freed.poke();
        assert_eq!(next_look(&freed, LONG, &cancel).await, Woken::Freed);
        // Two pokes are one look.
        assert_eq!(next_look(&freed, Duration::from_millis(1), &cancel).await, Woken::Time);
        let ((), woken) = tokio::join!(async { freed.poke() }, next_look(&freed, LONG, &cancel));
        assert_eq!(woken, Woken::Freed);
        cancel.cancel();
        assert_eq!(next_look(&freed, LONG, &cancel).await, Woken::Stopped);
    }
}
