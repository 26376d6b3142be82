//! Submission: what a depositor hands over becomes a batch, or every reason why it does not.
//!
//! It comes as JSON, or as a form in the field's own convention ([`form`]). All of it is judged ([`judge`]) before anything is made in the
//! tree, and what comes before a file before that is stored. An upload ([`upload`]) is streamed to the disk of this node, if there is
//! room ([`room`]), and is a payload URL of this node from then on.
//!
//! Once it was received whole, it is submitted to its end, whoever has left meanwhile: the payload is on the disk, then the batch is
//! committed, then it is acknowledged.
//!
//! **When things break.** A submission whose answer was lost is sent again with its uuid, and answered with the batch that
//! it has become; a payload that is missing is taken from the retry ([`known`]). If the session ends during the commit, the next one
//! tells whether the batch was made. An upload is removed at once if it is certain that no batch names it, else when the tree
//! says so ([`orphans`]).

mod form;
mod judge;
mod known;
mod orphans;
mod room;
#[cfg(test)]
mod tests;
mod upload;

use std::path::Path;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use ingest_queue::batches::Created;
use ingest_queue::error::Error;
use ingest_queue::nodes;
use ingest_queue::queue::Queue;
use ingest_steps::ark::Ark;
use ingest_steps::outcome::Failure;
use ingest_steps::rights;
use ingest_steps::services::Services;
use ingest_steps::step::object::{self, Writer};
use ingest_steps::upload_nodes::UPLOAD_NODE;
use serde_json::{Map, Value};

use super::app::App;
use super::caller::{Caller, Depositor};
use super::guard::is_json;
use super::problem::{Answer, Kind, Refusal};
use super::read;
use super::wire::{
    FieldProblem, PayloadState, Problem, ProfileLine, ProfileList, Submission, SubmissionForm, Submitted,
};
use judge::{File, Judged, Rules};
use known::Place;
use upload::{Upload, Writing};

pub(crate) use orphans::look_through;
pub(crate) use room::Promised;
pub(crate) use upload::payload_of;

/// How many sessions of the tree are asked for one batch, if each ends before it has answered.
const SESSIONS: usize = 3;

/// What was handed over, before anybody has looked at it.
#[derive(Debug, Default)]
struct Given {
    fields: Map<String, Value>,
    file: Brought,
    /// What was wrong with the form itself.
    problems: Vec<FieldProblem>,
}

/// The file of a form.
#[derive(Debug, Default)]
enum Brought {
    #[default]
    Nothing,
    File(Box<Writing>),
    /// The batch of its uuid has it already: it was read, and not stored.
    Known,
}

impl Brought {
    fn described(&self) -> File {
        match self {
            Brought::Nothing => File::None,
            Brought::File(writing) => File::OfSize(writing.size()),
            Brought::Known => File::Coming,
        }
    }
}

#[utoipa::path(post, path = "/api/v1/batches", tag = "batches", security(("token" = ["depositor"])),
    request_body(content((Submission = "application/json"), (SubmissionForm = "application/x-www-form-urlencoded"), (SubmissionForm = "multipart/form-data"))),
    responses(
        (status = 200, description = "the uuid was known, or another waits under the same key", content((Submitted = "application/json"), (String = "application/xml"))),
        (status = 201, content((Submitted = "application/json"), (String = "application/xml"))),
        (status = "default", body = Problem, content_type = "application/problem+json"),
))]
/// Submits a payload
pub(crate) async fn submit(
    State(app): State<App>,
    Depositor(caller): Depositor,
    request: Request,
) -> Answer<Response> {
    // Whoever cannot be served is told before the upload.
    app.life().await?;
    fits(&app)?;
    let given = read_it(&app, &caller, request).await?;
    // From here on nobody who leaves takes it along.
    let task = tokio::spawn(async move {
        let changing = app.changing.clone().read_owned().await;
        let answer = received(&app, &caller, given).await;
        drop(changing);
        answer
    });
    task.await.unwrap_or_else(|lost| Err(Refusal::defect(lost)))
}

/// Submits what was received whole.
async fn received(app: &App, caller: &Caller, given: Given) -> Answer<Response> {
    // It may have taken hours: the session may be another one.
    let life = app.life().await?;
    fits(app)?;
    let services = life.services();
    let Given { fields, file, problems } = given;
    let mut judged = judged(app, &services, caller, fields, problems, file.described());
    let hosts = std::mem::take(&mut judged.hosts);
    judged.problems.extend(judge::names(hosts, &services.fetcher).await);
    if judged.problems.is_empty() {
        judged.problems.extend(no_right(&life.queue, &services, &judged).await?);
    }
    if !judged.problems.is_empty() {
        // The upload goes with what was given.
        return Err(Refusal::of_fields(Kind::INVALID, judged.problems));
    }
    let is_known = matches!(file, Brought::Known);
    let upload = match file {
        Brought::File(writing) => Some(writing.finish().await?),
        Brought::Nothing | Brought::Known => None,
    };
    if let Some(upload) = &upload {
        let mut problem = upload.misfit(&judged.submission).await?;
        if problem.is_none() {
            problem = upload.compare(judged.size, judged.digest.as_ref()).await?;
        }
        if let Some(problem) = problem {
            return Err(Refusal::of_fields(Kind::INVALID, vec![problem]));
        }
    }
    let place = place(app, &services);
    let mut submitting = Submitting::new(&place, caller, judged, upload, is_known)?;
    submitting.finish(|| app.queue()).await
}

/// Why this may not be added to the object whose identifier was given. It is asked again for each job, before anything is
/// fetched and before anything is stored: if it cannot be known now, that decides.
async fn no_right(queue: &Queue, services: &Services, judged: &Judged) -> Answer<Option<FieldProblem>> {
    let submission = &judged.submission;
    let given = submission.other.get("primary_id").and_then(Value::as_str);
    let Some(ark) = given.and_then(|text| text.parse::<Ark>().ok()) else { return Ok(None) };
    let Ok(profile) = services.profile(&submission.profile_name) else { return Ok(None) };
    let writer = Writer { profile: &profile, submitter: &submission.submitter, jid: None };
    match object::may_write(queue, services, &writer, &ark, rights::given(&ark, &profile)).await {
        Err(Failure::Hopeless(message)) => Ok(Some(FieldProblem { field: "primary_id".to_owned(), message })),
        Ok(_) => Ok(None),
        Err(failure) => {
            tracing::info!(%ark, %failure, "whether it may be written to is decided later");
            Ok(None)
        }
    }
}

/// A tree that is older than what is beside it would give the batch a number that was used.
fn fits(app: &App) -> Answer<()> {
    match app.node.house().barred() {
        None => Ok(()),
        Some(why) => Err(Refusal::new(Kind::WRONG_TREE, why.as_ref()).later(60)),
    }
}

fn place<'a>(app: &'a App, services: &'a Services) -> Place<'a> {
    let uploads: &Path = &app.settings.uploads;
    Place { uploads, urls: &app.urls, node: services.work.node(), fetcher: &services.fetcher }
}

/// Judges what is there of a submission.
fn judged(
    app: &App,
    services: &Services,
    caller: &Caller,
    fields: Map<String, Value>,
    problems: Vec<FieldProblem>,
    file: File,
) -> Judged {
    let profiles = services.profiles.read().clone();
    let files = !services.settings.fetch.file_roots.is_empty();
    let rules = Rules { profiles: &profiles, fetcher: &services.fetcher, files, public: app.urls.public() };
    judge::all(fields, problems, file, caller, &rules)
}

async fn read_it(app: &App, caller: &Caller, request: Request) -> Answer<Given> {
    if is_json(request.headers()) {
        return from_json(&read::whole(app, request).await?);
    }
    let kind = request.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.unwrap_or_default().split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match kind.as_str() {
        "multipart/form-data" => form::multipart(app, caller, request).await,
        "application/x-www-form-urlencoded" => form::urlencoded(app, request).await,
        _ => Err(Refusal::new(
            Kind::UNSUPPORTED,
            "a submission is application/json, multipart/form-data or application/x-www-form-urlencoded",
        )),
    }
}

fn from_json(bytes: &[u8]) -> Answer<Given> {
    match read::parse::<Value>(bytes)? {
        Value::Object(fields) => Ok(Given { fields, ..Given::default() }),
        _ => Err(Refusal::field("", "a submission is a JSON object")),
    }
}

/// What is found of a body, a form or JSON, and what is wrong with it; `None` if it is neither. For the fuzzer.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn judge_body(
    body: &[u8],
    form: bool,
) -> Option<(ingest_queue::nodes::Submission, Vec<FieldProblem>)> {
    use std::sync::OnceLock;

    use ingest_steps::fetch::Fetcher;
    use ingest_steps::profile::Profiles;
    use url::Url;

    const PROFILE: &str =
        "name = 'fuzzed_content'\ncollection = 'fuzzed'\ntitle = 'Anything'\nowner = 'ark:/99999/fk4fuzz'\n";
    static BY: OnceLock<Option<(Profiles, Fetcher, Url)>> = OnceLock::new();
    let by = BY.get_or_init(|| {
        let profiles = Profiles::of_texts([("fuzzed_content", 1, PROFILE)]);
        let fetcher = Fetcher::new(ingest_steps::fetch::Rules::default()).ok()?;
        Some((profiles, fetcher, Url::parse("http://127.0.0.1:8086").ok()?))
    });
    let (profiles, fetcher, public) = by.as_ref()?;
    let rules = Rules { profiles, fetcher, files: false, public };
    let given = if form { form::fields_of(body) } else { from_json(body) };
    let caller = Caller {
        name: "anybody".into(),
        role: super::wire::Role::Admin,
        has_token: false,
        from: std::net::Ipv4Addr::LOCALHOST.into(),
        ordered: super::caller::Ordered::default(),
    };
    let Given { fields, problems, file } = given.ok()?;
    let judged = judge::all(fields, problems, file.described(), &caller, &rules);
    Some((judged.submission, judged.problems))
}

/// A submission that is right, on its way into the tree.
struct Submitting<'a> {
    place: &'a Place<'a>,
    caller: &'a Caller,
    submission: nodes::Submission,
    uuid: String,
    xml: bool,
    upload: Option<Upload>,
    /// Its file was not stored, because the batch of its uuid had one.
    is_known: bool,
    /// How often its batch was asked for.
    tries: usize,
}

/// Why there is no batch.
#[derive(Debug)]
enum Undone {
    /// It was not made.
    Refused(Refusal),
    /// Nobody knows whether it was made.
    Doubt(Refusal),
}

impl From<Refusal> for Undone {
    fn from(refusal: Refusal) -> Self {
        Undone::Refused(refusal)
    }
}

/// Whether it is certain that nothing was committed: the queue has refused, or the store has named the operation that it refuses.
/// Other errors of the store tell of the last try only.
fn is_definite(error: &Error) -> bool {
    match error {
        Error::Store(error) => error.failed_op().is_some(),
        _ => true,
    }
}

impl<'a> Submitting<'a> {
    fn new(
        place: &'a Place<'a>,
        caller: &'a Caller,
        judged: Judged,
        upload: Option<Upload>,
        is_known: bool,
    ) -> Answer<Self> {
        let Judged { mut submission, uuid, xml, .. } = judged;
        let uuid = uuid.unwrap_or_else(|| uuid::Uuid::new_v4().to_string());
        if let Some(upload) = &upload {
            let name = submission.payload_filename.get_or_insert_with(|| "payload".to_owned());
            let url = place.urls.sign(&upload.path(name)).map_err(Refusal::defect)?;
            submission.payload_url = Some(url.to_string());
            submission.other.insert(UPLOAD_NODE.into(), place.node.into());
            let size = submission.other.entry("size").or_insert(Value::Null);
            *size = upload.size.into();
            if !submission.other.contains_key("digest_value") {
                submission.other.insert("digest_type".into(), upload.sha256.algorithm().name().into());
                submission.other.insert("digest_value".into(), upload.sha256.hex().into());
            }
        }
        Ok(Self { place, caller, submission, uuid, xml, upload, is_known, tries: 0 })
    }

    /// Asks for the batch, and again on the next session if that leaves a doubt.
    async fn finish<F: Future<Output = Answer<Queue>>>(&mut self, queue: impl Fn() -> F) -> Answer<Response> {
        loop {
            match self.create(&queue().await?).await {
                Err(Undone::Doubt(_)) if self.tries < SESSIONS => {}
                Err(Undone::Doubt(refusal) | Undone::Refused(refusal)) => return Err(refusal),
                Ok(response) => return Ok(response),
            }
        }
    }

    /// Makes the batch, or finds the one of its uuid. After a doubt it is called again, with another session.
    async fn create(&mut self, queue: &Queue) -> Result<Response, Undone> {
        let was_in_doubt = self.tries > 0;
        self.tries += 1;
        let doubt = |error: Error| Undone::Doubt(error.into());
        let undone = |error: Error| {
            if is_definite(&error) && !was_in_doubt { Undone::Refused(error.into()) } else { doubt(error) }
        };
        if was_in_doubt {
            // Another server may not have what the last session has committed.
            queue.sync().await.map_err(doubt)?;
        }
        if let Some(bid) = queue.find_batch(&self.uuid).await.map_err(undone)? {
            return self.known(queue, bid).await;
        }
        if self.is_known {
            let why = "the batch of this uuid was deleted meanwhile: send it again";
            return Err(Refusal::new(Kind::CHANGED, why).into());
        }
        if let Some(upload) = &mut self.upload {
            upload.leave_to_tree(&self.uuid).await?;
        }
        let created = match queue.create_batch(&self.uuid, &self.submission).await {
            Ok(created) => created,
            Err(error) => {
                if is_definite(&error)
                    && !was_in_doubt
                    && let Some(upload) = self.upload.take()
                {
                    upload.remove();
                }
                return Err(undone(error));
            }
        };
        if created.known {
            return self.known(queue, created.bid).await;
        }
        if created.stale {
            if let Some(upload) = self.upload.take().filter(|_| !was_in_doubt) {
                upload.remove();
            }
            return Ok(self.answer(StatusCode::OK, created, None));
        }
        Ok(self.made(created).await)
    }

    async fn made(&mut self, created: Created) -> Response {
        let payload = self.upload.as_ref().map(|_| PayloadState::Present);
        if let Some(upload) = self.upload.take() {
            upload.belongs_to(created.bid).await;
        }
        let (batch, merged) = (created.bid, created.merged);
        let (who, profile) = (&self.caller.name, &self.submission.profile_name);
        tracing::info!(%batch, who, profile, merged, "submitted");
        let status = if merged { StatusCode::OK } else { StatusCode::CREATED };
        self.answer(status, created, payload)
    }

    /// The batch of a uuid that was seen before, for whoever it belongs to.
    async fn known(&mut self, queue: &Queue, bid: ingest_queue::ids::Bid) -> Result<Response, Undone> {
        let first = known::first(queue, self.caller, bid).await?;
        let named = first.payload_url.as_deref().and_then(upload::id_in);
        let is_ours = self.upload.as_ref().is_some_and(|upload| named.as_deref() == Some(upload.id()));
        let known = Created { bid, known: true, merged: false, stale: false };
        if is_ours {
            // A commit whose answer was lost.
            return Ok(self.made(Created { known: false, ..known }).await);
        }
        let upload = self.upload.take();
        let payload = self.place.supplied(&first, (bid, &self.uuid), &self.submission, upload).await?;
        Ok(self.answer(StatusCode::OK, known, payload))
    }

    fn answer(&self, status: StatusCode, created: Created, payload: Option<PayloadState>) -> Response {
        let Created { bid, known, merged, stale } = created;
        let (uuid, url) = (&self.uuid, format!("/api/v1/batches/{bid}"));
        let mut response = if self.xml {
            // Ids and uuids have no letters that mean something in XML.
            let payload =
                payload.map_or_else(String::new, |state| format!("<payload>{}</payload>", state.name()));
            let text = format!(
                "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<submission><bid>{bid}</bid><uuid>{uuid}</uuid>\
                 <known>{known}</known><merged>{merged}</merged><stale>{stale}</stale>{payload}<url>{url}</url></submission>\n"
            );
            ([(header::CONTENT_TYPE, "application/xml")], text).into_response()
        } else {
            let uuid = uuid.clone();
            Json(Submitted { bid, uuid, known, merged, stale, payload, url: url.clone() }).into_response()
        };
        *response.status_mut() = status;
        if let Ok(url) = HeaderValue::from_str(&url) {
            response.headers_mut().insert(header::LOCATION, url);
        }
        response
    }
}

#[utoipa::path(get, path = "/api/v1/profiles", tag = "batches", security(("token" = ["depositor"])), responses(
    (status = 200, body = ProfileList),
    (status = "default", body = Problem, content_type = "application/problem+json"),
))]
/// Lists what the caller's deposits can be for
pub(crate) async fn profiles(
    State(app): State<App>,
    Depositor(caller): Depositor,
) -> Answer<Json<ProfileList>> {
    let services = app.life().await?.services();
    let all = services.profiles.read().clone();
    let profiles = match caller.only() {
        Some(own) => std::sync::Arc::new(all.visible_to(own)),
        None => all,
    };
    let line = |profile: &ingest_steps::profile::Profile| ProfileLine {
        name: profile.name.clone(),
        collection: profile.collection.clone(),
        title: profile.title.clone(),
        hold: profile.hold,
        priority: profile.priority.number(),
        version: profiles.version(&profile.name),
    };
    Ok(Json(ProfileList { profiles: profiles.iter().map(line).collect() }))
}
