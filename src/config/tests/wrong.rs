//! What is wrong is told at once, with its place.

use super::*;

#[test]
fn an_unknown_key_is_told_with_its_place_and_what_was_meant() {
    let told = Given::file("# a comment\n[pools.downloading]\nsiez = 3\n").problem();
    assert_eq!(told, "ingestd.toml:3:1: pools.downloading.siez: unknown key; did you mean `size`?");
    let told = Given::file("[poolz.downloading]\nsize = 3").problem();
    assert_eq!(told, "ingestd.toml:1:2: poolz: unknown key; did you mean `pools`?");
    let told = Given::file("[mail]\n  cc = 'ä'").problem();
    assert_eq!(told, "ingestd.toml:2:3: mail.cc: unknown key");
    let told =
        Given::file("estimating.slower = [{ from = '1 GiB', priority = 'slow' },\n { form = 1 }]").problems();
    assert_eq!(told[1], "ingestd.toml:2:4: estimating.slower.1.form: unknown key; did you mean `from`?");
}

#[test]
fn an_unknown_key_is_found_in_every_table() {
    let tables = KEYS.all.iter().map(|key| (key.pattern[..key.section].to_vec(), key.kind.clone()));
    let tables: std::collections::BTreeSet<_> = tables.collect();
    assert!(tables.len() > 30, "{tables:?}");
    // Names of limits are chosen.
    for (table, kind) in tables.into_iter().filter(|(table, _)| table[0] != "limits") {
        let table = keys::dotted(&table).replace('*', "name");
        let kind = kind.map(|kind| format!("kind = '{kind}'\n")).unwrap_or_default();
        let told = Given::file(&format!("[{table}]\n{kind}no_such_key = 1")).problems();
        let wanted = format!("{table}.no_such_key: unknown key");
        assert!(told.iter().any(|told| told.contains(&wanted)), "{wanted}: {told:?}");
    }
}

#[test]
fn a_key_of_another_kind_is_unknown() {
    let told = Given::file("[storage.default]\nkind = 'ocfl'\ndir = 'x'\nbucket = 'y'").problem();
    assert_eq!(told, "ingestd.toml:4:1: storage.default.bucket: unknown key of the kind `ocfl`");
    let told = Given::file("[storage.default]\nkind = 'tape'\nbucket = 'y'").problem();
    assert!(told.starts_with("ingestd.toml:2:8: storage.default.kind: unknown variant `tape`"), "{told}");
    let told = Given::file("[storage.other]\ndir = 'x'\n[storage.default]").problem();
    assert_eq!(told, "ingestd.toml:1:10: storage.other.kind: is missing: one of ocfl, s3, http");
}

#[test]
fn every_wrong_value_is_told_also_several_of_one_section() {
    let text = "
[fetch]
retries = 'x'
max_redirects = 'x'
stall = 'soon'
max_bytes = true
[estimating]
slower = [{ from = 'big', priority = 'slow' }]
[pools]
downloading = 3
[node]
name = 7
[log]
filter = 'info,ingest=loud'
format = 'xml'
";
    let told = Given::file(text).problems();
    for (index, wanted) in [
        "3:11: fetch.retries: invalid type: string \"x\", expected u32",
        "4:17: fetch.max_redirects: invalid type: string \"x\", expected u32",
        "5:9: fetch.stall: invalid value: string \"soon\", expected a duration",
        "6:13: fetch.max_bytes: it is not right; write it like \"10 TiB\"",
        "8:10: estimating.slower: `big` is no size",
        "10:15: pools.downloading: expected a table, and there is an integer",
        "12:8: node.name: invalid type: integer `7`, expected a string",
        "14:10: log.filter: `info,ingest=loud` is no filter: ",
        "15:10: log.format: unknown variant `xml`",
    ]
    .iter()
    .enumerate()
    {
        let line = told.get(index).cloned().unwrap_or_default();
        assert!(line.starts_with(&format!("ingestd.toml:{wanted}")), "{wanted}: {told:#?}");
    }
    assert_eq!(told.len(), 9, "{told:#?}");
}

#[test]
fn a_level_that_is_spelt_wrongly_is_no_filter() {
    let told = Given::file("[log]\nfilter = 'ingest_queue=debug,inof'").problem();
    assert!(told.ends_with("`ingest_queue=debug,inof` is no filter: there is no level `inof`"), "{told}");
    loaded("[log]\nfilter = 'warn,ingest_queue,ingest_store::session=trace'");
}

#[test]
fn what_is_no_toml_is_told_wholly() {
    let told =
        Given::file("[pools.downloading]\nsize = \n[fetch\nretries = 1\nretries = 2\n[mail]\nnope = 1")
            .problems();
    assert!(told.len() >= 2, "{told:?}");
    assert!(told[0].starts_with("ingestd.toml:2:"), "{told:?}");
    assert!(told[1].starts_with("ingestd.toml:3:"), "{told:?}");
}

#[test]
fn what_has_no_default_must_be_given() {
    let told = Given::file(
        "[store.engine.zookeeper]\nauth = { user = 'x' }\n[storage.default]\nkind = 's3'\nbucket = 'b'",
    )
    .problems();
    assert_eq!(
        told,
        [
            "ingestd.toml:1:15: store.engine.zookeeper.connect: is missing",
            "ingestd.toml:2:1: store.engine.zookeeper.auth.password: is missing",
            "ingestd.toml:3:10: storage.default.endpoint: is missing",
            "ingestd.toml:3:10: storage.default.region: is missing",
            "ingestd.toml:3:10: storage.default.access_key: is missing",
            "ingestd.toml:3:10: storage.default.secret_key: is missing",
        ]
    );
}

#[test]
fn of_two_choices_one_is_too_much() {
    let told = Given::file("[mail.by.outbox]\ndir = 'x'\n[mail.by.smtp]\nhost = 'y'").problem();
    assert_eq!(told, "ingestd.toml:3:10: mail.by: only one of outbox and smtp can be chosen");
}

#[test]
fn values_that_make_no_sense_are_told() {
    for (key, value, why) in [
        ("queue.commits", "0", "at least 1"),
        ("queue.together", "0", "at least 1"),
        ("estimating.at_once", "0", "at least 1"),
        ("downloading.at_once", "0", "at least 1"),
        ("store.limits.max_requests", "0", "at least 1"),
        ("work.quota", "'0 GiB'", "at least 1"),
        ("minter.default.block", "0", "at least 1"),
        ("minter.default.template", "'x'", "x"),
        ("provisioning.max_used", "1.5", "1.5 is no share"),
        ("provisioning.max_used", "0", "0 is no share"),
        ("provisioning.max_used", "nan", "NaN is no share"),
        ("pools.downloading.stall", "'0s'", "longer than no time"),
        ("fetch.stall", "'0ms'", "longer than no time"),
        ("pools.provisioning.size", "2", "0 or 1"),
        ("log.throttle.within", "'0s'", "longer than no time"),
        ("mail.from", "'nobody'", "`nobody` is not a mail address"),
        ("mail.admins", "['a@example.org', 'b']", "`b` is not a mail address"),
        ("fetch.ca", "'/no/such/file.pem'", "/no/such/file.pem"),
    ] {
        let told = Given::file(&format!("{key} = {value}")).problem();
        let place = format!("ingestd.toml:1:{}: {key}: ", key.len() + 4);
        assert!(told.starts_with(&place) && told.contains(why), "{told}");
    }
    let told = Given::file("[pools.pending]\nsize = 4000\n[pools.notify]\nsize = 4000").problem();
    assert!(told.contains(": pools: 80") && told.contains("too many"), "{told}");
    loaded("pools.pending.size = 0\nprovisioning.max_used = 1");
}

#[test]
fn every_rule_is_about_a_key_that_there_is() {
    for (pattern, _) in judge::RULES {
        let found = KEYS.all.iter().any(|key| judge::fits(pattern, &key.pattern));
        assert!(found, "{pattern}");
    }
}

#[test]
fn what_does_not_go_together_is_told() {
    let told = Given::file("[store.engine.zookeeper]\nconnect = 'zk:2181'\nacl = 'creator'").problem();
    assert!(told.contains("store.engine.zookeeper: ") && told.contains("needs auth"), "{told}");
    let s3 = "[storage.default]\nkind = 's3'\nendpoint = 'http://x'\nregion = 'r'\nbucket = 'b'\naccess_key = 'a'\nsecret_key = 's'";
    let told = Given::file(s3).problem();
    assert!(
        told.starts_with("ingestd.toml:1:10: storage.default: ") && told.contains("is not https"),
        "{told}"
    );
    loaded(&format!("{s3}\nallow_http = true"));
    let told = Given::file("[storage.default]\n[storage.other]\nkind = 'ocfl'").problem();
    assert!(told.ends_with("storage.other.dir: the storage `default` has the same directory"), "{told}");
}

#[test]
fn one_wrong_section_hides_no_other() {
    let text = "[fetch]\nretires = 1\nstall = 3\n[queue]\ncommits = 0\n[pools.provisioning]\nsize = 3\n[profiles]\ndir = '/no/such'";
    let told = Given::file(text).with("INGESTD_NOPE", "1").problems();
    let places = [
        "INGESTD_NOPE: ",
        "ingestd.toml:2:1",
        "ingestd.toml:3:9",
        "ingestd.toml:5:11",
        "ingestd.toml:7:8",
        "ingestd.toml:9:7",
    ];
    assert_eq!(told.len(), places.len(), "{told:#?}");
    assert!(told.iter().zip(places).all(|(told, place)| told.starts_with(place)), "{told:#?}");
}

#[test]
fn profiles_are_read_and_must_fit() {
    let told = Given::file("[profiles]\ndir = '/no/such/directory'").problem();
    assert!(told.starts_with("ingestd.toml:2:7: profiles.dir: /no/such/directory: "), "{told}");
    assert!(told.ends_with("; make it, and put profiles into it"), "{told}");
    let told = Given::file("[profiles]\ndir = 'no/such'").problem();
    assert!(told.ends_with(": start there, or say with profiles.dir where the profiles lie"), "{told}");
    let given = Given::file("");
    let dir = given.dir.path().join("profiles");
    std::fs::create_dir(&dir).unwrap();
    let profile = "collection = 'c'\ntitle = 't'\nowner = 'o'\n";
    std::fs::write(dir.join("a.toml"), format!("name = 'a'\n{profile}storage = 'defualt'\nminter = 'ezid'"))
        .unwrap();
    std::fs::write(dir.join("b.toml"), format!("name = 'b'\n{profile}priorty = 3")).unwrap();
    std::fs::write(dir.join("c.toml"), format!("name = 'c'\n{profile}callback = 'hunter2'")).unwrap();
    std::fs::write(given.path(), format!("[profiles]\ndir = '{}'", dir.display())).unwrap();
    let told = given.problems();
    assert_eq!(
        told,
        [
            "profiles/a.toml:5: storage: there is no [storage.defualt] in the configuration, only default; did you mean `default`?",
            "profiles/a.toml:6: minter: there is no [minter.ezid] in the configuration, only default",
            "profiles/b.toml:5: unknown key `priorty`; did you mean `priority`?",
            "profiles/c.toml:5: callback: it is not right; the value is not shown",
        ]
    );
}

#[test]
fn feeds_are_judged_one_by_one_and_together() {
    let box_at = |name: &str, more: &str| {
        format!(
            "[feeds.{name}]\nkind = 'drop_box'\npath = 'in'\nprofile = 'demo_content'\nsubmitter = 's'\n{more}\n"
        )
    };
    let told = |text: &str| Given::file(text).problems().join("\n");
    let wrong = told(&box_at("scans", "reddy = 'stable'"));
    assert!(wrong.contains("feeds.scans.reddy: unknown key; did you mean `ready`?"), "{wrong}");
    let wrong = told("[feeds.a]\nkind = 'atom'\nprofile = 'demo_content'\nsubmitter = 's'");
    assert!(wrong.contains("feeds.a.url: is missing"), "{wrong}");
    let wrong = told("[feeds.a]\nprofile = 'demo_content'\nsubmitter = 's'");
    assert!(
        wrong.contains("feeds.a.kind: is missing: one of drop_box, atom, oai_pmh, resource_sync"),
        "{wrong}"
    );
    let wrong = told(&box_at("scans", "url = 'http://a.org/'"));
    assert!(wrong.contains("feeds.scans.url: unknown key of the kind `drop_box`"), "{wrong}");
    let wrong = told(&box_at("scans", "policy = 'manual'"));
    assert!(wrong.contains("needs `nodes`"), "{wrong}");
    let wrong = told(&[box_at("a", ""), box_at("b", "")].concat());
    assert!(wrong.contains("the feed `a` has the same directory"), "{wrong}");
    let wrong = told(&box_at("scans", "").replace("demo_content", "demo_contents"));
    assert!(wrong.contains("feeds.scans.profile: there is no profile `demo_contents`"), "{wrong}");
    let wrong = told(&box_at("scans", "stable = '0s'"));
    assert!(wrong.contains("feeds.scans.stable"), "{wrong}");
    let right = box_at("scans", "policy = 'manual'\nnodes = ['node-1']");
    assert_eq!(told(&right), "");
}

#[test]
fn limits_have_names_that_are_chosen_and_values_that_are_not() {
    let given =
        Given::file("[limits.hosts]\n\"files.example.org\" = 2\ndefault = 8\n[limits.names]\ntape-robot = 1");
    let limits = given.load().node.limits;
    assert_eq!(
        (limits.hosts["files.example.org"], limits.hosts["default"], limits.names["tape-robot"]),
        (2, 8, 1)
    );
    let told = Given::file("[limits.hosts]\na = 'many'").problem();
    assert!(told.starts_with("ingestd.toml:2:5: limits.hosts.a: invalid type: string \"many\""), "{told}");
    let told = Given::file("[limits.profiles]\na = 20000").problem();
    assert_eq!(told, "ingestd.toml:2:5: limits.profiles.a: 10000 is the most");
    let told = Given::file("[limits]\nstates = ['pending']").problem();
    assert!(told.contains("`pending` is not a state that a limit can hold in: downloading"), "{told}");
    let told = Given::file("[limits]\nhots = 3").problem();
    assert_eq!(told, "ingestd.toml:2:1: limits.hots: unknown key; did you mean `hosts`?");
}
