//! The services that the steps call, opened as the configuration says.
//!
//! **When things break.** A service that cannot be opened is named with its section. What a profile asks for
//! and the configuration does not have is said with what there is. A local minter lives with the session of
//! the tree: after the session's end, [`Services::on`] the next one.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use ingest_queue::nodes::Configuration;
use ingest_queue::queue::Queue;
use ingest_store::Session;
use parking_lot::{Mutex, RwLock};

use crate::fetch::Fetcher;
use crate::inventory::Inventory;
use crate::inventory::postgres::PostgresInventory;
use crate::inventory::sqlite::SqliteInventory;
use crate::ledger::LostNumbers;
use crate::mail::Mail;
use crate::mail::outbox::Outbox;
use crate::mail::smtp::Smtp;
use crate::minter::Minter;
use crate::minter::ezid::EzidMinter;
use crate::minter::local::LocalMinter;
use crate::notify::Notifier;
use crate::outcome::{Failure, Result};
use crate::profile::{Profile, Profiles};
use crate::provision::{self, FileSystem, Provision};
use crate::report::Sender;
use crate::settings::{self, Settings};
use crate::step::admit::Freed;
use crate::storage::Storage;
use crate::storage::http::Http;
use crate::storage::ocfl::Ocfl;
use crate::storage::s3::S3;
use crate::upload_nodes::UploadNodes;
use crate::work::WorkDir;

/// Everything that a step may call. Clones share it.
#[derive(Debug, Clone)]
pub struct Services {
    pub settings: Arc<Settings>,
    pub fetcher: Arc<Fetcher>,
    pub work: WorkDir,
    pub provision: Arc<dyn Provision>,
    /// Poked when space is freed; whoever gives out room waits for it.
    pub freed: Freed,
    pub storages: BTreeMap<String, Arc<dyn Storage>>,
    pub minters: BTreeMap<String, Arc<dyn Minter>>,
    /// Absent: an outside service owns `recording`.
    pub inventory: Option<Arc<dyn Inventory>>,
    pub mail: Arc<dyn Mail>,
    pub sender: Sender,
    pub notifier: Notifier,
    /// As they were read last.
    pub profiles: Arc<RwLock<Arc<Profiles>>>,
    /// The numbers that the tree has lost when it was restored.
    pub lost: Arc<RwLock<Vec<LostNumbers>>>,
    /// Nodes that have uploads, and which of them are away.
    pub upload_nodes: Arc<UploadNodes>,
    /// Profiles as jobs were made with them, by their digests.
    frozen: Arc<Mutex<HashMap<String, Arc<Profile>>>>,
}

/// In the configuration of a job: the digest of the profile that it was made with.
pub const DIGEST: &str = "profile_digest";
/// How many profiles that are not those of now are remembered.
const MOST_FROZEN: usize = 1_000;

impl Services {
    /// Opens all of them. `node` is this node's name, for its working directory.
    pub async fn open(settings: Settings, session: &Session, node: &str) -> Result<Self> {
        let (dir, node) = (settings.work.dir.clone(), node.to_owned());
        let work = blocking("work", move || WorkDir::open(&dir, &node)).await?;
        let provision = Arc::new(FileSystem::new(work.root(), room(&settings)));
        let mut storages = BTreeMap::new();
        for (name, storage) in &settings.storage {
            let section = format!("storage.{name}");
            storages.insert(name.clone(), open_storage(storage).await.map_err(|f| f.during(&section))?);
        }
        let inventory = open_inventory(&settings.inventory).await.map_err(|f| f.during("inventory"))?;
        let minters = open_minters(&settings, session, inventory.as_ref()).await?;
        let mail = open_mail(&settings.mail).map_err(|failure| failure.during("mail"))?;
        let sender = Sender { from: settings.mail.from.clone(), host: settings.mail.host.clone() };
        let of_files = settings.profiles.clone();
        let profiles = blocking("profiles", move || {
            load(&of_files).map_err(|error| Failure::fail(format!("{}: {error}", of_files.dir.display())))
        })
        .await?;
        Ok(Self {
            fetcher: Arc::new(Fetcher::new(settings.fetch.clone()).map_err(|f| f.during("fetch"))?),
            notifier: Notifier::new(settings.notify).map_err(|failure| failure.during("notify"))?,
            settings: Arc::new(settings),
            work,
            provision,
            freed: Freed::default(),
            storages,
            minters,
            inventory,
            mail,
            sender,
            profiles: Arc::new(RwLock::new(Arc::new(profiles))),
            lost: Arc::default(),
            upload_nodes: Arc::default(),
            frozen: Arc::default(),
        })
    }

    /// The same services on another session of the tree.
    pub async fn on(&self, session: &Session) -> Result<Self> {
        let minters = open_minters(&self.settings, session, self.inventory.as_ref()).await?;
        Ok(Self { minters, ..self.clone() })
    }

    /// The same services with other settings, as far as they need not be opened anew: thresholds and bounds of the
    /// steps, and who gets room.
    pub fn with_settings(&self, settings: Settings) -> Self {
        let provision = Arc::new(FileSystem::new(self.work.root(), room(&settings)));
        Self { settings: Arc::new(settings), provision, ..self.clone() }
    }

    /// A profile as it is now, or why there is none.
    pub fn profile(&self, name: &str) -> Result<Profile> {
        let profiles = self.profiles.read().clone();
        profiles.get(name).cloned().map_err(Failure::fail)
    }

    /// The profile that a job was made with: the one of now, or the one that its batch has kept.
    pub async fn profile_of(&self, queue: &Queue, job: &Configuration) -> Result<Arc<Profile>> {
        let name = &job.profile_name;
        let digest = job.other.get(DIGEST).and_then(|digest| digest.as_str());
        let (Some(digest), Some(bid)) = (digest, job.batch_id) else {
            return self.profile(name).map(Arc::new);
        };
        if let Some(known) = self.frozen.lock().get(digest) {
            return Ok(known.clone());
        }
        let now = self.profile(name);
        if let Ok(profile) = &now
            && profile.frozen(None).is_ok_and(|frozen| frozen.digest == digest)
        {
            return Ok(self.remember(digest, profile.clone()));
        }
        match queue.frozen_profile(bid).await? {
            Some(frozen) if frozen.digest == digest => {
                let wrong = |why| Failure::fail(format!("the profile that {bid} keeps: {why}"));
                Ok(self.remember(digest, Profile::thaw(&frozen).map_err(wrong)?))
            }
            // Put aside by a repair, or of another program.
            _ => now.map(Arc::new),
        }
    }

    fn remember(&self, digest: &str, profile: Profile) -> Arc<Profile> {
        let mut known = self.frozen.lock();
        if known.len() >= MOST_FROZEN {
            known.clear();
        }
        known.entry(digest.to_owned()).or_insert_with(|| Arc::new(profile)).clone()
    }

    pub fn storage_of(&self, profile: &Profile) -> Result<&Arc<dyn Storage>> {
        chosen(&self.storages, "storage", &profile.storage, &profile.name)
    }

    pub fn minter_of(&self, profile: &Profile) -> Result<&Arc<dyn Minter>> {
        chosen(&self.minters, "minter", &profile.minter, &profile.name)
    }
}

/// The profiles of the files, as far as they are wanted. Blocks.
pub fn load(settings: &settings::Profiles) -> std::io::Result<Profiles> {
    match settings.source {
        settings::ProfileSource::Tree => Ok(Profiles::default()),
        _ => Profiles::load(&settings.dir),
    }
}

fn room(settings: &Settings) -> provision::Settings {
    provision::Settings {
        max_used: settings.provisioning.max_used,
        quota: settings.work.quota,
        reserve_after: settings.provisioning.reserve_after,
    }
}

fn chosen<'a, T: ?Sized>(
    all: &'a BTreeMap<String, Arc<T>>,
    what: &str,
    name: &str,
    profile: &str,
) -> Result<&'a Arc<T>> {
    all.get(name).ok_or_else(|| {
        let known = all.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
        Failure::fail(format!(
            "the profile `{profile}` wants the {what} `{name}`, and the configuration has {known}; add [{what}.{name}]"
        ))
    })
}

/// Runs blocking work off the runtime. A panic in it is a failure, not the end of the node.
pub(crate) async fn blocking<T: Send + 'static>(
    what: &str,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    match crate::outcome::on_a_thread(work).await {
        Ok(answer) => answer,
        Err(error) => Err(Failure::fail(format!("{what} ended without an answer: {error}"))),
    }
}

async fn open_storage(settings: &settings::Storage) -> Result<Arc<dyn Storage>> {
    Ok(match settings {
        settings::Storage::Ocfl(settings::Ocfl { dir, staging }) => {
            let (dir, staging) = (dir.clone(), staging.clone());
            Arc::new(blocking("opening", move || Ocfl::open(&dir, staging.as_deref())).await?)
        }
        settings::Storage::S3(settings) => Arc::new(S3::connect(settings)?),
        settings::Storage::Http(settings) => Arc::new(Http::new(settings.clone())?),
    })
}

async fn open_minters(
    settings: &Settings,
    session: &Session,
    inventory: Option<&Arc<dyn Inventory>>,
) -> Result<BTreeMap<String, Arc<dyn Minter>>> {
    let mut minters = BTreeMap::<String, Arc<dyn Minter>>::new();
    for (name, minter) in &settings.minter {
        let named = |failure: Failure| failure.during(format!("minter.{name}"));
        let minter: Arc<dyn Minter> = match minter {
            settings::Minter::Local(settings::LocalMinter { template, block }) => {
                let wrong = |error: &dyn std::fmt::Display| named(Failure::fail(error.to_string()));
                let template = template.parse().map_err(|error| wrong(&error))?;
                let minter = LocalMinter::open(session, template, *block).await.map_err(named)?;
                Arc::new(minter.claiming(inventory.cloned()))
            }
            settings::Minter::Ezid(config) => {
                Arc::new(EzidMinter::new(config.clone()).map_err(named)?.noting(session))
            }
        };
        minters.insert(name.clone(), minter);
    }
    Ok(minters)
}

pub(crate) async fn open_inventory(settings: &settings::Inventory) -> Result<Option<Arc<dyn Inventory>>> {
    Ok(match settings {
        settings::Inventory::Sqlite { path } => Some(Arc::new(SqliteInventory::open(path).await?)),
        settings::Inventory::Postgres { url, connections } => {
            Some(Arc::new(PostgresInventory::open(url, *connections).await?))
        }
        settings::Inventory::Outside {} => None,
    })
}

fn open_mail(settings: &settings::Mail) -> Result<Arc<dyn Mail>> {
    Ok(match &settings.by {
        settings::MailBy::Outbox { dir } => Arc::new(Outbox::new(dir)),
        settings::MailBy::Smtp(config) => Arc::new(Smtp::new(config)?),
    })
}
