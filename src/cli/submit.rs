//! `ingestd submit`: hands something over, and waits for its end if that is wanted.
//!
//! | what is given | what is handed over |
//! |---|---|
//! | a URL | the URL: the node fetches it |
//! | a file | the file, uploaded |
//! | a directory | a zip of it, packed here and uploaded: a container, one object. The same files always make the same zip |
//! | `--manifest` with a Checkm manifest | the manifest, uploaded |
//! | `--manifest` with a JSON list, or lines `URL LOCALID ARK` | its rows, within the submission |
//!
//! What is uploaded is digested here first, so that the node sees whether it has arrived as it was sent.
//!
//! **When things break.** Everything that is wrong with a submission is told at once, and nothing is made. An upload
//! that broke may be sent again with the same `--uuid`: if it had arrived, the answer is its batch.

mod fields;
mod payload;
mod upload;

use anyhow::Result;

use self::fields::Fields;
use self::payload::Payload;
use super::client::{Client, Server};
use super::follow::follow;
use super::screen::Screen;
use crate::api::wire::{PayloadState, Submission, Submitted};

/// The command's options.
#[derive(Debug, clap::Args)]
pub(super) struct Submit {
    /// A file, a directory, or a URL (http, https, file)
    #[arg(required_unless_present = "manifest")]
    payload: Option<String>,

    /// A manifest: Checkm, a JSON list of objects `{url, local_id, primary_id}`, or lines `URL LOCALID ARK`
    #[arg(long, value_name = "FILE", conflicts_with = "payload")]
    manifest: Option<std::path::PathBuf>,

    /// Follow the batch until it has ended; the exit code tells whether it has completed
    #[arg(long)]
    wait: bool,

    #[command(flatten)]
    fields: Fields,

    #[command(flatten)]
    server: Server,
}

impl Submit {
    pub(super) async fn run(self) -> Result<()> {
        let client = self.server.client()?;
        let payload = Payload::of(self.payload.as_deref(), self.manifest.as_deref())?;
        let submitted = self.hand_over(&client, payload).await?;
        let bid = submitted.bid.to_string();
        if self.server.json() {
            self.server.output().line(&submitted)?;
        } else {
            let word = match &submitted {
                Submitted { known: true, .. } => "was handed over before",
                Submitted { merged: true, .. } => "waited under the same key, and is handed over anew",
                Submitted { stale: true, .. } => {
                    "waits under the same key, and is newer: nothing was changed"
                }
                _ => "is handed over",
            };
            Screen::stdout().say(&format!("{bid} {word} (uuid {})", submitted.uuid))?;
            match submitted.payload {
                Some(PayloadState::Supplied) => Screen::note("Its payload was missing, and is there now."),
                Some(PayloadState::Missing) => Screen::note(
                    "Its payload is missing: hand the same file over again, to the node that received it first.",
                ),
                Some(PayloadState::Unknown) => {
                    Screen::note("The node that has its payload cannot be asked now whether it is whole.");
                }
                Some(PayloadState::Present) | None => {}
            }
            if !self.wait {
                Screen::note(&format!("`ingestd batch watch {bid}` follows it."));
            }
        }
        if self.wait { follow(&client, &[bid], self.server.output()).await } else { Ok(()) }
    }

    async fn hand_over(&self, client: &Client, payload: Payload) -> Result<Submitted> {
        let submission = self.fields.submission(self.server.has_token()?);
        match payload {
            Payload::Url(url) => {
                let submission = Submission { payload_url: Some(url), ..submission };
                client.send(client.post(&["batches"]).json(&submission)?).await
            }
            Payload::Rows(rows) => {
                let submission = Submission { manifest: Some(rows), ..submission };
                client.send(client.post(&["batches"]).json(&submission)?).await
            }
            Payload::File(path) => upload::upload(client, &path, None, submission).await,
            Payload::Directory(path) => {
                let packed = payload::pack(&path).await?;
                let name = Some(payload::zip_name(&path));
                let kind = submission.kind.clone().or_else(|| Some("container".to_owned()));
                let submission = Submission { kind, ..submission };
                upload::upload(client, &packed.path, name, submission).await
            }
        }
    }
}
