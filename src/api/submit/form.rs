//! Forms: the fields of a submission, and the file that may come with them.

use axum::extract::multipart::Field;
use axum::extract::{FromRequest as _, Multipart, Request};
use serde_json::{Map, Value};

use super::Given;
use super::upload::{Upload, Writing};
use crate::api::app::App;
use crate::api::problem::{Answer, Kind, Refusal};
use crate::api::read::{self, too_large, too_slow};
use crate::api::wire::FieldProblem;

/// Fields of one form, and bytes of one.
const MOST_FIELDS: usize = 200;
const LONGEST: usize = 1 << 20;

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

pub(super) async fn multipart(app: &App, request: Request) -> Answer<Given> {
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
            if given.upload.is_some() {
                return Err(Refusal::field("file", "there is one already"));
            }
            if let Some(file_name) = field.file_name().filter(|name| !name.is_empty()) {
                // The field's own `filename` counts more.
                let file_name = file_name.rsplit(['/', '\\']).next().unwrap_or_default().to_owned();
                given.fields.entry("filename").or_insert(Value::String(file_name));
            }
            given.upload = Some(upload(app, &mut field).await?);
            continue;
        }
        let text = text(app, &mut field, &name).await?;
        if name == "filename" {
            given.fields.remove("filename");
        }
        put(&mut given.fields, &mut given.problems, &name, &text);
    }
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

async fn upload(app: &App, field: &mut Field<'_>) -> Answer<Upload> {
    let mut writing = Writing::begin(&app.settings.uploads).await?;
    while let Some(piece) = piece(app, field).await? {
        if writing.size() + piece.len() as u64 > app.settings.max_upload {
            return Err(too_large(app.settings.max_upload));
        }
        writing.add(piece).await?;
    }
    writing.finish().await
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
