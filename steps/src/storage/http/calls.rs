//! Single requests to the service, and those that are tried again.

use futures::{StreamExt as _, TryStreamExt as _};
use percent_encoding::utf8_percent_encode;
use reqwest::{Method, StatusCode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use url::Url;

use super::{ELEMENT, Http};
use crate::outcome::{Cancel, Failure, Result};

/// The longest answer, in bytes: a manifest of a million files.
const LONGEST_ANSWER: usize = 512 << 20;

#[derive(Debug, Deserialize)]
struct Worker {
    base: Url,
}

impl Http {
    /// The address of a request: elements below the base, and a query.
    pub(super) async fn address(&self, elements: &[&str], query: &[(&str, &str)]) -> Result<Url> {
        let base = match &self.settings.worker_url {
            None => self.settings.base.clone(),
            Some(worker) => {
                let request = self.request(Method::GET, worker.clone());
                let lost = || Failure::fail(format!("{worker} knows no worker"));
                let answer: Worker = self.answer(request).await?.ok_or_else(lost)?;
                answer.base
            }
        };
        let encode = |text: &str| utf8_percent_encode(text, ELEMENT).to_string();
        let mut text = base.as_str().trim_end_matches('/').to_owned();
        for element in elements {
            text.push('/');
            text.push_str(&encode(element));
        }
        for (number, (name, value)) in query.iter().enumerate() {
            let mark = if number == 0 { '?' } else { '&' };
            text.extend([mark.to_string(), format!("{name}={}", encode(value))]);
        }
        Url::parse(&text).map_err(|error| Failure::fail(format!("`{text}` is no address: {error}")))
    }

    pub(super) fn request(&self, method: Method, url: Url) -> reqwest::RequestBuilder {
        let request = self.client.request(method, url);
        match &self.settings.user {
            Some(user) => request.basic_auth(user, self.settings.password.as_ref()),
            None => request,
        }
    }

    /// Sends once. Nothing is a 404.
    pub(super) async fn send(&self, request: reqwest::RequestBuilder) -> Result<Option<reqwest::Response>> {
        let response = request.send().await.map_err(|error| lost(&error))?;
        let (status, url) = (response.status(), response.url().clone());
        if status == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        if status.is_success() {
            return Ok(Some(response));
        }
        // Only the first piece of what it says is for people.
        let said = response.bytes_stream().next().await.and_then(std::result::Result::ok).unwrap_or_default();
        let said: String =
            String::from_utf8_lossy(&said).lines().next().unwrap_or_default().chars().take(300).collect();
        let text = format!("{url} answered {status}: {said}");
        let passing = status.is_server_error()
            || matches!(status, StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS);
        Err(if passing { Failure::Later(text) } else { Failure::Fail(text) })
    }

    pub(super) async fn answer<T: DeserializeOwned>(
        &self,
        request: reqwest::RequestBuilder,
    ) -> Result<Option<T>> {
        let Some(response) = self.send(request).await? else { return Ok(None) };
        let url = response.url().clone();
        let mut body = Vec::new();
        let mut pieces = response.bytes_stream();
        while let Some(piece) = pieces.try_next().await.map_err(|error| lost(&error))? {
            if body.len() + piece.len() > LONGEST_ANSWER {
                return Err(Failure::fail(format!("{url} answered with more than {LONGEST_ANSWER} bytes")));
            }
            body.extend_from_slice(&piece);
        }
        let read = serde_json::from_slice(&body);
        read.map(Some)
            .map_err(|error| Failure::fail(format!("the answer of {url} is not as agreed: {error}")))
    }

    pub(super) async fn get<T: DeserializeOwned>(
        &self,
        elements: &[&str],
        query: &[(&str, &str)],
    ) -> Result<Option<T>> {
        let read = || async {
            let url = self.address(elements, query).await?;
            self.answer(self.request(Method::GET, url)).await
        };
        self.patiently(&Cancel::new(), read).await
    }

    /// Tries again what may be better later.
    pub(super) async fn patiently<T, F: Future<Output = Result<T>>>(
        &self,
        cancel: &Cancel,
        work: impl Fn() -> F,
    ) -> Result<T> {
        let mut pause = self.settings.pause;
        let mut tries = 1;
        loop {
            match work().await {
                Err(Failure::Later(why)) if tries < self.settings.tries => {
                    tracing::warn!(why, tries, "the storage service is tried again");
                }
                other => return other,
            }
            tokio::select! {
                () = cancel.cancelled() => return Err(Failure::Cancelled),
                () = tokio::time::sleep(pause) => {}
            }
            pause = pause.saturating_mul(2);
            tries += 1;
        }
    }
}

pub(super) fn lost(error: &reqwest::Error) -> Failure {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    Failure::later(text)
}
