//! What there is to expand, checked before anything is made of it.

use std::path::Path;

use ingest_queue::nodes::Submission;
use serde_json::Value;
use tokio::time::Instant;
use url::Url;

use super::frozen::KnownRow;
use super::jobs::{self, texts};
use super::rows::watched;
use super::{Manifest, Scene};
use crate::digest::Digest;
use crate::fetch::{Most, Wanted, redacted};
use crate::manifest::{self, Limits, NotKept, Reader, Row, fault_of_name, inline, validate};
use crate::outcome::{Cancel, Failure, Progress, Result};
use crate::payload::{FIRST_BYTES, PayloadKind};
use crate::profile::Profile;
use crate::services::blocking;
use crate::step::check::LONGEST;
use crate::step::payload::last_part;
use crate::upload_nodes::{self, Reach};

/// What is to become jobs.
pub(super) enum Gathered {
    Rows(Vec<KnownRow>),
    /// A batch manifest with so many rows, on the disk.
    Manifest {
        rows: u64,
        /// What is not kept of them.
        not_kept: Vec<NotKept>,
    },
}

impl Scene<'_> {
    /// Finds the rows. Everything that it fails with is about the payload, or about this node's disk.
    pub(super) async fn gather(&self, manifest: &Manifest) -> Result<Gathered> {
        jobs::ways(self.submission)?;
        match &self.submission.manifest {
            Some(value) if !value.is_null() => self.inline(value),
            _ => self.payload(manifest).await,
        }
    }

    fn rules(&self) -> RowRules {
        let own = self.services.fetcher.rules().public_url.clone();
        RowRules { profile: self.profile.clone(), own }
    }

    fn given_kind(&self) -> Result<Option<PayloadKind>> {
        let given = self.submission.payload_type.as_deref().filter(|given| !given.trim().is_empty());
        given.map(str::parse).transpose().map_err(|error| Failure::hopeless(format!("{error}")))
    }

    fn inline(&self, value: &Value) -> Result<Gathered> {
        let rows = inline::rows(value).map_err(|problems| Failure::hopeless(problems.to_string()))?;
        let given = self.given_kind()?.map(|kind| kind.of_rows().unwrap_or(kind));
        let rows: Vec<_> = rows
            .into_iter()
            .map(|row| KnownRow { kind: given.unwrap_or_else(|| kind_of_url(&row.url)), row })
            .collect();
        let rules = self.rules();
        let mut found = Found::default();
        for (index, KnownRow { kind, row }) in rows.iter().enumerate() {
            if let Some(why) = rules.fault(row, *kind) {
                found.push(index as u64, format!("manifest[{index}]: {why}"));
            }
        }
        found.into_result()?;
        Ok(Gathered::Rows(rows))
    }

    /// What has to be fetched to know the rows is not asked for while the node that has it is away.
    async fn payload(&self, manifest: &Manifest) -> Result<Gathered> {
        let is_fetched = self.given_kind()?.is_none_or(|kind| kind.of_rows().is_some());
        let own = self.services.work.node();
        let node = upload_nodes::other_node(&self.submission.other, own).filter(|_| is_fetched);
        let Some(node) = node else { return self.of_payload(manifest).await };
        let (nodes, grace) = (&self.services.upload_nodes, self.services.settings.work.node_grace);
        if matches!(nodes.reach(node, grace, Instant::now()), Reach::After(_)) {
            return Err(Failure::later(upload_nodes::waiting_for(node)));
        }
        let gathered = self.of_payload(manifest).await?;
        nodes.answered(node);
        Ok(gathered)
    }

    async fn of_payload(&self, manifest: &Manifest) -> Result<Gathered> {
        let Some(text) = self.submission.payload_url.as_deref().filter(|url| !url.trim().is_empty()) else {
            return Err(Failure::hopeless("there is no payload: neither a URL nor a manifest was submitted"));
        };
        let rules = self.rules();
        let url = rules.url(text).map_err(Failure::hopeless)?;
        let name = match self.submission.payload_filename.as_deref() {
            Some(name) => match fault_of_name(name) {
                None => name.to_owned(),
                Some(why) => {
                    let name = name.escape_debug();
                    return Err(Failure::hopeless(format!("the file name `{name}` {why}")));
                }
            },
            None => last_part(&url),
        };
        let announced = Announced::of(self.submission)?;
        let kind = if let Some(kind) = self.given_kind()? {
            kind
        } else {
            let fetcher = &self.services.fetcher;
            let first = fetcher.beginning(&url, FIRST_BYTES, self.progress, self.cancel).await?;
            let guessed = PayloadKind::guess(&name, &first);
            guessed.map_err(|error| Failure::hopeless(format!("{}: {error}", redacted(&url))))?
        };
        if kind.of_rows().is_some() {
            return self.fetch(url, kind, announced, rules, manifest).await;
        }
        let Announced { size, digest } = announced;
        let row = Row { url: url.into(), name, size, digest, ..Row::default() };
        match rules.fault(&row, kind) {
            Some(why) => Err(Failure::hopeless(why)),
            None => Ok(Gathered::Rows(vec![KnownRow { kind, row }])),
        }
    }

    /// Brings a manifest here and checks it whole.
    async fn fetch(
        &self,
        url: Url,
        kind: PayloadKind,
        announced: Announced,
        rules: RowRules,
        manifest: &Manifest,
    ) -> Result<Gathered> {
        manifest.make_dir().await?;
        let most = Most { bytes: self.services.settings.expanding.max_manifest, by: LONGEST };
        let Announced { size, digest } = announced;
        let wanted = Wanted { size, digests: digest.into_iter().collect(), ..Wanted::new(url) };
        let fetcher = &self.services.fetcher;
        fetcher.fetch_within(&wanted, most, &manifest.path, self.progress, self.cancel).await?;
        let (path, progress, cancel) = (manifest.path.clone(), self.progress.clone(), self.cancel.clone());
        let checking = move || check(&path, kind, &rules, &progress, &cancel);
        let (rows, not_kept) = blocking("checking the manifest", checking).await?;
        Ok(Gathered::Manifest { rows, not_kept })
    }
}

/// By the extension alone: what a row of an inline manifest names is not looked at here. If it turns out to be a manifest
/// when it is downloaded, it is not stored as a file.
fn kind_of_url(url: &str) -> PayloadKind {
    let path = url.split(['?', '#']).next().unwrap_or(url);
    let is_checkm =
        path.get(path.len().saturating_sub(7)..).is_some_and(|end| end.eq_ignore_ascii_case(".checkm"));
    if is_checkm { PayloadKind::ObjectManifest } else { PayloadKind::of_name(path) }
}

/// What the depositor said of the payload.
struct Announced {
    size: Option<u64>,
    digest: Option<Digest>,
}

impl Announced {
    fn of(submission: &Submission) -> Result<Self> {
        let text = |names: &[&str]| texts(&submission.other, names).into_iter().next();
        let wrong =
            |error: &dyn std::fmt::Display| Failure::hopeless(format!("the digest of the payload: {error}"));
        let digest = match (text(&["digest_type", "digestType"]), text(&["digest_value", "digestValue"])) {
            (None, None) => None,
            (Some(algorithm), Some(value)) => {
                let algorithm = algorithm.parse().map_err(|error| wrong(&error))?;
                Some(Digest::new(algorithm, &value).map_err(|error| wrong(&error))?)
            }
            _ => return Err(wrong(&"an algorithm without a value, or the other way round")),
        };
        let size = match text(&["size", "payload_size"]) {
            None => None,
            Some(size) => Some(size.parse().map_err(|_| {
                Failure::hopeless(format!("the size `{}` is no number", size.escape_debug()))
            })?),
        };
        Ok(Self { size, digest })
    }
}

/// What a profile asks of every row.
pub(in crate::step) struct RowRules {
    pub(in crate::step) profile: Profile,
    /// Where this installation serves uploads: always allowed.
    pub(in crate::step) own: Option<Url>,
}

impl RowRules {
    /// A URL that may be fetched from, or why it may not.
    pub(in crate::step) fn url(&self, text: &str) -> Result<Url, String> {
        let url =
            Url::parse(text).map_err(|error| format!("`{}` is no URL: {error}", text.escape_debug()))?;
        let shown = redacted(&url);
        match url.scheme() {
            "file" => Ok(url),
            "http" | "https" => {
                let own = self.own.as_ref().is_some_and(|own| own.origin() == url.origin());
                match url.host_str() {
                    Some(host) if !own && !self.profile.allows_host(host) => Err(format!(
                        "{shown}: the profile {} allows no payloads from {host} (`allowed_hosts`)",
                        self.profile.name
                    )),
                    _ => Ok(url),
                }
            }
            scheme => Err(format!("{shown}: `{scheme}` is not fetched; only http, https and file are")),
        }
    }

    fn fault(&self, row: &Row, kind: PayloadKind) -> Option<String> {
        let limits = self.profile.limits;
        let most = match kind {
            PayloadKind::File => limits.file_bytes.min(limits.object_bytes),
            PayloadKind::Container => limits.object_bytes,
            _ => u64::MAX,
        };
        match (self.url(&row.url), row.size) {
            (Err(why), _) => Some(why),
            (Ok(url), Some(size)) if size > most => Some(format!(
                "{}: {size} bytes, and the profile {} takes at most {most} (`limits`)",
                redacted(&url),
                self.profile.name
            )),
            _ => None,
        }
    }
}

/// Problems in the order of their lines, a bounded number of them.
#[derive(Default)]
pub(in crate::step) struct Found {
    list: Vec<(u64, String)>,
    more: u64,
}

impl Found {
    pub(in crate::step) fn push(&mut self, line: u64, why: String) {
        if self.list.len() < Limits::default().problems {
            self.list.push((line, why));
        } else {
            self.more += 1;
        }
    }

    pub(in crate::step) fn extend(&mut self, problems: &manifest::Problems) {
        for problem in problems.list() {
            self.push(problem.line, problem.to_string());
        }
        self.more += problems.more();
    }

    pub(in crate::step) fn into_result(mut self) -> Result<()> {
        if self.list.is_empty() {
            return Ok(());
        }
        self.list.sort_by_key(|(line, _)| *line);
        let mut lines: Vec<_> = self.list.into_iter().map(|(_, why)| why).collect();
        if self.more > 0 {
            lines.push(format!("and {} more", self.more));
        }
        Err(Failure::hopeless(lines.join("\n")))
    }
}

/// Reads a batch manifest twice, for its own faults and for those that the profile finds: the depositor gets
/// all of them at once. Answers the number of rows, and what of them is not kept. Blocks.
fn check(
    path: &Path,
    kind: PayloadKind,
    rules: &RowRules,
    progress: &Progress,
    cancel: &Cancel,
) -> Result<(u64, Vec<NotKept>)> {
    let stopped = |error: manifest::Error| {
        if cancel.is_cancelled() { Failure::Cancelled } else { Failure::from(error) }
    };
    let mut found = Found::default();
    let read = match validate(watched(path, progress, cancel)?) {
        Ok(summary) => {
            let is = PayloadKind::from(summary.kind);
            if is != kind {
                found.push(
                    0,
                    format!("a {kind} was submitted, and the manifest's profile says that it is a {is}"),
                );
            }
            (summary.rows, summary.not_kept)
        }
        Err(manifest::Error::Corrupt(problems)) => {
            found.extend(&problems);
            (0, Vec::new())
        }
        Err(error) => return Err(stopped(error)),
    };
    each_row(path, progress, cancel, |line, row| {
        if let Some(why) = rules.fault(row, kind.of_rows().unwrap_or(kind)) {
            found.push(line, format!("line {line}: {why}"));
        }
    })
    .map_err(stopped)?;
    found.into_result()?;
    Ok(read)
}

/// Every row that can be read, with its line. Blocks.
pub(in crate::step) fn each_row(
    path: &Path,
    progress: &Progress,
    cancel: &Cancel,
    mut look: impl FnMut(u64, &Row),
) -> Result<(), manifest::Error> {
    let unreadable =
        |failure: Failure| manifest::Error::Unreadable { line: 0, error: std::io::Error::other(failure) };
    let mut reader =
        match Reader::open(watched(path, progress, cancel).map_err(unreadable)?, Limits::default()) {
            Ok(reader) => reader,
            // Of a header that is wrong enough was said.
            Err(manifest::Error::Corrupt(_)) => return Ok(()),
            Err(error) => return Err(error),
        };
    while let Some(item) = reader.next() {
        match item {
            Ok(row) => look(reader.line(), &row),
            Err(manifest::Error::Corrupt(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
