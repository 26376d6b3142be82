//! Submission in all its forms, and everything that can be wrong with one.

use reqwest::Method;
use reqwest::multipart::{Form, Part};
use serde_json::json;

use super::kit::{Answer, TestNode};

const SHA256_OF_ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

async fn upload(node: &TestNode, form: Form) -> Answer {
    Answer::of(node.request(Method::POST, "/api/v1/batches").multipart(form).send().await.unwrap()).await
}

fn form(content: &'static str, name: &str) -> Form {
    Form::new()
        .part("file", Part::text(content).file_name(name.to_owned()))
        .text("profile", "test_content")
        .text("submitter", "ann/Ann Arbor")
}

/// Uploads that lie on the disk.
fn uploads(node: &TestNode) -> usize {
    let Ok(entries) = std::fs::read_dir(node.dir.path().join("uploads")) else { return 0 };
    // Without the file that says to which repository they belong.
    entries.filter(|entry| !entry.as_ref().unwrap().file_name().to_string_lossy().starts_with('.')).count()
}

#[tokio::test]
async fn an_upload_becomes_a_batch_and_is_served_to_whoever_has_its_url() {
    let node = TestNode::start().await;
    let form = form("abc", "a b.txt")
        .text("type", "file")
        .text("digestType", "SHA-256")
        .text("digestValue", SHA256_OF_ABC)
        .text("size", "3")
        .text("localIdentifier", "x1; x2")
        .text("title", "A thing")
        .text("creator", "Lindqvist, A.")
        .text("DC.subject", "maps")
        .text("notification", "ann@example.org, bob@example.org")
        .text("responseForm", "json");
    let answer = upload(&node, form).await.is(201);
    let bid = answer.json["bid"].as_str().unwrap();
    assert_eq!(answer.header("location"), format!("/api/v1/batches/{bid}"));
    let batch = node.batch_is(bid, "completed").await;
    assert_eq!(batch["submission"]["erc_what"], "A thing", "{batch}");
    assert_eq!(batch["submission"]["dc_subject"], "maps");
    let jid = node.job_is(bid, "completed").await;
    let job = node.get(&format!("/api/v1/jobs/{jid}")).await.is(200).json;
    assert_eq!(job["identifiers"]["local_id"], json!(["x1", "x2"]), "{job}");
    let url = job["configuration"]["payload_url"].as_str().unwrap();
    assert!(url.contains("/files/uploads/") && url.ends_with("signature=***"), "{url}");
    assert_eq!(job["configuration"]["payload_filename"], "a b.txt");
    assert_eq!(uploads(&node), 1);
    // Without its signature it is not there.
    let path = url.strip_prefix(&node.base).unwrap();
    node.get(path.split_once('?').unwrap().0).await.problem(404, "not-found", "");
    node.get(&path.replace("***", &"0".repeat(64))).await.problem(404, "not-found", "");
}

#[tokio::test]
async fn a_form_without_a_file_names_a_url() {
    let node = TestNode::start().await;
    let url = node.files.put("/c.txt", "three");
    let fields =
        [("url", url.as_str()), ("profile", "test_content"), ("submitter", "ann"), ("responseForm", "xml")];
    let request = node.request(Method::POST, "/api/v1/batches").form(&fields);
    let answer = Answer::of(request.send().await.unwrap()).await.is(201);
    assert_eq!(answer.header("content-type"), "application/xml");
    let text = answer.text();
    let bid = text.split("<bid>").nth(1).unwrap().split('<').next().unwrap();
    assert!(text.starts_with("<?xml") && text.contains("<known>false</known>"), "{text}");
    node.batch_is(bid, "completed").await;
}

#[tokio::test]
async fn a_repeated_uuid_is_answered_with_the_first_batch() {
    let node = TestNode::start_with("", "[pools.pending]\nsize = 0\n").await;
    let body = json!({
        "profile": "test_content", "submitter": "ann", "payload_url": "http://127.0.0.1:1/x", "uuid": "2e0f-77",
        "type": "file"
    });
    let first = node.post("/api/v1/batches", body.clone()).await.is(201).json;
    let again = node.post("/api/v1/batches", body).await.is(200).json;
    assert_eq!((&again["bid"], &again["known"]), (&first["bid"], &true.into()));
    let again = upload(&node, form("abc", "a.txt").text("uuid", "2e0f-77")).await.is(200).json;
    assert_eq!(again["bid"], first["bid"]);
    assert_eq!(uploads(&node), 0, "what nobody needs is not kept");
    let all = node.get("/api/v1/batches").await.json;
    assert_eq!(all["batches"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn everything_that_is_wrong_is_told_at_once_and_nothing_is_made() {
    let node = TestNode::start_with("max_upload = 1000\nmax_body = 10000", "").await;
    let body = json!({
        "profile": "test_contents", "payload_url": "ftp://example.org/x", "manifest": [{"uri": "x"}],
        "type": "sack", "filename": "../x", "size": "many", "digest_type": "sha-256", "digest_value": "abc",
        "primary_id": "doi:10.1/x", "local_id": 7, "notification": "nobody", "submission_mode": "merge",
        "response_type": "yaml", "priority": 100, "process_date": "tomorrow", "uuid": "a/b", "dc": {"colour": "red"},
        "tilte": "A thing", "note": ["x"],
    });
    let answer = node.post("/api/v1/batches", body).await.problem(400, "invalid", "problems");
    let fields = answer.fields();
    for field in [
        "profile",
        "submitter",
        "payload_url",
        "manifest",
        "type",
        "filename",
        "size",
        "digest_value",
        "primary_id",
        "local_id",
        "notification",
        "submission_mode",
        "response_type",
        "priority",
        "process_date",
        "uuid",
        "dc.colour",
        "tilte",
        "note",
    ] {
        assert!(fields.iter().any(|found| found == field), "{field} is not in {fields:?}");
    }
    let text = answer.text();
    assert!(
        text.contains("did you mean `test_content`?") && text.contains("did you mean `title`?"),
        "{text}"
    );

    let wrong =
        form("abc", "a.txt").text("digestType", "md5").text("digestValue", "0".repeat(32)).text("size", "4");
    assert_eq!(upload(&node, wrong).await.problem(400, "invalid", "announced").fields(), ["size"]);
    let wrong = form("abc", "a.txt").text("digestType", "md5").text("digestValue", "0".repeat(32));
    assert_eq!(upload(&node, wrong).await.problem(400, "invalid", "announced").fields(), ["digest_value"]);
    let large = form("abc", "a.txt").part("more", Part::text("x"));
    assert_eq!(upload(&node, large).await.problem(400, "invalid", "no such field").fields(), ["more"]);
    let large = Form::new().part("file", Part::bytes(vec![b'x'; 2000]).file_name("a"));
    upload(&node, large).await.problem(413, "too-large", "1000");
    let twice = form("abc", "a.txt").part("file", Part::text("y").file_name("b"));
    upload(&node, twice).await.problem(400, "invalid", "there is one already");
    node.post("/api/v1/batches", json!({"note": "x".repeat(20_000)})).await.problem(413, "too-large", "");
    node.post("/api/v1/batches", json!([1])).await.problem(400, "invalid", "JSON object");
    let broken =
        node.request(Method::POST, "/api/v1/batches").header("content-type", "application/json").body("{");
    Answer::of(broken.send().await.unwrap()).await.problem(400, "invalid", "EOF");
    let plain = node.request(Method::POST, "/api/v1/batches").header("content-type", "text/plain").body("x");
    Answer::of(plain.send().await.unwrap()).await.problem(
        415,
        "unsupported-media-type",
        "multipart/form-data",
    );
    let empty = node.request(Method::POST, "/api/v1/batches").header("content-type", "multipart/form-data");
    Answer::of(empty.send().await.unwrap()).await.problem(400, "invalid", "");

    // A manifest is no plain file, whatever was said of it.
    let text = "#%checkm_0.7\nhttp://a | | | | | a\n#%eof\n";
    for form in [form(text, "m.txt"), form(text, "m.zip"), form(text, "m.txt").text("type", "file")] {
        let answer = upload(&node, form).await.problem(400, "invalid", "it is a manifest and no plain file");
        assert_eq!(answer.fields(), ["type"]);
    }

    assert_eq!(uploads(&node), 0);
    let all = node.get("/api/v1/batches").await.json;
    assert_eq!(all["batches"].as_array().unwrap().len(), 0);
}

#[tokio::test]
async fn addresses_that_must_not_be_reached_are_refused_before_anything_is_made() {
    let node = TestNode::start().await;
    let submitted = async |more: serde_json::Value| {
        let mut body = json!({"profile": "test_content", "submitter": "ann", "type": "file"});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        node.post("/api/v1/batches", body).await
    };
    for url in [
        "http://10.0.0.1/a.txt",
        "http://169.254.169.254/latest/meta-data",
        "http://[::1]/a.txt",
        "http://[fd00::7]:8080/a.txt",
        "http://0xa.1/a.txt",
        "https://user:secret@192.168.1.1/a.txt",
    ] {
        let answer = submitted(json!({"payload_url": url})).await.problem(400, "invalid", "fetch.allowed");
        assert_eq!(answer.fields(), ["payload_url"], "{url}");
        assert!(!answer.text().contains("secret"), "{}", answer.text());
    }
    let rows =
        json!(["http://127.0.0.1:1/a.txt", "http://10.0.0.1/b.txt", {"url": "http://172.16.0.1/c.txt"}]);
    let answer = submitted(json!({"manifest": rows})).await.problem(400, "invalid", "private");
    assert_eq!(answer.fields(), ["manifest[1]", "manifest[2]"]);
    assert_eq!(node.get("/api/v1/batches").await.json["batches"], json!([]));
    // What the configuration allows is taken, whatever its name is.
    submitted(json!({"payload_url": "http://localhost:1/a.txt"})).await.is(201);
    // A name that nobody knows is left to the job.
    submitted(json!({"payload_url": "http://nobody.invalid/a.txt"})).await.is(201);
}

#[tokio::test]
async fn a_key_that_comes_twice_in_one_manifest_is_refused_and_nothing_is_made() {
    let node = TestNode::start().await;
    let row = |key: &str| json!({"url": "http://127.0.0.1:1/a.txt", "key": key});
    let body =
        json!({"profile": "test_content", "submitter": "ann", "manifest": [row("a"), row("b"), row("a")]});
    let found = "manifest[2]: its key `a` is that of manifest[0]";
    let answer = node.post("/api/v1/batches", body).await.problem(400, "invalid", found);
    assert_eq!(answer.fields(), ["manifest"]);
    assert_eq!(node.get("/api/v1/batches").await.json["batches"], json!([]));
}

#[tokio::test]
async fn a_name_that_leads_to_this_machine_is_refused_where_that_is_not_allowed() {
    let dir = tempfile::tempdir().unwrap();
    super::kit::configure(dir.path(), "", "");
    let config = dir.path().join("ingestd.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, text.replace("allowed = ['127.0.0.0/8']", "allowed = []")).unwrap();
    let node = TestNode::start_in(dir, reqwest::Client::builder()).await;
    let body = |url: &str| json!({"profile": "test_content", "submitter": "ann", "payload_url": url});
    let answer = node.post("/api/v1/batches", body("http://localhost:1/x")).await;
    assert_eq!(answer.problem(400, "invalid", "loopback").fields(), ["payload_url"]);
    assert_eq!(node.get("/api/v1/batches").await.json["batches"], json!([]));
    // What is uploaded here is this node's own.
    upload(&node, form("abc", "a.txt")).await.is(201);
}

#[tokio::test]
async fn dates_and_keys_and_classes_of_ones_own() {
    // The configuration of these tests ends in its section.
    let classes = r#"classes = [{ name = "urgent", priority = 3 }, { name = "slow", priority = 60 }]"#;
    let node = TestNode::start_with("", classes).await;
    let later = "2999-01-01T00:00:00.000Z";
    let body = |more: serde_json::Value| {
        let mut body = json!({"profile": "test_content", "submitter": "ann", "payload_url": "http://127.0.0.1:1/x", "type": "file"});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    let submit = async |more: serde_json::Value| node.post("/api/v1/batches", body(more)).await;

    // Scheduled: its job waits, and is listed as such.
    let scheduled =
        submit(json!({"process_date": later, "expiration_date": "0", "priority": "urgent"})).await.is(201);
    let bid = scheduled.json["bid"].as_str().unwrap();
    let jid = node.job_is(bid, "pending").await;
    let listed = node.get("/api/v1/jobs?scheduled=true").await.is(200).json;
    let line = &listed["jobs"][0];
    assert_eq!((&line["jid"], &line["process_date"]), (&json!(jid), &json!(later)), "{listed}");
    assert_eq!((&line["priority"], &line["class"]), (&json!(3), &json!("urgent")));
    // Filters and the document know the names of the configuration, and only those.
    for (query, count) in [("max_priority=urgent", 1), ("min_priority=slow", 0)] {
        let listed = node.get(&format!("/api/v1/jobs?{query}")).await.is(200).json;
        assert_eq!(listed["jobs"].as_array().unwrap().len(), count, "{query}: {listed}");
    }
    node.get("/api/v1/jobs?max_priority=now").await.problem(400, "invalid", "");
    let many = |name: &str| json!({"action": "hold", "filter": {"max_priority": name}, "dry_run": true});
    let dry = node.post("/api/v1/jobs/bulk", many("urgent")).await.is(200).json;
    assert_eq!(dry["total"], json!(1), "{dry}");
    node.post("/api/v1/jobs/bulk", many("now")).await.problem(400, "invalid", "");
    let document = node.get("/openapi.json").await.is(200).json.to_string();
    assert!(document.contains("urgent|slow") && !document.contains("time-allows"));
    let others = node.get("/api/v1/jobs?scheduled=false").await.is(200).json;
    assert_eq!(others["jobs"], json!([]));
    let job = node.get(&format!("/api/v1/jobs/{jid}")).await.is(200).json;
    assert_eq!((&job["status"]["process_date"], job["status"].get("expiration_date")), (&json!(later), None));

    // Under a key: merged while it waits, and what is older is stale.
    let first = submit(json!({"key": "k", "process_date": later, "uuid": "u-1"})).await.is(201).json;
    let second = submit(json!({"key": "k", "title": "newer", "uuid": "u-2"})).await.is(200).json;
    assert_eq!(
        (&second["bid"], &second["merged"], &second["stale"]),
        (&first["bid"], &json!(true), &json!(false))
    );
    let old = json!({"key": "k", "insertion_date": "2001-01-01T00:00:00Z"});
    let stale = submit(old).await.is(200).json;
    assert_eq!(
        (&stale["bid"], &stale["merged"], &stale["stale"]),
        (&first["bid"], &json!(false), &json!(true))
    );
    let batch = node.get("/api/v1/batches/u-2").await.is(200).json;
    assert_eq!((&batch["bid"], &batch["submission"]["erc_what"]), (&first["bid"], &json!("newer")));
    // The smallest priority of them counts, also where it is the profile's.
    let ranked = async |key: &str, given: [Option<&str>; 2]| {
        let mut bid = json!(null);
        for priority in given {
            let mut more = json!({"key": key, "process_date": later});
            if let Some(priority) = priority {
                more["priority"] = json!(priority);
            }
            bid = submit(more).await.json["bid"].clone();
        }
        let bid = bid.as_str().unwrap().to_owned();
        node.get(&format!("/api/v1/batches/{bid}")).await.is(200).json["submission"]["priority"].clone()
    };
    assert_eq!(ranked("first the profile's", [None, Some("slow")]).await, json!(5));
    assert_eq!(ranked("then the profile's", [Some("slow"), None]).await, json!(5));
    assert_eq!(ranked("smaller than the profile's", [None, Some("urgent")]).await, json!(3));
    let mut stranger = body(json!({"key": "k"}));
    stranger["submitter"] = json!("bob");
    node.post("/api/v1/batches", stranger).await.problem(409, "refused", "take another key");

    for (wrong, field) in [
        (json!({"priority": "now"}), "priority"),
        (json!({"expiration_date": "2001-01-01T00:00:00Z"}), "expiration_date"),
        (json!({"insertion_date": later}), "insertion_date"),
        (json!({"key": "x".repeat(2000)}), "key"),
    ] {
        assert_eq!(submit(wrong).await.problem(400, "invalid", "").fields(), [field]);
    }
}

#[tokio::test]
async fn an_object_is_merged_replaced_or_missed_as_its_mode_says() {
    let node = TestNode::start().await;
    let deposit = async |mode: Option<&str>, name: &str| {
        let url = node.files.put(&format!("/{name}"), name.to_owned());
        let mut body = json!({
            "profile": "test_content", "submitter": "ann", "payload_url": url, "type": "file", "local_id": "object",
        });
        if let Some(mode) = mode {
            body["submission_mode"] = mode.into();
        }
        let answer = node.post("/api/v1/batches", body).await.is(201).json;
        answer["bid"].as_str().unwrap().to_owned()
    };
    for mode in ["update", "replace"] {
        let bid = deposit(Some(mode), "early").await;
        let jid = node.job_is(&bid, "failed").await;
        let job = node.get(&format!("/api/v1/jobs/{jid}")).await.is(200).json;
        let why = job["status"]["message"].as_str().unwrap();
        assert!(why.contains(&format!("the mode {mode} needs an object")), "{why}");
    }
    for (mode, name, changes) in [
        (None, "a", None),
        (Some("update"), "b", Some("1 added, 0 replaced, 0 removed, 1 unchanged")),
        (Some("add"), "c", Some("1 added, 0 replaced, 0 removed, 2 unchanged")),
        (Some("UPDATE"), "c", Some("no file changed of 3")),
        (Some("replace"), "d", Some("1 added, 0 replaced, 3 removed, 0 unchanged")),
    ] {
        let bid = deposit(mode, name).await;
        let jid = node.job_is(&bid, "completed").await;
        let job = node.get(&format!("/api/v1/jobs/{jid}")).await.is(200).json;
        assert_eq!(job["inventory"]["changes"].as_str(), changes, "{mode:?}: {job}");
    }
    let body = json!({
        "profile": "test_content", "submitter": "ann", "payload_url": "http://127.0.0.1:1/x",
        "submission_mode": "merge",
    });
    let answer = node.post("/api/v1/batches", body).await.problem(400, "invalid", "is not known");
    assert_eq!(answer.fields(), ["submission_mode"]);
    assert!(answer.text().contains("known are add, update, replace"), "{}", answer.text());
}

fn fields_first(more: &[(&'static str, &str)]) -> Form {
    let form = Form::new().text("profile", "test_content").text("submitter", "ann").text("type", "file");
    more.iter().fold(form, |form, (name, value)| form.text(*name, (*value).to_owned()))
}

/// A file that is larger than the buffers on its way.
fn large() -> Part {
    Part::bytes(vec![b'x'; 3 << 20]).file_name("large.bin")
}

#[tokio::test]
async fn what_comes_before_a_file_is_judged_before_the_file_is_stored() {
    let node = TestNode::start().await;
    let directory = node.dir.path().join("uploads");
    let changed = || std::fs::metadata(&directory).unwrap().modified().unwrap();
    let before = changed();
    for (wrong, field) in [
        (("priority", "100"), "priority"),
        (("uuid", "a/b"), "uuid"),
        (("digestType", "md6"), "digest_type"),
        (("payload_url", "http://127.0.0.1:1/x"), "payload_url"),
        (("tilte", "x"), "tilte"),
    ] {
        let answer = upload(&node, fields_first(&[wrong]).part("file", large())).await;
        assert_eq!(answer.problem(400, "invalid", "").fields(), [field]);
        // Nothing was stored and removed again, either.
        assert_eq!((uploads(&node), changed()), (0, before), "{field}");
    }
    // What may still come is not missed: fields behind the file are judged, too.
    let behind = Form::new()
        .text("submitter", "ann")
        .text("digestType", "sha-256")
        .part("file", Part::text("abc").file_name("a.txt"))
        .text("digestValue", SHA256_OF_ABC)
        .text("filename", "b.txt")
        .text("profile", "test_content");
    let bid = upload(&node, behind).await.is(201).json["bid"].as_str().unwrap().to_owned();
    node.batch_is(&bid, "completed").await;
    let late = form("abc", "a.txt").text("tilte", "x");
    assert_eq!(upload(&node, late).await.problem(400, "invalid", "").fields(), ["tilte"]);
    assert_eq!(uploads(&node), 1);
}

#[tokio::test]
async fn an_upload_for_which_there_is_no_room_is_refused_before_it_is_stored() {
    // No disk has so much to spare.
    let node = TestNode::start_with("upload_reserve = '1000 PiB'", "").await;
    let answer = upload(&node, fields_first(&[]).part("file", large())).await;
    answer.problem(507, "no-space", "api.upload_reserve");
    assert_eq!(uploads(&node), 0);
    // What is fetched needs no room there.
    node.submit("a.txt", "one").await;
}

#[tokio::test]
async fn a_retry_says_whether_the_payload_is_there_and_supplies_one_that_is_missing() {
    let node = TestNode::start_with("", "[pools.pending]\nsize = 0\n").await;
    let sent = || fields_first(&[("uuid", "u-1")]).part("file", Part::text("abc").file_name("a.txt"));
    let first = upload(&node, sent()).await.is(201).json;
    assert_eq!((&first["known"], &first["payload"]), (&false.into(), &"present".into()), "{first}");
    let again = upload(&node, sent()).await.is(200).json;
    assert_eq!(
        (&again["bid"], &again["known"], &again["payload"]),
        (&first["bid"], &true.into(), &"present".into())
    );
    assert_eq!(uploads(&node), 1);
    // As after a loss of the disk.
    std::fs::remove_dir_all(node.dir.path().join("uploads")).unwrap();
    let body = json!({"profile": "test_content", "submitter": "ann", "payload_url": "http://127.0.0.1:1/x", "uuid": "u-1"});
    let without = node.post("/api/v1/batches", body).await.is(200).json;
    assert_eq!(without["payload"], "missing", "{without}");
    let other = fields_first(&[("uuid", "u-1")]).part("file", Part::text("abd").file_name("a.txt"));
    assert_eq!(upload(&node, other).await.problem(400, "invalid", "another file").fields(), ["file"]);
    let of_bob = Form::new()
        .text("profile", "test_content")
        .text("submitter", "bob")
        .text("uuid", "u-1")
        .part("file", Part::text("abc").file_name("a.txt"));
    upload(&node, of_bob).await.problem(409, "refused", "another submitter");
    assert_eq!(uploads(&node), 0);
    let supplied = upload(&node, sent().text("responseForm", "xml")).await.is(200).text();
    assert!(supplied.contains("<payload>supplied</payload>"), "{supplied}");
    node.send(Method::PATCH, "/api/v1/pools/pending", &json!({"size": 1})).await.is(200);
    node.batch_is(first["bid"].as_str().unwrap(), "completed").await;
    // What was not uploaded says nothing of it.
    let url = node.files.put("/c.txt", "three");
    let body = json!({"profile": "test_content", "submitter": "ann", "payload_url": url, "type": "file"});
    assert_eq!(node.post("/api/v1/batches", body).await.is(201).json.get("payload"), None);
}
