use proptest::prelude::*;

use super::*;

fn same(one: &str, other: &str) {
    assert_eq!(template(one), template(other));
    assert_eq!(GroupKey::of(one), GroupKey::of(other), "{one} / {other}");
}

fn differ(one: &str, other: &str) {
    assert_ne!(GroupKey::of(one), GroupKey::of(other), "{one} / {other}: {}", template(one));
}

#[test]
fn the_template_is_as_documented() {
    for (reason, expected) in [
        ("", ""),
        (
            "http://a.example.org/x?y=(1): the server answers 404 Not Found",
            "<url>: the server answers 404 Not Found",
        ),
        (
            "producer/my map (1).tif: http://a/b: the server answers 404 Not Found",
            "<path>: <url>: the server answers 404 Not Found",
        ),
        ("(producer/map.tif) is not there: it is gone", "(<path>) is not there: it is gone"),
        (
            "/srv/store: No space left, and 3/4 of ark:/99999/fk4x",
            "/srv/store: No space left, and # of ark:#",
        ),
        ("`a b.tif` changed while it was stored", "`<name>` changed while it was stored"),
        ("member \"a \\\" b\" is refused: it doesn't fit", "member \"<name>\" is refused: it doesn't fit"),
        ("'a' isn't there", "'<name>' isn't there"),
        ("the size `x is no number", "the size `x is no number"),
        ("job jid0000000007 of  bid0000000001,\tattempt 12", "job # of #, attempt #"),
        ("1,234 bytes announced, 999 came after 1m 30s at 10:00", "# bytes announced, # came after # at #"),
        (
            "/work/jid0000000001/x: No space left on device (os error 28)",
            "#: No space left on device (os error #)",
        ),
        ("line 404: no URL", "line #: no URL"),
        ("HTTP 599, status 599 <unknown status code>", "HTTP 599, status 599 <unknown status code>"),
        ("600 Files, 404 files", "# Files, # files"),
        ("the bag is incomplete: `a`, `b`, `c`; and 12 more", "the bag is incomplete: `<name>`"),
        ("line 1: no URL\nline 2: no URL\n\nline 3: no size\nand 7 more", "line #: no URL\nline #: no size"),
    ] {
        assert_eq!(template(reason), expected, "{reason}");
    }
}

#[test]
fn reasons_that_differ_in_numbers_urls_ids_and_names_are_one_group() {
    same(
        "http://a.example.org/x: the server answers 404 Not Found (attempt 3)",
        "https://b.example.org:8443/y/z?q=1: the server answers 404 Not Found (attempt 12)",
    );
    same("producer/map.tif: http://a/b: 404 Not Found", "producer/a b c.tif: http://c/d: 404 Not Found");
    same("`a` is there twice", "`another name.tif` is there twice");
    same("the bag is incomplete: `a`", "the bag is incomplete: `b`, `c`");
    same("the bag is incomplete: `a`, `b`", "the bag is incomplete: `a`, `b`, `c`, `d`; and 9 more");
    same("line 1: no URL\nline 2: no URL", "line 1: no URL\nline 2: no URL\nline 3: no URL\nand 3 more");
}

#[test]
fn reasons_that_differ_in_words_or_in_status_codes_are_different_groups() {
    let answers = |what: &str| format!("http://a.example.org/x: the server answers {what}");
    differ(&answers("404 Not Found"), &answers("403 Forbidden"));
    differ(&answers("597 <unknown status code>"), &answers("598 <unknown status code>"));
    differ("", "no room");
    // It is not the beginning that counts.
    let long = "word ".repeat(1_000);
    differ(&format!("{long} one"), &format!("{long} other"));
}

#[test]
fn a_reason_that_is_cut_stays_in_its_group_wherever_it_is_cut() {
    let reason = |name: &str, end: &str| format!("`{name}` {} {end}", "is wrong and ".repeat(2_000));
    let (one, other) = (reason("a", "ends so"), reason(&"ü".repeat(77), "ends so"));
    for whole in [&one, &other] {
        let kept = shortened(whole);
        assert!(kept.len() < MAX_REASON + 100, "{}", kept.len());
        assert!(
            kept.contains(&format!("… ({} bytes, group g1-", whole.len())),
            "{}",
            &kept[MAX_REASON - 10..]
        );
        assert_eq!(GroupKey::of(&kept), GroupKey::of(&one));
        assert_eq!(GroupKey::of(&shortened(&kept)), GroupKey::of(&one), "cut once more");
    }
    differ(&shortened(&one), &shortened(&reason("a", "ends otherwise")));
    assert_eq!(shortened("short"), "short");
}

#[test]
fn what_looks_like_a_kept_key_counts_only_behind_a_cut() {
    let key = GroupKey::of("no room");
    differ(&format!("x… (20000 bytes, group {key})"), "no room");
    // As an earlier version has cut it.
    let earlier = format!("{}… (20000 bytes)", "x ".repeat(MAX_REASON / 2));
    assert_eq!(kept_key(&earlier), None);
}

#[test]
fn a_key_is_read_as_it_is_written_and_stays_as_it_is() {
    // Keys stand in scripts and bookmarks: whoever changes the rules changes the version.
    assert_eq!(GroupKey::of("").to_string(), "g1-e3b0c44298fc1c14");
    let key = GroupKey::of("http://a/b: the server answers 403 Forbidden");
    assert_eq!(key.to_string().parse(), Ok(key));
    assert_eq!(serde_json::from_str::<GroupKey>(&serde_json::to_string(&key).unwrap()).unwrap(), key);
    for wrong in
        ["", "g1-", "g2-e3b0c44298fc1c14", "g1-E3B0C44298FC1C14", "g1-e3b0c44298fc1c1", "g1-+3b0c44298fc1c14"]
    {
        let error = wrong.parse::<GroupKey>().unwrap_err().to_string();
        assert!(error.contains("ingestd job reasons"), "{error}");
    }
}

#[test]
fn a_reason_full_of_marks_is_read_in_one_pass() {
    for mark in ["`", "\"", "' ", "\\\"", "a://", "1,", "x ", "a/ ", "a,", "a/b: ", "a/b: c:// "] {
        let reason = format!(" {}", mark.repeat((1 << 20) / mark.len()));
        assert!(!template(&reason).is_empty());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_has_a_template_and_the_number_in_it_does_not_matter(
        before in "[ -~äß…\\n]{0,60}", one in 1_000_u32.., other in 1_000_u32.., after in "[ -~äß…\\n]{0,60}",
    ) {
        let with = |number: u32| format!("{before} {number} {after}");
        prop_assert_eq!(GroupKey::of(&with(one)), GroupKey::of(&with(other)));
    }
}
