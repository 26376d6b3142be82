//! Whether a submission is right: every problem, each with its field; nothing is made meanwhile.

use std::str::FromStr;

use ingest_queue::date::Date;
use ingest_queue::map::Priority;
use ingest_queue::nodes::{self, Other};
use ingest_steps::ark::Ark;
use ingest_steps::digest::{Algorithm, Digest};
use ingest_steps::fetch::redacted;
use ingest_steps::manifest::{fault_of_name, inline};
use ingest_steps::payload::PayloadKind;
use ingest_steps::profile::Profile;
use ingest_steps::services::Services;
use serde_json::{Map, Value};
use url::Url;

use super::Given;
use crate::api::app::App;
use crate::api::caller::Caller;
use crate::api::wire::{FieldProblem, Role};

/// Names of the field's own convention, and ours.
const ALSO: [(&str, &str); 8] = [
    ("url", "payload_url"),
    ("primaryIdentifier", "primary_id"),
    ("localIdentifier", "local_id"),
    ("digestType", "digest_type"),
    ("digestValue", "digest_value"),
    ("responseForm", "response_type"),
    ("profile_name", "profile"),
    ("payload_filename", "filename"),
];

const FIELDS: [&str; 22] = [
    "profile",
    "submitter",
    "payload_url",
    "manifest",
    "type",
    "filename",
    "size",
    "digest_type",
    "digest_value",
    "primary_id",
    "local_id",
    "creator",
    "title",
    "date",
    "dc",
    "note",
    "notification",
    "submission_mode",
    "response_type",
    "priority",
    "process_date",
    "uuid",
];
const LAST_FIELD: &str = "expiration_date";

/// Dublin Core.
const TERMS: [&str; 16] = [
    "contributor",
    "coverage",
    "creator",
    "date",
    "description",
    "format",
    "identifier",
    "language",
    "publisher",
    "relation",
    "rights",
    "source",
    "subject",
    "title",
    "type",
    "resourceType",
];

/// Letters of a text.
const LONGEST: usize = 4000;
/// Problems that are told.
const MOST: usize = 100;

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Judged {
    pub submission: nodes::Submission,
    pub uuid: Option<String>,
    pub xml: bool,
    pub size: Option<u64>,
    pub digest: Option<Digest>,
    pub problems: Vec<FieldProblem>,
}

impl Judged {
    fn wrong(&mut self, field: &str, message: impl Into<String>) {
        if self.problems.len() < MOST {
            self.problems.push(FieldProblem { field: field.to_owned(), message: message.into() });
        }
    }
}

/// Takes the fields apart.
struct Fields(Map<String, Value>);

impl Fields {
    /// A text, without space around it; what is empty is not there.
    fn text(&mut self, name: &str, judged: &mut Judged) -> Option<String> {
        let text = match self.0.remove(name)? {
            Value::Null => return None,
            Value::String(text) => text,
            Value::Number(number) => number.to_string(),
            _ => {
                judged.wrong(name, "it should be a text");
                return None;
            }
        };
        check(name, text.trim(), judged)
    }

    fn parsed<T: FromStr>(&mut self, name: &str, judged: &mut Judged) -> Option<T>
    where
        T::Err: std::fmt::Display,
    {
        let text = self.text(name, judged)?;
        match text.parse() {
            Ok(value) => Some(value),
            Err(error) => {
                judged.wrong(name, error.to_string());
                None
            }
        }
    }

    /// A list of texts, or several in one, apart by semicolons.
    fn texts(&mut self, name: &str, judged: &mut Judged) -> Vec<String> {
        match self.0.remove(name) {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::String(text)) => {
                let parts = text.split(';').filter_map(|part| check(name, part.trim(), judged));
                parts.collect()
            }
            Some(Value::Array(values)) if values.iter().all(Value::is_string) => {
                let texts = values.iter().filter_map(Value::as_str);
                texts.filter_map(|text| check(name, text.trim(), judged)).collect()
            }
            Some(_) => {
                judged.wrong(name, "it should be a text or a list of texts");
                Vec::new()
            }
        }
    }
}

fn check(name: &str, text: &str, judged: &mut Judged) -> Option<String> {
    if text.is_empty() {
        return None;
    }
    if text.chars().count() > LONGEST {
        judged.wrong(name, format!("at most {LONGEST} letters"));
        return None;
    }
    if text.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\r' | '\t')) {
        judged.wrong(name, "there is a control character in it");
        return None;
    }
    Some(text.to_owned())
}

/// Judges all that was given.
pub(super) fn all(given: &mut Given, caller: &Caller, services: &Services, app: &App) -> Judged {
    let mut judged = Judged { problems: std::mem::take(&mut given.problems), ..Judged::default() };
    let mut fields = Fields(Map::new());
    for (name, value) in std::mem::take(&mut given.fields) {
        name_of(&name, value, &mut fields.0, &mut judged);
    }
    let profile = profile(&mut fields, services, &mut judged);
    submitter(&mut fields, caller, &mut judged);
    payload(&mut fields, given.upload.is_some(), profile.as_ref(), services, app, &mut judged);
    announced(&mut fields, given.upload.as_ref().map(|upload| upload.size), profile.as_ref(), &mut judged);
    described(&mut fields, &mut judged);
    ways(&mut fields, caller, &mut judged);
    judged
}

/// A field under its own name; what nobody knows is told with what was perhaps meant.
fn name_of(name: &str, value: Value, fields: &mut Map<String, Value>, judged: &mut Judged) {
    let known = |name: &str| FIELDS.contains(&name) || name == LAST_FIELD;
    let also = ALSO.iter().find(|(other, _)| *other == name).map(|(_, own)| *own);
    let own = if known(name) { Some(name) } else { also };
    if let Some(own) = own {
        if fields.insert(own.to_owned(), value).is_some() {
            judged.wrong(own, "it is there under two names");
        }
        return;
    }
    if let Some(term) =
        name.get(..3).filter(|start| start.eq_ignore_ascii_case("dc.")).and_then(|_| name.get(3..))
    {
        dublin_core(name, term, &value, judged);
        return;
    }
    let names = FIELDS.iter().copied().chain(ALSO.iter().map(|(other, _)| *other)).chain([LAST_FIELD]);
    let near = names.map(|known| (strsim::damerau_levenshtein(known, name), known)).min();
    let meant =
        near.filter(|(distance, _)| *distance <= 2).map(|(_, known)| format!("; did you mean `{known}`?"));
    let shown: String = name.chars().take(100).collect();
    judged.wrong(&shown, format!("there is no such field{}", meant.unwrap_or_default()));
}

fn dublin_core(field: &str, term: &str, value: &Value, judged: &mut Judged) {
    let Some(known) = TERMS.iter().find(|known| known.eq_ignore_ascii_case(term)) else {
        judged.wrong(field, format!("it is no term of Dublin Core; known are {}", TERMS.join(", ")));
        return;
    };
    match value {
        Value::String(text) => {
            if let Some(text) = check(field, text.trim(), judged) {
                judged.submission.other.insert(format!("dc_{known}"), text.into());
            }
        }
        _ => judged.wrong(field, "it should be a text"),
    }
}

fn profile(fields: &mut Fields, services: &Services, judged: &mut Judged) -> Option<Profile> {
    let Some(name) = fields.text("profile", judged) else {
        judged.wrong("profile", "it is missing");
        return None;
    };
    match services.profile(&name) {
        Ok(profile) => {
            judged.submission.profile_name.clone_from(&profile.name);
            judged.submission.collection = Some(profile.collection.clone());
            Some(profile)
        }
        Err(failure) => {
            judged.wrong("profile", failure.to_string());
            None
        }
    }
}

fn submitter(fields: &mut Fields, caller: &Caller, judged: &mut Judged) {
    let given = fields.text("submitter", judged);
    let submitter = match (given, caller.only()) {
        (Some(given), Some(own)) if given != own => {
            judged.wrong("submitter", format!("this token is {own}'s"));
            return;
        }
        (_, Some(own)) => own.to_owned(),
        (Some(given), None) if given.chars().count() <= 200 => given,
        (Some(_), None) => {
            judged.wrong("submitter", "at most 200 letters");
            return;
        }
        (None, None) => {
            judged.wrong("submitter", "it is missing");
            return;
        }
    };
    judged.submission.submitter = submitter;
}

fn payload(
    fields: &mut Fields,
    upload: bool,
    profile: Option<&Profile>,
    services: &Services,
    app: &App,
    judged: &mut Judged,
) {
    let url = fields.text("payload_url", judged);
    let manifest = fields.0.remove("manifest").filter(|manifest| !manifest.is_null());
    match [upload, url.is_some(), manifest.is_some()].into_iter().filter(|given| *given).count() {
        0 => judged.wrong("payload_url", "there is no payload: send a file, a payload_url or a manifest"),
        1 => {}
        _ => {
            judged.wrong("payload_url", "there is more than one payload: a file, a payload_url or a manifest")
        }
    }
    if let Some(text) = url {
        match address(&text, profile, services, app) {
            Ok(()) => judged.submission.payload_url = Some(text),
            Err(why) => judged.wrong("payload_url", why),
        }
    }
    let Some(manifest) = manifest else { return };
    // A form has it as text.
    let manifest = match &manifest {
        Value::String(text) => serde_json::from_str(text).unwrap_or(manifest),
        _ => manifest,
    };
    match inline::rows(&manifest) {
        Ok(rows) => {
            for (at, row) in rows.iter().enumerate() {
                if let Err(why) = address(&row.url, profile, services, app) {
                    judged.wrong(&format!("manifest[{at}]"), why);
                }
            }
            judged.submission.manifest = Some(manifest);
        }
        Err(problems) => {
            for problem in problems.0 {
                judged.wrong("manifest", problem.to_string());
            }
        }
    }
}

/// Whether something may be fetched from there, as far as that can be told without asking.
fn address(text: &str, profile: Option<&Profile>, services: &Services, app: &App) -> Result<(), String> {
    let url = Url::parse(text).map_err(|error| format!("it is no URL: {error}"))?;
    match url.scheme() {
        "file" if services.settings.fetch.file_roots.is_empty() => {
            Err("file: URLs are not fetched here (`fetch.file_roots`)".to_owned())
        }
        "file" => Ok(()),
        "http" | "https" => {
            let own = url.origin() == app.urls.public().origin();
            match (url.host_str(), profile) {
                (Some(host), Some(profile)) if !own && !profile.allows_host(host) => Err(format!(
                    "{}: the profile {} allows no payloads from {host} (`allowed_hosts`)",
                    redacted(&url),
                    profile.name
                )),
                _ => Ok(()),
            }
        }
        scheme => Err(format!("`{scheme}` is not fetched; only http, https and file are")),
    }
}

/// What the depositor says of the payload.
fn announced(fields: &mut Fields, upload: Option<u64>, profile: Option<&Profile>, judged: &mut Judged) {
    let kind: Option<PayloadKind> = fields.parsed("type", judged);
    judged.submission.payload_type = kind.map(|kind| kind.name().to_owned());
    if let Some(name) = fields.text("filename", judged) {
        match fault_of_name(&name) {
            None => judged.submission.payload_filename = Some(name),
            Some(why) => judged.wrong("filename", format!("the name {why}")),
        }
    }
    judged.size = fields.parsed("size", judged);
    let (algorithm, value): (Option<Algorithm>, _) =
        (fields.parsed("digest_type", judged), fields.text("digest_value", judged));
    match (algorithm, value) {
        (Some(algorithm), Some(value)) => match Digest::new(algorithm, &value) {
            Ok(digest) => judged.digest = Some(digest),
            Err(error) => judged.wrong("digest_value", error.to_string()),
        },
        (Some(_), None) => judged.wrong("digest_value", "there is a digest_type, and no digest_value"),
        (None, Some(_)) if !judged.problems.iter().any(|problem| problem.field == "digest_type") => {
            judged.wrong("digest_type", "there is a digest_value, and no digest_type");
        }
        (None, _) => {}
    }
    if let (Some(profile), Some(size)) = (profile, upload.or(judged.size)) {
        let limits = profile.limits;
        let most = match kind {
            Some(PayloadKind::File) => limits.file_bytes.min(limits.object_bytes),
            Some(PayloadKind::Container) => limits.object_bytes,
            _ => u64::MAX,
        };
        if size > most {
            let why =
                format!("{size} bytes, and the profile {} takes at most {most} (`limits`)", profile.name);
            judged.wrong("size", why);
        }
    }
    let (size, digest) = (judged.size, judged.digest.clone());
    let other = &mut judged.submission.other;
    put(other, "size", size.map(Value::from));
    put(other, "digest_type", digest.as_ref().map(|digest| digest.algorithm().name().into()));
    put(other, "digest_value", digest.as_ref().map(|digest| digest.hex().into()));
}

fn put(other: &mut Other, name: &str, value: Option<Value>) {
    if let Some(value) = value {
        other.insert(name.to_owned(), value);
    }
}

/// What the object is called, and whom to tell.
fn described(fields: &mut Fields, judged: &mut Judged) {
    let ark: Option<Ark> = fields.parsed("primary_id", judged);
    let local_ids = fields.texts("local_id", judged);
    let (who, what, when) =
        (fields.text("creator", judged), fields.text("title", judged), fields.text("date", judged));
    let submission = &mut judged.submission;
    (submission.erc_who, submission.erc_what, submission.erc_when) = (who, what, when);
    put(&mut submission.other, "primary_id", ark.map(|ark| ark.to_string().into()));
    put(&mut submission.other, "local_id", (!local_ids.is_empty()).then(|| local_ids.into()));
    match fields.0.remove("dc") {
        None | Some(Value::Null) => {}
        Some(Value::Object(terms)) => {
            for (term, value) in terms {
                let term: String = term.chars().take(100).collect();
                dublin_core(&format!("dc.{term}"), &term, &value, judged);
            }
        }
        Some(_) => judged.wrong("dc", "it should be an object"),
    }
    let note = fields.text("note", judged);
    put(&mut judged.submission.other, "note", note.map(Value::from));
    if let Some(addresses) = fields.text("notification", judged) {
        let all = addresses.split([',', ';']).map(str::trim).filter(|address| !address.is_empty());
        for address in all {
            if address.parse::<lettre::Address>().is_err() {
                judged.wrong("notification", format!("`{address}` is not a mail address"));
            }
        }
        judged.submission.other.insert("notification".into(), addresses.into());
    }
}

/// How it is taken in, how it is answered, and when it runs.
fn ways(fields: &mut Fields, caller: &Caller, judged: &mut Judged) {
    for (name, known) in [("submission_mode", ["add", "update"]), ("response_type", ["json", "xml"])] {
        let Some(given) = fields.text(name, judged) else { continue };
        let given = given.to_ascii_lowercase();
        if !known.contains(&given.as_str()) {
            judged.wrong(name, format!("`{given}` is not known; known are {}", known.join(" and ")));
        } else if name == "submission_mode" {
            judged.submission.submission_mode = Some(given);
        } else {
            judged.xml = given == "xml";
            judged.submission.response_type = Some(given);
        }
    }
    if let Some(priority) = fields.parsed::<Priority>("priority", judged) {
        if caller.role < Role::Operator {
            judged.wrong("priority", "only operators choose one");
        }
        judged.submission.other.insert("priority".into(), priority.number().into());
    }
    let process: Option<Date> = fields.parsed("process_date", judged);
    let expiration: Option<Date> = fields.parsed("expiration_date", judged);
    if let (Some(process), Some(expiration)) = (process, expiration)
        && expiration <= process
    {
        judged.wrong("expiration_date", "it is not after process_date");
    }
    let other = &mut judged.submission.other;
    put(other, "process_date", process.map(|date| date.to_string().into()));
    put(other, "expiration_date", expiration.map(|date| date.to_string().into()));
    if let Some(uuid) = fields.text("uuid", judged) {
        if uuid.len() <= 64 && uuid.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
            judged.uuid = Some(uuid);
        } else {
            judged.wrong("uuid", "it has 1 to 64 letters, digits and `-`");
        }
    }
}
