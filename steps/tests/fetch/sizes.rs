//! How big a file is, from servers that do not like to say.

use ingest_harness::eventually;
use ingest_steps::fetch::Rules;

use crate::clock::{HOUR, jump};
use crate::kit::{Kit, PATIENCE, rules};
use ingest_harness::bad_server::{Act, GoodFile, answer, head, redirect};

#[tokio::test]
async fn a_head_tells_the_size() {
    let kit = Kit::new().await;
    let file = GoodFile::new(vec![0; 12_345], "1");
    kit.server.on("/a", move |request| file.serve(request));
    kit.server.on("/moved", |_| redirect("/a"));
    assert_eq!(kit.fetcher.size(&kit.server.url("/a")).await, Some(12_345));
    assert_eq!(kit.fetcher.size(&kit.server.url("/moved")).await, Some(12_345));
    assert!(kit.server.seen("/a").iter().all(|request| request.method == "HEAD"));
    assert!(kit.server.sent() < 1000);
}

#[tokio::test]
async fn where_head_is_refused_one_byte_is_asked_for() {
    for status in [400, 403, 404, 405, 500, 501, 503] {
        let kit = Kit::new().await;
        kit.server.on("/a", move |request| match (request.method.as_str(), request.header("range")) {
            ("GET", Some("bytes=0-0")) => {
                vec![Act::Send(answer(206, &[("Content-Range", "bytes 0-0/777")], b"x"))]
            }
            _ => vec![Act::Send(head(status, &[("Content-Length", "3")]))],
        });
        assert_eq!(kit.fetcher.size(&kit.server.url("/a")).await, Some(777), "{status}");
        assert_eq!(kit.server.requests("/a"), 2);
    }
}

#[tokio::test]
async fn a_head_that_is_cut_or_says_nothing_is_not_the_last_word() {
    for reply in [
        vec![Act::Reset],
        vec![Act::Send(head(200, &[]))],
        vec![Act::Send(head(200, &[("Content-Length", "0")]))],
    ] {
        let kit = Kit::new().await;
        kit.server.on("/a", move |request| match request.method.as_str() {
            "HEAD" => reply.clone(),
            _ => vec![Act::Send(head(200, &[("Content-Length", "888")])), Act::Endless(vec![0; 1000])],
        });
        assert_eq!(kit.fetcher.size(&kit.server.url("/a")).await, Some(888));
        assert_eq!(kit.server.requests("/a"), 2);
    }
}

#[tokio::test]
async fn an_empty_file_has_a_size() {
    let kit = Kit::new().await;
    let file = GoodFile::new("", "1");
    kit.server.on("/a", move |request| file.serve(request));
    assert_eq!(kit.fetcher.size(&kit.server.url("/a")).await, Some(0));
}

#[tokio::test]
async fn a_size_that_nobody_tells_is_unknown_and_has_a_reason() {
    let kit = Kit::with(Rules { stall: HOUR, connect_timeout: HOUR, ..rules() }).await;
    kit.server.on("/gone", |_| vec![Act::Send(answer(410, &[], b""))]);
    kit.server.on("/open", |_| vec![Act::Send(head(200, &[])), Act::Endless(vec![0; 1000])]);
    kit.server.on("/silent", |_| vec![Act::Stall]);
    kit.server.on("/noise", |_| vec![Act::send("noise")]);
    kit.server.on("/stars", |_| vec![Act::Send(answer(206, &[("Content-Range", "bytes 0-0/*")], b"x"))]);
    kit.server.on("/huge", |_| {
        vec![Act::Send(answer(206, &[("Content-Range", "bytes 0-0/99999999999999999999999")], b"x"))]
    });
    for path in ["/gone", "/open", "/silent", "/noise", "/stars", "/huge"] {
        let url = kit.server.url(path);
        let silence = async {
            for number in 1..=if path == "/silent" { 2 } else { 0 } {
                eventually("a request", PATIENCE, || async {
                    (kit.server.requests(path) == number).then_some(())
                })
                .await;
                jump(3 * HOUR).await;
            }
        };
        let (size, ()) = tokio::join!(kit.fetcher.size(&url), silence);
        assert_eq!(size, None, "{path}");
        assert_eq!(kit.server.requests(path), 2, "{path}");
    }
    let reason = kit.fetcher.size_or_reason(&kit.server.url("/gone")).await.unwrap_err();
    assert!(reason.contains("HEAD: 410") && reason.contains("GET of the first byte: 410"), "{reason}");
    assert!(kit.server.sent() < 32 << 20);
}

#[tokio::test]
async fn a_forbidden_address_is_not_asked_for_its_size() {
    let kit = Kit::with(Rules { allowed: vec![], ..rules() }).await;
    let reason = kit.fetcher.size_or_reason(&kit.server.url("/a")).await.unwrap_err();
    assert!(reason.contains("loopback"), "{reason}");
    assert_eq!(kit.server.all_requests(), 0);
}
