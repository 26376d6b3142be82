//! The shipped configuration says what is true: its keys exist, its values are the defaults, every key stands in it,
//! and its examples are right once their comment marks are gone.

use std::collections::BTreeMap;

use ingest_actors::settings as node;
use ingest_steps::settings::{self, Settings};
use ingest_steps::{archive, fetch, notify};
use ingest_store::engines::embedded::EmbeddedConfig;
use ingest_store::engines::zookeeper::{Acl, ZookeeperConfig};
use ingest_store::{EngineConfig, Limits, StoreConfig};
use serde::Deserialize;

use crate::api::ApiSettings;
use crate::config::keys::{self, KEYS, SHIPPED};
use crate::config::{self, sections};
use crate::logs::LogSettings;
use crate::traces::TraceSettings;

/// The whole file. The sections of the steps are fields here, because a flattened struct refuses no unknown key.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    store: Option<StoreConfig>,
    work: Option<settings::Work>,
    profiles: Option<settings::Profiles>,
    fetch: Option<fetch::Rules>,
    unpack: Option<archive::Limits>,
    expanding: Option<settings::Expanding>,
    estimating: Option<settings::Estimating>,
    provisioning: Option<settings::Provisioning>,
    downloading: Option<settings::Downloading>,
    notify: Option<notify::Settings>,
    storage: Option<BTreeMap<String, settings::Storage>>,
    minter: Option<BTreeMap<String, settings::Minter>>,
    inventory: Option<settings::Inventory>,
    mail: Option<settings::Mail>,
    access: Option<settings::Access>,
    node: Option<node::Node>,
    pools: Option<node::Pools>,
    queue: Option<node::Queue>,
    supervision: Option<node::Supervision>,
    shutdown: Option<node::Shutdown>,
    upkeep: Option<node::Upkeep>,
    workers: Option<node::Workers>,
    feeds: Option<BTreeMap<String, ingest_steps::feed::Feed>>,
    stats: Option<node::Stats>,
    limits: Option<node::Limits>,
    log: Option<LogSettings>,
    api: Option<ApiSettings>,
    traces: Option<TraceSettings>,
}

impl Config {
    fn read(text: &str) -> Result<Self, String> {
        let told = |error: toml::de::Error| error.message().to_owned();
        let table = toml::from_str(text).map_err(told)?;
        Config::deserialize(sections::numbered(&table)).map_err(told)
    }

    fn node(&mut self) -> node::Settings {
        node::Settings {
            node: self.node.take().unwrap(),
            pools: self.pools.take().unwrap(),
            queue: self.queue.take().unwrap(),
            supervision: self.supervision.take().unwrap(),
            shutdown: self.shutdown.take().unwrap(),
            upkeep: self.upkeep.take().unwrap(),
            workers: self.workers.take().unwrap(),
            stats: self.stats.take().unwrap(),
            limits: self.limits.take().unwrap(),
        }
    }

    /// The sections of the steps, all of which have to be there. A section that is new in [`Settings`] does not
    /// compile here until it is a field above.
    fn steps(self) -> Settings {
        Settings {
            work: self.work.unwrap(),
            profiles: self.profiles.unwrap(),
            fetch: self.fetch.unwrap(),
            unpack: self.unpack.unwrap(),
            expanding: self.expanding.unwrap(),
            estimating: self.estimating.unwrap(),
            provisioning: self.provisioning.unwrap(),
            downloading: self.downloading.unwrap(),
            notify: self.notify.unwrap(),
            storage: self.storage.unwrap(),
            minter: self.minter.unwrap(),
            inventory: self.inventory.unwrap(),
            mail: self.mail.unwrap(),
            access: self.access.unwrap(),
            // All of them are examples.
            feeds: self.feeds.unwrap_or_default(),
            urls: None,
            uploads: None,
        }
    }
}

#[test]
fn the_shipped_configuration_is_the_default() {
    let mut config = Config::read(SHIPPED).unwrap();
    let engine = EngineConfig::Embedded(EmbeddedConfig::new("data/tree"));
    assert_eq!(config.store.take().unwrap(), StoreConfig { engine, limits: Limits::default() });
    assert_eq!(config.node(), node::Settings::default());
    assert_eq!(config.log.take().unwrap(), LogSettings::default());
    assert_eq!(config.api.take().unwrap(), ApiSettings::default());
    assert_eq!(config.traces.take().unwrap(), TraceSettings::default());
    assert_eq!(config.steps(), Settings::default());
}

/// A section of the file: what is written, and what stands in comments.
#[derive(Debug, Default)]
struct Section {
    header: String,
    /// Only an example: its header is a comment.
    example: bool,
    lines: Vec<String>,
    /// Keys that are absent by default: their lines are comments within a section that is there.
    absent: Vec<String>,
}

impl Section {
    fn text(&self) -> String {
        format!("{}\n{}", self.header, self.lines.join("\n"))
    }

    fn has(&self, key: &str) -> bool {
        let begins = |line: &String| line.split_once('=').is_some_and(|(name, _)| name.trim() == key);
        self.lines.iter().chain(&self.absent).any(begins)
    }
}

fn sections() -> Vec<Section> {
    let mut found: Vec<Section> = Vec::new();
    for line in SHIPPED.lines() {
        let bare = line.strip_prefix("# ");
        let header = bare.unwrap_or(line);
        if header.starts_with('[') && header.ends_with(']') {
            found.push(Section { header: header.to_owned(), example: bare.is_some(), ..Section::default() });
            continue;
        }
        let Some(section) = found.last_mut() else { continue };
        match bare {
            None if !line.starts_with('#') => section.lines.push(line.to_owned()),
            Some(bare) if keys::is_key(bare) && section.example => section.lines.push(bare.to_owned()),
            Some(bare) => {
                let bare = bare.strip_prefix("# ").unwrap_or(bare);
                section.absent.extend(keys::is_key(bare).then(|| bare.to_owned()));
            }
            None => {}
        }
    }
    found
}

#[test]
fn every_example_is_right_once_its_comment_marks_are_gone() {
    let (sections, mut examples, mut absent) = (sections(), Vec::new(), 0);
    for section in &sections {
        if section.example {
            let config =
                Config::read(&section.text()).unwrap_or_else(|why| panic!("{why}: {}", section.text()));
            examples.push((section.header.as_str(), config));
        }
        for line in &section.absent {
            let text = format!("{}\n{line}", section.text());
            Config::read(&text).unwrap_or_else(|why| panic!("{why}: {text}"));
            absent += 1;
        }
    }
    let headers: Vec<_> = examples.iter().map(|(header, _)| *header).collect();
    assert_eq!(
        headers,
        [
            "[store.engine.zookeeper]",
            "[storage.cloud]",
            "[storage.service]",
            "[minter.ezid]",
            "[inventory]",
            "[inventory]",
            "[mail.by.smtp]",
            "[feeds.scans]",
            "[feeds.journal]",
            "[feeds.repository]",
            "[feeds.archive]"
        ]
    );
    assert_eq!(
        absent, 26,
        "three in the file, one in the queue, four of the limits, one of traces, three of the API, and those of the examples"
    );
}

#[test]
fn the_examples_have_the_defaults_where_there_are_any() {
    for section in sections().iter().filter(|section| section.example) {
        let path = keys::split(section.header.trim_matches(['[', ']']));
        let needed = |line: &&String| {
            let Some((name, _)) = line.split_once(" = ") else { return false };
            let mut key = keys::pattern(&path);
            key.push(name.to_owned());
            let known = KEYS.all.iter().filter(|known| known.pattern == key);
            let kind = section.lines.iter().find_map(|line| line.strip_prefix("kind = "));
            let kind = kind.map(|kind| kind.trim_matches('"').to_owned());
            let mut known = known.filter(|known| known.kind == kind);
            known.next().unwrap_or_else(|| panic!("{key:?}")).default.is_none()
        };
        let least = section.lines.iter().filter(needed);
        let least = least.fold(section.header.clone(), |text, line| text + "\n" + line);
        assert!(least.len() < section.text().len() || section.header == "[inventory]", "{least}");
        // What is not written in the shorter one is a default of the code, and the same.
        let (whole, least) = (Config::read(&section.text()).unwrap(), Config::read(&least).unwrap());
        assert_eq!(whole.store, least.store);
        assert_eq!(whole.storage, least.storage);
        assert_eq!(whole.minter, least.minter);
        assert_eq!(whole.inventory, least.inventory);
        assert_eq!(whole.mail, least.mail);
        assert_eq!(whole.feeds, least.feeds);
    }
    let zookeeper = KEYS.key(&keys::split("store.engine.zookeeper.session_timeout"), None).unwrap();
    let default = ZookeeperConfig::new("zk");
    assert_eq!(zookeeper.default, Some("10s".into()));
    assert_eq!((default.session_timeout.as_secs(), default.acl), (10, Acl::Open));
}

#[test]
fn what_is_absent_by_default_is_none_in_the_code() {
    let absent: Vec<String> = KEYS
        .all
        .iter()
        .filter(|key| key.default.is_none() && !key.required)
        .map(|key| keys::dotted(&key.pattern))
        .collect();
    assert_eq!(
        absent,
        [
            "traces.endpoint",
            "api.public_url",
            "api.url_key",
            "queue.ageing",
            "limits.collections.default",
            "limits.hosts.default",
            "limits.profiles.default",
            "limits.names.default",
            "work.quota",
            "fetch.ca",
            "storage.*.staging",
            "storage.*.prefix",
            "storage.*.worker_url",
            "storage.*.user",
            "storage.*.password",
            "mail.by.smtp.port",
            "mail.by.smtp.user",
            "mail.by.smtp.password",
            "feeds.*.type",
            "feeds.*.type",
            "feeds.*.set",
            "feeds.*.type",
            "feeds.*.type",
        ]
    );
}

/// The keys that a section knows, as it says itself when it is given one that it does not know.
fn keys(header: &str, kind: Option<&str>) -> Vec<String> {
    // Their names are chosen.
    if header.starts_with("[limits.") {
        return vec!["default".into()];
    }
    let kind = kind.map(|kind| format!("kind = '{kind}'\n")).unwrap_or_default();
    let text = format!("{header}\n{kind}no-such-key = 1");
    let error = toml::from_str::<Config>(&text).unwrap_err().message().to_owned();
    let keys: Vec<_> = match (error.split_once("expected "), error.split_once("available keys: ")) {
        (_, Some((_, keys))) => keys.split(", ").map(str::to_owned).collect(),
        (Some((_, keys)), _) => keys.split('`').skip(1).step_by(2).map(str::to_owned).collect(),
        (None, None) => panic!("{header} {kind}: {error}"),
    };
    assert!(!keys.is_empty(), "{error}");
    keys
}

#[test]
fn every_key_stands_in_the_file() {
    let places = [
        ("[store.limits]", None),
        ("[store.engine.embedded]", None),
        ("[store.engine.zookeeper]", None),
        ("[work]", None),
        ("[profiles]", None),
        ("[fetch]", None),
        ("[unpack]", None),
        ("[expanding]", None),
        ("[estimating]", None),
        ("[provisioning]", None),
        ("[downloading]", None),
        ("[notify]", None),
        ("[storage.default]", Some("ocfl")),
        ("[storage.cloud]", Some("s3")),
        ("[storage.service]", Some("http")),
        ("[minter.default]", Some("local")),
        ("[minter.ezid]", Some("ezid")),
        ("[inventory]", Some("sqlite")),
        ("[inventory]", Some("postgres")),
        ("[mail]", None),
        ("[mail.by.outbox]", None),
        ("[mail.by.smtp]", None),
        ("[access]", None),
        ("[node]", None),
        ("[pools.pending]", None),
        ("[pools.estimating]", None),
        ("[pools.provisioning]", None),
        ("[pools.downloading]", None),
        ("[pools.processing]", None),
        ("[pools.recording]", None),
        ("[pools.notify]", None),
        ("[pools.access_small]", None),
        ("[pools.access_large]", None),
        ("[queue]", None),
        ("[supervision]", None),
        ("[shutdown]", None),
        ("[upkeep]", None),
        ("[workers]", None),
        ("[upkeep.jobs]", None),
        ("[upkeep.batches]", None),
        ("[upkeep.requests]", None),
        ("[upkeep.semaphores]", None),
        ("[upkeep.keys]", None),
        ("[upkeep.shards]", None),
        ("[stats]", None),
        ("[limits]", None),
        ("[limits.collections]", None),
        ("[limits.hosts]", None),
        ("[limits.profiles]", None),
        ("[limits.names]", None),
        ("[log]", None),
        ("[log.throttle]", None),
        ("[api]", None),
        ("[traces]", None),
    ];
    let sections = sections();
    let mut missing = Vec::new();
    for (header, kind) in places {
        let of_kind = |section: &&Section| {
            kind.is_none_or(|kind| section.lines.contains(&format!("kind = \"{kind}\"")))
        };
        let section = sections.iter().filter(|section| section.header == header).find(of_kind);
        for key in keys(header, kind) {
            // A table within the section, which has a header of its own.
            let below = format!("{}.{key}", header.trim_end_matches(']'));
            let there = section.is_some_and(|section| section.has(&key))
                || sections.iter().any(|section| section.header.starts_with(&below));
            if !there {
                missing.push(format!("{header} {key} in the file"));
            }
        }
    }
    assert_eq!(missing, [""; 0]);
    // And no section is left out here.
    for section in &sections {
        let is_feed = section.header.starts_with("[feeds.");
        let known = is_feed || places.iter().any(|(header, _)| *header == section.header);
        assert!(known, "{} is looked at nowhere", section.header);
    }
    let steps = keys("", None);
    let all = places.map(|(header, _)| header.trim_matches(['[', ']']).split('.').next().unwrap_or_default());
    assert!(steps.iter().all(|key| key == "feeds" || all.contains(&key.as_str())), "{steps:?}");
}

/// Feeds have one list of keys for all kinds, so that it is the file that says which kind has which.
#[test]
fn every_key_of_a_feed_stands_in_the_file() {
    let of_feeds: Vec<_> = KEYS.all.iter().filter(|key| key.pattern[0] == "feeds").collect();
    for key in keys("[feeds.a]", None) {
        assert!(of_feeds.iter().any(|known| known.pattern[2] == key), "{key} is not in the file");
    }
}

#[test]
fn every_key_is_described() {
    let lines = config::key_lines();
    for key in &KEYS.all {
        let name = keys::dotted(&key.pattern[..=key.section]).replace('*', "NAME");
        let line = lines.iter().find(|line| line.key == name && line.kind == key.kind);
        assert!(line.is_some() || key.pattern[key.section] == "kind", "{name} {:?}", key.kind);
    }
    let line = |name: &str| lines.iter().find(|line| line.key == name).unwrap();
    let size = line("pools.downloading.size");
    assert_eq!((size.default.as_deref(), size.live, size.secret), (Some("8"), true, false));
    assert_eq!(size.variable, "INGESTD_POOLS_DOWNLOADING_SIZE");
    let key = line("storage.NAME.secret_key");
    assert_eq!((key.required, key.live, key.secret, key.kind.as_deref()), (true, false, true, Some("s3")));
    // Of two keys under one comment, both are described by it.
    assert_eq!(line("fetch.max_backoff").effect, line("fetch.backoff").effect);
    assert!(line("api.rate").effect.starts_with("Requests a second"), "{:?}", line("api.rate"));
    // In one line, a table is one key.
    assert!(
        lines.iter().any(|line| line.key == "api.tls")
            && !lines.iter().any(|line| line.key == "api.tls.cert")
    );
}
