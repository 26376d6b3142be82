//! Settings of the cluster: over the file, under the environment, and only what holds without a restart.

use super::super::{Cluster, Environment, check_all};

fn cluster(text: &str) -> Cluster {
    Cluster { mark: "3-abc".into(), text: text.into() }
}

fn checked(file: &str, variables: &[(&str, &str)], text: &str) -> (String, Vec<String>) {
    let dir = tempfile::tempdir().unwrap();
    let profiles = dir.path().join("profiles");
    std::fs::create_dir(&profiles).unwrap();
    let path = dir.path().join("ingestd.toml");
    std::fs::write(&path, format!("[profiles]\ndir = '{}'\n{file}", profiles.display())).unwrap();
    let environment = variables.iter().copied().collect::<Environment>();
    let checked = check_all(Some(&path), &environment, &[], Some(&cluster(text)));
    let problems = checked.problems.iter().map(ToString::to_string).collect();
    (checked.effective.text(), problems)
}

#[test]
fn the_cluster_is_over_the_file_and_under_the_environment() {
    let file = "[pools.downloading]\nsize = 3\n[pools.processing]\nsize = 3\n";
    let settings = "[pools.downloading]\nsize = 5\n[pools.recording]\nsize = 5\n";
    let variables = [("INGESTD_POOLS_RECORDING_SIZE", "7")];
    let (text, problems) = checked(file, &variables, settings);
    assert!(problems.is_empty(), "{problems:?}");
    assert!(text.contains("size = 5  # the cluster, 3-abc"), "{text}");
    assert!(text.contains("size = 7  # INGESTD_POOLS_RECORDING_SIZE"), "{text}");
    assert!(text.contains("size = 3  # "), "{text}");
}

#[test]
fn what_needs_a_restart_or_is_unknown_is_refused() {
    for (settings, expected) in [
        ("[node]\nname = 'a'", "node.name: each node has its own"),
        ("[api]\nurl_key = 'k'", "api.url_key: each node has its own"),
        ("[pools.downlaoding]\nsize = 1", "did you mean `pools.downloading.size`?"),
        ("[pools.downloading]\nsize = 'many'", "pools.downloading.size"),
        ("[pools.provisioning]\nsize = 3", "it is 0 or 1"),
        ("not toml", "the settings of the cluster"),
    ] {
        let (_, problems) = checked("", &[], settings);
        assert!(problems.iter().any(|problem| problem.contains(expected)), "{settings}: {problems:?}");
    }
}
