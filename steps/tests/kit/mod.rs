//! What the tests of the steps stand on: a queue on a tree, services in a directory of their own, a profile,
//! jobs, and a web server with files.

pub(crate) mod fixture;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ingest_queue::date::{Clock, Date};
use ingest_queue::fsck;
use ingest_queue::ids::{Bid, Jid};
use ingest_queue::jobs::Lease;
use ingest_queue::map;
use ingest_queue::nodes::{Configuration, Identifiers, JobStatus, Metadata, Submission};
use ingest_queue::plan::job::{Change, NewJob};
use ingest_queue::queue::Queue;
use ingest_queue::states::JobState;
use ingest_steps::digest::{Algorithm, Digest, Digests};
use ingest_steps::fetch::Allowed;
use ingest_steps::outcome::{Cancel, Progress};
use ingest_steps::services::Services;
use ingest_steps::settings::{self, Settings};
use ingest_steps::step::{Payload, Task};
use ingest_store::Session;
use tempfile::TempDir;

pub(crate) use ingest_harness::FileServer;

pub(crate) const WHO: &str = "worker";
pub(crate) const PROFILE: &str = "test_content";
pub(crate) const OWNER: &str = "ark:/99999/fk4tests";

const PROFILE_TEXT: &str = r#"
name = "test_content"
collection = "tests"
title = "Things to test with"
owner = "ark:/99999/fk4tests"

[notify]
to = ["curators@example.org"]
"#;

/// A node's queue and services, all in one directory that goes with it.
pub(crate) struct Stage {
    pub(crate) queue: Queue,
    pub(crate) services: Services,
    dir: TempDir,
}

impl Stage {
    pub(crate) async fn new(session: &Session) -> Self {
        Self::with(session, |_| {}).await
    }

    /// With other settings. Everything is below one directory, and loopback may be fetched from.
    pub(crate) async fn with(session: &Session, change: impl FnOnce(&mut Settings)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut settings = settings_in(dir.path());
        change(&mut settings);
        Self::in_dir(session, dir, settings, "node-1").await
    }

    pub(crate) async fn in_dir(session: &Session, dir: TempDir, settings: Settings, node: &str) -> Self {
        std::fs::create_dir_all(&settings.profiles.dir).unwrap();
        let profile = settings.profiles.dir.join(format!("{PROFILE}.toml"));
        if !profile.exists() {
            std::fs::write(profile, PROFILE_TEXT).unwrap();
        }
        let queue = ingest_queue::queue::Settings { max_timeouts: 1_000, ..queue_settings(node) };
        let clock = Clock::fixed(Date::from_millis(1_763_257_425_000));
        let queue = Queue::open(session, queue, clock).await.unwrap();
        let services = Services::open(settings, session, node).await.unwrap();
        Self { queue, services, dir }
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Replaces the profile: `change` gets its text.
    pub(crate) fn profile(&self, change: impl FnOnce(&str) -> String) {
        let dir = self.services.settings.profiles.dir.clone();
        std::fs::write(dir.join(format!("{PROFILE}.toml")), change(PROFILE_TEXT)).unwrap();
        let profiles = ingest_steps::profile::Profiles::load(&dir).unwrap();
        assert_eq!(profiles.problems(), []);
        *self.services.profiles.write() = Arc::new(profiles);
    }

    /// A batch with one pending job of this payload.
    pub(crate) async fn job(&self, payload: &Payload) -> Jid {
        self.job_with(payload, |_| {}).await
    }

    pub(crate) async fn job_with(&self, payload: &Payload, change: impl FnOnce(&mut NewJob)) -> Jid {
        let mut new = new_job(payload);
        change(&mut new);
        self.batch(std::slice::from_ref(&new)).await.1[0]
    }

    /// A batch, expanded whole.
    pub(crate) async fn batch(&self, jobs: &[NewJob]) -> (Bid, Vec<Jid>) {
        let queue = &self.queue;
        let submission = Submission {
            profile_name: PROFILE.into(),
            submitter: "depositor".into(),
            payload_url: Some("https://example.org/manifest.checkm".into()),
            ..Submission::default()
        };
        let bid = queue.create_batch(&uuid::Uuid::new_v4().to_string(), &submission).await.unwrap().bid;
        let mut lease = queue.acquire_batch(bid, WHO).await.unwrap();
        queue.begin_expansion(&mut lease, b"#%checkm_0.7\n", jobs.len() as u64).await.unwrap();
        let (before, _) = queue.session().children(map::JOBS).await.unwrap();
        queue.expand(&mut lease, 0, jobs).await.unwrap();
        queue.release_batch(&mut lease).await.unwrap();
        let (after, _) = queue.session().children(map::JOBS).await.unwrap();
        let new = after.iter().filter(|name| !before.contains(name));
        let mut jids: Vec<Jid> = new.filter_map(|name| name.parse().ok()).collect();
        jids.sort_unstable();
        (bid, jids)
    }

    pub(crate) async fn status(&self, jid: Jid) -> JobStatus {
        self.queue.job_status(jid).await.unwrap().0
    }

    pub(crate) async fn take(&self, jid: Jid) -> Lease {
        let entry = self.queue.job(jid).await.unwrap().entry();
        self.queue.acquire(entry, WHO).await.unwrap()
    }

    /// Moves a job on to a state, without the work of those before.
    pub(crate) async fn bring(&self, jid: Jid, to: JobState) {
        while self.status(jid).await.status != to {
            let mut lease = self.take(jid).await;
            self.queue.succeed(&mut lease, &Change::default()).await.unwrap();
        }
    }

    pub(crate) async fn task<'a>(&'a self, lease: &'a mut Lease) -> Task<'a> {
        let (progress, cancel) = (Progress::default(), Cancel::new());
        Task::open(&self.queue, lease, &self.services, &progress, &cancel).await.unwrap()
    }

    /// The tree is as it should be, before anything could sweep.
    pub(crate) async fn fsck(&self) {
        fsck::clean(self.queue.session(), self.queue.dialect()).await.unwrap();
    }
}

pub(crate) fn settings_in(dir: &Path) -> Settings {
    let mut settings = Settings::default();
    settings.work.dir = dir.join("work");
    // No result depends on how full the disk of the machine is.
    settings.provisioning.max_used = 1.0;
    settings.profiles.dir = dir.join("profiles");
    settings.fetch.allowed = vec![Allowed::Network("127.0.0.0/8".parse().unwrap())];
    settings.fetch.backoff = std::time::Duration::from_millis(10);
    let storage = settings::Ocfl { dir: dir.join("storage"), staging: None };
    settings.storage.insert("default".into(), settings::Storage::Ocfl(storage));
    settings.inventory = settings::Inventory::Sqlite { path: dir.join("inventory.sqlite") };
    settings.mail.by = settings::MailBy::Outbox { dir: dir.join("outbox") };
    settings.access.dir = dir.join("access");
    settings
}

fn queue_settings(node: &str) -> ingest_queue::queue::Settings {
    ingest_queue::queue::Settings::new(node)
}

pub(crate) fn new_job(payload: &Payload) -> NewJob {
    let mut configuration = Configuration {
        profile_name: PROFILE.into(),
        submitter: "depositor".into(),
        response_type: "json".into(),
        submission_mode: "add".into(),
        ..Configuration::default()
    };
    payload.write(&mut configuration);
    NewJob {
        configuration,
        identifiers: Identifiers { local_id: Vec::new(), ..Identifiers::default() },
        metadata: Metadata { erc_what: Some("A thing".into()), ..Metadata::default() },
        ..NewJob::default()
    }
}

pub(crate) fn digest(algorithm: Algorithm, data: &[u8]) -> Digest {
    let mut digests = Digests::of([algorithm]);
    digests.update(data);
    digests.finish().remove(0)
}

pub(crate) fn sha256(data: &[u8]) -> Digest {
    digest(Algorithm::Sha256, data)
}

/// All files below a directory, by their relative paths.
pub(crate) fn below(dir: &Path) -> Vec<(String, PathBuf)> {
    let mut found = ingest_steps::archive::files_of(dir).unwrap();
    found.sort();
    found
}
