//! What a reload would change.

use super::*;

fn changes(old: &str, new: &str) -> Vec<Change> {
    difference(&loaded(old), &loaded(new))
}

#[test]
fn what_differs_is_told_key_by_key() {
    let found = changes(
        "[pools.downloading]\nsize = 8\n[fetch]\nretries = 6",
        "[pools.downloading]\nsize = 9\n[fetch]\nretries = 7\n[work]\nquota = '1 GiB'",
    );
    let told: Vec<String> = found.iter().map(Change::to_string).collect();
    assert_eq!(
        told,
        [
            "pools.downloading.size: 8 becomes 9",
            "work.quota: nothing becomes \"1 GiB\"",
            "fetch.retries: 6 becomes 7 with the next start",
        ]
    );
    let gone = changes("[work]\nquota = '1 GiB'", "");
    assert_eq!((gone.len(), gone[0].to.as_deref(), gone[0].live), (1, None, true));
}

#[test]
fn another_spelling_is_no_change() {
    let found = changes(
        "[fetch]\nstall = '60s'\nmax_bytes = 1024\n[store.engine.embedded]\ncache = 67108864",
        "[fetch]\nstall = '1m'\nmax_bytes = '1 KiB'",
    );
    assert_eq!(found, []);
    assert_eq!(changes("[node]\nname = '1m'", "[node]\nname = '60s'").len(), 1, "a name is no time");
}

#[test]
fn another_choice_needs_a_restart() {
    let found = changes("", "[inventory]\nkind = 'outside'");
    let keys: Vec<_> = found.iter().map(|change| (change.key.as_str(), change.live)).collect();
    assert_eq!(keys, [("inventory.kind", false), ("inventory.path", false)]);
}

#[test]
fn what_is_live_is_about_keys_that_there_are() {
    for live in keys::LIVE {
        let known = KEYS.all.iter().filter(|key| keys::is_live(&key.pattern));
        let found =
            known.filter(|key| keys::dotted(&key.pattern).starts_with(live.trim_end_matches('*'))).count();
        assert!(found > 0, "{live}");
    }
    assert!(!keys::is_live(&keys::split("work.dir")) && keys::is_live(&keys::split("log.throttle.times")));
    assert!(!keys::is_live(&keys::split("log.format")) && !keys::is_live(&keys::split("access.dir")));
}
