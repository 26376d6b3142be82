//! How a submission is taken in, how it is answered, and when it runs.

use std::time::Duration;

use ingest_queue::date::{Clock, Date};
use ingest_queue::journal::LONGEST_KEY;
use ingest_queue::map::Priority;
use ingest_steps::profile::Profile;
use ingest_steps::storage::Mode;

use super::fields::Fields;
use super::{Judged, put};
use crate::api::caller::Caller;
use crate::api::wire::Role;

/// How much another clock may be ahead.
const SKEW: Duration = Duration::from_secs(5);
const EXPIRATION: &str = "expiration_date";

/// When it is too late to begin it; 0 is never.
fn expiration(fields: &mut Fields, judged: &mut Judged) -> Option<Date> {
    let text = fields.text(EXPIRATION, judged).filter(|text| text != "0")?;
    match text.parse::<Date>() {
        Ok(date) => {
            if date <= Clock::system().now() {
                judged.wrong(EXPIRATION, "it has passed");
            }
            Some(date)
        }
        Err(error) => {
            judged.wrong(EXPIRATION, error.to_string());
            None
        }
    }
}

/// When it came to be, and under which key it waits.
fn journal(fields: &mut Fields, judged: &mut Judged) {
    let inserted: Option<Date> = fields.parsed("insertion_date", judged);
    if inserted.is_some_and(|date| date > Clock::system().now().after(SKEW)) {
        judged.wrong("insertion_date", "it is to come");
    }
    judged.submission.insertion_date = inserted;
    let key = fields.text("key", judged);
    if key.as_ref().is_some_and(|key| key.len() > LONGEST_KEY) {
        judged.wrong("key", format!("at most {LONGEST_KEY} bytes"));
    }
    judged.submission.key = key;
}

/// How it is taken in, how it is answered, and when it runs.
pub(super) fn ways(fields: &mut Fields, caller: &Caller, profile: Option<&Profile>, judged: &mut Judged) {
    for (name, known) in [("submission_mode", &Mode::NAMES[..]), ("response_type", &["json", "xml"])] {
        let Some(given) = fields.text(name, judged) else { continue };
        let given = given.to_ascii_lowercase();
        if !known.contains(&given.as_str()) {
            judged.wrong(name, format!("`{given}` is not known; known are {}", known.join(", ")));
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
    let expiration = expiration(fields, judged);
    journal(fields, judged);
    if judged.submission.key.is_some()
        && let Some(profile) = profile
    {
        // Of those that merge the smallest counts, and the profile's is one of them.
        let priority = judged.submission.other.entry("priority");
        priority.or_insert_with(|| profile.priority.number().into());
    }
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
