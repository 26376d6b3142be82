//! Whatever a server sends, a fetch ends, in bounds, and what has its name is whole.

use ingest_steps::fetch::Rules;
use proptest::prelude::*;

use crate::kit::{Kit, rules, sha256};
use ingest_harness::bad_server::Act;

fn line() -> impl Strategy<Value = String> {
    prop_oneof![
        (0_u64..40).prop_map(|length| format!("Content-Length: {length}")),
        Just("Transfer-Encoding: chunked".to_owned()),
        Just("ETag: \"1\"".to_owned()),
        Just("ETag: W/\"1\"".to_owned()),
        Just("Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT".to_owned()),
        (any::<u8>(), any::<u8>(), any::<u8>())
            .prop_map(|(a, b, c)| format!("Content-Range: bytes {a}-{b}/{c}")),
        (0_u64..3).prop_map(|seconds| format!("Retry-After: {seconds}")),
        Just("Location: /a".to_owned()),
        Just("Location: //".to_owned()),
        "[ -~]{0,20}",
    ]
}

fn reply() -> impl Strategy<Value = Vec<u8>> {
    let status = prop_oneof![Just(200_u16), Just(206), Just(416), Just(302), 100_u16..1000];
    let body = prop_oneof![Just(b"right".to_vec()), prop::collection::vec(any::<u8>(), 0..40)];
    (status, prop::collection::vec(line(), 0..4), body).prop_map(|(status, lines, body)| {
        let head = lines.iter().fold(format!("HTTP/1.1 {status} X\r\n"), |head, line| head + line + "\r\n");
        [head.as_bytes(), b"\r\n", &body].concat()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_answer_is_too_strange(replies in prop::collection::vec(reply(), 1..5)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let kit = Kit::with(Rules { max_redirects: 2, retries: 3, ..rules() }).await;
            kit.server.on("/a", move |request| vec![Act::send(&replies[(request.number - 1) % replies.len()])]);
            let mut wanted = kit.wanted("/a");
            wanted.digests = vec![sha256(b"right")];
            let result = kit.fetch(&wanted).await;
            assert_eq!(result.is_ok(), kit.to().exists(), "{result:?}");
            if result.is_ok() {
                assert_eq!(kit.content(), b"right");
            }
            // Four attempts of three hops each.
            assert!(kit.server.all_requests() <= 12, "{} requests", kit.server.all_requests());
        });
    }
}
