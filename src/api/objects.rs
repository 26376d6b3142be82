//! Stored objects: whether their content is still what was stored and recorded.
//!
//! However objects are chosen, [`Auditor`] audits each of them in the same way.
//!
//! **When things break.** Everything that is wrong with an object is told with it, and the audit goes on with the
//! next. A storage or an inventory that is away ends it, with a problem as the last line.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{RawQuery, State};
use axum::response::Response;
use ingest_actors::house::Life;
use ingest_queue::list::{self, Filter, PageRequest};
use ingest_steps::ark::Ark;
use ingest_steps::audit::{self, Auditor, Scope, Watch};
use ingest_steps::outcome::Cancel;
use tokio::sync::mpsc;

use super::app::App;
use super::caller::Operator;
use super::lines::{self, Teller, line, problem};
use super::problem::{Answer, Refusal};
use super::wire::{
    ArkWord, AuditLine, AuditProgress, AuditVerdict, Audited, AuditedObject, FieldProblem, Problem,
};

/// How often it is looked how far it is.
const LOOK: Duration = Duration::from_millis(500);
/// The most objects that one request may name.
const MOST: usize = 1000;
/// Objects that may wait to be told of.
const FOUND: usize = 16;

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
    ("all" = Option<bool>, Query, description = "all that are recorded or stored, and whatever else lies in the storages"),
), responses(
    (status = 200, description = "lines; the last is `done` or `problem`", body = AuditLine, content_type = "application/x-ndjson"),
    (status = "default", body = Problem, content_type = "application/problem+json"),
))]
/// Reads stored objects, and compares their content with their digests and with the inventory
pub(crate) async fn audit(
    State(app): State<App>,
    _: Operator,
    RawQuery(query): RawQuery,
) -> Answer<Response> {
    let wanted = wanted(query.as_deref().unwrap_or_default())?;
    let life = app.life().await?;
    let scope = match wanted {
        Wanted::Arks(arks) => Scope::Objects(arks),
        Wanted::Batch(name) => Scope::Objects(of_batch(&life, &name).await?),
        Wanted::All => Scope::All,
    };
    lines::answer(&app, false, |teller| run(life, scope, teller))
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

async fn run(life: Arc<Life>, scope: Scope, teller: Teller) {
    let cancel = Cancel::new();
    // Whoever leaves drops this, and what reads on threads of its own is told to stop.
    let _stops = cancel.clone().drop_guard();
    let services = life.services();
    let auditor = Auditor { storages: services.storages.clone(), inventory: services.inventory.clone() };
    let watch = Watch::default();
    let (sink, mut found) = mpsc::channel(FOUND);
    let mut told = Told { watch: &watch, teller, sum: Audited::default() };
    let work = auditor.run(scope, &watch, &cancel, sink);
    tokio::pin!(work);
    let mut ended = None;
    loop {
        tokio::select! {
            next = found.recv() => match next {
                Some(object) => told.object(object).await,
                None => break,
            },
            end = &mut work, if ended.is_none() => ended = Some(end),
            () = tokio::time::sleep(LOOK) => told.progress(),
        }
    }
    // Its sink is gone, so it has ended, or does so now.
    let ended = match ended {
        Some(ended) => ended,
        None => work.await,
    };
    let last = match ended {
        Ok(()) => AuditLine::Done(told.sum),
        Err(failure) => AuditLine::Problem(problem(failure.into())),
    };
    told.teller.tell(line(&last)).await;
}

/// What whoever asked is told.
struct Told<'a> {
    watch: &'a Watch,
    teller: Teller,
    sum: Audited,
}

impl Told<'_> {
    async fn object(&mut self, object: audit::Audited) {
        let object = AuditedObject::from(object);
        self.sum.objects += 1;
        self.sum.damaged += usize::from(object.verdict != AuditVerdict::Sound);
        self.sum.files += object.files;
        self.sum.bytes += object.bytes;
        *self.sum.verdicts.entry(object.verdict).or_default() += 1;
        self.teller.tell(line(&AuditLine::Object(object))).await;
        self.progress();
    }

    fn progress(&mut self) {
        let (files, bytes) = self.watch.progress.done();
        let now = AuditProgress { ark: self.watch.object(), objects: self.sum.objects, files, bytes };
        self.teller.progress(|| line(&AuditLine::Progress(now)));
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
