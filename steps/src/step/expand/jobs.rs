//! A job for a row.

use ingest_queue::map::Priority;
use ingest_queue::nodes::{Configuration, FrozenProfile, Identifiers, Metadata, Other, Schedule, Submission};
use ingest_queue::plan::job::NewJob;
use serde_json::Value;

use super::frozen::KnownRow;
use crate::outcome::{Failure, Result};
use crate::profile::Profile;
use crate::services::DIGEST;
use crate::step::Payload;
use crate::step::check::GIVEN;
use crate::storage::Mode;
use crate::upload_nodes::UPLOAD_NODE;

/// Makes the jobs of one batch.
pub(super) struct Maker<'a> {
    submission: &'a Submission,
    profile: &'a Profile,
    /// The same, as the batch keeps it.
    frozen: Option<&'a FrozenProfile>,
    /// What the submission says is said of its only object.
    single: bool,
    mode: &'static str,
    response: &'static str,
    priority: Priority,
    schedule: Option<Schedule>,
}

impl<'a> Maker<'a> {
    pub(super) fn new(
        submission: &'a Submission,
        profile: &'a Profile,
        frozen: Option<&'a FrozenProfile>,
        single: bool,
    ) -> Result<Self> {
        let (mode, response) = ways(submission)?;
        let asked = texts(&submission.other, &["priority"]).first().and_then(|text| text.parse().ok());
        let priority = asked.unwrap_or(profile.priority);
        let schedule = schedule(submission);
        Ok(Self { submission, profile, frozen, single, mode, response, priority, schedule })
    }

    pub(super) fn job(&self, KnownRow { kind, row }: &KnownRow) -> Result<NewJob> {
        let submission = self.submission;
        let payload = Payload::of_row(row, *kind)?;
        let or_else = |value: &Option<String>, whole: &Option<String>| {
            value.clone().or_else(|| whole.clone().filter(|_| self.single))
        };
        let mut local_id = row.local_ids.clone();
        let mut primary_id = row.primary_id.clone();
        let mut metadata = Metadata {
            erc_who: or_else(&row.creator, &submission.erc_who),
            erc_what: or_else(&row.title, &submission.erc_what),
            erc_when: or_else(&row.date, &submission.erc_when),
            erc_where: or_else(&None, &submission.erc_where),
            other: Other::new(),
        };
        if self.single {
            if local_id.is_empty() {
                local_id = texts(&submission.other, &["local_id", "localIdentifier"]);
            }
            let given = || texts(&submission.other, &["primary_id", "primaryIdentifier"]);
            primary_id = primary_id.or_else(|| given().into_iter().next());
            metadata.other.extend(dublin_core(&submission.other));
        }
        for (term, value) in &row.dublin_core {
            metadata.other.insert(format!("dc_{}", term.name()), value.as_str().into());
        }
        let mut configuration = Configuration {
            profile_name: self.profile.name.clone(),
            collection: Some(self.profile.collection.clone()),
            submitter: submission.submitter.clone(),
            submission_mode: self.mode.into(),
            response_type: self.response.into(),
            local_id: local_id.clone(),
            semaphores: self.profile.semaphores.clone(),
            ..Configuration::default()
        };
        if let Some(frozen) = self.frozen {
            configuration.profile_version = frozen.version;
            configuration.other.insert(DIGEST.into(), frozen.digest.as_str().into());
        }
        if let Some(key) = &row.key {
            configuration.other.insert("key".into(), key.as_str().into());
        }
        if primary_id.is_some() {
            configuration.other.insert(GIVEN.into(), true.into());
        }
        payload.write(&mut configuration);
        if submission.payload_url.as_deref() == Some(row.url.as_str())
            && let Some(node) = submission.other.get(UPLOAD_NODE)
        {
            configuration.other.insert(UPLOAD_NODE.into(), node.clone());
        }
        Ok(NewJob {
            configuration,
            identifiers: Identifiers { primary_id, local_id, other: Other::new() },
            metadata,
            priority: self.priority,
            space_needed: row.size.map_or(0, |size| i64::try_from(size).unwrap_or(i64::MAX)),
            schedule: self.schedule.clone(),
        })
    }
}

/// How it is taken in, and how it is answered; what is not known is refused by name.
pub(super) fn ways(submission: &Submission) -> Result<(&'static str, &'static str)> {
    let given = |value: &Option<String>| value.as_deref().unwrap_or_default().trim().to_ascii_lowercase();
    let mode = given(&submission.submission_mode).parse::<Mode>().map(Mode::name);
    let response = match given(&submission.response_type).as_str() {
        "" | "json" => Ok("json"),
        "xml" => Ok("xml"),
        other => {
            Err(format!("the response type `{}` is not known; known are json and xml", other.escape_debug()))
        }
    };
    match (mode, response) {
        (Ok(mode), Ok(response)) => Ok((mode, response)),
        (mode, response) => {
            let why: Vec<_> = [mode.err(), response.err()].into_iter().flatten().collect();
            Err(Failure::hopeless(why.join("\n")))
        }
    }
}

/// A field under any of its names: a list, a number, or texts apart by semicolons.
pub(super) fn texts(other: &Other, names: &[&str]) -> Vec<String> {
    let Some(value) = names.iter().find_map(|name| other.get(*name)) else { return Vec::new() };
    let mut found: Vec<String> = Vec::new();
    let mut take = |text: &str| {
        let text = text.trim();
        if !text.is_empty() && !found.iter().any(|known| known == text) {
            found.push(text.to_owned());
        }
    };
    match value {
        Value::String(text) => text.split(';').for_each(&mut take),
        Value::Number(number) => take(&number.to_string()),
        Value::Array(values) => values.iter().filter_map(Value::as_str).for_each(&mut take),
        _ => {}
    }
    found
}

/// The form's `DC.title` and `dc_title` alike.
fn dublin_core(other: &Other) -> impl Iterator<Item = (String, Value)> {
    other.iter().filter_map(|(name, value)| {
        let start = name.get(..3)?.to_ascii_lowercase();
        let given = value.as_str().is_some_and(|text| !text.trim().is_empty());
        (given && (start == "dc." || start == "dc_")).then(|| (format!("dc_{}", &name[3..]), value.clone()))
    })
}

/// The dates that the submission gave, if it gave any.
fn schedule(submission: &Submission) -> Option<Schedule> {
    let date =
        |name: &str| submission.other.get(name).and_then(|value| serde_json::from_value(value.clone()).ok());
    let (process_date, expiration_date) = (date("process_date"), date("expiration_date"));
    if process_date.is_none() && expiration_date.is_none() {
        return None;
    }
    let insertion_date = submission.insertion_date;
    // Not before it was submitted.
    let process_date = process_date.max(insertion_date.filter(|_| process_date.is_some()));
    Some(Schedule { insertion_date, process_date, expiration_date, ..Schedule::default() })
}
