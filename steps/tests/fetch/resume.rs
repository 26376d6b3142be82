//! Going on where an attempt stopped, and starting again where that would be wrong.

use std::sync::Arc;

use ingest_harness::eventually;
use ingest_steps::outcome::{Cancel, Failure};
use tokio::sync::Semaphore;

use crate::kit::{Kit, PATIENCE, body, fails, rules, sha256};
use ingest_harness::bad_server::{Act, GoodFile, answer, head};

const SIZE: usize = 200_000;
const CUT: usize = 80_000;

/// Fetches `/a` once with no retries left, from a server that cuts it after [`CUT`] bytes.
async fn cut_once(file: &GoodFile) -> Kit {
    let kit = Kit::with(ingest_steps::fetch::Rules { retries: 0, ..rules() }).await;
    let cut = file.clone();
    kit.server.on("/a", move |request| cut.cut(request, CUT));
    let result = kit.fetch_path("/a").await;
    assert!(matches!(result, Err(Failure::Later(_))), "{result:?}");
    assert_eq!(std::fs::metadata(kit.part()).unwrap().len(), CUT as u64);
    kit
}

#[tokio::test]
async fn a_later_attempt_asks_for_the_rest_only() {
    let file = GoodFile::new(body(SIZE), "1");
    let kit = cut_once(&file).await;
    let before = kit.server.sent();
    kit.server.on("/a", move |request| file.serve(request));
    let fetched = kit.fetch_path("/a").await.unwrap();
    assert_eq!(fetched.digests, [sha256(&body(SIZE))]);
    assert!(kit.content() == body(SIZE));
    let asked = kit.server.seen("/a").pop().unwrap();
    assert_eq!((asked.header("range"), asked.header("if-range")), (Some("bytes=80000-"), Some("\"1\"")));
    assert!(kit.server.sent() - before < (SIZE - CUT + 1000) as u64);
    assert_eq!(kit.names(), ["file"]);
}

#[tokio::test]
async fn a_cut_connection_is_continued_within_a_fetch_and_bytes_count_once() {
    let kit = Kit::new().await;
    let file = GoodFile::new(body(SIZE), "1");
    kit.server.on("/a", move |request| match request.number {
        1 | 2 => file.cut(request, CUT),
        _ => file.serve(request),
    });
    let fetched = kit.fetch_path("/a").await.unwrap();
    assert_eq!((fetched.retries, fetched.digests), (2, vec![sha256(&body(SIZE))]));
    let ranges: Vec<_> =
        kit.server.seen("/a").iter().map(ingest_harness::bad_server::Request::range).collect();
    assert_eq!(ranges, [None, Some(CUT), Some(2 * CUT)]);
    assert!(kit.server.sent() < (SIZE + 2000) as u64);
    assert_eq!(kit.progress.done(), (1, SIZE as u64));
}

#[tokio::test]
async fn a_server_without_ranges_sends_it_all_again() {
    let file = GoodFile::new(body(SIZE), "1");
    let kit = cut_once(&file).await;
    kit.server.on("/a", |_| vec![Act::Send(answer(200, &[("ETag", "\"1\"")], &body(SIZE)))]);
    assert_eq!(kit.fetch_path("/a").await.unwrap().digests, [sha256(&body(SIZE))]);
    assert!(kit.content() == body(SIZE));
    assert_eq!(kit.server.requests("/a"), 2, "the same answer was used");
}

#[tokio::test]
async fn a_file_that_changed_is_not_mixed() {
    let kit = cut_once(&GoodFile::new(body(SIZE), "1")).await;
    let changed = GoodFile::new(vec![7; SIZE], "2");
    kit.server.on("/a", move |request| changed.serve(request));
    assert_eq!(kit.fetch_path("/a").await.unwrap().digests, [sha256(&vec![7; SIZE])]);
    assert_eq!(kit.server.requests("/a"), 2);
}

#[tokio::test]
async fn a_part_of_another_version_is_not_taken_though_the_server_calls_it_the_rest() {
    let kit = Kit::new().await;
    let (old, new) = (GoodFile::new(body(SIZE), "1"), GoodFile::new(vec![7; SIZE], "2"));
    kit.server.on("/a", move |request| match (request.number, request.range()) {
        (1, _) => old.cut(request, CUT),
        // Pays no heed to If-Range.
        (_, Some(from)) => {
            let range = format!("bytes {from}-{}/{SIZE}", SIZE - 1);
            vec![Act::Send(answer(206, &[("ETag", "\"2\""), ("Content-Range", &range)], &new.body[from..]))]
        }
        _ => new.serve(request),
    });
    let fetched = kit.fetch_path("/a").await.unwrap();
    assert_eq!((fetched.digests, fetched.retries), (vec![sha256(&vec![7; SIZE])], 2));
    assert_eq!(kit.server.requests("/a"), 3);
}

#[tokio::test]
async fn a_lying_range_starts_again_from_zero() {
    for lie in [
        "bytes 0-199999/200000",
        "bytes 79999-199999/200000",
        "bytes 80000-199998/200000",
        "bytes 80000-299999/300000",
        "bytes 80000-100000/200000",
        "bytes */200000",
        "lines 1-2/3",
        "",
    ] {
        let kit = Kit::new().await;
        let file = GoodFile::new(body(SIZE), "1");
        kit.server.on("/a", move |request| match (request.number, request.range()) {
            (1, _) => file.cut(request, CUT),
            (_, Some(_)) => {
                vec![Act::Send(answer(
                    206,
                    &[("ETag", "\"1\""), ("Content-Range", lie)],
                    &vec![b'!'; SIZE - CUT],
                ))]
            }
            _ => file.serve(request),
        });
        let fetched = kit.fetch_path("/a").await.unwrap();
        assert_eq!(fetched.digests, [sha256(&body(SIZE))], "{lie}");
        assert_eq!(kit.server.requests("/a"), 3, "{lie}");
    }
}

#[tokio::test]
async fn a_part_that_nobody_asked_for_is_not_the_file() {
    let kit = Kit::new().await;
    kit.server.on("/a", |_| vec![Act::Send(answer(206, &[("Content-Range", "bytes 0-3/4")], b"four"))]);
    fails(kit.fetch_path("/a").await);
    assert_eq!((kit.server.requests("/a"), kit.names()), (4, vec![]));
}

#[tokio::test]
async fn a_weak_tag_alone_is_no_ground_to_go_on() {
    let kit = Kit::new().await;
    kit.server.on("/a", |request| {
        let all = answer(200, &[("ETag", "W/\"1\"")], &body(SIZE));
        vec![Act::send(if request.number == 1 { &all[..CUT] } else { &all })]
    });
    assert_eq!(kit.fetch_path("/a").await.unwrap().digests, [sha256(&body(SIZE))]);
    assert_eq!(kit.server.seen("/a")[1].header("range"), None);
}

#[tokio::test]
async fn a_date_is_enough_to_go_on() {
    let date = "Sun, 06 Nov 1994 08:49:37 GMT";
    let kit = Kit::new().await;
    kit.server.on("/a", move |request| match request.range() {
        None => {
            let all = answer(200, &[("Last-Modified", date)], &body(SIZE));
            vec![Act::send(&all[..CUT])]
        }
        Some(from) => {
            let range = format!("bytes {from}-{}/{SIZE}", SIZE - 1);
            vec![Act::Send(answer(206, &[("Content-Range", &range)], &body(SIZE)[from..]))]
        }
    });
    assert_eq!(kit.fetch_path("/a").await.unwrap().digests, [sha256(&body(SIZE))]);
    assert_eq!(kit.server.seen("/a")[1].header("if-range"), Some(date));
}

#[tokio::test]
async fn a_rest_that_the_server_has_not_starts_again() {
    let kit = Kit::new().await;
    let file = GoodFile::new(body(SIZE), "1");
    kit.server.on("/a", move |request| match (request.number, request.range()) {
        (1, _) => file.cut(request, CUT),
        (_, Some(_)) => vec![Act::Send(answer(416, &[], b""))],
        _ => file.serve(request),
    });
    assert_eq!(kit.fetch_path("/a").await.unwrap().digests, [sha256(&body(SIZE))]);
    assert_eq!(kit.server.requests("/a"), 3);
}

#[tokio::test]
async fn a_part_that_was_spoilt_on_the_disk_is_fetched_again_before_anybody_is_blamed() {
    let file = GoodFile::new(body(SIZE), "1");
    let mut kit = cut_once(&file).await;
    kit.fetcher = ingest_steps::fetch::Fetcher::new(rules()).unwrap();
    std::fs::write(kit.part(), vec![0; CUT]).unwrap();
    kit.server.on("/a", move |request| file.serve(request));
    let mut wanted = kit.wanted("/a");
    wanted.digests = vec![sha256(&body(SIZE))];
    assert_eq!(kit.fetch(&wanted).await.unwrap().retries, 1);
    assert!(kit.content() == body(SIZE));
    assert_eq!(kit.server.requests("/a"), 3);
}

#[tokio::test]
async fn without_a_digest_only_what_was_synced_is_kept() {
    let file = GoodFile::new(body(SIZE), "1");
    let kit = cut_once(&file).await;
    // As after a power cut: longer than the note knows.
    std::fs::write(kit.part(), [&body(CUT)[..], &[0; 5000]].concat()).unwrap();
    kit.server.on("/a", move |request| file.serve(request));
    assert_eq!(kit.fetch_path("/a").await.unwrap().digests, [sha256(&body(SIZE))]);
    assert_eq!(kit.server.seen("/a")[1].range(), Some(CUT));
}

#[tokio::test]
async fn a_part_with_a_torn_note_or_of_another_url_is_not_used() {
    let file = GoodFile::new(body(SIZE), "1");
    for torn in [true, false] {
        let kit = cut_once(&file).await;
        if torn {
            std::fs::write(kit.dir.path().join(".file.ingest-part.json"), "{\"url\":").unwrap();
        }
        let path = if torn { "/a" } else { "/b" };
        let file = file.clone();
        kit.server.on(path, move |request| file.serve(request));
        assert_eq!(kit.fetch_path(path).await.unwrap().digests, [sha256(&body(SIZE))]);
        assert_eq!(kit.server.seen(path).pop().unwrap().range(), None);
    }
}

#[tokio::test]
async fn a_part_that_is_whole_needs_no_request() {
    let file = GoodFile::new(body(SIZE), "1");
    let kit = cut_once(&file).await;
    // As after a crash between the last byte and the name.
    std::fs::write(kit.part(), body(SIZE)).unwrap();
    let mut wanted = kit.wanted("/a");
    wanted.size = Some(SIZE as u64);
    wanted.digests = vec![sha256(&body(SIZE))];
    kit.fetch(&wanted).await.unwrap();
    assert_eq!((kit.server.requests("/a"), kit.names()), (1, vec!["file".to_owned()]));
}

#[tokio::test]
async fn a_link_in_the_place_of_the_part_is_not_followed() {
    let kit = Kit::new().await;
    let elsewhere = tempfile::tempdir().unwrap();
    let victim = elsewhere.path().join("victim");
    std::fs::write(&victim, "mine").unwrap();
    std::os::unix::fs::symlink(&victim, kit.part()).unwrap();
    kit.server.on("/a", |_| vec![Act::Send(answer(200, &[], b"theirs"))]);
    fails(kit.fetch_path("/a").await);
    assert_eq!(std::fs::read(&victim).unwrap(), b"mine");
}

#[tokio::test]
async fn cancelling_stops_in_the_middle_and_keeps_the_part() {
    let mut kit = Kit::new().await;
    let file = GoodFile::new(body(SIZE), "1");
    let first = file.clone();
    kit.server.on("/a", move |request| [first.cut(request, CUT), vec![Act::Stall]].concat());
    kit.progress.cancel_at(CUT as u64, &kit.cancel);
    assert_eq!(kit.fetch_path("/a").await, Err(Failure::Cancelled));
    assert_eq!(std::fs::metadata(kit.part()).unwrap().len(), CUT as u64);
    assert_eq!(kit.fetch_path("/a").await, Err(Failure::Cancelled), "and does not begin");

    kit.cancel = Cancel::new();
    kit.server.on("/a", move |request| file.serve(request));
    kit.fetch_path("/a").await.unwrap();
    assert_eq!(kit.server.seen("/a").pop().unwrap().range(), Some(CUT));
}

#[tokio::test]
async fn two_fetches_to_one_name_do_not_mix() {
    let kit = Kit::new().await;
    let go = Arc::new(Semaphore::new(0));
    let gate = go.clone();
    let data = body(SIZE);
    kit.server.on("/slow", move |_| {
        let half = head(200, &[("Content-Length", &SIZE.to_string())]);
        vec![Act::Send(half), Act::send(&data[..CUT]), Act::Await(gate.clone()), Act::send(&data[CUT..])]
    });
    let wanted = kit.wanted("/slow");
    let second = async {
        eventually("the first half", PATIENCE, || async {
            (kit.progress.done().1 >= CUT as u64).then_some(())
        })
        .await;
        let refused = kit.fetch_path("/other").await;
        go.add_permits(1);
        refused
    };
    let (first, second) = tokio::join!(kit.fetch(&wanted), second);
    assert_eq!(first.unwrap().digests, [sha256(&body(SIZE))]);
    let why = crate::kit::later(second);
    assert!(why.contains("another fetch"), "{why}");
    assert_eq!(kit.server.requests("/other"), 0);
}
