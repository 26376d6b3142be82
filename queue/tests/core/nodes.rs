//! What is written in the nodes, and how leniently it is read.

use ingest_queue::date::Date;
use ingest_queue::dialect::Dialect;
use ingest_queue::ids::{Bid, Jid};
use ingest_queue::map::{self, Priority};
use ingest_queue::nodes::{
    AccessToken, BatchStatus, Configuration, Identifiers, Inventory, JobStatus, Metadata, Node, Number,
    Store, Submission, read_id,
};
use ingest_queue::plan::Scene;
use ingest_queue::plan::batch;
use ingest_queue::plan::job::{self, NewJob};
use ingest_queue::states::{BatchState, JobState};
use ingest_store::Op;
use serde_json::{Value, json};

const DATE: &str = "2026-11-16T01:43:45.000Z";

fn date() -> Date {
    DATE.parse().unwrap()
}

fn scene(dialect: Dialect) -> Scene {
    Scene { dialect, now: date(), node: "node".into(), commit: "commit".into() }
}

fn json_of(data: &[u8]) -> Value {
    serde_json::from_slice(data).unwrap()
}

/// Each of these fields, written like this; others may follow.
#[track_caller]
fn holds(data: &[u8], fields: &[&str]) {
    let text = std::str::from_utf8(data).unwrap();
    for field in fields {
        assert!(text.contains(field), "{field} is not in {text}");
    }
}

#[test]
fn a_job_status_is_written_as_each_dialect_wants_it() {
    let status = JobStatus::new(JobState::Pending, date());
    holds(
        &status.write(Dialect::MrtZk),
        &[
            r#""retry_count":0"#,
            r#""last_successful_status":null"#,
            r#""message":"""#,
            r#""last_modified":"2026-11-16 01:43:45 +0000""#,
            r#""status":"Pending""#,
        ],
    );
    let later = JobStatus { last_successful_status: Some(JobState::Downloading), ..status };
    let later = JobStatus { status: JobState::Processing, ..later };
    holds(
        &later.write(Dialect::MrtZk),
        &[r#""last_successful_status":"Downloading""#, r#""status":"Processing""#],
    );
    assert_eq!(
        std::str::from_utf8(&later.write(Dialect::Design)).unwrap(),
        r#"{"status":"processing","last_successful_status":"downloading","last_modification_date":"2026-11-16T01:43:45.000Z","retry_count":0,"message":"","attempt":0,"recoverable":true}"#
    );
}

#[test]
fn a_batch_status_is_written_as_each_dialect_wants_it() {
    let status = BatchStatus::new(BatchState::UpdateReporting, date());
    assert_eq!(
        json_of(&status.write(Dialect::MrtZk)),
        json!({"message": "", "last_modified": "2026-11-16 01:43:45 +0000", "status": "UpdateReporting"})
    );
    assert_eq!(
        json_of(&status.write(Dialect::Design)),
        json!({"message": "", "last_modified": DATE, "status": "update-reporting"})
    );
}

#[test]
fn what_other_services_read_of_a_job_has_their_fields_and_no_nulls() {
    let ids = Identifiers {
        primary_id: Some("ark:/1/2".into()),
        local_id: vec!["a".into()],
        ..Identifiers::default()
    };
    assert_eq!(json_of(&ids.write(Dialect::MrtZk)), json!({"local_id": ["a"], "primary_id": "ark:/1/2"}));
    let inventory =
        Inventory { manifest_url: "http://x/m".into(), mode: "add".into(), ..Inventory::default() };
    assert_eq!(
        json_of(&inventory.write(Dialect::MrtZk)),
        json!({"mode": "add", "manifest_url": "http://x/m"})
    );
    let store = Store {
        manifest_url: "u".into(),
        mode: "add/9/ark:/1/2".into(),
        delete: Some("d".into()),
        ..Store::default()
    };
    assert_eq!(
        json_of(&store.write(Dialect::MrtZk)),
        json!({"mode": "add/9/ark:/1/2", "manifest_url": "u", "delete": "d"})
    );
    assert_eq!(&Number(5).write(Dialect::MrtZk)[..], b"5");
    assert_eq!(json_of(&Metadata::default().write(Dialect::MrtZk)), json!({}));
}

#[test]
fn a_new_job_has_the_nodes_of_the_shared_tree_and_no_others() {
    let (jid, bid) = (Jid::new(0), Bid::new(0));
    let new = NewJob { priority: Priority::nearest(3), ..NewJob::default() };
    let ops = job::create(jid, bid, &new, &scene(Dialect::MrtZk));
    let data = |op: &Op| match op {
        Op::Create { data, .. } => data.clone(),
        other => panic!("{other:?} is no create"),
    };
    let made: Vec<(&str, Vec<u8>)> = ops.iter().map(|op| (op.path(), data(op).to_vec())).collect();
    let paths: Vec<&str> = made.iter().map(|(path, _)| *path).collect();
    assert_eq!(
        paths,
        [
            "/jobs/jid0000000000",
            "/jobs/jid0000000000/bid",
            "/jobs/jid0000000000/configuration",
            "/jobs/jid0000000000/status",
            "/jobs/jid0000000000/priority",
            "/jobs/jid0000000000/space_needed",
            "/jobs/states/pending/03-jid0000000000",
            "/batches/bid0000000000/states/batch-processing/jid0000000000",
        ]
    );
    assert_eq!(made[1].1, b"bid0000000000");
    assert_eq!((&made[4].1[..], &made[5].1[..]), (&b"3"[..], &b"0"[..]));
    assert!(made[6].1.is_empty() && made[7].1.is_empty());
    assert_eq!(json_of(&made[2].1)["batch_id"], "bid0000000000");
}

#[test]
fn a_new_batch_has_the_nodes_of_the_shared_tree() {
    let bid = Bid::new(0);
    let submission = Submission { profile_name: "demo".into(), ..Submission::default() };
    let ops = batch::create(bid, "u-1", &submission, &scene(Dialect::MrtZk));
    let data = |path: &str| {
        ops.iter().find_map(|op| match op {
            Op::Create { path: at, data, .. } if at == path => Some(data.to_vec()),
            _ => None,
        })
    };
    assert_eq!(data("/batch-uuids/u-1").unwrap(), b"bid0000000000");
    assert_eq!(json_of(&data("/batches/bid0000000000/submission").unwrap())["batchID"], "bid0000000000");
    holds(
        &data("/batches/bid0000000000/status").unwrap(),
        &[r#""message":"""#, r#""last_modified":"2026-11-16 01:43:45 +0000""#, r#""status":"Pending""#],
    );
    assert_eq!(data("/batches/bid0000000000/states").unwrap(), b"");
}

#[test]
fn the_shared_tree_has_all_its_directories() {
    let made = map::directories(Dialect::MrtZk);
    let states = "pending held estimating provisioning downloading processing storing recording notify failed completed deleted";
    let queues = states.split(' ').map(|state| format!("/jobs/states/{state}"));
    let fixed = "/batches /batch-uuids /jobs /jobs/states /access/small /access/large /locks/queue /locks/localid /locks/storage /locks/inventory /locks/collections";
    for dir in fixed.split(' ').map(str::to_owned).chain(queues) {
        assert!(made.contains(&dir), "{dir} is not in {made:?}");
    }
}

#[test]
fn a_status_is_read_in_either_dialect_and_written_in_one_with_what_nobody_knows() {
    let theirs = br#"{"retry_count":2,"last_successful_status":"Processing","message":"m",
        "last_modified":"2026-11-15 17:43:45 -0800","status":"Recording","theirs":{"deep":[1,null]},"n":null}"#;
    let read = JobStatus::read(theirs).unwrap();
    assert_eq!((read.status, read.last_successful_status), (JobState::Recording, Some(JobState::Processing)));
    assert_eq!((read.retry_count, read.last_modification_date), (2, Some(date())));
    assert_eq!((read.attempt, read.recoverable), (0, true), "what is missing has its default");
    for dialect in [Dialect::Design, Dialect::MrtZk] {
        let again = JobStatus::read(&read.write(dialect)).unwrap();
        assert_eq!(again, read);
        let json = json_of(&read.write(dialect));
        assert_eq!((&json["theirs"], json.get("n")), (&json!({"deep": [1, null]}), Some(&Value::Null)));
        let dates = (json.get("last_modified").is_some(), json.get("last_modification_date").is_some());
        assert_eq!(
            dates,
            (dialect == Dialect::MrtZk, dialect == Dialect::Design),
            "one date, under its own name"
        );
    }
}

#[test]
fn of_two_dates_the_later_one_holds_whatever_its_name() {
    let status = |old: &str, new: &str| {
        let text =
            format!(r#"{{"status":"FAILED","last_modification_date":"{old}","last_modified":"{new}"}}"#);
        let batch = BatchStatus::read(text.as_bytes()).unwrap();
        let job = JobStatus::read(text.as_bytes()).unwrap();
        assert_eq!(batch.last_modified, job.last_modification_date);
        job.last_modification_date
    };
    let early = "2020-01-01 00:00:00 +0000";
    assert_eq!(status(early, DATE), Some(date()));
    assert_eq!(status(DATE, early), Some(date()));
}

#[test]
fn what_is_null_in_a_status_is_as_good_as_missing() {
    let text = br#"{"status":"held","last_successful_status":null,"message":null,"last_modified":null,"retry_count":null,"recoverable":null}"#;
    let status = JobStatus::read(text).unwrap();
    assert_eq!((status.message.as_str(), status.retry_count, status.recoverable), ("", 0, true));
}

#[test]
fn wrong_types_are_unreadable_and_say_where() {
    for (text, why) in [
        (r#"{"status":"lost"}"#, "status `lost` is not a state of a job"),
        (r#"{"status":7}"#, "status should be a string, and is a number"),
        ("{}", "no status"),
        (r#"{"status":"held","retry_count":-1}"#, "retry_count should be a count"),
        (r#"{"status":"held","retry_count":4294967296}"#, "retry_count should be a count"),
        (r#"{"status":"held","retry_count":"2"}"#, "retry_count should be a count, and is a string"),
        (r#"{"status":"held","message":[]}"#, "message should be a string, and is a list"),
        (r#"{"status":"held","recoverable":"yes"}"#, "recoverable should be true or false"),
        (r#"{"status":"held","last_modified":"yesterday"}"#, "`yesterday` is not a date"),
        ("[]", "it should be a json object, and is a list"),
        ("null", "it should be a json object, and is null"),
        ("", "it is empty"),
        ("{", "EOF"),
    ] {
        let error = JobStatus::read(text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(why), "{text}: {error}");
    }
}

#[test]
fn identifiers_are_read_as_anybody_has_written_them() {
    for (text, primary, local) in [
        (r#"{"primary":"ark:/1/2","local_id":"a; b;"}"#, Some("ark:/1/2"), vec!["a", "b"]),
        (r#"{"primary_id":"ark:/1/2","local_id":["a;b"]}"#, Some("ark:/1/2"), vec!["a;b"]),
        (r#"{"local_id":null}"#, None, vec![]),
        ("{}", None, vec![]),
    ] {
        let read = Identifiers::read(text.as_bytes()).unwrap();
        assert_eq!(
            (read.primary_id.as_deref(), read.local_id),
            (primary, local.into_iter().map(str::to_owned).collect())
        );
    }
}

#[test]
fn fields_that_nobody_knows_are_kept_in_every_node_of_json() {
    let token = br#"{"token":"t","delivery-node":7,"cloud-content-byte":8,"theirs":1}"#;
    let token = AccessToken::read(token).unwrap();
    assert_eq!((token.delivery_node, token.cloud_content_byte, &token.other["theirs"]), (7, 8, &json!(1)));
    let text = br#"{"profile_name":"p","job":"quack","local_id":"x"}"#;
    let configuration = Configuration::read(text).unwrap();
    assert_eq!(configuration.collection(), "p");
    assert_eq!(json_of(&configuration.write(Dialect::MrtZk))["job"], "quack");
}

#[test]
fn numbers_that_no_integer_holds_stay_what_they_were_read_as_however_often_they_are_written() {
    for number in ["444444444444444444444444", "0.1", "1e-7", "9007199254740993.5", &"7".repeat(100)] {
        let text = format!(r#"{{"token":"t","theirs":{number}}}"#);
        let meant: f64 = number.parse().unwrap();
        let mut token = AccessToken::read(text.as_bytes()).unwrap();
        for _ in 0..3 {
            assert_eq!(token.other["theirs"].as_f64(), Some(meant), "{number}");
            token = AccessToken::read(&token.write(Dialect::Design)).unwrap();
        }
    }
}

#[test]
fn ids_and_numbers_are_read_around_white_space_and_nothing_else() {
    assert_eq!(read_id::<Bid>(b" bid0000000007\n"), Ok(Bid::new(7)));
    assert_eq!(Number::read(b" 42\n"), Ok(Number(42)));
    assert_eq!(Number::read(b"-7"), Ok(Number(-7)));
    for bad in [&b""[..], b"4 2", b"0x7", b"\xff", b"9223372036854775808", b"7.0"] {
        assert!(Number::read(bad).unwrap_err().to_string().contains("is not a whole number"), "{bad:?}");
        assert!(read_id::<Bid>(bad).is_err(), "{bad:?}");
    }
}

#[test]
fn a_field_that_is_null_is_as_good_as_missing_and_both_names_of_an_identifier_are_understood() {
    let found = Configuration::read(br#"{"submitter":null,"profile_name":"p","batch_id":null}"#).unwrap();
    assert_eq!((found.submitter.as_str(), found.profile_name.as_str(), found.batch_id), ("", "p", None));
    for (json, ark) in [
        (r#"{"primary":"a","local_id":["x"]}"#, "a"),
        (r#"{"primary_id":"b","primary":"a"}"#, "b"),
        (r#"{"primary_id":null,"primary":"a"}"#, "a"),
    ] {
        assert_eq!(Identifiers::read(json.as_bytes()).unwrap().primary_id.as_deref(), Some(ark), "{json}");
    }
}
