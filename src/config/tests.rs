//! Files and environments as people write them.

mod changes;
mod cluster;
mod environment;
mod secrets;
mod shipped;
mod wrong;

use ingest_steps::settings::{Inventory, MailBy, Minter};
use ingest_store::EngineConfig;
use tempfile::TempDir;

use super::keys::KEYS;
use super::*;

/// A directory with a file in it.
struct Given {
    dir: TempDir,
    variables: Vec<(String, String)>,
}

impl Given {
    fn file(text: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("ingestd.toml"), text).unwrap();
        Self { dir, variables: Vec::new() }
    }

    fn with(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("ingestd.toml")
    }

    fn environment(&self) -> Environment {
        self.variables.iter().cloned().collect()
    }

    fn check(&self) -> Checked {
        check_in(Some(&self.path()), &self.environment(), &[])
    }

    fn load(&self) -> Loaded {
        load(Some(&self.path()), &self.environment()).unwrap()
    }

    /// Lines, without the directory.
    fn problems(&self) -> Vec<String> {
        let dir = format!("{}/", self.dir.path().display());
        self.check().problems.iter().map(|problem| problem.to_string().replace(&dir, "")).collect()
    }

    /// The only one.
    fn problem(&self) -> String {
        let mut problems = self.problems();
        assert_eq!(problems.len(), 1, "{problems:#?}");
        problems.remove(0)
    }
}

fn loaded(text: &str) -> Loaded {
    Given::file(text).load()
}

#[test]
fn an_empty_file_is_the_default() {
    let all = loaded("");
    let engine = EngineConfig::Embedded(ingest_store::engines::embedded::EmbeddedConfig::new("data/tree"));
    assert_eq!(all.store, StoreConfig { engine, limits: ingest_store::Limits::default() });
    assert_eq!(all.steps, ingest_steps::settings::Settings::default());
    assert_eq!(all.node, ingest_actors::settings::Settings::default());
    assert_eq!(all.log, LogSettings::default());
    assert_eq!(all.effective.sources(), []);
}

#[test]
fn what_a_file_leaves_out_of_a_table_has_its_default() {
    let all =
        loaded("[pools.downloading]\nsize = 3\n[store.limits]\nmax_requests = 5\n[inventory]\npath = 'x'");
    let default = ingest_actors::settings::Pools::default();
    assert_eq!(
        (all.node.pools.downloading.size, all.node.pools.downloading.stall),
        (3, default.downloading.stall)
    );
    assert_eq!(all.store.limits, ingest_store::Limits { max_requests: 5, ..ingest_store::Limits::default() });
    assert!(matches!(all.store.engine, EngineConfig::Embedded(_)));
    assert_eq!(all.steps.inventory, Inventory::Sqlite { path: "x".into() });
}

#[test]
fn a_choice_replaces_the_one_that_is_the_default() {
    let all = loaded("[store.engine.zookeeper]\nconnect = 'zk:2181/x'\n[mail.by.smtp]\nhost = 'mail'");
    assert!(matches!(&all.store.engine, EngineConfig::Zookeeper(zk) if zk.connect == "zk:2181/x"));
    assert!(matches!(&all.steps.mail.by, MailBy::Smtp(smtp) if smtp.host == "mail"));
    let shown = all.effective.text();
    assert!(shown.contains("session_timeout = \"10s\"\n") && !shown.contains("embedded"), "{shown}");
    let outside = loaded("[inventory]\nkind = 'outside'");
    assert_eq!(outside.steps.inventory, Inventory::Outside {});
}

#[test]
fn a_size_may_be_written_where_its_owner_wants_a_number() {
    for (text, bytes) in [("'1 MiB'", 1 << 20), ("4096", 4096)] {
        let all = loaded(&format!("[store.engine.embedded]\ncache = {text}"));
        assert!(matches!(&all.store.engine, EngineConfig::Embedded(tree) if tree.cache == bytes));
    }
}

#[test]
fn a_file_that_names_storages_names_all_of_them() {
    let profiles = tempfile::tempdir().unwrap();
    let rest = format!("[profiles]\ndir = '{}'", profiles.path().display());
    let all = loaded(&format!("[storage.disk]\nkind = 'ocfl'\ndir = 'x'\n{rest}"));
    assert_eq!(all.steps.storage.keys().collect::<Vec<_>>(), ["disk"]);
    assert_eq!(all.steps.minter.keys().collect::<Vec<_>>(), ["default"]);
    // The default's kind need not be said.
    let all = loaded("[minter.default]\nblock = 7");
    assert!(matches!(&all.steps.minter["default"], Minter::Local(local) if local.block == 7));
}

#[test]
fn a_file_is_found_where_it_usually_is() {
    let dir = tempfile::tempdir().unwrap();
    let places = ["near.toml", "far.toml"].map(|name| dir.path().join(name));
    let pools = |place: &PathBuf, size: usize| {
        std::fs::write(place, format!("[pools.notify]\nsize = {size}")).unwrap();
    };
    let size = |variables: &[(&str, &str)]| {
        let environment = variables.iter().copied().collect();
        let Checked { problems, loaded, .. } = check_in(None, &environment, &places);
        let loaded = loaded.unwrap_or_else(|| panic!("{problems:?}"));
        (loaded.node.pools.notify.size, loaded.path)
    };
    assert_eq!(size(&[]), (4, None), "the defaults");
    pools(&places[1], 11);
    assert_eq!(size(&[]), (11, Some(places[1].clone())));
    pools(&places[0], 12);
    assert_eq!(size(&[]), (12, Some(places[0].clone())));
    let named = dir.path().join("named.toml");
    pools(&named, 13);
    assert_eq!(size(&[(CONFIG, named.to_str().unwrap())]), (13, Some(named.clone())));
    let given = check_in(Some(&places[1]), &[(CONFIG, named.to_str().unwrap())].into_iter().collect(), &[]);
    assert_eq!(
        given.loaded.unwrap().node.pools.notify.size,
        11,
        "what is given comes before the environment"
    );
}

#[test]
fn a_file_that_was_named_has_to_be_there() {
    let problems = load(Some(Path::new("no/such/file.toml")), &Environment::default()).unwrap_err();
    assert_eq!(problems.to_string(), "no/such/file.toml: there is no such file");
    let problems = load(Some(Path::new("config")), &Environment::default()).unwrap_err();
    assert!(problems.to_string().starts_with("config: it cannot be read: "), "{problems}");
}

#[test]
fn what_holds_is_shown_with_where_it_comes_from() {
    let given = Given::file(
        "[pools.downloading]\nsize = 9\nstall = '600s'\n[storage.'my disk']\nkind = 'ocfl'\ndir = 'x'\n",
    )
    .with("INGESTD_FETCH_RETRIES", "2")
    .with("INGESTD_PROFILES_DIR", "/");
    let checked = given.check();
    let path = given.path().display().to_string();
    let text = checked.effective.text();
    for part in [
        &format!("[pools.downloading]\nsize = 9  # {path}:2\nstall = \"600s\"\n"),
        "retries = 2  # INGESTD_FETCH_RETRIES\n",
        "per_host = 4\n",
        &format!("[storage.\"my disk\"]\nkind = \"ocfl\"\ndir = \"x\"  # {path}:6\n"),
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    // It is a configuration that says the same.
    let again = Given::file(&text).load();
    assert_eq!(again.effective.json(), checked.effective.json());
    assert_eq!(checked.effective.json()["pools"]["downloading"]["size"], 9);
    let sources = checked.effective.sources();
    assert!(sources.contains(&("fetch.retries".into(), "INGESTD_FETCH_RETRIES".into())), "{sources:?}");
    assert_eq!(sources.len(), 4, "{sources:?}");
}
