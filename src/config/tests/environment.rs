//! The environment over the file.

use super::*;

#[test]
fn a_variable_comes_before_the_file() {
    let all = Given::file("[pools.downloading]\nsize = 3\nstall = '3m'")
        .with("INGESTD_POOLS_DOWNLOADING_SIZE", "8")
        .load();
    let pool = all.node.pools.downloading;
    assert_eq!((pool.size, pool.stall.as_secs()), (8, 180));
}

#[test]
fn underscores_stand_for_dots_and_for_themselves() {
    let all = Given::file("")
        .with("INGESTD_FETCH_MAX_REDIRECTS", "3")
        .with("INGESTD_POOLS_ACCESS_SMALL_SIZE", "5")
        .with("INGESTD_WORK_KEEP_LEFTOVERS", "2h")
        .with("INGESTD_WORK_QUOTA", "3 GiB")
        .with("INGESTD_FETCH_SLOWEST", "1 KiB")
        .with("INGESTD_MAIL_ADMINS", "['a@example.org']")
        .with("INGESTD_NODE_NAME", "7")
        .with("INGESTD_NODE_WORK", "false")
        .with("INGESTD_LOG_FILTER", "warn")
        .load();
    assert_eq!((all.steps.fetch.max_redirects, all.node.pools.access_small.size), (3, 5));
    assert_eq!((all.steps.work.keep_leftovers.as_secs(), all.steps.work.quota), (7200, Some(3 << 30)));
    assert_eq!((all.steps.fetch.slowest, all.steps.mail.admins), (1024, vec!["a@example.org".to_owned()]));
    assert_eq!((all.node.node.name.as_str(), all.node.node.work), ("7", false), "a text stays a text");
    assert_eq!(format!("{:?}", all.log.filter), "\"warn\"");
}

#[test]
fn chosen_names_are_those_of_the_file() {
    let file = "[storage.My-Disk]\nkind = 'ocfl'\ndir = 'x'\n[profiles]\ndir = '/'";
    let all = Given::file(file)
        .with("INGESTD_STORAGE_MY_DISK_DIR", "/srv")
        .with("INGESTD_STORAGE_MY_DISK_STAGING", "/tmp")
        .load();
    let storage = format!("{:?}", all.steps.storage);
    assert!(storage.contains("My-Disk") && storage.contains("/srv") && storage.contains("/tmp"), "{storage}");
    let all = Given::file("").with("INGESTD_STORAGE_DEFAULT_DIR", "/srv").load();
    assert!(format!("{:?}", all.steps.storage["default"]).contains("/srv"));
    let other = Given::file("")
        .with("INGESTD_MINTER_EZID_KIND", "ezid")
        .with("INGESTD_MINTER_EZID_URL", "https://ezid.example.org")
        .with("INGESTD_MINTER_EZID_SHOULDER", "ark:/99999/fk4")
        .with("INGESTD_MINTER_EZID_USER", "u")
        .with("INGESTD_MINTER_EZID_PASSWORD", "12345")
        .with("INGESTD_MINTER_EZID_LONGEST_PAUSE", "3s")
        .load();
    let Minter::Ezid(ezid) = &other.steps.minter["ezid"] else { panic!("kind") };
    assert_eq!((ezid.password.as_str(), ezid.longest_pause.as_secs()), ("12345", 3));
    assert!(other.steps.minter.contains_key("default"));
}

#[test]
fn a_variable_can_choose_another_engine_or_kind() {
    let all = Given::file(keys::SHIPPED)
        .with("INGESTD_STORE_ENGINE_ZOOKEEPER_CONNECT", "zk:2181/x")
        .with("INGESTD_STORE_ENGINE_ZOOKEEPER_AUTH_USER", "u")
        .with("INGESTD_STORE_ENGINE_ZOOKEEPER_AUTH_PASSWORD", "p")
        .with("INGESTD_INVENTORY_KIND", "postgres")
        .with("INGESTD_INVENTORY_URL", "postgres://x")
        .load();
    let EngineConfig::Zookeeper(zookeeper) = &all.store.engine else { panic!("engine") };
    assert_eq!(
        (zookeeper.connect.as_str(), zookeeper.auth.as_ref().unwrap().password.as_str()),
        ("zk:2181/x", "p")
    );
    assert_eq!(all.steps.inventory, Inventory::Postgres { url: "postgres://x".into(), connections: 8 });
    let whole = Given::file("[store.engine.zookeeper]\nconnect = 'zk:2181'")
        .with("INGESTD_STORE_ENGINE_ZOOKEEPER_AUTH", "{ user = 'u', password = 'p' }")
        .with("INGESTD_STORE_ENGINE_ZOOKEEPER_AUTH_PASSWORD", "q")
        .load();
    let EngineConfig::Zookeeper(zookeeper) = &whole.store.engine else { panic!("engine") };
    assert_eq!(zookeeper.auth.as_ref().unwrap().password, "q");
    let told = Given::file("")
        .with("INGESTD_STORE_ENGINE_ZOOKEEPER_CONNECT", "zk:2181/x")
        .with("INGESTD_STORE_ENGINE_EMBEDDED_DIR", "x")
        .problem();
    assert!(told.starts_with("INGESTD_STORE_ENGINE_ZOOKEEPER_CONNECT: store.engine: only one of"), "{told}");
}

#[test]
fn a_variable_that_is_no_key_is_a_problem() {
    let told = Given::file("").with("INGESTD_POOLS_DOWNLOADNG_SIZE", "8").problem();
    assert_eq!(
        told,
        "INGESTD_POOLS_DOWNLOADNG_SIZE: there is no such key; did you mean `INGESTD_POOLS_DOWNLOADING_SIZE`?"
    );
    let told = Given::file("").with("INGESTD_POOLS_DOWNLOADING_SIZE", "many").problem();
    assert!(
        told.starts_with(
            "INGESTD_POOLS_DOWNLOADING_SIZE: pools.downloading.size: invalid type: string \"many\""
        ),
        "{told}"
    );
    let told = Given::file("").with("INGESTD_POOLS_DOWNLOADING", "{ size = 3 }").problem();
    assert!(told.contains("there is no such key"), "{told}");
    let reserved = [
        "INGESTD_CONFIG",
        "INGESTD_SERVER",
        "INGESTD_SEQUENCES",
        "INGESTD_CRASHES",
        "INGESTD_CASES",
        "INGESTD_LOG",
    ];
    let given = reserved.iter().fold(Given::file(""), |given, name| given.with(name, "x"));
    given.with("OTHER", "x").load();
}
