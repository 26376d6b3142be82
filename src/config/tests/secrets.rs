//! Where secrets come from, and that they go nowhere.

use super::*;

const SECRET: &str = "hunter2";

fn all_secrets(secret: &str) -> String {
    format!(
        "
[store.engine.zookeeper]
connect = 'zk:2181'
auth = {{ user = 'u', password = {secret} }}
[storage.default]
kind = 's3'
endpoint = 'https://s3'
region = 'r'
bucket = 'b'
access_key = {secret}
secret_key = {secret}
[storage.service]
kind = 'http'
base = 'https://user:{SECRET}@storage.example.org'
node = '1'
user = 'u'
password = {secret}
[minter.default]
[minter.ezid]
kind = 'ezid'
url = 'https://ezid.example.org'
shoulder = 'x'
user = 'u'
password = {secret}
[inventory]
kind = 'postgres'
url = {secret}
[mail.by.smtp]
host = 'h'
user = 'u'
password = {secret}
"
    )
}

#[test]
fn a_text_may_stand_in_a_file_or_a_variable() {
    let given = Given::file("");
    let file = given.dir.path().join("secret");
    std::fs::write(&file, "hunter2\r\n").unwrap();
    let text = format!(
        "[inventory]\nkind = 'postgres'\nurl = {{ file = '{}' }}\n[mail]\nhost = {{ env = 'MAIL_HOST' }}",
        file.display()
    );
    std::fs::write(given.path(), text).unwrap();
    let given = given.with("MAIL_HOST", "example.org");
    let all = given.load();
    assert_eq!(all.steps.inventory, Inventory::Postgres { url: "hunter2".into(), connections: 8 });
    assert_eq!(all.steps.mail.host, "example.org");
    assert!(!all.effective.text().contains("example.org"), "what stands elsewhere is not shown");
    std::fs::write(&file, "two\n\n").unwrap();
    let from_variable = Given::file("")
        .with("INGESTD_INVENTORY_KIND", "postgres")
        .with("INGESTD_INVENTORY_URL", &format!("{{ file = '{}' }}", file.display()))
        .load();
    let Inventory::Postgres { url, .. } = &from_variable.steps.inventory else { panic!("kind") };
    assert_eq!(url, "two\n", "one line's end is taken away");
}

#[test]
fn a_secret_that_is_not_there_is_told_by_its_place() {
    for (reference, why) in [
        ("{ file = '/no/such/secret' }", "/no/such/secret: No such file"),
        ("{ env = 'NO_SUCH' }", "the variable NO_SUCH is not set"),
        ("{ file = '/dev/zero' }", "/dev/zero: it is larger than 64 KiB"),
        ("{ path = 'x' }", "expected a text, `{ file"),
        ("{ file = 'x', env = 'y' }", "expected a text, `{ file"),
    ] {
        let told = Given::file(&format!("[inventory]\nkind = 'postgres'\nurl = {reference}")).problems();
        assert!(
            told[0].starts_with("ingestd.toml:3:7: inventory.url: ") && told[0].contains(why),
            "{told:?}"
        );
        assert_eq!(told.len(), 1, "{told:?}");
    }
}

#[test]
fn secrets_are_shown_nowhere() {
    let given = Given::file(&all_secrets("'hunter2'"));
    let all = given.load();
    let shown = [
        all.effective.text(),
        all.effective.json().to_string(),
        format!("{all:?}"),
        format!("{:?}", given.check()),
    ];
    for shown in shown {
        assert!(!shown.contains(SECRET), "{shown}");
        assert!(shown.matches("********").count() >= 8, "{shown}");
    }
    let other = Given::file(&all_secrets("'correct horse'")).load();
    let changes = difference(&all, &other);
    assert_eq!(changes.len(), 7, "{changes:?}");
    assert!(
        changes.iter().all(|change| change.secret && change.from.as_deref() == Some("********")),
        "{changes:?}"
    );
    let told = format!("{changes:?}");
    assert!(!told.contains(SECRET) && !told.contains("horse"), "{told}");
}

#[test]
fn a_secret_that_is_no_toml_is_not_in_the_message() {
    for wrong in [
        "hunter2",
        "'hunter2",
        "hunter2://x",
        "{ hunter2 }",
        "[hunter2",
        "918273645918273645918273645",
        "0xhunter2",
    ] {
        let told = Given::file(&format!("[mail.by.smtp]\nhost = 'h'\npassword = {wrong}\n")).problems();
        assert!(told.concat().contains("ingestd.toml:3:"), "{told:?}");
        assert!(!told.concat().contains(SECRET) && !told.concat().contains("918273645"), "{told:?}");
    }
}

#[test]
fn a_wrong_secret_is_not_in_the_message() {
    let told = Given::file(&all_secrets("918273645")).problems();
    assert_eq!(told.len(), 7, "{told:#?}");
    for line in &told {
        assert!(line.ends_with(": expected a string; the value is not shown"), "{line}");
    }
    let told = Given::file(&all_secrets("['hunter2']")).problems();
    assert_eq!(told.len(), 7, "{told:#?}");
    assert!(!told.concat().contains(SECRET), "{told:#?}");
    let given = Given::file(&all_secrets("'x'").replace("https://user:", "no url: https://user:"));
    let told = given.problem();
    assert!(told.contains("storage.service.base: ") && !told.contains(SECRET), "{told}");
    let told = Given::file("[mail]\nhost = { env = 'X' }\n[work]\nquota = { env = 'X' }").with("X", SECRET);
    assert!(!told.problem().contains(SECRET), "{}", told.problem());
}

#[test]
fn tokens_and_the_key_of_urls_are_shown_nowhere() {
    let (hash, key) = ("ab".repeat(32), "k".repeat(40));
    let text =
        format!("[api]\nurl_key = '{key}'\ntokens = [{{ name = 'ann', role = 'admin', sha256 = '{hash}' }}]");
    let given = Given::file(&text);
    let all = given.load();
    assert_eq!(all.api.tokens.len(), 1);
    for shown in [all.effective.text(), all.effective.json().to_string(), format!("{all:?}")] {
        assert!(!shown.contains(&hash) && !shown.contains(&key), "{shown}");
    }
    let wrong = Given::file(&text.replace(&hash, "abc")).problem();
    assert!(wrong.contains("api.tokens") && !wrong.contains("abc"), "{wrong}");
}
