//! A storage service over HTTP that works as one does: it fetches the manifest that it is handed, then every
//! file of it, checks their digests, and keeps them. It is strict about auth and about the order of calls.

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use ingest_steps::digest::{Algorithm, Digest, Digests};
use ingest_steps::manifest::{Limits, Reader};
use ingest_steps::storage::http::HttpSettings;
use parking_lot::Mutex;
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};
use url::Url;

/// `user:secret`.
const AUTH: &str = "Basic dXNlcjpzZWNyZXQ=";

struct Version {
    key: String,
    message: Value,
    files: BTreeMap<String, (Vec<u8>, Digest)>,
}

#[derive(Default)]
struct Kept {
    objects: BTreeMap<String, Vec<Version>>,
    asked: HashSet<String>,
    fetched: Vec<String>,
}

type Shared = Arc<Mutex<Kept>>;
type Answer = (StatusCode, Body);

pub(crate) struct StorageService {
    base: Url,
    kept: Shared,
    serving: tokio::task::JoinHandle<()>,
}

impl Drop for StorageService {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl StorageService {
    pub(crate) async fn start() -> Self {
        let kept = Shared::default();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = Url::parse(&format!("http://{}/", listener.local_addr().unwrap())).unwrap();
        let app = axum::Router::new().fallback(answer).with_state(kept.clone());
        let serving = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { base, kept, serving }
    }

    pub(crate) fn settings(&self) -> HttpSettings {
        let text = format!(
            "base = '{}'\nnode = '9001'\nuser = 'user'\npassword = 'secret'\npause = '1ms'\ntimeout = '1m'",
            self.base
        );
        toml::from_str(&text).unwrap()
    }

    /// What it has fetched, manifests and files.
    pub(crate) fn fetched(&self) -> Vec<String> {
        self.kept.lock().fetched.clone()
    }
}

fn tell(status: u16, body: &Value) -> Answer {
    (StatusCode::from_u16(status).unwrap(), Body::from(body.to_string()))
}

fn receipt(version: &Version, number: usize) -> Value {
    let bytes: usize = version.files.values().map(|(content, _)| content.len()).sum();
    json!({ "version": number, "files": version.files.len(), "bytes": bytes })
}

async fn answer(State(kept): State<Shared>, request: Request) -> Answer {
    let (parts, body) = request.into_parts();
    if parts.headers.get("authorization").is_none_or(|auth| auth != AUTH) {
        return tell(401, &json!("who are you?"));
    }
    let body = to_bytes(body, 1 << 20).await.unwrap();
    let query = parts.uri.query().unwrap_or_default();
    let query: BTreeMap<_, _> = url::form_urlencoded::parse(query.as_bytes()).into_owned().collect();
    let elements: Vec<_> = parts.uri.path().split('/').skip(1).map(str::to_owned).collect();
    let elements: Vec<_> = elements.iter().map(|e| percent_decode_str(e).decode_utf8().unwrap()).collect();
    let elements: Vec<&str> = elements.iter().map(AsRef::as_ref).collect();
    match (parts.method.as_str(), elements.as_slice()) {
        ("GET", ["state", ark]) => {
            let mut kept = kept.lock();
            kept.asked.insert(query["key"].clone());
            let versions = kept.objects.get(*ark).map(Vec::as_slice).unwrap_or_default();
            match versions.iter().position(|version| version.key == query["key"]) {
                Some(index) => tell(200, &receipt(&versions[index], index + 1)),
                None => tell(404, &Value::Null),
            }
        }
        ("POST", ["add" | "update", "9001", ark]) => {
            let key = parts.headers["idempotency-key"].to_str().unwrap();
            let key = percent_decode_str(key).decode_utf8().unwrap().into_owned();
            if !kept.lock().asked.remove(&key) {
                return tell(400, &json!("ask for the state first"));
            }
            let body: Value = serde_json::from_slice(&body).unwrap();
            match take(&kept, &body).await {
                Err(why) => tell(422, &json!(why)),
                Ok(files) => {
                    let version = Version { key, message: body["message"].clone(), files };
                    let mut kept = kept.lock();
                    let versions = kept.objects.entry((*ark).to_owned()).or_default();
                    versions.push(version);
                    tell(201, &receipt(&versions[versions.len() - 1], versions.len()))
                }
            }
        }
        ("GET", ["manifest", ark]) => {
            let kept = kept.lock();
            let versions = kept.objects.get(*ark).map(Vec::as_slice).unwrap_or_default();
            let number = query.get("version").map_or(versions.len(), |text| text.parse().unwrap());
            let Some(version) = number.checked_sub(1).and_then(|index| versions.get(index)) else {
                return tell(404, &Value::Null);
            };
            let file = |(path, (content, digest)): (&String, &(Vec<u8>, Digest))| {
                json!({ "path": path, "size": content.len(), "algorithm": digest.algorithm().name(),
                        "digest": digest.hex() })
            };
            tell(
                200,
                &json!({ "version": number, "head": versions.len(), "created": "2026-01-01T00:00:00Z",
                         "message": version.message, "key": version.key,
                         "files": version.files.iter().map(file).collect::<Vec<_>>() }),
            )
        }
        ("GET", ["content", ark]) => {
            let kept = kept.lock();
            let number: usize = query["version"].parse().unwrap();
            let (content, _) = &kept.objects[*ark][number - 1].files[&query["path"]];
            (StatusCode::OK, Body::from(content.clone()))
        }
        ("GET", ["objects"]) => {
            let kept = kept.lock();
            let after = query.get("after").cloned().unwrap_or_default();
            let arks: Vec<_> = kept.objects.keys().filter(|ark| **ark > after).collect();
            tell(200, &json!({ "arks": arks }))
        }
        _ => tell(400, &json!(format!("{} {} is not in the protocol", parts.method, parts.uri))),
    }
}

/// Fetches all that a manifest names.
async fn take(kept: &Shared, body: &Value) -> Result<BTreeMap<String, (Vec<u8>, Digest)>, String> {
    let url = body["manifest"].as_str().ok_or("there is no manifest")?;
    let manifest = get(kept, url).await?;
    let reader = Reader::open(manifest.as_slice(), Limits::default()).map_err(|error| error.to_string())?;
    let mut files = BTreeMap::new();
    for row in reader {
        let row = row.map_err(|error| error.to_string())?;
        // What is carried forward has the address of its content here.
        let own = content(kept, &row.url);
        let content = match own {
            Some(own) => own,
            None => get(kept, &row.url).await?,
        };
        let announced = row.digest.ok_or("a file without a digest")?;
        let mut digests = Digests::of([announced.algorithm(), Algorithm::Sha512]);
        digests.update(&content);
        let found = digests.finish();
        if !found.contains(&announced) || row.size != Some(content.len() as u64) {
            return Err(format!("{} is not what the manifest says", row.name));
        }
        let kept_by = found.into_iter().find(|digest| digest.algorithm() == Algorithm::Sha512);
        files.insert(row.name, (content, kept_by.unwrap()));
    }
    Ok(files)
}

/// Content that is kept here already, by its address.
fn content(kept: &Shared, url: &str) -> Option<Vec<u8>> {
    let url = Url::parse(url).ok()?;
    let ark = url.path().strip_prefix("/content/")?;
    let query: BTreeMap<_, _> = url.query_pairs().collect();
    let number: usize = query.get("version")?.parse().ok()?;
    let kept = kept.lock();
    let version = kept.objects.get(percent_decode_str(ark).decode_utf8().ok()?.as_ref())?.get(number - 1)?;
    Some(version.files.get(query.get("path")?.as_ref())?.0.clone())
}

async fn get(kept: &Shared, url: &str) -> Result<Vec<u8>, String> {
    kept.lock().fetched.push(url.to_owned());
    let answer = reqwest::get(url).await.and_then(reqwest::Response::error_for_status);
    let answer = answer.map_err(|error| format!("{url}: {error}"))?;
    Ok(answer.bytes().await.map_err(|error| format!("{url}: {error}"))?.to_vec())
}

/// Serves a node's working directory at an address of its own, as `api.public_url` does.
pub(crate) struct PublicFiles {
    pub(crate) url: Url,
    serving: tokio::task::JoinHandle<()>,
}

impl Drop for PublicFiles {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl PublicFiles {
    pub(crate) async fn start(root: PathBuf) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = Url::parse(&format!("http://{}/", listener.local_addr().unwrap())).unwrap();
        let app = axum::Router::new().fallback(move |uri: axum::http::Uri| {
            let root = root.clone();
            async move {
                let path = percent_decode_str(uri.path().trim_start_matches("/work/")).decode_utf8();
                let path = path.map_err(|_| StatusCode::BAD_REQUEST)?;
                std::fs::read(root.join(path.as_ref())).map_err(|_| StatusCode::NOT_FOUND)
            }
        });
        let serving = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { url, serving }
    }
}
