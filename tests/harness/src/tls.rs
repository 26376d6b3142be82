//! Certificates of a TLS server and its clients, new for every server.
//!
//! One authority signs a certificate for the server and one for clients, both for `127.0.0.1` and
//! `localhost`. The server asks clients for a certificate: a connection without one is refused.

use std::fs;
use std::path::Path;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

/// What a client needs to speak to the secure port of a server.
#[derive(Debug, Clone)]
pub struct TlsFiles {
    /// The certificate of the authority, to be trusted by clients.
    pub ca_pem: String,
    /// A client's certificate, signed by that authority.
    pub client_cert_pem: String,
    /// The key (PKCS #8) of the client's certificate.
    pub client_key_pem: String,
    /// `127.0.0.1:PORT` of the secure port.
    pub secure_connect_string: String,
}

/// The server's side of it: lines for its configuration.
pub(crate) struct Issued {
    pub(crate) files: TlsFiles,
    pub(crate) lines: Vec<String>,
}

/// Issues certificates, and writes the server's stores below `dir`.
pub(crate) fn issue(dir: &Path, secure_port: u16) -> Issued {
    let authority_key = KeyPair::generate().expect("make the key of a test authority");
    let mut authority = CertificateParams::new(Vec::new()).expect("describe a test authority");
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.distinguished_name.push(DnType::CommonName, "harness authority");
    let ca_pem = authority.self_signed(&authority_key).expect("sign the test authority").pem();
    let authority = Issuer::new(authority, authority_key);

    let (server_cert, server_key) = leaf("harness server", &authority);
    let (client_cert_pem, client_key_pem) = leaf("harness client", &authority);

    // ZooKeeper's PEM store is one file: the key, then the chain.
    let key_store = dir.join("server-store.pem");
    let trust_store = dir.join("ca.pem");
    fs::write(&key_store, [server_key, server_cert, ca_pem.clone()].concat()).expect("write the key store");
    fs::write(&trust_store, &ca_pem).expect("write the trust store");

    let lines = vec![
        "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory".to_owned(),
        format!("secureClientPort={secure_port}"),
        "secureClientPortAddress=127.0.0.1".to_owned(),
        format!("ssl.keyStore.location={}", key_store.display()),
        "ssl.keyStore.type=PEM".to_owned(),
        format!("ssl.trustStore.location={}", trust_store.display()),
        "ssl.trustStore.type=PEM".to_owned(),
    ];
    let secure_connect_string = format!("127.0.0.1:{secure_port}");
    Issued { files: TlsFiles { ca_pem, client_cert_pem, client_key_pem, secure_connect_string }, lines }
}

/// Certificate and key for one end of a connection.
fn leaf(name: &str, authority: &Issuer<'_, KeyPair>) -> (String, String) {
    let key = KeyPair::generate().expect("make a key");
    let names = vec!["127.0.0.1".to_owned(), "localhost".to_owned()];
    let mut params = CertificateParams::new(names).expect("describe a certificate");
    params.distinguished_name.push(DnType::CommonName, name);
    let cert = params.signed_by(&key, authority).expect("sign a certificate");
    (cert.pem(), key.serialize_pem())
}
