//! Mail by SMTP.

use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Tls, TlsParameters};
use lettre::{AsyncSmtpTransport, AsyncTransport, Tokio1Executor};
use serde::{Deserialize, Serialize};

use super::{Mail, Message};
use crate::outcome::{Failure, Result};

/// How to reach the mail server.
#[derive(Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SmtpConfig {
    pub host: String,
    /// 25, 465 or 587, as `security` says, if it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    #[serde(default)]
    pub security: Security,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    #[serde(default, skip_serializing)]
    pub password: Option<String>,
    /// How long one answer may take.
    #[serde(default = "default_timeout", with = "humantime_serde")]
    pub timeout: Duration,
}

impl std::fmt::Debug for SmtpConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { host, port, security, user, timeout, password: _ } = self;
        f.debug_struct("SmtpConfig")
            .field("host", host)
            .field("port", port)
            .field("security", security)
            .field("user", user)
            .field("timeout", timeout)
            .finish_non_exhaustive()
    }
}

/// How the connection is protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Security {
    /// Not at all: a server on the same machine or network.
    None,
    /// Begun in the clear, and given up if the server has no TLS.
    #[default]
    StartTls,
    /// From the first byte.
    Tls,
}

fn default_timeout() -> Duration {
    Duration::from_secs(30)
}

/// A mail server.
pub struct Smtp {
    transport: AsyncSmtpTransport<Tokio1Executor>,
    /// For messages: host and port.
    server: String,
}

impl std::fmt::Debug for Smtp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Smtp({})", self.server)
    }
}

impl Smtp {
    /// Does not connect yet.
    pub fn new(config: &SmtpConfig) -> Result<Self> {
        let tls = || {
            TlsParameters::new(config.host.clone())
                .map_err(|error| Failure::fail(format!("mail server {}: {error}", config.host)))
        };
        let (security, standard) = match config.security {
            Security::None => (Tls::None, 25),
            Security::StartTls => (Tls::Required(tls()?), 587),
            Security::Tls => (Tls::Wrapper(tls()?), 465),
        };
        let port = config.port.unwrap_or(standard);
        let mut builder = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(&config.host)
            .port(port)
            .tls(security)
            .timeout(Some(config.timeout));
        if let Some(user) = &config.user {
            let password = config.password.clone().unwrap_or_default();
            builder = builder.credentials(Credentials::new(user.clone(), password));
        }
        Ok(Self { transport: builder.build(), server: format!("{}:{port}", config.host) })
    }
}

impl Mail for Smtp {
    fn send<'a>(&'a self, message: &'a Message) -> BoxFuture<'a, Result<()>> {
        async move {
            let composed = message.compose()?;
            self.transport.send(composed).await.map(|_| ()).map_err(|error| {
                let why = format!("mail {} by {}: {error}", message.id, self.server);
                if error.is_permanent() { Failure::Fail(why) } else { Failure::Later(why) }
            })
        }
        .boxed()
    }
}
