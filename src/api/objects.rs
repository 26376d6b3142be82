//! Stored objects: whether their content is still what was stored.
//!
//! **When things break.** Everything that is wrong with an object is told with it, and the audit goes on with the
//! next. One that no storage has is damaged, too; whoever looks at all of them hears of those that the inventory
//! knows and no storage has. A storage that is away ends it, with a problem as the last line.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{RawQuery, State};
use axum::response::Response;
use futures::StreamExt as _;
use ingest_actors::house::Life;
use ingest_queue::list::{self, Filter, PageRequest};
use ingest_steps::ark::Ark;
use ingest_steps::inventory::Inventory;
use ingest_steps::outcome::{Cancel, Failure, Progress};
use ingest_steps::storage::{Audit, Storage};

use super::app::App;
use super::caller::Operator;
use super::lines::{self, Teller, line, problem};
use super::problem::{Answer, Refusal};
use super::wire::{ArkWord, AuditLine, AuditProgress, Audited, AuditedObject, FieldProblem, Problem};

/// How often it is looked how far it is.
const LOOK: Duration = Duration::from_millis(500);
/// The most objects that one request may name.
const MOST: usize = 1000;

type Storages = BTreeMap<String, Arc<dyn Storage>>;

/// Which objects.
#[derive(Debug, PartialEq, Eq)]
enum Wanted {
    Arks(Vec<String>),
    Batch(String),
    All,
}

#[utoipa::path(get, path = "/api/v1/objects/audit", tag = "objects", security(("token" = ["operator"])), params(
    ("ark" = Option<Vec<ArkWord>>, Query, description = "these objects; may be repeated"),
    ("batch" = Option<String>, Query, description = "those of this batch: bid or uuid"),
    ("all" = Option<bool>, Query, description = "all that are stored, and all that are recorded"),
), responses(
    (status = 200, description = "lines; the last is `done` or `problem`", body = AuditLine, content_type = "application/x-ndjson"),
    (status = "default", body = Problem, content_type = "application/problem+json"),
))]
/// Reads stored objects, and compares their content with their digests
pub(crate) async fn audit(
    State(app): State<App>,
    _: Operator,
    RawQuery(query): RawQuery,
) -> Answer<Response> {
    let wanted = wanted(query.as_deref().unwrap_or_default())?;
    let life = app.life().await?;
    let arks = match wanted {
        Wanted::Arks(arks) => Some(arks),
        Wanted::Batch(name) => Some(of_batch(&life, &name).await?),
        Wanted::All => None,
    };
    lines::answer(&app, false, |teller| run(life, arks, teller))
}

fn wanted(query: &str) -> Answer<Wanted> {
    let (mut arks, mut batch, mut all) = (Vec::new(), None, false);
    let mut problems = Vec::new();
    let mut wrong = |field: &str, message: String| {
        problems.push(FieldProblem { field: field.to_owned(), message });
    };
    for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
        match &*name {
            "ark" => match value.parse::<Ark>() {
                Ok(ark) => arks.push(ark.to_string()),
                Err(error) => wrong("ark", error.to_string()),
            },
            "batch" => batch = Some(value.into_owned()),
            "all" if matches!(&*value, "true" | "false") => all = value == "true",
            "all" => wrong("all", "it is true or false".to_owned()),
            other => wrong(other, "there is no such parameter".to_owned()),
        }
    }
    if arks.len() > MOST {
        wrong("ark", format!("at most {MOST} at a time"));
    }
    if usize::from(!arks.is_empty()) + usize::from(batch.is_some()) + usize::from(all) > 1 {
        wrong("", "say one of ark, batch and all".to_owned());
    }
    let wanted = match (batch, all) {
        (Some(batch), _) => Wanted::Batch(batch),
        (None, true) => Wanted::All,
        (None, false) => Wanted::Arks(arks),
    };
    if problems.is_empty() && wanted == Wanted::Arks(Vec::new()) {
        return Err(Refusal::field("ark", "which objects? Say ark, batch or all"));
    }
    if problems.is_empty() {
        Ok(wanted)
    } else {
        Err(Refusal::of_fields(super::problem::Kind::INVALID, problems))
    }
}

/// The objects that a batch has stored: those of its jobs, and of its last report.
async fn of_batch(life: &Life, name: &str) -> Answer<Vec<String>> {
    let queue = &life.queue;
    let none = || {
        Refusal::not_found(format_args!("batch {}", name.chars().take(64).collect::<String>().escape_debug()))
    };
    let bid = match name.parse() {
        Ok(bid) => bid,
        Err(_) => queue.find_batch(name).await.ok().flatten().ok_or_else(none)?,
    };
    let mut arks = BTreeSet::new();
    let filter = Filter { batch: Some(bid), ..Filter::default() };
    let mut page = PageRequest { limit: list::MAX_LIMIT, after: None, newest_first: false };
    loop {
        let found = list::jobs(life, &filter, &page).await?;
        let stored =
            found.lines.into_iter().filter(|line| line.state == ingest_queue::states::JobState::Completed);
        arks.extend(stored.filter_map(|line| line.primary_id));
        match found.next {
            Some(next) => page.after = Some(next),
            None => break,
        }
    }
    if let Some(report) = queue.last_report(bid).await? {
        // There may be a million, and nobody else waits for them.
        let read = tokio::task::spawn_blocking(move || {
            let arks =
                report.successful_jobs.iter().filter_map(|job| job.map(|job| job.primary_id).transpose());
            arks.collect::<std::io::Result<Vec<_>>>()
        });
        arks.extend(read.await.map_err(Refusal::defect)?.map_err(Refusal::defect)?);
    }
    Ok(arks.into_iter().collect())
}

async fn run(life: Arc<Life>, arks: Option<Vec<String>>, teller: Teller) {
    let cancel = Cancel::new();
    // Whoever leaves drops this, and what reads on threads of its own is told to stop.
    let _stops = cancel.clone().drop_guard();
    let services = life.services();
    let (storages, inventory) = (services.storages.clone(), services.inventory.clone());
    let mut work = Work { storages, inventory, cancel, teller, sum: Audited::default() };
    let ended = match arks {
        Some(arks) => work.named(&arks).await,
        None => work.all().await,
    };
    let last = match ended {
        Ok(()) => AuditLine::Done(work.sum),
        Err(failure) => AuditLine::Problem(problem(failure.into())),
    };
    work.teller.tell(line(&last)).await;
}

struct Work {
    storages: Storages,
    /// None where another service owns it.
    inventory: Option<Arc<dyn Inventory>>,
    cancel: Cancel,
    teller: Teller,
    sum: Audited,
}

impl Work {
    async fn named(&mut self, arks: &[String]) -> Result<(), Failure> {
        for ark in arks {
            let mut found = false;
            for (name, storage) in self.storages.clone() {
                match storage.manifest(ark, None).await {
                    Ok(None) => {}
                    // It is there, and its manifest cannot be read: the audit says why.
                    Ok(Some(_)) | Err(Failure::Fail(_) | Failure::Hopeless(_)) => {
                        found = true;
                        self.one(&name, &storage, ark).await?;
                    }
                    Err(failure) => return Err(failure),
                }
            }
            if !found {
                self.tell(ark, "", Audit { problems: vec!["no storage has it".into()], ..Audit::default() })
                    .await;
            }
        }
        Ok(())
    }

    async fn all(&mut self) -> Result<(), Failure> {
        for (name, storage) in self.storages.clone() {
            let mut objects = storage.objects();
            while let Some(object) = objects.next().await {
                match object {
                    Ok(ark) => self.one(&name, &storage, &ark).await?,
                    Err(Failure::Fail(why) | Failure::Hopeless(why)) => {
                        self.tell("", &name, Audit { problems: vec![why], ..Audit::default() }).await;
                    }
                    Err(failure) => return Err(failure),
                }
            }
        }
        match self.inventory.clone() {
            Some(inventory) => self.recorded(&*inventory).await,
            None => Ok(()),
        }
    }

    /// Tells of what is recorded and not stored. What is there was read already.
    async fn recorded(&mut self, inventory: &dyn Inventory) -> Result<(), Failure> {
        let mut after = None;
        loop {
            let page = inventory.objects(after.as_ref()).await?;
            let Some((last, _)) = page.last() else { return Ok(()) };
            after = Some(last.clone());
            for (ark, head) in page {
                let ark = ark.to_string();
                let why = match self.newest(&ark).await? {
                    None => "it is recorded, and no storage has it".to_owned(),
                    Some(newest) if newest < head => {
                        // It was counted when it was read.
                        self.sum.objects = self.sum.objects.saturating_sub(1);
                        format!("version {head} is recorded, and the newest that is stored is {newest}")
                    }
                    Some(_) => continue,
                };
                self.tell(&ark, "", Audit { problems: vec![why], ..Audit::default() }).await;
            }
        }
    }

    /// The newest version that any storage has. What cannot be read was told of already.
    async fn newest(&self, ark: &str) -> Result<Option<u32>, Failure> {
        let mut newest = None;
        for storage in self.storages.values() {
            let head = match storage.manifest(ark, None).await {
                Ok(manifest) => manifest.map(|manifest| manifest.head),
                Err(Failure::Fail(_) | Failure::Hopeless(_)) => Some(u32::MAX),
                Err(failure) => return Err(failure),
            };
            newest = newest.max(head);
        }
        Ok(newest)
    }

    async fn one(&mut self, name: &str, storage: &Arc<dyn Storage>, ark: &str) -> Result<(), Failure> {
        let progress = Progress::default();
        let cancel = self.cancel.clone();
        let audit = storage.audit(ark, &progress, &cancel);
        tokio::pin!(audit);
        let audited = loop {
            tokio::select! {
                audited = &mut audit => break audited,
                () = tokio::time::sleep(LOOK) => self.progress(ark, &progress),
            }
        };
        let audited = match audited {
            Err(Failure::Fail(why) | Failure::Hopeless(why)) => {
                Audit { problems: vec![why], ..Audit::default() }
            }
            other => other?,
        };
        self.tell(ark, name, audited).await;
        self.progress(ark, &Progress::default());
        Ok(())
    }

    fn progress(&mut self, ark: &str, progress: &Progress) {
        let (files, bytes) = progress.done();
        let sum = &self.sum;
        let (objects, files, bytes) = (sum.objects, sum.files + files, sum.bytes + bytes);
        let now = AuditProgress { ark: ark.to_owned(), objects, files, bytes };
        self.teller.progress(|| line(&AuditLine::Progress(now)));
    }

    async fn tell(&mut self, ark: &str, storage: &str, audit: Audit) {
        let Audit { versions, files, bytes, problems } = audit;
        self.sum.objects += 1;
        self.sum.damaged += usize::from(!problems.is_empty());
        self.sum.files += files;
        self.sum.bytes += bytes;
        let object = AuditedObject {
            ark: ark.to_owned(),
            storage: storage.to_owned(),
            versions,
            files,
            bytes,
            problems,
        };
        self.teller.tell(line(&AuditLine::Object(object))).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_choice_of_objects_is_made() {
        let arks = "ark=ark:/99999/fk4abc&ark=ark%3A%2F99999%2Ffk4abd";
        let expected = ["ark:/99999/fk4abc", "ark:/99999/fk4abd"].map(str::to_owned).to_vec();
        assert_eq!(wanted(arks).unwrap(), Wanted::Arks(expected));
        assert_eq!(wanted("all=true").unwrap(), Wanted::All);
        assert_eq!(wanted("batch=x").unwrap(), Wanted::Batch("x".to_owned()));
        for wrong in ["", "all=false", "all=yes", "ark=nonsense", "all=true&batch=x", "arc=1"] {
            assert!(wanted(wrong).is_err(), "{wrong}");
        }
        let several = wanted("ark=nonsense&arc=1").unwrap_err();
        assert_eq!(several.problems.len(), 2, "{several:?}");
    }
}
