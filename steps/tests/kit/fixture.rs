//! Real manifests whose payloads can be fetched here.
//!
//! A [`Fixture`] is a manifest of a depositor in which nothing but the host of each row is another one, and
//! where there was a digest or a size, that of the payload that is generated and served instead. Lines, their
//! order and ends, columns, and all the space between them stay as they were.

use std::io::{Cursor, Write as _};
use std::path::Path;

use ingest_steps::digest::Algorithm;
use ingest_steps::manifest::Kind;
use url::Url;

use super::{FileServer, digest};

/// A manifest as it came and as it is served.
pub(crate) struct Fixture {
    pub(crate) before: String,
    pub(crate) after: String,
    pub(crate) url: Url,
}

/// The manifests of the test data, by their paths, with the objects that each is.
pub(crate) const MANIFESTS: [(&str, usize); 9] = [
    ("merritt-manifest/4blocks.checkm", 1),
    ("merritt-manifest/mrt-dataone-manifest.txt", 1),
    ("merritt-manifest/sampleBatchOfContainers.checkm", 3),
    ("merritt-manifest/sampleBatchOfFiles.checkm", 3),
    ("merritt-manifest/sampleBatchOfManifests.checkm", 3),
    ("mrt-ingest/digest_batch.checkm", 1),
    ("mrt-ingest/localid2_batch.checkm", 1),
    ("mrt-ingest/localid_batch.checkm", 1),
    ("mrt-ingest/mock_object.checkm", 1),
];

impl Fixture {
    /// Rewrites a manifest of the test data and serves it with its payloads.
    pub(crate) fn new(name: &str, server: &FileServer) -> Self {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/manifests");
        let before = std::fs::read_to_string(dir.join(name)).unwrap();
        let after = rewrite(&before, server);
        let url = server.put(&format!("/manifests/{name}"), after.clone());
        Self { before, after, url }
    }
}

/// The same manifest with payloads that are served here. A file that is no manifest stays as it is.
pub(crate) fn rewrite(text: &str, server: &FileServer) -> String {
    let is_profile = |kind: &Kind| {
        let mut profiles = text.lines().filter(|line| line.starts_with("#%profile"));
        profiles.any(|line| line.trim_end().ends_with(&format!("/{}", kind.profile_name())))
    };
    let Some(kind) = Kind::ALL.into_iter().find(is_profile) else { return text.to_owned() };
    let columns = columns(text);
    let is_row = |line: &str| !line.starts_with('#') && !line.trim().is_empty();
    text.split_inclusive('\n')
        .map(|line| if is_row(line) { rewrite_row(line, kind, &columns, server) } else { line.to_owned() })
        .collect()
}

/// The columns' names without their prefixes, in lower case.
fn columns(text: &str) -> Vec<String> {
    let fields = text.lines().find(|line| line.starts_with("#%fields")).unwrap();
    let name = |field: &str| field.trim().rsplit(':').next().unwrap().to_ascii_lowercase();
    fields.split('|').skip(1).map(name).collect()
}

fn rewrite_row(line: &str, kind: Kind, columns: &[String], server: &FileServer) -> String {
    let at = |name: &str| columns.iter().position(|column| column == name);
    let mut fields: Vec<String> = line.split('|').map(str::to_owned).collect();
    let text = |fields: &[String], name: &str| {
        at(name).and_then(|at| fields.get(at)).map(|field| field.trim().to_owned()).unwrap_or_default()
    };
    let url = Url::parse(text(&fields, "fileurl").trim_start_matches('@')).unwrap();
    let payload = payload(&url, kind, server);
    let origin = url.as_str().len() - url[url::Position::BeforePath..].len();
    let mut put = |name: &str, value: &dyn Fn(&str) -> String| {
        if let Some(field) = at(name).and_then(|at| fields.get_mut(at)) {
            let old = field.trim().to_owned();
            // An empty field stays empty.
            if !old.is_empty() {
                *field = field.replacen(&old, &value(&old), 1);
            }
        }
    };
    put("fileurl", &|old| {
        old.replacen(&url.as_str()[..origin], server.url("").as_str().trim_end_matches('/'), 1)
    });
    let algorithm = text(&line.split('|').map(str::to_owned).collect::<Vec<_>>(), "hashalgorithm");
    put("hashvalue", &|old| {
        let algorithm: Algorithm = algorithm.parse().unwrap();
        let new = digest(algorithm, &payload).hex().to_owned();
        let upper = old.chars().any(|c| c.is_ascii_uppercase());
        if upper { new.to_uppercase() } else { new }
    });
    put("filesize", &|_| payload.len().to_string());
    server.put(url.path(), payload);
    fields.join("|")
}

/// What lies at a URL: the same each time.
fn payload(url: &Url, kind: Kind, server: &FileServer) -> Vec<u8> {
    let content = |name: &str| format!("this is {name} of {}\n", url.path()).into_bytes();
    match kind {
        Kind::Object | Kind::SingleFileBatch => content("the file"),
        Kind::ContainerBatch => {
            let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
            for name in ["one.txt", "dir/two.txt"] {
                zip.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
                zip.write_all(&content(name)).unwrap();
            }
            zip.finish().unwrap().into_inner()
        }
        Kind::Batch => {
            let row = |name: &str| {
                let data = content(name);
                let size = data.len();
                let digest = digest(Algorithm::Sha256, &data);
                let url = server.put(&format!("{}.files/{name}", url.path()), data);
                format!("{url} | sha256 | {} | {size} | | {name}\n", digest.hex())
            };
            let rows: String = ["one.txt", "two.txt"].map(row).concat();
            format!("#%checkm_0.7\n#%profile | {}\n{rows}#%eof\n", Kind::Object.profile()).into_bytes()
        }
    }
}
