//! A command that was run, and what it said.

use std::path::Path;
use std::process::Stdio;

use serde_json::Value;
use tokio::process::Command;

use crate::kit::TestNode;

/// How a command has ended.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// The program in a directory, with no variables but these.
pub(crate) fn command(dir: &Path, server: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ingestd"));
    command.args(arguments).current_dir(dir).env_clear().env("INGESTD_SERVER", server);
    command.stdin(Stdio::null()).kill_on_drop(true);
    command
}

pub(crate) async fn run(mut command: Command) -> Ran {
    let output = command.output().await.unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Ran { code: output.status.code().unwrap(), out: text(output.stdout), err: text(output.stderr) }
}

impl TestNode {
    /// Runs a command against this node.
    pub(crate) async fn cli(&self, arguments: &[&str]) -> Ran {
        run(command(self.dir.path(), &self.base, arguments)).await
    }

    /// What a command prints with `--json`.
    pub(crate) async fn json(&self, arguments: &[&str]) -> Value {
        let arguments = [arguments, &["--json"]].concat();
        let ran = self.cli(&arguments).await.is(0);
        serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{error}: {ran:?}"))
    }
}

impl Ran {
    /// It has ended with this code.
    #[track_caller]
    pub(crate) fn is(self, code: i32) -> Self {
        assert_eq!(self.code, code, "stdout:\n{}\nstderr:\n{}", self.out, self.err);
        self
    }

    /// It has printed all of these.
    #[track_caller]
    pub(crate) fn says(self, parts: &[&str]) -> Self {
        for part in parts {
            assert!(self.out.contains(part), "{part:?} is not in\n{}\nstderr:\n{}", self.out, self.err);
        }
        self
    }

    /// It has complained with all of these.
    #[track_caller]
    pub(crate) fn complains(self, parts: &[&str]) -> Self {
        for part in parts {
            assert!(self.err.contains(part), "{part:?} is not in\n{}", self.err);
        }
        self
    }

    /// A document on each line.
    pub(crate) fn lines(&self) -> Vec<Value> {
        self.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}
