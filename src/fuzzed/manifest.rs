//! A manifest is read, or refused with places that are in it; and rows that can be written are read back as they were.

use ingest_steps::manifest::write::NotWritten;
use ingest_steps::manifest::{Column, Error, Limits, Reader, Row, Writer, validate_within};
use ingest_steps::payload::{PayloadKind, is_manifest};

const LIMITS: Limits = Limits { line: 4_096, problems: 20, rows: 1_000 };

pub(super) fn run(data: &[u8]) {
    if is_manifest(data) {
        assert_ne!(PayloadKind::guess("a", data), Ok(PayloadKind::File), "a manifest is no plain file");
    }
    let lines = data.iter().filter(|byte| **byte == b'\n').count() as u64 + 1;
    match validate_within(data, LIMITS) {
        Ok(summary) => {
            let rows = rows(data);
            assert_eq!(rows.len() as u64, summary.rows, "what was counted is what is read");
            assert!(summary.not_kept.iter().all(|column| (1..=summary.rows).contains(&column.values)));
            read_back(&rows, data);
        }
        Err(Error::Corrupt(problems)) => {
            assert!(!problems.is_empty(), "it is wrong, and nobody says why");
            assert!(problems.list().len() <= LIMITS.problems);
            for problem in problems.list() {
                let line = problem.line;
                assert!(line <= lines + 1, "{problem}: there are {lines} lines");
            }
        }
        Err(error) => panic!("bytes in memory can be read: {error}"),
    }
}

fn rows(data: &[u8]) -> Vec<Row> {
    let reader = Reader::open(data, LIMITS).expect("it was read before");
    reader.map(|row| row.expect("it was right before")).collect()
}

fn read_back(rows: &[Row], data: &[u8]) {
    let kind = Reader::open(data, LIMITS).expect("it was read before").kind();
    let columns: Vec<Column> = Column::all().collect();
    let mut writer = Writer::begin_with(Vec::new(), kind, &columns).expect("memory can be written");
    let mut written = Vec::new();
    for row in rows {
        match writer.row(row) {
            Ok(()) => written.push(row.clone()),
            // A line may become too long by what has to be escaped, and some texts have what no line can hold. But what was
            // read as a URL is one.
            Err(NotWritten::Refused { column, why, .. }) => {
                assert!(column != Column::Url || why.contains("longer than"), "{row:?}: {why}");
            }
            Err(error) => panic!("memory can be written: {error}"),
        }
    }
    if written.is_empty() {
        return;
    }
    let bytes = writer.finish().expect("memory can be written");
    let reader = Reader::open(bytes.as_slice(), Limits::default()).expect("what was written is a manifest");
    let again: Vec<Row> = reader.map(|row| row.expect("what was written can be read")).collect();
    assert_eq!(again, written);
}
