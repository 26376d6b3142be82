//! What is written is well formed, and nothing is lost without a word.

use ingest_steps::digest::{Algorithm, Digest};
use ingest_steps::manifest::write::NotWritten;
use ingest_steps::manifest::{Column, Kind, Row, Term, Writer};

use super::read;

fn file(name: &str) -> Row {
    Row { url: "http://a/b".into(), name: name.into(), ..Row::default() }
}

fn refused(kind: Kind, row: &Row) -> String {
    let mut writer = Writer::begin(Vec::new(), kind).unwrap();
    let error = writer.row(row).unwrap_err();
    assert!(matches!(error, NotWritten::Refused { .. }));
    // Nothing of it is there, and the next one is written.
    writer.row(&file("next")).unwrap();
    assert_eq!(read(writer.finish().unwrap()), [file("next")]);
    error.to_string()
}

#[test]
fn a_manifest_is_written_as_the_specification_says() {
    let mut writer = Writer::begin(Vec::new(), Kind::Object).unwrap();
    let digest = Digest::new(Algorithm::Sha256, &"AB".repeat(32)).unwrap();
    let full =
        Row { digest: Some(digest), size: Some(5), mime_type: Some("text/plain".into()), ..file("a b|c") };
    writer.row(&full).unwrap();
    writer.row(&file("d")).unwrap();
    let text = String::from_utf8(writer.finish().unwrap()).unwrap();
    let expected = format!(
        "#%checkm_0.7\n\
         #%profile | http://uc3.cdlib.org/registry/ingest/manifest/mrt-ingest-manifest\n\
         #%prefix | mrt: | http://merritt.cdlib.org/terms#\n\
         #%prefix | nfo: | http://www.semanticdesktop.org/ontologies/2007/03/22/nfo#\n\
         #%fields | nfo:fileUrl | nfo:hashAlgorithm | nfo:hashValue | nfo:fileSize | nfo:fileLastModified \
         | nfo:fileName | mrt:mimeType\n\
         http://a/b | sha-256 | {} | 5 |  | a b%7cc | text/plain\n\
         http://a/b |  |  |  |  | d\n\
         #%eof\n",
        "ab".repeat(32)
    );
    assert_eq!(text, expected);
}

#[test]
fn a_column_that_is_not_there_is_not_dropped_in_silence() {
    let titled = Row { title: Some("T".into()), ..file("a") };
    let error = refused(Kind::Object, &titled);
    assert_eq!(error, "row 1, mrt:title: a mrt-ingest-manifest written like this has no such column");
    let mut writer = Writer::begin_with(Vec::new(), Kind::Object, &[Column::Title]).unwrap();
    writer.row(&titled).unwrap();
    assert_eq!(read(writer.finish().unwrap()), [titled]);
    let about = Row { dublin_core: [(Term::Subject, "S".to_owned())].into(), ..file("a") };
    assert!(refused(Kind::Batch, &about).contains("mrt:subject"));
}

#[test]
fn a_url_that_would_break_its_row_is_refused() {
    for url in ["", "http://a|b", "http://a\nb", "#a", "@http://a", " http://a", "http://a\0"] {
        let error = refused(Kind::Object, &Row { url: url.into(), ..file("a") });
        assert!(error.starts_with("row 1, nfo:fileUrl: "), "{error}");
    }
}

#[test]
fn a_name_that_would_not_be_read_is_refused() {
    for name in ["", "../a", "/a", "a/", "a\0"] {
        assert!(refused(Kind::Object, &file(name)).starts_with("row 1, nfo:fileName: "));
    }
    let mut writer = Writer::begin(Vec::new(), Kind::Object).unwrap();
    writer.row(&file("a")).unwrap();
    assert!(
        writer.row(&file("./a")).unwrap_err().to_string().contains("row 2, nfo:fileName: `./a` is there")
    );
    let mut writer = Writer::begin(Vec::new(), Kind::Batch).unwrap();
    writer.row(&file("a")).unwrap();
    writer.row(&file("a")).unwrap();
}

#[test]
fn a_row_that_no_reader_takes_is_not_written() {
    assert!(refused(Kind::Object, &file(&"x".repeat(70_000))).contains("longer than 65536 bytes"));
}

#[test]
fn without_its_end_a_manifest_is_not_whole() {
    let mut out = Vec::new();
    let mut writer = Writer::begin(&mut out, Kind::Object).unwrap();
    writer.row(&file("a")).unwrap();
    drop(writer);
    assert_eq!(super::problem(out, "without `#%eof`"), (7, 1));
}
