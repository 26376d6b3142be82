//! The real manifests with payloads of ours, and what becomes of them.

use ingest_steps::digest::Algorithm;
use ingest_steps::manifest::{Limits, Reader};
use ingest_steps::outcome::{Cancel, Progress};
use ingest_steps::step::check;
use ingest_steps::step::expand::{self, Expansion};

use crate::expand::{jobs_of, pending, submission};
use crate::kit::fixture::{Fixture, MANIFESTS, rewrite};
use crate::kit::{FileServer, Stage, digest};
use crate::tree::Tree;

/// Without the host of its URL.
fn path(url: &str) -> String {
    url.trim().splitn(4, '/').nth(3).unwrap().to_owned()
}

fn space(field: &str) -> (&str, &str) {
    let start = field.len() - field.trim_start().len();
    (&field[..start], &field[field.trim_end().len().max(start)..])
}

/// Nothing but the host of the URL, the digest and the size is another, and none of them where there was none.
fn assert_only_hosts_and_digests_differ(before: &str, after: &str, server: &FileServer) {
    let (old, new): (Vec<_>, Vec<_>) = (before.split('\n').collect(), after.split('\n').collect());
    assert_eq!(old.len(), new.len());
    for (old, new) in old.into_iter().zip(new) {
        if old.starts_with('#') || old.trim().is_empty() {
            assert_eq!(old, new);
            continue;
        }
        let (old, new): (Vec<_>, Vec<_>) = (old.split('|').collect(), new.split('|').collect());
        assert_eq!(old.len(), new.len());
        for (column, (old, new)) in old.into_iter().zip(new).enumerate() {
            assert_eq!(space(old), space(new), "the space around stays");
            match column {
                0 => {
                    assert_eq!(path(old), path(new));
                    assert!(new.trim().starts_with(server.url("/").as_str()), "{new}");
                }
                2 | 3 if !old.trim().is_empty() => {
                    let upper = |text: &str| text.chars().any(|c| c.is_ascii_uppercase());
                    assert_eq!((upper(old), column == 3 || old.len() == new.len()), (upper(new), true));
                }
                _ => assert_eq!(old, new),
            }
        }
    }
}

#[tokio::test]
async fn only_hosts_and_digests_are_rewritten() {
    let server = FileServer::start().await;
    for (name, _) in MANIFESTS {
        let fixture = Fixture::new(name, &server);
        if name.contains("dataone") {
            assert_eq!(fixture.before, fixture.after, "no manifest of ours: it stays as it is");
            continue;
        }
        assert_ne!(fixture.before, fixture.after, "{name}");
        assert_only_hosts_and_digests_differ(&fixture.before, &fixture.after, &server);
        // What the rows announce is what is served.
        for row in Reader::open(fixture.after.as_bytes(), Limits::default()).unwrap() {
            let row = row.unwrap();
            let content = reqwest::get(&row.url).await.unwrap().bytes().await.unwrap();
            if let Some(announced) = row.digest {
                assert_eq!(digest(announced.algorithm(), &content), announced, "{}", row.url);
            }
        }
    }
}

#[tokio::test]
async fn sizes_odd_spaces_and_line_ends_are_kept() {
    let server = FileServer::start().await;
    let text = "#%checkm_0.7\r\n#%profile | http://uc3.cdlib.org/registry/ingest/manifest/mrt-ingest-manifest\r\n\
        #%fields | nfo:fileurl | nfo:hashAlgorithm | nfo:hashValue | nfo:fileSize | nfo:fileLastModified | nfo:fileName\r\n\
        \r\n  http://u.example.org:81/a/b?c=1#d|SHA-512 |\t0000  |7|then | b |extra||\r\n# a remark\n\
        https://example.org/c |  |  |  |  | c\n#%eof";
    let after = rewrite(text, &server);
    assert_only_hosts_and_digests_differ(
        text,
        &after.replacen(digest(Algorithm::Sha512, b"this is the file of /a/b\n").hex(), "0000", 1),
        &server,
    );
    assert!(after.contains("/a/b?c=1#d|SHA-512 |\t"), "{after}");
    assert!(after.contains("  |25|then | b |extra||\r\n"), "{after}");
}

#[tokio::test]
async fn each_real_manifest_becomes_its_number_of_jobs() {
    let tree = Tree::embedded();
    let stage = Stage::new(&tree.session().await).await;
    let server = FileServer::start().await;
    for (name, objects) in MANIFESTS {
        let fixture = Fixture::new(name, &server);
        let (bid, mut lease) = pending(&stage, &submission(fixture.url.as_str())).await;
        let (progress, cancel) = (Progress::default(), Cancel::new());
        let answer =
            expand::run(&stage.queue, &mut lease, &stage.services, &progress, &cancel).await.unwrap();
        assert_eq!(answer, Expansion::Done { jobs: objects as u64 }, "{name}");
        stage.queue.release_batch(&mut lease).await.unwrap();
        let jids = jobs_of(&stage, bid).await;
        assert_eq!(jids.len(), objects, "{name}");
        for jid in jids {
            let mut lease = stage.take(jid).await;
            let mut task = stage.task(&mut lease).await;
            check::run(&mut task, &stage.services).await.unwrap();
            drop(task);
            stage.queue.give_back(&mut lease, None).await.unwrap();
        }
    }
    stage.fsck().await;
    tree.close().await;
}
