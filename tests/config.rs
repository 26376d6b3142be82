//! The shipped configuration says what is true: its keys exist, its values are the defaults, every key stands in it,
//! its examples are right once their comment marks are gone, and the page on configuration leaves out none.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::collections::BTreeMap;

use ingest_steps::settings::{self, Settings};
use ingest_steps::{archive, fetch, notify};
use ingest_store::engines::embedded::EmbeddedConfig;
use ingest_store::engines::zookeeper::{Acl, ZookeeperConfig};
use ingest_store::{EngineConfig, Limits, StoreConfig};
use serde::Deserialize;

const SHIPPED: &str = include_str!("../config/ingestd.toml");
const PAGE: &str = include_str!("../docs/configuration.md");

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
}

impl Config {
    fn read(text: &str) -> Result<Self, String> {
        toml::from_str(text).map_err(|error| error.message().to_owned())
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
        }
    }
}

#[test]
fn the_shipped_configuration_is_the_default() {
    let mut config = Config::read(SHIPPED).unwrap();
    let engine = EngineConfig::Embedded(EmbeddedConfig::new("data/tree"));
    assert_eq!(config.store.take().unwrap(), StoreConfig { engine, limits: Limits::default() });
    assert_eq!(config.steps(), Settings::default());
}

#[test]
fn an_unknown_key_is_refused_in_every_section() {
    for (right, wrong) in [
        ("max_requests", "max_request"),
        ("max_redirects", "max_redirect"),
        ("keep_leftovers", "keep_leftover"),
        ("large_from", "large_form"),
        ("[expanding]", "[expandng]"),
        ("template", "templat"),
    ] {
        let error = Config::read(&SHIPPED.replacen(right, wrong, 1)).unwrap_err();
        assert!(error.contains(wrong.trim_matches(['[', ']'])), "{wrong}: {error}");
    }
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

fn is_key(line: &str) -> bool {
    let name = line.split_once(" = ").map(|(name, _)| name);
    name.is_some_and(|name| name.chars().all(|c| c.is_ascii_lowercase() || c == '_'))
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
            Some(bare) if is_key(bare) && section.example => section.lines.push(bare.to_owned()),
            Some(bare) if is_key(bare) => section.absent.push(bare.to_owned()),
            _ => {}
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
            "[mail.by.smtp]"
        ]
    );
    assert_eq!(absent, 3, "work.quota, fetch.ca and storage.default.staging");
}

#[test]
fn the_examples_have_the_defaults_where_there_are_any() {
    let of = |header: &str| {
        let section =
            sections().into_iter().find(|section| section.example && section.header == header).unwrap();
        let required =
            ["connect", "kind", "endpoint", "region", "bucket", "access_key", "secret_key", "base", "node"];
        let required = [&required[..], &["url", "shoulder", "user", "password", "host"]].concat();
        let least = section
            .lines
            .iter()
            .filter(|line| required.iter().any(|key| line.starts_with(&format!("{key} = "))));
        let least = least.fold(header.to_owned(), |text, line| text + "\n" + line);
        (Config::read(&section.text()).unwrap(), Config::read(&least).unwrap())
    };
    let (whole, least) = of("[storage.cloud]");
    let (settings::Storage::S3(mut whole), settings::Storage::S3(least)) =
        (whole.storage.unwrap()["cloud"].clone(), least.storage.unwrap()["cloud"].clone())
    else {
        panic!("kind")
    };
    whole.prefix.clear();
    assert_eq!((whole.timeout, whole.tries), (least.timeout, least.tries));
    assert_eq!(whole, least);
    let (whole, least) = of("[storage.service]");
    let (settings::Storage::Http(mut whole), settings::Storage::Http(least)) =
        (whole.storage.unwrap()["service"].clone(), least.storage.unwrap()["service"].clone())
    else {
        panic!("kind")
    };
    whole.worker_url = None;
    assert_eq!((whole.timeout, whole.tries, whole.pause), (least.timeout, least.tries, least.pause));
    assert_eq!(whole, least);
    let (whole, least) = of("[minter.ezid]");
    assert_eq!(whole.minter, least.minter);
    let (whole, least) = of("[inventory]");
    assert_eq!(whole.inventory, least.inventory);
    let (whole, least) = of("[mail.by.smtp]");
    let (settings::MailBy::Smtp(mut whole), settings::MailBy::Smtp(least)) =
        (whole.mail.unwrap().by, least.mail.unwrap().by)
    else {
        panic!("kind")
    };
    assert_eq!(whole.port.take(), Some(587), "what starttls means");
    assert_eq!(whole, least);
    let (whole, least) = of("[store.engine.zookeeper]");
    let engines = [whole, least].map(|config| match config.store.unwrap().engine {
        EngineConfig::Zookeeper(zookeeper) => zookeeper,
        EngineConfig::Embedded(_) => panic!("engine"),
    });
    let defaults = ZookeeperConfig::new(engines[0].connect.clone());
    assert!(engines[0].auth.is_some() && engines[0].tls.is_some());
    assert_eq!((engines[0].acl, engines[1].acl), (Acl::Open, Acl::Open));
    for engine in engines {
        assert_eq!(
            (engine.session_timeout, engine.connect_limit),
            (defaults.session_timeout, defaults.connect_limit)
        );
    }
}

/// The keys that a section knows, as it says itself when it is given one that it does not know.
fn keys(header: &str, kind: Option<&str>) -> Vec<String> {
    let kind = kind.map(|kind| format!("kind = '{kind}'\n")).unwrap_or_default();
    let error = Config::read(&format!("{header}\n{kind}no-such-key = 1")).unwrap_err();
    let keys: Vec<_> = match (error.split_once("expected "), error.split_once("available keys: ")) {
        (_, Some((_, keys))) => keys.split(", ").map(str::to_owned).collect(),
        (Some((_, keys)), _) => keys.split('`').skip(1).step_by(2).map(str::to_owned).collect(),
        (None, None) => panic!("{header} {kind}: {error}"),
    };
    assert!(!keys.is_empty(), "{error}");
    keys
}

#[test]
fn every_key_stands_in_the_file_and_on_the_page() {
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
    ];
    let sections = sections();
    let mut missing = Vec::new();
    for (header, kind) in places {
        let of_kind = |section: &&Section| {
            kind.is_none_or(|kind| section.lines.contains(&format!("kind = \"{kind}\"")))
        };
        let section = sections.iter().filter(|section| section.header == header).find(of_kind);
        // On the page a name that can be chosen is NAME.
        let titled = match header.split_once('.') {
            Some((table @ ("[storage" | "[minter"), _)) => format!("`{table}.NAME]`"),
            _ => format!("`{header}`"),
        };
        let page = PAGE.split("\n## ").find(|part| {
            let title = part.lines().next().unwrap_or_default();
            title.contains(&titled) && kind.is_none_or(|kind| title.contains(&format!("`{kind}`")))
        });
        for key in keys(header, kind) {
            // A table within the section, which has a header of its own.
            let below = format!("{}.{key}", header.trim_end_matches(']'));
            let there = section.is_some_and(|section| section.has(&key))
                || sections.iter().any(|section| section.header.starts_with(&below));
            if !there {
                missing.push(format!("{header} {key} in the file"));
            }
            if !page.is_some_and(|page| page.contains(&format!("\n| `{key}`"))) {
                missing.push(format!("{header} {key} on the page"));
            }
        }
    }
    assert_eq!(missing, [""; 0]);
    // And no section is left out here.
    for section in &sections {
        let known = places.iter().any(|(header, _)| *header == section.header);
        assert!(known, "{} is looked at nowhere", section.header);
    }
    let steps = keys("", None);
    let all = places.map(|(header, _)| header.trim_matches(['[', ']']).split('.').next().unwrap_or_default());
    assert!(steps.iter().all(|key| all.contains(&key.as_str())), "{steps:?}");
}
