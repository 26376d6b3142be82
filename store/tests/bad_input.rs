//! What users and disks can get wrong: each is refused with its kind, and a message that says what
//! is wrong with which thing. Nothing here may panic.

// In a test, also in its helpers, an unwrap is an assertion.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs;
use std::future::Future;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use ingest_harness::{Proxy, Server, ServerConfig, TlsFiles, chroot, shared_connect_string_with_chroot};
use ingest_store::engines::embedded::{Embedded, EmbeddedConfig};
use ingest_store::engines::zookeeper::{Acl, Auth, Tls, TlsIdentity, Zookeeper, ZookeeperConfig};
use ingest_store::node::MAX_REQUEST;
use ingest_store::{Error, Kind, Limits, Mode, Op, Result, Session, Store, StoreConfig};
use redb::{Database, ReadableDatabase, TableDefinition};
use tempfile::TempDir;
use tokio::sync::watch;

/// The error has this kind, and its message has all of these parts.
#[track_caller]
fn says(error: &Error, kind: Kind, parts: &[&str]) {
    let text = error.to_string();
    assert_eq!(error.kind(), kind, "{text}");
    for part in parts {
        assert!(text.contains(part), "no {part:?} in: {text}");
    }
}

async fn within<T>(what: impl Future<Output = T>) -> T {
    let patience = Duration::from_secs(20);
    tokio::time::timeout(patience, what).await.expect("what is awaited did not happen within 20 s")
}

// Arguments of calls, and of the configuration.

async fn embedded_session(dir: &TempDir) -> Session {
    let engine = Embedded::open(&EmbeddedConfig::new(dir.path())).unwrap();
    Store::new(Arc::new(engine), Limits::default()).session().await.unwrap()
}

#[tokio::test]
async fn a_malformed_path_is_refused_by_every_call_with_its_reason() {
    let dir = tempfile::tempdir().unwrap();
    let session = embedded_session(&dir).await;
    for (path, why) in [
        ("", "a path cannot be empty"),
        ("a/b", "a path must begin with '/'"),
        ("/a/", "a path cannot end with '/'"),
        ("//", "a path cannot hold an empty name"),
        ("/a//b", "a path cannot hold an empty name"),
        ("/a/./b", "relative names are not allowed"),
        ("/..", "relative names are not allowed"),
        ("/a\u{0}", "the character U+0000 is not allowed"),
        ("/a\nb", "the character U+000A is not allowed"),
        ("/\u{f8ff}", "the character U+F8FF is not allowed"),
    ] {
        let errors = [
            session.get(path).await.map(drop).unwrap_err(),
            session.exists(path).await.map(drop).unwrap_err(),
            session.children(path).await.map(drop).unwrap_err(),
            session.create(path, "", Mode::Persistent).await.map(drop).unwrap_err(),
            session.create_with_parents(path, "", Mode::Persistent).await.map(drop).unwrap_err(),
            session.make_dirs(path).await.unwrap_err(),
            session.set(path, "", None).await.map(drop).unwrap_err(),
            session.delete(path, None).await.unwrap_err(),
            session.multi(vec![Op::check(path, None)]).await.map(drop).unwrap_err(),
            session.watch_exists(path).await.map(drop).unwrap_err(),
            session.watch_tree(path).await.map(drop).unwrap_err(),
        ];
        for error in errors {
            says(&error, Kind::BadArguments, &[&format!("{path}: bad argument"), why]);
            assert_eq!(error.path(), Some(path));
        }
    }
}

#[tokio::test]
async fn only_a_sequential_create_may_end_in_a_slash() {
    let dir = tempfile::tempdir().unwrap();
    let session = embedded_session(&dir).await;
    session.create("/a", "", Mode::Persistent).await.unwrap();
    session.create("/a/", "", Mode::PersistentSequential).await.unwrap();
    let error = session.create("/a/", "", Mode::Ephemeral).await.unwrap_err();
    says(&error, Kind::BadArguments, &["/a/: bad argument: a path cannot end with '/'"]);
    let error = session.create("/", "", Mode::PersistentSequential).await.unwrap_err();
    says(&error, Kind::BadArguments, &["/: bad argument: the root cannot be created or deleted"]);
}

#[tokio::test]
async fn data_over_a_megabyte_is_refused_with_its_size_and_the_limit() {
    let dir = tempfile::tempdir().unwrap();
    let session = embedded_session(&dir).await;
    let limit = format!("a request holds at most {MAX_REQUEST}");
    let big = vec![0; 1 << 20];
    for error in [
        session.create("/big", big.clone(), Mode::Persistent).await.map(drop).unwrap_err(),
        session.set("/big", big, None).await.map(drop).unwrap_err(),
    ] {
        says(&error, Kind::TooLarge, &["/big: too large for one request: 1048", &limit]);
    }
    let halves = ["/one", "/two"].map(|path| Op::create(path, vec![0; 600_000]));
    let error = session.multi(halves.to_vec()).await.unwrap_err();
    says(&error, Kind::TooLarge, &["/one: too large for one request: 1200", &limit]);
}

#[test]
fn an_unknown_setting_is_refused_by_name() {
    for (json, unknown) in [
        (r#"{"engine": {"embedded": {"dir": "/x", "cahce": 1}}}"#, "cahce"),
        (r#"{"engine": {"etcd": {}}}"#, "etcd"),
        (r#"{"engine": {"zookeeper": {"connect": "a", "acl": "nobody"}}}"#, "nobody"),
        (r#"{"engine": {"embedded": {"dir": "/x"}}, "limits": {"deadline": "soon"}}"#, "soon"),
    ] {
        let error = serde_json::from_str::<StoreConfig>(json).unwrap_err().to_string();
        assert!(error.contains(unknown), "{error}");
    }
}

#[test]
fn a_bad_connection_string_is_refused_with_its_reason_and_an_example() {
    for (connect, why) in [
        ("", "an empty host"),
        ("   ", "an empty host"),
        ("/chroot", "an empty host"),
        ("a:2181,", "an empty host"),
        ("a:2181,,b:2181", "an empty host"),
        ("a:", "\"\" is not a port"),
        ("a:0", "\"0\" is not a port"),
        ("a:65536", "\"65536\" is not a port"),
        ("a:-1", "\"-1\" is not a port"),
        ("a:client", "\"client\" is not a port"),
        (":2181", "has no host name"),
        ("[::1", "lacks a closing bracket"),
        ("[::1]2181", "that is not a port"),
        ("a b:2181", "is not a host"),
        ("user@a:2181", "is not a host"),
        ("a:2181/x/", "a path cannot end with '/'"),
        ("a:2181/x//y", "a path cannot hold an empty name"),
        ("a:2181/../x", "relative names are not allowed"),
    ] {
        let error = Zookeeper::new(ZookeeperConfig::new(connect)).unwrap_err();
        let named = format!("connection string {connect:?}: ");
        says(&error, Kind::BadArguments, &[&named, why, "expected host:port,host:port/chroot"]);
    }
}

// Identity.

fn auth(password: &str) -> Auth {
    Auth { user: "ingest".into(), password: password.into() }
}

async fn open(config: ZookeeperConfig) -> Result<Session> {
    Session::open(Arc::new(Zookeeper::new(config)?), Limits::default()).await
}

#[test]
fn a_creator_list_without_a_creator_is_refused() {
    let config = ZookeeperConfig { acl: Acl::Creator, ..ZookeeperConfig::new("a:2181") };
    let error = Zookeeper::new(config.clone()).unwrap_err();
    says(&error, Kind::InvalidAcl, &["acl = \"creator\" needs auth"]);
    Zookeeper::new(ZookeeperConfig { auth: Some(auth("x")), ..config }).unwrap();
}

#[test]
fn a_password_is_not_shown() {
    let config = ZookeeperConfig { auth: Some(auth("s3cret")), ..ZookeeperConfig::new("a:2181") };
    let shown = [
        format!("{config:?}"),
        format!("{config:#?}"),
        format!("{:?}", config.auth),
        format!("{:?}", Zookeeper::new(config).unwrap()),
    ];
    for text in shown {
        assert!(text.contains("ingest") && !text.contains("s3cret"), "{text}");
    }
}

#[tokio::test]
async fn a_node_of_its_creator_is_closed_to_wrong_passwords_and_to_none() {
    let base = ZookeeperConfig::new(shared_connect_string_with_chroot().await);
    let owner = ZookeeperConfig { auth: Some(auth("right")), acl: Acl::Creator, ..base.clone() };
    let wrong = ZookeeperConfig { auth: Some(auth("wrong")), ..base.clone() };
    let first = open(owner.clone()).await.unwrap();
    first.create("/mine", "secret", Mode::Persistent).await.unwrap();

    for config in [wrong, base] {
        let stranger = open(config).await.unwrap();
        let errors = [
            stranger.get("/mine").await.map(drop).unwrap_err(),
            stranger.children("/mine").await.map(drop).unwrap_err(),
            stranger.set("/mine", "", None).await.map(drop).unwrap_err(),
            stranger.delete("/mine", None).await.unwrap_err(),
            stranger.multi(vec![Op::set("/mine", "", None)]).await.map(drop).unwrap_err(),
        ];
        for error in errors {
            says(&error, Kind::NoAuth, &["/mine: not permitted", "check the configured user and password"]);
        }
        stranger.close().await.unwrap();
    }

    let second = open(owner).await.unwrap();
    assert_eq!(&second.get("/mine").await.unwrap().0[..], b"secret");
    second.set("/mine", "still", 0).await.unwrap();
    first.close().await.unwrap();
    second.close().await.unwrap();
}

// TLS.

/// A client's files on disk, with everything that the server asks for.
fn tls_of(files: &TlsFiles, dir: &Path) -> Tls {
    let put = |name: &str, pem: &str| {
        let path = dir.join(name);
        fs::write(&path, pem).unwrap();
        path
    };
    let cert = put("client.pem", &files.client_cert_pem);
    let key = put("client.key", &files.client_key_pem);
    Tls { ca: put("ca.pem", &files.ca_pem), identity: Some(TlsIdentity { cert, key }) }
}

/// Calls `tls` with the files of a client and one that cannot be used; its name must be in the error.
async fn refused_by_name(tls: impl Fn(&Tls, &TlsIdentity, PathBuf) -> Tls) {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(ServerConfig::default().tls(true)).await;
    let good = tls_of(&server.tls(), dir.path());
    let identity = good.identity.clone().unwrap();
    for (name, content) in [
        ("missing.pem", None),
        ("garbage.pem", Some(&b"this is no certificate"[..])),
        ("binary.pem", Some(&[0xff, 0xfe, 0x00, 0x80][..])),
        ("empty.pem", Some(&b""[..])),
    ] {
        let bad = dir.path().join(name);
        if let Some(content) = content {
            fs::write(&bad, content).unwrap();
        }
        let tls = Some(tls(&good, &identity, bad.clone()));
        let config = ZookeeperConfig { tls, ..ZookeeperConfig::new("a:2181") };
        let error = Zookeeper::new(config).expect_err(name);
        says(&error, Kind::BadArguments, &[&format!("TLS file {}", bad.display())]);
    }
}

#[tokio::test]
async fn an_authority_that_is_missing_or_no_pem_is_refused_by_name() {
    refused_by_name(|_, _, ca| Tls { ca, identity: None }).await;
}

#[tokio::test]
async fn a_certificate_that_is_missing_or_no_pem_is_refused_by_name() {
    refused_by_name(|good, identity, cert| Tls {
        identity: Some(TlsIdentity { cert, ..identity.clone() }),
        ..good.clone()
    })
    .await;
}

#[tokio::test]
async fn a_key_that_is_missing_or_no_pem_is_refused_by_name() {
    refused_by_name(|good, identity, key| Tls {
        identity: Some(TlsIdentity { key, ..identity.clone() }),
        ..good.clone()
    })
    .await;
}

#[tokio::test]
async fn tls_works_with_the_right_authority_and_is_refused_with_any_other() {
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let config = ServerConfig::default().tls(true);
    let (server, other) = tokio::join!(Server::start(config.clone()), Server::start(config));
    let secure = server.tls().secure_connect_string;
    let right = tls_of(&server.tls(), dirs[0].path());
    let stranger = tls_of(&other.tls(), dirs[1].path());
    let config = |connect: &str, tls: Option<&Tls>| ZookeeperConfig {
        connect_limit: Duration::from_secs(1),
        tls: tls.cloned(),
        ..ZookeeperConfig::new(connect)
    };

    let session = open(config(&format!("{secure}/over/tls"), Some(&right))).await.unwrap();
    session.create("/a", "sealed", Mode::Persistent).await.unwrap();
    assert_eq!(&session.get("/a").await.unwrap().0[..], b"sealed");
    session.close().await.unwrap();

    let wrong_ca = Tls { ca: stranger.ca.clone(), ..right.clone() };
    let wrong_identity = Tls { identity: stranger.identity.clone(), ..right.clone() };
    let no_identity = Tls { identity: None, ..right.clone() };
    for (connect, tls) in [
        (&secure, Some(&wrong_ca)),
        (&secure, Some(&wrong_identity)),
        (&secure, Some(&no_identity)),
        (&secure, None),
        (&server.connect_string(), Some(&right)),
    ] {
        let error = within(open(config(connect, tls))).await.expect_err(&format!("{connect} {tls:?}"));
        says(&error, Kind::Unreachable, &[connect, "TLS"]);
    }
}

// Servers that are not there.

/// Whoever logs in this thread while the guard lives, logs here.
fn capture_log() -> (watch::Receiver<String>, tracing::subscriber::DefaultGuard) {
    struct Log(watch::Sender<String>);
    impl std::io::Write for Log {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.send_modify(|log| log.push_str(&String::from_utf8_lossy(bytes)));
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let (sender, log) = watch::channel(String::new());
    let subscriber = tracing_subscriber::fmt()
        .with_ansi(false)
        .with_max_level(tracing::Level::INFO)
        .with_writer(move || Log(sender.clone()))
        .finish();
    (log, tracing::subscriber::set_default(subscriber))
}

#[tokio::test]
async fn a_server_that_is_down_at_start_is_waited_for_and_the_reason_is_seen() {
    let (mut log, _guard) = capture_log();
    let server = Server::start_default().await;
    server.stop().await;
    let host = server.connect_string();
    let opening = tokio::spawn(open(ZookeeperConfig::new(format!("{host}{}", chroot()))));

    let refused = format!("{host}: Connection refused");
    let seen = within(log.wait_for(|log| log.contains("attempt=2"))).await.unwrap().clone();
    for line in seen.lines() {
        let complete = line.contains("WARN") && line.contains("no ZooKeeper session yet");
        assert!(complete && line.contains(&refused), "{line}");
    }

    server.restart().await;
    let session = within(opening).await.unwrap().unwrap();
    session.create("/a", "", Mode::Persistent).await.unwrap();
    session.close().await.unwrap();
    assert!(log.borrow().contains("ZooKeeper session opened"));
}

#[tokio::test]
async fn a_server_that_stays_down_is_given_up_with_its_name_and_the_reason() {
    let server = Server::start_default().await;
    server.stop().await;
    let host = server.connect_string();
    let config =
        ZookeeperConfig { connect_limit: Duration::from_secs(1), ..ZookeeperConfig::new(host.as_str()) };
    let error = within(open(config)).await.unwrap_err();
    let reason = format!("in 1s: {host}: Connection refused");
    says(&error, Kind::Unreachable, &["no server could be reached: tried ", &reason]);
}

#[tokio::test]
async fn a_server_that_does_not_answer_is_given_up_with_its_name_and_the_reason() {
    let proxy = Proxy::start(Server::shared().await.address());
    proxy.stall(ingest_harness::Direction::Both);
    let host = proxy.connect_string();
    let config =
        ZookeeperConfig { connect_limit: Duration::from_secs(1), ..ZookeeperConfig::new(host.as_str()) };
    let error = within(open(config)).await.unwrap_err();
    let reason = format!("{host}: accepts connections but gives no session");
    says(&error, Kind::Unreachable, &[&reason]);
}

#[tokio::test]
async fn a_server_that_answers_late_is_waited_for() {
    let proxy = Proxy::start(Server::shared().await.address());
    proxy.stall(ingest_harness::Direction::Both);
    let opening = tokio::spawn(open(ZookeeperConfig::new(format!("{}{}", proxy.connect_string(), chroot()))));
    proxy.wait_for_connections(1).await;
    proxy.heal();
    let session = within(opening).await.unwrap().unwrap();
    session.close().await.unwrap();
}

#[tokio::test]
async fn one_live_host_of_several_is_enough_and_all_dead_ones_are_named() {
    let (one, two) = tokio::join!(Server::start_default(), Server::start_default());
    one.stop().await;
    let hosts = [one.connect_string(), two.connect_string()];
    let config = ZookeeperConfig {
        connect_limit: Duration::from_secs(2),
        ..ZookeeperConfig::new(format!("{},{}{}", hosts[0], hosts[1], chroot()))
    };
    let session = within(open(config.clone())).await.unwrap();
    session.close().await.unwrap();
    two.stop().await;
    let error = within(open(config)).await.unwrap_err();
    let refused = hosts.map(|host| format!("{host}: Connection refused"));
    says(&error, Kind::Unreachable, &[&refused[0], &refused[1]]);
}

#[tokio::test]
async fn a_chroot_of_several_levels_is_made_also_by_clients_that_race_for_it() {
    let connect = format!("{}/deep/down", shared_connect_string_with_chroot().await);
    let config = ZookeeperConfig::new(connect);
    let engine = Arc::new(Zookeeper::new(config).unwrap());
    let racers = (0..8).map(|_| Session::open(engine.clone(), Limits::default()));
    let sessions = futures::future::join_all(racers).await;
    let sessions = sessions.into_iter().map(Result::unwrap).collect::<Vec<_>>();
    sessions[0].create("/a", "", Mode::Persistent).await.unwrap();
    for session in sessions {
        session.sync().await.unwrap();
        assert_eq!(session.children("/").await.unwrap().0, ["a"]);
        session.close().await.unwrap();
    }
}

// Files of the embedded engine.

/// A directory with a closed tree of some size, and the path of its file.
async fn closed_tree() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let engine = Embedded::open(&EmbeddedConfig::new(dir.path())).unwrap();
    let session = Store::new(Arc::new(engine.clone()), Limits::default()).session().await.unwrap();
    for thousand in 0..3 {
        let ops = (0..1000).map(|n| Op::create(format!("/{thousand}-{n}"), vec![1; 200]));
        session.multi(ops.collect()).await.unwrap();
    }
    session.close().await.unwrap();
    engine.close().await;
    let file = dir.path().join("tree.redb");
    (dir, file)
}

/// Refused as damaged or foreign, by name; and as it was before.
#[track_caller]
fn refused_and_untouched(dir: &Path, what: &str) {
    let file = dir.join("tree.redb");
    let before = fs::read(&file).unwrap();
    let opened = std::panic::catch_unwind(|| Embedded::open(&EmbeddedConfig::new(dir)).map(drop));
    let error = opened.unwrap_or_else(|_| panic!("{what}: a panic")).expect_err(what);
    says(&error, Kind::Corrupt, &[&file.display().to_string()]);
    assert!(fs::read(&file).unwrap() == before, "{what}: the file was changed");
}

#[tokio::test]
async fn a_file_that_was_cut_short_is_refused() {
    let (_origin, file) = closed_tree().await;
    let whole = fs::read(&file).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let points = [1, 63, 320, 4095, 4096, whole.len() / 2, whole.len() - 4096, whole.len() - 1];
    for length in points {
        fs::write(dir.path().join("tree.redb"), &whole[..length]).unwrap();
        refused_and_untouched(dir.path(), &format!("cut to {length} of {} bytes", whole.len()));
    }
    fs::write(dir.path().join("tree.redb"), &whole).unwrap();
    Embedded::open(&EmbeddedConfig::new(dir.path())).expect("the whole file is a tree");
}

/// A new tree gets its name when it is whole, so an empty file once held something.
#[test]
fn a_file_that_was_cut_to_nothing_is_not_taken_for_a_new_tree() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("tree.redb"), "").unwrap();
    refused_and_untouched(dir.path(), "an empty file");
}

#[test]
fn a_file_of_another_kind_is_refused() {
    let noise = (0..65_536).map(|_| rand::random::<u8>()).collect::<Vec<_>>();
    let mut sqlite = b"SQLite format 3\0\x10\x00\x01\x01\x00\x40\x20\x20".to_vec();
    sqlite.resize(8192, 0);
    for (what, bytes) in [
        ("text", b"just some notes\n".to_vec()),
        ("long text", b"just some notes\n".repeat(10_000)),
        ("noise", noise),
        ("a database of SQLite", sqlite),
        ("zeros", vec![0; 1 << 20]),
    ] {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("tree.redb"), bytes).unwrap();
        refused_and_untouched(dir.path(), what);
    }
}

/// Everything that is in the tree of `closed_tree`.
async fn read_all(dir: PathBuf) -> Result<usize> {
    let engine = Embedded::open(&EmbeddedConfig::new(dir))?;
    let session = Session::open(Arc::new(engine), Limits::default()).await?;
    let (names, _) = session.children("/").await?;
    let mut whole = 0;
    for name in names {
        whole += usize::from(session.get(format!("/{name}")).await?.0 == vec![1; 200]);
    }
    Ok(whole)
}

#[tokio::test]
async fn a_damaged_page_is_told_and_never_a_panic() {
    let (_origin, file) = closed_tree().await;
    let whole = fs::read(&file).unwrap();
    for page in (0..whole.len() / 4096).step_by(20) {
        let dir = tempfile::tempdir().unwrap();
        let mut damaged = whole.clone();
        damaged[page * 4096..][..4096].fill(0xff);
        fs::write(dir.path().join("tree.redb"), damaged).unwrap();
        // A page that is not in use may be damaged without harm.
        match tokio::spawn(read_all(dir.path().to_owned())).await {
            Ok(Ok(nodes)) => assert_eq!(nodes, 3000, "page {page}"),
            Ok(Err(error)) => says(&error, Kind::Corrupt, &[]),
            Err(panic) => panic!("page {page}: {panic}"),
        }
    }
}

const META: TableDefinition<'static, &'static str, u64> = TableDefinition::new("meta");
const NODES: TableDefinition<'static, &'static [u8], &'static [u8]> = TableDefinition::new("nodes");
const EPHEMERALS: TableDefinition<'static, &'static [u8], ()> = TableDefinition::new("ephemerals");

/// What opening says to a database that this writes.
fn open_after(write: impl FnOnce(&redb::WriteTransaction)) -> (Result<Embedded>, TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let database = Database::create(dir.path().join("tree.redb")).unwrap();
    let transaction = database.begin_write().unwrap();
    write(&transaction);
    transaction.commit().unwrap();
    drop(database);
    (Embedded::open(&EmbeddedConfig::new(dir.path())), dir)
}

#[test]
fn a_database_of_another_program_is_refused_and_keeps_its_tables() {
    const USERS: TableDefinition<'static, &str, &str> = TableDefinition::new("users");
    let (opened, dir) = open_after(|write| {
        write.open_table(USERS).unwrap().insert("ann", "admin").unwrap();
    });
    says(&opened.unwrap_err(), Kind::Corrupt, &["tree.redb is not a tree of ingestd"]);
    let database = Database::open(dir.path().join("tree.redb")).unwrap();
    let read = database.begin_read().unwrap();
    assert_eq!(read.list_tables().unwrap().count(), 1);
    assert_eq!(read.open_table(USERS).unwrap().get("ann").unwrap().unwrap().value(), "admin");
}

#[test]
fn a_table_of_the_same_name_and_another_type_is_refused() {
    let (opened, _dir) = open_after(|write| {
        let meta = TableDefinition::<u64, &str>::new("meta");
        write.open_table(meta).unwrap().insert(1, "format").unwrap();
    });
    says(&opened.unwrap_err(), Kind::Corrupt, &["tree.redb is not a tree of ingestd"]);
}

#[test]
fn an_unknown_format_is_refused_with_both_numbers() {
    for (format, found) in [(Some(99), "99"), (Some(0), "0"), (None, "none")] {
        let (opened, _dir) = open_after(|write| {
            let mut meta = write.open_table(META).unwrap();
            meta.insert("zxid", 7).unwrap();
            if let Some(format) = format {
                meta.insert("format", format).unwrap();
            }
        });
        let parts = [&format!("tree.redb has format {found}, and this program knows format 1")[..]];
        says(&opened.unwrap_err(), Kind::Corrupt, &parts);
    }
}

#[test]
fn a_tree_that_lacks_a_table_is_damaged() {
    let (opened, _dir) = open_after(|write| {
        write.open_table(META).unwrap().insert("format", 1).unwrap();
    });
    says(&opened.unwrap_err(), Kind::Corrupt, &["tree.redb"]);
}

#[tokio::test]
async fn a_record_that_is_too_short_is_damaged() {
    let (opened, _dir) = open_after(|write| {
        write.open_table(META).unwrap().insert("format", 1).unwrap();
        write.open_table(EPHEMERALS).unwrap();
        write.open_table(NODES).unwrap().insert(&b""[..], &b"abc"[..]).unwrap();
    });
    let session = Session::open(Arc::new(opened.unwrap()), Limits::default()).await.unwrap();
    for error in [
        session.get("/").await.map(drop).unwrap_err(),
        session.create("/a", "", Mode::Persistent).await.map(drop).unwrap_err(),
    ] {
        says(&error, Kind::Corrupt, &["a node's record has only 3 bytes"]);
    }
}

#[test]
fn a_directory_that_cannot_be_written_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    for bad in [file.join("tree"), file, PathBuf::from("/proc/ingest-tree")] {
        let error = Embedded::open(&EmbeddedConfig::new(&bad)).unwrap_err();
        let name = bad.display().to_string();
        says(&error, Kind::Disk, &[&name, "the embedded store needs a directory that it can write"]);
    }
    fs::create_dir(dir.path().join("tree.redb")).unwrap();
    let error = Embedded::open(&EmbeddedConfig::new(dir.path())).unwrap_err();
    says(&error, Kind::Disk, &["tree.redb", "the embedded store needs a directory that it can write"]);
}

// Two owners of one directory.

#[tokio::test]
async fn a_tree_that_is_open_in_this_process_is_in_use() {
    let dir = tempfile::tempdir().unwrap();
    let config = EmbeddedConfig::new(dir.path());
    let first = Embedded::open(&config).unwrap();
    let error = Embedded::open(&config).unwrap_err();
    let parts = [
        &dir.path().display().to_string(),
        &format!("is open in process {}; stop it", std::process::id())[..],
    ];
    says(&error, Kind::InUse, &parts);
    first.close().await;
    Embedded::open(&config).expect("closed, it is free");
}

const HOLD: &str = "INGEST_TEST_HOLD_TREE";

/// Not a test but the other process of the tests below: it opens the tree and waits for its end.
#[tokio::test]
async fn in_another_process_hold_the_tree() {
    let Some(dir) = std::env::var_os(HOLD) else { return };
    let engine = Embedded::open(&EmbeddedConfig::new(dir)).unwrap();
    let session = Store::new(Arc::new(engine.clone()), Limits::default()).session().await.unwrap();
    session.create("/lock", "", Mode::Ephemeral).await.unwrap();
    session.create("/kept", "", Mode::Persistent).await.unwrap();
    println!("\nholding");
    std::io::stdin().read_line(&mut String::new()).unwrap();
    engine.close().await;
}

fn hold_in_another_process(dir: &Path) -> Child {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "in_another_process_hold_the_tree", "--nocapture"])
        .env(HOLD, dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "holding"), "the other process did not open the tree");
    child
}

#[tokio::test]
async fn a_tree_that_is_open_in_another_process_is_in_use_until_that_ends() {
    for kill in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let config = EmbeddedConfig::new(dir.path());
        let mut holder = hold_in_another_process(dir.path());
        let error = Embedded::open(&config).unwrap_err();
        let parts =
            [&dir.path().display().to_string(), &format!("is open in process {}; stop it", holder.id())[..]];
        says(&error, Kind::InUse, &parts);

        if kill {
            holder.kill().unwrap();
        }
        drop(holder.stdin.take());
        holder.wait().unwrap();
        let session = embedded_session(&dir).await;
        assert_eq!(session.children("/").await.unwrap().0, ["kept"], "killed: {kill}");
    }
}
