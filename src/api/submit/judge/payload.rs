//! The payload: where it is, whether it may be fetched from there, and what the depositor says of it.
//!
//! An address that is written in a URL is judged at once, a name by what it resolves to, if that is known soon. The job
//! judges again when it fetches: only that counts.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use ingest_steps::digest::{Algorithm, Digest};
use ingest_steps::fetch::{Fetcher, redacted};
use ingest_steps::manifest::{fault_of_name, inline};
use ingest_steps::payload::PayloadKind;
use ingest_steps::profile::Profile;
use serde_json::Value;
use url::Url;

use super::fields::Fields;
use super::{Judged, Rules, put};
use crate::api::wire::FieldProblem;

/// Where the payload is: in an upload, behind a URL, or behind those of a manifest.
pub(super) fn payload(
    fields: &mut Fields,
    upload: bool,
    profile: Option<&Profile>,
    rules: &Rules<'_>,
    judged: &mut Judged,
) {
    let url = fields.text("payload_url", judged);
    let manifest = fields.take("manifest");
    match [upload, url.is_some(), manifest.is_some()].into_iter().filter(|given| *given).count() {
        0 => judged.wrong("payload_url", "there is no payload: send a file, a payload_url or a manifest"),
        1 => {}
        _ => {
            judged
                .wrong("payload_url", "there is more than one payload: a file, a payload_url or a manifest");
        }
    }
    if let Some(text) = url {
        match address(&text, profile, rules) {
            Ok(name) => {
                judged.resolve(name, "payload_url");
                judged.submission.payload_url = Some(text);
            }
            Err(why) => judged.wrong("payload_url", why),
        }
    }
    let Some(manifest) = manifest else { return };
    // A form has it as text.
    let manifest = match &manifest {
        Value::String(text) => serde_json::from_str(text).unwrap_or(manifest),
        _ => manifest,
    };
    match inline::rows(&manifest) {
        Ok(rows) => {
            for (at, row) in rows.iter().enumerate() {
                let field = format!("manifest[{at}]");
                match address(&row.url, profile, rules) {
                    Ok(name) => judged.resolve(name, &field),
                    Err(why) => judged.wrong(&field, why),
                }
            }
            judged.submission.manifest = Some(manifest);
        }
        Err(problems) => {
            for problem in problems.0 {
                judged.wrong("manifest", problem.to_string());
            }
        }
    }
}

/// Whether something may be fetched from there, as far as that can be told without asking; with the name that has to
/// be resolved to tell more.
fn address(text: &str, profile: Option<&Profile>, rules: &Rules<'_>) -> Result<Option<String>, String> {
    let url = Url::parse(text).map_err(|error| format!("it is no URL: {error}"))?;
    match url.scheme() {
        "file" if !rules.files => {
            return Err("file: URLs are not fetched here (`fetch.file_roots`)".to_owned());
        }
        "file" => return Ok(None),
        "http" | "https" => {}
        scheme => return Err(format!("`{scheme}` is not fetched; only http, https and file are")),
    }
    if url.origin() == rules.public.origin() {
        return Ok(None);
    }
    if let (Some(host), Some(profile)) = (url.host_str(), profile)
        && !profile.allows_host(host)
    {
        let (shown, name) = (redacted(&url), &profile.name);
        return Err(format!("{shown}: the profile {name} allows no payloads from {host} (`allowed_hosts`)"));
    }
    rules.fetcher.judge(&url).map_err(|forbidden| format!("{}: {forbidden}", redacted(&url)))?;
    Ok(url.domain().map(str::to_owned))
}

/// Names that are asked for at a time, and at most; and how long all of them may take.
const AT_ONCE: usize = 8;
const MOST_NAMES: usize = 64;
const SOON: Duration = Duration::from_secs(1);

/// The names that lead to addresses which must not be connected to, as far as that is known soon. Names that are not
/// known, or not known in time, are left to the job.
pub(in crate::api::submit) async fn names(
    wanted: BTreeMap<String, String>,
    fetcher: &Arc<Fetcher>,
) -> Vec<FieldProblem> {
    let mut problems = Vec::new();
    let asking = wanted.into_iter().take(MOST_NAMES).map(|(name, field)| {
        let fetcher = fetcher.clone();
        async move { (fetcher.judge_name(&name).await, field) }
    });
    let mut asking = futures::stream::iter(asking).buffer_unordered(AT_ONCE);
    let all = async {
        while let Some((judged, field)) = asking.next().await {
            if let Err(forbidden) = judged {
                problems.push(FieldProblem { field, message: forbidden.to_string() });
            }
        }
    };
    let _ = tokio::time::timeout(SOON, all).await;
    problems
}

/// What the depositor says of the payload.
pub(super) fn announced(
    fields: &mut Fields,
    upload: Option<u64>,
    profile: Option<&Profile>,
    judged: &mut Judged,
) {
    let kind: Option<PayloadKind> = fields.parsed("type", judged);
    judged.submission.payload_type = kind.map(|kind| kind.name().to_owned());
    if let Some(name) = fields.text("filename", judged) {
        match fault_of_name(&name) {
            None => judged.submission.payload_filename = Some(name),
            Some(why) => judged.wrong("filename", format!("the name {why}")),
        }
    }
    judged.size = fields.parsed("size", judged);
    let (algorithm, value): (Option<Algorithm>, _) =
        (fields.parsed("digest_type", judged), fields.text("digest_value", judged));
    match (algorithm, value) {
        (Some(algorithm), Some(value)) => match Digest::new(algorithm, &value) {
            Ok(digest) => judged.digest = Some(digest),
            Err(error) => judged.wrong("digest_value", error.to_string()),
        },
        (Some(_), None) => judged.missing("digest_value", "there is a digest_type, and no digest_value"),
        (None, Some(_)) if !judged.problems.iter().any(|problem| problem.field == "digest_type") => {
            judged.missing("digest_type", "there is a digest_value, and no digest_type");
        }
        (None, _) => {}
    }
    if let (Some(profile), Some(size)) = (profile, upload.or(judged.size)) {
        let limits = profile.limits;
        let most = match kind {
            Some(PayloadKind::File) => limits.file_bytes.min(limits.object_bytes),
            Some(PayloadKind::Container) => limits.object_bytes,
            _ => u64::MAX,
        };
        if size > most {
            let why =
                format!("{size} bytes, and the profile {} takes at most {most} (`limits`)", profile.name);
            judged.wrong("size", why);
        }
    }
    let (size, digest) = (judged.size, judged.digest.clone());
    let other = &mut judged.submission.other;
    put(other, "size", size.map(Value::from));
    put(other, "digest_type", digest.as_ref().map(|digest| digest.algorithm().name().into()));
    put(other, "digest_value", digest.as_ref().map(|digest| digest.hex().into()));
}
