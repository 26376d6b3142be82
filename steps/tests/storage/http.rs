//! A storage service over HTTP: a small one that is strict about the protocol.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use futures::TryStreamExt as _;
use ingest_steps::digest::Algorithm;
use ingest_steps::outcome::Failure;
use ingest_steps::storage::http::{Http, HttpSettings};
use ingest_steps::storage::{Carried, Mode, Storage as _, StoreRequest};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::objects::{ARK, contents, digests, pairs, problems, read, request, store};

const ESCAPED: &str = "ark%3A%2F99999%2Ffk4abc";
const MANIFEST: &str = "http://127.0.0.1:9/manifest";
/// `user:secret`.
const AUTH: &str = "Basic dXNlcjpzZWNyZXQ=";
const FIRST: [(&str, &str); 2] = [("a b/ü&c", "one"), ("d", "two")];

#[derive(Default)]
struct Service {
    /// What the manifest leads to.
    offered: Vec<(String, String)>,
    versions: Vec<(String, BTreeMap<String, String>)>,
    /// Keys that were asked for since they were last handed over.
    asked: HashSet<String>,
    /// What goes wrong with the next hand-overs.
    faults: Vec<Fault>,
    posts: u32,
    /// Content is told rightly and kept wrongly.
    rotten: bool,
    base: String,
}

#[derive(Clone, Copy, PartialEq)]
enum Fault {
    Away,
    AnswerLost,
    WrongCount,
    WrongContent,
}

type Answer = (StatusCode, Body);
type Shared = Arc<Mutex<Service>>;

fn tell(status: u16, body: &Value) -> Answer {
    (StatusCode::from_u16(status).unwrap(), Body::from(body.to_string()))
}

fn receipt(service: &Service, version: usize) -> Value {
    let files = &service.versions[version - 1].1;
    let bytes: usize = files.values().map(String::len).sum();
    json!({ "version": version, "files": files.len(), "bytes": bytes })
}

async fn serve(State(shared): State<Shared>, request: Request) -> Answer {
    let (parts, body) = request.into_parts();
    let body = to_bytes(body, 1 << 20).await.unwrap();
    if parts.headers.get("authorization").is_none_or(|auth| auth != AUTH) {
        return tell(401, &json!("who are you?"));
    }
    let mut service = shared.lock();
    let query = parts.uri.query().unwrap_or_default();
    let query: BTreeMap<_, _> = url::form_urlencoded::parse(query.as_bytes()).into_owned().collect();
    let path: Vec<&str> = parts.uri.path().split('/').skip(1).collect();
    match (parts.method.as_str(), path.as_slice()) {
        ("GET", ["worker"]) => tell(200, &json!({ "base": service.base })),
        ("GET", ["objects"]) => {
            let arks =
                if query.contains_key("after") { json!([]) } else { json!([ARK, "ark:/99999/fk4other"]) };
            tell(200, &json!({ "arks": arks }))
        }
        ("GET", ["state", ESCAPED]) => {
            service.asked.insert(query["key"].clone());
            match service.versions.iter().position(|(key, _)| *key == query["key"]) {
                Some(index) => tell(200, &receipt(&service, index + 1)),
                None => tell(404, &Value::Null),
            }
        }
        ("POST", [verb @ ("add" | "update"), "9001", ESCAPED]) => {
            let key = parts.headers["idempotency-key"].to_str().unwrap().replace("%2F", "/");
            let body: Value = serde_json::from_slice(&body).unwrap();
            hand_over(&mut service, verb, key, &body)
        }
        ("GET", ["manifest", ESCAPED]) => manifest(&service, &query),
        ("GET", ["content", ESCAPED]) => {
            let version: usize = query["version"].parse().unwrap();
            match service.versions[version - 1].1.get(&query["path"]) {
                Some(_) if service.rotten => (StatusCode::OK, Body::from("rot")),
                Some(content) => (StatusCode::OK, Body::from(content.clone())),
                None => tell(404, &Value::Null),
            }
        }
        _ => tell(400, &json!(format!("{} {} is not in the protocol", parts.method, parts.uri))),
    }
}

fn hand_over(service: &mut Service, verb: &str, key: String, body: &Value) -> Answer {
    service.posts += 1;
    if !service.asked.remove(&key) || service.versions.iter().any(|(known, _)| *known == key) {
        return tell(400, &json!("ask for the state first"));
    }
    if body["manifest"] != MANIFEST || body["user"]["name"] != "Depositor" {
        return tell(400, &json!("no manifest, or nobody's"));
    }
    if verb == "update" && service.versions.is_empty() {
        return tell(404, &Value::Null);
    }
    let fault = service.faults.pop();
    if fault == Some(Fault::Away) {
        return tell(503, &json!("away"));
    }
    let mut files: BTreeMap<_, _> = service.offered.clone().into_iter().collect();
    if fault == Some(Fault::WrongContent) {
        files.insert("d".into(), "tow".into());
    }
    service.versions.push((key, files));
    let mut answer = receipt(service, service.versions.len());
    match fault {
        Some(Fault::AnswerLost) => return tell(500, &json!("lost")),
        Some(Fault::WrongCount) => answer["files"] = json!(1),
        _ => {}
    }
    tell(201, &answer)
}

fn manifest(service: &Service, query: &BTreeMap<String, String>) -> Answer {
    let head = service.versions.len();
    let version = query.get("version").map_or(head, |version| version.parse().unwrap());
    let Some((key, files)) = version.checked_sub(1).and_then(|index| service.versions.get(index)) else {
        return tell(404, &Value::Null);
    };
    let file = |(path, content): (&String, &String)| {
        let digest = digests(content, &[Algorithm::Sha256]).remove(0);
        json!({ "path": path, "size": content.len(), "algorithm": "SHA-256", "digest": digest.hex() })
    };
    let files: Vec<_> = files.iter().map(file).collect();
    let created = "2026-01-01T00:00:00Z";
    tell(200, &json!({ "version": version, "head": head, "created": created, "key": key, "files": files }))
}

struct Bench {
    service: Shared,
    http: Http,
    settings: HttpSettings,
    work: tempfile::TempDir,
}

async fn bench(faults: &[Fault]) -> Bench {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let service =
        Service { faults: faults.to_vec(), offered: pairs(&FIRST), base: base.clone(), ..Service::default() };
    let service = Arc::new(Mutex::new(service));
    let router = Router::new().fallback(serve).with_state(Arc::clone(&service));
    tokio::spawn(async { axum::serve(listener, router).await.unwrap() });
    let settings = HttpSettings {
        base: base.parse().unwrap(),
        worker_url: None,
        node: "9001".into(),
        user: Some("user".into()),
        password: Some("secret".into()),
        timeout: Duration::from_mins(1),
        tries: 3,
        pause: Duration::from_millis(1),
    };
    let http = Http::new(settings.clone()).unwrap();
    Bench { service, http, settings, work: tempfile::tempdir().unwrap() }
}

impl Bench {
    fn request(&self, key: &str) -> StoreRequest {
        let mut request = request(self.work.path(), key, &FIRST);
        request.manifest_url = Some(MANIFEST.parse().unwrap());
        request
    }

    fn posts(&self) -> u32 {
        self.service.lock().posts
    }
}

#[tokio::test]
async fn a_manifest_is_handed_over_and_the_version_reads_back() {
    let bench = bench(&[]).await;
    let stored = store(&bench.http, &bench.request("job/1")).await.unwrap();
    assert_eq!((stored.version, stored.already, stored.size), (1, false, 6));
    assert_eq!(contents(&bench.http, 1).await, pairs(&FIRST));
    assert_eq!(problems(&bench.http).await, [""; 0]);
    assert_eq!(bench.http.manifest(ARK, Some(2)).await.unwrap(), None);
    let arks: Vec<_> = bench.http.objects().try_collect().await.unwrap();
    assert_eq!(arks, [ARK, "ark:/99999/fk4other"]);
}

#[tokio::test]
async fn the_same_key_again_is_not_handed_over() {
    let bench = bench(&[]).await;
    store(&bench.http, &bench.request("job/1")).await.unwrap();
    let again = store(&bench.http, &bench.request("job/1")).await.unwrap();
    assert_eq!((again.version, again.already, bench.posts()), (1, true, 1));
}

#[tokio::test]
async fn a_service_that_was_away_is_tried_again() {
    let bench = bench(&[Fault::Away, Fault::Away]).await;
    let stored = store(&bench.http, &bench.request("job/1")).await.unwrap();
    assert_eq!((stored.version, stored.already, bench.posts()), (1, false, 3));
}

#[tokio::test]
async fn a_service_that_stays_away_is_for_later() {
    let bench = bench(&[Fault::Away; 3]).await;
    let later = store(&bench.http, &bench.request("job/1")).await.unwrap_err();
    assert!(matches!(&later, Failure::Later(why) if why.contains("503")), "{later}");
}

#[tokio::test]
async fn a_lost_answer_does_not_make_a_second_version() {
    let bench = bench(&[Fault::AnswerLost]).await;
    let stored = store(&bench.http, &bench.request("job/1")).await.unwrap();
    assert_eq!((stored.version, stored.already, bench.posts()), (1, false, 1));
}

#[tokio::test]
async fn a_receipt_or_content_that_is_not_what_was_sent_fails_the_job() {
    for (fault, part) in [(Fault::WrongCount, "took 1 files"), (Fault::WrongContent, "`d` has 3 bytes")] {
        let bench = bench(&[fault]).await;
        let failed = store(&bench.http, &bench.request("job/1")).await.unwrap_err();
        assert!(matches!(&failed, Failure::Fail(why) if why.contains(part)), "{failed}");
    }
}

#[tokio::test]
async fn a_wrong_password_fails_at_once() {
    let mut bench = bench(&[]).await;
    bench.settings.password = Some("guess".into());
    let http = Http::new(bench.settings.clone()).unwrap();
    let refused = store(&http, &bench.request("job/1")).await.unwrap_err();
    assert!(matches!(&refused, Failure::Fail(why) if why.contains("401")), "{refused}");
    assert!(!format!("{http:?}").contains("guess"));
}

#[tokio::test]
async fn a_worker_is_asked_for_the_base() {
    let mut bench = bench(&[]).await;
    bench.settings.worker_url = Some(bench.settings.base.join("worker").unwrap());
    bench.settings.base = "http://127.0.0.1:9/nobody".parse().unwrap();
    let http = Http::new(bench.settings.clone()).unwrap();
    assert_eq!(store(&http, &bench.request("job/1")).await.unwrap().version, 1);
}

#[tokio::test]
async fn an_update_needs_an_object_and_a_hand_over_an_address() {
    let bench = bench(&[]).await;
    let mut update = bench.request("job/1");
    update.mode = Mode::Update;
    assert!(matches!(store(&bench.http, &update).await, Err(Failure::Fail(_))));
    update.manifest_url = None;
    assert!(store(&bench.http, &update).await.unwrap_err().to_string().contains("no address"));
}

#[tokio::test]
async fn what_is_carried_forward_is_compared_and_the_newest_version_is_asked_for() {
    let bench = bench(&[]).await;
    let first = store(&bench.http, &bench.request("job/1")).await.unwrap();
    let mut update = bench.request("job/2");
    update.mode = Mode::Update;
    update.files.pop();
    update.carried = Carried { version: 1, files: first.files.clone() };
    update.carried.files.retain(|path, _| path == "d");
    update.head = Some(2);
    let refused = store(&bench.http, &update).await.unwrap_err();
    assert!(matches!(&refused, Failure::Again(why) if why.contains("has version 1 now")), "{refused}");
    assert_eq!(bench.posts(), 1);
    update.head = Some(1);
    assert_eq!(store(&bench.http, &update).await.unwrap().version, 2);
    let found = bench.http.version_of(ARK, "job/1").await.unwrap().unwrap();
    assert_eq!((found.version, found.already, found.files), (1, true, first.files));
    assert_eq!(bench.http.version_of(ARK, "job/3").await.unwrap(), None);
}

#[tokio::test]
async fn damaged_content_is_told() {
    let bench = bench(&[]).await;
    store(&bench.http, &bench.request("job/1")).await.unwrap();
    assert_eq!(read(&bench.http, 1, "d").await.unwrap(), "two");
    bench.service.lock().rotten = true;
    assert!(read(&bench.http, 1, "d").await.unwrap_err().to_string().contains("damaged"));
    assert_eq!(problems(&bench.http).await.len(), 2);
}

#[tokio::test]
async fn another_spelling_of_an_ark_is_refused() {
    let bench = bench(&[]).await;
    crate::objects::refuses_other_spellings(&bench.http, bench.work.path()).await;
    assert_eq!(bench.posts(), 0);
}
