//! What can go wrong between a node and its bucket, on a real server: kills, lost answers, races, refusals.

use ingest_harness::{Moment, S3Server};
use ingest_steps::outcome::{Failure, Result};
use ingest_steps::storage::s3::{S3, S3Settings};
use ingest_steps::storage::{Storage as _, StoreRequest, Stored};
use object_store::path::Path;
use object_store::{ObjectStore as _, ObjectStoreExt as _, PutMode, PutOptions};

use crate::objects::{ARK, contents, pairs, problems, request, store};
use crate::s3::{FIRST, settings};

fn connect(server: &S3Server) -> S3 {
    S3::connect(&settings(server)).unwrap()
}

/// The files of the second version: one of them is sent in two parts.
fn second(large: &str) -> Vec<(&str, &str)> {
    vec![("a", "one"), ("b/ü c", "changed"), ("large", large)]
}

fn large() -> String {
    "0123456789abcdef".repeat((8 << 20) / 16) + "the second part"
}

/// A bucket with the first version, and the request for the second.
async fn begun(work: &std::path::Path, large: &str) -> (S3Server, StoreRequest) {
    let server = S3Server::start();
    store(&connect(&server), &request(work, "before", &FIRST)).await.unwrap();
    (server, request(work, "wanted", &second(large)))
}

/// Readers see the first version alone, or both, each whole.
async fn judge(server: &S3Server, large: &str, place: &str) {
    let reader = connect(server);
    let head = reader.manifest(ARK, None).await.expect(place).expect(place).head;
    assert_eq!(contents(&reader, 1).await, pairs(&FIRST), "{place}");
    if head == 2 {
        assert!(contents(&reader, 2).await == pairs(&second(large)), "{place}");
    } else {
        assert_eq!(head, 1, "{place}");
    }
}

/// The store is done again by another node: there is one second version, whole, and nothing else.
async fn done_again(server: &S3Server, wanted: &StoreRequest, large: &str, place: &str) {
    let other = connect(server);
    assert_eq!(store(&other, wanted).await.expect(place).version, 2, "{place}");
    let again = store(&other, wanted).await.expect(place);
    assert_eq!((again.version, again.already), (2, true), "{place}");
    judge(server, large, place).await;
    assert_eq!(problems(&other).await, [""; 0], "{place}");
}

#[tokio::test]
async fn a_store_that_is_killed_at_any_request_is_done_again() {
    let (work, large) = (tempfile::tempdir().unwrap(), large());
    for moment in [Moment::Arrival, Moment::Answer] {
        let mut kills = 0;
        loop {
            let (server, wanted) = begun(work.path(), &large).await;
            let node = connect(&server);
            server.hold(kills + 1, moment);
            let ended = tokio::select! {
                ended = store(&node, &wanted) => Some(ended),
                () = server.met() => None,
            };
            if let Some(ended) = ended {
                assert_eq!(ended.unwrap().version, 2);
                break;
            }
            kills += 1;
            drop(node);
            server.heal();
            let place = format!("killed at request {kills}, {moment:?}");
            judge(&server, &large, &place).await;
            done_again(&server, &wanted, &large, &place).await;
        }
        // List, inventory, content, three or more for the large file, the commit, the look for garbage.
        assert!(kills >= 8, "{kills} requests");
    }
}

#[tokio::test]
async fn a_request_that_is_lost_on_its_way_or_back_makes_no_second_version() {
    let (work, large) = (tempfile::tempdir().unwrap(), large());
    for moment in [Moment::Arrival, Moment::Answer] {
        for number in 1.. {
            let (server, wanted) = begun(work.path(), &large).await;
            server.lose(number, moment);
            let ended = store(&connect(&server), &wanted).await;
            let place = format!("lost request {number}, {moment:?}");
            let met = server.has_met();
            server.heal();
            match ended {
                Ok(stored) => assert_eq!(stored.version, 2, "{place}"),
                Err(Failure::Later(_)) if met => {}
                Err(other) => panic!("{place}: {other}"),
            }
            if !met {
                assert!(number > 8, "{place}");
                break;
            }
            done_again(&server, &wanted, &large, &place).await;
        }
    }
}

#[tokio::test]
async fn of_many_puts_where_nothing_is_one_succeeds() {
    let server = S3Server::start();
    let bucket = settings(&server).open().unwrap();
    let (bucket, key) = (&bucket, Path::from("key"));
    for _ in 0..5 {
        let put = |content: usize| {
            let options = PutOptions::from(PutMode::Create);
            let (bucket, key) = (bucket.clone(), key.clone());
            async move { bucket.put_opts(&key, content.to_string().into(), options).await }
        };
        let ended = futures::future::join_all((0..16).map(put)).await;
        let won: Vec<_> = (0..16).filter(|number| ended[*number].is_ok()).collect();
        assert_eq!(won.len(), 1);
        let found = bucket.get(&key).await.unwrap().bytes().await.unwrap();
        assert_eq!(found, won[0].to_string());
        for lost in ended.into_iter().filter_map(std::result::Result::err) {
            assert!(matches!(lost, object_store::Error::AlreadyExists { .. }), "{lost}");
        }
        bucket.delete(&key).await.unwrap();
    }
}

/// Comes again as long as others are in the way.
async fn patiently(node: &S3, wanted: &StoreRequest) -> Result<Stored> {
    loop {
        match store(node, wanted).await {
            Err(Failure::Later(_)) => {}
            other => return other,
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nodes_that_store_one_object_at_once_make_a_version_each() {
    const NODES: usize = 6;
    let (work, server) = (tempfile::tempdir().unwrap(), S3Server::start());
    let names: Vec<_> = (0..NODES).map(|node| format!("of node {node}")).collect();
    // All files lie there before the first node reads one.
    let wanted = names.iter().enumerate().map(|(number, name)| {
        request(work.path(), &format!("key {number}"), &[("same", "same"), ("own", name)])
    });
    let wanted: Vec<_> = wanted.collect();
    let stores = wanted.into_iter().map(|wanted| {
        let node = connect(&server);
        tokio::spawn(async move { patiently(&node, &wanted).await.map(|stored| stored.version) })
    });
    let made = futures::future::join_all(stores.collect::<Vec<_>>()).await;
    let made: Vec<u32> = made.into_iter().map(|version| version.unwrap().unwrap()).collect();
    let mut versions = made.clone();
    versions.sort_unstable();
    assert_eq!(versions, (1..=6).collect::<Vec<_>>(), "one each, and none is lost");
    let reader = connect(&server);
    for (version, name) in made.iter().zip(&names) {
        assert_eq!(contents(&reader, *version).await, pairs(&[("same", "same"), ("own", name)]));
    }
    assert_eq!(problems(&reader).await, [""; 0]);
}

/// What a store, a look and a listing answer with these settings, and whether any of them tells the secret.
async fn answers(settings: &S3Settings) -> [Failure; 3] {
    let work = tempfile::tempdir().unwrap();
    let s3 = S3::connect(settings).unwrap();
    let stored = store(&s3, &request(work.path(), "k", &FIRST)).await.unwrap_err();
    let looked = s3.manifest(ARK, None).await.unwrap_err();
    let opened = s3.open(ARK, 1, "a").await.unwrap_err();
    for failure in [&stored, &looked, &opened] {
        assert!(!failure.to_string().contains(&settings.secret_key), "{failure}");
    }
    assert!(!format!("{settings:?} {s3:?}").contains(&settings.secret_key));
    [stored, looked, opened]
}

#[tokio::test]
async fn wrong_keys_are_told_clearly_and_without_the_secret() {
    let server = S3Server::start();
    let wrong_secret = S3Settings { secret_key: "not-the-secret".into(), ..settings(&server) };
    let wrong_key = S3Settings { access_key: "nobody".into(), ..settings(&server) };
    for settings in [wrong_secret, wrong_key] {
        for failure in answers(&settings).await {
            let Failure::Fail(why) = failure else { panic!("{failure:?}") };
            assert!(why.contains("correct `access_key` and `secret_key`"), "{why}");
            assert!(!why.contains('<') && why.len() < 400, "{why}");
        }
    }
}

#[tokio::test]
async fn a_bucket_that_is_not_there_is_told_as_that() {
    let server = S3Server::start();
    let elsewhere = S3Settings { bucket: "elsewhere".into(), ..settings(&server) };
    let [stored, looked, _] = answers(&elsewhere).await;
    for failure in [stored, looked] {
        let Failure::Fail(why) = failure else { panic!("{failure:?}") };
        assert!(
            why.contains("NoSuchBucket") && why.contains("make the bucket, or correct `bucket`"),
            "{why}"
        );
    }
}

#[tokio::test]
async fn a_server_that_is_away_is_later() {
    let server = S3Server::start();
    let settings = settings(&server);
    drop(server);
    for failure in answers(&settings).await {
        assert!(matches!(failure, Failure::Later(_)), "{failure:?}");
    }
}

#[tokio::test]
async fn a_server_that_says_nothing_is_later() {
    let server = S3Server::start();
    server.hold(1, Moment::Arrival);
    let timeout = std::time::Duration::from_millis(200);
    let settings = S3Settings { timeout, tries: 1, ..settings(&server) };
    for failure in answers(&settings).await {
        assert!(matches!(failure, Failure::Later(_)), "{failure:?}");
    }
}

#[tokio::test]
async fn plain_http_has_to_be_allowed() {
    let server = S3Server::start();
    let refused = S3::connect(&S3Settings { allow_http: false, ..settings(&server) }).unwrap_err();
    assert!(refused.to_string().contains("allow_http"), "{refused}");
}
