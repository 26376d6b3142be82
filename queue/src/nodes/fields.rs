//! The fields of a json object, taken one by one: for nodes that two dialects write differently.

use serde_json::Value;

use super::{Other, Unreadable};
use crate::date::Date;
use crate::states::States;

#[derive(Debug)]
pub(super) struct Fields(Other);

impl Fields {
    pub(super) fn read(data: &[u8]) -> Result<Self, Unreadable> {
        match super::parse(data)? {
            Value::Object(map) => Ok(Self(map)),
            other => Err(Unreadable(format!("it should be a json object, and is {}", kind(&other)))),
        }
    }

    /// What nobody has taken.
    pub(super) fn rest(self) -> Other {
        self.0
    }

    fn take(&mut self, name: &str) -> Option<Value> {
        self.0.remove(name).filter(|value| !value.is_null())
    }

    pub(super) fn state<S: States>(&mut self, name: &str) -> Result<Option<S>, Unreadable> {
        self.text(name)?
            .map(|text| {
                S::from_name(&text)
                    .ok_or_else(|| Unreadable(format!("{name} `{text}` is not a state of a {}", S::THING)))
            })
            .transpose()
    }

    pub(super) fn text(&mut self, name: &str) -> Result<Option<String>, Unreadable> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(misfit(name, "a string", &other)),
        }
    }

    pub(super) fn count(&mut self, name: &str) -> Result<u32, Unreadable> {
        match self.take(name) {
            None => Ok(0),
            Some(value) => value
                .as_u64()
                .and_then(|number| u32::try_from(number).ok())
                .ok_or_else(|| misfit(name, "a count", &value)),
        }
    }

    pub(super) fn flag(&mut self, name: &str) -> Result<Option<bool>, Unreadable> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(flag)),
            Some(other) => Err(misfit(name, "true or false", &other)),
        }
    }

    pub(super) fn date(&mut self, name: &str) -> Result<Option<Date>, Unreadable> {
        self.text(name)?
            .map(|text| text.parse().map_err(|error| Unreadable(format!("{name}: {error}"))))
            .transpose()
    }

    /// The same date under two names: whoever wrote last did not know the other, so the later one holds.
    pub(super) fn modified(&mut self) -> Result<Option<Date>, Unreadable> {
        Ok(self.date("last_modification_date")?.max(self.date("last_modified")?))
    }

    pub(super) fn texts(&mut self, name: &str) -> Result<Vec<String>, Unreadable> {
        match self.take(name) {
            None => Ok(Vec::new()),
            Some(value) => serde_json::from_value(value)
                .map_err(|error| Unreadable(format!("{name} should be a list of strings: {error}"))),
        }
    }
}

fn misfit(name: &str, wanted: &str, found: &Value) -> Unreadable {
    Unreadable(format!("{name} should be {wanted}, and is {}", kind(found)))
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a truth value",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
