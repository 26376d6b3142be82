//! The shipped configuration says what is true: its keys exist and its values are the defaults.

use ingest_store::engines::embedded::EmbeddedConfig;
use ingest_store::engines::zookeeper::{Acl, ZookeeperConfig};
use ingest_store::{EngineConfig, Limits, StoreConfig};

#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    store: StoreConfig,
}

const SHIPPED: &str = include_str!("../config/ingestd.toml");

#[test]
fn the_shipped_configuration_is_the_default() {
    let config: Config = toml::from_str(SHIPPED).unwrap();
    let engine = EngineConfig::Embedded(EmbeddedConfig::new("data/tree"));
    assert_eq!(config.store, StoreConfig { engine, limits: Limits::default() });
}

#[test]
fn the_section_on_zookeeper_is_right_once_its_comment_marks_are_gone() {
    let section = SHIPPED.split("# [store.engine.zookeeper]").nth(1).unwrap();
    let section: String = section
        .lines()
        .map(|line| line.strip_prefix("# ").unwrap_or(""))
        .fold("[store.engine.zookeeper]".to_owned(), |text, line| text + "\n" + line);
    let config: Config = toml::from_str(&section).unwrap();
    let EngineConfig::Zookeeper(zookeeper) = config.store.engine else { panic!("{section}") };
    let defaults = ZookeeperConfig::new(zookeeper.connect.clone());
    assert!(zookeeper.auth.is_some() && zookeeper.tls.is_some());
    assert_eq!(zookeeper.acl, Acl::Open);
    assert_eq!(
        (zookeeper.session_timeout, zookeeper.connect_limit),
        (defaults.session_timeout, defaults.connect_limit)
    );
}

#[test]
fn an_unknown_key_is_refused() {
    let error = toml::from_str::<Config>(&SHIPPED.replace("max_requests", "max_request")).unwrap_err();
    assert!(error.to_string().contains("max_request"), "{error}");
}
