//! What a request brings, read with problems that say what is wrong.

use axum::body::{Body as HttpBody, Bytes};
use axum::extract::{FromRequest, FromRequestParts, Query, Request};
use axum::http::header;
use axum::http::request::Parts;
use http_body_util::BodyExt as _;
use serde::de::DeserializeOwned;
use serde::{Deserialize as _, Deserializer};
use serde_json::Value;

use super::app::App;
use super::guard::is_json;
use super::problem::{Answer, Kind, Refusal};
use super::wire::FieldProblem;

/// A JSON body; none at all is an empty object.
#[derive(Debug)]
pub(crate) struct Body<T>(pub T);

impl<T: DeserializeOwned> FromRequest<App> for Body<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, app: &App) -> Answer<Self> {
        let json = is_json(request.headers());
        let bytes = whole(app, request).await?;
        if bytes.is_empty() {
            return parse(b"{}").map(Self);
        }
        if !json {
            return Err(Refusal::new(Kind::UNSUPPORTED, "a body here is `application/json`"));
        }
        // A list would do for a structure, field by field.
        if bytes.trim_ascii_start().first() != Some(&b'{') {
            parse::<serde::de::IgnoredAny>(&bytes)?;
            return Err(Refusal::of_fields(Kind::UNPROCESSABLE, vec![not_an_object()]));
        }
        parse(&bytes).map(Self)
    }
}

fn not_an_object() -> FieldProblem {
    FieldProblem { field: String::new(), message: "a body here is a JSON object".to_owned() }
}

/// A structure within a body: an object, and no list of its fields.
pub(crate) fn object<'de, D: Deserializer<'de>, T: DeserializeOwned>(from: D) -> Result<T, D::Error> {
    let fields = serde_json::Map::deserialize(from)?;
    T::deserialize(Value::Object(fields)).map_err(serde::de::Error::custom)
}

/// Reads JSON: what is none is `invalid`, what does not fit is `unprocessable`.
pub(crate) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Answer<T> {
    let read = serde_json::from_slice(bytes).or_else(|error| {
        let has_floats = error.to_string().contains("floating point");
        has_floats.then(|| with_whole_numbers(bytes)).flatten().ok_or(error)
    });
    read.map_err(|error| {
        // Some of what does not fit is told as if it could not be read.
        let json = error.is_data() || serde_json::from_slice::<serde::de::IgnoredAny>(bytes).is_ok();
        let kind = if json { Kind::UNPROCESSABLE } else { Kind::INVALID };
        let message = error.to_string();
        // The field stands in the message of whoever misses it, or does not know it.
        let field = message.split('`').nth(1).filter(|_| message.contains(" field `")).unwrap_or_default();
        Refusal::of_fields(kind, vec![FieldProblem { field: field.to_owned(), message: message.clone() }])
    })
}

/// The same where `3.0` stands for `3`: that is the same number in JSON, and some clients write all of them so.
fn with_whole_numbers<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    fn whole(value: &mut Value) {
        match value {
            Value::Number(number) => {
                let float = number.as_f64().filter(|float| number.is_f64() && float.fract() == 0.0);
                // All whole numbers up to here are exact.
                if let Some(float) = float.filter(|float| float.abs() < 9_007_199_254_740_992.0) {
                    #[allow(clippy::cast_possible_truncation, reason = "it is whole, and in the range")]
                    let whole = float as i64;
                    *number = whole.into();
                }
            }
            Value::Array(values) => values.iter_mut().for_each(whole),
            Value::Object(fields) => fields.values_mut().for_each(whole),
            _ => {}
        }
    }
    let mut value = serde_json::from_slice(bytes).ok()?;
    whole(&mut value);
    serde_json::from_value(value).ok()
}

/// A whole body, within `api.max_body` and `api.timeout`.
pub(crate) async fn whole(app: &App, request: Request) -> Answer<Bytes> {
    let most = app.settings.max_body;
    let announced = request.headers().get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    let announced = announced.and_then(|length| length.parse::<u64>().ok());
    if announced.is_some_and(|length| length > most) {
        return Err(too_large(most));
    }
    let collected = tokio::time::timeout(app.settings.timeout, collect(app, request.into_body(), most)).await;
    let body = collected.unwrap_or_else(|_| Err(too_slow()))?;
    // No body is an empty object: one that is lost with its connection must not be taken for that.
    match announced {
        Some(length) if length != body.len() as u64 => Err(broken(&"less came than was announced")),
        _ => Ok(body),
    }
}

async fn collect(app: &App, mut body: HttpBody, most: u64) -> Answer<Bytes> {
    let mut all = Vec::new();
    loop {
        let frame = match tokio::time::timeout(app.settings.stall, body.frame()).await {
            Err(_) => return Err(too_slow()),
            Ok(None) => return Ok(all.into()),
            Ok(Some(frame)) => frame.map_err(|error| broken(&error))?,
        };
        if let Ok(data) = frame.into_data() {
            if (all.len() + data.len()) as u64 > most {
                return Err(too_large(most));
            }
            all.extend_from_slice(&data);
        }
    }
}

pub(crate) fn too_large(most: u64) -> Refusal {
    Refusal::new(Kind::TOO_LARGE, format!("the most is {}", ingest_steps::size::show(most)))
}

pub(crate) fn too_slow() -> Refusal {
    Refusal::new(Kind::TIMEOUT, "the body did not come in time")
}

pub(crate) fn broken(error: &impl std::fmt::Display) -> Refusal {
    Refusal::field("", format!("the body broke off: {error}"))
}

/// The parameters behind the question mark.
#[derive(Debug)]
pub(crate) struct Params<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Params<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Answer<Self> {
        match Query::<T>::from_request_parts(parts, state).await {
            Ok(Query(params)) => Ok(Self(params)),
            Err(error) => {
                let text = error.body_text();
                let why = text.strip_prefix("Failed to deserialize query string: ").unwrap_or(&text);
                let (field, why) = match why.split_once(": ") {
                    Some((field, why)) if !field.contains(' ') => (field, why),
                    _ => (why.split('`').nth(1).unwrap_or_default(), why),
                };
                Err(Refusal::field(field, why))
            }
        }
    }
}

/// An id in a path. What is none is of nothing.
pub(crate) fn id<I: std::str::FromStr>(text: &str) -> Answer<I>
where
    I::Err: std::fmt::Display,
{
    text.parse().map_err(|error| Refusal::new(Kind::NOT_FOUND, format!("{error}")))
}

/// Several values in one parameter, apart by commas.
pub(crate) fn several<T: std::str::FromStr>(field: &str, text: Option<&str>) -> Answer<Vec<T>>
where
    T::Err: std::fmt::Display,
{
    let values = text.unwrap_or_default().split(',').map(str::trim).filter(|value| !value.is_empty());
    values.map(|value| value.parse().map_err(|error| Refusal::field(field, format!("{error}")))).collect()
}

/// One value of a parameter.
pub(crate) fn one<T: std::str::FromStr>(field: &str, text: Option<&str>) -> Answer<Option<T>>
where
    T::Err: std::fmt::Display,
{
    let text = text.filter(|text| !text.is_empty());
    text.map(|text| text.parse().map_err(|error| Refusal::field(field, format!("{error}")))).transpose()
}

/// Whether a text is in any of these, in either case; a blank one is in everything.
pub(crate) fn holds<'a>(text: Option<&str>, places: impl IntoIterator<Item = Option<&'a str>>) -> bool {
    let wanted = text.map(str::to_lowercase).filter(|text| !text.trim().is_empty());
    let mut places = places.into_iter().flatten();
    wanted.is_none_or(|wanted| places.any(|place| place.to_lowercase().contains(&wanted)))
}

/// Why somebody does something: not too long for a status.
pub(crate) fn reason(text: &str) -> Answer<&str> {
    const LONGEST: usize = 1000;
    if text.chars().count() > LONGEST {
        return Err(Refusal::field("reason", format!("at most {LONGEST} letters")));
    }
    Ok(text.trim())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::wire::{Requeue, SetPriority};

    #[test]
    fn what_does_not_fit_says_where() {
        let unknown = parse::<Requeue>(br#"{"stat": "failed"}"#).unwrap_err();
        assert_eq!((unknown.kind, unknown.problems[0].field.as_str()), (Kind::UNPROCESSABLE, "stat"));
        let missing = parse::<SetPriority>(b"{}").unwrap_err();
        assert_eq!((missing.kind, missing.problems[0].field.as_str()), (Kind::UNPROCESSABLE, "priority"));
        assert_eq!(parse::<Requeue>(b"{").unwrap_err().kind, Kind::INVALID);
        assert_eq!(
            parse::<crate::api::wire::Bulk>(br#"{"action": 7}"#).unwrap_err().kind,
            Kind::UNPROCESSABLE
        );
        assert!(parse::<Requeue>(b"{}").is_ok());
        let listed = parse::<crate::api::wire::Bulk>(br#"{"action": "hold", "filter": [["failed"]]}"#);
        assert_eq!(listed.unwrap_err().kind, Kind::UNPROCESSABLE);
    }

    #[test]
    fn a_whole_number_is_one_however_it_is_written() {
        #[derive(Debug, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Wanted {
            size: u32,
            more: Option<Vec<i64>>,
        }
        let read = parse::<Wanted>(br#"{"size": 3.0, "more": [-2.0, 1e3, 7]}"#).unwrap();
        assert_eq!((read.size, read.more), (3, Some(vec![-2, 1000, 7])));
        for wrong in ["3.5", "-3.0", "4294967296.0", "1e300"] {
            let refused = parse::<Wanted>(format!("{{\"size\": {wrong}}}").as_bytes()).unwrap_err();
            assert_eq!(refused.kind, Kind::UNPROCESSABLE, "{wrong}");
        }
        // What is there twice is still refused.
        assert!(parse::<Wanted>(br#"{"size": 3, "size": 4}"#).is_err());
    }
}
