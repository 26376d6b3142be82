//! The binary as it is called by people and by scripts. Speeds are nobody's business here.

use std::process::{Command, Output};

use serde_json::Value;

fn bench(args: &[&str]) -> Output {
    let output = Command::new(env!("CARGO_BIN_EXE_bench")).args(args).output();
    output.unwrap_or_else(|why| panic!("the benchmark binary does not run: {why}"))
}

#[test]
fn every_line_of_the_store_benchmark_is_a_whole_result() {
    let output = bench(&["store", "--json", "--seconds", "1", "--case", "c=8"]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let text = String::from_utf8(output.stdout).expect("read the results as text");
    let rows: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    let mut cases: Vec<_> = rows.iter().map(|row| row["case"].as_str().expect("find a case")).collect();
    cases.sort_unstable();
    let expected =
        ["embedded 16 per multi c=8", "embedded c=8", "zookeeper 16 per multi c=8", "zookeeper c=8"];
    assert_eq!(cases, expected);
    for row in &rows {
        assert_eq!(row["bench"], "store", "{row}");
        assert_eq!(row["unit"], "per_s", "{row}");
        assert!(row["baseline"].as_str().is_some_and(|name| name.ends_with("c=8")), "{row}");
        for number in ["value", "baseline_value", "ratio"] {
            assert!(row[number].as_f64().is_some_and(|number| number > 0.0), "{number}: {row}");
        }
    }
    assert!(errors.contains("bare client c=8"), "the progress is on standard error: {errors}");
}

#[test]
fn an_unknown_benchmark_is_refused_and_the_known_ones_are_named() {
    let output = bench(&["stroe"]);
    assert_eq!(output.status.code(), Some(2));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("possible values: store"), "{errors}");
    assert!(output.stdout.is_empty());
}

#[test]
fn a_case_that_does_not_exist_is_refused_before_any_server_is_started() {
    let output = bench(&["store", "--case", "c=7"]);
    assert_eq!(output.status.code(), Some(1));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("lock create/delete c=64"), "{errors}");
}
