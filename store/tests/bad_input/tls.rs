//! Certificates and keys.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ingest_harness::{Server, ServerConfig, TlsFiles};
use ingest_store::engines::zookeeper::{Tls, TlsIdentity, Zookeeper, ZookeeperConfig};
use ingest_store::{Kind, Mode};

use crate::identity::open;
use crate::{says, within};

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
        let impatient = ZookeeperConfig { connect_limit: Duration::from_secs(1), ..config(connect, tls) };
        let error = within(open(impatient)).await.expect_err(&format!("{connect} {tls:?}"));
        says(&error, Kind::Unreachable, &[connect, "TLS"]);
    }
}
