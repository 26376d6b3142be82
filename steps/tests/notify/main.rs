//! Callbacks, against a service that looks at every call.

#![allow(clippy::unwrap_used, reason = "what a test needs fails by panicking")]

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use ingest_steps::notify::{Notifier, Settings};
use ingest_steps::outcome::{Cancel, Failure, Progress};
use ingest_steps::profile::{Callback, Profile};
use parking_lot::Mutex;
use serde_json::json;

/// What it answers, in turn; after that 204.
#[derive(Debug, Default)]
struct Service {
    answers: Mutex<VecDeque<(u16, Option<&'static str>)>>,
    calls: Mutex<Vec<Call>>,
}

#[derive(Debug, Clone, PartialEq)]
struct Call {
    method: Method,
    path: String,
    auth: Option<String>,
    key: Option<String>,
    body: serde_json::Value,
}

async fn answer(
    State(service): State<Arc<Service>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let header = |name: &str| headers.get(name).map(|value| value.to_str().unwrap().to_owned());
    service.calls.lock().push(Call {
        method,
        path: uri.to_string(),
        auth: header("authorization"),
        key: header("idempotency-key"),
        body: serde_json::from_slice(&body).unwrap_or_default(),
    });
    match service.answers.lock().pop_front() {
        None => StatusCode::NO_CONTENT.into_response(),
        Some((status, after)) => {
            let mut answer = StatusCode::from_u16(status).unwrap().into_response();
            if let Some(after) = after {
                answer.headers_mut().insert("retry-after", after.parse().unwrap());
            }
            answer
        }
    }
}

async fn start(answers: &[(u16, Option<&'static str>)]) -> (Arc<Service>, String) {
    let service =
        Arc::new(Service { answers: Mutex::new(answers.iter().copied().collect()), ..Service::default() });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = Router::new().fallback(answer).with_state(service.clone());
    tokio::spawn(async move { axum::serve(listener, router).await });
    (service, format!("http://ada:p%40ss@{address}/done/"))
}

fn callback(url: &str) -> Callback {
    let text =
        format!("name = \"p\"\ncollection = \"p\"\ntitle = \"p\"\nowner = \"p\"\ncallback = \"{url}\"\n");
    Profile::parse(Path::new("p.toml"), &text).unwrap().callback.unwrap()
}

fn quick() -> Settings {
    Settings {
        retries: 3,
        backoff: Duration::from_millis(1),
        max_backoff: Duration::from_millis(20),
        timeout: Duration::from_secs(20),
    }
}

async fn call(url: &str, settings: Settings) -> Result<(), Failure> {
    let body = json!({"jid": "jid0000000001", "status": "notify"});
    let (progress, cancel) = (Progress::default(), Cancel::new());
    let notifier = Notifier::new(settings).unwrap();
    notifier.call(&callback(url), "jid0000000001", &body, "jid0000000001-notify-0", &progress, &cancel).await
}

#[tokio::test]
async fn the_job_is_posted_below_the_callback_with_basic_auth_and_its_key() {
    let (service, url) = start(&[]).await;
    call(&url, quick()).await.unwrap();
    let calls = service.calls.lock().clone();
    assert_eq!(
        calls,
        [Call {
            method: Method::POST,
            path: "/done/jid0000000001".into(),
            auth: Some("Basic YWRhOnBAc3M=".into()),
            key: Some("jid0000000001-notify-0".into()),
            body: json!({"jid": "jid0000000001", "status": "notify"}),
        }]
    );
}

#[tokio::test]
async fn what_may_pass_is_called_again_with_the_same_key() {
    let (service, url) = start(&[(500, None), (503, Some("0")), (429, Some("86400"))]).await;
    call(&url, quick()).await.unwrap();
    let calls = service.calls.lock().clone();
    assert_eq!(calls.len(), 4);
    assert!(calls.iter().all(|call| *call == calls[0]), "{calls:?}");
}

#[tokio::test]
async fn a_refusal_is_not_called_again_and_fails_the_job() {
    for status in [400, 401, 404, 302] {
        let (service, url) = start(&[(status, None)]).await;
        let failure = call(&url, quick()).await.unwrap_err();
        assert!(matches!(&failure, Failure::Fail(why) if why.contains(&status.to_string())), "{failure:?}");
        assert_eq!(service.calls.lock().len(), 1);
    }
}

#[tokio::test]
async fn the_calls_are_bounded_and_the_last_answer_is_told_without_the_password() {
    let (service, url) = start(&[(503, None); 10]).await;
    let why = call(&url, quick()).await.unwrap_err().to_string();
    assert_eq!(service.calls.lock().len(), 4);
    assert!(why.contains("called 4 times: it answered 503") && why.contains("/done/jid0000000001"), "{why}");
    assert!(!why.contains("p%40ss") && !why.contains("p@ss"), "{why}");
}

#[tokio::test]
async fn a_service_that_is_away_is_called_as_often() {
    // It has the port, and does not listen: nobody else can get it meanwhile.
    let deaf = tokio::net::TcpSocket::new_v4().unwrap();
    deaf.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let port = deaf.local_addr().unwrap().port();
    let why = call(&format!("http://127.0.0.1:{port}"), quick()).await.unwrap_err().to_string();
    assert!(why.contains("called 4 times"), "{why}");
}

#[tokio::test]
async fn a_service_that_never_answers_does_not_hold_a_job_for_ever() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let settings = Settings { retries: 1, timeout: Duration::from_millis(100), ..quick() };
    let why = call(&url, settings).await.unwrap_err().to_string();
    assert!(why.contains("called 2 times: no answer within 100ms"), "{why}");
}

#[tokio::test]
async fn a_call_can_be_stopped() {
    let (service, url) = start(&[(503, Some("86400")); 3]).await;
    let settings = Settings { max_backoff: Duration::from_hours(24), ..quick() };
    let (progress, cancel) = (Progress::default(), Cancel::new());
    let notifier = Notifier::new(settings).unwrap();
    let callback = callback(&url);
    let body = json!({});
    let calling = notifier.call(&callback, "jid0000000001", &body, "key", &progress, &cancel);
    let stopping = async {
        ingest_harness::eventually("a call", Duration::from_mins(2), || async {
            (!service.calls.lock().is_empty()).then_some(())
        })
        .await;
        cancel.cancel();
    };
    let (failure, ()) = tokio::join!(calling, stopping);
    assert_eq!(failure, Err(Failure::Cancelled));
}
