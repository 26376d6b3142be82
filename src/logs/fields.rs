//! The fields of events and spans.

use std::fmt;

use serde_json::Value;
use tracing::field::{Field, Visit};

/// In the order in which they were given.
#[derive(Debug, Default, Clone)]
pub(crate) struct Fields {
    /// What the event says.
    pub message: Option<String>,
    pub named: Vec<(&'static str, Value)>,
}

impl Fields {
    fn put(&mut self, field: &Field, value: Value) {
        match (field.name(), &self.message) {
            ("message", None) => self.message = Some(text(&value)),
            // What an older version of the `log` crate's bridge adds.
            (name, _) if name.starts_with("log.") => {}
            (name, _) => match self.named.iter_mut().find(|(known, _)| *known == name) {
                Some((_, old)) => *old = value,
                None => self.named.push((name, value)),
            },
        }
    }
}

impl Visit for Fields {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(
            field,
            serde_json::Number::from_f64(value).map_or_else(|| value.to_string().into(), Value::Number),
        );
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value.into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value.into());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, format!("{value:?}").into());
    }
}

/// A value as text: a string as it is, everything else as JSON.
pub(crate) fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        value => value.to_string(),
    }
}
