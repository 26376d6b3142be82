//! Which jobs.
//!
//! All that is said must hold. What is not said holds for every job.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::date::Date;
use crate::ids::{Bid, Jid};
use crate::map::Priority;
use crate::nodes::{Configuration, Identifiers, JobStatus};
use crate::reasons::GroupKey;
use crate::states::JobState;

/// A choice of jobs.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Filter {
    /// Any of these.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub states: Vec<JobState>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch: Option<Bid>,
    /// The collection's mnemonic, exactly.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collection: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub submitter: Option<String>,
    /// Last changed before this moment. A job without such a date is neither older nor newer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub older_than: Option<Date>,
    /// Last changed after this moment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub newer_than: Option<Date>,
    /// In the message, the job id, the profile, the payload URL, the local ids or the primary id; in
    /// either case.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The bounds are included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_priority: Option<Priority>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_priority: Option<Priority>,
    /// Whether it waits for its process date.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduled: Option<bool>,
    /// Its message is a reason of this group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupKey>,
}

impl Filter {
    /// Whether it selects every job there is.
    pub fn is_empty(&self) -> bool {
        self.states.is_empty() && self.batch.is_none() && !self.needs_details()
    }

    /// Whether more than a job's state and batch has to be known.
    pub(super) fn needs_details(&self) -> bool {
        self.needs_configuration()
            || self.needs_priority()
            || self.older_than.is_some()
            || self.newer_than.is_some()
            || self.scheduled.is_some()
            || self.group.is_some()
            || self.text().is_some()
    }

    pub(super) fn needs_configuration(&self) -> bool {
        self.collection.is_some() || self.submitter.is_some()
    }

    /// A range that holds every priority is none.
    pub(super) fn needs_priority(&self) -> bool {
        self.min_priority.is_some_and(|min| min > Priority::FIRST)
            || self.max_priority.is_some_and(|max| max < Priority::LAST)
    }

    pub(super) fn text(&self) -> Option<Text> {
        Text::new(self.text.as_deref())
    }

    pub(super) fn admits_state(&self, state: JobState) -> bool {
        self.states.is_empty() || self.states.contains(&state)
    }

    pub(super) fn admits_status(&self, status: &JobStatus) -> bool {
        self.admits_state(status.status)
            && is_between(status.last_modification_date, self.newer_than, self.older_than)
            && self.scheduled.is_none_or(|wanted| wanted == status.process_date.is_some())
            && self.group.is_none_or(|wanted| wanted == GroupKey::of(&status.message))
    }

    pub(super) fn admits_priority(&self, priority: Priority) -> bool {
        self.min_priority.is_none_or(|min| min <= priority)
            && self.max_priority.is_none_or(|max| priority <= max)
    }

    pub(super) fn admits_configuration(&self, configuration: &Configuration) -> bool {
        self.collection.as_deref().is_none_or(|wanted| wanted == configuration.collection())
            && self.submitter.as_deref().is_none_or(|wanted| wanted == configuration.submitter)
    }
}

/// Whether a date lies between two others, where they are given.
pub(super) fn is_between(date: Option<Date>, after: Option<Date>, before: Option<Date>) -> bool {
    after.is_none_or(|after| date.is_some_and(|date| date > after))
        && before.is_none_or(|before| date.is_some_and(|date| date < before))
}

/// A text to look for, in either case.
#[derive(Debug)]
pub(super) struct Text(String);

impl Text {
    /// A blank text is in everything, and so it is none.
    pub(super) fn new(text: Option<&str>) -> Option<Self> {
        text.filter(|text| !text.trim().is_empty()).map(|text| Self(text.to_lowercase()))
    }

    pub(super) fn is_in(&self, text: &str) -> bool {
        text.to_lowercase().contains(&self.0)
    }

    pub(super) fn is_in_status(&self, jid: Jid, status: &JobStatus) -> bool {
        self.is_in(&status.message) || self.is_in(&jid.to_string())
    }

    pub(super) fn is_in_configuration(&self, configuration: &Configuration) -> bool {
        self.is_in(&configuration.profile_name)
            || self.is_in(&configuration.payload_url)
            || configuration.local_id.iter().any(|id| self.is_in(id))
    }

    pub(super) fn is_in_identifiers(&self, identifiers: &Identifiers) -> bool {
        identifiers.primary_id.iter().chain(&identifiers.local_id).any(|id| self.is_in(id))
    }
}

/// What it selects, in words.
impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("all jobs");
        }
        let mut words = Vec::new();
        if !self.states.is_empty() {
            let names = self.states.iter().map(ToString::to_string);
            words.push(format!("that are {}", names.collect::<Vec<_>>().join(" or ")));
        }
        let mut say = |what: &str, value: Option<String>| {
            words.extend(value.map(|value| format!("{what} {value}")));
        };
        say("of batch", self.batch.map(|bid| bid.to_string()));
        say("of collection", self.collection.clone());
        say("submitted by", self.submitter.clone());
        say("last changed before", self.older_than.map(|date| date.to_string()));
        say("last changed after", self.newer_than.map(|date| date.to_string()));
        let (min, max) =
            (self.min_priority.unwrap_or(Priority::FIRST), self.max_priority.unwrap_or(Priority::LAST));
        say("with priority", self.needs_priority().then(|| format!("{min} to {max}")));
        let text = self.text.as_ref().filter(|_| self.text().is_some());
        say("with the text", text.map(|text| format!("`{text}`")));
        say("with a reason of group", self.group.map(|group| group.to_string()));
        let scheduled = |yes| if yes { "for their process date" } else { "for no process date" };
        say("that wait", self.scheduled.map(|yes| scheduled(yes).to_owned()));
        write!(f, "jobs {}", words.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn date(seconds: i64) -> Date {
        Date::from_millis(seconds * 1_000)
    }

    #[test]
    fn a_filter_that_restricts_nothing_is_empty() {
        assert!(Filter::default().is_empty());
        for blank in ["", " ", "\t\n"] {
            assert!(Filter { text: Some(blank.into()), ..Filter::default() }.is_empty(), "{blank:?}");
        }
        let (min_priority, max_priority) = (Some(Priority::FIRST), Some(Priority::LAST));
        assert!(Filter { min_priority, max_priority, ..Filter::default() }.is_empty());
    }

    #[test]
    fn a_filter_that_restricts_anything_is_not_empty() {
        for json in [
            r#"{"states": ["failed"]}"#,
            r#"{"batch": "bid0000000001"}"#,
            r#"{"collection": ""}"#,
            r#"{"submitter": "ann"}"#,
            r#"{"older_than": "2026-11-16T00:00:00Z"}"#,
            r#"{"newer_than": "2026-11-16T00:00:00Z"}"#,
            r#"{"text": "x"}"#,
            r#"{"min_priority": 1}"#,
            r#"{"max_priority": 98}"#,
            r#"{"scheduled": false}"#,
            r#"{"group": "g1-e3b0c44298fc1c14"}"#,
        ] {
            let filter: Filter = serde_json::from_str(json).unwrap();
            assert!(!filter.is_empty(), "{json}");
            let written = serde_json::to_string(&filter).unwrap();
            assert_eq!(serde_json::from_str::<Filter>(&written).unwrap(), filter, "{json}");
        }
    }

    #[test]
    fn a_field_that_nobody_knows_is_refused_by_name() {
        let error = serde_json::from_str::<Filter>(r#"{"state": "failed"}"#).unwrap_err().to_string();
        assert!(error.contains("unknown field `state`") && error.contains("`states`"), "{error}");
        assert!(serde_json::from_str::<Filter>(r#"{"max_priority": 100}"#).is_err());
        assert!(serde_json::from_str::<Filter>(r#"{"states": ["lost"]}"#).is_err());
    }

    #[test]
    fn dates_are_exclusive_and_a_job_without_one_is_neither_older_nor_newer() {
        assert!(is_between(Some(date(5)), Some(date(4)), Some(date(6))));
        assert!(!is_between(Some(date(5)), Some(date(5)), None));
        assert!(!is_between(Some(date(5)), None, Some(date(5))));
        assert!(!is_between(None, Some(date(1)), None) && !is_between(None, None, Some(date(9))));
        assert!(is_between(None, None, None));
    }

    #[test]
    fn the_bounds_of_the_priority_are_included() {
        let filter =
            Filter { min_priority: Priority::new(10), max_priority: Priority::new(20), ..Filter::default() };
        let admitted: Vec<i64> =
            (0..99).filter(|number| filter.admits_priority(Priority::nearest(*number))).collect();
        assert_eq!(admitted, (10..=20).collect::<Vec<_>>());
    }

    #[test]
    fn a_text_is_found_in_either_case_and_beyond_ascii() {
        let text = Text::new(Some("ÄRGER")).unwrap();
        assert!(text.is_in("nur ärger damit") && !text.is_in("arger"));
    }

    #[test]
    fn a_filter_says_in_words_what_it_selects() {
        assert_eq!(Filter::default().to_string(), "all jobs");
        let filter = Filter {
            states: vec![JobState::Failed, JobState::Held],
            batch: Some(Bid::new(7)),
            collection: Some("maps".into()),
            submitter: Some("ann".into()),
            older_than: Some(date(10)),
            newer_than: Some(date(5)),
            text: Some("timeout".into()),
            min_priority: None,
            max_priority: Priority::new(20),
            scheduled: Some(true),
            group: Some(GroupKey::of("")),
        };
        assert_eq!(
            filter.to_string(),
            "jobs that are failed or held, of batch bid0000000007, of collection maps, submitted by ann, \
             last changed before 1970-01-01T00:00:10.000Z, last changed after 1970-01-01T00:00:05.000Z, \
             with priority 00 to 20, with the text `timeout`, \
             with a reason of group g1-e3b0c44298fc1c14, that wait for their process date"
        );
    }
}
