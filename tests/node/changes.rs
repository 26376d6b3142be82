//! The configuration is changed under a node that runs.

use ingest_harness::FileServer;
use rustix::process::Signal;

use crate::checks;
use crate::kit::{self, many};
use crate::place::Place;

const JOBS: u64 = 40;

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_grows_and_shrinks_in_the_middle_of_its_work_and_no_work_is_killed() {
    let (place, files) = (Place::shared().await, FileServer::start().await);
    let mut node = place.node("node-1").set("pools.downloading.size", 2).ready().await;
    let queue = place.queue().await;
    files.hold();
    files.pass(1);
    let bid = kit::submit(&queue, many(&files, "resized", 40)).await;
    files.until("two downloads", |traffic| traffic.open == 2).await;

    node.change("pools.downloading.size", 8);
    let applied = node.says("applied").await;
    assert_eq!(applied["change"], "pools.downloading.size: 2 becomes 8", "{applied}");
    files.until("eight downloads", |traffic| traffic.open == 8).await;
    assert_eq!(files.traffic().most, 8, "never more than there is room for");

    node.change("pools.downloading.size", 1);
    node.says_with("applied", |line| line["change"] == "pools.downloading.size: 8 becomes 1").await;
    // Those that run come to their end. The next begins when one is left.
    assert_eq!(files.traffic().open, 8);
    files.pass(7);
    files.until("one download", |traffic| traffic.open == 1).await;
    files.forget_most();
    for _ in 0..5 {
        let asked = files.traffic().asked;
        files.pass(1);
        files.until("the next download", |traffic| traffic.asked == asked + 1).await;
    }
    assert_eq!(files.traffic().most, 1, "one after the other");

    node.change("pools.downloading.size", 4);
    files.release();
    checks::completed_once(&queue, bid, 40).await;
    assert_eq!(files.traffic().asked, JOBS + 1, "every file once, and the manifest");
    assert_eq!(node.count("restarted"), 0, "{}", node.process.tail());
    checks::clean(&queue).await;
    assert_eq!(node.drained().await, 0, "{}", node.process.tail());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reload_says_what_holds_what_needs_a_restart_and_why_nothing_has_changed() {
    let place = Place::shared().await;
    let mut node = place.node("node-1").ready().await;
    node.process.signal(Signal::HUP);
    let nothing = node.says_with("reloaded", |line| line["because"] == "SIGHUP").await;
    assert_eq!((&nothing["applied"], &nothing["need_a_restart"]), (&0.into(), &0.into()), "{nothing}");
    assert_eq!(nothing["profiles"], 1, "{nothing}");

    // The file alone is enough. What needs a restart is told until there is one.
    node.change("queue.max_timeouts", 3);
    let later = node.says("needs a restart").await;
    assert_eq!(later["change"], "queue.max_timeouts: 10 becomes 3 with the next start", "{later}");
    assert_eq!(later["level"], "WARN");
    let reloaded = node.says_with("reloaded", |line| line["need_a_restart"] == 1).await;
    assert!(reloaded["because"].as_str().unwrap().ends_with("ingestd.toml has changed"), "{reloaded}");
    node.change("pools.notify.size", 6);
    let both = node.says_with("reloaded", |line| line["applied"] == 1).await;
    assert_eq!(both["need_a_restart"], 1, "{both}");
    assert_eq!(node.count("needs a restart"), 2);

    // A bad file changes nothing, and says why and where.
    let text = node.setup.text();
    assert!(text.contains("[pools.notify]\nsize = 6\n"), "{text}");
    node.setup.write(&text.replace("[pools.notify]\nsize = 6\n", "[pools.notify]\nsize = 7\nsice = 8\n"));
    let wrong = node.says("the configuration is wrong").await;
    let problem = wrong["problem"].as_str().unwrap();
    for part in ["ingestd.toml:", "pools.notify.sice", "did you mean `size`"] {
        assert!(problem.contains(part), "{part} is not in {problem}");
    }
    assert_eq!(node.says("not reloaded: nothing has changed").await["count"], 1);
    // And neither does a bad profile, beside a good file.
    let profile = place.path("profiles").join("other.toml");
    std::fs::write(&profile, "name = \"another\"\n").unwrap();
    node.change("pools.notify.size", 9);
    let wrong = node
        .says_with("the configuration is wrong", |line| {
            line["problem"].as_str().unwrap().contains("other.toml")
        })
        .await;
    assert_eq!(wrong["level"], "ERROR");
    std::fs::remove_file(&profile).unwrap();
    node.says_with("applied", |line| line["change"] == "pools.notify.size: 6 becomes 9").await;
    assert_eq!(node.drained().await, 0, "{}", node.process.tail());
}
