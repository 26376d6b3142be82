//! Files: whole or in part, to whoever has a URL that this node has signed.
//!
//! What is served was written by strangers: it is never shown by a browser, only saved.
//!
//! **When things break.** A URL that is not right is as unknown as any other. A file that changes while it is sent ends
//! short, and whoever fetches it sees that by its length.

use std::io::SeekFrom;
use std::path::{Component, Path, PathBuf};

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use ingest_steps::feed::Kind as FeedKind;
use ingest_steps::feed::drop_box::file_of;
use ingest_steps::settings::Settings;
use ingest_steps::urls::Verdict;
use serde::Deserialize;
use tokio::io::{AsyncReadExt as _, AsyncSeekExt as _};
use tokio_util::io::ReaderStream;
use utoipa::IntoParams;

use super::app::App;
use super::problem::{Answer, Kind, Refusal};
use super::read::Params;
use super::wire::Problem;

/// Bytes that are read at a time.
const PIECE: usize = 128 << 10;

/// What makes a URL good.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Signed {
    /// Seconds since 1970.
    expires: u64,
    signature: String,
}

#[utoipa::path(get, path = "/files/{path}", tag = "files", security(()), params(("path" = String, Path, description = "work/…, uploads/…, feeds/… or access/…"), Signed), responses(
    (status = 200, description = "the bytes", content_type = "application/octet-stream"),
    (status = 206, description = "some of them", content_type = "application/octet-stream"),
    (status = "default", body = Problem, content_type = "application/problem+json"),
))]
/// Serves an upload, a file of a drop box, a working file or a storage manifest
pub(crate) async fn get(
    State(app): State<App>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    signed: Answer<Params<Signed>>,
) -> Answer<Response> {
    let unknown = || Refusal::new(Kind::NOT_FOUND, "there is no such file, or the URL is not right");
    // Whoever has no signature learns nothing about what there is.
    let Params(signed) = signed.map_err(|_| unknown())?;
    let path = plain(uri.path()).ok_or_else(unknown)?;
    match app.urls.check(&path, signed.expires, &signed.signature) {
        Verdict::Good => {}
        Verdict::Over => return Err(Refusal::new(Kind::EXPIRED, "the time of this URL is over")),
        Verdict::Wrong => return Err(unknown()),
    }
    let file = place(&app, &path).await?.ok_or_else(unknown)?;
    let name = path.rsplit('/').next().unwrap_or_default().to_owned();
    send(&file, &name, &method, &headers).await
}

/// The path behind `/files/`, decoded.
fn plain(path: &str) -> Option<String> {
    let path = path.strip_prefix("/files/")?;
    percent_encoding::percent_decode_str(path).decode_utf8().ok().map(std::borrow::Cow::into_owned)
}

/// Where a signed path lies on the disk.
async fn place(app: &App, path: &str) -> Answer<Option<PathBuf>> {
    let Some((kind, rest)) = path.split_once('/') else { return Ok(None) };
    let below = Path::new(rest);
    // It was signed here; and still nothing leads out of its directory.
    if below.components().any(|part| !matches!(part, Component::Normal(_))) {
        return Ok(None);
    }
    Ok(match kind {
        "uploads" => rest.split_once('/').map(|(id, _)| super::submit::payload_of(&app.settings.uploads, id)),
        "work" => Some(app.life().await?.services().work.root().join(below)),
        "feeds" => {
            let settings = app.life().await?.services().settings.clone();
            dropped(&settings, rest)
        }
        "access" => Some(app.life().await?.services().settings.access.dir.join(below)),
        _ => None,
    })
}

/// `FEED/KEY/NAME`: a file that was taken out of a drop box.
fn dropped(settings: &Settings, rest: &str) -> Option<PathBuf> {
    let (feed, rest) = rest.split_once('/')?;
    let (key, _) = rest.split_once('/')?;
    match &settings.feeds.get(feed)?.kind {
        FeedKind::DropBox(drop_box) => file_of(&drop_box.path, key),
        _ => None,
    }
}

/// Sends a file, or the part of it that was asked for.
pub(crate) async fn send(file: &Path, name: &str, method: &Method, headers: &HeaderMap) -> Answer<Response> {
    let gone = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => Refusal::new(Kind::NOT_FOUND, "the file is not there any more"),
        _ => Refusal::defect(format!("{}: {error}", file.display())),
    };
    let mut opened = tokio::fs::File::open(file).await.map_err(gone)?;
    let facts = opened.metadata().await.map_err(gone)?;
    if !facts.is_file() {
        return Err(Refusal::new(Kind::NOT_FOUND, "that is no file"));
    }
    let size = facts.len();
    let range = headers.get(header::RANGE).and_then(|range| range.to_str().ok());
    let (status, from, length) = match range.map(|range| part(range, size)) {
        None | Some(Part::Whole) => (StatusCode::OK, 0, size),
        Some(Part::Of(from, length)) => (StatusCode::PARTIAL_CONTENT, from, length),
        Some(Part::None) => {
            let mut refused = Refusal::new(Kind::RANGE, format!("it has {size} bytes")).into_response();
            refused.headers_mut().insert(header::CONTENT_RANGE, value(&format!("bytes */{size}")));
            return Ok(refused);
        }
    };
    let body = if *method == Method::HEAD {
        Body::empty()
    } else {
        opened.seek(SeekFrom::Start(from)).await.map_err(gone)?;
        Body::from_stream(ReaderStream::with_capacity(opened.take(length), PIECE))
    };
    let mut response = (status, body).into_response();
    let answer = response.headers_mut();
    answer.insert(header::CONTENT_TYPE, HeaderValue::from_static(mime(name)));
    answer.insert(header::CONTENT_LENGTH, length.into());
    answer.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    answer.insert(header::CONTENT_DISPOSITION, value(&disposition(name)));
    answer.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'none'; sandbox"));
    if status == StatusCode::PARTIAL_CONTENT {
        let range = format!("bytes {from}-{}/{size}", from + length - 1);
        answer.insert(header::CONTENT_RANGE, value(&range));
    }
    Ok(response)
}

fn value(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).unwrap_or(HeaderValue::from_static(""))
}

fn mime(name: &str) -> &'static str {
    let extension = Path::new(name).extension();
    if extension.is_some_and(|extension| extension.eq_ignore_ascii_case("zip")) {
        "application/zip"
    } else {
        "application/octet-stream"
    }
}

fn disposition(name: &str) -> String {
    let plain: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' }).collect();
    let encoded = percent_encoding::utf8_percent_encode(name, percent_encoding::NON_ALPHANUMERIC);
    format!("attachment; filename=\"{plain}\"; filename*=UTF-8''{encoded}")
}

/// What of a file is wanted.
#[derive(Debug, PartialEq, Eq)]
enum Part {
    /// What cannot be read, or is several parts, is not a range: the whole is sent.
    Whole,
    Of(u64, u64),
    /// There is nothing there.
    None,
}

fn part(range: &str, size: u64) -> Part {
    let Some(spec) = range.trim().strip_prefix("bytes=") else { return Part::Whole };
    let Some((from, to)) = spec.split_once('-') else { return Part::Whole };
    let number = |text: &str| text.trim().parse::<u64>().ok();
    match (from.trim().is_empty(), to.trim().is_empty()) {
        (true, false) => match number(to) {
            None => Part::Whole,
            Some(0) => Part::None,
            Some(last) if size > 0 => Part::Of(size - last.min(size), last.min(size)),
            Some(_) => Part::None,
        },
        (false, open) => {
            let Some(from) = number(from) else { return Part::Whole };
            let to = if open { Some(u64::MAX) } else { number(to) };
            match to {
                Some(to) if to < from => Part::Whole,
                Some(_) if from >= size => Part::None,
                Some(to) => Part::Of(from, to.min(size - 1) - from + 1),
                None => Part::Whole,
            }
        }
        (true, true) => Part::Whole,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_as_the_standard_says() {
        for (range, expected) in [
            ("bytes=0-", Part::Of(0, 10)),
            ("bytes=3-4", Part::Of(3, 2)),
            ("bytes=3-99", Part::Of(3, 7)),
            ("bytes=-4", Part::Of(6, 4)),
            ("bytes=-99", Part::Of(0, 10)),
            ("bytes=10-", Part::None),
            ("bytes=-0", Part::None),
            ("bytes=5-3", Part::Whole),
            ("bytes=0-1,3-4", Part::Whole),
            ("lines=0-1", Part::Whole),
            ("bytes=-", Part::Whole),
            ("bytes=x-1", Part::Whole),
        ] {
            assert_eq!(part(range, 10), expected, "{range}");
        }
        assert_eq!(part("bytes=0-", 0), Part::None);
    }

    #[test]
    fn a_name_cannot_break_out_of_its_header() {
        assert_eq!(disposition("a\"\r\nb"), "attachment; filename=\"a___b\"; filename*=UTF-8''a%22%0D%0Ab");
        assert_eq!(plain("/files/work/a%2Fb%20c"), Some("work/a/b c".into()));
        assert_eq!(plain("/files/%ff"), None);
    }
}
