//! `submit`: everything that can be handed over, and what becomes of it.

use serde_json::{Value, json};

use crate::kit::TestNode;
use crate::ran::{command, run};

const ARGUMENTS: [&str; 4] = ["--profile", "test_content", "--submitter", "ann"];

impl TestNode {
    /// Submits, and waits for the end.
    async fn hands_over(&self, arguments: &[&str]) -> Value {
        let arguments = [&["submit", "--wait", "--json"], arguments, &ARGUMENTS].concat();
        let lines = self.cli(&arguments).await.is(0).lines();
        let (first, last) = (&lines[0], &lines[lines.len() - 1]);
        assert_eq!((&first["bid"], &last["state"]), (&last["bid"], &json!("completed")), "{lines:?}");
        let path = format!("/api/v1/batches/{}", last["bid"].as_str().unwrap());
        let now = self.get(&path).await.is(200).json;
        assert_eq!(now["state"], "completed");
        now
    }

    /// The names of all files in the storage.
    fn stored(&self) -> Vec<String> {
        let mut dirs = vec![self.dir.path().join("storage")];
        let mut names = Vec::new();
        while let Some(dir) = dirs.pop() {
            for entry in std::fs::read_dir(dir).unwrap().map(Result::unwrap) {
                if entry.file_type().unwrap().is_dir() {
                    dirs.push(entry.path());
                } else {
                    names.push(entry.path());
                }
            }
        }
        names.into_iter().map(|path| path.display().to_string()).collect()
    }
}

#[tokio::test]
async fn files_directories_urls_and_manifests_become_objects() {
    let node = TestNode::start().await;
    let put = |name: &str, text: &str| {
        let path = node.dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    put("in/one.txt", "one");
    put("in/dir/a.txt", "a");
    put("in/dir/deep/b.txt", "b");

    let file = node.hands_over(&["in/one.txt"]).await;
    assert_eq!(file["submission"]["payload_filename"], "one.txt", "{file}");
    assert!(file["submission"]["digest_value"].is_string(), "it is digested before it is sent: {file}");

    let directory = node.hands_over(&["in/dir"]).await;
    assert_eq!(directory["submission"]["type"], "container", "{directory}");
    let stored = node.stored();
    for name in ["/producer/deep/b.txt", "/producer/a.txt", "/producer/one.txt"] {
        assert!(stored.iter().any(|stored| stored.ends_with(name)), "{name} is not in {stored:?}");
    }

    let url = node.files.put("/two.txt", "two");
    node.hands_over(&[url.as_str(), "--type", "file"]).await;
    assert!(node.files.asked("/two.txt").contains(&"GET".to_owned()));

    let (three, four) = (node.files.put("/three.txt", "three"), node.files.put("/four.txt", "four"));
    put("in/rows.txt", &format!("# two objects\n{three} local-3\n{four} local-4\n"));
    let rows = node.hands_over(&["--manifest", "in/rows.txt"]).await;
    assert_eq!(rows["jobs"]["completed"], 2, "{rows}");
    put("in/rows.json", &json!([{"url": three, "local_id": ["local-5"]}]).to_string());
    assert_eq!(node.hands_over(&["--manifest", "in/rows.json"]).await["jobs"]["completed"], 1);

    let checkm = format!(
        "#%checkm_0.7\n#%profile | http://uc3.cdlib.org/registry/ingest/manifest/mrt-single-file-batch-manifest\n\
         #%prefix | mrt: | http://merritt.cdlib.org/terms#\n\
         #%prefix | nfo: | http://www.semanticdesktop.org/ontologies/2007/03/22/nfo#\n\
         #%fields | nfo:fileurl | nfo:hashalgorithm | nfo:hashvalue | nfo:filesize | nfo:filelastmodified | nfo:filename\n\
         {three} | | | | | three.txt\n{four} | | | | | four.txt\n#%eof\n"
    );
    put("in/batch.checkm", &checkm);
    assert_eq!(node.hands_over(&["--manifest", "in/batch.checkm"]).await["jobs"]["completed"], 2);
}

#[tokio::test]
async fn every_field_arrives_and_a_repeated_uuid_is_known() {
    let node = TestNode::start().await;
    std::fs::write(node.dir.path().join("a.txt"), "a").unwrap();
    let fields = [
        ("--local-id", "one"),
        ("--local-id", "two"),
        ("--creator", "Ann Author"),
        ("--title", "Größe & <b>"),
        ("--date", "1999"),
        ("--dc", "subject=maps"),
        ("--note", "a note"),
        ("--notification", "ann@example.org"),
        ("--priority", "important"),
        ("--key", "my-key"),
        ("--expiration-date", "2999-01-01T00:00:00Z"),
        ("--process-date", "2001-01-01T00:00:00Z"),
        ("--uuid", "my-own-1"),
        ("--filename", "renamed.txt"),
    ];
    let mut arguments = vec!["submit", "a.txt"];
    arguments.extend(ARGUMENTS);
    arguments.extend(fields.iter().flat_map(|(name, value)| [*name, *value]));
    let first = node.json(&arguments).await;
    assert_eq!((&first["uuid"], &first["known"]), (&json!("my-own-1"), &json!(false)));
    let again = node.json(&arguments).await;
    assert_eq!((&again["bid"], &again["known"]), (&first["bid"], &json!(true)));
    let bid = first["bid"].as_str().unwrap();
    let seen = node.json(&["batch", "show", "my-own-1"]).await;
    let text = seen["submission"].to_string();
    for value in [
        "one",
        "two",
        "Ann Author",
        "Größe & <b>",
        "1999",
        "maps",
        "a note",
        "ann@example.org",
        "renamed.txt",
        "my-key",
        "2999-01-01",
    ] {
        assert!(text.contains(value), "{value:?} is not in {text}");
    }
    let batch = node.batch_is(bid, "completed").await;
    assert_eq!(batch["uuid"], "my-own-1");
    let jobs = node.json(&["job", "list", "--batch", bid]).await;
    assert_eq!(jobs["jobs"][0]["priority"], 10, "{jobs}");
}

#[tokio::test]
async fn an_object_is_corrected_in_the_mode_that_is_named() {
    let node = TestNode::start().await;
    let put = |name: &str, text: &str| {
        let path = node.dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    put("first/a.txt", "a");
    put("first/old/b.txt", "b");
    put("correction/c.txt", "c");
    put("correction/mrt-delete.txt", "old/b.txt\n");
    let object = ["--local-id", "object"];
    for (arguments, changes) in [
        (&["first"][..], Value::Null),
        (&["--mode", "update", "correction"], json!("1 added, 0 replaced, 1 removed, 1 unchanged")),
        (&["--submission-mode", "replace", "first"], json!("1 added, 0 replaced, 1 removed, 1 unchanged")),
    ] {
        let batch = node.hands_over(&[arguments, &object].concat()).await;
        let jobs = node.json(&["job", "list", "--batch", batch["bid"].as_str().unwrap()]).await;
        let jid = jobs["jobs"][0]["jid"].as_str().unwrap();
        let job = node.json(&["job", "show", jid]).await;
        assert_eq!(job["inventory"]["changes"], changes, "{arguments:?}: {job}");
    }
    let unknown = [&["submit", "--mode", "merge", "first"], &ARGUMENTS[..]].concat();
    node.cli(&unknown).await.is(2).complains(&["submission_mode: `merge` is not known"]);
}

#[tokio::test]
async fn a_batch_that_fails_is_another_exit_code() {
    let node = TestNode::start().await;
    let missing = node.files.url("/missing.txt");
    let arguments = [&["submit", "--wait", "--type", "file", missing.as_str()], &ARGUMENTS[..]].concat();
    let ran = node.cli(&arguments).await.is(13).says(&["is handed over"]);
    ran.complains(&["has failed", "1 failed"]);
}

#[tokio::test]
async fn everything_that_is_wrong_is_told_at_once() {
    let node = TestNode::start().await;
    let wrong = [
        "submit",
        "http://example.org/x",
        "--profile",
        "tset_content",
        "--submitter",
        "",
        "--digest-type",
        "md5",
        "--digest-value",
        "1",
    ];
    let ran = node.cli(&wrong).await.is(2);
    ran.complains(&[
        "profile: there is no profile `tset_content`; did you mean `test_content`?",
        "digest_value: ",
        "submitter: ",
    ]);
    node.cli(&["submit", "nowhere.txt", "--profile", "x"])
        .await
        .is(2)
        .complains(&["nowhere.txt: No such file"]);
    node.cli(&["submit", "--profile", "x"]).await.is(2).complains(&["required"]);
    std::fs::create_dir(node.dir.path().join("empty")).unwrap();
    let empty = [&["submit", "empty"], &ARGUMENTS[..]].concat();
    node.cli(&empty).await.is(2).complains(&["there is nothing in it"]);
    assert_eq!(node.get("/api/v1/batches").await.json["batches"], json!([]), "nothing was made");
}

/// Whoever sits at the terminal: as the environment says, and where it says nothing, as the machine knows this user.
#[tokio::test]
async fn the_submitter_is_whoever_runs_it_unless_one_is_named() {
    let node = TestNode::start().await;
    std::fs::write(node.dir.path().join("a.txt"), "a").unwrap();
    let known = std::process::Command::new("id").arg("-un").output().unwrap();
    let listed = String::from_utf8(known.stdout).unwrap().trim().to_owned();
    assert!(known.status.success() && !listed.is_empty(), "the user who runs the tests has a name");
    for (environment, name) in [
        (&[][..], listed.as_str()),
        (&[("USER", ""), ("LOGNAME", "")], &listed),
        (&[("USER", "zoe"), ("LOGNAME", "yan")], "zoe"),
        (&[("LOGNAME", "yan")], "yan"),
    ] {
        let arguments = ["submit", "a.txt", "--profile", "test_content", "--json"];
        let mut command = command(node.dir.path(), &node.base, &arguments);
        command.envs(environment.iter().copied());
        let made: Value = serde_json::from_str(&run(command).await.is(0).out).unwrap();
        let batch = node.json(&["batch", "show", made["bid"].as_str().unwrap()]).await;
        assert_eq!(batch["submission"]["submitter"], name, "{environment:?}: {batch}");
    }
    node.cli(&["batch", "list"]).await.is(0).says(&[&listed, "zoe", "yan"]);
}
