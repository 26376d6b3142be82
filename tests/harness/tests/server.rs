//! What one server promises.

// In a test, also in its helpers, an unwrap is an assertion.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use ingest_harness::clock::PATIENCE;
use ingest_harness::{Server, ServerConfig, chroot, eventually, shared_connect_string_with_chroot};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use zookeeper_client::{Acls, Client, CreateMode, TlsOptions};

/// Set for the process that a test starts in order to kill it.
const CHILD: &str = "INGEST_HARNESS_CHILD";

#[tokio::test]
async fn a_server_starts_and_answers() {
    let server = Server::start_default().await;
    assert!(server.is_serving().await);
    assert!(server.four_letter("srvr").await.contains("Mode: standalone"));
    assert_eq!(server.mntr().await["zk_server_state"], "standalone");
    assert!(server.memory_rss_bytes() > 1 << 20);
}

#[tokio::test]
async fn a_configured_server_grants_only_the_configured_sessions() {
    let config = ServerConfig::new()
        .tick(Duration::from_millis(200))
        .min_session(Duration::from_secs(3))
        .max_session(Duration::from_secs(5))
        .jvm_property("jute.maxbuffer", "2000000")
        .line("globalOutstandingLimit=500");
    let server = Server::start(config).await;
    let connector = Client::connector().with_session_timeout(Duration::from_secs(30));
    let client = connector.connect(&server.connect_string()).await.unwrap();
    assert_eq!(client.session_timeout(), Duration::from_secs(5));
}

#[tokio::test]
async fn a_stopped_server_is_gone_and_a_restarted_one_has_its_data() {
    let server = Server::start_default().await;
    let path = server.create_chroot().await;
    let pid = server.pid();

    server.stop().await;
    assert!(!process_exists(pid));
    assert!(!server.is_running());
    assert!(server.try_four_letter("srvr").await.is_err());

    server.restart().await;
    assert_ne!(server.pid(), pid);
    assert!(exists(&server, &path).await);
}

#[tokio::test]
async fn a_killed_server_has_its_data_after_a_restart() {
    let server = Server::start_default().await;
    let path = server.create_chroot().await;
    let pid = server.pid();
    server.kill().await;
    assert!(!process_exists(pid));
    server.restart().await;
    assert!(exists(&server, &path).await);
}

#[tokio::test]
async fn a_paused_server_is_silent_until_it_is_resumed() {
    let server = Server::start_default().await;
    server.pause();
    let silent = server.try_four_letter_within("srvr", Duration::from_millis(200)).await;
    assert!(silent.is_err());
    server.resume();
    assert!(server.four_letter("srvr").await.contains("Mode:"));
}

#[tokio::test]
async fn a_paused_server_can_be_stopped() {
    let server = Server::start_default().await;
    server.pause();
    server.stop().await;
    assert!(!server.is_running());
}

#[tokio::test]
async fn a_dropped_server_leaves_neither_process_nor_files() {
    let server = Server::start_default().await;
    let (pid, directory) = (server.pid(), server.directory().to_owned());
    assert!(directory.exists());
    drop(server);
    assert!(!process_exists(pid));
    assert!(!directory.exists());
}

#[tokio::test]
async fn a_data_directory_of_ones_own_outlives_the_server() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(ServerConfig::new().data_dir(data.path())).await;
    let path = server.create_chroot().await;
    drop(server);
    let server = Server::start(ServerConfig::new().data_dir(data.path())).await;
    assert!(exists(&server, &path).await);
}

#[tokio::test(start_paused = true)]
async fn a_server_starts_in_real_time_while_the_tests_time_is_paused() {
    let before = tokio::time::Instant::now();
    let server = Server::start_default().await;
    assert!(server.is_serving().await);
    assert_eq!(before.elapsed(), Duration::ZERO);
}

#[test]
fn a_killed_test_process_leaves_neither_processes_nor_files() {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child_that_waits_to_be_killed", "--ignored", "--nocapture"])
        .env(CHILD, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut started = lines.map_while(Result::ok).filter(|line| line.starts_with("server "));
    let mut fields = started.next().unwrap().split(' ').skip(1).map(str::to_owned).collect::<Vec<_>>();
    let directory = fields.pop().unwrap();
    let pids: Vec<u32> = fields.iter().map(|pid| pid.parse().unwrap()).collect();
    assert!(pids.iter().all(|pid| process_exists(*pid)) && Path::new(&directory).exists());

    child.kill().unwrap();
    child.wait().unwrap();

    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(eventually("the end of java and its guard", PATIENCE, || async {
        (!pids.iter().any(|pid| process_exists(*pid))).then_some(())
    }));
    assert!(!Path::new(&directory).exists());
}

#[tokio::test]
#[ignore = "not a test: the process that another test starts and kills"]
async fn child_that_waits_to_be_killed() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let server = Server::start_default().await;
    let pid = server.pid();
    // Also the hardest case: a paused process does not run, whatever it is told.
    server.pause();
    println!("\nserver {pid} {} {}", parent(pid), server.directory().display());
    std::future::pending::<()>().await;
}

#[test]
fn the_shared_server_is_the_same_in_every_runtime() {
    let in_a_runtime = || {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let server = Server::shared().await;
            assert!(server.is_serving().await);
            server.address()
        })
    };
    assert_eq!(in_a_runtime(), in_a_runtime());
}

#[tokio::test]
async fn every_test_has_a_chroot_of_its_own() {
    assert_ne!(chroot(), chroot());
    let connect_string = shared_connect_string_with_chroot().await;
    let server = Server::shared().await.connect_string();
    assert!(connect_string.starts_with(&format!("{server}/t-")));
    let client = Client::connect(&connect_string).await.unwrap();
    let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
    assert_eq!(client.create("/a", b"", &options).await.unwrap_err(), zookeeper_client::Error::NoNode);
}

#[tokio::test]
async fn a_tls_server_answers_whoever_has_a_certificate() {
    let server = Server::start(ServerConfig::new().tls(true)).await;
    let tls = server.tls();

    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(tls.ca_pem.as_bytes()).unwrap()).unwrap();
    let certificate = CertificateDer::from_pem_slice(tls.client_cert_pem.as_bytes()).unwrap();
    let key = PrivateKeyDer::from_pem_slice(tls.client_key_pem.as_bytes()).unwrap();
    let trusting = ClientConfig::builder().with_root_certificates(roots);
    let known = trusting.clone().with_client_auth_cert(vec![certificate], key).unwrap();
    let unknown = trusting.with_no_client_auth();

    let srvr = |config: ClientConfig| {
        let name = ServerName::try_from("127.0.0.1").unwrap();
        let connection = ClientConnection::new(Arc::new(config), name).unwrap();
        let socket = TcpStream::connect(&tls.secure_connect_string).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut stream = StreamOwned::new(connection, socket);
        let mut answer = Vec::new();
        // A refusal is an error here, but so is the end of an answer: the server says no TLS goodbye.
        let _ = stream.write_all(b"srvr").and_then(|()| stream.read_to_end(&mut answer));
        String::from_utf8(answer).unwrap()
    };
    assert!(srvr(known).contains("Mode: standalone"));
    assert_eq!(srvr(unknown), "");
}

#[tokio::test]
async fn a_tls_server_serves_clients_on_both_ports() {
    let server = Server::start(ServerConfig::new().tls(true)).await;
    let path = server.create_chroot().await;
    let tls = server.tls();
    let options = TlsOptions::new()
        .with_pem_ca(&tls.ca_pem)
        .unwrap()
        .with_pem_identity(&tls.client_cert_pem, &tls.client_key_pem)
        .unwrap();
    let connector = Client::connector().with_tls(options);
    let client = connector.connect(&format!("tcp+tls://{}", tls.secure_connect_string)).await.unwrap();
    assert!(client.check_stat(&path).await.unwrap().is_some());
}

async fn exists(server: &Server, path: &str) -> bool {
    let client = Client::connect(&server.connect_string()).await.unwrap();
    client.check_stat(path).await.unwrap().is_some()
}

fn process_exists(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

fn parent(pid: u32) -> u32 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit_once(") ").unwrap().1.split(' ').nth(1).unwrap().parse().unwrap()
}
