//! Submission: what a depositor hands over becomes a batch, or every reason why it does not.
//!
//! It comes as JSON, or as a form in the field's own convention ([`form`]). All of it is judged ([`judge`]) before anything is made in the
//! tree. An upload ([`upload`]) is streamed to the disk of this node, and is a payload URL of this node from then on.
//!
//! **When things break.** A submission whose answer was lost is sent again with its uuid, and answered with the batch that
//! it has become. An upload without a batch is removed: at once if that is known, else when uploads are looked through.

mod form;
mod judge;
mod upload;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use ingest_queue::batches::Created;
use ingest_queue::ids::Bid;
use ingest_queue::queue::Queue;
use ingest_steps::ark::Ark;
use ingest_steps::outcome::Failure;
use ingest_steps::rights;
use ingest_steps::services::Services;
use ingest_steps::step::object::{self, Writer};
use serde_json::{Map, Value};

use super::app::App;
use super::caller::{Caller, Depositor};
use super::guard::is_json;
use super::problem::{Answer, Kind, Refusal};
use super::read;
use super::wire::{FieldProblem, Problem, ProfileLine, ProfileList, Submission, SubmissionForm, Submitted};
use judge::{Judged, Rules};
use upload::Upload;

pub(crate) use upload::{look_through, payload_of};

/// What was handed over, before anybody has looked at it.
#[derive(Debug, Default)]
struct Given {
    fields: Map<String, Value>,
    upload: Option<Upload>,
    /// What was wrong with the form itself.
    problems: Vec<FieldProblem>,
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
    let mut given = read_it(&app, request).await?;
    // It may have taken hours: the session may be another one.
    let life = app.life().await?;
    fits(&app)?;
    let services = life.services();
    let mut judged = {
        let profiles = services.profiles.read().clone();
        let files = !services.settings.fetch.file_roots.is_empty();
        let rules =
            Rules { profiles: &profiles, fetcher: &services.fetcher, files, public: app.urls.public() };
        judge::all(&mut given, &caller, &rules)
    };
    let hosts = std::mem::take(&mut judged.hosts);
    judged.problems.extend(judge::names(hosts, &services.fetcher).await);
    if judged.problems.is_empty() {
        judged.problems.extend(no_right(&life.queue, &services, &judged).await?);
    }
    if let Some(upload) = &given.upload
        && judged.problems.is_empty()
    {
        judged.problems.extend(upload.compare(&judged).await?);
    }
    if !judged.problems.is_empty() {
        // The upload goes with what was given.
        return Err(Refusal::of_fields(Kind::INVALID, judged.problems));
    }
    let created = create(&app, &life.queue, &caller, given, judged).await?;
    Ok(created)
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

async fn read_it(app: &App, request: Request) -> Answer<Given> {
    if is_json(request.headers()) {
        return from_json(&read::whole(app, request).await?);
    }
    let kind = request.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.unwrap_or_default().split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match kind.as_str() {
        "multipart/form-data" => form::multipart(app, request).await,
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
        from: std::net::Ipv4Addr::LOCALHOST.into(),
        ordered: super::caller::Ordered::default(),
    };
    let judged = judge::all(&mut given.ok()?, &caller, &rules);
    Some((judged.submission, judged.problems))
}

async fn create(app: &App, queue: &Queue, caller: &Caller, given: Given, judged: Judged) -> Answer<Response> {
    let Judged { mut submission, uuid, xml, .. } = judged;
    let uuid = uuid.unwrap_or_else(|| uuid::Uuid::new_v4().to_string());
    if let Some(bid) = queue.find_batch(&uuid).await? {
        return known(queue, caller, bid, uuid, xml).await;
    }
    if let Some(upload) = &given.upload {
        let name = submission.payload_filename.get_or_insert_with(|| "payload".to_owned());
        let url = app.urls.sign(&upload.path(name)).map_err(Refusal::defect)?;
        submission.payload_url = Some(url.to_string());
        upload.is_for(&uuid).await?;
        let size = submission.other.entry("size").or_insert(Value::Null);
        *size = upload.size.into();
        if !submission.other.contains_key("digest_value") {
            submission.other.insert("digest_type".into(), upload.sha256.algorithm().name().into());
            submission.other.insert("digest_value".into(), upload.sha256.hex().into());
        }
    }
    let created = queue.create_batch(&uuid, &submission).await?;
    if created.known {
        return known(queue, caller, created.bid, uuid, xml).await;
    }
    if created.stale {
        // The upload goes with what was given.
        return Ok(answer(StatusCode::OK, created, uuid, xml));
    }
    if let Some(upload) = given.upload {
        upload.belongs_to(created.bid).await;
    }
    let (batch, merged) = (created.bid, created.merged);
    tracing::info!(%batch, who = caller.name, profile = submission.profile_name, merged, "submitted");
    let status = if merged { StatusCode::OK } else { StatusCode::CREATED };
    Ok(answer(status, created, uuid, xml))
}

/// The batch of a uuid that was seen before, for whoever it belongs to.
async fn known(queue: &Queue, caller: &Caller, bid: Bid, uuid: String, xml: bool) -> Answer<Response> {
    let first = queue.submission(bid).await?;
    if caller.only().is_some_and(|own| own != first.submitter) {
        return Err(Refusal::new(Kind::REFUSED, "this uuid is somebody else's: make another"));
    }
    Ok(answer(StatusCode::OK, Created { bid, known: true, merged: false, stale: false }, uuid, xml))
}

fn answer(status: StatusCode, created: Created, uuid: String, xml: bool) -> Response {
    let Created { bid, known, merged, stale } = created;
    let url = format!("/api/v1/batches/{bid}");
    let mut response = if xml {
        // Ids and uuids have no letters that mean something in XML.
        let text = format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<submission><bid>{bid}</bid><uuid>{uuid}</uuid>\
             <known>{known}</known><merged>{merged}</merged><stale>{stale}</stale><url>{url}</url></submission>\n"
        );
        ([(header::CONTENT_TYPE, "application/xml")], text).into_response()
    } else {
        Json(Submitted { bid, uuid, known, merged, stale, url: url.clone() }).into_response()
    };
    *response.status_mut() = status;
    if let Ok(url) = HeaderValue::from_str(&url) {
        response.headers_mut().insert(header::LOCATION, url);
    }
    response
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
