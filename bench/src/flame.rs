//! Where a process spends its time, as a picture: sampled by `perf`, put together by call, drawn as an SVG.
//!
//! The wider a box, the more of the samples were in it or in what it called; what calls stands below what is called. Frames that
//! say nothing of ours (closures of the runtime, glue of the standard library) are left out. What is narrower than a pixel is not
//! drawn.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// A number that no rhythm of the program has.
const PER_SECOND: &str = "199";
const WIDTH: f64 = 1200.0;
const ROW: f64 = 17.0;
const TOP: f64 = 58.0;
/// Of a letter, about.
const LETTER: f64 = 6.4;

/// What belongs together, by how names begin, and its colour.
const KINDS: [(&str, &[&str], &str); 7] = [
    ("actors", &["ingest_actors", "ractor"], "#e07b39"),
    ("queue", &["ingest_queue"], "#d9a31c"),
    ("store", &["ingest_store"], "#8fae3b"),
    ("client, embedded file", &["zookeeper_client", "redb"], "#4f9d8f"),
    ("json", &["serde", "itoa", "ryu"], "#7d8bc4"),
    ("runtime", &["tokio", "mio", "futures", "parking_lot"], "#a58bb5"),
    ("system and others", &[""], "#a9a9a9"),
];

/// Frames that only pass on.
const GLUE: [&str; 12] = [
    "core::",
    "std::",
    "alloc::",
    "<core::",
    "<alloc::",
    "<std::",
    "tokio::runtime::",
    "tokio::task::",
    "__rust",
    "start_thread",
    "clone3",
    "[unknown]",
];

/// A process that is sampled until this is drawn.
#[derive(Debug)]
pub(crate) struct Flame {
    perf: Child,
    data: PathBuf,
    _dir: TempDir,
}

impl Flame {
    /// Begins to sample a process.
    pub(crate) fn of(pid: Pid) -> Result<Self> {
        let dir = crate::scratch::directory()?;
        let data = dir.path().join("perf.data");
        let perf = Command::new("perf")
            .args(["record", "--quiet", "-F", PER_SECOND, "--call-graph", "dwarf,16384", "-o"])
            .arg(&data)
            .args(["-p", &pid.as_raw_nonzero().to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .context("perf does not run; it is in Debian's package linux-perf")?;
        Ok(Self { perf, data, _dir: dir })
    }

    /// Ends it, and draws what was seen; how many samples that were.
    pub(crate) fn draw(mut self, title: &str, to: &Path) -> Result<u64> {
        let pid = i32::try_from(self.perf.id()).ok().and_then(Pid::from_raw).context("perf has no number")?;
        kill_process(pid, Signal::INT)?;
        self.perf.wait()?;
        let script = Command::new("perf")
            .args(["script", "--no-inline", "-F", "comm,ip,sym", "-i"])
            .arg(&self.data)
            .stderr(Stdio::null())
            .output()
            .context("perf script does not run")?;
        let root = Frame::read(&String::from_utf8_lossy(&script.stdout));
        ensure!(root.samples > 0, "perf has seen nothing: may it sample here? (kernel.perf_event_paranoid)");
        std::fs::write(to, root.svg(title)).with_context(|| to.display().to_string())?;
        Ok(root.samples)
    }
}

/// A function, and what it called.
#[derive(Debug, Default)]
struct Frame {
    samples: u64,
    calls: BTreeMap<String, Frame>,
}

impl Frame {
    /// From samples as `perf script` prints them: a line that names the thread, a line for each frame from the innermost on, and an
    /// empty line.
    fn read(text: &str) -> Self {
        let mut root = Self::default();
        for sample in text.split("\n\n") {
            let frames = sample.lines().filter_map(|line| line.strip_prefix([' ', '\t']).map(str::trim));
            let names = frames.filter_map(|line| line.split_once(' ').map(|(_, name)| simple(name)));
            let mut stack: Vec<String> = names.filter(|name| says_something(name)).collect();
            if stack.is_empty() && sample.trim().is_empty() {
                continue;
            }
            stack.reverse();
            stack.dedup();
            root.add(&stack);
        }
        root
    }

    fn add(&mut self, stack: &[String]) {
        self.samples += 1;
        if let Some((first, rest)) = stack.split_first() {
            self.calls.entry(first.clone()).or_default().add(rest);
        }
    }

    fn depth(&self, least: f64) -> usize {
        let calls = self.calls.values().filter(|call| share(call.samples, 1.0) >= least);
        calls.map(|call| 1 + call.depth(least)).max().unwrap_or(0)
    }

    fn svg(&self, title: &str) -> String {
        let scale = WIDTH / share(self.samples, 1.0);
        #[allow(clippy::cast_precision_loss, reason = "some dozens")]
        let height = TOP + ROW * (self.depth(1.0 / scale) as f64) + 8.0;
        let mut svg = format!(
            "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {height}' font-family='sans-serif' font-size='11'>\n\
             <rect width='{WIDTH}' height='{height}' fill='#fff'/>\n\
             <text x='8' y='20' font-size='15'>{}</text>\n",
            escaped(title)
        );
        let mut x = 8.0;
        for (name, _, colour) in KINDS {
            let _ = writeln!(
                svg,
                "<rect x='{x}' y='32' width='12' height='12' fill='{colour}'/><text x='{}' y='42'>{name}</text>",
                x + 16.0
            );
            #[allow(clippy::cast_precision_loss, reason = "a short word")]
            let wide = name.len() as f64 * LETTER;
            x += 36.0 + wide;
        }
        self.boxes(&mut svg, 0.0, height - 8.0, scale);
        svg.push_str("</svg>\n");
        svg
    }

    fn boxes(&self, svg: &mut String, from: f64, floor: f64, scale: f64) {
        let mut x = from;
        for (name, call) in &self.calls {
            let wide = share(call.samples, scale);
            if wide >= 1.0 {
                let y = floor - ROW;
                let part = share(call.samples, 100.0 * scale / WIDTH);
                let _ = write!(
                    svg,
                    "<g><title>{} ({part:.1} %)</title><rect x='{x:.1}' y='{y:.1}' width='{:.1}' height='{:.1}' fill='{}'/>",
                    escaped(name),
                    (wide - 0.5).max(0.5),
                    ROW - 1.0,
                    colour(name)
                );
                if let Some(shown) = fitting(name, wide) {
                    let _ = write!(
                        svg,
                        "<text x='{:.1}' y='{:.1}'>{}</text>",
                        x + 3.0,
                        y + 12.0,
                        escaped(&shown)
                    );
                }
                svg.push_str("</g>\n");
                call.boxes(svg, x, y, scale);
            }
            x += wide;
        }
    }
}

fn share(samples: u64, scale: f64) -> f64 {
    #[allow(clippy::cast_precision_loss, reason = "far below 2^52")]
    let samples = samples as f64;
    samples * scale
}

fn says_something(name: &str) -> bool {
    !GLUE.iter().any(|glue| name.starts_with(glue)) && !name.is_empty()
}

fn colour(name: &str) -> &'static str {
    let name = name.trim_start_matches(['<', '&']);
    let kind = KINDS.iter().find(|(_, begins, _)| begins.iter().any(|begin| name.starts_with(begin)));
    kind.map_or("#a9a9a9", |(_, _, colour)| colour)
}

/// Without the hash, the types that a function was made for, and its closures.
fn simple(name: &str) -> String {
    let name = match name.rfind("::h") {
        Some(at) if name.len() == at + 19 => &name[..at],
        _ => name,
    };
    let (mut plain, mut depth) = (String::new(), 0usize);
    let leading = name.starts_with('<');
    for (at, letter) in name.char_indices() {
        match letter {
            '<' if at == 0 => {}
            '<' => depth += 1,
            '>' if depth > 0 => depth -= 1,
            // Of `<Type as Trait>::function`.
            '>' if leading => {}
            _ if depth == 0 => plain.push(letter),
            _ => {}
        }
    }
    let plain = match plain.split_once(" as ") {
        Some((of, rest)) => format!("{of}::{}", rest.rsplit("::").next().unwrap_or(rest)),
        None => plain,
    };
    plain.replace("::{{closure}}", "").replace("::{closure#0}", "").replace("::{{impl}}", "")
}

/// The end of a name says more than its beginning.
fn fitting(name: &str, wide: f64) -> Option<String> {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a width in letters")]
    let letters = ((wide - 6.0) / LETTER).max(0.0) as usize;
    let parts: Vec<&str> = name.split("::").collect();
    (0..parts.len()).map(|from| parts[from..].join("::")).find(|shown| shown.len() <= letters)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('\'', "&#39;")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLES: &str = "worker\n\t  aa ingest_queue::jobs::lease::succeed::h0123456789abcdef\n\t  bb tokio::runtime::task::poll\n\t  cc ingest_actors::worker::Worker<T>::handle\n\n\
                           worker\n\t  aa <serde_json::Value as serde::Serialize>::serialize\n\t  cc ingest_actors::worker::Worker<T>::handle\n\n";

    #[test]
    fn samples_of_one_caller_stand_on_it_side_by_side() {
        let root = Frame::read(SAMPLES);
        assert_eq!((root.samples, root.calls.len()), (2, 1));
        let worker = &root.calls["ingest_actors::worker::Worker::handle"];
        let called: Vec<_> = worker.calls.iter().map(|(name, call)| (name.as_str(), call.samples)).collect();
        assert_eq!(called, [("ingest_queue::jobs::lease::succeed", 1), ("serde_json::Value::serialize", 1)]);
        assert_eq!(root.depth(0.5), 2);
    }

    #[test]
    fn a_picture_has_a_box_of_its_width_for_each() {
        let svg = Frame::read(SAMPLES).svg("a < b");
        assert!(svg.contains("a &lt; b"));
        assert!(svg.contains("ingest_actors::worker::Worker::handle (100.0 %)"), "{svg}");
        assert!(svg.contains("<title>serde_json::Value::serialize (50.0 %)</title><rect x='600.0'"), "{svg}");
    }

    #[test]
    fn a_name_is_cut_from_its_beginning() {
        assert_eq!(fitting("one::two::three", 75.0).as_deref(), Some("two::three"));
        assert_eq!(fitting("one::two::three", 20.0), None);
    }
}
