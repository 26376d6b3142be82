//! From events to lines.

use std::fmt::{self, Write as _};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use ingest_queue::date::Date;
use serde::Serializer as _;
use serde::ser::SerializeMap as _;
use serde_json::Value;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use super::Out;
use super::fields::{Fields, text};
use super::settings;
use super::throttle::{About, Repeated, SUBJECTS, Throttle};

/// Names that a line has itself. A field that is called so gets another name.
const OWN: [&str; 4] = ["timestamp", "level", "target", "message"];

/// How lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    /// For the journal, which knows the time and wants the level as a number in front.
    Text {
        colour: bool,
        journal: bool,
    },
    Json,
}

/// Writes lines.
pub(super) struct Lines {
    look: Look,
    pub throttle: Throttle,
    out: Out,
    now: fn() -> Instant,
}

impl fmt::Debug for Lines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lines").field("look", &self.look).finish_non_exhaustive()
    }
}

/// Fields with the names that they have in a line, the nearest first: those of the event, of its span, and outwards.
type Named = Vec<(String, Value)>;

impl Lines {
    pub(super) fn new(look: Look, throttle: settings::Throttle, out: Out) -> Self {
        Self { look, throttle: Throttle::new(throttle), out, now: Instant::now }
    }

    fn event(&self, metadata: &'static Metadata<'static>, fields: Fields, around: Vec<Fields>) {
        let message = fields.message.clone().unwrap_or_default();
        let about = about(&fields, &around);
        let verdict = self.throttle.judge(metadata, &message, about, (self.now)());
        for repeated in verdict.before {
            self.tell(&repeated);
        }
        if verdict.write {
            self.write(metadata, &message, &named(fields, around));
        }
    }

    fn tell(&self, repeated: &Repeated) {
        let message = format!("last message repeated {} times: {}", repeated.times, repeated.message);
        let about = repeated.about.iter().map(|(name, value)| ((*name).to_owned(), value.as_str().into()));
        self.write(repeated.metadata, &message, &about.collect());
    }

    /// Tells everything that was held back.
    pub(super) fn tell_all(&self) {
        for repeated in self.throttle.take_all() {
            self.tell(&repeated);
        }
    }

    fn write(&self, metadata: &Metadata<'_>, message: &str, fields: &Named) {
        let line = match self.look {
            Look::Text { colour, journal } => as_text(metadata, message, fields, colour, journal),
            Look::Json => as_json(metadata, message, fields),
        };
        (self.out)(line.as_bytes());
    }
}

/// What an event is about: of each subject the nearest.
fn about(fields: &Fields, around: &[Fields]) -> About {
    let nearest = |subject: &str| {
        let mut all = std::iter::once(fields).chain(around).flat_map(|fields| &fields.named);
        all.find(|(name, _)| *name == subject).map(|(_, value)| text(value))
    };
    SUBJECTS.iter().filter_map(|subject| Some((*subject, nearest(subject)?))).collect()
}

fn named(fields: Fields, around: Vec<Fields>) -> Named {
    let mut named = Named::new();
    for (name, value) in std::iter::once(fields).chain(around).flat_map(|fields| fields.named) {
        let name = if OWN.contains(&name) { format!("field.{name}") } else { name.to_owned() };
        if !named.iter().any(|(known, _)| *known == name) {
            named.push((name, value));
        }
    }
    named
}

fn now() -> Date {
    let millis = SystemTime::now().duration_since(UNIX_EPOCH).map(|since| since.as_millis());
    Date::from_millis(millis.ok().and_then(|millis| i64::try_from(millis).ok()).unwrap_or_default())
}

fn as_json(metadata: &Metadata<'_>, message: &str, fields: &Named) -> String {
    let mut line = Vec::new();
    let written = (|| {
        let mut serializer = serde_json::Serializer::new(&mut line);
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("timestamp", &now().to_string())?;
        map.serialize_entry("level", metadata.level().as_str())?;
        map.serialize_entry("target", metadata.target())?;
        map.serialize_entry("message", message)?;
        for (name, value) in fields {
            map.serialize_entry(name, value)?;
        }
        map.end()
    })();
    let line = String::from_utf8(line).unwrap_or_default();
    // Neither fails: all of it is text and numbers.
    if written.is_ok() { line + "\n" } else { String::new() }
}

fn as_text(metadata: &Metadata<'_>, message: &str, fields: &Named, colour: bool, journal: bool) -> String {
    let (number, code) = match *metadata.level() {
        Level::ERROR => (3, "31"),
        Level::WARN => (4, "33"),
        Level::INFO => (6, "32"),
        Level::DEBUG => (7, "34"),
        Level::TRACE => (7, "35"),
    };
    let paint = |code: &str, text: &str| {
        if colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    };
    let mut line = if journal { format!("<{number}>") } else { paint("2", &now().to_string()) + " " };
    line += &paint(code, &format!("{:>5}", metadata.level().as_str()));
    line.push(' ');
    line += &escaped(message);
    for (name, value) in fields {
        // Writing to a string does not fail.
        let _ = write!(line, " {}{}", paint("2", &format!("{name}=")), readable(value));
    }
    line.push('\n');
    line
}

/// One line, and nothing that a terminal obeys.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        if letter.is_control() { safe.extend(letter.escape_default()) } else { safe.push(letter) }
    }
    safe
}

/// In quotes if one could not see where it ends.
fn readable(value: &Value) -> String {
    let text = text(value);
    let plain = |c: char| !c.is_whitespace() && !c.is_control() && c != '"' && c != '=';
    if !text.is_empty() && text.chars().all(plain) {
        return text;
    }
    format!("\"{}\"", escaped(&text.replace('\\', "\\\\").replace('"', "\\\"")))
}

/// What subscribes.
#[derive(Debug)]
pub(super) struct Layer(pub std::sync::Arc<Lines>);

impl<S: Subscriber + for<'a> LookupSpan<'a>> tracing_subscriber::Layer<S> for Layer {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(fields);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(fields) = span.extensions_mut().get_mut::<Fields>()
        {
            values.record(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let spans = context.event_scope(event).into_iter().flatten();
        let around = spans.filter_map(|span| span.extensions().get::<Fields>().cloned()).collect();
        self.0.event(event.metadata(), fields, around);
    }
}
