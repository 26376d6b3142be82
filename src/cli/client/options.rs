//! Where the node is, and who asks.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result};
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use serde::Serialize;
use url::Url;

use super::Client;
use crate::cli::exit::Failed;
use crate::cli::screen::Screen;

const TOKEN: &str = "INGESTD_TOKEN";
const CONNECT: Duration = Duration::from_secs(10);

/// The options of every command that speaks to a node.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "The node")]
pub(crate) struct Server {
    /// Where the node's API is
    #[arg(long, value_name = "URL", env = "INGESTD_SERVER", default_value = "http://127.0.0.1:8086", value_parser = server)]
    #[expect(clippy::struct_field_names, reason = "it is the option's name")]
    server: Url,

    /// A file with the token; otherwise `INGESTD_TOKEN` is the token
    #[arg(long, value_name = "FILE", env = "INGESTD_TOKEN_FILE")]
    token_file: Option<PathBuf>,

    /// A file with the certificates (PEM) to trust besides those of the system
    #[arg(long, value_name = "FILE", env = "INGESTD_CA_FILE")]
    ca_file: Option<PathBuf>,

    /// Answer only what is true at this moment of the cluster or later (see `ingestd ltime`)
    #[arg(long, value_name = "MOMENT", env = "INGESTD_LTIME", hide_short_help = true)]
    ltime: Option<i64>,

    #[command(flatten)]
    output: Output,
}

/// How the answer is printed.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct Output {
    /// Print JSON: one document, or a document a line where things come one after the other
    #[arg(long, help_heading = "Options")]
    pub(crate) json: bool,
}

#[expect(clippy::unused_self, reason = "whoever prints JSON was told to")]
impl Output {
    /// As one document.
    pub(crate) fn print(self, answer: &impl Serialize) -> Result<()> {
        let text = serde_json::to_string_pretty(answer)?;
        Screen::stdout().plain(&format!("{text}\n"))
    }

    /// As a document on a line.
    pub(crate) fn line(self, answer: &impl Serialize) -> Result<()> {
        let text = serde_json::to_string(answer)?;
        Screen::stdout().plain(&format!("{text}\n"))
    }
}

fn server(text: &str) -> Result<Url, String> {
    let url: Url = text.parse().map_err(|error| format!("{error}; it looks like http://127.0.0.1:8086"))?;
    if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
        return Err("it begins with http:// or https://".to_owned());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("no user and no password belong there: see --token-file".to_owned());
    }
    Ok(url)
}

impl Server {
    /// The one at this address, with no token but that of the environment.
    pub(crate) fn at(server: Url) -> Self {
        Self { server, token_file: None, ca_file: None, ltime: None, output: Output { json: false } }
    }

    pub(crate) fn output(&self) -> Output {
        self.output
    }

    pub(crate) fn json(&self) -> bool {
        self.output.json
    }

    /// A client with the token that was given.
    pub(crate) fn client(&self) -> Result<Client> {
        let mut headers = HeaderMap::new();
        headers.insert(HeaderName::from_static("x-ingestd"), HeaderValue::from_static("1"));
        if let Some(token) = self.token()? {
            let value = HeaderValue::try_from(format!("Bearer {token}"));
            let mut value =
                value.map_err(|_| Failed::Usage("the token has letters that none has".to_owned()))?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        let user = crate::cli::user::name();
        if let Some(user) = user.and_then(|user| HeaderValue::try_from(user).ok()) {
            headers.insert(HeaderName::from_static("x-ingestd-user"), user);
        }
        let mut http = reqwest::Client::builder()
            .user_agent(concat!("ingestd/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT)
            .default_headers(headers);
        if is_loopback(&self.server) {
            http = http.no_proxy();
        }
        if let Some(file) = &self.ca_file {
            let pem = std::fs::read(file).with_context(|| file.display().to_string())?;
            let certificates = reqwest::Certificate::from_pem_bundle(&pem)
                .with_context(|| format!("{}: no certificates", file.display()))?;
            anyhow::ensure!(!certificates.is_empty(), "{}: no certificates", file.display());
            http = http.tls_certs_merge(certificates);
        }
        Ok(Client::new(http.build().context("no HTTP client can be made")?, self.server.clone(), self.ltime))
    }

    pub(crate) fn has_token(&self) -> Result<bool> {
        Ok(self.token()?.is_some())
    }

    fn token(&self) -> Result<Option<String>> {
        let token = match &self.token_file {
            Some(file) => Some(
                std::fs::read_to_string(file)
                    .with_context(|| format!("the token cannot be read from {}", file.display()))?,
            ),
            None => std::env::var(TOKEN).ok(),
        };
        Ok(token.map(|token| token.trim().to_owned()).filter(|token| !token.is_empty()))
    }
}

/// Nobody stands between us and ourselves.
fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        Some(url::Host::Domain(name)) => name == "localhost",
        None => false,
    }
}
