//! How one server is set up: [`ServerConfig`], its `zoo.cfg` and the java command line.
//!
//! The server is Debian's, run straight from its jars: no service manager, no scripts. A missing package
//! is a failed test that says what to install, never a skipped one.

use std::path::{Path, PathBuf};
use std::time::Duration;

/// The Debian packages that the servers of this crate run from; `tests/run` installs them.
///
/// Everything else comes with them, also Netty (`libnetty-java`) for TLS.
pub const DEBIAN_PACKAGES: &[&str] = &["libzookeeper-java", "default-jre-headless"];

const JARS: &str = "/usr/share/java";

/// `zookeeper.jar` names the jars it needs, except the last three: without them its Netty server accepts
/// connections and then fails on a missing class.
const CLASS_PATH: &[&str] = &[
    "zookeeper.jar",
    "slf4j-simple.jar",
    "netty-codec.jar",
    "netty-resolver.jar",
    "netty-transport-native-unix-common.jar",
];

/// Settings of a server. Every default suits a test on a small machine.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// ZooKeeper's unit of time; sessions expire in steps of it. Default 500 ms.
    pub tick: Duration,
    /// Shortest session timeout that the server grants. Default two ticks.
    pub min_session: Option<Duration>,
    /// Longest session timeout that the server grants. Default one minute.
    pub max_session: Duration,
    /// Java's heap, as after `-Xmx`. Default `512m`.
    pub heap: String,
    /// Where the data are. Default: in the scratch directory, and removed with the server. A directory
    /// given here stays.
    pub data_dir: Option<PathBuf>,
    /// Whether to listen on a TLS port as well. Default no.
    pub tls: bool,
    /// Further lines of `zoo.cfg`.
    pub lines: Vec<String>,
    /// Further system properties of the JVM.
    pub jvm_properties: Vec<(String, String)>,
}

impl Default for ServerConfig {
    fn default() -> Self {
        ServerConfig {
            tick: Duration::from_millis(500),
            min_session: None,
            max_session: Duration::from_mins(1),
            heap: "512m".to_owned(),
            data_dir: None,
            tls: false,
            lines: Vec::new(),
            jvm_properties: Vec::new(),
        }
    }
}

impl ServerConfig {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn tick(mut self, tick: Duration) -> Self {
        self.tick = tick;
        self
    }

    pub fn min_session(mut self, timeout: Duration) -> Self {
        self.min_session = Some(timeout);
        self
    }

    pub fn max_session(mut self, timeout: Duration) -> Self {
        self.max_session = timeout;
        self
    }

    /// As after `-Xmx`: `"1g"`.
    pub fn heap(mut self, heap: impl Into<String>) -> Self {
        self.heap = heap.into();
        self
    }

    pub fn data_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.data_dir = Some(dir.into());
        self
    }

    pub fn tls(mut self, tls: bool) -> Self {
        self.tls = tls;
        self
    }

    /// One more line of `zoo.cfg`.
    pub fn line(mut self, line: impl Into<String>) -> Self {
        self.lines.push(line.into());
        self
    }

    /// One more `-Dname=value`.
    pub fn jvm_property(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.jvm_properties.push((name.into(), value.into()));
        self
    }

    /// The text of `zoo.cfg`.
    pub(crate) fn zoo_cfg(&self, data: &Path, port: u16, more: &[String]) -> String {
        let min = self.min_session.unwrap_or(self.tick * 2);
        let mut lines = vec![
            format!("tickTime={}", self.tick.as_millis()),
            // Generous: a member that is slow on a loaded machine is no fault of the test.
            "initLimit=20".to_owned(),
            "syncLimit=10".to_owned(),
            format!("minSessionTimeout={}", min.as_millis()),
            format!("maxSessionTimeout={}", self.max_session.as_millis()),
            format!("dataDir={}", data.display()),
            format!("clientPort={port}"),
            "clientPortAddress=127.0.0.1".to_owned(),
            "maxClientCnxns=0".to_owned(),
            "admin.enableServer=false".to_owned(),
            "4lw.commands.whitelist=*".to_owned(),
            "autopurge.purgeInterval=0".to_owned(),
        ];
        lines.extend_from_slice(more);
        lines.extend_from_slice(&self.lines);
        lines.join("\n") + "\n"
    }

    /// The java command that runs a server with the given `zoo.cfg`.
    pub(crate) fn command(&self, zoo_cfg: &Path) -> Vec<String> {
        let class_path: Vec<_> = CLASS_PATH.iter().map(|jar| format!("{JARS}/{jar}")).collect();
        let mut command = vec![
            "java".to_owned(),
            format!("-Xmx{}", self.heap),
            // Otherwise every killed server leaves a file of counters behind.
            "-XX:-UsePerfData".to_owned(),
            "-Dzookeeper.jmx.log4j.disable=true".to_owned(),
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn".to_owned(),
        ];
        command.extend(self.jvm_properties.iter().map(|(name, value)| format!("-D{name}={value}")));
        command.extend([
            "-cp".to_owned(),
            class_path.join(":"),
            "org.apache.zookeeper.server.quorum.QuorumPeerMain".to_owned(),
            zoo_cfg.display().to_string(),
        ]);
        command
    }
}

/// Panics, with what to install, if there is nothing to run a server from.
pub(crate) fn require_packages() {
    let java = std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join("java").exists()));
    let jars = CLASS_PATH.iter().map(|jar| Path::new(JARS).join(jar));
    let missing: Vec<_> = jars.filter(|jar| !jar.exists()).map(|jar| jar.display().to_string()).collect();
    assert!(
        java && missing.is_empty(),
        "these tests run a real ZooKeeper server and need the Debian packages {} (`tests/run` installs \
         them): {}{}",
        DEBIAN_PACKAGES.join(" and "),
        if java { "" } else { "no `java` in the path; " },
        if missing.is_empty() { String::new() } else { format!("missing {}", missing.join(", ")) },
    );
}
