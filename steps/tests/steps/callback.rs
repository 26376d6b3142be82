//! The depositor's service is told, with the job and without its secrets.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use ingest_queue::states::JobState;
use ingest_steps::outcome::Failure;
use ingest_steps::step::{callback, conclude};
use parking_lot::Mutex;

use crate::kit::Stage;
use crate::made::{ingest, job_with};
use crate::tree::Tree;

type Calls = Arc<Mutex<Vec<(String, Option<String>, serde_json::Value)>>>;

async fn service(status: Arc<Mutex<StatusCode>>) -> (String, Calls, tokio::task::JoinHandle<()>) {
    let calls = Calls::default();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://ann:hidden@{}/done", listener.local_addr().unwrap());
    let answer = async |State((calls, status)): State<(Calls, Arc<Mutex<StatusCode>>)>, request: Request| {
        let (head, body) = request.into_parts();
        let body = axum::body::to_bytes(body, 1 << 20).await.unwrap();
        let key = head.headers.get("idempotency-key").map(|key| key.to_str().unwrap().to_owned());
        calls.lock().push((head.uri.to_string(), key, serde_json::from_slice(&body).unwrap()));
        *status.lock()
    };
    let app = axum::Router::new().fallback(answer).with_state((calls.clone(), status));
    let task = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    (url, calls, task)
}

#[tokio::test]
async fn the_profiles_service_is_told_of_the_job() {
    let tree = Tree::embedded();
    let stage = Stage::new(&tree.session().await).await;
    let status = Arc::new(Mutex::new(StatusCode::CREATED));
    let (url, calls, task) = service(status.clone()).await;
    let jid = job_with(&stage, &[("a", "1")], &["l"], |new| {
        new.configuration.other.insert("secret".into(), "hidden".into());
    })
    .await;
    let ark = ingest(&stage, jid).await;
    // No callback: nothing to do.
    let mut lease = stage.take(jid).await;
    callback::run(&mut stage.task(&mut lease).await, &stage.services).await.unwrap();
    assert_eq!(calls.lock().len(), 0);
    stage.profile(|text| text.replace("[notify]", &format!("callback = \"{url}\"\n[notify]")));
    let key = lease.effect_key();
    callback::run(&mut stage.task(&mut lease).await, &stage.services).await.unwrap();
    // One that refuses fails the job, for a person to requeue.
    *status.lock() = StatusCode::FORBIDDEN;
    let refused = callback::run(&mut stage.task(&mut lease).await, &stage.services).await;
    assert!(matches!(&refused, Err(Failure::Fail(why)) if !why.contains("hidden")), "{refused:?}");
    let told = calls;
    let calls = told.lock().clone();
    assert_eq!(calls.len(), 2);
    for (path, found, body) in calls {
        assert_eq!((path, found.as_deref()), (format!("/done/{jid}"), Some(key.as_str())));
        assert_eq!(body["jid"], jid.to_string());
        assert_eq!(body["primary_id"], ark.to_string());
        assert_eq!(body["local_id"], serde_json::json!(["l"]));
        assert_eq!((&body["version"], &body["submitter"]), (&1.into(), &"depositor".into()));
        assert!(!body.to_string().contains("hidden"), "{body}");
        assert!(body["changes"].is_null(), "there was no version before: {body}");
    }
    conclude(&stage.queue, &mut lease, refused).await.unwrap();
    assert_eq!(stage.status(jid).await.status, JobState::Failed);
    let update = job_with(&stage, &[("b", "2")], &["l"], |_| {}).await;
    assert_eq!(ingest(&stage, update).await, ark);
    let mut lease = stage.take(update).await;
    let refused = callback::run(&mut stage.task(&mut lease).await, &stage.services).await;
    conclude(&stage.queue, &mut lease, refused).await.unwrap();
    let (_, _, body) = told.lock().last().cloned().unwrap();
    let changes = "1 added, 0 replaced, 0 removed, 1 unchanged";
    assert_eq!((&body["version"], &body["changes"]), (&2.into(), &changes.into()));
    stage.fsck().await;
    task.abort();
    tree.close().await;
}
