//! A batch's whole record as a BagIt bag: what was handed over, what became of it, and what the depositor was told.
//!
//! | in the bag, below `data/` | |
//! |---|---|
//! | `submission.json` | as it was given, without secrets |
//! | `batch.json` | its status, counts and expansion |
//! | `jobs/JID.json` | all that is known of each job, with its history |
//! | `manifest` | the frozen payload manifest, without secrets, if it was expanded |
//! | `report.json`, `report.csv`, `report.txt` | the last report that was sent |
//!
//! **When things break.** The zip is made in a temporary directory before the answer begins, so an answer is whole. A job
//! that goes while it is read is left out, and `left-out.json` names it.

mod redact;

use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::path::{Path, PathBuf};

use axum::Json;
use axum::extract::{Path as UrlPath, State};
use axum::http::{HeaderMap, Method};
use axum::response::{IntoResponse as _, Response};
use futures::StreamExt as _;
use ingest_actors::house::Life;
use ingest_queue::ids::Jid;
use ingest_queue::list::{self, Filter, PageRequest};
use ingest_steps::archive::{Packing, files_of, pack_zip};
use ingest_steps::bag::{Placing, write_bag};
use ingest_steps::digest::Algorithm;
use ingest_steps::outcome::{Cancel, Failure, Progress};
use serde_json::json;
use tokio::io::AsyncWriteExt as _;

use super::app::App;
use super::caller::{Caller, Depositor};
use super::problem::{Answer, Refusal};
use super::read::Params;
use super::wire::{Batch, Problem};
use super::{batches, files, jobs};

#[utoipa::path(get, path = "/api/v1/batches/{batch}/export", tag = "batches", security(("token" = ["depositor"])), params(("batch" = String, Path, description = "bid or uuid")), responses(
    (status = 200, description = "a zip of a bag", content_type = "application/zip"),
    (status = "default", body = Problem, content_type = "application/problem+json"),
))]
/// Gives a batch's whole record as a bag
pub(crate) async fn export(
    State(app): State<App>,
    Depositor(caller): Depositor,
    UrlPath(name): UrlPath<String>,
    method: Method,
) -> Answer<Response> {
    let Json(batch) = batches::show(State(app.clone()), Depositor(caller.clone()), UrlPath(name)).await?;
    let life = app.life().await?;
    let parent = app.node.house().settings.load().node.dir.clone();
    let place = blocking(move || tempfile::Builder::new().prefix("export-").tempdir_in(parent)).await?;
    let gathered = Gathering { app: &app, caller: &caller, batch: &batch, dir: place.path().join("record") };
    gathered.all(&life).await?;
    let bid = batch.line.bid.to_string();
    let info = info(&batch, &app.node.house().name);
    let (root, name) = (place.path().to_owned(), bid.clone());
    let cancel = Cancel::new();
    let zip = blocking(move || pack(&root, &name, &info, &cancel)).await?;
    // The file stays readable for this answer when its directory goes.
    files::send(&zip, &format!("{bid}.zip"), &method, &HeaderMap::new()).await
}

struct Gathering<'a> {
    app: &'a App,
    caller: &'a Caller,
    batch: &'a Batch,
    dir: PathBuf,
}

impl Gathering<'_> {
    async fn all(&self, life: &Life) -> Answer<()> {
        let bid = self.batch.line.bid;
        tokio::fs::create_dir_all(self.dir.join("jobs")).await.map_err(Refusal::defect)?;
        self.write("submission.json", &json!(self.batch.submission)).await?;
        let line = json!({ "batch": self.batch.line, "held_jobs": self.batch.held_jobs, "report": self.batch.report });
        self.write("batch.json", &line).await?;
        let mut left_out = Vec::new();
        let filter = Filter { batch: Some(bid), ..Filter::default() };
        let mut page = PageRequest { limit: list::MAX_LIMIT, after: None, newest_first: false };
        loop {
            let found = list::jobs(life, &filter, &page).await?;
            for unread in found.unreadable {
                left_out.push(json!({ "path": unread.path, "why": unread.why }));
            }
            for line in found.lines {
                if let Err(why) = self.job(line.jid).await {
                    left_out.push(json!({ "job": line.jid, "why": why.detail }));
                }
            }
            match found.next {
                Some(next) => page.after = Some(next),
                None => break,
            }
        }
        if !left_out.is_empty() {
            self.write("left-out.json", &json!(left_out)).await?;
        }
        self.manifest(life).await?;
        for (form, name) in [("json", "report.json"), ("csv", "report.csv"), ("text", "report.txt")] {
            self.report(form, name).await?;
        }
        Ok(())
    }

    async fn job(&self, jid: Jid) -> Answer<()> {
        let asked = || (State(self.app.clone()), Depositor(self.caller.clone()), UrlPath(jid.to_string()));
        let (state, caller, path) = asked();
        let Json(job) = jobs::show(state, caller, path).await?;
        let (state, caller, path) = asked();
        let Json(history) = jobs::history(state, caller, path).await?;
        self.write(&format!("jobs/{jid}.json"), &json!({ "job": job, "history": history.history })).await
    }

    async fn manifest(&self, life: &Life) -> Answer<()> {
        // Beside the record: what is frozen has signatures and passwords in it.
        let frozen = self.dir.with_file_name("frozen");
        let mut file = tokio::fs::File::create(&frozen).await.map_err(Refusal::defect)?;
        let written = life.queue.manifest_to(self.batch.line.bid, u64::MAX, &mut file).await?;
        file.flush().await.map_err(Refusal::defect)?;
        if written.is_none() {
            return Ok(());
        }
        let clean = self.dir.join("manifest");
        blocking(move || {
            let (from, to) = (File::open(frozen)?, File::create(clean)?);
            redact::copy(BufReader::new(from), BufWriter::new(to))
        })
        .await
    }

    async fn report(&self, form: &str, name: &str) -> Answer<()> {
        if self.batch.report.is_none() {
            return Ok(());
        }
        let params = batches::ReportParams { format: Some(form.to_owned()) };
        let bid = self.batch.line.bid.to_string();
        let (state, caller) = (State(self.app.clone()), Depositor(self.caller.clone()));
        let answer = batches::report(state, caller, UrlPath(bid), Params(params), HeaderMap::new()).await;
        // Its profile may be gone; then there is only the JSON.
        let Ok(answer) = answer else { return Ok(()) };
        let mut file = tokio::fs::File::create(self.dir.join(name)).await.map_err(Refusal::defect)?;
        let mut body = answer.into_response().into_body().into_data_stream();
        while let Some(piece) = body.next().await {
            file.write_all(&piece.map_err(Refusal::defect)?).await.map_err(Refusal::defect)?;
        }
        file.flush().await.map_err(Refusal::defect)
    }

    async fn write(&self, name: &str, document: &serde_json::Value) -> Answer<()> {
        let text = serde_json::to_vec_pretty(document).map_err(Refusal::defect)?;
        tokio::fs::write(self.dir.join(name), text).await.map_err(Refusal::defect)
    }
}

/// What `bag-info.txt` says.
fn info(batch: &Batch, node: &str) -> Vec<(String, String)> {
    let line = &batch.line;
    let pairs = [
        ("External-Identifier", line.bid.to_string()),
        ("Internal-Sender-Identifier", line.uuid.clone().unwrap_or_default()),
        ("Internal-Sender-Description", format!("The record of {}, as {node} had it", line.bid)),
        ("Contact-Name", line.submitter.clone()),
        ("Bag-Software-Agent", concat!("ingestd ", env!("CARGO_PKG_VERSION")).to_owned()),
    ];
    pairs
        .into_iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(label, value)| (label.to_owned(), value))
        .collect()
}

/// Blocks.
fn pack(root: &Path, name: &str, info: &[(String, String)], cancel: &Cancel) -> Result<PathBuf, Failure> {
    let progress = Progress::default();
    let bag = root.join("bag");
    let payload = files_of(&root.join("record"))?;
    write_bag(
        &bag,
        &payload,
        info,
        &[Algorithm::Sha512, Algorithm::Sha256],
        Placing::Link,
        &progress,
        cancel,
    )?;
    let files: Vec<_> =
        files_of(&bag)?.into_iter().map(|(file, path)| (format!("{name}/{file}"), path)).collect();
    let zip = root.join("record.zip");
    pack_zip(&files, &zip, Packing::Deflated, &progress, cancel)?;
    Ok(zip)
}

/// Work that waits for the disk, off the runtime.
async fn blocking<T: Send + 'static, E: std::fmt::Display + Send + 'static>(
    work: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> Answer<T> {
    tokio::task::spawn_blocking(work).await.map_err(Refusal::defect)?.map_err(Refusal::defect)
}
