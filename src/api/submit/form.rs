//! Forms: the fields of a submission, and the file that may come with them.

use axum::extract::multipart::Field;
use axum::extract::{FromRequest as _, Multipart, Request};
use axum::http::header;
use serde_json::{Map, Value};

use super::judge::File;
use super::known::first;
use super::room::Room;
use super::upload::Writing;
use super::{Brought, Given, judged, place};
use crate::api::app::App;
use crate::api::caller::Caller;
use crate::api::problem::{Answer, Kind, Refusal};
use crate::api::read::{self, too_large, too_slow};
use crate::api::wire::{FieldProblem, PayloadState};

/// Fields of one form, and bytes of one.
const MOST_FIELDS: usize = 200;
const LONGEST: usize = 1 << 20;
/// What is read of a file that is refused, so that whoever sends it comes to read the answer.
const LINGERS: u64 = 16 << 20;

pub(super) async fn urlencoded(app: &App, request: Request) -> Answer<Given> {
    fields_of(&read::whole(app, request).await?)
}

/// The fields of a form that is one text.
pub(super) fn fields_of(bytes: &[u8]) -> Answer<Given> {
    let mut given = Given::default();
    for (name, value) in url::form_urlencoded::parse(bytes) {
        put(&mut given.fields, &mut given.problems, &name, &value);
        if given.fields.len() > MOST_FIELDS {
            return Err(Refusal::field("", format!("a form has at most {MOST_FIELDS} fields")));
        }
    }
    Ok(given)
}

/// Reads a form with a file. What comes before the file is judged before a byte of it is stored.
pub(super) async fn multipart(app: &App, caller: &Caller, request: Request) -> Answer<Given> {
    let length = request.headers().get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    // The other fields are small, and the file is smaller than all of it.
    let announced = length.and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut parts =
        Multipart::from_request(request, app).await.map_err(|error| Refusal::field("", error.body_text()))?;
    let mut given = Given::default();
    let mut seen = 0;
    loop {
        let next = tokio::time::timeout(app.settings.stall, parts.next_field()).await;
        let Some(mut field) = next.map_err(|_| too_slow())?.map_err(|error| broken(&error))? else {
            return Ok(given);
        };
        seen += 1;
        if seen > MOST_FIELDS {
            return Err(Refusal::field("", format!("a form has at most {MOST_FIELDS} fields")));
        }
        let name = field.name().unwrap_or_default().to_owned();
        if name == "file" {
            if !matches!(given.file, Brought::Nothing) {
                return Err(Refusal::field("file", "there is one already"));
            }
            let judged = before_file(app, caller, &given).await;
            if let Some(file_name) = field.file_name().filter(|name| !name.is_empty()) {
                // The field's own `filename` counts more.
                let file_name = file_name.rsplit(['/', '\\']).next().unwrap_or_default().to_owned();
                given.fields.entry("filename").or_insert(Value::String(file_name));
            }
            let stored = match judged {
                Ok(true) => store(app, &mut field, announced).await,
                Ok(false) => skip(app, &mut field, app.settings.max_upload).await.map(|()| Brought::Known),
                Err(refusal) => Err(refusal),
            };
            match stored {
                Ok(stored) => given.file = stored,
                Err(refusal) => {
                    let _ = skip(app, &mut field, LINGERS).await;
                    return Err(refusal);
                }
            }
            continue;
        }
        let text = text(app, &mut field, &name).await?;
        if name == "filename" {
            given.fields.remove("filename");
        }
        put(&mut given.fields, &mut given.problems, &name, &text);
    }
}

/// Judges what has come before a file. Whether the file is to be stored: not if the batch of its uuid has a payload.
async fn before_file(app: &App, caller: &Caller, given: &Given) -> Answer<bool> {
    let life = app.life().await?;
    let services = life.services();
    let (fields, problems) = (given.fields.clone(), given.problems.clone());
    let judged = judged(app, &services, caller, fields, problems, File::Coming);
    let uuid = judged.uuid.clone();
    let problems = judged.certain();
    if !problems.is_empty() {
        return Err(Refusal::of_fields(Kind::INVALID, problems));
    }
    let Some(uuid) = uuid else { return Ok(true) };
    let Some(bid) = life.queue.find_batch(&uuid).await? else { return Ok(true) };
    let first = first(&life.queue, caller, bid).await?;
    Ok(place(app, &services).payload(&first).await == Some(PayloadState::Missing))
}

/// A field that comes twice is a problem, and so is one without a name.
fn put(fields: &mut Map<String, Value>, problems: &mut Vec<FieldProblem>, name: &str, value: &str) {
    if value.is_empty() {
        return;
    }
    if name.is_empty() || name.len() > 100 {
        problems.push(FieldProblem { field: String::new(), message: "a field without a name".into() });
    } else if fields.insert(name.to_owned(), Value::String(value.to_owned())).is_some() {
        problems.push(FieldProblem { field: name.to_owned(), message: "it is there twice".into() });
    }
}

async fn text(app: &App, field: &mut Field<'_>, name: &str) -> Answer<String> {
    let mut all = Vec::new();
    while let Some(piece) = piece(app, field).await? {
        if all.len() + piece.len() > LONGEST {
            return Err(too_large(LONGEST as u64));
        }
        all.extend_from_slice(&piece);
    }
    String::from_utf8(all).map_err(|_| Refusal::field(name, "it is not UTF-8"))
}

async fn store(app: &App, field: &mut Field<'_>, announced: u64) -> Answer<Brought> {
    let most = app.settings.max_upload;
    if announced > most.saturating_add(LONGEST as u64 * MOST_FIELDS as u64) {
        return Err(too_large(most));
    }
    let uploads = &app.settings.uploads;
    let room = Room::promise(uploads, app.settings.upload_reserve, &app.promised, announced).await?;
    let mut writing = Writing::begin(uploads, room).await?;
    while let Some(piece) = piece(app, field).await? {
        if writing.size() + piece.len() as u64 > most {
            return Err(too_large(most));
        }
        writing.add(piece).await?;
    }
    Ok(Brought::File(Box::new(writing)))
}

/// Reads at most so many bytes, and stores none.
async fn skip(app: &App, field: &mut Field<'_>, most: u64) -> Answer<()> {
    let mut size = 0;
    while let Some(piece) = piece(app, field).await? {
        size += piece.len() as u64;
        if size > most {
            return Err(too_large(most));
        }
    }
    Ok(())
}

async fn piece(app: &App, field: &mut Field<'_>) -> Answer<Option<bytes::Bytes>> {
    let chunk = tokio::time::timeout(app.settings.stall, field.chunk()).await;
    chunk.map_err(|_| too_slow())?.map_err(|error| broken(&error))
}

fn broken(error: &axum::extract::multipart::MultipartError) -> Refusal {
    match error.status().as_u16() {
        413 => Refusal::new(Kind::TOO_LARGE, error.body_text()),
        _ => Refusal::field("", error.body_text()),
    }
}
