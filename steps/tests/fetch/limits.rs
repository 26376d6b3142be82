//! Bodies and redirects without end, and how many requests there are at a time.

use std::sync::Arc;

use ingest_harness::eventually;
use ingest_steps::fetch::{Rules, Wanted};
use tokio::sync::Semaphore;

use crate::kit::{Kit, PATIENCE, fails, rules};
use ingest_harness::bad_server::{Act, GoodFile, answer, head, redirect};

/// What the sockets of both sides may hold beyond what was read.
const BUFFERS: u64 = 32 << 20;

#[tokio::test]
async fn an_endless_body_stops_at_the_largest_file() {
    let kit = Kit::with(Rules { max_bytes: 1 << 20, ..rules() }).await;
    kit.server
        .on("/a", |_| vec![Act::Send(head(200, &[("ETag", "\"1\"")])), Act::Endless(vec![b'x'; 64 << 10])]);
    let why = fails(kit.fetch_path("/a").await);
    assert!(why.contains("1048576") && why.contains("fetch.max_bytes"), "{why}");
    assert_eq!((kit.server.requests("/a"), kit.names()), (1, vec![]));
    assert!(kit.server.sent() < BUFFERS, "{} bytes", kit.server.sent());
}

#[tokio::test]
async fn an_endless_body_stops_at_the_announced_size() {
    let kit = Kit::new().await;
    kit.server.on("/a", |_| {
        let chunk = [b"10000\r\n".to_vec(), vec![b'x'; 1 << 16], b"\r\n".to_vec()].concat();
        vec![Act::Send(head(200, &[("Transfer-Encoding", "chunked")])), Act::Endless(chunk)]
    });
    let mut wanted = kit.wanted("/a");
    wanted.size = Some(100_000);
    let why = fails(kit.fetch(&wanted).await);
    assert!(why.contains("100000 bytes were announced, more came"), "{why}");
    assert_eq!((kit.server.requests("/a"), kit.names()), (1, vec![]));
    assert!(kit.server.sent() < BUFFERS, "{} bytes", kit.server.sent());
}

#[tokio::test]
async fn a_length_beyond_the_largest_file_is_not_begun() {
    let kit = Kit::with(Rules { max_bytes: 100, ..rules() }).await;
    kit.server.on("/a", |_| vec![Act::Send(answer(200, &[], &[0; 101]))]);
    assert!(fails(kit.fetch_path("/a").await).contains("fetch.max_bytes"));
    let mut wanted = kit.wanted("/a");
    wanted.size = Some(101);
    assert!(fails(kit.fetch(&wanted).await).contains("fetch.max_bytes"));
    assert_eq!(
        (kit.server.requests("/a"), kit.names()),
        (1, vec![]),
        "an announced one is not even asked for"
    );
}

#[tokio::test]
async fn a_redirect_loop_ends() {
    let kit = Kit::with(Rules { max_redirects: 5, ..rules() }).await;
    kit.server.on("/a", |_| redirect("/b"));
    kit.server.on("/b", |_| redirect("/a"));
    let why = fails(kit.fetch_path("/a").await);
    assert!(why.contains("more than 5 redirects"), "{why}");
    assert_eq!(kit.server.all_requests(), 6);
}

#[tokio::test]
async fn a_chain_of_redirects_is_followed_to_its_end() {
    let kit = Kit::with(Rules { max_redirects: 5, ..rules() }).await;
    for hop in 0..5 {
        let status = [301, 302, 303, 307, 308][hop];
        let next = format!("{}?x=1", kit.server.url(&format!("/{}", hop + 1)));
        // Some absolute, some relative.
        let next = if hop % 2 == 0 { next } else { format!("{}?x=1", hop + 1) };
        let path = if hop == 0 { "/0".to_owned() } else { format!("/{hop}?x=1") };
        kit.server.on(&path, move |_| vec![Act::Send(answer(status, &[("Location", &next)], b"moved"))]);
    }
    let file = GoodFile::new("x", "1");
    kit.server.on("/5?x=1", move |request| file.serve(request));
    assert_eq!(kit.fetch_path("/0").await.unwrap().size, 1);
    assert_eq!(kit.server.all_requests(), 6);
}

#[tokio::test]
async fn a_redirect_to_nowhere_fails() {
    let kit = Kit::new().await;
    kit.server.on("/none", |_| vec![Act::Send(answer(302, &[], b""))]);
    kit.server.on("/file", |_| redirect("file:///etc/passwd"));
    kit.server.on("/bad", |_| redirect("http://[::1"));
    for path in ["/none", "/file", "/bad"] {
        fails(kit.fetch_path(path).await);
        assert_eq!(kit.server.requests(path), 1, "{path}");
    }
}

#[tokio::test]
async fn no_more_requests_at_a_time_than_the_rules_say() {
    for (per_host, per_node) in [(2, 9), (9, 2)] {
        let kit = Arc::new(Kit::with(Rules { per_host, per_node, ..rules() }).await);
        let (arrived, go) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
        let (arriving, going) = (arrived.clone(), go.clone());
        kit.server.on("/a", move |_| {
            arriving.add_permits(1);
            vec![Act::Send(head(200, &[("Content-Length", "1")])), Act::Await(going.clone()), Act::send("x")]
        });
        let fetches: Vec<_> = (0..6)
            .map(|number| {
                let kit = kit.clone();
                tokio::spawn(async move {
                    let to = kit.dir.path().join(number.to_string());
                    kit.fetcher.fetch(&kit.wanted("/a"), &to, &kit.progress, &kit.cancel).await
                })
            })
            .collect();
        arrived.acquire_many(2).await.unwrap().forget();
        // All others have come as far as they may.
        eventually("four that wait for a turn", PATIENCE, || async {
            (kit.fetcher.waiting() == 4).then_some(())
        })
        .await;
        assert_eq!(kit.server.requests("/a"), 2);
        go.add_permits(6);
        for fetch in fetches {
            fetch.await.unwrap().unwrap();
        }
        assert_eq!(kit.server.requests("/a"), 6);
    }
}

#[tokio::test]
async fn turns_are_given_back_when_a_fetch_ends_anyhow() {
    let kit = Kit::with(Rules { per_host: 1, per_node: 1, retries: 0, ..rules() }).await;
    kit.server.on("/cut", |_| vec![Act::Send(head(200, &[("Content-Length", "9")])), Act::send("x")]);
    kit.server.on("/loop", |_| redirect("/loop"));
    let file = GoodFile::new("x", "1");
    kit.server.on("/a", move |request| file.serve(request));
    for path in ["/cut", "/none", "/loop", "/cut"] {
        kit.fetch_path(path).await.unwrap_err();
    }
    {
        let wanted: Wanted = kit.wanted("/a");
        let mut dropped = Box::pin(kit.fetch(&wanted));
        let _ = futures::poll!(&mut dropped);
    }
    assert_eq!(kit.fetcher.size(&kit.server.url("/a")).await, Some(1));
}
