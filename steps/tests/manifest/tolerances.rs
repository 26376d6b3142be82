//! What deployed systems send beside the specification is read.

use ingest_steps::digest::Algorithm;
use ingest_steps::manifest::{Kind, Limits, Reader, Term, validate};

use super::{header, manifest, read, row};

#[test]
fn algorithms_come_in_any_spelling_and_hex_in_any_case() {
    for (name, digits, algorithm) in [
        ("md5", 32, Algorithm::Md5),
        ("MD5", 32, Algorithm::Md5),
        ("SHA256", 64, Algorithm::Sha256),
        ("sha-256", 64, Algorithm::Sha256),
        ("Sha-256", 64, Algorithm::Sha256),
        ("SHA-512", 128, Algorithm::Sha512),
        ("sha1", 40, Algorithm::Sha1),
    ] {
        let row = row(&format!("http://a | {name} | {} | | | a", "AB".repeat(digits / 2)));
        let digest = row.digest.unwrap();
        assert_eq!((digest.algorithm(), digest.hex()), (algorithm, "ab".repeat(digits / 2).as_str()));
    }
}

#[test]
fn either_line_end_blank_lines_remarks_and_no_last_newline() {
    let text = manifest(Kind::Object, "\n# by hand\nhttp://a | | | 5 | | a\n  \t\nhttp://b | | | | | b");
    let plain = read(&text);
    assert_eq!(plain.len(), 2);
    assert_eq!(read(text.replace('\n', "\r\n")), plain);
    assert_eq!(read(text.trim_end()), plain);
    assert_eq!(read(format!("\n\r\n{text}")), plain);
    assert_eq!(read(format!("\u{feff}{text}")), plain);
}

#[test]
fn fields_are_known_in_any_case_and_under_any_prefix() {
    let text = "#%CHECKM_0.7\n#%Profile|http://uc3.cdlib.org/registry/ingest/manifest/mrt-ingest-manifest\n\
        #%prefix | x: | http://example.org/other#\n\
        #%Fields | x:filename | NFO:FILEURL | fileSize | mrt:unheard | x:mimetype\n\
        a | http://a | 7 | ignored | text/plain\n#%EOF\n";
    let rows = read(text);
    assert_eq!((rows[0].url.as_str(), rows[0].name.as_str(), rows[0].size), ("http://a", "a", Some(7)));
    assert_eq!(rows[0].mime_type.as_deref(), Some("text/plain"));
}

#[test]
fn the_merritt_prefix_may_have_another_uri() {
    let text = manifest(Kind::Batch, "http://a | | | | | a | | id");
    let text = text.replace("#%fields", "#%prefix | mrt: | http://uc3.cdlib.org/ontology/mom#\n#%fields");
    assert_eq!(read(text)[0].local_ids, ["id"]);
}

#[test]
fn without_fields_the_order_is_that_of_the_profile() {
    let bare = |kind: Kind, row: &str| {
        read(format!("#%checkm_0.7\n#%profile | {}\n{row}\n#%eof\n", kind.profile())).remove(0)
    };
    let file = bare(Kind::Object, "http://a | | | 3 | then | a | text/plain");
    assert_eq!((file.size, file.modified.as_deref()), (Some(3), Some("then")));
    assert_eq!(file.mime_type.as_deref(), Some("text/plain"));
    let object = bare(Kind::SingleFileBatch, "http://a|||||a|ark:/1/2|x;y|who|what|when|help| |about");
    assert_eq!(object.primary_id.as_deref(), Some("ark:/1/2"));
    assert_eq!(object.local_ids, ["x", "y"]);
    assert_eq!((object.creator.as_deref(), object.title.as_deref()), (Some("who"), Some("what")));
    assert_eq!(object.date.as_deref(), Some("when"));
    let optional: Vec<_> = object.dublin_core.iter().map(|(term, text)| (*term, text.as_str())).collect();
    assert_eq!(optional, [(Term::Contributor, "help"), (Term::Description, "about")]);
}

#[test]
fn the_twelve_optional_columns_are_found_by_name() {
    let names: Vec<_> = Term::ALL.iter().rev().map(|term| format!("dc:{}", term.name())).collect();
    let texts: Vec<_> = Term::ALL.iter().rev().map(|term| format!("of {}", term.name())).collect();
    let head = header(Kind::Batch);
    let row = format!("http://a | | | | | a | | | | | | {}", texts.join(" | "));
    let rows = read(format!("{} | {}\n{row}\n#%eof\n", head.trim_end(), names.join(" | ")));
    assert_eq!(rows[0].dublin_core.len(), 12);
    for term in Term::ALL {
        assert_eq!(rows[0].dublin_core[&term], format!("of {}", term.name()));
    }
}

#[test]
fn the_first_of_two_columns_with_one_name_counts() {
    let head = header(Kind::Batch);
    let text = format!("{} | dc:title\nhttp://a|||||a||||one||two\n#%eof\n", head.trim_end());
    assert_eq!(read(text)[0].title.as_deref(), Some("one"));
}

#[test]
fn profiles_are_known_under_the_other_registry_too() {
    for (uri, kind) in [
        ("http://uc3.cdlib.org/registry/mrt/mrt-ingest-manifest", Kind::Object),
        ("http://uc3.cdlib.org/registry/mrt/mrt-batch-manifest", Kind::Batch),
        ("https://uc3.cdlib.org/registry/ingest/manifest/mrt-container-batch-manifest", Kind::ContainerBatch),
        (
            "http://uc3.cdlib.org/registry/ingest/manifest/mrt-single-file-batch-manifest",
            Kind::SingleFileBatch,
        ),
    ] {
        let text = format!("#%checkm_0.7\n#%profile | {uri}\nhttp://a | | | | | a\n#%eof\n");
        assert_eq!(Reader::open(text.as_bytes(), Limits::default()).unwrap().kind(), kind);
    }
}

#[test]
fn an_at_sign_before_a_url_is_no_part_of_it() {
    assert_eq!(row("@http://a/b@c | | | | | a").url, "http://a/b@c");
    assert_eq!(row(" @ http://a | | | | | a").url, "http://a");
}

#[test]
fn names_are_decoded_and_urls_are_not() {
    let row = row("http://a/b%20c%7cd | | | | | dir/b%20c%7Cd%2f100%25.txt");
    assert_eq!(row.url, "http://a/b%20c%7cd");
    assert_eq!(row.name, "dir/b c|d%2f100%25.txt");
}

#[test]
fn short_rows_trailing_pipes_and_space_are_fine() {
    let short = row("http://a|||||a");
    assert_eq!(row("\t http://a  |  | | |\t| a  "), short);
    assert_eq!(row("http://a | | | | | a | | | | |"), short);
}

#[test]
fn a_batch_may_hold_the_same_row_twice() {
    let text = manifest(Kind::Batch, "http://a | | | | | a\nhttp://a | | | | | a");
    assert_eq!(read(text).len(), 2);
}

#[test]
fn a_literal_semicolon_is_written_sc() {
    let text = manifest(Kind::Batch, "http://a | | | | | a | | one; two%scb ;one;; three");
    assert_eq!(read(text)[0].local_ids, ["one", "two;b", "three"]);
}

#[test]
fn the_summary_counts_what_is_known() {
    let digest = "00".repeat(16);
    let rows = format!("http://a | | | 5 | | a\nhttp://b | md5 | {digest} | | | b\nhttp://c | | | 7 | | c");
    let summary = validate(manifest(Kind::Object, &rows).as_bytes()).unwrap();
    assert_eq!((summary.kind, summary.rows, summary.bytes), (Kind::Object, 3, 12));
    assert_eq!((summary.rows_with_size, summary.rows_with_digest), (2, 1));
    let huge = format!("http://a | | | {} | | a\nhttp://b | | | 9 | | b", u64::MAX);
    assert_eq!(validate(manifest(Kind::Object, &huge).as_bytes()).unwrap().bytes, u64::MAX);
}

/// What is said of the columns that are not kept.
fn not_kept(text: &str) -> Vec<String> {
    let summary = validate(text.as_bytes()).unwrap();
    let mut reader = Reader::open(text.as_bytes(), Limits::default()).unwrap();
    assert!(reader.by_ref().all(|row| row.is_ok()));
    assert_eq!(reader.not_kept(), summary.not_kept);
    summary.not_kept.iter().map(ToString::to_string).collect()
}

#[test]
fn values_of_columns_that_nothing_is_known_of_are_counted_with_the_reason() {
    let head = header(Kind::Batch);
    let text = format!(
        "{} | mrt:unheard | dc:title | dc:subject | other |\nhttp://a|||||a|||||| x | second | maps\n\
         http://b|||||b|||||| y |  | | z\nhttp://c|||||c\n#%eof\n",
        head.trim_end()
    );
    assert_eq!(
        not_kept(&text),
        [
            "column 12 of the manifest (`mrt:unheard`): 2 values are not kept: no such column is known",
            "column 13 of the manifest (`dc:title`): 1 value is not kept: it is the second column of this name, and the first one counts",
            "column 15 of the manifest (`other`): 1 value is not kept: no such column is known",
        ]
    );
    assert_eq!(read(&text)[0].dublin_core[&Term::Subject], "maps");
    // Where no row has one, nothing is left out.
    assert_eq!(not_kept(&format!("{} | mrt:unheard\nhttp://a|||||a\n#%eof\n", head.trim_end())), [""; 0]);
}

#[test]
fn what_a_file_of_an_object_cannot_have_is_counted_with_the_reason() {
    let head = header(Kind::Object);
    let text =
        format!("{} | mrt:title | dc:subject\nhttp://a|||||a||A title| maps\n#%eof\n", head.trim_end());
    let told = not_kept(&text);
    assert!(
        told[0].starts_with(
            "column 8 of the manifest (`mrt:title`): 1 value is not kept: a file of an object has none"
        ),
        "{told:?}"
    );
    assert!(told[1].starts_with("column 9 of the manifest (`dc:subject`)"), "{told:?}");
    let bare = format!("#%checkm_0.7\n#%profile | {}\nhttp://a|||||a||help\n#%eof\n", Kind::Object.profile());
    assert!(
        not_kept(&bare)[0].starts_with("column 8 of the manifest (`mrt:contributor`)"),
        "{:?}",
        not_kept(&bare)
    );
}
