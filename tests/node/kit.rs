//! Node processes: started, waited for, told, killed, started again; and submissions to them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use ingest_harness::{FileServer, Process};
use ingest_queue::ids::{Bid, Jid};
use ingest_queue::map::{self, BatchNode};
use ingest_queue::nodes::Submission;
use ingest_queue::queue::Queue;
use ingest_queue::states::{BatchList, BatchState};
use ingest_steps::manifest::Kind;
use ingest_store::Event;
use rustix::process::Signal;
use serde_json::Value;
use toml::Table;
use url::Url;

use crate::place::{PROFILE, set};

/// How long a node may take to end that was told to.
pub(crate) const ENDING: Duration = Duration::from_secs(40);

/// What a node is started with.
#[derive(Debug, Clone)]
pub(crate) struct Setup {
    dir: PathBuf,
    pub(crate) name: String,
    config: Table,
    environment: Vec<(String, String)>,
}

impl Setup {
    pub(crate) fn new(dir: &Path, name: &str, config: Table) -> Self {
        // Those that make tests longer are none of a node's business, and neither is a service manager of ours.
        let ours = ["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "JOURNAL_STREAM", "NO_COLOR"];
        let environment = ours.map(|name| (name.to_owned(), String::new())).to_vec();
        Self { dir: dir.to_owned(), name: name.to_owned(), config, environment }
    }

    pub(crate) fn set(mut self, key: &str, value: impl Into<toml::Value>) -> Self {
        set(&mut self.config, key, value);
        self
    }

    pub(crate) fn variable(mut self, name: &str, value: impl Into<String>) -> Self {
        self.environment.retain(|(known, _)| known != name);
        self.environment.push((name.to_owned(), value.into()));
        self
    }

    fn file(&self) -> PathBuf {
        self.dir.join(&self.name).join("ingestd.toml")
    }

    /// As an editor does it: the new file takes the place of the old one.
    pub(crate) fn write(&self, text: &str) {
        let (file, new) = (self.file(), self.file().with_extension("new"));
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&new, text).unwrap();
        std::fs::rename(new, file).unwrap();
    }

    /// What the file says.
    pub(crate) fn text(&self) -> String {
        self.config.to_string()
    }

    pub(crate) fn start(self) -> Node {
        self.write(&self.text());
        let process = self.run();
        Node { setup: self, process }
    }

    pub(crate) async fn ready(self) -> Node {
        let node = self.start();
        node.ready().await;
        node
    }

    fn run(&self) -> Process {
        let file = self.file();
        let environment: Vec<(&str, &str)> =
            self.environment.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let program = Path::new(env!("CARGO_BIN_EXE_ingestd"));
        let arguments = ["run", "--config", file.to_str().unwrap()];
        Process::start(program, &arguments, &environment, &self.dir, &self.log())
    }

    /// Everything that nodes of this name have logged.
    fn log(&self) -> PathBuf {
        self.dir.join(format!("{}.log", self.name))
    }
}

/// A node process.
pub(crate) struct Node {
    pub(crate) setup: Setup,
    pub(crate) process: Process,
}

impl Node {
    pub(crate) fn name(&self) -> &str {
        &self.setup.name
    }

    /// Waits until it says that it is.
    pub(crate) async fn ready(&self) {
        self.says("ready").await;
    }

    /// Waits for a line with this message, of this run, and answers the first.
    pub(crate) async fn says(&self, message: &str) -> Value {
        self.says_with(message, |_| true).await
    }

    /// The same, of those that fit.
    pub(crate) async fn says_with(&self, message: &str, fits: impl Fn(&Value) -> bool) -> Value {
        let mark = format!("\"message\":{}", Value::from(message));
        let find = |output: &str| {
            let lines = output.lines().filter(|line| line.contains(&mark));
            lines.filter_map(|line| serde_json::from_str(line).ok()).find(|line| fits(line))
        };
        self.process.says(&format!("\"{message}\" of {}", self.name()), find).await
    }

    /// Waits until this message was said more often than that.
    pub(crate) async fn says_again(&self, message: &str, than: usize) {
        let mark = format!("\"message\":{}", Value::from(message));
        let find = |output: &str| (output.matches(&mark).count() > than).then_some(());
        self.process.says(&format!("\"{message}\" of {} again", self.name()), find).await;
    }

    /// Lines of this run, those that are whole.
    pub(crate) fn lines(&self) -> Vec<Value> {
        lines(&self.process.output())
    }

    /// How often this run has said something.
    pub(crate) fn count(&self, message: &str) -> usize {
        self.lines().iter().filter(|line| line["message"] == message).count()
    }

    /// Lines of this run and of those before it.
    pub(crate) fn all_lines(&self) -> Vec<Value> {
        lines(&String::from_utf8_lossy(&std::fs::read(self.setup.log()).unwrap()))
    }

    /// Changes the file under a node that runs.
    pub(crate) fn change(&mut self, key: &str, value: impl Into<toml::Value>) {
        set(&mut self.setup.config, key, value);
        self.setup.write(&self.setup.text());
    }

    /// Kills it, and starts another in its place.
    pub(crate) async fn replace(&mut self) {
        self.process.kill().await;
        self.process = self.setup.run();
    }

    /// Drains it; answers its exit code.
    pub(crate) async fn drained(&self) -> i32 {
        self.process.signal(Signal::TERM);
        self.process.exited(ENDING).await
    }
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// A batch of files: its manifest is put on the server, with a local id for each.
pub(crate) fn many(files: &FileServer, name: &str, count: usize) -> Submission {
    let rows = (0..count).map(|n| {
        let url = files.put(&format!("/{name}/{n}.txt"), format!("file {n} of {name}\n").repeat(20));
        format!("{url} | | | | | {n}.txt | | {name}-{n} | Lindqvist, A. | Thing {n} | 2001")
    });
    let rows: Vec<String> = rows.collect();
    let profile = Kind::SingleFileBatch.profile();
    let text = format!("#%checkm_0.7\n#%profile | {profile}\n{}\n#%eof\n", rows.join("\n"));
    submission(&files.put(&format!("/{name}.checkm"), text), Some("single_file_batch_manifest"))
}

pub(crate) fn submission(url: &Url, kind: Option<&str>) -> Submission {
    Submission {
        profile_name: PROFILE.into(),
        submitter: "depositor".into(),
        payload_url: Some(url.to_string()),
        payload_type: kind.map(str::to_owned),
        ..Submission::default()
    }
}

pub(crate) async fn submit(queue: &Queue, mut submission: Submission) -> Bid {
    submission.insertion_date = Some(queue.now());
    let uuid = uuid::Uuid::new_v4().to_string();
    queue.create_batch(&uuid, &submission).await.unwrap().bid
}

/// Waits until a batch has ended and its report is sent, by its events.
pub(crate) async fn reported(queue: &Queue, bid: Bid) -> BatchState {
    let waited = tokio::time::timeout(Duration::from_mins(3), async {
        let mut watch = queue.session().watch_tree(BatchNode::Status.of(bid)).await.unwrap();
        loop {
            let state = queue.batch(bid).await.unwrap().state();
            if matches!(state, BatchState::Completed | BatchState::Failed) {
                return state;
            }
            if let Event::Ended(state) = watch.next().await {
                panic!("{bid} was waited for, and the session is {state:?}");
            }
        }
    });
    match waited.await {
        Ok(state) => state,
        Err(late) => panic!("{bid} does not end: {late}: {}", crate::checks::left_of(queue, bid).await),
    }
}

pub(crate) async fn jobs(queue: &Queue, bid: Bid, list: BatchList) -> Vec<Jid> {
    let (names, _) = queue.session().children(map::batch_list(bid, list)).await.unwrap();
    let mut jids: Vec<Jid> = names.iter().filter_map(|name| name.parse().ok()).collect();
    jids.sort_unstable();
    jids
}

/// How long something lasts, by the environment.
pub(crate) fn seconds(variable: &str, otherwise: u64) -> Duration {
    let given = std::env::var(variable).ok().and_then(|text| text.parse().ok());
    Duration::from_secs(given.unwrap_or(otherwise))
}
