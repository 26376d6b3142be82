//! A PostgreSQL server for tests: of Debian's binaries, in a directory of its own, on a unix socket only.
//!
//! The server runs below a small shell whose standard input is a pipe from the test process. However that
//! process ends, the kernel closes the pipe; the shell then ends the server and removes the directory.
//! PostgreSQL refuses to run as root, so for root it runs as `postgres` or, without one, as `nobody`.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, mpsc};

use sqlx::{AssertSqlSafe, Connection, PgConnection};

const DEBIAN: &str = "/usr/lib/postgresql";
const USER: &str = "ingest";

/// Arguments: the scratch directory, the directory of binaries, then what gives up root. Speed counts here,
/// and nothing has to survive: no syncs. With the test process its end of standard output is gone too; a word
/// that cannot be said must not end the shell before its work is done.
const SHELL: &str = r#"
scratch=$1; bin=$2; shift 2
trap '' HUP INT PIPE
exec 3<&0 2>&1 </dev/null
data=$scratch/data
if "$@" "$bin/initdb" -D "$data" -U ingest -A trust -E UTF8 --locale=C --no-sync --no-instructions 3<&-; then
  "$@" "$bin/postgres" -D "$data" -k "$scratch" -p 5432 -c listen_addresses= -c fsync=off \
    -c max_connections=300 -c shared_buffers=16MB 3<&- &
  server=$!
  ( read -r word <&3; kill -QUIT "$server" ) &
  reader=$!
  wait "$server"
  kill "$reader" 2>/dev/null
  wait "$reader"
fi
rm -rf "$scratch"
"#;

pub(crate) struct Server {
    scratch: PathBuf,
    shell: Child,
    /// While it is open the server runs.
    lifeline: Option<ChildStdin>,
    databases: AtomicUsize,
}

impl Server {
    /// The one server of this test process.
    pub(crate) fn shared() -> &'static Server {
        static SHARED: OnceLock<Server> = OnceLock::new();
        SHARED.get_or_init(Server::start)
    }

    /// Starts a server and waits until it accepts connections.
    pub(crate) fn start() -> Server {
        let bin = binaries(Path::new(DEBIAN)).unwrap_or_else(|why| panic!("{why}"));
        let scratch = tempfile::Builder::new().prefix("ingest-postgres-").tempdir().unwrap();
        let unprivileged = without_root(scratch.path());
        // From here on the shell removes it.
        let scratch = scratch.keep();
        let mut shell = Command::new("sh")
            .args(["-c", SHELL, "postgres-guard"])
            .args([&scratch, &bin])
            .args(unprivileged)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // A Ctrl-C is for the test process: the shell has to clean up after it.
            .process_group(0)
            .spawn()
            .expect("start `sh` as the guard of PostgreSQL");
        let lifeline = shell.stdin.take();
        let said = shell.stdout.take().unwrap();
        let server = Server { scratch, shell, lifeline, databases: AtomicUsize::new(0) };
        match ready(said) {
            Ok(()) => server,
            Err(log) => panic!("PostgreSQL of {} did not start:\n{log}", bin.display()),
        }
    }

    /// The URL of a new, empty database.
    pub(crate) async fn database(&self) -> String {
        let name = format!("test{}", self.databases.fetch_add(1, Ordering::SeqCst));
        let mut connection = PgConnection::connect(&self.url("postgres")).await.unwrap();
        let create = AssertSqlSafe(format!("CREATE DATABASE {name}"));
        sqlx::raw_sql(create).execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();
        self.url(&name)
    }

    pub(crate) fn scratch(&self) -> &Path {
        &self.scratch
    }

    /// Ends the server at once, as a crash does; its files are gone when this returns.
    pub(crate) fn stop(&mut self) {
        drop(self.lifeline.take());
        self.shell.wait().unwrap();
    }

    fn url(&self, database: &str) -> String {
        format!("postgres://{USER}@localhost:5432/{database}?host={}", self.scratch.display())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Waits for the line that says so; the last lines if it does not come. The rest is read and dropped, or the
/// server would stop at a full pipe.
fn ready(said: impl std::io::Read + Send + 'static) -> Result<(), String> {
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        let mut last = VecDeque::new();
        for line in BufReader::new(said).lines().map_while(Result::ok) {
            if line.contains("database system is ready to accept connections") {
                let _ = tell.send(Ok(()));
            }
            last.push_back(line);
            if last.len() > 20 {
                last.pop_front();
            }
        }
        let _ = tell.send(Err(last.into_iter().collect::<Vec<_>>().join("\n")));
    });
    told.recv().unwrap()
}

/// The newest version's directory of binaries.
pub(crate) fn binaries(below: &Path) -> Result<PathBuf, String> {
    let versions = std::fs::read_dir(below).into_iter().flatten().flatten().map(|entry| entry.path());
    let number = |path: &PathBuf| path.file_name()?.to_str()?.parse::<u32>().ok();
    versions
        .filter(|path| path.join("bin/initdb").exists() && path.join("bin/postgres").exists())
        .max_by_key(number)
        .map(|path| path.join("bin"))
        .ok_or_else(|| {
            format!(
                "these tests need PostgreSQL, and there is none in {}: apt-get install postgresql",
                below.display()
            )
        })
}

/// The words before a command that let it run without root's rights, and the directory given to that user.
fn without_root(scratch: &Path) -> Vec<String> {
    if id(&["-u"]) != Some(0) {
        return Vec::new();
    }
    let ids = |user| Some((id(&["-u", user])?, id(&["-g", user])?));
    let (uid, gid) = ids("postgres").or_else(|| ids("nobody")).expect("a user `postgres` or `nobody`");
    std::os::unix::fs::chown(scratch, Some(uid), Some(gid)).unwrap();
    vec!["setpriv".into(), format!("--reuid={uid}"), format!("--regid={gid}"), "--clear-groups".into()]
}

fn id(arguments: &[&str]) -> Option<u32> {
    let said = Command::new("id").args(arguments).stderr(Stdio::null()).output().ok()?;
    String::from_utf8(said.stdout).ok()?.trim().parse().ok()
}

#[test]
fn a_missing_package_is_named() {
    let empty = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(empty.path().join("17/bin")).unwrap();
    let why = binaries(empty.path()).unwrap_err();
    assert!(why.ends_with("apt-get install postgresql"), "{why}");
}

#[test]
fn the_newest_binaries_are_taken() {
    let dir = tempfile::tempdir().unwrap();
    for version in ["9", "15", "17"] {
        std::fs::create_dir_all(dir.path().join(version).join("bin")).unwrap();
    }
    for file in ["9/bin/initdb", "9/bin/postgres", "15/bin/initdb", "15/bin/postgres"] {
        std::fs::write(dir.path().join(file), "").unwrap();
    }
    assert_eq!(binaries(dir.path()), Ok(dir.path().join("15/bin")));
}

#[test]
fn a_panic_ends_the_server_and_removes_its_files() {
    let started = Arc::new(OnceLock::new());
    let told = started.clone();
    let panicked = std::thread::spawn(move || {
        let server = Server::start();
        let pid = std::fs::read_to_string(server.scratch().join("data/postmaster.pid")).unwrap();
        let pid: u32 = pid.lines().next().unwrap().parse().unwrap();
        told.set((server.scratch().to_owned(), pid)).unwrap();
        std::panic::resume_unwind(Box::new("a test that fails"));
    })
    .join();
    assert!(panicked.is_err());
    let (scratch, pid) = started.get().unwrap();
    assert!(!scratch.exists() && !Path::new(&format!("/proc/{pid}")).exists());
}
