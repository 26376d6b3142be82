//! The fields of a submission: their names, and texts as they may be.

use std::str::FromStr;

use serde_json::{Map, Value};

use super::Judged;
use super::description::dublin_core;

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

const FIELDS: [&str; 25] = [
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
    "expiration_date",
    "uuid",
    "insertion_date",
    "key",
];

/// Letters of a text.
const LONGEST: usize = 4000;

/// Takes the fields apart.
#[derive(Debug, Default)]
pub(super) struct Fields(Map<String, Value>);

impl Fields {
    /// What was given, each under its own name; what nobody knows is told with what was perhaps meant.
    pub(super) fn of(given: Map<String, Value>, judged: &mut Judged) -> Self {
        let mut fields = Self::default();
        for (name, value) in given {
            fields.add(&name, value, judged);
        }
        fields
    }

    fn add(&mut self, name: &str, value: Value, judged: &mut Judged) {
        let known = |name: &str| FIELDS.contains(&name);
        let also = ALSO.iter().find(|(other, _)| *other == name).map(|(_, own)| *own);
        let own = if known(name) { Some(name) } else { also };
        if let Some(own) = own {
            if self.0.insert(own.to_owned(), value).is_some() {
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
        let names = FIELDS.iter().copied().chain(ALSO.iter().map(|(other, _)| *other));
        let near = names.map(|known| (strsim::damerau_levenshtein(known, name), known)).min();
        let meant = near
            .filter(|(distance, _)| *distance <= 2)
            .map(|(_, known)| format!("; did you mean `{known}`?"));
        let shown: String = name.chars().take(100).collect();
        judged.wrong(&shown, format!("there is no such field{}", meant.unwrap_or_default()));
    }

    /// What is there, as it was given.
    pub(super) fn take(&mut self, name: &str) -> Option<Value> {
        self.0.remove(name).filter(|value| !value.is_null())
    }

    /// A text, without space around it; what is empty is not there.
    pub(super) fn text(&mut self, name: &str, judged: &mut Judged) -> Option<String> {
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

    pub(super) fn parsed<T: FromStr>(&mut self, name: &str, judged: &mut Judged) -> Option<T>
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
    pub(super) fn texts(&mut self, name: &str, judged: &mut Judged) -> Vec<String> {
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

pub(super) fn check(name: &str, text: &str, judged: &mut Judged) -> Option<String> {
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
