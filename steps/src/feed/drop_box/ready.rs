//! Which files are ready, and when those may be that are not. Pure.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use tokio::time::Instant;

use super::super::settings::Ready;
use super::place::{Key, MARKER};

#[derive(Debug)]
pub(super) struct Judge {
    ready: Ready,
    stable: Duration,
    /// Since when each file has been as it is.
    since: HashMap<Key, Instant>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    /// In the order in which they came.
    pub(super) ready: Vec<Key>,
    /// When to look again, if nothing is told before.
    pub(super) due: Option<Instant>,
}

impl Judge {
    pub(super) fn new(ready: Ready, stable: Duration) -> Self {
        Self { ready, stable, since: HashMap::new() }
    }

    pub(super) fn all(&mut self, (files, markers): (Vec<Key>, Vec<String>), now: Instant) -> Verdict {
        match self.ready {
            Ready::Rename => Verdict { ready: files, due: None },
            Ready::Marker => {
                let markers: HashSet<String> = markers.into_iter().collect();
                let marked =
                    |key: &Key| markers.contains(&key.name) && !is_marker_of_another(&key.name, &markers);
                Verdict { ready: files.into_iter().filter(marked).collect(), due: None }
            }
            Ready::Stable => self.stable(files, now),
        }
    }

    /// A file that was changed is another one here: it is seen anew.
    fn stable(&mut self, files: Vec<Key>, now: Instant) -> Verdict {
        let before = std::mem::take(&mut self.since);
        let mut verdict = Verdict { ready: Vec::new(), due: None };
        for key in files {
            let since = before.get(&key).copied().unwrap_or(now);
            self.since.insert(key.clone(), since);
            let due = since + self.stable;
            if due <= now {
                verdict.ready.push(key);
            } else {
                verdict.due = Some(verdict.due.map_or(due, |known| known.min(due)));
            }
        }
        verdict
    }
}

/// `a.ready` is the marker of `a`, and no file, even if there is an `a.ready.ready`.
fn is_marker_of_another(name: &str, markers: &HashSet<String>) -> bool {
    name.strip_suffix(MARKER).is_some_and(|of| markers.contains(of))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str, size: u64) -> Key {
        Key { time: 0, name: name.into(), size }
    }

    #[tokio::test(start_paused = true)]
    async fn a_file_that_is_written_to_is_left_alone() {
        let stable = Duration::from_secs(10);
        let mut judge = Judge::new(Ready::Stable, stable);
        let begun = Instant::now();
        let look = |judge: &mut Judge, second: u64, size| {
            judge.all((vec![key("a", size)], Vec::new()), begun + Duration::from_secs(second))
        };
        assert_eq!(look(&mut judge, 0, 1), Verdict { ready: vec![], due: Some(begun + stable) });
        assert_eq!(look(&mut judge, 9, 2).due, Some(begun + Duration::from_secs(19)));
        assert_eq!(look(&mut judge, 18, 2).ready, []);
        assert_eq!(look(&mut judge, 19, 2), Verdict { ready: vec![key("a", 2)], due: None });
    }

    #[tokio::test(start_paused = true)]
    async fn a_marker_says_that_a_file_is_ready() {
        let mut judge = Judge::new(Ready::Marker, Duration::ZERO);
        let files = vec![key("a", 1), key("a.ready", 0), key("b", 1)];
        let verdict = judge.all((files, vec!["a".into()]), Instant::now());
        assert_eq!(verdict.ready, [key("a", 1)]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_renamed_is_ready_at_once() {
        let mut judge = Judge::new(Ready::Rename, Duration::ZERO);
        let verdict = judge.all((vec![key("a", 1)], Vec::new()), Instant::now());
        assert_eq!(verdict.ready, [key("a", 1)]);
    }
}
