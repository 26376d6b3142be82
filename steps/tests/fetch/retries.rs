//! What is tried again, how often, and what is not.

use std::time::Duration;

use ingest_harness::eventually;
use ingest_steps::fetch::Rules;

use crate::clock::{HOUR, jump};
use crate::kit::{Kit, PATIENCE, body, fails, later, rules, sha256};
use ingest_harness::bad_server::{Act, GoodFile, answer, head};

/// Limits that only a jump of the clock reaches.
fn endless() -> Rules {
    Rules { stall: HOUR, connect_timeout: HOUR, ..rules() }
}

/// Lets the limits of each of `tries` requests pass, when its request has arrived and so much of its answer is here.
async fn stall_each(kit: &Kit, path: &str, tries: usize, part: Option<u64>) {
    for number in 1..=tries {
        eventually(&format!("request {number} of {path}"), PATIENCE, || async {
            let here = part.is_none() || std::fs::metadata(kit.part()).ok().map(|part| part.len()) == part;
            (kit.server.requests(path) == number && here).then_some(())
        })
        .await;
        jump(3 * HOUR).await;
    }
}

#[tokio::test]
async fn statuses_that_will_not_change_fail_at_once() {
    for status in [400, 401, 403, 404, 410, 418, 451, 204, 304, 300] {
        let kit = Kit::new().await;
        kit.server.on("/a", move |_| vec![Act::Send(answer(status, &[], b""))]);
        let why = fails(kit.fetch_path("/a").await);
        assert!(why.contains(&status.to_string()) && why.contains("/a"), "{why}");
        assert_eq!((kit.server.all_requests(), kit.names()), (1, vec![]), "{status}");
    }
}

#[tokio::test]
async fn statuses_that_may_pass_are_tried_again_and_then_later() {
    for status in [408, 425, 429, 500, 502, 503, 504] {
        let kit = Kit::new().await;
        kit.server.on("/a", move |_| vec![Act::Send(answer(status, &[], b""))]);
        let why = later(kit.fetch_path("/a").await);
        assert!(why.contains(&status.to_string()) && why.contains("3 retries"), "{why}");
        assert_eq!((kit.server.all_requests(), kit.names()), (4, vec![]), "{status}");
    }
}

#[tokio::test]
async fn a_server_that_asks_for_time_gets_it() {
    for (status, after) in
        [(429, "1"), (503, "Sun, 06 Nov 1994 08:49:37 GMT"), (503, "99999999"), (429, "soon")]
    {
        let kit = Kit::new().await;
        let file = GoodFile::new("x", "1");
        kit.server.on("/a", move |request| match request.number {
            1 => vec![Act::Send(answer(status, &[("Retry-After", after)], b""))],
            _ => file.serve(request),
        });
        assert_eq!(kit.fetch_path("/a").await.unwrap().retries, 1);
        assert_eq!(kit.server.requests("/a"), 2);
    }
}

#[tokio::test]
async fn a_connection_that_is_always_reset_is_given_up() {
    let kit = Kit::new().await;
    kit.server.on("/middle", |_| {
        vec![Act::Send(head(200, &[("Content-Length", "1000000")])), Act::send(body(1000)), Act::Reset]
    });
    kit.server.on("/at-once", |_| vec![Act::Reset]);
    for path in ["/middle", "/at-once"] {
        later(kit.fetch_path(path).await);
        assert_eq!(kit.server.requests(path), 4);
    }
    assert!(kit.server.sent() < 10_000);
    assert!(!kit.to().exists());
}

#[tokio::test]
async fn an_answer_shorter_than_its_length_is_not_the_file() {
    let kit = Kit::new().await;
    kit.server.on("/a", |_| vec![Act::Send(head(200, &[("Content-Length", "10")])), Act::send("four")]);
    kit.server.on("/chunked", |_| {
        vec![Act::Send(head(200, &[("Transfer-Encoding", "chunked")])), Act::send("a\r\nfour")]
    });
    for path in ["/a", "/chunked"] {
        later(kit.fetch_path(path).await);
        assert_eq!((kit.server.requests(path), kit.to().exists()), (4, false));
    }
}

#[tokio::test]
async fn an_answer_that_goes_on_after_its_length_ends_there() {
    let kit = Kit::new().await;
    kit.server
        .on("/a", |_| vec![Act::Send(head(200, &[("Content-Length", "4")])), Act::send("four and more")]);
    let mut wanted = kit.wanted("/a");
    wanted.size = Some(4);
    wanted.digests = vec![sha256(b"four")];
    assert_eq!(kit.fetch(&wanted).await.unwrap().size, 4);
}

#[tokio::test]
async fn an_open_ended_answer_that_is_too_short_may_have_been_cut() {
    let kit = Kit::new().await;
    kit.server.on("/once", |request| {
        vec![Act::Send(head(200, &[])), Act::send(if request.number == 1 { "fo" } else { "four" })]
    });
    kit.server.on("/always", |_| vec![Act::Send(head(200, &[])), Act::send("fo")]);
    let mut wanted = kit.wanted("/once");
    wanted.size = Some(4);
    assert_eq!(kit.fetch(&wanted).await.unwrap().retries, 1);
    wanted.url = kit.server.url("/always");
    let why = fails(kit.fetch(&wanted).await);
    assert!(why.contains("4 bytes were announced, 2 came"), "{why}");
    assert_eq!(kit.server.requests("/always"), 4);
}

#[tokio::test]
async fn a_server_that_stalls_is_given_up() {
    let kit = Kit::with(endless()).await;
    kit.server.on("/silent", |_| vec![Act::Stall]);
    kit.server.on("/in-the-header", |_| vec![Act::send("HTTP/1.1 200 OK\r\nContent-"), Act::Stall]);
    kit.server.on("/in-the-body", |_| {
        vec![Act::Send(head(200, &[("Content-Length", "10")])), Act::send("four"), Act::Stall]
    });
    // A part without a validator is emptied before the next request, so that its length witnesses the latest answer.
    for (path, part) in [("/silent", None), ("/in-the-header", None), ("/in-the-body", Some(4))] {
        let (fetched, ()) = tokio::join!(kit.fetch_path(path), stall_each(&kit, path, 4, part));
        later(fetched);
        assert_eq!(kit.server.requests(path), 4, "{path}");
    }
}

#[tokio::test]
async fn a_server_that_creeps_is_given_up() {
    // How fast a body comes is measured by the real clock: all of it would take 200 times the limit, on any machine.
    let stall = Duration::from_millis(150);
    let kit = Kit::with(Rules { retries: 1, slowest: 10_000_000, stall, ..endless() }).await;
    let pause = Duration::from_millis(10);
    kit.server.on("/header", move |_| {
        vec![Act::Drip([b"HTTP/1.1 200 OK\r\nX: ".to_vec(), vec![b'x'; 3_000]].concat(), pause)]
    });
    kit.server.on("/body", move |_| vec![Act::Send(head(200, &[])), Act::Drip(vec![b'x'; 3_000], pause)]);
    let (header, ()) = tokio::join!(kit.fetch_path("/header"), stall_each(&kit, "/header", 2, None));
    for (path, fetched) in [("/header", header), ("/body", kit.fetch_path("/body").await)] {
        later(fetched);
        assert_eq!(kit.server.requests(path), 2, "{path}");
    }
    assert!(kit.server.sent() < 3_000);
}

#[tokio::test]
async fn a_stalled_server_that_wakes_up_is_continued() {
    let kit = Kit::with(endless()).await;
    let file = GoodFile::new(body(100_000), "1");
    kit.server.on("/a", move |request| match request.number {
        1 => [file.cut(request, 60_000), vec![Act::Stall]].concat(),
        _ => file.serve(request),
    });
    let (fetched, ()) = tokio::join!(kit.fetch_path("/a"), stall_each(&kit, "/a", 1, Some(60_000)));
    assert_eq!(fetched.unwrap().digests, [sha256(&body(100_000))]);
    assert_eq!(kit.server.seen("/a")[1].range(), Some(60_000));
}

#[tokio::test]
async fn garbage_is_no_answer() {
    let kit = Kit::new().await;
    let many = [b"HTTP/1.1 200 OK\r\n".to_vec(), b"X: y\r\n".repeat(100_000)].concat();
    kit.server.on("/noise", |_| vec![Act::Send(body(5000))]);
    kit.server.on("/empty", |_| vec![]);
    kit.server.on("/lengths", |_| {
        vec![Act::send("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab")]
    });
    kit.server.on("/negative", |_| vec![Act::send("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\nab")]);
    kit.server.on("/chunks", |_| {
        vec![Act::Send(head(200, &[("Transfer-Encoding", "chunked")])), Act::send("zz\r\nab\r\n0\r\n\r\n")]
    });
    kit.server.on("/headers", move |_| vec![Act::Send(many.clone())]);
    for path in ["/noise", "/empty", "/lengths", "/negative", "/chunks", "/headers"] {
        later(kit.fetch_path(path).await);
        assert_eq!((kit.server.requests(path), kit.to().exists()), (4, false), "{path}");
    }
}

#[tokio::test]
async fn an_endless_header_is_bounded() {
    let kit = Kit::new().await;
    kit.server.on("/a", |_| vec![Act::send("HTTP/1.1 200 OK\r\nX: "), Act::Endless(vec![b'x'; 64 << 10])]);
    later(kit.fetch_path("/a").await);
    assert_eq!(kit.server.requests("/a"), 4);
    assert!(kit.server.sent() < 64 << 20, "{} bytes", kit.server.sent());
}

#[tokio::test]
async fn nobody_listening_is_later() {
    let kit = Kit::new().await;
    // It has the port, and does not listen: nobody else can get it meanwhile.
    let deaf = tokio::net::TcpSocket::new_v4().unwrap();
    deaf.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let mut wanted = kit.wanted("/a");
    wanted.url.set_port(Some(deaf.local_addr().unwrap().port())).unwrap();
    let why = later(kit.fetch(&wanted).await);
    assert!(why.contains("3 retries"), "{why}");
}
