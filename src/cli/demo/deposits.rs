//! One deposit of each kind, from the samples.

use anyhow::Result;

use super::samples::{DAMAGED, Samples};
use super::source::Source;
use crate::api::wire::Submission;

/// A deposit, and what is said of it.
#[derive(Debug)]
pub(super) struct Deposit {
    pub(super) about: &'static str,
    pub(super) submission: Submission,
}

const PREFIX: &str = "http://uc3.cdlib.org/registry/ingest/manifest";

/// Puts the samples and their manifests on the source; answers the deposits, the last of which has a damaged file.
pub(super) fn prepare(samples: &Samples, source: &Source) -> Result<Vec<Deposit>> {
    for (name, bytes) in samples.files() {
        source.put(name, bytes.clone());
    }
    source.put(DAMAGED, super::samples::with_one_byte_altered(samples.bytes(DAMAGED)?));
    let manifest = |profile: &str, rows: &[(&str, &str)]| manifest(samples, source, profile, rows);
    let object = |name: &'static str, rows: &[(&str, &str)]| -> Result<&'static str> {
        source.put(name, manifest("mrt-ingest-manifest", rows)?.into());
        Ok(name)
    };
    let letter = object("letter.checkm", &[("letter.txt", ""), ("fern.png", "")])?;
    let notes = object("notes.checkm", &[("field-notes.zip", "")])?;
    let of_objects =
        manifest("mrt-batch-manifest", &[(letter, "A letter and its fern"), (notes, "Notes as a zip")])?;
    source.put("objects.checkm", of_objects.into());
    let rows = [("field-notes.zip", "Field notes"), ("specimen-bag.zip", "A specimen")];
    source.put("containers.checkm", manifest("mrt-container-batch-manifest", &rows)?.into());
    let rows = [("fern.png", "Lady fern"), ("letter.txt", "A letter"), (DAMAGED, "Sword fern")];
    source.put("files.checkm", manifest("mrt-single-file-batch-manifest", &rows)?.into());

    let one = |about, name: &str, kind: &str, title: &str| {
        let mut submission = Submission {
            profile: "demo_content".into(),
            submitter: "agda".into(),
            payload_url: Some(source.url(name)),
            kind: Some(kind.into()),
            creator: Some("Lindqvist, Anders".into()),
            title: Some(title.into()),
            date: Some("1897".into()),
            notification: Some("agda@example.org".into()),
            ..Submission::default()
        };
        if let Ok(digest) = samples.digest(name) {
            submission.digest_type = Some("sha-256".into());
            submission.digest_value = Some(digest.to_owned());
        }
        Deposit { about, submission }
    };
    Ok(vec![
        one("a file", "fern.png", "file", "Lady fern"),
        one("a zip", "field-notes.zip", "container", "Field notes"),
        one("a bag in a zip", "specimen-bag.zip", "container", "A specimen"),
        one("a manifest of files", letter, "object-manifest", "A letter and its fern"),
        one("a manifest of manifests", "objects.checkm", "batch-manifest", "Two objects"),
        one("a manifest of containers", "containers.checkm", "container-batch-manifest", "Two containers"),
        one("a manifest of single files", "files.checkm", "single-file-batch-manifest", "Three files"),
    ])
}

/// A manifest with a row for each name; those of batches have a title.
fn manifest(samples: &Samples, source: &Source, profile: &str, rows: &[(&str, &str)]) -> Result<String> {
    let of_files = profile == "mrt-ingest-manifest";
    let more = if of_files {
        "mrt:mimeType"
    } else {
        "mrt:primaryIdentifier | mrt:localIdentifier | mrt:creator | mrt:title | mrt:date"
    };
    let mut lines = vec![
        "#%checkm_0.7".to_owned(),
        format!("#%profile | {PREFIX}/{profile}"),
        "#%prefix | mrt: | http://merritt.cdlib.org/terms#".to_owned(),
        "#%prefix | nfo: | http://www.semanticdesktop.org/ontologies/2007/03/22/nfo#".to_owned(),
        format!(
            "#%fields | nfo:fileUrl | nfo:hashAlgorithm | nfo:hashValue | nfo:fileSize | nfo:fileLastModified | nfo:fileName | {more}"
        ),
    ];
    for (name, title) in rows {
        let url = source.url(name);
        let (algorithm, digest, size) = match samples.digest(name) {
            Ok(digest) => ("sha256", digest, samples.bytes(name)?.len().to_string()),
            // A manifest, whose digest nobody has written down.
            Err(_) => ("", "", String::new()),
        };
        let more = if of_files {
            String::new()
        } else {
            format!(" | | demo-{profile}-{name} | Lindqvist, Anders | {title} | 1897")
        };
        lines.push(format!("{url} | {algorithm} | {digest} | {size} | | {name}{more}"));
    }
    lines.push("#%eof\n".to_owned());
    Ok(lines.join("\n"))
}
