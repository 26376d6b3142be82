//! Who is at the terminal: by the environment, and where that does not say it (services, containers), by the machine's list of users.

/// The name, if there is one.
pub(crate) fn name() -> Option<String> {
    let said = |name: &&str| std::env::var(name).ok().filter(|name| !name.is_empty());
    ["USER", "LOGNAME"].iter().find_map(said).or_else(|| {
        let users = std::fs::read_to_string("/etc/passwd").ok()?;
        listed(&users, rustix::process::getuid().as_raw())
    })
}

/// The name of a user in a list like that of `/etc/passwd`.
fn listed(users: &str, uid: u32) -> Option<String> {
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next().filter(|name| !name.is_empty())?;
        (fields.nth(1)?.parse() == Ok(uid)).then(|| name.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::listed;

    #[test]
    fn a_user_is_found_by_the_number_and_not_by_the_group() {
        let users =
            "root:x:0:0:root:/root:/bin/sh\n\n:x:7:7::/:\nscans:x:1000:0::/srv:/usr/sbin/nologin\nbroken\n";
        assert_eq!(listed(users, 0).as_deref(), Some("root"));
        assert_eq!(listed(users, 1000).as_deref(), Some("scans"));
        assert_eq!(listed(users, 7), None);
        assert_eq!(listed(users, 8), None);
    }
}
