//! What holds for every manifest.

use std::io::BufReader;

use ingest_steps::digest::{Algorithm, Digest};
use ingest_steps::manifest::{Column, Kind, Limits, Reader, Row, Term, Writer, validate};
use proptest::collection::{btree_map, vec};
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::select;

use super::read;

/// Pieces of which texts are made that are hard to write.
const PIECES: [&str; 24] = [
    "a", "B", "é", " ", "\t", "|", "\n", "\r", ";", "%", "25", "20", "7c", "7C", "0a", "sc", "%20", "%sc",
    "#", "@", "/", ".", "\u{a0}", "\u{feff}",
];

fn tricky() -> impl Strategy<Value = String> {
    prop_oneof![vec(select(&PIECES[..]), 1..12).prop_map(|parts| parts.concat()), "[^\0]{1,20}"]
}

/// A text without space around it, as rows have them.
fn text() -> impl Strategy<Value = String> {
    tricky()
        .prop_map(|text| text.trim_matches([' ', '\t']).to_owned())
        .prop_filter("empty", |text| !text.is_empty())
}

fn name() -> impl Strategy<Value = String> {
    tricky().prop_filter("no file name", |name| {
        let parts: Vec<_> = name.split('/').collect();
        !name.starts_with('/') && !parts.contains(&"..") && !matches!(parts.last(), Some(&("" | ".")))
    })
}

fn digest() -> impl Strategy<Value = Digest> {
    (select(&Algorithm::ALL[..]), vec(any::<u8>(), 64)).prop_map(|(algorithm, bytes)| {
        let hex = ingest_steps::digest::hex(&bytes);
        Digest::new(algorithm, &hex[..algorithm.digits()]).unwrap()
    })
}

fn local_ids() -> impl Strategy<Value = Vec<String>> {
    vec(text(), 0..4).prop_map(|mut ids| {
        let mut seen = std::collections::HashSet::new();
        ids.retain(|id| seen.insert(id.clone()));
        ids
    })
}

fn row() -> impl Strategy<Value = Row> {
    let url = "[a-z]{1,5}://[a-zA-Z0-9/%é?&=@# ]{0,20}x";
    let file = (url, of(digest()), of(any::<u64>()), of(text()), name(), of(text()));
    let object = (of(text()), local_ids(), of(text()), of(text()), of(text()));
    let dublin_core = btree_map(select(&Term::ALL[..]), text(), 0..4);
    (file, object, dublin_core).prop_map(|(file, object, dublin_core)| {
        let (url, digest, size, modified, name, mime_type) = file;
        let (primary_id, local_ids, creator, title, date) = object;
        Row {
            url,
            digest,
            size,
            modified,
            name,
            mime_type,
            primary_id,
            key: None,
            local_ids,
            creator,
            title,
            date,
            dublin_core,
        }
    })
}

/// A manifest with rows and perhaps faults, in bytes.
fn nearly_a_manifest() -> impl Strategy<Value = Vec<u8>> {
    let line = prop_oneof![
        Just("#%checkm_0.7".to_owned()),
        Just("#%eof".to_owned()),
        select(&Kind::ALL[..]).prop_map(|kind| format!("#%profile | {}", kind.profile())),
        Just("#%fields | nfo:fileUrl | nfo:fileName".to_owned()),
        tricky(),
        vec(tricky(), 1..9).prop_map(|fields| fields.join("|")),
    ];
    let start = format!("#%checkm_0.7\n#%profile | {}\n", Kind::Object.profile());
    (any::<bool>(), vec(line, 0..12), vec(any::<u8>(), 0..8), any::<prop::sample::Index>()).prop_map(
        move |(whole, lines, noise, at)| {
            let mut bytes = if whole { start.clone().into_bytes() } else { Vec::new() };
            bytes.extend(lines.join("\n").bytes());
            let at = at.index(bytes.len() + 1);
            bytes.splice(at..at, noise);
            bytes
        },
    )
}

proptest! {
    #[test]
    fn what_is_written_is_read_back_the_same(kind in select(&Kind::ALL[..]), rows in vec(row(), 1..6)) {
        let all: Vec<_> = Column::all().collect();
        let mut writer = Writer::begin_with(Vec::new(), kind, &all).unwrap();
        // Of two files that clash in an object the second is refused; the others are all written.
        let rows: Vec<_> = rows.into_iter().filter(|row| match writer.row(row) {
            Ok(()) => true,
            Err(error) => {
                let clashes = ["is there already", "is a directory of another", "lies below a file"];
                let clash = clashes.iter().any(|clash| error.to_string().contains(clash));
                assert!(kind == Kind::Object && clash, "{error}");
                false
            }
        }).collect();
        let bytes = writer.finish().unwrap();
        let reader = Reader::open(&bytes[..], Limits::default()).unwrap();
        prop_assert_eq!(reader.kind(), kind);
        prop_assert_eq!(read(&bytes), rows);
    }

    #[test]
    fn no_bytes_make_it_panic_and_every_fault_has_a_place(bytes in nearly_a_manifest()) {
        let lines = bytes.split(|byte| *byte == b'\n').count() as u64 + 1;
        if let Err(ingest_steps::manifest::Error::Corrupt(problems)) = validate(&bytes[..]) {
            prop_assert!(!problems.is_empty());
            let places: Vec<_> = problems.list().iter().map(|p| (p.line, p.column)).collect();
            prop_assert!(places.is_sorted(), "{:?}", places);
            prop_assert!(places.iter().all(|(line, column)| (1..=lines).contains(line) && *column >= 1));
        }
    }

    #[test]
    fn how_the_bytes_arrive_makes_no_difference(bytes in nearly_a_manifest(), size in 1..9_usize) {
        let at_once = format!("{:?}", validate(&bytes[..]));
        let in_pieces = format!("{:?}", validate(BufReader::with_capacity(size, &bytes[..])));
        prop_assert_eq!(at_once, in_pieces);
    }

    #[test]
    fn the_reader_gives_rows_where_validating_finds_no_fault(bytes in nearly_a_manifest()) {
        let rows: Result<Vec<Row>, _> = Reader::open(&bytes[..], Limits::default()).and_then(Iterator::collect);
        match (validate(&bytes[..]), rows) {
            (Ok(summary), Ok(rows)) => prop_assert_eq!(summary.rows, rows.len() as u64),
            (found, rows) => prop_assert!(found.is_err() && rows.is_err()),
        }
    }
}
