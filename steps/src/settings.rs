//! What the configuration says of the steps and of their services. Every section may be left out.
//!
//! Storage and minters have names, because profiles choose among them: `[storage.default]`,
//! `[minter.default]`. The others exist once. `kind` chooses the implementation.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use ingest_queue::map::Priority;
use serde::Deserialize;

use crate::mail::smtp::SmtpConfig;
use crate::minter::ezid::EzidConfig;
use crate::storage::http::HttpSettings;
use crate::storage::s3::S3Settings;
use crate::urls::Urls;
use crate::{archive, feed, fetch, notify, provision, size};

/// All sections that are about the work of the states.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    pub work: Work,
    pub profiles: Profiles,
    pub fetch: fetch::Rules,
    pub unpack: archive::Limits,
    pub expanding: Expanding,
    pub estimating: Estimating,
    pub provisioning: Provisioning,
    pub downloading: Downloading,
    pub notify: notify::Settings,
    pub storage: BTreeMap<String, Storage>,
    pub minter: BTreeMap<String, Minter>,
    pub inventory: Inventory,
    pub mail: Mail,
    pub access: Access,
    /// Where submissions come from by themselves.
    pub feeds: BTreeMap<String, feed::Feed>,
    /// How URLs of this node's own files are made; the node sets it. Absent: they are `file:` URLs, or not signed.
    #[serde(skip)]
    pub urls: Option<Urls>,
    /// Where the node keeps uploads; the node sets it.
    #[serde(skip)]
    pub uploads: Option<PathBuf>,
}

impl Default for Settings {
    fn default() -> Self {
        let name = || "default".to_owned();
        Self {
            work: Work::default(),
            profiles: Profiles::default(),
            fetch: fetch::Rules::default(),
            unpack: archive::Limits::default(),
            expanding: Expanding::default(),
            estimating: Estimating::default(),
            provisioning: Provisioning::default(),
            downloading: Downloading::default(),
            notify: notify::Settings::default(),
            storage: BTreeMap::from([(name(), Storage::Ocfl(Ocfl::default()))]),
            minter: BTreeMap::from([(name(), Minter::Local(LocalMinter::default()))]),
            inventory: Inventory::default(),
            mail: Mail::default(),
            access: Access::default(),
            feeds: BTreeMap::new(),
            urls: None,
            uploads: None,
        }
    }
}

/// `[work]`: the working directory.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Work {
    pub dir: PathBuf,
    /// The most bytes that working files may take together; absent: what the file system has.
    #[serde(with = "size::optional")]
    pub quota: Option<u64>,
    /// Directories that no job of the tree has any more are removed when they are so old.
    #[serde(with = "humantime_serde")]
    pub keep_leftovers: Duration,
    /// Jobs whose files are on the disk of a node that has been away for so long begin anew elsewhere.
    #[serde(with = "humantime_serde")]
    pub node_grace: Duration,
}

impl Default for Work {
    fn default() -> Self {
        let (keep_leftovers, node_grace) = (Duration::from_hours(24), Duration::from_mins(10));
        Self { dir: "data/work".into(), quota: None, keep_leftovers, node_grace }
    }
}

/// `[profiles]`: where the profiles are.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Profiles {
    pub dir: PathBuf,
    pub source: ProfileSource,
}

/// Where profiles come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProfileSource {
    /// The directory of each node.
    #[default]
    Files,
    /// The tree, for all nodes alike.
    Tree,
    /// Both; of the same name, that of the tree.
    Both,
}

impl Default for Profiles {
    fn default() -> Self {
        Self { dir: "config/profiles".into(), source: ProfileSource::Files }
    }
}

/// `[expanding]`: from a payload to jobs.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Expanding {
    /// The largest manifest.
    #[serde(with = "size")]
    pub max_manifest: u64,
    /// Rows that are read ahead and handed to the queue together.
    pub rows_at_once: usize,
}

impl Default for Expanding {
    fn default() -> Self {
        Self { max_manifest: 2 << 30, rows_at_once: 2_000 }
    }
}

/// `[estimating]`: how big jobs are, and which are put back for it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Estimating {
    /// Requests for sizes at a time, for one job.
    pub at_once: usize,
    /// Jobs from this size on get this priority, if theirs is not later already. The largest that fits counts.
    pub slower: Vec<Slower>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Slower {
    #[serde(with = "size")]
    pub from: u64,
    #[serde(deserialize_with = "crate::profile::priority")]
    pub priority: Priority,
}

impl Default for Estimating {
    fn default() -> Self {
        Self { at_once: 8, slower: vec![Slower { from: 100 << 30, priority: Priority::SLOW }] }
    }
}

/// `[provisioning]`: who gets room.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Provisioning {
    /// Jobs of unknown size wait while more than this share of the file system is used.
    pub max_used: f64,
    /// A job that has waited so long although smaller ones went reserves ahead.
    #[serde(with = "humantime_serde")]
    pub reserve_after: Duration,
    /// How long to wait before all that wait are looked at again, if nothing happens before.
    #[serde(with = "humantime_serde")]
    pub cycle: Duration,
}

impl Default for Provisioning {
    fn default() -> Self {
        let provision::Settings { max_used, reserve_after, .. } = provision::Settings::default();
        Self { max_used, reserve_after, cycle: Duration::from_mins(1) }
    }
}

/// `[downloading]`: how a job's files are fetched. What is bounded per host and per node stands in `[fetch]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Downloading {
    /// Files of one job at a time.
    pub at_once: usize,
}

impl Default for Downloading {
    fn default() -> Self {
        Self { at_once: 8 }
    }
}

/// `[storage.NAME]`: where objects are kept.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Storage {
    Ocfl(Ocfl),
    S3(S3Settings),
    Http(HttpSettings),
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Ocfl {
    pub dir: PathBuf,
    /// Where versions are put together, on the same file system; absent: beside `dir`.
    pub staging: Option<PathBuf>,
}

impl Default for Ocfl {
    fn default() -> Self {
        Self { dir: "data/storage".into(), staging: None }
    }
}

/// `[minter.NAME]`: who names objects.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Minter {
    Local(LocalMinter),
    Ezid(EzidConfig),
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LocalMinter {
    /// `NAAN/SHOULDER.MASK`, as NOID writes it.
    pub template: String,
    /// How many numbers a node takes at once.
    pub block: u64,
}

impl Default for LocalMinter {
    fn default() -> Self {
        Self { template: "99999/fk4.zeedeedk".into(), block: crate::minter::local::BLOCK }
    }
}

/// `[inventory]`: the database of what is kept.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum Inventory {
    Sqlite {
        path: PathBuf,
    },
    Postgres {
        url: String,
        #[serde(default = "eight")]
        connections: u32,
    },
    /// Another service owns `recording`: this node leaves that state alone.
    Outside {},
}

fn eight() -> u32 {
    8
}

impl Default for Inventory {
    fn default() -> Self {
        Inventory::Sqlite { path: "data/inventory.sqlite".into() }
    }
}

impl std::fmt::Debug for Inventory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Inventory::Sqlite { path } => write!(f, "Sqlite({})", path.display()),
            // The URL has a password in it.
            Inventory::Postgres { connections, .. } => write!(f, "Postgres({connections} connections)"),
            Inventory::Outside {} => write!(f, "Outside"),
        }
    }
}

/// `[mail]`: who writes to depositors, and how.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Mail {
    pub from: String,
    /// The right-hand side of Message-IDs: the same on all nodes.
    pub host: String,
    /// Who is told what nobody else is: batches whose profile and submission give no address.
    pub admins: Vec<String>,
    pub by: MailBy,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MailBy {
    /// A file a message, in this directory.
    Outbox {
        dir: PathBuf,
    },
    Smtp(SmtpConfig),
}

impl Default for Mail {
    fn default() -> Self {
        Self {
            from: "Ingest <ingest@localhost>".into(),
            host: "localhost".into(),
            admins: Vec::new(),
            by: MailBy::Outbox { dir: "data/outbox".into() },
        }
    }
}

/// `[access]`: objects that are put together for people to fetch.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Access {
    pub dir: PathBuf,
    /// Objects from this size on are large, and wait in a queue of their own.
    #[serde(with = "size")]
    pub large_from: u64,
    /// How long what was put together can be fetched.
    #[serde(with = "humantime_serde")]
    pub keep: Duration,
    /// The rate by which the time is estimated at which it will be there, in bytes a second.
    #[serde(with = "size")]
    pub rate: u64,
}

impl Default for Access {
    fn default() -> Self {
        Self {
            dir: "data/access".into(),
            large_from: 4 << 30,
            keep: Duration::from_hours(7 * 24),
            rate: 20 << 20,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Settings, String> {
        toml::from_str(text).map_err(|error| error.message().to_owned())
    }

    #[test]
    fn every_service_is_chosen_by_its_kind() {
        let text = r#"
            [storage.default]
            kind = "ocfl"
            dir = "/srv/ocfl"
            [storage.cloud]
            kind = "s3"
            endpoint = "http://localhost:9000"
            bucket = "objects"
            region = "us-east-1"
            access_key = "key"
            secret_key = "hidden"
            [storage.service]
            kind = "http"
            base = "http://localhost:8080"
            node = "9502"
            timeout = "10m"
            [minter.default]
            kind = "local"
            template = "99999/fk4.reedeedk"
            [minter.ezid]
            kind = "ezid"
            url = "https://ezid.example.org"
            shoulder = "ark:/99999/fk4"
            user = "apitest"
            password = "hidden"
            [inventory]
            kind = "postgres"
            url = "postgres://ingest:hidden@localhost/inventory"
            [mail]
            from = "ingest@example.org"
            host = "ingest.example.org"
            [mail.by.smtp]
            host = "mail.example.org"
            password = "hidden"
            [estimating]
            slower = [{ from = "1 TiB", priority = "review" }]
            [work]
            quota = "2 GiB"
        "#;
        let settings = read(text).unwrap();
        assert!(matches!(settings.storage["default"], Storage::Ocfl(_)));
        assert!(matches!(settings.storage["cloud"], Storage::S3(_)));
        assert!(matches!(settings.storage["service"], Storage::Http(_)));
        assert!(matches!(settings.minter["ezid"], Minter::Ezid(_)));
        assert!(matches!(settings.inventory, Inventory::Postgres { connections: 8, .. }));
        assert!(matches!(settings.mail.by, MailBy::Smtp(_)));
        assert_eq!(settings.work.quota, Some(2 << 30));
        assert_eq!(settings.estimating.slower[0].priority.number(), 90);
        let shown = format!("{settings:?}");
        assert!(!shown.contains("hidden"), "{shown}");
    }

    #[test]
    fn what_is_not_known_is_refused() {
        for (text, why) in [
            ("[storage.default]\nkind = 'tape'", "unknown variant `tape`"),
            ("[storage.default]\nkind = 'ocfl'\ndirectory = 'x'", "unknown field `directory`"),
            ("[inventory]\nkind = 'sqlite'\nfile = 'x'", "unknown field `file`"),
            ("[work]\nquota = 'lots'", "`lots` is no size"),
            ("[downloads]", "unknown field `downloads`"),
        ] {
            let found = read(text).unwrap_err();
            assert!(found.contains(why), "{text}: {found}");
        }
    }

    #[test]
    fn nothing_said_is_the_embedded_default() {
        let settings = read("").unwrap();
        assert!(matches!(&settings.storage["default"], Storage::Ocfl(ocfl) if *ocfl == Ocfl::default()));
        assert!(matches!(settings.inventory, Inventory::Sqlite { .. }));
        assert!(matches!(settings.mail.by, MailBy::Outbox { .. }));
    }
}
