//! The audit of stored objects: their content against their own digests and against those of the inventory.
//!
//! | to find | look in |
//! |---|---|
//! | which objects there are, and how they are read | here: [`Auditor`] |
//! | what is said of an object | [`verdict`] |
//!
//! All objects are those that the inventory lists, page by page, and then those that the storages have and the inventory
//! does not list, for which it is asked page by page. In memory are a page, one object, and eight bytes for each
//! recorded object that is not sound. Objects that are recorded while this goes on may be left out.
//!
//! Of one object the inventory is read first and the storage then: what is recorded was stored before. If that does
//! not fit, the inventory is read again, so that a version that was stored and recorded meanwhile is nobody's fault. A
//! version whose job is between storing and recording is unrecorded all the same.
//!
//! **When things break.** What is wrong with an object is told with it, and the audit goes on with the next. A storage
//! or an inventory that is away ends it: nothing could be said of the rest.

pub mod verdict;

use std::collections::{BTreeMap, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use futures::StreamExt as _;
use parking_lot::Mutex;
use tokio::sync::mpsc;

use crate::inventory::Inventory;
use crate::outcome::{Cancel, Failure, Progress, Result};
use crate::storage::{Audit, Entry, Storage, canonical};
use verdict::{Decision, Finding, Recorded, Verdict, decide};

/// How many names the inventory is asked for at once.
const PAGE: usize = 500;

/// Which objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// These, by their ARKs.
    Objects(Vec<String>),
    /// All that are recorded or stored, and everything else that lies in the storages.
    All,
}

/// Where objects are kept, and what is known of them.
#[derive(Debug, Clone)]
pub struct Auditor {
    pub storages: BTreeMap<String, Arc<dyn Storage>>,
    /// Absent: an outside service owns it, and objects are compared with their own words only.
    pub inventory: Option<Arc<dyn Inventory>>,
}

/// How far an audit has come.
#[derive(Debug, Default)]
pub struct Watch {
    /// What was read so far, of all objects.
    pub progress: Progress,
    object: Mutex<String>,
}

impl Watch {
    /// The object that is being read.
    pub fn object(&self) -> String {
        self.object.lock().clone()
    }
}

/// What was found of an object in one storage, or of something that is no object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Audited {
    /// Empty where nobody knows.
    pub ark: String,
    /// The name of the storage; empty where none has it.
    pub storage: String,
    /// Where it lies, in the words of the storage; empty where nothing does.
    pub place: String,
    pub verdict: Verdict,
    pub findings: Vec<Finding>,
    /// The newest version that is stored.
    pub versions: u32,
    /// What was read.
    pub files: u64,
    pub bytes: u64,
}

impl Auditor {
    /// Audits objects one after the other, and sends what was found. Ends early where nobody receives.
    pub async fn run(
        &self,
        scope: Scope,
        watch: &Watch,
        cancel: &Cancel,
        sink: mpsc::Sender<Audited>,
    ) -> Result<()> {
        let mut run = Run { auditor: self, watch, cancel, sink, damaged: HashSet::new() };
        match scope {
            Scope::Objects(arks) => {
                for ark in arks {
                    run.object(&ark, None).await?;
                }
                Ok(())
            }
            Scope::All => {
                run.recorded().await?;
                run.stored().await
            }
        }
    }
}

struct Run<'a> {
    auditor: &'a Auditor,
    watch: &'a Watch,
    cancel: &'a Cancel,
    sink: mpsc::Sender<Audited>,
    /// Digests of the places of recorded objects that are not sound: the walk may not know them for what they are.
    damaged: HashSet<u64>,
}

impl Run<'_> {
    /// Every object that the inventory lists.
    async fn recorded(&mut self) -> Result<()> {
        let Some(inventory) = &self.auditor.inventory else { return Ok(()) };
        let mut after = None;
        loop {
            let page = inventory.objects(after.as_deref()).await?;
            let Some(last) = page.last() else { return Ok(()) };
            after = Some(last.clone());
            for ark in page {
                self.object(&ark, None).await?;
            }
        }
    }

    /// Everything that lies in the storages and that the inventory does not list.
    async fn stored(&mut self) -> Result<()> {
        for (name, storage) in &self.auditor.storages {
            let mut entries = storage.entries();
            let mut page = Vec::new();
            while let Some(entry) = entries.next().await {
                match entry {
                    Ok(Entry::Object(ark)) => {
                        // Most of them are known, and whoever waits sees that it goes on.
                        ark.clone_into(&mut self.watch.object.lock());
                        page.push(ark);
                    }
                    Ok(Entry::Nameless { place, why } | Entry::Foreign { place, why }) => {
                        if !self.damaged.contains(&digest(name, &place)) {
                            self.foreign(name, place, why).await?;
                        }
                    }
                    Err(Failure::Fail(why) | Failure::Hopeless(why)) => {
                        self.send(unreadable("", name, why)).await?;
                    }
                    Err(failure) => return Err(failure),
                }
                if page.len() >= PAGE {
                    self.unlisted(name, &mut page).await?;
                }
            }
            self.unlisted(name, &mut page).await?;
        }
        Ok(())
    }

    async fn unlisted(&mut self, storage: &str, page: &mut Vec<String>) -> Result<()> {
        let page = std::mem::take(page);
        let unlisted = match &self.auditor.inventory {
            Some(inventory) => inventory.unlisted(&page).await?,
            None => page,
        };
        for ark in unlisted {
            self.object(&ark, Some(storage)).await?;
        }
        Ok(())
    }

    async fn foreign(&mut self, storage: &str, place: String, why: String) -> Result<()> {
        let what = format!("{place}: {why}");
        let finding = Finding { verdict: Verdict::Foreign, version: None, path: None, what };
        let decision = Decision { verdict: Verdict::Foreign, findings: vec![finding] };
        self.send(audited("", storage, Audit { place, ..Audit::default() }, decision)).await
    }

    /// One object, in all storages or in one.
    async fn object(&mut self, ark: &str, only: Option<&str>) -> Result<()> {
        ark.clone_into(&mut self.watch.object.lock());
        if let Err(why) = canonical(ark) {
            let what = format!("the inventory lists what is no object's name: {why}");
            let finding = Finding { verdict: Verdict::Altered, version: None, path: None, what };
            let decision = Decision { verdict: Verdict::Altered, findings: vec![finding] };
            return self.send(audited(ark, "", Audit::default(), decision)).await;
        }
        let before = match self.rows(ark).await {
            Err(Failure::Fail(why) | Failure::Hopeless(why)) => {
                return self.send(unreadable(ark, "", why)).await;
            }
            rows => rows?,
        };
        let (mut found, mut silent) = (Vec::new(), true);
        let auditor = self.auditor;
        for (name, storage) in &auditor.storages {
            if only.is_some_and(|only| only != name) {
                continue;
            }
            match storage.audit(ark, &self.watch.progress, self.cancel).await {
                Ok(audit) if audit.present => found.push((name, audit)),
                Ok(_) => {}
                Err(Failure::Fail(why) | Failure::Hopeless(why)) => {
                    silent = false;
                    self.send(unreadable(ark, name, why)).await?;
                }
                Err(failure) => return Err(failure),
            }
        }
        if found.is_empty() && silent {
            let absent = Audit::default();
            let decision = decide(&absent, &before, 0);
            return self.send(audited(ark, "", absent, decision)).await;
        }
        let newest: Vec<u32> = found.iter().map(|(_, audit)| audit.versions).collect();
        for (at, (name, audit)) in found.into_iter().enumerate() {
            let others = newest.iter().enumerate().filter(|(other, _)| *other != at);
            let elsewhere = others.map(|(_, newest)| *newest).max().unwrap_or(0);
            let mut decision = decide(&audit, &before, elsewhere);
            if decision.verdict != Verdict::Sound {
                decision = self.again(ark, &audit, &before, elsewhere, decision).await?;
            }
            if decision.verdict != Verdict::Sound {
                self.damaged.insert(digest(name, &audit.place));
            }
            self.send(audited(ark, name, audit, decision)).await?;
        }
        Ok(())
    }

    /// The verdict with what was recorded meanwhile, as far as it was looked for in the storage.
    async fn again(
        &self,
        ark: &str,
        audit: &Audit,
        before: &Recorded,
        elsewhere: u32,
        decision: Decision,
    ) -> Result<Decision> {
        let Ok(Recorded::Object(mut rows)) = self.rows(ark).await else { return Ok(decision) };
        let head = |recorded: &Recorded| match recorded {
            Recorded::Object(rows) => rows.head.unwrap_or(0),
            _ => 0,
        };
        let newest = audit.versions.max(elsewhere).max(head(before));
        if let Recorded::Object(before) = before
            && before.versions.len() >= rows.versions.len()
        {
            return Ok(decision);
        }
        rows.versions.retain(|number, _| *number <= newest);
        rows.head = rows.head.map(|head| head.min(newest));
        Ok(decide(audit, &Recorded::Object(rows), elsewhere))
    }

    async fn rows(&self, ark: &str) -> Result<Recorded> {
        Ok(match &self.auditor.inventory {
            None => Recorded::Unasked,
            Some(inventory) => inventory.rows(ark).await?.map_or(Recorded::Nothing, Recorded::Object),
        })
    }

    async fn send(&self, audited: Audited) -> Result<()> {
        self.sink.send(audited).await.map_err(|_| Failure::Cancelled)
    }
}

fn audited(ark: &str, storage: &str, audit: Audit, decision: Decision) -> Audited {
    let Audit { place, versions, files, bytes, .. } = audit;
    let Decision { verdict, findings } = decision;
    Audited {
        ark: ark.to_owned(),
        storage: storage.to_owned(),
        place,
        verdict,
        findings,
        versions,
        files,
        bytes,
    }
}

fn unreadable(ark: &str, storage: &str, what: String) -> Audited {
    let verdict = Verdict::Unreadable;
    let decision = Decision { verdict, findings: vec![Finding { verdict, version: None, path: None, what }] };
    audited(ark, storage, Audit::default(), decision)
}

fn digest(storage: &str, place: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    (storage, place).hash(&mut hasher);
    hasher.finish()
}
