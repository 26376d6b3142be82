//! `fsck`, `audit` and `export`, through a node and without one.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ingest_queue::date::Clock;
use ingest_queue::map;
use ingest_queue::queue::{Queue, Settings};
use ingest_steps::archive;
use ingest_steps::outcome::{Cancel, Progress};
use ingest_store::engines::embedded::{Embedded, EmbeddedConfig};
use ingest_store::engines::zookeeper::{Acl, Auth, Zookeeper, ZookeeperConfig};
use ingest_store::{Limits, Mode, Store};
use serde_json::{Value, json};

use crate::kit::{TestNode, configure, on_a_server, spawn};
use crate::ran::{Ran, command, run};

#[tokio::test]
async fn a_tree_is_checked_and_repaired_while_its_node_runs() {
    let dir = tempfile::tempdir().unwrap();
    configure(dir.path(), "", "[access]\ndir = 'access'\n");
    let tree = Embedded::open(&EmbeddedConfig::new(dir.path().join("tree"))).unwrap();
    let session = Store::new(Arc::new(tree.clone()), Limits::default()).session().await.unwrap();
    let dangling = format!("{}/nobody", map::BATCH_UUIDS);
    session.create_with_parents(dangling, "bid0000000042", Mode::Persistent).await.unwrap();
    session.close().await.unwrap();
    tree.close().await;

    let mut child = spawn(dir.path());
    let note = dir.path().join("node/api-address");
    let base = ingest_harness::eventually("the API's address", std::time::Duration::from_mins(1), || {
        std::future::ready(std::fs::read_to_string(&note).ok().filter(|text| text.ends_with('\n')))
    })
    .await;
    let cli = |arguments: &'static [&'static str]| run(command(dir.path(), base.trim(), arguments));

    let found = cli(&["fsck"]).await.is(1);
    found.says(&["nobody", "1 findings, 0 repaired"]).complains(&["--repair puts right what is safe"]);
    let busy = cli(&["fsck", "--embedded", "tree"]).await.is(1);
    busy.complains(&["in use", "leave --embedded out"]);
    let repaired = cli(&["fsck", "--repair", "--json"]).await.is(0);
    let json: Value = serde_json::from_str(&repaired.out).unwrap();
    assert_eq!(json["repaired"][0]["outcome"], "fixed", "{json}");
    assert_eq!(json["report"]["findings"], json!([]));
    cli(&["fsck"]).await.is(0).says(&["0 findings"]);
    child.kill().unwrap();
    child.wait().unwrap();
    cli(&["fsck"]).await.is(8).complains(&["--embedded DIR or --zookeeper CONNECT"]);
    cli(&["fsck", "--embedded", "tree"]).await.is(0).says(&["0 findings"]);
}

/// A tree with one finding.
async fn damage(store: &Store) {
    let session = store.session().await.unwrap();
    Queue::open(&session, Settings::new("test"), Clock::system()).await.unwrap();
    let dangling = format!("{}/nobody", map::BATCH_UUIDS);
    session.create_with_parents(dangling, "bid0000000042", Mode::Persistent).await.unwrap();
    session.close().await.unwrap();
}

/// Found, put right, and clean then.
async fn is_checked_and_repaired(dir: &Path, options: &[&str]) {
    let cli = |more: &[&str]| run(command(dir, "http://127.0.0.1:9", &[&["fsck"], options, more].concat()));
    cli(&[]).await.is(1).says(&["nobody", "1 findings, 0 repaired"]);
    let repaired = cli(&["--repair", "--json"]).await.is(0);
    let json: Value = serde_json::from_str(&repaired.out).unwrap();
    assert_eq!(json["repaired"][0]["outcome"], "fixed", "{json}");
    cli(&[]).await.is(0).says(&["0 findings"]);
}

#[tokio::test]
async fn a_tree_on_a_server_is_checked_without_a_node() {
    let connect = ingest_harness::shared_connect_string_with_chroot().await;
    let dir = tempfile::tempdir().unwrap();
    let zookeeper = Zookeeper::new(ZookeeperConfig::new(connect.as_str())).unwrap();
    damage(&Store::new(Arc::new(zookeeper), Limits::default())).await;
    is_checked_and_repaired(dir.path(), &["--zookeeper", &connect]).await;
    let wrong =
        run(command(dir.path(), "http://127.0.0.1:9", &["fsck", "--zookeeper", "127.0.0.1:port"])).await;
    wrong.is(1).complains(&["is not a port"]);
}

#[tokio::test]
async fn the_tree_of_a_configuration_is_checked_as_its_nodes_open_it() {
    let connect = ingest_harness::shared_connect_string_with_chroot().await;
    let identity = "acl = 'creator'\nauth = { user = 'ingest', password = 'right' }\n";
    let dir = on_a_server(&connect, "", "");
    let file = dir.path().join("ingestd.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    let connected = format!("connect = '{connect}'\n");
    std::fs::write(&file, text.replace(&connected, &format!("{connected}{identity}"))).unwrap();
    let owner = ZookeeperConfig {
        auth: Some(Auth { user: "ingest".into(), password: "right".into() }),
        acl: Acl::Creator,
        ..ZookeeperConfig::new(connect.as_str())
    };
    damage(&Store::new(Arc::new(Zookeeper::new(owner).unwrap()), Limits::default())).await;
    let cli = |arguments: &[&str]| run(command(dir.path(), "http://127.0.0.1:9", arguments));
    // Whoever does not say who asks sees nothing, and says so.
    let stranger = cli(&["fsck", "--zookeeper", &connect]).await;
    assert!(stranger.code != 0, "{stranger:?}");
    is_checked_and_repaired(dir.path(), &["--config", "ingestd.toml"]).await;
    let both = cli(&["fsck", "--config", "ingestd.toml", "--zookeeper", &connect]).await.is(2);
    both.complains(&["cannot be used with"]);
    cli(&["fsck", "--config", "ingestd.toml", "--dialect", "mrt-zk"]).await.is(2);
    cli(&["fsck", "--config", "nowhere.toml"]).await.is(3).complains(&["nowhere.toml"]);

    // Where no node answers, the command is named with the file that there is.
    let mut named = command(dir.path(), "http://127.0.0.1:9", &["fsck", "--repair"]);
    named.env("INGESTD_CONFIG", "ingestd.toml");
    run(named).await.is(8).complains(&["`ingestd fsck --config ingestd.toml --repair`", "no node answers"]);
    std::fs::create_dir(dir.path().join("config")).unwrap();
    std::fs::copy(&file, dir.path().join("config/ingestd.toml")).unwrap();
    cli(&["fsck"]).await.is(8).complains(&["`ingestd fsck --config config/ingestd.toml`"]);
}

#[tokio::test]
async fn an_embedded_tree_is_checked_by_its_configuration_and_in_its_dialect() {
    let dir = tempfile::tempdir().unwrap();
    configure(dir.path(), "", "");
    let config = ["--config", "ingestd.toml"];
    let none = run(command(dir.path(), "http://127.0.0.1:9", &[&["fsck"], &config[..]].concat())).await;
    none.is(1).complains(&["tree is not a directory"]);
    let tree = Embedded::open(&EmbeddedConfig::new(dir.path().join("tree"))).unwrap();
    damage(&Store::new(Arc::new(tree.clone()), Limits::default())).await;
    tree.close().await;
    is_checked_and_repaired(dir.path(), &config).await;

    // What one dialect has to be is wrong in the other.
    let file = dir.path().join("ingestd.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("[queue]\n", "[queue]\ndialect = 'mrt-zk'\n")).unwrap();
    let cli = |options: &[&str]| {
        run(command(dir.path(), "http://127.0.0.1:9", &[&["fsck", "--json"], options].concat()))
    };
    let (by_file, by_option) =
        (cli(&config).await, cli(&["--embedded", "tree", "--dialect", "mrt-zk"]).await);
    let as_design = cli(&["--embedded", "tree"]).await;
    let findings = |ran: &Ran| serde_json::from_str::<Value>(&ran.out).unwrap()["report"]["findings"].clone();
    assert_eq!(findings(&by_file), findings(&by_option));
    assert_ne!(findings(&by_file), findings(&as_design), "the dialect is that of the file");
    assert_eq!(by_file.code, by_option.code);
}

#[tokio::test]
async fn the_table_of_findings_is_for_people_and_for_programs() {
    let cli =
        |arguments: &'static [&'static str]| run(command(Path::new("/"), "http://127.0.0.1:9", arguments));
    cli(&["fsck", "--codes"]).await.is(0).says(&["CODE", "SEVERITY", "REPAIR", "U01"]);
    let codes: Value = serde_json::from_str(&cli(&["fsck", "--codes", "--json"]).await.is(0).out).unwrap();
    let codes = codes["codes"].as_array().unwrap();
    assert_eq!(codes.len(), ingest_queue::fsck::Code::ALL.len());
    assert!(codes.iter().all(|code| code["severity"].is_string() && code["repair"].is_string()), "{codes:?}");
    cli(&["man", "--markdown", "--json"]).await.is(2).complains(&["cannot be used with"]);
}

#[tokio::test]
async fn damaged_objects_are_found_by_an_audit() {
    let node = TestNode::start().await;
    let (one, two) = (node.submit("one.txt", "one").await, node.submit("two.txt", "two").await);
    node.batch_is(&one, "completed").await;
    node.batch_is(&two, "completed").await;
    let ark = |list: Value| list["jobs"][0]["primary_id"].as_str().unwrap().to_owned();
    let (first, second) = (
        ark(node.json(&["job", "list", "--batch", &one]).await),
        ark(node.json(&["job", "list", "--batch", &two]).await),
    );
    node.cli(&["audit", "--all"]).await.is(0).says(&[
        &first,
        &second,
        "sound",
        "2 objects",
        "0 not as stored",
    ]);

    let mut dirs = vec![node.dir.path().join("storage")];
    let mut damaged = 0;
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(dir).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_dir() {
                dirs.push(entry.path());
            } else if entry.file_name() == "two.txt" {
                std::fs::write(entry.path(), "too").unwrap();
                damaged += 1;
            }
        }
    }
    assert_eq!(damaged, 1);
    node.cli(&["audit", &first]).await.is(0).says(&["sound"]);
    let found = node.cli(&["audit", &first, &second]).await.is(1);
    let found = found.says(&[&second, "altered", "3 problems", "two.txt", "1 altered: restore what differs"]);
    found.complains(&["1 of 2 objects not as stored"]);
    let lines = node.cli(&["audit", "--batch", &two, "--json"]).await.is(1).lines();
    assert_eq!(lines[0]["object"]["ark"], json!(second));
    assert_eq!(lines[0]["object"]["verdict"], "altered");
    let findings = lines[0]["object"]["findings"].as_array().unwrap();
    let recorded = findings.iter().find(|finding| finding["path"] == "producer/two.txt").unwrap();
    assert_eq!((&recorded["verdict"], &recorded["version"]), (&json!("altered"), &json!(1)), "{recorded}");
    assert_eq!(lines.last().unwrap()["done"]["damaged"], 1);
    assert_eq!(lines.last().unwrap()["done"]["verdicts"], json!({"altered": 1}));
    node.cli(&["audit", "--batch", &one]).await.is(0);
    node.cli(&["audit", "ark:/99999/fk4nothing"]).await.is(1).says(&["no storage has it"]);
    node.cli(&["audit", "nonsense"]).await.is(2);
    node.cli(&["audit"]).await.is(2);
    node.cli(&["audit", "--batch", "bid0000009999"]).await.is(10);
}

#[tokio::test]
async fn an_object_that_is_recorded_and_not_stored_is_found_by_an_audit_of_all() {
    let node = TestNode::start().await;
    let (one, two) = (node.submit("one.txt", "one").await, node.submit("two.txt", "two").await);
    node.batch_is(&one, "completed").await;
    node.batch_is(&two, "completed").await;
    let lost = node.json(&["job", "list", "--batch", &two]).await["jobs"][0]["primary_id"].clone();
    let lost = lost.as_str().unwrap();

    let storage = node.dir.path().join("storage");
    let object = object_with(&storage, "two.txt");
    std::fs::rename(&object, node.dir.path().join("elsewhere")).unwrap();
    let found = node.cli(&["audit", "--all"]).await.is(1);
    let found = found.says(&[lost, "it is recorded, and no storage has it", "2 objects"]);
    found.complains(&["1 of 2 objects not as stored"]);
    std::fs::rename(node.dir.path().join("elsewhere"), &object).unwrap();
    node.cli(&["audit", "--all"]).await.is(0).says(&["2 objects", "0 not as stored"]);

    // A version that was there once.
    let again =
        ["submit", "--primary-id", lost, "--submission-mode", "update", "--wait", "-p", "test_content"];
    let newer = node.dir.path().join("newer.txt");
    std::fs::write(&newer, "newer").unwrap();
    let kept = node.dir.path().join("kept");
    copy_dir(&object, &kept);
    node.cli(&[&again[..], &["--type", "file", newer.to_str().unwrap()]].concat()).await.is(0);
    std::fs::remove_dir_all(&object).unwrap();
    copy_dir(&kept, &object);
    let found = node.cli(&["audit", "--all"]).await.is(1);
    found.says(&["version 2 is recorded, and the newest that is stored is 1", "2 objects"]);
}

/// The lines of objects, and how many have which verdict, however they were asked for.
async fn audited(node: &TestNode, arguments: &[&str], query: &str) -> (Vec<Value>, Value) {
    let ran = node.cli(&[&["audit", "--json"], arguments].concat()).await;
    let answer = node.get(&format!("/api/v1/objects/audit?{query}")).await.is(200).text();
    let api = answer.lines().filter(|line| !line.is_empty());
    let api: Vec<Value> = api.map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |lines: Vec<Value>| {
        let done = lines.last().unwrap()["done"]["verdicts"].clone();
        let mut objects: Vec<_> =
            lines.into_iter().filter_map(|mut line| line.get_mut("object").map(Value::take)).collect();
        objects.sort_by_key(|object| object["ark"].to_string());
        (objects, done)
    };
    let (cli, api) = (of(ran.lines()), of(api));
    assert_eq!(cli, api);
    let sound = cli.1.as_object().unwrap().keys().all(|verdict| verdict == "sound");
    ran.is(i32::from(!sound));
    cli
}

#[tokio::test]
async fn an_object_is_audited_in_the_same_way_however_it_was_chosen() {
    let node = TestNode::start().await;
    let batch = async |name: &str, local_id: &str| {
        let url = node.files.put(&format!("/{name}"), name);
        let body = json!({
            "profile": "test_content", "submitter": "ann", "payload_url": url, "type": "file", "local_id": [local_id],
        });
        let answer = node.post("/api/v1/batches", body).await.is(201);
        answer.json["bid"].as_str().unwrap().to_owned()
    };
    let (one, two) = (batch("one.txt", "first").await, batch("two.txt", "second").await);
    node.batch_is(&one, "completed").await;
    node.batch_is(&two, "completed").await;
    let ark = node.json(&["job", "list", "--batch", &two]).await["jobs"][0]["primary_id"].clone();
    let ark = ark.as_str().unwrap();
    let storage = node.dir.path().join("storage");
    let object = object_with(&storage, "two.txt");
    let kept = node.dir.path().join("kept");
    copy_dir(&object, &kept);
    let remove = |names: &[&str]| {
        for name in names {
            std::fs::remove_file(object.join(name)).unwrap();
        }
    };
    let cases: [(&str, &dyn Fn()); 7] = [
        ("sound", &|| ()),
        ("altered", &|| remove(&["0=ocfl_object_1.1"])),
        ("altered", &|| remove(&["0=ocfl_object_1.1", "inventory.json"])),
        ("altered", &|| std::fs::write(object.join("v1/content/producer/two.txt"), "TWO.txt").unwrap()),
        ("lost", &|| remove(&["v1/content/producer/two.txt"])),
        ("lost", &|| {
            std::fs::remove_dir_all(&object).unwrap();
            std::fs::create_dir(&object).unwrap();
        }),
        ("unstored", &|| std::fs::remove_dir_all(&object).unwrap()),
    ];
    for (verdict, damage) in cases {
        damage();
        let (named, _) = audited(&node, &[ark], &format!("ark={ark}")).await;
        assert_eq!(named[0]["verdict"], verdict, "{named:#?}");
        let (of_batch, done) = audited(&node, &["--batch", &two], &format!("batch={two}")).await;
        assert_eq!((&of_batch, &done), (&named, &json!({verdict: 1})));
        let (all, _) = audited(&node, &["--all"], "all=true").await;
        assert_eq!(all.len(), 2, "{all:#?}");
        assert!(all.contains(&named[0]), "{all:#?}");
        assert_eq!(
            all.iter().filter(|object| object["verdict"] == "sound").count(),
            if verdict == "sound" { 2 } else { 1 }
        );
        if verdict != "unstored" {
            std::fs::remove_dir_all(&object).unwrap();
            copy_dir(&kept, &object);
        }
    }

    // The object is gone, and its local id is deposited again: that must not make it sound.
    let again = batch("three.txt", "second").await;
    let ended = ["completed", "failed"];
    let path = format!("/api/v1/batches/{again}");
    ingest_harness::eventually("the batch's end", std::time::Duration::from_mins(3), || async {
        let answer = node.get(&path).await;
        ended.iter().any(|state| answer.json["state"] == *state).then_some(())
    })
    .await;
    let (named, _) = audited(&node, &[ark], &format!("ark={ark}")).await;
    assert_ne!(named[0]["verdict"], "sound", "{named:#?}");

    // What is no object is told, and only with all.
    std::fs::write(storage.join("stray"), "").unwrap();
    let (all, done) = audited(&node, &["--all"], "all=true").await;
    assert_eq!(done["foreign"], 1, "{all:#?}");
    let stray = all.iter().find(|object| object["ark"] == "").unwrap();
    assert!(stray["place"].as_str().unwrap().ends_with("storage/stray"), "{stray}");
    let told = node.cli(&["audit", "--all"]).await.is(1);
    told.says(&["storage/stray", "foreign", "move it out of the storage"]);
}

/// The directory of the object that has a file of this name.
fn object_with(storage: &Path, name: &str) -> PathBuf {
    let mut dirs = vec![storage.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(&dir).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_dir() {
                dirs.push(entry.path());
            } else if entry.file_name() == name {
                let object =
                    dir.ancestors().find(|dir| dir.join("inventory.json").is_file() && !dir.ends_with("v1"));
                return object.unwrap().to_owned();
            }
        }
    }
    panic!("nothing has {name}")
}

fn copy_dir(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_dir(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}

#[tokio::test]
async fn the_record_of_a_batch_is_a_valid_bag() {
    let node = TestNode::start().await;
    std::fs::write(node.dir.path().join("a.txt"), "a").unwrap();
    let submitted = node
        .json(&["submit", "a.txt", "-p", "test_content", "--submitter", "ann", "--title", "A title"])
        .await;
    let bid = submitted["bid"].as_str().unwrap();
    node.batch_is(bid, "completed").await;
    node.cli(&["export", bid]).await.is(0).says(&[&format!("{bid}.zip: ")]);
    node.cli(&["export", bid]).await.is(2).complains(&["--overwrite"]);
    node.cli(&["export", "bid0000009999"]).await.is(10);

    let (zip, to) = (node.dir.path().join(format!("{bid}.zip")), node.dir.path().join("unpacked"));
    archive::unpack(&zip, &to, &archive::Limits::default(), &Progress::default(), &Cancel::new()).unwrap();
    let bag = to.join(bid);
    let report = ingest_steps::bag::validate(&bag, &Progress::default(), &Cancel::new()).unwrap();
    assert!(report.verdict().is_ok(), "{report:?}");
    let read = |name: &str| std::fs::read_to_string(bag.join("data").join(name)).unwrap();
    let submission: Value = serde_json::from_str(&read("submission.json")).unwrap();
    assert_eq!(submission["submitter"], "ann");
    let batch: Value = serde_json::from_str(&read("batch.json")).unwrap();
    assert_eq!(batch["batch"]["state"], "completed");
    let jobs: Vec<_> = std::fs::read_dir(bag.join("data/jobs")).unwrap().map(Result::unwrap).collect();
    assert_eq!(jobs.len(), 1);
    let job: Value = serde_json::from_str(&std::fs::read_to_string(jobs[0].path()).unwrap()).unwrap();
    assert_eq!(job["job"]["state"], "completed");
    assert_eq!(job["history"].as_array().unwrap().last().unwrap()["to"], "completed");
    assert!(read("report.csv").contains("completed") && read("report.txt").contains(bid));
    let everything = [read("manifest"), job.to_string(), submission.to_string()].concat();
    assert!(read("manifest").contains("a.txt") && everything.contains("signature=***"), "{everything}");
    let signed = everything.split("signature=").skip(1).find(|rest| !rest.starts_with("***"));
    assert!(signed.is_none(), "{signed:?}");
}
