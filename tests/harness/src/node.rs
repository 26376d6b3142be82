//! `ingestd run` as a process: started, waited for, told, killed, and started again in its own place.
//!
//! It writes its log as JSON lines, when its configuration says so; then what it says can be waited for. All nodes of a
//! name write to one log, one after the other.
//!
//! When things break: as with [`Process`], what is not said in time, or not before its end, is a panic that quotes the
//! end of its log.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use toml::Table;

use crate::process::Process;

/// How long a node may take to end that was told to.
pub const ENDING: Duration = Duration::from_secs(40);

/// What a node is started with.
#[derive(Debug, Clone)]
pub struct Setup {
    program: PathBuf,
    dir: PathBuf,
    pub name: String,
    config: Table,
    environment: Vec<(String, String)>,
}

impl Setup {
    /// A program, a directory for everything of its nodes, the name of this one, and what its file says.
    pub fn new(program: &Path, dir: &Path, name: &str, config: Table) -> Self {
        // Those that make tests longer are none of a node's business, and neither is a service manager of ours.
        let ours = ["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "JOURNAL_STREAM", "NO_COLOR"];
        let environment = ours.map(|name| (name.to_owned(), String::new())).to_vec();
        Self { program: program.to_owned(), dir: dir.to_owned(), name: name.to_owned(), config, environment }
    }

    pub fn set(mut self, key: &str, value: impl Into<toml::Value>) -> Self {
        set(&mut self.config, key, value);
        self
    }

    /// What the file says of a key.
    pub fn value(&self, key: &str) -> Option<String> {
        let mut names = key.split('.');
        let first = self.config.get(names.next()?)?;
        let found = names.try_fold(first, |section, name| section.get(name))?;
        Some(found.as_str().map_or_else(|| found.to_string(), str::to_owned))
    }

    pub fn variable(mut self, name: &str, value: impl Into<String>) -> Self {
        self.environment.retain(|(known, _)| known != name);
        self.environment.push((name.to_owned(), value.into()));
        self
    }

    /// Its configuration.
    pub fn file(&self) -> PathBuf {
        self.dir.join(&self.name).join("ingestd.toml")
    }

    /// As an editor does it: the new file takes the place of the old one.
    pub fn write(&self, text: &str) {
        let (file, new) = (self.file(), self.file().with_extension("new"));
        std::fs::create_dir_all(file.parent().expect("a file in a directory"))
            .expect("make a node's directory");
        std::fs::write(&new, text).expect("write a node's configuration");
        std::fs::rename(new, file).expect("write a node's configuration");
    }

    /// What the file says.
    pub fn text(&self) -> String {
        self.config.to_string()
    }

    pub fn start(self) -> Node {
        self.write(&self.text());
        let process = self.run();
        Node { setup: self, process }
    }

    pub async fn ready(self) -> Node {
        let node = self.start();
        node.ready().await;
        node
    }

    fn run(&self) -> Process {
        let file = self.file();
        let environment: Vec<(&str, &str)> =
            self.environment.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let arguments = ["run", "--config", file.to_str().expect("a path in UTF-8")];
        Process::start(&self.program, &arguments, &environment, &self.dir, &self.log())
    }

    /// Everything that nodes of this name have logged.
    pub fn log(&self) -> PathBuf {
        self.dir.join(format!("{}.log", self.name))
    }
}

/// A node process.
#[derive(Debug)]
pub struct Node {
    pub setup: Setup,
    pub process: Process,
}

impl Node {
    pub fn name(&self) -> &str {
        &self.setup.name
    }

    /// Waits until it says that it is.
    pub async fn ready(&self) {
        self.says("ready").await;
    }

    /// Waits for a line with this message, of this run, and answers the first.
    pub async fn says(&self, message: &str) -> Value {
        self.says_with(message, |_| true).await
    }

    /// The same, of those that fit.
    pub async fn says_with(&self, message: &str, fits: impl Fn(&Value) -> bool) -> Value {
        let mark = format!("\"message\":{}", Value::from(message));
        let find = |output: &str| {
            let lines = output.lines().filter(|line| line.contains(&mark));
            lines.filter_map(|line| serde_json::from_str(line).ok()).find(|line| fits(line))
        };
        self.process.says(&format!("\"{message}\" of {}", self.name()), find).await
    }

    /// Waits until this message was said more often than that.
    pub async fn says_again(&self, message: &str, than: usize) {
        let mark = format!("\"message\":{}", Value::from(message));
        let find = |output: &str| (output.matches(&mark).count() > than).then_some(());
        self.process.says(&format!("\"{message}\" of {} again", self.name()), find).await;
    }

    /// Lines of this run, those that are whole.
    pub fn lines(&self) -> Vec<Value> {
        lines(&self.process.output())
    }

    /// How often this run has said something.
    pub fn count(&self, message: &str) -> usize {
        self.lines().iter().filter(|line| line["message"] == message).count()
    }

    /// Lines of this run and of those before it.
    pub fn all_lines(&self) -> Vec<Value> {
        lines(&String::from_utf8_lossy(&std::fs::read(self.setup.log()).expect("read a node's log")))
    }

    /// Changes the file under a node that runs.
    pub fn change(&mut self, key: &str, value: impl Into<toml::Value>) {
        set(&mut self.setup.config, key, value);
        self.setup.write(&self.setup.text());
    }

    /// Kills it, and starts another in its place.
    pub async fn replace(&mut self) {
        self.process.kill().await;
        self.start_again();
    }

    /// Starts another in the place of one that has ended.
    pub fn start_again(&mut self) {
        self.process = self.setup.run();
    }

    /// Drains it; answers its exit code.
    pub async fn drained(&self) -> i32 {
        self.process.signal(Signal::TERM);
        self.process.exited(ENDING).await
    }
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Sets a key, by its dotted path.
pub fn set(table: &mut Table, key: &str, value: impl Into<toml::Value>) {
    match key.split_once('.') {
        None => {
            table.insert(key.to_owned(), value.into());
        }
        Some((first, rest)) => {
            let inner = table.entry(first).or_insert_with(|| toml::Value::Table(Table::new()));
            set(inner.as_table_mut().expect("a section"), rest, value);
        }
    }
}
