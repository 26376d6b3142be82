//! Every fault is found, at its line and column.

use std::io::{self, BufReader, Read};

use ingest_steps::manifest::{Error, Kind, Limits, Reader, validate, validate_within};
use ingest_steps::outcome::Failure;

use super::{header, manifest, problem, problems};

const MD5: &str = "900150983cd24fb0d6963f7d28e17f72";

#[test]
fn a_manifest_that_was_cut_off_has_no_end() {
    let whole = manifest(Kind::Object, "http://a/1 | | | | | one\nhttp://a/2 | | | | | two");
    assert!(validate(whole.as_bytes()).is_ok());
    // The missing line is the one after the last that is there.
    let cut = whole.strip_suffix("#%eof\n").unwrap();
    assert_eq!(problem(cut, "without `#%eof`"), (6, 1));
    assert_eq!(problem(cut.trim_end(), "without `#%eof`"), (6, 1));
    assert_eq!(problem(whole.strip_suffix("f\n").unwrap(), "without `#%eof`"), (7, 1));
}

#[test]
fn wherever_it_was_cut_off_it_is_corrupt() {
    let whole = manifest(Kind::Object, "http://a/1 | | | | | one\nhttp://a/2 | | | | | two");
    for end in 0..whole.len() - 1 {
        assert!(validate(&whole.as_bytes()[..end]).is_err(), "cut at byte {end}");
    }
}

#[test]
fn the_first_line_must_be_there() {
    let text = manifest(Kind::Object, "http://a/1 | | | | | one");
    let (_, rest) = text.split_once('\n').unwrap();
    assert_eq!(problem(rest, "the first line is `#%checkm_0.7`"), (1, 1));
    let other = text.replace("checkm_0.7", "checkm_0.9");
    assert_eq!(problem(&other, "here it is `#%checkm_0.9`"), (1, 1));
    assert_eq!(problem("", "the manifest is empty"), (1, 1));
    assert_eq!(problem("\n \n", "the manifest is empty"), (1, 1));
}

#[test]
fn a_fault_of_the_header_does_not_hide_those_of_the_rows() {
    let text = manifest(Kind::Object, "http://a/1 | | | x | | one");
    let (_, rest) = text.split_once('\n').unwrap();
    let found = problems(rest);
    assert_eq!(found.iter().map(|p| (p.0, p.1)).collect::<Vec<_>>(), [(1, 1), (3, 18)]);
    assert!(matches!(Reader::open(rest.as_bytes(), Limits::default()), Err(Error::Corrupt(_))));
}

#[test]
fn an_unknown_profile_is_named() {
    let text = "#%checkm_0.7\n#%profile |  http://example.org/mine\nhttp://a | | | x | | \n#%eof\n";
    assert_eq!(problem(text, "`http://example.org/mine` is not known"), (2, 14));
    let near = "#%checkm_0.7\n#%profile | mrt-ingest-manifest\n#%eof\n";
    assert_eq!(problem(near, "`mrt-ingest-manifest` is not known"), (2, 13));
}

#[test]
fn a_manifest_without_a_profile_is_refused_where_its_rows_begin() {
    let text = "#%checkm_0.7\n\nhttp://a | | | | | a\n#%eof\n";
    assert_eq!(problem(text, "no `#%profile` before this line"), (3, 1));
    assert_eq!(problem("#%checkm_0.7\n#%profile\n#%eof\n", "names no profile"), (2, 1));
    let found = problems("#%checkm_0.7\n");
    assert_eq!(found.iter().map(|p| (p.0, p.1)).collect::<Vec<_>>(), [(1, 1), (2, 1)]);
}

#[test]
fn two_profiles_or_two_lists_of_fields_are_refused() {
    let head = header(Kind::Object);
    let mut lines: Vec<_> = head.lines().collect();
    lines.extend([lines[1], lines[2], "http://a | | | | | a", "#%eof"]);
    let found = problems(lines.join("\n"));
    assert_eq!(found.iter().map(|p| (p.0, p.1)).collect::<Vec<_>>(), [(4, 1), (5, 1)]);
    assert!(found[0].2.contains("the first is on line 2"));
    let late = manifest(Kind::Object, "http://a | | | | | a\n#%fields | nfo:fileName | nfo:fileUrl");
    assert_eq!(problem(&late, "before the first row"), (5, 1));
}

#[test]
fn fields_without_a_url_or_a_name_are_refused() {
    let profile = Kind::Object.profile();
    let text = format!("#%checkm_0.7\n#%profile | {profile}\n#%fields | nfo:fileUrl\nhttp://a\n#%eof\n");
    assert_eq!(problem(&text, "has no nfo:fileName"), (3, 1));
}

#[test]
fn a_row_has_a_url_and_a_name() {
    let text = manifest(Kind::Object, " | | | | | name\n @ | | | | | other");
    assert_eq!(problems(&text).iter().map(|p| (p.0, p.1)).collect::<Vec<_>>(), [(4, 1), (5, 2)]);
    assert!(problems(&text).iter().all(|p| p.2.contains("no URL (nfo:fileUrl)")));
    // The empty field begins behind its pipe; one that is not there, at the end of the line.
    assert_eq!(problem(manifest(Kind::Object, "http://a | | | | | | x"), "no file name"), (4, 19));
    assert_eq!(problem(manifest(Kind::Object, "http://a"), "no file name"), (4, 9));
    let nothing = problems(manifest(Kind::Object, "| | |"));
    assert_eq!(nothing.iter().map(|p| (p.0, p.1)).collect::<Vec<_>>(), [(4, 1), (4, 6)]);
}

#[test]
fn a_url_has_no_control_characters_and_begins_as_one() {
    for url in ["http://a/b\rc", "http://a/b\tc", "http://a/b\u{1b}c", "@@http://a", "@#a"] {
        let text = manifest(Kind::Object, &format!("{url} | | | | | name"));
        let found = problems(&text);
        assert_eq!(found.iter().map(|p| (p.0, p.1)).collect::<Vec<_>>(), [(4, 1)], "{url:?}");
        assert!(found[0].2.contains("a URL "), "{found:?}");
    }
}

#[test]
fn columns_count_characters_and_not_bytes() {
    assert_eq!(problem(manifest(Kind::Object, "http://é/ü | | | ten | | n"), "no number"), (4, 18));
}

#[test]
fn an_unknown_algorithm_is_named() {
    let text = manifest(Kind::Object, &format!("http://a | whirlpool | {MD5} | | | a"));
    assert_eq!(problem(text, "`whirlpool` is no digest algorithm"), (4, 12));
}

#[test]
fn a_digest_has_the_length_of_its_algorithm_and_hex_digits() {
    let text = manifest(Kind::Object, &format!("http://a | sha-256 | {MD5} | | | a"));
    assert_eq!(problem(text, "a sha-256 digest has 64 hex digits"), (4, 22));
    let text = manifest(Kind::Object, "http://a | crc32 | 3524zzzz | | | a");
    assert_eq!(problem(text, "`3524zzzz` is not hexadecimal"), (4, 20));
}

#[test]
fn half_a_digest_is_refused() {
    let text = manifest(Kind::Object, "http://a | md5 | | | | a");
    assert_eq!(problem(text, "`md5` without a digest"), (4, 12));
    let text = manifest(Kind::Object, &format!("http://a | | {MD5} | | | a"));
    assert_eq!(problem(text, "without its algorithm"), (4, 14));
}

#[test]
fn a_size_is_a_number() {
    for (size, says) in [
        ("ten", "`ten` is no number"),
        ("-1", "no number"),
        ("+1", "no number"),
        ("1.5", "no number"),
        ("1,000", "no number"),
        ("18446744073709551616", "too large"),
    ] {
        let text = manifest(Kind::Object, &format!("http://a | | | {size} | | a"));
        assert_eq!(problem(text, says), (4, 16));
    }
}

#[test]
fn two_files_of_one_object_have_two_names() {
    let rows = "http://a/1 | | | | | a b\nhttp://a/2 | | | | | c\nhttp://a/3 | | | | |  a%20b";
    assert_eq!(problem(manifest(Kind::Object, rows), "`a b` is on line 4 already"), (6, 23));
    for kind in [Kind::Batch, Kind::ContainerBatch, Kind::SingleFileBatch] {
        assert!(validate(manifest(kind, "http://a | | | | | a\nhttp://a | | | | | a").as_bytes()).is_ok());
    }
}

#[test]
fn a_file_of_an_object_is_not_a_directory_too() {
    let rows = "http://a/1 | | | | | a/b/c\nhttp://a/2 | | | | | d\nhttp://a/3 | | | | | ./a/b";
    let why = "`./a/b` is a directory of the name on line 4; it cannot be a file too";
    assert_eq!(problem(manifest(Kind::Object, rows), why), (6, 22));
    let rows = "http://a/1 | | | | | a%20b\nhttp://a/2 | | | | | a b/c/d";
    let why = "`a b/c/d` lies below the file on line 4, which cannot be a directory too";
    assert_eq!(problem(manifest(Kind::Object, rows), why), (5, 22));
    let rows = "http://a/1 | | | | | a/b\nhttp://a/2 | | | | | a-b\nhttp://a/3 | | | | | a/c\nhttp://a/4 | | | | | b";
    assert!(validate(manifest(Kind::Object, rows).as_bytes()).is_ok());
    for kind in [Kind::Batch, Kind::ContainerBatch, Kind::SingleFileBatch] {
        assert!(validate(manifest(kind, "http://a | | | | | a\nhttp://a | | | | | a/b").as_bytes()).is_ok());
    }
}

#[test]
fn a_name_is_seen_twice_even_if_its_row_has_another_fault() {
    let rows = "http://a/1 | | | x | | a\nhttp://a/2 | | | y | | a";
    let found = problems(manifest(Kind::Object, rows));
    assert_eq!(found.iter().map(|p| (p.0, p.1)).collect::<Vec<_>>(), [(4, 18), (5, 18), (5, 24)]);
}

#[test]
fn a_name_that_leaves_the_object_is_refused() {
    for name in ["../a", "a/../../b", "/etc/passwd", "a/", ".."] {
        for kind in Kind::ALL {
            let text = manifest(kind, &format!("http://a | | | | | {name}"));
            assert_eq!(problem(text, "the file name `"), (4, 20), "{name}");
        }
    }
}

#[test]
fn all_faults_are_told_in_the_order_of_their_places() {
    let rows = "\n| foo | ab | 1x\nhttp://a | | | | | fine\nhttp://b | md5 | 00 | | | b";
    let found = problems(manifest(Kind::Object, rows).replace("#%eof", ""));
    let places: Vec<_> = found.iter().map(|p| (p.0, p.1)).collect();
    assert_eq!(places, [(5, 1), (5, 3), (5, 14), (5, 16), (7, 18), (9, 1)]);
}

#[test]
fn after_a_hundred_faults_the_others_are_counted() {
    let text = manifest(Kind::Object, &"http://a\n".repeat(250));
    let Err(Error::Corrupt(found)) = validate(text.as_bytes()) else { panic!() };
    assert_eq!((found.list().len(), found.more()), (100, 150));
    assert!(found.to_string().ends_with("\nand 150 more"));
    let json = serde_json::to_value(&found).unwrap();
    assert_eq!(json.as_array().unwrap().len(), 101);
    assert_eq!((&json[0]["line"], &json[0]["column"]), (&4.into(), &9.into()));
    assert!(json[0]["problem"].as_str().unwrap().contains("no file name"));
    assert_eq!(json[100], serde_json::json!({"line": 104, "column": 9, "problem": "and 150 more"}));
    let limits = Limits { problems: 3, ..Limits::default() };
    let Err(Error::Corrupt(found)) = validate_within(text.as_bytes(), limits) else { panic!() };
    assert_eq!((found.list().len(), found.more()), (3, 247));
}

#[test]
fn rows_behind_the_end_are_not_lost_without_a_word() {
    let one = manifest(Kind::Object, "http://a | | | | | a");
    assert!(validate(format!("{one}\n\n# made by hand\n").as_bytes()).is_ok());
    assert_eq!(problem(format!("{one}{one}"), "more after `#%eof`"), (9, 1));
}

#[test]
fn a_manifest_without_rows_is_refused() {
    assert_eq!(problem(format!("{}#%eof\n", header(Kind::Batch)), "has no rows"), (4, 1));
}

#[test]
fn a_faulty_row_does_not_end_the_reading() {
    let text = manifest(Kind::Object, "http://a\nhttp://b | | | | | b");
    let mut reader = Reader::open(text.as_bytes(), Limits::default()).unwrap();
    assert!(matches!(reader.next(), Some(Err(Error::Corrupt(_)))));
    assert_eq!(reader.line(), 4);
    assert_eq!(reader.next().unwrap().unwrap().name, "b");
    assert_eq!(reader.line(), 5);
    assert!(reader.next().is_none());
    assert!(reader.next().is_none());
}

/// Fails after what it has.
struct Broken<'a>(&'a [u8]);

impl Read for Broken<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.0.read(buffer)? {
            0 => Err(io::Error::other("the disk is gone")),
            count => Ok(count),
        }
    }
}

#[test]
fn a_manifest_that_cannot_be_read_is_not_called_corrupt() {
    let text = format!("{}http://a | | | | | a\nhttp://b", header(Kind::Object));
    let error = validate(BufReader::new(Broken(text.as_bytes()))).unwrap_err();
    assert!(matches!(error, Error::Unreadable { line: 4, .. }), "{error:?}");
    assert!(matches!(Failure::from(error), Failure::Later(why) if why.contains("the disk is gone")));
    let mut reader = Reader::open(BufReader::new(Broken(text.as_bytes())), Limits::default()).unwrap();
    assert!(reader.next().unwrap().is_ok());
    assert!(matches!(reader.next(), Some(Err(Error::Unreadable { .. }))));
    assert!(reader.next().is_none());
    assert!(matches!(
        Reader::open(BufReader::new(Broken(b"#%checkm_0.7\n")), Limits::default()),
        Err(Error::Unreadable { .. })
    ));
}

#[test]
fn a_corrupt_manifest_is_hopeless_and_says_where() {
    let error = validate(manifest(Kind::Object, "http://a").as_bytes()).unwrap_err();
    let Failure::Hopeless(why) = Failure::from(error) else { panic!() };
    assert!(why.starts_with("line 4, column 9: the row has no file name"), "{why}");
}

#[test]
fn a_value_behind_the_last_column_is_a_fault_and_empty_ones_are_none() {
    let of = |kind: Kind, row: &str| manifest(kind, row);
    assert_eq!(
        problem(
            of(Kind::Object, "http://a | | | | | a | | more | | and more | |"),
            "the row has 10 columns, and `#%fields` declares 7: `more` would be lost"
        ),
        (4, 26)
    );
    assert_eq!(
        problem(
            of(Kind::Batch, "http://a|||||a|||||2001| x"),
            "the row has 12 columns, and `#%fields` declares 11"
        ),
        (4, 26)
    );
    // A pipe at the end of the fields declares nothing.
    let piped = of(Kind::Object, "http://a|||||a||x").replace("mrt:mimeType\n", "mrt:mimeType | |\n");
    assert_eq!(problem(piped, "the row has 8 columns, and `#%fields` declares 7"), (4, 17));
    // Without fields the columns of the profile count, with the twelve that may follow them.
    let bare = format!(
        "#%checkm_0.7\n#%profile | {}\nhttp://a|||||a{} x\n#%eof\n",
        Kind::Batch.profile(),
        "|".repeat(18)
    );
    assert_eq!(
        problem(bare, "the row has 24 columns, and a mrt-batch-manifest without `#%fields` has 23").0,
        3
    );
    // It is told with what else is wrong with the row, and in every row.
    let found = problems(of(Kind::Object, "| | | x | | a | | y\nhttp://b | | | | | b | | z"));
    let says: Vec<_> =
        found.iter().map(|(line, _, why)| (*line, why.split(['`', ',']).next().unwrap())).collect();
    assert_eq!(
        says,
        [
            (4, "the row has no URL (nfo:fileUrl); every row needs one"),
            (4, "the size "),
            (4, "the row has 8 columns"),
            (5, "the row has 8 columns")
        ]
    );
    assert!(problems(of(Kind::Object, &format!("http://a|||||a||{}", "x".repeat(500))))[0].2.len() < 300);
}
