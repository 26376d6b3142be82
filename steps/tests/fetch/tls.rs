//! Files over TLS: from whom this machine trusts, and from whom the configuration adds.

use std::sync::Arc;

use ingest_steps::fetch::{Fetcher, Rules, Wanted};
use ingest_steps::outcome::{Cancel, Failure, Progress};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::rustls::{ServerConfig, version};

use crate::kit::{rules, sha256};

/// A server of a fresh authority that answers everything with `abc`; its URL, and the authority as PEM.
async fn server(name: &str) -> (String, String) {
    let authority_key = KeyPair::generate().unwrap();
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let pem = authority.self_signed(&authority_key).unwrap().pem();
    let authority = Issuer::new(authority, authority_key);
    let key = KeyPair::generate().unwrap();
    let certificate =
        CertificateParams::new(vec![name.to_owned()]).unwrap().signed_by(&key, &authority).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_protocol_versions(&[&version::TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://127.0.0.1:{}/a", listener.local_addr().unwrap().port());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            // A client that does not trust it leaves.
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let Ok(byte) = stream.read_u8().await else { break };
                head.push(byte);
            }
            let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc";
            let _ = stream.write_all(answer).await;
            let _ = stream.shutdown().await;
        }
    });
    (url, pem)
}

async fn fetch(url: &str, rules: Rules) -> Result<String, Failure> {
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("a");
    let wanted = Wanted { digests: vec![sha256(b"abc")], ..Wanted::new(url.parse().unwrap()) };
    let fetcher = Fetcher::new(rules)?;
    fetcher.fetch(&wanted, &to, &Progress::default(), &Cancel::new()).await?;
    Ok(std::fs::read_to_string(to).unwrap())
}

fn trusting(dir: &tempfile::TempDir, pem: &str) -> Rules {
    let path = dir.path().join("ca.pem");
    std::fs::write(&path, pem).unwrap();
    Rules { ca: Some(path), retries: 0, ..rules() }
}

#[tokio::test]
async fn an_authority_of_the_configuration_is_trusted() {
    let (url, pem) = server("127.0.0.1").await;
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(fetch(&url, trusting(&dir, &pem)).await, Ok("abc".into()));
}

#[tokio::test]
async fn others_are_not() {
    let (url, _) = server("127.0.0.1").await;
    let unknown = fetch(&url, Rules { retries: 0, ..rules() }).await.unwrap_err();
    assert!(matches!(&unknown, Failure::Later(why) if why.contains("certificate")), "{unknown:?}");
    let (_, another) = server("127.0.0.1").await;
    let dir = tempfile::tempdir().unwrap();
    let wrong = fetch(&url, trusting(&dir, &another)).await.unwrap_err();
    assert!(matches!(&wrong, Failure::Later(why) if why.contains("certificate")), "{wrong:?}");
    // The right authority, but the certificate of another host.
    let (url, pem) = server("elsewhere.example.org").await;
    let named = fetch(&url, trusting(&dir, &pem)).await.unwrap_err();
    assert!(matches!(&named, Failure::Later(why) if why.contains("certificate")), "{named:?}");
}

#[tokio::test]
async fn a_file_without_certificates_is_refused_with_its_name() {
    let dir = tempfile::tempdir().unwrap();
    for (text, why) in [("no certificate", "holds no certificate"), ("", "holds no certificate")] {
        let failure = Fetcher::new(trusting(&dir, text)).unwrap_err().to_string();
        assert!(failure.contains("ca.pem") && failure.contains(why), "{failure}");
    }
    let missing = Rules { ca: Some(dir.path().join("none.pem")), ..rules() };
    assert!(Fetcher::new(missing).unwrap_err().to_string().contains("none.pem"));
}
