//! Manifests that depositors and services really sent.

use ingest_steps::digest::Algorithm;
use ingest_steps::manifest::{Kind, Limits, Reader, Row, Summary, validate};
use ingest_steps::payload::PayloadKind;

use super::problems;

fn file(name: &str) -> Vec<u8> {
    std::fs::read(format!("{}/tests/data/manifests/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

/// The rows of a file, which is of this kind, also by guess and by [`validate`].
fn rows(name: &str, kind: Kind) -> Vec<Row> {
    let bytes = file(name);
    let reader = Reader::open(&bytes[..], Limits::default()).unwrap();
    assert_eq!(reader.kind(), kind);
    let rows: Vec<_> = reader.collect::<Result<_, _>>().unwrap();
    let summary = validate(&bytes[..]).unwrap();
    let with_digest = rows.iter().filter(|row| row.digest.is_some()).count() as u64;
    // Nothing of what they say is left out.
    let not_kept = Vec::new();
    let expected = Summary {
        kind,
        rows: rows.len() as u64,
        rows_with_size: 0,
        rows_with_digest: with_digest,
        bytes: 0,
        not_kept,
    };
    assert_eq!(summary, expected);
    assert_eq!(PayloadKind::guess(name, &bytes), Ok(PayloadKind::from(kind)));
    rows
}

#[test]
fn the_files_of_an_object_are_read() {
    let rows = rows("merritt-manifest/4blocks.checkm", Kind::Object);
    assert_eq!(rows.len(), 2);
    let first = &rows[0];
    assert_eq!(first.url, "http://merritt.cdlib.org/samples/4blocks.jpg");
    assert_eq!(first.name, "4blocks.jpg");
    assert_eq!(first.digest.as_ref().unwrap().to_string(), "md5 0b21c6d48e815dd537d42dc1cfac0111");
    assert_eq!((first.size, &first.modified, &first.mime_type), (None, &None, &None));
    assert_eq!(rows[1].name, "4blocks.txt");
}

#[test]
fn a_manifest_without_a_last_newline_is_read() {
    let rows = rows("mrt-ingest/mock_object.checkm", Kind::Object);
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0].url, "http://mock-merritt-it:4567/static/hello.txt");
    assert_eq!((rows[0].name.as_str(), &rows[0].digest), ("hello.txt", &None));
}

#[test]
fn a_batch_of_containers_with_crlf_is_read() {
    let rows = rows("merritt-manifest/sampleBatchOfContainers.checkm", Kind::ContainerBatch);
    assert_eq!(rows.len(), 3);
    assert_eq!(rows[0].name, "huskyChicken.zip");
    assert_eq!(rows[0].creator.as_deref(), Some("Tracy Seneca"));
    assert_eq!(rows[0].title.as_deref(), Some("Husky Chicken"));
    assert_eq!(rows[0].date.as_deref(), Some("2009-09-01T00:00:00"));
    assert_eq!(rows[1].creator, None);
    assert_eq!(rows[1].title.as_deref(), Some("The Outdoor Store, Portland OR"));
    assert_eq!((&rows[2].date, &rows[2].primary_id, rows[2].local_ids.len()), (&None, &None, 0));
}

#[test]
fn a_batch_of_files_is_read() {
    let rows = rows("merritt-manifest/sampleBatchOfFiles.checkm", Kind::SingleFileBatch);
    assert_eq!(rows.len(), 3);
    assert_eq!(rows[1].digest.as_ref().unwrap().hex(), "61224ef4f2a8dad552ff57980ed0bf49");
    assert_eq!(rows[1].title.as_deref(), Some("Tumble Bug, Luna Park.  Sydney"));
    assert_eq!(rows[2].digest, None);
    assert_eq!(rows[2].title.as_deref(), Some("General Drapery"));
}

#[test]
fn a_batch_of_manifests_is_read() {
    let rows = rows("merritt-manifest/sampleBatchOfManifests.checkm", Kind::Batch);
    let names: Vec<_> = rows.iter().map(|row| row.name.as_str()).collect();
    assert_eq!(names, ["bigHunt.checkm", "4blocks.checkm", "call911.checkm"]);
    assert_eq!(rows[0].title, None);
    assert_eq!(rows[1].title.as_deref(), Some("Motel Capri - manifest style"));
}

#[test]
fn an_upper_case_digest_is_read() {
    let rows = rows("mrt-ingest/digest_batch.checkm", Kind::ContainerBatch);
    assert_eq!(rows.len(), 1);
    let digest = rows[0].digest.as_ref().unwrap();
    assert_eq!(digest.algorithm(), Algorithm::Sha256);
    assert_eq!(digest.hex(), "80a5b1dd2a8f7a28e817768f8db5ae9098e89d6330b4fd2c2ca3c600d1f97e59");
}

#[test]
fn repeated_local_identifiers_count_once() {
    let files = rows("mrt-ingest/localid2_batch.checkm", Kind::SingleFileBatch);
    assert_eq!(files.len(), 1);
    assert_eq!(files[0].local_ids, ["localidseven", "localideight", "localidnine"]);
    let containers = rows("mrt-ingest/localid_batch.checkm", Kind::ContainerBatch);
    assert_eq!(containers.len(), 1);
    assert_eq!(containers[0].local_ids, ["localidfour", "localidfive", "localidsix"]);
}

#[test]
fn another_profile_is_refused_by_name() {
    let bytes = file("merritt-manifest/mrt-dataone-manifest.txt");
    let found = problems(&bytes);
    assert_eq!(found.len(), 2, "{found:?}");
    assert_eq!((found[0].0, found[0].1), (1, 1));
    assert!(found[0].2.contains("`#%dataonem_0.1`"), "{found:?}");
    assert_eq!((found[1].0, found[1].1), (2, 13));
    let uri = "`http://uc3.cdlib.org/registry/ingest/manifest/mrt-dataone-manifest` is not known";
    assert!(found[1].2.contains(uri), "{found:?}");
    assert!(Reader::open(&bytes[..], Limits::default()).is_err());
    assert_eq!(PayloadKind::guess("mrt-dataone-manifest.txt", &bytes), Ok(PayloadKind::File));
}
