//! The verdict as a function, case by case; and every word of it in the documentation.

use std::collections::BTreeMap;
use std::sync::Arc;

use ingest_steps::audit::verdict::{Recorded, Verdict, decide};
use ingest_steps::digest::Algorithm;
use ingest_steps::inventory::{FileRows, Rows, VersionRows};
use ingest_steps::storage::{Audit, Measured, StoredVersion};

use crate::objects::digests;

fn read(content: &str) -> Arc<Measured> {
    let digests = digests(content, &[Algorithm::Sha512]);
    Arc::new(Measured::Read { size: content.len() as u64, digests })
}

/// A version with its files; without, its files are not known.
type Version<'a> = (u32, Option<&'a [(&'a str, Arc<Measured>)]>);

fn stored(versions: &[Version<'_>], problems: &[&str]) -> Audit {
    let state = versions.iter().map(|(number, files)| {
        let files =
            files.map(|files| files.iter().map(|(path, of)| ((*path).to_owned(), of.clone())).collect());
        (*number, files.map_or(StoredVersion::Unreadable, StoredVersion::Files))
    });
    Audit {
        present: true,
        versions: versions.last().map_or(0, |(number, _)| *number),
        problems: problems.iter().map(|problem| (*problem).to_owned()).collect(),
        state: state.collect(),
        ..Audit::default()
    }
}

fn recorded(head: u32, versions: &[(u32, &[(&str, &str)])]) -> Recorded {
    let versions = versions.iter().map(|(number, files)| {
        let files = files.iter().map(|(path, content)| FileRows {
            path: (*path).to_owned(),
            size: content.len() as u64,
            digests: digests(content, &[Algorithm::Sha512])
                .iter()
                .map(|digest| (digest.algorithm().name().to_owned(), digest.hex().to_owned()))
                .collect(),
        });
        (*number, VersionRows { version: true, ingest: true, files: files.collect() })
    });
    Recorded::Object(Rows { head: Some(head), versions: versions.collect::<BTreeMap<_, _>>() })
}

#[test]
fn what_is_stored_and_what_is_recorded_give_the_verdict() {
    use Verdict::{Altered, Lost, RolledBack, Sound, Unknown, Unrecorded, Unstored};
    let (one, missing, damaged) = (read("one"), Arc::new(Measured::Missing), Arc::new(Measured::Damaged));
    let a: &[_] = &[("a", one.clone())];
    let absent = Audit::default();
    let only = stored(&[(1, Some(a))], &[]);
    let both = stored(&[(1, Some(a)), (2, Some(a))], &[]);
    let first = recorded(1, &[(1, &[("a", "one")])]);
    let second = recorded(2, &[(1, &[("a", "one")]), (2, &[("a", "one")])]);
    let table: Vec<(&str, &Audit, &Recorded, u32, Verdict)> = vec![
        ("nothing, nothing", &absent, &Recorded::Nothing, 0, Unknown),
        ("nothing, elsewhere", &absent, &Recorded::Unasked, 0, Unknown),
        ("nothing, an object", &absent, &first, 0, Unstored),
        ("an object, nothing", &only, &Recorded::Nothing, 0, Unrecorded),
        ("an object, elsewhere", &only, &Recorded::Unasked, 0, Sound),
        ("the same", &only, &first, 0, Sound),
        ("one version, two", &only, &second, 0, RolledBack),
        ("one version, two, which are elsewhere", &only, &second, 2, Sound),
        ("two versions, one", &both, &first, 0, Unrecorded),
        ("two versions, two", &both, &second, 0, Sound),
    ];
    for (what, stored, recorded, elsewhere, expected) in table {
        let decision = decide(stored, recorded, elsewhere);
        assert_eq!(decision.verdict, expected, "{what}: {decision:#?}");
    }
    let cases: Vec<(&str, Audit, &Recorded, Verdict)> = vec![
        ("a remnant", stored(&[], &["no inventory"]), &first, Lost),
        ("a gap", stored(&[(2, Some(a))], &[]), &second, Lost),
        ("a version that is unreadable", stored(&[(1, None)], &[]), &first, Altered),
        ("problems", stored(&[(1, Some(a))], &["x"]), &first, Altered),
        ("problems, elsewhere", stored(&[(1, Some(a))], &["x"]), &Recorded::Unasked, Altered),
        ("other content", stored(&[(1, Some(&[("a", read("two"))]))], &[]), &first, Altered),
        ("more content", stored(&[(1, Some(&[("a", read("ones"))]))], &[]), &first, Altered),
        ("missing content", stored(&[(1, Some(&[("a", missing.clone())]))], &[]), &first, Lost),
        (
            "missing, elsewhere",
            stored(&[(1, Some(&[("a", missing.clone())]))], &[]),
            &Recorded::Unasked,
            Lost,
        ),
        ("missing, nothing", stored(&[(1, Some(&[("a", missing)]))], &[]), &Recorded::Nothing, Lost),
        ("damaged content", stored(&[(1, Some(&[("a", damaged)]))], &[]), &first, Altered),
        ("no file", stored(&[(1, Some(&[]))], &[]), &first, Lost),
        ("another file", stored(&[(1, Some(&[("a", one.clone()), ("b", one)]))], &[]), &first, Unrecorded),
    ];
    for (what, stored, recorded, expected) in cases {
        let decision = decide(&stored, recorded, 0);
        assert_eq!(decision.verdict, expected, "{what}: {decision:#?}");
        assert_eq!(decision.verdict, decision.findings.iter().map(|finding| finding.verdict).max().unwrap());
    }
}

#[test]
fn an_object_of_which_everything_is_wrong_is_told_in_bounds() {
    let paths: Vec<String> = (0..5_000).map(|number| format!("file {number}")).collect();
    let files: Vec<_> = paths.iter().map(|path| (path.as_str(), read("x"))).collect();
    let decision = decide(&stored(&[(1, Some(&files))], &[]), &recorded(1, &[(1, &[])]), 0);
    assert_eq!(decision.findings.len(), 1_001);
    assert_eq!(decision.findings.last().unwrap().what, "and 4000 more");
}

#[test]
fn a_head_that_nobody_could_have_made_is_no_endless_work() {
    let one = stored(&[(1, Some(&[("a", read("one"))]))], &[]);
    let decision = decide(&one, &recorded(u32::MAX, &[(1, &[("a", "one")])]), 0);
    assert_eq!((decision.verdict, decision.findings.len()), (Verdict::RolledBack, 1));
}

#[test]
fn every_verdict_is_explained() {
    let page = include_str!("../../../docs/operations.md");
    for verdict in Verdict::ALL {
        let row = page.lines().find(|line| line.starts_with(&format!("| `{verdict}` |")));
        let row = row.unwrap_or_else(|| panic!("docs/operations.md does not explain `{verdict}`"));
        let advice = row.trim_end_matches(" |").rsplit(" | ").next().unwrap();
        assert!(advice.to_lowercase().starts_with(verdict.advice()), "`{verdict}`: {advice}");
    }
}
