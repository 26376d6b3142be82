//! Lines as they come out.

use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;
use tracing::{Level, debug, error, info, info_span, subscriber, warn};

use super::settings::{Filter, Throttle};
use super::*;

const TEXT: Look = Look::Text { colour: false, journal: true };

/// Logs within a closure, and returns the lines.
fn logged(look: Look, settings: &LogSettings, log: impl FnOnce(&LogHandle)) -> Vec<String> {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let written = lines.clone();
    let out: Out = Arc::new(move |line| written.lock().push(String::from_utf8(line.to_vec()).unwrap()));
    let (subscriber, handle) = build(settings, look, out);
    subscriber::with_default(subscriber, || log(&handle));
    drop(handle);
    let lines = lines.lock().clone();
    assert!(lines.iter().all(|line| line.ends_with('\n') && line.matches('\n').count() == 1), "{lines:?}");
    lines
}

fn json(log: impl FnOnce(&LogHandle)) -> Vec<Value> {
    let lines = logged(Look::Json, &LogSettings::default(), log);
    lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn throttled(times: u32, within: Duration) -> LogSettings {
    LogSettings { throttle: Throttle { times, within }, ..LogSettings::default() }
}

#[test]
fn text_begins_with_what_people_read() {
    let lines = logged(Look::Text { colour: false, journal: false }, &LogSettings::default(), |_| {
        warn!(jid = "jid1", count = 3, why = "a b", "it is late");
    });
    let (time, rest) = lines[0].split_once(' ').unwrap();
    assert!(time.parse::<ingest_queue::date::Date>().is_ok(), "{time}");
    assert_eq!(rest, " WARN it is late jid=jid1 count=3 why=\"a b\"\n");
}

#[test]
fn the_journal_gets_the_level_and_not_the_time() {
    let lines = logged(TEXT, &LogSettings::default(), |_| {
        error!("e");
        info!("i");
    });
    assert_eq!(lines, ["<3>ERROR e\n", "<6> INFO i\n"]);
}

#[test]
fn colours_are_there_only_if_wanted() {
    let log = |_: &LogHandle| error!(a = 1, "x");
    let coloured = logged(Look::Text { colour: true, journal: false }, &LogSettings::default(), log);
    assert!(coloured[0].contains("\x1b[31mERROR\x1b[0m x"), "{coloured:?}");
    let plain = logged(TEXT, &LogSettings::default(), |_| error!(bad = "\x1b[31m", "a\nb\x1b[0m"));
    assert_eq!(plain, ["<3>ERROR a\\nb\\u{1b}[0m bad=\"\\u{1b}[31m\"\n"], "strangers cannot paint");
}

#[test]
fn json_has_the_fields_of_the_event_and_of_all_spans_around_it() {
    let lines = json(|_| {
        let _outer = info_span!("batch", batch = "bid1", node = "n1", attempt = 1).entered();
        let inner = info_span!("job", job = "jid1", state = tracing::field::Empty, attempt = 2);
        inner.record("state", "downloading");
        let _inner = inner.entered();
        info!(files = 3, share = 0.5, done = true, odd = f64::NAN, path = ?"a\"b", "fetched");
    });
    let line = lines[0].as_object().unwrap();
    for (name, value) in [
        ("level", "INFO".into()),
        ("target", "ingestd::logs::tests".into()),
        ("message", "fetched".into()),
        ("files", 3.into()),
        ("share", 0.5.into()),
        ("done", true.into()),
        ("odd", "NaN".into()),
        ("path", "\"a\\\"b\"".into()),
        ("batch", "bid1".into()),
        ("node", "n1".into()),
        ("job", "jid1".into()),
        ("state", "downloading".into()),
        ("attempt", Value::from(2)),
    ] {
        assert_eq!(line[name], value, "{name} in {line:?}");
    }
    assert!(line["timestamp"].as_str().unwrap().parse::<ingest_queue::date::Date>().is_ok());
    assert_eq!(line.len(), 14);
}

#[test]
fn a_field_with_a_name_of_the_line_gets_another() {
    let lines = json(|_| warn!(level = 7, message = "inner", "outer"));
    assert_eq!((&lines[0]["message"], &lines[0]["level"]), (&"outer".into(), &"WARN".into()));
    assert_eq!((&lines[0]["field.message"], &lines[0]["field.level"]), (&"inner".into(), &7.into()));
}

#[test]
fn text_also_has_the_fields_of_spans() {
    let lines = logged(TEXT, &LogSettings::default(), |_| {
        let _span = info_span!("job", job = "jid1").entered();
        info!(files = 3, "fetched");
    });
    assert_eq!(lines, ["<6> INFO fetched files=3 job=jid1\n"]);
}

#[test]
fn a_warning_says_what_it_is_about_whatever_the_filter_is() {
    let settings =
        LogSettings { filter: Filter::try_from("warn".to_owned()).unwrap(), ..LogSettings::default() };
    let lines = logged(TEXT, &settings, |_| {
        let _span = info_span!("job", job = "jid1").entered();
        let _other = tracing::debug_span!("detail", detail = 1).entered();
        let _foreign = info_span!(target: "hyper", "connection", peer = 1).entered();
        info!("not written");
        warn!("written");
    });
    assert_eq!(lines, ["<4> WARN written job=jid1\n"]);
}

#[test]
fn libraries_only_warn_unless_they_are_named() {
    let written = |filter: &str| {
        let filter = Filter::try_from(filter.to_owned()).unwrap();
        let lines = logged(TEXT, &LogSettings { filter, ..LogSettings::default() }, |_| {
            info!(target: "zookeeper_client::session", "new session");
            warn!(target: "zookeeper_client::session", "no server");
        });
        lines.len()
    };
    let filters =
        ["info", "debug", "info,ingest_queue=debug", "warn", "info,zookeeper_client=info", "error", "off"];
    assert_eq!(filters.map(written), [1, 1, 1, 1, 2, 0, 0]);
}

#[test]
fn a_filter_can_look_into_spans() {
    let settings = LogSettings {
        filter: Filter::try_from("warn,[job{job=jid1}]=debug".to_owned()).unwrap(),
        ..LogSettings::default()
    };
    let lines = logged(TEXT, &settings, |_| {
        for job in ["jid1", "jid2"] {
            let _span = info_span!("job", job).entered();
            debug!("looked at");
        }
    });
    assert_eq!(lines, ["<7>DEBUG looked at job=jid1\n"]);
}

#[test]
fn the_filter_and_the_throttle_change_while_it_runs() {
    let filter = |text: &str| Filter::try_from(text.to_owned()).unwrap();
    let lines = logged(TEXT, &LogSettings::default(), |handle| {
        let say = |what: &str| debug!("{what}");
        say("one");
        assert!(!tracing::enabled!(Level::DEBUG), "off costs nothing");
        handle.reload(&LogSettings { filter: filter("debug"), ..throttled(1, Duration::from_hours(1)) });
        say("two");
        say("two");
        handle.reload(&LogSettings { filter: filter("debug"), ..throttled(0, Duration::from_hours(1)) });
        say("two");
        handle.reload(&LogSettings { filter: filter("warn"), ..LogSettings::default() });
        say("three");
    });
    let repeated = "<7>DEBUG last message repeated 1 times: two\n";
    assert_eq!(lines, ["<7>DEBUG two\n", repeated, "<7>DEBUG two\n"]);
}

#[test]
fn the_same_message_is_written_so_often_and_then_counted() {
    let lines = logged(TEXT, &throttled(3, Duration::from_hours(1)), |_| {
        for round in 0..50 {
            // Whatever the span, and whatever the fields.
            let _span = info_span!("job", round).entered();
            error!(round, "the disk is full");
            warn!("{} is away", if round % 2 == 0 { "one" } else { "two" });
        }
    });
    let count = |what: &str| lines.iter().filter(|line| line.contains(what)).count();
    assert_eq!(count("ERROR the disk is full"), 3, "{lines:?}");
    assert_eq!(
        (count("WARN one is away"), count("WARN two is away")),
        (3, 3),
        "other words are another message"
    );
    // At the end what was held back is told.
    assert!(
        lines.contains(&"<3>ERROR last message repeated 47 times: the disk is full\n".to_owned()),
        "{lines:?}"
    );
    assert_eq!(count("last message repeated 22 times"), 2, "{lines:?}");
    assert_eq!(lines.len(), 12);
}

/// Ten jobs that fail twice each, with one line a window.
fn ten_jobs_fail_twice(_: &LogHandle) {
    for round in 0..2 {
        for job in 0..10 {
            let _span =
                info_span!("job", node = "n1", batch = "bid1", job = %format!("jid{job}"), attempt = round)
                    .entered();
            warn!(why = round, "failed");
        }
    }
}

#[test]
fn failures_of_different_jobs_are_never_counted_as_one() {
    let lines = logged(TEXT, &throttled(1, Duration::from_hours(1)), ten_jobs_fail_twice);
    assert_eq!(lines.len(), 20, "{lines:?}");
    for job in 0..10 {
        let is_of_job = |line: &&String| {
            line.contains(&format!("job=jid{job} ")) || line.contains(&format!("job=jid{job}\n"))
        };
        let of_job: Vec<_> = lines.iter().filter(is_of_job).collect();
        assert!(of_job.iter().any(|line| line.contains("WARN failed")), "{job}: {lines:?}");
        assert!(
            of_job.iter().any(|line| line.contains("last message repeated 1 times: failed")),
            "{job}: {lines:?}"
        );
    }
}

#[test]
fn failures_of_different_jobs_are_never_counted_as_one_in_json() {
    let lines = logged(Look::Json, &throttled(1, Duration::from_hours(1)), ten_jobs_fail_twice);
    let lines: Vec<Value> = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    for job in 0..10 {
        let of_job: Vec<_> = lines.iter().filter(|line| line["job"] == format!("jid{job}")).collect();
        let said: Vec<_> = of_job.iter().map(|line| line["message"].as_str().unwrap()).collect();
        assert_eq!(said, ["failed", "last message repeated 1 times: failed"], "{lines:?}");
        assert!(of_job.iter().all(|line| line["batch"] == "bid1" && line["node"] == "n1"), "{lines:?}");
    }
}

#[test]
fn every_subject_tells_lines_apart_and_the_nearest_of_two_counts() {
    let lines = logged(TEXT, &throttled(1, Duration::from_hours(1)), |_| {
        let _node = info_span!("node", node = "n1", name = "outer").entered();
        for feed in ["a", "b", "a"] {
            warn!(feed, "the feed cannot be asked");
        }
        for name in ["x", "y", "x"] {
            warn!(name, "not cleaned up this time");
        }
    });
    let count = |what: &str| lines.iter().filter(|line| line.contains(what)).count();
    assert_eq!((count("WARN the feed"), count("WARN not cleaned")), (2, 2), "{lines:?}");
    assert_eq!(
        (count("repeated 1 times: the feed cannot be asked feed=a node=n1"), lines.len()),
        (1, 6),
        "{lines:?}"
    );
}

#[test]
fn the_restart_log_is_never_throttled() {
    let lines = logged(TEXT, &throttled(1, Duration::from_hours(1)), |_| {
        for _ in 0..5 {
            warn!(target: "ingest_actors::restart_log", "restarted");
        }
    });
    assert_eq!(lines.len(), 5);
}

#[test]
fn stderr_is_the_journal_only_if_it_is_that_file() {
    assert!(is_journal(Some("9:1234"), Some((9, 1234))));
    assert!(!is_journal(Some("9:1234"), Some((9, 1235))), "stderr was sent elsewhere");
    assert!(!is_journal(None, Some((9, 1234))) && !is_journal(Some("x"), None) && !is_journal(None, None));
}

#[test]
#[ignore = "begins to log for its whole process: the next test starts it in one of its own"]
fn a_process_that_logs() {
    let handle = init(&throttled(1, Duration::from_hours(1)), None);
    for _ in 0..3 {
        warn!("hello");
    }
    drop(handle);
}

#[test]
fn a_process_logs_to_stderr() {
    let log = |variables: &[(&str, &str)]| {
        let mut process = std::process::Command::new(std::env::current_exe().unwrap());
        process.args(["--exact", "logs::tests::a_process_that_logs", "--ignored", "--nocapture"]);
        let output = process.env_remove("JOURNAL_STREAM").envs(variables.iter().copied()).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        text.lines().filter(|line| line.contains("hello")).map(str::to_owned).collect::<Vec<_>>()
    };
    // Neither a terminal nor the journal, whatever a parent has left in the environment.
    for variables in [&[][..], &[("JOURNAL_STREAM", "1:1")]] {
        let lines = log(variables);
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(lines[0].ends_with("Z  WARN hello") && !lines[0].contains('\x1b'), "{lines:?}");
        assert!(lines[1].ends_with("Z  WARN last message repeated 2 times: hello"), "{lines:?}");
    }
}
