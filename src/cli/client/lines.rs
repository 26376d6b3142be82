//! Answers that come in lines, one JSON document each, while the node works.
//!
//! **When things break.** An answer that ends without its last word is a failure: what was read until then was true,
//! and not all.

use anyhow::Result;
use bytes::BytesMut;
use futures::StreamExt as _;
use serde::de::DeserializeOwned;

use super::{Ask, Client};

/// The longest line that a node may send.
const LONGEST: usize = 64 << 20;

/// The lines of an answer.
pub(crate) struct Lines {
    client: Client,
    stream: futures::stream::BoxStream<'static, reqwest::Result<bytes::Bytes>>,
    read: BytesMut,
}

impl std::fmt::Debug for Lines {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lines").field("client", &self.client).finish_non_exhaustive()
    }
}

impl Client {
    pub(crate) async fn lines(&self, ask: Ask) -> Result<Lines> {
        let answer = self.answer(ask.patient()).await?;
        Ok(Lines { client: self.clone(), stream: answer.bytes_stream().boxed(), read: BytesMut::new() })
    }
}

impl Lines {
    /// The next line as text; `None` at the end.
    pub(crate) async fn text(&mut self) -> Result<Option<String>> {
        loop {
            if let Some(end) = self.read.iter().position(|byte| *byte == b'\n') {
                let line = self.read.split_to(end + 1);
                return Ok(Some(String::from_utf8_lossy(&line).trim_end_matches(['\r', '\n']).to_owned()));
            }
            if self.read.len() > LONGEST {
                return Err(self.client.not_understood("a line that does not end").into());
            }
            match self.stream.next().await {
                Some(piece) => {
                    self.read.extend_from_slice(&piece.map_err(|error| self.client.unreachable(error))?);
                }
                None if self.read.is_empty() => return Ok(None),
                None => {
                    let rest = self.read.split();
                    return Ok(Some(String::from_utf8_lossy(&rest).into_owned()));
                }
            }
        }
    }

    /// The next document; `None` at the end. Empty lines only say that the node is at work.
    pub(crate) async fn next<T: DeserializeOwned>(&mut self) -> Result<Option<T>> {
        while let Some(text) = self.text().await? {
            if !text.is_empty() {
                let line = serde_json::from_str(&text);
                return Ok(Some(line.map_err(|error| self.client.not_understood(error.to_string()))?));
            }
        }
        Ok(None)
    }
}
