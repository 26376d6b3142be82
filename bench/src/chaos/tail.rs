//! What a node says, as it says it.
//!
//! The log of a node grows as long as the run lasts, so each look reads only what is new. Lines have numbers: whoever
//! wants to know what is said from now on takes a mark first.

use std::collections::{BTreeMap, VecDeque};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use ingest_harness::let_pass;
use ingest_queue::date::Date;
use parking_lot::Mutex;
use serde_json::Value;

/// Lines that are kept for those who look for one.
const KEPT: usize = 4000;
const LOOK: Duration = Duration::from_millis(40);

/// What nodes have found that nobody needed any more, or that no event had told of, in the rounds that they make at each start and
/// from time to time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Cleaned {
    /// Directories of attempts that a dead process has left on its disk.
    pub(crate) directories: u64,
    /// All others, each with the whole line: whoever ends gives back what it has, and the server takes it from whoever dies.
    pub(crate) never: Vec<String>,
}

/// The log of all nodes of a name.
#[derive(Debug)]
pub(crate) struct Tail {
    file: PathBuf,
    read: Mutex<Lines>,
}

#[derive(Debug, Default)]
struct Lines {
    offset: u64,
    rest: Vec<u8>,
    /// The number of the first line that is kept.
    first: usize,
    kept: VecDeque<Value>,
    /// Lines of the level ERROR, by message.
    errors: BTreeMap<String, usize>,
    /// Restarts, by reason.
    restarts: BTreeMap<String, usize>,
    /// What nobody may do.
    panics: Vec<String>,
    cleaned: Cleaned,
}

impl Tail {
    pub(crate) fn new(file: PathBuf) -> Self {
        Self { file, read: Mutex::default() }
    }

    /// The number that the next line will have.
    pub(crate) fn mark(&self) -> usize {
        let mut lines = self.read.lock();
        lines.read_on(&self.file);
        lines.first + lines.kept.len()
    }

    /// The first line since a mark that fits.
    pub(crate) fn since(&self, mark: usize, fits: impl Fn(&Value) -> bool) -> Option<Value> {
        let mut lines = self.read.lock();
        lines.read_on(&self.file);
        let skip = mark.saturating_sub(lines.first);
        lines.kept.iter().skip(skip).find(|line| fits(line)).cloned()
    }

    /// Whether this message was said since a mark.
    pub(crate) fn said(&self, mark: usize, message: &str) -> bool {
        self.since(mark, |line| line["message"] == message).is_some()
    }

    /// Whether it has said so at this date or later. Lines and dates are written alike.
    pub(crate) fn said_after(&self, date: Date, message: &str) -> bool {
        let date = date.to_string();
        let fits = |line: &Value| {
            line["message"] == message && line["timestamp"].as_str().is_some_and(|at| at >= date.as_str())
        };
        self.since(0, fits).is_some()
    }

    /// Waits for a line that fits, for so long.
    pub(crate) async fn says(
        &self,
        mark: usize,
        within: Duration,
        fits: impl Fn(&Value) -> bool,
    ) -> Option<Value> {
        let until = Instant::now() + within;
        loop {
            if let Some(line) = self.since(mark, &fits) {
                return Some(line);
            }
            if Instant::now() >= until {
                return None;
            }
            let_pass(LOOK).await;
        }
    }

    pub(crate) fn errors(&self) -> BTreeMap<String, usize> {
        self.read.lock().errors.clone()
    }

    pub(crate) fn restarts(&self) -> BTreeMap<String, usize> {
        self.read.lock().restarts.clone()
    }

    pub(crate) fn panics(&self) -> Vec<String> {
        self.read.lock().panics.clone()
    }

    /// What was cleaned up since the beginning.
    pub(crate) fn cleaned(&self) -> Cleaned {
        let mut lines = self.read.lock();
        lines.read_on(&self.file);
        lines.cleaned.clone()
    }

    /// The last lines, for people.
    pub(crate) fn last(&self, count: usize) -> String {
        let lines = self.read.lock();
        let skip = lines.kept.len().saturating_sub(count);
        lines.kept.iter().skip(skip).map(Value::to_string).collect::<Vec<_>>().join("\n")
    }
}

impl Lines {
    fn read_on(&mut self, file: &PathBuf) {
        let mut new = Vec::new();
        let read = std::fs::File::open(file).and_then(|mut file| {
            file.seek(SeekFrom::Start(self.offset))?;
            file.read_to_end(&mut new)
        });
        let Ok(count) = read else { return };
        self.offset += count as u64;
        self.rest.extend_from_slice(&new);
        while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.rest.drain(..=end).collect();
            self.take(&String::from_utf8_lossy(&line));
        }
    }

    fn take(&mut self, text: &str) {
        let Ok(line) = serde_json::from_str::<Value>(text) else {
            if text.contains("panicked at") {
                self.panics.push(text.trim().to_owned());
            }
            return;
        };
        let message = line["message"].as_str().unwrap_or_default();
        if line["level"] == "ERROR" {
            *self.errors.entry(message.to_owned()).or_default() += 1;
        }
        if message == "restarted" {
            let reason = line["reason"].as_str().unwrap_or_default();
            let (actor, why) =
                (line["actor"].as_str().unwrap_or_default(), line["why"].as_str().unwrap_or_default());
            let what =
                if reason == "expired" { reason.to_owned() } else { format!("{reason} of {actor}: {why}") };
            *self.restarts.entry(what).or_default() += 1;
            if reason == "panic" {
                self.panics.push(text.trim().to_owned());
            }
        }
        if message == "cleaned up" {
            let count = |key: &str| line[key].as_u64().unwrap_or(0);
            self.cleaned.directories += count("directories");
            // Locks, or what a routine has removed (`removed`): none of these is due in a run.
            if count("locks") + count("removed") > 0 {
                self.cleaned.never.push(text.trim().to_owned());
            }
        }
        // A sweep that found what no event had told of.
        if line["healed"].as_u64().is_some_and(|count| count > 0) {
            self.cleaned.never.push(text.trim().to_owned());
        }
        self.kept.push_back(line);
        if self.kept.len() > KEPT {
            self.kept.pop_front();
            self.first += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_said_after_the_mark_is_found_and_panics_are_remembered() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("log");
        let say = |text: &str| {
            use std::io::Write as _;
            let mut log = std::fs::File::options().create(true).append(true).open(&file).unwrap();
            log.write_all(text.as_bytes()).unwrap();
        };
        let tail = Tail::new(file.clone());
        say("{\"message\":\"ready\"}\n{\"message\":\"half");
        let mark = tail.mark();
        assert!(!tail.said(mark, "ready") && tail.said(0, "ready"));
        say(" said\"}\nthread 'x' panicked at y:\n");
        assert!(tail.said(mark, "half said"));
        assert_eq!(tail.panics().len(), 1);
    }

    #[test]
    fn what_was_said_before_a_date_does_not_count() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("log");
        std::fs::write(&file, "{\"timestamp\":\"2026-11-18T04:44:41.177Z\",\"message\":\"over\"}\n").unwrap();
        let tail = Tail::new(file);
        let at = |text: &str| text.parse::<Date>().unwrap();
        assert!(tail.said_after(at("2026-11-18T04:44:41.177Z"), "over"));
        assert!(!tail.said_after(at("2026-11-18T04:44:41.178Z"), "over"));
        assert!(!tail.said_after(at("2026-11-18T04:44:00.000Z"), "under"));
    }

    #[test]
    fn what_is_cleaned_up_is_added_and_what_never_needs_it_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("log");
        let line = |locks, directories| {
            format!(
                "{{\"message\":\"cleaned up\",\"locks\":{locks},\"directories\":{directories},\"access_items\":0}}\n"
            )
        };
        std::fs::write(&file, line(0, 2) + &line(0, 3)).unwrap();
        let tail = Tail::new(file.clone());
        assert_eq!(tail.cleaned(), Cleaned { directories: 5, never: Vec::new() });
        let routine = "{\"message\":\"cleaned up\",\"name\":\"keys\",\"removed\":1}\n";
        let sweeps = "{\"message\":\"compared\",\"healed\":0}\n{\"message\":\"found\",\"healed\":2}\n";
        std::fs::write(&file, line(0, 2) + &line(0, 3) + &line(1, 0) + routine + sweeps).unwrap();
        let cleaned = tail.cleaned();
        assert_eq!((cleaned.directories, cleaned.never.len()), (5, 3), "{cleaned:?}");
    }
}
