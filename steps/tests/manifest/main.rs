//! Manifests: real ones, their faults and tolerances, hostile ones, and writing.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests fail by panicking")]

mod bounds;
mod faults;
mod inline;
mod properties;
mod real;
mod tolerances;
mod write;

use ingest_steps::manifest::{Error, Kind, Limits, Reader, Row, validate};

/// The lines that stand before the rows; the first row is on line 4.
fn header(kind: Kind) -> String {
    let fields: Vec<_> = kind.columns().iter().map(ToString::to_string).collect();
    format!("#%checkm_0.7\n#%profile | {}\n#%fields | {}\n", kind.profile(), fields.join(" | "))
}

/// A whole manifest around rows.
fn manifest(kind: Kind, rows: &str) -> String {
    format!("{}{rows}\n#%eof\n", header(kind))
}

fn read(text: impl AsRef<[u8]>) -> Vec<Row> {
    let reader = Reader::open(text.as_ref(), Limits::default()).unwrap();
    reader.collect::<Result<_, _>>().unwrap()
}

/// The only row of an object manifest that holds this one.
fn row(line: &str) -> Row {
    let rows = read(manifest(Kind::Object, line));
    assert_eq!(rows.len(), 1);
    rows.into_iter().next().unwrap()
}

/// Where and what is wrong, in order.
fn problems(text: impl AsRef<[u8]>) -> Vec<(u64, u64, String)> {
    match validate(text.as_ref()) {
        Err(Error::Corrupt(problems)) => {
            assert_eq!(problems.more(), 0);
            problems.list().iter().map(|p| (p.line, p.column, p.problem.clone())).collect()
        }
        other => panic!("{other:?}"),
    }
}

/// The only problem, which says this.
fn problem(text: impl AsRef<[u8]>, says: &str) -> (u64, u64) {
    let found = problems(text);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].2.contains(says), "{found:?}");
    (found[0].0, found[0].1)
}
