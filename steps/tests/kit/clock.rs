//! The clock of a test's runtime, set forward by hand.

use std::time::Duration;

/// A limit that no test reaches by waiting, however slow its machine is: only [`jump`] reaches it.
pub(crate) const HOUR: Duration = Duration::from_hours(1);

/// Sets the clock of the runtime forward by `time`; it runs on from there. Timers that are armed and due fire.
///
/// A test gives its subject limits of hours, waits for a witness that the limit is armed, and jumps. So neither a limit
/// nor the traffic on a real socket depends on the speed of the machine. Only for runtimes with one thread.
pub(crate) async fn jump(time: Duration) {
    tokio::time::pause();
    tokio::time::advance(time).await;
    tokio::time::resume();
}
