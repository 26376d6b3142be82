use std::collections::BTreeSet;
use std::path::{Path as FilePath, PathBuf};

use super::*;

fn folder() -> PathBuf {
    FilePath::new(env!("CARGO_MANIFEST_DIR")).join("src/dashboard")
}

fn below(dir: &FilePath, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            below(&path, found);
        } else if path.extension().is_some_and(|kind| kind != "rs") {
            let name = path.strip_prefix(folder()).unwrap();
            found.insert(name.to_str().unwrap().to_owned());
        }
    }
}

#[test]
fn every_file_of_the_folder_is_served() {
    let mut found = BTreeSet::new();
    below(&folder(), &mut found);
    let served: BTreeSet<String> =
        std::iter::once(&INDEX).chain(FILES).map(|file| file.path.to_owned()).collect();
    assert_eq!(found, served);
}

#[test]
fn whatever_the_page_names_is_there_and_every_module_is_named() {
    let named: BTreeSet<&str> =
        INDEX.text.split('"').filter_map(|part| part.strip_prefix("/dashboard/@/")).collect();
    let served: BTreeSet<&str> = FILES.iter().map(|file| file.path).collect();
    assert_eq!(named, served);
}

#[test]
fn data_never_becomes_markup_and_nothing_comes_from_elsewhere() {
    for file in std::iter::once(&INDEX).chain(FILES) {
        for forbidden in [
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "new Function",
            "style=",
            "@import",
        ] {
            assert!(!file.text.contains(forbidden), "{} has {forbidden}", file.path);
        }
        for (at, _) in file.text.match_indices("http") {
            let rest = &file.text[at..];
            let foreign = rest.starts_with("http://") || rest.starts_with("https://");
            // The name of what drawings are made of, and what stands in an empty field.
            let known =
                ["http://www.w3.org/2000/svg", "https://…"].iter().any(|known| rest.starts_with(known));
            assert!(!foreign || known, "{} names {}", file.path, rest.chars().take(40).collect::<String>());
        }
    }
}

#[tokio::test]
async fn the_page_is_asked_for_every_time_and_its_files_once() {
    let page = index(HeaderMap::new()).await;
    assert_eq!(
        (page.status(), &page.headers()[header::CACHE_CONTROL]),
        (StatusCode::OK, &HeaderValue::from_static("no-cache"))
    );
    let mut headers = HeaderMap::new();
    headers.insert(header::IF_NONE_MATCH, page.headers()[header::ETAG].clone());
    assert_eq!(index(headers).await.status(), StatusCode::NOT_MODIFIED);
    let ask = |digest: &str, path: &str| file(Path((digest.to_owned(), path.to_owned())));
    let script = ask(&PAGE.digest, "js/main.js").await;
    assert!(script.headers()[header::CACHE_CONTROL].to_str().unwrap().contains("immutable"));
    assert_eq!(script.headers()[header::CONTENT_TYPE], "text/javascript; charset=utf-8");
    for (digest, path) in [
        ("0123456789abcdef", "js/main.js"),
        (PAGE.digest.as_str(), "js/nothing.js"),
        (PAGE.digest.as_str(), "../dashboard.rs"),
    ] {
        assert_eq!(ask(digest, path).await.status(), StatusCode::NOT_FOUND, "{digest} {path}");
    }
}
