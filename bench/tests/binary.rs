//! The binary as it is called by people and by scripts. Speeds are nobody's business here.

use std::process::{Command, Output};

use serde_json::Value;

fn bench(args: &[&str]) -> Output {
    let output = Command::new(env!("CARGO_BIN_EXE_bench")).args(args).output();
    output.unwrap_or_else(|why| panic!("the benchmark binary does not run: {why}"))
}

/// Runs a benchmark for as short as it can, and returns its results and its progress.
fn rows(name: &str, case: &str) -> (Vec<Value>, String) {
    read(name, &bench(&[name, "--json", "--seconds", "1", "--case", case]))
}

fn read(name: &str, output: &Output) -> (Vec<Value>, String) {
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{errors}");
    let text = String::from_utf8_lossy(&output.stdout);
    let row = |line| serde_json::from_str(line).unwrap_or_else(|why| panic!("{why}: {line}"));
    let rows: Vec<Value> = text.lines().map(row).collect();
    assert!(rows.iter().all(|row| row["bench"] == name), "{rows:?}");
    (rows, errors)
}

fn cases(rows: &[Value]) -> Vec<&str> {
    let mut cases: Vec<_> = rows.iter().map(|row| row["case"].as_str().unwrap_or_default()).collect();
    cases.sort_unstable();
    cases
}

fn is_compared(row: &Value) {
    assert_eq!(row["unit"], "per_s", "{row}");
    for number in ["value", "baseline_value", "ratio"] {
        assert!(row[number].as_f64().is_some_and(|number| number > 0.0), "{number}: {row}");
    }
}

#[test]
fn every_line_of_the_store_benchmark_is_a_whole_result() {
    let (rows, errors) = rows("store", "c=8");
    let expected =
        ["embedded 16 per multi c=8", "embedded c=8", "zookeeper 16 per multi c=8", "zookeeper c=8"];
    assert_eq!(cases(&rows), expected);
    for row in &rows {
        is_compared(row);
        assert!(row["baseline"].as_str().is_some_and(|name| name.ends_with("c=8")), "{row}");
    }
    assert!(errors.contains("bare client c=8"), "the progress is on standard error: {errors}");
}

#[test]
fn transitions_are_compared_with_the_ceiling_and_say_how_many_went_together() {
    let (rows, _) = rows("transitions", "hand-over");
    let expected = [
        "embedded hand-over c=64",
        "embedded hand-over c=64 plans",
        "zookeeper hand-over c=64",
        "zookeeper hand-over c=64 plans",
    ];
    assert_eq!(cases(&rows), expected);
    for pair in rows.chunks(2) {
        is_compared(&pair[0]);
        assert_eq!(pair[0]["baseline"], "bare 5-op multi c=64");
        assert!(pair[1]["value"].as_f64().is_some_and(|plans| plans > 1.0), "{}", pair[1]);
        assert!(pair[1].get("ratio").is_none(), "{}", pair[1]);
    }
}

#[test]
fn an_expansion_says_how_many_jobs_were_found_afterwards() {
    let (rows, _) = rows("expand", "zookeeper");
    let expected = ["zookeeper jobs", "zookeeper jobs read back", "zookeeper jobs, beside pipelined ones"];
    assert_eq!(cases(&rows), expected);
    rows[..2].iter().for_each(is_compared);
    assert_eq!(rows[1]["baseline"], "bare chunked creates c=64");
    assert!(rows[2]["value"].as_f64().is_some_and(|jobs| jobs >= 2_000.0), "{}", rows[2]);
    assert!(rows[2].get("ratio").is_none(), "{}", rows[2]);
}

#[test]
fn a_node_is_compared_with_the_ceiling_by_the_jobs_that_it_completes() {
    let (rows, _) = rows("node", "embedded chain");
    let expected = ["chain", "jobs completed", "transitions of all kinds"];
    assert_eq!(cases(&rows), expected.map(|what| format!("embedded {what}, 64 workers")));
    is_compared(&rows[0]);
    assert_eq!(rows[0]["baseline"], "bare 5-op multi c=64");
    let (chain, jobs) = (rows[0]["value"].as_f64(), rows[1]["value"].as_f64());
    assert!(chain.zip(jobs).is_some_and(|(chain, jobs)| chain < 7.0 * jobs + 1.0), "{rows:?}");
    assert!(rows[1..].iter().all(|row| row.get("ratio").is_none()), "{rows:?}");
}

#[test]
fn a_node_says_how_soon_it_begins() {
    let (rows, _) = rows("node", "latency");
    let what = "zookeeper latency to the first transition";
    assert_eq!(cases(&rows), [format!("{what}, median"), format!("{what}, p99")]);
    let ms: Vec<_> = rows.iter().map(|row| row["value"].as_f64().unwrap_or_default()).collect();
    assert!(ms[0] > 0.0 && ms[0] <= ms[1], "{rows:?}");
    assert!(rows.iter().all(|row| row["unit"] == "ms" && row.get("ratio").is_none()), "{rows:?}");
}

/// `INGESTD_SEED` makes another schedule; `INGESTD_CHAOS_MINUTES` makes it longer.
#[test]
fn under_every_fault_nothing_is_lost_doubled_or_left() {
    let variable = |name: &str| std::env::var(name).ok();
    let minutes = variable("INGESTD_CHAOS_MINUTES").unwrap_or_else(|| "2".to_owned());
    let seed = variable("INGESTD_SEED").unwrap_or_else(|| "3".to_owned());
    let output = bench(&["chaos", "--json", "--minutes", &minutes, "--seed", &seed]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let text = String::from_utf8_lossy(&output.stdout);
    let rows: Vec<Value> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let (summary, kinds) = rows.split_last().unwrap_or_else(|| panic!("nothing was said: {errors}"));
    assert_eq!((&summary["case"], &summary["value"]), (&"summary".into(), &0.into()), "{summary}");
    assert_eq!(kinds.len(), 18, "{kinds:?}");
    for kind in kinds {
        assert!(kind["value"].as_u64() >= kind["minimum"].as_u64(), "{kind}");
    }
    assert!(errors.contains("faults seen"), "it says how far it is: {errors}");
}

#[test]
fn a_fault_that_does_not_exist_is_refused_and_a_length_that_makes_no_sense() {
    let output = bench(&["chaos", "--case", "earthquake"]);
    assert_eq!(output.status.code(), Some(1));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("kill -9") && errors.contains("corrupt znode"), "{errors}");
    let output = bench(&["chaos", "--minutes", "0"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("0.1 to 1440"));
}

#[test]
fn very_many_jobs_are_expanded_over_a_kill_listed_acquired_and_worked_on() {
    let output = bench(&["scale", "--json", "--seconds", "1", "--rows", "4000"]);
    let (rows, _) = read("scale", &output);
    let value = |case: &str| {
        let found = rows.iter().find(|row| row["case"] == case);
        found.and_then(|row| row["value"].as_f64()).unwrap_or_else(|| panic!("no {case}: {rows:?}"))
    };
    assert!((2_000.0..4_000.0).contains(&value("4000 rows: killed at row")), "{rows:?}");
    for rows in [100, 4_000] {
        for what in ["start", "jobs, newest first", "jobs by state", "a batch", "dashboard, counts"] {
            assert!(value(&format!("{what}, {rows} waiting")) > 0.0);
        }
        assert!((1.0..600.0).contains(&value(&format!("node, memory, {rows} waiting"))));
    }
    let together = "beside 3 listings of 4000 at once";
    for when in ["alone", "beside lists of 4000", "beside listings of 4000", together] {
        assert!(value(&format!("a small write, p99, {when}")) > 0.0);
    }
    let compared: Vec<_> = rows.iter().filter(|row| row.get("ratio").is_some()).collect();
    let baselines: Vec<_> = compared.iter().map(|row| row["baseline"].as_str().unwrap_or_default()).collect();
    assert_eq!(baselines, ["zookeeper 100 waiting", "zookeeper node at work, 500 waiting"], "{compared:?}");
    assert!(value("from the last of 4000 jobs to the end of their batch") > 0.0);
    assert!(value("fsck, 4000 jobs") > 0.0);
}

#[test]
fn the_time_of_a_job_is_told_for_each_number_of_nodes() {
    let (rows, _) = rows("growth", " 1000 jobs, 2");
    let expected = ["a job", "commits refused", "handed over", "transitions"];
    assert_eq!(cases(&rows), expected.map(|what| format!("zookeeper 1000 jobs, 2 nodes, {what}")));
    assert!(rows[0]["value"].as_f64().is_some_and(|us| us > 0.0) && rows[0]["unit"] == "us", "{rows:?}");
    let compared: Vec<_> = rows.iter().filter(|row| row.get("ratio").is_some()).collect();
    assert!(
        compared.len() == 1 && compared[0]["case"] == "zookeeper 1000 jobs, 2 nodes, transitions",
        "{rows:?}"
    );
    is_compared(compared[0]);
    let handed = rows.iter().find(|row| row["case"] == "zookeeper 1000 jobs, 2 nodes, handed over");
    assert!(handed.and_then(|row| row["value"].as_f64()).is_some_and(|moves| moves > 0.0), "{rows:?}");
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
    let known = [
        ("store", "lock create/delete c=64"),
        ("transitions", "hand-over c=64"),
        ("expand", "embedded jobs"),
        ("node", "zookeeper chain, 64 workers"),
        ("node", "with --long embedded chain, 128 workers"),
        ("node", "zookeeper 100000 waiting"),
        ("scale", "zookeeper scale"),
        ("growth", "zookeeper 1000 jobs, 1 node"),
    ];
    for (name, case) in known {
        let output = bench(&[name, "--case", "c=7"]);
        assert_eq!(output.status.code(), Some(1));
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(errors.contains(case), "{errors}");
    }
}
