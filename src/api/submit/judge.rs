//! Whether a submission is right: every problem, each with its field; nothing is made meanwhile.
//!
//! | to find | look in |
//! |---|---|
//! | the names of fields, and texts | [`fields`] |
//! | where the payload is, and what is said of it | [`payload`] |
//! | titles, identifiers, Dublin Core, addresses of mail | [`description`] |
//! | priority, dates, modes | [`ways`] |

mod description;
mod fields;
mod payload;
mod ways;

use std::collections::{BTreeMap, BTreeSet};

use ingest_queue::nodes::{self, Other};
use ingest_steps::digest::Digest;
use ingest_steps::fetch::Fetcher;
use ingest_steps::profile::{Profile, Profiles};
use ingest_steps::rights;
use serde_json::{Map, Value};
use url::Url;

use self::description::described;
use self::fields::Fields;
pub(super) use self::payload::names;
use self::payload::{announced, payload};
use self::ways::ways;
use crate::api::caller::Caller;
use crate::api::wire::FieldProblem;

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
    /// Names of hosts that have to be resolved to tell whether they may be asked, each with the field that has it first.
    pub hosts: BTreeMap<String, String>,
    pub problems: Vec<FieldProblem>,
    /// Places of problems that a field which comes later may solve.
    pub open: BTreeSet<usize>,
}

/// The file of a submission, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum File {
    None,
    /// It is not here, and its size is not known.
    Coming,
    OfSize(u64),
}

impl File {
    fn size(self) -> Option<u64> {
        match self {
            File::OfSize(size) => Some(size),
            File::None | File::Coming => None,
        }
    }
}

impl Judged {
    fn resolve(&mut self, name: Option<String>, field: &str) {
        if let Some(name) = name {
            self.hosts.entry(name).or_insert_with(|| field.to_owned());
        }
    }

    /// What is missing, and may still come.
    fn missing(&mut self, field: &str, message: impl Into<String>) {
        self.open.insert(self.problems.len());
        self.wrong(field, message);
    }

    /// Problems that no field which comes later can solve.
    pub(super) fn certain(self) -> Vec<FieldProblem> {
        let all = self.problems.into_iter().enumerate();
        all.filter(|(at, _)| !self.open.contains(at)).map(|(_, problem)| problem).collect()
    }

    fn wrong(&mut self, field: &str, message: impl Into<String>) {
        if self.problems.len() < MOST {
            self.problems.push(FieldProblem { field: field.to_owned(), message: message.into() });
        }
    }
}

/// What a submission is judged by.
#[derive(Debug)]
pub(super) struct Rules<'a> {
    pub profiles: &'a Profiles,
    pub fetcher: &'a Fetcher,
    /// Whether `file:` URLs are fetched.
    pub files: bool,
    /// Where this node is: what it serves itself may be fetched.
    pub public: &'a Url,
}

/// Judges all that was given.
pub(super) fn all(
    given: Map<String, Value>,
    problems: Vec<FieldProblem>,
    file: File,
    caller: &Caller,
    rules: &Rules<'_>,
) -> Judged {
    let mut judged = Judged { problems, ..Judged::default() };
    let mut fields = Fields::of(given, &mut judged);
    // What a depositor may not use is not there for it.
    let visible = caller.only().map(|own| rules.profiles.visible_to(own));
    let profile = profile(&mut fields, visible.as_ref().unwrap_or(rules.profiles), &mut judged);
    submitter(&mut fields, caller, &mut judged);
    let submitter = judged.submission.submitter.clone();
    if let Some(profile) = profile.as_ref().filter(|_| !submitter.is_empty())
        && let Err(why) = rights::may_use(profile, &submitter)
    {
        judged.wrong("profile", why);
    }
    payload(&mut fields, file != File::None, profile.as_ref(), rules, &mut judged);
    announced(&mut fields, file.size(), profile.as_ref(), &mut judged);
    described(&mut fields, &mut judged);
    ways(&mut fields, caller, profile.as_ref(), &mut judged);
    judged
}

fn profile(fields: &mut Fields, profiles: &Profiles, judged: &mut Judged) -> Option<Profile> {
    let Some(name) = fields.text("profile", judged) else {
        judged.missing("profile", "it is missing");
        return None;
    };
    match profiles.get(&name) {
        Ok(profile) => {
            judged.submission.profile_name.clone_from(&profile.name);
            judged.submission.collection = Some(profile.collection.clone());
            Some(profile.clone())
        }
        Err(why) => {
            judged.wrong("profile", why);
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
        (None, None) if caller.has_token => caller.name.clone(),
        (None, None) => {
            judged.missing("submitter", "it is missing");
            return;
        }
    };
    judged.submission.submitter = submitter;
}

fn put(other: &mut Other, name: &str, value: Option<Value>) {
    if let Some(value) = value {
        other.insert(name.to_owned(), value);
    }
}
