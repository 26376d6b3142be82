//! Manifests inside a submission.

use ingest_steps::manifest::Row;
use ingest_steps::manifest::inline::{Problems, rows};
use serde_json::json;

fn errors(manifest: &serde_json::Value) -> Vec<String> {
    let Problems(list) = rows(manifest).unwrap_err();
    list.iter().map(ToString::to_string).collect()
}

#[test]
fn objects_and_texts_become_rows() {
    let found = rows(&json!([
        {"url": "https://a/dir/b%20c.zip?x=1", "local_id": ["one", "two;2", "one", " "], "primary_id": "ark:/1/2"},
        {"url": "https://a/", "local_id": "one", "primary_id": null},
        {"url": "@https://a/x"},
        "https://a/b.zip",
        "https://a/b.zip  one;two%sc2;one",
        "https://a/b.zip one ark:/13030/m5rn35s8",
    ]))
    .unwrap();
    let first = Row {
        url: "https://a/dir/b%20c.zip?x=1".into(),
        name: "b c.zip".into(),
        local_ids: vec!["one".into(), "two;2".into()],
        primary_id: Some("ark:/1/2".into()),
        ..Row::default()
    };
    assert_eq!(found[0], first);
    assert_eq!((found[1].name.as_str(), &found[1].local_ids[..]), ("payload", &["one".to_owned()][..]));
    assert_eq!(found[2].url, "https://a/x");
    assert_eq!((found[3].local_ids.len(), &found[3].primary_id), (0, &None));
    assert_eq!(found[4].local_ids, ["one", "two;2"]);
    assert_eq!(found[5].primary_id.as_deref(), Some("ark:/13030/m5rn35s8"));
}

#[test]
fn every_entry_that_is_wrong_is_named_by_its_index() {
    let found = errors(&json!([
        "https://a/fine",
        7,
        {"local_id": ["a"]},
        {"url": "no url"},
        {"url": "https://a", "localid": "a"},
        {"url": "https://a", "local_id": [1]},
        {"url": 5},
        "",
        "https://a one two",
        "https://a one ark:/1/2 more",
        "https://a ark:/1/2",
    ]));
    let expected = [
        (1, "an entry is an object"),
        (2, "there is no url"),
        (3, "`no url` is no URL"),
        (4, "`localid` is not known; known are url, local_id, primary_id, key"),
        (5, "local_id is a list of texts, and `1` is none"),
        (6, "url is a text"),
        (7, "the text is empty"),
        (8, "the third part, `two`, is no ARK"),
        (9, "has 4 parts"),
        (10, "use an object with primary_id"),
    ];
    assert_eq!(found.len(), expected.len());
    for (found, (index, says)) in found.iter().zip(expected) {
        assert!(found.starts_with(&format!("manifest[{index}]: ")) && found.contains(says), "{found}");
    }
}

#[test]
fn a_key_that_comes_twice_is_an_error_and_names_the_first() {
    let entry = |key: &str| json!({"url": "https://a/x", "key": key});
    let found = rows(&json!([entry("a"), "https://a/y", entry("b")])).unwrap();
    let keys: Vec<_> = found.iter().map(|row| row.key.as_deref()).collect();
    assert_eq!(keys, [Some("a"), None, Some("b")]);
    let twice = errors(
        &json!([entry("a"), entry("b"), entry("a"), entry("a"), entry(""), {"url": "https://a", "key": 5}]),
    );
    let expected = [
        "manifest[2]: its key `a` is that of manifest[0]",
        "manifest[3]: its key `a` is that of manifest[0]",
        "manifest[4]: a key has 1 to 1024 bytes",
        "manifest[5]: key is a text",
    ];
    assert_eq!(twice.len(), expected.len(), "{twice:?}");
    for (found, says) in twice.iter().zip(expected) {
        assert!(found.starts_with(says), "{found}");
    }
}

#[test]
fn what_is_no_list_or_an_empty_one_is_refused() {
    assert!(errors(&json!({"url": "https://a"}))[0].starts_with("manifest: it is a list"));
    assert!(errors(&json!([]))[0].contains("nothing to take in"));
}

#[test]
fn problems_are_machine_readable_and_bounded() {
    let error = rows(&json!(vec![1; 250])).unwrap_err();
    let json = serde_json::to_value(&error).unwrap();
    assert_eq!(json.as_array().unwrap().len(), 101);
    assert_eq!(json[99]["index"], 99);
    assert_eq!(json[100], json!({"problem": "and 150 more"}));
}

#[test]
fn a_url_does_not_make_a_name_that_leaves_the_directory() {
    for url in ["https://a/..%2f..%2fetc", "https://a/%2e%2e", "https://a/b%00", "https://a/%ff", "mailto:a"]
    {
        assert_eq!(rows(&json!([url])).unwrap()[0].name, "payload", "{url}");
    }
}
