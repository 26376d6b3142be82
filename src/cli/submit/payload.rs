//! What was given, and what it becomes.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use ingest_steps::archive::{Packing, files_of, pack_zip};
use ingest_steps::outcome::{Cancel, Progress};
use ingest_steps::payload::{FIRST_BYTES, PayloadKind};
use serde_json::Value;

use crate::cli::exit::Failed;
use crate::cli::progress;

/// What is handed over.
#[derive(Debug, PartialEq)]
pub(super) enum Payload {
    Url(String),
    File(PathBuf),
    Directory(PathBuf),
    /// The rows of a manifest, within the submission.
    Rows(Value),
}

impl Payload {
    pub(super) fn of(payload: Option<&str>, manifest: Option<&Path>) -> Result<Self> {
        if let Some(path) = manifest {
            return of_manifest(path);
        }
        let Some(payload) = payload else { bail!(Failed::Usage("say what to submit".to_owned())) };
        let is_url = payload
            .split_once("://")
            .is_some_and(|(scheme, _)| scheme.chars().all(|c| c.is_ascii_alphanumeric()));
        if is_url {
            return Ok(Payload::Url(payload.to_owned()));
        }
        let path = PathBuf::from(payload);
        let found = std::fs::metadata(&path).map_err(|error| Failed::Usage(format!("{payload}: {error}")))?;
        if found.is_dir() { Ok(Payload::Directory(path)) } else { Ok(Payload::File(path)) }
    }
}

fn of_manifest(path: &Path) -> Result<Payload> {
    let shown = path.display();
    let text = std::fs::read(path).map_err(|error| Failed::Usage(format!("{shown}: {error}")))?;
    if text.starts_with(b"#%")
        || PayloadKind::guess("", &text[..text.len().min(FIRST_BYTES.into())]) != Ok(PayloadKind::File)
    {
        return Ok(Payload::File(path.to_owned()));
    }
    let wrong = |why: String| Failed::Usage(format!("{shown}: {why}"));
    let text = String::from_utf8(text).map_err(|_| wrong("it is no text in UTF-8".to_owned()))?;
    if text.trim_start().starts_with(['[', '{']) {
        let rows: Value = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        let rows = match rows {
            Value::Object(mut object) => object.remove("manifest").unwrap_or(Value::Object(object)),
            rows => rows,
        };
        if !rows.is_array() {
            bail!(wrong("it is no list".to_owned()));
        }
        return Ok(Payload::Rows(rows));
    }
    let rows = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let rows: Vec<Value> = rows.map(Value::from).collect();
    if rows.is_empty() {
        bail!(wrong("it has no rows".to_owned()));
    }
    Ok(Payload::Rows(rows.into()))
}

/// A zip that goes when this does.
#[derive(Debug)]
pub(super) struct Packed {
    pub(super) path: PathBuf,
    _dir: tempfile::TempDir,
}

/// The name of a directory's zip.
pub(super) fn zip_name(dir: &Path) -> String {
    let whole = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
    let name = whole.file_name().map(|name| name.to_string_lossy().into_owned());
    format!("{}.zip", name.unwrap_or_else(|| "directory".to_owned()))
}

pub(super) async fn pack(dir: &Path) -> Result<Packed> {
    let (dir, counts) = (dir.to_owned(), Progress::default());
    let bar = progress::waiting(&format!("packing {}", dir.display()));
    let packed = tokio::task::spawn_blocking(move || {
        let files = files_of(&dir)?;
        if files.is_empty() {
            bail!(Failed::Usage(format!("{}: there is nothing in it", dir.display())));
        }
        let place = tempfile::tempdir().context("a temporary directory for the zip")?;
        let path = place.path().join("payload.zip");
        pack_zip(&files, &path, Packing::Deflated, &counts, &Cancel::new())?;
        Ok(Packed { path, _dir: place })
    });
    let packed = packed.await?;
    bar.finish_and_clear();
    packed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_is_told_apart() {
        let dir = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| {
            std::fs::write(dir.path().join(name), text).unwrap();
            dir.path().join(name)
        };
        let of = |path: &Path| Payload::of(path.to_str(), None).unwrap();
        let url = "https://example.org/a.zip";
        assert_eq!(Payload::of(Some(url), None).unwrap(), Payload::Url(url.to_owned()));
        assert_eq!(of(dir.path()), Payload::Directory(dir.path().to_owned()));
        let file = put("a:b", "x");
        assert_eq!(of(&file), Payload::File(file.clone()));
        assert!(Payload::of(Some("nowhere"), None).unwrap_err().to_string().contains("No such file"));

        let manifest = |path: &Path| Payload::of(None, Some(path));
        let checkm = put(
            "m.checkm",
            "#%checkm_0.7\n#%profile | http://uc3.cdlib.org/registry/ingest/manifest/mrt-ingest-manifest\n",
        );
        assert_eq!(manifest(&checkm).unwrap(), Payload::File(checkm));
        let lines = put("m.txt", "# rows\nhttp://a/1 one\n\nhttp://a/2 two ark:/99999/x\n");
        let rows = serde_json::json!(["http://a/1 one", "http://a/2 two ark:/99999/x"]);
        assert_eq!(manifest(&lines).unwrap(), Payload::Rows(rows));
        let json = put("m.json", r#"{"manifest": [{"url": "http://a/1"}]}"#);
        assert_eq!(manifest(&json).unwrap(), Payload::Rows(serde_json::json!([{"url": "http://a/1"}])));
        for (name, text) in [("empty", ""), ("broken", "[1,"), ("object", "{\"a\": 1}")] {
            let error = manifest(&put(name, text)).unwrap_err();
            assert_eq!(error.downcast_ref::<Failed>().map(Failed::code), Some(2), "{name}: {error}");
        }
    }
}
