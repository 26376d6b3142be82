//! Every real back end, chosen by the configuration, in a run from submission to report. A back end that was
//! never called fails its run.

use ingest_harness::{MailServer, S3Server};
use ingest_queue::nodes::Submission;
use ingest_queue::plan::job::Change;
use ingest_queue::states::{BatchList, BatchState, JobState};
use ingest_steps::outcome::{Cancel, Progress};
use ingest_steps::settings::{Inventory, MailBy, Minter, Storage};
use ingest_steps::step::expand;
use ingest_steps::step::tell::Told;

use crate::callback_service::CallbackService;
use crate::ezid::Service as EzidService;
use crate::kit::{FileServer, Stage, WHO, settings_in};
use crate::made::zip;
use crate::postgres::Server as Postgres;
use crate::storage_service::{PublicFiles, StorageService};
use crate::tree::Tree;
use crate::walk::{all_is_well, ark_of, end, jobs, stored, submission, submit, walk, work};

/// Two objects with local ids, inline.
fn two(server: &FileServer, run: &str) -> Submission {
    let file = server.put(&format!("/{run}/a.txt"), b"a file".to_vec());
    let archive = server.put(&format!("/{run}/b.zip"), zip(&[("one", b"1"), ("dir/two", b"2")]));
    Submission {
        payload_url: None,
        manifest: Some(serde_json::json!([
            { "url": file, "local_id": ["file"] },
            { "url": archive, "local_id": ["archive"] },
        ])),
        ..submission(&server.url("/"), None)
    }
}

#[tokio::test]
async fn s3_ezid_postgres_smtp_and_a_callback() {
    let tree = Tree::zookeeper().await;
    let (server, s3, ezid) = (FileServer::start().await, S3Server::start(), EzidService::start().await);
    let (mail, callback) = (MailServer::start().await, CallbackService::start().await);
    let database = Postgres::shared().database().await;
    let stage = Stage::with(&tree.session().await, |settings| {
        let s3 = format!(
            "kind = 's3'\nendpoint = '{}'\nbucket = '{}'\nregion = 'us-east-1'\naccess_key = '{}'\nsecret_key = '{}'\nallow_http = true",
            s3.endpoint(), s3.bucket(), s3.access_key(), s3.secret_key()
        );
        settings.storage.insert("default".into(), toml::from_str(&s3).unwrap());
        settings.minter.insert("default".into(), Minter::Ezid(ezid.config()));
        settings.inventory = Inventory::Postgres { url: database.clone(), connections: 4 };
        let smtp = format!("host = '127.0.0.1'\nport = {}\nsecurity = 'none'", mail.port());
        settings.mail.by = MailBy::Smtp(toml::from_str(&smtp).unwrap());
    })
    .await;
    let notify = format!("callback = \"{}\"\n\n[notify]\nqueued = true", callback.url);
    stage.profile(|text| text.replacen("\n[notify]", &notify, 1));
    let mut arks = Vec::new();
    for version in 1..=2 {
        let bid = submit(&stage, two(&server, &version.to_string())).await;
        assert_eq!(walk(&stage, bid).await, Told::Sent(BatchState::Completed));
        for jid in jobs(&stage, bid, BatchList::Completed).await {
            arks.push(ark_of(&stage, jid).await);
        }
    }
    assert_eq!((&arks[0], &arks[1]), (&arks[2], &arks[3]));
    all_is_well(&stage, 2).await;
    let files = stored(&stage, &arks[1]).await;
    assert!(files.iter().any(|(path, content)| path == "producer/dir/two" && content == b"2"), "{files:?}");

    // Each of them was really called, and no more than needed.
    assert!(s3.requests() > 0);
    let names = ezid.state.lock().names.clone();
    assert_eq!(names.len(), 2, "one name an object: {names:?}");
    for (name, metadata) in &names {
        assert_eq!(metadata["_status"], "public", "{name}");
        assert!(arks.iter().any(|ark| ark.to_string() == *name), "{name}");
    }
    let minter = &stage.services.minters["default"];
    assert_eq!(minter.orphans().await.unwrap(), Some(Vec::new()));
    let calls = callback.calls();
    assert_eq!(calls.len(), 4);
    for call in &calls {
        let jid = call.body["jid"].as_str().unwrap();
        assert_eq!(call.path, format!("/done/{jid}"));
        assert!(call.key.contains(jid), "{call:?}");
        assert!(arks.iter().any(|ark| call.body["primary_id"] == ark.to_string()), "{call:?}");
    }
    let received = mail.received();
    let about = |what: &str| received.iter().filter(|mail| mail.contains(what)).count();
    assert_eq!((about("Submission queued"), about("2 completed, 0 failed")), (2, 2), "{received:?}");
    let pool = sqlx::PgPool::connect(&database).await.unwrap();
    let versions: i64 = sqlx::query_scalar("select count(*) from versions").fetch_one(&pool).await.unwrap();
    assert_eq!(versions, 4);
    pool.close().await;
    tree.close().await;
}

#[tokio::test]
async fn a_storage_service_fetches_what_it_is_handed() {
    let tree = Tree::embedded();
    let (server, service) = (FileServer::start().await, StorageService::start().await);
    let dir = tempfile::tempdir().unwrap();
    let mut settings = settings_in(dir.path());
    let public = PublicFiles::start(settings.work.dir.clone()).await;
    settings.storage.insert("default".into(), Storage::Http(service.settings()));
    settings.fetch.public_url = Some(public.url.clone());
    let stage = Stage::in_dir(&tree.session().await, dir, settings, "node-1").await;
    let bid = submit(&stage, two(&server, "1")).await;
    assert_eq!(walk(&stage, bid).await, Told::Sent(BatchState::Completed));
    all_is_well(&stage, 2).await;
    let fetched = service.fetched();
    assert!(fetched.iter().all(|url| url.starts_with(public.url.as_str())), "{fetched:?}");
    assert_eq!(fetched.iter().filter(|url| url.contains("storage-manifest")).count(), 2, "{fetched:?}");
    assert!(fetched.iter().any(|url| url.ends_with("producer/dir/two")), "{fetched:?}");

    // An update names every file, and those that are carried forward by their address in the service.
    let mut update = Submission {
        submission_mode: Some("update".into()),
        ..submission(&server.put("/2/b.zip", zip(&[("one", b"1 changed")])), Some("container"))
    };
    update.other.insert("local_id".into(), "archive".into());
    let bid = submit(&stage, update).await;
    assert_eq!(walk(&stage, bid).await, Told::Sent(BatchState::Completed));
    all_is_well(&stage, 2).await;
    let ark = ark_of(&stage, jobs(&stage, bid, BatchList::Completed).await[0]).await;
    let files = stored(&stage, &ark).await;
    for (path, content) in [("producer/one", &b"1 changed"[..]), ("producer/dir/two", b"2")] {
        assert!(files.iter().any(|file| (file.0.as_str(), &file.1[..]) == (path, content)), "{files:?}");
    }
    let fetched = service.fetched().into_iter().filter(|url| url.ends_with("producer/dir/two")).count();
    assert_eq!(fetched, 1, "it is not fetched again");
    tree.close().await;
}

#[tokio::test]
async fn where_an_outside_service_records_the_state_is_left_alone() {
    let tree = Tree::embedded();
    let server = FileServer::start().await;
    let stage =
        Stage::with(&tree.session().await, |settings| settings.inventory = Inventory::Outside {}).await;
    let bid = submit(&stage, two(&server, "1")).await;
    let mut lease = stage.queue.acquire_batch(bid, WHO).await.unwrap();
    let (progress, cancel) = (Progress::default(), Cancel::new());
    expand::run(&stage.queue, &mut lease, &stage.services, &progress, &cancel).await.unwrap();
    stage.queue.release_batch(&mut lease).await.unwrap();
    while work(&stage, bid).await {}
    let waiting = jobs(&stage, bid, BatchList::Processing).await;
    assert_eq!(waiting.len(), 2);
    for jid in waiting {
        assert_eq!(stage.status(jid).await.status, JobState::Recording);
        // What the outside service does when it is done.
        let mut lease = stage.take(jid).await;
        stage.queue.succeed(&mut lease, &Change::default()).await.unwrap();
    }
    while work(&stage, bid).await {}
    assert_eq!(end(&stage, bid).await, Told::Sent(BatchState::Completed));
    tree.close().await;
}
